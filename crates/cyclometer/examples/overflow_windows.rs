//! Where does a program miss its caches? A row of counts after every million instructions of its own, on a simulated chip.
//!
//! The same calls work in a driver that gets a real PMU's interrupts: only `Registers` is another.
#![allow(clippy::print_stdout, reason = "an example prints")]

use cyclometer::arch::{Coded, Placed, ProgramOptions};
use cyclometer::core::{CounterId, EventCode, Modes};
use cyclometer::registers::{OverflowSource, WindowSetup, Windows};
use cyclometer::sim::{Happening, Model, Settings, SimMachine, Workload};

fn main() -> cyclometer::Result<()> {
    let Some(model) = Model::find("skylake") else { return Ok(()) };
    let on = |select, umask, counter| Placed {
        coded: Coded::new(EventCode { select, umask, ..EventCode::default() }),
        counter,
        modes: Modes::USER,
        period: None,
    };
    let instructions = on(0, 1, CounterId::Fixed(0));
    let misses = on(0x2e, 0x41, CounterId::General(0));
    let source = OverflowSource { slot: 0, period_events: 1_000_000 };
    let placed = [instructions, misses];
    let setup = WindowSetup::new(&model.chip, &placed, &[source], ProgramOptions::default())?;

    let mut machine = SimMachine::new(model, Settings::default());
    let workload = Workload::named("phases").map(|phases| phases.for_rounds(1)).unwrap_or_default();
    let thread = machine.spawn(workload, &[0])?;
    let mut windows = Windows::of_all(setup);
    windows.begin(&mut machine, 0, None)?;
    let mut rows = Vec::new();
    while !machine.is_done(thread) {
        match machine.next(u64::MAX) {
            Happening::Interrupt { cpu, .. } => rows.extend(windows.on_interrupt(&mut machine, cpu)?.rows),
            Happening::Switch { cpu, from, to } => {
                rows.extend(windows.on_switch(&mut machine, cpu, from, to)?.rows);
            }
            _ => {}
        }
    }
    rows.extend(windows.finish(&mut machine));
    for row in &rows {
        println!("{:>3}  {:?}", row.sequence, row.counts);
    }
    Ok(())
}

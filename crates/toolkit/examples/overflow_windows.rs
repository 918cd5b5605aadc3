//! Where is a program slow? A row of six counts after every 512,000 instructions of its own, on a simulated
//! chip.
//!
//! The same calls work in a driver that gets a real PMU's interrupts: only `Registers` is another.
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::fmt::Write as _;

use cyclometer_toolkit::arch::{Coded, Placed, ProgramOptions};
use cyclometer_toolkit::core::{CounterId, EventCode, Modes};
use cyclometer_toolkit::registers::{OverflowSource, Row, WindowSetup, Windows};
use cyclometer_toolkit::sim::{Happening, Model, Settings, SimMachine, ThreadId, Workload};

/// Instructions in a window.
const PERIOD_EVENTS: u64 = 512_000;

/// Prints the report.
pub fn main() -> cyclometer_toolkit::Result<()> {
    print!("{}", report()?);
    Ok(())
}

/// A line for each window.
pub fn report() -> cyclometer_toolkit::Result<String> {
    let mut text = String::from(
        "a simulated skylake: a row every 512,000 instructions; no program's behaviour\n\
         window  instructions   cycles   ipc  mispredicted  LLC misses    loads   stores\n",
    );
    for row in record()? {
        let _ = writeln!(text, "{}", line(&row));
    }
    Ok(text)
}

/// Six counters of the chip: the first interrupts, and all are read then.
fn placed() -> [Placed; 6] {
    let on = |select, umask, counter| Placed {
        coded: Coded::new(EventCode { select, umask, ..EventCode::default() }),
        counter,
        modes: Modes::USER,
        period: None,
    };
    [
        on(0x00, 0x01, CounterId::Fixed(0)),   // INST_RETIRED.ANY
        on(0x00, 0x02, CounterId::Fixed(1)),   // CPU_CLK_UNHALTED.THREAD
        on(0xc5, 0x00, CounterId::General(0)), // BR_MISP_RETIRED.ALL_BRANCHES
        on(0x2e, 0x41, CounterId::General(1)), // LONGEST_LAT_CACHE.MISS
        on(0xd0, 0x81, CounterId::General(2)), // MEM_INST_RETIRED.ALL_LOADS
        on(0xd0, 0x82, CounterId::General(3)), // MEM_INST_RETIRED.ALL_STORES
    ]
}

/// A program that alternately computes, misses caches and mispredicts branches.
fn workload() -> Workload {
    let mut workload = Workload::named("phases").map(|phases| phases.for_rounds(1)).unwrap_or_default();
    for (phase, cycles) in workload.phases.iter_mut().zip([900_000, 5_000_000, 2_000_000]) {
        phase.cycles = cycles;
    }
    workload
}

/// Runs it, and keeps the row of each interrupt.
fn record() -> cyclometer_toolkit::Result<Vec<Row<ThreadId>>> {
    let Some(model) = Model::find("skylake") else { return Ok(Vec::new()) };
    let source = OverflowSource { slot: 0, period_events: PERIOD_EVENTS };
    let setup = WindowSetup::new(&model.chip, &placed(), &[source], ProgramOptions::default())?;
    let mut machine = SimMachine::new(model, Settings::default());
    let thread = machine.spawn(workload(), &[0])?;
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
    Ok(rows)
}

/// A line with the counts of a window, or `lost`; the window that no interrupt ended is the rest.
fn line(row: &Row<ThreadId>) -> String {
    let count = |slot: usize| row.counts.get(slot).and_then(|count| count.exact());
    let cell = |slot| count(slot).map_or_else(|| "lost".to_owned(), |events| events.to_string());
    let ipc = match (count(0), count(1)) {
        (Some(instructions), Some(cycles)) if cycles > 0 => {
            format!("{:.2}", instructions as f64 / cycles as f64)
        }
        _ => "-".to_owned(),
    };
    let [instructions, cycles, branch_misses, llc_misses, loads, stores] = [0, 1, 2, 3, 4, 5].map(cell);
    let window = if row.is_remainder() { "rest".to_owned() } else { row.sequence.to_string() };
    format!(
        "{window:>6}  {instructions:>12}  {cycles:>7}  {ipc:>4}  {branch_misses:>12}  {llc_misses:>10}  {loads:>7}  \
         {stores:>7}"
    )
}

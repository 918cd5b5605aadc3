//! Checks that the counters move, before anything is counted.
//!
//! Some hypervisors accept every write and count nothing; each counter would then show a zero that looks like
//! a number.

use cyclometer_arch::{Coded, Placed, ProgramOptions, Step, carry_out, register_program, restore};
use cyclometer_core::{CounterId, CounterMask, Error, ErrorKind, Modes, Result};

use super::{Bus, CorePmu};

/// Counts cycles on each of these general counters for a moment, one after the other. Fixed counters count
/// their own event.
///
/// # Errors
///
/// [`ErrorKind::ArchUnsupported`] naming the counter that stood still; faults of the bus.
pub(super) fn moves(
    core: &CorePmu,
    cpu: u32,
    counters: CounterMask,
    options: ProgramOptions,
    bus: &mut dyn Bus,
) -> Result<()> {
    for counter in counters.iter() {
        let Some(placed) = cycles(core, counter) else { continue };
        // A counter that cannot be programmed is reported with the events.
        let Ok(program) = register_program(&core.chip, &[placed], options) else { continue };
        let saved = program.touched().into_iter().map(|register| Ok((register, bus.read(cpu, register)?)));
        let saved = saved.collect::<Result<Vec<_>>>()?;
        let steps: Vec<Step> = program.set_up.iter().chain(&program.start).copied().collect();
        let counted = carry_out(&steps, bus, cpu).map_err(Error::from).and_then(|()| {
            bus.exercise(cpu)?;
            Ok(bus.read(cpu, program.reads[0].register)?)
        });
        carry_out(&restore(&program, &saved), bus, cpu)?;
        if counted? == program.reads[0].preset {
            return Err(still(counter, cpu));
        }
    }
    Ok(())
}

fn cycles(core: &CorePmu, counter: CounterId) -> Option<Placed> {
    let coded = match counter {
        CounterId::General(_) => core.cycles.filter(|cycles| cycles.is_on(counter))?,
        CounterId::Fixed(_) => core.fixed(counter),
    };
    let coded = coded.on(CounterMask::from_iter([counter]));
    Some(Placed { coded, counter, modes: Modes::USER_KERNEL, period: None })
}

impl CorePmu {
    /// The event of a fixed counter.
    fn fixed(&self, counter: CounterId) -> Coded {
        use cyclometer_core::{EventCode, pmu::Family};
        let umask = match (self.chip.family, counter) {
            (Family::Intel, CounterId::Fixed(n)) => n + 1,
            _ => 0,
        };
        Coded::new(EventCode { umask, ..EventCode::default() })
    }
}

fn still(counter: CounterId, cpu: u32) -> Error {
    let message = format!(
        "counter {counter} of CPU {cpu} stands still though instructions were executed; {}",
        super::NOT_OURS
    );
    Error::new(ErrorKind::ArchUnsupported, message)
}

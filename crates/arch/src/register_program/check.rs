//! The checks of a register program before anything is encoded.

use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterId, CounterMask};

use super::{Placed, ProgramOptions};
use crate::chip::{Chip, Coded};
use crate::error::EncodeError;
use crate::program::{counters, takes_two_counters};
use crate::register::Register;
use crate::{arm, intel};

/// Which share of slots an event is.
pub(super) fn share_of(chip: &Chip, coded: &Coded) -> Option<u8> {
    let is_there =
        chip.family == Family::Intel && intel::Register::Metrics.presence().is_on(chip.pmu_version);
    intel::code::share(&coded.code).filter(|_| is_there)
}

/// Whether an event counts slots.
pub(super) fn counts_slots(event: &Placed) -> bool {
    event.counter == CounterId::Fixed(intel::SLOTS)
}

/// Whether a share is where it belongs, beside slots that are counted as it is.
pub(super) fn check_share(share: u8, event: &Placed, placed: &[Placed]) -> Result<(), EncodeError> {
    let own = intel::METRICS_BASE + share;
    if event.counter != CounterId::Fixed(own) {
        let allowed = CounterMask::from_bits(0, 1 << own);
        return Err(EncodeError::NotAllowed { counter: event.counter, allowed });
    }
    let slots = placed.iter().find(|event| counts_slots(event)).ok_or(EncodeError::Share)?;
    let sampled = [event, slots].into_iter().find(|event| event.period.is_some());
    match sampled {
        Some(Placed { counter, .. }) => Err(EncodeError::NoInterrupt { counter: *counter }),
        None if event.modes != slots.modes => {
            let register = Register::Intel(intel::Register::FixedControl).to_string();
            Err(EncodeError::Conflict { register })
        }
        None => Ok(()),
    }
}

pub(super) fn check_options(
    chip: &Chip,
    placed: &[Placed],
    options: ProgramOptions,
) -> Result<(), EncodeError> {
    let lacks =
        |field| Err(EncodeError::NoField { field, family: chip.family, pmu_version: chip.pmu_version });
    let is_second_level = |event: &Placed| share_of(chip, &event.coded).is_some_and(|share| share > 3);
    match (chip.family, options) {
        _ if chip.counter_width.is_none() => return Err(EncodeError::NoWidth),
        (_, ProgramOptions { user_access: true, .. }) if chip.family != Family::Apple => {
            return lacks("user access");
        }
        (_, ProgramOptions { full_width_writes: true, .. }) if chip.family != Family::Intel => {
            return lacks("full-width writes");
        }
        (_, ProgramOptions { v6_registers: true, .. })
            if chip.family != Family::Intel || !chip.is_of_version(6) =>
        {
            return Err(EncodeError::NoOption {
                option: "registers of version 6",
                needs: "architectural performance monitoring version 6",
                instead: "leave the option away: the older registers are there on every version",
            });
        }
        (_, ProgramOptions { has_second_level: false, .. }) if placed.iter().any(is_second_level) => {
            return Err(EncodeError::NoOption {
                option: "shares of the second level",
                needs: "a P-core from Golden Cove on",
                instead: "count the shares of the first level, or say that the core has the second",
            });
        }
        _ => {}
    }
    match options.freeze_on_interrupt {
        true => check_freeze(chip, placed, options).map_err(|needs| EncodeError::NoOption {
            option: "freeze on interrupt",
            needs,
            instead: "leave the option away: the handler can stop the counters itself",
        }),
        false => Ok(()),
    }
}

/// Whether an interrupt can freeze the counters; what that needs where it cannot.
fn check_freeze(chip: &Chip, placed: &[Placed], options: ProgramOptions) -> Result<(), &'static str> {
    let is_event_counter = |event: &Placed| matches!(event.counter, CounterId::General(_));
    let uses = |n| placed.iter().any(|event| event.counter == CounterId::Fixed(n));
    let mut sampled = placed.iter().filter(|event| event.period.is_some());
    match chip.family {
        Family::Intel if !chip.is_of_version(4) => Err("architectural performance monitoring version 4"),
        Family::Amd => Err("a bit of DebugCtl that no public source of this table names"),
        Family::Arm if !options.has_freeze_on_overflow => Err("FEAT_PMUv3p7"),
        Family::Arm if uses(arm::INSTRUCTION_COUNTER) => Err("a program without the instruction counter"),
        Family::Arm if !sampled.all(is_event_counter) => Err("periods on event counters only"),
        _ => Ok(()),
    }
}

/// Whether each counter is one of the chip's and has one event; one that takes two counters has the one
/// behind it too.
pub(super) fn counters_once(chip: &Chip, placed: &[Placed]) -> Result<(), EncodeError> {
    let has = counters(chip);
    let mut taken = Vec::new();
    for event in placed {
        let counter = event.counter;
        let is_share = chip.family == Family::Intel && intel::code::is_metric(&event.coded.code);
        if !is_share && !has.contains(counter) {
            return Err(EncodeError::NoSuchCounter { counter, has });
        }
        let behind = match counter {
            CounterId::General(n) if takes_two_counters(chip, &event.coded) => {
                n.checked_add(1).map(CounterId::General)
            }
            _ => None,
        };
        for counter in [Some(counter), behind].into_iter().flatten() {
            if taken.contains(&counter) {
                return Err(EncodeError::CounterTwice { counter });
            }
            taken.push(counter);
        }
    }
    Ok(())
}

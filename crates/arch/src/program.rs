//! Event codes to register writes.

use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterId, CounterMask, EventCode};

use crate::chip::{Chip, Coded, CounterOptions};
use crate::error::EncodeError;
use crate::field::low_mask;
use crate::register::{Register, RegisterWrite};
use crate::{amd, apple, arm, intel, riscv};

/// The register writes that count an event, in the order in which they are to be made: what refines the
/// event, the event, its modes, and what enables the counter last.
///
/// Without a `counter`, it is the first that [`place`] finds. Registers that counters share appear with the
/// mask of the event's own bits; [`combine`] puts the writes of several events together.
///
/// # Errors
///
/// A counter that may not count the event, a field that the counter or the chip does not have, a value too
/// large for its field, modes without user and kernel, an event that only firmware counts.
pub fn registers(
    chip: &Chip,
    coded: &Coded,
    counter: Option<CounterId>,
    how: CounterOptions,
) -> Result<Vec<RegisterWrite>, EncodeError> {
    if !how.modes.user && !how.modes.kernel {
        return Err(EncodeError::NoModes);
    }
    if chip.family == Family::Intel && intel::code::is_metric(&coded.code) {
        return intel::code::program_metrics(how);
    }
    check_select(chip, &coded.code)?;
    let general = general_instead(chip, coded);
    let coded = general.as_ref().unwrap_or(coded);
    let counter = place(chip, coded, counter)?;
    match (chip.family, counter) {
        (Family::Intel, _) => intel::code::program(chip, coded, counter, how),
        (Family::Amd, CounterId::General(n)) => amd::program(chip, coded, n, how),
        (Family::Arm, _) => arm::program(chip, coded, counter, how),
        (Family::RiscV, CounterId::General(n)) => riscv::program(coded, n, how),
        (Family::Apple, _) => apple::program(chip, coded, counter, how),
        (Family::Amd | Family::RiscV, CounterId::Fixed(_)) => Err(EncodeError::NoRegister),
    }
}

/// Whether an event select fits into the chip's event selectors; RISC-V's events are no selects.
fn check_select(chip: &Chip, code: &EventCode) -> Result<(), EncodeError> {
    let layout = match chip.family {
        Family::Intel => 8,
        Family::Amd => 12,
        Family::Apple => u32::from(apple::selector_bits(chip)),
        Family::Arm | Family::RiscV => 16,
    };
    let bits = chip.selector_bits.map_or(layout, |bits| layout.min(bits));
    match u64::from(code.select) > low_mask(bits) {
        true => Err(EncodeError::SelectTooWide { select: code.select, bits }),
        false => Ok(()),
    }
}

/// The counter for an event: the one asked for if it may count the event, else the first that may, a fixed
/// one if there is one. This is no plan: other events are not looked at.
///
/// # Errors
///
/// The counters that the event may use, when the one asked for is not among them, or that there are none.
pub fn place(chip: &Chip, coded: &Coded, wanted: Option<CounterId>) -> Result<CounterId, EncodeError> {
    let allowed = match general_instead(chip, coded) {
        Some(general) => allowed(chip, &general),
        None => allowed(chip, coded),
    };
    match wanted {
        Some(counter) if allowed.contains(counter) => Ok(counter),
        Some(counter) => Err(EncodeError::NotAllowed { counter, allowed }),
        None => allowed.iter().next().ok_or(EncodeError::NoCounter),
    }
}

/// Whether an event takes an even counter and the odd one behind it, which then counts nothing else.
///
/// # Source
///
/// Linux `arch/x86/events/amd/core.c`, `amd_is_pair_event_code`: events that increase by more than 15 in a
/// cycle.
pub fn takes_two_counters(chip: &Chip, coded: &Coded) -> bool {
    chip.family == Family::Amd && amd::needs_two_counters(chip, &coded.code)
}

/// An event of a fixed counter of Intel with attributes that only a general counter has.
fn general_instead(chip: &Chip, coded: &Coded) -> Option<Coded> {
    (chip.family == Family::Intel).then(|| intel::code::on_general(coded)).flatten()
}

/// The counters of the chip that may count an event.
fn allowed(chip: &Chip, coded: &Coded) -> CounterMask {
    let all = counters(chip);
    let named = match coded.fixed_index(chip.family) {
        Some(n) => CounterMask::from_bits(0, 1u64.checked_shl(n.into()).unwrap_or(0)),
        None => match coded.counters {
            None => CounterMask::from_bits(all.general_bits(), 0),
            Some(named) if is_modified(&coded.code) => CounterMask::from_bits(named.general_bits(), 0),
            Some(named) => named,
        },
    };
    let both = named.and(all);
    match chip.family {
        Family::Amd if amd::needs_two_counters(chip, &coded.code) => {
            let general = both.general_bits();
            CounterMask::from_bits(general & EVEN & all.general_bits() >> 1, 0)
        }
        _ => both,
    }
}

/// The even counters.
const EVEN: u64 = 0x5555_5555_5555_5555;

/// Whether a code asks for what a fixed counter cannot do.
fn is_modified(code: &EventCode) -> bool {
    code.cmask != 0 || code.inv || code.edge || code.eq
}

/// The counters of a chip, as far as its family's layout has room for them.
pub(crate) fn counters(chip: &Chip) -> CounterMask {
    let layout = layout_counters(chip);
    chip.counters_or(layout).and(layout)
}

/// The counters that a family's layout has room for.
fn layout_counters(chip: &Chip) -> CounterMask {
    match chip.family {
        Family::Intel => intel::ALL_COUNTERS,
        Family::Amd => amd::ALL_COUNTERS,
        Family::Arm => arm::ALL_COUNTERS,
        Family::RiscV => riscv::ALL_COUNTERS,
        Family::Apple => apple::ALL_COUNTERS,
    }
}

/// The operand of the instruction `rdpmc` in ECX for a counter; `None` where there is no such instruction.
///
/// # Source
///
/// Intel SDM volume 2, RDPMC; AMD APM volume 3, RDPMC.
pub const fn rdpmc_index(family: Family, counter: CounterId) -> Option<u32> {
    match (family, counter) {
        (Family::Intel | Family::Amd, CounterId::General(n)) => Some(n as u32),
        (Family::Intel, CounterId::Fixed(n)) => Some(intel::RDPMC_FIXED | n as u32),
        _ => None,
    }
}

/// Puts the writes of several events together: one write a register, enabling registers last.
///
/// # Errors
///
/// The register in which two events need different values.
pub fn combine(writes: &[RegisterWrite]) -> Result<Vec<RegisterWrite>, EncodeError> {
    let mut combined: Vec<RegisterWrite> = Vec::with_capacity(writes.len());
    for write in writes {
        let Some(known) = combined.iter_mut().find(|known| known.register == write.register) else {
            combined.push(*write);
            continue;
        };
        if (known.value ^ write.value) & known.mask & write.mask != 0 {
            return Err(EncodeError::Conflict { register: write.name() });
        }
        known.value |= write.value;
        known.mask |= write.mask;
    }
    combined.sort_by_key(|write| stage(write.register));
    Ok(combined)
}

/// When a register is written: before the events, events, what they share, what enables counters.
const fn stage(register: Register) -> u8 {
    match register {
        Register::Intel(intel::Register::Extra(_)) => 0,
        Register::Intel(intel::Register::FixedControl) | Register::Apple(apple::Register::Modes) => 2,
        Register::Arm(arm::Register::InterruptSet | arm::Register::EnableSet) => 2,
        Register::Intel(intel::Register::GlobalControl)
        | Register::Amd(amd::Register::GlobalControl)
        | Register::Arm(arm::Register::Control)
        | Register::Apple(apple::Register::Control) => 3,
        _ => 1,
    }
}

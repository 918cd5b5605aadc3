//! Codes of AMD's events, as register values.

use cyclometer_core::{CounterId, EventCode};

use super::{EN, EVENT_HIGH_SHIFT, LARGE_INCREMENT_EVENT, MERGE_EVENT, Register, is_extended};
use crate::chip::{Chip, Coded, CounterOptions};
use crate::decoded_event::DecodedEvent;
use crate::error::{EncodeError, refuse_other_fields};
use crate::register::RegisterWrite;
use crate::x86;

/// The fields of a code that AMD has no bits for.
pub(crate) fn check(chip: &Chip, code: &EventCode) -> Result<(), EncodeError> {
    refuse_other_fields(chip, code, &["umask", "cmask", "inv", "edge"])
}

/// Whether an event takes an even counter and the odd one behind it.
pub(crate) fn needs_two_counters(chip: &Chip, code: &EventCode) -> bool {
    is_extended(chip) && code.select == LARGE_INCREMENT_EVENT
}

/// The writes that count an event on counter `n`.
pub(crate) fn program(
    chip: &Chip,
    coded: &Coded,
    n: u8,
    how: CounterOptions,
) -> Result<Vec<RegisterWrite>, EncodeError> {
    check(chip, &coded.code)?;
    let mut writes = Vec::with_capacity(3);
    let mut enable = 1 << n;
    if needs_two_counters(chip, &coded.code) {
        let merge = EventCode { select: MERGE_EVENT, ..EventCode::default() };
        writes.push(RegisterWrite::of(select_register(chip, n + 1), select_bits(&merge)? | EN, u64::MAX)?);
        enable |= 1 << (n + 1);
    }
    let value = select_bits(&coded.code)? | x86::mode_bits(how) | EN;
    writes.push(RegisterWrite::of(select_register(chip, n), value, u64::MAX)?);
    if chip.is_of_version(2) {
        writes.push(RegisterWrite::of(Register::GlobalControl, enable, enable)?);
    }
    Ok(writes)
}

fn select_register(chip: &Chip, n: u8) -> Register {
    if is_extended(chip) { Register::EventSelect(n) } else { Register::LegacyEventSelect(n) }
}

/// The register in which counter `n` counts.
pub(crate) fn counter_register(chip: &Chip, n: u8) -> Register {
    if is_extended(chip) { Register::Counter(n) } else { Register::LegacyCounter(n) }
}

fn select_bits(code: &EventCode) -> Result<u64, EncodeError> {
    let select = u64::from(code.select);
    if select > 0xfff {
        return Err(EncodeError::TooLarge { field: "event", value: select, greatest: 0xfff });
    }
    Ok(x86::select_bits(code) | (select >> 8) << EVENT_HIGH_SHIFT)
}

fn code(value: u64) -> EventCode {
    let high = (value >> EVENT_HIGH_SHIFT & 0xf) as u16;
    let low = x86::code(value);
    EventCode { select: high << 8 | low.select, ..low }
}

/// The events in a register's value. Event 0 is an event of AMD: only a register that is 0 as a whole has
/// none.
pub(crate) fn events(register: Register, value: u64) -> Vec<DecodedEvent> {
    match register {
        Register::EventSelect(n) | Register::LegacyEventSelect(n) if value != 0 => {
            vec![x86::event(code(value), Some(CounterId::General(n)), value)]
        }
        _ => Vec::new(),
    }
}

pub(crate) fn perf_events(config: u64) -> Vec<DecodedEvent> {
    vec![DecodedEvent::new(code(config))]
}

/// The text of a warning about a code.
pub(crate) fn remark(code: &EventCode) -> Option<&'static str> {
    (code.select == MERGE_EVENT)
        .then_some("event 0xfff merges: the counter holds the upper half of the even counter before it")
}

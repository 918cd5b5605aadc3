//! Codes of PMUv3's events, as register values.

use cyclometer_core::{CounterId, EventCode, Modes};

use super::{
    CPU_CYCLES, CYCLE_COUNTER, INST_RETIRED, INSTRUCTION_COUNTER, NSH, P, PMCR_E, Register, U, common_event,
    event_field,
};
use crate::chip::{Chip, Coded, CounterOptions};
use crate::decoded_event::DecodedEvent;
use crate::error::{EncodeError, refuse_other_fields};
use crate::field::{flags, set_bits};
use crate::register::RegisterWrite;

/// The fields of a code that Arm has no bits for.
pub(crate) fn check(chip: &Chip, code: &EventCode) -> Result<(), EncodeError> {
    refuse_other_fields(chip, code, &[])
}

/// The writes that count an event on a counter.
pub(crate) fn program(
    chip: &Chip,
    coded: &Coded,
    counter: CounterId,
    how: CounterOptions,
) -> Result<Vec<RegisterWrite>, EncodeError> {
    check(chip, &coded.code)?;
    let filter = filter_bits(how);
    let (register, value) = match counter {
        CounterId::General(n) => (Register::EventType(n), u64::from(coded.code.select) | filter),
        CounterId::Fixed(CYCLE_COUNTER) => (Register::CycleFilter, filter),
        CounterId::Fixed(_) => (Register::InstructionFilter, filter),
    };
    let (CounterId::General(n) | CounterId::Fixed(n)) = counter;
    let bit = 1u64 << n;
    let mut writes = vec![RegisterWrite::of(register, value, u64::MAX)?];
    if how.interrupt {
        writes.push(RegisterWrite::of(Register::InterruptSet, bit, bit)?);
    }
    writes.push(RegisterWrite::of(Register::EnableSet, bit, bit)?);
    writes.push(RegisterWrite::of(Register::Control, PMCR_E, PMCR_E)?);
    Ok(writes)
}

fn filter_bits(how: CounterOptions) -> u64 {
    flags([(!how.modes.user, U), (!how.modes.kernel, P), (how.modes.hypervisor, NSH)])
}

/// The modes of a filter: EL0, EL1, EL2, of the Non-secure state.
fn modes(filter: u64) -> Option<Modes> {
    const NSK: u64 = 1 << 29;
    const NSU: u64 = 1 << 28;
    let differ = |one: u64, other: u64| (filter & one != 0) != (filter & other != 0);
    Some(Modes { user: !differ(U, NSU), kernel: !differ(P, NSK), hypervisor: filter & NSH != 0 })
}

fn event(select: u16) -> DecodedEvent {
    DecodedEvent::new(EventCode { select, ..EventCode::default() })
}

/// The events in a register's value.
pub(crate) fn events(chip: &Chip, register: Register, value: u64) -> Vec<DecodedEvent> {
    let on =
        |counter, select| vec![DecodedEvent { counter: Some(counter), modes: modes(value), ..event(select) }];
    match register {
        Register::EventType(n) => on(CounterId::General(n), event_field(chip).take(value) as u16),
        Register::CycleFilter => on(CounterId::Fixed(CYCLE_COUNTER), CPU_CYCLES),
        Register::InstructionFilter => on(CounterId::Fixed(INSTRUCTION_COUNTER), INST_RETIRED),
        Register::CommonEvents0 => set_bits(value).map(|bit| event(common_event(0, bit))).collect(),
        Register::CommonEvents1 => set_bits(value).map(|bit| event(common_event(32, bit))).collect(),
        _ => Vec::new(),
    }
}

pub(crate) fn perf_events(chip: &Chip, config: u64) -> Vec<DecodedEvent> {
    vec![event(event_field(chip).take(config) as u16)]
}

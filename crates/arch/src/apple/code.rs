//! Apple's events: to registers and kpc words, and back.

use cyclometer_core::{CounterId, CounterMask, EventCode, Modes};

use crate::apple::layout::{bit_of, layout, selector_bits};
use crate::apple::{
    ALL_COUNTERS, COUNTERS_PER_PMESR, FIRST_CONFIGURABLE, KPC_EL0, KPC_EL1, PMCR0_MODE, PMCR0_MODE_FIQ,
    Register,
};
use crate::chip::{Chip, Coded, CounterOptions};
use crate::decoded_event::DecodedEvent;
use crate::error::{EncodeError, refuse_other_fields};
use crate::field::{flags, low_mask};
use crate::register::RegisterWrite;

/// A word for `kpc_set_config`, and where in its array it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KpcWord {
    /// Index in the array: the counter's number - 2. A counter mask's bit is the number itself.
    pub index: u8,
    /// Event and exception levels.
    pub word: u64,
}

/// The word that makes macOS count an event on a configurable counter.
///
/// Release kernels since macOS 15 count user mode only, whatever the word says.
///
/// # Errors
///
/// A fixed counter, an event that is wider than the chip's, a field that Apple does not have.
///
/// # Source
///
/// xnu `osfmk/kern/kpc.h`, `osfmk/arm64/kpc.c` (`kpc_set_config_arch`).
pub fn kpc_word(
    chip: &Chip,
    coded: &Coded,
    counter: CounterId,
    modes: Modes,
) -> Result<KpcWord, EncodeError> {
    check(chip, &coded.code)?;
    let own = chip.counters_or(ALL_COUNTERS).and(ALL_COUNTERS);
    match counter {
        CounterId::General(n) if own.contains(counter) && coded.fixed_index(chip.family).is_none() => {
            let flags = flags([(modes.user, KPC_EL0), (modes.kernel, KPC_EL1)]);
            Ok(KpcWord { index: n - FIRST_CONFIGURABLE, word: u64::from(coded.code.select) | flags })
        }
        _ => Err(EncodeError::NotAllowed { counter, allowed: CounterMask::from_bits(own.general_bits(), 0) }),
    }
}

/// The fields of a code that Apple has no bits for, and an event that is too wide.
pub(crate) fn check(chip: &Chip, code: &EventCode) -> Result<(), EncodeError> {
    refuse_other_fields(chip, code, &[])?;
    let (value, greatest) = (u64::from(code.select), low_mask(selector_bits(chip).into()));
    match value > greatest {
        true => Err(EncodeError::TooLarge { field: "event", value, greatest }),
        false => Ok(()),
    }
}

/// The event that makes Linux' driver count what a fixed counter counts; known for 8-bit chips only.
///
/// # Source
///
/// Linux `drivers/perf/apple_m1_cpu_pmu.c`, `M1_PMU_PERFCTR_CORE_ACTIVE_CYCLE` and `M1_PMU_PERFCTR_INST_ALL`,
/// whose affinities include PMC0 and PMC1.
const CYCLES_8BIT: u16 = 0x02;
const INSTRUCTIONS_8BIT: u16 = 0x8c;

/// The event for perf: an event's own, or the one for a fixed counter.
pub(crate) fn perf_code(chip: &Chip, coded: &Coded) -> Result<u16, EncodeError> {
    match coded.fixed_index(chip.family) {
        None => Ok(coded.code.select),
        Some(0) if selector_bits(chip) == 8 => Ok(CYCLES_8BIT),
        Some(1) if selector_bits(chip) == 8 => Ok(INSTRUCTIONS_8BIT),
        Some(n) => Err(EncodeError::NoPerfCode { counter: CounterId::Fixed(n) }),
    }
}

/// The writes that count an event on a counter. Each needs an `isb` before it acts.
pub(crate) fn program(
    chip: &Chip,
    coded: &Coded,
    counter: CounterId,
    how: CounterOptions,
) -> Result<Vec<RegisterWrite>, EncodeError> {
    check(chip, &coded.code)?;
    let (CounterId::General(n) | CounterId::Fixed(n)) = counter;
    let write = RegisterWrite::of;
    let mut writes = Vec::with_capacity(3);
    if let CounterId::General(n) = counter {
        let (register, shift) = select_place(chip, n);
        let mask = low_mask(selector_bits(chip).into()) << shift;
        writes.push(write(register, u64::from(coded.code.select) << shift, mask)?);
    }
    let level = |low, high| 1u64 << bit_of(n, low, high);
    let (el0, el1) = (level(8, 40), level(16, 48));
    let modes = flags([(how.modes.user, el0), (how.modes.kernel, el1)]);
    writes.push(write(Register::Modes, modes, el0 | el1)?);
    let (enable, interrupt) = (level(0, 32), level(12, 44));
    writes.push(match how.interrupt {
        true => {
            let value = enable | interrupt | PMCR0_MODE_FIQ;
            write(Register::Control, value, enable | interrupt | PMCR0_MODE)?
        }
        false => write(Register::Control, enable, enable | interrupt)?,
    });
    Ok(writes)
}

/// The register and the lowest bit of counter `n`'s event.
fn select_place(chip: &Chip, n: u8) -> (Register, u8) {
    let slot = n - FIRST_CONFIGURABLE;
    let register = Register::EventSelect(slot / COUNTERS_PER_PMESR);
    (register, slot % COUNTERS_PER_PMESR * selector_bits(chip))
}

fn event(select: u16) -> DecodedEvent {
    DecodedEvent::new(EventCode { select, ..EventCode::default() })
}

/// An event that a fixed counter counts has no code.
fn fixed(n: u8) -> DecodedEvent {
    DecodedEvent { counter: Some(CounterId::Fixed(n)), ..event(0) }
}

/// The events in a register's value. Select 0 chooses none.
pub(crate) fn events(chip: &Chip, register: Register, value: u64) -> Vec<DecodedEvent> {
    match register {
        Register::EventSelect(_) => layout(chip, register)
            .iter()
            .filter(|field| field.take(value) != 0)
            .map(|field| DecodedEvent {
                counter: field.index.map(|n| CounterId::General(n as u8)),
                ..event(field.take(value) as u16)
            })
            .collect(),
        Register::KpcConfig(n) if value & 0xffff != 0 => vec![DecodedEvent {
            counter: Some(CounterId::General(n + FIRST_CONFIGURABLE)),
            modes: Some(Modes {
                user: value & KPC_EL0 != 0,
                kernel: value & KPC_EL1 != 0,
                hypervisor: false,
            }),
            ..event(value as u16)
        }],
        Register::Control => enabled_fixed(value),
        _ => Vec::new(),
    }
}

/// The fixed counters that PMCR0 enables.
fn enabled_fixed(value: u64) -> Vec<DecodedEvent> {
    let on = |n: u8| value >> n & 1 == 1;
    let event = |n: u8| DecodedEvent {
        enabled: Some(true),
        interrupt: Some(value >> bit_of(n, 12, 44) & 1 == 1),
        ..fixed(n)
    };
    [0, 1].into_iter().filter(|n| on(*n)).map(event).collect()
}

pub(crate) fn perf_events(chip: &Chip, config: u64) -> Vec<DecodedEvent> {
    let select = (config & low_mask(selector_bits(chip).into())) as u16;
    let mut events = vec![event(select)];
    if selector_bits(chip) == 8 {
        let also = [(CYCLES_8BIT, 0), (INSTRUCTIONS_8BIT, 1)];
        events.extend(also.iter().filter(|(code, _)| *code == select).map(|(_, n)| fixed(*n)));
    }
    events
}

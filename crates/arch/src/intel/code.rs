//! Intel's event codes: to registers, and back from registers and perf's words.

use cyclometer_core::event::ExtraRegisterKind;
use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterId, EventCode, Modes};

use crate::chip::{Chip, Coded, CounterOptions, FIXED_PSEUDO_MOST};
use crate::decoded_event::DecodedEvent;
use crate::error::EncodeError;
use crate::field::{flags, set_bits};
use crate::intel::layout::has_any;
use crate::intel::shared;
use crate::intel::{
    ALL_COUNTERS, ANY, EN, EQ, FIXED_ANY, FIXED_OS, FIXED_PMI, FIXED_USR, GLOBAL_FIXED_SHIFT,
    GLOBAL_METRICS_BIT, METRICS_UMASK, RDPMC_FIXED, Register, SLOTS, UMASK2_SHIFT,
};
use crate::register::RegisterWrite;
use crate::x86;

/// Which share of slots in PERF_METRICS a pseudo event is, from the lowest bits up.
pub(crate) const fn share(code: &EventCode) -> Option<u8> {
    match (code.select, code.umask2, code.umask.wrapping_sub(METRICS_UMASK)) {
        (0, 0, share @ 0..8) => Some(share),
        _ => None,
    }
}

/// Whether a code is a pseudo event of PERF_METRICS.
pub(crate) const fn is_metric(code: &EventCode) -> bool {
    share(code).is_some()
}

/// The write that lets PERF_METRICS count; SLOTS has writes of its own.
pub(crate) fn enable_metrics() -> Result<RegisterWrite, EncodeError> {
    let enable = 1 << GLOBAL_METRICS_BIT;
    RegisterWrite::of(Register::GlobalControl, enable, enable)
}

/// The pseudo code of a fixed counter.
pub(crate) const fn fixed_code(index: u8) -> EventCode {
    EventCode { umask: index + 1, ..PLAIN }
}

const PLAIN: EventCode = EventCode {
    select: 0,
    umask: 0,
    umask2: 0,
    cmask: 0,
    inv: false,
    edge: false,
    eq: false,
    any: false,
    extra: None,
};

/// The event and unit mask that make the kernel count on a fixed counter.
///
/// # Source
///
/// Linux `arch/x86/events/intel/core.c`, `FIXED_EVENT_CONSTRAINT` of each core; `perf_event.h` (pseudo
/// encodings).
pub(crate) const fn fixed_perf_code(index: u8) -> (u16, u8) {
    match index {
        0 => (0xc0, 0),
        1 => (0x3c, 0),
        n => (0, n + 1),
    }
}

/// The fields of a code, other than event and unit mask, that the chip's layout lacks or that a fixed counter
/// cannot be told.
pub(crate) fn check(chip: &Chip, code: &EventCode, fixed: bool) -> Result<(), EncodeError> {
    let lacks =
        |field| Err(EncodeError::NoField { field, family: chip.family, pmu_version: chip.pmu_version });
    match code {
        EventCode { any: true, .. } if !has_any(chip) => lacks("any"),
        EventCode { eq: true, .. } if !chip.is_of_version(6) => lacks("eq"),
        EventCode { umask2: 1.., .. } if !chip.is_of_version(6) => lacks("umask2"),
        EventCode { cmask: 1.., .. } if fixed => Err(EncodeError::NotOnFixed { field: "cmask" }),
        EventCode { inv: true, .. } if fixed => Err(EncodeError::NotOnFixed { field: "inv" }),
        EventCode { edge: true, .. } if fixed => Err(EncodeError::NotOnFixed { field: "edge" }),
        EventCode { eq: true, .. } if fixed => Err(EncodeError::NotOnFixed { field: "eq" }),
        _ => Ok(()),
    }
}

/// The event select without modes and enable bits: what an MSR and a raw config have in common.
fn select_bits(code: &EventCode) -> Result<u64, EncodeError> {
    if code.select > 0xff {
        return Err(EncodeError::TooLarge { field: "event", value: code.select.into(), greatest: 0xff });
    }
    let flags = flags([(code.any, ANY), (code.eq, EQ)]);
    Ok(x86::select_bits(code) | flags | u64::from(code.umask2) << UMASK2_SHIFT)
}

/// The writes that count an event on a counter.
pub(crate) fn program(
    chip: &Chip,
    coded: &Coded,
    counter: CounterId,
    how: CounterOptions,
) -> Result<Vec<RegisterWrite>, EncodeError> {
    let write = RegisterWrite::of;
    let mut writes = Vec::with_capacity(3);
    if let Some(extra) = coded.code.extra {
        writes.push(write(Register::Extra(extra.register), extra.value, u64::MAX)?);
    }
    match counter {
        CounterId::Fixed(n) => {
            check(chip, &coded.code, true)?;
            let (nibble, shift) = (fixed_nibble(coded.code.any, how), 4 * u32::from(n));
            writes.push(write(Register::FixedControl, nibble << shift, 0xf << shift)?);
        }
        CounterId::General(n) => {
            check(chip, &coded.code, false)?;
            let value = select_bits(&coded.code)? | x86::mode_bits(how) | EN;
            writes.push(write(Register::EventSelect(n), value, u64::MAX)?);
        }
    }
    if chip.is_of_version(2) {
        let mask = 1 << global_bit(counter);
        writes.push(write(Register::GlobalControl, mask, mask)?);
    }
    Ok(writes)
}

/// The writes that count slots and their shares in PERF_METRICS.
pub(crate) fn program_metrics(how: CounterOptions) -> Result<Vec<RegisterWrite>, EncodeError> {
    let shift = 4 * u32::from(SLOTS);
    let enable = 1 << global_bit(CounterId::Fixed(SLOTS)) | 1 << GLOBAL_METRICS_BIT;
    Ok(vec![
        RegisterWrite::of(Register::FixedControl, fixed_nibble(false, how) << shift, 0xf << shift)?,
        RegisterWrite::of(Register::GlobalControl, enable, enable)?,
    ])
}

/// The bit of a counter in the global registers.
pub(crate) const fn global_bit(counter: CounterId) -> u32 {
    match counter {
        CounterId::General(n) => n as u32,
        CounterId::Fixed(n) => GLOBAL_FIXED_SHIFT + n as u32,
    }
}

fn fixed_nibble(any: bool, how: CounterOptions) -> u64 {
    flags([
        (how.modes.user, FIXED_USR),
        (how.modes.kernel, FIXED_OS),
        (how.interrupt, FIXED_PMI),
        (any, FIXED_ANY),
    ])
}

/// The events in a register's value.
pub(crate) fn events(chip: &Chip, register: Register, value: u64) -> Vec<DecodedEvent> {
    match register {
        Register::EventSelect(n) | Register::V6EventSelect(n) => select_event(chip, n, value),
        Register::FixedControl => fixed_events(chip, value),
        _ => Vec::new(),
    }
}

fn select_event(chip: &Chip, n: u8, value: u64) -> Vec<DecodedEvent> {
    let code = code(chip, value);
    if code == PLAIN {
        return Vec::new();
    }
    // Tables do not say what a counter may count that exists with Hyper-Threading off only.
    let counter = Some(CounterId::General(n)).filter(|counter| !shared::counters(chip).contains(*counter));
    vec![x86::event(code, counter, value)]
}

/// The text of a warning about a value of an event select.
pub(crate) fn remark(register: Register, value: u64) -> Option<String> {
    let (select, umask) = (value & 0xff, (value >> 8) as u8);
    match (register, select, umask) {
        (Register::EventSelect(_) | Register::V6EventSelect(_), 0, 1..=FIXED_PSEUDO_MOST) => Some(format!(
            "a general counter counts nothing here: unit mask {umask:#x} of event 0 is the pseudo code of fixed \
             counter {}",
            umask - 1
        )),
        _ => None,
    }
}

fn modes(user: bool, kernel: bool) -> Option<Modes> {
    Some(Modes { user, kernel, hypervisor: false })
}

/// The code in an event select or a raw config; what the chip's version has no field for is left out.
fn code(chip: &Chip, value: u64) -> EventCode {
    let v6 = chip.is_of_version(6);
    EventCode {
        umask2: if v6 { (value >> UMASK2_SHIFT) as u8 } else { 0 },
        eq: v6 && value & EQ != 0,
        any: has_any(chip) && value & ANY != 0,
        ..x86::code(value)
    }
}

fn fixed_events(chip: &Chip, value: u64) -> Vec<DecodedEvent> {
    let event = |n: u8| {
        let nibble = value >> (4 * n) & 0xf;
        let any = has_any(chip) && nibble & FIXED_ANY != 0;
        (nibble & 0b11 != 0).then(|| DecodedEvent {
            counter: Some(CounterId::Fixed(n)),
            modes: modes(nibble & FIXED_USR != 0, nibble & FIXED_OS != 0),
            enabled: Some(true),
            interrupt: Some(nibble & FIXED_PMI != 0),
            ..DecodedEvent::new(EventCode { any, ..fixed_code(n) })
        })
    };
    set_bits(chip.counters_or(ALL_COUNTERS).fixed_bits() & 0xff).filter_map(event).collect()
}

/// The pseudo code that asks for the precise distribution of instructions on fixed counter 0. Tables have it
/// as a whole config, since its code is that of `INST_RETIRED.ANY`.
///
/// # Source
///
/// Linux `arch/x86/events/intel/core.c`, `INST_RETIRED.PREC_DIST` in `intel_icl_event_constraints`.
pub const PRECISE_INSTRUCTIONS: u64 = 0x0100;

/// The events that a raw config of perf can mean: its own code, and the fixed counter's where the kernel uses
/// one.
pub(crate) fn perf_events(chip: &Chip, config: u64) -> Vec<DecodedEvent> {
    let code = code(chip, config);
    let Some(n) = fixed_of(&code) else { return vec![DecodedEvent::new(code)] };
    let fixed = DecodedEvent {
        counter: Some(CounterId::Fixed(n)),
        ..DecodedEvent::new(EventCode { any: code.any, ..fixed_code(n) })
    };
    match code.select {
        0 if config == PRECISE_INSTRUCTIONS => vec![fixed, DecodedEvent { config: Some(config), ..fixed }],
        0 => vec![fixed],
        _ => vec![DecodedEvent::new(code), fixed],
    }
}

/// The fixed counter that the kernel uses for a code; none for one that a fixed counter cannot be told.
fn fixed_of(code: &EventCode) -> Option<u8> {
    let bare = EventCode { any: code.any, ..PLAIN };
    match (code.select, code.umask, EventCode { select: 0, umask: 0, ..*code } == bare) {
        (0, umask @ 1..=FIXED_PSEUDO_MOST, true) => Some(umask - 1),
        (0xc0, 0, true) => Some(0),
        (0x3c, 0, true) => Some(1),
        _ => None,
    }
}

/// An event of a fixed counter as a general one counts it, if the event asks for what only a general one can
/// do and has a code there.
pub(crate) fn on_general(coded: &Coded) -> Option<Coded> {
    let EventCode { cmask, inv, edge, eq, .. } = coded.code;
    let modified = cmask != 0 || inv || edge || eq;
    let index = coded.fixed_index(Family::Intel).filter(|index| modified && *index < 2)?;
    if coded.config.is_some() {
        return None;
    }
    let (select, umask) = fixed_perf_code(index);
    let code = EventCode { select, umask, ..coded.code };
    Some(Coded { code, counters: coded.general_alone(), ..*coded })
}

/// The extra registers that an event's code can refer to, over all generations.
///
/// # Source
///
/// Intel perfmon event files, `EventCode`, `UMask` and `MSRIndex`; Linux `arch/x86/events/intel/core.c`, the
/// `extra_reg` tables.
pub fn extra_registers(code: &EventCode) -> &'static [ExtraRegisterKind] {
    use ExtraRegisterKind::{
        Frontend, LoadLatency, OffcoreResponse0, OffcoreResponse1, Omr0, Omr1, Omr2, Omr3, SnoopResponse0,
        SnoopResponse1,
    };
    match (code.select, code.umask) {
        (0xb7 | 0x2a, 1) => &[OffcoreResponse0, OffcoreResponse1, Omr0],
        (0xb7 | 0x2a, 2) => &[OffcoreResponse1, OffcoreResponse0, Omr1],
        (0xbb | 0x2b, _) => &[OffcoreResponse1],
        (0xb7 | 0x2a | 0xd4 | 0xd6, 4) => &[Omr2],
        (0xb7 | 0x2a | 0xd4 | 0xd6, 8) => &[Omr3],
        (0xd4 | 0xd6, 1) => &[Omr0],
        (0xd4 | 0xd6, 2) => &[Omr1],
        (0xb7 | 0x2a, _) => &[OffcoreResponse0, OffcoreResponse1],
        (0xcd | 0x0b | 0xd0, _) => &[LoadLatency],
        (0xc6 | 0xad | 0xc2, _) => &[Frontend],
        (0x27, 1) => &[SnoopResponse0],
        (0x27, 2) => &[SnoopResponse1],
        _ => &[],
    }
}

/// The counter that an index of `rdpmc` names, and whether the index is one at all.
pub(crate) fn rdpmc(chip: &Chip, ecx: u32) -> Option<CounterId> {
    let n = (ecx & 0xffff) as u8;
    let counter = match ecx & !0xff {
        0 => CounterId::General(n),
        RDPMC_FIXED => CounterId::Fixed(n),
        _ => return None,
    };
    let counters = chip.counters_or(ALL_COUNTERS).or(shared::counters(chip));
    counters.contains(counter).then_some(counter)
}

//! The codes that count the same event: its own, and those with another register.

use cyclometer_arch::Coded;
use cyclometer_core::event::ExtraRegister;
use cyclometer_core::{CounterMask, EventCode};

use crate::select::Selected;
use crate::table::{Cpu, Entry};

/// The codes of an event, its own first.
pub fn codes(tables: &[Cpu<'_>], selected: &Selected<'_>) -> Vec<Coded> {
    let own = selected.coded;
    let entry = selected.entry.filter(|entry| entry.code() == own.code);
    let others: Vec<Coded> = match entry {
        Some(entry) => others_of(entry).collect(),
        None => moved(tables, &own),
    };
    std::iter::once(own).chain(others).collect()
}

fn others_of<'a>(entry: Entry<'a>) -> impl Iterator<Item = Coded> + use<'a> {
    entry.also().map(|also| Coded { code: also.code, config: None, counters: also.counters })
}

/// All codes of an entry.
fn all_of<'a>(entry: Entry<'a>) -> impl Iterator<Item = Coded> + use<'a> {
    let own = Coded { code: entry.code(), config: entry.config(), counters: entry.counters() };
    std::iter::once(own).chain(others_of(entry))
}

/// The alternative codes of a code that is not a named event. The kernel moves the code to one of them if the
/// register that it needs is taken. They are the codes of a vendor event with the same select, unit mask and
/// register, with this value.
///
/// # Source
///
/// Linux `arch/x86/events/intel/core.c`, `intel_alt_er` and `intel_fixup_er`.
fn moved(tables: &[Cpu<'_>], own: &Coded) -> Vec<Coded> {
    let Some(extra) = own.code.extra else { return Vec::new() };
    let is_same = |code: &EventCode| {
        let register = code.extra.map(|other| other.register);
        (code.select, code.umask, register) == (own.code.select, own.code.umask, Some(extra.register))
    };
    let pair = tables.iter().find_map(|cpu| {
        let has = |entry: &Entry<'_>| entry.also().count() > 0 && all_of(*entry).any(|c| is_same(&c.code));
        cpu.events().find(has).map(|entry| (*cpu, entry))
    });
    let Some((cpu, entry)) = pair else { return Vec::new() };
    let with = |other: Coded| {
        let register = other.code.extra.filter(|other| other.register != extra.register)?.register;
        let code = EventCode {
            select: other.code.select,
            umask: other.code.umask,
            umask2: other.code.umask2,
            extra: Some(ExtraRegister { register, value: extra.value }),
            ..own.code
        };
        (extra.value & bits_without(&cpu, register) == 0).then_some(Coded {
            code,
            config: None,
            counters: other.counters,
        })
    };
    all_of(entry).filter_map(with).collect()
}

/// The bits that a register lacks, according to the vendor's events: bits that only events of other registers
/// use.
///
/// # Source
///
/// Linux `arch/x86/events/intel/core.c`, the `extra_reg` tables: bit 38, later 63, is in MSR_OFFCORE_RSP_0
/// alone.
fn bits_without(cpu: &Cpu<'_>, register: cyclometer_core::event::ExtraRegisterKind) -> u64 {
    let (mut here, mut elsewhere) = (0, 0);
    for code in cpu.events().flat_map(all_of).map(|coded| coded.code) {
        match code.extra {
            Some(extra) if extra.register == register => here |= extra.value,
            Some(extra) if is_offcore(extra.register) == is_offcore(register) => elsewhere |= extra.value,
            _ => {}
        }
    }
    elsewhere & !here
}

/// Whether a register is one of several of its kind.
fn is_offcore(register: cyclometer_core::event::ExtraRegisterKind) -> bool {
    use cyclometer_core::event::ExtraRegisterKind::{Frontend, LoadLatency};
    !matches!(register, Frontend | LoadLatency)
}

/// The counters of a PMU that a vendor names for an event; the general ones if it names none. A pin leaves
/// one: the general counter of that number, or else the fixed one.
pub fn usable(all: CounterMask, named: Option<CounterMask>, pin: Option<u8>) -> CounterMask {
    let own = match named {
        None => CounterMask::from_bits(all.general_bits(), 0),
        Some(named) => named.and(all),
    };
    match pin {
        None => own,
        Some(n) => {
            let bit = 1u64.checked_shl(n.into()).unwrap_or(0);
            let general = CounterMask::from_bits(own.general_bits() & bit, 0);
            if general.is_empty() { own.and(CounterMask::from_bits(0, bit)) } else { general }
        }
    }
}

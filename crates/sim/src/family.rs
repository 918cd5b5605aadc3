//! The meaning of the registers of each family: what they make a counter count.

use cyclometer_arch::{Register, amd, apple, arm, intel};
use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterId, CounterWidth};
use cyclometer_semantics::{CountUnit, CountingRule, Meaning, Semantics};

use crate::model::Model;

/// The behaviour of a counter as long as no register changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Active {
    pub meaning: Meaning,
    pub user: bool,
    pub kernel: bool,
    pub interrupts: bool,
}

/// When a counter overflows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Overflow {
    /// With the carry out of so many bits; the count goes on above them if the counter has more.
    Carry(u32),
    /// When this bit becomes set.
    Bit(u32),
}

impl Overflow {
    /// How many events a counter of `width` bits is away from it.
    pub(crate) fn distance(self, value: u64, width: u32) -> u128 {
        let value = u128::from(value);
        match self {
            Overflow::Carry(bits) => (1u128 << bits) - value % (1u128 << bits),
            Overflow::Bit(bit) => {
                let top = 1u128 << bit;
                if value < top { top - value } else { (1u128 << width) - value + top }
            }
        }
    }
}

/// The registers that count and that act now.
pub(crate) trait Acting {
    fn acting(&self, register: Register) -> u64;

    fn of_intel(&self, register: intel::Register) -> u64 {
        self.acting(Register::Intel(register))
    }

    fn of_amd(&self, register: amd::Register) -> u64 {
        self.acting(Register::Amd(register))
    }

    fn of_apple(&self, register: apple::Register) -> u64 {
        self.acting(Register::Apple(register))
    }

    fn of_arm(&self, register: arm::Register) -> u64 {
        self.acting(Register::Arm(register))
    }
}

/// The behaviour of a counter; `None`: it does not count.
pub(crate) fn active(
    model: &Model,
    semantics: &Semantics,
    registers: &dyn Acting,
    counter: CounterId,
) -> Option<Active> {
    let events = MachineEvents { model, semantics };
    match (model.chip.family, counter) {
        (Family::Intel, CounterId::General(n)) => intel_general(events, registers, n),
        (Family::Intel, CounterId::Fixed(n)) => intel_fixed(model, registers, n),
        (Family::Amd, CounterId::General(n)) => amd_general(events, registers, n),
        (Family::Apple, counter) => apple_counter(events, registers, counter),
        (Family::Arm, counter) => arm_counter(events, registers, counter),
        _ => None,
    }
}

/// The events of a machine: codes as its model writes them, and their meanings.
#[derive(Clone, Copy)]
struct MachineEvents<'a> {
    model: &'a Model,
    semantics: &'a Semantics,
}

impl MachineEvents<'_> {
    /// The meaning of a select and unit mask on a general counter.
    fn meaning(self, select: u16, umask: u8, n: u8) -> Option<Meaning> {
        self.semantics.meaning(self.model.code(select, umask), CounterId::General(n)).copied()
    }
}

/// The fields that Intel's and AMD's event selects have in common.
fn x86_select(events: MachineEvents<'_>, select: u64, event: u16, n: u8) -> Option<Active> {
    if select & intel::EN == 0 {
        return None;
    }
    let mut meaning = events.meaning(event, (select >> 8) as u8, n)?;
    let cmask = (select >> intel::CMASK_SHIFT) as u8;
    if cmask != 0 {
        let (below, edges) = (select & intel::INV != 0, select & intel::EDGE != 0);
        let per = CountUnit::Cycle;
        meaning.rule = CountingRule::Threshold { events: cmask.into(), per, below, edges };
    }
    let interrupts = select & intel::INT != 0;
    Some(Active { meaning, user: select & intel::USR != 0, kernel: select & intel::OS != 0, interrupts })
}

fn intel_general(events: MachineEvents<'_>, registers: &dyn Acting, n: u8) -> Option<Active> {
    let select = registers.of_intel(intel::Register::EventSelect(n));
    let enabled = registers.of_intel(intel::Register::GlobalControl) >> n & 1 == 1;
    x86_select(events, select, (select & 0xff) as u16, n).filter(|_| enabled)
}

fn intel_fixed(model: &Model, registers: &dyn Acting, n: u8) -> Option<Active> {
    let own = registers.of_intel(intel::Register::FixedControl) >> (4 * n);
    let global = registers.of_intel(intel::Register::GlobalControl);
    if global >> (intel::GLOBAL_FIXED_SHIFT + u32::from(n)) & 1 == 0 {
        return None;
    }
    Some(Active {
        meaning: model.fixed_meaning(n)?,
        user: own & intel::FIXED_USR != 0,
        kernel: own & intel::FIXED_OS != 0,
        interrupts: own & intel::FIXED_PMI != 0,
    })
}

fn amd_general(events: MachineEvents<'_>, registers: &dyn Acting, n: u8) -> Option<Active> {
    let model = events.model;
    let select = registers.of_amd(amd::Register::EventSelect(n));
    let global = !model.chip.is_of_version(2) || registers.of_amd(amd::Register::GlobalControl) >> n & 1 == 1;
    let behind = registers.of_amd(amd::Register::EventSelect(n + 1));
    let is_pair = n.is_multiple_of(2) && amd_event(behind) == amd::MERGE_EVENT && behind & amd::EN != 0;
    let for_guests = select & amd::GUEST_ONLY != 0 && select & amd::HOST_ONLY == 0;
    let mut active = x86_select(events, select, amd_event(select), n).filter(|_| global && !for_guests)?;
    if !is_pair && active.meaning.rule == CountingRule::Events {
        active.meaning.rule = CountingRule::AtMost { events: AMD_MOST_A_CYCLE, per: CountUnit::Cycle };
    }
    Some(active)
}

/// The most events of a cycle that one counter of AMD takes; a pair of counters takes any number.
///
/// # Source
///
/// Linux `arch/x86/events/amd/core.c`, `amd_is_pair_event_code`: events that increase by more than 15 in a
/// cycle.
const AMD_MOST_A_CYCLE: u32 = 15;

fn amd_event(select: u64) -> u16 {
    (select & 0xff | (select >> amd::EVENT_HIGH_SHIFT & 0xf) << 8) as u16
}

/// The bit of PMC `n` in a field that is split behind PMC7.
fn split_bit(n: u8, low: u32, high: u32) -> u32 {
    if n < 8 { low + u32::from(n) } else { high + u32::from(n) - 8 }
}

fn apple_counter(events: MachineEvents<'_>, registers: &dyn Acting, counter: CounterId) -> Option<Active> {
    let (CounterId::General(n) | CounterId::Fixed(n)) = counter;
    let control = registers.of_apple(apple::Register::Control);
    let modes = registers.of_apple(apple::Register::Modes);
    let is_set = |word: u64, low, high| word >> split_bit(n, low, high) & 1 == 1;
    let stopped = control & apple::PMCR0_STOP != 0 && control & apple::PMCR0_ACTIVE != 0;
    if !is_set(control, 0, 32) || stopped {
        return None;
    }
    let meaning = match counter {
        CounterId::Fixed(n) => events.model.fixed_meaning(n)?,
        CounterId::General(n) => events.meaning(apple_select(events.model, registers, n), 0, n)?,
    };
    Some(Active {
        meaning,
        user: is_set(modes, 8, 40),
        kernel: is_set(modes, 16, 48),
        interrupts: is_set(control, 12, 44) && apple_interrupts(control),
    })
}

/// Whether an interrupt mode interrupts: not 0 (off) and not 3 (halt).
fn apple_interrupts(control: u64) -> bool {
    matches!((control & apple::PMCR0_MODE) >> 8, 1 | 2 | 4)
}

fn apple_select(model: &Model, registers: &dyn Acting, n: u8) -> u16 {
    let slot = n - apple::FIRST_CONFIGURABLE;
    let word = registers.of_apple(apple::Register::EventSelect(slot / apple::COUNTERS_PER_PMESR));
    let bits = model.chip.selector_bits.unwrap_or(16);
    (word >> (bits * u32::from(slot % apple::COUNTERS_PER_PMESR)) & ((1 << bits) - 1)) as u16
}

fn arm_counter(events: MachineEvents<'_>, registers: &dyn Acting, counter: CounterId) -> Option<Active> {
    let (CounterId::General(n) | CounterId::Fixed(n)) = counter;
    let is_set = |register| registers.of_arm(register) >> n & 1 == 1;
    if registers.of_arm(arm::Register::Control) & arm::PMCR_E == 0 || !is_set(arm::Register::EnableSet) {
        return None;
    }
    let (filter, meaning) = match counter {
        CounterId::General(n) => {
            let filter = registers.of_arm(arm::Register::EventType(n));
            (filter, events.meaning(filter as u16, 0, n)?)
        }
        CounterId::Fixed(n) => (registers.of_arm(arm::Register::CycleFilter), events.model.fixed_meaning(n)?),
    };
    Some(Active {
        meaning,
        user: filter & arm::U == 0,
        kernel: filter & arm::P == 0,
        interrupts: is_set(arm::Register::InterruptSet),
    })
}

/// How many bits of a counter there are, and when it overflows.
pub(crate) fn extent(model: &Model, registers: &dyn Acting, counter: CounterId) -> (u32, Overflow) {
    let CounterWidth { bits: width, overflow_bit: bit } = model.counter_width();
    match (model.chip.family, counter) {
        (Family::Arm, CounterId::Fixed(_)) => {
            let long = registers.of_arm(arm::Register::Control) & arm::PMCR_LC != 0;
            (64, Overflow::Carry(if long { 64 } else { 32 }))
        }
        (Family::Apple, _) => (width, Overflow::Bit(bit)),
        _ => (width, Overflow::Carry(width)),
    }
}

/// The bit of a counter in the register that tells overflows.
pub(crate) fn status_bit(family: Family, counter: CounterId) -> u32 {
    match (family, counter) {
        (Family::Intel, CounterId::Fixed(n)) => intel::GLOBAL_FIXED_SHIFT + u32::from(n),
        (_, CounterId::General(n) | CounterId::Fixed(n)) => n.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overflow_is_as_far_as_the_next_carry_or_the_next_time_the_bit_is_set() {
        for (overflow, value, width, expected) in [
            (Overflow::Carry(48), 0, 48, 1u128 << 48),
            (Overflow::Carry(48), (1 << 48) - 3, 48, 3),
            (Overflow::Carry(32), (5 << 32) + 7, 64, (1 << 32) - 7),
            (Overflow::Carry(64), u64::MAX, 64, 1),
            (Overflow::Bit(47), (1 << 47) - 5, 48, 5),
            (Overflow::Bit(47), 1 << 47, 48, (1 << 47) + (1 << 47)),
            (Overflow::Bit(63), u64::MAX, 64, 1 + (1 << 63)),
        ] {
            assert_eq!(overflow.distance(value, width), expected, "{overflow:?} {value:#x}");
        }
    }
}

//! The input of encoding: a chip's facts, an event's code, and the modes in which it is counted.

use std::num::NonZeroU64;

use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterId, CounterMask, CounterWidth, EventCode, Modes};

/// The facts of a chip that layouts depend on, as a table's header has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Chip {
    /// How its registers are laid out.
    pub family: Family,
    /// Version of the architecture's PMU: Intel's perfmon version, AMD's PerfMon version; `None` when there
    /// is none.
    pub pmu_version: Option<u32>,
    /// Bits of the event select field; `None` when unknown, then only the layout limits it.
    pub selector_bits: Option<u32>,
    /// Width of the counters; `None` when unknown.
    pub counter_width: Option<CounterWidth>,
    /// The counters there are, as far as they are known; of unknown ones every one of the layout may be
    /// meant.
    pub counters: ChipCounters,
}

/// The counters of a chip, where general ones and fixed ones may each be unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChipCounters {
    general: Option<NonZeroU64>,
    fixed: Option<u64>,
}

impl ChipCounters {
    /// The counters that a table or a machine names.
    ///
    /// No PMU has no general counter: without one they are not known. Fixed ones can really be absent.
    pub const fn of(named: CounterMask) -> ChipCounters {
        let general = NonZeroU64::new(named.general_bits());
        let is_known = general.is_some() || named.fixed_bits() != 0;
        ChipCounters { general, fixed: if is_known { Some(named.fixed_bits()) } else { None } }
    }

    /// Those that are known.
    pub const fn known(self) -> CounterMask {
        let general = match self.general {
            Some(general) => general.get(),
            None => 0,
        };
        let fixed = match self.fixed {
            Some(fixed) => fixed,
            None => 0,
        };
        CounterMask::from_bits(general, fixed)
    }

    /// These counters, with those of `all` in place of unknown ones.
    pub(crate) fn or(self, all: CounterMask) -> CounterMask {
        let general = self.general.map_or(all.general_bits(), NonZeroU64::get);
        CounterMask::from_bits(general, self.fixed.unwrap_or(all.fixed_bits()))
    }
}

impl Chip {
    /// Whether its PMU has this version of the architecture's or a later one.
    pub const fn is_of_version(&self, first: u32) -> bool {
        matches!(self.pmu_version, Some(version) if version >= first)
    }

    /// The code of an event as one number: its select. On Intel and AMD the unit mask is from bit 8 on, and
    /// bits 8 to 11 of the select are from bit 16 on.
    pub const fn event_number(&self, select: u16, umask: u8) -> u32 {
        match self.family {
            Family::Intel | Family::Amd => x86_event_number(select, umask),
            _ => select as u32,
        }
    }

    /// The select and the unit mask of such a number.
    pub const fn event_select(&self, number: u32) -> (u16, u8) {
        match self.family {
            Family::Intel | Family::Amd => {
                ((number & 0xff | (number >> 16 & 0xff) << 8) as u16, (number >> 8 & 0xff) as u8)
            }
            _ => (number as u16, 0),
        }
    }

    /// The counters for layouts: the chip's own, or those of `all` where they are unknown.
    pub(crate) fn counters_or(&self, all: CounterMask) -> CounterMask {
        self.counters.or(all)
    }
}

/// The number of an event on Intel and AMD: see [`Chip::event_number`].
pub const fn x86_event_number(select: u16, umask: u8) -> u32 {
    (select & 0xff) as u32 | (umask as u32) << 8 | ((select >> 8) as u32) << 16
}

/// An event by its code, as a table has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Coded {
    /// The options of a counter. A fixed event of Intel has the pseudo code: select 0, unit mask index + 1;
    /// one of Apple has none, `counters` say which it is.
    pub code: EventCode,
    /// The whole perf config, where it is not made of the code: RISC-V's events, `INST_RETIRED.PREC_DIST`.
    pub config: Option<u64>,
    /// The counters that may count it; `None` when unknown.
    pub counters: Option<CounterMask>,
}

impl Coded {
    /// An event on counters not known.
    pub const fn new(code: EventCode) -> Coded {
        Coded { code, config: None, counters: None }
    }

    /// The same on these counters.
    #[must_use]
    pub const fn on(self, counters: CounterMask) -> Coded {
        Coded { counters: Some(counters), ..self }
    }

    /// Whether a counter is among those that are named for it.
    pub fn is_on(&self, counter: CounterId) -> bool {
        self.counters.is_some_and(|named| named.contains(counter))
    }

    /// The fixed counters that are named for it, as a mask.
    pub fn fixed_bits(&self) -> u64 {
        self.counters.map_or(0, CounterMask::fixed_bits)
    }

    /// The general counters that are named for it. An event of fixed counters alone has none: its counters
    /// are unknown then.
    pub fn general_alone(&self) -> Option<CounterMask> {
        let general = self.counters.map(|counters| CounterMask::from_bits(counters.general_bits(), 0));
        general.filter(|general| !general.is_empty())
    }

    /// The number of the fixed counter that an event without a select means; `None` for what a selector
    /// understands.
    ///
    /// The counters decide where the table names them, else Intel's unit mask. Elsewhere select 0 is an event
    /// as any other.
    pub(crate) fn fixed_index(&self, family: Family) -> Option<u8> {
        let EventCode { select, umask, umask2, .. } = self.code;
        if select != 0 || umask2 != 0 {
            return None;
        }
        match (family, self.fixed_bits(), umask) {
            (Family::Intel, 0, 1..=FIXED_PSEUDO_MOST) => Some(umask - 1),
            (Family::Intel | Family::Apple, 1.., _) => Some(self.fixed_bits().trailing_zeros() as u8),
            _ => None,
        }
    }
}

/// The greatest unit mask that is the pseudo code of a fixed event: fixed counter 15, below the metrics'
/// codes.
///
/// # Source
///
/// Linux `arch/x86/include/asm/perf_event.h`, "We model fixed counters as umask": `INTEL_PMC_MAX_FIXED` is
/// 16.
pub(crate) const FIXED_PSEUDO_MOST: u8 = 16;

/// In which modes a counter counts, and whether it interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CounterOptions {
    /// The modes. Hypervisor mode has a bit on Arm only; elsewhere it is left out without an error.
    pub modes: Modes,
    /// Whether an overflow raises an interrupt. Needs a handler.
    pub interrupt: bool,
}

impl CounterOptions {
    /// Counting without interrupts.
    pub const fn counting(modes: Modes) -> CounterOptions {
        CounterOptions { modes, interrupt: false }
    }

    /// Counting with an interrupt at each overflow.
    pub const fn sampling(modes: Modes) -> CounterOptions {
        CounterOptions { modes, interrupt: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_counters_are_those_of_the_layout_and_absent_fixed_ones_stay_absent() {
        let all = CounterMask::from_bits(0xff, 0b111);
        for (named, expected) in [
            (CounterMask::EMPTY, all),
            (CounterMask::from_bits(0, 0b1), CounterMask::from_bits(0xff, 0b1)),
            (CounterMask::from_bits(0b11, 0), CounterMask::from_bits(0b11, 0)),
            (CounterMask::from_bits(0b11, 0b10), CounterMask::from_bits(0b11, 0b10)),
        ] {
            assert_eq!(ChipCounters::of(named).or(all), expected, "{named}");
            assert_eq!(ChipCounters::of(named).known(), named);
        }
        assert_eq!(ChipCounters::default(), ChipCounters::of(CounterMask::EMPTY));
    }
}

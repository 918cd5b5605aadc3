//! What is to be encoded: a chip's facts, an event's code, and how it is to be counted.

use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterMask, EventCode, Modes};

/// The facts of a chip that layouts depend on, as a table's header has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Chip {
    /// How its registers are laid out.
    pub family: Family,
    /// Version of the architecture's PMU: Intel's perfmon version, AMD's PerfMon version; 0 when there is none.
    pub pmu_version: u32,
    /// Bits of the event select field; 0 when unknown, then only the layout limits it.
    pub selector_bits: u32,
    /// Width of a counter in bits.
    pub counter_width_bits: u32,
    /// The bit that tells an overflow; the width where a carry does.
    pub overflow_bit: u32,
    /// The counters there are; empty when unknown, then every counter of the layout may be meant.
    pub counters: CounterMask,
}

impl Chip {
    /// The counters for layouts: the chip's own, or `all` where they are unknown.
    pub(crate) fn counters_or(&self, all: CounterMask) -> CounterMask {
        if self.counters.is_empty() { all } else { self.counters }
    }
}

/// An event by its code, as a table has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Coded {
    /// What a counter is told. Of a fixed event the pseudo code: select 0, unit mask index + 1.
    pub code: EventCode,
    /// The whole perf config, where it is not made of the code: RISC-V's events, `INST_RETIRED.PREC_DIST`.
    pub config: Option<u64>,
    /// The counters that may count it; empty when unknown.
    pub counters: CounterMask,
}

impl Coded {
    /// An event on counters not known.
    pub const fn new(code: EventCode) -> Coded {
        Coded { code, config: None, counters: CounterMask::EMPTY }
    }

    /// The same on these counters.
    #[must_use]
    pub const fn on(self, counters: CounterMask) -> Coded {
        Coded { counters, ..self }
    }

    /// The number of the fixed counter that a pseudo code means; `None` for a code that a selector understands.
    ///
    /// The counters decide where the table names them, else the unit mask. Intel and Apple have such events;
    /// elsewhere select 0 is an event as any other.
    pub(crate) fn fixed_index(&self, family: Family) -> Option<u8> {
        let EventCode { select, umask, umask2, .. } = self.code;
        if !matches!(family, Family::Intel | Family::Apple) || select != 0 || umask2 != 0 {
            return None;
        }
        match (self.counters.fixed_bits(), umask) {
            (0, 1..=FIXED_PSEUDO_MOST) => Some(umask - 1),
            (0, _) => None,
            (fixed, _) => Some(fixed.trailing_zeros() as u8),
        }
    }
}

/// The greatest unit mask that is the pseudo code of a fixed event: fixed counter 15, below the metrics' codes.
///
/// # Source
///
/// Linux `arch/x86/include/asm/perf_event.h`, "We model fixed counters as umask": `INTEL_PMC_MAX_FIXED` is 16.
pub(crate) const FIXED_PSEUDO_MOST: u8 = 16;

/// In which modes a counter counts, and whether it interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct How {
    /// The modes. Hypervisor mode has a bit on Arm only; elsewhere it is left out without an error.
    pub modes: Modes,
    /// Whether an overflow raises an interrupt. Needs a handler.
    pub interrupt: bool,
}

impl How {
    /// Counting without interrupts.
    pub const fn counting(modes: Modes) -> How {
        How { modes, interrupt: false }
    }

    /// Counting with an interrupt at each overflow.
    pub const fn sampling(modes: Modes) -> How {
        How { modes, interrupt: true }
    }
}

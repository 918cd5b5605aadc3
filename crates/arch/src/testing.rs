//! Chips for the tests of this crate, with the facts of real ones.

use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterMask, CounterWidth};

use crate::chip::{Chip, ChipCounters};

fn intel(version: u32, counters: CounterMask) -> Chip {
    Chip {
        family: Family::Intel,
        pmu_version: Some(version),
        selector_bits: Some(8),
        counter_width: Some(CounterWidth::carrying(48)),
        counters: ChipCounters::of(counters),
    }
}

pub(crate) fn skylake() -> Chip {
    intel(4, CounterMask::first(8, 3))
}

pub(crate) fn sapphire_rapids() -> Chip {
    intel(5, CounterMask::first(8, 4))
}

pub(crate) fn lion_cove() -> Chip {
    intel(6, CounterMask::first(10, 4))
}

pub(crate) fn skymont() -> Chip {
    intel(6, CounterMask::from_bits(0xff, 0b111_0111))
}

fn amd(pmu_version: Option<u32>, general: u32) -> Chip {
    Chip {
        family: Family::Amd,
        selector_bits: Some(12),
        pmu_version,
        ..intel(0, CounterMask::first(general, 0))
    }
}

pub(crate) fn zen2() -> Chip {
    amd(Some(1), 6)
}

pub(crate) fn zen4() -> Chip {
    amd(Some(2), 6)
}

pub(crate) fn k10() -> Chip {
    amd(None, 4)
}

pub(crate) fn neoverse() -> Chip {
    Chip {
        family: Family::Arm,
        pmu_version: Some(3),
        selector_bits: Some(16),
        counter_width: Some(CounterWidth::carrying(64)),
        counters: ChipCounters::of(CounterMask::from_bits(0x3f, 1 << 31)),
    }
}

pub(crate) fn u74() -> Chip {
    Chip {
        family: Family::RiscV,
        pmu_version: None,
        selector_bits: Some(56),
        counter_width: Some(CounterWidth::carrying(64)),
        counters: ChipCounters::of(CounterMask::from_bits(0b11000, 0b101)),
    }
}

fn apple(selector_bits: u32, counter_width_bits: u32) -> Chip {
    Chip {
        family: Family::Apple,
        pmu_version: None,
        selector_bits: Some(selector_bits),
        counter_width: Some(CounterWidth { bits: counter_width_bits, overflow_bit: counter_width_bits - 1 }),
        counters: ChipCounters::of(CounterMask::from_bits(0x3fc, 0b11)),
    }
}

pub(crate) fn m1() -> Chip {
    apple(8, 48)
}

pub(crate) fn m3() -> Chip {
    apple(16, 64)
}

pub(crate) fn chips() -> [Chip; 12] {
    let unknown = Chip { family: Family::RiscV, ..Chip::default() };
    let [p_core, e_core] = [lion_cove(), skymont()];
    [
        skylake(),
        sapphire_rapids(),
        p_core,
        e_core,
        zen2(),
        zen4(),
        k10(),
        neoverse(),
        u74(),
        unknown,
        m1(),
        m3(),
    ]
}

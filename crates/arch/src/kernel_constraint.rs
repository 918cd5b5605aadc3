//! The counters to which Linux's drivers restrict an event of which only perf's words are known.

use cyclometer_core::CounterMask;
use cyclometer_core::machine::{CpuId, MachineCpu, Vendor};

/// An event of `PERF_TYPE_HARDWARE` that has a fixed counter on some PMU.
///
/// # Source
///
/// Linux `include/uapi/linux/perf_event.h`, `enum perf_hw_id`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FixedGeneric {
    /// `PERF_COUNT_HW_CPU_CYCLES`.
    CpuCycles,
    /// `PERF_COUNT_HW_INSTRUCTIONS`.
    Instructions,
    /// `PERF_COUNT_HW_REF_CPU_CYCLES`.
    ReferenceCycles,
}

impl FixedGeneric {
    /// The event with this config of `PERF_TYPE_HARDWARE`.
    pub const fn of_config(config: u64) -> Option<FixedGeneric> {
        match config {
            0 => Some(FixedGeneric::CpuCycles),
            1 => Some(FixedGeneric::Instructions),
            9 => Some(FixedGeneric::ReferenceCycles),
            _ => None,
        }
    }

    /// The event with this raw config of a core PMU.
    ///
    /// # Source
    ///
    /// Linux `arch/x86/events/intel/core.c`, `FIXED_EVENT_CONSTRAINT`; `drivers/perf/arm_pmuv3.c`,
    /// `ARMV8_PMUV3_PERFCTR_CPU_CYCLES`.
    pub fn of_raw(vendor: &Vendor, config: u64) -> Option<FixedGeneric> {
        match (vendor, config) {
            (Vendor::Intel, 0xc0) => Some(FixedGeneric::Instructions),
            (Vendor::Intel, 0x3c) | (Vendor::Arm, 0x11) => Some(FixedGeneric::CpuCycles),
            (Vendor::Intel, 0x300) => Some(FixedGeneric::ReferenceCycles),
            _ => None,
        }
    }

    /// The number of its fixed counter; `None` where it has none.
    ///
    /// # Source
    ///
    /// Linux `arch/x86/events/intel/core.c`: instructions, cycles and reference cycles have fixed counters 0,
    /// 1 and 2; `drivers/perf/arm_pmuv3.c`: cycles also count on the cycle counter;
    /// `drivers/perf/apple_m1_cpu_pmu.c`: cycles and instructions have PMC0 and PMC1.
    fn fixed_counter(self, vendor: &Vendor) -> Option<u8> {
        match (vendor, self) {
            (Vendor::Intel, FixedGeneric::Instructions) => Some(0),
            (Vendor::Intel, FixedGeneric::CpuCycles) => Some(1),
            (Vendor::Intel, FixedGeneric::ReferenceCycles) => Some(2),
            (Vendor::Arm, FixedGeneric::CpuCycles) => Some(31),
            (Vendor::Apple, FixedGeneric::CpuCycles) => Some(0),
            (Vendor::Apple, FixedGeneric::Instructions) => Some(1),
            _ => None,
        }
    }

    /// Whether general counters count it, too.
    fn is_on_general_counters(self, vendor: &Vendor) -> bool {
        !(*vendor == Vendor::Intel && self == FixedGeneric::ReferenceCycles)
    }
}

/// The counters of a core PMU on which the kernel counts an event: the general ones, and the fixed one of a
/// generic event.
///
/// An event whose only counter is missing keeps all general ones: the kernel may know better.
pub fn kernel_constraint(vendor: &Vendor, event: Option<FixedGeneric>, all: CounterMask) -> CounterMask {
    let general = CounterMask::from_bits(all.general_bits(), 0);
    let Some(event) = event else { return general };
    let fixed = event.fixed_counter(vendor).map_or(0, |number| 1 << number);
    let on_general = if event.is_on_general_counters(vendor) { u64::MAX } else { 0 };
    match all.and(CounterMask::from_bits(on_general, fixed)) {
        CounterMask::EMPTY => general,
        own => own,
    }
}

/// Whether a raw config of AMD's core PMU takes two counters.
///
/// # Source
///
/// Linux `arch/x86/events/amd/core.c`, `amd_is_pair_event_code`: event 3 from family 17h on.
pub fn is_large_increment(cpu: &MachineCpu, config: u64) -> bool {
    let is_zen = matches!(cpu.id, CpuId::X86 { family: 0x17.., .. });
    matches!(cpu.vendor, Vendor::Amd | Vendor::Hygon) && is_zen && config & 0xf_0000_00ff == 0x03
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(vendor: &Vendor, event: Option<FixedGeneric>, all: CounterMask) -> (u64, u64) {
        let own = kernel_constraint(vendor, event, all);
        (own.general_bits(), own.fixed_bits())
    }

    #[test]
    fn a_generic_event_has_its_fixed_counter_beside_the_general_ones() {
        let intel = CounterMask::first(4, 3);
        let arm = CounterMask::from_bits(0x3f, 1 << 31);
        let apple = CounterMask::from_bits(0x3fc, 0b11);
        let (cycles, instructions) = (Some(FixedGeneric::CpuCycles), Some(FixedGeneric::Instructions));
        for (vendor, event, all, expected) in [
            (Vendor::Intel, instructions, intel, (0xf, 0b001)),
            (Vendor::Intel, cycles, intel, (0xf, 0b010)),
            (Vendor::Intel, Some(FixedGeneric::ReferenceCycles), intel, (0, 0b100)),
            (Vendor::Arm, cycles, arm, (0x3f, 1 << 31)),
            (Vendor::Arm, instructions, arm, (0x3f, 0)),
            (Vendor::Apple, cycles, apple, (0x3fc, 0b01)),
            (Vendor::Apple, instructions, apple, (0x3fc, 0b10)),
            (Vendor::Amd, cycles, CounterMask::first(6, 0), (0x3f, 0)),
            (Vendor::Intel, None, intel, (0xf, 0)),
        ] {
            assert_eq!(counters(&vendor, event, all), expected, "{vendor:?} {event:?}");
        }
    }

    #[test]
    fn an_event_whose_only_counter_is_missing_keeps_the_general_ones() {
        let without_third = CounterMask::first(4, 2);
        let event = Some(FixedGeneric::ReferenceCycles);
        assert_eq!(counters(&Vendor::Intel, event, without_third), (0xf, 0));
    }

    #[test]
    fn raw_configs_are_those_of_the_generic_events_on_their_vendor_alone() {
        assert_eq!(FixedGeneric::of_raw(&Vendor::Intel, 0x3c), Some(FixedGeneric::CpuCycles));
        assert_eq!(FixedGeneric::of_raw(&Vendor::Arm, 0x3c), None);
        assert_eq!(FixedGeneric::of_raw(&Vendor::Amd, 0xc0), None);
        assert_eq!(FixedGeneric::of_config(2), None);
    }
}

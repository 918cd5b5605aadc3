//! Arm: the event counters and the cycle counter of PMUv3, the virtual timer, `isb`.

use std::arch::asm;

use super::{Permit, Serialisation};

/// Reads one register.
macro_rules! mrs {
    ($name:literal) => {{
        let value: u64;
        // SAFETY: the caller of the surrounding function promises that the register may be read; nothing else
        // is written.
        unsafe { asm!(concat!("mrs {}, ", $name), out(reg) value, options(nostack, preserves_flags)) };
        value
    }};
}

/// Reads a counter. The instruction may be executed earlier or later than the instructions around it.
///
/// # Safety
///
/// The permit is of a page that the kernel shares for an event of this thread, mapped at this moment, on a
/// machine with one core PMU. As long as it is mapped, the kernel keeps PMUSERENR_EL0 set where this thread
/// runs, and the number is a counter there.
///
/// # Source
///
/// Arm Architecture Reference Manual, PMEVCNTR<n>_EL0, PMCCNTR_EL0, PMUSERENR_EL0; Linux
/// `drivers/perf/arm_pmuv3.c`, `armv8pmu_user_event_idx`: counter n is n, the cycle counter is 31.
pub(super) unsafe fn counter(permit: Permit) -> u64 {
    match permit.number() {
        0 => mrs!("pmevcntr0_el0"),
        1 => mrs!("pmevcntr1_el0"),
        2 => mrs!("pmevcntr2_el0"),
        3 => mrs!("pmevcntr3_el0"),
        4 => mrs!("pmevcntr4_el0"),
        5 => mrs!("pmevcntr5_el0"),
        6 => mrs!("pmevcntr6_el0"),
        7 => mrs!("pmevcntr7_el0"),
        8 => mrs!("pmevcntr8_el0"),
        9 => mrs!("pmevcntr9_el0"),
        10 => mrs!("pmevcntr10_el0"),
        11 => mrs!("pmevcntr11_el0"),
        12 => mrs!("pmevcntr12_el0"),
        13 => mrs!("pmevcntr13_el0"),
        14 => mrs!("pmevcntr14_el0"),
        15 => mrs!("pmevcntr15_el0"),
        16 => mrs!("pmevcntr16_el0"),
        17 => mrs!("pmevcntr17_el0"),
        18 => mrs!("pmevcntr18_el0"),
        19 => mrs!("pmevcntr19_el0"),
        20 => mrs!("pmevcntr20_el0"),
        21 => mrs!("pmevcntr21_el0"),
        22 => mrs!("pmevcntr22_el0"),
        23 => mrs!("pmevcntr23_el0"),
        24 => mrs!("pmevcntr24_el0"),
        25 => mrs!("pmevcntr25_el0"),
        26 => mrs!("pmevcntr26_el0"),
        27 => mrs!("pmevcntr27_el0"),
        28 => mrs!("pmevcntr28_el0"),
        29 => mrs!("pmevcntr29_el0"),
        30 => mrs!("pmevcntr30_el0"),
        _ => mrs!("pmccntr_el0"),
    }
}

/// The virtual counter of the generic timer.
///
/// # Source
///
/// Arm Architecture Reference Manual, CNTVCT_EL0; Linux lets programs read it (`CNTKCTL_EL1.EL0VCTEN`).
#[inline]
pub(super) fn time_stamp() -> u64 {
    let value: u64;
    // SAFETY: Linux lets every program read this register, or reads it for it; nothing else is written.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) value, options(nostack, preserves_flags)) };
    value
}

/// Prevents earlier instructions from being executed after it, and later ones before it.
///
/// # Source
///
/// Arm Architecture Reference Manual, ISB, DSB.
#[inline]
pub fn serialise(how: Serialisation) {
    match how {
        Serialisation::None => {}
        // SAFETY: a barrier; changes nothing.
        Serialisation::Light => unsafe { asm!("isb", options(nostack, preserves_flags)) },
        // SAFETY: two barriers; they change nothing. No barrier waits for more.
        Serialisation::Memory | Serialisation::Full => unsafe {
            asm!("dsb sy", "isb", options(nostack, preserves_flags))
        },
    }
}

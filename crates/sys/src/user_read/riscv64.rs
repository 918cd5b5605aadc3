//! RISC-V: the counter registers `cycle`, `instret`, `hpmcounter3` to `hpmcounter31`, and `time`.

use std::arch::asm;

use super::{Permit, Serialisation};

/// Reads one register.
macro_rules! csrr {
    ($number:literal) => {{
        let value: u64;
        // SAFETY: the caller of the surrounding function promises that the register may be read; nothing else
        // is written.
        unsafe { asm!("csrr {}, {}", out(reg) value, const $number, options(nostack, preserves_flags)) };
        value
    }};
}

/// Reads a counter. The instruction may be executed earlier or later than the instructions around it.
///
/// # Safety
///
/// The permit is of a page that the kernel shares for an event of this thread, mapped at this moment. As long
/// as it is mapped, the kernel keeps the counter's bit in `scounteren` set, and the number is a counter
/// there.
///
/// # Source
///
/// RISC-V Privileged Architecture, `scounteren`; Unprivileged Architecture, "Zicntr" and "Zihpm": registers
/// 0xC00 to 0xC1F; Linux `drivers/perf/riscv_pmu.c`, `riscv_pmu_event_mapped`.
pub(super) unsafe fn counter(permit: Permit) -> u64 {
    match permit.number() {
        0 => csrr!(0xc00),
        2 => csrr!(0xc02),
        3 => csrr!(0xc03),
        4 => csrr!(0xc04),
        5 => csrr!(0xc05),
        6 => csrr!(0xc06),
        7 => csrr!(0xc07),
        8 => csrr!(0xc08),
        9 => csrr!(0xc09),
        10 => csrr!(0xc0a),
        11 => csrr!(0xc0b),
        12 => csrr!(0xc0c),
        13 => csrr!(0xc0d),
        14 => csrr!(0xc0e),
        15 => csrr!(0xc0f),
        16 => csrr!(0xc10),
        17 => csrr!(0xc11),
        18 => csrr!(0xc12),
        19 => csrr!(0xc13),
        20 => csrr!(0xc14),
        21 => csrr!(0xc15),
        22 => csrr!(0xc16),
        23 => csrr!(0xc17),
        24 => csrr!(0xc18),
        25 => csrr!(0xc19),
        26 => csrr!(0xc1a),
        27 => csrr!(0xc1b),
        28 => csrr!(0xc1c),
        29 => csrr!(0xc1d),
        30 => csrr!(0xc1e),
        31 => csrr!(0xc1f),
        _ => 0,
    }
}

/// The register `time`.
///
/// # Source
///
/// RISC-V Unprivileged Architecture, "Zicntr"; Linux permits programs to read it.
#[inline]
pub(super) fn time_stamp() -> u64 {
    let value: u64;
    // SAFETY: every program may read this register under Linux; nothing else is written.
    unsafe { asm!("csrr {}, 0xc01", out(reg) value, options(nostack, preserves_flags)) };
    value
}

/// Prevents earlier instructions from being executed after it, as far as the architecture supports that.
///
/// # Source
///
/// RISC-V Unprivileged Architecture, FENCE, FENCE.I.
#[inline]
pub fn serialise(how: Serialisation) {
    match how {
        Serialisation::None => {}
        // SAFETY: a barrier of loads and stores; changes nothing. The architecture has no barrier of other
        // instructions alone.
        Serialisation::Light | Serialisation::Memory => unsafe {
            asm!("fence", options(nostack, preserves_flags))
        },
        // SAFETY: two barriers; they change nothing.
        Serialisation::Full => unsafe { asm!("fence", "fence.i", options(nostack, preserves_flags)) },
    }
}

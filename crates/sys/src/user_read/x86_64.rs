//! x86: `rdpmc`, `rdtsc`, `lfence`, `cpuid`.

use std::arch::asm;
use std::arch::x86_64::{__cpuid, _mm_lfence, _rdtsc};

use super::{Permit, Serialisation};

/// Executes `rdpmc`. It may be executed earlier or later than the instructions around it.
///
/// # Safety
///
/// The permit is of a page that the kernel shares for an event of this thread, mapped at this moment: as long as it is, the
/// kernel keeps CR4.PCE set for this process, and the number is a counter of this CPU.
///
/// # Source
///
/// Intel SDM volume 2B, RDPMC: ECX names the counter, EDX:EAX is its value; with CR4.PCE = 0 it faults. Linux
/// `arch/x86/events/core.c`, `x86_pmu_event_mapped`.
#[inline]
pub(super) unsafe fn counter(permit: Permit) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: the caller promises that the counter exists and may be read. It writes eax and edx only.
    unsafe {
        asm!("rdpmc", in("ecx") permit.number(), out("eax") low, out("edx") high,
             options(nostack, preserves_flags));
    }
    u64::from(high) << 32 | u64::from(low)
}

/// The time stamp counter.
///
/// # Source
///
/// Intel SDM volume 2B, RDTSC.
#[inline]
pub(super) fn time_stamp() -> u64 {
    // SAFETY: part of every 64-bit x86; a process that had the kernel forbid it (`prctl(PR_SET_TSC)`) is killed by any
    // clock of its C library, too.
    unsafe { _rdtsc() }
}

/// Keeps instructions before this from being executed after it, and the other way round.
///
/// # Source
///
/// Intel SDM volume 3A, section "Serializing instructions"; `lfence` lets no later instruction begin before all earlier ones
/// have been executed.
#[inline]
pub fn serialise(how: Serialisation) {
    match how {
        Serialisation::None => {}
        // SAFETY: part of every 64-bit x86; changes nothing.
        Serialisation::Light => unsafe { _mm_lfence() },
        Serialisation::Full => {
            std::hint::black_box(__cpuid(0));
        }
    }
}

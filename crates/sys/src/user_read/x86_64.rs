//! x86: `rdpmc`, `rdtsc`, `lfence`, `mfence`, `cpuid`.

use std::arch::asm;
use std::arch::x86_64::_rdtsc;

use super::{Permit, Serialisation};

/// Executes `rdpmc`. The instruction may be executed earlier or later than the instructions around it.
///
/// # Safety
///
/// The permit is of a page that the kernel shares for an event of this thread, mapped at this moment. As long
/// as it is mapped, the kernel keeps CR4.PCE set for this process, and the number is a counter of this CPU.
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
    // SAFETY: part of every 64-bit x86; a process that had the kernel forbid it (`prctl(PR_SET_TSC)`) is
    // killed by any clock of its C library, too.
    unsafe { _rdtsc() }
}

/// Prevents earlier instructions from being executed after it, and later ones before it.
///
/// # Source
///
/// Intel SDM volume 2B, RDTSC: `mfence` and `lfence` before it, for a read after which everything before is
/// visible; volume 3A, section "Serializing instructions". AMD APM volume 3, MFENCE, LFENCE.
#[inline]
pub fn serialise(how: Serialisation) {
    match how {
        Serialisation::None => {}
        Serialisation::Light => light(),
        Serialisation::Memory => memory(),
        Serialisation::Full => full(),
    }
}

/// Lets no later instruction begin before all earlier ones have been executed. Their stores may not be
/// visible yet.
#[inline]
fn light() {
    // SAFETY: part of every 64-bit x86; changes nothing.
    unsafe { asm!("lfence", options(nostack, preserves_flags)) };
}

/// Lets no later instruction begin before all earlier loads and stores are done, and then acts as [`light`].
/// `mfence` alone orders loads and stores, and other instructions may pass it.
#[inline]
fn memory() {
    // SAFETY: part of every 64-bit x86; changes nothing.
    unsafe { asm!("mfence", "lfence", options(nostack, preserves_flags)) };
}

/// Lets no later instruction be fetched before all earlier ones have been executed and their stores are done.
/// It causes an exit from a virtual machine.
#[inline]
fn full() {
    // SAFETY: part of every 64-bit x86; leaf 0 exists everywhere. It changes eax, ebx, ecx and edx; rbx,
    // which the compiler uses itself, is restored.
    unsafe {
        asm!("mov r8, rbx", "cpuid", "mov rbx, r8", out("r8") _, inout("eax") 0 => _, out("ecx") _, out("edx") _,
             options(nostack, preserves_flags));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INSTRUCTIONS: [(&str, &[u8]); 3] =
        [("lfence", &[0x0f, 0xae, 0xe8]), ("mfence", &[0x0f, 0xae, 0xf0]), ("cpuid", &[0x0f, 0xa2])];
    const RETURN: u8 = 0xc3;

    /// The instructions of [`INSTRUCTIONS`] in a function up to its end.
    fn emitted(function: fn()) -> Vec<&'static str> {
        // SAFETY: the code of this program can be read, and more than 64 bytes of it follow this function's
        // start.
        let code = unsafe { std::slice::from_raw_parts(function as *const u8, 64) };
        let end = code.iter().position(|byte| *byte == RETURN).expect("the function is short");
        let at = |at: usize| INSTRUCTIONS.iter().find(|(_, bytes)| code[at..].starts_with(bytes));
        (0..end).filter_map(|i| Some(at(i)?.0)).collect()
    }

    #[test]
    fn each_choice_emits_its_instructions() {
        assert_eq!(emitted(light), ["lfence"]);
        assert_eq!(emitted(memory), ["mfence", "lfence"]);
        assert_eq!(emitted(full), ["cpuid"]);
    }

    #[test]
    fn a_full_serialisation_leaves_what_the_compiler_keeps_as_it_was() {
        let mut sum = 0_u64;
        for (i, how) in (0..).zip(Serialisation::ALL.into_iter().cycle().take(64)) {
            serialise(how);
            sum += i;
        }
        assert_eq!(sum, (0..64).sum());
    }
}

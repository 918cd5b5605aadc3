//! System calls of Linux on arm64.

use std::arch::asm;

pub(crate) const HERE: bool = true;

/// `getppid`, which has no argument and changes nothing.
///
/// # Source
///
/// Linux `include/uapi/asm-generic/unistd.h`; the registers: `syscall(2)`.
const GETPPID: u64 = 173;

#[inline(never)]
pub(crate) fn calls(rounds: u64) {
    // SAFETY: the system call reads and writes no memory of ours, and the kernel keeps all registers but
    // those that are declared; the block's jump stays within it.
    unsafe {
        asm!(
            "2:",
            "mov x8, #{number}",
            "svc #0",
            "subs {rounds}, {rounds}, #1",
            "b.ne 2b",
            number = const GETPPID,
            rounds = inout(reg) rounds => _,
            out("x8") _,
            out("x0") _,
            options(nostack),
        );
    }
}

/// # Source
///
/// As of [`GETPPID`].
pub(crate) const MMAP: usize = 222;
pub(crate) const MUNMAP: usize = 215;
pub(crate) const MPROTECT: usize = 226;
pub(crate) const MADVISE: usize = 233;

/// A system call with up to six arguments. The result is negative for an error.
///
/// # Safety
///
/// The system call with these arguments must not change memory that anything else relies on.
pub(crate) unsafe fn call(number: usize, arguments: [usize; 6]) -> isize {
    let result;
    // SAFETY: the caller answers for what the call does, and the kernel keeps all registers but those that
    // are declared.
    unsafe {
        asm!(
            "svc #0",
            in("x8") number,
            inlateout("x0") arguments[0] => result,
            in("x1") arguments[1],
            in("x2") arguments[2],
            in("x3") arguments[3],
            in("x4") arguments[4],
            in("x5") arguments[5],
            options(nostack),
        );
    }
    result
}

/// Makes code that was written executable. Caches have lines of at least 16 bytes.
///
/// # Source
///
/// Arm Architecture Reference Manual for A-profile architecture, B2.4.4: sharing of instructions.
pub(crate) fn synchronise_code(start: usize, bytes: usize) {
    for address in (start & !15..start + bytes).step_by(16) {
        // SAFETY: cleaning and invalidating lines by address changes no memory; the address is of code that
        // was just written, so that it is mapped.
        unsafe {
            asm!(
                "dc cvau, {address}",
                "dsb ish",
                "ic ivau, {address}",
                "dsb ish",
                "isb",
                address = in(reg) address,
                options(nostack, preserves_flags),
            );
        }
    }
}

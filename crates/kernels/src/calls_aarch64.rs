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

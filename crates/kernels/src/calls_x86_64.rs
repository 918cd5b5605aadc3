//! System calls of Linux on x86-64.

use std::arch::asm;

pub(crate) const HERE: bool = true;

/// `getppid`, which has no argument and changes nothing.
///
/// # Source
///
/// Linux `arch/x86/entry/syscalls/syscall_64.tbl`; the registers: `syscall(2)`.
const GETPPID: u64 = 110;

#[inline(never)]
pub(crate) fn calls(rounds: u64) {
    // SAFETY: the system call reads and writes no memory of ours, and the kernel keeps all registers but
    // those that are declared; the block's jump stays within it.
    unsafe {
        asm!(
            "2:",
            "mov eax, {number}",
            "syscall",
            "dec {rounds}",
            "jnz 2b",
            number = const GETPPID,
            rounds = inout(reg) rounds => _,
            out("rax") _,
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
}

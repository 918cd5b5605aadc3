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

/// # Source
///
/// As of [`GETPPID`].
pub(crate) const MMAP: usize = 9;
pub(crate) const MUNMAP: usize = 11;
pub(crate) const MPROTECT: usize = 10;
pub(crate) const MADVISE: usize = 28;

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
            "syscall",
            inlateout("rax") number => result,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") arguments[3],
            in("r8") arguments[4],
            in("r9") arguments[5],
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    result
}

/// Makes code that was written executable: these CPUs see it without help.
pub(crate) fn synchronise_code(_: usize, _: usize) {}

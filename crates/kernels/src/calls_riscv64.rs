//! System calls of Linux on riscv64.

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
            "li a7, {number}",
            "ecall",
            "addi {rounds}, {rounds}, -1",
            "bnez {rounds}, 2b",
            number = const GETPPID,
            rounds = inout(reg) rounds => _,
            out("a7") _,
            out("a0") _,
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
            "ecall",
            in("a7") number,
            inlateout("a0") arguments[0] => result,
            in("a1") arguments[1],
            in("a2") arguments[2],
            in("a3") arguments[3],
            in("a4") arguments[4],
            in("a5") arguments[5],
            options(nostack),
        );
    }
    result
}

/// `riscv_flush_icache`, for all threads.
///
/// # Source
///
/// Linux `arch/riscv/include/uapi/asm/unistd.h`.
const FLUSH_ICACHE: usize = 259;

/// Makes code that was written executable on every CPU.
pub(crate) fn synchronise_code(start: usize, bytes: usize) {
    // SAFETY: the call changes no memory.
    let _ = unsafe { call(FLUSH_ICACHE, [start, start + bytes, 0, 0, 0, 0]) };
}

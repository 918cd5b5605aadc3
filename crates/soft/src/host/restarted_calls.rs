//! System calls that a stop interrupts, and that the kernel makes again.

use cyclometer_sys::trace::{self, Registers};

use super::trace_error::TraceResult;

/// Restarts a system call that the tracer's stop has interrupted, and that the kernel would not restart.
/// Without a tracer the call would not have been interrupted. Its timeout starts again.
///
/// # Source
///
/// `signal(7)`, "Interruption of system calls and library functions by stop signals"; Linux
/// `include/linux/errno.h`, `ERESTARTNOHAND`.
pub(super) fn restart_wait(tid: u32) -> TraceResult {
    const ERESTARTNOHAND: i64 = 514;
    const EINTR: i64 = 4;
    /// read, write, connect, accept, sendto, recvfrom, sendmsg, recvmsg, semop, rt_sigtimedwait,
    /// io_getevents, semtimedop, epoll_wait, epoll_pwait, accept4, recvmmsg, sendmmsg, io_pgetevents,
    /// io_uring_enter, epoll_pwait2.
    const WAITS: [u64; 20] =
        [0, 1, 42, 43, 44, 45, 46, 47, 65, 128, 208, 220, 232, 281, 288, 299, 307, 333, 426, 441];
    let registers = trace::registers(tid)?;
    if registers.rax.cast_signed() == -EINTR && WAITS.contains(&registers.orig_rax) {
        trace::set_registers(tid, &Registers { rax: (-ERESTARTNOHAND).cast_unsigned(), ..registers })?;
    }
    Ok(())
}

/// Whether a task is in an interrupted system call that the kernel restarts when it is resumed.
///
/// # Source
///
/// Linux `include/linux/errno.h`, from `ERESTARTSYS` on; `arch/x86/kernel/signal.c`,
/// `arch_do_signal_or_restart`.
pub(super) fn restarts(registers: &Registers) -> bool {
    is_restarted(registers.rax.cast_signed(), registers.orig_rax.cast_signed())
}

/// Whether the kernel restarts the call of this number that has this result.
fn is_restarted(result: i64, number: i64) -> bool {
    matches!(result, -516 | -514..=-512) && number >= 0
}

/// The number of the system call that the kernel makes to restart an interrupted one. The tracer makes it,
/// because the registers were replaced meanwhile.
///
/// # Source
///
/// Linux `arch/x86/kernel/signal.c`, `arch_do_signal_or_restart`; `arch/x86/entry/syscalls/syscall_64.tbl`,
/// `restart_syscall`.
pub(super) fn call_again(result: u64, number: u64) -> u64 {
    const ERESTART_RESTARTBLOCK: i64 = 516;
    const RESTART_SYSCALL: u64 = 219;
    if result.cast_signed() == -ERESTART_RESTARTBLOCK { RESTART_SYSCALL } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_that_the_kernel_restarts_are_made_again() {
        assert!(is_restarted(-512, 0) && is_restarted(-514, 202) && is_restarted(-516, 35));
        assert!(!is_restarted(-4, 0) && !is_restarted(-515, 0) && !is_restarted(-512, -1));
    }

    #[test]
    fn a_system_call_is_made_again_as_the_kernel_would() {
        assert_eq!(call_again(-512_i64 as u64, 202), 202);
        assert_eq!(call_again(-514_i64 as u64, 0), 0);
        assert_eq!(call_again(-516_i64 as u64, 35), 219);
    }
}

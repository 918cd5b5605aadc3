//! Tracing of real processes.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::arch::asm;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use cyclometer_sys::keeper;
use cyclometer_sys::process::{Reap, SIGKILL, reap, signal};
use cyclometer_sys::trace::{
    self, Bell, Change, Options, detach, event_message, interrupt, listen, peek, poke, read_memory, registers,
    resume, seize, send_signal, set_registers, set_signal_info, set_signal_mask, signal_info, signal_mask, step,
    wait_for, write_memory,
};

/// A process of ours that is traced; killed and reaped when it is dropped.
struct Tracee(u32);

impl Tracee {
    /// Forks a process that does `work` after it was seized. The work must not allocate: other tests' threads may
    /// have held locks.
    fn seized(options: Options, work: impl FnOnce()) -> Tracee {
        let tracee = Tracee::waiting(work);
        seize(tracee.0, options | Options::EXIT_KILL).unwrap();
        // The gate is the process's standard input by then: one byte opens it.
        signal(tracee.0, libc::SIGCONT).unwrap();
        assert_eq!(wait_for(tracee.0).unwrap(), Change::Signal(libc::SIGCONT));
        resume(tracee.0, libc::SIGCONT).unwrap();
        tracee
    }

    /// Forks a process that does `work` after `SIGCONT` came.
    fn waiting(work: impl FnOnce()) -> Tracee {
        let go = only(libc::SIGCONT);
        // SAFETY: blocks a signal in this thread; a null old set is allowed.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &go, std::ptr::null_mut()) };
        // SAFETY: the child calls only functions that are safe after fork, and never returns.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: reads an initialised set; a null description is allowed.
            unsafe { libc::sigwaitinfo(&go, std::ptr::null_mut()) };
            work();
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) };
        }
        // SAFETY: as above.
        unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &go, std::ptr::null_mut()) };
        Tracee(u32::try_from(pid).unwrap())
    }

    fn stopped(work: impl FnOnce()) -> Tracee {
        let tracee = Tracee::seized(Options::default(), work);
        interrupt(tracee.0).unwrap();
        assert_eq!(wait_for(tracee.0).unwrap(), Change::Interrupted);
        tracee
    }

    fn next(&self) -> Change {
        wait_for(self.0).unwrap()
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        let _ = signal(self.0, SIGKILL);
        let _ = reap(self.0, Reap::Block);
    }
}

fn only(signal: i32) -> libc::sigset_t {
    // SAFETY: all zero is a valid set.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is initialised, the signal exists.
    unsafe { libc::sigaddset(&mut set, signal) };
    set
}

//! The signals of a tracee.

use std::fmt;
use std::io;

use libc::c_long;

use super::ptrace;
use crate::process::to_pid;

/// The kernel's information about a signal, in the kernel's layout.
///
/// # Source
///
/// `sigaction(2)`, `siginfo_t`; `include/uapi/asm-generic/siginfo.h`: number, error number and code of 4
/// bytes each; from byte 16 fields that depend on the code.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct SignalInfo([u8; 128]);

/// The offset of the fields that depend on the code, in bytes.
const FIELDS: usize = 16;

impl SignalInfo {
    /// The number of the signal.
    pub fn number(&self) -> i32 {
        self.word(0)
    }

    /// The origin of the signal: positive for the kernel, 0 or negative for a process (`SI_USER`,
    /// `SI_TKILL`).
    pub fn code(&self) -> i32 {
        self.word(8)
    }

    /// The address of a fault (`SIGSEGV`, `SIGBUS`, `SIGILL`, `SIGFPE`, `SIGTRAP` of the kernel); meaningless
    /// for other signals.
    pub fn address(&self) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[FIELDS..FIELDS + 8]);
        u64::from_ne_bytes(bytes)
    }

    /// Replaces the address of a fault.
    pub fn set_address(&mut self, address: u64) {
        self.0[FIELDS..FIELDS + 8].copy_from_slice(&address.to_ne_bytes());
    }

    /// The process that sent it; `None` when it came from the kernel or a timer. 0 is a process that is not
    /// visible to us.
    pub fn sender(&self) -> Option<u32> {
        let by_process = matches!(self.code(), libc::SI_USER | libc::SI_QUEUE | libc::SI_TKILL);
        by_process.then(|| self.word(FIELDS).unsigned_abs())
    }

    /// Whether another signal has the same number and origin: the same process or timer.
    ///
    /// # Source
    ///
    /// Linux `include/uapi/asm-generic/siginfo.h`: the ids of a process and of a timer have the same offset;
    /// the kernel's signals have zero there.
    pub fn is_like(&self, other: &SignalInfo) -> bool {
        [0, 8, FIELDS].into_iter().all(|at| self.word(at) == other.word(at))
    }

    fn word(&self, at: usize) -> i32 {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.0[at..at + 4]);
        i32::from_ne_bytes(bytes)
    }
}

impl fmt::Debug for SignalInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignalInfo")
            .field("number", &self.number())
            .field("code", &self.code())
            .field("address", &format_args!("{:#x}", self.address()))
            .finish_non_exhaustive()
    }
}

/// The signal that a tracee stopped for. In stops for events it is artificial: bits 8 to 15 of its code are
/// the event.
///
/// # Errors
///
/// The operating system's: `ESRCH`; `EINVAL` in a stop without a signal.
///
/// # Source
///
/// `ptrace(2)`, `PTRACE_GETSIGINFO`.
pub fn signal_info(tid: u32) -> io::Result<SignalInfo> {
    let mut info = SignalInfo([0; 128]);
    let place = (&raw mut info) as c_long;
    // SAFETY: the kernel writes one `siginfo_t`, which has 128 bytes, as `info` has.
    unsafe { ptrace(libc::PTRACE_GETSIGINFO.into(), tid, 0, place) }?;
    Ok(info)
}

/// Replaces the information that the tracee will get about the signal that it stopped for.
///
/// # Errors
///
/// As [`signal_info`].
///
/// # Source
///
/// `ptrace(2)`, `PTRACE_SETSIGINFO`.
pub fn set_signal_info(tid: u32, info: &SignalInfo) -> io::Result<()> {
    let place = std::ptr::from_ref(info) as c_long;
    // SAFETY: the kernel reads one `siginfo_t`, which has 128 bytes, as `info` has.
    unsafe { ptrace(libc::PTRACE_SETSIGINFO.into(), tid, 0, place) }
}

/// Size of a signal mask for the kernel, in bytes.
const MASK_BYTES: c_long = 8;

/// The signals that a stopped tracee has blocked; bit `n - 1` is signal `n`.
///
/// # Errors
///
/// The operating system's: `ESRCH`.
///
/// # Source
///
/// `ptrace(2)`, `PTRACE_GETSIGMASK`.
pub fn signal_mask(tid: u32) -> io::Result<u64> {
    let mut mask = 0u64;
    let place = (&raw mut mask) as c_long;
    // SAFETY: the kernel writes `MASK_BYTES`, as many as `mask` has.
    unsafe { ptrace(libc::PTRACE_GETSIGMASK.into(), tid, MASK_BYTES, place) }?;
    Ok(mask)
}

/// Replaces the signals that a stopped tracee has blocked.
///
/// # Errors
///
/// As [`signal_mask`].
///
/// # Source
///
/// `ptrace(2)`, `PTRACE_SETSIGMASK`.
pub fn set_signal_mask(tid: u32, mask: u64) -> io::Result<()> {
    let place = (&raw const mask) as c_long;
    // SAFETY: the kernel reads `MASK_BYTES`, as many as `mask` has.
    unsafe { ptrace(libc::PTRACE_SETSIGMASK.into(), tid, MASK_BYTES, place) }
}

/// Sends a signal to one thread of a process.
///
/// # Errors
///
/// The operating system's: `ESRCH` when the process has no such thread, `EPERM`.
///
/// # Source
///
/// `tgkill(2)`.
pub fn send_signal(pid: u32, tid: u32, signal: i32) -> io::Result<()> {
    let [pid, tid] = [to_pid(pid)?, to_pid(tid)?].map(c_long::from);
    // SAFETY: touches no memory of ours.
    match unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, c_long::from(signal)) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_process_is_a_sender() {
        let with_code = |code: i32| {
            let mut info = SignalInfo([0; 128]);
            info.0[8..12].copy_from_slice(&code.to_ne_bytes());
            info.0[16..20].copy_from_slice(&77u32.to_ne_bytes());
            info.sender()
        };
        assert_eq!([0, -1, -6].map(with_code), [Some(77); 3]);
        assert_eq!([1, 2, 0x80, -2].map(with_code), [None; 4]);
    }
}

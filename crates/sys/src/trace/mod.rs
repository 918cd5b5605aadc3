//! Tracing processes: safe functions over `ptrace(2)`, waiting for tracees, their memory and signals.
//!
//! The kernel ties a tracee to the *thread* that seized it: all calls about one tracee must come from that
//! thread. Every function takes the id of a thread; the first thread of a process has the id of the process.
//! The error is `ESRCH` for a thread that is not a tracee of the calling thread, has ended, or is not stopped
//! as required.
//!
//! Except [`permitted`] and [`tracer_of`], these functions allocate no memory.
//!
//! # Source
//!
//! `ptrace(2)`; `include/uapi/linux/ptrace.h`.

mod bell;
mod change;
mod memory;
mod permitted;
mod signal;

use std::io;
use std::mem::MaybeUninit;
use std::ops::BitOr;

use libc::c_long;

pub use bell::Bell;
pub use change::{Change, poll, poll_stop, wait, wait_for, wait_for_stop};
pub use memory::{peek, poke, read_memory, write_memory};
pub use permitted::{Forbidden, permitted, tracer_of};
pub use signal::{SignalInfo, send_signal, set_signal_info, set_signal_mask, signal_info, signal_mask};

/// The general registers of a thread as the kernel lays them out.
///
/// # Source
///
/// `arch/x86/include/asm/user_64.h`, `struct user_regs_struct`.
pub type Registers = libc::user_regs_struct;

/// The events at which a tracee stops, in addition to signals; a set, combined with `|`.
///
/// # Source
///
/// `ptrace(2)`, `PTRACE_SETOPTIONS`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Options(c_long);

impl Options {
    /// Stop at `fork(2)` and trace the child from its first instruction: [`Change::Fork`].
    pub const FORK: Options = Options(libc::PTRACE_O_TRACEFORK as c_long);
    /// The same for `vfork(2)`: [`Change::VFork`].
    pub const VFORK: Options = Options(libc::PTRACE_O_TRACEVFORK as c_long);
    /// Stop the caller at the end of its `vfork(2)`: its child executed a program, or ended.
    pub const VFORK_DONE: Options = Options(libc::PTRACE_O_TRACEVFORKDONE as c_long);
    /// The same for other uses of `clone(2)`, including threads: [`Change::Clone`].
    pub const CLONE: Options = Options(libc::PTRACE_O_TRACECLONE as c_long);
    /// Stop in the new program at the end of `execve(2)`, before its first instruction: [`Change::Exec`].
    pub const EXEC: Options = Options(libc::PTRACE_O_TRACEEXEC as c_long);
    /// Stop at the beginning of a thread's end, when its memory can still be read: [`Change::Exiting`].
    pub const EXIT: Options = Options(libc::PTRACE_O_TRACEEXIT as c_long);
    /// Kill the tracee when its tracer ends.
    pub const EXIT_KILL: Options = Options(libc::PTRACE_O_EXITKILL as c_long);
    /// Distinguish stops at system calls from stops by `SIGTRAP`, by bit 7 of the signal's number.
    pub const SYSGOOD: Options = Options(libc::PTRACE_O_TRACESYSGOOD as c_long);
}

impl BitOr for Options {
    type Output = Options;

    fn bitor(self, other: Options) -> Options {
        Options(self.0 | other.0)
    }
}

/// Begins to trace a thread without stopping it.
///
/// # Errors
///
/// The operating system's: `EPERM` without permission (another user's, Yama, traced by another process
/// already).
///
/// # Source
///
/// `ptrace(2)`, `PTRACE_SEIZE`; "Ptrace access mode checking".
pub fn seize(tid: u32, options: Options) -> io::Result<()> {
    order(libc::PTRACE_SEIZE.into(), tid, options.0)
}

/// Asks a running tracee to stop: [`Change::Interrupted`] follows, or another stop that comes first.
///
/// # Errors
///
/// The operating system's: `ESRCH`.
///
/// # Source
///
/// `ptrace(2)`, `PTRACE_INTERRUPT`.
pub fn interrupt(tid: u32) -> io::Result<()> {
    order(libc::PTRACE_INTERRUPT.into(), tid, 0)
}

/// Lets a stopped tracee continue. `signal` is delivered to it if it stopped for one, 0 for none.
///
/// # Errors
///
/// The operating system's: `ESRCH`; `EIO` when the signal has no such number.
///
/// # Source
///
/// `ptrace(2)`, `PTRACE_CONT`.
pub fn resume(tid: u32, signal: i32) -> io::Result<()> {
    order(libc::PTRACE_CONT.into(), tid, signal.into())
}

/// Lets a stopped tracee execute one instruction, with `signal` as for [`resume`].
///
/// It then stops with `SIGTRAP`, or in the first instruction of the signal's handler.
///
/// # Errors
///
/// As [`resume`].
///
/// # Source
///
/// `ptrace(2)`, `PTRACE_SINGLESTEP`.
pub fn step(tid: u32, signal: i32) -> io::Result<()> {
    order(libc::PTRACE_SINGLESTEP.into(), tid, signal.into())
}

/// Keeps a tracee in the stop of its group: it reports [`Change::Interrupted`] when it is continued.
///
/// # Errors
///
/// The operating system's: `ESRCH`; `EIO` when it is in no stop of that kind.
///
/// # Source
///
/// `ptrace(2)`, `PTRACE_LISTEN`.
pub fn listen(tid: u32) -> io::Result<()> {
    order(libc::PTRACE_LISTEN.into(), tid, 0)
}

/// Detaches a stopped tracee and lets it continue, with `signal` as for [`resume`].
///
/// # Errors
///
/// As [`resume`].
///
/// # Source
///
/// `ptrace(2)`, `PTRACE_DETACH`.
pub fn detach(tid: u32, signal: i32) -> io::Result<()> {
    order(libc::PTRACE_DETACH.into(), tid, signal.into())
}

/// The general registers of a stopped tracee.
///
/// # Errors
///
/// The operating system's: `ESRCH`.
///
/// # Source
///
/// `ptrace(2)`, `PTRACE_GETREGS`.
pub fn registers(tid: u32) -> io::Result<Registers> {
    let mut registers = MaybeUninit::<Registers>::zeroed();
    let place = registers.as_mut_ptr() as c_long;
    // SAFETY: the kernel writes one `user_regs_struct`, which `registers` is.
    unsafe { ptrace(libc::PTRACE_GETREGS.into(), tid, 0, place) }?;
    // SAFETY: all integers, initialised to zero and then by the call.
    Ok(unsafe { registers.assume_init() })
}

/// Replaces the general registers of a stopped tracee.
///
/// In a stop inside a system call, an `orig_rax` of -1 keeps the kernel from restarting the call.
///
/// # Errors
///
/// The operating system's: `ESRCH`; `EIO` for values that no user program may have.
///
/// # Source
///
/// `ptrace(2)`, `PTRACE_SETREGS`; `arch/x86/kernel/ptrace.c`, `putreg`.
pub fn set_registers(tid: u32, registers: &Registers) -> io::Result<()> {
    let place = std::ptr::from_ref(registers) as c_long;
    // SAFETY: the kernel reads one `user_regs_struct`, which `registers` is.
    unsafe { ptrace(libc::PTRACE_SETREGS.into(), tid, 0, place) }
}

/// Replaces only the instruction pointer of a stopped tracee, which is cheaper than [`set_registers`].
///
/// # Errors
///
/// The operating system's: `ESRCH`; `EIO` for an address that no user program may have.
///
/// # Source
///
/// `ptrace(2)`, `PTRACE_POKEUSER`; `arch/x86/include/asm/user_64.h`, `struct user`, which starts with the
/// registers.
pub fn set_instruction_pointer(tid: u32, address: u64) -> io::Result<()> {
    let place = std::mem::offset_of!(Registers, rip) as c_long;
    // SAFETY: the kernel takes the word from the argument; nothing of our memory is read or written.
    unsafe { ptrace(libc::PTRACE_POKEUSER.into(), tid, place, address.cast_signed()) }
}

/// The extended state of a stopped tracee, as `XSAVE` writes it: vector registers, masks and more.
///
/// # Errors
///
/// The operating system's: `ESRCH`, `ENODEV` where the CPU has no `XSAVE`.
///
/// # Source
///
/// `ptrace(2)`, `PTRACE_GETREGSET` with `NT_X86_XSTATE`; Intel SDM volume 1, section 13.4.
pub fn extended_state(tid: u32) -> io::Result<Vec<u8>> {
    const NT_X86_XSTATE: c_long = 0x202;
    let mut bytes = vec![0; 1 << 16];
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let place = (&raw mut part) as c_long;
    // SAFETY: the kernel writes to `bytes`, as many as `part` says at most, and how many to `part`.
    unsafe { ptrace(libc::PTRACE_GETREGSET.into(), tid, NT_X86_XSTATE, place) }?;
    bytes.truncate(part.iov_len);
    Ok(bytes)
}

/// The message of the last event of a stopped tracee. For [`Change::Fork`], [`Change::VFork`] and
/// [`Change::Clone`] it is the id of the new thread. For [`Change::Exec`] it is the former id of the thread
/// that called. For [`Change::Exiting`] it is the exit status as `wait(2)` returns it.
///
/// # Errors
///
/// The operating system's: `ESRCH`.
///
/// # Source
///
/// `ptrace(2)`, `PTRACE_GETEVENTMSG`.
pub fn event_message(tid: u32) -> io::Result<u64> {
    let mut message = 0u64;
    let place = (&raw mut message) as c_long;
    // SAFETY: the kernel writes one `unsigned long`, which has 64 bits on this architecture.
    unsafe { ptrace(libc::PTRACE_GETEVENTMSG.into(), tid, 0, place) }?;
    Ok(message)
}

/// Whether a tracee is stopped for an event. A tracee that is killed in a reported stop proceeds to the stop
/// of its end without another report. Only this function shows that; [`event_message`] then belongs to the
/// stop of its end.
///
/// # Errors
///
/// The operating system's: `ESRCH`; `EINVAL` where it is stopped for neither an event nor a signal.
///
/// # Source
///
/// `ptrace(2)`, `PTRACE_GETSIGINFO`; Linux `kernel/signal.c`, `ptrace_do_notify`: the code is that of the
/// event, above `SIGTRAP`.
pub fn is_at(tid: u32, event: Change) -> io::Result<bool> {
    let code = signal_info(tid)?.code();
    Ok(code > 0xff && Change::decode(code << 8 | 0x7f) == event)
}

/// A request whose last argument is a number.
fn order(request: c_long, tid: u32, number: c_long) -> io::Result<()> {
    // SAFETY: the callers' requests take numbers: nothing of our memory is read or written.
    unsafe { ptrace(request, tid, 0, number) }
}

/// The system call itself, without the C library's wrapper, which hides errors of the requests that peek.
///
/// # Safety
///
/// The memory at `data` that `request` reads or writes must be valid and have the size that `request`
/// requires.
unsafe fn ptrace(request: c_long, tid: u32, address: c_long, data: c_long) -> io::Result<()> {
    let tid = c_long::from(crate::process::to_pid(tid)?);
    // SAFETY: promised by the caller; everything else is the tracee's.
    match unsafe { libc::syscall(libc::SYS_ptrace, request, tid, address, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

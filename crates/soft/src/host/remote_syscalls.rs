//! System calls on behalf of a stopped program.

use std::fs::File;
use std::io;
use std::path::Path;

use cyclometer_sys::identity::{self, FileIdentity};
use cyclometer_sys::process::errno;
use cyclometer_sys::trace::{self, Change, Registers};

use super::proc::first_thread;
use super::restore_guard::RestoreGuard;

/// Bytes of code that make a system call and stop: `syscall; int3`.
pub(crate) const GADGET: [u8; 3] = [0x0f, 0x05, 0xcc];
const SIGTRAP: i32 = 5;
pub(super) const SIGSTOP: i32 = 19;

/// System calls of x86-64.
///
/// # Source
///
/// Linux `arch/x86/entry/syscalls/syscall_64.tbl`.
pub(crate) mod number {
    #![allow(missing_docs)]
    pub(crate) const READ: u64 = 0;
    pub(crate) const OPEN: u64 = 2;
    pub(crate) const CLOSE: u64 = 3;
    pub(crate) const FSTAT: u64 = 5;
    pub(crate) const LSEEK: u64 = 8;
    pub(crate) const MMAP: u64 = 9;
    pub(crate) const MPROTECT: u64 = 10;
    pub(crate) const MUNMAP: u64 = 11;
    pub(crate) const RT_SIGACTION: u64 = 13;
    pub(crate) const RT_SIGRETURN: u64 = 15;
    pub(crate) const PREAD64: u64 = 17;
    pub(crate) const READV: u64 = 19;
    pub(crate) const MREMAP: u64 = 25;
    pub(crate) const MADVISE: u64 = 28;
    pub(crate) const SHMAT: u64 = 30;
    pub(crate) const DUP: u64 = 32;
    pub(crate) const DUP2: u64 = 33;
    pub(crate) const ALARM: u64 = 37;
    pub(crate) const SETITIMER: u64 = 38;
    pub(crate) const SENDFILE: u64 = 40;
    pub(crate) const CLONE: u64 = 56;
    pub(crate) const EXECVE: u64 = 59;
    pub(crate) const EXIT: u64 = 60;
    pub(crate) const SHMDT: u64 = 67;
    pub(crate) const FCNTL: u64 = 72;
    pub(crate) const TRUNCATE: u64 = 76;
    pub(crate) const CREAT: u64 = 85;
    pub(crate) const GETRLIMIT: u64 = 97;
    pub(crate) const PTRACE: u64 = 101;
    pub(crate) const PERSONALITY: u64 = 135;
    pub(crate) const MLOCKALL: u64 = 151;
    pub(crate) const MODIFY_LDT: u64 = 154;
    pub(crate) const PRCTL: u64 = 157;
    pub(crate) const ARCH_PRCTL: u64 = 158;
    pub(crate) const SETRLIMIT: u64 = 160;
    pub(crate) const SCHED_SETAFFINITY: u64 = 203;
    pub(crate) const SCHED_GETAFFINITY: u64 = 204;
    pub(crate) const REMAP_FILE_PAGES: u64 = 216;
    pub(crate) const TIMER_SETTIME: u64 = 223;
    pub(crate) const TIMER_DELETE: u64 = 226;
    pub(crate) const EXIT_GROUP: u64 = 231;
    pub(crate) const OPENAT: u64 = 257;
    pub(crate) const SPLICE: u64 = 275;
    pub(crate) const DUP3: u64 = 292;
    pub(crate) const PREADV: u64 = 295;
    pub(crate) const PRLIMIT64: u64 = 302;
    pub(crate) const SECCOMP: u64 = 317;
    pub(crate) const MEMFD_CREATE: u64 = 319;
    pub(crate) const EXECVEAT: u64 = 322;
    pub(crate) const USERFAULTFD: u64 = 323;
    pub(crate) const COPY_FILE_RANGE: u64 = 326;
    pub(crate) const PREADV2: u64 = 327;
    pub(crate) const PKEY_MPROTECT: u64 = 329;
    pub(crate) const RSEQ: u64 = 334;
    pub(crate) const CLONE3: u64 = 435;
    pub(crate) const CLOSE_RANGE: u64 = 436;
    pub(crate) const OPENAT2: u64 = 437;
    pub(crate) const PROCESS_MADVISE: u64 = 440;
}

/// Bytes of the program's memory that are overwritten with a path or a `struct stat`, and restored.
///
/// # Source
///
/// Linux `arch/x86/include/uapi/asm/stat.h`: a `struct stat` has 144 bytes.
pub(crate) const LENT: usize = 144;

/// Signals of faults, which come again unless a handler changes the cause: SIGILL, SIGBUS, SIGSEGV.
const FAULTS: [i32; 3] = [4, 7, 11];
/// The number of fault signals that may come from other processes.
const MOST_FAULTS: u32 = 100;

/// Whether a process has other threads than this one.
///
/// # Source
///
/// `proc(5)`, `/proc/pid/task`: a folder for each thread, and a link to each folder.
pub(super) fn has_threads(tid: u32) -> bool {
    use std::os::unix::fs::MetadataExt;
    const OF_ONE: u64 = 3;
    std::fs::metadata(format!("/proc/{tid}/task")).is_ok_and(|folder| folder.nlink() > OF_ONE)
}

/// Waits for the next event of a task. The first of several threads may be reaped without an event, if it was
/// killed; that is an error.
fn wait_for(tid: u32, crowded: bool) -> io::Result<Change> {
    const PAUSE: std::time::Duration = std::time::Duration::from_micros(20);
    if !crowded {
        return trace::wait_for(tid);
    }
    loop {
        if let Some(change) = trace::poll(tid)? {
            return Ok(change);
        }
        let stat = super::proc::text(format!("/proc/{tid}/stat"))?;
        if stat.rsplit_once(") ").is_none_or(|(_, fields)| fields.starts_with(['Z', 'X'])) {
            return Err(io::Error::from_raw_os_error(errno::ESRCH));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Resumes a stopped task up to a trap that it is about to raise; its process may have other threads. A
/// signal that arrives before is sent again.
///
/// SIGSTOP is not sent again: a SIGCONT in between would come before it. The process is stopped for the
/// kernel, and the task runs on. When it is resumed from the trap, it reports first whether it is still
/// stopped.
///
/// # Errors
///
/// The operating system's, when the task is gone.
///
/// # Source
///
/// `ptrace(2)`, "Group-stop" and `PTRACE_INTERRUPT`; Linux `kernel/signal.c`, `do_jobctl_trap`.
pub(super) fn run_to_trap(
    tid: u32,
    crowded: bool,
    run: impl Fn(u32, i32) -> io::Result<()>,
) -> io::Result<()> {
    let (mut given, mut stopped, mut pending) = (0, false, None);
    let mut faults = 0;
    loop {
        run(tid, given)?;
        given = 0;
        match wait_for(tid, crowded)? {
            Change::Signal(SIGTRAP) => break,
            Change::Signal(SIGSTOP) => (given, stopped) = (SIGSTOP, true),
            // The state after an earlier call.
            Change::Group(_) => stopped = true,
            Change::Signal(signal) => {
                pending = Some(signal);
                faults += u32::from(FAULTS.contains(&signal));
                // No instruction can be executed there.
                if faults > MOST_FAULTS {
                    return Err(io::Error::from(io::ErrorKind::InvalidInput));
                }
            }
            Change::Interrupted => {}
            _ => return Err(io::Error::from_raw_os_error(errno::ESRCH)),
        }
    }
    if stopped {
        trace::interrupt(tid)?;
    }
    let again = |signal| trace::send_signal(first_thread(tid).unwrap_or(tid), tid, signal);
    pending.map_or(Ok(()), again)
}

/// A stopped program and where in its memory the [`GADGET`] is.
#[derive(Clone, Copy)]
pub(crate) struct RemoteSyscalls {
    pub(crate) tid: u32,
    gadget: u64,
    /// The program's registers, in a series of calls.
    saved: Option<Registers>,
    /// Its process has other threads.
    crowded: bool,
}

impl RemoteSyscalls {
    pub(crate) fn new(tid: u32, gadget: u64) -> RemoteSyscalls {
        RemoteSyscalls { tid, gadget, saved: None, crowded: false }
    }

    /// Makes a system call; its result. Registers, signals and their mask are as before, in a series behind
    /// its last one.
    ///
    /// # Errors
    ///
    /// The call's own error, or the operating system's when the program is gone.
    pub(crate) fn call(self, number: u64, arguments: [u64; 6]) -> io::Result<u64> {
        let Some(saved) = self.saved else { return self.series(|series| series.call(number, arguments)) };
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        let call = Registers {
            rip: self.gadget,
            rax: number,
            orig_rax: u64::MAX,
            rdi,
            rsi,
            rdx,
            r10,
            r8,
            r9,
            ..saved
        };
        trace::set_registers(self.tid, &call)?;
        self.finish()
    }

    /// Makes several system calls, and saves registers and signal mask once for all of them. Both are
    /// restored on every way out.
    ///
    /// # Errors
    ///
    /// The error of `work`, or the operating system's when the program is gone.
    pub(crate) fn series<T>(self, work: impl FnOnce(RemoteSyscalls) -> io::Result<T>) -> io::Result<T> {
        let saved = trace::registers(self.tid)?;
        let mask = trace::signal_mask(self.tid)?;
        let saved_state = RestoreGuard::new(|| {
            let registers = trace::set_registers(self.tid, &Registers { orig_rax: u64::MAX, ..saved });
            trace::set_signal_mask(self.tid, mask).and(registers)
        });
        // A blocked trap resets the program's handler.
        trace::set_signal_mask(self.tid, !(1 << (SIGTRAP - 1)))?;
        let result = work(RemoteSyscalls { saved: Some(saved), crowded: has_threads(self.tid), ..self });
        saved_state.restore()?;
        result
    }

    /// Runs until the stop behind the call.
    fn finish(self) -> io::Result<u64> {
        run_to_trap(self.tid, self.crowded, trace::resume)?;
        let registers = trace::registers(self.tid)?;
        match registers.rax.cast_signed() {
            error @ -4095..0 => Err(io::Error::from_raw_os_error(-error as i32)),
            _ => Ok(registers.rax),
        }
    }

    /// Maps a file of the program, so that no core file has it.
    ///
    /// # Errors
    ///
    /// As [`RemoteSyscalls::call`]; `EEXIST` where the range is not free.
    ///
    /// # Source
    ///
    /// `mmap(2)`, `madvise(2)`; Linux `include/uapi/asm-generic/mman-common.h`.
    pub(crate) fn map(self, file: u64, at: u64, len: u64, offset: u64, protection: u64) -> io::Result<()> {
        const MAP_SHARED: u64 = 1;
        const MAP_NORESERVE: u64 = 0x4000;
        const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;
        const MADV_DONTDUMP: u64 = 16;
        let flags = MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
        let got = self.call(number::MMAP, [at, len, protection, flags, file, offset])?;
        if got == at {
            // Without it a core file is only larger.
            let _ = self.call(number::MADVISE, [at, len, MADV_DONTDUMP, 0, 0, 0]);
            return Ok(());
        }
        // Kernels before 4.17 take the address for a wish.
        self.call(number::MUNMAP, [got, len, 0, 0, 0, 0])?;
        Err(io::Error::from(io::ErrorKind::AlreadyExists))
    }

    /// Closes a descriptor of the program.
    ///
    /// # Errors
    ///
    /// As [`RemoteSyscalls::call`].
    pub(crate) fn close(self, descriptor: u64) -> io::Result<()> {
        self.call(number::CLOSE, [descriptor, 0, 0, 0, 0, 0]).map(drop)
    }

    /// Opens, in the tracer too, the very file that the program has open at a descriptor.
    ///
    /// # Errors
    ///
    /// As [`RemoteSyscalls::call`]; `NotFound` where the file is known only by its path in `/proc`, which
    /// names another file.
    pub(crate) fn open_same(self, theirs: u64) -> io::Result<File> {
        // Linux before 5.6 has no such call, some sandboxes forbid it, and it takes the first thread of a
        // process only.
        identity::descriptor_of(self.tid, theirs).or_else(|_| self.open_same_by_path(theirs))
    }

    fn open_same_by_path(self, theirs: u64) -> io::Result<File> {
        let identity = self.in_own_page(|remote, page| remote.identity(theirs, page))?;
        identity::open_same(Path::new(&format!("/proc/{}/fd/{theirs}", self.tid)), identity)
    }

    /// The identity of the file at a descriptor, as the program itself sees it. Overwrites [`LENT`] bytes at
    /// an address.
    ///
    /// # Errors
    ///
    /// As [`RemoteSyscalls::call`].
    ///
    /// # Source
    ///
    /// `fstat(2)`; Linux `arch/x86/include/uapi/asm/stat.h`: `st_dev`, then `st_ino`.
    fn identity(self, descriptor: u64, at: u64) -> io::Result<FileIdentity> {
        self.call(number::FSTAT, [descriptor, at, 0, 0, 0, 0])?;
        let (device, inode) = (trace::peek(self.tid, at)?, trace::peek(self.tid, at + 8)?);
        Ok(FileIdentity { device, inode })
    }

    /// Whether the program has this very file open at a descriptor. Overwrites [`LENT`] bytes at an address.
    ///
    /// # Errors
    ///
    /// As [`RemoteSyscalls::call`]; `NotFound` where it is another one.
    pub(crate) fn expect(self, descriptor: u64, identity: FileIdentity, at: u64) -> io::Result<()> {
        match self.identity(descriptor, at)? == identity {
            true => Ok(()),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Opens a path, which ends in zero. It is written to an address first.
    ///
    /// # Errors
    ///
    /// As [`RemoteSyscalls::call`].
    pub(crate) fn open_path(self, at: u64, path: &str, flags: u64) -> io::Result<u64> {
        const AT_FDCWD: u64 = -100_i64 as u64;
        if path.len() > LENT || trace::write_memory(self.tid, at, path.as_bytes())? != path.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.call(number::OPENAT, [AT_FDCWD, at, flags, 0, 0, 0])
    }

    /// Runs `work`, which overwrites [`LENT`] bytes of the program's memory, and restores them.
    ///
    /// # Errors
    ///
    /// The work's; `InvalidInput` where the program has no such memory.
    pub(crate) fn borrow_memory<T>(
        self,
        at: u64,
        work: impl FnOnce(RemoteSyscalls) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut before = [0; LENT];
        if trace::read_memory(self.tid, at, &mut before)? != LENT {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let lent = RestoreGuard::new(|| trace::write_memory(self.tid, at, &before).map(drop));
        let done = work(self);
        lent.restore()?;
        done
    }

    /// Runs `work` with a page of the program's memory that is mapped for it.
    fn in_own_page<T>(self, work: impl FnOnce(RemoteSyscalls, u64) -> io::Result<T>) -> io::Result<T> {
        const PAGE: u64 = 0x1000;
        const READ_WRITE: u64 = 3;
        const MAP_PRIVATE_ANONYMOUS: u64 = 0x22;
        let page = self.call(number::MMAP, [0, PAGE, READ_WRITE, MAP_PRIVATE_ANONYMOUS, u64::MAX, 0])?;
        let mapped = RestoreGuard::new(|| self.call(number::MUNMAP, [page, PAGE, 0, 0, 0, 0]).map(drop));
        let done = work(self, page);
        mapped.restore()?;
        done
    }

    /// Makes a file of memory that can be sealed, whose descriptor is the program's. `name` is the address of
    /// any short text.
    ///
    /// # Errors
    ///
    /// As [`RemoteSyscalls::call`].
    ///
    /// # Source
    ///
    /// `memfd_create(2)`; Linux `include/uapi/linux/memfd.h`.
    pub(crate) fn memory_file(self, name: u64) -> io::Result<u64> {
        const MFD_CLOEXEC: u64 = 1;
        const MFD_ALLOW_SEALING: u64 = 2;
        const MFD_NOEXEC_SEAL: u64 = 8;
        let flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
        match self.call(number::MEMFD_CREATE, [name, flags | MFD_NOEXEC_SEAL, 0, 0, 0, 0]) {
            Err(e) if e.raw_os_error() == Some(errno::EINVAL) => {
                self.call(number::MEMFD_CREATE, [name, flags, 0, 0, 0, 0])
            }
            answer => answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::process::{Child, Command};
    use std::time::{Duration, Instant};

    use super::*;

    const GETPID: u64 = 39;

    /// A program that waits, stopped by its tracer; killed when it is dropped.
    struct StoppedProgram(Child);

    impl StoppedProgram {
        fn start() -> StoppedProgram {
            let waiting = StoppedProgram(Command::new("sleep").arg("100").spawn().unwrap());
            let tid = waiting.0.id();
            trace::seize(tid, trace::Options::EXIT_KILL).unwrap();
            trace::interrupt(tid).unwrap();
            assert_eq!(trace::wait_for(tid).unwrap(), Change::Interrupted);
            waiting
        }
    }

    impl Drop for StoppedProgram {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_program_that_is_stopped_in_a_series_of_calls_is_told_to_be_stopped_behind_it() {
        if trace::permitted().is_err() {
            return;
        }
        for (before, behind) in [(0, 1), (1, 0), (1, 1), (2, 5)] {
            let waiting = StoppedProgram::start();
            let tid = waiting.0.id();
            let at = trace::registers(tid).unwrap().rip;
            let code = trace::peek(tid, at).unwrap();
            let [a, b, c] = GADGET;
            trace::poke(tid, at, u64::from_le_bytes([a, b, c, 0, 0, 0, 0, 0])).unwrap();
            let calls = |remote: RemoteSyscalls, count| {
                (0..count).for_each(|_| assert_eq!(remote.call(GETPID, [0; 6]).unwrap(), tid.into()));
            };
            let series = |remote: RemoteSyscalls| {
                calls(remote, before);
                trace::send_signal(tid, tid, SIGSTOP)?;
                calls(remote, behind);
                Ok(())
            };
            RemoteSyscalls::new(tid, at).series(series).unwrap();
            trace::poke(tid, at, code).unwrap();
            trace::resume(tid, 0).unwrap();
            // Without a call behind the signal, it is still pending.
            if behind == 0 {
                assert_eq!(trace::wait_for(tid).unwrap(), Change::Signal(SIGSTOP));
                trace::resume(tid, SIGSTOP).unwrap();
            }
            assert_eq!(told(tid), Some(Change::Group(SIGSTOP)), "{before} calls before, {behind} behind");
        }
    }

    #[test]
    fn a_panic_during_system_calls_leaves_the_program_as_it_was() {
        if trace::permitted().is_err() {
            return;
        }
        let waiting = StoppedProgram::start();
        let tid = waiting.0.id();
        let before = trace::registers(tid).unwrap();
        let mask = trace::signal_mask(tid).unwrap();
        let [code, stack] = [before.rip, before.rsp].map(|at| trace::peek(tid, at).unwrap());
        let [a, b, c] = GADGET;
        trace::poke(tid, before.rip, u64::from_le_bytes([a, b, c, 0, 0, 0, 0, 0])).unwrap();
        let values = |r: &Registers| [r.rip, r.rsp, r.rax, r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9, r.eflags];
        let calls = |remote: RemoteSyscalls| -> io::Result<()> {
            remote.borrow_memory(before.rsp, |remote| {
                assert_eq!(remote.call(GETPID, [0; 6]).unwrap(), tid.into());
                trace::poke(tid, before.rsp, !stack).unwrap();
                assert_ne!(values(&trace::registers(tid).unwrap()), values(&before));
                panic!("expected");
            })
        };
        let series = AssertUnwindSafe(|| RemoteSyscalls::new(tid, before.rip).series(calls));
        assert!(catch_unwind(series).is_err());
        trace::poke(tid, before.rip, code).unwrap();
        assert_eq!(values(&trace::registers(tid).unwrap()), values(&before));
        assert_eq!((trace::signal_mask(tid).unwrap(), trace::peek(tid, before.rsp).unwrap()), (mask, stack));
    }

    #[test]
    fn a_file_of_a_program_is_opened_by_its_path_only_if_it_is_the_same() {
        if trace::permitted().is_err() {
            return;
        }
        let waiting = StoppedProgram::start();
        let tid = waiting.0.id();
        let at = trace::registers(tid).unwrap().rip;
        let code = trace::peek(tid, at).unwrap();
        let [a, b, c] = GADGET;
        trace::poke(tid, at, u64::from_le_bytes([a, b, c, 0, 0, 0, 0, 0])).unwrap();
        let name = trace::registers(tid).unwrap().rsp;
        let remote = RemoteSyscalls::new(tid, at);
        let theirs = remote.memory_file(name).unwrap();
        let file = remote.open_same_by_path(theirs).unwrap();
        let other = remote.memory_file(name).unwrap();
        let identity = FileIdentity::of(&file).unwrap();
        remote.in_own_page(|remote, page| remote.expect(theirs, identity, page)).unwrap();
        let refused = remote.in_own_page(|remote, page| remote.expect(other, identity, page)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::NotFound);
        assert!(remote.open_same_by_path(1000).is_err());
        trace::poke(tid, at, code).unwrap();
    }

    /// The events of a task that has an event soon.
    fn told(tid: u32) -> Option<Change> {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(300) {
            if let Some(change) = trace::poll(tid).unwrap() {
                return Some(change);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    }
}

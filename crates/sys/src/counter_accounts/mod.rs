//! Cycles, instructions and energy for which the kernel of macOS accounts, without root.
//!
//! Two functions of the system library give them: `proc_pid_rusage` for a process of the same user, also
//! after its end and before it is reaped, and `thread_selfcounts` for the calling thread. The second one is
//! private, and both differ between versions of macOS. They are therefore looked up when the program runs,
//! and what is absent is an error of the operating system's (`Unsupported`).
//!
//! The counts include kernel mode. Those of a process have all its threads, also ended ones, and none of its
//! children.
//!
//! # Source
//!
//! xnu `bsd/sys/resource.h` (`rusage_info_v4`, `rusage_info_v6`), `bsd/sys/resource_private.h` (`THSC_*`),
//! `bsd/kern/sys_recount.c`, `bsd/kern/kern_resource.c`.

#[cfg(target_os = "macos")]
mod system;
#[cfg(not(target_os = "macos"))]
#[path = "system_other.rs"]
mod system;

use std::ffi::{c_int, c_void};
use std::io;

pub use system::of_system;

use crate::macos::Library;
use crate::process::errno;

/// `int thread_selfcounts(thread_selfcounts_kind_t kind, void *dst, size_t size)`.
type ThreadSelfcounts = unsafe extern "C" fn(u32, *mut c_void, usize) -> c_int;

/// `int proc_pid_rusage(int pid, int flavor, rusage_info_t *buffer)`.
type ProcPidRusage = unsafe extern "C" fn(c_int, c_int, *mut c_void) -> c_int;

/// The kinds that are tried, and how many numbers each has: `THSC_TIME_ENERGY_CPI`, `THSC_TIME_CPI`,
/// `THSC_CPI`. All begin with instructions and cycles; user time, system time and energy follow.
///
/// The kinds by core type are not used: before macOS 14 or so the kernel has them in another order.
const KINDS: [(u32, usize); 3] = [(5, 5), (3, 4), (1, 2)];

/// `RUSAGE_INFO_V6`, since macOS 13.
const RUSAGE_INFO_V6: c_int = 6;

/// `RUSAGE_INFO_V4`, since macOS 10.13.
const RUSAGE_INFO_V4: c_int = 4;

/// `struct rusage_info_v6`: a UUID and 56 numbers. The earlier ones are its beginnings.
#[repr(C)]
struct RusageInfo {
    uuid: [u8; 16],
    numbers: [u64; RusageInfo::NUMBERS],
}

impl RusageInfo {
    const NUMBERS: usize = 56;
    const CHILD_USER_TIME: usize = 10;
    const CHILD_SYSTEM_TIME: usize = 11;
    const CHILD_ELAPSED: usize = 15;
    const INSTRUCTIONS: usize = 29;
    const CYCLES: usize = 30;
    const PERFORMANCE_INSTRUCTIONS: usize = 38;
    const PERFORMANCE_CYCLES: usize = 39;
    const ENERGY_NJ: usize = 40;
    const PERFORMANCE_ENERGY_NJ: usize = 41;
}

/// The account of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ThreadAccount {
    /// Cycles, in user and kernel mode.
    pub cycles: u64,
    /// Instructions, in user and kernel mode.
    pub instructions: u64,
    /// Energy, in nJ; 0 where the chip or this version of macOS does not report it.
    pub energy_nj: u64,
}

/// The account of a process.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ProcessAccount {
    /// Cycles, in user and kernel mode.
    pub cycles: u64,
    /// Instructions, in user and kernel mode.
    pub instructions: u64,
    /// The shares of performance cores, and energy; `None` before macOS 13.
    pub cores: Option<CoreTypeAccount>,
    /// Time of children that it has reaped, in units of its own: it grows when a child that used time is
    /// reaped. The children's counts are in no account.
    pub children_time: u64,
}

/// The additional numbers of `rusage_info_v6`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CoreTypeAccount {
    /// Cycles on performance cores.
    pub performance_cycles: u64,
    /// Instructions on performance cores.
    pub performance_instructions: u64,
    /// Energy on all cores, in nJ.
    pub energy_nj: u64,
    /// Energy on performance cores, in nJ.
    pub performance_energy_nj: u64,
}

/// The two functions of the system library.
pub trait CounterAccounts: Send + Sync + std::fmt::Debug {
    /// The account of the calling thread.
    ///
    /// # Errors
    ///
    /// `Unsupported` where the function is absent (before macOS 12.4); the operating system's otherwise:
    /// `ENOTSUP` on hardware without these counters.
    fn thread(&self) -> io::Result<ThreadAccount>;

    /// The account of a process that runs, or has ended and is not reaped.
    ///
    /// # Errors
    ///
    /// `Unsupported` where the function is absent; the operating system's otherwise: `ESRCH`, `EPERM` for
    /// another user's process.
    fn process(&self, pid: u32) -> io::Result<ProcessAccount>;
}

/// Functions that were looked up in a library.
#[derive(Clone, Copy, Debug)]
pub struct AccountFunctions {
    thread: Option<ThreadSelfcounts>,
    process: Option<ProcPidRusage>,
}

impl AccountFunctions {
    /// The functions of an open library: the system's, or one that behaves as it does. `None` where it has
    /// neither.
    pub fn of_library(library: &Library) -> Option<AccountFunctions> {
        // SAFETY: the type is the signature that xnu's `bsd/sys/resource_private.h` gives for this name.
        let thread = unsafe { library.function::<ThreadSelfcounts>(c"thread_selfcounts") }.ok();
        // SAFETY: the type is the signature that Apple's `libproc.h` gives for this name.
        let process = unsafe { library.function::<ProcPidRusage>(c"proc_pid_rusage") }.ok();
        (thread.is_some() || process.is_some()).then_some(AccountFunctions { thread, process })
    }

    fn rusage(&self, pid: c_int, flavor: c_int) -> io::Result<RusageInfo> {
        let process = self.process.ok_or(io::ErrorKind::Unsupported)?;
        let mut info = RusageInfo { uuid: [0; 16], numbers: [0; RusageInfo::NUMBERS] };
        // SAFETY: the function writes the struct of this flavor, which is no longer than `info`.
        match unsafe { process(pid, flavor, (&raw mut info).cast()) } {
            0 => Ok(info),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl CounterAccounts for AccountFunctions {
    fn thread(&self) -> io::Result<ThreadAccount> {
        let thread = self.thread.ok_or(io::ErrorKind::Unsupported)?;
        for (kind, numbers) in KINDS {
            let mut counts = [0u64; 5];
            let room = &mut counts[..numbers];
            // SAFETY: the function writes at most as many bytes as it is told.
            if unsafe { thread(kind, room.as_mut_ptr().cast(), size_of_val(room)) } == 0 {
                let [instructions, cycles, _user_time, _system_time, energy_nj] = counts;
                return Ok(ThreadAccount { cycles, instructions, energy_nj });
            }
            let error = io::Error::last_os_error();
            // A kernel without this kind may have one with fewer numbers.
            if error.raw_os_error() != Some(errno::EINVAL) {
                return Err(error);
            }
        }
        Err(io::Error::from_raw_os_error(errno::EINVAL))
    }

    fn process(&self, pid: u32) -> io::Result<ProcessAccount> {
        let pid = c_int::try_from(pid).map_err(|_| io::Error::from_raw_os_error(errno::ESRCH))?;
        match self.rusage(pid, RUSAGE_INFO_V6) {
            Ok(info) => Ok(info.account(true)),
            // The kernel of an earlier version has no such flavor.
            Err(e) if e.raw_os_error() == Some(errno::EINVAL) => {
                Ok(self.rusage(pid, RUSAGE_INFO_V4)?.account(false))
            }
            Err(e) => Err(e),
        }
    }
}

impl RusageInfo {
    fn account(&self, has_core_types: bool) -> ProcessAccount {
        let number = |index: usize| self.numbers[index];
        let cores = CoreTypeAccount {
            performance_cycles: number(RusageInfo::PERFORMANCE_CYCLES),
            performance_instructions: number(RusageInfo::PERFORMANCE_INSTRUCTIONS),
            energy_nj: number(RusageInfo::ENERGY_NJ),
            performance_energy_nj: number(RusageInfo::PERFORMANCE_ENERGY_NJ),
        };
        let of_children =
            [RusageInfo::CHILD_USER_TIME, RusageInfo::CHILD_SYSTEM_TIME, RusageInfo::CHILD_ELAPSED];
        ProcessAccount {
            cycles: number(RusageInfo::CYCLES),
            instructions: number(RusageInfo::INSTRUCTIONS),
            cores: has_core_types.then_some(cores),
            children_time: of_children.into_iter().map(number).fold(0, u64::saturating_add),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel that numbers what it writes, and knows the flavors up to `NEWEST`.
    unsafe extern "C" fn rusage<const NEWEST: c_int>(pid: c_int, flavor: c_int, out: *mut c_void) -> c_int {
        let numbers: usize = if flavor == 4 { 35 } else { RusageInfo::NUMBERS };
        if pid != 7 || flavor > NEWEST {
            return fail(if pid == 7 { errno::EINVAL } else { errno::ESRCH });
        }
        for index in 0..numbers {
            let value = if (10..16).contains(&index) { 0 } else { index as u64 };
            let place = out.cast::<u64>().wrapping_add(2 + index);
            // SAFETY: the caller gives a struct of 56 numbers behind 16 bytes.
            unsafe { place.write(value) };
        }
        0
    }

    /// A kernel that numbers what it writes, and knows the kinds up to `NEWEST`.
    unsafe extern "C" fn selfcounts<const NEWEST: u32>(kind: u32, out: *mut c_void, size: usize) -> c_int {
        if kind > NEWEST {
            return fail(errno::EINVAL);
        }
        assert!([(5, 40), (3, 32), (1, 16)].contains(&(kind, size)));
        for index in 0..size / 8 {
            let place = out.cast::<u64>().wrapping_add(index);
            // SAFETY: the caller gives room for so many bytes.
            unsafe { place.write(index as u64 + 1) };
        }
        0
    }

    /// Fails as the kernel does, with this error number.
    fn fail(number: i32) -> c_int {
        let (pid, signal) = if number == errno::ESRCH { (c_int::MAX, 0) } else { (own_pid(), c_int::MAX) };
        // SAFETY: sends nothing: there is no such process, or no such signal.
        let failed = unsafe { libc::kill(pid, signal) };
        assert_eq!((failed, io::Error::last_os_error().raw_os_error()), (-1, Some(number)));
        failed
    }

    fn own_pid() -> c_int {
        c_int::try_from(std::process::id()).unwrap()
    }

    fn functions(thread: Option<ThreadSelfcounts>, process: Option<ProcPidRusage>) -> AccountFunctions {
        AccountFunctions { thread, process }
    }

    #[test]
    fn the_numbers_are_found_where_macos_has_them() {
        let account = functions(None, Some(rusage::<6>)).process(7).unwrap();
        let cores = CoreTypeAccount {
            performance_cycles: 39,
            performance_instructions: 38,
            energy_nj: 40,
            performance_energy_nj: 41,
        };
        let expected = ProcessAccount { cycles: 30, instructions: 29, cores: Some(cores), children_time: 0 };
        assert_eq!(account, expected);
    }

    #[test]
    fn an_earlier_macos_gives_totals_alone() {
        let account = functions(None, Some(rusage::<4>)).process(7).unwrap();
        assert_eq!((account.cycles, account.instructions, account.cores), (30, 29, None));
    }

    #[test]
    fn a_thread_has_cycles_instructions_and_energy() {
        let account = functions(Some(selfcounts::<5>), None).thread().unwrap();
        assert_eq!(account, ThreadAccount { cycles: 2, instructions: 1, energy_nj: 5 });
    }

    #[test]
    fn a_thread_has_no_energy_where_the_kernel_lacks_its_kind() {
        for thread in [selfcounts::<4> as ThreadSelfcounts, selfcounts::<2>] {
            let account = functions(Some(thread), None).thread().unwrap();
            assert_eq!(account, ThreadAccount { cycles: 2, instructions: 1, energy_nj: 0 });
        }
        let error = functions(Some(selfcounts::<0>), None).thread().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(errno::EINVAL));
    }

    #[test]
    fn absent_functions_and_processes_are_errors() {
        let none = functions(None, None);
        assert_eq!(none.thread().unwrap_err().kind(), io::ErrorKind::Unsupported);
        assert_eq!(none.process(7).unwrap_err().kind(), io::ErrorKind::Unsupported);
        let some = functions(None, Some(rusage::<6>));
        for pid in [8, u32::MAX] {
            assert_eq!(some.process(pid).unwrap_err().raw_os_error(), Some(errno::ESRCH));
        }
    }

    #[test]
    fn a_process_that_has_reaped_children_is_known() {
        for index in 10..16 {
            let mut info = RusageInfo { uuid: [0; 16], numbers: [0; RusageInfo::NUMBERS] };
            info.numbers[index] = 3;
            let expected = if [10, 11, 15].contains(&index) { 3 } else { 0 };
            assert_eq!(info.account(true).children_time, expected, "number {index}");
        }
    }
}

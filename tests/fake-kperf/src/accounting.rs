//! Accounts of processes and threads, for which macOS asks no root: `proc_pid_rusage` and
//! `thread_selfcounts`.
//!
//! Each process and each thread is a chip of its own, on which the scenario's work is done for as long as
//! the process or thread has really used a CPU. The counts are those of the chip's fixed counters, in user
//! and kernel mode. A process whose work has an end (`process loop:591`) has all of it done when it ends,
//! whatever it did, so that its account is the same in every run.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};

use crate::fake_kernel::Errno;
use crate::kpc::{answered, kernel};
use crate::machine::CountingMachine;
use crate::scenario::{Clock, ProcessWork, Scenario};

/// The kinds of `thread_selfcounts` that this library has: `THSC_TIME_ENERGY_CPI`.
const TIME_ENERGY_CPI: u32 = 5;

/// Bytes of `rusage_info_v4` and `rusage_info_v6`.
const V4_BYTES: usize = 16 + 35 * 8;
const V6_BYTES: usize = 16 + 56 * 8;

/// The accounts of the processes that were asked for.
#[derive(Debug, Default)]
pub struct Accounts {
    processes: HashMap<c_int, WorkingChip>,
}

/// The counts of a chip.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Counted {
    cycles: u64,
    instructions: u64,
}

/// A chip that does the work of one process or thread.
#[derive(Debug)]
struct WorkingChip {
    machine: CountingMachine,
    /// The counts before any work.
    before: Counted,
    /// How far it is, in ns of its work.
    done_ns: u64,
}

impl WorkingChip {
    fn new(scenario: &Scenario) -> WorkingChip {
        let alone = Scenario { cpus: 1, ..scenario.clone() };
        let mut machine = CountingMachine::new(&alone);
        machine.work(&[(0, scenario.process.workload.clone())], Clock::Real);
        let before = fixed(&mut machine);
        WorkingChip { machine, before, done_ns: 0 }
    }

    /// The counts after so much time of its work.
    fn at(&mut self, ns: u64) -> Counted {
        self.machine.pass(Clock::Step(ns.saturating_sub(self.done_ns)));
        self.done_ns = self.done_ns.max(ns);
        let now = fixed(&mut self.machine);
        Counted {
            cycles: now.cycles - self.before.cycles,
            instructions: now.instructions - self.before.instructions,
        }
    }
}

fn fixed(machine: &mut CountingMachine) -> Counted {
    let counts = machine.read();
    let counter = |n: usize| counts.first().and_then(|cpu| cpu.get(n)).copied().unwrap_or(0);
    Counted { cycles: counter(0), instructions: counter(1) }
}

/// A process of the system that this library really runs on.
struct RealProcess {
    used_ns: u64,
    has_ended: bool,
    /// Page faults of children that it has waited for.
    children_faults: u64,
}

impl RealProcess {
    /// Looks at a process.
    ///
    /// # Errors
    ///
    /// `ESRCH`; `EPERM` for another user's.
    fn find(pid: c_int) -> Result<RealProcess, Errno> {
        // SAFETY: signal 0 is not sent.
        if pid <= 0 || unsafe { libc::kill(pid, 0) } != 0 {
            let errno = std::io::Error::last_os_error().raw_os_error();
            return Err(if errno == Some(libc::EPERM) { Errno::EPERM } else { Errno(libc::ESRCH) });
        }
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).map_err(|_| Errno(libc::ESRCH))?;
        let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let fields: Vec<&str> = behind_name.split_whitespace().collect();
        Ok(RealProcess {
            used_ns: process_clock(pid),
            has_ended: matches!(fields.first(), Some(&("Z" | "X"))),
            children_faults: fields.get(8).and_then(|faults| faults.parse().ok()).unwrap_or(0),
        })
    }
}

/// The CPU time of a process, in ns.
///
/// # Source
///
/// Linux `include/linux/posix-timers_types.h`: the clock of a process is the complement of its id in bits 3
/// and up, and `CPUCLOCK_SCHED`.
fn process_clock(pid: c_int) -> u64 {
    clock((!pid << 3) | 2)
}

fn clock(id: c_int) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec.
    unsafe { libc::clock_gettime(id as libc::clockid_t, &raw mut time) };
    let (seconds, nanos) =
        (u64::try_from(time.tv_sec).unwrap_or(0), u64::try_from(time.tv_nsec).unwrap_or(0));
    seconds * 1_000_000_000 + nanos
}

impl Accounts {
    /// The numbers of `rusage_info_v6` that are not 0, by index.
    fn numbers(&mut self, pid: c_int, scenario: &Scenario) -> Result<Vec<(usize, u64)>, Errno> {
        let process = RealProcess::find(pid)?;
        if scenario.vm {
            return Ok(Vec::new());
        }
        let ProcessWork { lasts_ns, performance_percent, .. } = scenario.process;
        let ns = match lasts_ns {
            Some(all) if process.has_ended => all,
            Some(all) => all.min(process.used_ns),
            None => process.used_ns,
        };
        let chip = self.processes.entry(pid).or_insert_with(|| WorkingChip::new(scenario));
        let counted = chip.at(ns);
        if process.has_ended {
            self.processes.remove(&pid);
        }
        let share = |count: u64| count / 100 * performance_percent;
        let (cycles, fast) = (counted.cycles, share(counted.cycles));
        Ok(vec![
            (15, process.children_faults),
            (29, counted.instructions),
            (30, cycles),
            (38, share(counted.instructions)),
            (39, fast),
            (40, fast + (cycles - fast) / 4),
            (41, fast),
        ])
    }
}

/// The account of a process.
///
/// # Safety
///
/// There is room for the struct of this flavor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn proc_pid_rusage(pid: c_int, flavor: c_int, out: *mut c_void) -> c_int {
    let mut kernel = kernel();
    let entered = kernel.enter("proc_pid_rusage");
    let bytes = match flavor {
        4 => Ok(V4_BYTES),
        6 if kernel.scenario().macos >= (13, 0) => Ok(V6_BYTES),
        _ => Err(Errno::EINVAL),
    };
    let scenario = kernel.scenario().clone();
    let found = entered.and(bytes).and_then(|bytes| Ok((bytes, kernel.accounts().numbers(pid, &scenario)?)));
    answered(found.map(|(bytes, numbers)| {
        let mut info = vec![0u8; bytes];
        for (index, number) in numbers {
            if let Some(place) = info.get_mut(16 + index * 8..16 + index * 8 + 8) {
                place.copy_from_slice(&number.to_ne_bytes());
            }
        }
        // SAFETY: the caller promises so much room.
        let room = unsafe { std::slice::from_raw_parts_mut(out.cast::<u8>(), bytes) };
        room.copy_from_slice(&info);
    }))
}

thread_local! {
    /// The chip of this thread.
    static THREAD: RefCell<Option<WorkingChip>> = const { RefCell::new(None) };
}

/// The account of the calling thread.
///
/// # Safety
///
/// There is room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thread_selfcounts(kind: u32, out: *mut c_void, size: usize) -> c_int {
    let mut kernel = kernel();
    let entered = kernel.enter("thread_selfcounts");
    let scenario = kernel.scenario().clone();
    drop(kernel);
    let known = kind == TIME_ENERGY_CPI && scenario.macos >= (12, 4);
    let known = if known { Ok(()) } else { Err(Errno(libc::ENOTSUP)) };
    answered(entered.and(known).map(|()| {
        let counted = THREAD.with_borrow_mut(|chip| {
            let chip = chip.get_or_insert_with(|| WorkingChip::new(&scenario));
            if scenario.vm {
                Counted::default()
            } else {
                chip.at(clock(libc::CLOCK_THREAD_CPUTIME_ID as c_int))
            }
        });
        let numbers = [counted.instructions, counted.cycles, 0, 0, counted.cycles];
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
        let length = size.min(bytes.len());
        // SAFETY: the caller promises room for `size` bytes, and these are not more.
        let room = unsafe { std::slice::from_raw_parts_mut(out.cast::<u8>(), length) };
        room.copy_from_slice(&bytes[..length]);
    }))
}

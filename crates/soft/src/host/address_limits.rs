//! Limits that programs set on their addresses (`RLIMIT_AS`), as a shell's `ulimit -v` does.
//!
//! A program means its own memory, and not the code cache. So the kernel gets a limit that is higher by the
//! size of a translation, and the program reads the limit that it has set. It keeps that view over `execve`,
//! and its children inherit it, as they inherit the limits.
//!
//! A limit from before the command cannot be raised. There a translation takes half of it at most, and a
//! program with less is detached.

use std::{fs, io};

use cyclometer_sys::process::{address_limits, errno};
use cyclometer_sys::trace::{self, Change, Registers};

use super::action::{ActionResult, TaskAction};
use super::code_cache::MOST_ADDRESSES;
use super::process::TaskMode;
use super::remote_syscalls::{RemoteSyscalls, number};
use super::syscalls::EFAULT;
use super::tracer::{TraceError, Tracer};

/// A soft limit and a hard one, in bytes; [`UNLIMITED`].
pub(super) type AddressLimits = [u64; 2];

/// # Source
///
/// Linux `include/uapi/linux/resource.h`, `RLIM64_INFINITY`.
const UNLIMITED: u64 = u64::MAX;

/// A system call that reads or sets the limits on addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LimitCall {
    /// The process that the call names; 0 for the caller.
    of: u32,
    /// The address of the new limits.
    new: Option<u64>,
    /// The address for the old limits.
    old: Option<u64>,
}

/// The limit on addresses.
///
/// # Source
///
/// Linux `include/uapi/asm-generic/resource.h`.
const RLIMIT_AS: u32 = 9;

/// The call as a question about limits on addresses, if it is one.
///
/// # Source
///
/// `getrlimit(2)`.
pub(super) fn limit_call(number: u64, arguments: [u64; 4]) -> Option<LimitCall> {
    let [first, second, third, fourth] = arguments;
    let some = |address: u64| (address != 0).then_some(address);
    let (of, resource, new, old) = match number {
        number::SETRLIMIT => (0, first, Some(second), None),
        number::GETRLIMIT => (0, first, None, Some(second)),
        number::PRLIMIT64 => (first as u32, second, some(third), some(fourth)),
        _ => return None,
    };
    (resource as u32 == RLIMIT_AS).then_some(LimitCall { of, new, old })
}

/// Limits that a process believes in, and those that the kernel has for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReportedLimits {
    reported: AddressLimits,
    real: AddressLimits,
}

/// The owner of limits: a process, or a child that has not stopped for the first time.
#[derive(Clone, Copy)]
enum LimitOwner {
    Process(usize),
    EarlyChild(u32),
}

/// The limits to give to the kernel for those that a program asks for. `real` are its limits in the kernel,
/// `remembered` those that it was told.
fn widened(call: AddressLimits, real: AddressLimits, remembered: AddressLimits) -> AddressLimits {
    let [soft, hard] = call.map(|limit| limit.saturating_add(MOST_ADDRESSES));
    match call {
        // The kernel refuses that.
        [soft, hard] if soft > hard => call,
        // A program that keeps or lowers its hard limit may do so.
        [_, kept] if kept <= remembered[1] => [soft.min(real[1]), hard.min(real[1])],
        // Raising it may be refused.
        _ => [soft, hard],
    }
}

impl Tracer {
    /// The number of addresses that a translation may use: those above the limit that the program knows of,
    /// or half of the limit. The program might need the other half.
    pub(super) fn allowance(&self, tid: u32) -> u64 {
        let Some(real) = real_limits(tid).filter(|[soft, _]| *soft != UNLIMITED) else { return u64::MAX };
        let process = self.tasks.get(&tid).map(|task| task.process);
        let reported = |process| self.reported(LimitOwner::Process(process), real)[0];
        let spare = process.map_or(0, |process| real[0].saturating_sub(reported(process)));
        spare.max(real[0] / 2)
    }

    /// The limits that a process believes in where the kernel has these for it.
    fn reported(&self, whose: LimitOwner, real: AddressLimits) -> AddressLimits {
        let remembered = match whose {
            LimitOwner::Process(process) => self.processes[process].limits,
            LimitOwner::EarlyChild(child) => {
                self.fork_events.get(&child).and_then(|fork_event| fork_event.limits)
            }
        };
        remembered.filter(|remembered| remembered.real == real).map_or(real, |remembered| remembered.reported)
    }

    fn note_limits(&mut self, whose: LimitOwner, limits: ReportedLimits) {
        match whose {
            LimitOwner::Process(process) => self.processes[process].limits = Some(limits),
            LimitOwner::EarlyChild(child) => {
                self.fork_events.entry(child).and_modify(|fork_event| fork_event.limits = Some(limits));
            }
        }
    }

    /// Handles a call that reads or sets the limits on addresses.
    pub(super) fn handle_limits(&mut self, tid: u32, registers: Registers, call: LimitCall) -> ActionResult {
        let filtered = self.task(tid)?.filtered;
        // If no call can be made on its behalf, the program gets the limit that it asks for, with the
        // tracer's addresses included.
        let target = self.target(tid, call.of).filter(|_| !filtered);
        let Some((whose, real)) = target.and_then(|(of, whose)| Some((whose, real_limits(of)?))) else {
            return Ok(TaskAction::Resume);
        };
        let old = self.reported(whose, real);
        if call.new.is_none() && old == real {
            return Ok(TaskAction::Resume);
        }
        let answer = match self.set_limits(tid, whose, call, (real, old)) {
            // A process that was killed meanwhile is gone, too.
            Err(e) if e.raw_os_error() == Some(errno::ESRCH) && !is_alive(tid) => {
                return Err(TraceError::Gone);
            }
            Err(e) if e.raw_os_error().is_some() => super::maps_listing::refusal(&e),
            Err(_) => -EFAULT as u64,
            Ok(()) if call.old.is_some_and(|address| write_limits(tid, address, old).is_err()) => {
                -EFAULT as u64
            }
            Ok(()) => 0,
        };
        Ok(TaskAction::Emulate { registers, result: answer })
    }

    /// A task of the process with an id, as the program names it, and the owner of its limits; `None` where
    /// it is not followed. A parent may name its child before that has stopped.
    fn target(&self, tid: u32, id: u32) -> Option<(u32, LimitOwner)> {
        let of = if id == 0 { tid } else { id };
        let whose = match self.tasks.get(&of) {
            Some(task) => LimitOwner::Process(task.process),
            None => {
                self.fork_events.get(&of)?.thread_of.map_or(LimitOwner::EarlyChild(of), LimitOwner::Process)
            }
        };
        // In another PID namespace an id belongs to another process.
        let list = |of: &str| fs::read_link(format!("/proc/{of}/ns/pid")).ok();
        (id == 0 || list(&tid.to_string()) == list("self")).then_some((of, whose))
    }

    /// Sets limits, if the call does. `real` are the limits in the kernel, `remembered` those that the
    /// process was told.
    fn set_limits(
        &mut self,
        tid: u32,
        whose: LimitOwner,
        call: LimitCall,
        (real, remembered): (AddressLimits, AddressLimits),
    ) -> io::Result<()> {
        let Some(address) = call.new else { return Ok(()) };
        let reported = read_limits(tid, address)?;
        let real = widened(reported, real, remembered);
        let Some(TaskMode::Translated(context)) = self.tasks.get(&tid).map(|task| &task.mode) else {
            return Ok(());
        };
        let cache = context.cache.borrow();
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&real[0].to_ne_bytes());
        bytes[8..16].copy_from_slice(&real[1].to_ne_bytes());
        cache.write_scratch(context.slot, &bytes);
        let (remote, scratch_address) =
            (RemoteSyscalls::new(tid, cache.gadget()), cache.scratch_address(context.slot));
        drop(cache);
        remote.call(number::PRLIMIT64, [call.of.into(), RLIMIT_AS.into(), scratch_address, 0, 0, 0])?;
        self.note_limits(whose, ReportedLimits { reported, real });
        Ok(())
    }
}

/// Whether a task is not about to end.
fn is_alive(tid: u32) -> bool {
    trace::is_at(tid, Change::Exiting).is_ok_and(|ends| !ends)
}

/// The limits that the kernel has for a task's process.
fn real_limits(tid: u32) -> Option<AddressLimits> {
    // The right to trace does not always include the right to read limits.
    let text = || super::proc::text(format!("/proc/{tid}/limits")).ok();
    address_limits(tid).ok().or_else(|| listed(&text()?))
}

/// The limits on addresses in a list of all limits.
///
/// # Source
///
/// `proc(5)`, `/proc/pid/limits`.
fn listed(text: &str) -> Option<AddressLimits> {
    let line = text.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    let mut limits = line.split_ascii_whitespace().map(|word| match word {
        "unlimited" => Some(UNLIMITED),
        number => number.parse().ok(),
    });
    Some([limits.next()??, limits.next()??])
}

/// # Source
///
/// `prlimit(2)`, `struct rlimit`: the soft limit and the hard one.
fn read_limits(tid: u32, address: u64) -> io::Result<AddressLimits> {
    let mut bytes = [0; 16];
    let read = trace::read_memory(tid, address, &mut bytes).unwrap_or(0);
    let words = bytes.as_chunks::<8>().0;
    let whole = || [u64::from_ne_bytes(words[0]), u64::from_ne_bytes(words[1])];
    (read == bytes.len()).then(whole).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

fn write_limits(tid: u32, address: u64, limits: AddressLimits) -> io::Result<()> {
    let bytes: Vec<u8> = limits.into_iter().flat_map(u64::to_ne_bytes).collect();
    match trace::write_memory(tid, address, &bytes) {
        Ok(written) if written == bytes.len() => Ok(()),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: AddressLimits = [UNLIMITED; 2];

    #[test]
    fn limits_are_higher_by_a_translation_for_the_kernel() {
        let wide = |limit: u64| limit + MOST_ADDRESSES;
        assert_eq!(widened([100, 200], FREE, FREE), [wide(100), wide(200)]);
        assert_eq!(widened([100, UNLIMITED], FREE, FREE), [wide(100), UNLIMITED]);
        assert_eq!(widened(FREE, FREE, FREE), FREE);
        // Lower than before, and back to the hard one.
        let (real, remembered) = ([wide(100), wide(200)], [100, 200]);
        assert_eq!(widened([50, 150], real, remembered), [wide(50), wide(150)]);
        assert_eq!(widened([200, 200], real, remembered), [wide(200), wide(200)]);
    }

    #[test]
    fn a_hard_limit_that_was_there_before_is_not_raised() {
        let real = [1000, 1000];
        assert_eq!(widened([500, 1000], real, real), [1000, 1000]);
        assert_eq!(widened([500, 600], real, real), [1000, 1000]);
        assert_eq!(widened([500, 1001], real, real)[1], 1001 + MOST_ADDRESSES, "which is refused");
    }

    #[test]
    fn a_soft_limit_above_the_hard_one_stays_so() {
        for call in [[300, 200], [UNLIMITED, 200], [UNLIMITED, UNLIMITED - 1]] {
            assert_eq!(widened(call, FREE, FREE), call);
        }
    }

    #[test]
    fn limits_are_read_from_the_list_of_all() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
            Max open files            1024                 4096                 files     \n\
            Max address space         4000000000           unlimited            bytes     \n";
        assert_eq!(listed(text), Some([4_000_000_000, UNLIMITED]));
        assert_eq!(listed(""), None);
        let own = super::super::proc::text("/proc/self/limits").unwrap();
        assert_eq!(listed(&own), address_limits(std::process::id()).ok());
    }

    #[test]
    fn calls_about_other_limits_are_none_of_these() {
        let call = |number, first, second| limit_call(number, [first, second, 3, 4]);
        assert_eq!(call(number::SETRLIMIT, 9, 7), Some(LimitCall { of: 0, new: Some(7), old: None }));
        assert_eq!(call(number::GETRLIMIT, 9, 7), Some(LimitCall { of: 0, new: None, old: Some(7) }));
        assert_eq!(call(number::PRLIMIT64, 5, 9), Some(LimitCall { of: 5, new: Some(3), old: Some(4) }));
        assert_eq!(call(number::PRLIMIT64, 5, 7), None);
        assert_eq!(call(number::GETRLIMIT, 3, 7), None);
        assert_eq!(call(number::PRCTL, 9, 7), None);
    }
}

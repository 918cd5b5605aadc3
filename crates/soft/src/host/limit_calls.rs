//! Calls that read or set the limits on addresses.
//!
//! The types are in [`address_limits`](super::address_limits).

use std::{fs, io};

use cyclometer_sys::process::{address_limits, errno};
use cyclometer_sys::trace::{self, Change, Registers};

use super::action::{ActionResult, TaskAction};
use super::address_limits::{AddressLimits, LimitCall, RLIMIT_AS, ReportedLimits, listed, widened};
use super::memory_limit::MemoryLimit;
use super::process::TaskMode;
use super::remote_syscalls::{RemoteSyscalls, number};
use super::syscalls::EFAULT;
use super::trace_error::TraceError;
use super::tracees::Tracees;

/// The owner of limits: a process, or a child that has not stopped for the first time.
#[derive(Clone, Copy)]
enum LimitOwner {
    Process(usize),
    EarlyChild(u32),
}

impl Tracees {
    /// The number of addresses that a translation may use: those above the limit that the program knows of,
    /// or half of the limit. The program might need the other half.
    pub(super) fn allowance(&self, tid: u32) -> MemoryLimit {
        let Some(real) = real_limits(tid) else { return MemoryLimit::Unlimited };
        let MemoryLimit::Bytes(limit) = real.soft else { return MemoryLimit::Unlimited };
        let process = self.tasks.get(&tid).map(|task| task.process);
        let spare = process.map_or(0, |process| {
            let reported = self.reported(LimitOwner::Process(process), real).soft;
            limit.saturating_sub(reported.to_kernel())
        });
        MemoryLimit::Bytes(spare.max(limit / 2))
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
    fn target(&self, tid: u32, id: Option<u32>) -> Option<(u32, LimitOwner)> {
        let of = id.unwrap_or(tid);
        let whose = match self.tasks.get(&of) {
            Some(task) => LimitOwner::Process(task.process),
            None => {
                self.fork_events.get(&of)?.thread_of.map_or(LimitOwner::EarlyChild(of), LimitOwner::Process)
            }
        };
        // In another PID namespace an id belongs to another process.
        let list = |of: &str| fs::read_link(format!("/proc/{of}/ns/pid")).ok();
        (id.is_none() || list(&tid.to_string()) == list("self")).then_some((of, whose))
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
        let [soft, hard] = real.to_kernel().map(u64::to_ne_bytes);
        bytes[..8].copy_from_slice(&soft);
        bytes[8..16].copy_from_slice(&hard);
        cache.write_scratch(context.slot, &bytes);
        let (remote, scratch_address) =
            (RemoteSyscalls::new(tid, cache.gadget()), cache.scratch_address(context.slot));
        drop(cache);
        let of = u64::from(call.of.unwrap_or(0));
        remote.call(number::PRLIMIT64, [of, RLIMIT_AS.into(), scratch_address, 0, 0, 0])?;
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
    address_limits(tid).ok().map(AddressLimits::from_kernel).or_else(|| listed(&text()?))
}

/// # Source
///
/// `prlimit(2)`, `struct rlimit`: the soft limit and the hard one.
fn read_limits(tid: u32, address: u64) -> io::Result<AddressLimits> {
    let mut bytes = [0; 16];
    let read = trace::read_memory(tid, address, &mut bytes).unwrap_or(0);
    let words = bytes.as_chunks::<8>().0;
    let whole = || AddressLimits::from_kernel([u64::from_ne_bytes(words[0]), u64::from_ne_bytes(words[1])]);
    (read == bytes.len()).then(whole).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

fn write_limits(tid: u32, address: u64, limits: AddressLimits) -> io::Result<()> {
    let bytes: Vec<u8> = limits.to_kernel().into_iter().flat_map(u64::to_ne_bytes).collect();
    match trace::write_memory(tid, address, &bytes) {
        Ok(written) if written == bytes.len() => Ok(()),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

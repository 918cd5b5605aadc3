//! Handlers of watched system calls.
//!
//! The types are in [`syscalls`](crate::host::syscalls).

use cyclometer_sys::trace::{self, Registers};

use super::Tracer;
use crate::host::action::{ActionResult, TaskAction};
use crate::host::file_writes::WriteEffect;
use crate::host::listing_calls::{names_proc, names_status};
use crate::host::remote_syscalls::number;
use crate::host::restartable::{SHARED, found};
use crate::host::restartable_checks::SharingAction;
use crate::host::syscalls::{EFAULT, SyscallAction, action_for};
use crate::host::task_state::{StopRequest, TaskEvent};
use crate::host::trace_error::{TraceError, TraceResult};

/// Calls behind which a process expects no more signals of a source.
const ENDS_SIGNALS: [u64; 8] = [
    number::RT_SIGACTION,
    number::ALARM,
    number::SETITIMER,
    number::EXECVE,
    number::EXIT,
    number::TIMER_SETTIME,
    number::TIMER_DELETE,
    number::EXECVEAT,
];

impl Tracer {
    /// A watched system call is about to be made.
    pub(super) fn system_call(&mut self, tid: u32, registers: Registers) -> ActionResult {
        if ENDS_SIGNALS.contains(&(registers.rax & 0xffff_ffff)) {
            self.delayed_signals.send_before_call(&self.tracees, tid);
        }
        let shares = self.tracees.process(tid).is_some_and(|process| process.shares);
        match SharingAction::before(tid, &registers, shares)? {
            SharingAction::None => {}
            SharingAction::Search => self.begin_sharing(tid)?,
            SharingAction::Refuse => return Err(found(SHARED)),
        }
        match action_for(tid, &registers) {
            SyscallAction::Make => Ok(TaskAction::Resume),
            SyscallAction::ChangeMappings(call) => self.tracees.change_mappings(tid, &call, registers),
            SyscallAction::DiscardMemory(start, end) => {
                self.tracees.discard_memory(tid, (start, end), registers)
            }
            SyscallAction::Execute { folder, path } => {
                if let Some(reason) = crate::host::program_file::unfollowable(tid, folder, path) {
                    return Err(TraceError::Detach(reason));
                }
                self.tracees.task(tid)?.exec_pc = Some(registers.rip);
                Ok(TaskAction::Resume)
            }
            SyscallAction::ReturnFromHandler => self.step_last(tid),
            SyscallAction::End => {
                if *self.tracees.task(tid)?.state().request() != StopRequest::None {
                    return Ok(TaskAction::Resume);
                }
                let exit_pc = registers.rip + 2;
                let event = match registers.rax & 0xffff_ffff {
                    number::EXIT_GROUP => TaskEvent::EndsProcess { exit_pc: Some(exit_pc) },
                    _ => TaskEvent::EndsThread { exit_pc },
                };
                let effect = self.tracees.task(tid)?.apply(event);
                self.carry_out(tid, effect);
                Ok(TaskAction::Resume)
            }
            SyscallAction::InstallFilter if !self.tracees.is_sole_user(tid)? => Ok(TaskAction::Flush),
            SyscallAction::InstallFilter => {
                // It can be for all threads.
                self.tracees.update_threads(tid, |task| task.filtered = true)?;
                Ok(TaskAction::Resume)
            }
            SyscallAction::Answer { address, value } => {
                let written = trace::write_memory(tid, address, &value.to_le_bytes());
                let result = if written.is_ok() { 0 } else { -EFAULT as u64 };
                Ok(TaskAction::Emulate { registers, result })
            }
            SyscallAction::OwnCounts { address, words } => {
                let (task, time) = (self.tracees.task(tid)?, self.began.elapsed());
                let result = task.answer_own_counts(tid, &registers, (address, words), time);
                Ok(TaskAction::Emulate { registers, result: result.cast_unsigned() })
            }
            SyscallAction::Open(path) => self.open(tid, path, registers),
            SyscallAction::OpenForWriting(path) => {
                let action = self.open_for_writing(tid, path, &registers)?;
                Ok(action.unwrap_or(TaskAction::Resume))
            }
            SyscallAction::Read => self.tracees.task(tid)?.handle_read(tid, registers),
            SyscallAction::Close => self.tracees.task(tid)?.handle_close(registers),
            SyscallAction::Seek => self.tracees.task(tid)?.handle_seek(tid, registers),
            SyscallAction::UseDescriptor => self.tracees.task(tid)?.handle_use(tid, &registers),
            SyscallAction::CpuMask { own } => {
                if !own {
                    self.tracees.unbind_all();
                }
                self.tracees.unbind(tid);
                Ok(TaskAction::Resume)
            }
            SyscallAction::AddressLimits(call) => self.tracees.handle_limits(tid, registers, call),
            SyscallAction::TrapHandler(action) => self.tracees.set_trap_handler(tid, action),
            SyscallAction::Detach(reason) => Err(TraceError::Detach(reason.to_owned())),
            SyscallAction::DetachUnmapped(reason) => Ok(TaskAction::DetachUnmapped(reason)),
            SyscallAction::EndCounted(reason) => self.tracees.end_counted(tid, reason),
            SyscallAction::Trace(target) => self.tracees.action_for_attach(tid, target),
        }
    }

    /// A process is about to share memory with others, and so is a parent whose memory it borrows (vfork). If
    /// its code has restartable sequences, all of them are detached.
    fn begin_sharing(&mut self, tid: u32) -> TraceResult {
        let parents: Vec<u32> = self.tracees.lenders(tid).collect();
        for sharing in parents.iter().chain([&tid]) {
            self.tracees.process(*sharing).into_iter().for_each(|process| process.shares = true);
        }
        let Some(process) = self.tracees.process(tid) else { return Ok(()) };
        let searched = self.restartable.search(process, tid, SHARED);
        if let Err(TraceError::Detach(reason)) = &searched {
            parents.iter().for_each(|parent| self.request_detach(*parent, Some(reason.clone())));
        }
        searched
    }

    /// A file is about to be opened, whose path is at this address.
    fn open(&mut self, tid: u32, path: u64, registers: Registers) -> ActionResult {
        let in_proc = names_proc(tid, path);
        if in_proc || (self.tracees.is_bound(tid) && names_status(tid, path)) {
            self.tracees.unbind(tid);
        }
        if let Some(action) = self.open_for_writing(tid, path, &registers)? {
            return Ok(action);
        }
        match in_proc {
            true => self.tracees.task(tid)?.open_listing(tid, path, registers),
            false => Ok(TaskAction::Resume),
        }
    }

    /// A file is about to be opened; its path is at this address. If it may be written, every process that
    /// executes its code is detached. Returns what to do with this one instead of making the call.
    fn open_for_writing(
        &mut self,
        tid: u32,
        path: u64,
        registers: &Registers,
    ) -> Result<Option<TaskAction>, TraceError> {
        match self.tracees.effect_of_opening(tid, path, registers) {
            WriteEffect::None => Ok(None),
            WriteEffect::OwnMemory => self.tracees.task(tid)?.expect_all_changes(),
            WriteEffect::AnyMemory => {
                Ok(Some(TaskAction::DetachAll("opens the memory of a process for writing")))
            }
            WriteEffect::Code { of } => {
                let reason = "executes a file that is opened for writing";
                let others = of.iter().filter(|other| **other != tid);
                others.for_each(|other| self.request_detach(*other, Some(reason.to_owned())));
                if of.contains(&tid) { Err(TraceError::Detach(reason.to_owned())) } else { Ok(None) }
            }
        }
    }
}

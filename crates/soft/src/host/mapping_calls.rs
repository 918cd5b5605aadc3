//! Calls that change the mappings of a process: where code is mapped, replaced or removed.
//!
//! ```text
//! no code is concerned              ──> the call is made
//! code is mapped, shared translation ─> the call is made here, and the new code is compared
//! translated code changes           ──> a new translation; other threads are suspended for the call
//! ```

use std::cell::RefCell;
use std::rc::Rc;

use cyclometer_sys::trace::{self, Registers};

use super::action::{ActionResult, TaskAction};
use super::code_cache::CodeCacheMapping;
use super::mapping_policy::{MappingDecision, MappingFacts, MappingQuestion};
use super::maps_listing::refusal;
use super::process::TaskMode;
use super::remote_syscalls::{RemoteSyscalls, number};
use super::restartable;
use super::shared_code::Admission;
use super::syscalls::{MappingCall, behind_call, remapped};
use super::trace_error::{TraceError, TraceResult};
use super::tracees::Tracees;

impl Tracees {
    /// Discards the bytes of a range: the mappings stay.
    pub(super) fn discard_memory(
        &mut self,
        tid: u32,
        range: (u64, u64),
        registers: Registers,
    ) -> ActionResult {
        let TaskMode::Translated(context) = &self.task(tid)?.mode else {
            return Err(TraceError::Gone);
        };
        let changes = context.cache.borrow().translation.touches_fixed(range.0, range.1);
        if !changes {
            return Ok(TaskAction::Resume);
        }
        self.change_mappings(
            tid,
            &MappingCall { ranges: vec![range], code: false, protects: false },
            registers,
        )
    }

    /// Handles a call that changes mappings: translations of code there become invalid.
    pub(super) fn change_mappings(
        &mut self,
        tid: u32,
        call: &MappingCall,
        registers: Registers,
    ) -> ActionResult {
        let among = self.has_other_threads(tid);
        let TaskMode::Translated(context) = &self.task(tid)?.mode else {
            return Err(TraceError::Gone);
        };
        let home = context.cache.clone();
        let ours = |(start, end): &(u64, u64)| home.borrow().overlaps(*start, *end);
        if call.ranges.iter().any(ours) {
            return Err(TraceError::Detach("maps memory where the translated code is".to_owned()));
        }
        let changes = self.changes_code(tid, call)?;
        if changes {
            self.note_change(tid, call)?;
        }
        let facts = MappingFacts {
            changes,
            maps_code: call.code,
            // The address of new or moved code is not known before the call.
            places_code: call.code || registers.rax & 0xffff_ffff == number::MREMAP,
            is_open: home.borrow().shared_code.is_open(),
            is_filtered: self.task(tid)?.filtered,
        };
        if among {
            return self.change_mappings_among_threads(tid, call, facts, registers);
        }
        let decision = facts.decide_alone(|question| match question {
            MappingQuestion::ConcernsCode => self.concerns_code(tid, call),
            MappingQuestion::IsStale => self.is_stale(tid),
            MappingQuestion::IsShared => Ok(self.is_shared(tid, &home)),
        })?;
        if decision == MappingDecision::Unconcerned {
            return Ok(TaskAction::Resume);
        }
        close_versions(&home, call);
        self.forget_maps(tid);
        if let Some(process) = self.process(tid).filter(|_| call.code) {
            process.no_restarts = false;
        }
        match decision {
            MappingDecision::MakeOnBehalf => self.map_shared_code(tid, call, registers),
            MappingDecision::Replace => Ok(TaskAction::Flush),
            _ => Ok(TaskAction::Resume),
        }
    }

    /// Handles a call that changes mappings of a process with several threads.
    fn change_mappings_among_threads(
        &mut self,
        tid: u32,
        call: &MappingCall,
        facts: MappingFacts,
        registers: Registers,
    ) -> ActionResult {
        let home = self.task(tid)?.translated()?.cache.clone();
        let decision = facts.decide_among_threads(|question| match question {
            MappingQuestion::IsShared => Ok(self.is_shared(tid, &home)),
            _ => {
                let known = self.task(tid)?.translated()?.maps.last();
                let executes =
                    |(start, end): &(u64, u64)| known.is_none_or(|maps| maps.executes(*start, *end));
                Ok::<bool, TraceError>(call.ranges.iter().any(executes))
            }
        })?;
        match decision {
            MappingDecision::ReplaceAround => return Ok(TaskAction::FlushAroundCall),
            MappingDecision::Refuse => return Err(TraceError::Detach("filters its system calls".to_owned())),
            MappingDecision::MakeOnBehalf => {}
            _ => return Ok(TaskAction::Resume),
        }
        let fresh = self.call_on_behalf(tid, registers)?;
        let ranges: Vec<(u64, u64)> = call.ranges.iter().copied().chain(fresh).collect();
        close_versions(&home, call);
        for range in ranges.iter().copied().filter(|_| call.code) {
            restartable::check(tid, range, restartable::THREADS)?;
        }
        if facts.is_open {
            return if self.is_admitted(tid, &ranges)? {
                Ok(TaskAction::Resume)
            } else {
                Ok(TaskAction::Flush)
            };
        }
        if fresh.is_some_and(|(start, end)| home.borrow().translation.touches_fixed(start, end)) {
            return Err(TraceError::Detach("changes its code while other threads run".to_owned()));
        }
        Ok(TaskAction::Resume)
    }

    /// Whether a call changes code that a process can execute, or could. In a shared translation, other code
    /// belongs to other processes.
    fn changes_code(&mut self, tid: u32, call: &MappingCall) -> Result<bool, TraceError> {
        let (TaskMode::Translated(context) | TaskMode::Native(context)) = &mut self.task(tid)?.mode else {
            return Err(TraceError::Gone);
        };
        let cache = context.cache.borrow();
        let touches = |(start, end): &(u64, u64)| cache.translation.touches_fixed(*start, *end);
        let mut touched = call.ranges.iter().copied().filter(touches).peekable();
        if !cache.shared_code.is_open() || touched.peek().is_none() {
            return Ok(touched.peek().is_some());
        }
        let maps = context.maps.read(tid).map_err(TraceError::of_maps)?;
        Ok(touched.any(|(start, end)| maps.executes(start, end)))
    }

    /// Notes a call that makes the translation of a task invalid.
    fn note_change(&mut self, tid: u32, call: &MappingCall) -> TraceResult {
        let TaskMode::Translated(context) = &mut self.task(tid)?.mode else {
            return Err(TraceError::Gone);
        };
        let maps = context.maps.read(tid).map_err(TraceError::of_maps)?;
        let mut cache = context.cache.borrow_mut();
        let ranges = call.ranges.iter();
        let pages = ranges.flat_map(|(start, end)| cache.translation.fixed_pages(*start, *end)).collect();
        cache.change_history.note(call, pages, maps);
        Ok(())
    }

    /// Makes a call that maps code, for a process with one thread in a shared translation. The new code is
    /// compared before it is executed.
    fn map_shared_code(&mut self, tid: u32, call: &MappingCall, registers: Registers) -> ActionResult {
        let fresh = self.call_on_behalf(tid, registers)?;
        let ranges: Vec<(u64, u64)> = call.ranges.iter().copied().chain(fresh).collect();
        Ok(if self.is_admitted(tid, &ranges)? { TaskAction::Resume } else { TaskAction::Flush })
    }

    /// Whether a call maps executable memory, or changes an executable mapping.
    fn concerns_code(&mut self, tid: u32, call: &MappingCall) -> Result<bool, TraceError> {
        let TaskMode::Translated(context) = &mut self.task(tid)?.mode else {
            return Err(TraceError::Gone);
        };
        if call.code {
            return Ok(true);
        }
        let maps = context.maps.read(tid).map_err(TraceError::of_maps)?;
        Ok(call.ranges.iter().any(|(start, end)| maps.executes(*start, *end)))
    }

    /// Whether a task's translation has code that the task cannot execute. Another process had it there, and
    /// may have ended since.
    fn is_stale(&mut self, tid: u32) -> Result<bool, TraceError> {
        let (TaskMode::Translated(context) | TaskMode::Native(context)) = &mut self.task(tid)?.mode else {
            return Err(TraceError::Gone);
        };
        let maps = context.maps.read(tid).map_err(TraceError::of_maps)?;
        Ok(context.cache.borrow().has_code_outside(maps))
    }

    /// Whether a process executes a translation alone. If it is the only one, the translation is closed for
    /// others. No call can be made on behalf of a process that filters its calls.
    pub(super) fn is_sole_user(&mut self, tid: u32) -> Result<bool, TraceError> {
        let task = self.task(tid)?;
        let process = task.process;
        let TaskMode::Translated(context) = &task.mode else { return Err(TraceError::Gone) };
        let home = context.cache.clone();
        if home.borrow().shared_code.is_open() {
            self.close_if_sole_user(tid, process, &home)
        } else {
            Ok(true)
        }
    }

    /// Closes a translation, if a process is the only one that executes or has executed it, and still has all
    /// of its code. No code is claimed from then on.
    fn close_if_sole_user(
        &mut self,
        tid: u32,
        process: usize,
        home: &Rc<RefCell<CodeCacheMapping>>,
    ) -> Result<bool, TraceError> {
        let alone = home.borrow().shared_code.is_all_of(process) && !self.is_mapped_elsewhere(tid, home);
        let takes = alone && !self.is_stale(tid)?;
        if takes {
            home.borrow_mut().shared_code.shut();
        }
        Ok(takes)
    }

    /// Makes a system call that maps memory, on behalf of a program; returns the mapped range.
    fn call_on_behalf(&mut self, tid: u32, registers: Registers) -> Result<Option<(u64, u64)>, TraceError> {
        let TaskMode::Translated(context) = &self.task(tid)?.mode else {
            return Err(TraceError::Gone);
        };
        let gadget = context.cache.borrow().gadget();
        let Registers { rax, rdi, rsi, rdx, r10, r8, r9, .. } = registers;
        let result = RemoteSyscalls::new(tid, gadget).call(rax, [rdi, rsi, rdx, r10, r8, r9]);
        self.forget_maps(tid);
        let fresh = remapped(&registers, &result);
        let rax = result.unwrap_or_else(|error| refusal(&error));
        trace::set_registers(tid, &behind_call(registers, rax))?;
        self.task(tid)?.last_pc = None;
        Ok(fresh)
    }

    /// Whether a process that has mapped code in these ranges stays where it is translated.
    fn is_admitted(&mut self, tid: u32, ranges: &[(u64, u64)]) -> Result<bool, TraceError> {
        let task = self.task(tid)?;
        let process = task.process;
        let TaskMode::Translated(context) = &mut task.mode else { return Err(TraceError::Gone) };
        let home = context.cache.clone();
        let maps = context.maps.read(tid).map_err(TraceError::of_maps)?;
        let admission = home.borrow_mut().admit(tid, process, maps, ranges);
        let stays = match admission {
            Admission::Stays => true,
            Admission::Diverges => false,
            Admission::Exclusive => self.close_if_sole_user(tid, process, &home)?,
        };
        if !stays {
            home.borrow_mut().record.diverge();
        }
        Ok(stays)
    }
}

/// Closes the version stubs of memory that a call may make unexecutable: the tracer looks at it before the
/// next execution. Changed bytes are found by the checks of versions.
fn close_versions(cache: &Rc<RefCell<CodeCacheMapping>>, call: &MappingCall) {
    if !call.code {
        let mut cache = cache.borrow_mut();
        call.ranges.iter().for_each(|(start, end)| cache.translation.close_versions(*start, *end));
        cache.apply_writes();
    }
}

//! Translation: a task enters translated code, and stops there where the tracer must act.
//!
//! ```text
//! native state ──> enter ──> translated code ──> translator stop ──> translate, link, resume
//!      ^                                                        └──> system call, query, boundary, detach
//!      └── the translation is replaced: code has changed, or there is no more room
//! ```

use std::cell::RefCell;
use std::rc::Rc;

use cyclometer_sys::cpuid::cpuid;
use cyclometer_sys::trace::{self, Registers};

use super::{SIGTRAP, Tracer};
use crate::block::DetachReason;
use crate::host::action::{ActionResult, TaskAction};
use crate::host::call_path_recording::CallPathRecording;
use crate::host::code_cache::CodeCacheMapping;
use crate::host::code_reader::CodeReader;
use crate::host::cpu_queries::CpuAnswer;
use crate::host::flush_readiness::change_refusal;
use crate::host::fork_event::USER_CS;
use crate::host::mapping_permission::with_memory;
use crate::host::maps::{MapsCache, MemoryMaps, NoCode};
use crate::host::process::TaskMode;
use crate::host::remote_syscalls::number;
use crate::host::trace_error::{TraceError, TraceResult};
use crate::host::translated_pc::TranslatedPc;
use crate::host::translation_context::TranslationContext;
use crate::translate::{self, StopReason};

impl Tracer {
    /// Goes on in translated code; the registers are the program's.
    pub(super) fn enter_translation(&mut self, tid: u32, registers: Registers) -> TraceResult {
        if registers.cs != USER_CS {
            // The code that a handler returns to may be 32-bit code.
            return Err(TraceError::Detach("continues in 32-bit code".to_owned()));
        }
        match self.enter_here(tid, registers) {
            Err(TraceError::OwnTranslation) => {
                trace::set_registers(tid, &registers)?;
                self.flush_here(tid)
            }
            outcome => outcome,
        }
    }

    /// Enters translated code with the current translation.
    fn enter_here(&mut self, tid: u32, mut registers: Registers) -> TraceResult {
        let (permission, profile, objects) =
            (self.tracees.mapping_permission(tid)?, self.store.profile.clone(), self.objects.clone());
        let task = self.tracees.task(tid)?;
        let TaskMode::Native(mut context) = std::mem::replace(&mut task.mode, TaskMode::Untranslated) else {
            return Err(TraceError::Gone);
        };
        let address = registers.rip;
        let own_registers = registers;
        let prepared = self.begin_recording(tid, &context, &registers);
        if let Err(trouble) = prepared {
            self.tracees.task(tid)?.mode = TaskMode::Native(context);
            return Err(trouble);
        }
        let body = {
            let cache = &mut context.cache.borrow_mut();
            let mut reader = CodeReader::new(tid, &mut context.maps, profile.as_deref())
                .placing(objects.as_deref())
                .expecting(cache.change_history.expected());
            let body =
                with_memory(cache, tid, permission, |cache| cache.translation.enter(&mut reader, address));
            body.and_then(|body| {
                cache.apply_writes();
                (registers.rip, registers.gs_base) = (body, cache.base_of(context.slot));
                cache.store(context.slot, translate::R11, registers.r11);
                // A task that was killed meanwhile keeps its program point.
                trace::set_registers(tid, &registers)?;
                let block = cache.translation.block_at(address);
                block.into_iter().for_each(|block| context.ledger.enter(cache, block));
                Ok(())
            })
        };
        let task = self.tracees.task(tid)?;
        match body {
            Ok(()) => {
                (task.mode, task.last_pc) =
                    (TaskMode::Translated(context), Some(TranslatedPc::new(registers.rip, &registers)));
                task.throttle.returned_to(address);
                if let Some(calls) = &self.call_paths {
                    calls.begin_function(&mut self.tracees, tid, &own_registers);
                }
                self.resume_checked(tid)
            }
            Err(trouble) => {
                task.mode = TaskMode::Native(context);
                Err(trouble)
            }
        }
    }

    /// Prepares the window, the calls and the accesses of a thread that is about to enter translated code in
    /// a context.
    fn begin_recording(
        &mut self,
        tid: u32,
        context: &TranslationContext,
        registers: &Registers,
    ) -> TraceResult {
        let task = self.tracees.tasks.get_mut(&tid).ok_or(TraceError::Gone)?;
        if let Some(recording) = &mut self.recording {
            recording.enter(task, (self.tracees.processes[task.process].pid, tid), context)?;
        }
        if self.call_paths.is_some() {
            CallPathRecording::enter(task, context)?;
        }
        if let Some(modelling) = &self.modelling {
            let caches = &mut self.tracees.processes[task.process].caches;
            let caches = caches.get_or_insert_with(|| modelling.caches());
            let accesses = task.accesses.get_or_insert_with(|| modelling.thread(Rc::clone(caches)));
            accesses.enter(&context.cache.borrow(), context.slot, registers);
        }
        Ok(())
    }

    /// Handles a stop of the translator.
    pub(super) fn translator_stop(
        &mut self,
        tid: u32,
        stop: StopReason,
        registers: Registers,
    ) -> ActionResult {
        match stop {
            StopReason::DirectLink | StopReason::IndirectBranch => {
                self.translate_and_resume(tid, stop, registers)
            }
            StopReason::SystemCall if self.may_retranslate_at_call(tid, registers.rax)? => {
                Ok(TaskAction::Retranslate)
            }
            StopReason::SystemCall => {
                if registers.rax == number::ARCH_PRCTL {
                    self.tracees.task(tid)?.may_change_fs(&registers);
                }
                self.system_call(tid, registers)
            }
            StopReason::CpuQuery(question) => {
                let baseline = self.settings.baseline.as_ref().ok_or(TraceError::Gone)?;
                let values = [registers.rax as u32, registers.rcx as u32];
                let answer = CpuAnswer::of(baseline, question, values, cpuid).map_err(TraceError::Detach)?;
                Ok(TaskAction::ResumeWith(answer.registers(registers)))
            }
            StopReason::Budget => {
                self.cpu.follow(&self.tracees, tid);
                let (Some(recording), task) = (&mut self.recording, self.tracees.task(tid)?) else {
                    return Err(TraceError::Gone);
                };
                recording.reach_boundary(task, tid, registers.rip.wrapping_sub(1), &registers)?;
                Ok(TaskAction::Resume)
            }
            StopReason::CallLog => {
                self.cpu.follow(&self.tracees, tid);
                self.call_paths.iter().for_each(|calls| calls.replay(&mut self.tracees, tid));
                self.tracees.task(tid)?.replay_accesses(&registers);
                Ok(TaskAction::Resume)
            }
            StopReason::Breakpoint => self.deliver(tid, SIGTRAP),
            StopReason::FarTransfer => self.step_last(tid),
            StopReason::Detach(DetachReason::Unreadable) => self.unreadable(tid),
            StopReason::Detach(reason) => {
                let reason = Some(format!("has {}", reason.word()));
                Ok(TaskAction::Detach { reason, signal: 0 })
            }
        }
    }

    /// Translates the next block, and continues there.
    fn translate_and_resume(&mut self, tid: u32, stop: StopReason, registers: Registers) -> ActionResult {
        if stop == StopReason::IndirectBranch && is_vsyscall(registers.rcx) {
            return Err(TraceError::Detach("calls the kernel's vsyscall page".to_owned()));
        }
        self.cpu.follow(&self.tracees, tid);
        let (permission, profile, objects) =
            (self.tracees.mapping_permission(tid)?, self.store.profile.clone(), self.objects.clone());
        let task = self.tracees.task(tid)?;
        let TaskMode::Translated(context) = &mut task.mode else { return Err(TraceError::Gone) };
        let cache = context.cache.clone();
        let mut cache = cache.borrow_mut();
        let mut reader = CodeReader::new(tid, &mut context.maps, profile.as_deref())
            .placing(objects.as_deref())
            .expecting(cache.change_history.expected());
        let (at, target) = (registers.rip.wrapping_sub(1), registers.rcx);
        let to = with_memory(&mut cache, tid, permission, |cache| match stop {
            StopReason::DirectLink => cache.translation.link(&mut reader, at),
            _ => cache.translation.indirect(&mut reader, target).map(Some),
        });
        cache.apply_writes();
        drop(cache);
        if let Err(TraceError::OwnTranslation) = to {
            return Ok(TaskAction::Flush);
        }
        trace::set_instruction_pointer(tid, to?.ok_or(TraceError::Gone)?)?;
        Ok(TaskAction::Resume)
    }

    /// Replaces the translation, because the code changes or there is no more room. The task is in native
    /// state then.
    pub(super) fn replace_translation(&mut self, tid: u32) -> Result<Registers, TraceError> {
        let registers = self.tracees.restore_native_state(tid)?.ok_or(TraceError::Gone)?;
        let settings = self.settings.translation;
        let task = self.tracees.task(tid)?;
        let process = task.process;
        let shared = task.state().vfork_wait().is_some() || self.tracees.borrows(tid);
        let filtered = self.tracees.task(tid)?.filtered;
        let may_change = || self.tracees.processes[process].may_change();
        let reason = change_refusal(filtered, shared, may_change);
        if let Some(reason) = reason {
            return Err(TraceError::Detach(reason.to_owned()));
        }
        let TaskMode::Native(context) = &self.tracees.task(tid)?.mode else { return Err(TraceError::Gone) };
        let old = context.cache.clone();
        let allowance = self.tracees.allowance(tid);
        let mut cache = CodeCacheMapping::after(&old.borrow(), tid, registers.rip, allowance, settings)?;
        self.tracees.move_listings(tid, &old, &mut cache);
        self.close(tid);
        let slot = cache.take_slot().ok_or(TraceError::Gone)?;
        let context = TranslationContext::new(Rc::new(RefCell::new(cache)), slot);
        self.tracees.task(tid)?.mode = TaskMode::Native(context);
        Ok(registers)
    }

    /// The program jumped to memory that is not executable, or that may change.
    fn unreadable(&mut self, tid: u32) -> ActionResult {
        let registers = self.tracees.restore_native_state(tid)?.ok_or(TraceError::Gone)?;
        match CodeReader::new(tid, &mut MapsCache::default(), None).why_not(registers.rip) {
            // It faults there natively, and may have a handler for that.
            Some(NoCode::NotExecutable) => Ok(TaskAction::RunOn),
            Some(reason) => Err(TraceError::Detach(reason.word().to_owned())),
            // We may have been unable to look, which has another reason.
            None if MemoryMaps::read(tid)?.is_empty() => Err(TraceError::Gone),
            None => Err(TraceError::Detach("has code that cannot be read".to_owned())),
        }
    }
}

/// Whether an address is in the page whose code the kernel answers itself.
///
/// # Source
///
/// Linux `arch/x86/include/uapi/asm/vsyscall.h`, `VSYSCALL_ADDR`.
fn is_vsyscall(address: u64) -> bool {
    address & !0xfff == 0xffff_ffff_ff60_0000
}

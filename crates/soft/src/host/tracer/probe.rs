//! A look at every instruction of translated code before it is executed, for tests of the translation.

use cyclometer_sys::trace::{self, Registers};

use super::Tracer;
use crate::host::native_state::restore_registers;
use crate::host::process::{TaskMode, TracedTask};
use crate::host::trace_error::TraceError;

/// The trap flag: after `popf` the kernel takes it for the program's own.
///
/// # Source
///
/// Linux `arch/x86/kernel/step.c`, `enable_single_step`.
const TRAP: u64 = 0x100;

/// Sees a program in translated code at each of its instructions, and may take it out of there.
pub trait InstructionProbe {
    /// A process is about to execute an instruction of translated code.
    fn look(&mut self, view: &ProbeView) -> ProbeOrder;
}

/// A process at an instruction of translated code.
#[derive(Clone, Copy, Debug)]
pub struct ProbeView {
    /// The process, which is stopped.
    pub tid: u32,
    /// Its position in translated code.
    pub pc: u64,
    /// The program's registers if it were detached now.
    pub program: Registers,
}

/// The answer of a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbeOrder {
    /// It executes the instruction.
    GoOn,
    /// It is detached here.
    Detach,
    /// It leaves translated code here, and enters it again.
    Reenter,
}

impl Tracer {
    /// Resumes a task in translated code, for one instruction if a probe looks.
    pub(super) fn resume(&mut self, tid: u32, signal: i32) -> Result<(), TraceError> {
        self.tracees.task(tid)?.note_pc(tid)?;
        let stepped =
            self.probe.is_some() || self.tracees.tasks.get(&tid).is_some_and(TracedTask::is_stepped);
        match self.tracees.tasks.get(&tid).map(|task| &task.mode) {
            Some(TaskMode::Translated(_)) if stepped => Ok(trace::step(tid, signal)?),
            // On the way into a handler or back, one instruction of native code only.
            Some(TaskMode::Native(_)) => Ok(trace::step(tid, signal)?),
            _ => Ok(trace::resume(tid, signal)?),
        }
    }

    /// Resumes a task to a stop that was not reported yet.
    pub(super) fn run_on(&mut self, tid: u32) -> Result<(), TraceError> {
        self.tracees.task(tid)?.note_pc(tid)?;
        Ok(trace::resume(tid, 0)?)
    }

    /// Leaves a task in the stop of its process.
    pub(super) fn listen(&mut self, tid: u32) -> Result<(), TraceError> {
        self.tracees.task(tid)?.note_pc(tid)?;
        // The only other stop without anything to listen for is that of its exit.
        trace::listen(tid).map_err(|_| TraceError::Gone)
    }

    /// Resumes a task in translated code whose registers are set; a probe may look at them first.
    pub(super) fn resume_checked(&mut self, tid: u32) -> Result<(), TraceError> {
        // A request may have stopped it while another event of it was awaited.
        if self.comply_with_request(tid)? {
            return Ok(());
        }
        self.answer_request(tid)?;
        match self.order(tid)? {
            ProbeOrder::GoOn => self.resume(tid, 0),
            ProbeOrder::Detach => Err(TraceError::Detach("was told to".to_owned())),
            ProbeOrder::Reenter => {
                let registers = self.tracees.restore_native_state(tid)?.ok_or(TraceError::Gone)?;
                self.enter_translation(tid, registers)
            }
        }
    }

    fn order(&mut self, tid: u32) -> Result<ProbeOrder, TraceError> {
        let Some(probe) = &mut self.probe else { return Ok(ProbeOrder::GoOn) };
        let Some(TaskMode::Translated(context)) = self.tracees.tasks.get(&tid).map(|task| &task.mode) else {
            return Ok(ProbeOrder::GoOn);
        };
        let mut program = trace::registers(tid)?;
        if program.eflags & TRAP != 0 {
            program.eflags &= !TRAP;
            trace::set_registers(tid, &program)?;
        }
        let (pc, cache) = (program.rip, context.cache.borrow());
        if let Some(point) = cache.translation.point_at(pc) {
            restore_registers(&cache, context.slot, &point, &mut program);
        }
        Ok(probe.look(&ProbeView { tid, pc, program }))
    }

    /// Whether a signal is only the end of a probe's step.
    ///
    /// # Source
    ///
    /// Linux `include/uapi/asm-generic/siginfo.h`: `TRAP_BRKPT` behind a system call, `TRAP_TRACE` elsewhere.
    pub(super) fn is_step(&self, tid: u32, signal: i32) -> bool {
        const SIGTRAP: i32 = 5;
        let stepped = || trace::signal_info(tid).is_ok_and(|info| matches!(info.code(), 1 | 2));
        self.probe.is_some() && signal == SIGTRAP && stepped()
    }
}

//! From translated code to native state: the program's own registers and instruction pointer.

use cyclometer_sys::trace::{self, Registers};

use super::Tracer;
use crate::host::code_cache::CodeCacheMapping;
use crate::host::process::TaskMode;
use crate::host::trace_error::TraceError;
use crate::host::translated_pc::TranslatedPc;
use crate::translate::{self, NextAddress, ProgramPoint};

/// Makes the program's registers of those in translated code.
pub(super) fn restore_registers(
    cache: &CodeCacheMapping,
    slot: usize,
    point: &ProgramPoint,
    registers: &mut Registers,
) {
    let next = match point.next {
        NextAddress::Known(address) => address,
        NextAddress::Rcx(beyond) => registers.rcx.wrapping_add(beyond),
    };
    let repair = point.repair;
    if repair.flags {
        registers.eflags = translate::flags_in(registers.rax, registers.eflags);
    }
    if repair.rax {
        registers.rax = cache.load(slot, translate::RAX);
    }
    if repair.rcx {
        registers.rcx = cache.load(slot, translate::RCX);
    }
    if repair.r11 {
        registers.r11 = cache.load(slot, translate::R11);
    }
    if repair.pushed {
        registers.rsp = registers.rsp.wrapping_add(8);
    }
    if repair.popped {
        registers.rsp = registers.rsp.wrapping_sub(8);
    }
    if repair.rcx_is_next {
        registers.rcx = next;
    }
    registers.rip = next;
}

impl Tracer {
    /// Takes a stopped task out of translated code at its program point, and returns its registers. `None` if
    /// it has no translation.
    pub(super) fn restore_native_state(&mut self, tid: u32) -> Result<Option<Registers>, TraceError> {
        if matches!(self.tracees.task(tid)?.mode, TaskMode::Untranslated) {
            return Ok(None);
        }
        let mut registers = trace::registers(tid)?;
        let pc = self.pc(tid, &registers)?;
        let task = self.tracees.task(tid)?;
        let mut context = match std::mem::replace(&mut task.mode, TaskMode::Untranslated) {
            TaskMode::Untranslated => return Ok(None),
            TaskMode::Native(context) => {
                task.mode = TaskMode::Native(context);
                return Ok(Some(registers));
            }
            TaskMode::Translated(context) => context,
        };
        let mut cache = context.cache.borrow_mut();
        let point = cache.translation.point_at(pc);
        if let Some(point) = &point {
            let position = TranslatedPc::new(pc, &registers);
            context.ledger.exit_at(&mut cache, context.slot, point, position);
            task.window.iter_mut().for_each(|window| window.keep_budget(&cache, context.slot, position));
            task.calls.iter_mut().for_each(|calls| calls.leave(&cache, context.slot, position));
            restore_registers(&cache, context.slot, point, &mut registers);
        }
        drop(cache);
        task.mode = TaskMode::Native(context);
        if point.is_none() {
            let process = task.process;
            self.tracees.processes[process]
                .lose(format!("internal error: nothing is known of {pc:#x} in translated code"));
            return Err(TraceError::Gone);
        }
        registers.gs_base = 0;
        trace::set_registers(tid, &registers)?;
        Ok(Some(registers))
    }
}

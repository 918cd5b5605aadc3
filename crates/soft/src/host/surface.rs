//! From translated code to the program's own: registers and instruction pointer as they would be there.

use cyclometer_sys::trace::{self, Registers};

use super::engine::{TraceError, Tracer};
use super::process::{TaskMode, TranslatedPc};
use super::space::CodeCacheMapping;
use crate::translate::{self, NextAddress, ProgramPoint};

/// Makes the program's registers of those in translated code.
pub(super) fn repair(space: &CodeCacheMapping, slot: usize, place: &ProgramPoint, registers: &mut Registers) {
    let next = match place.next {
        NextAddress::Known(address) => address,
        NextAddress::Rcx(beyond) => registers.rcx.wrapping_add(beyond),
    };
    let repair = place.repair;
    if repair.flags {
        registers.eflags = translate::flags_in(registers.rax, registers.eflags);
    }
    if repair.rax {
        registers.rax = space.load(slot, translate::RAX);
    }
    if repair.rcx {
        registers.rcx = space.load(slot, translate::RCX);
    }
    if repair.r11 {
        registers.r11 = space.load(slot, translate::R11);
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
    /// Takes a stopped process out of translated code, at the instruction where it is; its registers then. `None` when
    /// it is not seated at all.
    pub(super) fn surface(&mut self, tid: u32) -> Result<Option<Registers>, TraceError> {
        if matches!(self.task(tid)?.mode, TaskMode::Untranslated) {
            return Ok(None);
        }
        let mut registers = trace::registers(tid)?;
        let pc = self.pc(tid, &registers)?;
        let task = self.task(tid)?;
        let mut seat = match std::mem::replace(&mut task.mode, TaskMode::Untranslated) {
            TaskMode::Untranslated => return Ok(None),
            TaskMode::Native(seat) => {
                task.mode = TaskMode::Native(seat);
                return Ok(Some(registers));
            }
            TaskMode::Translated(seat) => seat,
        };
        let mut space = seat.space.borrow_mut();
        let place = space.translation.place(pc);
        if let Some(place) = &place {
            seat.ledger.leave(&mut space, seat.slot, place, TranslatedPc::new(pc, &registers));
            repair(&space, seat.slot, place, &mut registers);
        }
        drop(space);
        task.mode = TaskMode::Native(seat);
        if place.is_none() {
            let process = task.process;
            self.processes[process]
                .lose(format!("internal error: nothing is known of {pc:#x} in translated code"));
            return Err(TraceError::Gone);
        }
        registers.gs_base = 0;
        trace::set_registers(tid, &registers)?;
        Ok(Some(registers))
    }
}

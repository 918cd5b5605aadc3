//! The last instruction of a block, and how the program goes on to the next one.

use super::super::call_log::RecordKind;
use super::super::instruction::BranchOperand;
use super::deferred::{BranchExit, CallThunk, DeferredCode};
use super::edges::exits_indirectly;
use super::*;

impl Translation {
    /// The last instruction of a block, and its exits.
    pub(super) fn end(
        &mut self,
        batch: &BlockBatch,
        pending: &batch::PendingBlock,
        id: u32,
        (at, after): (EmitState, EmitState),
        out: &mut CodeEmitter,
        deferred: &mut DeferredCode,
    ) {
        let outside = self.blocks[id as usize].edges[1].filter(|_| exits_indirectly(pending.terminator));
        let outside = self.counter(outside);
        let last = || &batch.instructions(pending)[pending.len() - 1];
        let (next, taken) = (after.with(PcBits::NEXT), after.with(PcBits::TAKEN));
        if self.budget.is_some() && is_left_out(pending.terminator) {
            out.put(at, &[0x90]);
        }
        match pending.terminator {
            Terminator::FallThrough { next: to } => {
                self.flow_on(id, next, BlockExit::Next, to, out, deferred)
            }
            Terminator::Jump { target } => {
                if deferred.function_jumps.contains(&id) {
                    let (exit, _) = out.log_direct(at, RecordKind::Jump, self.rcx_test);
                    deferred.logs.push(exit);
                }
                self.flow_on(id, taken, BlockExit::Taken, target, out, deferred);
            }
            Terminator::Conditional { taken: target, not_taken } => {
                let field = out.conditional(at, taken, last());
                deferred.exits.push(BranchExit { field, at: taken, exit: BlockExit::Taken, target });
                self.flow_on(id, next, BlockExit::Next, not_taken, out, deferred);
            }
            Terminator::SystemCall { next: to } => {
                let stop = out.system_call(at, to, next, self.table + FILTER);
                self.exit_stubs.insert(stop, ExitStub::SystemCall);
                self.flow_on(id, next, BlockExit::Next, to, out, deferred);
            }
            call @ Terminator::Call { return_to, .. } => {
                let field = out.put_field(at, &[0xe8]);
                match deferred.adjacent.get(&id) {
                    Some(thunk) => out.fill(field, *thunk),
                    None => deferred.thunks.push(CallThunk { field, at, after: taken, call, direct: true }),
                }
                self.return_site(id, return_to, out, deferred);
            }
            call @ Terminator::IndirectCall { return_to } => {
                let (field, at, after) = out.indirect_call(at, last(), after, outside);
                deferred.thunks.push(CallThunk { field, at, after, call, direct: false });
                self.return_site(id, return_to, out, deferred);
            }
            Terminator::IndirectJump => {
                let (at, after) = out.begin_indirect_jump(at, last(), after, outside);
                if let Some(kind) = function_jump(last()).filter(|_| self.logs_calls) {
                    let (exit, _) = out.log_indirect(at.with(PcBits::RCX), kind, self.rcx_test);
                    deferred.logs.push(exit);
                }
                out.end_indirect_jump(self.table, after);
            }
            Terminator::Return { drops } => {
                let (mut at, after) = out.begin_return(at, after, outside);
                if self.logs_calls {
                    let (exit, logged) = out.log_return(at.with(PcBits::RCX), self.rcx_test);
                    deferred.logs.push(exit);
                    at = logged;
                }
                out.end_return(at, drops, after);
            }
            Terminator::FarTransfer => self.last_stop(at, ExitStub::FarTransfer, out),
            Terminator::Trap(crate::block::TrapKind::Undefined) => {
                out.copy(at, last());
                out.release_r11(at);
            }
            Terminator::Trap(crate::block::TrapKind::Breakpoint) => {
                self.last_stop(next, ExitStub::Breakpoint, out)
            }
            Terminator::Detach(reason) => self.last_stop(next, ExitStub::Detach(reason), out),
        }
    }

    /// Logs a direct branch, if branches are logged; the state after it. The bytes on the stack that
    /// [`PcBits::PUSHED`] speaks of are those of a call that has not reached its thunk's end.
    pub(super) fn log_direct(
        &self,
        at: EmitState,
        kind: RecordKind,
        out: &mut CodeEmitter,
        deferred: &mut DeferredCode,
    ) -> EmitState {
        if !self.logs_calls {
            return at;
        }
        let (exit, logged) = out.log_direct(at.with(PcBits::PUSHED), kind, self.rcx_test);
        deferred.logs.push(exit);
        EmitState { bits: logged.bits.without(PcBits::PUSHED), ..logged }
    }

    /// Logs a call of the address in rcx, if calls are logged, with the program's rcx in the slot; the state
    /// after it.
    pub(super) fn log_indirect(
        &self,
        at: EmitState,
        kind: RecordKind,
        out: &mut CodeEmitter,
        deferred: &mut DeferredCode,
    ) -> EmitState {
        if !self.logs_calls {
            return at;
        }
        let (exit, logged) = out.log_indirect(at.with(PcBits::PUSHED).with(PcBits::RCX), kind, self.rcx_test);
        deferred.logs.push(exit);
        EmitState { bits: logged.bits.without(PcBits::PUSHED.with(PcBits::RCX)), ..logged }
    }

    /// A stop at the end of a block. A task that is found behind it comes from there.
    fn last_stop(&mut self, at: EmitState, exit_stub: ExitStub, out: &mut CodeEmitter) {
        self.stop(at, exit_stub, out);
        out.skip(1);
    }

    pub(super) fn stop(&mut self, at: EmitState, exit_stub: ExitStub, out: &mut CodeEmitter) {
        self.exit_stubs.insert(out.here(), exit_stub);
        out.put(at, &[0xcc]);
    }

    /// Goes on to a block, or to where a link will be made.
    pub(super) fn flow_on(
        &mut self,
        from: u32,
        at: EmitState,
        exit: BlockExit,
        target: u64,
        out: &mut CodeEmitter,
        deferred: &mut DeferredCode,
    ) {
        let known = self.block_at(target).filter(|_| !self.can_change(target));
        let Some(to) = known else {
            let field = out.put_field(at, &[0xe9]);
            deferred.exits.push(BranchExit { field, at, exit, target });
            return;
        };
        let arc = self.blocks[from as usize].edges[exit as usize];
        let at = self.count_edge(arc, at, to, out);
        self.flow_to(from, to, at, out, &mut deferred.bodies);
    }

    /// Goes on to a block; the next one of the batch is emitted right here.
    pub(super) fn flow_to(
        &self,
        from: u32,
        to: u32,
        at: EmitState,
        out: &mut CodeEmitter,
        bodies: &mut Vec<(JumpField, u32)>,
    ) {
        let follows = to == from + 1 && self.blocks[to as usize].body == 0;
        if !follows {
            self.jump_to(to, at, out, bodies);
        }
    }

    /// Counts an edge to a block if it has a counter; the state after it.
    pub(super) fn count_edge(
        &self,
        arc: Option<ArcId>,
        at: EmitState,
        to: u32,
        out: &mut CodeEmitter,
    ) -> EmitState {
        let Some(offset) = self.counter(arc) else { return at };
        out.count(at, offset, self.flags_are_dead(to));
        at.with(PcBits::ARRIVED)
    }

    pub(super) fn jump_to(
        &self,
        to: u32,
        at: EmitState,
        out: &mut CodeEmitter,
        bodies: &mut Vec<(JumpField, u32)>,
    ) {
        let body = self.blocks[to as usize].body;
        if body == 0 {
            bodies.push((out.put_field(at, &[0xe9]), to));
        } else if reaches(out.here(), body) {
            out.put_to(at, &[0xe9], body);
        } else {
            out.put_literal(at, &[0xff, 0x25], body);
        }
    }
}

/// Whether translated code has nothing in place of a block's last instruction. With a budget it has a no-op,
/// so that a window can end before that instruction.
fn is_left_out(terminator: Terminator) -> bool {
    matches!(
        terminator,
        Terminator::Jump { .. }
            | Terminator::FarTransfer
            | Terminator::Trap(crate::block::TrapKind::Breakpoint)
    )
}

/// The kind of an indirect jump to the start of a function, most likely. Stubs jump by a cell of the
/// loader, or by r11, which compilers use for nothing else; functions by a cell of an object. Jumps within
/// a function go by another register, or by a table with an index.
fn function_jump(jump: &DecodedInstruction) -> Option<RecordKind> {
    match jump.target? {
        BranchOperand::Register(number) => (number == 11).then_some(RecordKind::StubJump),
        BranchOperand::Memory if jump.relative.is_some() => Some(RecordKind::StubJump),
        BranchOperand::Memory => (!jump.has_index()).then_some(RecordKind::IndirectJump),
    }
}

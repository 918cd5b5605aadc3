//! The code behind all blocks of a batch: thunks of calls, exits with a counter, exit stubs.

use std::collections::HashSet;

use super::super::call_log::LogExit;
use super::*;

/// The code that is emitted behind all blocks of a batch.
pub(super) struct DeferredCode {
    /// Calls whose thunks follow the blocks.
    pub(super) thunks: Vec<CallThunk>,
    /// Thunks of direct calls that are right before the called block, by the calling block.
    pub(super) adjacent: AddressMap<u32, u64>,
    /// Ways out of blocks that are taken by a jump.
    pub(super) exits: Vec<BranchExit>,
    /// Return sites whose block is not translated.
    pub(super) sites: Vec<(JumpField, u32)>,
    /// Jumps to blocks of the batch that were not emitted yet.
    pub(super) bodies: Vec<(JumpField, u32)>,
    /// Jumps that are taken when the budget is used up.
    pub(super) budget: Vec<BudgetExit>,
    /// Jumps out of loops whose counter has reached its limit.
    pub(super) limits: Vec<LimitExit>,
    /// Jumps that are taken when the log of calls is full.
    pub(super) logs: Vec<LogExit>,
    /// Blocks that jump to the start of a function, where calls are logged.
    pub(super) function_jumps: HashSet<u32>,
}

impl DeferredCode {
    /// Capacity for the deferred code of this number of blocks.
    pub(super) fn with_room(blocks: usize) -> DeferredCode {
        let (thunks, exits) = (Vec::with_capacity(blocks / 2), Vec::with_capacity(blocks + 8));
        let (sites, bodies) = (Vec::with_capacity(8), Vec::with_capacity(8));
        let (budget, limits, logs) = (Vec::new(), Vec::new(), Vec::new());
        let (adjacent, function_jumps) = (AddressMap::default(), HashSet::new());
        DeferredCode { thunks, adjacent, exits, sites, bodies, budget, limits, logs, function_jumps }
    }
}

pub(super) struct CallThunk {
    pub(super) field: JumpField,
    pub(super) at: EmitState,
    pub(super) after: EmitState,
    pub(super) call: Terminator,
    pub(super) direct: bool,
}

/// The jump of a block to its stop for a used-up budget, and the address behind the stop.
pub(super) struct BudgetExit {
    pub(super) field: JumpField,
    pub(super) at: EmitState,
    pub(super) behind: u64,
}

/// The jump out of a loop that enters itself again, with its counter's offset in the slot.
pub(super) struct LimitExit {
    pub(super) field: JumpField,
    pub(super) at: EmitState,
    pub(super) counter: u32,
}

pub(super) struct BranchExit {
    pub(super) field: JumpField,
    pub(super) at: EmitState,
    pub(super) exit: BlockExit,
    pub(super) target: u64,
}

impl Translation {
    pub(super) fn emit_deferred(&mut self, out: &mut CodeEmitter, mut deferred: DeferredCode, first: u32) {
        for thunk in std::mem::take(&mut deferred.thunks) {
            let here = out.here();
            out.fill(thunk.field, here);
            match thunk.call {
                Terminator::Call { target, return_to } if thunk.direct => {
                    let at = self.log_direct(thunk.at, RecordKind::Call, out, &mut deferred);
                    out.direct_thunk(at, return_to);
                    let field = out.put_field(thunk.after, &[0xe9]);
                    deferred.exits.push(BranchExit {
                        field,
                        at: thunk.after,
                        exit: BlockExit::Taken,
                        target,
                    });
                }
                other => {
                    let back = return_to(other).unwrap_or_default();
                    let at = self.log_indirect(thunk.at, RecordKind::IndirectCall, out, &mut deferred);
                    out.indirect_thunk(at, back, self.table, thunk.after);
                }
            }
        }
        for BudgetExit { field, at, behind } in std::mem::take(&mut deferred.budget) {
            let here = out.here();
            out.fill(field, here);
            self.stop(at, ExitStub::Budget, out);
            out.put_to(at, &[0xe9], behind);
        }
        for LimitExit { field, at, counter } in std::mem::take(&mut deferred.limits) {
            let here = out.here();
            out.fill(field, here);
            let block = self.blocks[at.subject as usize];
            let before = EmitState { bits: at.bits.without(PcBits::COUNTED), ..at };
            out.take_round_back(at);
            out.settle_rounds(before, block.instructions, counter);
            let start = EmitState { bits: before.bits.without(PcBits::COUNTING), ..before };
            out.put_to(start, &[0xe9], block.body);
        }
        for LogExit { field, at, behind, reloads } in std::mem::take(&mut deferred.logs) {
            let here = out.here();
            out.fill(field, here);
            if reloads {
                out.reload_target(at);
            }
            self.stop(at, ExitStub::CallLog, out);
            out.put_to(at, &[0xe9], behind);
        }
        for exit in std::mem::take(&mut deferred.exits) {
            self.emit_exit(exit, out, &mut deferred.bodies);
        }
        for (field, stub) in std::mem::take(&mut deferred.sites) {
            let (target, jump) = (self.lookup_targets[stub as usize], out.address(field));
            if self.can_change(target) {
                let versions = self.version_stub(target, out);
                self.fill_or_jump(field, CodeEmitter::in_stub(stub), versions, out);
                continue;
            }
            self.link_stop(
                CodeEmitter::in_stub(stub),
                field,
                ExitStub::ReturnSite { stub, target, jump },
                out,
            );
        }
        for (field, to) in deferred.bodies {
            debug_assert!(to >= first);
            out.fill(field, self.blocks[to as usize].body);
        }
    }

    /// An exit that is taken by a jump: directly to the block, over a counter, or to an exit stub.
    fn emit_exit(&mut self, exit: BranchExit, out: &mut CodeEmitter, bodies: &mut Vec<(JumpField, u32)>) {
        let BranchExit { field, at, exit, target } = exit;
        if self.can_change(target) {
            return self.emit_exit_to_version(BranchExit { field, at, exit, target }, out);
        }
        let Some(to) = self.block_at(target) else {
            let jump = out.address(field);
            return self.link_stop(
                at,
                field,
                ExitStub::DirectLink { from: at.subject, exit, target, jump },
                out,
            );
        };
        let body = self.blocks[to as usize].body;
        let arc = self.blocks[at.subject as usize].edges[exit as usize];
        let direct = self.counter(arc).is_none();
        match body {
            0 if direct => bodies.push((field, to)),
            body if direct && reaches(out.address(field), body) => out.fill(field, body),
            _ => {
                let here = out.here();
                out.fill(field, here);
                let at = self.count_edge(arc, at, to, out);
                self.jump_to(to, at, out, bodies);
            }
        }
    }

    /// An exit to the version stub of changing code. Its edge goes to the outside.
    fn emit_exit_to_version(&mut self, exit: BranchExit, out: &mut CodeEmitter) {
        let BranchExit { field, at, exit, target } = exit;
        let arc = self.blocks[at.subject as usize].edges[exit as usize];
        let stub = self.version_stub(target, out);
        let Some(offset) = self.counter(arc) else { return self.fill_or_jump(field, at, stub, out) };
        out.fill(field, out.here());
        out.count(at, offset, false);
        self.jump_to_address(at.with(PcBits::OUTSIDE), stub, out);
    }
}

//! Instrumentation: counters in translated blocks, and the links between blocks.
//!
//! # Problem
//!
//! Few counters determine the executions of all blocks and edges ([`crate::flow`]). This module decides the
//! cost of a counter at each block and edge, lets the graph choose, and emits the blocks with the chosen
//! counters.
//!
//! # Terms
//!
//! - *Block counter*: one addition in a block, where its status flags are dead if possible (`flags_dead`).
//! - *Edge counter*: one addition on the path from a block to another one.
//! - *Deferred code*: thunks, exits with a counter and exit stubs, behind the blocks of the batch.
//! - *Lookup stub*: the entry of indirect branches and returns to a block.
//! - *Budget*: instructions that a thread may execute before it stops, for windows of a recording.
//! - *Unit counter*: iterations of a repeated instruction, or elements under a mask.
//!
//! ```text
//!   block A ── falls through ──> [edge counter] ──> block B     next block of the batch: no jump
//!      │
//!      └── branch taken ──> jump to B, or to deferred code:
//!                             [edge counter] jump to B          B is translated
//!                             exit stub (int3)              B is not translated: stops; link() writes a jump
//! ```
//!
//! # Invariants
//!
//! - Every edge of a batch is in the graph before the epoch is closed, so that no execution is missed.
//! - Each emitted instruction has a PC-map entry that says which counters were increased before it.
//! - An exit stub has 16 bytes, aligned, so that a jump can replace it by writes of whole words.
//! - At most [`MOST_LINKS`] links are made for a batch; the others are made when the program reaches their
//!   stubs.
//! - A loop of one block keeps its counter in r11, and stores it where the loop is left.

mod block_end;
mod deferred;
mod edges;
mod links;
mod lookups;
mod loops;

use std::collections::HashSet;

use super::access_log::LoggedRegister;
use super::emit::{StubAddress, reaches};
use super::instruction::RunTimeUnits;
use super::*;
use deferred::{BudgetExit, CallThunk, DeferredCode};
use links::LinkPatch;
use loops::CountedLoop;

/// Most links of a batch, because a batch has a limited part of a region and of the counters. The others are
/// made when the program reaches their stubs.
pub(super) const MOST_LINKS: usize = 2000;

impl Translation {
    /// Translates the blocks that are reachable from `entry`, which was not translated before.
    pub(super) fn translate(&mut self, code: &mut dyn CodeSource, entry: u64, region: usize) {
        let bounds = (self.regions[region].base(), self.regions[region].base() + REGION);
        let blocks = &self.blocks;
        let known = |block: u32| blocks[block as usize].live_in;
        let scratch = std::mem::take(&mut self.scratch);
        let batch = BlockBatch::find(&mut self.pages, code, entry, bounds, &known, scratch);
        let first = self.blocks.len() as u32;
        for pending in &batch.blocks {
            self.register_block(&batch, pending);
        }
        for i in 0..batch.blocks.len() {
            self.add_edges(&batch, i, first);
        }
        let indirect_entries = self.expected_indirect_entries(first);
        let links = self.links_to_new_blocks(first);
        self.flow.close_epoch();
        let mut out = self.emitter(region);
        let mut deferred = DeferredCode::with_room(batch.blocks.len());
        if self.logs_calls {
            deferred.function_jumps = function_jumps(&batch, first, code);
        }
        let mut entries = Vec::with_capacity(indirect_entries.len());
        let (adjacent, separate) = self.split_by_fallthrough(&batch, first, indirect_entries);
        let mut adjacent = adjacent.into_iter().peekable();
        let callers = callers(&batch);
        for (position, (id, pending)) in (first..).zip(&batch.blocks).enumerate() {
            if adjacent.next_if_eq(&id).is_some() {
                entries.push(self.entry_path(id, &mut out).0);
            } else if let Some(caller) = callers[position] {
                self.inline_call_thunk(&batch, (first, caller), id, &mut out, &mut deferred);
            }
            if pending.checked {
                self.emit_check(id, &mut out);
            }
            self.emit(&batch, pending, id, &mut out, &mut deferred);
        }
        self.emit_deferred(&mut out, deferred, first);
        let jumps: Vec<LinkPatch> = links.into_iter().map(|link| self.link_to(link, &mut out)).collect();
        entries.extend(separate.into_iter().map(|to| self.entry_jump(to, &mut out).0));
        self.publish(region, out);
        self.writes.extend(entries);
        self.open_versions(first);
        jumps.into_iter().for_each(|jump| self.patch(jump));
        self.scratch = batch.into_scratch();
    }

    /// Splits new blocks, ascending, into those that the block before does not continue to, and the others. A
    /// lookup stub can be right before the first kind.
    fn split_by_fallthrough(&self, batch: &BlockBatch, first: u32, blocks: Vec<u32>) -> (Vec<u32>, Vec<u32>) {
        blocks.into_iter().partition(|id| !batch.is_fallen_into((id - first) as usize))
    }

    /// The thunk of a direct call, right before the called block, which is emitted next.
    fn inline_call_thunk(
        &mut self,
        batch: &BlockBatch,
        (first, caller): (u32, usize),
        to: u32,
        out: &mut CodeEmitter,
        deferred: &mut DeferredCode,
    ) {
        let (pending, from) = (&batch.blocks[caller], first + caller as u32);
        let Terminator::Call { return_to, .. } = pending.terminator else { return };
        let bits = self.block_counter(from).map_or(PcBits::CLEAN, |_| PcBits::COUNTED);
        let bits = if self.logs_accesses { bits.with(PcBits::LOGGED) } else { bits };
        let at = EmitState { subject: from, done: pending.len() as u16 - 1, bits };
        let after = EmitState { done: pending.len() as u16, ..at }.with(PcBits::TAKEN);
        // The call was emitted before, or is emitted later.
        let waits = |thunk: &CallThunk| thunk.direct && thunk.at.subject == from;
        match deferred.thunks.iter().position(waits) {
            Some(thunk) => {
                let field = deferred.thunks.swap_remove(thunk).field;
                out.fill(field, out.here());
            }
            None => drop(deferred.adjacent.insert(from, out.here())),
        }
        let at = self.log_direct(at, RecordKind::Call, out, deferred);
        out.direct_thunk(at, return_to);
        let arc = self.blocks[from as usize].edges[BlockExit::Taken as usize];
        self.count_edge(arc, after, to, out);
    }

    fn emit(
        &mut self,
        batch: &BlockBatch,
        pending: &batch::PendingBlock,
        id: u32,
        out: &mut CodeEmitter,
        deferred: &mut DeferredCode,
    ) {
        self.blocks[id as usize].body = out.here();
        let plain_loop = self.plain_loop(batch, pending, id);
        if self.budget.is_some() && pending.len() > 0 {
            let at = EmitState { subject: id, done: 0, bits: PcBits::CLEAN };
            let (field, behind, at) = match &plain_loop {
                None => out.spend(at, self.charge(&self.blocks[id as usize]), self.rcx_test),
                Some(CountedLoop { counter, .. }) => {
                    self.budget_loops.push(id);
                    out.enter_rounds(at, pending.len() as u16, *counter, self.rcx_test)
                }
            };
            deferred.budget.push(BudgetExit { field, at, behind });
        }
        if let Some(found) = plain_loop {
            return self.emit_loop(batch.instructions(pending), pending, (id, found), out, deferred);
        }
        let counter = self.block_counter(id);
        let flags_dead = pending.flags_dead;
        let ends_itself =
            !matches!(pending.terminator, Terminator::FallThrough { .. } | Terminator::Detach(_));
        let copies = pending.len() - usize::from(ends_itself);
        let mut at = EmitState { subject: id, done: 0, bits: PcBits::CLEAN };
        let mut record = self.begin_record(pending, id, &mut at, out, deferred);
        for (step, instruction) in batch.instructions(pending).iter().enumerate() {
            at.done = step as u16;
            if let Some(offset) = counter.filter(|_| step == flags_dead.unwrap_or(0)) {
                out.count(at, offset, flags_dead.is_some());
                at = at.with(PcBits::COUNTED);
            }
            record.iter_mut().for_each(|record| record.log_before(at, out));
            if step < copies {
                self.copy(instruction, at, out);
            }
        }
        let before_end = EmitState { done: copies as u16, ..at };
        record.iter_mut().filter(|_| !ends_itself).for_each(|record| record.log_before(before_end, out));
        match pending.terminator {
            Terminator::IndirectJump | Terminator::IndirectCall { .. } => out.settle_r11(before_end),
            _ => out.release_r11(before_end),
        }
        let after = EmitState { done: pending.len() as u16, ..at };
        self.end(batch, pending, id, (at, after), out, deferred);
    }

    /// Begins the record of a block, where accesses are logged.
    fn begin_record(
        &mut self,
        pending: &batch::PendingBlock,
        id: u32,
        at: &mut EmitState,
        out: &mut CodeEmitter,
        deferred: &mut DeferredCode,
    ) -> Option<OpenRecord> {
        if !self.logs_accesses || pending.len() == 0 {
            return None;
        }
        let CodeBytes { address, bytes } = self.code(id);
        let plan = AccessPlan::of(address, bytes, pending.len());
        let (exit, logged) =
            out.begin_record(*at, plan.words(), self.blocks[id as usize].live_in, self.rcx_test);
        deferred.logs.push(exit);
        *at = logged;
        let record = OpenRecord { logged: plan.logged.clone(), next: 0 };
        self.access_plans.insert(id, Box::new(plan));
        Some(record)
    }

    fn copy(&mut self, instruction: &DecodedInstruction, at: EmitState, out: &mut CodeEmitter) {
        if let Some(question) = instruction.cpu_query.filter(|_| self.stop_at_cpu_queries) {
            self.stop(at, ExitStub::CpuQuery(question), out);
            // These bytes have no PC-map entry: a task at the stop is not mistaken for one behind it.
            return out.skip(ANSWERED as usize);
        }
        let Some(units) = self.units(instruction) else {
            let repeats = matches!(instruction.units, Some(RunTimeUnits::Iterations { .. }));
            let bits = if self.logs_accesses && repeats { PcBits::ITERATIONS } else { PcBits::CLEAN };
            return out.copy(at.with(bits), instruction);
        };
        let index = self.unit_counters;
        self.unit_counters += 1;
        self.blocks[at.subject as usize].units.get_or_insert(NonZeroU32::MIN.saturating_add(index));
        let offset = slot_layout::unit_counter(index);
        let after = EmitState { done: at.done + 1, ..at };
        match units {
            RunTimeUnits::Iterations { conditional } => {
                out.add_rcx(at, offset);
                out.copy(at.with(PcBits::ITERATIONS), instruction);
                if conditional {
                    out.subtract_rcx(after, offset);
                }
            }
            RunTimeUnits::Elements { of, mask_is_lost: true } => {
                out.count_elements(at, of, offset, (at.bits, at.bits.with(PcBits::UNSURE)));
                out.copy(at.with(PcBits::UNSURE), instruction);
            }
            RunTimeUnits::Elements { of, mask_is_lost: false } => {
                out.copy(at, instruction);
                out.count_elements(after, of, offset, (at.bits.with(PcBits::UNSURE), at.bits));
            }
        }
    }

    /// The number of unit counters among a block's first instructions.
    pub(super) fn with_units(&self, block: u32, instructions: u16) -> u32 {
        let instructions = self.decoded(&self.blocks[block as usize]).take(usize::from(instructions));
        instructions.filter(|instruction| self.units(instruction).is_some()).count() as u32
    }

    /// The units of an instruction that are counted beside its executions.
    fn units(&self, instruction: &DecodedInstruction) -> Option<RunTimeUnits> {
        instruction.units.filter(|units| self.counts(units.kind()))
    }
}

/// A record whose words are being emitted.
struct OpenRecord {
    logged: Vec<LoggedRegister>,
    /// The number of words that were emitted, but for the first one.
    next: usize,
}

impl OpenRecord {
    /// Logs the registers that the plan wants before the next instruction.
    fn log_before(&mut self, at: EmitState, out: &mut CodeEmitter) {
        let words = 1 + self.logged.len();
        while let Some(register) = self.logged.get(self.next).filter(|logged| logged.step <= at.done) {
            self.next += 1;
            out.log_register(at, register.register, self.next, words);
        }
    }
}

/// For each block of a batch the block that calls it most, unless execution falls into it.
fn callers(batch: &BlockBatch) -> Vec<Option<usize>> {
    let mut callers: Vec<Option<usize>> = vec![None; batch.blocks.len()];
    for (position, pending) in batch.blocks.iter().enumerate() {
        let (Terminator::Call { .. }, Some(to)) = (pending.terminator, pending.inside[1]) else { continue };
        let to = to as usize;
        let more = callers[to].is_none_or(|known| batch.blocks[known].expected < pending.expected);
        if more && !batch.is_fallen_into(to) {
            callers[to] = Some(position);
        }
    }
    callers
}

/// The blocks of a batch that jump to the start of a function. `first` is the batch's first block.
fn function_jumps(batch: &BlockBatch, first: u32, code: &mut dyn CodeSource) -> HashSet<u32> {
    let jumps = (first..).zip(&batch.blocks).filter_map(|(id, pending)| match pending.terminator {
        Terminator::Jump { target } => Some((id, target)),
        _ => None,
    });
    jumps.filter(|(_, target)| code.is_function_start(*target)).map(|(id, _)| id).collect()
}

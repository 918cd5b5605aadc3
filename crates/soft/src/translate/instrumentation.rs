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

use std::collections::HashSet;

use super::batch::expected;
use super::budget::{LIMIT_BYTES, MOST_OF_LOOP};
use super::call_log::{LogExit, RecordKind};
use super::emit::{BEGIN_COUNTING, len_of_conditional, register_count};
use super::instruction::{BranchOperand, RegisterUse, RunTimeUnits};
use super::*;
use crate::flow::FlowPoint;

/// Cost of a counter where flags are live: three instructions.
const COST_FLAGS_LIVE: u64 = 3;
/// Cost of a counter where flags are dead: one instruction.
const COST_FLAGS_DEAD: u64 = 2;
/// Added cost of a counter that is off the path, as that of a taken branch: there is a jump to it and back.
const COST_OFF_PATH: u64 = 2;

/// One execution, in hundredths.
const ONCE: u64 = 100;

/// Most links of a batch, because a batch has a limited part of a region and of the counters. The others are
/// made when the program reaches their stubs.
pub(super) const MOST_LINKS: usize = 2000;

/// The code that is emitted behind all blocks of a batch.
struct DeferredCode {
    /// Calls whose thunks follow the blocks.
    thunks: Vec<CallThunk>,
    /// Thunks of direct calls that are right before the called block, by the calling block.
    adjacent: AddressMap<u32, u64>,
    /// Ways out of blocks that are taken by a jump.
    exits: Vec<BranchExit>,
    /// Return sites whose block is not translated.
    sites: Vec<(JumpField, u32)>,
    /// Jumps to blocks of the batch that were not emitted yet.
    bodies: Vec<(JumpField, u32)>,
    /// Jumps that are taken when the budget is used up.
    budget: Vec<BudgetExit>,
    /// Jumps out of loops whose counter has reached its limit.
    limits: Vec<LimitExit>,
    /// Jumps that are taken when the log of calls is full.
    logs: Vec<LogExit>,
    /// Blocks that jump to the start of a function, where calls are logged.
    function_jumps: HashSet<u32>,
}

impl DeferredCode {
    /// Capacity for the deferred code of this number of blocks.
    fn with_room(blocks: usize) -> DeferredCode {
        let (thunks, exits) = (Vec::with_capacity(blocks / 2), Vec::with_capacity(blocks + 8));
        let (sites, bodies) = (Vec::with_capacity(8), Vec::with_capacity(8));
        let (budget, limits, logs) = (Vec::new(), Vec::new(), Vec::new());
        let (adjacent, function_jumps) = (AddressMap::default(), HashSet::new());
        DeferredCode { thunks, adjacent, exits, sites, bodies, budget, limits, logs, function_jumps }
    }
}

struct CallThunk {
    field: JumpField,
    at: EmitState,
    after: EmitState,
    call: Terminator,
    direct: bool,
}

/// The jump of a block to its stop for a used-up budget, and the address behind the stop.
struct BudgetExit {
    field: JumpField,
    at: EmitState,
    behind: u64,
}

/// The jump out of a loop that enters itself again, with its counter's offset in the slot.
struct LimitExit {
    field: JumpField,
    at: EmitState,
    counter: u32,
}

struct BranchExit {
    field: JumpField,
    at: EmitState,
    exit: BlockExit,
    target: u64,
}

/// A block that goes back to its own start, with its counter's offset in the slot.
struct CountedLoop {
    counter: u32,
    not_taken: u64,
}

/// A stop that waits for a block, and the block.
struct LinkRequest {
    stop: u64,
    jump: u64,
    to: u32,
    arc: ArcId,
    at: EmitState,
}

/// A jump that replaces a stop.
struct LinkPatch {
    stop: u64,
    jump: u64,
    destination: u64,
}

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

    /// The new blocks that indirect branches have led to in earlier runs.
    fn expected_indirect_entries(&mut self, first: u32) -> Vec<u32> {
        let is_indirect_entry = |id: &u32| {
            let address = self.blocks[*id as usize].address;
            let profile = self.pages.profile(address);
            profile.is_some_and(|profile| profile.is_indirect_entry((address % PAGE) as u16))
        };
        let found: Vec<u32> = (first..self.blocks.len() as u32).filter(is_indirect_entry).collect();
        for id in &found {
            if self.blocks[*id as usize].from_outside.is_none() {
                self.add_outside_edge(*id, ONCE);
            }
        }
        found
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

    /// The links of exit stubs that wait for the new blocks, with their edges: at most [`MOST_LINKS`].
    fn links_to_new_blocks(&mut self, first: u32) -> Vec<LinkRequest> {
        let mut links = Vec::new();
        for to in first..self.blocks.len() as u32 {
            let mut stops = self.waiting.take(self.blocks[to as usize].address);
            while let Some(stop) = self.waiting.next(&mut stops) {
                let link = if links.len() < MOST_LINKS { self.edge_of(stop, to) } else { None };
                links.extend(link);
            }
        }
        links
    }

    fn register_block(&mut self, batch: &BlockBatch, pending: &batch::PendingBlock) {
        let weight =
            pending.expected * if pending.flags_dead.is_some() { COST_FLAGS_DEAD } else { COST_FLAGS_LIVE };
        let instructions = batch.instructions(pending);
        let behind = instructions.last().map_or(pending.address, DecodedInstruction::next);
        let len = behind.wrapping_sub(pending.address) as u16;
        let (end, target) = BlockEnd::of(pending.terminator);
        let id = self.blocks.len() as u32;
        self.pages.add_block(pending.address, id);
        if pending.checked || pending.address % PAGE + u64::from(len) > PAGE {
            let bytes = instructions.iter().flat_map(DecodedInstruction::code).copied().collect();
            self.straddling.insert(id, bytes);
        }
        self.blocks.push(TranslatedBlock {
            address: pending.address,
            body: 0,
            len,
            is_version: pending.checked,
            instructions: pending.len() as u16,
            live_in: pending.live_in,
            end,
            distance: target.map_or(0, |target| target.wrapping_sub(behind) as u32),
            block: self.flow.block(weight),
            edges: [None; 2],
            from_outside: None,
            units: None,
        });
        if pending.checked {
            self.add_outside_edge(id, pending.expected);
        }
    }

    /// Adds the edges whose ends are known. `first` is the batch's first block.
    fn add_edges(&mut self, batch: &BlockBatch, position: usize, first: u32) {
        let (pending, id) = (&batch.blocks[position], first + position as u32);
        let exit = FlowPoint::Exit(self.blocks[id as usize].block);
        let heats = self.pages.heats(pending.address);
        let targets = successors(pending.terminator);
        for (i, target) in targets.into_iter().enumerate() {
            if let Some(target) = target.filter(|target| self.can_change(*target)) {
                self.blocks[id as usize].edges[i] = Some(self.edge_to_version(exit, target, pending));
                continue;
            }
            let inside = pending.inside[i].map(|inside| first + inside);
            let Some(to) = inside.or_else(|| self.block_at(target?)) else { continue };
            let share = match pending.terminator {
                Terminator::Conditional { taken, .. } => {
                    let back = if taken <= pending.address { 88 } else { 40 };
                    if i == 0 { 100 - back } else { back * 8 / 5 }
                }
                _ => 105,
            };
            let guess = pending.expected * share / 100;
            let executions = expected(heats.map(|heats| heats.exits[i]), guess).min(self.most_executions(to));
            let off_path = matches!(pending.terminator, Terminator::Conditional { .. })
                && i == BlockExit::Taken as usize;
            let weight = executions * self.edge_counter_cost(to, off_path);
            let entry = FlowPoint::Entry(self.blocks[to as usize].block);
            self.blocks[id as usize].edges[i] = Some(self.flow.edge(exit, entry, weight));
        }
        if exits_indirectly(pending.terminator) {
            let arc = self.flow.edge(exit, FlowPoint::Outside, pending.expected * COST_FLAGS_LIVE);
            self.blocks[id as usize].edges[1] = Some(arc);
        }
        let site = return_to(pending.terminator).and_then(|site| self.block_at(site));
        if let Some(site) = site.filter(|site| self.blocks[*site as usize].from_outside.is_none()) {
            let adjacent = batch.at(self.blocks[site as usize].address).map(|i| batch.blocks[i].expected);
            self.add_outside_edge(site, adjacent.unwrap_or(ONCE));
        }
    }

    /// The edge of an exit to changing code.
    fn edge_to_version(&mut self, exit: FlowPoint, target: u64, pending: &batch::PendingBlock) -> ArcId {
        let back = target <= pending.address;
        let half = matches!(pending.terminator, Terminator::Conditional { .. }) && !back;
        let executions = if half { pending.expected / 2 } else { pending.expected };
        self.flow.edge(exit, FlowPoint::Outside, executions * COST_FLAGS_LIVE)
    }

    /// Most expected executions of a block, in hundredths, from the execution profile of its page.
    fn most_executions(&self, id: u32) -> u64 {
        let heats = self.pages.heats(self.blocks[id as usize].address);
        expected(heats.map(|heats| heats.block), u64::MAX)
    }

    /// Adds the edge from the outside to a block. `guess` is the expected number of executions, in
    /// hundredths, without a profile.
    fn add_outside_edge(&mut self, id: u32, guess: u64) {
        let heats = self.pages.heats(self.blocks[id as usize].address);
        let weight = expected(heats.map(|heats| heats.entry), guess) * self.edge_counter_cost(id, false);
        let entry = FlowPoint::Entry(self.blocks[id as usize].block);
        self.blocks[id as usize].from_outside = Some(self.flow.edge(FlowPoint::Outside, entry, weight));
    }

    /// The cost of a counter on an edge to a block, on the path, or off the path with a jump back.
    fn edge_counter_cost(&self, to: u32, off_path: bool) -> u64 {
        let cost = if self.flags_are_dead(to) { COST_FLAGS_DEAD } else { COST_FLAGS_LIVE };
        if off_path { cost + COST_OFF_PATH } else { cost }
    }

    fn flags_are_dead(&self, id: u32) -> bool {
        self.blocks[id as usize].live_in & instruction::OSZAP == 0
    }

    fn counter(&self, arc: Option<ArcId>) -> Option<u32> {
        self.flow.counter_of(arc?).map(slot_layout::counter)
    }

    /// The counter of a block, by its offset in the slot, if it has one.
    pub(super) fn block_counter(&self, id: u32) -> Option<u32> {
        self.counter(Some(self.flow.arc_of(self.blocks[id as usize].block)))
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
                None => out.spend(at, self.charge(&self.blocks[id as usize])),
                Some(CountedLoop { counter, .. }) => {
                    self.budget_loops.push(id);
                    out.enter_rounds(at, pending.len() as u16, *counter)
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
        for (step, instruction) in batch.instructions(pending).iter().enumerate() {
            at.done = step as u16;
            if let Some(offset) = counter.filter(|_| step == flags_dead.unwrap_or(0)) {
                out.count(at, offset, flags_dead.is_some());
                at = at.with(PcBits::COUNTED);
            }
            if step < copies {
                self.copy(instruction, at, out);
            }
        }
        let before_end = EmitState { done: copies as u16, ..at };
        match pending.terminator {
            Terminator::IndirectJump | Terminator::IndirectCall { .. } => out.settle_r11(before_end),
            _ => out.release_r11(before_end),
        }
        let after = EmitState { done: pending.len() as u16, ..at };
        self.end(batch, pending, id, (at, after), out, deferred);
    }

    /// The counter of a block that jumps to its own start. `None` where another counter is needed, where an
    /// instruction uses r11, or where one stops.
    fn plain_loop(&self, batch: &BlockBatch, pending: &batch::PendingBlock, id: u32) -> Option<CountedLoop> {
        let Terminator::Conditional { taken, not_taken } = pending.terminator else { return None };
        // Each round is counted before its first instruction, and some of them fit in a window.
        let fits = |period: NonZeroU64| {
            pending.flags_dead == Some(0)
                && pending.len() <= MOST_OF_LOOP
                && period.get() / 4 >= pending.len() as u64
        };
        if !self.budget.is_none_or(fits) {
            return None;
        }
        let back = self.blocks[id as usize].edges[BlockExit::Taken as usize];
        if pending.checked || taken != pending.address || back.is_none() || self.counter(back).is_some() {
            return None;
        }
        let stops =
            |instruction: &DecodedInstruction| self.stop_at_cpu_queries && instruction.cpu_query.is_some();
        let plain = |instruction: &DecodedInstruction| {
            instruction.r11 == RegisterUse::None && self.units(instruction).is_none() && !stops(instruction)
        };
        let counter = self.block_counter(id).filter(|_| batch.instructions(pending).iter().all(plain))?;
        Some(CountedLoop { counter, not_taken })
    }

    /// Emits such a block with its counter in r11: a counter in memory would make each iteration wait for the
    /// one before.
    fn emit_loop(
        &mut self,
        instructions: &[DecodedInstruction],
        pending: &batch::PendingBlock,
        (id, CountedLoop { counter, not_taken }): (u32, CountedLoop),
        out: &mut CodeEmitter,
        deferred: &mut DeferredCode,
    ) {
        let flags_dead = pending.flags_dead;
        let branch = &instructions[instructions.len() - 1];
        let copies = instructions.len() - 1;
        let copied: usize = instructions[..copies].iter().map(|instruction| instruction.code().len()).sum();
        let limit = if self.budget.is_some() { LIMIT_BYTES } else { 0 };
        let round = limit + register_count(flags_dead.is_some()).len() + copied + len_of_conditional(branch);
        let before = EmitState { subject: id, done: 0, bits: PcBits::CLEAN };
        let begins = before.with(PcBits::COUNTING);
        match self.budget {
            None => {
                out.align_to_line(before, BEGIN_COUNTING, round);
                out.begin_counting(before, counter);
            }
            Some(_) => out.align_to_line(begins, 0, round),
        }
        let start = out.here();
        let mut at = begins;
        for (step, instruction) in instructions.iter().enumerate() {
            at.done = step as u16;
            if step == flags_dead.unwrap_or(0) {
                let counted = at.with(PcBits::COUNTED);
                if self.budget.is_some() {
                    let field = out.count_round(at, counted);
                    deferred.limits.push(LimitExit { field, at: counted, counter });
                } else {
                    out.count_in_register(at, flags_dead.is_some());
                }
                at = counted;
            }
            if step < copies {
                out.copy(at, instruction);
            }
        }
        let after = EmitState { done: pending.len() as u16, ..at };
        let (next, taken) = (after.with(PcBits::NEXT), after.with(PcBits::TAKEN));
        let field = out.conditional(at, taken, branch);
        out.fill(field, start);
        debug_assert_eq!(out.here(), start + round as u64);
        match self.budget {
            None => out.end_counting(next, counter),
            Some(_) => out.settle_rounds(next, pending.len() as u16, counter),
        }
        let next = EmitState { bits: next.bits.without(PcBits::COUNTING), ..next };
        self.flow_on(id, next, BlockExit::Next, not_taken, out, deferred);
    }

    fn copy(&mut self, instruction: &DecodedInstruction, at: EmitState, out: &mut CodeEmitter) {
        if let Some(question) = instruction.cpu_query.filter(|_| self.stop_at_cpu_queries) {
            self.stop(at, ExitStub::CpuQuery(question), out);
            // These bytes have no PC-map entry: a task at the stop is not mistaken for one behind it.
            return out.skip(ANSWERED as usize);
        }
        let Some(units) = self.units(instruction) else { return out.copy(at, instruction) };
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

    /// The last instruction of a block, and its exits.
    fn end(
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
                    let (exit, _) = out.log_direct(at, RecordKind::Jump);
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
                    let (exit, _) = out.log_indirect(at.with(PcBits::RCX), kind);
                    deferred.logs.push(exit);
                }
                out.end_indirect_jump(self.table, after);
            }
            Terminator::Return { drops } => {
                let (mut at, after) = out.begin_return(at, after, outside);
                if self.logs_calls {
                    let (exit, logged) = out.log_return(at.with(PcBits::RCX));
                    deferred.logs.push(exit);
                    at = logged;
                }
                out.end_return(at, drops, after);
            }
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
    fn log_direct(
        &self,
        at: EmitState,
        kind: RecordKind,
        out: &mut CodeEmitter,
        deferred: &mut DeferredCode,
    ) -> EmitState {
        if !self.logs_calls {
            return at;
        }
        let (exit, logged) = out.log_direct(at.with(PcBits::PUSHED), kind);
        deferred.logs.push(exit);
        EmitState { bits: logged.bits.without(PcBits::PUSHED), ..logged }
    }

    /// Logs a call of the address in rcx, if calls are logged, with the program's rcx in the slot; the state
    /// after it.
    fn log_indirect(
        &self,
        at: EmitState,
        kind: RecordKind,
        out: &mut CodeEmitter,
        deferred: &mut DeferredCode,
    ) -> EmitState {
        if !self.logs_calls {
            return at;
        }
        let (exit, logged) = out.log_indirect(at.with(PcBits::PUSHED).with(PcBits::RCX), kind);
        deferred.logs.push(exit);
        EmitState { bits: logged.bits.without(PcBits::PUSHED.with(PcBits::RCX)), ..logged }
    }

    /// A stop at the end of a block. A task that is found behind it comes from there.
    fn last_stop(&mut self, at: EmitState, exit_stub: ExitStub, out: &mut CodeEmitter) {
        self.stop(at, exit_stub, out);
        out.skip(1);
    }

    fn stop(&mut self, at: EmitState, exit_stub: ExitStub, out: &mut CodeEmitter) {
        self.exit_stubs.insert(out.here(), exit_stub);
        out.put(at, &[0xcc]);
    }

    /// Goes on to a block, or to where a link will be made.
    fn flow_on(
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
    fn flow_to(
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
    fn count_edge(&self, arc: Option<ArcId>, at: EmitState, to: u32, out: &mut CodeEmitter) -> EmitState {
        let Some(offset) = self.counter(arc) else { return at };
        out.count(at, offset, self.flags_are_dead(to));
        at.with(PcBits::ARRIVED)
    }

    fn jump_to(&self, to: u32, at: EmitState, out: &mut CodeEmitter, bodies: &mut Vec<(JumpField, u32)>) {
        let body = self.blocks[to as usize].body;
        if body == 0 {
            bodies.push((out.put_field(at, &[0xe9]), to));
        } else if reaches(out.here(), body) {
            out.put_to(at, &[0xe9], body);
        } else {
            out.put_literal(at, &[0xff, 0x25], body);
        }
    }

    /// The return site behind a call.
    fn return_site(&mut self, call: u32, address: u64, out: &mut CodeEmitter, deferred: &mut DeferredCode) {
        let stub = self.lookup_targets.len() as u32;
        self.lookup_targets.push(address);
        let known = self.block_at(address).filter(|_| !self.can_change(address));
        let (chain, _, at) = out.lookup_stub(stub, address, known.and_then(|to| self.counter_in(to)));
        out.literal(chain, self.return_missed);
        match known {
            Some(to) => self.flow_to(call, to, at, out, &mut deferred.bodies),
            None => deferred.sites.push((out.put_field(at, &[0xe9]), stub)),
        }
    }

    fn emit_deferred(&mut self, out: &mut CodeEmitter, mut deferred: DeferredCode, first: u32) {
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

    /// Lets a jump reach an address, by another jump if it is too far away.
    fn fill_or_jump(&self, field: JumpField, at: EmitState, to: u64, out: &mut CodeEmitter) {
        if reaches(out.address(field), to) {
            return out.fill(field, to);
        }
        out.fill(field, out.here());
        self.jump_to_address(at, to, out);
    }

    pub(super) fn jump_to_address(&self, at: EmitState, to: u64, out: &mut CodeEmitter) {
        if reaches(out.here(), to) {
            out.put_to(at, &[0xe9], to)
        } else {
            out.put_literal(at, &[0xff, 0x25], to)
        }
    }

    /// Sixteen bytes that stop, until a jump is written there.
    fn link_stop(&mut self, at: EmitState, field: JumpField, exit_stub: ExitStub, out: &mut CodeEmitter) {
        out.align(16);
        let here = out.here();
        out.fill(field, here);
        if let ExitStub::DirectLink { target, .. } | ExitStub::ReturnSite { target, .. } = exit_stub {
            self.waiting.add(target, here);
        }
        self.stop(at, exit_stub, out);
        out.skip(15);
    }

    /// Translates the target of an exit stub. Returns the address where the program continues, with its
    /// registers unchanged; `None` where there is no such stub.
    ///
    /// # Errors
    ///
    /// [`TranslationNeed`].
    pub fn link(&mut self, code: &mut dyn CodeSource, stop: u64) -> Result<Option<u64>, TranslationNeed> {
        let target = match self.exit_stubs.get(&stop) {
            Some(ExitStub::DirectLink { target, .. } | ExitStub::ReturnSite { target, .. }) => *target,
            Some(ExitStub::Linked(to)) => return Ok(Some(*to)),
            Some(ExitStub::Versions(address)) => {
                let version = self.ensure(code, *address)?;
                return Ok(self.behind_check(version));
            }
            _ => return Ok(None),
        };
        // The stops that wait for the block are linked when it is translated, unless they are too many.
        let to = self.ensure(code, target)?;
        if let Some(ExitStub::Linked(to)) = self.exit_stubs.get(&stop) {
            return Ok(Some(*to));
        }
        self.link_alone(stop, to)
    }

    /// Links a stop to a block that was translated before.
    fn link_alone(&mut self, stop: u64, to: u32) -> Result<Option<u64>, TranslationNeed> {
        let region = self.region_near(self.blocks[to as usize].address)?;
        let Some(link) = self.edge_of(stop, to) else { return Ok(None) };
        self.flow.close_epoch();
        let mut out = self.emitter(region);
        let patch = self.link_to(link, &mut out);
        let destination = patch.destination;
        self.publish(region, out);
        self.patch(patch);
        Ok(Some(destination))
    }

    /// The edge of a link to a block, and the state at the link.
    fn edge_of(&mut self, stop: u64, to: u32) -> Option<LinkRequest> {
        match self.exit_stubs.get(&stop).copied()? {
            ExitStub::DirectLink { from, exit, jump, .. } => {
                let is_version = self.blocks[to as usize].is_version;
                let translated = self.blocks[from as usize];
                let entry = FlowPoint::Entry(self.blocks[to as usize].block);
                let entry = if is_version { FlowPoint::Outside } else { entry };
                let ends = (FlowPoint::Exit(translated.block), entry);
                let known = translated.edges[exit as usize];
                let heats = self.pages.heats(translated.address);
                let executions = expected(heats.map(|heats| heats.exits[exit as usize]), ONCE);
                let weight = executions * self.edge_counter_cost(to, true);
                let arc = known.unwrap_or_else(|| self.flow.edge(ends.0, ends.1, weight));
                self.blocks[from as usize].edges[exit as usize] = Some(arc);
                let counted = self.block_counter(from).map_or(PcBits::CLEAN, |_| PcBits::COUNTED);
                let bits = counted.with(if exit == BlockExit::Next { PcBits::NEXT } else { PcBits::TAKEN });
                let at = EmitState { subject: from, done: translated.instructions, bits };
                Some(LinkRequest { stop, jump, to, arc, at })
            }
            ExitStub::ReturnSite { stub, jump, .. } => {
                if self.blocks[to as usize].from_outside.is_none() {
                    self.add_outside_edge(to, ONCE);
                }
                let arc = self.blocks[to as usize].from_outside?;
                Some(LinkRequest { stop, jump, to, arc, at: CodeEmitter::in_stub(stub) })
            }
            _ => None,
        }
    }

    /// The destination of a link: the block, or an edge counter before it.
    fn link_to(&mut self, link: LinkRequest, out: &mut CodeEmitter) -> LinkPatch {
        let LinkRequest { stop, jump, to, arc, at } = link;
        if self.blocks[to as usize].is_version {
            let destination = self.link_to_version(to, arc, at, out);
            self.exit_stubs.insert(stop, ExitStub::Linked(destination));
            return LinkPatch { stop, jump, destination };
        }
        let mut destination = self.blocks[to as usize].body;
        if self.counter(Some(arc)).is_some() {
            destination = out.here();
            let at = self.count_edge(Some(arc), at, to, out);
            self.jump_to(to, at, out, &mut Vec::new());
        }
        self.exit_stubs.insert(stop, ExitStub::Linked(destination));
        LinkPatch { stop, jump, destination }
    }

    /// The destination of a link to changing code: the version stub, or a counter before it. Behind a return
    /// site, the execution is outside already.
    fn link_to_version(&mut self, to: u32, arc: ArcId, at: EmitState, out: &mut CodeEmitter) -> u64 {
        let stub = self.version_stub(self.blocks[to as usize].address, out);
        let outside = at.bits.has(PcBits::IN_STUB);
        let Some(offset) = self.counter(Some(arc)).filter(|_| !outside) else { return stub };
        let destination = out.here();
        out.count(at, offset, false);
        self.jump_to_address(at.with(PcBits::OUTSIDE), stub, out);
        destination
    }

    /// Adds the edge from the outside to a block, unless it exists.
    fn ensure_outside_edge(&mut self, to: u32) {
        if self.blocks[to as usize].from_outside.is_none() {
            self.add_outside_edge(to, ONCE);
            self.flow.close_epoch();
        }
    }

    /// The counter of the edge from the outside to a block, if it has one, and whether flags do not matter
    /// there.
    pub(super) fn counter_in(&self, to: u32) -> Option<(u32, bool)> {
        let counter = self.counter(self.blocks[to as usize].from_outside)?;
        Some((counter, self.flags_are_dead(to)))
    }

    /// Writes a jump over an exit stub, and lets the exit jump directly to the target.
    fn patch(&mut self, LinkPatch { stop, jump, destination }: LinkPatch) {
        let word = |address: u64, bytes: &[u8]| CodeWrite { address, bytes: WriteBytes::of(bytes) };
        if reaches(stop, destination) {
            let mut bytes = [0xe9, 0, 0, 0, 0, 0xcc, 0xcc, 0xcc];
            bytes[1..5].copy_from_slice(&(destination.wrapping_sub(stop + 5) as u32).to_le_bytes());
            self.writes.push(word(stop, &bytes));
        } else {
            let target = destination.to_le_bytes();
            let mut head = vec![0xff, 0x25, 0, 0, 0, 0];
            head.extend(&target[..2]);
            self.writes.push(word(stop + 8, &[&target[2..], &[0xcc, 0xcc]].concat()));
            self.writes.push(word(stop, &head));
        }
        if reaches(jump, destination) && jump / 8 == (jump + 3) / 8 {
            let distance = destination.wrapping_sub(jump + 4) as u32;
            self.writes.push(word(jump, &distance.to_le_bytes()));
        }
    }

    /// The address where an indirect branch to a target continues, with rcx in the slot.
    ///
    /// # Errors
    ///
    /// [`TranslationNeed`].
    pub fn indirect(&mut self, code: &mut dyn CodeSource, target: u64) -> Result<u64, TranslationNeed> {
        if let Some(hit) = self.indirect_entries.get(&target) {
            return Ok(*hit);
        }
        let to = self.ensure(code, target)?;
        if let Some(hit) = self.indirect_entries.get(&target) {
            return Ok(*hit);
        }
        let region = self.region_near(target)?;
        self.ensure_outside_edge(to);
        let mut out = self.emitter(region);
        let (entry, hit) = self.entry_jump(to, &mut out);
        self.publish(region, out);
        self.writes.push(entry);
        Ok(hit)
    }

    /// Emits the lookup stub of a block that was emitted. Returns the write to the lookup table, and the
    /// address behind the stub's check.
    fn entry_jump(&mut self, to: u32, out: &mut CodeEmitter) -> (CodeWrite, u64) {
        let (entry, hit, at) = self.entry_path(to, out);
        let block = self.blocks[to as usize];
        if block.is_version {
            let stub = self.version_stub(block.address, out);
            self.jump_to_address(at, stub, out);
        } else {
            self.jump_to(to, at, out, &mut Vec::new());
        }
        (entry, hit)
    }

    /// Emits the lookup stub up to the block, which follows or is jumped to, and returns the state there too.
    fn entry_path(&mut self, to: u32, out: &mut CodeEmitter) -> (CodeWrite, u64, EmitState) {
        let target = self.blocks[to as usize].address;
        let stub = self.lookup_targets.len() as u32;
        self.lookup_targets.push(target);
        let start = out.here();
        let counter = self.counter_in(to).filter(|_| !self.blocks[to as usize].is_version);
        let (chain, hit, at) = out.lookup_stub(stub, target, counter);
        let entry = (target & 0xffff) as u32;
        out.literal(chain, self.table_heads.insert(entry, start).unwrap_or(self.lookup_missed));
        self.indirect_entries.insert(target, hit);
        let address = self.table + 8 * u64::from(entry);
        (CodeWrite { address, bytes: WriteBytes::of(&start.to_le_bytes()) }, hit, at)
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

/// Whether translated code has nothing in place of a block's last instruction. With a budget it has a no-op,
/// so that a window can end before that instruction.
fn is_left_out(terminator: Terminator) -> bool {
    matches!(terminator, Terminator::Jump { .. } | Terminator::Trap(crate::block::TrapKind::Breakpoint))
}

/// The blocks of a batch that jump to the start of a function. `first` is the batch's first block.
fn function_jumps(batch: &BlockBatch, first: u32, code: &mut dyn CodeSource) -> HashSet<u32> {
    let jumps = (first..).zip(&batch.blocks).filter_map(|(id, pending)| match pending.terminator {
        Terminator::Jump { target } => Some((id, target)),
        _ => None,
    });
    jumps.filter(|(_, target)| code.is_function_start(*target)).map(|(id, _)| id).collect()
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

fn exits_indirectly(terminator: Terminator) -> bool {
    matches!(
        terminator,
        Terminator::IndirectJump | Terminator::IndirectCall { .. } | Terminator::Return { .. }
    )
}

/// Whether a jump's 32-bit distance suffices, an instruction's length apart.
pub(super) fn reaches(from: u64, to: u64) -> bool {
    let distance = to.wrapping_sub(from).cast_signed();
    i32::try_from(distance).is_ok_and(|d| (i32::MIN + 64..i32::MAX - 64).contains(&d))
}

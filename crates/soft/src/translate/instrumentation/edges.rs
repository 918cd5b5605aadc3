//! Blocks and edges in the flow graph, with the cost of a counter at each.

use super::super::batch::expected;
use super::*;
use crate::flow::FlowPoint;

/// Cost of a counter where flags are live: three instructions.
const COST_FLAGS_LIVE: u64 = 3;
/// Cost of a counter where flags are dead: one instruction.
const COST_FLAGS_DEAD: u64 = 2;
/// Added cost of a counter that is off the path, as that of a taken branch: there is a jump to it and back.
const COST_OFF_PATH: u64 = 2;

/// One execution, in hundredths.
pub(super) const ONCE: u64 = 100;

impl Translation {
    /// The new blocks that indirect branches have led to in earlier runs.
    pub(super) fn expected_indirect_entries(&mut self, first: u32) -> Vec<u32> {
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

    pub(super) fn register_block(&mut self, batch: &BlockBatch, pending: &batch::PendingBlock) {
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
    pub(super) fn add_edges(&mut self, batch: &BlockBatch, position: usize, first: u32) {
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
    pub(super) fn add_outside_edge(&mut self, id: u32, guess: u64) {
        let heats = self.pages.heats(self.blocks[id as usize].address);
        let weight = expected(heats.map(|heats| heats.entry), guess) * self.edge_counter_cost(id, false);
        let entry = FlowPoint::Entry(self.blocks[id as usize].block);
        self.blocks[id as usize].from_outside = Some(self.flow.edge(FlowPoint::Outside, entry, weight));
    }

    /// Adds the edge from the outside to a block, unless it exists.
    pub(super) fn ensure_outside_edge(&mut self, to: u32) {
        if self.blocks[to as usize].from_outside.is_none() {
            self.add_outside_edge(to, ONCE);
            self.flow.close_epoch();
        }
    }

    /// The cost of a counter on an edge to a block, on the path, or off the path with a jump back.
    pub(super) fn edge_counter_cost(&self, to: u32, off_path: bool) -> u64 {
        let cost = if self.flags_are_dead(to) { COST_FLAGS_DEAD } else { COST_FLAGS_LIVE };
        if off_path { cost + COST_OFF_PATH } else { cost }
    }

    pub(super) fn flags_are_dead(&self, id: u32) -> bool {
        self.blocks[id as usize].live_in & instruction::OSZAP == 0
    }

    pub(super) fn counter(&self, arc: Option<ArcId>) -> Option<u32> {
        self.flow.counter_of(arc?).map(slot_layout::counter)
    }

    /// The counter of a block, by its offset in the slot, if it has one.
    pub(in crate::translate) fn block_counter(&self, id: u32) -> Option<u32> {
        self.counter(Some(self.flow.arc_of(self.blocks[id as usize].block)))
    }

    /// The counter of the edge from the outside to a block, if it has one, and whether flags do not matter
    /// there.
    pub(in crate::translate) fn counter_in(&self, to: u32) -> Option<(u32, bool)> {
        let counter = self.counter(self.blocks[to as usize].from_outside)?;
        Some((counter, self.flags_are_dead(to)))
    }
}

pub(super) fn exits_indirectly(terminator: Terminator) -> bool {
    matches!(
        terminator,
        Terminator::IndirectJump | Terminator::IndirectCall { .. } | Terminator::Return { .. }
    )
}

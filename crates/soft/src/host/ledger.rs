//! The ledger of a thread: executions that no counter of the translated code has seen.
//!
//! The counters are complete only where a thread leaves a block at its end. A thread also enters and leaves
//! translated code at other program points. The ledger has the edges to and from the outside, and the parts
//! of blocks.

use std::ops::Range;
use std::rc::Rc;

use super::code_cache::CodeCacheMapping;
use super::equivalent_blocks::ClassExecutions;
use super::readout::{EventReadout, ReadoutSum, SumWeights, counted_units};
use super::translated_pc::TranslatedPc;
use crate::addend::{AddendKind, AddendKinds};
use crate::block::{Block, BlockDecoder};
use crate::code_profile::{CodeProfile, CodeRun, RunExecutions};
use crate::flow::{ArcId, FlowPoint, Solution};
use crate::hash::AddressMap;
use crate::profile::{BlockHeat, Heat};
use crate::translate::{BASE, CountPhase, FlowState, ProgramPoint, TranslatedBlock};
use crate::{EventSet, EventTotals, EventVector, ExecutionEvent};

/// Executions that no counter of the translated code has seen.
#[derive(Clone, Default)]
pub(crate) struct ThreadLedger {
    /// Executions of edges to and from the outside.
    observed: AddressMap<u32, u64>,
    /// Parts of blocks, executed and not counted, or counted and not executed: how many times. A thread can
    /// leave the same block again and again, as for each signal.
    parts: AddressMap<PartialBlock, u64>,
    /// Executions of the conditional branches of blocks that are on no edge: not taken, taken.
    exits: AddressMap<u32, [u64; 2]>,
    /// Iterations that were counted and not done.
    undone: AddressMap<u32, u64>,
    /// Whether masked elements were counted that were not accessed, or the reverse.
    unsure: bool,
    /// Whether a register that counted was not known, or had less than before.
    broken: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct PartialBlock {
    block: u32,
    steps: Range<u16>,
    executed: bool,
}

/// The executions of a process or thread in a translation.
pub(crate) struct ExecutedCode {
    pub(crate) totals: EventTotals,
    /// The executions by address, where they are requested.
    pub(crate) profile: Option<CodeProfile>,
    /// Addresses of the code.
    pub(crate) code: Vec<Range<u64>>,
}

impl ThreadLedger {
    /// The process enters a block at its start.
    pub(crate) fn enter(&mut self, cache: &mut CodeCacheMapping, block: u32) {
        let to = FlowPoint::Entry(cache.translation.block(block).block);
        self.observe(cache, FlowPoint::Outside, to);
    }

    /// Records that the thread leaves translated code at `position`, which is at `point`. A counter in a
    /// register is stored in the slot, also for a copy of the ledger: the thread stores it itself when it
    /// continues.
    pub(crate) fn exit_at(
        &mut self,
        cache: &mut CodeCacheMapping,
        slot: usize,
        point: &ProgramPoint,
        position: TranslatedPc,
    ) {
        if let Some(extra) = point.iterations {
            *self.undone.entry(extra).or_default() += position.rcx.unwrap_or(0);
            self.broken |= position.rcx.is_none();
        }
        if let Some(counter) = point.counter {
            let before = cache.load(slot, counter);
            let base = if point.counts_rounds { cache.load(slot, BASE) } else { 0 };
            match position.r11.map(|r11| r11.wrapping_add(base)) {
                Some(now) if now >= before => cache.store(slot, counter, now),
                _ => self.broken = true,
            }
        }
        self.unsure |= point.unsure;
        let FlowState::In { block, phase, done, exit } = point.flow else { return };
        let translated = cache.translation.block(block);
        let (entry, exit_point) = (FlowPoint::Entry(translated.block), FlowPoint::Exit(translated.block));
        let all = cache.translation.instructions(block);
        match phase {
            CountPhase::Entered => self.observe(cache, entry, FlowPoint::Outside),
            CountPhase::Counted => self.observe(cache, exit_point, FlowPoint::Outside),
            CountPhase::LeftToOutside => {}
        }
        let (steps, executed) =
            if phase == CountPhase::Entered { (0..done, true) } else { (done..all, false) };
        if !steps.is_empty() {
            self.add_part(PartialBlock { block, steps, executed }, 1);
        }
        if let (Some(exit), true) = (exit, cache.translation.is_conditional(block)) {
            self.exits.entry(block).or_default()[exit as usize] += 1;
        }
    }

    /// The last instruction of a block was executed once more than the block was.
    pub(crate) fn repeat_last(&mut self, cache: &CodeCacheMapping, block: u32) {
        let all = cache.translation.instructions(block);
        self.add_part(PartialBlock { block, steps: all.saturating_sub(1)..all, executed: true }, 1);
    }

    /// Takes the last instruction of a block back: it was not executed yet.
    pub(crate) fn take_last_back(&mut self, cache: &CodeCacheMapping, block: u32) {
        let all = cache.translation.instructions(block);
        self.add_part(PartialBlock { block, steps: all.saturating_sub(1)..all, executed: false }, 1);
    }

    fn add_part(&mut self, part: PartialBlock, times: u64) {
        *self.parts.entry(part).or_default() += times;
    }

    fn observe(&mut self, cache: &mut CodeCacheMapping, from: FlowPoint, to: FlowPoint) {
        let arc = cache.observed(from, to);
        *self.observed.entry(arc.index() as u32).or_default() += 1;
    }

    /// For each block, ascending, the instructions before which executions ended that were counted in whole,
    /// and how many.
    fn cuts(&self) -> AddressMap<u32, Vec<(u16, u64)>> {
        let mut cuts: AddressMap<u32, Vec<(u16, u64)>> = AddressMap::default();
        for (part, times) in self.parts.iter().filter(|(part, _)| !part.executed) {
            cuts.entry(part.block).or_default().push((part.steps.start, *times));
        }
        cuts.values_mut().for_each(|cuts| cuts.sort_unstable());
        cuts
    }

    /// Executions of conditional branches that are on no edge: not taken, taken.
    fn all_exits(&self) -> [u64; 2] {
        self.exits.values().fold([0; 2], |[all_not, all], [not, taken]| [all_not + not, all + taken])
    }

    /// Adds the ledger of another thread of the process in the same translation.
    fn merge(&mut self, other: ThreadLedger) {
        other.observed.into_iter().for_each(|(arc, times)| *self.observed.entry(arc).or_default() += times);
        other.undone.into_iter().for_each(|(extra, times)| {
            let undone = self.undone.entry(extra).or_default();
            *undone = undone.wrapping_add(times);
        });
        other.parts.into_iter().for_each(|(part, times)| self.add_part(part, times));
        for (block, more) in other.exits {
            let exits = self.exits.entry(block).or_default();
            exits.iter_mut().zip(more).for_each(|(exits, more)| *exits += more);
        }
        self.unsure |= other.unsure;
        self.broken |= other.broken;
    }
}

/// With debug assertions, both readouts of a translation with fewer blocks are compared, and so are budgets.
pub(super) const CHECKED_BLOCKS: u32 = 5000;

/// The counters of a thread, with its ledger; or the sums of several threads. An equation that holds for each
/// thread holds for the sum.
#[derive(Clone)]
pub(crate) struct CounterSnapshot {
    counters: Vec<u64>,
    unit_counters: Vec<u64>,
    ledger: ThreadLedger,
}

impl CounterSnapshot {
    /// Reads the counters of a slot.
    pub(crate) fn read(cache: &CodeCacheMapping, slot: usize, ledger: &ThreadLedger) -> CounterSnapshot {
        let (counters, unit_counters) = cache.counts(slot);
        CounterSnapshot { counters, unit_counters, ledger: ledger.clone() }
    }

    /// Adds the counters of another thread of the process in the same translation; there may be more of them.
    pub(crate) fn merge(&mut self, other: CounterSnapshot) {
        add_each(&mut self.counters, &other.counters);
        add_each(&mut self.unit_counters, &other.unit_counters);
        self.ledger.merge(other.ledger);
    }

    /// The executions, if the counts are consistent; with a profile if it is requested.
    ///
    /// # Errors
    ///
    /// The contradiction, in words.
    pub(crate) fn solve(&self, cache: &CodeCacheMapping, profiled: bool) -> Result<ExecutedCode, String> {
        self.check_registers()?;
        let flow = cache.translation.flow();
        let mut values = self.counters.clone();
        values.resize(flow.counters().len(), 0);
        for (arc, seen) in &self.ledger.observed {
            if let Some(counter) = flow.counter_of(ArcId::new(*arc as usize)) {
                values[counter] = values[counter].wrapping_add(*seen);
            }
        }
        let mut order = cache.solving_order.borrow_mut();
        let solution = order.update(flow).and_then(|()| flow.solve_in(&order, &values));
        drop(order);
        let solution = solution.map_err(|e| e.to_string())?;
        let cuts = self.ledger.cuts();
        let decoder = BlockDecoder::new();
        let mut sum = ExecutionSum { cache, tally: self, cuts, decoder, executed: ExecutedCode::new() };
        sum.blocks(&solution).map_err(|e| e.to_string())?;
        sum.parts().map_err(|e| e.to_string())?;
        if profiled {
            sum.profile(&solution);
        }
        let mut executed = sum.executed;
        self.settled_kinds(cache).for_each(|kind| executed.totals.settle(kind));
        if cfg!(debug_assertions) && cache.translation.blocks() < CHECKED_BLOCKS {
            let read = self.read_out(cache, sums()).map(|read| read.counts(sums()));
            assert_eq!(read, Ok(executed.totals.counts(sums())), "both readouts give the same");
        }
        Ok(executed)
    }

    /// The kinds of which every unit is counted.
    fn settled_kinds(&self, cache: &CodeCacheMapping) -> impl Iterator<Item = AddendKind> {
        let counts = |kind| cache.translation.counts(kind);
        let iterations = counts(AddendKind::Iterations);
        let elements = counts(AddendKind::Elements) && !self.ledger.unsure;
        let settled = [
            (AddendKind::Direction, true),
            (AddendKind::Iterations, iterations),
            (AddendKind::Elements, elements),
        ];
        settled.into_iter().filter(|(_, settled)| *settled).map(|(kind, _)| kind)
    }

    /// The totals of some events, without a check of the counters: as [`CounterSnapshot::solve`] if they are
    /// consistent. [`ExecutionEvent::DistinctCodeBytes`] is unknown, and other events have no total.
    ///
    /// # Errors
    ///
    /// The contradiction, in words.
    pub(crate) fn read_out(&self, cache: &CodeCacheMapping, events: EventSet) -> Result<EventTotals, String> {
        self.check_registers()?;
        let mut readout = cache.readout.borrow_mut();
        readout.update(&cache.translation);
        let parts = self.decoded_parts(cache, &mut readout);
        let equivalent = &mut cache.equivalent_blocks.borrow_mut();
        let mut total = |sum| {
            let weights = readout.weights(sum, &cache.translation, equivalent);
            self.weighted_sum(cache, sum, weights, &parts)
        };
        let mut totals = EventTotals::of(events);
        let events_of_sums = events.iter().filter(|event| *event != ExecutionEvent::DistinctCodeBytes);
        events_of_sums.for_each(|event| totals.set(event, total(ReadoutSum::Event(event))));
        let settled: Vec<AddendKind> = self.settled_kinds(cache).collect();
        let missing = AddendKinds::needed_for(events.iter());
        for kind in AddendKind::ALL.into_iter().filter(|kind| *kind != AddendKind::Coverage) {
            let owes = missing.contains(kind) && !settled.contains(&kind);
            if owes && total(ReadoutSum::Blocks(kind)) > 0 {
                totals.owe([kind]);
            }
        }
        settled.into_iter().for_each(|kind| totals.settle(kind));
        Ok(totals)
    }

    fn check_registers(&self) -> Result<(), String> {
        match self.ledger.broken {
            true => Err("a counter in a register is unknown or less than before".to_owned()),
            false => Ok(()),
        }
    }

    fn weighted_sum(
        &self,
        cache: &CodeCacheMapping,
        sum: ReadoutSum,
        weights: &SumWeights,
        parts: &[DecodedPart],
    ) -> u64 {
        let (flow, ledger) = (cache.translation.flow(), &self.ledger);
        let times = |total: u64, weight: u64, count: u64| total.wrapping_add(weight.wrapping_mul(count));
        let total = weights.counters.sum(&self.counters);
        let total = ledger.observed.iter().fold(total, |total, (arc, count)| {
            times(total, weights.counters.of_observed(flow, ArcId::new(*arc as usize)), *count)
        });
        let units = weights.units.iter().zip(&self.unit_counters);
        let total = units.fold(total, |total, (weight, count)| times(total, *weight, *count));
        let total = ledger.undone.iter().fold(total, |total, (unit, count)| {
            times(total, weights.units[*unit as usize].wrapping_neg(), *count)
        });
        let directions = sum.of_directions().into_iter().zip(ledger.all_exits());
        let total = directions.fold(total, |total, (weight, count)| times(total, weight, count));
        parts.iter().fold(total, |total, part| {
            times(total, sum.of_part(&part.upto, part.before.as_deref(), part.executed), part.times)
        })
    }

    fn decoded_parts(&self, cache: &CodeCacheMapping, readout: &mut EventReadout) -> Vec<DecodedPart> {
        let mut first = |block, instructions| readout.first(&cache.translation, block, instructions);
        let decoded = |(part, times): (&PartialBlock, &u64)| {
            let before = first(part.block, part.steps.start);
            let upto = first(part.block, part.steps.end)?;
            Some(DecodedPart { upto, before, executed: part.executed, times: *times })
        };
        self.ledger.parts.iter().filter_map(decoded).collect()
    }
}

/// A part of a block: its first instructions without those before.
struct DecodedPart {
    upto: Rc<Block>,
    before: Option<Rc<Block>>,
    executed: bool,
    /// How often it was.
    times: u64,
}

/// Every event that is a sum.
fn sums() -> EventSet {
    let all = ExecutionEvent::ALL.iter().copied();
    all.filter(|event| *event != ExecutionEvent::DistinctCodeBytes).collect()
}

/// The executions of a block and of the edges at its ends.
fn heats_of(translated: &TranslatedBlock, solution: &Solution) -> BlockHeat {
    let heat = |edge: Option<ArcId>| Heat::of(edge.map_or(0, |arc| solution.arc(arc)));
    BlockHeat {
        block: Heat::of(solution.block(translated.block)),
        exits: translated.edges.map(heat),
        entry: heat(translated.from_outside),
    }
}

/// Adds values to sums, with wrapping. A later reading may have more counters.
fn add_each(sums: &mut Vec<u64>, values: &[u64]) {
    sums.resize(sums.len().max(values.len()), 0);
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum = sum.wrapping_add(*value));
}

impl ExecutedCode {
    fn new() -> ExecutedCode {
        ExecutedCode { totals: EventTotals::new(), profile: None, code: Vec::new() }
    }

    /// Notes code that was executed. Blocks that were translated together mostly follow one another.
    fn reach(&mut self, code: Range<u64>) {
        match self.code.last_mut() {
            Some(last) if last.end == code.start => last.end = code.end,
            _ => self.code.push(code),
        }
    }
}

/// The instruction before which the last of so many executions ended, in the order of their length; `None`
/// where it was executed in whole.
fn last_cut(cuts: &[(u16, u64)], executions: u64) -> Option<u16> {
    let mut ended = 0_u64;
    let last = cuts.iter().find(|(_, times)| {
        ended = ended.saturating_add(*times);
        ended >= executions
    });
    last.map(|(step, _)| *step)
}

type SumResult = Result<(), crate::totals::TotalError>;

struct ExecutionSum<'a> {
    cache: &'a CodeCacheMapping,
    tally: &'a CounterSnapshot,
    cuts: AddressMap<u32, Vec<(u16, u64)>>,
    decoder: BlockDecoder,
    executed: ExecutedCode,
}

impl ExecutionSum<'_> {
    fn blocks(&mut self, solution: &Solution) -> SumResult {
        let mut times_of = ClassExecutions::default();
        let equivalent_blocks = &mut self.cache.equivalent_blocks.borrow_mut();
        let map = &mut self.cache.heats.borrow_mut();
        for id in 0..self.cache.translation.blocks() {
            let translated = self.cache.translation.block(id);
            let times = solution.block(translated.block);
            if times == 0 && translated.units().is_none() {
                continue;
            }
            if times > 0 {
                map.note(id, heats_of(translated, solution));
            }
            if let (None, false) = (translated.units(), self.cuts.contains_key(&id)) {
                let exit = equivalent_blocks.class(id, || self.cache.translation.code(id));
                times_of.note(exit, times)?;
                self.executed.reach(translated.address..translated.end());
            } else {
                self.unusual(id, times)?;
            }
            if self.cache.translation.is_conditional(id) {
                let count = |edge: Option<ArcId>| edge.map_or(0, |arc| solution.arc(arc));
                self.executed
                    .totals
                    .add_directions(count(translated.edges[1]), count(translated.edges[0]))?;
            }
        }
        equivalent_blocks.add(&times_of, &mut self.executed.totals)
    }

    /// A block that was not executed to its end each time, or of which more is counted than its executions.
    fn unusual(&mut self, id: u32, times: u64) -> SumResult {
        let block = self.whole(id);
        self.executed.totals.add_block(&block, times)?;
        if times > 0 {
            self.executed.reach(self.reached(&block, id, times));
        }
        match self.cache.translation.block(id).units() {
            Some(first) => self.units(&block, first),
            None => Ok(()),
        }
    }

    fn whole(&mut self, id: u32) -> Block {
        let all = self.cache.translation.instructions(id);
        self.cache.translation.decode(&mut self.decoder, id, all)
    }

    /// The code of a block that was executed at least once: up to the farthest point of any execution.
    fn reached(&self, block: &Block, id: u32, times: u64) -> Range<u64> {
        let farthest = self.cuts.get(&id).and_then(|cuts| last_cut(cuts, times));
        let end = farthest.and_then(|step| block.offsets.get(usize::from(step)));
        block.address..end.map_or(block.end(), |end| block.address + u64::from(*end))
    }

    fn units(&mut self, block: &Block, first: u32) -> SumResult {
        for ((_, addend), index) in counted_units(block, &self.cache.translation).zip(first..) {
            let units = self.units_of(index);
            self.executed.totals.add_units(addend, units)?;
        }
        Ok(())
    }

    fn parts(&mut self) -> SumResult {
        // Added first, so that no sum becomes negative when executions are taken back.
        for executed in [true, false] {
            let parts = &self.tally.ledger.parts;
            for (part, times) in parts.iter().filter(|(part, _)| part.executed == executed) {
                self.part(part, *times)?;
            }
        }
        let [not_taken, taken] = self.tally.ledger.all_exits();
        self.executed.totals.add_directions(taken, not_taken)
    }

    fn part(&mut self, part: &PartialBlock, times: u64) -> SumResult {
        let (upto, before) =
            (self.first(part.block, part.steps.end), self.first(part.block, part.steps.start));
        let before: Option<&EventVector> = before.as_ref().map(|block| &block.events);
        let Some(upto) = upto else { return Ok(()) };
        if part.executed {
            self.executed.reach(upto.address..upto.end());
        }
        let totals = &mut self.executed.totals;
        if part.executed {
            totals.add_block(&upto, times)?;
            before.map_or(Ok(()), |before| totals.take(before, times))
        } else {
            before.map_or(Ok(()), |before| totals.add(before, times))?;
            totals.take(&upto.events, times)
        }
    }

    /// Executions by address: of whole blocks, and of their parts.
    fn profile(&mut self, solution: &Solution) {
        let mut profile = CodeProfile::default();
        for id in 0..self.cache.translation.blocks() {
            let translated = self.cache.translation.block(id);
            let mut executions =
                RunExecutions { times: solution.block(translated.block), ..RunExecutions::default() };
            if self.cache.translation.is_conditional(id) {
                let on_edges = translated.edges.map(|edge| edge.map_or(0, |arc| solution.arc(arc)));
                let exits = self.tally.ledger.exits.get(&id).copied().unwrap_or_default();
                executions.directions = [on_edges[0] + exits[0], on_edges[1] + exits[1]];
            }
            if let Some(first) = translated.units() {
                executions.units = self.units_by_offset(id, first);
            }
            if executions != RunExecutions::default() {
                let code = self.cache.translation.code(id);
                profile.add(self.run(code.address, code.bytes), executions);
            }
        }
        let parts: Vec<(PartialBlock, u64)> =
            self.tally.ledger.parts.iter().map(|(part, times)| (part.clone(), *times)).collect();
        for (part, times) in parts {
            let whole = self.whole(part.block);
            let offset = |step: u16| whole.offsets.get(usize::from(step)).copied().unwrap_or(whole.len);
            let (begin, end) = (offset(part.steps.start), offset(part.steps.end));
            let code = self.cache.translation.code(part.block);
            let Some(bytes) = code.bytes.get(begin.into()..end.into()) else { continue };
            let times = if part.executed { times } else { times.wrapping_neg() };
            let run = self.run(code.address + u64::from(begin), bytes);
            profile.add(run, RunExecutions { times, ..RunExecutions::default() });
        }
        self.executed.profile = Some(profile);
    }

    fn run(&self, address: u64, bytes: &[u8]) -> CodeRun {
        CodeRun { place: self.cache.translation.place(address), bytes: bytes.into() }
    }

    /// The units of a block, by the offset of their instruction.
    fn units_by_offset(&mut self, id: u32, first: u32) -> Vec<(u16, u64)> {
        let block = self.whole(id);
        let counted = counted_units(&block, &self.cache.translation).zip(first..);
        counted.map(|((step, _), index)| (block.offsets[usize::from(step)], self.units_of(index))).collect()
    }

    /// The number of units that a unit counter has counted.
    fn units_of(&self, index: u32) -> u64 {
        let undone = self.tally.ledger.undone.get(&index).copied().unwrap_or(0);
        self.tally.unit_counters.get(index as usize).copied().unwrap_or(0).wrapping_sub(undone)
    }

    /// The first instructions of a block; `None` for none.
    fn first(&mut self, block: u32, instructions: u16) -> Option<Block> {
        (instructions > 0).then(|| self.cache.translation.decode(&mut self.decoder, block, instructions))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_is_left_again_and_again_is_kept_once() {
        let part = || PartialBlock { block: 7, steps: 2..5, executed: false };
        let other = || PartialBlock { block: 7, steps: 1..5, executed: false };
        let mut ledger = ThreadLedger::default();
        (0..1000).for_each(|_| ledger.add_part(part(), 1));
        ledger.add_part(other(), 1);
        let mut sum = ledger.clone();
        sum.merge(ledger);
        assert_eq!((sum.parts.len(), sum.parts[&part()], sum.parts[&other()]), (2, 2000, 2));
        assert_eq!(sum.cuts()[&7], [(1, 2), (2, 2000)]);
    }

    #[test]
    fn the_longest_execution_decides_what_was_reached() {
        let cuts = [(1, 2), (2, 3)];
        let reached = |executions| last_cut(&cuts, executions);
        assert_eq!([1, 2, 3, 5, 6].map(reached), [Some(1), Some(1), Some(2), Some(2), None]);
    }
}

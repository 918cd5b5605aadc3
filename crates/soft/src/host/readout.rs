//! Weights of counters: the part of an event that one execution at each counter adds.
//!
//! Totals are linear in the counters ([`crate::flow::LinearReadout`]). So a reading in the run costs a dot
//! product for each event, and computes weights only when the translation has grown.

use std::rc::Rc;

use super::equivalent_blocks::EquivalentBlocks;
use crate::ExecutionEvent;
use crate::addend::{Addend, AddendKind, NOT_TAKEN, TAKEN};
use crate::block::{Block, BlockDecoder};
use crate::flow::{CounterWeights, LinearReadout};
use crate::hash::AddressMap;
use crate::translate::Translation;

/// A sum that is read out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReadoutSum {
    /// The count of an event, but for [`ExecutionEvent::DistinctCodeBytes`], which is no sum.
    Event(ExecutionEvent),
    /// Executions of blocks with counts of a kind that are made at run time.
    Blocks(AddendKind),
}

impl ReadoutSum {
    /// The amount that a part of a block adds, which was executed once more, or once less.
    pub(super) fn of_part(self, upto: &Block, before: Option<&Block>, executed: bool) -> u64 {
        match self {
            ReadoutSum::Event(event) => {
                let before = before.map_or(0, |before| before.events.of(event));
                let part = u64::from(upto.events.of(event) - before);
                if executed { part } else { part.wrapping_neg() }
            }
            ReadoutSum::Blocks(kind) => u64::from(executed && upto.kinds().any(|known| known == kind)),
        }
    }

    /// The amounts that a conditional branch adds when it is not taken, and when it is taken.
    pub(super) fn of_directions(self) -> [u64; 2] {
        let ReadoutSum::Event(event) = self else { return [0, 0] };
        let count = |counts: &[(ExecutionEvent, u32)]| {
            counts.iter().filter(|(known, _)| *known == event).map(|(_, count)| u64::from(*count)).sum()
        };
        [count(&NOT_TAKEN), count(&TAKEN)]
    }
}

/// The weights for a sum.
pub(super) struct SumWeights {
    pub(super) counters: CounterWeights,
    /// The amount that one unit of each unit counter adds.
    pub(super) units: Vec<u64>,
}

/// The weights of a translation's counters, made as they are needed.
#[derive(Default)]
pub(crate) struct EventReadout {
    linear: LinearReadout,
    sums: Vec<(ReadoutSum, SumWeights)>,
    /// The first instructions of blocks, by block and number. They stay the same when the translation grows.
    first: AddressMap<(u32, u16), Rc<Block>>,
}

impl EventReadout {
    /// Drops the weights if the translation has grown since they were made.
    pub(super) fn update(&mut self, translation: &Translation) {
        if !self.linear.suits(translation.flow()) {
            (self.linear, self.sums) = (LinearReadout::new(translation.flow()), Vec::new());
        }
    }

    /// The first instructions of a block; `None` for none.
    pub(super) fn first(
        &mut self,
        translation: &Translation,
        block: u32,
        instructions: u16,
    ) -> Option<Rc<Block>> {
        if instructions == 0 {
            return None;
        }
        let decode = || Rc::new(translation.decode(&mut BlockDecoder::new(), block, instructions));
        Some(Rc::clone(self.first.entry((block, instructions)).or_insert_with(decode)))
    }

    /// The weights for a sum.
    pub(super) fn weights(
        &mut self,
        sum: ReadoutSum,
        translation: &Translation,
        equivalent: &mut EquivalentBlocks,
    ) -> &SumWeights {
        let known = self.sums.iter().position(|(known, _)| *known == sum);
        let position = known.unwrap_or_else(|| {
            let values = arc_values(sum, translation, equivalent);
            let counters = self.linear.weights(translation.flow(), |arc| values[arc.index()]);
            let units = unit_values(sum, translation);
            self.sums.push((sum, SumWeights { counters, units }));
            self.sums.len() - 1
        });
        &self.sums[position].1
    }
}

/// The amount that one execution of each arc adds.
fn arc_values(sum: ReadoutSum, translation: &Translation, equivalent: &mut EquivalentBlocks) -> Vec<i64> {
    let flow = translation.flow();
    let mut values = vec![0; flow.arcs()];
    let directions = sum.of_directions().map(u64::cast_signed);
    for id in 0..translation.blocks() {
        let block = translation.block(id);
        let class = equivalent.class(id, || translation.code(id));
        values[flow.arc_of(block.block).index()] = match sum {
            ReadoutSum::Event(event) => equivalent.count_of(class, event).into(),
            ReadoutSum::Blocks(kind) => i64::from(equivalent.has_kind(class, kind)),
        };
        if translation.is_conditional(id) {
            for (edge, value) in block.edges.into_iter().zip(directions) {
                edge.into_iter().for_each(|edge| values[edge.index()] = value);
            }
        }
    }
    values
}

/// The amount that one unit of each unit counter adds.
fn unit_values(sum: ReadoutSum, translation: &Translation) -> Vec<u64> {
    let mut values = vec![0; translation.unit_counters() as usize];
    let ReadoutSum::Event(event) = sum else { return values };
    let mut decoder = BlockDecoder::new();
    for id in 0..translation.blocks() {
        let Some(first) = translation.block(id).units() else { continue };
        let block = translation.decode(&mut decoder, id, translation.instructions(id));
        for ((_, addend), value) in counted_units(&block, translation).zip(&mut values[first as usize..]) {
            let counts = addend.per_unit().into_iter().filter(|(known, _)| *known == event);
            *value = counts.map(|(_, count)| u64::from(count)).sum();
        }
    }
    values
}

/// The addends of a block that have unit counters, with the index of their instruction, in the order of
/// those.
pub(super) fn counted_units<'a>(
    block: &'a Block,
    translation: &'a Translation,
) -> impl Iterator<Item = (u16, &'a Addend)> {
    let has_units = |addend: &Addend| matches!(addend, Addend::Iterations(_) | Addend::Elements(_));
    let addends = block.addends.iter().map(|(index, addend)| (*index, addend));
    addends.filter(move |(_, addend)| has_units(addend) && translation.counts(addend.kind()))
}

//! Counts of a run: executions × counts of one execution, in 64 bits that never wrap.

use std::fmt;
use std::ops::Range;

use crate::addend::{Addend, AddendKind, AddendKinds, NOT_TAKEN, TAKEN};
use crate::block::Block;
use crate::event::{COUNT, EventSet, ExecutionEvent};
use crate::vector::EventVector;

/// The reason why a total is missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TotalError {
    /// A sum does not fit 64 bits.
    Overflow(ExecutionEvent),
    /// More was taken back than had been counted: an inconsistency.
    Negative(ExecutionEvent),
    /// Something was executed of which a part must be counted at run time, and was not.
    NotCounted {
        /// The event that would be too low.
        event: ExecutionEvent,
        /// The missing kind.
        kind: AddendKind,
    },
    /// The sums were made of other events only.
    NotRequested(ExecutionEvent),
}

impl fmt::Display for TotalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TotalError::Overflow(event) => write!(f, "{event} does not fit 64 bits"),
            TotalError::Negative(event) => write!(f, "{event} would be negative"),
            TotalError::NotCounted { event, kind } => {
                write!(f, "{event} is not known: {} were not counted", kind.word())
            }
            TotalError::NotRequested(event) => write!(f, "{event} was not requested"),
        }
    }
}

impl std::error::Error for TotalError {}

/// The sums of one process or thread.
///
/// After an error a value may contain part of an addition, and is invalid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventTotals {
    sums: [u64; COUNT],
    /// The events of which there are sums.
    events: EventSet,
    owed: AddendKinds,
    settled: AddendKinds,
}

impl Default for EventTotals {
    fn default() -> EventTotals {
        EventTotals::new()
    }
}

impl EventTotals {
    /// Nothing executed; no addend counted.
    pub fn new() -> EventTotals {
        EventTotals::of(EventSet::default())
    }

    /// Sums of some events, with nothing executed. Others have no total.
    pub(crate) fn of(events: EventSet) -> EventTotals {
        let mut owed = AddendKinds::default();
        owed.insert(AddendKind::Coverage);
        EventTotals { sums: [0; COUNT], events, owed, settled: AddendKinds::default() }
    }

    /// Says that every unit of a kind was counted and added, for all that was executed.
    pub fn settle(&mut self, kind: AddendKind) {
        self.settled.insert(kind);
    }

    /// Adds executions of a whole block; the run-time counts of its addends are owed from then on.
    ///
    /// # Errors
    ///
    /// [`TotalError::Overflow`].
    pub fn add_block(&mut self, block: &Block, times: u64) -> Result<(), TotalError> {
        if times > 0 {
            self.owe(block.kinds());
        }
        self.add(&block.events, times)
    }

    /// Something was executed of which these must be counted too.
    pub(crate) fn owe(&mut self, kinds: impl IntoIterator<Item = AddendKind>) {
        kinds.into_iter().for_each(|kind| self.owed.insert(kind));
    }

    /// Adds counts that were made `times` times.
    ///
    /// # Errors
    ///
    /// [`TotalError::Overflow`].
    pub fn add(&mut self, events: &EventVector, times: u64) -> Result<(), TotalError> {
        events.iter().try_for_each(|(event, each)| self.add_one(event, each, times))
    }

    /// Takes back counts that were added too much: the rest of a block whose execution ended in its middle.
    ///
    /// # Errors
    ///
    /// [`TotalError::Negative`] where that much was never added, [`TotalError::Overflow`].
    pub fn take(&mut self, events: &EventVector, times: u64) -> Result<(), TotalError> {
        for (event, each) in events.iter() {
            let count = u64::from(each).checked_mul(times).ok_or(TotalError::Overflow(event))?;
            let sum = &mut self.sums[event.index()];
            *sum = sum.checked_sub(count).ok_or(TotalError::Negative(event))?;
        }
        Ok(())
    }

    /// Adds the units of an addend that were counted: iterations, elements, bytes; of a direction, times
    /// taken.
    ///
    /// # Errors
    ///
    /// [`TotalError::Overflow`].
    pub fn add_units(&mut self, addend: &Addend, units: u64) -> Result<(), TotalError> {
        addend.per_unit().into_iter().try_for_each(|(event, each)| self.add_one(event, each, units))
    }

    /// Adds the directions of a conditional branch: executions of its two edges.
    ///
    /// # Errors
    ///
    /// [`TotalError::Overflow`].
    pub fn add_directions(&mut self, taken: u64, not_taken: u64) -> Result<(), TotalError> {
        TAKEN.into_iter().try_for_each(|(event, each)| self.add_one(event, each, taken))?;
        NOT_TAKEN.into_iter().try_for_each(|(event, each)| self.add_one(event, each, not_taken))
    }

    /// Sets the sum of an event, from a readout that has no blocks.
    pub(crate) fn set(&mut self, event: ExecutionEvent, sum: u64) {
        self.sums[event.index()] = sum;
    }

    /// Sets the size of the executed code, and settles [`AddendKind::Coverage`].
    pub fn set_distinct_code_bytes(&mut self, bytes: u64) {
        self.sums[ExecutionEvent::DistinctCodeBytes.index()] = bytes;
        self.settle(AddendKind::Coverage);
    }

    /// Adds another thread's or process's sums.
    ///
    /// A kind is settled in the sum where it is settled, or not owed, in both. Distinct code bytes do not add
    /// up: they must be set again. The sum has the events that both have.
    ///
    /// # Errors
    ///
    /// [`TotalError::Overflow`].
    pub fn merge(&mut self, other: &EventTotals) -> Result<(), TotalError> {
        for event in
            ExecutionEvent::ALL.iter().copied().filter(|event| *event != ExecutionEvent::DistinctCodeBytes)
        {
            let sum = &mut self.sums[event.index()];
            *sum = sum.checked_add(other.sums[event.index()]).ok_or(TotalError::Overflow(event))?;
        }
        let mut settled = AddendKinds::default();
        for kind in AddendKind::ALL.into_iter().filter(|kind| *kind != AddendKind::Coverage) {
            if self.complete(kind) && other.complete(kind) {
                settled.insert(kind);
            }
        }
        self.events = self.events.common(other.events);
        self.owed = self.owed.with(other.owed);
        self.settled = settled;
        Ok(())
    }

    /// The total of an event.
    ///
    /// # Errors
    ///
    /// [`TotalError::NotCounted`] where a part of it is owed: no number rather than one that is too low.
    /// [`TotalError::NotRequested`] where the sums were read out of counters, without this event.
    pub fn total(&self, event: ExecutionEvent) -> Result<u64, TotalError> {
        if !self.events.contains(event) {
            return Err(TotalError::NotRequested(event));
        }
        match AddendKind::ALL.into_iter().find(|kind| kind.feeds().contains(&event) && !self.complete(*kind))
        {
            Some(kind) => Err(TotalError::NotCounted { event, kind }),
            None => Ok(self.sums[event.index()]),
        }
    }

    /// The totals of some events.
    pub(crate) fn counts(&self, events: EventSet) -> Vec<(ExecutionEvent, Result<u64, TotalError>)> {
        events.iter().map(|event| (event, self.total(event))).collect()
    }

    fn complete(&self, kind: AddendKind) -> bool {
        self.settled.contains(kind) || !self.owed.contains(kind)
    }

    fn add_one(&mut self, event: ExecutionEvent, each: u32, times: u64) -> Result<(), TotalError> {
        let sum = &mut self.sums[event.index()];
        let total = u64::from(each).checked_mul(times).and_then(|count| sum.checked_add(count));
        *sum = total.ok_or(TotalError::Overflow(event))?;
        Ok(())
    }
}

/// The number of addresses in a union of ranges, which may overlap and come in any order.
///
/// Give the ranges of the blocks that were executed. Code that was replaced counts once for its address.
pub fn distinct_code_bytes(ranges: impl IntoIterator<Item = Range<u64>>) -> u64 {
    let mut ranges: Vec<Range<u64>> = ranges.into_iter().filter(|range| !range.is_empty()).collect();
    ranges.sort_by_key(|range| range.start);
    let mut covered = 0;
    let mut end = 0;
    for range in ranges {
        covered += range.end.saturating_sub(range.start.max(end));
        end = end.max(range.end);
    }
    covered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{BlockDecoder, BlockLimits, CodeBytes};
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn block(bytes: &[u8]) -> Block {
        BlockDecoder::new().decode(CodeBytes { address: 0x1000, bytes }, BlockLimits::page(0x1000))
    }

    #[test]
    fn totals_are_executions_times_counts_of_one() {
        let load_and_call = block(&[0x48, 0x8b, 0x07, 0xff, 0xd0]);
        let mut totals = EventTotals::new();
        totals.add_block(&load_and_call, 1_000).unwrap();
        totals.add_block(&load_and_call, 1).unwrap();
        assert_eq!(totals.total(ExecutionEvent::Instructions), Ok(2_002));
        assert_eq!(totals.total(ExecutionEvent::BytesLoaded), Ok(8_008));
        assert_eq!(totals.total(ExecutionEvent::IndirectCalls), Ok(1_001));
        assert_eq!(totals.total(ExecutionEvent::TakenBranches), Ok(1_001));
        assert_eq!(totals.total(ExecutionEvent::Returns), Ok(0));
    }

    #[test]
    fn a_sum_that_does_not_fit_is_an_error() {
        let two = block(&[0x90, 0xc3]);
        let mut totals = EventTotals::new();
        assert_eq!(totals.add_block(&two, u64::MAX), Err(TotalError::Overflow(ExecutionEvent::Instructions)));
        let mut totals = EventTotals::new();
        totals.add_block(&two, u64::MAX / 8).unwrap();
        let other = totals.clone();
        assert_eq!(totals.merge(&other), Err(TotalError::Overflow(ExecutionEvent::BytesLoaded)));
    }

    #[test]
    fn an_event_that_is_owed_a_part_has_no_total() {
        let mut totals = EventTotals::new();
        let copy = block(&[0xf3, 0xa4, 0xc3]);
        totals.add_block(&copy, 0).unwrap();
        assert_eq!(totals.total(ExecutionEvent::RepIterations), Ok(0), "nothing was executed");
        totals.add_block(&copy, 2).unwrap();
        let owed = TotalError::NotCounted { event: ExecutionEvent::Loads, kind: AddendKind::Iterations };
        assert_eq!(totals.total(ExecutionEvent::Loads), Err(owed));
        assert_eq!(
            owed.to_string(),
            "loads is not known: iterations of repeated string instructions were not counted"
        );
        assert_eq!(totals.total(ExecutionEvent::Instructions), Ok(4));
        totals.add_units(&copy.addends[0].1, 100).unwrap();
        totals.settle(AddendKind::Iterations);
        assert_eq!(totals.total(ExecutionEvent::Loads), Ok(102), "100 by the copy, 2 by the return");
        assert_eq!(totals.total(ExecutionEvent::BytesStored), Ok(100));
        assert_eq!(totals.total(ExecutionEvent::RepIterations), Ok(100));
    }

    #[test]
    fn directions_come_from_the_edges() {
        let mut totals = EventTotals::new();
        totals.add_block(&block(&[0x74, 0x00]), 10).unwrap();
        assert!(totals.total(ExecutionEvent::TakenBranches).is_err());
        totals.add_directions(3, 7).unwrap();
        totals.settle(AddendKind::Direction);
        assert_eq!(totals.total(ExecutionEvent::TakenBranches), Ok(3));
        assert_eq!(totals.total(ExecutionEvent::ConditionalNotTaken), Ok(7));
        assert_eq!(totals.total(ExecutionEvent::ConditionalBranches), Ok(10));
    }

    #[test]
    fn a_merged_kind_is_settled_only_where_both_are() {
        let branch = block(&[0x74, 0x00]);
        let mut counted = EventTotals::new();
        counted.add_block(&branch, 1).unwrap();
        counted.add_directions(1, 0).unwrap();
        counted.settle(AddendKind::Direction);
        let mut uncounted = EventTotals::new();
        uncounted.add_block(&branch, 1).unwrap();
        let idle = EventTotals::new();

        let mut sum = counted.clone();
        sum.merge(&idle).unwrap();
        assert_eq!(sum.total(ExecutionEvent::TakenBranches), Ok(1));
        sum.merge(&uncounted).unwrap();
        assert!(sum.total(ExecutionEvent::TakenBranches).is_err());
        assert_eq!(sum.total(ExecutionEvent::Branches), Ok(2));
    }

    #[test]
    fn events_that_were_not_requested_have_no_total_in_any_sum() {
        let only = |event| EventTotals::of([ExecutionEvent::Instructions, event].into_iter().collect());
        let (mut loads, calls) = (only(ExecutionEvent::Loads), only(ExecutionEvent::Calls));
        assert_eq!(loads.total(ExecutionEvent::Loads), Ok(0));
        let missing = TotalError::NotRequested(ExecutionEvent::Calls);
        assert_eq!(loads.total(ExecutionEvent::Calls), Err(missing));
        assert_eq!(missing.to_string(), "calls was not requested");
        loads.merge(&calls).unwrap();
        loads.merge(&EventTotals::new()).unwrap();
        assert_eq!(loads.total(ExecutionEvent::Instructions), Ok(0));
        for event in [ExecutionEvent::Loads, ExecutionEvent::Calls] {
            assert_eq!(loads.total(event), Err(TotalError::NotRequested(event)), "one part has none");
        }
    }

    #[test]
    fn counts_can_be_taken_back_as_far_as_they_were_added() {
        let nops = block(&[0x90, 0x90, 0xc3]);
        let mut totals = EventTotals::new();
        totals.add_block(&nops, 1).unwrap();
        totals.take(&block(&[0x90, 0xc3]).events, 1).unwrap();
        assert_eq!(totals.total(ExecutionEvent::Instructions), Ok(1));
        assert_eq!(totals.take(&nops.events, 1), Err(TotalError::Negative(ExecutionEvent::Instructions)));
    }

    #[test]
    fn the_code_footprint_must_be_given_and_does_not_add_up() {
        let mut totals = EventTotals::new();
        assert!(totals.total(ExecutionEvent::DistinctCodeBytes).is_err());
        totals.set_distinct_code_bytes(12);
        assert_eq!(totals.total(ExecutionEvent::DistinctCodeBytes), Ok(12));
        totals.merge(&totals.clone()).unwrap();
        assert!(totals.total(ExecutionEvent::DistinctCodeBytes).is_err());
    }

    proptest! {
        #[test]
        fn distinct_bytes_are_those_of_the_union(
            ranges in prop::collection::vec((0u64..200, 0u64..40), 0..20),
        ) {
            let ranges: Vec<Range<u64>> = ranges.into_iter().map(|(start, len)| start..start + len).collect();
            let union: HashSet<u64> = ranges.iter().cloned().flatten().collect();
            prop_assert_eq!(distinct_code_bytes(ranges), union.len() as u64);
        }
    }
}

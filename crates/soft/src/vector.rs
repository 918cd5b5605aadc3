//! Counts of events for one execution of an instruction or a block.

use crate::event::{COUNT, ExecutionEvent};

/// One count for every event: where counts of a block are added up.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct EventTally([u32; COUNT]);

impl EventTally {
    /// All zero.
    pub const fn new() -> EventTally {
        EventTally([0; COUNT])
    }

    /// The count of one event.
    pub fn of(&self, event: ExecutionEvent) -> u32 {
        self.0[event.index()]
    }

    /// Adds to one event.
    ///
    /// A block has at most [`MAX_INSTRUCTIONS`](crate::block::MAX_INSTRUCTIONS), and no instruction counts
    /// more than a thousand of anything, so that 32 bits are enough.
    pub(crate) fn add(&mut self, event: ExecutionEvent, count: u32) {
        self.0[event.index()] += count;
    }

    /// Adds all counts of another tally.
    pub(crate) fn add_all(&mut self, other: &EventTally) {
        for (sum, count) in self.0.iter_mut().zip(other.0) {
            *sum += count;
        }
    }

    /// The counts that are not zero.
    pub fn compact(&self) -> EventVector {
        let counted = |event: &ExecutionEvent| (self.of(*event) > 0).then(|| (*event, self.of(*event)));
        EventVector(ExecutionEvent::ALL.iter().filter_map(counted).collect())
    }
}

impl Default for EventTally {
    fn default() -> EventTally {
        EventTally::new()
    }
}

/// The counts of one execution that are not zero, in the order of [`ExecutionEvent::ALL`].
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct EventVector(Box<[(ExecutionEvent, u32)]>);

/// From counts that are not zero, in the order of [`ExecutionEvent::ALL`].
impl FromIterator<(ExecutionEvent, u32)> for EventVector {
    fn from_iter<T: IntoIterator<Item = (ExecutionEvent, u32)>>(counts: T) -> EventVector {
        EventVector(counts.into_iter().collect())
    }
}

impl EventVector {
    /// Event and count, for each count that is not zero.
    pub fn iter(&self) -> impl Iterator<Item = (ExecutionEvent, u32)> + '_ {
        self.0.iter().copied()
    }

    /// The count of one event.
    pub fn of(&self, event: ExecutionEvent) -> u32 {
        self.0.iter().find(|(known, _)| *known == event).map_or(0, |(_, count)| *count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_holds_what_is_not_zero_in_order() {
        let mut tally = EventTally::new();
        tally.add(ExecutionEvent::Stores, 2);
        tally.add(ExecutionEvent::Instructions, 1);
        let vector = tally.compact();
        assert_eq!(
            vector.iter().collect::<Vec<_>>(),
            [(ExecutionEvent::Instructions, 1), (ExecutionEvent::Stores, 2)]
        );
        assert_eq!((vector.of(ExecutionEvent::Stores), vector.of(ExecutionEvent::Loads)), (2, 0));
    }

    #[test]
    fn tallies_add_event_by_event() {
        let mut sum = EventTally::new();
        sum.add(ExecutionEvent::Loads, 3);
        sum.add_all(&sum.clone());
        assert_eq!(sum.of(ExecutionEvent::Loads), 6);
    }
}

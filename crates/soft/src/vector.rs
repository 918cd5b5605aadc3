//! Counts of events for one execution of an instruction or a block.

use crate::event::{COUNT, Event};

/// One count for every event: where counts of a block are added up.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Tally([u32; COUNT]);

impl Tally {
    /// All zero.
    pub const fn new() -> Tally {
        Tally([0; COUNT])
    }

    /// The count of one event.
    pub fn of(&self, event: Event) -> u32 {
        self.0[event.index()]
    }

    /// Adds to one event.
    ///
    /// A block has at most [`MAX_INSTRUCTIONS`](crate::block::MAX_INSTRUCTIONS), and no instruction counts more
    /// than a thousand of anything, so that 32 bits are enough.
    pub(crate) fn add(&mut self, event: Event, count: u32) {
        self.0[event.index()] += count;
    }

    /// Adds all counts of another tally.
    pub(crate) fn add_all(&mut self, other: &Tally) {
        for (sum, count) in self.0.iter_mut().zip(other.0) {
            *sum += count;
        }
    }

    /// The counts that are not zero.
    pub fn compact(&self) -> Vector {
        let counted = |event: &Event| (self.of(*event) > 0).then(|| (*event, self.of(*event)));
        Vector(Event::ALL.iter().filter_map(counted).collect())
    }
}

impl Default for Tally {
    fn default() -> Tally {
        Tally::new()
    }
}

/// The counts of one execution that are not zero, in the order of [`Event::ALL`].
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Vector(Box<[(Event, u32)]>);

/// Of counts that are not zero, in that order.
impl FromIterator<(Event, u32)> for Vector {
    fn from_iter<T: IntoIterator<Item = (Event, u32)>>(counts: T) -> Vector {
        Vector(counts.into_iter().collect())
    }
}

impl Vector {
    /// Event and count, for each count that is not zero.
    pub fn iter(&self) -> impl Iterator<Item = (Event, u32)> + '_ {
        self.0.iter().copied()
    }

    /// The count of one event.
    pub fn of(&self, event: Event) -> u32 {
        self.0.iter().find(|(known, _)| *known == event).map_or(0, |(_, count)| *count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_holds_what_is_not_zero_in_order() {
        let mut tally = Tally::new();
        tally.add(Event::Stores, 2);
        tally.add(Event::Instructions, 1);
        let vector = tally.compact();
        assert_eq!(vector.iter().collect::<Vec<_>>(), [(Event::Instructions, 1), (Event::Stores, 2)]);
        assert_eq!((vector.of(Event::Stores), vector.of(Event::Loads)), (2, 0));
    }

    #[test]
    fn tallies_add_event_by_event() {
        let mut sum = Tally::new();
        sum.add(Event::Loads, 3);
        sum.add_all(&sum.clone());
        assert_eq!(sum.of(Event::Loads), 6);
    }
}

//! Addends: counts that are not in the instruction, and must be counted at run time.

use iced_x86::Register;

use crate::event::ExecutionEvent;
use crate::vector::EventTally;

/// A part of an instruction's counts that depends on registers or flags when it is executed.
///
/// An instruction has one at most. Its static counts leave that part out. So the total is executions × static
/// counts + units × [`Addend::per_unit`]. Without the units, the events that they feed are unknown: see
/// [`EventTotals`](crate::EventTotals).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Addend {
    /// A conditional branch. Units: how often it was taken, or was not (counts of the two edges of the flow
    /// graph).
    Direction,
    /// A string instruction with a repeat prefix. Units: iterations, that is, by how much rcx (ecx with an
    /// address-size prefix) decreased.
    Iterations(StringIteration),
    /// An access under a mask. Units: elements selected, read from the mask *before* the instruction, as
    /// gathers clear theirs.
    Elements(MaskedElements),
    /// An access whose size is not in the instruction (AMX tiles: in the tile configuration). Units: bytes.
    Bytes {
        /// [`ExecutionEvent::BytesLoaded`] or [`ExecutionEvent::BytesStored`].
        event: ExecutionEvent,
    },
}

/// The accesses of one iteration of a repeated string instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StringIteration {
    /// Loads: 0 to 2.
    pub loads: u8,
    /// Stores: 0 or 1.
    pub stores: u8,
    /// Bytes of the loads together.
    pub bytes_loaded: u8,
    /// Bytes of the stores together.
    pub bytes_stored: u8,
}

/// A memory operand of which a mask selects elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MaskedElements {
    /// [`ExecutionEvent::BytesLoaded`] or [`ExecutionEvent::BytesStored`].
    pub event: ExecutionEvent,
    /// The mask.
    pub mask: ElementMask,
    /// Number of elements, 1 to 64: the mask's lower bits or elements; those above it do not count.
    pub lanes: u8,
    /// Bytes of an element, 1 to 8.
    pub element_bytes: u8,
}

/// The elements that a mask selects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ElementMask {
    /// By the bits of an opmask register, k1 to k7.
    Opmask(Register),
    /// By the uppermost bit of each element of a vector register.
    Signs(Register),
}

/// The kind of run-time count that an [`Addend`] needs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum AddendKind {
    /// [`Addend::Direction`].
    Direction,
    /// [`Addend::Iterations`].
    Iterations,
    /// [`Addend::Elements`].
    Elements,
    /// [`Addend::Bytes`].
    Bytes,
    /// Not of an instruction: [`distinct_code_bytes`](crate::totals::distinct_code_bytes).
    Coverage,
}

/// A set of kinds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AddendKinds(u8);

impl AddendKinds {
    /// The kinds for which translated code has unit counters. Directions follow from the edges; the others
    /// are not counted at run time.
    pub const OF_UNITS: AddendKinds =
        AddendKinds(1 << AddendKind::Iterations as u8 | 1 << AddendKind::Elements as u8);

    /// The kinds that must be counted for some events.
    ///
    /// ```
    /// use cyclometer_soft::addend::{AddendKind, AddendKinds};
    /// use cyclometer_soft::ExecutionEvent;
    ///
    /// let kinds = AddendKinds::needed_for([ExecutionEvent::Instructions, ExecutionEvent::Loads]);
    /// assert!(kinds.contains(AddendKind::Iterations) && !kinds.contains(AddendKind::Elements));
    /// ```
    pub fn needed_for(events: impl IntoIterator<Item = ExecutionEvent>) -> AddendKinds {
        let mut kinds = AddendKinds::default();
        for event in events {
            AddendKind::ALL
                .into_iter()
                .filter(|kind| kind.feeds().contains(&event))
                .for_each(|kind| kinds.insert(kind));
        }
        kinds
    }

    /// Adds one.
    pub fn insert(&mut self, kind: AddendKind) {
        self.0 |= 1 << kind as u8;
    }

    /// Whether one is among them.
    pub fn contains(self, kind: AddendKind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }

    /// The intersection of two sets.
    #[must_use]
    pub fn among(self, others: AddendKinds) -> AddendKinds {
        AddendKinds(self.0 & others.0)
    }

    /// The union of two sets.
    #[must_use]
    pub fn with(self, others: AddendKinds) -> AddendKinds {
        AddendKinds(self.0 | others.0)
    }
}

impl AddendKind {
    /// Every kind.
    pub const ALL: [AddendKind; 5] = [
        AddendKind::Direction,
        AddendKind::Iterations,
        AddendKind::Elements,
        AddendKind::Bytes,
        AddendKind::Coverage,
    ];

    /// The events that are too low where units of this kind are not counted.
    pub fn feeds(self) -> &'static [ExecutionEvent] {
        match self {
            AddendKind::Direction => &[
                ExecutionEvent::TakenBranches,
                ExecutionEvent::ConditionalTaken,
                ExecutionEvent::ConditionalNotTaken,
            ],
            AddendKind::Iterations => &[
                ExecutionEvent::Loads,
                ExecutionEvent::Stores,
                ExecutionEvent::BytesLoaded,
                ExecutionEvent::BytesStored,
                ExecutionEvent::RepIterations,
            ],
            AddendKind::Elements | AddendKind::Bytes => {
                &[ExecutionEvent::BytesLoaded, ExecutionEvent::BytesStored]
            }
            AddendKind::Coverage => &[ExecutionEvent::DistinctCodeBytes],
        }
    }

    /// The counted unit, in words.
    pub fn word(self) -> &'static str {
        match self {
            AddendKind::Direction => "directions of conditional branches",
            AddendKind::Iterations => "iterations of repeated string instructions",
            AddendKind::Elements => "elements selected by masks",
            AddendKind::Bytes => "bytes of tiles",
            AddendKind::Coverage => "distinct code bytes",
        }
    }
}

impl Addend {
    /// The kind of count that this needs.
    pub fn kind(&self) -> AddendKind {
        match self {
            Addend::Direction => AddendKind::Direction,
            Addend::Iterations(_) => AddendKind::Iterations,
            Addend::Elements(_) => AddendKind::Elements,
            Addend::Bytes { .. } => AddendKind::Bytes,
        }
    }

    /// The counts of one unit.
    ///
    /// For [`Addend::Direction`] the unit is "taken"; [`NOT_TAKEN`] is the other.
    pub fn per_unit(&self) -> Vec<(ExecutionEvent, u32)> {
        let all = match self {
            Addend::Direction => TAKEN.to_vec(),
            Addend::Iterations(one) => one.per_unit().to_vec(),
            Addend::Elements(of) => vec![(of.event, u32::from(of.element_bytes))],
            Addend::Bytes { event } => vec![(*event, 1)],
        };
        all.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}

impl StringIteration {
    fn per_unit(&self) -> [(ExecutionEvent, u32); 5] {
        [
            (ExecutionEvent::Loads, u32::from(self.loads)),
            (ExecutionEvent::Stores, u32::from(self.stores)),
            (ExecutionEvent::BytesLoaded, u32::from(self.bytes_loaded)),
            (ExecutionEvent::BytesStored, u32::from(self.bytes_stored)),
            (ExecutionEvent::RepIterations, 1),
        ]
    }

    /// The accesses of the instruction without its prefix.
    pub(crate) fn of(once: &EventTally) -> StringIteration {
        // A string instruction accesses two operands of at most 8 bytes.
        let narrow = |event| u8::try_from(once.of(event)).unwrap_or(u8::MAX);
        StringIteration {
            loads: narrow(ExecutionEvent::Loads),
            stores: narrow(ExecutionEvent::Stores),
            bytes_loaded: narrow(ExecutionEvent::BytesLoaded),
            bytes_stored: narrow(ExecutionEvent::BytesStored),
        }
    }
}

/// The counts of a conditional branch, beside its static counts, each time that it is taken.
pub const TAKEN: [(ExecutionEvent, u32); 2] =
    [(ExecutionEvent::TakenBranches, 1), (ExecutionEvent::ConditionalTaken, 1)];

/// The counts of a conditional branch, beside its static counts, each time that it falls through.
pub const NOT_TAKEN: [(ExecutionEvent, u32); 1] = [(ExecutionEvent::ConditionalNotTaken, 1)];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::CountOrigin;

    fn one_of_each() -> [Addend; 4] {
        let iteration = StringIteration { loads: 1, stores: 1, bytes_loaded: 8, bytes_stored: 8 };
        let elements = MaskedElements {
            event: ExecutionEvent::BytesStored,
            mask: ElementMask::Opmask(Register::K1),
            lanes: 16,
            element_bytes: 4,
        };
        [
            Addend::Direction,
            Addend::Iterations(iteration),
            Addend::Elements(elements),
            Addend::Bytes { event: ExecutionEvent::BytesLoaded },
        ]
    }

    #[test]
    fn an_addend_adds_to_nothing_but_what_its_kind_feeds() {
        for addend in one_of_each() {
            for (event, _) in addend.per_unit() {
                assert!(addend.kind().feeds().contains(&event), "{addend:?} adds to {event}");
            }
        }
    }

    #[test]
    fn exactly_the_events_that_are_not_static_are_fed() {
        for event in ExecutionEvent::ALL {
            let fed = AddendKind::ALL.iter().any(|kind| kind.feeds().contains(event));
            assert_eq!(fed, event.origin() != CountOrigin::Static, "{event}");
        }
    }

    #[test]
    fn counts_of_zero_in_a_unit_are_left_out() {
        let load = StringIteration { loads: 1, bytes_loaded: 4, ..StringIteration::default() };
        let units = Addend::Iterations(load).per_unit();
        assert_eq!(
            units,
            [
                (ExecutionEvent::Loads, 1),
                (ExecutionEvent::BytesLoaded, 4),
                (ExecutionEvent::RepIterations, 1)
            ]
        );
    }
}

//! Names of slots.

/// The name of one slot; it is the index of the event in [`Plan::lines`](crate::plan::Plan::lines).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SlotId(pub usize);

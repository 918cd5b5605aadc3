//! The open counters of one source of a pass.

use cyclometer_core::SlotId;
use cyclometer_core::exec::Counting;

/// The open counters of one source.
pub(crate) struct OpenSource {
    /// The slots that it counts, each with its rotation group.
    pub(crate) slots: Vec<(SlotId, Option<u32>)>,
    pub(crate) counting: Box<dyn Counting>,
}

impl OpenSource {
    pub(crate) fn slots(&self) -> impl Iterator<Item = SlotId> {
        self.slots.iter().map(|(slot, _)| *slot)
    }

    /// The rotation group of a slot; `None` also where it counts all the time or is another source's.
    pub(crate) fn group_of(&self, slot: SlotId) -> Option<u32> {
        self.slots.iter().find(|(own, _)| *own == slot).and_then(|(_, group)| *group)
    }

    pub(crate) fn holds(&self, slot: SlotId) -> bool {
        self.slots().any(|own| own == slot)
    }

    pub(crate) fn rotates(&self) -> bool {
        self.slots.iter().any(|(_, group)| group.is_some())
    }
}

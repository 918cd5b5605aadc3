//! Slots: events of a pass, as sources open them.

use crate::counter::CounterId;
use crate::event::Part;
use crate::ladder::Rung;
use crate::modes::Modes;
pub use crate::slot_id::SlotId;

/// One event of a pass, with all that its source needs.
#[derive(Clone, PartialEq, Debug)]
pub struct Slot {
    /// Its name.
    pub id: SlotId,
    /// The event's name with modifiers, for messages.
    pub name: String,
    /// The source.
    pub rung: Rung,
    /// One part for each core PMU.
    pub parts: Vec<Part>,
    /// Number of its group: events of one group are scheduled together.
    pub group: Option<u32>,
    /// The modes to filter for; `None`: set no filter.
    pub filter: Option<Modes>,
    /// Exclude guests explicitly.
    pub exclude_guest: bool,
    /// Count the guest only (`G`).
    pub guest_only: bool,
    /// Count the host only (`H`).
    pub host_only: bool,
    /// Do not count when idle (`I`).
    pub exclude_idle: bool,
    /// Stay on the PMU or fail (`D`).
    pub pinned: bool,
    /// Alone on the PMU (`e`).
    pub exclusive: bool,
    /// The counter that the matching found for it; `None` where the source decides.
    pub counter: Option<CounterId>,
    /// The rotation group, from 0: while one group counts, the events of others do not. `None`: the event
    /// counts all the time.
    pub rotation_group: Option<u32>,
    /// The slot of the same pass that counts the same. That slot is opened, and this one takes its values.
    pub twin_of: Option<SlotId>,
}

impl Slot {
    /// The slot that is opened for this one: itself, or its twin.
    pub fn opened_as(&self) -> SlotId {
        self.twin_of.unwrap_or(self.id)
    }

    /// Renumbers the rotation groups, also those of its counter assignments.
    pub fn renumber_rotation_groups(&mut self, new: impl Fn(u32) -> Option<u32>) {
        self.rotation_group = self.rotation_group.and_then(&new);
        for part in &mut self.parts {
            if let Part::Registers(event) = part {
                event.assignments.iter_mut().for_each(|assignment| {
                    assignment.rotation_group = assignment.rotation_group.and_then(&new)
                });
            }
        }
    }

    /// A slot in no group, without filters.
    pub fn new(id: SlotId, name: impl Into<String>, rung: Rung, parts: Vec<Part>) -> Slot {
        Slot {
            id,
            name: name.into(),
            rung,
            parts,
            group: None,
            filter: None,
            exclude_guest: false,
            guest_only: false,
            host_only: false,
            exclude_idle: false,
            pinned: false,
            exclusive: false,
            counter: None,
            rotation_group: None,
            twin_of: None,
        }
    }
}

//! The events of the software PMU by name and by slot.

use cyclometer_core::exec::RefusalKind;
use cyclometer_core::reason::{EventFamily, RefusalReason};
use cyclometer_core::{Part, Refusal, Slot, SlotId};
use cyclometer_soft::ExecutionEvent;

/// The number by which a translated program requests an event, from its name; `None` for an unknown event.
pub fn event_number(name: &str) -> Option<u64> {
    ExecutionEvent::from_name(name).map(|event| event.index() as u64)
}

/// The event that a slot requests.
pub(crate) fn line(slot: &Slot) -> std::result::Result<(SlotId, ExecutionEvent), Refusal> {
    let event = match slot.parts.as_slice() {
        [Part::Soft(name)] => ExecutionEvent::from_name(name),
        _ => None,
    };
    event.map(|event| (slot.id, event)).ok_or_else(|| {
        let reason = RefusalReason::NotAmongEvents { event: slot.name.clone(), of: EventFamily::Software };
        Refusal::of_slot(slot.id, RefusalKind::NotSupported, reason)
    })
}

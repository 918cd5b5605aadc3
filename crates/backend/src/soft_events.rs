//! The numbers of the software PMU's events.

use cyclometer_soft::ExecutionEvent;

/// The number by which a translated program requests an event, from its name; `None` for an unknown event.
pub fn event_number(name: &str) -> Option<u64> {
    ExecutionEvent::from_name(name).map(|event| event.index() as u64)
}

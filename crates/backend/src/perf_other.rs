//! Systems without perf.

use cyclometer_core::Slot;

use crate::thread_events::ThreadEvent;

/// The events of a slot that count a thread: none.
pub fn thread_events(_slot: &Slot) -> Vec<ThreadEvent> {
    Vec::new()
}

/// The meaning of an error number with which a program could not open such an event.
pub fn thread_refusal(errno: i32, pmu: &str) -> String {
    format!("the PMU {pmu}: {}", std::io::Error::from_raw_os_error(errno))
}

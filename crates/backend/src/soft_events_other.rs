//! The numbers of the software PMU's events, on systems without the software PMU.

/// The number by which a translated program requests an event. Always `None`, as nothing is translated here.
pub fn event_number(_name: &str) -> Option<u64> {
    None
}

//! Values of open events as cells.

use cyclometer_core::exec::Cell;

use super::program::Opened;

/// The cell of an event; lost when the kernel does not tell its value.
pub(super) fn cell(opened: &Opened) -> Cell {
    let (slot, at) = (opened.slot, opened.at.clone());
    let lost = |reason| Cell {
        slot,
        at: at.clone(),
        raw: 0,
        time_enabled_ns: 0,
        time_running_ns: 0,
        lost: Some(reason),
        partial: None,
    };
    match opened.event.read() {
        Ok(Some(read)) => Cell {
            slot,
            at: at.clone(),
            raw: read.value,
            time_enabled_ns: read.time_enabled_ns,
            time_running_ns: read.time_running_ns,
            lost: None,
            partial: opened.partial.clone(),
        },
        Ok(None) => lost(format!("{}: the pinned event did not get or keep a counter", opened.name)),
        Err(e) => lost(format!("{}: the counter cannot be read: {e}", opened.name)),
    }
}

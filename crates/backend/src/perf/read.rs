//! Values of open events as cells.

use cyclometer_core::exec::{Cell, Reading};

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

/// What was counted between two readings of the same events.
pub(super) fn since(before: &Reading, mut after: Reading) -> Reading {
    for (cell, old) in after.cells.iter_mut().zip(&before.cells) {
        cell.raw = cell.raw.saturating_sub(old.raw);
        cell.time_enabled_ns = cell.time_enabled_ns.saturating_sub(old.time_enabled_ns);
        cell.time_running_ns = cell.time_running_ns.saturating_sub(old.time_running_ns);
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_core::SlotId;

    #[test]
    fn a_difference_is_of_values_and_times() {
        let reading =
            |raw, enabled, running| Reading { cells: vec![Cell::new(SlotId(1), raw, enabled, running)] };
        let counted = since(&reading(5, 100, 40), reading(9, 300, 240));
        assert_eq!(counted, reading(4, 200, 200));
    }
}

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
    match opened.read() {
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

/// What the same events counted in two readings, cell by cell.
pub(super) fn sum(mut one: Reading, other: &Reading) -> Reading {
    for (cell, more) in one.cells.iter_mut().zip(&other.cells) {
        cell.raw = cell.raw.saturating_add(more.raw);
        cell.time_enabled_ns = cell.time_enabled_ns.saturating_add(more.time_enabled_ns);
        cell.time_running_ns = cell.time_running_ns.saturating_add(more.time_running_ns);
        cell.lost = cell.lost.take().or_else(|| more.lost.clone());
    }
    one
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

    #[test]
    fn readings_on_two_core_types_add_up() {
        let cell = |raw, running| Cell::new(SlotId(1), raw, 100, running);
        let gone = Cell { lost: Some("gone".to_owned()), ..cell(0, 0) };
        let core = Reading { cells: vec![cell(7, 100), cell(0, 0), cell(1, 1)] };
        let atom = Reading { cells: vec![cell(0, 0), cell(5, 100), gone] };
        let both = sum(core, &atom);
        let shown: Vec<_> =
            both.cells.iter().map(|cell| (cell.raw, cell.time_enabled_ns, cell.time_running_ns)).collect();
        assert_eq!(shown, [(7, 200, 100), (5, 200, 100), (1, 200, 1)]);
        assert!(both.cells[2].lost.is_some());
    }
}

//! Cells for the tests of these modules.

use cyclometer_core::exec::{At, Cell, Reading};
use cyclometer_core::{Count, MissingReason, Scope, SlotId};

use super::settle;
use crate::testing::{cell, hardware};

pub(super) const SLOT: SlotId = SlotId(0);

pub(super) const ALL: u64 = 10_000_000;

pub(super) fn settled(parts: usize, cells: Vec<Cell>) -> Count {
    settle(&hardware("cycles", parts), &Reading { cells }, SLOT, Scope::Tree)
}

pub(super) fn on_part(part: usize, raw: u64, enabled: u64, running: u64) -> Cell {
    let mut cell = cell(SLOT, raw, enabled, running);
    cell.at = At { part, pmu: Some(["cpu_core", "cpu_atom"][part].into()), cpu: None, tid: None };
    cell
}

pub(super) fn on_cpu(cpu: u32, raw: u64, enabled: u64, running: u64) -> Cell {
    let mut cell = cell(SLOT, raw, enabled, running);
    cell.at.cpu = Some(cpu);
    cell
}

/// The reason of [`lost`] cells.
pub(super) fn offline() -> MissingReason {
    MissingReason::from("cpu went offline")
}

pub(super) fn lost(mut cell: Cell) -> Cell {
    cell.lost = Some(offline());
    cell
}

/// The cell of a part of a sum: `raw` in `running` of 10 ms.
pub(super) fn summand(part: usize, pmu: &str, raw: u64, running_ns: u64) -> Cell {
    let at = At { part, pmu: Some(pmu.to_owned()), ..At::default() };
    Cell { at, ..cell(SLOT, raw, 10_000_000, running_ns) }
}

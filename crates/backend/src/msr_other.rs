//! Systems without Linux's `msr` driver: no registers are written, so none are left.

use crate::registers::{Chips, LeftRegisters, Restoration};

/// There are none.
pub fn left_registers() -> Vec<LeftRegisters> {
    Vec::new()
}

/// There is nothing to restore.
pub fn restore_registers(_chips: &Chips) -> Vec<Restoration> {
    Vec::new()
}

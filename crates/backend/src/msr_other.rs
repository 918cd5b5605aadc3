//! Systems without Linux's `msr` driver: no registers are written, so none are left.

use cyclometer_core::Source;

use crate::registers::{Chips, CorePmu, LeftRegisters, Restoration};

/// This system has no such source.
pub fn source(_cores: Vec<CorePmu>) -> Option<Box<dyn Source>> {
    None
}

/// None.
pub fn left_registers() -> Vec<LeftRegisters> {
    Vec::new()
}

/// Restores nothing.
pub fn restore_registers(_chips: &Chips) -> Vec<Restoration> {
    Vec::new()
}

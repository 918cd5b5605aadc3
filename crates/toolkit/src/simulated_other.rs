//! Programs without simulated chips: no value of the type exists.

use cyclometer_backend::registers::CorePmu;
pub(crate) use cyclometer_backend::sim::Simulation;
use cyclometer_core::{Machine, Result};

use crate::EventTables;

/// A simulated machine, which this program cannot have: it was built without the feature `simulated`.
#[derive(Clone, Debug)]
pub enum Simulated {}

impl Simulated {
    /// The description of the simulated machine.
    pub fn machine(&self) -> Machine {
        match *self {}
    }

    pub(crate) fn start(&self) -> Result<Simulation> {
        match *self {}
    }

    pub(crate) fn cores(&self, _tables: &EventTables) -> Vec<CorePmu> {
        match *self {}
    }
}

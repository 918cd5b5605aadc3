//! Programs without simulated chips: no value of these types exists.

use cyclometer_core::{Launch, Source};

use crate::launch::Launcher;
use crate::registers::CorePmu;

/// A simulated machine, which this program cannot have.
pub enum Simulation {}

impl Simulation {
    /// The driver over its registers.
    pub fn source(&self, _cores: Vec<CorePmu>) -> Box<dyn Source> {
        match *self {}
    }

    /// Starts workloads in place of commands.
    pub fn launcher(&self, _launcher: &Launcher) -> Box<dyn Launch> {
        match *self {}
    }
}

//! Which chip each CPU of a machine is, as far as its registers go.

use cyclometer_arch::Chip;
use cyclometer_core::CpuSet;

/// The chips of a machine: one for each type of core.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Chips(Vec<(CpuSet, Chip)>);

impl Chips {
    /// From the CPUs of each type of core, and what their registers are like.
    pub const fn new(chips: Vec<(CpuSet, Chip)>) -> Chips {
        Chips(chips)
    }

    /// The chip that a CPU is; `None` for a CPU that nobody told of.
    pub fn of(&self, cpu: u32) -> Option<&Chip> {
        self.0.iter().find(|(cpus, _)| cpus.contains(cpu)).map(|(_, chip)| chip)
    }
}

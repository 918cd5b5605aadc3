//! The chip of each CPU of a machine, as far as its registers are concerned.

use cyclometer_arch::Chip;
use cyclometer_core::CpuSet;

/// The chips of a machine: one for each type of core.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Chips(Vec<(CpuSet, Chip)>);

impl Chips {
    /// Takes the CPUs of each type of core, with the description of their registers.
    pub const fn new(chips: Vec<(CpuSet, Chip)>) -> Chips {
        Chips(chips)
    }

    /// The chip of a CPU; `None` for a CPU that is not listed.
    pub fn of(&self, cpu: u32) -> Option<&Chip> {
        self.0.iter().find(|(cpus, _)| cpus.contains(cpu)).map(|(_, chip)| chip)
    }
}

//! How the software PMU runs commands.

use cyclometer_core::CpuBaseline;

/// What may be chosen of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SoftwareSettings {
    /// Leaves the layout of addresses and the kernel's 16 random bytes (`AT_RANDOM`) as they are drawn; else both are
    /// the same in every run, as far as that is permitted, so that counts repeat.
    pub random_layout: bool,
    /// Which processor commands are told that they have; `None`: the one that there is.
    pub cpu_baseline: Option<CpuBaseline>,
    /// Keeps hints of what is executed, and translations, in folders of the user, and uses those that are there: later runs of the
    /// same code start faster. Counts do not depend on them.
    pub hints: bool,
}

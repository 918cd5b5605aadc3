//! The scope of values.

use std::fmt;

/// The scope of a value, from narrow to wide.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Scope {
    /// One thread.
    Thread,
    /// One process with all its threads.
    Process,
    /// A process and the descendants it created while it was counted.
    Tree,
    /// The processes of a control group.
    Cgroup,
    /// Everything on the chosen CPUs.
    Cpus,
    /// A whole CPU package.
    Package,
    /// A whole device, as a GPU.
    Device,
    /// The whole machine.
    System,
}

impl Scope {
    /// The word used in every output format.
    pub fn word(self) -> &'static str {
        match self {
            Scope::Thread => "thread",
            Scope::Process => "process",
            Scope::Tree => "tree",
            Scope::Cgroup => "cgroup",
            Scope::Cpus => "cpus",
            Scope::Package => "package",
            Scope::Device => "device",
            Scope::System => "system",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

//! Systems that cannot bind a command to CPUs.

use cyclometer_core::exec::CommandSpec;
use cyclometer_core::{Child, CpuSet, Error, ErrorKind, Launch, Recovery, Result};

/// Starts commands on some CPUs only. This system has no system call for that.
pub struct Pinned<'a> {
    launch: &'a dyn Launch,
    cpus: CpuSet,
}

impl<'a> Pinned<'a> {
    /// For these CPUs.
    pub fn new(launch: &'a dyn Launch, cpus: CpuSet) -> Pinned<'a> {
        Pinned { launch, cpus }
    }
}

impl Launch for Pinned<'_> {
    fn prepare(&self, command: &CommandSpec) -> Result<Box<dyn Child>> {
        if self.cpus.is_empty() {
            return self.launch.prepare(command);
        }
        Err(Error::new(ErrorKind::ArchUnsupported, "this operating system binds no command to CPUs")
            .with_recovery(Recovery::fix("leave the list of CPUs out")))
    }
}

//! Commands bound to given CPUs.

use cyclometer_core::exec::CommandSpec;
use cyclometer_core::{Child, CpuSet, Error, ErrorKind, Launch, Recovery, Result};
use cyclometer_sys::affinity::Affinity;

/// Starts commands with another launcher, bound to some CPUs.
///
/// A command and its descendants stay on these CPUs, unless they change their own affinity.
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
        let child = self.launch.prepare(command)?;
        let mut cpus = self.cpus.iter();
        let Some(first) = cpus.next() else { return Ok(child) };
        let affinity = cpus.fold(Affinity::only(first), Affinity::with);
        child.pid().map_or(Ok(()), |pid| affinity.give(pid)).map_err(|error| {
            Error::new(ErrorKind::Os, format!("cannot bind the command to CPU {}: {error}", self.cpus))
                .with_source(error)
                .with_recovery(Recovery::fix("name CPUs that this process may use, as `nproc` counts them"))
        })?;
        Ok(child)
    }
}

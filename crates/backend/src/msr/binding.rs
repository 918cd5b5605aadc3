//! A command bound to one CPU, and instructions of this process on that CPU.

use std::io;
use std::time::{Duration, Instant};

use cyclometer_core::{CpuSet, Error, ErrorKind, Result};
use cyclometer_sys::affinity::Affinity;

use crate::affinity::AffinityGuard;

/// How long instructions are executed to see counters move: about a hundred thousand cycles.
const EXERCISE: Duration = Duration::from_micros(30);

/// Executes instructions on a CPU for a moment.
///
/// # Errors
///
/// `ErrorKind::Os` where this thread may not run on the CPU.
pub(super) fn exercise(cpu: u32) -> Result<()> {
    let own = Affinity::of(0).map_err(|error| not_there(cpu, error))?;
    let _there = AffinityGuard::new(cpu, &own)
        .ok_or_else(|| not_there(cpu, io::Error::other("it is not among the CPUs that we may use")))?;
    let began = Instant::now();
    while began.elapsed() < EXERCISE {
        std::hint::spin_loop();
    }
    Ok(())
}

/// Binds a child to one CPU: the last of these on which the child may run.
///
/// # Errors
///
/// `ErrorKind::Os` where there is no such CPU, and errors of the operating system.
pub(super) fn bind(child: u32, among: &CpuSet) -> Result<u32> {
    let failed = |error: io::Error| {
        let message = format!("cannot bind the command to one of the CPUs {among}: {error}");
        Error::new(ErrorKind::Os, message).with_source(error)
    };
    let allowed = Affinity::of(child).map_err(failed)?;
    let last = among.iter().filter(|cpu| allowed.contains(*cpu)).last();
    let cpu = last.ok_or_else(|| failed(io::Error::other("it may run on none of them")))?;
    Affinity::only(cpu).give(child).map_err(failed)?;
    Ok(cpu)
}

/// Whether every thread of a process may run on that CPU only. True for a process that is gone.
pub(super) fn is_bound(process: u32, cpu: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{process}/task")) else { return true };
    let ids = threads.filter_map(|thread| thread.ok()?.file_name().to_str()?.parse().ok());
    let only = Affinity::only(cpu);
    ids.into_iter().all(|thread: u32| Affinity::of(thread).map_or(true, |allowed| allowed == only))
}

fn not_there(cpu: u32, error: io::Error) -> Error {
    let message = format!("cannot see whether the counters of CPU {cpu} move: {error}; name CPUs with -C");
    Error::new(ErrorKind::Os, message).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_bound_to_the_last_cpu_that_it_may_use() {
        let own = Affinity::of(0).unwrap();
        let last = (0..8192).rfind(|cpu| own.contains(*cpu)).unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let all: CpuSet = (0..8192).collect();
        assert_eq!(bind(child.id(), &all).unwrap(), last);
        assert_eq!(Affinity::of(child.id()).unwrap(), Affinity::only(last));
        assert!(is_bound(child.id(), last));
        assert!(!is_bound(child.id(), 8191));
        let none: CpuSet = [8191].into_iter().collect();
        let error = bind(child.id(), &none).unwrap_err();
        assert!(error.to_string().contains("it may run on none of them"), "{error}");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn where_we_must_not_run_nothing_is_executed() {
        assert!(exercise(8191).unwrap_err().to_string().contains("CPU 8191"));
        let own = Affinity::of(0).unwrap();
        let first = (0..8192).find(|cpu| own.contains(*cpu)).unwrap();
        exercise(first).unwrap();
        assert_eq!(Affinity::of(0).unwrap(), own);
    }
}

//! The state outside of processes that a run must leave as it was: shared memory, journals, CPU affinity.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result};

use super::super::running::RunningCommand;

/// Folders for files that outlive a process.
const FOLDERS: [&str; 2] = ["/dev/shm", "/run/cyclometer"];

/// The state before a run.
pub(super) struct OutsideState {
    files: BTreeSet<String>,
    /// The CPUs on which this process, and so a program without the tool, may run.
    cpus: String,
}

impl OutsideState {
    pub(super) fn now() -> Result<OutsideState> {
        let cpus = allowed_cpus(std::process::id()).context("the CPUs of this process")?;
        Ok(OutsideState { files: files(), cpus })
    }

    /// The difference that the tool of a run has left: after its end, the program may go on.
    pub(super) fn changed(&self, running: &RunningCommand<'_>) -> Result<Option<String>> {
        let new: Vec<String> = files().difference(&self.files).cloned().collect();
        if !new.is_empty() {
            return Ok(Some(format!("files left behind: {}", new.join(", "))));
        }
        let family = running.family()?;
        // As long as the tracer lives, it has not detached the program yet.
        if family.iter().any(|process| process.is_tracer()) {
            return Ok(None);
        }
        let bound = family.iter().find_map(|process| {
            let cpus = allowed_cpus(process.pid)?;
            (cpus != self.cpus)
                .then(|| format!("{} may run on CPUs {cpus}, not on {}", process.name, self.cpus))
        });
        Ok(bound)
    }
}

/// The files of the tool in shared folders.
fn files() -> BTreeSet<String> {
    let of = |folder: &str| fs::read_dir(folder).into_iter().flatten().flatten();
    let all = FOLDERS.iter().flat_map(|folder| of(folder)).map(|entry| entry.path().display().to_string());
    all.filter(|path| path.contains("cyclometer")).collect()
}

/// The CPUs on which a process may run; `None` for one that has ended.
///
/// # Source
///
/// `proc_pid_status(5)`, `Cpus_allowed_list`.
fn allowed_cpus(pid: u32) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpus_of_a_process_are_read_and_of_none_unknown() {
        assert!(
            allowed_cpus(std::process::id())
                .is_some_and(|cpus| cpus.starts_with(|c: char| c.is_ascii_digit()))
        );
        assert_eq!(allowed_cpus(0), None);
    }
}

//! The descendants of this process, as `/proc` lists them.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};
use cyclometer_sys::daemon;
use cyclometer_sys::process::{Reap, reap};

/// A process at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ProcessSnapshot {
    pub(super) pid: u32,
    pub(super) parent: u32,
    /// The first 15 bytes of its name.
    pub(super) name: String,
    /// As in `/proc/PID/stat`: `R`, `S`, `T`, `Z`...
    pub(super) state: char,
}

impl ProcessSnapshot {
    /// From the text of `/proc/PID/stat`.
    ///
    /// # Source
    ///
    /// `proc_pid_stat(5)`. The name is in parentheses and may contain some.
    fn from_stat(text: &str) -> Option<ProcessSnapshot> {
        let (start, rest) = text.rsplit_once(')')?;
        let (pid, name) = start.split_once(" (")?;
        let mut rest = rest.split_whitespace();
        let state = rest.next()?.chars().next()?;
        let parent = rest.next()?.parse().ok()?;
        Some(ProcessSnapshot { pid: pid.parse().ok()?, parent, name: name.to_owned(), state })
    }

    /// Whether it has ended and waits to be reaped.
    fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }

    /// Whether it belongs to the tool, and not to the program that the tool runs.
    pub(super) fn is_tracer(&self) -> bool {
        self.name == daemon::NAME
    }
}

/// All descendants of ours that have not ended; children that have are reaped, but for one whose owner waits
/// for it.
pub(super) fn living(awaited: Option<u32>) -> Result<Vec<ProcessSnapshot>> {
    let all = descendants(&all()?, std::process::id());
    for process in &all {
        let ours = process.parent == std::process::id() && Some(process.pid) != awaited;
        if process.has_ended() && ours {
            // It may have been another's zombie a moment ago, and be gone by now: both are fine.
            let _ = reap(process.pid, Reap::Poll);
        }
    }
    Ok(all.into_iter().filter(|process| !process.has_ended()).collect())
}

fn all() -> Result<Vec<ProcessSnapshot>> {
    let folder = fs::read_dir("/proc").context("reading /proc; the corpus needs Linux")?;
    let pids = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    // A process that ends between the two has no file any more.
    let stats = pids.filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/stat")).ok());
    Ok(stats.filter_map(|stat| ProcessSnapshot::from_stat(&stat)).collect())
}

/// Those among `all` that descend from `ancestor`, without itself.
fn descendants(all: &[ProcessSnapshot], ancestor: u32) -> Vec<ProcessSnapshot> {
    let parents: BTreeMap<u32, u32> = all.iter().map(|process| (process.pid, process.parent)).collect();
    let descends = |process: &&ProcessSnapshot| {
        let mut line = std::iter::successors(Some(process.parent), |pid| parents.get(pid).copied());
        line.by_ref().take(parents.len() + 1).any(|pid| pid == ancestor)
    };
    all.iter().filter(descends).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, parent: u32) -> ProcessSnapshot {
        ProcessSnapshot { pid, parent, name: "x".to_owned(), state: 'S' }
    }

    #[test]
    fn a_name_may_look_like_the_rest_of_the_line() {
        let found = ProcessSnapshot::from_stat("12 (a) S 1 (b)) R 7 9 9 0 -1").unwrap();
        assert_eq!((found.pid, found.parent, found.state), (12, 7, 'R'));
        assert_eq!(found.name, "a) S 1 (b)");
    }

    #[test]
    fn cut_lines_are_no_processes() {
        for text in ["", "12", "12 (a", "12 (a)", "12 (a) S", "x (a) S 7"] {
            assert_eq!(ProcessSnapshot::from_stat(text), None, "{text}");
        }
    }

    #[test]
    fn descendants_are_those_of_any_depth() {
        let all = [process(2, 1), process(3, 2), process(4, 3), process(5, 1), process(6, 9)];
        let pids: Vec<u32> = descendants(&all, 2).iter().map(|process| process.pid).collect();
        assert_eq!(pids, [3, 4]);
    }

    #[test]
    fn a_ring_of_parents_ends() {
        assert_eq!(descendants(&[process(2, 3), process(3, 2)], 7), []);
    }
}

//! The processes that descend from this one, and their end.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use cyclometer_sys::process::{Reap, SIGKILL, SIGSTOP, check_process_list, reap, signal};

/// How often new descendants are looked for while others are stopped: a program that forks all the time is
/// stopped after a few.
const STOPPING_PASSES: usize = 64;

/// The pause between two looks at processes that are being killed.
const PAUSE: Duration = Duration::from_millis(5);

/// Kills all descendants of this process and reaps those that became its children; gives up after `limit`. A
/// descendant whose parent died has to be a child of this process (`adopt_orphans`).
///
/// Returns how many are left: processes with other rights, or in an uninterruptible system call.
pub fn kill_all(limit: Duration) -> usize {
    let until = Instant::now() + limit;
    stop_all();
    loop {
        let left = descendants(&parents(), std::process::id());
        for pid in &left {
            let _ = signal(*pid, SIGKILL);
        }
        for pid in &left {
            let _ = reap(*pid, Reap::Poll);
        }
        // A process that was reaped may have had children.
        if left.is_empty() || Instant::now() >= until {
            return left.len();
        }
        std::thread::sleep(PAUSE);
    }
}

/// Stops all descendants, until no new one appears.
fn stop_all() {
    let mut stopped = Vec::new();
    for _ in 0..STOPPING_PASSES {
        let all = descendants(&parents(), std::process::id());
        let new: Vec<u32> = all.into_iter().filter(|pid| !stopped.contains(pid)).collect();
        if new.is_empty() {
            return;
        }
        for pid in new {
            let _ = signal(pid, SIGSTOP);
            stopped.push(pid);
        }
    }
}

/// The parent of each process that `/proc` shows; none where there is no `/proc`, or one with other ids.
fn parents() -> HashMap<u32, u32> {
    if check_process_list().is_err() {
        return HashMap::new();
    }
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: u32| Some((pid, parent(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?)))
        .collect()
}

/// The parent in the text of `/proc/PID/stat`: the second field behind the name, which may have any
/// characters. Source: `proc(5)`.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The processes that descend from one.
fn descendants(parents: &HashMap<u32, u32>, root: u32) -> Vec<u32> {
    let (mut found, mut next) = (Vec::new(), vec![root]);
    while let Some(one) = next.pop() {
        let children = parents.iter().filter(|(_, parent)| **parent == one).map(|(pid, _)| *pid);
        for child in children.filter(|pid| *pid != root) {
            if !found.contains(&child) {
                found.push(child);
                next.push(child);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_read_behind_any_name() {
        assert_eq!(parent("12 (a) b) S 7 12 12 0"), Some(7));
        assert_eq!(parent("12 (a"), None);
        assert_eq!(parent("12 (a) S x"), None);
    }

    #[test]
    fn descendants_are_found_over_generations_and_no_others() {
        let parents = HashMap::from([(2, 1), (3, 2), (4, 3), (5, 1), (6, 5)]);
        let mut found = descendants(&parents, 2);
        found.sort_unstable();
        assert_eq!(found, [3, 4]);
        assert!(descendants(&parents, 6).is_empty());
        // Ids of two looks at different times may form a circle.
        let mut circle = descendants(&HashMap::from([(7, 8), (8, 7)]), 7);
        circle.sort_unstable();
        assert_eq!(circle, [8]);
    }
}

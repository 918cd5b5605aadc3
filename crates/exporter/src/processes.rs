//! Configured processes in `/proc`.

use std::fs;
use std::io::Read as _;

use crate::config::{ProcessFinder, ProcessRule};

/// A running process of a rule.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FoundProcess {
    /// Index of the rule.
    pub rule: usize,
    /// Its id.
    pub pid: u32,
    /// When it started, in ticks since boot: the id may later be another process's.
    pub began_ticks: u64,
}

/// The processes of all rules that run now.
pub fn scan(rules: &[ProcessRule]) -> Vec<FoundProcess> {
    let names: Vec<(u32, String)> =
        match rules.iter().any(|rule| matches!(rule.finder, ProcessFinder::Comm(_))) {
            true => running(),
            false => Vec::new(),
        };
    let of_rule = |(rule, settings): (usize, &ProcessRule)| {
        let pids: Vec<u32> = match &settings.finder {
            ProcessFinder::Pid(pid) => vec![*pid],
            ProcessFinder::PidFile(file) => pid_in(file).into_iter().collect(),
            ProcessFinder::Comm(comm) => {
                names.iter().filter(|(_, name)| name == comm).map(|(pid, _)| *pid).collect()
            }
        };
        pids.into_iter()
            .filter_map(move |pid| Some(FoundProcess { rule, pid, began_ticks: began_ticks(pid)? }))
    };
    rules.iter().enumerate().flat_map(of_rule).collect()
}

/// Whether a process is still the one that was found.
pub fn is_still_there(process: &FoundProcess) -> bool {
    began_ticks(process.pid) == Some(process.began_ticks)
}

/// Number of threads of a process; 0 where it has ended.
pub fn threads(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

fn running() -> Vec<(u32, String)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let process = |entry: fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let name = fs::read(entry.path().join("comm")).ok()?;
        Some((pid, String::from_utf8_lossy(&name).trim_end_matches('\n').to_owned()))
    };
    entries.flatten().filter_map(process).collect()
}

fn pid_in(file: &std::path::Path) -> Option<u32> {
    let mut text = String::new();
    fs::File::open(file).ok()?.take(64).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Field 22 of `/proc/PID/stat`; the name before it may contain anything. `None` for a process that has
/// ended, also for one that waits to be reaped.
///
/// # Source
///
/// `proc_pid_stat(5)`.
fn began_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let behind_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let fields = std::str::from_utf8(&stat[behind_name..]).ok()?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends where something fails")]
mod tests {
    use super::*;

    fn rule(finder: ProcessFinder) -> ProcessRule {
        ProcessRule { name: "own".into(), finder, events: "task-clock".into() }
    }

    #[test]
    fn a_process_is_found_by_id_by_file_and_by_name() {
        let own = std::process::id();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("own.pid");
        fs::write(&file, format!("{own}\n")).unwrap();
        let comm = fs::read_to_string("/proc/self/comm").unwrap().trim_end().to_owned();
        let rules = [
            rule(ProcessFinder::Pid(own)),
            rule(ProcessFinder::PidFile(file)),
            rule(ProcessFinder::Comm(comm)),
            rule(ProcessFinder::PidFile("/no/such/file".into())),
            rule(ProcessFinder::Comm("no such process".into())),
        ];
        let found = scan(&rules);
        for rule in 0..3 {
            let own = found.iter().find(|process| process.rule == rule && process.pid == own).unwrap();
            assert!(is_still_there(own));
            assert!(!is_still_there(&FoundProcess { began_ticks: own.began_ticks + 1, ..own.clone() }));
        }
        assert!(found.iter().all(|process| process.rule < 3));
    }

    #[test]
    fn a_process_that_has_ended_is_not_found_before_it_is_reaped() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        while began_ticks(child.id()).is_some() {
            std::thread::yield_now();
        }
        assert!(scan(&[rule(ProcessFinder::Pid(child.id()))]).is_empty());
        child.wait().unwrap();
    }
}

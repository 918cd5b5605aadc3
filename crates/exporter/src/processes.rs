//! Configured processes in `/proc`.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

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

/// The result of a look at all rules.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProcessScan {
    /// The processes that run now.
    pub found: Vec<FoundProcess>,
    /// Index of each rule without a process, and the reason.
    pub missing: Vec<(usize, String)>,
}

/// The processes of all rules that run now.
pub fn scan(rules: &[ProcessRule]) -> ProcessScan {
    let names: Vec<(u32, String)> =
        match rules.iter().any(|rule| matches!(rule.finder, ProcessFinder::Comm(_))) {
            true => running(),
            false => Vec::new(),
        };
    let mut scan = ProcessScan::default();
    for (rule, settings) in rules.iter().enumerate() {
        let before = scan.found.len();
        let (pids, reason) = candidates(&settings.finder, &names);
        let running = |pid| Some(FoundProcess { rule, pid, began_ticks: began_ticks(pid)? });
        scan.found.extend(pids.into_iter().filter_map(running));
        if scan.found.len() == before {
            scan.missing.push((rule, reason));
        }
    }
    scan
}

/// The processes of a rule as far as it is known, and the reason if none of them runs.
fn candidates(finder: &ProcessFinder, names: &[(u32, String)]) -> (Vec<u32>, String) {
    match finder {
        ProcessFinder::Pid(pid) => (vec![*pid], format!("no process {pid} runs")),
        ProcessFinder::PidFile(file) => match pid_in(file) {
            Ok(pid) => (vec![pid], format!("no process {pid}, of pid_file {}, runs", file.display())),
            Err(reason) => (Vec::new(), reason),
        },
        ProcessFinder::Comm(comm) => {
            let pids = names.iter().filter(|(_, name)| name == comm).map(|(pid, _)| *pid).collect();
            (pids, format!("no process with comm {comm} runs"))
        }
    }
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

fn pid_in(file: &Path) -> Result<u32, String> {
    let text =
        start_of_file(file).map_err(|error| format!("cannot read pid_file {}: {error}", file.display()))?;
    text.trim().parse().map_err(|_| format!("pid_file {} has no process id", file.display()))
}

/// The first bytes of a regular file. To open a pipe does not wait for its other end.
fn start_of_file(file: &Path) -> io::Result<String> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(file)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    let mut text = String::new();
    file.take(64).read_to_string(&mut text)?;
    Ok(text)
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
        let ProcessScan { found, missing } = scan(&rules);
        assert_eq!(missing.iter().map(|(rule, _)| *rule).collect::<Vec<_>>(), [3, 4]);
        assert!(missing[0].1.starts_with("cannot read pid_file /no/such/file: "), "{missing:?}");
        assert_eq!(missing[1].1, "no process with comm no such process runs");
        for rule in 0..3 {
            let own = found.iter().find(|process| process.rule == rule && process.pid == own).unwrap();
            assert!(is_still_there(own));
            assert!(!is_still_there(&FoundProcess { began_ticks: own.began_ticks + 1, ..own.clone() }));
        }
        assert!(found.iter().all(|process| process.rule < 3));
    }

    #[test]
    fn a_pipe_or_a_folder_in_place_of_a_pid_file_is_a_reason_and_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let words = folder.path().join("words");
        fs::write(&words, "none").unwrap();
        assert!(pid_in(&pipe).unwrap_err().ends_with("it is no regular file"));
        assert!(pid_in(folder.path()).unwrap_err().ends_with("it is no regular file"));
        assert!(pid_in(&words).unwrap_err().ends_with("has no process id"));
    }

    #[test]
    fn a_process_that_has_ended_is_not_found_before_it_is_reaped() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        while began_ticks(child.id()).is_some() {
            std::thread::yield_now();
        }
        let scan = scan(&[rule(ProcessFinder::Pid(child.id()))]);
        assert!(scan.found.is_empty());
        assert_eq!(scan.missing, [(0, format!("no process {} runs", child.id()))]);
        child.wait().unwrap();
    }
}

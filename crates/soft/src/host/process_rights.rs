//! The rights of a process, compared with those of the tracer.
//!
//! A process can write the translated code that it executes. So a translation is not stored if a process with
//! fewer rights has executed it: another user, fewer capabilities, a system call filter, or another view of
//! the file system.

use std::fs;
use std::path::Path;

use cyclometer_sys::identity::FileIdentity;

use super::proc;

/// The rights of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ProcessRights {
    /// Lines of its status.
    status: Vec<String>,
    /// Its namespaces, and its root.
    identities: Vec<FileIdentity>,
    /// Its label from a security module, if there is one.
    label: Option<Vec<u8>>,
}

impl ProcessRights {
    /// The rights of a process; `None` where they are unknown.
    ///
    /// # Source
    ///
    /// `proc(5)`, `/proc/pid/status` and `/proc/pid/attr/current`; `namespaces(7)`, comparing by device and
    /// number.
    pub(super) fn of(pid: u32) -> Option<ProcessRights> {
        const LINES: [&str; 8] =
            ["Uid:", "Gid:", "Groups:", "CapPrm:", "CapEff:", "NoNewPrivs:", "Seccomp:", "Seccomp_filters:"];
        let folder = format!("/proc/{pid}");
        let text = proc::text(format!("{folder}/status")).ok()?;
        let matters = |line: &&str| LINES.iter().any(|start| line.starts_with(start));
        let identity = |name: &str| {
            let metadata = fs::metadata(Path::new(&folder).join(name)).ok()?;
            Some(FileIdentity::from(&metadata))
        };
        Some(ProcessRights {
            status: text.lines().filter(matters).map(str::to_owned).collect(),
            identities: vec![
                identity("ns/user")?,
                identity("ns/mnt")?,
                identity("ns/pid")?,
                identity("ns/net")?,
                identity("root")?,
            ],
            label: proc::bytes(format!("{folder}/attr/current")).ok(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// The rights of a command that waits for the end of its input.
    fn rights_of(command: &mut Command) -> Option<ProcessRights> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = [0; 6];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
        let rights = ProcessRights::of(child.id());
        drop(child.stdin.take());
        child.wait().unwrap();
        rights
    }

    const WAITS: &str = "echo ready; read line; true";

    #[test]
    fn a_child_may_do_what_its_maker_may() {
        let own = ProcessRights::of(std::process::id());
        assert!(own.is_some());
        assert_eq!(rights_of(Command::new("sh").args(["-c", WAITS])), own);
        assert_eq!(ProcessRights::of(u32::MAX), None);
    }

    #[test]
    fn a_process_that_has_dropped_rights_has_other_rights() {
        let own = ProcessRights::of(std::process::id());
        let confined = rights_of(Command::new("setpriv").args(["--no-new-privs", "sh", "-c", WAITS]));
        assert!(confined.is_some());
        assert_ne!(confined, own);
    }
}

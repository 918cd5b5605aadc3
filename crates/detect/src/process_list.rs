//! Whose processes `/proc` shows.
//!
//! A process id names a process of a PID namespace, and a mounted `/proc` shows those of one. Where the two
//! namespaces differ, as after `unshare --pid --fork` without `--mount-proc`, `/proc/PID` is an unrelated
//! process, and so are its files.

use crate::facts::FactSource;
use crate::text;

/// Whose processes `/proc` shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ProcessList {
    /// Those that this process knows by the same ids.
    Own,
    /// Those of another PID namespace.
    OtherNamespace,
    /// None: it is not mounted.
    Missing,
}

impl ProcessList {
    /// Reads it off this process's own entry.
    ///
    /// `NSpid` has the ids of a process in all namespaces from that of `/proc` to its own, so it has one
    /// where both are the same. In a `/proc` of a namespace that this process is not in at all, the entry
    /// does not exist.
    ///
    /// # Source
    ///
    /// `proc(5)`, `/proc/pid/status`: `NSpid` (Linux 4.1); `pid_namespaces(7)`, "/proc and PID namespaces".
    pub(crate) fn ask(facts: &dyn FactSource) -> ProcessList {
        let Some(status) = facts.read("/proc/self/status") else {
            return match facts.list("/proc").is_empty() {
                true => ProcessList::Missing,
                false => ProcessList::OtherNamespace,
            };
        };
        match text::field(&status, "NSpid").map(|ids| ids.split_ascii_whitespace().count()) {
            Some(2..) => ProcessList::OtherNamespace,
            _ => ProcessList::Own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RecordedFacts;

    #[test]
    fn it_is_read_off_the_own_entry() {
        let check = |body: &str, expected| {
            let facts = RecordedFacts::parse(&format!("note synthetic: a test\nos linux\n{body}")).unwrap();
            assert_eq!(ProcessList::ask(&facts), expected, "{body}");
        };
        check("file /proc/self/status\n| CapEff:\t0\n| NSpid:\t7\n", ProcessList::Own);
        // Linux before 4.1, and recordings of earlier versions.
        check("file /proc/self/status\n| CapEff:\t0\n", ProcessList::Own);
        check("file /proc/self/status\n| NSpid:\t1234\t7\n", ProcessList::OtherNamespace);
        check("file /proc/self/status\n| NSpid:\t1234\t20\t7\n", ProcessList::OtherNamespace);
        check("list /proc 1 2 meminfo\n", ProcessList::OtherNamespace);
        check("", ProcessList::Missing);
    }
}

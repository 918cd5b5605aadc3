//! The processes that `/proc` shows.
//!
//! A process id names a process of a PID namespace, and a mounted `/proc` shows those of one. Where the two
//! namespaces differ, as after `unshare --pid --fork` without `--mount-proc`, `/proc/PID` is an unrelated
//! process, and so are its files.

/// The processes that `/proc` shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcessList {
    /// Those that this process knows by the same ids.
    Own,
    /// Those of another PID namespace.
    OtherNamespace,
    /// None: it is not mounted.
    Missing,
}

impl ProcessList {
    /// Reads it off `/proc/self/status`, which is `None` where it does not exist. `is_mounted` decides then:
    /// in a `/proc` of a namespace that this process is not in at all, the entry does not exist.
    ///
    /// `NSpid` has the ids of a process in all namespaces from that of `/proc` to its own, so it has one
    /// where both are the same. Before Linux 4.1 it is missing, and the namespaces are taken for the same.
    ///
    /// # Source
    ///
    /// `proc(5)`, `/proc/pid/status`: `NSpid` (Linux 4.1); `pid_namespaces(7)`, "/proc and PID namespaces".
    pub fn of(own_status: Option<&str>, is_mounted: impl FnOnce() -> bool) -> ProcessList {
        let Some(status) = own_status else {
            return if is_mounted() { ProcessList::OtherNamespace } else { ProcessList::Missing };
        };
        let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        match ids.map(|ids| ids.split_ascii_whitespace().count()) {
            Some(2..) => ProcessList::OtherNamespace,
            _ => ProcessList::Own,
        }
    }

    /// The reason why `/proc/PID` cannot be used, if so.
    pub fn obstacle(self) -> Option<&'static str> {
        match self {
            ProcessList::Own => None,
            ProcessList::OtherNamespace => {
                Some("/proc belongs to another PID namespace: its entries are unrelated processes")
            }
            ProcessList::Missing => Some("/proc is not mounted"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_id_means_that_the_namespaces_are_the_same() {
        let of = |status| ProcessList::of(Some(status), || false);
        assert_eq!(of("Name:\tx\nNSpid:\t7\n"), ProcessList::Own);
        assert_eq!(of("Name:\tx\n"), ProcessList::Own, "Linux before 4.1");
        assert_eq!(of("Name:\tx\nNSpid:\t1234\t7\n"), ProcessList::OtherNamespace);
        assert_eq!(of("NSpid:\t1234\t20\t7\n"), ProcessList::OtherNamespace);
    }

    #[test]
    fn without_an_own_entry_proc_is_that_of_another_namespace_or_missing() {
        assert_eq!(ProcessList::of(None, || true), ProcessList::OtherNamespace);
        assert_eq!(ProcessList::of(None, || false), ProcessList::Missing);
    }
}

//! The processes of a target, for quantities that a driver reports by process.

use std::fs;

use cyclometer_core::Target;

/// The most ancestors that are looked at.
const MOST_ANCESTORS: usize = 64;

/// The processes whose share of a device is measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum MeasuredProcesses {
    /// All of the machine.
    All,
    /// These with their descendants.
    Trees(Vec<u32>),
}

impl MeasuredProcesses {
    /// Those of a target.
    pub(super) fn of(target: &Target) -> MeasuredProcesses {
        match target {
            Target::ThisThread => MeasuredProcesses::Trees(vec![std::process::id()]),
            Target::Thread(tid) => MeasuredProcesses::Trees(vec![process_of(*tid).unwrap_or(*tid)]),
            Target::Process { pid, .. } | Target::Child(pid) => MeasuredProcesses::Trees(vec![*pid]),
            Target::Several(targets) => targets.iter().map(MeasuredProcesses::of).fold(
                MeasuredProcesses::Trees(Vec::new()),
                |all, one| match (all, one) {
                    (MeasuredProcesses::Trees(all), MeasuredProcesses::Trees(one)) => {
                        MeasuredProcesses::Trees([all, one].concat())
                    }
                    _ => MeasuredProcesses::All,
                },
            ),
            _ => MeasuredProcesses::All,
        }
    }

    /// Whether a process is one of them.
    pub(super) fn contains(&self, pid: u32) -> bool {
        let MeasuredProcesses::Trees(roots) = self else { return true };
        let ancestors = std::iter::successors(Some(pid), |pid| parent(*pid)).take(MOST_ANCESTORS);
        ancestors.into_iter().any(|pid| roots.contains(&pid))
    }
}

/// The parent of a process: the field after the state, which follows the name in brackets.
///
/// # Source
///
/// `proc_pid_stat(5)`.
fn parent(pid: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    fields.split_whitespace().nth(1)?.parse().ok().filter(|parent| *parent > 0)
}

/// The process of a thread.
fn process_of(tid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_belongs_to_the_tree_of_its_ancestors_and_to_no_other() {
        let own = std::process::id();
        let tree = |pid| MeasuredProcesses::of(&Target::Process { pid, inherit: true });
        assert!(tree(own).contains(own));
        assert!(tree(parent(own).unwrap()).contains(own), "a child is counted with its parent");
        assert!(!tree(u32::MAX).contains(own));
        assert!(MeasuredProcesses::All.contains(own));
    }

    #[test]
    fn several_targets_are_their_trees_together() {
        let both = Target::Several(vec![Target::Child(7), Target::Process { pid: 8, inherit: true }]);
        assert_eq!(MeasuredProcesses::of(&both), MeasuredProcesses::Trees(vec![7, 8]));
    }
}

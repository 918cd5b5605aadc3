//! Refusals: why a source does not open what a plan wants. They are data for another plan, not errors.

use crate::reason::{PerfRefusal, RefusalReason, RegisterRefusal};
use crate::slot_id::SlotId;

/// Why a source did not open the slots of the plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The slot that was refused; `None` when it is the target or the whole pass.
    pub slot: Option<SlotId>,
    /// The kind of refusal.
    pub kind: RefusalKind,
    /// The reason; its words name the object.
    pub reason: RefusalReason,
}

impl Refusal {
    /// The refusal of a slot.
    pub fn of_slot(slot: SlotId, kind: RefusalKind, reason: impl Into<RefusalReason>) -> Refusal {
        Refusal { slot: Some(slot), kind, reason: reason.into() }
    }

    /// The refusal of the target or the whole pass.
    pub fn of_target(kind: RefusalKind, reason: impl Into<RefusalReason>) -> Refusal {
        Refusal { slot: None, kind, reason: reason.into() }
    }
}

impl Refusal {
    /// The remedy where the target does not exist: how to see those that do.
    pub fn shows_targets(&self) -> &'static str {
        match &self.reason {
            RefusalReason::NoControlGroup { .. }
            | RefusalReason::Perf(
                PerfRefusal::OtherHierarchy { .. }
                | PerfRefusal::ControlGroupNotOpened { .. }
                | PerfRefusal::NoController { .. },
            ) => "`find /sys/fs/cgroup -type d` shows control groups",
            RefusalReason::Perf(PerfRefusal::NoSuchCpus(_))
            | RefusalReason::Registers(RegisterRefusal::UnknownCpu(_)) => {
                "`cyclometer cpus` shows the CPUs that can be counted"
            }
            _ => "`ps -eL` shows processes (PID) and threads (LWP)",
        }
    }
}

/// Kinds of refusal, each replanned differently.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum RefusalKind {
    /// The PMU does not have the event (ENOENT, EOPNOTSUPP, ENODEV).
    NotSupported,
    /// Not permitted (EACCES, EPERM).
    NoPermission,
    /// The attributes do not suit the PMU (EINVAL): perhaps it cannot filter modes.
    Invalid,
    /// The group does not fit on the PMU.
    GroupTooLarge,
    /// The group's events belong to different PMUs, which cannot count as one.
    GroupMixed,
    /// Another user holds the PMU exclusively (EBUSY).
    Busy,
    /// The process, thread, CPU or control group does not exist.
    NoSuchTarget,
    /// The source cannot count this kind of target.
    TargetNotSupported,
    /// The device has the event, and its driver does not report it now: it is silent, or reports a fault.
    Unavailable,
    /// Too many open files.
    TooManyFiles,
    /// Any other error.
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpuset::CpuSet;

    #[test]
    fn the_remedy_of_a_missing_target_is_about_targets_of_its_kind() {
        let remedy =
            |reason: RefusalReason| Refusal::of_target(RefusalKind::NoSuchTarget, reason).shows_targets();
        assert!(remedy(RefusalReason::NoControlGroup { name: "a".to_owned() }).contains("control groups"));
        let cpus = PerfRefusal::NoSuchCpus(CpuSet::parse("99").unwrap());
        assert!(remedy(cpus.into()).contains("CPUs"));
        assert!(remedy(RefusalReason::NoTarget { target: "process 7".to_owned() }).contains("ps -eL"));
    }
}

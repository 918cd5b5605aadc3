//! Nobody waits for the end of something of which nothing is counted.

use std::collections::BTreeSet;

use cyclometer_core::exec::RefusalKind;
use cyclometer_core::ladder::Cause;
use cyclometer_core::plan::{Outcome, PlanLine};
use cyclometer_core::{Error, ErrorKind, Machine, Plan, Recovery, Rung};

/// Why a plan counts nothing of what runs already, with what mends it.
pub(crate) fn counted(plan: &Plan, machine: &Machine) -> Error {
    let reasons: BTreeSet<String> = plan.lines.iter().filter_map(reason).collect();
    let reasons: Vec<String> = reasons.into_iter().collect();
    let message = format!("there is nothing to wait for, as nothing is counted: {}", reasons.join("; "));
    let (kind, recovery) = mended(plan, machine);
    Error::new(kind, message).with_recovery(recovery)
}

fn reason(line: &PlanLine) -> Option<String> {
    let Outcome::NotCounted(count) = &line.outcome else { return None };
    Some(format!("{}: {}", line.event.name, count.reason()?))
}

fn mended(plan: &Plan, machine: &Machine) -> (ErrorKind, Recovery) {
    let is_denied = |line: &PlanLine| {
        line.skipped.iter().any(|skipped| skipped.refusal == Some(RefusalKind::NoPermission))
    };
    let causes = machine.ladder.state(Rung::Perf).map_or(&[][..], |state| &state.causes);
    let mend = causes.iter().find_map(|Cause { mend, .. }| mend.clone());
    if plan.lines.iter().any(is_denied) {
        let hint = "count it as root, or as the user whose process it is";
        return (ErrorKind::PermissionDenied, Recovery::fix(hint));
    }
    match mend {
        Some(command) => (ErrorKind::EventUnsupported, Recovery::GrantAccess { command }),
        None => (ErrorKind::EventUnsupported, Recovery::fix("`cyclometer doctor` says what counts here")),
    }
}

//! Fails early when no event can be counted on the target.

use std::collections::BTreeSet;

use cyclometer_core::event::PerfClass;
use cyclometer_core::exec::RefusalKind;
use cyclometer_core::ladder::Cause;
use cyclometer_core::machine::AccessRights;
use cyclometer_core::plan::{Outcome, PlanLine};
use cyclometer_core::{Error, ErrorKind, Event, Machine, Part, Plan, Recovery, Rung, Target};

/// The reason why a plan counts nothing of running processes, and the fix.
pub(crate) fn counted(plan: &Plan, machine: &Machine, on: Option<&Target>) -> Error {
    let reasons: BTreeSet<String> = plan.lines.iter().filter_map(reason).collect();
    let reasons: Vec<String> = reasons.into_iter().collect();
    let message = format!("there is nothing to wait for, as nothing is counted: {}", reasons.join("; "));
    let (kind, recovery) = mended(plan, machine, on);
    Error::new(kind, message).with_recovery(recovery)
}

fn reason(line: &PlanLine) -> Option<String> {
    let Outcome::NotCounted(count) = &line.outcome else { return None };
    Some(format!("{}: {}", line.event.name, count.reason()?))
}

fn mended(plan: &Plan, machine: &Machine, on: Option<&Target>) -> (ErrorKind, Recovery) {
    if let Some(denied) = plan.lines.iter().find(|line| denying(line).is_some()) {
        let hint = permitting(denied, &machine.access, on);
        return (ErrorKind::PermissionDenied, Recovery::fix(hint));
    }
    let causes = machine.ladder.state(Rung::Perf).map_or(&[][..], |state| &state.causes);
    let mend = causes.iter().find_map(|Cause { mend, .. }| mend.clone());
    match mend {
        Some(command) => (ErrorKind::EventUnsupported, Recovery::GrantAccess { command }),
        None => (ErrorKind::EventUnsupported, Recovery::fix("`cyclometer doctor` says what counts here")),
    }
}

/// The first source that was not permitted to count it.
fn denying(line: &PlanLine) -> Option<Rung> {
    let denied = line.skipped.iter().find(|skipped| skipped.refusal() == Some(RefusalKind::NoPermission));
    denied.map(|skipped| skipped.rung)
}

/// The user who may count it, and the setting of perf that permits it to others, where the setting forbids
/// it.
///
/// # Source
///
/// Linux `Documentation/admin-guide/sysctl/kernel.rst`, `perf_event_paranoid`; 3 is Debian's.
fn permitting(line: &PlanLine, access: &AccessRights, on: Option<&Target>) -> String {
    let of_everyone = matches!(on, Some(Target::Cpus(_) | Target::Cgroup { .. }));
    let modes = line.effective_modes();
    // Where user mode is wanted too, it has been tried alone.
    let needed = match (of_everyone, modes.is_some_and(|modes| modes.user)) {
        (true, _) => 0,
        (false, false) => 1,
        (false, true) => 2,
    };
    let forbidding = access
        .perf_event_paranoid
        .filter(|now| *now > needed && denying(line) == Some(Rung::Perf) && !access.perfmon_capable());
    let is_of_kernel = needed == 1 && modes.is_some() && !is_kernels_own(&line.event);
    let user_alone = if is_of_kernel { ", or user mode alone" } else { "" };
    let (others, whoever) = match of_everyone {
        true => ("", "everybody"),
        false => (", or as the user whose process it is", "the user whose process it is"),
    };
    match forbidding {
        None => format!("count it as root{others}"),
        Some(now) => format!(
            "count it as root{user_alone}; kernel.perf_event_paranoid is {now}: \
             `sudo sysctl kernel.perf_event_paranoid={needed}` permits it to {whoever}"
        ),
    }
}

/// Whether the kernel counts it itself: what happens there has no count in user mode.
fn is_kernels_own(event: &Event) -> bool {
    let parts = event.candidates.iter().flat_map(|candidate| &candidate.parts);
    parts.into_iter().any(|part| matches!(part, Part::Perf(event) if event.class == PerfClass::Software))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_core::event::PerfEvent;
    use cyclometer_core::skipped::{SkipReason, Skipped};
    use cyclometer_core::{Candidate, Count, CpuSet, MissingReason, Modes, Provenance, Unit};

    fn denied(by: Rung, class: PerfClass, modes: Option<Modes>) -> PlanLine {
        let part = PerfEvent::new("cpu".to_owned(), 4, 1, class);
        let event =
            Event::new("e", Unit::Count, vec![Candidate::perf(vec![part], Provenance::Hardware, modes)]);
        let reason = Box::new("not permitted".into());
        let refused = SkipReason::Refused { kind: RefusalKind::NoPermission, reason };
        let skipped = vec![Skipped { rung: by, reason: refused.clone() }];
        let reason = MissingReason::unused(refused);
        PlanLine { event, outcome: Outcome::NotCounted(Count::NotCounted { reason }), skipped }
    }

    fn check(line: &PlanLine, paranoid: i32, capabilities: &[&str], on: &Target, expected: &str) {
        let capabilities = capabilities.iter().map(|one| (*one).to_owned()).collect();
        let access =
            AccessRights { perf_event_paranoid: Some(paranoid), capabilities, ..AccessRights::default() };
        assert_eq!(permitting(line, &access, Some(on)), expected);
    }

    #[test]
    fn what_is_forbidden_is_told_with_the_setting_that_permits_it() {
        let cpus = Target::Cpus(CpuSet::parse("0-1").unwrap_or_default());
        let process = Target::Process { pid: 1, inherit: true };
        let software = denied(Rung::Perf, PerfClass::Software, Some(Modes::KERNEL));
        let kernel = denied(Rung::Perf, PerfClass::Core, Some(Modes::KERNEL));
        let user = denied(Rung::Perf, PerfClass::Core, Some(Modes::USER));
        let whole = "count it as root; kernel.perf_event_paranoid is 2: \
                     `sudo sysctl kernel.perf_event_paranoid=0` permits it to everybody";
        check(&software, 2, &[], &cpus, whole);
        check(&user, 2, &[], &cpus, whole);
        check(&user, 0, &[], &cpus, "count it as root");
        check(&user, 2, &["CAP_PERFMON"], &cpus, "count it as root");
        let of_kernel = "count it as root, or user mode alone; kernel.perf_event_paranoid is 2: \
                         `sudo sysctl kernel.perf_event_paranoid=1` permits it to the user whose process it is";
        check(&kernel, 2, &[], &process, of_kernel);
        check(&software, 2, &[], &process, &of_kernel.replace(", or user mode alone", ""));
        let anybodys = "count it as root, or as the user whose process it is";
        check(&user, 2, &[], &process, anybodys);
        check(&kernel, 1, &[], &process, anybodys);
        check(&denied(Rung::Msr, PerfClass::Core, None), 3, &[], &process, anybodys);
        check(
            &user,
            3,
            &[],
            &process,
            "count it as root; kernel.perf_event_paranoid is 3: \
             `sudo sysctl kernel.perf_event_paranoid=2` permits it to the user whose process it is",
        );
    }
}

//! The next plan after a refusal. A plan is pure data, so every step can be shown and tested.

use cyclometer_core::event::Part;
use cyclometer_core::exec::RefusalKind;
use cyclometer_core::plan::{Outcome, PlanLine};
use cyclometer_core::pmu;
use cyclometer_core::report::FallbackStep;
use cyclometer_core::skipped::Skipped;
use cyclometer_core::{
    Count, Error, ErrorKind, Intent, Machine, MissingReason, Modes, Plan, Recovery, Refusal, Result, Rung,
    SlotId,
};

use crate::pass::reassemble;
use crate::route::step_down;
use crate::sharing::too_large;

/// The step after a refusal.
#[derive(Debug)]
pub enum Replan {
    /// Try this plan; the step says what was changed and why.
    Try(Box<Plan>, FallbackStep),
    /// Wait and try the same plan again.
    Retry(FallbackStep),
}

/// Answers a refusal.
///
/// Every answer but a retry changes the plan for good, so that repeated refusals come to an end.
///
/// # Errors
///
/// When the refusal concerns the target, the number of open files or a `{group}` that must stay whole: then
/// no other plan would help.
pub fn replan(plan: Plan, refusal: &Refusal, machine: &Machine) -> Result<Replan> {
    let slot = match (refusal.kind, refusal.slot) {
        (RefusalKind::NoSuchTarget, _) => {
            let remedy = Recovery::fix(refusal.shows_targets());
            return Err(error(ErrorKind::NoSuchTarget, refusal, remedy));
        }
        (RefusalKind::TooManyFiles, _) => {
            let more = Recovery::GrantAccess { command: "ulimit -n 65536".to_owned() };
            return Err(error(ErrorKind::Os, refusal, more));
        }
        (RefusalKind::Busy, None) => {
            return Err(error(ErrorKind::CounterBusy, refusal, free_the_pmu(machine)));
        }
        (RefusalKind::Other, None) | (RefusalKind::Invalid, None) => {
            return Err(error(ErrorKind::Os, refusal, Recovery::None));
        }
        (_, None) => return Err(error(ErrorKind::PermissionDenied, refusal, Recovery::None)),
        (_, Some(slot)) => slot,
    };
    match refusal.kind {
        RefusalKind::Busy => Ok(Replan::Retry(step(&plan, slot, refusal, "tried again after a pause"))),
        RefusalKind::GroupTooLarge | RefusalKind::GroupMixed => ungroup(plan, slot, refusal, machine),
        _ => change_line(plan, slot, refusal, machine),
    }
}

/// The remedy where another program holds counters of the PMU.
fn free_the_pmu(machine: &Machine) -> Recovery {
    match machine.access.nmi_watchdog {
        Some(true) => Recovery::GrantAccess { command: "sudo sysctl kernel.nmi_watchdog=0".to_owned() },
        _ => Recovery::fix("stop whoever counts, such as perf or a profiler, and try again"),
    }
}

/// Gives up a slot whose PMU stayed busy. Its event goes to the next source, or is not counted.
///
/// # Errors
///
/// As [`replan`].
pub fn give_up(plan: Plan, slot: SlotId, refusal: &Refusal, machine: &Machine) -> Result<Replan> {
    change_line(plan, slot, refusal, machine)
}

/// Gives up a whole source, for example when the command cannot be translated. Each of its events goes to the
/// next source, or is not counted.
///
/// # Errors
///
/// As [`replan`].
pub fn abandon(
    mut plan: Plan,
    rung: Rung,
    refusal: &Refusal,
    machine: &Machine,
) -> Result<(Plan, FallbackStep)> {
    for line in &mut plan.lines {
        let Some(index) = candidate_of(line, rung) else { continue };
        let (fallen, _) = fall(line.clone(), index, refusal, machine, &plan.intent);
        *line = fallen;
        // The machine can count the event. The refusal concerns this command alone.
        if let Outcome::NotCounted(count) = &mut line.outcome {
            *count = Count::NotCounted { reason: refusal.into() };
        }
    }
    let step = FallbackStep {
        event: None,
        refused: refusal.reason.to_string(),
        done: format!("left the source {rung} out for this command"),
    };
    Ok((reassemble(plan, machine)?, step))
}

/// The candidate that counts a line, if it is of that source.
fn candidate_of(line: &PlanLine, rung: Rung) -> Option<usize> {
    match line.outcome {
        Outcome::Counted { candidate, .. } if line.event.candidates[candidate].rung == rung => {
            Some(candidate)
        }
        _ => None,
    }
}

fn error(kind: ErrorKind, refusal: &Refusal, recovery: Recovery) -> Error {
    Error::new(kind, refusal.reason.to_string()).with_recovery(recovery)
}

fn step(plan: &Plan, slot: SlotId, refusal: &Refusal, done: &str) -> FallbackStep {
    FallbackStep {
        event: Some(plan.lines[slot.0].event.name.clone()),
        refused: refusal.reason.to_string(),
        done: done.to_owned(),
    }
}

fn ungroup(mut plan: Plan, slot: SlotId, refusal: &Refusal, machine: &Machine) -> Result<Replan> {
    let group = plan.lines[slot.0].event.group;
    let members: Vec<usize> = (0..plan.lines.len()).filter(|i| plan.lines[*i].event.group == group).collect();
    let weak = members.iter().any(|i| plan.lines[*i].event.modifiers.weak);
    if group.is_none() || !weak {
        let names: Vec<&str> = members.iter().map(|i| plan.lines[*i].event.name.as_str()).collect();
        return Err(match refusal.kind {
            RefusalKind::GroupMixed => mixed(&names, refusal),
            _ => too_large(&names, None),
        });
    }
    let step = step(&plan, slot, refusal, "counted the weak group's events one by one");
    for i in members {
        plan.lines[i].event.group = None;
    }
    finish(plan, step, machine)
}

fn mixed(names: &[&str], refusal: &Refusal) -> Error {
    Error::new(
        ErrorKind::ConstraintConflict,
        format!("the group {{{}}} cannot count as one: {}", names.join(","), refusal.reason),
    )
    .with_recovery(Recovery::SplitIntoPasses)
}

fn change_line(mut plan: Plan, slot: SlotId, refusal: &Refusal, machine: &Machine) -> Result<Replan> {
    let (line, done) = next_line(plan.lines[slot.0].clone(), refusal, machine, &plan.intent);
    let step = step(&plan, slot, refusal, &done);
    plan.lines[slot.0] = line;
    finish(plan, step, machine)
}

fn finish(plan: Plan, step: FallbackStep, machine: &Machine) -> Result<Replan> {
    Ok(Replan::Try(Box::new(reassemble(plan, machine)?), step))
}

/// The line after the refusal, and the change in words.
fn next_line(line: PlanLine, refusal: &Refusal, machine: &Machine, intent: &Intent) -> (PlanLine, String) {
    let Outcome::Counted { candidate, filter, exclude_guest } = line.outcome else {
        return (line, "nothing".to_owned());
    };
    match (refusal.kind, filter) {
        // Permission: count user mode only, which the name then says.
        (RefusalKind::NoPermission, Some(modes))
            if modes.user && modes != Modes::USER && filters_modes(&line) =>
        {
            let modes = Modes::USER;
            (with(line, candidate, Some(modes), exclude_guest), "counted user mode only".to_owned())
        }
        // Attributes refused: first exclude guests (Apple on Linux), then drop the filter of modes.
        (RefusalKind::Invalid | RefusalKind::NotSupported, Some(_))
            if !exclude_guest && wants_guest(&line) =>
        {
            (with(line, candidate, filter, true), "excluded guests".to_owned())
        }
        (RefusalKind::Invalid, Some(_)) => (
            with(line, candidate, None, exclude_guest),
            "counted all modes, as it may not filter them".to_owned(),
        ),
        _ => fall(line, candidate, refusal, machine, intent),
    }
}

/// Whether the source can count user mode alone. macOS's accounts have one number for both modes.
fn filters_modes(line: &PlanLine) -> bool {
    line.candidate().is_none_or(|candidate| candidate.rung != Rung::SelfCounts)
}

/// Whether the PMU may require that guests are excluded, as Apple's driver on Linux does.
///
/// # Source
///
/// Linux `drivers/perf/apple_m1_cpu_pmu.c`, `m1_pmu_set_event_filter`.
fn wants_guest(line: &PlanLine) -> bool {
    let is_of_apple = |part: &Part| part.core().is_some_and(|core| pmu::is_of_apple(core.pmu));
    let has_apples = line.candidate().is_some_and(|candidate| candidate.parts.iter().any(is_of_apple));
    has_apples && !line.event.modifiers.guest_only
}

fn with(mut line: PlanLine, candidate: usize, filter: Option<Modes>, exclude_guest: bool) -> PlanLine {
    line.event.candidates[candidate].modes = Some(filter.unwrap_or(Modes::ALL));
    line.outcome = Outcome::Counted { candidate, filter, exclude_guest };
    line
}

fn fall(
    mut line: PlanLine,
    candidate: usize,
    refusal: &Refusal,
    machine: &Machine,
    intent: &Intent,
) -> (PlanLine, String) {
    let rung = line.event.candidates[candidate].rung;
    // Attempts with other modes have failed, so the event gets the requested modes back.
    if let Some(modes) = &mut line.event.candidates[candidate].modes {
        *modes = line.event.modifiers.modes.unwrap_or(Modes::USER);
    }
    line.skipped.push(Skipped { rung, reason: refusal.into() });
    let line = step_down(line, candidate + 1, machine, intent);
    match line.candidate() {
        Some(next) => {
            let done = format!("counted by {} instead ({})", next.rung, next.resolution);
            (line, done)
        }
        None => {
            // The first source that was tried could have counted it. The user can act on its reason.
            let asked = line.skipped.iter().find_map(|skipped| {
                let reason = MissingReason::unused(skipped.reason.clone());
                Some((skipped.refusal()?, reason))
            });
            let (kind, reason) = asked.unwrap_or((refusal.kind, refusal.into()));
            let count = match kind {
                RefusalKind::Busy | RefusalKind::NoPermission | RefusalKind::Unavailable => {
                    Count::NotCounted { reason }
                }
                _ => Count::NotSupported { reason },
            };
            (PlanLine { outcome: Outcome::NotCounted(count), ..line }, "left it out".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan as make_plan;
    use crate::testing::{
        core_event, in_group, machine, machine_with_soft, missing_of, portable_event, soft_event,
        software_event, with_modes,
    };
    use cyclometer_core::{Event, LaunchKind, Verdict};

    fn refused_by_soft(text: &str) -> Refusal {
        Refusal::of_target(RefusalKind::TargetNotSupported, text)
    }

    #[test]
    fn a_command_that_cannot_be_translated_runs_as_it_is_and_each_count_says_why() {
        let events = vec![soft_event("calls"), core_event("cycles"), soft_event("loads")];
        let plan = make_plan(events, &machine_with_soft(), Intent::default()).unwrap();
        assert_eq!(plan.passes[0].slots.len(), 2, "a translated run has no hardware counts");
        let refusal = refused_by_soft("/bin/su is setuid");
        let (plan, step) = abandon(plan, Rung::Soft, &refusal, &machine_with_soft()).unwrap();
        for i in [0, 2] {
            let reason = (&refusal).into();
            assert_eq!(plan.lines[i].outcome, Outcome::NotCounted(Count::NotCounted { reason }));
            assert_eq!(missing_of(&plan.lines[i]).1, "/bin/su is setuid");
        }
        assert_eq!(plan.passes.len(), 1);
        assert_eq!((plan.passes[0].launch, plan.passes[0].slots[0].id), (LaunchKind::Native, SlotId(1)));
        assert_eq!((step.event, step.refused.as_str()), (None, "/bin/su is setuid"));
    }

    #[test]
    fn an_event_that_the_hardware_refuses_goes_to_the_software_pmu_before_the_first_result_only() {
        let refusal = Refusal { slot: Some(SlotId(0)), kind: RefusalKind::NotSupported, reason: "no".into() };
        for (begun, expected) in [(false, Some(Rung::Soft)), (true, None)] {
            let event = vec![portable_event("branches")];
            let mut plan = make_plan(event, &machine_with_soft(), Intent::default()).unwrap();
            plan.intent.begun = begun;
            let Replan::Try(plan, _) = replan(plan, &refusal, &machine_with_soft()).unwrap() else {
                panic!()
            };
            assert_eq!(plan.lines[0].candidate().map(|candidate| candidate.rung), expected);
        }
    }

    fn refuse(events: Vec<Event>, slot: usize, kind: RefusalKind) -> Result<Replan> {
        let plan = make_plan(events, &machine(), Intent::default()).unwrap();
        replan(plan, &Refusal { slot: Some(SlotId(slot)), kind, reason: "E: no".into() }, &machine())
    }

    fn tried(events: Vec<Event>, slot: usize, kind: RefusalKind) -> (Plan, String) {
        match refuse(events, slot, kind).unwrap() {
            Replan::Try(plan, step) => (*plan, step.done),
            other => panic!("{other:?}"),
        }
    }

    fn outcome(plan: &Plan) -> &Outcome {
        &plan.lines[0].outcome
    }

    #[test]
    fn an_unsupported_event_is_left_out_with_its_reason() {
        let (plan, done) = tried(vec![core_event("e")], 0, RefusalKind::NotSupported);
        assert_eq!(missing_of(&plan.lines[0]), (Verdict::NotSupported, "E: no".to_owned()));
        assert_eq!((done.as_str(), plan.passes.len()), ("left it out", 0));
    }

    #[test]
    fn a_refused_software_event_goes_to_the_accounting() {
        let (plan, done) = tried(vec![software_event("page-faults")], 0, RefusalKind::NoPermission);
        assert_eq!(plan.lines[0].candidate().unwrap().rung, Rung::Os);
        assert_eq!(done, "counted by os instead (rusage)");
    }

    #[test]
    fn of_two_refusals_the_first_is_the_one_to_mend() {
        let (plan, _) = tried(vec![software_event("page-faults")], 0, RefusalKind::NoPermission);
        let refusal = Refusal {
            slot: Some(SlotId(0)),
            kind: RefusalKind::TargetNotSupported,
            reason: "no such".into(),
        };
        let Replan::Try(plan, _) = replan(plan, &refusal, &machine()).unwrap() else { panic!() };
        assert_eq!(missing_of(&plan.lines[0]), (Verdict::NotCounted, "E: no".to_owned()));
    }

    #[test]
    fn without_permission_for_the_kernel_user_mode_is_counted_and_named() {
        let event = with_modes(core_event("e"), Modes::USER_KERNEL);
        let (plan, done) = tried(vec![event], 0, RefusalKind::NoPermission);
        assert_eq!(plan.lines[0].candidate().unwrap().modes, Some(Modes::USER));
        assert_eq!(done, "counted user mode only");
    }

    #[test]
    fn accounts_of_another_user_are_not_replaced_by_a_user_count() {
        let event = with_modes(core_event("e"), Modes::USER_KERNEL);
        let plan = make_plan(vec![event], &machine(), Intent::default()).unwrap();
        let mut line = plan.lines[0].clone();
        line.event.candidates[0].rung = Rung::SelfCounts;
        let refusal = Refusal { slot: Some(SlotId(0)), kind: RefusalKind::NoPermission, reason: "no".into() };
        let (line, _) = next_line(line, &refusal, &machine(), &plan.intent);
        assert!(matches!(line.outcome, Outcome::NotCounted(_)), "{line:?}");
    }

    #[test]
    fn a_kernel_count_is_never_replaced_by_a_user_count() {
        let event = with_modes(core_event("e"), Modes::KERNEL);
        let (plan, _) = tried(vec![event], 0, RefusalKind::NoPermission);
        assert_eq!(missing_of(&plan.lines[0]), (Verdict::NotCounted, "E: no".to_owned()));
    }

    #[test]
    fn a_pmu_that_cannot_filter_counts_all_modes_and_says_so() {
        let (plan, _) = tried(vec![core_event("e")], 0, RefusalKind::Invalid);
        assert_eq!(plan.lines[0].candidate().unwrap().modes, Some(Modes::ALL));
        assert!(matches!(outcome(&plan), Outcome::Counted { filter: None, .. }));
    }

    #[test]
    fn apples_driver_gets_guests_excluded_before_the_filter_goes() {
        let mut event = core_event("e");
        let Part::Perf(part) = &mut event.candidates[0].parts[0] else { panic!() };
        part.pmu = "apple_firestorm_pmu".to_owned();
        let (plan, done) = tried(vec![event], 0, RefusalKind::Invalid);
        assert!(matches!(outcome(&plan), Outcome::Counted { filter: Some(_), exclude_guest: true, .. }));
        assert_eq!(done, "excluded guests");
    }

    #[test]
    fn a_busy_pmu_is_tried_again() {
        assert!(matches!(refuse(vec![core_event("e")], 0, RefusalKind::Busy).unwrap(), Replan::Retry(_)));
    }

    #[test]
    fn a_group_too_large_is_an_error_unless_weak() {
        let members = || ["a", "b"].map(|name| in_group(core_event(name), 0)).to_vec();
        let error = refuse(members(), 1, RefusalKind::GroupTooLarge).unwrap_err();
        assert_eq!(error.to_string(), "the group {a,b} does not fit on the PMU");
        let weak = members().into_iter().map(|mut event| {
            event.modifiers.weak = true;
            event
        });
        let (plan, _) = tried(weak.collect(), 1, RefusalKind::GroupTooLarge);
        assert!(plan.lines.iter().all(|line| line.event.group.is_none()));
    }

    #[test]
    fn a_group_over_two_pmus_is_an_error_that_says_so() {
        let members = ["a", "b"].map(|name| in_group(core_event(name), 0)).to_vec();
        let error = refuse(members, 1, RefusalKind::GroupMixed).unwrap_err();
        assert_eq!(error.to_string(), "the group {a,b} cannot count as one: E: no");
    }

    #[test]
    fn an_event_that_fails_in_the_end_goes_by_the_modes_asked_for() {
        let (plan, _) = tried(vec![core_event("e")], 0, RefusalKind::Invalid);
        let refusal = Refusal { slot: Some(SlotId(0)), kind: RefusalKind::NotSupported, reason: "no".into() };
        let Replan::Try(plan, _) = replan(plan, &refusal, &machine()).unwrap() else { panic!() };
        assert_eq!(plan.lines[0].event.candidates[0].modes, Some(Modes::USER));
        assert!(plan.lines[0].candidate().is_none());
    }

    #[test]
    fn a_vanished_target_is_an_error_with_its_name() {
        let error = refuse(vec![core_event("e")], 0, RefusalKind::NoSuchTarget).unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::NoSuchTarget, "E: no"));
        assert!(error.recovery().to_string().contains("ps -eL"), "{:?}", error.recovery());
    }

    #[test]
    fn refusing_everything_comes_to_an_end() {
        for kind in
            [RefusalKind::Invalid, RefusalKind::NoPermission, RefusalKind::NotSupported, RefusalKind::Other]
        {
            let events = vec![core_event("a"), software_event("b"), with_modes(core_event("c"), Modes::ALL)];
            let mut plan = make_plan(events, &machine(), Intent::default()).unwrap();
            let mut steps = 0;
            while let Some(slot) = plan.passes.first().map(|pass| pass.slots[0].id) {
                let refusal = Refusal { slot: Some(slot), kind, reason: "no".into() };
                let Replan::Try(next, _) = replan(plan, &refusal, &machine()).unwrap() else { panic!() };
                (plan, steps) = (*next, steps + 1);
                assert!(steps < 20);
            }
        }
    }
}

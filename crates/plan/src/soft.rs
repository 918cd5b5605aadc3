//! When the software PMU counts an event: it changes how the command is run, so that there are rules.

use std::time::Duration;

use cyclometer_core::plan::{Counted, Intent, IntentSubject, Outcome, PlanLine};
use cyclometer_core::skipped::{SkipReason, Skipped};
use cyclometer_core::{Candidate, Error, ErrorKind, Event, Modes, Recovery, Result, Rung};

/// Counts of the software PMU can be read this often at most: each reading stops the program at a point where
/// its counts are whole.
pub const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

const TOO_OFTEN: SkipReason = SkipReason::IntervalTooShort { shortest: SHORTEST_INTERVAL };

/// Why the software PMU would not count this event in this session on any machine, if so.
pub(crate) fn fits(
    event: &Event,
    candidate: &Candidate,
    intent: &Intent,
) -> std::result::Result<(), Skipped> {
    let reason = match candidate.modes {
        _ if intent.subject == IntentSubject::Running => SkipReason::StartsCommands,
        modes if modes != Some(Modes::USER) => SkipReason::SeesUserMode,
        _ if event.modifiers.guest_only => SkipReason::SeesNoGuests,
        _ if intent.begun => SkipReason::TranslatedRunsOver,
        _ if intent.subject == IntentSubject::Regions => SkipReason::NotStartedBySource,
        _ if !is_wanted(event, intent) => SkipReason::TranslationOnRequest,
        _ => return Ok(()),
    };
    Err(skipped(reason))
}

fn skipped(reason: SkipReason) -> Skipped {
    Skipped { rung: Rung::Soft, reason }
}

/// A command is never run differently without being told: one run is translated only when something asks for
/// it.
fn is_wanted(event: &Event, intent: &Intent) -> bool {
    event.requested || intent.runs > 1 || intent.only == Some(Rung::Soft) || intent.counted != Counted::Auto
}

/// Why the software PMU, where it works, does not count with this interval, if so.
pub(crate) fn is_read_in_time(intent: &Intent) -> std::result::Result<(), Skipped> {
    match intent.interval {
        Some(interval) if interval < SHORTEST_INTERVAL => Err(skipped(TOO_OFTEN)),
        _ => Ok(()),
    }
}

/// Refuses to leave an event out that was asked for only because of the interval.
///
/// # Errors
///
/// `ErrorKind::InvalidInput` naming the event and the limit.
pub(crate) fn refuse_short_interval(lines: &[PlanLine]) -> Result<()> {
    let too_often = |line: &&PlanLine| {
        let is_of_interval =
            |skipped: &Skipped| matches!(skipped.reason, SkipReason::IntervalTooShort { .. });
        let skipped = line.skipped.iter().any(is_of_interval);
        line.event.requested && skipped && matches!(line.outcome, Outcome::NotCounted(_))
    };
    match lines.iter().find(too_often) {
        None => Ok(()),
        Some(line) => {
            let name = &line.event.name;
            Err(Error::new(ErrorKind::InvalidInput, format!("{name}: {TOO_OFTEN}"))
                .with_recovery(Recovery::fix(format!("use -I 10 or more, or leave {name} out"))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan;
    use crate::testing::{core_event, machine_with_soft, portable_event, soft_event, with_modes};
    use cyclometer_core::ladder::{Cause, CauseKind};
    use cyclometer_core::{Machine, Plan, RefusalKind};

    /// A virtual machine without a PMU where the software PMU works.
    fn vm() -> Machine {
        let mut machine = machine_with_soft();
        machine.ladder.perf_hardware = Err(Cause::new(CauseKind::NoPmu, "no PMU"));
        machine
    }

    fn planned(event: Event, intent: Intent) -> Plan {
        plan(vec![event], &vm(), intent).unwrap()
    }

    fn rung(event: Event, intent: Intent) -> Option<Rung> {
        planned(event, intent).lines[0].candidate().map(|candidate| candidate.rung)
    }

    fn unasked(event: Event) -> Event {
        Event { requested: false, ..event }
    }

    fn runs(runs: u32) -> Intent {
        Intent { runs, ..Intent::default() }
    }

    #[test]
    fn it_counts_what_is_asked_for_by_name_below_the_hardware() {
        let plan = planned(portable_event("instructions"), runs(1));
        let line = &plan.lines[0];
        assert_eq!(line.candidate().unwrap().rung, Rung::Soft);
        assert_eq!(
            (line.skipped[0].rung, line.skipped[0].reason.to_string().as_str()),
            (Rung::Perf, "no PMU")
        );
        let best = cyclometer_core::Rung::Perf;
        let on_hardware = crate::plan(vec![portable_event("i")], &machine_with_soft(), runs(1)).unwrap();
        assert_eq!(on_hardware.lines[0].candidate().unwrap().rung, best);
    }

    #[test]
    fn one_run_of_the_default_events_stays_native() {
        let event = || unasked(portable_event("instructions"));
        assert_eq!(rung(event(), runs(1)), None);
        assert_eq!(rung(event(), runs(2)), Some(Rung::Soft));
        assert_eq!(rung(event(), Intent { only: Some(Rung::Soft), ..runs(1) }), Some(Rung::Soft));
        assert_eq!(rung(event(), Intent { counted: Counted::All, ..runs(1) }), Some(Rung::Soft));
    }

    #[test]
    fn a_region_of_a_native_program_says_how_it_could_be_counted() {
        let regions = Intent { subject: IntentSubject::Regions, ..runs(1) };
        let reason = |event: Event, machine: &Machine| {
            let plan = plan(vec![event], machine, regions.clone()).unwrap();
            match &plan.lines[0].outcome {
                Outcome::NotCounted(count) => count.reason().unwrap(),
                Outcome::Counted { .. } => panic!("it runs natively, without a PMU"),
            }
        };
        let way = "; `cyclometer run -- PROGRAM` counts it";
        assert_eq!(reason(portable_event("instructions"), &vm()), format!("no PMU{way}"));
        assert!(reason(soft_event("calls"), &vm()).ends_with(way));
        assert_eq!(reason(core_event("cycles"), &vm()), "no PMU", "the software PMU has none");
        let mut not_built = vm();
        not_built.ladder.rungs.iter_mut().filter(|state| state.rung == Rung::Soft).for_each(|state| {
            state.works = cyclometer_core::ladder::Works::NotBuilt;
            state.causes = vec![Cause::new(CauseKind::NotBuilt, "built without it")];
        });
        assert_eq!(reason(portable_event("instructions"), &not_built), format!("no PMU{way}"));
        let mut elsewhere = vm();
        elsewhere.ladder.rungs.iter_mut().filter(|state| state.rung == Rung::Soft).for_each(|state| {
            state.works = cyclometer_core::ladder::Works::NotHere;
            state.causes = vec![Cause::new(CauseKind::OtherSystem, "x86-64 only so far")];
        });
        assert_eq!(reason(portable_event("instructions"), &elsewhere), "no PMU");
    }

    #[test]
    fn what_it_cannot_see_says_why() {
        let attached = Intent { subject: IntentSubject::Running, ..runs(1) };
        let mut guest = soft_event("calls");
        guest.modifiers.guest_only = true;
        for (event, intent, reason) in [
            (soft_event("calls"), attached, "the software PMU counts commands that it starts"),
            (
                with_modes(soft_event("calls"), Modes::USER_KERNEL),
                runs(1),
                "the software PMU sees user mode only",
            ),
            (guest, runs(1), "the software PMU sees no guests"),
        ] {
            let plan = planned(event, intent);
            let Outcome::NotCounted(count) = &plan.lines[0].outcome else { panic!("{reason}") };
            assert_eq!(count.reason().as_deref(), Some(reason));
        }
    }

    #[test]
    fn regions_of_a_program_that_it_runs_are_counted_beside_everything_else() {
        let inside = Intent { subject: IntentSubject::TranslatedRegions, ..runs(1) };
        let events = vec![soft_event("calls"), core_event("cycles")];
        let plan = plan(events, &machine_with_soft(), inside).unwrap();
        let rungs: Vec<Rung> =
            plan.passes.iter().flat_map(|pass| &pass.slots).map(|slot| slot.rung).collect();
        assert_eq!(rungs, [Rung::Soft, Rung::Perf]);
        assert_eq!(plan.passes[0].launch, cyclometer_core::LaunchKind::Native, "nothing is launched");
    }

    #[test]
    fn another_reason_of_the_same_words_is_no_short_interval() {
        let mut plan = planned(with_modes(soft_event("calls"), Modes::KERNEL), runs(1));
        let (kind, reason) = (RefusalKind::Other, Box::new(TOO_OFTEN.to_string().into()));
        plan.lines[0].skipped[0] = skipped(SkipReason::Refused { kind, reason });
        assert!(refuse_short_interval(&plan.lines).is_ok());
        plan.lines[0].skipped[0] = skipped(TOO_OFTEN);
        assert!(refuse_short_interval(&plan.lines).is_err());
    }

    #[test]
    fn a_short_interval_is_refused_only_where_it_costs_an_event_that_was_asked_for() {
        let every = |ms| Intent { interval: Some(Duration::from_millis(ms)), ..runs(3) };
        let error = plan(vec![soft_event("calls")], &vm(), every(9)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(error.to_string(), "calls: the software PMU is read every 10 ms at most");
        assert_eq!(rung(soft_event("calls"), every(10)), Some(Rung::Soft));
        assert_eq!(rung(unasked(portable_event("instructions")), every(9)), None);
        let hardware = plan(vec![core_event("cycles"), portable_event("i")], &machine_with_soft(), every(5));
        assert!(hardware.is_ok(), "the hardware counts it");
    }
}

//! Which source for which event, and why not the one above.

use cyclometer_core::event::{Part, PerfClass};
use cyclometer_core::ladder::{CauseKind, Works};
use cyclometer_core::machine::CoreType;
use cyclometer_core::plan::{Outcome, PlanLine, Skipped};
use cyclometer_core::{Candidate, Count, CounterMask, Event, Intent, Machine, Rung};

use crate::sharing::is_without_counter;
use crate::soft;
use crate::words::counter_words;

/// Picks for every event the first candidate whose source works here and suits the intent.
pub fn route(events: Vec<Event>, machine: &Machine, intent: &Intent) -> Vec<PlanLine> {
    let routed = |event| route_one(of_some_cores(restricted(event, intent.only), machine), machine, intent);
    events.into_iter().map(routed).collect()
}

/// The event with the core PMUs named that count it, where the machine has others: a program that runs on
/// those is not counted by it.
fn of_some_cores(mut event: Event, machine: &Machine) -> Event {
    for candidate in event.candidates.iter_mut().filter(|candidate| candidate.only.is_none()) {
        candidate.only = some_cores(&candidate.parts, machine);
    }
    event
}

/// The core PMUs of these parts, where they are not all that the machine has; `None` where something else
/// counts.
fn some_cores(parts: &[Part], machine: &Machine) -> Option<String> {
    let counting: Vec<&str> = parts.iter().map(|part| Some(part.core()?.pmu)).collect::<Option<_>>()?;
    let ours = parts.iter().any(|part| matches!(part, Part::Registers(_)));
    let known: Vec<&str> = match ours {
        true => machine.core_types.iter().map(CoreType::pmu_name).collect(),
        false => machine.core_pmus().map(|pmu| pmu.name.as_str()).collect(),
    };
    let all_known = counting.iter().all(|pmu| known.contains(pmu));
    let lacks = known.iter().any(|pmu| !counting.contains(pmu));
    (!counting.is_empty() && all_known && lacks).then(|| counting.join(" and "))
}

/// The event without the candidates of other sources, so that no replan can step to them either.
fn restricted(mut event: Event, only: Option<Rung>) -> Event {
    let Some(only) = only else { return event };
    let had = !event.candidates.is_empty();
    event.candidates.retain(|candidate| candidate.rung == only);
    let lacking = event.lacking.iter().find(|(rung, _)| *rung == only);
    match lacking {
        Some((_, reason)) => event.unsupported = reason.clone(),
        None if had && event.candidates.is_empty() => {
            event.unsupported = format!("the source '{only}' that was asked for does not count it");
        }
        None => {}
    }
    event
}

fn route_one(event: Event, machine: &Machine, intent: &Intent) -> PlanLine {
    let skipped = Vec::new();
    if event.candidates.is_empty() {
        let reason = event.unsupported.clone();
        return PlanLine { event, outcome: Outcome::NotCounted(Count::NotSupported { reason }), skipped };
    }
    let line = PlanLine { outcome: chosen(&event, 0), event, skipped };
    step_down(line, 0, machine, intent)
}

/// Takes the first candidate from `from` on that works; notes why the others are not used.
pub(crate) fn step_down(mut line: PlanLine, from: usize, machine: &Machine, intent: &Intent) -> PlanLine {
    for (i, candidate) in line.event.candidates.iter().enumerate().skip(from) {
        match works(&line.event, candidate, machine, intent) {
            Ok(()) => {
                line.outcome = chosen(&line.event, i);
                return line;
            }
            Err(reason) => line.skipped.push(Skipped { rung: candidate.rung, reason, refusal: None }),
        }
    }
    line.outcome = Outcome::NotCounted(why_not(&line, machine));
    line
}

/// Why the best source does not count it: something that can be lifted, with what lifts it, or something that
/// is missing.
fn why_not(line: &PlanLine, machine: &Machine) -> Count {
    let Some(Skipped { rung, reason, .. }) = line.skipped.first() else {
        return Count::NotSupported { reason: "no source counts it".to_owned() };
    };
    let causes = machine.ladder.state(*rung).map(|state| state.causes.as_slice()).unwrap_or_default();
    match causes.iter().find(|cause| cause.text == *reason && can_be_lifted(cause.kind)) {
        Some(cause) => {
            let remedy =
                cause.mend.as_ref().map(|mend| format!("; to permit it: {mend}")).unwrap_or_default();
            Count::NotCounted { reason: format!("{reason}{remedy}") }
        }
        None => Count::NotSupported { reason: reason.clone() },
    }
}

/// Whether the machine could count, and is only kept from it.
fn can_be_lifted(kind: CauseKind) -> bool {
    use CauseKind::{HeldByAnother, NmiWatchdog, NoPermission, NotRoot, Seccomp};
    matches!(kind, NoPermission | NotRoot | Seccomp | HeldByAnother | NmiWatchdog)
}

fn chosen(event: &Event, candidate: usize) -> Outcome {
    Outcome::Counted { candidate, filter: event.candidates[candidate].modes, exclude_guest: false }
}

fn works(event: &Event, candidate: &Candidate, machine: &Machine, intent: &Intent) -> Result<(), String> {
    match candidate.rung {
        Rung::Perf => perf_works(candidate, machine),
        Rung::Soft => {
            rung_works(candidate, machine)?;
            soft::fits(event, candidate, intent).map_err(str::to_owned)
        }
        Rung::Msr | Rung::Sysreg if intent.only != Some(candidate.rung) => {
            Err(format!("registers are programmed only with --backend {}", candidate.rung))
        }
        Rung::Msr | Rung::Sysreg | Rung::Sim => {
            rung_works(candidate, machine)?;
            has_counters(candidate, machine)
        }
        _ => rung_works(candidate, machine),
    }
}

fn rung_works(candidate: &Candidate, machine: &Machine) -> Result<(), String> {
    match machine.ladder.state(candidate.rung) {
        Some(state) if matches!(state.works, Works::Yes | Works::Partly) => Ok(()),
        Some(state) => {
            Err(state.causes.first().map_or_else(|| state.works.word().to_owned(), |c| c.text.clone()))
        }
        None => Err(format!("there is no source {} here", candidate.rung)),
    }
}

/// Whether each part has a counter that is free.
fn has_counters(candidate: &Candidate, machine: &Machine) -> Result<(), String> {
    let mut parts = candidate.parts.iter().filter_map(Part::core);
    let homeless = parts.find(|part| is_without_counter(part, machine));
    let Some(part) = homeless else { return Ok(()) };
    let counters = part.ways.iter().fold(CounterMask::EMPTY, |all, (counters, _)| all.or(*counters));
    Err(format!("it can only use {}, which {} does not have free", counter_words(counters), part.pmu))
}

fn perf_works(candidate: &Candidate, machine: &Machine) -> Result<(), String> {
    let class = candidate.parts.iter().find_map(|part| match part {
        Part::Perf(event) => Some(event.class),
        _ => None,
    });
    match class {
        Some(PerfClass::Core) => machine.ladder.perf_hardware.clone(),
        Some(PerfClass::SystemDevice) => machine.ladder.perf_cpu_wide.clone(),
        _ => machine.ladder.perf_software.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{core_event, machine, software_event};
    use cyclometer_core::event::PerfEvent;
    use cyclometer_core::pmu::KernelPmu;

    #[test]
    fn the_best_source_that_works_is_taken() {
        let lines = route(vec![software_event("page-faults")], &machine(), &Intent::default());
        assert_eq!(lines[0].candidate().unwrap().rung, Rung::Perf);
        assert_eq!(lines[0].skipped, []);
    }

    #[test]
    fn a_source_that_does_not_work_is_skipped_with_its_reason() {
        let mut machine = machine();
        machine.ladder.perf_software = Err("kernel.perf_event_paranoid is 3".to_owned());
        let lines = route(vec![software_event("page-faults")], &machine, &Intent::default());
        assert_eq!(lines[0].candidate().unwrap().rung, Rung::Os);
        assert_eq!(
            lines[0].skipped,
            [Skipped {
                rung: Rung::Perf,
                reason: "kernel.perf_event_paranoid is 3".to_owned(),
                refusal: None
            }]
        );
    }

    #[test]
    fn an_event_without_a_source_is_not_supported_and_says_why() {
        let mut machine = machine();
        machine.ladder.perf_hardware = Err("no PMU".to_owned());
        let lines = route(vec![core_event("cycles")], &machine, &Intent::default());
        assert_eq!(
            lines[0].outcome,
            Outcome::NotCounted(Count::NotSupported { reason: "no PMU".to_owned() })
        );
    }

    #[test]
    fn what_is_only_forbidden_is_not_counted_and_says_what_permits_it() {
        use cyclometer_core::ladder::{Cause, RungState};
        let mut machine = machine();
        let text = "kernel.perf_event_paranoid is 3";
        let mend = Some("sudo sysctl kernel.perf_event_paranoid=2".to_owned());
        let cause = Cause { kind: CauseKind::NoPermission, text: text.to_owned(), mend };
        machine.ladder.rungs.retain(|state| state.rung != Rung::Perf);
        machine.ladder.rungs.push(RungState { rung: Rung::Perf, works: Works::No, causes: vec![cause] });
        machine.ladder.perf_hardware = Err(text.to_owned());
        let lines = route(vec![core_event("cycles")], &machine, &Intent::default());
        let reason = format!("{text}; to permit it: sudo sysctl kernel.perf_event_paranoid=2");
        assert_eq!(lines[0].outcome, Outcome::NotCounted(Count::NotCounted { reason }));
    }

    #[test]
    fn a_backend_asked_for_shuts_out_the_others() {
        let only_os = Intent { only: Some(Rung::Os), ..Intent::default() };
        let lines = route(vec![core_event("cycles"), software_event("page-faults")], &machine(), &only_os);
        let reason = "the source 'os' that was asked for does not count it".to_owned();
        assert_eq!(lines[0].outcome, Outcome::NotCounted(Count::NotSupported { reason }));
        assert_eq!(lines[1].candidate().unwrap().rung, Rung::Os);
    }

    #[test]
    fn what_one_core_type_of_several_counts_says_so_and_nothing_else_does() {
        let pmu = |name: &&str| KernelPmu { name: (*name).to_owned(), ..KernelPmu::default() };
        let only = |known: &[&str], counting: &[&str]| {
            let machine = Machine { pmus: known.iter().map(pmu).collect(), ..machine() };
            let mut event = core_event("loads");
            let part = |pmu: &&str| Part::Perf(PerfEvent::new(*pmu, 4, 0, PerfClass::Core));
            event.candidates[0].parts = counting.iter().map(part).collect();
            let lines = route(vec![event], &machine, &Intent::default());
            lines[0].candidate().unwrap().only.clone()
        };
        assert_eq!(only(&["cpu_core", "cpu_atom"], &["cpu_atom"]).as_deref(), Some("cpu_atom"));
        let three = ["cpu_core", "cpu_atom", "cpu_lowpower"];
        assert_eq!(only(&three, &three[..2]).as_deref(), Some("cpu_core and cpu_atom"));
        assert_eq!(only(&["cpu_core", "cpu_atom"], &["cpu_core", "cpu_atom"]), None);
        assert_eq!(only(&["cpu", "power"], &["cpu"]), None);
        assert_eq!(only(&["cpu_core", "cpu_atom"], &["cpu"]), None, "that is of no core type");
    }
}

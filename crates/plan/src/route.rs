//! Which source for which event, and why not the one above.

use cyclometer_core::event::{Part, PerfClass};
use cyclometer_core::ladder::{Cause, CauseKind, Works};
use cyclometer_core::machine::CoreType;
use cyclometer_core::plan::{Outcome, PlanLine};
use cyclometer_core::pmu::PmuSet;
use cyclometer_core::skipped::{SkipReason, Skipped};
use cyclometer_core::{
    Candidate, Count, CounterMask, Event, Intent, LackReason, Machine, MissingReason, Rung,
};

use crate::sharing::is_without_counter;
use crate::soft;

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
fn some_cores(parts: &[Part], machine: &Machine) -> Option<PmuSet> {
    let counting: Vec<&str> = parts.iter().map(|part| Some(part.core()?.pmu)).collect::<Option<_>>()?;
    let ours = parts.iter().any(|part| matches!(part, Part::Registers(_)));
    let known: Vec<&str> = match ours {
        true => machine.core_types.iter().map(CoreType::pmu_name).collect(),
        false => machine.core_pmus().map(|pmu| pmu.name.as_str()).collect(),
    };
    let all_known = counting.iter().all(|pmu| known.contains(pmu));
    let lacks = known.iter().any(|pmu| !counting.contains(pmu));
    PmuSet::new(counting).filter(|_| all_known && lacks)
}

/// The event without the candidates of other sources, so that no replan can step to them either.
fn restricted(mut event: Event, only: Option<Rung>) -> Event {
    let Some(only) = only else { return event };
    let had = !event.candidates.is_empty();
    event.candidates.retain(|candidate| candidate.rung == only);
    let lacking = event.lacking.iter().find(|(rung, _)| *rung == only);
    match lacking {
        Some((_, reason)) => event.unsupported = Some(reason.clone()),
        None if had && event.candidates.is_empty() => {
            event.unsupported = Some(LackReason::NotOfSource(only));
        }
        None => {}
    }
    event
}

fn route_one(event: Event, machine: &Machine, intent: &Intent) -> PlanLine {
    let skipped = Vec::new();
    if event.candidates.is_empty() {
        let reason = event.unsupported.clone().map_or(MissingReason::NoSource, MissingReason::Lacks);
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
            Err(skipped) => line.skipped.push(skipped),
        }
    }
    line.outcome = Outcome::NotCounted(why_not(&line, intent));
    line
}

/// Why no source counts an event. The source that would have served gives the reason: the first one that is
/// kept from it by a cause that can be lifted. Without such a cause something is missing here.
fn why_not(line: &PlanLine, intent: &Intent) -> Count {
    match line.skipped.iter().find(|skipped| is_liftable(skipped, intent)) {
        Some(skipped) => Count::NotCounted { reason: otherwise(line, with_remedy(line, skipped)) },
        None => Count::NotSupported { reason: otherwise(line, missing(line)) },
    }
}

/// The reason, with the way to count an event of a region that only the software PMU could count here.
fn otherwise(line: &PlanLine, reason: MissingReason) -> MissingReason {
    let would_count = |skipped: &Skipped| skipped.reason == SkipReason::NotStartedBySource;
    match line.skipped.iter().any(would_count) {
        true => MissingReason::CountedByRun(Box::new(reason)),
        false => reason,
    }
}

/// The reason of a source with what lifts it, and the name of the software PMU where it is not the first
/// choice.
fn with_remedy(line: &PlanLine, skipped: &Skipped) -> MissingReason {
    let reason = MissingReason::unused(skipped.reason.clone());
    let remedy = skipped.unavailable().and_then(|cause| cause.mend.clone());
    let reason = match remedy {
        Some(command) => MissingReason::Permitted { reason: Box::new(reason), command },
        None => reason,
    };
    let is_fallback = line.skipped.first().is_some_and(|first| first.rung != skipped.rung);
    match skipped.rung == Rung::Soft && is_fallback {
        true => MissingReason::OfSoftwarePmu(Box::new(reason)),
        false => reason,
    }
}

/// The reason to report: the best source's of this system; else that of a source which works and lacks the
/// event; else that registers would work if asked for; else why this machine does not have the event.
fn missing(line: &PlanLine) -> MissingReason {
    let asks_nobody = |skipped: &&Skipped| {
        !is_of_registers(skipped.rung) && skipped.reason != SkipReason::NotStartedBySource
    };
    let of_this_system = |skipped: &&Skipped| asks_nobody(skipped) && !skipped.is_of_other_system();
    let would_work = |skipped: &&Skipped| {
        matches!(skipped.reason, SkipReason::RegistersOnRequest(_) | SkipReason::TranslationOnRequest)
    };
    let lacking = line.event.lacking.iter().find(|(rung, _)| !is_of_registers(*rung));
    let skipped = || line.skipped.iter();
    if let (None, Some((_, reason))) = (skipped().find(of_this_system), lacking) {
        return MissingReason::Lacks(reason.clone());
    }
    let best = skipped().find(of_this_system).or_else(|| skipped().find(asks_nobody));
    match best.or_else(|| skipped().find(would_work)) {
        Some(skipped) => MissingReason::unused(skipped.reason.clone()),
        None => match (&line.event.unsupported, line.skipped.first()) {
            (Some(reason), _) => MissingReason::Lacks(reason.clone()),
            (None, Some(first)) => MissingReason::unused(first.reason.clone()),
            (None, None) => MissingReason::NoSource,
        },
    }
}

/// Whether the cause that keeps a source from counting can be lifted. The causes of registers count only
/// where these were requested.
fn is_liftable(skipped: &Skipped, intent: &Intent) -> bool {
    let is_candidate = !is_of_registers(skipped.rung) || intent.only == Some(skipped.rung);
    let keeps = |cause: &Cause| keeps_from_counting(skipped.rung, cause.kind);
    is_candidate && skipped.unavailable().is_some_and(keeps)
}

/// Whether a source's registers are programmed by ourselves, and only when that is asked for.
fn is_of_registers(rung: Rung) -> bool {
    matches!(rung, Rung::Msr | Rung::Sysreg)
}

/// Whether the machine could count, and the surroundings keep the source from it. For the software PMU a
/// system call that the kernel lacks is such a cause too: the CPU needs nothing for it.
fn keeps_from_counting(rung: Rung, kind: CauseKind) -> bool {
    use CauseKind::{
        DriverFault, NoDriver, NoLibrary, NoProcessList, NotInKernel, NotRoot, Seccomp, VersionMismatch,
    };
    use CauseKind::{FileSizeLimit, HeldByAnother, MemoryLimit, NmiWatchdog, NoPermission};
    match kind {
        NoPermission | NotRoot | Seccomp | HeldByAnother | NmiWatchdog => true,
        NoProcessList | FileSizeLimit | MemoryLimit => true,
        NoDriver | NoLibrary | VersionMismatch | DriverFault => true,
        NotInKernel => rung == Rung::Soft,
        _ => false,
    }
}

fn chosen(event: &Event, candidate: usize) -> Outcome {
    Outcome::Counted { candidate, filter: event.candidates[candidate].modes, exclude_guest: false }
}

fn works(event: &Event, candidate: &Candidate, machine: &Machine, intent: &Intent) -> Result<(), Skipped> {
    match candidate.rung {
        Rung::Perf => perf_works(candidate, machine).map_err(|cause| unavailable(Rung::Perf, cause)),
        Rung::Soft => {
            // Its surroundings are no reason where it would not serve in any.
            let fits = soft::fits(event, candidate, intent);
            match &fits {
                Err(skipped) if skipped.reason != SkipReason::NotStartedBySource => return fits,
                // The tool that would start the program has it.
                Err(_) if is_not_built(Rung::Soft, machine) => return fits,
                _ => rung_works(candidate, machine).and(fits)?,
            }
            soft::is_read_in_time(intent)
        }
        rung if is_of_registers(rung) && intent.only != Some(rung) => {
            rung_works(candidate, machine)?;
            Err(Skipped { rung, reason: SkipReason::RegistersOnRequest(rung) })
        }
        Rung::Kperf => {
            rung_works(candidate, machine)?;
            has_counters(candidate, machine)?;
            is_best_for_command(event, machine, intent)
        }
        Rung::Msr | Rung::Sysreg | Rung::Sim => {
            rung_works(candidate, machine)?;
            has_counters(candidate, machine)
        }
        _ => rung_works(candidate, machine),
    }
}

/// kperf counts whole CPUs: a source that counts the command alone is better for a command.
fn is_best_for_command(event: &Event, machine: &Machine, intent: &Intent) -> Result<(), Skipped> {
    let counts_command =
        |other: &Candidate| other.rung == Rung::SelfCounts && rung_works(other, machine).is_ok();
    let is_asked = intent.only == Some(Rung::Kperf) || !intent.subject.is_command();
    match is_asked || !event.candidates.iter().any(counts_command) {
        true => Ok(()),
        false => Err(Skipped { rung: Rung::Kperf, reason: SkipReason::CountsWholeCpus }),
    }
}

fn unavailable(rung: Rung, cause: Cause) -> Skipped {
    Skipped { rung, reason: SkipReason::Unavailable(cause) }
}

/// Whether a source would work here, and this program was built without it.
fn is_not_built(rung: Rung, machine: &Machine) -> bool {
    machine.ladder.state(rung).is_some_and(|state| state.works == Works::NotBuilt)
}

fn rung_works(candidate: &Candidate, machine: &Machine) -> Result<(), Skipped> {
    let rung = candidate.rung;
    let Some(state) = machine.ladder.state(rung) else {
        return Err(Skipped { rung, reason: SkipReason::NoSuchSource(rung) });
    };
    match (state.works, state.causes.first()) {
        (Works::Yes | Works::Partly, _) => Ok(()),
        (_, Some(cause)) => Err(unavailable(rung, cause.clone())),
        (works, None) => Err(Skipped { rung, reason: SkipReason::DoesNotWork(works) }),
    }
}

/// Whether each part has a counter that is free.
fn has_counters(candidate: &Candidate, machine: &Machine) -> Result<(), Skipped> {
    let mut parts = candidate.parts.iter().filter_map(Part::core);
    let homeless = parts.find(|part| is_without_counter(part, machine));
    let Some(part) = homeless else { return Ok(()) };
    let counters = part.ways.iter().filter_map(|way| way.0).fold(CounterMask::EMPTY, CounterMask::or);
    let reason = SkipReason::NoFreeCounter { counters, pmu: part.pmu.to_owned() };
    Err(Skipped { rung: candidate.rung, reason })
}

fn perf_works(candidate: &Candidate, machine: &Machine) -> Result<(), Cause> {
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
    use crate::testing::{core_event, machine, missing_of, portable_event, soft_event, software_event};
    use cyclometer_core::Verdict;
    use cyclometer_core::event::PerfEvent;
    use cyclometer_core::plan::IntentSubject;
    use cyclometer_core::pmu::KernelPmu;

    fn lack(text: &str) -> LackReason {
        LackReason::Unresolved(text.to_owned())
    }

    #[test]
    fn the_best_source_that_works_is_taken() {
        let lines = route(vec![software_event("page-faults")], &machine(), &Intent::default());
        assert_eq!(lines[0].candidate().unwrap().rung, Rung::Perf);
        assert_eq!(lines[0].skipped, []);
    }

    #[test]
    fn a_source_that_does_not_work_is_skipped_with_its_reason() {
        let mut machine = machine();
        let paranoid = Cause::new(CauseKind::NoPermission, "kernel.perf_event_paranoid is 3");
        machine.ladder.perf_software = Err(paranoid.clone());
        let lines = route(vec![software_event("page-faults")], &machine, &Intent::default());
        assert_eq!(lines[0].candidate().unwrap().rung, Rung::Os);
        let reason = SkipReason::Unavailable(paranoid);
        assert_eq!(lines[0].skipped, [Skipped { rung: Rung::Perf, reason }]);
    }

    #[test]
    fn the_reason_of_a_source_that_works_here_comes_before_that_of_another_system() {
        let mut machine = machine();
        machine.ladder.perf_hardware = Err(Cause::new(CauseKind::OtherSystem, "perf belongs to Linux"));
        let reason = |lacking: &[(Rung, &str)]| {
            let mut event = core_event("cycles");
            event.lacking = lacking.iter().map(|(rung, text)| (*rung, lack(text))).collect();
            let lines = route(vec![event], &machine, &Intent::default());
            let Outcome::NotCounted(count) = &lines[0].outcome else { panic!("{lines:?}") };
            count.reason().unwrap().to_string()
        };
        assert_eq!(reason(&[]), "perf belongs to Linux");
        assert_eq!(reason(&[(Rung::SelfCounts, "cycles:uk")]), "cycles:uk");
        assert_eq!(
            reason(&[(Rung::Msr, "no counter")]),
            "perf belongs to Linux",
            "registers are for requests"
        );
    }

    #[test]
    fn an_event_without_a_source_is_not_supported_and_says_why() {
        let mut machine = machine();
        machine.ladder.perf_hardware = Err(Cause::new(CauseKind::NoPmu, "no PMU"));
        let lines = route(vec![core_event("cycles")], &machine, &Intent::default());
        assert_eq!(missing_of(&lines[0]), (Verdict::NotSupported, "no PMU".to_owned()));
    }

    #[test]
    fn what_is_only_forbidden_is_not_counted_and_says_what_permits_it() {
        let mut machine = machine();
        let text = "kernel.perf_event_paranoid is 3";
        let mend = Some("sudo sysctl kernel.perf_event_paranoid=2".to_owned());
        let cause = Cause { kind: CauseKind::NoPermission, text: text.to_owned(), mend };
        machine.ladder.perf_hardware = Err(cause);
        let lines = route(vec![core_event("cycles")], &machine, &Intent::default());
        let reason = format!("{text}; to permit it: sudo sysctl kernel.perf_event_paranoid=2");
        assert_eq!(missing_of(&lines[0]), (Verdict::NotCounted, reason));
    }

    #[test]
    fn the_kind_of_a_cause_decides_and_its_text_does_not() {
        use cyclometer_core::ladder::RungState;
        let text = "registers are programmed only with --backend msr";
        let state = |rung, kind| {
            let cause = Cause { kind, text: text.to_owned(), mend: Some("do this".to_owned()) };
            RungState { rung, works: Works::No, causes: vec![cause] }
        };
        let outcome = |kind, of_perf, event: Event| {
            let mut machine = machine();
            machine.ladder.perf_hardware = Err(Cause::new(kind, text));
            machine.ladder.rungs.retain(|state| state.rung == Rung::Os);
            machine.ladder.rungs.extend([state(Rung::Perf, of_perf), state(Rung::Msr, CauseKind::NotRoot)]);
            missing_of(&route(vec![event], &machine, &Intent::default())[0])
        };
        let supported = (Verdict::NotCounted, text.to_owned());
        let unsupported = (Verdict::NotSupported, text.to_owned());
        let (forbidden, missing) = (CauseKind::NoPermission, CauseKind::NoPmu);
        assert_eq!(outcome(missing, forbidden, core_event("cycles")), unsupported);
        assert_eq!(outcome(forbidden, missing, core_event("cycles")), supported);
        let mut of_registers = core_event("cycles");
        of_registers.candidates[0].rung = Rung::Msr;
        let reason = "no PMU named cpu".to_owned();
        of_registers.unsupported = Some(lack(&reason));
        let unsupported = (Verdict::NotSupported, reason);
        assert_eq!(outcome(missing, missing, of_registers), unsupported, "root would not help");
    }

    /// A machine without a PMU whose software PMU something keeps from tracing.
    fn without_tracing(kind: CauseKind, text: &str, mend: Option<&str>) -> Machine {
        use cyclometer_core::ladder::RungState;
        let mut machine = crate::testing::machine_with_soft();
        machine.ladder.perf_hardware = Err(Cause::new(CauseKind::NoPmu, "no PMU"));
        machine.ladder.rungs.retain(|state| state.rung != Rung::Soft);
        let cause = Cause { kind, text: text.to_owned(), mend: mend.map(str::to_owned) };
        machine.ladder.rungs.push(RungState { rung: Rung::Soft, works: Works::No, causes: vec![cause] });
        machine
    }

    #[test]
    fn the_source_that_would_have_served_says_why_it_does_not() {
        let check = |kind, mend, expected: (Verdict, String)| {
            let machine = without_tracing(kind, "a filter forbids memfd_create", mend);
            let lines = route(vec![portable_event("instructions")], &machine, &Intent::default());
            assert_eq!(missing_of(&lines[0]), expected);
        };
        let reason = "the software PMU cannot count it: a filter forbids memfd_create";
        let lifted = |remedy: &str| (Verdict::NotCounted, format!("{reason}{remedy}"));
        check(CauseKind::Seccomp, None, lifted(""));
        check(CauseKind::NoPermission, Some("do this"), lifted("; to permit it: do this"));
        check(CauseKind::NotInKernel, None, lifted(""));
        check(CauseKind::FileSizeLimit, None, lifted(""));
        check(CauseKind::MemoryLimit, None, lifted(""));
        check(CauseKind::NoProcessList, Some("mount it"), lifted("; to permit it: mount it"));
        let no_pmu = (Verdict::NotSupported, "no PMU".to_owned());
        check(CauseKind::OtherSystem, None, no_pmu.clone());
        let machine = without_tracing(CauseKind::Seccomp, "a filter", None);
        let lines = route(vec![core_event("cycles")], &machine, &Intent::default());
        assert_eq!(missing_of(&lines[0]), no_pmu, "the software PMU has no cycles");
        let lines = route(vec![soft_event("calls")], &machine, &Intent::default());
        let own = (Verdict::NotCounted, "a filter".to_owned());
        assert_eq!(missing_of(&lines[0]), own, "there was no other source");
    }

    #[test]
    fn surroundings_are_no_reason_where_the_software_pmu_would_not_serve() {
        use cyclometer_core::Modes;
        let instructions = || portable_event("instructions");
        let of_modes = |modes| {
            let mut event = instructions();
            event.candidates.iter_mut().for_each(|candidate| candidate.modes = Some(modes));
            event
        };
        let check = |event: Event, intent: Intent| {
            let machine = without_tracing(CauseKind::Seccomp, "a filter forbids ptrace", Some("do this"));
            let lines = route(vec![event], &machine, &intent);
            assert_eq!(missing_of(&lines[0]), (Verdict::NotSupported, "no PMU".to_owned()), "{lines:?}");
        };
        check(instructions(), Intent { subject: IntentSubject::Running, ..Intent::default() });
        check(of_modes(Modes::KERNEL), Intent::default());
        check(of_modes(Modes::USER_KERNEL), Intent::default());
        check(Event { requested: false, ..instructions() }, Intent::default());
        let mut of_guests = instructions();
        of_guests.modifiers.guest_only = true;
        check(of_guests, Intent::default());
    }

    #[test]
    fn a_short_interval_is_no_mistake_where_the_software_pmu_does_not_work() {
        let machine = without_tracing(CauseKind::Seccomp, "a filter forbids ptrace", None);
        let intent = Intent { interval: Some(std::time::Duration::from_millis(50)), ..Intent::default() };
        let plan = crate::plan(vec![portable_event("instructions")], &machine, intent).unwrap();
        let Outcome::NotCounted(count) = &plan.lines[0].outcome else { panic!("{plan:?}") };
        let reason = "the software PMU cannot count it: a filter forbids ptrace";
        assert_eq!(count.reason().as_deref(), Some(reason));
    }

    #[test]
    fn registers_are_named_only_where_they_would_work() {
        use cyclometer_core::ladder::RungState;
        let why = |works, kind| {
            let mut machine = machine();
            let cause = Cause { kind, text: "root alone may".to_owned(), mend: Some("sudo".to_owned()) };
            machine.ladder.rungs.push(RungState { rung: Rung::Msr, works, causes: vec![cause] });
            let mut event = core_event("cpu/instructions/");
            event.candidates[0].rung = Rung::Msr;
            event.unsupported = Some(LackReason::NoPmu { pmu: "cpu".to_owned(), software: None });
            let lines = route(vec![event], &machine, &Intent::default());
            let Outcome::NotCounted(count) = &lines[0].outcome else { panic!("{lines:?}") };
            count.reason().unwrap_or_default()
        };
        let offered = "registers are programmed only with --backend msr";
        assert_eq!(why(Works::Yes, CauseKind::NmiWatchdog), offered);
        assert_eq!(why(Works::No, CauseKind::NotRoot), "the kernel has no PMU named cpu here");
        assert_eq!(why(Works::No, CauseKind::NoVirtualPmu), "the kernel has no PMU named cpu here");
    }

    #[test]
    fn a_backend_asked_for_shuts_out_the_others() {
        let only_os = Intent { only: Some(Rung::Os), ..Intent::default() };
        let lines = route(vec![core_event("cycles"), software_event("page-faults")], &machine(), &only_os);
        let reason = MissingReason::Lacks(LackReason::NotOfSource(Rung::Os));
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
        assert_eq!(only(&["cpu_core", "cpu_atom"], &["cpu_atom"]), PmuSet::new(["cpu_atom"]));
        let three = ["cpu_core", "cpu_atom", "cpu_lowpower"];
        assert_eq!(only(&three, &three[..2]), PmuSet::new(["cpu_core", "cpu_atom"]));
        assert_eq!(only(&["cpu_core", "cpu_atom"], &["cpu_core", "cpu_atom"]), None);
        assert_eq!(only(&["cpu", "power"], &["cpu"]), None);
        assert_eq!(only(&["cpu_core", "cpu_atom"], &["cpu"]), None, "that is of no core type");
    }
}

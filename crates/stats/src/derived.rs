//! Metrics derived from several events: formulas are data.

use std::sync::LazyLock;

use cyclometer_core::event::{Event, Unit};
use cyclometer_core::report::{LaunchKind, Run};
use cyclometer_core::{Count, Modes, Plan, Provenance, Verdict};

use crate::formula::{Expression, Inputs};
use crate::line_summary::{LineSummary, RunValue};
use crate::request::{Environment, MetricRequest};
use crate::statistics::Statistics;

/// The least and the greatest value of a metric, where it has limits.
type MetricLimits = Option<(f64, f64)>;

const SHARE: MetricLimits = Some((0.0, 1.0));

/// The metrics that every report has if it has their inputs: name, unit, limits, formula.
///
/// The last name of a formula is the leader: the other events must belong together with it.
const OF_EVERY_REPORT: [(&str, &str, MetricLimits, &str); 4] = [
    ("cpu_utilization", "CPUs", None, "(user_time + system_time) / wall_time"),
    ("ipc", "", None, "instructions / cycles"),
    ("branch_miss_rate", "", SHARE, "branch_misses / branches"),
    ("cache_miss_rate", "", SHARE, "cache_misses / cache_references"),
];

/// Names that mean the same event in these formulas.
const ALIASES: &[&[&str]] = &[&["cycles", "cpu_cycles"], &["branches", "branch_instructions"]];

static DEFINITIONS: LazyLock<Vec<Definition>> = LazyLock::new(|| {
    let read = |(name, unit, bounds, formula): (&str, &str, _, &str)| {
        let expression = Expression::resolve(name, formula, |_| None).ok()?;
        let unit = if unit.is_empty() { Unit::Ratio } else { Unit::Other(unit.to_owned()) };
        let name = name.to_owned();
        Some(Definition {
            name,
            unit,
            scale: 1.0,
            bounds,
            expression,
            environment: Environment::default(),
            asked: false,
        })
    };
    OF_EVERY_REPORT.into_iter().filter_map(read).collect()
});

/// A metric, and how to compute it.
struct Definition {
    name: String,
    unit: Unit,
    scale: f64,
    bounds: MetricLimits,
    expression: Expression,
    environment: Environment,
    asked: bool,
}

impl Definition {
    /// The value of the formula, if it is one that the metric can have.
    fn bounded(&self, value: f64) -> Result<f64, String> {
        match self.bounds {
            Some((least, greatest)) if value < least || value > greatest => Err(format!(
                "the formula gives {value:.3}, outside of {least} to {greatest}: its counts are of different kinds or estimates"
            )),
            _ => Ok(value),
        }
    }
}

/// A metric over all runs.
#[derive(Clone, PartialEq, Debug)]
pub struct DerivedSummary {
    /// The name as printed, with the modes of its inputs (`ipc:u`).
    pub name: String,
    /// The name without modes (`ipc`).
    pub metric: String,
    /// Unit of its values.
    pub unit: Unit,
    /// The names of its inputs as printed.
    pub inputs: Vec<String>,
    /// Whether all of its inputs were requested.
    pub requested: bool,
    /// Whether it was requested by its name or its group.
    pub asked: bool,
    /// The formula.
    pub formula: String,
    /// The modes of its inputs; `None` where modes mean nothing or differ.
    pub modes: Option<Modes>,
    /// The provenances of the inputs, each once.
    pub provenances: Vec<Provenance>,
    /// Whether times of translated runs are among the inputs: then it is no property of the program.
    pub is_of_the_translation: bool,
    /// The worst state of all inputs.
    pub verdict: Verdict,
    /// The reason why the verdict is not exact.
    pub reason: Option<String>,
    /// Statistics over the runs whose pass had all inputs.
    pub statistics: Statistics,
    /// The value of each of those runs.
    pub values: Vec<DerivedValue>,
}

/// The value of a metric in one run.
#[derive(Clone, PartialEq, Debug)]
pub struct DerivedValue {
    /// Number of the run, from 0.
    pub run: u32,
    /// Its pass.
    pub pass: usize,
    /// The value; `None` when there is none.
    pub value: Option<f64>,
    /// The worst state of the inputs.
    pub verdict: Verdict,
    /// The reason why the verdict is not exact.
    pub reason: Option<String>,
}

/// The requested metrics, and every one of [`OF_EVERY_REPORT`] whose inputs are all in the report.
///
/// A metric has no value where its inputs do not belong together.
pub(crate) fn derive(
    lines: &[LineSummary],
    runs: &[&Run],
    requests: &[MetricRequest],
    plan: &Plan,
) -> Vec<DerivedSummary> {
    let mut all: Vec<DerivedSummary> =
        requests.iter().map(|request| derive_asked(request, lines, runs, plan)).collect();
    let of_every = DEFINITIONS.iter().flat_map(|definition| derive_one(definition, lines, runs));
    for metric in of_every {
        if !all.iter().any(|known| known.asked && known.name == metric.name) {
            all.push(metric);
        }
    }
    all
}

/// A metric by the slots of its inputs.
fn derive_asked(
    request: &MetricRequest,
    lines: &[LineSummary],
    runs: &[&Run],
    plan: &Plan,
) -> DerivedSummary {
    let definition = Definition {
        name: request.name.clone(),
        unit: request.unit.clone(),
        scale: request.scale,
        bounds: request.bounds,
        expression: request.expression.clone(),
        environment: request.environment.clone(),
        asked: true,
    };
    let line = |slot: &Result<_, String>| match slot {
        Ok(slot) => {
            lines.iter().find(|line| line.slot == *slot).ok_or_else(|| "it is not in the report".to_owned())
        }
        Err(reason) => Err(reason.clone()),
    };
    let inputs = request
        .inputs
        .iter()
        .map(|(name, slot)| MetricInput { name: name.clone(), line: line(slot) })
        .collect();
    let inputs = CountedInputs(inputs);
    let metric = summarise(&definition, &inputs, runs);
    let is_open = metric.statistics.mean.is_none() && inputs.missing().is_none();
    match divided(request, plan).filter(|_| is_open) {
        Some(reason) => DerivedSummary { reason: Some(reason), ..metric },
        None => metric,
    }
}

/// The reason why the events of a metric cannot be counted at the same time; `None` if they can.
fn divided(request: &MetricRequest, plan: &Plan) -> Option<String> {
    let slots = request.slots();
    let (_, reason) =
        plan.sharing.divided.iter().find(|(set, _)| plan.intent.together.get(*set) == Some(&slots))?;
    Some(format!("its events cannot be counted at the same time: {reason}"))
}

/// Sets of events, by index, over which a report derives a metric without a request.
pub fn partners(events: &[Event]) -> Vec<Vec<usize>> {
    let of = |definition: &Definition| -> Vec<Vec<usize>> {
        let names = definition.expression.events();
        let Some((leader, others)) = names.split_last() else { return Vec::new() };
        let named = |name: &str, modes| {
            let suits = |i: &usize| is_named(&events[*i].name, name) && events[*i].modifiers.modes == modes;
            (0..events.len()).find(suits)
        };
        let with_leader = |leader: usize| {
            let others = others.iter().map(|name| named(name, events[leader].modifiers.modes));
            others.chain([Some(leader)]).collect::<Option<Vec<usize>>>()
        };
        (0..events.len()).filter(|i| is_named(&events[*i].name, leader)).filter_map(with_leader).collect()
    };
    DEFINITIONS.iter().flat_map(of).collect()
}

fn derive_one(definition: &Definition, lines: &[LineSummary], runs: &[&Run]) -> Vec<DerivedSummary> {
    let names = definition.expression.events();
    let Some(leader) = names.last() else { return Vec::new() };
    let leaders: Vec<&LineSummary> = named(lines, leader).collect();
    let together: Vec<DerivedSummary> = leaders
        .iter()
        .filter_map(|leader| {
            let inputs = inputs(&names, lines, leader, |line| belong_together(line, leader))?;
            Some(summarise(definition, &inputs, runs))
        })
        .collect();
    if !together.is_empty() {
        return each_once(together);
    }
    let apart = leaders.first().and_then(|leader| {
        let inputs = inputs(&names, lines, leader, |_| true)?;
        Some(summarise(definition, &inputs, runs))
    });
    apart.into_iter().collect()
}

/// Removes duplicates: an event that was named twice gives the same metric twice. The first one with a value
/// is kept.
fn each_once(metrics: Vec<DerivedSummary>) -> Vec<DerivedSummary> {
    let mut once: Vec<DerivedSummary> = Vec::new();
    for metric in metrics {
        match once.iter_mut().find(|known| known.name == metric.name) {
            Some(known) if known.statistics.mean.is_none() => *known = metric,
            Some(_) => {}
            None => once.push(metric),
        }
    }
    once
}

/// The lines of the names; the last name's is the leader. `None` when one is missing.
fn inputs<'a>(
    names: &[&str],
    lines: &'a [LineSummary],
    leader: &'a LineSummary,
    suits: impl Fn(&LineSummary) -> bool,
) -> Option<CountedInputs<'a>> {
    let last = names.len().saturating_sub(1);
    let line = |(i, name): (usize, &&str)| {
        let found = if i == last { Some(leader) } else { named(lines, name).find(|line| suits(line)) };
        Some(MetricInput { name: (*name).to_owned(), line: Ok(found?) })
    };
    names.iter().enumerate().map(line).collect::<Option<_>>().map(CountedInputs)
}

fn named<'a>(lines: &'a [LineSummary], name: &str) -> impl Iterator<Item = &'a LineSummary> {
    let name = name.to_owned();
    lines.iter().filter(move |line| is_named(&line.event, &name))
}

fn is_named(event: &str, name: &str) -> bool {
    let aliases = ALIASES.iter().find(|aliases| aliases.contains(&name)).copied().unwrap_or_default();
    let own = fold(event);
    own == name || aliases.contains(&own.as_str())
}

/// Event names compare without case, and with `-` as `_`.
fn fold(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_")
}

/// Whether two lines are of the same scope and modes; time and energy are those of all modes.
fn belong_together(a: &LineSummary, b: &LineSummary) -> bool {
    let same_modes = match (a.modes, b.modes) {
        (Some(modes), None) | (None, Some(modes)) => modes.covers(Modes::USER_KERNEL),
        (a, b) => a == b,
    };
    same_modes && a.scope == b.scope
}

/// An event of a formula, and its line or the reason why there is none.
struct MetricInput<'a> {
    name: String,
    line: Result<&'a LineSummary, String>,
}

impl MetricInput<'_> {
    /// The reason why it has no value in any run.
    fn missing(&self) -> Option<String> {
        match &self.line {
            Ok(line) if line.provenance.is_some() => None,
            Ok(line) => {
                Some(format!("{} is missing: {}", line.name, line.reason.as_deref().unwrap_or("unknown")))
            }
            Err(reason) => Some(format!("{} is missing: {reason}", self.name)),
        }
    }
}

/// The inputs of a metric.
struct CountedInputs<'a>(Vec<MetricInput<'a>>);

impl<'a> CountedInputs<'a> {
    fn lines(&self) -> impl DoubleEndedIterator<Item = &'a LineSummary> {
        self.0.iter().filter_map(|input| input.line.as_ref().ok().copied())
    }

    /// The lines that have values.
    fn counted(&self) -> impl DoubleEndedIterator<Item = &'a LineSummary> {
        self.lines().filter(|line| line.provenance.is_some())
    }

    /// The reason why the lines with values do not belong together; `None` if they do.
    fn apart(&self) -> Option<String> {
        let leader = self.counted().next_back()?;
        let apart = self.counted().find(|line| !belong_together(line, leader))?;
        Some(format!("{} and {} cover different modes or scopes", apart.name, leader.name))
    }

    /// The modes of all lines with values, or of all lines if none has one; `None` where they differ or mean
    /// nothing.
    fn modes(&self) -> Option<Modes> {
        let any = self.counted().next().is_some();
        let mut modes = self.lines().filter(|line| !any || line.provenance.is_some()).map(|line| line.modes);
        let first = modes.next().flatten()?;
        modes.all(|modes| modes == Some(first)).then_some(first)
    }

    fn missing(&self) -> Option<String> {
        self.0.iter().find_map(MetricInput::missing)
    }
}

fn summarise(definition: &Definition, inputs: &CountedInputs<'_>, runs: &[&Run]) -> DerivedSummary {
    if let Some(reason) = inputs.apart() {
        return DerivedSummary { reason: Some(reason), ..blank(definition, inputs) };
    }
    let values: Vec<DerivedValue> =
        runs.iter().filter_map(|run| derived_value(definition, inputs, run)).collect();
    let any = values.iter().any(|value| value.value.is_some());
    if let Some(reason) = inputs.missing().filter(|_| !any) {
        return DerivedSummary { reason: Some(reason), ..blank(definition, inputs) };
    }
    let Some(worst) = values.iter().max_by_key(|value| value.verdict) else {
        let leader = inputs.lines().next_back().map_or("others", |line| &line.name);
        let reason = format!("its inputs were never counted in the same pass as {leader}");
        return DerivedSummary { reason: Some(reason), ..blank(definition, inputs) };
    };
    let (verdict, reason) = (worst.verdict, worst.reason.clone());
    let statistics = Statistics::of_all(&values.iter().map(|value| value.value).collect::<Vec<_>>());
    DerivedSummary { verdict, reason, statistics, values, ..blank(definition, inputs) }
}

fn blank(definition: &Definition, inputs: &CountedInputs<'_>) -> DerivedSummary {
    let modes = inputs.modes();
    let mut provenances: Vec<Provenance> = inputs.lines().filter_map(|line| line.provenance).collect();
    provenances.sort_unstable();
    provenances.dedup();
    DerivedSummary {
        name: with_modes(&definition.name, modes),
        metric: definition.name.clone(),
        unit: definition.unit.clone(),
        inputs: inputs
            .0
            .iter()
            .map(|input| input.line.as_ref().map_or(&input.name, |line| &line.name).clone())
            .collect(),
        requested: definition.asked || inputs.lines().all(|line| line.requested),
        asked: definition.asked,
        formula: definition.expression.text().to_owned(),
        modes,
        provenances,
        is_of_the_translation: inputs.lines().any(|line| line.is_of_the_translation()),
        verdict: Verdict::NotCounted,
        reason: None,
        statistics: Statistics::default(),
        values: Vec::new(),
    }
}

fn with_modes(name: &str, modes: Option<Modes>) -> String {
    let colon = if name.ends_with('/') { "" } else { ":" };
    modes.map_or(name.to_owned(), |modes| format!("{name}{colon}{modes}"))
}

/// The metric in one run; `None` if the run's pass lacks one of the counted inputs.
fn derived_value(definition: &Definition, inputs: &CountedInputs<'_>, run: &Run) -> Option<DerivedValue> {
    let of_run = |line: &LineSummary| line.values.iter().find(|value| value.run == run.index).cloned();
    let counted: Vec<RunValue> = inputs.counted().map(of_run).collect::<Option<_>>()?;
    let worst: &Count = counted.iter().map(|value| &value.count).max_by_key(|count| count.verdict())?;
    let (mut verdict, mut reason) = (worst.verdict(), worst.reason());
    let computed = match mixture(inputs, run).or_else(|| alternation(inputs, &counted)) {
        Some(reason) => Err(reason),
        None => {
            let values = InRun { inputs, run: run.index, environment: &definition.environment };
            let value = definition.expression.evaluate(&values);
            value.and_then(|value| definition.bounded(value)).map(|value| value * definition.scale)
        }
    };
    if let Err(obstacle) = &computed {
        let of_input = reason.filter(|_| !verdict.has_value());
        (verdict, reason) = (verdict.max(Verdict::NotCounted), of_input.or(Some(obstacle.clone())));
    }
    Some(DerivedValue { run: run.index, pass: run.pass, value: computed.ok(), verdict, reason })
}

/// The reason why the inputs were not counted at the same time; `None` if they were. An event that is counted
/// in every slice goes with every rotation group.
fn alternation(inputs: &CountedInputs<'_>, counted: &[RunValue]) -> Option<String> {
    let mut rotation_groups =
        inputs.counted().zip(counted).filter_map(|(line, value)| Some((&line.name, value.rotation_group?)));
    let (first, rotation_group) = rotation_groups.next()?;
    let (other, _) = rotation_groups.find(|(_, other)| *other != rotation_group)?;
    Some(format!("{first} and {other} shared counters in rotation: they were never counted at the same time"))
}

/// The reason why the inputs of a translated run do not belong in one formula; `None` if they do.
fn mixture(inputs: &CountedInputs<'_>, run: &Run) -> Option<String> {
    let mut times = inputs.counted().map(|line| line.provenance == Some(Provenance::Kernel));
    let first = times.next()?;
    let mixed = times.any(|time| time != first);
    (run.launch == LaunchKind::Translated && mixed)
        .then(|| "times of a translated run and its counts do not divide".to_owned())
}

/// The inputs as they were in one run.
struct InRun<'a> {
    inputs: &'a CountedInputs<'a>,
    run: u32,
    environment: &'a Environment,
}

impl InRun<'_> {
    fn input(&self, name: &str) -> Option<&MetricInput<'_>> {
        self.inputs.0.iter().find(|input| input.name == name)
    }
}

impl Inputs for InRun<'_> {
    fn value(&self, name: &str) -> Result<f64, String> {
        let input = self.input(name).ok_or_else(|| format!("{name} is missing"))?;
        if let Some(reason) = input.missing() {
            return Err(reason);
        }
        let line = input.line.clone()?;
        let value = line.values.iter().find(|value| value.run == self.run);
        let value = value.ok_or_else(|| format!("{} was not in the run's pass", line.name))?;
        value
            .value
            .ok_or_else(|| value.count.reason().unwrap_or_else(|| format!("{} has no value", line.name)))
    }

    fn literal(&self, name: &str) -> Option<f64> {
        self.environment.literal(name)
    }

    fn is_cpu(&self, id: &str) -> Option<bool> {
        self.environment.is_cpu(id)
    }

    fn shown(&self, name: &str) -> String {
        self.input(name)
            .and_then(|input| input.line.clone().ok())
            .map_or(name.to_owned(), |line| line.name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::{Summary, summarise, summarise_with};
    use crate::testing::{cell, hardware, os_line, pass, report, run};
    use cyclometer_core::event::OsMetric;
    use cyclometer_core::plan::{Outcome, PlanLine};
    use cyclometer_core::{Count, Scope, SlotId};

    fn core() -> Vec<PlanLine> {
        vec![hardware("instructions", 1), hardware("cpu-cycles", 1)]
    }

    fn ipc(summary: &Summary) -> &DerivedSummary {
        summary.derived.iter().find(|metric| metric.name.starts_with("ipc")).unwrap()
    }

    #[test]
    fn instructions_and_cycles_of_one_pass_give_ipc() {
        let runs = vec![run(0, 0, &[(0, 30), (1, 10)]), run(1, 0, &[(0, 10), (1, 10)])];
        let summary = summarise(&report(core(), vec![pass(&[0, 1])], runs));
        let ipc = ipc(&summary);
        assert_eq!(
            (ipc.name.as_str(), ipc.verdict, ipc.statistics.mean),
            ("ipc:u", Verdict::Exact, Some(2.0))
        );
        assert_eq!(ipc.provenances, [Provenance::Hardware]);
        assert_eq!(ipc.inputs, ["instructions:u", "cpu-cycles:u"]);
    }

    #[test]
    fn an_event_that_was_named_twice_gives_a_metric_once() {
        let lines = vec![hardware("cycles", 1), hardware("instructions", 1), hardware("cycles", 1)];
        // The first cycles were in another pass than the instructions.
        let (passes, runs) = (vec![pass(&[0]), pass(&[1, 2])], vec![run(0, 1, &[(1, 30), (2, 10)])]);
        let summary = summarise(&report(lines, passes, runs));
        let values: Vec<_> = summary.derived.iter().map(|metric| metric.statistics.mean).collect();
        assert_eq!(values, [Some(3.0)]);
    }

    #[test]
    fn counts_of_different_passes_do_not_divide() {
        let runs = vec![run(0, 0, &[(0, 30)]), run(1, 1, &[(1, 10)])];
        let summary = summarise(&report(core(), vec![pass(&[0]), pass(&[1])], runs));
        assert_eq!((ipc(&summary).verdict, ipc(&summary).statistics.mean), (Verdict::NotCounted, None));
        assert!(ipc(&summary).reason.as_deref().unwrap().contains("same pass"));
    }

    #[test]
    fn a_metric_whose_events_never_fit_at_once_says_which_do_not() {
        let slots =
            [("instructions", 0), ("cycles", 1)].map(|(name, slot)| (name.to_owned(), Ok(SlotId(slot))));
        let request = MetricRequest {
            name: "mine".to_owned(),
            unit: Unit::Ratio,
            scale: 1.0,
            bounds: None,
            expression: Expression::resolve("mine", "instructions / cycles", |_| None).unwrap(),
            inputs: slots.to_vec(),
            environment: Environment::default(),
        };
        let runs = vec![run(0, 0, &[(0, 30)]), run(1, 1, &[(1, 10)])];
        let mut report = report(core(), vec![pass(&[0]), pass(&[1])], runs);
        report.plan.intent.together = vec![vec![0, 1]];
        report.plan.sharing.divided = vec![(0, "both can only use counter 7 of cpu".to_owned())];
        let summary = summarise_with(&report, Scope::Tree, std::slice::from_ref(&request));
        let reason = "its events cannot be counted at the same time: both can only use counter 7 of cpu";
        assert_eq!(summary.derived[0].reason.as_deref(), Some(reason));
        report.plan.sharing.divided.clear();
        let summary = summarise_with(&report, Scope::Tree, &[request]);
        assert!(summary.derived[0].reason.as_deref().unwrap().contains("same pass"));
    }

    #[test]
    fn counts_of_different_modes_do_not_divide() {
        let mut lines = core();
        lines[1].outcome =
            Outcome::Counted { candidate: 0, filter: Some(Modes::KERNEL), exclude_guest: false };
        let summary = summarise(&report(lines, vec![pass(&[0, 1])], vec![run(0, 0, &[(0, 30), (1, 10)])]));
        assert_eq!(ipc(&summary).statistics.mean, None);
        let reason = ipc(&summary).reason.as_deref().unwrap();
        assert_eq!(reason, "instructions:u and cpu-cycles:k cover different modes or scopes");
    }

    #[test]
    fn a_metric_takes_the_worst_state_of_its_inputs() {
        let mut one = run(0, 0, &[(0, 30)]);
        one.reading.cells.push(cell(SlotId(1), 5, 10_000_000, 5_000_000));
        let summary = summarise(&report(core(), vec![pass(&[0, 1])], vec![one]));
        assert_eq!((ipc(&summary).verdict, ipc(&summary).statistics.mean), (Verdict::Scaled, Some(3.0)));
    }

    #[test]
    fn division_by_zero_is_a_reason_and_no_number() {
        for instructions in [0, 5] {
            let runs = vec![run(0, 0, &[(0, instructions), (1, 0)])];
            let summary = summarise(&report(core(), vec![pass(&[0, 1])], runs));
            assert_eq!((ipc(&summary).verdict, ipc(&summary).statistics.mean), (Verdict::NotCounted, None));
            assert_eq!(ipc(&summary).reason.as_deref(), Some("cpu-cycles:u was 0"));
        }
    }

    #[test]
    fn an_input_that_is_not_supported_is_named() {
        let mut lines = core();
        lines[1].outcome = Outcome::NotCounted(Count::NotSupported { reason: "no PMU".into() });
        let summary = summarise(&report(lines, vec![pass(&[0])], vec![run(0, 0, &[(0, 30)])]));
        assert_eq!(ipc(&summary).reason.as_deref(), Some("cpu-cycles:u is missing: no PMU"));
    }

    #[test]
    fn user_and_system_time_by_wall_time_is_the_utilization() {
        let lines = vec![
            os_line("wall_time", OsMetric::WallTime),
            os_line("user_time", OsMetric::UserTime),
            os_line("system_time", OsMetric::SystemTime),
        ];
        let runs = vec![run(0, 0, &[(0, 100), (1, 120), (2, 30)])];
        let summary = summarise(&report(lines, vec![pass(&[0, 1, 2])], runs));
        let metric = &summary.derived[0];
        assert_eq!((metric.name.as_str(), metric.unit.symbol()), ("cpu_utilization", "CPUs"));
        assert_eq!(metric.statistics.mean, Some(1.5));
    }

    #[test]
    fn partners_are_those_of_the_metrics_of_every_report_in_the_same_modes() {
        let event = |name: &str, modes| {
            let mut event = Event::new(name, Unit::Count, Vec::new());
            event.modifiers.modes = modes;
            event
        };
        let names = ["branch-misses", "cpu_cycles", "page-faults", "instructions", "branches"];
        let events: Vec<Event> = names.iter().map(|name| event(name, None)).collect();
        assert_eq!(partners(&events), [vec![3, 1], vec![0, 4]]);
        let kernel = [event("cycles", Some(Modes::KERNEL)), event("instructions", None)];
        assert_eq!(partners(&kernel), [[0; 0]; 0]);
    }

    #[test]
    fn a_report_without_the_inputs_has_no_metric() {
        let summary = summarise(&report(vec![hardware("cycles", 1)], vec![pass(&[0])], vec![]));
        assert_eq!(summary.derived, []);
    }

    #[test]
    fn times_and_counts_of_a_translated_run_do_not_mix() {
        let mut lines = core();
        lines[1].event.candidates[0].provenance = Provenance::Kernel;
        let mut one = run(0, 0, &[(0, 30), (1, 10)]);
        one.launch = LaunchKind::Translated;
        let summary = summarise(&report(lines, vec![pass(&[0, 1])], vec![one]));
        assert_eq!(ipc(&summary).statistics.mean, None);
    }
}

//! Metrics that follow from several events: formulas are data.

use cyclometer_core::event::Unit;
use cyclometer_core::report::{LaunchKind, Run};
use cyclometer_core::{Modes, Provenance, Verdict};

use crate::statistics::Statistics;
use crate::summary::{LineSummary, RunValue};

/// A quotient of sums of events. Each input is a list of names for one event, folded as by [`fold`].
struct Formula {
    name: &'static str,
    unit: &'static str,
    numerator: &'static [&'static [&'static str]],
    denominator: &'static [&'static str],
}

const CYCLES: &[&str] = &["cycles", "cpu_cycles"];
const BRANCHES: &[&str] = &["branches", "branch_instructions"];

/// The metrics that every report gives where it has their inputs.
const FORMULAS: &[Formula] = &[
    Formula {
        name: "cpu_utilization",
        unit: "CPUs",
        numerator: &[&["user_time"], &["system_time"]],
        denominator: &["wall_time"],
    },
    Formula { name: "ipc", unit: "", numerator: &[&["instructions"]], denominator: CYCLES },
    Formula { name: "branch_miss_rate", unit: "", numerator: &[&["branch_misses"]], denominator: BRANCHES },
    Formula {
        name: "cache_miss_rate",
        unit: "",
        numerator: &[&["cache_misses"]],
        denominator: &["cache_references"],
    },
];

/// A metric over all runs.
#[derive(Clone, PartialEq, Debug)]
pub struct DerivedSummary {
    /// The name as printed, with the modes of its inputs (`ipc:u`).
    pub name: String,
    /// Unit of its values.
    pub unit: Unit,
    /// The names of its inputs as printed.
    pub inputs: Vec<String>,
    /// Whether all of its inputs were asked for.
    pub requested: bool,
    /// The modes of its inputs; `None` where modes mean nothing or differ.
    pub modes: Option<Modes>,
    /// Who counted the inputs, each once.
    pub provenances: Vec<Provenance>,
    /// Whether times of translated runs are among the inputs: then it is no property of the program.
    pub is_of_the_translation: bool,
    /// The worst state of all inputs.
    pub verdict: Verdict,
    /// Why the verdict is not exact.
    pub reason: Option<String>,
    /// Over the runs in which all inputs were in the pass.
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
    /// Why the verdict is not exact.
    pub reason: Option<String>,
}

/// Every metric whose inputs are all in the report; it has no value where they do not belong together.
pub(crate) fn derive(lines: &[LineSummary], runs: &[&Run]) -> Vec<DerivedSummary> {
    FORMULAS.iter().flat_map(|formula| derive_one(formula, lines, runs)).collect()
}

fn derive_one(formula: &Formula, lines: &[LineSummary], runs: &[&Run]) -> Vec<DerivedSummary> {
    let denominators: Vec<&LineSummary> = named(lines, formula.denominator).collect();
    let together: Vec<DerivedSummary> = denominators
        .iter()
        .filter_map(|denominator| {
            let inputs = inputs(formula, lines, |line| belong_together(line, denominator))?;
            Some(summarise(formula, &inputs, denominator, runs))
        })
        .collect();
    if !together.is_empty() {
        return each_once(together);
    }
    let apart = denominators.first().and_then(|denominator| {
        let inputs = inputs(formula, lines, |_| true)?;
        Some(not_countable(formula, &inputs, denominator, apart_reason(&inputs, denominator)))
    });
    apart.into_iter().collect()
}

/// An event that was named twice gives the same metric twice: the first that has a value stands for all.
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

/// The numerator's lines, one for each input; `None` when one is missing.
fn inputs<'a>(
    formula: &Formula,
    lines: &'a [LineSummary],
    suits: impl Fn(&LineSummary) -> bool,
) -> Option<Vec<&'a LineSummary>> {
    formula.numerator.iter().map(|names| named(lines, names).find(|line| suits(line))).collect()
}

fn named<'a>(lines: &'a [LineSummary], names: &'a [&str]) -> impl Iterator<Item = &'a LineSummary> {
    lines.iter().filter(|line| names.contains(&fold(&line.event).as_str()))
}

/// Event names compare without case, and with `-` as `_`.
fn fold(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_")
}

fn belong_together(a: &LineSummary, b: &LineSummary) -> bool {
    a.modes == b.modes && a.scope == b.scope
}

fn apart_reason(inputs: &[&LineSummary], denominator: &LineSummary) -> String {
    let apart = inputs.iter().find(|line| !belong_together(line, denominator));
    let name = apart.map_or("", |line| &line.name);
    format!("{name} and {} cover different modes or scopes", denominator.name)
}

fn summarise(
    formula: &Formula,
    inputs: &[&LineSummary],
    denominator: &LineSummary,
    runs: &[&Run],
) -> DerivedSummary {
    let missing = inputs.iter().chain([&denominator]).find(|line| line.provenance.is_none());
    if let Some(line) = missing {
        let reason = line.reason.as_deref().unwrap_or("unknown");
        return not_countable(formula, inputs, denominator, format!("{} is missing: {reason}", line.name));
    }
    let values: Vec<DerivedValue> =
        runs.iter().filter_map(|run| derived_value(inputs, denominator, run)).collect();
    let Some(worst) = values.iter().max_by_key(|value| value.verdict) else {
        let reason = format!("its inputs were never counted in the same pass as {}", denominator.name);
        return not_countable(formula, inputs, denominator, reason);
    };
    let (verdict, reason) = (worst.verdict, worst.reason.clone());
    let statistics = Statistics::of_all(&values.iter().map(|value| value.value).collect::<Vec<_>>());
    DerivedSummary { verdict, reason, statistics, values, ..blank(formula, inputs, denominator) }
}

fn not_countable(
    formula: &Formula,
    inputs: &[&LineSummary],
    denominator: &LineSummary,
    reason: String,
) -> DerivedSummary {
    DerivedSummary { reason: Some(reason), ..blank(formula, inputs, denominator) }
}

fn blank(formula: &Formula, inputs: &[&LineSummary], denominator: &LineSummary) -> DerivedSummary {
    let all: Vec<&LineSummary> = inputs.iter().copied().chain([denominator]).collect();
    let same = all.iter().all(|line| line.modes == denominator.modes);
    let modes = denominator.modes.filter(|_| same);
    let mut provenances: Vec<Provenance> = all.iter().filter_map(|line| line.provenance).collect();
    provenances.sort_unstable();
    provenances.dedup();
    DerivedSummary {
        name: formula.name.to_owned() + &modes.map(|modes| format!(":{modes}")).unwrap_or_default(),
        unit: if formula.unit.is_empty() { Unit::Ratio } else { Unit::Other(formula.unit.to_owned()) },
        inputs: all.iter().map(|line| line.name.clone()).collect(),
        requested: all.iter().all(|line| line.requested),
        modes,
        provenances,
        is_of_the_translation: all.iter().any(|line| line.is_of_the_translation()),
        verdict: Verdict::NotCounted,
        reason: None,
        statistics: Statistics::default(),
        values: Vec::new(),
    }
}

/// The metric in one run; `None` when that run's pass did not hold all inputs.
fn derived_value(inputs: &[&LineSummary], denominator: &LineSummary, run: &Run) -> Option<DerivedValue> {
    let of_run = |line: &LineSummary| line.values.iter().find(|value| value.run == run.index).cloned();
    let numerators: Vec<RunValue> = inputs.iter().map(|line| of_run(line)).collect::<Option<_>>()?;
    let divisor = of_run(denominator)?;
    let worst = numerators.iter().chain([&divisor]).map(|value| &value.count).max_by_key(|c| c.verdict())?;
    let (mut verdict, mut reason) = (worst.verdict(), worst.reason());
    let mut value = quotient(&numerators, &divisor);
    if let Some(obstacle) = obstacle(inputs, denominator, &divisor, run) {
        (value, verdict, reason) = (None, verdict.max(Verdict::NotCounted), reason.or(Some(obstacle)));
    }
    Some(DerivedValue { run: run.index, pass: run.pass, value, verdict, reason })
}

fn quotient(numerators: &[RunValue], divisor: &RunValue) -> Option<f64> {
    let sum = numerators.iter().map(|value| value.value).sum::<Option<f64>>()?;
    let quotient = sum / divisor.value?;
    quotient.is_finite().then_some(quotient)
}

fn obstacle(
    inputs: &[&LineSummary],
    denominator: &LineSummary,
    divisor: &RunValue,
    run: &Run,
) -> Option<String> {
    let times = |line: &LineSummary| line.provenance == Some(Provenance::Kernel);
    let mixed = inputs.iter().any(|line| times(line) != times(denominator));
    if run.launch == LaunchKind::Translated && mixed {
        return Some("times of a translated run and its counts do not divide".to_owned());
    }
    (divisor.value == Some(0.0)).then(|| format!("{} was 0", denominator.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::{Summary, summarise};
    use crate::testing::{cell, hardware, os_line, pass, report, run};
    use cyclometer_core::event::OsMetric;
    use cyclometer_core::plan::{Outcome, PlanLine};
    use cyclometer_core::{Count, SlotId};

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

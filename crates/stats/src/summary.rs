//! A report summarised: one entry for each event, with statistics over its runs.

use cyclometer_core::event::Unit;
use cyclometer_core::plan::{Outcome, PlanLine, Skipped};
use cyclometer_core::report::Run;
use cyclometer_core::{Count, Modes, Provenance, Report, Rung, Scope, SlotId, Target, Verdict};

use crate::derived::{DerivedSummary, derive};
use crate::label::{effective_modes, label};
use crate::settle::{PartCount, by_part, settle};
use crate::statistics::Statistics;

/// What a report says, ready to be shown.
#[derive(Clone, PartialEq, Debug)]
pub struct Summary {
    /// The scope that was asked for.
    pub scope: Scope,
    /// One entry for each event, in the order of the plan.
    pub lines: Vec<LineSummary>,
    /// Metrics that follow from several events.
    pub derived: Vec<DerivedSummary>,
    /// The runs that do not enter the statistics.
    pub dropped: Vec<DroppedRun>,
    /// Every run would have been dropped: the statistics then are of those, because nothing else is there.
    pub only_dropped: bool,
}

impl Summary {
    /// Whether every event is exact and comes from hardware, the kernel or an exact software count.
    ///
    /// This is what `--strict` asks for.
    pub fn is_strict(&self) -> bool {
        !self.only_dropped && !self.lines.is_empty() && self.lines.iter().all(LineSummary::is_strict)
    }
}

/// A run that does not enter the statistics.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DroppedRun {
    /// Number of the run, from 0.
    pub run: u32,
    /// Why.
    pub reason: String,
}

/// One event over all runs.
#[derive(Clone, PartialEq, Debug)]
pub struct LineSummary {
    /// Which event of the plan.
    pub slot: SlotId,
    /// The name as printed, with its effective modes (`instructions:u`).
    pub name: String,
    /// The name as typed, without modifiers.
    pub event: String,
    /// Whether the user asked for it.
    pub requested: bool,
    /// Unit of the values.
    pub unit: Unit,
    /// The source; `None` when not counted.
    pub rung: Option<Rung>,
    /// Who counted; `None` when not counted.
    pub provenance: Option<Provenance>,
    /// What the values cover.
    pub scope: Scope,
    /// The modes that they cover; `None` where modes mean nothing.
    pub modes: Option<Modes>,
    /// What the name resolved to.
    pub resolution: Option<String>,
    /// The better sources that were not used, and why.
    pub skipped: Vec<Skipped>,
    /// What a reader should know.
    pub notes: Vec<String>,
    /// The worst state of all values.
    pub verdict: Verdict,
    /// Why the verdict is not exact; `None` when it is.
    pub reason: Option<String>,
    /// Over the runs that count.
    pub statistics: Statistics,
    /// The value of each run that counts and had the event in its pass.
    pub values: Vec<RunValue>,
    /// For hybrids: each core PMU.
    pub parts: Vec<PartSummary>,
}

impl LineSummary {
    /// Whether it satisfies `--strict`.
    pub fn is_strict(&self) -> bool {
        let trusted = [Provenance::Hardware, Provenance::Kernel, Provenance::Counted];
        self.verdict == Verdict::Exact && self.provenance.is_some_and(|who| trusted.contains(&who))
    }
}

/// The value of one event in one run.
#[derive(Clone, PartialEq, Debug)]
pub struct RunValue {
    /// Number of the run, from 0.
    pub run: u32,
    /// Its pass.
    pub pass: usize,
    /// The value in the event's unit; `None` when there is none.
    pub value: Option<f64>,
    /// The count behind it.
    pub count: Count,
}

/// One core PMU of a hybrid, over all runs.
#[derive(Clone, PartialEq, Debug)]
pub struct PartSummary {
    /// The PMU's name.
    pub pmu: String,
    /// Share of the enabled time that was spent on it, 0 to 1, over all runs.
    pub share: f64,
    /// The worst state of all values.
    pub verdict: Verdict,
    /// Why the verdict is not exact.
    pub reason: Option<String>,
    /// Over the runs that count.
    pub statistics: Statistics,
}

/// The scope that a report's target asks for; a command is counted with all its descendants.
pub fn asked_scope(report: &Report) -> Scope {
    match &report.target {
        Some(Target::ThisThread | Target::Thread(_)) => Scope::Thread,
        Some(Target::Process { inherit: false, .. }) => Scope::Process,
        Some(Target::Cpus(_)) => Scope::Cpus,
        Some(Target::Cgroup { .. }) => Scope::Cgroup,
        _ => Scope::Tree,
    }
}

/// Summarises a report in the scope of its target.
pub fn summarise(report: &Report) -> Summary {
    summarise_as(report, asked_scope(report))
}

/// Summarises a report in a scope that the caller knows better, as with all CPUs of a system.
///
/// Runs that were dropped do not enter the statistics, except when there is no other.
pub fn summarise_as(report: &Report, asked: Scope) -> Summary {
    let kept: Vec<&Run> = report.runs.iter().filter(|run| run.dropped_because.is_none()).collect();
    let only_dropped = kept.is_empty() && !report.runs.is_empty();
    let runs = if only_dropped { report.runs.iter().collect() } else { kept };
    let lines: Vec<LineSummary> = (0..report.plan.lines.len())
        .map(|index| {
            let slot = SlotId(index);
            line_summary(&report.plan.lines[index], slot, &runs_with(report, &runs, slot), asked)
        })
        .collect();
    let derived = derive(&lines, &runs);
    Summary { scope: asked, lines, derived, dropped: dropped(report), only_dropped }
}

fn dropped(report: &Report) -> Vec<DroppedRun> {
    let dropped = |run: &Run| run.dropped_because.clone().map(|reason| DroppedRun { run: run.index, reason });
    report.runs.iter().filter_map(dropped).collect()
}

/// The runs whose pass holds the slot.
fn runs_with<'a>(report: &Report, runs: &[&'a Run], slot: SlotId) -> Vec<&'a Run> {
    let holds = |run: &&&Run| {
        let pass = report.plan.passes.get(run.pass);
        pass.is_some_and(|pass| pass.slots.iter().any(|held| held.id == slot))
    };
    runs.iter().filter(holds).copied().collect()
}

fn line_summary(line: &PlanLine, slot: SlotId, runs: &[&Run], asked: Scope) -> LineSummary {
    let candidate = line.candidate();
    let scale = candidate.map_or(1.0, |candidate| candidate.scale);
    let values: Vec<RunValue> = runs.iter().map(|run| run_value(line, slot, run, asked, scale)).collect();
    let (verdict, reason) = judge(line, values.iter().map(|value| &value.count));
    let statistics = Statistics::of_all(&values.iter().map(|value| value.value).collect::<Vec<_>>());
    let widest = candidate.and_then(|candidate| candidate.widest);
    LineSummary {
        slot,
        name: label(line),
        event: line.event.name.clone(),
        requested: line.event.requested,
        unit: line.event.unit.clone(),
        rung: candidate.map(|candidate| candidate.rung),
        provenance: candidate.map(|candidate| candidate.provenance),
        scope: widest.map_or(asked, |widest| widest.max(asked)),
        modes: effective_modes(line),
        resolution: candidate.map(|candidate| candidate.resolution.clone()),
        skipped: line.skipped.clone(),
        notes: line.event.notes.clone(),
        verdict,
        reason,
        statistics,
        values,
        parts: parts(line, slot, runs, asked, scale),
    }
}

fn run_value(line: &PlanLine, slot: SlotId, run: &Run, asked: Scope, scale: f64) -> RunValue {
    let count = settle(line, &run.reading, slot, asked);
    let value = count.value().map(|value| value as f64 * scale);
    RunValue { run: run.index, pass: run.pass, value, count }
}

/// The worst count, and its reason; of equally bad ones, the one that was observed least.
fn judge<'a>(line: &PlanLine, counts: impl ExactSizeIterator<Item = &'a Count>) -> (Verdict, Option<String>) {
    let runs = counts.len();
    if let Outcome::NotCounted(count) = &line.outcome {
        return (count.verdict(), count.reason());
    }
    let mut bad: Vec<&Count> = counts.filter(|count| count.verdict() != Verdict::Exact).collect();
    bad.sort_by(|a, b| {
        let share = |count: &Count| count.observed_share().unwrap_or(0.0);
        b.verdict().cmp(&a.verdict()).then(share(a).total_cmp(&share(b)))
    });
    match bad.first() {
        None if runs == 0 => (Verdict::NotCounted, Some("no run counted it".to_owned())),
        None => (Verdict::Exact, None),
        Some(worst) => {
            let same = bad.iter().filter(|count| count.verdict() == worst.verdict()).count();
            (worst.verdict(), worst.reason().map(|reason| in_some_runs(reason, same, runs)))
        }
    }
}

fn in_some_runs(reason: String, same: usize, runs: usize) -> String {
    if same == runs { reason } else { format!("{reason} (in {same} of {runs} runs)") }
}

fn parts(line: &PlanLine, slot: SlotId, runs: &[&Run], asked: Scope, scale: f64) -> Vec<PartSummary> {
    let per_run: Vec<Vec<PartCount>> =
        runs.iter().map(|run| by_part(line, &run.reading, slot, asked)).collect();
    let mut keys: Vec<(usize, &str)> =
        per_run.iter().flatten().map(|part| (part.part, part.pmu.as_str())).collect();
    keys.sort_unstable();
    keys.dedup();
    keys.into_iter().map(|(part, pmu)| part_summary(part, pmu, &per_run, scale)).collect()
}

fn part_summary(part: usize, pmu: &str, per_run: &[Vec<PartCount>], scale: f64) -> PartSummary {
    let counts: Vec<&PartCount> =
        per_run.iter().flatten().filter(|count| count.part == part && count.pmu == pmu).collect();
    let values: Vec<Option<f64>> =
        counts.iter().map(|count| count.count.value().map(|value| value as f64 * scale)).collect();
    let sum = |time: fn(&PartCount) -> u64| counts.iter().map(|count| time(count) as f64).sum::<f64>();
    let worst = counts.iter().map(|count| &count.count).max_by_key(|count| count.verdict());
    PartSummary {
        pmu: pmu.to_owned(),
        share: sum(|count| count.time_running_ns) / sum(|count| count.time_enabled_ns).max(1.0),
        verdict: worst.map_or(Verdict::NotCounted, |count| count.verdict()),
        reason: worst.and_then(|count| count.reason()),
        statistics: Statistics::of_all(&values),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cell, hardware, os_line, pass, report, run};
    use cyclometer_core::event::OsMetric;

    #[test]
    fn runs_are_summarised_event_by_event() {
        let report = report(
            vec![hardware("cycles", 1), os_line("wall_time", OsMetric::WallTime)],
            vec![pass(&[0, 1])],
            vec![run(0, 0, &[(0, 10), (1, 100)]), run(1, 0, &[(0, 20), (1, 100)])],
        );
        let summary = summarise(&report);
        let cycles = &summary.lines[0];
        assert_eq!((cycles.name.as_str(), cycles.verdict), ("cycles:u", Verdict::Exact));
        assert_eq!((cycles.statistics.n, cycles.statistics.mean), (2, Some(15.0)));
        assert_eq!(cycles.scope, Scope::Tree);
        assert_eq!(summary.lines[1].statistics.stddev, Some(0.0));
        assert!(summary.is_strict());
    }

    #[test]
    fn values_are_in_the_unit_of_the_event() {
        let mut line = hardware("energy", 1);
        line.event.candidates[0].scale = 0.5;
        let summary = summarise(&report(vec![line], vec![pass(&[0])], vec![run(0, 0, &[(0, 9)])]));
        assert_eq!(summary.lines[0].statistics.mean, Some(4.5));
        assert_eq!(summary.lines[0].values[0].count, Count::Exact(9));
    }

    #[test]
    fn dropped_runs_stay_out_and_are_told() {
        let mut runs = vec![run(0, 0, &[(0, 10)]), run(1, 0, &[(0, 999)])];
        runs[1].dropped_because = Some("interrupted".into());
        let summary = summarise(&report(vec![hardware("cycles", 1)], vec![pass(&[0])], runs));
        assert_eq!(summary.lines[0].statistics.max, Some(10.0));
        assert_eq!(summary.dropped, [DroppedRun { run: 1, reason: "interrupted".into() }]);
        assert!(!summary.only_dropped);
    }

    #[test]
    fn the_only_run_is_shown_although_it_was_dropped() {
        let mut runs = vec![run(0, 0, &[(0, 10)])];
        runs[0].dropped_because = Some("interrupted".into());
        let summary = summarise(&report(vec![hardware("cycles", 1)], vec![pass(&[0])], runs));
        assert_eq!(summary.lines[0].statistics.mean, Some(10.0));
        assert!(summary.only_dropped);
        assert!(!summary.is_strict());
    }

    #[test]
    fn runs_of_another_pass_are_no_values() {
        let lines = vec![hardware("cycles", 1), hardware("instructions", 1)];
        let runs = vec![run(0, 0, &[(0, 10)]), run(1, 1, &[(1, 20)]), run(2, 0, &[(0, 12)])];
        let summary = summarise(&report(lines, vec![pass(&[0]), pass(&[1])], runs));
        assert_eq!(summary.lines[0].statistics.mean, Some(11.0));
        assert_eq!(summary.lines[1].values.len(), 1);
        assert_eq!(summary.lines[1].verdict, Verdict::Exact);
    }

    #[test]
    fn a_run_without_a_value_takes_the_mean_and_says_so() {
        let mut runs = vec![run(0, 0, &[(0, 10)]), run(1, 0, &[(0, 10)])];
        runs[1].reading.cells = vec![cell(SlotId(0), 0, 50_000, 0)];
        let summary = summarise(&report(vec![hardware("cycles", 1)], vec![pass(&[0])], runs));
        let line = &summary.lines[0];
        assert_eq!((line.statistics.mean, line.verdict), (None, Verdict::NotCounted));
        assert!(line.reason.as_deref().unwrap().ends_with("(in 1 of 2 runs)"), "{:?}", line.reason);
        assert_eq!(line.values[1].value, None);
    }

    #[test]
    fn an_event_of_no_run_is_not_counted() {
        let summary = summarise(&report(vec![hardware("cycles", 1)], vec![pass(&[0])], vec![]));
        assert_eq!(summary.lines[0].verdict, Verdict::NotCounted);
        assert!(!summary.is_strict());
    }

    #[test]
    fn the_least_observed_run_gives_the_reason() {
        let mut runs = vec![run(0, 0, &[]), run(1, 0, &[])];
        runs[0].reading.cells = vec![cell(SlotId(0), 5, 10_000_000, 9_000_000)];
        runs[1].reading.cells = vec![cell(SlotId(0), 5, 10_000_000, 4_100_000)];
        let summary = summarise(&report(vec![hardware("cycles", 1)], vec![pass(&[0])], runs));
        assert_eq!(summary.lines[0].reason.as_deref(), Some("observed 41 % of the time"));
    }

    #[test]
    fn hybrid_parts_have_their_own_statistics() {
        let mut one = run(0, 0, &[]);
        for (part, pmu, raw, running) in [(0, "cpu_core", 70, 7_500_000), (1, "cpu_atom", 30, 2_500_000)] {
            let mut cell = cell(SlotId(0), raw, 10_000_000, running);
            (cell.at.part, cell.at.pmu) = (part, pmu.into());
            one.reading.cells.push(cell);
        }
        let summary = summarise(&report(vec![hardware("cycles", 2)], vec![pass(&[0])], vec![one]));
        let line = &summary.lines[0];
        assert_eq!((line.verdict, line.statistics.mean), (Verdict::Exact, Some(100.0)));
        let parts: Vec<_> = line.parts.iter().map(|p| (p.pmu.as_str(), p.share, p.statistics.mean)).collect();
        assert_eq!(parts, [("cpu_core", 0.75, Some(70.0)), ("cpu_atom", 0.25, Some(30.0))]);
    }
}

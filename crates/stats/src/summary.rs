//! A report summarised: one entry for each event, with statistics over its runs.

use cyclometer_core::plan::{Outcome, PlanLine};
use cyclometer_core::report::Run;
use cyclometer_core::{
    Candidate, Count, LaunchKind, MissingReason, Plan, Report, Rung, Scope, SlotId, Target, Verdict,
};

use crate::derived::{DerivedSummary, derive};
use crate::label::{effective_modes, label};
use crate::line_summary::{Determinism, LineSummary, MeanInterval, PartSummary, RunValue};
use crate::request::MetricRequest;
use crate::rotated_slices::RotatedSlices;
use crate::settle::{PartCount, SlotReading, Span, Whole};
use crate::statistics::Statistics;

/// The contents of a report, ready to be shown.
#[derive(Clone, PartialEq, Debug)]
pub struct Summary {
    /// The requested scope.
    pub scope: Scope,
    /// One entry for each event, in the order of the plan.
    pub lines: Vec<LineSummary>,
    /// Metrics that are derived from several events.
    pub derived: Vec<DerivedSummary>,
    /// The runs that do not enter the statistics.
    pub dropped: Vec<DroppedRun>,
    /// Whether every run would have been dropped: then the statistics are of the dropped runs, because there
    /// are no others.
    pub only_dropped: bool,
}

impl Summary {
    /// Whether every event is exact and comes from hardware, the kernel or an exact software count, and every
    /// requested metric has a value.
    ///
    /// This is the condition of `--strict`.
    pub fn is_strict(&self) -> bool {
        let metrics =
            self.derived.iter().filter(|metric| metric.asked).all(|metric| metric.verdict == Verdict::Exact);
        !self.only_dropped
            && !self.lines.is_empty()
            && self.lines.iter().all(LineSummary::is_strict)
            && metrics
    }
}

/// A run that does not enter the statistics.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DroppedRun {
    /// Number of the run, from 0.
    pub run: u32,
    /// The reason.
    pub reason: String,
}

/// The scope that a report's target asks for; a command is counted with all its descendants.
pub fn asked_scope(report: &Report) -> Scope {
    let target = match &report.target {
        Some(Target::Several(targets)) => targets.first(),
        target => target.as_ref(),
    };
    match target {
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

/// Summarises a report in a scope that the caller knows better, such as all CPUs of a system.
///
/// Dropped runs do not enter the statistics, unless there are no others.
pub fn summarise_as(report: &Report, asked: Scope) -> Summary {
    summarise_with(report, asked, &[])
}

/// Summarises a report, and computes the requested metrics.
pub fn summarise_with(report: &Report, asked: Scope, metrics: &[MetricRequest]) -> Summary {
    let kept: Vec<&Run> = report.runs.iter().filter(|run| run.dropped_because.is_none()).collect();
    let only_dropped = kept.is_empty() && !report.runs.is_empty();
    let runs = if only_dropped { report.runs.iter().collect() } else { kept };
    let lines: Vec<LineSummary> = (0..report.plan.lines.len())
        .map(|index| {
            let slot = SlotId(index);
            SlotRuns { plan: &report.plan, slot, runs: &runs_with(report, &runs, slot), asked }.summary()
        })
        .collect();
    let derived = derive(&lines, &runs, metrics, &report.plan);
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

/// The runs that have an event in their pass.
#[derive(Clone, Copy)]
struct SlotRuns<'a> {
    plan: &'a Plan,
    slot: SlotId,
    runs: &'a [&'a Run],
    /// The scope that the user asked for.
    asked: Scope,
}

impl<'a> SlotRuns<'a> {
    fn summary(self) -> LineSummary {
        let line = self.line();
        let candidate = line.candidate();
        let values: Vec<RunValue> = self.runs.iter().map(|run| self.value(run)).collect();
        let (verdict, reason) = self.judge(values.iter().map(|value| &value.count));
        let statistics = Statistics::of_all(&values.iter().map(|value| value.value).collect::<Vec<_>>());
        let widest = candidate.and_then(|candidate| candidate.widest);
        let is_soft = candidate.is_some_and(|candidate| candidate.rung == Rung::Soft);
        LineSummary {
            slot: self.slot,
            name: label(line),
            event: line.event.name.clone(),
            requested: line.event.requested,
            unit: line.event.unit.clone(),
            rung: candidate.map(|candidate| candidate.rung),
            provenance: candidate.map(|candidate| candidate.provenance),
            scope: widest.map_or(self.asked, |widest| widest.max(self.asked)),
            modes: effective_modes(line),
            resolution: candidate.map(|candidate| candidate.resolution.clone()),
            skipped: line.skipped.clone(),
            notes: self.notes(),
            launch: launch(self.runs, &values),
            determinism: is_soft.then(|| Determinism::of(&values)),
            interval: MeanInterval::of(&values, self.scale()).filter(|_| verdict == Verdict::Scaled),
            verdict,
            reason,
            not_planned: self.not_planned().cloned(),
            statistics,
            is_hybrid: candidate.is_some_and(Candidate::is_hybrid),
            parts: self.parts(&values),
            values,
        }
    }

    /// The reason why the plan does not count the event, if so.
    fn not_planned(self) -> Option<&'a MissingReason> {
        match &self.line().outcome {
            Outcome::NotCounted(count) => count.missing(),
            _ => None,
        }
    }

    fn line(self) -> &'a PlanLine {
        &self.plan.lines[self.slot.0]
    }

    /// The value of one raw count, in the event's unit.
    fn scale(self) -> f64 {
        self.line().candidate().map_or(1.0, |candidate| candidate.scale)
    }

    fn reading(self, run: &'a Run) -> SlotReading<'a> {
        SlotReading { line: self.line(), reading: &run.reading, slot: self.slot, asked: self.asked }
    }

    fn value(self, run: &Run) -> RunValue {
        let SlotRuns { slot, asked, .. } = self;
        let rotation_groups = RotatedSlices::of_run(self.plan, run);
        let rotated = rotation_groups.settle(&run.reading, slot, asked);
        let count = rotated.unwrap_or_else(|| self.reading(run).count(Span::Whole));
        let value = count.value().map(|value| value as f64 * self.scale());
        let half_width = match &count {
            Count::Scaled { interval, .. } => interval.half_width().map(|half| half as f64 * self.scale()),
            _ => None,
        };
        let rotation_group =
            rotation_groups.rotation_group(slot).filter(|_| count.verdict() != Verdict::Exact);
        RunValue { run: run.index, pass: run.pass, value, count, half_width, rotation_group }
    }

    fn notes(self) -> Vec<String> {
        let mut notes = self.line().event.notes.clone();
        notes.extend(self.plan.sharing.note(self.slot).map(str::to_owned));
        notes.extend(self.runs.iter().find_map(|run| RotatedSlices::of_run(self.plan, run).note(self.slot)));
        notes
    }

    /// The worst count, and its reason; of equally bad counts, the one that was observed least.
    fn judge<'c>(self, counts: impl ExactSizeIterator<Item = &'c Count>) -> (Verdict, Option<String>) {
        let runs = counts.len();
        if let Outcome::NotCounted(count) = &self.line().outcome {
            return (count.verdict(), count.reason());
        }
        let mut bad: Vec<&Count> = counts.filter(|count| count.verdict() != Verdict::Exact).collect();
        bad.sort_by(|a, b| {
            let share = |count: &Count| count.observed_share().unwrap_or(0.0);
            b.verdict().cmp(&a.verdict()).then(share(a).total_cmp(&share(b)))
        });
        match bad.first() {
            None if runs == 0 => (Verdict::NotCounted, Some(self.without_a_run().to_owned())),
            None => (Verdict::Exact, None),
            Some(worst) => {
                let same = bad.iter().filter(|count| count.verdict() == worst.verdict()).count();
                (worst.verdict(), worst.reason().map(|reason| in_some_runs(reason, same, runs)))
            }
        }
    }

    /// The reason why no run counted an event that could be counted.
    fn without_a_run(self) -> &'static str {
        let passes = &self.plan.passes;
        let held = passes.iter().any(|pass| pass.slots.iter().any(|held| held.id == self.slot));
        let translated = passes.iter().all(|pass| pass.launch == LaunchKind::Translated);
        match translated && !held && !passes.is_empty() {
            true => {
                "every run is translated, and a hardware counter would count the translation: use -r 2 or more"
            }
            false => "no run counted it",
        }
    }

    fn parts(self, values: &[RunValue]) -> Vec<PartSummary> {
        let whole = |value: &RunValue| match value.count.verdict() {
            Verdict::Exact => Whole::Exact,
            _ if value.rotation_group.is_some() => Whole::Rotated,
            _ => Whole::Inexact,
        };
        let of_run = |(run, value): (&&'a Run, &RunValue)| self.reading(run).parts(whole(value));
        let per_run: Vec<Vec<PartCount>> = self.runs.iter().zip(values).map(of_run).collect();
        let mut keys: Vec<(usize, Option<&str>)> =
            per_run.iter().flatten().map(|part| (part.part, part.pmu.as_deref())).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.into_iter().map(|(part, pmu)| part_summary(part, pmu, &per_run, self.scale())).collect()
    }
}

/// The launch kind of the runs that gave a value.
fn launch(runs: &[&Run], values: &[RunValue]) -> Option<LaunchKind> {
    let with_value = runs.iter().zip(values).find(|(_, value)| value.value.is_some());
    with_value.map(|(run, _)| run.launch)
}

fn in_some_runs(reason: String, same: usize, runs: usize) -> String {
    if same == runs { reason } else { format!("{reason} (in {same} of {runs} runs)") }
}

fn part_summary(part: usize, pmu: Option<&str>, per_run: &[Vec<PartCount>], scale: f64) -> PartSummary {
    let counts: Vec<&PartCount> =
        per_run.iter().flatten().filter(|count| count.part == part && count.pmu.as_deref() == pmu).collect();
    let values: Vec<Option<f64>> =
        counts.iter().map(|count| count.count.value().map(|value| value as f64 * scale)).collect();
    let sum = |time: fn(&PartCount) -> u64| counts.iter().map(|count| time(count) as f64).sum::<f64>();
    let worst = counts.iter().map(|count| &count.count).max_by_key(|count| count.verdict());
    PartSummary {
        pmu: pmu.map(str::to_owned),
        summand: counts.iter().find_map(|count| count.summand.clone()),
        share: sum(|count| count.time_running_ns) / sum(|count| count.time_enabled_ns).max(1.0),
        verdict: worst.map_or(Verdict::NotCounted, |count| count.verdict()),
        reason: worst.and_then(|count| count.reason()),
        statistics: Statistics::of_all(&values),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cell, hardware, os_line, pass, report, run, soft, translated};
    use cyclometer_core::Pass;
    use cyclometer_core::event::OsMetric;
    use cyclometer_core::plan::{TooLarge, TooLargeSum};

    fn soft_pass(slots: &[usize]) -> Pass {
        Pass { launch: LaunchKind::Translated, ..pass(slots) }
    }

    #[test]
    fn counts_come_from_translated_runs_and_times_from_native_ones() {
        let lines = vec![soft("calls"), os_line("wall_time", OsMetric::WallTime)];
        let runs = vec![
            translated(run(0, 0, &[(0, 7)])),
            translated(run(1, 0, &[(0, 7)])),
            run(2, 1, &[(1, 50)]),
            run(3, 1, &[(1, 70)]),
        ];
        let summary = summarise(&report(lines, vec![soft_pass(&[0]), pass(&[1])], runs));
        let (calls, wall) = (&summary.lines[0], &summary.lines[1]);
        assert_eq!((calls.statistics.n, calls.statistics.mean), (2, Some(7.0)));
        assert_eq!(calls.determinism, Some(Determinism::Deterministic));
        assert_eq!(calls.launch, Some(LaunchKind::Translated));
        assert_eq!((wall.statistics.n, wall.statistics.mean, wall.determinism), (2, Some(60.0), None));
        assert_eq!(wall.launch, Some(LaunchKind::Native));
        assert!(summary.is_strict());
    }

    #[test]
    fn a_sum_whose_summands_share_counters_says_so_behind_its_other_notes() {
        let mut lines = vec![hardware("s", 1), hardware("t", 1)];
        lines[0].event.notes.push("of its own".to_owned());
        let mut report = report(lines, vec![pass(&[0, 1])], vec![run(0, 0, &[(0, 7), (1, 8)])]);
        let too_large = |slot, treatment| TooLargeSum {
            slot: SlotId(slot),
            treatment,
            reason: "it is the sum of v and w".to_owned(),
        };
        report.plan.sharing.too_large =
            vec![too_large(0, TooLarge::KernelShares), too_large(1, TooLarge::NotCounted)];
        let summary = summarise(&report);
        assert_eq!(summary.lines[0].notes, ["of its own", "it is the sum of v and w"]);
        assert_eq!(summary.lines[1].notes, [""; 0]);
    }

    #[test]
    fn determinism_needs_two_values() {
        let determinism = |values: &[u64]| {
            let runs = (0..).zip(values).map(|(i, value)| translated(run(i, 0, &[(0, *value)])));
            let report = report(vec![soft("calls")], vec![soft_pass(&[0])], runs.collect());
            summarise(&report).lines[0].determinism
        };
        assert_eq!(determinism(&[7]), Some(Determinism::NotChecked));
        assert_eq!(determinism(&[7, 7, 7]), Some(Determinism::Deterministic));
        assert_eq!(determinism(&[7, 7, 8]), Some(Determinism::Varies));
    }

    #[test]
    fn the_time_of_a_translated_run_is_not_strictly_the_programs() {
        let lines = vec![soft("calls"), os_line("wall_time", OsMetric::WallTime), hardware("cycles", 1)];
        let runs = vec![translated(run(0, 0, &[(0, 7), (1, 50)]))];
        let summary = summarise(&report(lines, vec![soft_pass(&[0, 1])], runs));
        assert!(summary.lines[0].is_strict() && !summary.lines[1].is_strict());
        assert_eq!(summary.lines[1].verdict, Verdict::Exact);
        assert_eq!(summary.lines[2].verdict, Verdict::NotCounted);
        let reason = summary.lines[2].reason.as_deref().unwrap();
        assert!(reason.starts_with("every run is translated"), "{reason}");
    }

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
            (cell.at.part, cell.at.pmu) = (part, Some(pmu.into()));
            one.reading.cells.push(cell);
        }
        let summary = summarise(&report(vec![hardware("cycles", 2)], vec![pass(&[0])], vec![one]));
        let line = &summary.lines[0];
        assert_eq!((line.verdict, line.statistics.mean), (Verdict::Exact, Some(100.0)));
        let parts: Vec<_> =
            line.parts.iter().map(|p| (p.pmu.as_deref(), p.share, p.statistics.mean)).collect();
        assert_eq!(parts, [(Some("cpu_core"), 0.75, Some(70.0)), (Some("cpu_atom"), 0.25, Some(30.0))]);
    }
}

//! The values of one metric over the runs of one command, from a summary of cyclometer or from a file.

use cyclometer_core::{LaunchKind, Provenance, Verdict};

use super::LEAST_COUNTED;
use super::signed_rank::LEAST_PAIRS;
use crate::derived::DerivedSummary;
use crate::line_summary::{LineSummary, RunValue};
use crate::summary::Summary;

/// The value of one run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RunOf {
    /// Number of the run. In paired measurements, runs with the same number form a pair.
    pub run: u32,
    /// The value; `None` when there is none.
    pub value: Option<f64>,
}

/// A metric over runs, with the meaning of its values.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Series {
    /// The name as printed, with modes (`instructions:u`).
    pub name: String,
    /// The name as typed, without modes.
    pub event: String,
    /// Symbol of the unit.
    pub unit: String,
    /// The word of its scope; `None` where the source does not say.
    pub scope: Option<String>,
    /// The provenances, sorted, each once; `None` where the source does not say.
    pub provenances: Option<Vec<Provenance>>,
    /// How the command was run, as a word; `None` where the source does not say.
    pub launch: Option<String>,
    /// The reason why the metric is not exact, or has no value.
    pub reason: Option<String>,
    /// The values, each run once.
    pub values: Vec<RunOf>,
}

impl Series {
    /// Values of runs 0, 1, … without further facts.
    pub fn of(name: &str, values: &[f64]) -> Series {
        let runs = (0..).zip(values).map(|(run, value)| RunOf { run, value: Some(*value) });
        Series {
            name: name.to_owned(),
            event: name.split(':').next().unwrap_or(name).to_owned(),
            values: runs.collect(),
            ..Series::default()
        }
    }

    /// Sets the values of runs 0, 1, …, each with whether it is exact. If some are exact, the others are left
    /// out, because those runs were disturbed. If none is exact, the estimates are kept.
    #[must_use]
    pub fn with_runs(self, runs: impl IntoIterator<Item = (Option<f64>, bool)>) -> Series {
        let runs =
            (0..).zip(runs).map(|(run, (value, is_exact))| (RunOf { run, value: finite(value) }, is_exact));
        Series { values: undisturbed(runs.collect()), ..self }
    }

    /// Every metric of a summary: events, then derived metrics.
    pub fn all_of(summary: &Summary) -> Vec<Series> {
        let events = summary.lines.iter().map(of_line);
        events.chain(summary.derived.iter().map(of_derived)).collect()
    }

    /// The values of the runs that have one.
    pub fn present(&self) -> Vec<f64> {
        self.values.iter().filter_map(|run| run.value).collect()
    }

    /// The values of the runs that both series have.
    pub(super) fn paired_with(&self, other: &Series) -> Vec<(f64, f64)> {
        let pair = |own: &RunOf| {
            let counterpart = other.values.iter().find(|theirs| theirs.run == own.run)?;
            Some((own.value?, counterpart.value?))
        };
        self.values.iter().filter_map(pair).collect()
    }

    /// Whether the software PMU counted all of it.
    pub fn is_counted(&self) -> bool {
        self.provenances.as_deref() == Some(&[Provenance::Counted])
    }

    /// The one value of all runs, if there are enough runs to say that it repeats.
    pub fn constant(&self) -> Option<f64> {
        let least = if self.is_counted() { LEAST_COUNTED } else { LEAST_PAIRS };
        let values = self.present();
        let first = values.first()?;
        let repeats = self.values.iter().all(|run| run.value == Some(*first));
        (repeats && values.len() >= least).then_some(*first)
    }

    /// The property in which the meanings of two series differ; `None` if they mean the same.
    pub(super) fn differs_in_meaning(&self, other: &Series) -> Option<String> {
        if self.unit != other.unit {
            return Some(format!("A is in '{}', B in '{}'", self.unit, other.unit));
        }
        let scopes = differ(&self.scope, &other.scope);
        let scopes = scopes.map(|(a, b)| format!("A is of scope {a}, B of scope {b}"));
        let provenances = || {
            differ(&self.provenances, &other.provenances)
                .map(|(a, b)| format!("A is {}, B is {}", words(a), words(b)))
        };
        let launches = || {
            let launches = differ(&self.launch, &other.launch);
            launches.map(|(a, b)| format!("A is of {a} runs, B of {b} ones"))
        };
        scopes.or_else(provenances).or_else(launches)
    }

    /// The reason why no run has a value; `None` if one has.
    pub(super) fn without_values(&self, arm: &str) -> Option<String> {
        let why = || self.reason.clone().unwrap_or_else(|| "no run counted it".to_owned());
        self.present().is_empty().then(|| format!("{arm} has no value: {}", why()))
    }

    /// The reason why the values are less trustworthy.
    pub(super) fn caution(&self, arm: &str) -> Option<String> {
        self.reason.as_ref().map(|reason| format!("{arm}: {reason}"))
    }
}

/// Leaves out the runs that did not count an event all the time, if others did. If none did, the estimates
/// are kept.
fn undisturbed(runs: Vec<(RunOf, bool)>) -> Vec<RunOf> {
    let has_exact = runs.iter().any(|(_, is_exact)| *is_exact);
    let kept =
        |(run, is_exact): (RunOf, bool)| RunOf { value: run.value.filter(|_| !has_exact || is_exact), ..run };
    runs.into_iter().map(kept).collect()
}

fn of_line(line: &LineSummary) -> Series {
    let run = |value: &RunValue| {
        let is_exact = value.count.verdict() == Verdict::Exact;
        (RunOf { run: value.run, value: finite(value.value) }, is_exact)
    };
    Series {
        name: line.name.clone(),
        event: line.event.clone(),
        unit: line.unit.symbol().to_owned(),
        scope: Some(line.scope.word().to_owned()),
        provenances: line.provenance.map(|who| vec![who]),
        launch: line.launch.map(LaunchKind::word).map(str::to_owned),
        reason: cautioned(line.verdict, line.reason.as_deref()),
        values: undisturbed(line.values.iter().map(run).collect()),
    }
}

fn of_derived(metric: &DerivedSummary) -> Series {
    let mut who = metric.provenances.clone();
    who.sort_unstable();
    who.dedup();
    let values = metric.values.iter().map(|value| RunOf { run: value.run, value: finite(value.value) });
    Series {
        name: metric.name.clone(),
        event: metric.metric.clone(),
        unit: metric.unit.symbol().to_owned(),
        scope: None,
        provenances: (!who.is_empty()).then_some(who),
        launch: metric.is_of_the_translation.then(|| LaunchKind::Translated.word().to_owned()),
        reason: cautioned(metric.verdict, metric.reason.as_deref()),
        values: values.collect(),
    }
}

/// The values of a property of both series, if they differ.
fn differ<'a, T: PartialEq>(a: &'a Option<T>, b: &'a Option<T>) -> Option<(&'a T, &'a T)> {
    a.as_ref().zip(b.as_ref()).filter(|(a, b)| a != b)
}

/// `counted and hardware`
fn words(provenances: &[Provenance]) -> String {
    let mut words: Vec<&str> = provenances.iter().map(|who| who.word()).collect();
    words.sort_unstable();
    words.join(" and ")
}

fn cautioned(verdict: Verdict, reason: Option<&str>) -> Option<String> {
    (verdict != Verdict::Exact).then(|| format!("{verdict}: {}", reason.unwrap_or("no reason is known")))
}

fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summarise;
    use crate::testing::{cell, hardware, os_line, pass, report, run, soft, translated};
    use cyclometer_core::SlotId;
    use cyclometer_core::event::OsMetric;

    #[test]
    fn a_summary_gives_its_events_and_what_follows_from_them() {
        let lines = vec![
            os_line("wall_time", OsMetric::WallTime),
            os_line("user_time", OsMetric::UserTime),
            os_line("system_time", OsMetric::SystemTime),
        ];
        let runs = (0..3).map(|i| run(i, 0, &[(0, 100 + u64::from(i)), (1, 50), (2, 50)])).collect();
        let all = Series::all_of(&summarise(&report(lines, vec![pass(&[0, 1, 2])], runs)));
        let names: Vec<&str> = all.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["wall_time", "user_time", "system_time", "cpu_utilization"]);
        assert_eq!(all[0].present(), [100.0, 101.0, 102.0]);
        assert_eq!(
            (all[0].scope.as_deref(), all[0].provenances.as_deref()),
            (Some("tree"), Some(&[Provenance::Kernel][..]))
        );
    }

    #[test]
    fn counts_of_the_software_pmu_repeat_after_two_runs() {
        let runs = vec![translated(run(0, 0, &[(0, 7)])), translated(run(1, 0, &[(0, 7)]))];
        let mut counted = pass(&[0]);
        counted.launch = LaunchKind::Translated;
        let all = Series::all_of(&summarise(&report(vec![soft("calls")], vec![counted], runs)));
        assert_eq!((all[0].name.as_str(), all[0].constant()), ("calls:u", Some(7.0)));
        assert_eq!(Series::of("x", &[7.0, 7.0]).constant(), None);
    }

    #[test]
    fn runs_that_were_disturbed_are_left_out_where_others_were_not() {
        let disturbed = |index: u32| {
            let mut run = run(index, 0, &[]);
            run.reading.cells.push(cell(SlotId(0), 40, 1_000_000, 400_000));
            run
        };
        let of = |runs| {
            Series::all_of(&summarise(&report(vec![hardware("x", 1)], vec![pass(&[0])], runs))).remove(0)
        };
        let some = of(vec![run(0, 0, &[(0, 100)]), disturbed(1), run(2, 0, &[(0, 101)])]);
        assert_eq!(some.present(), [100.0, 101.0]);
        assert!(some.reason.unwrap().ends_with("(in 1 of 3 runs)"));
        let all = of(vec![disturbed(0), disturbed(1)]);
        assert_eq!(all.present(), [100.0, 100.0]);
    }

    #[test]
    fn values_at_hand_are_left_out_where_they_are_estimates_among_counts() {
        let of = |runs: &[(Option<f64>, bool)]| Series::default().with_runs(runs.iter().copied());
        let some = of(&[(Some(1.0), true), (Some(9.0), false), (None, false), (Some(2.0), true)]);
        let runs: Vec<_> = some.values.iter().map(|run| (run.run, run.value)).collect();
        assert_eq!(runs, [(0, Some(1.0)), (1, None), (2, None), (3, Some(2.0))]);
        assert_eq!(of(&[(Some(1.0), false), (Some(9.0), false)]).present(), [1.0, 9.0]);
        assert_eq!(of(&[(Some(f64::NAN), true)]).present(), []);
    }

    #[test]
    fn runs_pair_by_their_number() {
        let a = Series::of("x", &[1.0, 2.0, 3.0]);
        let mut b = Series::of("x", &[10.0, 20.0, 30.0]);
        b.values[1].value = None;
        b.values[2].run = 9;
        assert_eq!(a.paired_with(&b), [(1.0, 10.0)]);
    }
}

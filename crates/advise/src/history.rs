//! Which run of many is unlike the others, and in which counters.
//!
//! Each counter of each run is compared with the *other* runs: its distance from their median, in standard
//! deviations by their median absolute deviation, on a logarithmic scale. A run is unlike the others if a
//! distance is beyond a threshold that grows with the number of runs and counters (Bonferroni), for
//! distributions with tails as heavy as those of Student's t with 4 degrees of freedom.
//!
//! The false-alarm rate is stated for a whole history: the probability that any of its runs is called
//! unlike the others although all come from one distribution. [`ALARM_RATE`] is the aim; a test simulates
//! histories with normal, heavy and mildly skewed tails, and small counts. Counters with two usual values
//! or a long tail have more alarms. [`History::held_out`] measures the rate on the runs at hand.
//!
//! # Source
//!
//! B. Iglewicz and D. Hoaglin, "How to Detect and Handle Outliers", ASQC 1993 (distances by the median).
//! W. T. Shaw, "Sampling Student's T distribution", 2006 (the quantile with 4 degrees of freedom).

use std::collections::{BTreeMap, BTreeSet};

/// The false-alarm rate that thresholds aim at, for a whole history.
pub const ALARM_RATE: f64 = 0.05;

/// Fewest runs of a history.
pub const LEAST_RUNS: usize = 8;

/// Standard deviations of a normal distribution in median absolute deviations.
const MAD_TO_SIGMA: f64 = 1.4826;

/// The smallest standard deviation of a counter, on the logarithmic scale: smaller changes matter to nobody.
const LEAST_SIGMA: f64 = 1e-5;

/// The counters of one run.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct HistoryRun {
    /// The name of the run: that of its file.
    pub name: String,
    /// Its counters, by name.
    pub values: BTreeMap<String, f64>,
    /// Its counters without a value that can be compared: those that were not counted, and times under
    /// translation.
    pub lacking: BTreeSet<String>,
}

/// A counter of a run that is unlike that of the others.
#[derive(Clone, PartialEq, Debug)]
pub struct UnlikeCounter {
    /// Its name.
    pub counter: String,
    /// The run's value.
    pub value: f64,
    /// The median of the others.
    pub median: f64,
    /// The distance from it in standard deviations.
    pub distance: f64,
}

/// A run that is unlike the others.
#[derive(Clone, PartialEq, Debug)]
pub struct UnlikeRun {
    /// The index of the run.
    pub run: usize,
    /// The counters, the most distant first.
    pub counters: Vec<UnlikeCounter>,
}

/// Many runs of one command.
#[derive(Clone, PartialEq, Debug)]
pub struct History {
    runs: Vec<HistoryRun>,
    /// The counters that all runs have.
    counters: Vec<String>,
    /// The counters that some runs lack.
    left_out: Vec<String>,
}

/// A history that cannot be judged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HistoryError {
    /// There are fewer than [`LEAST_RUNS`].
    TooFewRuns(usize),
    /// No counter is in all of them.
    NothingInCommon,
}

impl History {
    /// A history of these runs.
    ///
    /// # Errors
    ///
    /// Too few runs, or no counter that all of them have.
    pub fn new(runs: Vec<HistoryRun>) -> Result<History, HistoryError> {
        if runs.len() < LEAST_RUNS {
            return Err(HistoryError::TooFewRuns(runs.len()));
        }
        let names = runs.iter().flat_map(|run| run.values.keys().chain(&run.lacking));
        let mut names: Vec<&String> = names.collect();
        names.sort();
        names.dedup();
        let is_common = |name: &&String| runs.iter().all(|run| run.values.contains_key(*name));
        let (counters, left_out): (Vec<&String>, Vec<&String>) = names.into_iter().partition(is_common);
        if counters.is_empty() {
            return Err(HistoryError::NothingInCommon);
        }
        let (counters, left_out) =
            (counters.into_iter().cloned().collect(), left_out.into_iter().cloned().collect());
        Ok(History { runs, counters, left_out })
    }

    /// The runs.
    pub fn runs(&self) -> &[HistoryRun] {
        &self.runs
    }

    /// The counters that all runs have: these are judged.
    pub fn counters(&self) -> &[String] {
        &self.counters
    }

    /// The counters of which some runs have no value.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// The distance beyond which a counter is unlike the others.
    pub fn threshold(&self) -> f64 {
        threshold(self.runs.len(), self.counters.len())
    }

    /// The runs that are unlike the others, the most distant first.
    ///
    /// A run that was found is left out, and the others are judged again, so that it hides no other one.
    pub fn unlike(&self) -> Vec<UnlikeRun> {
        let mut left: Vec<usize> = (0..self.runs.len()).collect();
        let mut found: Vec<UnlikeRun> = Vec::new();
        while left.len() >= LEAST_RUNS.min(self.runs.len()) {
            let judged = left.iter().filter_map(|run| self.judge(*run, &left));
            let farthest = |unlike: &UnlikeRun| unlike.counters.first().map_or(0.0, |first| first.distance);
            let Some(worst) = judged.max_by(|one, other| farthest(one).total_cmp(&farthest(other))) else {
                break;
            };
            left.retain(|run| *run != worst.run);
            found.push(worst);
        }
        found
    }

    /// The runs that are not found, and would be called unlike the others if each was the only new one: their
    /// number, and the number of runs. It measures false alarms where the history is sound.
    pub fn held_out(&self) -> (usize, usize) {
        let found: Vec<usize> = self.unlike().iter().map(|unlike| unlike.run).collect();
        let rest: Vec<usize> = (0..self.runs.len()).filter(|run| !found.contains(run)).collect();
        // A single new run can raise alarms by its own counters only.
        let limit = threshold(1, self.counters.len());
        let is_alarm =
            |run: &&usize| self.distances(**run, &rest).iter().any(|(_, distance)| *distance > limit);
        (rest.iter().filter(is_alarm).count(), rest.len())
    }

    /// The counters of a run that are unlike those of the other ones of a set.
    fn judge(&self, run: usize, all: &[usize]) -> Option<UnlikeRun> {
        let limit = self.threshold();
        let mut counters: Vec<UnlikeCounter> = self
            .distances(run, all)
            .into_iter()
            .filter(|(_, distance)| *distance > limit)
            .map(|(counter, distance)| UnlikeCounter {
                counter: self.counters[counter].clone(),
                value: self.value(run, counter),
                median: median(
                    all.iter()
                        .filter(|other| **other != run)
                        .map(|other| self.value(*other, counter))
                        .collect(),
                ),
                distance,
            })
            .collect();
        counters.sort_by(|one, other| other.distance.total_cmp(&one.distance));
        (!counters.is_empty()).then_some(UnlikeRun { run, counters })
    }

    fn distances(&self, run: usize, all: &[usize]) -> Vec<(usize, f64)> {
        let distance = |counter: usize| {
            let others: Vec<f64> = all
                .iter()
                .filter(|other| **other != run)
                .map(|other| scaled(self.value(*other, counter)))
                .collect();
            distance(scaled(self.value(run, counter)), others, self.is_count(counter))
        };
        (0..self.counters.len()).map(|counter| (counter, distance(counter))).collect()
    }

    /// Whether all values are whole numbers: by one more or less, a small count is like the others.
    fn is_count(&self, counter: usize) -> bool {
        (0..self.runs.len()).all(|run| self.value(run, counter).fract() == 0.0)
    }

    fn value(&self, run: usize, counter: usize) -> f64 {
        self.runs[run].values[&self.counters[counter]]
    }
}

/// The logarithmic scale; 0 is a step of its own, and small counts lie close together.
fn scaled(value: f64) -> f64 {
    value.signum() * (1.0 + value.abs()).ln()
}

/// The distance of a value from others on the logarithmic scale; the standard deviation of counts is at least
/// one event.
fn distance(value: f64, others: Vec<f64>, is_count: bool) -> f64 {
    let middle = median(others.clone());
    let deviations: Vec<f64> = others.iter().map(|other| (other - middle).abs()).collect();
    let mean = deviations.iter().sum::<f64>() / deviations.len().max(1) as f64;
    // More than half of the values can be equal: then the mean deviation stands for the spread.
    let sigma = match median(deviations) * MAD_TO_SIGMA {
        zero if zero < LEAST_SIGMA => mean * (std::f64::consts::PI / 2.0).sqrt() * 2.0,
        sigma => sigma,
    };
    let one_event = if is_count { (-middle.abs()).exp() } else { 0.0 };
    (value - middle).abs() / sigma.max(LEAST_SIGMA).max(one_event)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    match n {
        0 => 0.0,
        _ if n % 2 == 1 => values[n / 2],
        _ => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

/// The distance that is exceeded with the probability [`ALARM_RATE`] by any of so many runs and counters.
fn threshold(runs: usize, counters: usize) -> f64 {
    let tail = ALARM_RATE / (2.0 * (runs * counters).max(1) as f64);
    // Few runs give an uncertain spread.
    let n = runs.max(LEAST_RUNS) as f64;
    quantile_4(tail) * (1.0 + 5.0 / n + 60.0 / (n * n))
}

/// The quantile of Student's t with 4 degrees of freedom that is exceeded with this probability.
fn quantile_4(tail: f64) -> f64 {
    let a = (4.0 * tail * (1.0 - tail)).sqrt();
    2.0 * ((a.acos() / 3.0).cos() / a - 1.0).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Random(u64);

    impl Random {
        fn unit(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut x = self.0;
            x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((x ^ x >> 31) >> 11) as f64 / (1_u64 << 53) as f64 + 1e-17
        }

        fn normal(&mut self) -> f64 {
            (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
        }

        /// Student's t with 4 degrees of freedom.
        fn heavy(&mut self) -> f64 {
            let squares: f64 = (0..4).map(|_| self.normal().powi(2)).sum();
            self.normal() / (squares / 4.0).sqrt()
        }
    }

    fn history(runs: usize, counters: usize, mut noise: impl FnMut() -> f64) -> History {
        let run = |n: usize| HistoryRun {
            name: format!("run {n}"),
            values: (0..counters)
                .map(|counter| (format!("c{counter}"), 1e6 * (0.02 * noise()).exp()))
                .collect(),
            lacking: BTreeSet::new(),
        };
        History::new((0..runs).map(run).collect()).unwrap()
    }

    fn small_counts(runs: usize, counters: usize, mut unit: impl FnMut() -> f64) -> History {
        let run = |n: usize| HistoryRun {
            name: format!("run {n}"),
            values: (0..counters)
                .map(|counter| (format!("c{counter}"), if unit() < 0.1 { 101.0 } else { 100.0 }))
                .collect(),
            lacking: BTreeSet::new(),
        };
        History::new((0..runs).map(run).collect()).unwrap()
    }

    #[test]
    fn false_alarms_of_whole_histories_stay_below_the_stated_rate() {
        let mut worst = 0;
        for (kind, skew) in [("normal", false), ("heavy", false), ("skewed", true), ("few", false)] {
            let mut random = Random(1);
            for (runs, counters) in [(8, 10), (20, 6)] {
                let mut alarms = 0;
                for _ in 0..300 {
                    let history = history(runs, counters, || match (kind, skew) {
                        ("heavy", _) => random.heavy(),
                        (_, true) => (0.4 * random.normal()).exp(),
                        _ => random.normal(),
                    });
                    let history = match kind {
                        // One event more than 100 now and then.
                        "few" => small_counts(runs, counters, || random.unit()),
                        _ => history,
                    };
                    alarms += usize::from(!history.unlike().is_empty());
                }
                worst = worst.max(alarms);
            }
        }
        // Two standard errors above the stated rate.
        assert!(worst <= 23, "{worst} of 300");
    }

    #[test]
    fn a_small_count_that_differs_by_one_event_is_no_alarm_and_a_ratio_is_judged_as_before() {
        let history = |values: [f64; 10]| {
            let run = |(n, value): (usize, f64)| HistoryRun {
                name: n.to_string(),
                values: BTreeMap::from([("c".to_owned(), value)]),
                lacking: BTreeSet::new(),
            };
            History::new(values.into_iter().enumerate().map(run).collect()).unwrap()
        };
        let mut faults = [100.0; 10];
        faults[3] = 101.0;
        assert!(history(faults).unlike().is_empty());
        faults[3] = 200.0;
        assert_eq!(history(faults).unlike()[0].run, 3);
        let mut ratios = [0.5; 10];
        ratios[3] = 0.9;
        assert_eq!(history(ratios).unlike()[0].run, 3);
    }

    #[test]
    fn a_run_that_is_unlike_the_others_is_named_with_its_counters() {
        let mut random = Random(5);
        let mut history = history(20, 6, || random.normal());
        *history.runs[7].values.get_mut("c3").unwrap() *= 1.5;
        let found = history.unlike();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].run, 7);
        assert_eq!(found[0].counters[0].counter, "c3");
        assert!(found[0].counters[0].value > 1.3 * found[0].counters[0].median);
    }

    #[test]
    fn one_run_does_not_hide_another() {
        let mut random = Random(6);
        let mut history = history(16, 3, || random.normal());
        *history.runs[2].values.get_mut("c0").unwrap() *= 100.0;
        *history.runs[9].values.get_mut("c0").unwrap() *= 2.0;
        let found: Vec<usize> = history.unlike().iter().map(|unlike| unlike.run).collect();
        assert_eq!(found, [2, 9]);
    }

    #[test]
    fn an_exact_counter_that_differs_once_is_found_and_equal_runs_are_not() {
        let mut history = history(10, 2, || 0.0);
        assert!(history.unlike().is_empty());
        *history.runs[4].values.get_mut("c1").unwrap() *= 1.001;
        assert_eq!(history.unlike()[0].run, 4);
    }

    #[test]
    fn few_runs_and_runs_without_a_common_counter_are_refused() {
        assert_eq!(History::new(Vec::new()), Err(HistoryError::TooFewRuns(0)));
        let run = |n: usize| HistoryRun {
            name: n.to_string(),
            values: BTreeMap::from([(n.to_string(), 1.0)]),
            lacking: BTreeSet::new(),
        };
        assert_eq!(History::new((0..9).map(run).collect()), Err(HistoryError::NothingInCommon));
    }

    #[test]
    fn counters_that_some_runs_lack_are_left_out_and_named() {
        let run = |n: usize| {
            let mut values = BTreeMap::from([("a".to_owned(), 1.0)]);
            if n == 0 {
                values.insert("b".to_owned(), 1.0);
            }
            // No run has a value of this one.
            let lacking = BTreeSet::from(["c".to_owned()]);
            HistoryRun { name: n.to_string(), values, lacking }
        };
        let history = History::new((0..9).map(run).collect()).unwrap();
        assert_eq!(
            (history.counters(), history.left_out()),
            (&["a".to_owned()][..], &["b", "c"].map(str::to_owned)[..])
        );
    }

    #[test]
    fn the_quantile_is_that_of_the_tables() {
        assert!((quantile_4(0.025) - 2.776).abs() < 1e-3);
        assert!((quantile_4(0.005) - 4.604).abs() < 1e-3);
    }
}

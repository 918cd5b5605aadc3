//! Is B different from A? Paired and unpaired comparison of every metric of two measurements.
//!
//! A *deterministic* metric is compared exactly. For any other metric, the estimate is Hodges and Lehmann's
//! median of Walsh averages over the logarithms of the pairs' ratios. Its interval is the exact signed-rank
//! interval. Benjamini and Hochberg's rates over all metrics limit the share of false alarms. A metric has
//! `changed` only if its rate is below 5 % *and* its interval lies beyond the practical threshold. It is the
//! `same` only if its interval lies within the threshold; everything else is inconclusive.

mod gate;
mod rank_sum;
mod series;
mod several;
mod signed_rank;
#[cfg(test)]
mod simulation;

use std::collections::HashMap;

pub use gate::{FailedRuns, Gate, GateError, GateOutcome, GateSide, Ruling};
pub use rank_sum::shift;
pub use series::{RunOf, Series};
pub use several::{drift, false_discovery_rates};
pub use signed_rank::{LEAST_PAIRS, LEVEL, MOST_PAIRS, PairedEstimate, SignedRank, paired};

use crate::statistics::Statistics;

/// The practical threshold by default, as a share: smaller changes do not matter.
pub const THRESHOLD: f64 = 0.005;

/// Correlation of level and order of pairs beyond which drift is reported.
pub const DRIFT_TOLD: f64 = 0.5;

/// The rate of false discoveries below which a metric can have changed.
const FALSE_DISCOVERIES: f64 = 0.05;

/// Fewest equal values of each side that make a metric deterministic, if the software PMU counted it.
const LEAST_COUNTED: usize = 2;

/// How two measurements relate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Design {
    /// Runs of the same number were made one right after the other, in random order.
    Paired,
    /// The measurements were made at different times: nothing protects against drift between them.
    Apart,
}

/// The parameters of a comparison.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Question {
    /// How the measurements relate.
    pub design: Design,
    /// The practical threshold, as a share.
    pub threshold: f64,
}

/// How a change was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Basis {
    /// Every value of each side is the same: their difference is exact.
    Deterministic,
    /// The change was estimated from this many pairs of runs.
    Pairs(usize),
    /// The change was estimated from this many runs of each, without pairs.
    Apart(usize, usize),
}

impl Basis {
    /// The word used in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Basis::Deterministic => "deterministic",
            Basis::Pairs(_) => "pairs",
            Basis::Apart(..) => "apart",
        }
    }
}

/// A change from A to B.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MetricChange {
    /// Whether the change is a share of A (0.01 is +1 %). Otherwise it is in the unit of the metric, because
    /// A or B has values that are not positive.
    pub is_relative: bool,
    /// The best estimate.
    pub estimate: f64,
    /// The 95 % confidence interval; its ends are equal where the change is exact. `None` if nothing can be
    /// said at 95 %.
    pub interval: Option<(f64, f64)>,
}

impl MetricChange {
    fn exact(a: f64, b: f64) -> MetricChange {
        let is_relative = a > 0.0 && b > 0.0;
        let estimate = if is_relative { (b - a) / a } else { b - a };
        MetricChange { is_relative, estimate, interval: Some((estimate, estimate)) }
    }
}

/// The conclusion about a metric.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum ComparisonFinding {
    /// The metric differs by more than the threshold.
    Changed,
    /// Any difference of the metric is smaller than the threshold.
    Same,
    /// The runs do not decide it.
    Inconclusive,
    /// Values are missing, or the two sides do not mean the same.
    NotCompared,
}

impl ComparisonFinding {
    /// The word used in JSON.
    pub fn word(self) -> &'static str {
        match self {
            ComparisonFinding::Changed => "changed",
            ComparisonFinding::Same => "same",
            ComparisonFinding::Inconclusive => "inconclusive",
            ComparisonFinding::NotCompared => "not_compared",
        }
    }
}

/// One metric of B against the same of A.
#[derive(Clone, PartialEq, Debug)]
pub struct Compared {
    /// Its name as printed.
    pub name: String,
    /// Its name without modes.
    pub event: String,
    /// Symbol of its unit.
    pub unit: String,
    /// Its values in A.
    pub a: Statistics,
    /// Its values in B.
    pub b: Statistics,
    /// The basis of the change; `None` where no change was computed.
    pub basis: Option<Basis>,
    /// The change; `None` where there is nothing to compare.
    pub change: Option<MetricChange>,
    /// The probability of a difference at least this large if there were none; `None` where nothing was
    /// tested.
    pub p: Option<f64>,
    /// The same, adjusted for the number of metrics: the rate of false discoveries.
    pub q: Option<f64>,
    /// The conclusion.
    pub finding: ComparisonFinding,
    /// The reason why nothing more can be said, or why the values are less trustworthy; `None` where there is
    /// nothing to add.
    pub reason: Option<String>,
    /// Rank correlation of level and order of the pairs; `None` with few pairs, or with pairs out of order.
    pub drift: Option<f64>,
}

/// Compares every metric of `a` with the same metric of each of `others`, in the order of `a`. Metrics that
/// only another measurement has come last. The rates of false discoveries are over all metrics of all
/// comparisons.
pub fn compare(a: &[Series], others: &[&[Series]], question: Question) -> Vec<Vec<Compared>> {
    let mut tables = SignedRankTables::default();
    let mut all: Vec<Vec<Compared>> =
        others.iter().map(|b| compare_one(a, b, question, &mut tables)).collect();
    let tested: Vec<&mut Compared> = all.iter_mut().flatten().filter(|one| one.p.is_some()).collect();
    let p: Vec<f64> = tested.iter().filter_map(|one| one.p).collect();
    for (one, q) in tested.into_iter().zip(false_discovery_rates(&p)) {
        one.q = Some(q);
        one.finding = judge(one, question.threshold);
        one.reason = one.reason.take().or_else(|| among_many(one, p.len(), question.threshold));
    }
    all
}

/// Compares one metric, as if there were no others.
pub fn compare_single(a: &Series, b: &Series, question: Question) -> Compared {
    let mut one = compare_series(a, b, question, &mut SignedRankTables::default());
    one.q = one.p;
    if one.p.is_some() {
        one.finding = judge(&one, question.threshold);
    }
    one
}

fn compare_one(
    a: &[Series],
    b: &[Series],
    question: Question,
    tables: &mut SignedRankTables,
) -> Vec<Compared> {
    let find = |all: &[Series], name: &str| all.iter().position(|series| series.name == name);
    let both = a.iter().map(|first| match find(b, &first.name) {
        Some(second) => compare_series(first, &b[second], question, tables),
        None => missing(
            first,
            Statistics::of(&first.present()),
            Statistics::default(),
            Some("B does not have it"),
        ),
    });
    let mut all: Vec<Compared> = both.collect();
    let only_b = b.iter().filter(|series| find(a, &series.name).is_none());
    all.extend(only_b.map(|second| {
        missing(second, Statistics::default(), Statistics::of(&second.present()), Some("A does not have it"))
    }));
    all
}

/// Signed-rank distributions, each computed once.
#[derive(Default)]
struct SignedRankTables(HashMap<usize, SignedRank>);

impl SignedRankTables {
    fn of(&mut self, pairs: usize) -> &SignedRank {
        self.0.entry(pairs).or_insert_with(|| SignedRank::of(pairs))
    }
}

fn missing(series: &Series, a: Statistics, b: Statistics, reason: Option<&str>) -> Compared {
    Compared {
        name: series.name.clone(),
        event: series.event.clone(),
        unit: series.unit.clone(),
        a,
        b,
        basis: None,
        change: None,
        p: None,
        q: None,
        finding: ComparisonFinding::NotCompared,
        reason: reason.map(str::to_owned),
        drift: None,
    }
}

fn compare_series(a: &Series, b: &Series, question: Question, tables: &mut SignedRankTables) -> Compared {
    let (of_a, of_b) = (a.present(), b.present());
    let empty = missing(a, Statistics::of(&of_a), Statistics::of(&of_b), None);
    if let Some(reason) = a.differs_in_meaning(b) {
        return Compared { reason: Some(reason), ..empty };
    }
    if let Some(reason) = a.without_values("A").or_else(|| b.without_values("B")) {
        return Compared { reason: Some(reason), ..empty };
    }
    let reason = a.caution("A").or_else(|| b.caution("B"));
    if let (Some(first), Some(second)) = (a.constant(), b.constant()) {
        let change = MetricChange::exact(first, second);
        let finding = if first == second { ComparisonFinding::Same } else { ComparisonFinding::Changed };
        let (basis, change) = (Some(Basis::Deterministic), Some(change));
        return Compared { basis, change, finding, reason, ..empty };
    }
    let compared = match question.design {
        Design::Paired => of_pairs(a, b, empty, tables),
        Design::Apart => of_samples(&of_a, &of_b, empty),
    };
    // Few runs do not hide that a value is scaled.
    let reasons: Vec<String> = compared.reason.into_iter().chain(reason).collect();
    Compared { reason: (!reasons.is_empty()).then(|| reasons.join("; ")), ..compared }
}

/// Logarithms of ratios if all values are positive, otherwise differences.
struct Scale {
    is_relative: bool,
}

impl Scale {
    fn of<'a>(mut values: impl Iterator<Item = &'a f64>) -> Scale {
        Scale { is_relative: values.all(|value| *value > 0.0) }
    }

    fn on(&self, value: f64) -> f64 {
        if self.is_relative { value.ln() } else { value }
    }

    fn change(&self, found: &PairedEstimate) -> MetricChange {
        let back = |distance: f64| if self.is_relative { distance.exp_m1() } else { distance };
        let interval = found.interval.map(|(low, high)| (back(low), back(high)));
        MetricChange { is_relative: self.is_relative, estimate: back(found.estimate), interval }
    }
}

fn of_pairs(a: &Series, b: &Series, empty: Compared, tables: &mut SignedRankTables) -> Compared {
    let pairs = a.paired_with(b);
    let n = pairs.len();
    if n > MOST_PAIRS {
        let reason = format!("{n} pairs: at most {MOST_PAIRS} are compared");
        return Compared { reason: Some(reason), ..empty };
    }
    let scale = Scale::of(pairs.iter().flat_map(|(a, b)| [a, b]));
    let differences: Vec<f64> = pairs.iter().map(|(a, b)| scale.on(*b) - scale.on(*a)).collect();
    let levels: Vec<f64> = pairs.iter().map(|(a, b)| scale.on(*b) + scale.on(*a)).collect();
    let Some(found) = paired(&differences, tables.of(n)) else {
        return Compared { reason: Some("no run of A has its counterpart in B".to_owned()), ..empty };
    };
    Compared {
        basis: Some(Basis::Pairs(n)),
        drift: drift(&levels).filter(|_| n >= LEAST_PAIRS),
        ..told(empty, &found, &scale, &too_few(a, n))
    }
}

fn of_samples(a: &[f64], b: &[f64], empty: Compared) -> Compared {
    let scale = Scale::of(a.iter().chain(b));
    let on = |values: &[f64]| values.iter().map(|value| scale.on(*value)).collect::<Vec<_>>();
    let Some(found) = shift(&on(a), &on(b)) else { return empty };
    let fewer = a.len().min(b.len());
    let basis = Some(Basis::Apart(a.len(), b.len()));
    Compared { basis, ..told(empty, &found, &scale, &few(fewer, "run")) }
}

/// The reason why nothing is said at 95 %: `5 pairs: …`
fn few(n: usize, what: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {what}{plural}: an interval at 95 % needs at least 6")
}

/// The same for pairs; the reason mentions counts that should repeat and do not.
fn too_few(a: &Series, n: usize) -> String {
    match a.is_counted() && n > 1 {
        true => format!("the {n} counted runs differ: a statement at 95 % needs 6 of them"),
        false => few(n, "pair"),
    }
}

fn told(empty: Compared, found: &PairedEstimate, scale: &Scale, too_few: &str) -> Compared {
    let reason = found.interval.is_none().then(|| too_few.to_owned());
    Compared {
        change: Some(scale.change(found)),
        p: found.p,
        finding: ComparisonFinding::Inconclusive,
        reason,
        ..empty
    }
}

/// The note for a metric that would have changed if it were the only one.
fn among_many(one: &Compared, tests: usize, threshold: f64) -> Option<String> {
    let alone = Compared { q: one.p, ..one.clone() };
    let is_open = one.finding == ComparisonFinding::Inconclusive
        && judge(&alone, threshold) == ComparisonFinding::Changed;
    is_open.then(|| format!("a change is likely, but not certain among {tests} tests: more pairs would tell"))
}

/// The conclusion from interval and rate of a metric that was tested.
fn judge(one: &Compared, threshold: f64) -> ComparisonFinding {
    let Some((change, (low, high))) = one.change.and_then(|change| Some((change, change.interval?))) else {
        return one.finding;
    };
    let (up, down) = match change.is_relative {
        // A change by the factor 1 + t is as large as one by the factor 1 / (1 + t).
        true => (threshold, -threshold / (1.0 + threshold)),
        false => {
            let absolute = threshold * one.a.median.unwrap_or_default().abs();
            (absolute, -absolute)
        }
    };
    let is_beyond = low > up || high < down;
    // If most values are zero, most differences are zero too, and the interval says nothing about the others.
    let is_within = low >= down && high <= up && (change.is_relative || up > 0.0);
    match one.q {
        Some(q) if q < FALSE_DISCOVERIES && is_beyond => ComparisonFinding::Changed,
        _ if is_within => ComparisonFinding::Same,
        _ => ComparisonFinding::Inconclusive,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_core::Provenance;

    const PAIRED: Question = Question { design: Design::Paired, threshold: THRESHOLD };

    fn series(name: &str, values: &[f64]) -> Series {
        Series { unit: "ns".to_owned(), ..Series::of(name, values) }
    }

    fn counted(values: &[f64]) -> Series {
        Series { provenances: Some(vec![Provenance::Counted]), ..series("instructions:u", values) }
    }

    fn one(a: Series, b: Series) -> Compared {
        compare(&[a], &[&[b]], PAIRED).remove(0).remove(0)
    }

    /// Twenty values around 1000 that differ by up to 0.5 %, in no order.
    fn noisy(factor: f64) -> Vec<f64> {
        (0..20u32).map(|i| factor * (1000.0 + f64::from(i * 7 % 20) / 2.0 - 5.0)).collect()
    }

    #[test]
    fn a_great_change_is_found_and_none_is_the_same() {
        let up = one(series("t", &noisy(1.0)), series("t", &noisy(1.1)));
        assert_eq!((up.finding, up.basis), (ComparisonFinding::Changed, Some(Basis::Pairs(20))));
        assert!((up.change.unwrap().estimate - 0.1).abs() < 1e-9);
        let same = one(series("t", &noisy(1.0)), series("t", &noisy(1.0)));
        assert_eq!((same.finding, same.p), (ComparisonFinding::Same, Some(1.0)));
    }

    #[test]
    fn a_change_below_the_threshold_is_the_same_however_sure_it_is() {
        let small = one(series("t", &noisy(1.0)), series("t", &noisy(1.002)));
        assert!(small.p.unwrap() < 0.001);
        assert_eq!(small.finding, ComparisonFinding::Same);
    }

    #[test]
    fn an_interval_across_the_threshold_is_inconclusive() {
        let mut b = noisy(1.004);
        b.iter_mut().enumerate().for_each(|(i, value)| *value *= if i % 2 == 0 { 1.01 } else { 0.99 });
        assert_eq!(one(series("t", &noisy(1.0)), series("t", &b)).finding, ComparisonFinding::Inconclusive);
    }

    #[test]
    fn counts_that_repeat_are_compared_exactly() {
        let changed = one(counted(&[1000.0, 1000.0]), counted(&[1001.0, 1001.0]));
        assert_eq!(
            (changed.finding, changed.basis),
            (ComparisonFinding::Changed, Some(Basis::Deterministic))
        );
        assert_eq!(changed.change.unwrap().interval, Some((0.001, 0.001)));
        assert_eq!(changed.p, None, "nothing was tested");
        assert_eq!(one(counted(&[7.0, 7.0]), counted(&[7.0, 7.0])).finding, ComparisonFinding::Same);
        let once = one(counted(&[1000.0]), counted(&[1001.0]));
        assert_eq!(once.finding, ComparisonFinding::Inconclusive, "once is not known to repeat");
        let varies = one(counted(&[1000.0, 1000.0]), counted(&[1001.0, 1002.0]));
        assert_eq!(varies.finding, ComparisonFinding::Inconclusive);
        let reason = "the 2 counted runs differ: a statement at 95 % needs 6 of them";
        assert_eq!(varies.reason.as_deref(), Some(reason));
        let kernel = one(series("faults", &[5.0; 3]), series("faults", &[6.0; 3]));
        assert_eq!(kernel.finding, ComparisonFinding::Inconclusive, "three equal values may be chance");
        let kernel = one(series("faults", &[5.0; 6]), series("faults", &[6.0; 6]));
        assert_eq!(kernel.basis, Some(Basis::Deterministic));
    }

    #[test]
    fn zero_in_one_arm_gives_a_difference_and_no_ratio() {
        let exact = one(counted(&[0.0, 0.0]), counted(&[12.0, 12.0]));
        let change = exact.change.unwrap();
        assert_eq!(
            (change.is_relative, change.estimate, exact.finding),
            (false, 12.0, ComparisonFinding::Changed)
        );
        let a = [0.0, 1.0, 0.0, 2.0, 0.0, 1.0, 0.0, 1.0];
        let tested = one(series("t", &a), series("t", &a.map(|value| value + 40.0)));
        let change = tested.change.unwrap();
        assert_eq!(
            (change.is_relative, change.estimate, tested.finding),
            (false, 40.0, ComparisonFinding::Changed)
        );
        let mostly = series("t", &[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 9.0]);
        let rare = one(mostly.clone(), series("t", &[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 4.0, 0.0]));
        assert_eq!(rare.finding, ComparisonFinding::Inconclusive, "zeros hide what is rare");
        let zeros = one(counted(&[0.0, 0.0]), counted(&[0.0, 0.0]));
        assert_eq!((zeros.finding, zeros.change.unwrap().estimate), (ComparisonFinding::Same, 0.0));
    }

    #[test]
    fn below_six_pairs_nothing_is_said_at_95_percent() {
        let five = one(series("t", &noisy(1.0)[..5]), series("t", &noisy(2.0)[..5]));
        assert_eq!(
            (five.finding, five.p, five.change.unwrap().interval),
            (ComparisonFinding::Inconclusive, None, None)
        );
        assert_eq!(five.reason.as_deref(), Some("5 pairs: an interval at 95 % needs at least 6"));
        let only = one(series("t", &[1.0]), series("t", &[2.0]));
        assert_eq!(only.reason.as_deref(), Some("1 pair: an interval at 95 % needs at least 6"));
    }

    #[test]
    fn what_one_side_lacks_or_means_otherwise_is_not_compared() {
        let lacks = compare(&[series("a", &[1.0])], &[&[series("b", &[1.0])]], PAIRED).remove(0);
        let reasons: Vec<_> = lacks.iter().map(|one| (one.name.as_str(), one.reason.as_deref())).collect();
        assert_eq!(reasons, [("a", Some("B does not have it")), ("b", Some("A does not have it"))]);
        let other = Series { scope: Some("system".to_owned()), ..counted(&[1.0, 1.0]) };
        let first = Series { scope: Some("tree".to_owned()), ..counted(&[1.0, 1.0]) };
        let mixed = one(first, other);
        assert_eq!(mixed.finding, ComparisonFinding::NotCompared);
        assert_eq!(mixed.reason.as_deref(), Some("A is of scope tree, B of scope system"));
        let hardware = Series { provenances: Some(vec![Provenance::Hardware]), ..counted(&[1.0, 1.0]) };
        let reason = one(hardware, counted(&[1.0, 1.0])).reason;
        assert_eq!(reason.as_deref(), Some("A is hardware, B is counted"));
        let none = Series { reason: Some("no PMU".to_owned()), ..series("t", &[]) };
        let absent = one(none, series("t", &[1.0]));
        assert_eq!(absent.reason.as_deref(), Some("A has no value: no PMU"));
    }

    #[test]
    fn many_metrics_raise_the_bar() {
        // Six pairs of one sign: p = 1/32 for each metric. Among many metrics without a change, that is no
        // discovery.
        let a: Vec<Series> = (0..10).map(|i| series(&format!("m{i}"), &noisy(1.0)[..6])).collect();
        let mut b = a.clone();
        b[0] = series("m0", &noisy(1.5)[..6]);
        let all = compare(&a, &[&b], PAIRED).remove(0);
        assert_eq!((all[0].p, all[0].q), (Some(1.0 / 32.0), Some(10.0 / 32.0)));
        assert_eq!(all[0].finding, ComparisonFinding::Inconclusive);
        let reason = "a change is likely, but not certain among 10 tests: more pairs would tell";
        assert_eq!(all[0].reason.as_deref(), Some(reason));
        assert_eq!(compare(&a[..1], &[&b[..1]], PAIRED)[0][0].finding, ComparisonFinding::Changed);
    }

    #[test]
    fn samples_of_different_times_are_not_paired() {
        let apart = Question { design: Design::Apart, ..PAIRED };
        let (a, b) = (series("t", &noisy(1.0)), series("t", &noisy(1.1)[..15]));
        let found = compare(&[a], &[&[b]], apart).remove(0).remove(0);
        assert_eq!((found.basis, found.finding), (Some(Basis::Apart(20, 15)), ComparisonFinding::Changed));
        assert_eq!(found.drift, None);
    }

    #[test]
    fn drift_of_both_is_told() {
        let rising: Vec<f64> = (0..20).map(|i| 1000.0 + f64::from(i)).collect();
        let found = one(series("t", &rising), series("t", &rising));
        assert_eq!((found.drift, found.finding), (Some(1.0), ComparisonFinding::Same));
    }
}

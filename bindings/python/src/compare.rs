//! Comparisons: the statistics of `cyclometer compare` over values from Python.

use cyclometer_toolkit::Provenance;
use cyclometer_toolkit::stats::Statistics;
use cyclometer_toolkit::stats::compare::{Basis, Compared, Design, MetricChange, Question, Series};
use pyo3::prelude::*;

/// One metric of one side.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct GivenMetric {
    name: String,
    event: String,
    unit: String,
    scope: Option<String>,
    provenance: Option<String>,
    /// The reason why the values are missing, or less trustworthy.
    reason: Option<String>,
    /// For each run its value and whether it is exact.
    runs: Vec<(Option<f64>, bool)>,
}

impl GivenMetric {
    fn series(self) -> Series {
        let GivenMetric { name, event, unit, scope, provenance, reason, runs } = self;
        let provenances = provenance.as_deref().and_then(Provenance::named).map(|who| vec![who]);
        let series = Series { name, event, unit, scope, provenances, reason, ..Series::default() };
        series.with_runs(runs)
    }
}

/// Values of one side, as `Summary` of `python/perf_monitor/comparison.py`.
#[derive(IntoPyObject)]
struct Side {
    n: usize,
    mean: Option<f64>,
    stddev: Option<f64>,
    median: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
}

impl Side {
    fn of(of: &Statistics) -> Side {
        let Statistics { n, mean, stddev, median, min, max, .. } = *of;
        Side { n, mean, stddev, median, min, max }
    }
}

/// A change: whether it is a share of A, its estimate, and its 95 % confidence interval.
#[derive(IntoPyObject)]
struct Shift {
    is_relative: bool,
    estimate: f64,
    interval: Option<(f64, f64)>,
}

impl Shift {
    fn of(change: MetricChange) -> Shift {
        let MetricChange { is_relative, estimate, interval } = change;
        Shift { is_relative, estimate, interval }
    }
}

/// One metric of B against the same of A.
#[derive(IntoPyObject)]
pub(crate) struct ComparedMetric {
    name: String,
    event: String,
    unit: String,
    finding: &'static str,
    basis: Option<&'static str>,
    /// The number of pairs, or the numbers of runs of both sides.
    n: Option<Vec<usize>>,
    change: Option<Shift>,
    p: Option<f64>,
    q: Option<f64>,
    drift: Option<f64>,
    reason: Option<String>,
    a: Side,
    b: Side,
}

impl ComparedMetric {
    fn of(one: &Compared, event: String) -> ComparedMetric {
        ComparedMetric {
            name: one.name.clone(),
            event,
            unit: one.unit.clone(),
            finding: one.finding.word(),
            basis: one.basis.map(Basis::word),
            n: match one.basis {
                Some(Basis::Pairs(pairs)) => Some(vec![pairs]),
                Some(Basis::Apart(a, b)) => Some(vec![a, b]),
                _ => None,
            },
            change: one.change.map(Shift::of),
            p: one.p,
            q: one.q,
            drift: one.drift,
            reason: one.reason.clone(),
            a: Side::of(&one.a),
            b: Side::of(&one.b),
        }
    }
}

/// Compares every metric of `b` with the same metric of `a`; values with the same number are pairs if
/// `paired` is set.
#[pyfunction]
pub(crate) fn compare(
    py: Python<'_>,
    a: Vec<Bound<'_, PyAny>>,
    b: Vec<Bound<'_, PyAny>>,
    paired: bool,
    threshold: f64,
) -> PyResult<Vec<ComparedMetric>> {
    let (a, b) = (series(&a)?, series(&b)?);
    let design = if paired { Design::Paired } else { Design::Apart };
    let question = Question { design, threshold };
    Ok(py.detach(|| {
        let compared = cyclometer_toolkit::stats::compare::compare(&a, &[&b], question).remove(0);
        let event = |name: &str| {
            let own = a.iter().chain(&b).find(|series| series.name == name);
            own.map_or_else(|| name.to_owned(), |series| series.event.clone())
        };
        compared.iter().map(|one| ComparedMetric::of(one, event(&one.name))).collect()
    }))
}

fn series(given: &[Bound<'_, PyAny>]) -> PyResult<Vec<Series>> {
    given.iter().map(|one| Ok(one.extract::<GivenMetric>()?.series())).collect()
}

//! Gates: conditions on the change of a metric that fail a comparison, as in `instructions > +0.5%`.

use std::fmt;

use super::{Compared, MetricChange, Question, RunOf, Series, compare_single};
use crate::Failures;
use crate::formula::{Expression, Inputs};

/// A condition that makes a comparison fail.
///
/// ```
/// use cyclometer_stats::compare::Gate;
///
/// assert!(Gate::parse("instructions > +0.5%").is_ok());
/// assert!(Gate::parse("instructions / branches >= 0%").is_ok());
/// assert!(Gate::parse("wall_time > +5ms").is_ok());
/// assert!(Gate::parse("instructions > 0.5%").unwrap_err().to_string().contains("+0.5%"));
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Gate {
    text: String,
    subject: String,
    expression: Option<Expression>,
    is_above: bool,
    includes_limit: bool,
    limit: Limit,
}

/// The size of change that the gate limits.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Limit {
    /// As a share of A.
    Share(f64),
    /// In the unit of the metric, with the kind of its suffix if the suffix implies one.
    Absolute(f64, Option<LimitKind>),
}

/// The quantity that a limit's suffix is a multiple of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LimitKind {
    Time,
    Bytes,
}

impl LimitKind {
    /// Symbol of the unit that values of this kind are in.
    fn symbol(self) -> &'static str {
        match self {
            LimitKind::Time => "ns",
            LimitKind::Bytes => "B",
        }
    }

    fn words(self) -> &'static str {
        match self {
            LimitKind::Time => "a time",
            LimitKind::Bytes => "a number of bytes",
        }
    }
}

/// The error in the text of a gate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GateError(String);

impl fmt::Display for GateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for GateError {}

/// The result of a gate for a comparison.
#[derive(Clone, PartialEq, Debug)]
pub struct GateOutcome {
    /// The gate as it was written.
    pub gate: String,
    /// Whether the gate lets the comparison pass.
    pub ruling: Ruling,
    /// The metric that the gate looked at; for a formula, the formula's values.
    pub compared: Compared,
}

/// One side of a comparison, as gates see it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GateSide<'a> {
    /// Its metrics over runs.
    pub series: &'a [Series],
    /// Its runs that failed.
    pub failures: &'a Failures,
}

/// The treatment of failed runs, which may not have done the work that is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FailedRuns {
    /// No gate is decided over them.
    #[default]
    Refuse,
    /// They count as any other run.
    Accept,
}

impl FailedRuns {
    /// The failures of both sides, if they are an obstacle.
    fn obstacle(self, a: &Failures, b: &Failures) -> Option<String> {
        let of = |side: &str, failures: &Failures| failures.text().map(|text| format!("{side}: {text}"));
        let both: Vec<String> = of("A", a).into_iter().chain(of("B", b)).collect();
        (self == FailedRuns::Refuse && !both.is_empty()).then(|| both.join("; "))
    }
}

/// The decision of a gate.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Ruling {
    /// The condition does not hold.
    Passed,
    /// The condition holds.
    Failed,
    /// The runs do not decide it.
    Inconclusive,
    /// The gate cannot be decided, for this reason.
    Impossible(String),
    /// The gate is not decided over these failed runs.
    RunsFailed(String),
}

impl Ruling {
    /// The word used in JSON.
    pub fn word(&self) -> &'static str {
        match self {
            Ruling::Passed => "passed",
            Ruling::Failed => "failed",
            Ruling::Inconclusive => "inconclusive",
            Ruling::Impossible(_) | Ruling::RunsFailed(_) => "impossible",
        }
    }

    /// The reason why the gate is not decided, whatever the number of runs.
    pub fn obstacle(&self) -> Option<&str> {
        match self {
            Ruling::Impossible(reason) | Ruling::RunsFailed(reason) => Some(reason),
            _ => None,
        }
    }
}

/// Suffixes of limits, longest first, with factor and kind: times are in ns.
const SUFFIXES: [(&str, f64, Option<LimitKind>); 12] = [
    ("KiB", 1024.0, Some(LimitKind::Bytes)),
    ("MiB", 1024.0 * 1024.0, Some(LimitKind::Bytes)),
    ("GiB", 1024.0 * 1024.0 * 1024.0, Some(LimitKind::Bytes)),
    ("ns", 1.0, Some(LimitKind::Time)),
    ("us", 1e3, Some(LimitKind::Time)),
    ("µs", 1e3, Some(LimitKind::Time)),
    ("ms", 1e6, Some(LimitKind::Time)),
    ("s", 1e9, Some(LimitKind::Time)),
    ("K", 1e3, None),
    ("M", 1e6, None),
    ("G", 1e9, None),
    ("B", 1.0, Some(LimitKind::Bytes)),
];

impl Gate {
    /// Reads `METRIC > LIMIT`; instead of `>` also `>=`, `<`, `<=`. The metric may be a formula; the limit is
    /// a change with its sign, in percent or in the unit of the metric.
    ///
    /// # Errors
    ///
    /// The missing or invalid part, with the text to write instead.
    pub fn parse(text: &str) -> Result<Gate, GateError> {
        let fail = |why: String| GateError(format!("'{text}': {why}"));
        let at = text.rfind(['>', '<']).ok_or_else(|| {
            fail("there is no > or <; write METRIC > CHANGE, as in 'instructions > +0.5%'".to_owned())
        })?;
        let (subject, rest) = (text[..at].trim(), &text[at + 1..]);
        let includes_limit = rest.starts_with('=');
        let limit = rest.strip_prefix('=').unwrap_or(rest).trim();
        if subject.is_empty() {
            return Err(fail("no metric stands before the comparison".to_owned()));
        }
        let expression = match is_name(subject) {
            true => None,
            false => {
                Some(Expression::resolve("the gate", subject, |_| None).map_err(|e| fail(e.to_string()))?)
            }
        };
        if expression.as_ref().is_some_and(|expression| expression.events().is_empty()) {
            return Err(fail(format!("'{subject}' names no metric; write METRIC > CHANGE")));
        }
        Ok(Gate {
            text: text.to_owned(),
            subject: subject.to_owned(),
            expression,
            is_above: text[at..].starts_with('>'),
            includes_limit,
            limit: Limit::parse(limit).map_err(fail)?,
        })
    }

    /// The text as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The metrics that it names.
    pub fn names(&self) -> Vec<&str> {
        match &self.expression {
            Some(expression) => expression.events(),
            None => vec![&self.subject],
        }
    }

    /// Whether the metric is a formula over others.
    pub fn is_formula(&self) -> bool {
        self.expression.is_some()
    }

    /// The reason why the limit's kind does not fit a metric in this unit. The unit of a formula is unknown,
    /// so its limit is not checked.
    pub fn misfit(&self, unit: &str) -> Option<String> {
        let Limit::Absolute(_, Some(kind)) = self.limit else { return None };
        let is_other = self.expression.is_none() && unit != kind.symbol();
        is_other.then(|| match unit {
            "" => format!("the change is {}, and {} is a number", kind.words(), self.subject),
            unit => format!("the change is {}, and {} is in {unit}", kind.words(), self.subject),
        })
    }

    /// Applies the gate to the change from `a` to `b`.
    pub fn apply(
        &self,
        a: GateSide<'_>,
        b: GateSide<'_>,
        question: Question,
        failed_runs: FailedRuns,
    ) -> GateOutcome {
        let compared = compare_single(&self.series(a.series), &self.series(b.series), question);
        let ruling = match failed_runs.obstacle(a.failures, b.failures) {
            Some(failed) => Ruling::RunsFailed(failed),
            None => self.ruling(&compared),
        };
        GateOutcome { gate: self.text.clone(), ruling, compared }
    }

    fn ruling(&self, compared: &Compared) -> Ruling {
        match (compared.change, &compared.reason) {
            (Some(_), _) if self.misfit(&compared.unit).is_some() => {
                Ruling::Impossible(self.misfit(&compared.unit).unwrap_or_default())
            }
            (Some(change), _) => self.rule(change, compared.a.median.unwrap_or_default()),
            (None, reason) => {
                Ruling::Impossible(reason.clone().unwrap_or_else(|| "there is nothing to compare".to_owned()))
            }
        }
    }

    fn rule(&self, change: MetricChange, level: f64) -> Ruling {
        let Some((low, high)) = change.interval else { return Ruling::Inconclusive };
        let limit = match (self.limit, change.is_relative) {
            (Limit::Share(share), true) => share,
            (Limit::Absolute(limit, _), false) => limit,
            // The level of A converts one kind of limit to the other.
            (Limit::Share(share), false) => share * level.abs(),
            (Limit::Absolute(limit, _), true) => limit / level,
        };
        let (certain, possible) = match self.is_above {
            true => (self.holds(low, limit), self.holds(high, limit)),
            false => (self.holds(high, limit), self.holds(low, limit)),
        };
        match (certain, possible) {
            (true, _) => Ruling::Failed,
            (false, false) => Ruling::Passed,
            (false, true) => Ruling::Inconclusive,
        }
    }

    fn holds(&self, change: f64, limit: f64) -> bool {
        match (self.is_above, self.includes_limit) {
            (true, false) => change > limit,
            (true, true) => change >= limit,
            (false, false) => change < limit,
            (false, true) => change <= limit,
        }
    }

    /// The values that the gate is about.
    fn series(&self, all: &[Series]) -> Series {
        let absent =
            |reason: String| Series { name: self.subject.clone(), reason: Some(reason), ..Series::default() };
        let Some(expression) = &self.expression else {
            return find(all, &self.subject).map_or_else(absent, Series::clone);
        };
        let mut inputs = Vec::new();
        for name in expression.events() {
            match find(all, name) {
                Ok(series) => inputs.push((name, series)),
                Err(reason) => return absent(reason),
            }
        }
        computed(&self.subject, expression, &inputs)
    }
}

/// Finds a metric by its name as printed, or by its name as typed where only one metric has it; otherwise the
/// reason.
fn find<'a>(all: &'a [Series], name: &str) -> Result<&'a Series, String> {
    let fold = |name: &str| name.to_ascii_lowercase().replace('-', "_");
    let wanted = fold(name);
    if let Some(printed) = all.iter().find(|series| fold(&series.name) == wanted) {
        return Ok(printed);
    }
    let typed: Vec<&Series> = all.iter().filter(|series| fold(&series.event) == wanted).collect();
    match typed.as_slice() {
        [] => Err(format!("{name} is not among what was measured")),
        [one] => Ok(one),
        several => {
            let names: Vec<&str> = several.iter().map(|series| series.name.as_str()).collect();
            Err(format!("{name} may be any of {}", names.join(", ")))
        }
    }
}

/// Whether a text is one name: letters, digits and the signs inside names, but no arithmetic.
fn is_name(text: &str) -> bool {
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    text.chars().all(inside) && text.chars().any(|c| c.is_ascii_alphabetic())
}

/// A property that all inputs share which have it.
fn common<T: Clone + PartialEq>(inputs: &[(&str, &Series)], of: fn(&Series) -> Option<&T>) -> Option<T> {
    let mut values = inputs.iter().filter_map(|(_, series)| of(series));
    let first = values.next()?;
    values.all(|value| value == first).then(|| first.clone())
}

/// Evaluates a formula run by run; a run that lacks an input has no value.
fn computed(name: &str, expression: &Expression, inputs: &[(&str, &Series)]) -> Series {
    let runs = inputs.first().map(|(_, series)| series.values.as_slice()).unwrap_or_default();
    let mut reason = None;
    let mut values = Vec::new();
    for run in runs {
        match expression.evaluate(&OfRun { run: run.run, inputs }) {
            Ok(value) => values.push(RunOf { run: run.run, value: Some(value) }),
            Err(why) => {
                reason = Some(why);
                values.push(RunOf { run: run.run, value: None });
            }
        }
    }
    Series {
        name: name.to_owned(),
        event: name.to_owned(),
        provenances: common(inputs, |series| series.provenances.as_ref()),
        launch: common(inputs, |series| series.launch.as_ref()),
        scope: common(inputs, |series| series.scope.as_ref()),
        reason,
        values,
        unit: String::new(),
    }
}

/// The values of one run.
struct OfRun<'a> {
    run: u32,
    inputs: &'a [(&'a str, &'a Series)],
}

impl Inputs for OfRun<'_> {
    fn value(&self, name: &str) -> Result<f64, String> {
        let series = self.inputs.iter().find(|(known, _)| *known == name);
        let values = series.map(|(_, series)| series.values.as_slice()).unwrap_or_default();
        let value = values.iter().find(|own| own.run == self.run).and_then(|own| own.value);
        value.ok_or_else(|| format!("{name} has no value in the runs of the others"))
    }

    fn literal(&self, _: &str) -> Option<f64> {
        None
    }

    fn is_cpu(&self, _: &str) -> Option<bool> {
        None
    }
}

impl Limit {
    fn parse(text: &str) -> Result<Limit, String> {
        let (number, is_share) = match text.strip_suffix('%') {
            Some(number) => (number.trim_end(), true),
            None => (text, false),
        };
        let suffix = SUFFIXES.iter().find(|(suffix, ..)| !is_share && number.ends_with(suffix));
        let (number, factor, kind) = suffix.map_or((number, 1.0, None), |(suffix, factor, kind)| {
            (number[..number.len() - suffix.len()].trim_end(), *factor, *kind)
        });
        let value: Option<f64> = number.parse().ok().filter(|value: &f64| value.is_finite());
        let Some(value) = value else {
            return Err(format!("'{text}' is no change; write one as +0.5%, -2%, +1000 or +5ms"));
        };
        if value != 0.0 && !number.starts_with(['+', '-']) {
            return Err(format!("'{text}' has no sign; a change has one: write +{text} or -{text}"));
        }
        Ok(if is_share { Limit::Share(hundredth(value)) } else { Limit::Absolute(value * factor, kind) })
    }
}

/// A hundredth of a number, rounded once: 0.7 divided by 100 would lie below 0.007, and a change by just
/// 0.7 % above it.
fn hundredth(value: f64) -> f64 {
    // Numbers are written without an exponent, with all the digits that tell them from others.
    format!("{value}e-2").parse().unwrap_or(value / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RunFailure;
    use crate::compare::Design;
    use cyclometer_core::Provenance;

    const QUESTION: Question = Question { design: Design::Paired, threshold: 0.005 };

    fn counted(name: &str, value: f64) -> Series {
        Series { provenances: Some(vec![Provenance::Counted]), ..Series::of(name, &[value, value]) }
    }

    fn ruling(gate: &str, a: &[Series], b: &[Series]) -> Ruling {
        let failures = Failures::default();
        let of = |series| GateSide { series, failures: &failures };
        let gate = Gate::parse(gate).unwrap_or_else(|e| panic!("{e}"));
        gate.apply(of(a), of(b), QUESTION, FailedRuns::Refuse).ruling
    }

    #[test]
    fn failed_runs_decide_a_gate_only_if_they_are_accepted() {
        let series = [counted("instructions:u", 1000.0)];
        let failures = |runs: &[Option<RunFailure>]| Failures::among(runs.iter().copied());
        let [killed, failed] = [RunFailure::Signal(9), RunFailure::Status(1)];
        let good = failures(&[None, None]);
        for (a, b, obstacle) in [
            (&good, &good, None),
            (&good, &failures(&[Some(failed), None]), Some("B: 1 of 2 runs failed (exit status 1)")),
            (&failures(&[Some(killed)]), &good, Some("A: the run failed (signal 9)")),
            (
                &failures(&[Some(RunFailure::Unknown)]),
                &failures(&[Some(failed), Some(killed)]),
                Some(
                    "A: the run failed (an unknown status); \
                     B: both runs failed (1 with exit status 1, 1 with signal 9)",
                ),
            ),
        ] {
            let gate = Gate::parse("instructions > 0").unwrap();
            let [a, b] = [a, b].map(|failures| GateSide { series: &series, failures });
            let refused = gate.apply(a, b, QUESTION, FailedRuns::Refuse).ruling;
            let expected = obstacle.map_or(Ruling::Passed, |why| Ruling::RunsFailed(why.to_owned()));
            assert_eq!(refused, expected);
            assert_eq!((refused.obstacle(), refused == Ruling::Passed), (obstacle, obstacle.is_none()));
            assert_eq!(gate.apply(a, b, QUESTION, FailedRuns::Accept).ruling, Ruling::Passed);
        }
    }

    #[test]
    fn exact_counts_decide_to_the_last_one() {
        let a = [counted("instructions:u", 100_000.0)];
        for (b, gate, expected) in [
            (100_500.0, "instructions > +0.5%", Ruling::Passed),
            (100_501.0, "instructions > +0.5%", Ruling::Failed),
            (100_500.0, "instructions >= +0.5%", Ruling::Failed),
            (100_001.0, "instructions:u > 0", Ruling::Failed),
            (100_000.0, "INSTRUCTIONS > 0%", Ruling::Passed),
            (99_000.0, "instructions < -0.5%", Ruling::Failed),
            (99_000.0, "instructions <= -2%", Ruling::Passed),
            (100_900.0, "instructions > +1K", Ruling::Passed),
            (101_100.0, "instructions > +1K", Ruling::Failed),
            (100_700.0, "instructions > +0.7%", Ruling::Passed),
            (100_700.0, "instructions >= +0.7%", Ruling::Failed),
        ] {
            assert_eq!(ruling(gate, &a, &[counted("instructions:u", b)]), expected, "{gate} {b}");
        }
    }

    #[test]
    fn formulas_are_computed_run_by_run() {
        let a = [counted("instructions:u", 1000.0), counted("branch-misses:u", 100.0)];
        let b = [counted("instructions:u", 2000.0), counted("branch-misses:u", 220.0)];
        assert_eq!(ruling("1000 * branch_misses / instructions > +9%", &a, &b), Ruling::Failed);
        assert_eq!(ruling("1000 * branch_misses / instructions > +11%", &a, &b), Ruling::Passed);
        assert_eq!(ruling("branch-misses > +119%", &a, &b), Ruling::Failed, "one name, and no subtraction");
        let zero = [counted("instructions:u", 0.0), counted("branch-misses:u", 1.0)];
        let Ruling::Impossible(why) = ruling("branch_misses / instructions > 0%", &a, &zero) else {
            panic!("divided by zero")
        };
        assert_eq!(why, "B has no value: instructions was 0");
    }

    #[test]
    fn an_interval_across_the_limit_decides_nothing() {
        let a = Series::of("wall_time", &[100.0; 8]);
        let b = [99.0, 101.0, 102.0, 98.0, 103.0, 97.0, 104.0, 99.5];
        let b = Series::of("wall_time", &b);
        let both = ([a], [b]);
        assert_eq!(ruling("wall_time > +1%", &both.0, &both.1), Ruling::Inconclusive);
        assert_eq!(ruling("wall_time > +10%", &both.0, &both.1), Ruling::Passed);
        assert_eq!(ruling("wall_time > -10%", &both.0, &both.1), Ruling::Failed);
        let few = ([Series::of("t", &[1.0])], [Series::of("t", &[2.0])]);
        assert_eq!(ruling("t > +1%", &few.0, &few.1), Ruling::Inconclusive);
    }

    #[test]
    fn a_metric_that_was_not_measured_is_named() {
        let a = [Series::of("wall_time", &[1.0])];
        let Ruling::Impossible(why) = ruling("cycles > +1%", &a, &a) else { panic!("there are no cycles") };
        assert_eq!(why, "A has no value: cycles is not among what was measured");
    }

    #[test]
    fn a_limit_of_another_kind_than_the_metric_decides_nothing() {
        let a = [counted("instructions:u", 1e9)];
        let b = [counted("instructions:u", 1.1e9)];
        let why = "the change is a time, and instructions is a number".to_owned();
        assert_eq!(ruling("instructions > +5ms", &a, &b), Ruling::Impossible(why));
        let time = |value| [Series { unit: "ns".to_owned(), ..counted("wall_time", value) }];
        let why = "the change is a number of bytes, and wall_time is in ns".to_owned();
        assert_eq!(ruling("wall_time > +5KiB", &time(1e9), &time(2e9)), Ruling::Impossible(why));
        assert_eq!(ruling("wall_time > +5ms", &time(1e9), &time(2e9)), Ruling::Failed);
        assert_eq!(ruling("1 * wall_time > +5ms", &time(1e9), &time(2e9)), Ruling::Failed);
    }

    #[test]
    fn a_name_of_several_metrics_decides_nothing() {
        let a = [counted("instructions:u", 1.0), counted("instructions:k", 2.0)];
        for gate in ["instructions > +1%", "1 / instructions > +1%"] {
            let Ruling::Impossible(why) = ruling(gate, &a, &a) else { panic!("{gate} took one of two") };
            assert_eq!(why, "A has no value: instructions may be any of instructions:u, instructions:k");
        }
        assert_eq!(ruling("instructions:k > +1%", &a, &a), Ruling::Passed);
    }

    #[test]
    fn gates_that_make_no_sense_say_what_to_write() {
        for (text, part) in [
            ("instructions", "there is no > or <"),
            ("> +1%", "no metric"),
            ("instructions > 1%", "write +1% or -1%"),
            ("instructions > fast", "'fast' is no change"),
            ("instructions > +nan%", "is no change"),
            ("instructions > ", "'' is no change"),
            ("(instructions > +1%", "'(instructions > +1%'"),
            ("1 > +1%", "'1' names no metric"),
            ("2 * 3 > +1%", "'2 * 3' names no metric"),
        ] {
            let error = Gate::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn limits_take_units() {
        for (text, limit) in [
            ("+5ms", Limit::Absolute(5e6, Some(LimitKind::Time))),
            ("-2 µs", Limit::Absolute(-2e3, Some(LimitKind::Time))),
            ("+1.5KiB", Limit::Absolute(1536.0, Some(LimitKind::Bytes))),
            ("+1e3", Limit::Absolute(1000.0, None)),
            ("-3 %", Limit::Share(-0.03)),
            ("+0.7%", Limit::Share(0.007)),
            ("+7e-1%", Limit::Share(0.007)),
            ("0", Limit::Absolute(0.0, None)),
        ] {
            assert_eq!(Limit::parse(text), Ok(limit), "{text}");
        }
    }
}

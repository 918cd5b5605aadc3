//! CSV: a row for each metric.

use cyclometer_toolkit::stats::{DerivedSummary, Failures, LineSummary, Statistics};

use crate::by_code::ByCode;
use crate::interval::{IntervalValue, IntervalValues};
use crate::text::clean;
use crate::{Results, target};

/// The first row. `half_width` is that of the 95 % interval of the mean, where the estimate has one.
/// `median_low` and `median_high` are the ends of the interval of the median, where the runs are enough for
/// one. `failed_runs` is the number of runs of the command that failed and count all the same.
pub const HEADER: &str = "command,metric,requested,unit,scope,modes,count,provenance,source,n,mean,stddev,\
                          median,min,max,outliers,half_width,launch,reason,median_low,median_high,failed_runs";

/// A header and a row for each metric, derived ones last; then the rows of regions, of code and of intervals,
/// where these were asked for. Each of the three has last columns of its own (`RowGroup::columns`), which
/// are empty in all other rows.
///
/// # Source
///
/// RFC 4180: CRLF ends a row; fields with commas, quotes or line ends are quoted.
pub fn render(results: &Results<'_>) -> String {
    let groups = [
        results.regions.is_some().then_some(RowGroup::Region),
        results.by_code.map(RowGroup::of_code),
        results.intervals.is_some().then_some(RowGroup::Interval),
    ];
    let groups: Vec<RowGroup> = groups.into_iter().flatten().collect();
    let head = groups
        .iter()
        .flat_map(|group| group.columns())
        .fold(HEADER.to_owned(), |head, column| head + "," + column);
    let mut out = head + "\r\n";
    let mut add = |rows: Vec<Vec<String>>, of: Option<(RowGroup, Vec<String>)>| {
        let last: Vec<String> = groups.iter().flat_map(|group| group.fields(of.as_ref())).collect();
        rows.iter().for_each(|fields| out += &(row(&[fields.as_slice(), &last].concat()) + "\r\n"));
    };
    add(body(results), None);
    for counted in results.regions.iter().flat_map(|regions| regions.all()) {
        add(body(&counted.results(results)), Some((RowGroup::Region, vec![clean(&counted.region.label)])));
    }
    results.by_code.iter().for_each(|by_code| {
        code_rows(results, by_code).into_iter().for_each(|(fields, names)| {
            add(vec![fields], Some((RowGroup::of_code(by_code), names)));
        });
    });
    for interval in results.intervals.unwrap_or_default() {
        add(interval_rows(results, interval), Some((RowGroup::Interval, interval_fields(interval))));
    }
    out
}

/// Rows that are no metric of the whole command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RowGroup {
    Region,
    Code(FurtherColumns),
    Interval,
}

/// The columns of code beside its file, function and line.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FurtherColumns {
    /// The functions that functions are inlined into.
    has_inlined: bool,
    /// The processes or threads.
    has_owners: bool,
    /// Inclusive counts of instructions.
    has_inclusive: bool,
}

impl RowGroup {
    fn of_code(by_code: &ByCode) -> RowGroup {
        RowGroup::Code(FurtherColumns {
            has_inlined: by_code.has_inlined(),
            has_owners: by_code.owners().is_some(),
            has_inclusive: by_code.has_inclusive(),
        })
    }

    /// Its last columns. The number of a run counts from 0; a warm-up's is that of the warm-up. Start and end
    /// are in ns since the start of the run.
    fn columns(self) -> Vec<&'static str> {
        let code = |code: FurtherColumns| {
            let further: [(bool, &[&str]); 3] = [
                (code.has_inlined, &["inlined_into"]),
                (code.has_owners, &["process", "pid", "tid"]),
                (code.has_inclusive, &["inclusive", "partial"]),
            ];
            let further = further.into_iter().filter(|(has, _)| *has).flat_map(|(_, columns)| columns);
            ["object", "function", "line"].into_iter().chain(further.copied()).collect()
        };
        match self {
            RowGroup::Region => vec!["region"],
            RowGroup::Code(columns) => code(columns),
            RowGroup::Interval => vec!["run", "warmup", "start_ns", "end_ns"],
        }
    }

    /// The fields of its columns in a row: those of the row's own group, or empty ones.
    fn fields(self, of: Option<&(RowGroup, Vec<String>)>) -> Vec<String> {
        match of {
            Some((group, fields)) if *group == self => fields.clone(),
            _ => vec![String::new(); self.columns().len()],
        }
    }
}

/// The rows of code, each with the fields of its last columns.
fn code_rows(results: &Results<'_>, by_code: &ByCode) -> Vec<(Vec<String>, Vec<String>)> {
    let command = target::subject(results);
    let failed = Failures::of(results.report).count().to_string();
    let one = |(line, value, names): (&LineSummary, u64, Vec<String>)| {
        let fields = line_fields(&command, line);
        let fields = single(fields, Some(value.to_string()), &failed);
        (fields, names.iter().map(|name| clean(name)).collect())
    };
    by_code.values(results.summary).map(one).collect()
}

/// A row for each event that was counted in an interval, and for each metric.
fn interval_rows(results: &Results<'_>, interval: &IntervalValues) -> Vec<Vec<String>> {
    let command = target::subject(results);
    let failed = Failures::of(results.report).count().to_string();
    let summary = results.summary;
    let one = |fields: Vec<String>, value: &IntervalValue| {
        let mut fields = single(fields, value.value.map(|value| value.to_string()), &failed);
        fields[VERDICT] = value.verdict.word().to_owned();
        fields[REASON] = clean(value.reason.as_deref().unwrap_or_default());
        fields
    };
    let events = interval.events.iter().filter_map(|event| {
        let line = summary.lines.iter().find(|line| line.name == event.name)?;
        Some(one(line_fields(&command, line), event))
    });
    let metrics = interval.metrics.iter().filter_map(|metric| {
        let derived = summary.derived.iter().find(|derived| derived.name == metric.name)?;
        Some(one(derived_fields(&command, derived, results), metric))
    });
    events.chain(metrics).collect()
}

fn interval_fields(interval: &IntervalValues) -> Vec<String> {
    let start_ns = interval.end_ns.saturating_sub(interval.length_ns);
    let warmup = u8::from(interval.warmup).to_string();
    vec![interval.run.to_string(), warmup, start_ns.to_string(), interval.end_ns.to_string()]
}

/// The fields of a row whose metric has a single value, or none.
fn single(mut fields: Vec<String>, value: Option<String>, failed: &str) -> Vec<String> {
    NUMBERS.into_iter().for_each(|column| fields[column].clear());
    fields[N] = u8::from(value.is_some()).to_string();
    fields[MEAN] = value.unwrap_or_default();
    fields.push(failed.to_owned());
    fields
}

/// The columns of numbers: the first is that of their number, the second that of their mean.
const NUMBERS: [usize; 10] = [9, 10, 11, 12, 13, 14, 15, 16, 19, 20];
const N: usize = NUMBERS[0];
const MEAN: usize = NUMBERS[1];
const VERDICT: usize = 6;
const REASON: usize = 18;

/// The fields of a row for each metric, derived ones last.
fn body(results: &Results<'_>) -> Vec<Vec<String>> {
    let command = target::subject(results);
    let lines = results.summary.lines.iter().map(|line| line_fields(&command, line));
    let derived = results.summary.derived.iter().map(|metric| derived_fields(&command, metric, results));
    let failed = Failures::of(results.report).count().to_string();
    let with_failed = |mut fields: Vec<String>| {
        fields.push(failed.clone());
        fields
    };
    lines.chain(derived).map(with_failed).collect()
}

fn line_fields(command: &str, line: &LineSummary) -> Vec<String> {
    let mut fields = vec![
        command.to_owned(),
        clean(&line.name),
        line.requested.to_string(),
        clean(line.unit.symbol()),
        line.scope.to_string(),
        line.modes.map(|modes| modes.to_string()).unwrap_or_default(),
        line.verdict.word().to_owned(),
        line.provenance.map(|who| who.to_string()).unwrap_or_default(),
        line.rung.map(|rung| rung.to_string()).unwrap_or_default(),
    ];
    fields.extend(numbers(&line.statistics));
    let half_width = line.interval.as_ref().and_then(|interval| interval.as_ref().ok());
    fields.push(half_width.map(|interval| interval.half_width.to_string()).unwrap_or_default());
    fields.push(line.launch.map(|launch| launch.word().to_owned()).unwrap_or_default());
    fields.push(clean(line.reason.as_deref().unwrap_or_default()));
    fields.extend(median_interval(&line.statistics));
    fields
}

fn derived_fields(command: &str, metric: &DerivedSummary, results: &Results<'_>) -> Vec<String> {
    let who: Vec<&str> = metric.provenances.iter().map(|who| who.word()).collect();
    let mut fields = vec![
        command.to_owned(),
        metric.name.clone(),
        metric.requested.to_string(),
        clean(metric.unit.symbol()),
        results.summary.scope.to_string(),
        metric.modes.map(|modes| modes.to_string()).unwrap_or_default(),
        metric.verdict.word().to_owned(),
        who.join("+"),
        "derived".to_owned(),
    ];
    fields.extend(numbers(&metric.statistics));
    fields.push(String::new());
    let pass = metric.values.first().map(|value| value.pass);
    let launch = pass.and_then(|pass| results.launch_of_pass(pass));
    fields.push(launch.map(|launch| launch.word().to_owned()).unwrap_or_default());
    fields.push(clean(metric.reason.as_deref().unwrap_or_default()));
    fields.extend(median_interval(&metric.statistics));
    fields
}

fn numbers(statistics: &Statistics) -> Vec<String> {
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    vec![
        statistics.n.to_string(),
        number(statistics.mean),
        number(statistics.stddev),
        number(statistics.median),
        number(statistics.min),
        number(statistics.max),
        statistics.outliers.map(|n| n.to_string()).unwrap_or_default(),
    ]
}

/// The ends of the 95 % interval of the median; empty where there is none.
fn median_interval(statistics: &Statistics) -> [String; 2] {
    let ends = statistics.median_interval.map(|(low, high)| [low.to_string(), high.to_string()]);
    ends.unwrap_or_default()
}

/// Fields as a row, without its end.
pub fn row(fields: &[String]) -> String {
    fields.iter().map(|field| quoted(field)).collect::<Vec<_>>().join(",")
}

/// A field, quoted if it has to be.
pub fn quoted(field: &str) -> String {
    match field.contains([',', '"', '\r', '\n']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{failing_runs, golden, metrics, rotated, several_runs};

    #[test]
    fn fields_are_quoted_by_the_rfc() {
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("say \"x\""), "\"say \"\"x\"\"\"");
        assert_eq!(quoted("plain"), "plain");
    }

    #[test]
    fn a_metric_is_a_row_with_its_verdict() {
        let (show, requests) = metrics(1);
        golden("metrics.csv", &show.show_with(&requests, render).replace("\r\n", "\n"));
    }

    #[test]
    fn an_estimate_has_its_half_width() {
        golden("turns.csv", &rotated(&[200]).show(render).replace("\r\n", "\n"));
    }

    #[test]
    fn every_row_says_how_many_runs_failed() {
        let text = failing_runs().show(render);
        let rows: Vec<&str> = text.split_terminator("\r\n").collect();
        assert!(rows[0].ends_with(",failed_runs"), "{text}");
        assert!(rows.len() > 1 && rows[1..].iter().all(|row| row.ends_with(",3")), "{text}");
    }

    #[test]
    fn every_row_has_the_columns_of_the_header() {
        golden("several.csv", &several_runs().show(render).replace("\r\n", "\n"));
    }
}

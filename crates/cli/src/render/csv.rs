//! CSV: a row for each metric.

use cyclometer::stats::{DerivedSummary, Failures, LineSummary, Statistics};

use crate::output::clean;
use crate::render::by_code::ByCode;
use crate::render::{Results, target};

/// The first row. `half_width` is that of the 95 % interval of the mean, where the estimate has one.
/// `median_low` and `median_high` are the ends of the interval of the median, where the runs are enough for
/// one. `failed_runs` is the number of runs of the command that failed and count all the same.
pub const HEADER: &str = "command,metric,requested,unit,scope,modes,count,provenance,source,n,mean,stddev,\
                          median,min,max,outliers,half_width,launch,reason,median_low,median_high,failed_runs";

/// A header and a row for each metric, derived ones last. With regions there is a last column more: their
/// names, empty for the whole of the command.
///
/// # Source
///
/// RFC 4180: CRLF ends a row; fields with commas, quotes or line ends are quoted.
pub fn render(results: &Results<'_>) -> String {
    if let Some(by_code) = results.by_code {
        return with_code(results, by_code);
    }
    let Some(regions) = results.regions else {
        return [HEADER.to_owned()].into_iter().chain(body(results)).map(|row| row + "\r\n").collect();
    };
    let with = |label: &str| {
        let label = quoted(&clean(label));
        move |row: String| format!("{row},{label}\r\n")
    };
    let mut out = with("region")(HEADER.to_owned());
    out.extend(body(results).map(with("")));
    for counted in regions.all() {
        out.extend(body(&counted.results(results)).map(with(&counted.region.label)));
    }
    out
}

/// The rows of the whole command, then those of its code, with three last columns more.
fn with_code(results: &Results<'_>, by_code: &ByCode) -> String {
    let mut out = format!("{HEADER},object,function,line\r\n");
    out.extend(body(results).map(|row| row + ",,,\r\n"));
    let command = target::subject(results);
    let failed = Failures::of(results.report).count().to_string();
    for (line, value, names) in by_code.values(results.summary) {
        let mut fields = line_fields(&command, line);
        for column in NUMBERS {
            fields[column].clear();
        }
        (fields[N], fields[MEAN]) = ("1".to_owned(), value.to_string());
        fields.push(failed.clone());
        fields.extend(names.iter().map(|name| clean(name)));
        out += &(row(&fields) + "\r\n");
    }
    out
}

/// The columns of numbers: the first is that of their number, the second that of their mean.
const NUMBERS: [usize; 10] = [9, 10, 11, 12, 13, 14, 15, 16, 19, 20];
const N: usize = NUMBERS[0];
const MEAN: usize = NUMBERS[1];

/// A row for each metric, derived ones last.
fn body(results: &Results<'_>) -> impl Iterator<Item = String> {
    let command = target::subject(results);
    let lines = results.summary.lines.iter().map(|line| line_fields(&command, line));
    let derived = results.summary.derived.iter().map(|metric| derived_fields(&command, metric, results));
    let failed = Failures::of(results.report).count().to_string();
    let with_failed = |mut fields: Vec<String>| {
        fields.push(failed.clone());
        row(&fields)
    };
    lines.chain(derived).map(with_failed).collect::<Vec<_>>().into_iter()
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
    use crate::render::testing::{failing_runs, golden, metrics, several_runs, turning};

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
        golden("turns.csv", &turning(&[200]).show(render).replace("\r\n", "\n"));
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

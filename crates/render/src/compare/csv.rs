//! CSV: a row for each metric of each comparison. RFC 4180.

use cyclometer_toolkit::stats::Failures;
use cyclometer_toolkit::stats::compare::Compared;

use super::Contest;
use crate::csv::row as csv_row;
use crate::text::clean;

const HEADER: &str = "a,b,metric,unit,a_n,a_median,b_n,b_median,basis,is_relative,change,low,high,p,q,finding,reason,a_failed,b_failed\r\n";

/// The rows; a missing value is empty.
pub fn render(contest: &Contest<'_>) -> String {
    let mut out = HEADER.to_owned();
    let a = CsvSide { name: &contest.reference_name(), failures: contest.reference_failures() };
    for versus in &contest.versus {
        let failures = Failures::of(contest.report(versus.arm));
        let b = CsvSide { name: &contest.arms[versus.arm].name, failures };
        for one in &versus.metrics {
            out += &row(&a, &b, one);
        }
    }
    out
}

/// One of two that are compared.
struct CsvSide<'a> {
    name: &'a str,
    failures: Failures,
}

fn row(a: &CsvSide<'_>, b: &CsvSide<'_>, one: &Compared) -> String {
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let interval = one.change.and_then(|change| change.interval);
    let cells = [
        a.name.to_owned(),
        b.name.to_owned(),
        one.name.clone(),
        one.unit.clone(),
        one.a.n.to_string(),
        number(one.a.median),
        one.b.n.to_string(),
        number(one.b.median),
        one.basis.map(|basis| basis.word().to_owned()).unwrap_or_default(),
        one.change.map(|change| change.is_relative.to_string()).unwrap_or_default(),
        number(one.change.map(|change| change.estimate)),
        number(interval.map(|(low, _)| low)),
        number(interval.map(|(_, high)| high)),
        number(one.p),
        number(one.q),
        one.finding.word().to_owned(),
        one.reason.clone().unwrap_or_default(),
        a.failures.count().to_string(),
        b.failures.count().to_string(),
    ];
    csv_row(&cells.map(|cell| clean(&cell))) + "\r\n"
}

//! CSV: a row for each metric of each comparison. RFC 4180.

use cyclometer::stats::compare::Compared;

use super::Contest;
use crate::output::clean;
use crate::render::csv::row as csv_row;

const HEADER: &str =
    "a,b,metric,unit,a_n,a_median,b_n,b_median,basis,is_relative,change,low,high,p,q,finding,reason\r\n";

/// The rows; what has no value is empty.
pub fn render(contest: &Contest<'_>) -> String {
    let mut out = HEADER.to_owned();
    let a = contest.reference_name();
    for versus in &contest.versus {
        for one in &versus.metrics {
            out += &row(&a, &contest.arms[versus.arm].name, one);
        }
    }
    out
}

fn row(a: &str, b: &str, one: &Compared) -> String {
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let interval = one.change.and_then(|change| change.interval);
    let cells = [
        a.to_owned(),
        b.to_owned(),
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
    ];
    csv_row(&cells.map(|cell| clean(&cell))) + "\r\n"
}

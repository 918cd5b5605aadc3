//! A picture of every run and interval, as SVG or in a page: no scripts, no external fonts, no other files to
//! load.

use std::fmt::Write;

use cyclometer_toolkit::core::Unit;
use cyclometer_toolkit::stats::compare::{Basis, Compared, ComparisonFinding};

use super::delta::{change_text, interval, level, unit_of};
use super::{Contest, Versus};
use crate::plot::markup::{FONTS, cut, escaped, swatch, text};
use crate::plot::page::page;
use crate::plot::scale::PlotScale;
use crate::text::clean;

/// Width of the picture, in its own units.
const WIDTH: f64 = 960.0;
/// Height of one metric's panel.
const PANEL: f64 = 108.0;
/// Height of the head of a comparison.
const HEAD: f64 = 78.0;
/// Where the panel of runs begins and ends.
const RUNS: (f64, f64) = (170.0, 600.0);
/// Where the panel of the change begins and ends.
const CHANGE: (f64, f64) = (640.0, 820.0);

/// Most characters of a name; longer ones would leave the picture.
const MOST_NAME: usize = 121;

/// Colours that colour-blind people can distinguish (Okabe and Ito).
const A: &str = "#0072b2";
const B: &str = "#d55e00";
const INK: &str = "#1a1a1a";
const FAINT: &str = "#c8c8c8";
const BAND: &str = "#eeeeee";

/// The picture.
pub fn svg(contest: &Contest<'_>) -> String {
    let shown = |versus: &Versus| versus.metrics.iter().filter(|one| one.change.is_some()).count();
    let heights = contest.versus.iter().map(|versus| HEAD + PANEL * shown(versus) as f64);
    let height = heights.sum::<f64>().max(HEAD) + 30.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"{FONTS}\" font-size=\"12\" fill=\"{INK}\">\n\
         <title>cyclometer compare</title>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    if contest.versus.is_empty() {
        out += &text(16.0, 28.0, "start", "there is nothing to compare");
    }
    let mut y = 0.0;
    for versus in &contest.versus {
        out += &head(contest, versus, y);
        y += HEAD;
        for one in versus.metrics.iter().filter(|one| one.change.is_some()) {
            out += &panel(contest, versus, one, y);
            y += PANEL;
        }
    }
    out + "</svg>\n"
}

/// A page with the picture.
pub fn html(contest: &Contest<'_>) -> String {
    let names: Vec<&str> = contest.arms.iter().map(|arm| arm.name.as_str()).collect();
    let style =
        format!("<style>body{{margin:1em auto;max-width:{WIDTH}px}}svg{{width:100%;height:auto}}</style>");
    page(&names.join(" · "), &style, &svg(contest))
}

fn head(contest: &Contest<'_>, versus: &Versus, y: f64) -> String {
    let (a, b) = (contest.reference_name(), &contest.arms[versus.arm].name);
    let mut out =
        swatch(16.0, y + 14.0, A) + &text(34.0, y + 24.0, "start", &format!("A  {}", cut(&a, MOST_NAME)));
    out +=
        &(swatch(16.0, y + 34.0, B) + &text(34.0, y + 44.0, "start", &format!("B  {}", cut(b, MOST_NAME))));
    let note = |x: f64, words: &str| {
        format!("<text x=\"{x}\" y=\"{}\" fill=\"#666\">{}</text>\n", y + 68.0, escaped(words))
    };
    out += &note(RUNS.0, "every run, in order; the line is the median");
    out += &note(CHANGE.0, "change, 95 % interval; grey: within the threshold");
    out
}

fn panel(contest: &Contest<'_>, versus: &Versus, one: &Compared, y: f64) -> String {
    let unit = unit_of(&one.unit);
    let mut out = format!("<g><title>{}</title>\n", escaped(&one.name));
    out += &format!("<line x1=\"16\" x2=\"{}\" y1=\"{y}\" y2=\"{y}\" stroke=\"{FAINT}\"/>\n", WIDTH - 16.0);
    out += &format!(
        "<text x=\"16\" y=\"{}\" font-weight=\"600\">{}</text>\n",
        y + 24.0,
        escaped(&clean(&one.name))
    );
    for (i, (letter, median)) in [("A", one.a.median), ("B", one.b.median)].into_iter().enumerate() {
        let shown = median.map_or_else(|| "–".to_owned(), |median| level(median, &unit));
        out += &text(16.0, y + 44.0 + 18.0 * i as f64, "start", &format!("{letter}  {shown}"));
    }
    let find = |all: &[cyclometer_toolkit::stats::compare::Series]| {
        all.iter().find(|series| series.name == one.name).map(|series| series.present()).unwrap_or_default()
    };
    let (a, b) = (find(contest.reference_series()), find(&contest.arms[versus.arm].series));
    out += &runs(&a, &b, one, &unit, y);
    out += &change(contest, one, &unit, y);
    out + "</g>\n"
}

/// A dot for every run, A left of B.
fn runs(a: &[f64], b: &[f64], one: &Compared, unit: &Unit, y: f64) -> String {
    let all = || a.iter().chain(b).copied();
    let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
    if low > high {
        return String::new();
    }
    let vertical = PlotScale { from: (low, high), to: (y + PANEL - 16.0, y + 16.0) };
    let middle = f64::midpoint(RUNS.0 + 70.0, RUNS.1);
    let mut out = String::new();
    for (values, colour, median, from, to) in
        [(a, A, one.a.median, RUNS.0 + 70.0, middle - 6.0), (b, B, one.b.median, middle + 6.0, RUNS.1)]
    {
        let last = values.len().saturating_sub(1) as f64;
        let across = PlotScale { from: (0.0, last), to: (from + 4.0, to - 4.0) };
        for (i, value) in values.iter().enumerate() {
            let (x, y) = (across.place(i as f64), vertical.place(*value));
            let _ = writeln!(
                out,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.6\" fill=\"{colour}\" fill-opacity=\"0.7\"/>"
            );
        }
        if let Some(median) = median {
            let y = vertical.place(median);
            let _ = writeln!(
                out,
                "<line x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"{colour}\" stroke-width=\"1.5\"/>"
            );
        }
    }
    let edge = RUNS.0 + 62.0;
    if high > low {
        out += &text(edge, y + 20.0, "end", &level(high, unit));
        out += &text(edge, y + PANEL - 12.0, "end", &level(low, unit));
    } else {
        out += &text(edge, f64::midpoint(y + 16.0, y + PANEL - 16.0) + 4.0, "end", &level(low, unit));
    }
    out
}

/// The interval against zero and the threshold.
fn change(contest: &Contest<'_>, one: &Compared, unit: &Unit, y: f64) -> String {
    let Some(change) = one.change else { return String::new() };
    let middle = y + 46.0;
    let word = one.finding.word().replace('_', " ");
    let (low, high) = change.interval.unwrap_or((change.estimate, change.estimate));
    let threshold = if change.is_relative { contest.question.threshold } else { 0.0 };
    let reach = [low.abs(), high.abs(), change.estimate.abs(), 2.0 * threshold];
    let reach = reach.into_iter().fold(0.0, f64::max);
    let across = PlotScale { from: (-reach, reach), to: CHANGE };
    let mut out = String::new();
    if threshold > 0.0 {
        let (from, to) = (across.place(-threshold), across.place(threshold));
        let _ = writeln!(
            out,
            "<rect x=\"{from:.1}\" y=\"{}\" width=\"{:.1}\" height=\"44\" fill=\"{BAND}\"/>",
            middle - 22.0,
            to - from
        );
    }
    let zero = across.place(0.0);
    let _ = writeln!(
        out,
        "<line x1=\"{zero:.1}\" x2=\"{zero:.1}\" y1=\"{}\" y2=\"{}\" stroke=\"{FAINT}\"/>",
        middle - 22.0,
        middle + 22.0
    );
    let colour = match (one.finding, change.estimate > 0.0) {
        (ComparisonFinding::Changed, true) => B,
        (ComparisonFinding::Changed, false) => A,
        _ => "#666",
    };
    if change.interval.is_some() && one.basis != Some(Basis::Deterministic) {
        let (from, to) = (across.place(low), across.place(high));
        let _ = writeln!(
            out,
            "<line x1=\"{from:.1}\" x2=\"{to:.1}\" y1=\"{middle}\" y2=\"{middle}\" stroke=\"{colour}\" stroke-width=\"2.5\"/>"
        );
        for end in [from, to] {
            let _ = writeln!(
                out,
                "<line x1=\"{end:.1}\" x2=\"{end:.1}\" y1=\"{}\" y2=\"{}\" stroke=\"{colour}\" stroke-width=\"2.5\"/>",
                middle - 5.0,
                middle + 5.0
            );
        }
    }
    let _ = writeln!(
        out,
        "<circle cx=\"{:.1}\" cy=\"{middle}\" r=\"4\" fill=\"{colour}\"/>",
        across.place(change.estimate)
    );
    out += &text(CHANGE.0, middle + 40.0, "start", &interval(one, unit));
    out += &text(CHANGE.1 + 16.0, middle - 2.0, "start", &change_text(change, unit));
    out + &text(CHANGE.1 + 16.0, middle + 16.0, "start", &word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::testing::{contest, shown};
    use crate::testing::golden;

    #[test]
    fn every_run_is_a_dot_and_every_interval_a_line() {
        shown(|machine, comparison| {
            let contest = contest(machine, comparison);
            let picture = svg(&contest);
            let shown: Vec<&Compared> =
                contest.versus[0].metrics.iter().filter(|one| one.change.is_some()).collect();
            let runs: usize = shown.iter().map(|one| one.a.n + one.b.n).sum();
            assert_eq!(picture.matches("r=\"2.6\"").count(), runs);
            assert_eq!(picture.matches("r=\"4\"").count(), shown.len());
            golden("compare.svg", &picture);
        });
    }

    #[test]
    fn names_are_no_markup() {
        shown(|machine, comparison| {
            let mut contest = contest(machine, comparison);
            contest.arms[1].name = "x </title><script>alert('1')</script> & \u{1b}[31m".to_owned();
            for picture in [svg(&contest), html(&contest)] {
                assert!(!picture.contains("<script") && !picture.contains('\u{1b}'), "{picture}");
                assert!(picture.contains("&lt;script&gt;alert(&#39;1&#39;)"));
            }
        });
    }
}

//! The page of a sweep: verdicts in a table, and the slopes of each event that a sum explains.

use cyclometer_toolkit::inference::{ConceptSum, Identification, Judgement, KernelRole, KernelTable};
use cyclometer_toolkit::reverse::{Reversed, ReversedEvent};

use super::markup::{FONTS, cut, escaped, swatch, text_of};
use super::page::page;
use super::scale::{PlotScale, ticks, value_range};
use crate::reversed::{counters, meaning};

/// The room for names of kernels, and the width of the bars, in the picture.
const NAMES: f64 = 190.0;
const BARS: f64 = 480.0;
const ROW: f64 = 16.0;

/// A page without anything to load. `machine` says what was swept, `notes` what the sweep cannot tell.
pub fn verdicts(found: &Reversed, machine: &str, notes: &[String]) -> String {
    let head = format!(
        "<meta name=\"viewport\" content=\"width=device-width\"><meta name=\"color-scheme\" content=\"light dark\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <style>{}{}</style>",
        include_str!("page.css"),
        include_str!("verdicts.css")
    );
    let mut body = format!("<h1>Events of {}</h1>\n<p>{}</p>\n", escaped(machine), numbers(found));
    body += "<table><thead><tr><th>code</th><th></th><th>counters</th><th>counts</th></tr></thead><tbody>\n";
    let live = || found.events.iter().filter(|event| event.judgement.verdict.letter() != 'E');
    live().for_each(|event| body += &row(event, &found.kernels));
    body += "</tbody></table>\n<ul class=\"notes\">\n";
    notes.iter().for_each(|note| body += &format!("<li>{}</li>\n", escaped(note)));
    body += "</ul>\n";
    live().for_each(|event| body += &section(event, &found.kernels).unwrap_or_default());
    page(&format!("Events of {machine}"), &head, &body)
}

fn numbers(found: &Reversed) -> String {
    let number = |letter: char| {
        format!("<span class=\"letter {letter}\">{letter}</span> {}", found.with_verdict(letter).count())
    };
    let words = "A: one sum explains every kernel. B: several do, or one that is not certain. C: none does. \
                 D: no count of concepts. E: nothing moves it.";
    format!("{}<br>\n{words}", ['A', 'B', 'C', 'D', 'E'].map(number).join(" &nbsp; "))
}

fn row(event: &ReversedEvent, kernels: &KernelTable) -> String {
    let Judgement { verdict, mask, .. } = &event.judgement;
    let letter = verdict.letter();
    let names: Vec<&str> = event.documented.iter().map(|known| known.name.as_str()).collect();
    let code = format!("{:#04x}", event.code);
    let code = match hypothesis(event) {
        Some(_) => format!("<a href=\"#e{code}\">{code}</a>"),
        None => code,
    };
    format!(
        "<tr><td class=\"code\">{code}</td><td><span class=\"letter {letter}\">{letter}</span></td><td>{}</td>\
         <td>{}<br><span class=\"names\">{}</span></td></tr>\n",
        escaped(&counters(mask)),
        escaped(&meaning(verdict, kernels)),
        escaped(&names.join(", "))
    )
}

/// The sum that explains an event best, with the doubts.
fn hypothesis(event: &ReversedEvent) -> Option<(&ConceptSum, Vec<String>)> {
    match &event.judgement.verdict {
        Identification::Identified(hypothesis) => Some((&hypothesis.sum, Vec::new())),
        Identification::Ambiguous(ambiguity) => {
            let doubts = ambiguity.doubts.iter().map(ToString::to_string).collect();
            Some((&ambiguity.hypotheses.first()?.sum, doubts))
        }
        _ => None,
    }
}

/// A kernel that moves an event.
struct SlopeBar {
    name: String,
    is_held_out: bool,
    slope: f64,
    half_width: f64,
    /// The slope by the sum.
    predicted: f64,
}

fn bars(event: &ReversedEvent, kernels: &KernelTable, sum: &ConceptSum) -> Vec<SlopeBar> {
    let bar = |slope: &cyclometer_toolkit::inference::KernelSlope| {
        let kernel = kernels.kernel(slope.kernel);
        let number = |concept| {
            let known = kernel.per_iteration.iter().find(|(one, _)| *one == concept);
            known.map_or(0.0, |(_, number)| *number)
        };
        let predicted = sum.terms().iter().map(|(concept, weight)| weight.factor() * number(*concept));
        SlopeBar {
            name: kernel.name.clone(),
            is_held_out: kernel.role == KernelRole::HeldOut,
            slope: slope.value,
            half_width: slope.half_width,
            predicted: predicted.sum(),
        }
    };
    event.judgement.signature.responding().map(bar).collect()
}

fn section(event: &ReversedEvent, kernels: &KernelTable) -> Option<String> {
    let (sum, doubts) = hypothesis(event)?;
    let letter = event.judgement.verdict.letter();
    let code = format!("{:#04x}", event.code);
    let mut out = format!(
        "<h2 id=\"e{code}\"><span class=\"letter {letter}\">{letter}</span> {code}: {}</h2>\n",
        escaped(&sum.to_string())
    );
    if !doubts.is_empty() {
        let items: Vec<String> = doubts.iter().map(|doubt| format!("<li>{}</li>", escaped(doubt))).collect();
        out += &format!("<ul class=\"doubts\">{}</ul>\n", items.join(""));
    }
    Some(out + &picture(&bars(event, kernels, sum), &sum.to_string()))
}

/// The slopes as bars, each with its interval and what the sum foretells.
fn picture(bars: &[SlopeBar], sum: &str) -> String {
    let ends = bars.iter().flat_map(|bar| [bar.slope + bar.half_width, bar.predicted]);
    let greatest = ends.fold(0.0, f64::max);
    let scale = PlotScale { from: (0.0, value_range(0.0, greatest).1), to: (NAMES, NAMES + BARS) };
    let height = bars.len() as f64 * ROW + 46.0;
    let width = NAMES + BARS + 70.0;
    let mut out = format!(
        "<svg role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {width} {height}\" font-family=\"{FONTS}\">\n",
        escaped(&format!("slopes by kernel, and those of {sum}"))
    );
    for (index, bar) in bars.iter().enumerate() {
        let y = index as f64 * ROW + 4.0;
        let [left, right] = [0.0, bar.slope.max(0.0)].map(|value| scale.place(value));
        let class = if bar.is_held_out { "held" } else { "bar" };
        out += &text_of("ink", NAMES - 6.0, y + 9.5, "end", &cut(&bar.name, 30));
        out += &format!(
            "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"11\"/>\n",
            (right - left).max(0.5)
        );
        let [low, high] =
            [-bar.half_width, bar.half_width].map(|side| scale.place((bar.slope + side).max(0.0)));
        let middle = y + 5.5;
        out += &format!("<path class=\"whisker\" d=\"M{low:.1} {middle}H{high:.1}\"/>\n");
        let told = scale.place(bar.predicted);
        out += &format!("<path class=\"told\" d=\"M{told:.1} {}V{}\"/>\n", y - 1.0, y + 12.0);
        let end = right.max(high).max(told) + 5.0;
        out += &text_of("dim", end, y + 9.5, "start", &number(bar.slope));
    }
    let y = bars.len() as f64 * ROW + 16.0;
    for tick in ticks(scale.from, 6) {
        out += &text_of("dim", scale.place(tick), y, "middle", &number(tick));
    }
    let y = y + 22.0;
    out += &swatch(NAMES, y - 10.0, "#56b4e9");
    out += &text_of("dim", NAMES + 16.0, y, "start", "events of an iteration");
    out += &swatch(NAMES + 160.0, y - 10.0, "#009e73");
    out += &text_of("dim", NAMES + 176.0, y, "start", "the same, held out");
    out += &swatch(NAMES + 310.0, y - 10.0, "#d55e00");
    out += &text_of("dim", NAMES + 326.0, y, "start", "by the sum");
    out + "</svg>\n"
}

/// A number with as many digits as tell something.
fn number(value: f64) -> String {
    let text = match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    };
    super::scale::trimmed(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_ends_at_its_slope_and_the_sum_is_marked() {
        let bar = |name: &str, is_held_out, slope, predicted| SlopeBar {
            name: name.to_owned(),
            is_held_out,
            slope,
            half_width: 0.5,
            predicted,
        };
        let drawn = picture(&[bar("one", false, 10.0, 10.0), bar("<two>", true, 5.0, 10.0)], "loads");
        assert!(drawn.contains("class=\"bar\" x=\"190.0\" y=\"4.0\" width=\"457.1\""), "{drawn}");
        assert!(drawn.contains("class=\"held\" x=\"190.0\" y=\"20.0\" width=\"228.6\""), "{drawn}");
        assert!(drawn.contains("&lt;two&gt;"), "names are no markup: {drawn}");
        assert_eq!(drawn.matches("class=\"told\" d=\"M647.1 ").count(), 2, "{drawn}");
    }

    #[test]
    fn numbers_have_no_zeros_at_their_end() {
        assert_eq!([0.0, 2.5, 16.0, 1234.5].map(number), ["0", "2.5", "16", "1234"]);
    }
}

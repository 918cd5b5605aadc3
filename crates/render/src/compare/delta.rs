//! The table of differences: at most 80 columns; a change has a sign, a word and a colour.

use cyclometer_toolkit::Error;
use cyclometer_toolkit::core::Unit;
use cyclometer_toolkit::interleaved::EarlyEnd;
use cyclometer_toolkit::stats::Failures;
use cyclometer_toolkit::stats::compare::{
    Basis, Compared, ComparisonFinding, DRIFT_TOLD, Design, GateOutcome, MetricChange, Ruling,
};

pub use super::level::{level, unit_of};
use super::{Contest, Reference, Versus, strip};
use crate::paint::{Paint, Style};
use crate::table::remark;
use crate::target::shortened;
use crate::text::clean;
use crate::{WIDTH, columns, units, wrap};

/// All comparisons, with the remarks below them.
pub fn render(contest: &Contest<'_>, verbose: bool, paint: Paint) -> String {
    let mut out = String::new();
    for versus in &contest.versus {
        out += &heading(contest, versus, paint);
        out += &table(versus, paint);
        out += &reasons(versus, paint);
        out += &strip::render(contest, versus, paint);
        out += &versus.code.as_ref().map(|code| code.table(paint)).unwrap_or_default();
        out += &gates(versus, paint);
        out.push('\n');
    }
    out + &footer(contest, verbose, paint)
}

fn heading(contest: &Contest<'_>, versus: &Versus, paint: Paint) -> String {
    let line = |letter: &str, name: &str, failures: &Failures| {
        let failed = failures.summary().map(|failed| format!(" · {}", paint.paint(Style::Bad, &failed)));
        format!("{} {}{}\n", paint.paint(Style::Heading, letter), clean(name), failed.unwrap_or_default())
    };
    line("A", &contest.reference_shown(), &contest.reference_failures())
        + &line(
            "B",
            &shortened(contest.arms[versus.arm].name.clone()),
            &Failures::of(contest.report(versus.arm)),
        )
}

/// The columns behind the names.
const HEADS: [&str; 5] = ["A", "B", "change", "95 % interval", "finding"];

/// Between columns.
const GAP: usize = 2;

fn table(versus: &Versus, paint: Paint) -> String {
    let shown = |one: &&Compared| one.change.is_some();
    let rows: Vec<(&Compared, [String; 5])> =
        versus.metrics.iter().filter(shown).map(|one| (one, texts(one))).collect();
    if rows.is_empty() {
        return remark("no metric has values on both sides", paint);
    }
    let width = |column: usize| {
        let widest = rows.iter().map(|(_, texts)| columns(&texts[column])).max().unwrap_or(0);
        widest.max(columns(HEADS[column]))
    };
    let widths = [0, 1, 2, 3, 4].map(width);
    let numbers: usize = widths.iter().map(|width| width + GAP).sum();
    let longest = rows.iter().map(|(one, _)| columns(&one.name)).max().unwrap_or(0).max(columns("metric"));
    let room = longest.min(WIDTH.saturating_sub(numbers + GAP));
    let mut out =
        paint.paint(Style::Dim, &line("metric", room, &HEADS.map(str::to_owned), widths, |text| text));
    out.push('\n');
    for (one, texts) in &rows {
        let name = clean(&one.name);
        // A name that is too long has a line of its own.
        let name = if columns(&name) > room {
            out += &format!("{:GAP$}{name}\n", "");
            String::new()
        } else {
            name
        };
        out += line(&name, room, texts, widths, |text| paint.paint(style(one), &text)).trim_end();
        out.push('\n');
    }
    out
}

/// A row; the last text is painted.
fn line(
    name: &str,
    room: usize,
    texts: &[String; 5],
    widths: [usize; 5],
    last: impl Fn(String) -> String,
) -> String {
    let blanks = |text: &str, width: usize| " ".repeat(width.saturating_sub(columns(text)));
    let mut out = format!("{:GAP$}{name}{}", "", blanks(name, room));
    for (i, (text, width)) in texts.iter().zip(widths).enumerate() {
        out += &" ".repeat(GAP);
        out += &match i {
            4 => last(text.clone()),
            _ => format!("{}{text}", blanks(text, width)),
        };
    }
    out
}

fn texts(one: &Compared) -> [String; 5] {
    let unit = unit_of(&one.unit);
    let level = |median: Option<f64>| median.map_or_else(|| "–".to_owned(), |median| level(median, &unit));
    let change = one.change.map(|change| change_text(change, &unit)).unwrap_or_default();
    [level(one.a.median), level(one.b.median), change, interval(one, &unit), finding(one)]
}

/// A change with its sign.
pub fn change_text(change: MetricChange, unit: &Unit) -> String {
    match change.is_relative {
        true => share(change.estimate),
        false => signed(change.estimate, unit),
    }
}

/// `+1.23 %`; a change to more than ten times as much is shown as a factor.
fn share(share: f64) -> String {
    if share >= 9.0 {
        return format!("×{}", units::short(1.0 + share, &Unit::Ratio));
    }
    let percent_value = 100.0 * share;
    match percent_value.abs() {
        0.0 => "0 %".to_owned(),
        small if small < 0.000_05 => "≈ 0 %".to_owned(),
        small if small < 0.01 => format!("{percent_value:+.4} %"),
        _ => format!("{} %", percent(share)),
    }
}

/// With its sign and enough digits: two behind the point below 10 %.
fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    match percent.abs() {
        small if small < 0.005 => "0.00".to_owned(),
        small if small < 10.0 => format!("{percent:+.2}"),
        _ => format!("{percent:+.1}"),
    }
}

fn signed(value: f64, unit: &Unit) -> String {
    let sign = if value > 0.0 { "+" } else { "" };
    format!("{sign}{}", units::short(value, unit))
}

/// The interval; of counts that repeat the difference to the last one.
pub fn interval(one: &Compared, unit: &Unit) -> String {
    if one.basis == Some(Basis::Deterministic) {
        let difference = one.b.median.unwrap_or_default() - one.a.median.unwrap_or_default();
        return match difference {
            0.0 => "exactly".to_owned(),
            other if *unit == Unit::Count => {
                format!("exactly {}{}", if other > 0.0 { "+" } else { "" }, units::grouped(other))
            }
            other => format!("exactly {}", signed(other, unit)),
        };
    }
    let Some((change, (low, high))) = one.change.and_then(|change| Some((change, change.interval?))) else {
        return "none".to_owned();
    };
    match change.is_relative {
        true if high >= 9.0 => format!("{} … {}", share(low), share(high)),
        true => format!("{} … {} %", percent(low), percent(high)),
        false => format!("{} … {}", signed(low, unit), signed(high, unit)),
    }
}

fn finding(one: &Compared) -> String {
    let is_up = one.change.is_some_and(|change| change.estimate > 0.0);
    match one.finding {
        ComparisonFinding::Changed if is_up => "▲ changed".to_owned(),
        ComparisonFinding::Changed => "▼ changed".to_owned(),
        ComparisonFinding::Same => "= same".to_owned(),
        other => other.word().replace('_', " "),
    }
}

/// Metrics of which more is better.
const MORE_IS_BETTER: [&str; 1] = ["ipc"];

/// Metrics of which neither is better.
const NEITHER: [&str; 1] = ["cpu_utilization"];

fn style(one: &Compared) -> Style {
    let name = one.event.as_str();
    let is_up = one.change.is_some_and(|change| change.estimate > 0.0);
    match one.finding {
        ComparisonFinding::Changed if NEITHER.contains(&name) => Style::Caution,
        ComparisonFinding::Changed if is_up == MORE_IS_BETTER.contains(&name) => Style::Good,
        ComparisonFinding::Changed => Style::Bad,
        ComparisonFinding::Same => Style::Dim,
        _ => Style::Plain,
    }
}

/// The reasons why a metric has no finding, each once with its metrics.
fn reasons(versus: &Versus, paint: Paint) -> String {
    let mut grouped: Vec<(&str, Vec<&str>)> = Vec::new();
    // Metrics that neither side has are reported with the tables of the commands.
    let is_somewhere = |one: &&Compared| one.a.n + one.b.n > 0;
    for one in versus.metrics.iter().filter(is_somewhere) {
        let Some(reason) = &one.reason else { continue };
        match grouped.iter_mut().find(|(known, _)| known == reason) {
            Some((_, names)) => names.push(&one.name),
            None => grouped.push((reason, vec![&one.name])),
        }
    }
    let all = versus.metrics.len();
    let text = |(reason, names): &(&str, Vec<&str>)| match names.len() {
        n if n == all && n > 1 => clean(reason),
        _ => clean(&format!("{}: {reason}", names.join(", "))),
    };
    grouped.iter().map(|group| remark(&text(group), paint)).collect()
}

fn gates(versus: &Versus, paint: Paint) -> String {
    versus.gates.iter().map(|gate| gate_line(gate, versus, paint)).collect()
}

/// `gate instructions > +0.5%: failed, the change is exactly +1.2 %`
fn gate_line(gate: &GateOutcome, versus: &Versus, paint: Paint) -> String {
    let (word, style) = match &gate.ruling {
        Ruling::Passed => ("passed", Style::Good),
        Ruling::Failed => ("FAILED", Style::Bad),
        Ruling::Inconclusive => ("inconclusive", Style::Caution),
        _ => ("impossible", Style::Bad),
    };
    let (condition, reason) = (clean(&gate.gate), clean(&gate_reason(gate, versus)));
    let head = format!("  gate {condition}: ");
    let shown = paint.paint(style, word);
    match columns(&head) + columns(word) + columns(&reason) <= WIDTH {
        true => format!("{head}{shown}{reason}\n"),
        false => format!("{head}{shown}\n{}", indented(reason.trim_start_matches([',', ':', ' ']))),
    }
}

/// Text below a line, further in.
fn indented(text: &str) -> String {
    wrap(text, WIDTH - 6).iter().map(|line| format!("      {line}\n")).collect()
}

/// The reason why a gate is not decided, with what to do about it.
pub fn obstacle(ruling: &Ruling) -> Option<String> {
    let remedy = match ruling {
        Ruling::RunsFailed(_) => "; --accept-failures has it decided all the same",
        _ => "",
    };
    ruling.obstacle().map(|reason| format!("{reason}{remedy}"))
}

/// The evidence for the ruling of a gate, with the code that changed most if it failed.
pub fn gate_reason(gate: &GateOutcome, versus: &Versus) -> String {
    let code = versus.code.as_ref().and_then(|code| code.of_gate(gate));
    evidence(gate) + &code.unwrap_or_default()
}

fn evidence(gate: &GateOutcome) -> String {
    if let Some(reason) = obstacle(&gate.ruling) {
        return format!(": {reason}");
    }
    let unit = unit_of(&gate.compared.unit);
    let change = gate.compared.change.map(|change| change_text(change, &unit)).unwrap_or_default();
    match (gate.compared.basis, gate.compared.change.and_then(|change| change.interval)) {
        (Some(Basis::Deterministic), _) => format!(", the change is {change}, exactly"),
        (_, Some(_)) => format!(", the change is {change} ({})", interval(&gate.compared, &unit)),
        (_, None) => format!(", the change is {change}, but there are too few runs for an interval"),
    }
}

fn footer(contest: &Contest<'_>, verbose: bool, paint: Paint) -> String {
    let mut lines = Vec::new();
    lines.extend(contest.versus.first().and_then(|versus| rule(contest, versus)));
    lines.extend(columns_text(contest));
    if contest
        .versus
        .iter()
        .flat_map(|versus| &versus.metrics)
        .any(|one| one.basis == Some(Basis::Deterministic))
    {
        lines.push(
            "exactly: all runs of A have one value, all runs of B have one: any difference is a change"
                .to_owned(),
        );
    }
    if let Reference::Baseline { notes, failures, .. } = &contest.reference {
        lines.push(
            "the baseline was measured at another time: intervals exclude changes of the machine since then"
                .to_owned(),
        );
        lines.extend(failures.text().map(|text| format!("the baseline: {text}")));
        lines.extend(notes.iter().cloned());
    }
    lines.extend(drifts(contest));
    lines.extend(different_exits(contest));
    lines.extend(contest.comparison.failed_cleanups.iter().map(Error::to_string));
    // A difference that ended the comparison is in the line about its end.
    lines.extend(contest.output_difference.iter().filter(|_| contest.comparison.ended.is_none()).cloned());
    if contest.output_checked && contest.output_difference.is_none() {
        lines.push("every run of every command wrote the same output".to_owned());
    }
    lines.extend(contest.comparison.ended.as_ref().map(ended));
    if verbose {
        lines.extend(contest.versus.iter().flat_map(|versus| versus.metrics.iter().filter_map(rates)));
    }
    lines.iter().map(|line| remark(&clean(line), paint)).collect()
}

/// The meaning of the findings, where a test was made.
fn rule(contest: &Contest<'_>, versus: &Versus) -> Option<String> {
    let tested =
        contest.versus.iter().flat_map(|versus| &versus.metrics).filter(|one| one.p.is_some()).count();
    let pairs = versus.metrics.iter().filter_map(|one| match one.basis {
        Some(Basis::Pairs(n)) => Some(n),
        _ => None,
    });
    let design = match (contest.question.design, pairs.max()) {
        (Design::Paired, Some(n)) => format!("{n} pairs in random order; "),
        _ => String::new(),
    };
    // No more digits than a user writes.
    let threshold = (1e8 * contest.question.threshold).round() / 1e6;
    let tests = match tested {
        0 => return None,
        1 => "error rate 5 %".to_owned(),
        n => format!("false discovery rate 5 % over {n} tests"),
    };
    Some(format!("{design}changed: significant ({tests}), and by more than {threshold} %; same: by less"))
}

/// The meaning of the columns, where a change is not the difference of the medians beside it.
fn columns_text(contest: &Contest<'_>) -> Option<String> {
    let metrics = || contest.versus.iter().flat_map(|versus| &versus.metrics);
    let of_pairs = metrics().any(|one| matches!(one.basis, Some(Basis::Pairs(_))));
    let of_runs = metrics().any(|one| matches!(one.basis, Some(Basis::Apart(..))));
    let change = match (of_pairs, of_runs) {
        (true, _) => "Hodges-Lehmann median of differences within pairs",
        (false, true) => "Hodges-Lehmann median of differences between runs",
        (false, false) => return None,
    };
    let mut names: Vec<&str> =
        metrics().filter(|one| contradicts_medians(one)).map(|one| one.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let opposite = match names.join(", ") {
        names if names.is_empty() => String::new(),
        names => {
            format!("; the difference of the medians has the opposite sign for {names}: runs vary by more")
        }
    };
    Some(format!("change: {change}; A, B: medians{opposite}"))
}

/// Whether the difference of the medians has the sign that the change does not have.
fn contradicts_medians(one: &Compared) -> bool {
    let (Some(change), Some(a), Some(b)) = (one.change, one.a.median, one.b.median) else { return false };
    change.estimate * (b - a) < 0.0
}

/// `wall_time: q 0.012, p 0.003`
fn rates(one: &Compared) -> Option<String> {
    Some(format!("{}: q {:.2e}, p {:.2e}", one.name, one.q?, one.p?))
}

/// Metrics whose level moved with the order of the pairs.
fn drifts(contest: &Contest<'_>) -> Option<String> {
    let told = |one: &&Compared| one.drift.is_some_and(|rho| rho.abs() > DRIFT_TOLD);
    // For a metric in several comparisons, the one that moved most is kept.
    let mut most: Vec<(&str, f64)> = Vec::new();
    for one in contest.versus.iter().flat_map(|versus| versus.metrics.iter().filter(told)) {
        let rho = one.drift.unwrap_or_default();
        match most.iter_mut().find(|(name, _)| *name == one.name) {
            Some((_, known)) if known.abs() >= rho.abs() => {}
            Some((_, known)) => *known = rho,
            None => most.push((&one.name, rho)),
        }
    }
    let texts: Vec<String> = most.iter().map(|(name, rho)| format!("{name} ({rho:+.2})")).collect();
    let names = texts.join(", ");
    (!texts.is_empty()).then(|| {
        format!("drift: the level moved with the order of the pairs, by rank correlation: {names}; pairs are protected from it")
    })
}

/// Where commands that may fail do so in different ways, they did not do the same work. A run that is left
/// out, as the one that a signal ended, is not considered.
fn different_exits(contest: &Contest<'_>) -> Option<String> {
    let exits = |report: &cyclometer_toolkit::Report| {
        let kept = report.runs.iter().filter(|run| run.dropped_because.is_none());
        let mut codes: Vec<i32> = kept.filter_map(|run| run.exit).map(|exit| exit.shell_code()).collect();
        codes.sort_unstable();
        codes.dedup();
        codes
    };
    let all: Vec<Vec<i32>> = contest.comparison.reports.iter().map(exits).collect();
    let (first, others) = all.split_first()?;
    let differ = others.iter().any(|codes| codes != first && !codes.is_empty() && !first.is_empty());
    let shown = |codes: &Vec<i32>| codes.iter().map(i32::to_string).collect::<Vec<_>>().join(", ");
    differ.then(|| {
        let each = all.iter().enumerate().map(|(i, codes)| format!("command {}: {}", i + 1, shown(codes)));
        let each = each.collect::<Vec<_>>().join("; ");
        format!("the commands exit with different statuses ({each}), so they may not have done the same work")
    })
}

/// Why it ended early.
pub fn ended(ended: &EarlyEnd) -> String {
    match ended {
        EarlyEnd::Budget => "ended when the time was over: all pairs until then are complete".to_owned(),
        EarlyEnd::Interrupted(signal) => format!("ended early: signal {signal} came"),
        EarlyEnd::Failed(reason) | EarlyEnd::Stopped(reason) => format!("ended early: {reason}"),
        _ => "ended early".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use cyclometer_toolkit::interleaved::Comparison;
    use cyclometer_toolkit::stats::RunFailure;

    use super::*;
    use crate::compare::testing::{against_baseline, contest, shown};
    use crate::testing::golden;

    fn check(name: &str, contest: &Contest<'_>) {
        let text = super::super::render(contest, false, Paint::NONE);
        for line in text.lines() {
            assert!(columns(line) <= WIDTH, "wider than {WIDTH} columns: {line}");
            assert_eq!(line.trim_end(), line, "blanks at the end");
        }
        golden(name, &text);
    }

    #[test]
    fn tables_and_differences_fit_80_columns() {
        shown(|machine, comparison| check("compare.txt", &contest(machine, comparison)));
    }

    #[test]
    fn runs_that_failed_stand_beside_the_commands_and_those_of_a_baseline_below() {
        shown(|machine, comparison| {
            let mut comparison = Comparison {
                reports: comparison.reports.clone(),
                rounds: comparison.rounds.clone(),
                ended: None,
                failed_cleanups: Vec::new(),
            };
            for run in &mut comparison.reports[0].runs {
                run.exit = Some(cyclometer_toolkit::ExitStatus::Code(2));
            }
            let text = super::super::render(&contest(machine, &comparison), false, Paint::NONE);
            assert!(text.contains("A gzip -6 -kc file · all 14 runs failed\n"), "{text}");
            assert!(text.contains("B gzip -7 -kc file\n"), "{text}");
            let mut contest = against_baseline(machine, &comparison);
            if let Reference::Baseline { failures, .. } = &mut contest.reference {
                *failures = Failures::among([None, Some(RunFailure::Status(1))]);
            }
            let text = super::super::render(&contest, false, Paint::NONE);
            assert!(text.contains("(baseline base.json) · 1 of 2 runs failed\n"), "{text}");
            assert!(text.contains("  the baseline: 1 of 2 runs failed (exit status 1)\n"), "{text}");
        });
    }

    #[test]
    fn a_change_whose_medians_differ_the_other_way_is_explained() {
        shown(|machine, comparison| {
            let mut contest = contest(machine, comparison);
            assert!(columns_text(&contest).unwrap().ends_with("medians"));
            for one in contest.versus.iter_mut().flat_map(|versus| &mut versus.metrics) {
                if one.name == "wall_time" {
                    std::mem::swap(&mut one.a.median, &mut one.b.median);
                }
            }
            let text = columns_text(&contest).unwrap();
            assert!(text.ends_with("has the opposite sign for wall_time: runs vary by more"), "{text}");
        });
    }

    #[test]
    fn a_baseline_says_what_it_is() {
        shown(|machine, comparison| check("compare-baseline.txt", &against_baseline(machine, comparison)));
    }

    #[test]
    fn changes_have_a_sign_and_fitting_digits() {
        for (value, text) in [
            (0.0, "0 %"),
            (0.0123, "+1.23 %"),
            (-0.5, "-50.0 %"),
            (0.000_018, "+0.0018 %"),
            (-0.000_000_1, "≈ 0 %"),
            (3.0, "+300.0 %"),
            (12.3, "×13.3"),
        ] {
            assert_eq!(share(value), text);
        }
        assert_eq!(signed(1500.0, &Unit::Nanoseconds), "+1.50 µs");
        assert_eq!(signed(-3.0, &Unit::Count), "-3");
    }
}

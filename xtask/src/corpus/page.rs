//! The table of docs/reference/compatibility.md.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context, Result};

use super::counts::{CountAgreement, verdict};
use super::row::{CorpusRow, Ran, RowOutcome};

/// The page, from the root of the workspace.
pub(super) const PAGE: &str = "docs/reference/compatibility.md";
const BEGIN: &str = "<!-- generated: cargo xtask corpus --write -->";
const END: &str = "<!-- end of what is generated -->";

/// Native times below this say little about the ratio: start and end weigh more than the load.
const SHORT: Duration = Duration::from_millis(200);

/// Notes about a measurement beside its rows.
#[derive(Debug)]
pub(super) struct Circumstances {
    pub(super) date: String,
    /// CPU, virtual machine, kernel.
    pub(super) machine: String,
    /// The distribution.
    pub(super) system: String,
    /// Revision and kind of build of the tool.
    pub(super) tool: String,
    /// Other notes.
    pub(super) note: Option<String>,
    /// The load averages when it was done.
    pub(super) load: String,
    /// CPUs that the corpus could use.
    pub(super) cpus: usize,
    /// Runs of each row, natively and counted.
    pub(super) runs: (usize, usize),
}

/// The page with a fresh table.
pub(super) fn renewed(page: &str, rows: &[CorpusRow], circumstances: &Circumstances) -> Result<String> {
    let (before, rest) = page.split_once(BEGIN).with_context(|| format!("{PAGE} has no line {BEGIN}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("{PAGE} has no line {END}"))?;
    Ok(format!("{before}{BEGIN}\n\n{}\n{END}{after}", generated(rows, circumstances)))
}

fn generated(rows: &[CorpusRow], circumstances: &Circumstances) -> String {
    let Circumstances { date, machine, system, tool, cpus, runs: (native, counted), .. } = circumstances;
    let mut out = format!("{date}: {machine}; {system}; {cpus} CPUs.\n{tool}.\n");
    let _ = writeln!(
        out,
        "{native} native runs of each load, {counted} counted ones; load average at the end {}.",
        circumstances.load
    );
    out.extend(circumstances.note.iter().map(|note| format!("{note}\n")));
    let _ = writeln!(out, "\n{}\n", summary(rows));
    out.push_str("| program | load | output | counts | repeats | slowdown |\n|---|---|---|---|---|---|\n");
    rows.iter().for_each(|row| line(&mut out, row));
    out
}

/// The whole in a sentence.
fn summary(rows: &[CorpusRow]) -> String {
    let ran: Vec<&Ran> = rows.iter().filter_map(ran).collect();
    let clean = ran.iter().filter(|ran| ran.faults.is_empty()).count();
    let verdicts: Vec<CountAgreement> = ran.iter().map(|ran| verdict(&ran.counts)).collect();
    let exact = verdicts.iter().filter(|verdict| matches!(verdict, CountAgreement::Exact { .. })).count();
    let same = verdicts
        .iter()
        .filter(|verdict| matches!(verdict, CountAgreement::Exact { varies } if varies.is_empty()))
        .count();
    let mut text = format!(
        "Of {} programs {clean} behave as they do natively; {exact} are counted, {same} of them with the same counts in every run; \
         the counts of {} are lost.",
        ran.len(),
        ran.len() - exact,
    );
    let skipped = rows.len() - ran.len();
    if skipped > 0 {
        let _ = write!(text, " {skipped} did not run here.");
    }
    if let Some((median, worst)) = slowdowns(&ran) {
        let _ = write!(text, " Slowdown of the counted ones: median {median:.2}, worst {worst:.2}.");
    }
    text
}

fn ran(row: &CorpusRow) -> Option<&Ran> {
    match &row.outcome {
        RowOutcome::Ran(ran) => Some(ran),
        RowOutcome::Skipped(_) => None,
    }
}

/// Median and worst, of the rows that were counted to their end.
fn slowdowns(rows: &[&Ran]) -> Option<(f64, f64)> {
    let counted = rows.iter().filter(|ran| matches!(verdict(&ran.counts), CountAgreement::Exact { .. }));
    let mut ratios: Vec<f64> = counted.filter_map(|ran| slowdown(ran)).collect();
    ratios.sort_by(f64::total_cmp);
    Some((*ratios.get(ratios.len() / 2)?, *ratios.last()?))
}

/// The median counted time in parts of the median native one.
pub(super) fn slowdown(ran: &Ran) -> Option<f64> {
    Some(median(&ran.counted)?.as_secs_f64() / median(&ran.native)?.as_secs_f64())
}

fn median(times: &[Duration]) -> Option<Duration> {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

fn line(out: &mut String, row: &CorpusRow) {
    let program = row.program;
    let cells = match &row.outcome {
        RowOutcome::Skipped(reason) => ["not run".to_owned(), reason.clone(), String::new(), String::new()],
        RowOutcome::Ran(ran) => [output(row, ran), counts(ran), repeats(ran), times(ran)],
    };
    let version = ran(row).map_or(String::new(), |ran| format!(": {}", ran.version));
    let _ = write!(out, "| **{}**{} | {} |", program.name, escaped(&version), escaped(program.what));
    for cell in cells {
        let _ = write!(out, " {} |", escaped(&cell));
    }
    out.push('\n');
}

/// A cell of a table must not end it.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace(['\n', '\r'], " ").replace('<', "&lt;")
}

fn output(row: &CorpusRow, ran: &Ran) -> String {
    if !ran.faults.is_empty() {
        return format!("**FAILS**: {}", ran.faults.join("; "));
    }
    match &row.program.aside {
        None => "identical".to_owned(),
        Some(aside) => format!("identical; compared: {}", aside.compared),
    }
}

/// The counts in words.
pub(super) fn counts(ran: &Ran) -> String {
    match verdict(&ran.counts) {
        _ if ran.counts.is_empty() => "none".to_owned(),
        CountAgreement::Exact { .. } => "exact".to_owned(),
        CountAgreement::Lost { reasons, exact: 0 } => format!("lost: {}", joined(&reasons)),
        CountAgreement::Lost { reasons, exact } => {
            format!("lost in {} of {} runs: {}", ran.counts.len() - exact, ran.counts.len(), joined(&reasons))
        }
    }
}

fn joined(reasons: &std::collections::BTreeSet<String>) -> String {
    reasons.iter().map(String::as_str).collect::<Vec<_>>().join("; or ")
}

/// Whether the counts repeat, in words.
pub(super) fn repeats(ran: &Ran) -> String {
    match verdict(&ran.counts) {
        _ if ran.counts.len() < 2 => "not checked".to_owned(),
        CountAgreement::Lost { .. } => String::new(),
        CountAgreement::Exact { varies } if varies.is_empty() => "yes".to_owned(),
        CountAgreement::Exact { varies } => match varies.iter().max_by(|a, b| a.1.total_cmp(&b.1)) {
            Some((event, spread)) => {
                let instructions =
                    varies.iter().find(|(name, _)| name == "instructions").map_or(0.0, |of| of.1);
                format!(
                    "varies: instructions by {}, at most ({event}) by {}",
                    percent(instructions),
                    percent(*spread)
                )
            }
            None => "yes".to_owned(),
        },
    }
}

/// With two figures that mean something.
fn percent(part: f64) -> String {
    let percent = part * 100.0;
    let digits =
        if percent >= 1.0 || percent == 0.0 { 1 } else { (1.0 - percent.log10().floor()).min(9.0) as usize };
    format!("{percent:.digits$} %")
}

fn times(ran: &Ran) -> String {
    let Some((native, slowdown)) = median(&ran.native).zip(slowdown(ran)) else { return String::new() };
    let short = if native < SHORT { ", mostly start" } else { "" };
    format!("{slowdown:.2} × {:.2} s{short}", native.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::counts::{EVENTS, RunCounts};
    use super::super::table::PROGRAMS;
    use super::*;

    fn counted(value: u64) -> RunCounts {
        RunCounts::Exact(EVENTS.iter().map(|event| ((*event).to_owned(), value)).collect::<BTreeMap<_, _>>())
    }

    fn row(counts: Vec<RunCounts>, faults: &[&str]) -> CorpusRow {
        let seconds = |all: &[u64]| all.iter().map(|s| Duration::from_millis(*s)).collect();
        let faults = faults.iter().map(|fault| (*fault).to_owned()).collect();
        let (native, counted) = (seconds(&[400, 500, 900]), seconds(&[1000, 900, 2000]));
        let ran = Ran { version: "v|1".to_owned(), native, counted, counts, faults };
        CorpusRow { program: &PROGRAMS[0], outcome: RowOutcome::Ran(ran) }
    }

    fn circumstances() -> Circumstances {
        let text = |text: &str| text.to_owned();
        Circumstances {
            date: text("2026-01-02"),
            machine: text("a CPU"),
            system: text("a system"),
            tool: text("Revision 1"),
            note: Some(text("Not in a hurry.")),
            load: text("1, 2, 3"),
            cpus: 2,
            runs: (3, 3),
        }
    }

    fn cells(row: &CorpusRow) -> Vec<String> {
        let mut out = String::new();
        line(&mut out, row);
        out.trim().replace("\\|", "!").split('|').map(|cell| cell.trim().to_owned()).skip(1).collect()
    }

    #[test]
    fn a_good_row_tells_medians() {
        let cells = cells(&row(vec![counted(5), counted(5)], &[]));
        assert_eq!(cells[0], "**coreutils**: v!1");
        assert_eq!(cells[2..6], ["identical", "exact", "yes", "2.00 × 0.50 s"]);
    }

    #[test]
    fn faults_are_shown_instead_of_the_output() {
        let row = row(vec![counted(5), RunCounts::Lost("why".to_owned())], &["left behind: x"]);
        assert_eq!(cells(&row)[2..5], ["**FAILS**: left behind: x", "lost in 1 of 2 runs: why", ""]);
        assert!(summary(&[row]).starts_with("Of 1 programs 0 behave as they do natively; 0 are counted"));
    }

    #[test]
    fn one_run_alone_says_nothing_about_repeats() {
        assert_eq!(cells(&row(vec![counted(5)], &[]))[4], "not checked");
    }

    #[test]
    fn counts_that_vary_say_by_how_much() {
        let row = row(vec![counted(1_000_000), counted(999_990)], &[]);
        assert!(cells(&row)[4].starts_with("varies: instructions by 0.0010 %"), "{:?}", cells(&row));
        assert_eq!(percent(0.1), "10.0 %");
    }

    #[test]
    fn a_skipped_row_is_no_pass() {
        let row = CorpusRow { program: &PROGRAMS[0], outcome: RowOutcome::Skipped("no x here".to_owned()) };
        assert_eq!(cells(&row)[2..5], ["not run", "no x here", ""]);
        assert!(summary(&[row]).ends_with("1 did not run here."));
    }

    #[test]
    fn only_what_is_between_the_marks_is_renewed() {
        let page = format!("# Title\n{BEGIN}\nold\n{END}\nend\n");
        let fresh = renewed(&page, &[row(vec![counted(5)], &[])], &circumstances()).unwrap();
        assert!(fresh.starts_with("# Title\n") && fresh.ends_with(&format!("{END}\nend\n")));
        assert!(
            fresh.contains("load average at the end 1, 2, 3.\nNot in a hurry.\n\nOf 1 programs"),
            "{fresh}"
        );
        assert!(!fresh.contains("old") && fresh.contains("| **coreutils**"), "{fresh}");
        assert!(renewed("no marks", &[], &circumstances()).is_err());
    }
}

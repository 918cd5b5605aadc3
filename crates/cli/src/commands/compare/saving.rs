//! `--save-baseline`: the file for later comparisons is kept if the new measurement is worth less.

use std::path::Path;

use cyclometer_toolkit::interleaved::EarlyEnd;
use cyclometer_toolkit::stats::Failures;
use cyclometer_toolkit::stats::compare::Series;
use cyclometer_toolkit::symbols::CodeSeries;
use cyclometer_toolkit::{Error, ErrorKind, Recovery, Result};

use super::baseline::{FormerBaseline, MAX_BYTES};
use crate::export::Export;
use crate::output::{self, clean, clean_os};
use crate::render::compare::{Contest, json};

/// The file of a baseline that is to be saved.
pub struct Saving {
    /// As it is shown.
    file: String,
    export: Export,
    /// Replace it whatever it contains.
    force: bool,
}

impl Saving {
    /// # Errors
    ///
    /// As [`Export::open`].
    pub fn open(path: &Path, force: bool) -> Result<Saving> {
        Ok(Saving { file: clean_os(path.as_os_str()), export: Export::open("--save-baseline", path)?, force })
    }

    pub fn is_stdout(&self) -> bool {
        self.export.is_stdout()
    }

    /// Writes the results, unless they are incomplete.
    ///
    /// # Errors
    ///
    /// `ErrorKind::InvalidInput` where the file has values that this measurement lacks, or where runs
    /// failed and none of the file's did; as [`Export::write`].
    pub fn save(self, contest: &Contest<'_>) -> Result<()> {
        if !matches!(contest.comparison.ended, None | Some(EarlyEnd::Budget)) {
            // Half of a measurement is no measure for others.
            output::tell("cyclometer: warning: the baseline is not saved: not all was measured\n");
            return Ok(());
        }
        let former =
            self.export.former_text(MAX_BYTES).map(|text| FormerBaseline::read(&text)).unwrap_or_default();
        match loss(contest, &former) {
            Some(loss) if !self.force => return Err(self.not_replaced(&loss)),
            _ => self.warn_of_gaps(contest),
        }
        self.export.write(&json::render(contest))
    }

    fn not_replaced(&self, loss: &str) -> Error {
        let file = &self.file;
        let message = format!("the baseline {file} was not replaced: {loss}");
        Error::new(ErrorKind::InvalidInput, message).with_recovery(Recovery::fix(format!(
            "fix the cause, or replace {file} all the same with --force"
        )))
    }

    /// Names the events and counts by code that were asked for and that the baseline will not have.
    fn warn_of_gaps(&self, contest: &Contest<'_>) {
        if let Some(series) = asked_in_vain(contest) {
            let (file, name, why) = (&self.file, clean(&series.name), clean(why(series)));
            output::tell(&format!("cyclometer: warning: the baseline {file} has no {name}: {why}\n"));
        }
        let mut codes = contest.arms.iter().filter_map(|arm| arm.code.as_ref());
        if let Some(code) = codes.find(|code| !has_code(code)) {
            let (file, by, why) = (&self.file, code.grouping.word(), clean(&code.notes.join("; ")));
            output::tell(&format!("cyclometer: warning: the baseline {file} has no counts by {by}: {why}\n"));
        }
    }
}

/// The reason why a new measurement is worth less than the baseline that it would replace.
fn loss(contest: &Contest<'_>, former: &FormerBaseline) -> Option<String> {
    if former.counted.is_empty() {
        return None;
    }
    let failed = contest.comparison.reports.iter().find_map(|report| Failures::of(report).text());
    if let Some(failed) = failed.filter(|_| !former.has_failures) {
        return Some(format!("no run of it failed, and now {failed}"));
    }
    if let Some(series) = uncounted(contest).find(|series| former.counted.contains(&series.name)) {
        let (name, why) = (clean(&series.name), clean(why(series)));
        return Some(format!("it has {name}, which was not counted now ({why})"));
    }
    let codes = contest.arms.iter().map(|arm| arm.code.as_ref());
    if let (Some(by), Some(code)) = (former.by, codes.into_iter().find(|code| !code.is_some_and(has_code))) {
        let why = code.map_or_else(
            || format!("; add --by {by}"),
            |code| format!(" ({})", clean(&code.notes.join("; "))),
        );
        return Some(format!("it has counts by {by}, and this measurement has none{why}"));
    }
    let codes = contest.arms.iter().filter_map(|arm| arm.code.as_ref());
    if former.has_inlined && !codes.into_iter().any(|code| code.has_inlined) {
        let text = "it has counts of inlined functions, and this measurement has none; add --inlines";
        return Some(text.to_owned());
    }
    let missing = former.counted.iter().find(|name| !is_counted(contest, name))?;
    let missing = clean(missing);
    if let Some(asked) = asked_in_vain(contest) {
        let (name, why) = (clean(&asked.name), clean(why(asked)));
        return Some(format!("it has {missing}, and {name} was not counted now ({why})"));
    }
    let mut series = contest.arms.iter().flat_map(|arm| &arm.series);
    let has_nothing = series.all(|series| series.present().is_empty());
    has_nothing.then(|| format!("it has {missing}, and nothing was counted now"))
}

/// Whether there are counts by code.
fn has_code(code: &CodeSeries) -> bool {
    code.runs > 0
}

/// Whether each command has a value of a metric.
fn is_counted(contest: &Contest<'_>, name: &str) -> bool {
    let has = |series: &Series| series.name == name && !series.present().is_empty();
    contest.arms.iter().all(|arm| arm.series.iter().any(has))
}

/// The first event that was asked for by name and that some command has no value of.
fn asked_in_vain<'a>(contest: &'a Contest<'_>) -> Option<&'a Series> {
    let asked = contest.arms.iter().flat_map(|arm| &arm.summary.lines).filter(|line| line.requested);
    let asked: Vec<&str> = asked.map(|line| line.name.as_str()).collect();
    uncounted(contest).find(|series| asked.contains(&series.name.as_str()))
}

/// The metrics that no run of some command has a value of.
fn uncounted<'a>(contest: &'a Contest<'_>) -> impl Iterator<Item = &'a Series> {
    contest.arms.iter().flat_map(|arm| &arm.series).filter(|series| series.present().is_empty())
}

fn why(series: &Series) -> &str {
    series.reason.as_deref().unwrap_or("no run counted it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::compare::testing::{contest, shown};
    use std::fs;

    /// Saves the comparison of the tests over a file, with `lost` counted by no run; returns the error and
    /// the file's contents.
    fn saved(before: &str, lost: &[&str], force: bool) -> (Option<String>, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("base.json");
        fs::write(&path, before).unwrap();
        let outcome = std::cell::RefCell::new(None);
        shown(|machine, comparison| {
            let mut contest = contest(machine, comparison);
            for series in contest.arms.iter_mut().flat_map(|arm| &mut arm.series) {
                if lost.contains(&series.name.as_str()) {
                    series.values.iter_mut().for_each(|run| run.value = None);
                    series.reason = Some("lost: the program uses ptrace".to_owned());
                }
            }
            for line in contest.arms.iter_mut().flat_map(|arm| &mut arm.summary.lines) {
                line.requested |= line.name == "instructions:u";
            }
            let saving = Saving::open(&path, force).unwrap();
            outcome.replace(saving.save(&contest).err().map(|error| error.to_string()));
        });
        let file = path.display().to_string();
        (
            outcome.into_inner().map(|text| text.replace(&file, "base.json")),
            fs::read_to_string(&path).unwrap(),
        )
    }

    fn good() -> String {
        saved("", &[], false).1
    }

    #[test]
    fn a_baseline_without_its_counts_leaves_a_better_one_as_it_is() {
        let (error, text) = saved(&good(), &["instructions:u"], false);
        let expected = "the baseline base.json was not replaced: it has instructions:u, which was not counted now \
                        (lost: the program uses ptrace)";
        assert_eq!(error.as_deref(), Some(expected));
        assert_eq!(text, good());
    }

    #[test]
    fn a_baseline_without_its_counts_replaces_a_better_one_by_force() {
        let (error, text) =
            saved("{\"results\": [{\"command\": \"a\", \"times\": [1]}]}", &["wall_time"], true);
        assert_eq!(error, None);
        assert!(text.contains("schema_version"));
    }

    #[test]
    fn a_file_of_another_program_is_a_baseline_as_ours_is() {
        let theirs = "{\"results\": [{\"command\": \"a\", \"times\": [1]}]}";
        assert!(saved(theirs, &["wall_time"], false).0.unwrap().contains("it has wall_time"));
        assert_eq!(saved(theirs, &["instructions:u"], false).0, None, "it has none either");
    }

    #[test]
    fn a_file_that_has_nothing_to_lose_is_replaced() {
        for before in ["", "some text", "[]", "{\"results\": [{\"command\": \"a\", \"times\": [1]}]}"] {
            let (error, text) = saved(before, &["instructions:u"], false);
            assert_eq!(error, None, "{before}");
            assert!(text.contains("schema_version"));
        }
    }

    #[test]
    fn an_event_asked_for_in_vain_leaves_a_baseline_with_other_counts_as_it_is() {
        let text = "{\"counter-value\" : \"7\", \"unit\" : \"\", \"event\" : \"cycles:k\"}";
        let (error, kept) = saved(text, &["instructions:u"], false);
        let expected = "the baseline base.json was not replaced: it has cycles:k, and instructions:u was not \
                        counted now (lost: the program uses ptrace)";
        assert_eq!((error.as_deref(), kept.as_str()), (Some(expected), text));
        assert_eq!(saved(text, &["instructions:u"], true).0, None, "by force");
        assert_eq!(saved(text, &[], false).0, None, "all was counted that was asked for");
    }
}

//! `--save-baseline`: the file for later comparisons is kept if the new measurement is worth less.

use std::path::Path;

use cyclometer::interleaved::Ended;
use cyclometer::stats::compare::Series;
use cyclometer::{Error, ErrorKind, Recovery, Result};

use super::baseline::{MAX_BYTES, counted_metrics};
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
        Ok(Saving { file: clean_os(path.as_os_str()), export: Export::open(path)?, force })
    }

    pub fn is_stdout(&self) -> bool {
        self.export.is_stdout()
    }

    /// Writes the results, unless they are incomplete.
    ///
    /// # Errors
    ///
    /// `ErrorKind::InvalidInput` where metrics were not counted that the file has values of; as
    /// [`Export::write`].
    pub fn save(self, contest: &Contest<'_>) -> Result<()> {
        if !matches!(contest.comparison.ended, None | Some(Ended::Budget)) {
            // Half of a measurement is no measure for others.
            output::tell("cyclometer: warning: the baseline is not saved: not all was measured\n");
            return Ok(());
        }
        let former =
            self.export.former_text(MAX_BYTES).map(|text| counted_metrics(&text)).unwrap_or_default();
        let lost = uncounted(contest).find(|series| former.contains(&series.name));
        match lost {
            Some(series) if !self.force => return Err(self.worse_than_before(series)),
            _ => self.warn_of_gaps(contest),
        }
        self.export.write(&json::render(contest))
    }

    fn worse_than_before(&self, series: &Series) -> Error {
        let file = &self.file;
        let message = format!(
            "the baseline {file} was not replaced: it has {}, which was not counted now ({})",
            clean(&series.name),
            clean(why(series))
        );
        Error::new(ErrorKind::InvalidInput, message).with_recovery(Recovery::fix(format!(
            "fix the cause, or replace {file} all the same with --force"
        )))
    }

    /// Names the events that were asked for and that the baseline will not have.
    fn warn_of_gaps(&self, contest: &Contest<'_>) {
        let asked = contest.arms.iter().flat_map(|arm| &arm.summary.lines).filter(|line| line.requested);
        let asked: Vec<&str> = asked.map(|line| line.name.as_str()).collect();
        if let Some(series) = uncounted(contest).find(|series| asked.contains(&series.name.as_str())) {
            let (file, name, why) = (&self.file, clean(&series.name), clean(why(series)));
            output::tell(&format!("cyclometer: warning: the baseline {file} has no {name}: {why}\n"));
        }
    }
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
}

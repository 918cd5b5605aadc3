//! One row: natively, then under the software PMU, and what came of it.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::counts::{self, EVENTS, RunCounts};
use super::folder::{ASIDE, CorpusFolder, differences};
use super::program::CorpusProgram;
use super::running::{EndedCommand, RunningCommand, Supervisor, shown};

/// Longest time that a script may take natively.
const NATIVE_LIMIT: Duration = Duration::from_secs(120);
/// Longest time that it may take under the software PMU.
const COUNTED_LIMIT: Duration = Duration::from_secs(300);

/// The tool's export, among the logs.
pub(super) const COUNTS: &str = "counts.json";

/// The result of a row.
#[derive(Debug)]
pub(super) struct CorpusRow {
    pub(super) program: &'static CorpusProgram,
    pub(super) outcome: RowOutcome,
}

#[derive(Debug)]
pub(super) enum RowOutcome {
    /// Did not run, and why.
    Skipped(String),
    /// Ran.
    Ran(Ran),
}

#[derive(Debug)]
pub(super) struct Ran {
    pub(super) version: String,
    /// Wall time of each native run.
    pub(super) native: Vec<Duration>,
    /// Wall time of each run under the software PMU, the tool's own start and end included.
    pub(super) counted: Vec<Duration>,
    /// The counts of those.
    pub(super) counts: Vec<RunCounts>,
    /// Whatever must not be: another output, processes left behind, time over. Empty in a good row.
    pub(super) faults: Vec<String>,
}

/// How often a row runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Runs {
    pub(super) native: usize,
    pub(super) counted: usize,
}

/// Runs rows in a place.
pub(super) struct Runner<'a> {
    pub(super) supervisor: &'a Supervisor,
    pub(super) place: &'a CorpusFolder,
    pub(super) runs: Runs,
}

impl Runner<'_> {
    /// # Errors
    ///
    /// Failures of the corpus itself; the program's behaviour is in the outcome.
    pub(super) fn row(&self, program: &'static CorpusProgram) -> Result<CorpusRow> {
        let outcome = match self.missing(program) {
            Some(reason) => RowOutcome::Skipped(reason),
            None => RowOutcome::Ran(self.ran(program).with_context(|| program.name)?),
        };
        Ok(CorpusRow { program, outcome })
    }

    /// Why a row cannot run.
    pub(super) fn missing(&self, program: &CorpusProgram) -> Option<String> {
        let missing = program.needs.iter().find(|needed| self.place.find(needed.program).is_none())?;
        Some(format!("no {} here; package {}", missing.program, missing.package))
    }

    fn ran(&self, program: &'static CorpusProgram) -> Result<Ran> {
        let mut ran =
            Ran { version: String::new(), native: vec![], counted: vec![], counts: vec![], faults: vec![] };
        ran.version = self.prepared(program)?;
        for index in 0..self.runs.native {
            self.place.fresh(program)?;
            let label = format!("native run {}", index + 1);
            ran.native.extend(self.attempt(
                program,
                &native(program),
                &label,
                NATIVE_LIMIT,
                &mut ran.faults,
            )?);
            match index {
                0 => self.place.keep()?,
                _ => self.judge(program, &label, &mut ran.faults)?,
            }
        }
        if !ran.faults.is_empty() {
            // A program that does not repeat itself natively is no evidence about the tool.
            return Ok(ran);
        }
        for index in 0..self.runs.counted {
            self.place.fresh(program)?;
            let label = format!("counted run {}", index + 1);
            let wall =
                self.attempt(program, &self.counted(program), &label, COUNTED_LIMIT, &mut ran.faults)?;
            self.judge(program, &label, &mut ran.faults)?;
            if wall.is_some() {
                self.take_counts(&label, &mut ran);
            }
            ran.counted.extend(wall);
        }
        Ok(ran)
    }

    /// Makes the input; gives the version.
    pub(super) fn prepared(&self, program: &CorpusProgram) -> Result<String> {
        self.place.begin(program)?;
        let input = self.place.input();
        self.must_run(program, program.prepare, &input, "prepare")?;
        self.must_run(program, program.version, &self.place.logs(), "version")?;
        let said = fs::read_to_string(self.place.logs().join("version.out"))?;
        Ok(said.lines().find(|line| !line.trim().is_empty()).unwrap_or("").trim().to_owned())
    }

    fn must_run(&self, program: &CorpusProgram, script: &str, folder: &Path, name: &str) -> Result<()> {
        let command = self.place.command(&shell(script), folder, program);
        let mut running = self.supervisor.start(command, &self.place.logs(), name)?;
        let ended = running.wait(Instant::now() + NATIVE_LIMIT)?;
        running.bury(None)?;
        let ended = ended.with_context(|| format!("the script '{name}' takes too long"))?;
        ensure!(
            ended.status.success(),
            "the script '{name}': {}\n{}",
            ended.status,
            self.log(&format!("{name}.err"))
        );
        Ok(())
    }

    /// Starts a command in the working folder.
    pub(super) fn start(&self, program: &CorpusProgram, argv: &[OsString]) -> Result<RunningCommand<'_>> {
        // No run may be taken for the one before.
        let _ = fs::remove_file(self.place.logs().join(COUNTS));
        let command = self.place.command(argv, &self.place.work(), program);
        self.supervisor.start(command, &self.place.logs(), "tool")
    }

    /// Runs a command to its end; `None` with a fault when that does not come.
    fn attempt(
        &self,
        program: &CorpusProgram,
        argv: &[OsString],
        label: &str,
        limit: Duration,
        faults: &mut Vec<String>,
    ) -> Result<Option<Duration>> {
        let mut running = self.start(program, argv)?;
        let ended = running.wait(running.started() + limit)?;
        let left = running.bury(ended.is_none().then(Instant::now))?;
        match ended {
            None => faults.push(format!("{label}: not done after {} s: {}", limit.as_secs(), shown(&left))),
            Some(_) if !left.is_empty() => faults.push(format!("{label}: left behind: {}", shown(&left))),
            Some(ended) => self.status(label, ended, faults),
        }
        Ok(ended.map(|ended| ended.wall))
    }

    /// Every load ends with 0, natively too.
    fn status(&self, label: &str, ended: EndedCommand, faults: &mut Vec<String>) {
        if !ended.status.success() {
            let said = fs::read(self.place.work().join("err")).unwrap_or_default();
            let said = String::from_utf8_lossy(&said);
            let last = said.lines().last().unwrap_or("nothing on standard error");
            faults.push(format!("{label}: {}: {last}", ended.status));
        }
    }

    /// Compares what a run left with what the first one did.
    fn judge(&self, program: &CorpusProgram, label: &str, faults: &mut Vec<String>) -> Result<()> {
        let difference = differences(&self.place.native(), &self.place.work())?;
        if !difference.is_empty() {
            faults.push(format!("{label}: another output: {}", difference.trim_end_matches("; ")));
        }
        let aside = self.place.work().join(ASIDE).exists();
        ensure!(!aside || program.aside.is_some(), "{} writes to '{ASIDE}' without a word", program.name);
        Ok(())
    }

    fn take_counts(&self, label: &str, ran: &mut Ran) {
        match counts::counted(&self.log(COUNTS)) {
            Ok(counted) => ran.counts.push(counted),
            Err(error) => ran.faults.push(format!("{label}: {error:#}")),
        }
    }

    /// A file of the logs; empty when there is none.
    pub(super) fn log(&self, name: &str) -> String {
        fs::read(self.place.logs().join(name))
            .map_or(String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The load under the software PMU.
    pub(super) fn counted(&self, program: &CorpusProgram) -> Vec<OsString> {
        let mut argv: Vec<OsString> = vec![self.place.tool().into()];
        argv.extend(
            ["stat", "--backend", "soft", "-e", &EVENTS.join(","), "--export-json"].map(OsString::from),
        );
        argv.push(self.place.logs().join(COUNTS).into());
        argv.push("--".into());
        argv.extend(native(program));
        argv
    }
}

/// The load natively. Its streams go to files of the working folder, which are compared like all others, and
/// hold nothing that the tool says.
pub(super) fn native(program: &CorpusProgram) -> Vec<OsString> {
    shell(&format!("exec >out 2>err\n{}", program.load))
}

fn shell(script: &str) -> Vec<OsString> {
    ["/bin/sh", "-ec", script].map(OsString::from).to_vec()
}

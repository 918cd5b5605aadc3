//! `cargo xtask corpus`: real programs under the software PMU, compared with themselves.
//!
//! Every row of the table is run natively and under `cyclometer stat --backend soft`. The output, the files
//! that it leaves and its status must be the same; its counts must be exact, or lost for the reason that is
//! known of the program; nothing may be left behind.

mod counts;
mod folder;
mod page;
mod processes;
mod program;
mod row;
mod running;
mod table;
pub(crate) mod torture;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::ci::WorkspaceBuild;
use crate::command::{apt, cargo_command, installed, output};
use crate::root;
use folder::CorpusFolder;
use page::{Circumstances, PAGE};
use program::{CorpusProgram, LoadScale, ProgramUse};
use row::{COUNTS, CorpusRow, RowOutcome, Runner, Runs};
use running::Supervisor;
use table::PROGRAMS;

/// The sources of the loads, from the root of the workspace.
const SOURCES: &str = "xtask/corpus";

/// The options of the command line.
#[derive(Default, Debug)]
struct CorpusOptions {
    names: Vec<String>,
    write: bool,
    install: bool,
    /// The part that continuous integration runs, and nothing else.
    small: bool,
    tool: Option<PathBuf>,
    /// Whatever else is to be said about the measurement on the page.
    note: Option<String>,
}

impl CorpusOptions {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<CorpusOptions> {
        let mut options = CorpusOptions::default();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--write" => options.write = true,
                "--small" => options.small = true,
                "--install" => options.install = true,
                "--tool" => options.tool = Some(arguments.next().context("--tool needs a FILE")?.into()),
                "--note" => options.note = Some(arguments.next().context("--note needs a TEXT")?),
                option if option.starts_with('-') => {
                    bail!("'{option}' is no option; there are --small, --write, --install, --tool and --note")
                }
                name => options.names.push(name.to_owned()),
            }
        }
        ensure!(
            !options.write || options.names.is_empty(),
            "--write is for the whole corpus, not for some names"
        );
        Ok(options)
    }

    fn programs(&self) -> Result<Vec<&'static CorpusProgram>> {
        if self.names.is_empty() {
            return Ok(PROGRAMS.iter().collect());
        }
        self.names.iter().map(|name| named(name)).collect()
    }
}

fn named(name: &str) -> Result<&'static CorpusProgram> {
    let all = || PROGRAMS.iter().map(|program| program.name).collect::<Vec<_>>().join("\n  ");
    let found = PROGRAMS.iter().find(|program| program.name == name);
    found.with_context(|| format!("no program '{name}' in the corpus, which has\n  {}", all()))
}

/// Runs all rows or those named, prints what came of them, and writes the page if asked to.
pub(crate) fn run(arguments: impl Iterator<Item = String>) -> Result<()> {
    let options = CorpusOptions::parse(arguments)?;
    if options.small {
        return small();
    }
    let programs = options.programs()?;
    if options.install {
        install(&programs)?;
    }
    let tool = CorpusTool::new(options.tool.clone())?;
    let runs = Runs { native: 3, counted: 3 };
    let (rows, mut circumstances) = measured(&programs, &tool, LoadScale::Full, runs)?;
    circumstances.note = options.note;
    if options.write {
        let path = root().join(PAGE);
        let page = std::fs::read_to_string(&path).with_context(|| PAGE.to_owned())?;
        std::fs::write(&path, page::renewed(&page, &rows, &circumstances)?)
            .with_context(|| PAGE.to_owned())?;
    }
    judge(&rows)
}

/// The small corpus of continuous integration: short loads of programs that every system has.
pub(crate) fn small() -> Result<()> {
    let programs: Vec<&CorpusProgram> =
        PROGRAMS.iter().filter(|program| program.also.contains(&ProgramUse::Small)).collect();
    let tool = CorpusTool { file: WorkspaceBuild::new()?.tool, origin: "the build of the tests".to_owned() };
    if let Some(reason) = tool.refuses()? {
        eprintln!("==> the small corpus cannot run here: {reason}");
        return Ok(());
    }
    let runs = Runs { native: 1, counted: 2 };
    judge(&measured(&programs, &tool, LoadScale::Small, runs)?.0)
}

/// The tool that the corpus runs.
#[derive(Debug)]
struct CorpusTool {
    file: PathBuf,
    /// The build that the tool comes from.
    origin: String,
}

impl CorpusTool {
    /// The one that was named, or a release build, which users have: for times that mean something.
    fn new(named: Option<PathBuf>) -> Result<CorpusTool> {
        match named {
            Some(file) => {
                Ok(CorpusTool { file, origin: "built beforehand, and named with --tool".to_owned() })
            }
            None => Ok(CorpusTool { file: built()?, origin: "a build of profile release".to_owned() }),
        }
    }

    fn output(&self, arguments: &[&str]) -> Result<String> {
        output(&self.file.to_string_lossy(), arguments)
    }

    /// Why the software PMU does not work here, by the tool's own word; `None` when it does.
    fn refuses(&self) -> Result<Option<String>> {
        let said = self.output(&["doctor", "--json"])?;
        let said: Value = serde_json::from_str(&said).context("the answer of doctor")?;
        let rungs = said["ladder"].as_array().context("doctor shows no ladder")?;
        let soft =
            rungs.iter().find(|rung| rung["rung"] == "soft").context("doctor shows no software PMU")?;
        Ok((soft["works"] != "yes").then(|| soft.to_string()))
    }
}

/// Builds the tool and gives its path.
fn built() -> Result<PathBuf> {
    let options = ["build", "--release", "--locked", "--package", "cyclometer-cli"];
    let mut command = cargo_command(&options);
    command.args(["--message-format", "json"]).stdout(Stdio::piped()).stderr(Stdio::inherit());
    eprintln!("==> cargo {}", options.join(" "));
    let out = command.output().context("starting cargo")?;
    ensure!(out.status.success(), "building the tool: {}", out.status);
    let messages = String::from_utf8_lossy(&out.stdout);
    let mut executables = messages.lines().filter_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        message["executable"].as_str().map(PathBuf::from)
    });
    executables.next_back().context("cargo built no executable")
}

/// Runs rows and tells each when it is done.
fn measured(
    programs: &[&'static CorpusProgram],
    tool: &CorpusTool,
    scale: LoadScale,
    runs: Runs,
) -> Result<(Vec<CorpusRow>, Circumstances)> {
    let supervisor = Supervisor::new()?;
    let place = CorpusFolder::new(&root().join(SOURCES), scale)?;
    place.take(&tool.file)?;
    let runner = Runner { supervisor: &supervisor, place: &place, runs };
    let mut rows = Vec::new();
    let mut machine = None;
    for program in programs {
        let row = runner.row(program)?;
        tell(&row);
        rows.push(row);
        // The first one to tell: who is not root sees less.
        machine = machine.or_else(|| counts::machine(&runner.log(COUNTS)));
    }
    let machine = machine.unwrap_or_else(|| "no row told of the machine".to_owned());
    Ok((rows, circumstances(machine, tool, runs)?))
}

fn tell(row: &CorpusRow) {
    let name = row.program.name;
    match &row.outcome {
        RowOutcome::Skipped(reason) => eprintln!("{name}: SKIPPED: {reason}"),
        RowOutcome::Ran(ran) => {
            let slowdown = page::slowdown(ran).map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
            let verdict = if ran.faults.is_empty() { "identical" } else { "FAILS" };
            eprintln!(
                "{name}: {verdict}, {}, repeats: {}, slowdown {slowdown}",
                page::counts(ran),
                page::repeats(ran)
            );
            ran.faults.iter().for_each(|fault| eprintln!("    {fault}"));
        }
    }
}

fn circumstances(machine: String, tool: &CorpusTool, runs: Runs) -> Result<Circumstances> {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let system = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let revision = output("git", &["rev-parse", "--short", "HEAD"])?;
    let version = tool.output(&["--version"])?;
    Ok(Circumstances {
        date: output("date", &["+%F"])?.trim().to_owned(),
        machine,
        system: system.unwrap_or("an unknown system").trim_matches('"').to_owned(),
        tool: format!("{}, revision {}, {}", version.trim(), revision.trim(), tool.origin),
        note: None,
        load: load_average()?,
        cpus: std::thread::available_parallelism()?.get(),
        runs: (runs.native, runs.counted),
    })
}

/// The load averages of the last 1, 5 and 15 minutes. Source: `proc_loadavg(5)`.
fn load_average() -> Result<String> {
    let line = std::fs::read_to_string("/proc/loadavg").context("/proc/loadavg")?;
    Ok(line.split(' ').take(3).collect::<Vec<_>>().join(", "))
}

fn judge(rows: &[CorpusRow]) -> Result<()> {
    let bad =
        rows.iter().filter(|row| matches!(&row.outcome, RowOutcome::Ran(ran) if !ran.faults.is_empty()));
    let bad: Vec<&str> = bad.map(|row| row.program.name).collect();
    ensure!(bad.is_empty(), "these behave otherwise than natively: {}", bad.join(", "));
    let lost: Vec<String> = rows.iter().filter_map(unexpected).collect();
    ensure!(lost.is_empty(), "counts are lost where they should not be: {}", lost.join("; "));
    ensure!(rows.iter().any(|row| matches!(row.outcome, RowOutcome::Ran(_))), "not one program is here");
    Ok(())
}

/// The counts of a row that are lost although its program is known to be counted, or for another reason than
/// the known one.
fn unexpected(row: &CorpusRow) -> Option<String> {
    let RowOutcome::Ran(ran) = &row.outcome else { return None };
    let counts::CountAgreement::Lost { reasons, .. } = counts::verdict(&ran.counts) else { return None };
    let known = |reason: &&String| row.program.loses.is_some_and(|known| reason.contains(known));
    let reasons: Vec<&str> = reasons.iter().filter(|reason| !known(reason)).map(String::as_str).collect();
    (!reasons.is_empty()).then(|| format!("{} ({})", row.program.name, reasons.join("; ")))
}

/// Installs the packages of programs that are missing.
fn install(programs: &[&CorpusProgram]) -> Result<()> {
    let needed = programs.iter().flat_map(|program| program.needs);
    let missing: BTreeSet<&str> = needed
        .filter(|needed| !is_there(needed.program) && !installed(needed.package))
        .map(|needed| needed.package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    apt(&["update"])?;
    let missing: Vec<&str> = missing.into_iter().collect();
    apt(&[&["install", "--yes", "--no-install-recommends"], missing.as_slice()].concat())
}

fn is_there(program: &str) -> bool {
    output("sh", &["-c", &format!("command -v {program}")]).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<CorpusOptions> {
        CorpusOptions::parse(arguments.iter().map(|argument| (*argument).to_owned()))
    }

    #[test]
    fn options_and_names_mix() {
        let options = parsed(&["xz", "--install", "--tool", "x", "bash"]).unwrap();
        assert_eq!(options.names, ["xz", "bash"]);
        assert!(options.install && !options.write);
        assert_eq!(options.tool, Some("x".into()));
    }

    #[test]
    fn mistakes_name_what_is_wrong() {
        for (arguments, words) in [
            (&["--fast"][..], "'--fast' is no option"),
            (&["--tool"], "--tool needs a FILE"),
            (&["--note"], "--note needs a TEXT"),
            (&["xz", "--write"], "--write is for the whole corpus"),
        ] {
            assert!(parsed(arguments).unwrap_err().to_string().starts_with(words), "{arguments:?}");
        }
        let error = parsed(&["xzz"]).unwrap().programs().unwrap_err().to_string();
        assert!(error.starts_with("no program 'xzz' in the corpus, which has\n  coreutils\n"), "{error}");
    }

    #[test]
    fn rows_with_faults_or_none_at_all_fail() {
        let skipped = CorpusRow { program: &PROGRAMS[0], outcome: RowOutcome::Skipped("no x".to_owned()) };
        assert_eq!(judge(&[skipped]).unwrap_err().to_string(), "not one program is here");
    }

    #[test]
    fn counts_that_are_lost_fail_unless_that_is_known_of_the_program() {
        let row = |name: &str, reason: &str| {
            let counts = vec![counts::RunCounts::Lost(reason.to_owned())];
            let ran =
                row::Ran { version: String::new(), native: vec![], counted: vec![], counts, faults: vec![] };
            CorpusRow { program: named(name).unwrap(), outcome: RowOutcome::Ran(ran) }
        };
        judge(&[row("strace", "in part: without what ls did after another process traced it (ptrace)")])
            .unwrap();
        for (name, reason) in [
            ("bash", "bash: the program uses ptrace"),
            ("strace", "strace: the program locks all of its memory (mlockall)"),
        ] {
            let error = judge(&[row(name, reason)]).unwrap_err().to_string();
            assert_eq!(error, format!("counts are lost where they should not be: {name} ({reason})"));
        }
    }
}

//! `cargo xtask guests`: the programs tried on real kernels, in emulated machines that have a PMU.
//!
//! Everything foreign comes as packages that are unpacked into a cache; the host is left as it is. A missing
//! tool is a skip that is stated, never a pass.

mod apt;
mod build;
mod cache;
mod emulator;
mod fetch;
mod initrd;
mod machine;
mod missing;
mod module_tests;
mod outcome;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use build::{Builder, Programs};
use cache::DownloadCache;
use emulator::Emulator;
use fetch::Fetcher;
use machine::{GuestMachine, GuestTarget};
use missing::{is_missing, missing};
use outcome::{GuestOutcome, GuestRow, table};

use crate::ci::WorkspaceBuild;

/// The request of the command line.
struct GuestsRequest {
    kinds: Vec<String>,
    /// Keep consoles and what was built.
    keep: bool,
    /// The machines of continuous integration only.
    reduced: bool,
    /// How long each machine may take.
    limit: Duration,
}

/// Switches machines off in continuous integration, by the value `no`.
const SWITCH: &str = "CYCLOMETER_GUESTS";

/// Runs every machine, or those of some kinds.
pub(crate) fn run(args: impl Iterator<Item = String>) -> Result<()> {
    let request = GuestsRequest::new(args)?;
    let rows = all(&request)?;
    verdict(&rows, true)
}

/// Runs the machines of continuous integration: fewer of them; a missing tool is reported, and is no failure.
pub(crate) fn reduced() -> Result<()> {
    if std::env::var(SWITCH).is_ok_and(|value| value == "no") {
        eprintln!("==> skipped: emulated machines: {SWITCH}=no");
        return Ok(());
    }
    let request = GuestsRequest { reduced: true, ..GuestsRequest::new(std::iter::empty())? };
    verdict(&all(&request)?, false)
}

impl GuestsRequest {
    fn new(mut args: impl Iterator<Item = String>) -> Result<Self> {
        let limit = Duration::from_secs(machine::LIMIT_S);
        let mut request = Self { kinds: Vec::new(), keep: false, reduced: false, limit };
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--keep" => request.keep = true,
                "--reduced" => request.reduced = true,
                "--limit" => request.limit = seconds(args.next().as_deref())?,
                option if option.starts_with('-') => {
                    bail!("unknown option {option}; there are --keep, --reduced and --limit SECONDS")
                }
                _ => request.kinds.push(arg),
            }
        }
        machine::of_kinds(&request.kinds, request.reduced).map_err(anyhow::Error::msg)?;
        Ok(request)
    }
}

fn seconds(text: Option<&str>) -> Result<Duration> {
    let seconds = text.and_then(|text| text.parse().ok()).filter(|seconds| *seconds > 0);
    Ok(Duration::from_secs(seconds.context("--limit needs a number of seconds")?))
}

/// Fails if a machine failed; and, where skipping counts as failing, if one was skipped.
fn verdict(rows: &[GuestRow], skipping_fails: bool) -> Result<()> {
    let failed = rows
        .iter()
        .filter(|row| matches!(row.outcome, GuestOutcome::Finished { .. } | GuestOutcome::Broken(_)));
    let failed: Vec<&str> = failed.filter(|row| !row.outcome.passed()).map(|row| row.machine).collect();
    if !failed.is_empty() {
        bail!("not passed: {}", failed.join(", "));
    }
    let skipped = rows.iter().filter(|row| !row.outcome.passed()).count();
    if skipped > 0 && skipping_fails {
        bail!("{skipped} of {} machines were skipped, which is no pass", rows.len());
    }
    Ok(())
}

fn all(request: &GuestsRequest) -> Result<Vec<GuestRow>> {
    let machines = machine::of_kinds(&request.kinds, request.reduced).map_err(anyhow::Error::msg)?;
    let mut trials: Vec<GuestTrial> = machines.into_iter().map(GuestTrial::Machine).collect();
    if !request.reduced && trials.iter().any(|trial| trial.needs_module()) {
        trials.extend(module_tests::TESTS.iter().copied().map(GuestTrial::Module));
    }
    let cache = DownloadCache::open()?;
    let work = cache.path().join(format!("run-{}", std::process::id()));
    fs::create_dir_all(&work).with_context(|| format!("making {}", work.display()))?;
    let rows = prepared(&trials, &cache, &work, request);
    if request.keep {
        eprintln!("==> consoles and what was built are in {}", work.display());
    } else {
        fs::remove_dir_all(&work).with_context(|| format!("removing {}", work.display()))?;
    }
    let rows = rows?;
    eprint!("\n{}", table(&rows));
    Ok(rows)
}

/// A row of the table to be.
#[derive(Clone, Copy)]
enum GuestTrial {
    /// A machine with our suite.
    Machine(&'static GuestMachine),
    /// A test that the module for Apple's registers has of its own: its name there, and here.
    Module((&'static str, &'static str)),
}

impl GuestTrial {
    fn name(self) -> &'static str {
        match self {
            Self::Machine(machine) => machine.name,
            Self::Module((_, name)) => name,
        }
    }

    fn machine(self) -> Option<&'static GuestMachine> {
        match self {
            Self::Machine(machine) => Some(machine),
            Self::Module(_) => None,
        }
    }

    fn needs_module(self) -> bool {
        self.machine().is_some_and(|machine| machine.module)
    }

    fn run(self, common: &TrialContext, builder: &mut Builder<'_, '_>) -> Result<GuestRow> {
        match self {
            Self::Machine(machine) => tried(machine, common, builder),
            Self::Module(test) => module_tests::tried(test, common, builder),
        }
    }

    fn skipped(self, error: &anyhow::Error) -> GuestRow {
        let outcome = GuestOutcome::Skipped(format!("{error:#}"));
        GuestRow { machine: self.name(), kernel: String::new(), outcome, took: Duration::ZERO }
    }
}

/// The common needs of all trials, then each of them.
fn prepared(
    trials: &[GuestTrial],
    cache: &DownloadCache,
    work: &Path,
    request: &GuestsRequest,
) -> Result<Vec<GuestRow>> {
    let mut fetcher = Fetcher::new(cache);
    let mut builder = Builder { fetcher: &mut fetcher, work };
    let rows = match TrialContext::new(trials, &mut builder, request) {
        Err(error) if is_missing(&error) => trials.iter().map(|trial| trial.skipped(&error)).collect(),
        Err(error) => return Err(error),
        Ok(common) => each(trials, &common, &mut builder)?,
    };
    fetcher.done()?;
    Ok(rows)
}

fn each(
    trials: &[GuestTrial],
    common: &TrialContext,
    builder: &mut Builder<'_, '_>,
) -> Result<Vec<GuestRow>> {
    let mut rows = Vec::new();
    for trial in trials {
        rows.push(match trial.run(common, builder) {
            Err(error) if is_missing(&error) => trial.skipped(&error),
            row => row?,
        });
    }
    Ok(rows)
}

/// The common parts of several trials.
struct TrialContext {
    emulator: Emulator,
    plugin: PathBuf,
    programs: BTreeMap<GuestTarget, Programs>,
    /// For instruction sets without programs, what they lack.
    lacking: BTreeMap<GuestTarget, String>,
    limit: Duration,
}

impl TrialContext {
    fn new(trials: &[GuestTrial], builder: &mut Builder<'_, '_>, request: &GuestsRequest) -> Result<Self> {
        if std::env::consts::ARCH != "x86_64" {
            return Err(missing("the packages of the emulator are those for x86-64"));
        }
        let machines: Vec<&GuestMachine> = trials.iter().filter_map(|trial| trial.machine()).collect();
        let emulator = Emulator::new(|| builder.fetcher.emulator())?;
        let programs: BTreeSet<&str> = machines.iter().filter_map(|m| m.emulator.first().copied()).collect();
        programs.into_iter().try_for_each(|program| emulator.check(program))?;
        let plugin = builder.plugin()?;
        let (mut tools, mut lacking) = (Vec::new(), BTreeMap::new());
        for target in machines.iter().map(|machine| machine.target).collect::<BTreeSet<_>>() {
            match builder.tools(target) {
                Ok(found) => tools.push(found),
                Err(error) if is_missing(&error) => drop(lacking.insert(target, format!("{error:#}"))),
                Err(error) => return Err(error),
            }
        }
        // Continuous integration has built the programs for this machine, with shared libraries.
        let workspace = if request.reduced { Some(WorkspaceBuild::new()?) } else { None };
        let programs = builder.programs(&tools, workspace.as_ref())?;
        Ok(Self { emulator, plugin, programs, lacking, limit: request.limit })
    }

    fn programs(&self, target: GuestTarget) -> Result<&Programs> {
        let lacking = || self.lacking.get(&target).map_or("programs", String::as_str);
        self.programs.get(&target).ok_or_else(|| missing(lacking()))
    }
}

/// Boots a machine and reads what its suite says.
fn tried(
    machine: &'static GuestMachine,
    common: &TrialContext,
    builder: &mut Builder<'_, '_>,
) -> Result<GuestRow> {
    let kernel = builder.fetcher.kernel(machine.kernel)?;
    let version = fs::read_to_string(kernel.join("package")).unwrap_or_default();
    let args = arguments(machine, common, builder, &kernel.join("image"))?;
    let log = builder.work.join(format!("{}.log", machine.name));
    let limit = common.limit;
    eprintln!("==> {}", machine.name);
    let begin = Instant::now();
    let ended = common.emulator.boot(machine, &args, &log, limit)?;
    let took = begin.elapsed();
    let console = emulator::console(&log)?;
    let outcome = GuestOutcome::of(&ended, &console, limit);
    tell(&console, &outcome);
    let kernel = version.trim().trim_start_matches("linux-image-").to_owned();
    Ok(GuestRow { machine: machine.name, kernel, outcome, took })
}

/// The arguments of a machine's emulator.
fn arguments(
    machine: &GuestMachine,
    common: &TrialContext,
    builder: &mut Builder<'_, '_>,
    kernel: &Path,
) -> Result<Vec<String>> {
    let programs = common.programs(machine.target)?;
    let module = match machine.module {
        true => Some(builder.apple_module(false)?.join("apple_pmu_el0.ko")),
        false => None,
    };
    let initrd = builder.initrd(machine, programs, module.as_deref())?;
    let mut args = vec!["-kernel".to_owned(), kernel.display().to_string()];
    args.extend(["-initrd".to_owned(), initrd.display().to_string()]);
    args.extend(["-append".to_owned(), machine.command_line()]);
    if let Some(tree) = builder.tree(machine, &common.emulator)? {
        args.extend(["-dtb".to_owned(), tree.display().to_string()]);
    }
    if let Some(options) = machine.plugin {
        let socket = socket(builder.work, machine)?;
        args.extend(["-plugin".to_owned(), format!("{},{options},qmp={socket}", common.plugin.display())]);
        args.extend(["-qmp".to_owned(), format!("unix:{socket},server=on,wait=off")]);
    }
    Ok(args)
}

/// Where the emulator listens: names of sockets are short.
fn socket(work: &Path, machine: &GuestMachine) -> Result<String> {
    let socket = work.join(format!("{}.qmp", machine.name)).display().to_string();
    // `sun_path` of sockaddr_un, unix(7).
    if socket.len() >= 108 {
        bail!("{socket} is too long a name for a socket; set {} to a shorter folder", cache::VARIABLE);
    }
    Ok(socket)
}

/// All lines of a suite that did not pass, and of one that broke off also the last ones of its console.
fn tell(console: &[String], outcome: &GuestOutcome) {
    let of_suite =
        |line: &&String| ["case: ", "why: ", "suite: "].iter().any(|start| line.starts_with(start));
    if !outcome.passed() {
        console.iter().filter(of_suite).for_each(|line| eprintln!("    {line}"));
    }
    if matches!(outcome, GuestOutcome::Broken(_)) {
        let begin = console.len().saturating_sub(30);
        console[begin..].iter().for_each(|line| eprintln!("    | {line}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(outcome: GuestOutcome) -> GuestRow {
        GuestRow { machine: "m", kernel: "k".to_owned(), outcome, took: Duration::ZERO }
    }

    #[test]
    fn a_skip_is_no_pass_but_only_by_hand_a_failure() {
        let passed = || row(GuestOutcome::Finished { cases: 3, failed: Vec::new() });
        let skipped = || row(GuestOutcome::Skipped("no network".to_owned()));
        let failed = || row(GuestOutcome::Finished { cases: 3, failed: vec!["a".to_owned()] });
        assert!(verdict(&[passed()], true).is_ok());
        assert!(verdict(&[passed(), skipped()], false).is_ok());
        let error = verdict(&[passed(), skipped()], true).unwrap_err().to_string();
        assert_eq!(error, "1 of 2 machines were skipped, which is no pass");
        assert_eq!(verdict(&[failed(), skipped()], false).unwrap_err().to_string(), "not passed: m");
        assert!(verdict(&[row(GuestOutcome::Broken("x".to_owned()))], false).is_err());
    }

    #[test]
    fn options_and_kinds_are_read_and_unknown_ones_named() {
        let of = |words: &[&str]| GuestsRequest::new(words.iter().map(|word| (*word).to_owned()));
        let request = of(&["arm64", "--keep"]).unwrap();
        assert!(request.keep && !request.reduced && request.kinds == ["arm64"]);
        assert_eq!(of(&["--limit", "7"]).unwrap().limit, Duration::from_secs(7));
        assert!(of(&["--limit", "soon"]).err().unwrap().to_string().contains("number of seconds"));
        assert!(of(&["sparc"]).err().unwrap().to_string().contains("no kind of machine"));
        assert!(of(&["--kep"]).err().unwrap().to_string().contains("--kep"));
    }
}

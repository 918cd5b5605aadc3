//! `compare`: runs several commands alternately, reports their differences, and checks them against gates.

mod args;
mod baseline;
mod code;
mod gates;
mod outputs;
mod saving;
mod syntax;
mod words;

use std::path::Path;
use std::sync::Arc;

use cyclometer_toolkit::compare::{Compare, Executions};
use cyclometer_toolkit::core::Rung;
use cyclometer_toolkit::core::code::CodeCounts;
use cyclometer_toolkit::core::exec::OutputStream;
use cyclometer_toolkit::core::report::Run;
use cyclometer_toolkit::interleaved::{Comparison, EarlyEnd, Watcher};
use cyclometer_toolkit::stats::compare::{
    Design, FailedRuns, Gate, GateSide, Question, Ruling, Series, compare,
};
use cyclometer_toolkit::stats::{Failures, summarise_with};
use cyclometer_toolkit::symbols::Grouping;
use cyclometer_toolkit::{Error, Launcher, Machine, Result, SignalWatch, Stat, asked_scope, machine};

pub use args::CompareArgs;
use baseline::Baseline;
use code::CodeOfArms;
use outputs::Outputs;
use saving::Saving;
use words::Contestant;

use super::by_code;
use super::streams::{self, CommandInput};
use crate::args::Cli;
use crate::export::{self, Export, cannot_print};
use crate::output::{self, Channel, clean};
use crate::progress::Progress;
use crate::render::compare::code::CodeVersus;
use crate::render::compare::{
    ArmShown, Contest, Reference, Versus, csv, delta, json, markdown, plot, render,
};
use crate::render::hanging;
use crate::render::plot::PlotFormat;
use crate::{exit, failure};

/// Pairs where only a time was given: as many as fit, up to this number.
const PAIRS_OF_DURATION: u32 = 1000;

/// Measures, compares, prints, exports; gives the exit code.
///
/// # Errors
///
/// Usage that makes no sense, files that cannot be read or written, and errors that prevent the whole
/// measurement.
pub fn run(args: &CompareArgs, cli: &Cli, launcher: Launcher) -> Result<u8> {
    let contestants = words::contestants(args)?;
    check(args, contestants.len())?;
    // Exports are opened before any command runs, so that a typo in a path costs no run.
    let exports = CompareExports::open(args)?;
    let machine = machine();
    let mut baseline = match (&args.baseline, contestants.first()) {
        (Some(path), Some(only)) => Some(baseline::read(path, args, &only.name, &machine)?),
        _ => None,
    };
    let stat = measurement(args, &machine)?;
    let mut judge = RunJudge {
        outputs: args.check_output.then(Outputs::new).transpose()?,
        code: args.by.map(|grouping| CodeOfArms::new(grouping, args.inlines)),
        ..RunJudge::default()
    };
    let input = CommandInput::of_several_runs(args.input.as_deref())?;
    let outputs = outputs_of(args, judge.outputs.as_ref());
    baseline.iter_mut().for_each(|baseline| baseline.compare_output(&outputs.0));
    let plan = measured(args, &stat, &contestants, &input, &outputs)?;
    gates::check(&args.fail_if, &plan.plan()?, &stat, baseline.as_ref())?;
    args.by.map_or(Ok(()), |grouping| by_code::check_plan(grouping, &plan.plan()?))?;
    let executions = plan.executions()?;
    if let Some(baseline) = baseline.as_ref().filter(|_| executions.counted > 0) {
        baseline.check_processor(args.cpu_baseline)?;
    }
    contestants.iter().try_for_each(Contestant::check_program)?;
    announce(args, executions);
    input.note().filter(|_| !args.quiet).into_iter().for_each(output::tell);
    judge.progress = Some(progress(args, executions));
    let watch = Arc::new(super::watch()?);
    judge.watch = Some(Arc::clone(&watch));
    let launcher = launcher.with_signals(watch);
    let mut comparison = plan.run(&launcher, &mut judge)?;
    if let Some(signal) = judge.signal {
        comparison.ended = Some(EarlyEnd::Interrupted(signal));
    }
    drop((judge.progress.take(), judge.watch.take()));
    input.warning().into_iter().for_each(output::tell);
    let measured = MeasuredContest {
        contestants: &contestants,
        machine: &machine,
        comparison: &comparison,
        stat: &stat,
        outputs: judge.outputs.as_ref(),
        code: judge.code.as_ref(),
        executions,
    };
    let contest = contest(args, &measured, baseline);
    let shown = show(&contest, args, cli, &exports);
    exports.write(&contest, || drop(launcher))?;
    shown?;
    for error in failed_cleanups(&contest) {
        failure::report(error, cli.verbose);
    }
    failing_baseline(args, &contest).into_iter().for_each(|text| output::tell(&text));
    Ok(exit_code(args, &contest))
}

fn check(args: &CompareArgs, commands: usize) -> Result<()> {
    if commands > 1 && args.baseline.is_some() {
        let hint = "give one command, or leave --baseline out: several are compared with the first";
        return Err(failure::usage("a baseline is compared with one command", hint));
    }
    let alone = commands == 1 && args.baseline.is_none();
    if alone && !args.fail_if.is_empty() {
        let hint = "give another command, or --baseline FILE";
        return Err(failure::usage("--fail-if has nothing to compare with", hint));
    }
    if alone && args.save_baseline.is_none() {
        let hint =
            "give another command, --baseline FILE to compare with, or --save-baseline FILE to make one";
        return Err(failure::usage("one command has nothing to be compared with", hint));
    }
    args.by.map_or(Ok(()), |grouping| by_code::check_source(grouping, args.backend))?;
    if let Some(by) = args.by.filter(|by| args.inlines && *by != Grouping::Function) {
        let text = format!("--inlines has rows for functions, not --by {}", by.word());
        return Err(failure::usage(text, "use --by function"));
    }
    let (input, output) = (
        streams::input(args.input.as_deref()),
        streams::outputs(args.output.as_deref(), OutputStream::Discard).0,
    );
    let [json, csv, markdown] = args.exports.named();
    let (baseline, plot) =
        (("--save-baseline", args.save_baseline.as_deref()), ("--plot", args.plot.as_deref()));
    export::check(&[json, csv, markdown, baseline, plot], &args.tables, (&input, &output))
}

fn measurement(args: &CompareArgs, machine: &Machine) -> Result<Stat> {
    let tables = super::tables_here(machine);
    let tables = args.tables.iter().try_fold(tables, |tables, file| tables.with_file(file, machine))?;
    let mut stat = Stat::new(machine.clone()).tables(tables);
    for list in &args.events {
        stat = stat.events(list)?;
    }
    for list in &args.metrics {
        stat = stat.metrics(list)?;
    }
    if args.by.is_some() && args.events.is_empty() && args.metrics.is_empty() {
        stat = stat.events(by_code::USUAL_EVENT)?;
    }
    let stat = stat
        .ignore_failure(args.ignore_failure)
        .backend(args.by.map_or(args.backend.rung(), |_| Some(Rung::Soft)))
        .by_code(args.by.is_some())
        .cpu_baseline(args.cpu_baseline)
        .hints(!args.no_hints);
    Ok(args.seed.into_iter().fold(stat, Stat::seed))
}

/// Where the commands' standard output and standard error lead.
fn outputs_of(args: &CompareArgs, checked: Option<&Outputs>) -> (OutputStream, OutputStream) {
    let (stdout, stderr) = match checked {
        Some(outputs) => (OutputStream::File(outputs.file()), OutputStream::Discard),
        None => streams::outputs(args.output.as_deref(), OutputStream::Discard),
    };
    (streams::as_seen(stdout), stderr)
}

/// The comparison, ready to be run.
fn measured(
    args: &CompareArgs,
    stat: &Stat,
    contestants: &[Contestant],
    input: &CommandInput,
    (stdout, stderr): &(OutputStream, OutputStream),
) -> Result<Compare> {
    let usual = if args.duration.is_some() { PAIRS_OF_DURATION } else { cyclometer_toolkit::compare::PAIRS };
    let mut compare = Compare::new(stat.clone())
        .pairs(args.pairs.unwrap_or(usual))
        .counted(args.counted.unwrap_or_default())
        .warmups(args.warmup)
        .budget(args.duration)
        .padded(!args.no_padding);
    if let Some(cpus) = &args.cpus {
        compare = compare.cpus(cpus.clone())?;
    }
    for Contestant { command, hooks, .. } in contestants {
        let mut command = command.clone();
        (command.stdin, command.stdout, command.stderr) =
            (input.stream.clone(), stdout.clone(), stderr.clone());
        compare = compare.command_with(command, hooks.clone());
    }
    Ok(compare)
}

/// Says how often commands will be executed, before the first is.
fn announce(args: &CompareArgs, executions: Executions) {
    if args.quiet {
        return;
    }
    let Executions { commands, warmups, counted, native } = executions;
    let plural = |n: u32, one: &str, many: &str| format!("{n} {}", if n == 1 { one } else { many });
    let mut parts = Vec::new();
    if native > 0 {
        let what = if commands > 1 { ("pair", "pairs") } else { ("run", "runs") };
        parts.push(plural(native, what.0, what.1));
    }
    if counted > 0 {
        let what = if commands > 1 { ("run of each", "runs of each") } else { ("run", "runs") };
        parts.push(format!("{} counted by the software PMU", plural(counted, what.0, what.1)));
    }
    if warmups > 0 {
        let what =
            if commands > 1 { ("warm-up of each", "warm-ups of each") } else { ("warm-up", "warm-ups") };
        parts.push(plural(warmups, what.0, what.1));
    }
    let most = if args.duration.is_some() { "at most " } else { "" };
    let total = executions.total();
    let what = if total == 1 { "execution" } else { "executions" };
    let commands = plural(commands, "command", "commands");
    let said = format!("{most}{total} {what} of {commands}: {}", parts.join(", "));
    output::tell(&hanging("cyclometer: ", &said, str::to_owned));
}

fn progress(args: &CompareArgs, executions: Executions) -> Progress {
    let inherits = args.output.as_deref().is_some_and(|path| path.as_os_str() == "inherit");
    let enabled = !args.quiet && !inherits && super::shows_progress();
    Progress::new(u32::try_from(executions.total()).unwrap_or(u32::MAX), enabled)
}

/// Looks at runs while they are made.
#[derive(Default)]
struct RunJudge {
    progress: Option<Progress>,
    started: u32,
    outputs: Option<Outputs>,
    code: Option<CodeOfArms>,
    /// The signals that end the look-up of names.
    watch: Option<Arc<SignalWatch>>,
    /// The one that did.
    signal: Option<i32>,
}

impl Watcher for RunJudge {
    fn run_started(&mut self, _: usize, _: u32, _: bool) {
        if let Some(progress) = &mut self.progress {
            progress.advance(self.started);
        }
        self.started += 1;
    }

    fn code(&mut self, arm: usize, index: u32, counts: Result<CodeCounts>) {
        let RunJudge { code, watch, signal, .. } = self;
        let next_signal = || watch.as_ref().and_then(|watch| watch.take());
        if let Some(code) = code {
            *signal = code.add(arm, index, counts, next_signal).or(*signal);
        }
    }

    fn run_finished(&mut self, arm: usize, run: &Run) -> Option<String> {
        let difference = self.outputs.as_mut().and_then(|outputs| outputs.check(arm, run.index));
        difference.or(self.signal.map(|signal| format!("signal {signal} came")))
    }
}

/// The measurement with its inputs.
struct MeasuredContest<'a> {
    contestants: &'a [Contestant],
    machine: &'a Machine,
    comparison: &'a Comparison,
    stat: &'a Stat,
    outputs: Option<&'a Outputs>,
    code: Option<&'a CodeOfArms>,
    executions: Executions,
}

/// The input of all tables and exports.
fn contest<'a>(
    args: &CompareArgs,
    measured: &MeasuredContest<'a>,
    baseline: Option<Baseline>,
) -> Contest<'a> {
    let MeasuredContest { contestants, machine, comparison, stat, outputs, code, executions } = *measured;
    let requests = stat.metric_requests();
    let arms: Vec<ArmShown> = contestants
        .iter()
        .zip(&comparison.reports)
        .enumerate()
        .map(|(arm, (contestant, report))| {
            let summary = summarise_with(report, asked_scope(report), &requests);
            let series = Series::all_of(&summary);
            let code = code.map(|code| code.series(arm, report, &summary));
            ArmShown { name: contestant.name.clone(), series, summary, code }
        })
        .collect();
    let design = if baseline.is_some() { Design::Apart } else { Design::Paired };
    let reference = match baseline {
        None => Reference::First,
        Some(Baseline { file, command, series, code, failures, notes, .. }) => {
            Reference::Baseline { file, command, series, code: code.map(Box::new), failures, notes }
        }
    };
    let mut contest = Contest {
        machine,
        comparison,
        arms,
        reference,
        versus: Vec::new(),
        question: Question { design, threshold: args.threshold },
        executions,
        output_difference: outputs.and_then(|outputs| outputs.difference().map(str::to_owned)),
        output_checked: args.check_output,
    };
    contest.versus = versus(&contest, args);
    contest
}

fn versus(contest: &Contest<'_>, args: &CompareArgs) -> Vec<Versus> {
    let first = usize::from(contest.reference == Reference::First);
    if contest.comparison.reports.iter().any(|report| report.runs.is_empty()) {
        return Vec::new();
    }
    let others: Vec<&[Series]> = contest.arms[first..].iter().map(|arm| arm.series.as_slice()).collect();
    let a = contest.reference_series();
    let failed_runs = if args.accept_failures { FailedRuns::Accept } else { FailedRuns::Refuse };
    let each = compare(a, &others, contest.question).into_iter().zip(&others).enumerate();
    each.map(|(i, (metrics, b))| {
        let failures = [contest.reference_failures(), Failures::of(contest.report(first + i))];
        let a = GateSide { series: a, failures: &failures[0] };
        let b = GateSide { series: b, failures: &failures[1] };
        let outcome = |gate: &Gate| gate.apply(a, b, contest.question, failed_runs);
        let code = contest.reference_code().zip(contest.arms[first + i].code.as_ref());
        let code = code.map(|(a, b)| CodeVersus::of(a, b, args.top)).filter(|_| args.by.is_some());
        Versus { arm: first + i, metrics, gates: args.fail_if.iter().map(outcome).collect(), code }
    })
    .collect()
}

fn show(contest: &Contest<'_>, args: &CompareArgs, cli: &Cli, exports: &CompareExports) -> Result<()> {
    if args.quiet || exports.any_on_stdout() {
        for line in unsaid(contest) {
            output::tell(&line);
        }
        return Ok(());
    }
    let text = render(contest, cli.verbose, super::paint(cli, Channel::Out));
    output::put(Channel::Out, &text).map_err(|error| cannot_print(&error))?;
    warn_inconclusive(contest, args);
    early_end(contest).iter().for_each(|text| output::tell(text));
    Ok(())
}

/// The message on standard error when an error ended the measurement early.
fn early_end(contest: &Contest<'_>) -> Option<String> {
    const HELP: &str =
        "run it by itself, or use --output inherit, to see what it says; -i goes on when a command fails";
    match contest.comparison.ended.as_ref()? {
        EarlyEnd::Failed(reason) => {
            Some(format!("cyclometer: error: {}\nhelp: {HELP}\n", clean(&failure::without_numbers(reason))))
        }
        EarlyEnd::Stopped(reason) => Some(format!("cyclometer: error: {}\n", clean(reason))),
        _ => None,
    }
}

/// The messages that are needed where no table is shown: gates that do not pass, and an early end.
fn unsaid(contest: &Contest<'_>) -> Vec<String> {
    let gates = contest.versus.iter().flat_map(|versus| versus.gates.iter().map(move |gate| (versus, gate)));
    let failed = gates.filter(|(_, gate)| gate.ruling != Ruling::Passed);
    let mut lines: Vec<String> = failed
        .map(|(versus, gate)| {
            let (gate_text, reason) = (clean(&gate.gate), clean(&delta::gate_reason(gate, versus)));
            format!("cyclometer: gate {gate_text}: {}{reason}\n", gate.ruling.word())
        })
        .collect();
    match (&contest.comparison.ended, early_end(contest)) {
        (_, Some(text)) => lines.push(text),
        (Some(EarlyEnd::Interrupted(signal)), None) => {
            lines.push(format!("cyclometer: warning: ended early: signal {signal} came\n"));
        }
        _ => {}
    }
    lines
}

/// The failures of hooks after the runs, each once: every command has the same hook.
fn failed_cleanups<'a>(contest: &Contest<'a>) -> Vec<&'a Error> {
    let mut failed: Vec<&Error> = contest.comparison.failed_cleanups.iter().collect();
    failed.dedup_by_key(|error| error.to_string());
    failed
}

/// The warning about a baseline that was saved with failed runs.
fn failing_baseline(args: &CompareArgs, contest: &Contest<'_>) -> Option<String> {
    let is_saved = matches!(contest.comparison.ended, None | Some(EarlyEnd::Budget));
    let path = args.save_baseline.as_ref().filter(|_| is_saved)?;
    let failed = contest.comparison.reports.iter().find_map(|report| Failures::of(report).text())?;
    let path = output::clean_os(path.as_os_str());
    Some(format!("cyclometer: warning: the baseline {path}: {failed}; --fail-if will not decide over them\n"))
}

fn warn_inconclusive(contest: &Contest<'_>, args: &CompareArgs) {
    let gates = contest.versus.iter().flat_map(|versus| &versus.gates);
    let open = gates.filter(|gate| gate.ruling == Ruling::Inconclusive).count();
    if open > 0 && !args.fail_inconclusive {
        output::tell(
            "cyclometer: warning: a gate is inconclusive and passes; add --pairs, or use --fail-inconclusive\n",
        );
    }
}

fn exit_code(args: &CompareArgs, contest: &Contest<'_>) -> u8 {
    match &contest.comparison.ended {
        Some(EarlyEnd::Interrupted(signal)) => return exit::of_interrupted(*signal, None),
        Some(EarlyEnd::Failed(_)) => return exit::FAILURE,
        _ if !contest.comparison.failed_cleanups.is_empty() => return exit::FAILURE,
        _ => {}
    }
    let rulings = || contest.versus.iter().flat_map(|versus| &versus.gates).map(|gate| &gate.ruling);
    let fails = |ruling: &Ruling| match ruling {
        Ruling::Failed => true,
        Ruling::Inconclusive => args.fail_inconclusive,
        _ => false,
    };
    if contest.output_difference.is_some() || rulings().any(fails) {
        return exit::GATE;
    }
    if rulings().any(|ruling| ruling.obstacle().is_some()) {
        return exit::FAILURE;
    }
    exit::OK
}

/// Renders results as text.
type ContestRenderer = fn(&Contest<'_>) -> String;

/// The files that were asked for.
struct CompareExports {
    all: Vec<(Export, ContestRenderer)>,
    baseline: Option<Saving>,
}

impl CompareExports {
    fn open(args: &CompareArgs) -> Result<CompareExports> {
        let plot = args.plot.as_deref().map(|path| Ok::<_, Error>((path, plot_format(path)?))).transpose()?;
        let formats: [ContestRenderer; 3] = [json::render, csv::render, markdown::render];
        let plot = plot.map(|(path, format)| (("--plot", Some(path)), format));
        let mut all = Vec::new();
        for ((option, path), render) in args.exports.named().into_iter().zip(formats).chain(plot) {
            if let Some(path) = path {
                all.push((Export::open(option, path)?, render));
            }
        }
        let baseline =
            args.save_baseline.as_deref().map(|path| Saving::open(path, args.force)).transpose()?;
        Ok(CompareExports { all, baseline })
    }

    fn any_on_stdout(&self) -> bool {
        let baseline_on_stdout = self.baseline.as_ref().is_some_and(Saving::is_stdout);
        baseline_on_stdout || self.all.iter().any(|(export, _)| export.is_stdout())
    }

    /// Writes every one, even when another fails; the first failure is given back. `unwatch` as of
    /// [`export::write_all`].
    fn write(self, contest: &Contest<'_>, unwatch: impl FnOnce()) -> Result<()> {
        let saved = self.baseline.map_or(Ok(()), |baseline| baseline.save(contest));
        let all = self.all.into_iter().map(|(export, render)| (export, render(contest)));
        export::write_all(all, unwatch).and(saved)
    }
}

fn plot_format(path: &Path) -> Result<ContestRenderer> {
    Ok(match PlotFormat::named("--plot", path)? {
        PlotFormat::Svg => plot::svg,
        PlotFormat::Html => plot::html,
    })
}

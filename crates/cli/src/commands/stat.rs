//! `stat`: runs a command, or attaches to running processes, and counts.

mod modelled;

use std::path::{Path, PathBuf};
use std::time::Duration;

use cyclometer_toolkit::core::code::{CodeCounts, OwnerKind};
use cyclometer_toolkit::core::exec::Reading;
use cyclometer_toolkit::core::report::Run;
use cyclometer_toolkit::stats::{MetricRequest, Summary, asked_scope, latest, summarise_with};
use cyclometer_toolkit::symbols::Grouping;
use cyclometer_toolkit::{
    CommandSpec, Counted, EventTables, Launcher, Machine, Moment, Multiplex, Observer, OutputStream, Plan,
    Report, Result, Rung, Scope, Simulated, Stat, check_program, machine, simulated,
};

use super::streams::{self, CommandInput};
use super::{by_code, read_semantics};
use crate::args::{Cli, StatArgs, Trouble};
use crate::export::{self, Export, NamedResult, cannot_print};
use crate::measurement_args::ModelRequest;
use crate::output::{self, Channel};
use crate::progress::{LiveView, Progress};
use crate::render::by_code::{ByCode, CodeView};
use crate::render::interval::{Between, IntervalValues};
use crate::render::regions::Regions;
use crate::render::{Results, code_exports, csv, interval, json, markdown, table};
use crate::{exit, failure};

/// Intervals below this many milliseconds cost more than they show.
const SENSIBLE_INTERVAL_MS: u64 = 10;

/// Measures, prints, exports; gives the exit code.
///
/// # Errors
///
/// Invalid usage, exports that cannot be written, and errors that prevent the whole measurement.
pub fn run(args: &StatArgs, cli: &Cli, launcher: Launcher) -> Result<u8> {
    check(args)?;
    // Exports are opened before the command runs, so that a typo in a path costs no run.
    let exports = StatExports::open(args)?;
    if let Some(model) = ModelRequest::of(&args.model) {
        return modelled::run(args, cli, launcher, exports, model);
    }
    let simulated = simulated(args)?;
    let machine = simulated.as_ref().map_or_else(machine, Simulated::machine);
    let input = input(args)?;
    let stat = measurement(args, &machine, simulated, &input)?;
    args.by.map_or(Ok(()), |grouping| by_code::check_plan(grouping, &stat.plan()?))?;
    // Nothing is announced of a command that cannot run.
    args.command.first().map_or(Ok(()), |program| check_program(program))?;
    input.note().filter(|_| !args.quiet).into_iter().for_each(output::tell);
    let launcher = launcher.with_signals(super::watch()?);
    let requests = stat.metric_requests();
    let mut live = Live::new(args, requests.clone());
    let (report, marked) = match args.markers {
        true => stat.run_marked(&launcher, &mut live).map(|(report, marked)| (report, Some(marked)))?,
        false => (stat.run(&launcher, &mut live)?, None),
    };
    live.view = None;
    input.warning().into_iter().for_each(output::tell);
    let summary = summarise_with(&report, scope(args, &report), &requests);
    let regions = marked.map(|marked| Regions::new(marked, &requests));
    // Looking names up can take long: meanwhile a signal ends us as usual, and then files are written whole.
    let launcher = Some(launcher).filter(|_| args.by.is_none());
    let by_code = args
        .by
        .map(|grouping| ByCode::of(live.code.take(), view(args, grouping), &summary).with_calls(args.calls));
    let watch = args.by.map(|_| super::watch()).transpose()?;
    let results = Results {
        report: &report,
        summary: &summary,
        machine: &machine,
        regions: regions.as_ref(),
        by_code: by_code.as_ref(),
        intervals: args.interval.map(|_| live.intervals.as_slice()),
    };
    let shown = show(&results, args, cli, &exports);
    exports.write(&results, || drop((launcher, watch)))?;
    shown?;
    Ok(exit_code(args, &report, &summary))
}

/// The counts by code that were asked for.
fn view(args: &StatArgs, grouping: Grouping) -> CodeView {
    CodeView { grouping, has_inlined: args.inlines, owners: args.per.map(OwnerKind::from), top: args.top }
}

/// The simulated machine that was asked for.
fn simulated(args: &StatArgs) -> Result<Option<Simulated>> {
    let Some(name) = &args.machine else { return Ok(None) };
    if !name.starts_with(simulated::PREFIX) {
        let message = format!("'{}' is no machine to count on", output::clean(name));
        return Err(failure::usage(message, "name a simulated one, as in --machine sim:apple-m1"));
    }
    if !args.command.is_empty() {
        let hint = "leave the command out, and give --workload NAME";
        return Err(failure::usage("a simulated machine executes no command", hint));
    }
    if !args.pid.is_empty() || !args.tid.is_empty() || !args.cgroup.is_empty() {
        let hint = "leave -p, -t and -G out";
        return Err(failure::usage("a simulated machine has no processes", hint));
    }
    let mut found = Simulated::find(name)?.with_seed(args.seed.unwrap_or(0));
    if let Some(file) = &args.semantics {
        found = found.with_semantics(read_semantics(file)?);
    }
    found.workload(workload(args))?;
    Ok(Some(args.trouble.iter().fold(found, |found, trouble| {
        let trouble = match trouble {
            Trouble::Rewrite => simulated::Misery::Rewrite,
            Trouble::Steal => simulated::Misery::Steal,
            Trouble::Watchdog => simulated::Misery::Watchdog,
            Trouble::IgnoreWrites => simulated::Misery::IgnoreWrites,
        };
        found.with(trouble)
    })))
}

fn workload(args: &StatArgs) -> &str {
    args.workload.as_deref().unwrap_or(USUAL_WORKLOAD)
}

/// The default workload of a simulated machine.
const USUAL_WORKLOAD: &str = "loop";

fn check(args: &StatArgs) -> Result<()> {
    if args.machine.is_some() {
        return check_results(args);
    }
    let attached = is_attached(args);
    if args.command.is_empty() && !attached {
        let hint = "name a command behind --, or use -p, -t, -a, -C or -G";
        return Err(failure::usage("there is nothing to measure", hint));
    }
    check_cgroups(&args.cgroup)?;
    if args.command.is_empty() && (args.runs > 1 || args.warmup > 0) {
        let hint = "name a command behind --, or leave -r and -w out";
        return Err(failure::usage("without a command there is nothing to repeat", hint));
    }
    if args.command.is_empty() && (args.output.is_some() || args.input.is_some()) {
        let hint = "name a command behind --, or leave --output and --input out";
        return Err(failure::usage("without a command there are no streams to redirect", hint));
    }
    check_grouping(args)?;
    if let Some(Counted::Runs(counted)) = args.counted.filter(|_| !args.command.is_empty())
        && counted > args.runs
    {
        let runs = args.runs;
        return Err(failure::usage(
            format!("--counted {counted} is more than there are runs ({runs})"),
            "raise -r, or use --counted all",
        ));
    }
    check_results(args)
}

/// Counts by code are those of one run under the software PMU.
fn check_grouping(args: &StatArgs) -> Result<()> {
    modelled::check(args)?;
    let Some(grouping) = args.by else { return Ok(()) };
    let by = format!("--by {}", grouping.word());
    if args.runs > 1 {
        return Err(failure::usage(format!("{by} shows one run, and -r asks for more"), "leave -r out"));
    }
    if args.calls && grouping != Grouping::Function {
        return Err(failure::usage(
            format!("--calls are those of functions, not of {by}"),
            "use --by function",
        ));
    }
    if args.inlines && grouping != Grouping::Function {
        return Err(failure::usage(
            format!("--inlines has rows for functions, not {by}"),
            match grouping {
                Grouping::Line => "leave --inlines out: lines are those of inlined functions, too",
                Grouping::Function | Grouping::Object => "use --by function",
            },
        ));
    }
    if args.inclusive && grouping == Grouping::Line {
        let text = "--inclusive counts are those of functions and files of code, not of lines";
        return Err(failure::usage(text, "use --by function or --by object"));
    }
    by_code::check_source(grouping, args.backend)
}

/// perf assigns control groups to events by their position in the list: a sum over groups would be another
/// quantity.
///
/// # Source
///
/// `perf-stat(1)`, options `-G` and `--for-each-cgroup`.
fn check_cgroups(named: &[PathBuf]) -> Result<()> {
    // A comma may also be part of a name.
    let exists = |path: &PathBuf| path.exists() || Path::new("/sys/fs/cgroup").join(path).exists();
    let is_list = |path: &PathBuf| path.as_os_str().as_encoded_bytes().contains(&b',') && !exists(path);
    if named.len() < 2 && !named.iter().any(is_list) {
        return Ok(());
    }
    let names: Vec<String> = named.iter().map(|path| output::clean_os(path.as_os_str())).collect();
    Err(failure::usage(
        format!("-G names several control groups: {}", names.join(", ")),
        "run `cyclometer stat -G` once for each, or name the group that contains them",
    ))
}

/// Refuses results that would get lost among each other or among the command's output.
fn check_results(args: &StatArgs) -> Result<()> {
    let input = streams::input(args.input.as_deref());
    let output = if args.command.is_empty() { OutputStream::Discard } else { outputs(args).0 };
    let json = ("--json", args.json.then_some(Path::new("-")));
    let [exported, csv, markdown] = args.exports.named();
    let [callgrind, folded, html] = code_files(args);
    export::check(&[json, exported, csv, markdown, callgrind, folded, html], &args.tables, (&input, &output))
}

/// The files of counts by code, each with its option.
fn code_files(args: &StatArgs) -> [NamedResult<'_>; 3] {
    [
        ("--export-callgrind", args.export_callgrind.as_deref()),
        ("--export-folded", args.export_folded.as_deref()),
        ("--html", args.html.as_deref()),
    ]
}

fn is_attached(args: &StatArgs) -> bool {
    let is_named = !args.pid.is_empty() || !args.tid.is_empty() || !args.cgroup.is_empty();
    is_named || args.all_cpus || args.cpu.is_some()
}

fn executions(args: &StatArgs) -> u32 {
    args.runs.saturating_add(args.warmup)
}

/// Where the command's standard output and standard error lead.
fn outputs(args: &StatArgs) -> (OutputStream, OutputStream) {
    let usual = if executions(args) == 1 { OutputStream::Inherit } else { OutputStream::Discard };
    streams::outputs(args.output.as_deref(), usual)
}

/// Where its standard input comes from.
fn input(args: &StatArgs) -> Result<CommandInput> {
    let asked = args.input.as_deref();
    match executions(args) == 1 || args.command.is_empty() {
        true => Ok(CommandInput::of_one_run(asked)),
        false => CommandInput::of_several_runs(asked),
    }
}

/// Where the table goes: one run leaves standard output to the command.
fn table_channel(args: &StatArgs) -> Channel {
    if args.machine.is_some() {
        return Channel::Out;
    }
    let beside_the_command = !args.command.is_empty() && outputs(args).0 == OutputStream::Inherit;
    if executions(args) == 1 || beside_the_command { Channel::Err } else { Channel::Out }
}

fn measurement(
    args: &StatArgs,
    machine: &Machine,
    simulated: Option<Simulated>,
    input: &CommandInput,
) -> Result<Stat> {
    let stat = match simulated {
        Some(simulated) => Stat::simulated(simulated).command(CommandSpec::new(workload(args))),
        None => Stat::new(machine.clone()),
    };
    let stat = stat.tables(tables(args, machine)?);
    let mut stat = aimed(stat, args)?;
    for list in &args.events {
        stat = stat.events(list)?;
    }
    for list in &args.metrics {
        stat = stat.metrics(list)?;
    }
    if args.by.is_some() && args.events.is_empty() && args.metrics.is_empty() {
        stat = stat.events(by_code::USUAL_EVENT)?;
    }
    stat = command(args, input).into_iter().fold(stat, Stat::command);
    if let Some(ms) = args.interval {
        stat = stat.interval(Duration::from_millis(ms));
    }
    let stat = stat.runs(args.runs).warmups(args.warmup).counted(args.counted.unwrap_or_default());
    let stat = stat
        .random_layout(args.random_layout)
        .hints(!args.no_hints)
        .cpu_baseline(args.cpu_baseline)
        .multiplex(multiplex(args));
    let rung = args.by.map_or(args.backend.rung(), |_| Some(Rung::Soft));
    let stat = stat.ignore_failure(args.ignore_failure).backend(rung).by_code(args.by.is_some());
    let stat = stat.call_paths(args.inclusive).code_owners(args.per.map(OwnerKind::from));
    // A simulated machine does the same every time.
    let seed = args.seed.or(args.machine.as_ref().map(|_| 0));
    Ok(seed.into_iter().fold(stat, Stat::seed))
}

/// The command that was asked for, if any.
fn command(args: &StatArgs, input: &CommandInput) -> Option<CommandSpec> {
    let (program, rest) = args.command.split_first()?;
    let (stdout, stderr) = outputs(args);
    Some(CommandSpec {
        args: rest.to_vec(),
        stdin: input.stream.clone(),
        stdout: streams::as_seen(stdout),
        stderr,
        ..CommandSpec::new(program.clone())
    })
}

fn multiplex(args: &StatArgs) -> Multiplex {
    match (args.multiplex, args.no_multiplex) {
        (true, _) => Multiplex::Always,
        (_, true) => Multiplex::Never,
        _ => Multiplex::Auto,
    }
}

/// The tables of the user's before those of the catalogue.
fn tables(args: &StatArgs, machine: &Machine) -> Result<EventTables> {
    args.tables.iter().try_fold(super::tables_here(machine), |tables, file| tables.with_file(file, machine))
}

fn aimed(stat: Stat, args: &StatArgs) -> Result<Stat> {
    Ok(match args {
        StatArgs { pid, .. } if !pid.is_empty() => stat.processes(pid),
        StatArgs { tid, .. } if !tid.is_empty() => stat.threads(tid),
        StatArgs { all_cpus: true, .. } => stat.system(),
        StatArgs { cpu: Some(cpus), .. } => stat.cpus(cpus.clone())?,
        StatArgs { cgroup, .. } => cgroup.iter().fold(stat, |stat, path| stat.cgroup(path.clone())),
    })
}

/// All CPUs are the system, which the target of a report alone does not show.
fn scope(args: &StatArgs, report: &Report) -> Scope {
    if args.all_cpus { Scope::System } else { asked_scope(report) }
}

/// Shows a measurement while it runs: progress and rows of intervals.
struct Live {
    progress: Progress,
    executions: u32,
    started: u32,
    rows: bool,
    /// The view that replaces rows.
    view: Option<LiveView>,
    /// Whether the kinds of runs are listed before the first run.
    announces: bool,
    header: bool,
    scope: Scope,
    /// The last row's reading and time, and the number of slices until then.
    before: Reading,
    before_ns: u64,
    slices: usize,
    /// The number of the run, and whether it is a warm-up.
    run: (u32, bool),
    /// The metrics that were asked for.
    requests: Vec<MetricRequest>,
    /// Whether intervals are kept for an export.
    keeps: bool,
    intervals: Vec<IntervalValues>,
    /// The counts by code address, once they are there.
    code: Option<Result<CodeCounts>>,
}

impl Live {
    fn new(args: &StatArgs, requests: Vec<MetricRequest>) -> Live {
        let wanted = executions(args) > 1 && args.interval.is_none() && !args.quiet;
        let (stdout, stderr) = outputs(args);
        let inherits = stdout == OutputStream::Inherit || stderr == OutputStream::Inherit;
        let enabled = wanted && !inherits && super::shows_progress();
        let is_shared = inherits && !args.command.is_empty() && !is_attached(args);
        let redraws = args.live && !is_shared && super::shows_progress();
        if args.live && is_shared && super::shows_progress() {
            output::tell(
                "cyclometer: rows, as the command writes to this terminal, too: --output null has them redrawn\n",
            );
        }
        Live {
            progress: Progress::new(executions(args), enabled),
            executions: executions(args),
            started: 0,
            rows: args.interval.is_some() && !args.quiet && !redraws,
            view: redraws.then(LiveView::new),
            announces: !args.quiet,
            header: true,
            scope: target_scope(args),
            before: Reading::default(),
            before_ns: 0,
            slices: 0,
            run: (0, false),
            requests,
            keeps: args.interval.is_some()
                && (args.json || args.exports.named().iter().any(|(_, file)| file.is_some())),
            intervals: Vec::new(),
            code: None,
        }
    }
}

fn target_scope(args: &StatArgs) -> Scope {
    match args {
        StatArgs { tid, .. } if !tid.is_empty() => Scope::Thread,
        StatArgs { all_cpus: true, .. } => Scope::System,
        StatArgs { cpu: Some(_), .. } => Scope::Cpus,
        StatArgs { cgroup, .. } if !cgroup.is_empty() => Scope::Cgroup,
        _ => Scope::Tree,
    }
}

/// How many runs of each kind a session will make, where there are both kinds.
fn announcement(plan: &Plan) -> Option<String> {
    let native = plan.native_runs(plan.intent.runs);
    let counted = plan.intent.runs - native;
    let verb = |n: u32| if n == 1 { "is" } else { "are" };
    (native > 0 && counted > 0).then(|| {
        format!(
            "cyclometer: {} runs: {counted} {} counted by the software PMU, {native} {} timed natively\n",
            plan.intent.runs,
            verb(counted),
            verb(native)
        )
    })
}

impl Observer for Live {
    fn planned(&mut self, plan: &Plan) {
        if self.announces {
            announcement(plan).iter().for_each(|text| output::tell(text));
        }
    }

    fn run_started(&mut self, index: u32, warmup: bool) {
        self.progress.advance(self.started);
        self.started += 1;
        self.before = Reading::default();
        (self.before_ns, self.slices, self.run) = (0, 0, (index, warmup));
        if self.rows && self.executions > 1 {
            let what = if warmup { "warm-up" } else { "run" };
            output::tell(&format!("# {what} {}\n", index + 1));
        }
    }

    fn interval(&mut self, moment: &Moment<'_>, plan: &Plan) {
        if !self.rows && !self.keeps && self.view.is_none() {
            return;
        }
        let slices = moment.slices.get(self.slices..).unwrap_or_default();
        let between = Between { now: moment, before: &self.before, before_ns: self.before_ns, slices };
        let metrics = interval::metrics(&between, plan, self.scope, &self.requests);
        if self.rows {
            if std::mem::take(&mut self.header) {
                output::tell(interval::HEADER);
            }
            let rows = interval::rows(&between, plan, self.scope);
            output::tell(&(rows + &interval::metric_rows(&between, &metrics)));
        }
        let values = || interval::values(&between, plan, self.scope, &metrics, self.run);
        if let Some(view) = &mut self.view {
            view.show(values());
        }
        if self.keeps {
            self.intervals.push(values());
        }
        self.before = latest(moment.reading, &self.before);
        self.before_ns = moment.elapsed_ns;
        self.slices = moment.slices.len();
    }

    fn code(&mut self, counts: Result<CodeCounts>) {
        self.code = Some(counts);
    }

    fn run_finished(&mut self, run: &Run, plan: &Plan) {
        // The rest of the run, after the last whole interval, is shown too.
        let (elapsed_ns, pass) = (run.wall_ns, run.pass);
        self.interval(&Moment { elapsed_ns, pass, reading: &run.reading, slices: &run.slices }, plan);
    }
}

/// Renders results as text.
type ResultsRenderer = fn(&Results<'_>) -> String;

/// The files that were asked for.
struct StatExports {
    all: Vec<(Export, ResultsRenderer)>,
}

impl StatExports {
    fn open(args: &StatArgs) -> Result<StatExports> {
        let formats: [ResultsRenderer; 3] = [json::render, csv::render, markdown::render];
        let of_code: [ResultsRenderer; 3] =
            [code_exports::callgrind, code_exports::folded, code_exports::page];
        let of_code = code_files(args).into_iter().zip(of_code);
        let stdout = args.json.then_some((("--json", Some(Path::new("-"))), formats[0]));
        let mut all = Vec::new();
        for ((option, path), render) in
            stdout.into_iter().chain(args.exports.named().into_iter().zip(formats)).chain(of_code)
        {
            if let Some(path) = path {
                all.push((Export::open(option, path)?, render));
            }
        }
        Ok(StatExports { all })
    }

    fn any_on_stdout(&self) -> bool {
        self.all.iter().any(|(export, _)| export.is_stdout())
    }

    /// As [`export::write_all`].
    fn write(self, results: &Results<'_>, unwatch: impl FnOnce()) -> Result<()> {
        export::write_all(self.all.into_iter().map(|(export, render)| (export, render(results))), unwatch)
    }
}

/// Prints the table, unless another format replaces it.
fn show(results: &Results<'_>, args: &StatArgs, cli: &Cli, exports: &StatExports) -> Result<()> {
    if args.quiet || exports.any_on_stdout() {
        if let Some(failure) = &results.report.failure {
            output::tell(&format!(
                "cyclometer: warning: ended early: {}\n",
                output::clean(&failure.to_string())
            ));
        }
        return Ok(());
    }
    let channel = table_channel(args);
    let mut text = table::render(results, cli.verbose, super::paint(cli, channel));
    if args.interval.is_some_and(|ms| ms < SENSIBLE_INTERVAL_MS) {
        text += "  intervals below 10 ms cost more than they show\n";
    }
    text += &results.by_code.map(|by_code| by_code.table(super::paint(cli, channel))).unwrap_or_default();
    if channel == Channel::Err {
        text.insert(0, '\n');
    }
    output::put(channel, &text).map_err(|error| cannot_print(&error))
}

/// How the only run ended; a signal came, but the command had the last word.
fn ended_by_itself(args: &StatArgs, report: &Report) -> Option<cyclometer_toolkit::ExitStatus> {
    let has_command = !args.command.is_empty() || args.machine.is_some();
    let only = args.runs == 1 && args.warmup == 0 && has_command;
    report.runs.first().filter(|_| only).and_then(|run| run.exit)
}

fn exit_code(args: &StatArgs, report: &Report, summary: &Summary) -> u8 {
    if let Some(signal) = report.interrupted {
        return exit::of_interrupted(signal, ended_by_itself(args, report));
    }
    let failed = report.runs.iter().filter_map(|run| run.exit).find(|exit| !exit.success());
    match failed {
        Some(status) if !args.ignore_failure => exit::of_status(status),
        _ if report.failure.is_some() => exit::FAILURE,
        _ if args.strict && !summary.is_strict() => exit::STRICT,
        _ => exit::OK,
    }
}

//! `record`: a row of counts for every N events of a command, or for each length of time.

mod args;
mod boundaries;
mod file;
mod part_file;

use std::fs;
use std::path::Path;
use std::time::Duration;

use cyclometer_toolkit::{
    CommandSpec, ErrorKind, InputStream, Launcher, Leader, Machine, OutputStream, RecordRun, Recorded,
    Result, Simulated, Stat, check_program, machine, simulated, with_invoker_rights,
};

pub use args::RecordArgs;
use boundaries::{RowEnds, describe};
use file::RecordingFile;

use super::plot::PictureFile;
use super::read_semantics;
use super::streams::{self, CommandInput};
use crate::output::{self, Channel};
use crate::render::plot::PlotFormat;
use crate::{exit, export, failure, render};

/// The workload of a simulated machine unless one is named.
const USUAL_WORKLOAD: &str = "loop";

/// Records, and says what was recorded; gives the exit code.
///
/// # Errors
///
/// Usage that makes no sense, a file that cannot be written, and errors that prevent the whole recording.
pub fn run(args: &RecordArgs, launcher: Launcher) -> Result<u8> {
    check(args)?;
    let simulated = simulated_machine(args)?;
    let machine = simulated.as_ref().map_or_else(machine, Simulated::machine);
    args.command.first().map_or(Ok(()), |program| check_program(program))?;
    let ends = RowEnds::choose(args, &machine)?;
    let picture = args.plot.as_deref().map(|path| PictureFile::open("--plot", path)).transpose()?;
    let mut file = RecordingFile::open(args, &machine)?;
    let launcher = launcher.with_signals(super::watch()?);
    let recorded = record(args, (&machine, simulated.as_ref()), &ends, &launcher, &mut file)
        .map_err(|error| file.abandon(error))?;
    let written = file.finish(&recorded);
    if !args.quiet {
        let text = render::recorded::text(
            &recorded,
            file.place().as_deref(),
            &describe(&recorded),
            args.is_attached(),
        );
        output::put(Channel::Err, &text).map_err(|error| export::cannot_print(&error))?;
    }
    written?;
    let code = exit_code(args, &recorded);
    if let Some(error) = recorded.sink_error {
        return Err(error);
    }
    drop(launcher);
    picture.map_or(Ok(()), |picture| picture.draw(&args.file))?;
    Ok(code)
}

fn check(args: &RecordArgs) -> Result<()> {
    args.plot.as_deref().map_or(Ok(()), |picture| check_picture(picture, &args.file))?;
    let is_run = !args.command.is_empty();
    if args.machine.is_none() && !is_run && !args.is_attached() {
        let hint = "name a command behind --, or use -p, -t, -a or -C";
        return Err(failure::usage("there is nothing to record", hint));
    }
    let (input, output) = match is_run {
        true => (streams::input(args.input.as_deref()), outputs(args).0),
        false => (InputStream::Null, OutputStream::Null),
    };
    if let OutputStream::File(path) = &output
        && part_file::is_recording(path)
    {
        let name = output::clean_os(path.as_os_str());
        let message = format!("--output: the command's output would replace the recording {name}");
        return Err(failure::usage(message, "name the file of the recording with -o FILE"));
    }
    let old = part_file::old_file(&args.file);
    let results = [
        (part_file::OPTION, Some(args.file.as_path())),
        ("--plot", args.plot.as_deref()),
        ("the kept recording", old.as_deref()),
    ];
    export::check(&results, &args.tables, (&input, &output))
}

/// A picture is drawn of the recording's file, which a stream does not have.
fn check_picture(picture: &Path, file: &Path) -> Result<()> {
    PlotFormat::named("--plot", picture)?;
    let is_stream = || {
        let found = with_invoker_rights(|| fs::metadata(file));
        matches!(found, Ok(Ok(found)) if !found.is_file() && !found.is_dir())
    };
    if export::is_stdout(file) || is_stream() {
        let name = output::clean_os(file.as_os_str());
        let message = format!("--plot reads the file of the recording, and -o {name} is none");
        return Err(failure::usage(message, "name a file with -o, or leave --plot out"));
    }
    Ok(())
}

/// The simulated machine that was asked for.
fn simulated_machine(args: &RecordArgs) -> Result<Option<Simulated>> {
    let Some(name) = &args.machine else { return Ok(None) };
    if !name.starts_with(simulated::PREFIX) {
        let message = format!("'{}' is no machine to record on", output::clean(name));
        return Err(failure::usage(message, "name a simulated one, as in --machine sim:apple-m1"));
    }
    if !args.command.is_empty() || args.is_attached() {
        let hint = "leave the command and the target out, and give --workload NAME";
        return Err(failure::usage("a simulated machine executes no command", hint));
    }
    let mut found = Simulated::find(name)?.with_seed(args.seed.unwrap_or(0));
    if let Some(file) = &args.semantics {
        found = found.with_semantics(read_semantics(file)?);
    }
    found.workload(args.workload.as_deref().unwrap_or(USUAL_WORKLOAD))?;
    Ok(Some(found))
}

fn outputs(args: &RecordArgs) -> (OutputStream, OutputStream) {
    streams::outputs(args.command_output.as_deref(), OutputStream::Inherit)
}

/// Records. Without a choice of the user, rows end by time where no event can end them: of this target, and
/// with these rights. Only opening shows what the kernel permits; nothing has been executed yet then.
fn record(
    args: &RecordArgs,
    (machine, simulated): (&Machine, Option<&Simulated>),
    ends: &RowEnds,
    launcher: &Launcher,
    file: &mut RecordingFile,
) -> Result<Recorded> {
    let recording = |ends: &RowEnds| -> Result<RecordRun> {
        Ok(recording(measurement(args, machine, simulated, ends)?, ends))
    };
    match recording(ends)?.run(launcher, file) {
        Err(error) if !is_chosen(args) && error.kind() == ErrorKind::EventUnsupported => {
            let mut recorded = recording(&RowEnds::by_time(args))?.run(launcher, file)?;
            recorded.notes.push(format!("rows end by time: {error}"));
            Ok(recorded)
        }
        result => result,
    }
}

/// Whether the user says where rows end.
fn is_chosen(args: &RecordArgs) -> bool {
    let is_by_time = args.interval.is_some() || args.timer.is_some();
    args.every.is_some() || is_by_time || !args.also.is_empty()
}

fn measurement(
    args: &RecordArgs,
    machine: &Machine,
    simulated: Option<&Simulated>,
    ends: &RowEnds,
) -> Result<Stat> {
    let workload = args.workload.as_deref().unwrap_or(USUAL_WORKLOAD);
    let stat = match simulated {
        Some(simulated) => Stat::simulated(simulated.clone()).command(CommandSpec::new(workload)),
        None => Stat::new(machine.clone()),
    };
    let tables = args
        .tables
        .iter()
        .try_fold(super::tables_here(machine), |tables, file| tables.with_file(file, machine))?;
    let stat = aimed(stat.tables(tables), args)?;
    let mut stat = stat.events(&ends.events)?;
    if let Some((program, rest)) = args.command.split_first() {
        let (stdout, stderr) = outputs(args);
        let input = CommandInput::of_one_run(args.input.as_deref());
        stat = stat.command(CommandSpec {
            args: rest.to_vec(),
            stdin: input.stream,
            stdout: streams::as_seen(stdout),
            stderr,
            ..CommandSpec::new(program.clone())
        });
    }
    let stat = stat
        .random_layout(args.random_layout)
        .hints(!args.no_hints)
        .backend(args.backend.rung().or(ends.backend));
    // A simulated machine does the same every time.
    let seed = args.seed.or(args.machine.as_ref().map(|_| 0));
    Ok(seed.into_iter().fold(stat, Stat::seed))
}

fn aimed(stat: Stat, args: &RecordArgs) -> Result<Stat> {
    Ok(match args {
        RecordArgs { pid: Some(pid), .. } => stat.process(*pid),
        RecordArgs { tid: Some(tid), .. } => stat.thread(*tid),
        RecordArgs { all_cpus: true, .. } => stat.system(),
        RecordArgs { cpu: Some(cpus), .. } => stat.cpus(cpus.clone())?,
        _ => stat,
    })
}

fn recording(stat: Stat, ends: &RowEnds) -> RecordRun {
    if let Some(period) = ends.kperf_timer {
        return RecordRun::kperf_timer(stat, period);
    }
    match ends.leaders.split_first() {
        None => RecordRun::interval(stat, ends.interval.unwrap_or(Duration::from_millis(10))),
        Some((first, others)) => {
            let first = RecordRun::every(stat, first.clone());
            others.iter().cloned().fold(first, |run, leader: Leader| run.also(leader))
        }
    }
}

fn exit_code(args: &RecordArgs, recorded: &Recorded) -> u8 {
    let report = &recorded.report;
    let ended = report.runs.first().and_then(|run| run.exit);
    if let Some(signal) = report.interrupted {
        return exit::of_interrupted(signal, ended.filter(|_| !args.command.is_empty()));
    }
    match ended {
        Some(status) if !status.success() => exit::of_status(status),
        _ if report.failure.is_some() => exit::FAILURE,
        _ => exit::OK,
    }
}

//! `advise`: measures a command, and names the performance problems that its counts indicate.

mod args;
mod file;
mod past_runs;

use cyclometer_toolkit::advise::{AdviseExecution, AdviseRun, Measurements, Rules, judge};
use cyclometer_toolkit::{CommandSpec, Launcher, OutputStream, Result, check_program, machine};

pub use args::AdviseArgs;

use super::streams::{self, CommandInput};
use crate::args::Cli;
use crate::output::{self, Channel, shown_command};
use crate::render::advice::{self, AdviceSubject, ShownAdvice};
use crate::render::json;
use crate::{exit, failure};

/// Gives advice; gives the exit code.
///
/// # Errors
///
/// Usage, files that cannot be read, and errors that prevent the whole measurement.
pub fn run(args: &AdviseArgs, cli: &Cli, launcher: impl FnOnce() -> Result<Launcher>) -> Result<u8> {
    match (&args.file, &args.history) {
        (_, Some(folder)) => past_runs::run(args, cli, folder),
        (Some(path), None) => {
            let read = file::read(path)?;
            let mut measured = Measurements::of(read.facts);
            measured.notes = read.notes;
            show(args, cli, &AdviceSubject { command: read.command, is_file: true }, &measured)?;
            Ok(exit::OK)
        }
        (None, None) if args.command.is_empty() => {
            let hint = "name a command behind --, a file of results, or --history FOLDER";
            Err(failure::usage("there is nothing to advise on", hint))
        }
        (None, None) => measure(args, cli, launcher),
    }
}

fn measure(args: &AdviseArgs, cli: &Cli, launcher: impl FnOnce() -> Result<Launcher>) -> Result<u8> {
    let launcher = launcher()?;
    args.command.first().map_or(Ok(()), |program| check_program(program))?;
    let input = CommandInput::of_several_runs(args.input.as_deref())?;
    input.note().into_iter().for_each(output::tell);
    let (stdout, stderr) = streams::outputs(args.output.as_deref(), OutputStream::Discard);
    let (program, rest) = args
        .command
        .split_first()
        .map_or_else(Default::default, |(program, rest)| (program.clone(), rest.to_vec()));
    let command = CommandSpec {
        args: rest,
        stdin: input.stream.clone(),
        stdout: streams::as_seen(stdout),
        stderr,
        ..CommandSpec::new(program)
    };
    output::tell(&announcement(args.runs));
    let machine = machine();
    let tables = super::tables_here(&machine);
    let launcher = launcher.with_signals(super::watch()?);
    let measured = AdviseRun::new(machine, command).tables(tables).executions(args.runs).run(&launcher)?;
    input.warning().into_iter().for_each(output::tell);
    drop(launcher);
    let command = args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    show(args, cli, &AdviceSubject { command, is_file: false }, &measured)?;
    Ok(match (measured.interrupted, measured.failed) {
        (Some(signal), _) => exit::of_interrupted(signal, None),
        (None, Some(status)) => exit::of_status(status),
        (None, None) => exit::OK,
    })
}

/// The executions that will be made.
fn announcement(runs: usize) -> String {
    let kinds: Vec<&str> = AdviseExecution::ALL.iter().take(runs).map(|execution| execution.word()).collect();
    let verb = if runs == 1 { "once" } else { "several times" };
    format!("cyclometer: the command runs {verb}: {}\n", kinds.join(", "))
}

fn show(args: &AdviseArgs, cli: &Cli, subject: &AdviceSubject, measured: &Measurements) -> Result<()> {
    let judged = judge(Rules::embedded(), &measured.facts);
    let words = subject.command.iter().map(|word| word.as_ref());
    let shown = ShownAdvice { subject, measured, advice: &judged, command: shown_command(words) };
    let text = match args.json {
        true => json::pretty(&advice::json(&shown)),
        false => advice::render(&shown, cli.verbose, super::paint(cli, Channel::Out)),
    };
    super::print(&text).map(drop)
}

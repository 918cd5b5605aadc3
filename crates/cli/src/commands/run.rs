//! `run`: starts a program so that its own regions are counted, by the software PMU where there is no PMU.

use cyclometer_toolkit::core::ladder::Works;
use cyclometer_toolkit::{
    CommandSpec, Launcher, Machine, Quiet, Report, Result, Rung, Stat, catalogue, check_program, machine,
};

use super::by_code;
use crate::args::RunArgs;
use crate::{exit, failure, output};

/// The event of a run that is not translated: its program counts for itself.
const OF_A_NATIVE_RUN: &str = "wall_time";

/// Runs the program; gives the exit code.
///
/// # Errors
///
/// A program that cannot be executed, and errors that prevent the run.
pub fn run(args: &RunArgs, launcher: Launcher) -> Result<u8> {
    let machine = machine();
    let (program, rest) = args
        .command
        .split_first()
        .map_or_else(Default::default, |(program, rest)| (program.clone(), rest.to_vec()));
    check_program(&program)?;
    let command = CommandSpec { args: rest, ..CommandSpec::new(program) };
    let stat = Stat::new(machine.clone()).command(command);
    let stat = match choice(&machine) {
        RunChoice::Translated => {
            let stat = stat.events(&events(args))?.backend(Some(Rung::Soft)).hints(!args.no_hints);
            check_events(&stat)?;
            stat
        }
        RunChoice::Native { missing } => {
            let note =
                |reason| format!("cyclometer: regions are not counted by the software PMU: {reason}\n");
            missing.into_iter().for_each(|reason| output::tell(&note(output::clean(&reason))));
            stat.events(OF_A_NATIVE_RUN)?
        }
    };
    let launcher = launcher.with_signals(super::watch()?);
    let report = stat.run(&launcher, &mut Quiet)?;
    lost(&report).iter().for_each(|text| output::tell(text));
    Ok(exit_code(&report))
}

/// Refuses events of which the software PMU counts none: every region would be without counts.
fn check_events(stat: &Stat) -> Result<()> {
    match by_code::nothing_counted(&stat.plan()?) {
        Some(reason) => Err(failure::usage(reason, by_code::ADD_ONE)),
        None => Ok(()),
    }
}

/// How the program is run.
enum RunChoice {
    /// Under the software PMU.
    Translated,
    /// As it is: its regions are counted by the PMU, or there is a reason why nothing counts them.
    Native { missing: Option<String> },
}

/// A PMU goes before the software PMU, as for regions of a native program.
fn choice(machine: &Machine) -> RunChoice {
    if machine.ladder.perf_hardware.is_ok() {
        return RunChoice::Native { missing: None };
    }
    match machine.ladder.state(Rung::Soft) {
        Some(state) if state.works == Works::Yes => RunChoice::Translated,
        state => {
            let cause = state.and_then(|state| state.causes.first());
            let missing = cause.map_or_else(|| "it is not there".to_owned(), |cause| cause.text.clone());
            RunChoice::Native { missing: Some(missing) }
        }
    }
}

/// The events that regions may ask for: those that were named, or all of the software PMU.
fn events(args: &RunArgs) -> String {
    match args.events.is_empty() {
        true => catalogue::soft_events()
            .map(|event| format!("soft/{}/", event.name))
            .collect::<Vec<_>>()
            .join(","),
        false => args.events.join(","),
    }
}

/// Regions of a program that left the translation have no counts from then on: the reason.
fn lost(report: &Report) -> Option<String> {
    let summary = cyclometer_toolkit::stats::summarise_with(report, cyclometer_toolkit::Scope::Tree, &[]);
    let line = summary.lines.iter().find(|line| line.rung == Some(Rung::Soft))?;
    let reason = line.reason.as_ref().filter(|_| line.verdict == cyclometer_toolkit::core::Verdict::Lost)?;
    Some(format!("cyclometer: some regions may have no counts: {}\n", output::clean(reason)))
}

fn exit_code(report: &Report) -> u8 {
    let ended = report.runs.first().and_then(|run| run.exit);
    match (report.interrupted, ended) {
        (Some(signal), _) => exit::of_interrupted(signal, ended),
        (None, Some(status)) => exit::of_status(status),
        (None, None) => exit::FAILURE,
    }
}

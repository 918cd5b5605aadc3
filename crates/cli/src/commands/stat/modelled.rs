//! `stat --model`: misses of modelled caches in place of counts.

use cyclometer_toolkit::modelled_misses::{ModelledMisses, ModelledPart};
use cyclometer_toolkit::{Launcher, Result, check_program, machine};

use super::{StatExports, exit_code, input, show};
use crate::args::{Cli, StatArgs};
use crate::measurement_args::{Backend, ModelRequest};
use crate::render::Results;
use crate::render::by_code::ByCode;
use crate::{failure, output};

/// Refuses what a model does not have.
///
/// # Errors
///
/// Usage.
pub(super) fn check(args: &StatArgs) -> Result<()> {
    let Some(model) = ModelRequest::of(&args.model) else { return Ok(()) };
    if args.command.is_empty() {
        return Err(failure::usage("--model needs a command", "name a command behind --"));
    }
    if args.by.is_some() && model.part == ModelledPart::Windows {
        let text = "--by shows sums, and --model sees windows only";
        return Err(failure::usage(text, "use --model full, or leave --by out"));
    }
    if !matches!(args.backend, Backend::Auto | Backend::Soft) {
        let text = "--model uses no source of counts";
        return Err(failure::usage(text, "leave --backend out"));
    }
    Ok(())
}

/// Runs the command once for the model; gives the exit code.
///
/// # Errors
///
/// As [`super::run`].
pub(super) fn run(
    args: &StatArgs,
    cli: &Cli,
    launcher: Launcher,
    exports: StatExports,
    model: ModelRequest,
) -> Result<u8> {
    args.command.first().map_or(Ok(()), |program| check_program(program))?;
    let input = input(args)?;
    let Some(command) = super::command(args, &input) else { return check(args).map(|()| 0) };
    let machine = machine();
    let launcher = launcher.with_signals(super::super::watch()?);
    let results = ModelledMisses { command, geometry: model.geometry, part: model.part }.run(&launcher)?;
    input.warning().into_iter().for_each(output::tell);
    // As for counts: a signal ends the look-up of names.
    let launcher = Some(launcher).filter(|_| args.by.is_none());
    let by_code = args.by.map(|grouping| {
        let view = super::view(args, grouping);
        ByCode::of(Some(Ok(results.code.clone())), view, &results.summary).modelled()
    });
    let watch = args.by.map(|_| super::super::watch()).transpose()?;
    let shown = Results {
        report: &results.report,
        summary: &results.summary,
        machine: &machine,
        regions: None,
        by_code: by_code.as_ref(),
        intervals: None,
    };
    let printed = show(&shown, args, cli, &exports);
    exports.write(&shown, || drop((launcher, watch)))?;
    printed?;
    Ok(exit_code(args, &results.report, &results.summary))
}

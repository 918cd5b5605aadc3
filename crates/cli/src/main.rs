//! `cyclometer`: counts what a CPU did while a command ran, and says how far each number can be trusted.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod exit;
mod export;
mod export_args;
mod failure;
mod measurement_args;
mod output;
mod progress;

use std::process::ExitCode;

use clap::Parser;
use cyclometer_render as render;
use cyclometer_toolkit::Launcher;

use crate::args::{Cli, CliCommand};

fn main() -> ExitCode {
    if let Some(ran) = commands::selftest::kernel(std::env::args_os().skip(1)) {
        return ran.unwrap_or_else(|error| failure::report(&error, false)).into();
    }
    // The helper that starts commands is forked first and must be small: memory that a command inherits from
    // it counts as the command's peak memory.
    let launcher = std::env::args_os()
        .any(|word| ["stat", "compare", "record", "run", "advise"].iter().any(|starts| word == *starts))
        .then(Launcher::start);
    cyclometer_toolkit::with_stack(STACK, || run(launcher))
}

/// Bytes of stack that the deepest work has room in: a translation that is made of hot code. `ulimit -s` may
/// allow less.
const STACK: usize = 8 << 20;

fn run(launcher: Option<cyclometer_toolkit::Result<Launcher>>) -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return failure::of_arguments(&error).into(),
    };
    match dispatch(&cli, launcher) {
        Ok(code) => code.into(),
        Err(error) => failure::report(&error, cli.verbose).into(),
    }
}

fn dispatch(
    cli: &Cli,
    launcher: Option<cyclometer_toolkit::Result<Launcher>>,
) -> cyclometer_toolkit::Result<u8> {
    match &cli.command {
        CliCommand::Stat(args) => {
            let launcher = launcher.unwrap_or_else(Launcher::start)?;
            commands::stat::run(args, cli, launcher)
        }
        CliCommand::Compare(args) => {
            let launcher = launcher.unwrap_or_else(Launcher::start)?;
            commands::compare::run(args, cli, launcher)
        }
        CliCommand::Record(args) => {
            let launcher = launcher.unwrap_or_else(Launcher::start)?;
            commands::record::run(args, launcher)
        }
        CliCommand::Run(args) => {
            let launcher = launcher.unwrap_or_else(Launcher::start)?;
            commands::run::run(args, launcher)
        }
        CliCommand::Advise(args) => {
            commands::advise::run(args, cli, || launcher.unwrap_or_else(Launcher::start))
        }
        CliCommand::Doctor(args) => commands::doctor::run(args, cli),
        CliCommand::Selftest(args) => commands::selftest::run(args, cli),
        CliCommand::Reverse(args) => commands::reverse::run(args, cli),
        CliCommand::Cpus(args) => commands::cpus::run(args, cli),
        CliCommand::List(args) => commands::list::run(args, cli),
        CliCommand::Encode(args) => commands::encode::run(args, cli),
        CliCommand::Decode(args) => commands::decode::run(args, cli),
        CliCommand::Registers(args) => commands::registers::run(args, cli),
        CliCommand::Plan(args) => commands::plan::run(args, cli),
        CliCommand::Plot(args) => commands::plot::run(args, cli),
        CliCommand::Phases(args) => commands::phases::run(args, cli),
        CliCommand::Convert(args) => commands::convert::run(args, cli.verbose),
        CliCommand::Mcp { args } => commands::mcp::run(args),
        CliCommand::Completions { shell } => commands::completions::run(*shell),
        CliCommand::Man { subcommand } => commands::man::run(subcommand.as_deref()),
    }
}

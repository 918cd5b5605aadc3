//! `phases`: the parts of a recording in which a program does the same work.

use cyclometer_toolkit::Result;

use super::recorded;
use crate::args::{Cli, PhasesArgs};
use crate::exit;
use crate::output::Channel;
use crate::render::plot::chart::RecordingChart;
use crate::render::{json, phases};

/// Shows the phases.
///
/// # Errors
///
/// `ErrorKind::Io` and `ErrorKind::InvalidInput` for a recording that cannot be read, and for a thread that
/// it does not have; for a damaged recording, after the phases of the rows before the damage were shown.
pub fn run(args: &PhasesArgs, cli: &Cli) -> Result<u8> {
    let mut read = recorded::read(&args.file)?;
    if let Some(tid) = args.thread {
        recorded::keep_thread(&mut read, tid)?;
    }
    let chart = |most_lanes| RecordingChart::new(&read, None, most_lanes);
    super::print(&match args.json {
        true => json::pretty(&phases::json(&read, &chart(Some(usize::MAX)))),
        false => phases::render(&chart(None), super::paint(cli, Channel::Out)),
    })?;
    match read.failure {
        Some(error) => Err(recorded::unreadable(&args.file, error)),
        None => Ok(exit::OK),
    }
}

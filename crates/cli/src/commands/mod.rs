//! One module for each subcommand.

pub mod completions;
pub mod cpus;
pub mod doctor;
pub mod list;
pub mod man;
pub mod stat;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use cyclometer::{Error, ErrorKind, Machine, Result, diagnosed_machine, replay_machine};

use crate::args::Cli;
use crate::export::cannot_print;
use crate::output::{self, Channel, clean_os};
use crate::render::paint::Paint;

/// Longest recording that is read, in bytes: a machine's facts take far less.
const MAX_RECORDING_BYTES: u64 = 16 * 1024 * 1024;

/// This machine, or the one of a recording.
fn machine_of(recording: Option<&Path>) -> Result<Machine> {
    match recording {
        None => Ok(diagnosed_machine()),
        Some(path) => replay_machine(&read_recording(path)?),
    }
}

fn read_recording(path: &Path) -> Result<String> {
    let name = clean_os(path.as_os_str());
    let failed = |error: std::io::Error| {
        Error::new(ErrorKind::Io, format!("cannot read {name}: {error}")).with_source(error)
    };
    let mut text = String::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MAX_RECORDING_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_RECORDING_BYTES {
        let message =
            format!("{name} is longer than {MAX_RECORDING_BYTES} bytes, so it is no recording of a machine");
        return Err(Error::new(ErrorKind::InvalidInput, message));
    }
    Ok(text)
}

/// Prints a result.
fn print(text: &str) -> Result<u8> {
    output::put(Channel::Out, text).map_err(|error| cannot_print(&error))?;
    Ok(crate::exit::OK)
}

fn paint(cli: &Cli, channel: Channel) -> Paint {
    Paint::new(cli.color, channel, std::env::var_os("NO_COLOR").as_deref())
}

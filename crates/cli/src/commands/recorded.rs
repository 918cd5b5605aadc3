//! Recordings as commands read them: a file or standard input, and what is said about an early end.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use cyclometer_toolkit::core::window::WindowThread;
use cyclometer_toolkit::recording::{Recording, RecordingError};
use cyclometer_toolkit::{Error, Result};

use crate::failure::{of_input, usage};
use crate::output::clean_os;
use crate::render::lanes::{LaneOwner, RecordingLanes};

/// Most threads that an error names.
const MOST_NAMED: usize = 12;

/// Whether a path stands for standard input.
pub fn is_stdin(file: &Path) -> bool {
    file == Path::new("-")
}

/// Reads a recording as far as it goes: a failure after its header is in [`RecordingLanes::failure`].
///
/// # Errors
///
/// `ErrorKind::Io` and `ErrorKind::InvalidInput`, naming the file.
pub fn read(file: &Path) -> Result<RecordingLanes> {
    open(file).map(RecordingLanes::read).map_err(|error| unreadable(file, error))
}

/// Opens a recording.
///
/// # Errors
///
/// Those of its file and of its header.
pub fn open(file: &Path) -> std::result::Result<Recording<Box<dyn Read>>, RecordingError> {
    Recording::open(match is_stdin(file) {
        true => Box::new(io::stdin()) as Box<dyn Read>,
        false => Box::new(BufReader::new(File::open(file)?)),
    })
}

/// The name of a recording in messages.
pub fn name(file: &Path) -> String {
    if is_stdin(file) { "standard input".to_owned() } else { clean_os(file.as_os_str()) }
}

/// The error of a recording that is read, with the name of its file.
pub fn unreadable(file: &Path, error: RecordingError) -> Error {
    failed("read", file, error)
}

/// The error of a recording with which something cannot be done, with the name of its file.
pub fn failed(verb: &str, file: &Path, error: RecordingError) -> Error {
    let error = match error {
        RecordingError::Io(error) => return of_input(file, error),
        other => Error::from(other),
    };
    let message = format!("cannot {verb} {}: {error}", name(file));
    Error::new(error.kind(), message).with_recovery(error.recovery().clone()).with_source(error)
}

/// Leaves the lanes of one thread.
///
/// # Errors
///
/// Usage, if there are none.
pub fn keep_thread(recording: &mut RecordingLanes, tid: u32) -> Result<()> {
    let is_meant =
        |owner: LaneOwner| matches!(owner, LaneOwner::Thread(WindowThread { tid: own, .. }) if own == tid);
    if recording.lanes.iter().any(|lane| is_meant(lane.owner)) {
        recording.lanes.retain(|lane| is_meant(lane.owner));
        return Ok(());
    }
    let threads = recording.lanes.iter().filter_map(|lane| match lane.owner {
        LaneOwner::Thread(thread) => Some(thread.tid),
        _ => None,
    });
    let threads: BTreeSet<u32> = threads.collect();
    let mut names: Vec<String> = threads.iter().take(MOST_NAMED + 1).map(u32::to_string).collect();
    let hint = match names.len() {
        0 => "leave --thread out: the windows are of no single thread".to_owned(),
        n => {
            if n > MOST_NAMED {
                names[MOST_NAMED] = "…".to_owned();
            }
            format!("its threads are {}", names.join(", "))
        }
    };
    Err(usage(format!("--thread {tid}: the recording has no windows of this thread"), &hint))
}

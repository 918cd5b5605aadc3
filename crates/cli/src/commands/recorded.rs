//! Recordings as commands read them: a file or standard input, and what is said about an early end.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use cyclometer::core::window::WindowThread;
use cyclometer::recording::{Recording, RecordingError};
use cyclometer::{Error, Result};

use crate::failure::usage;
use crate::lanes::{LaneOwner, RecordingLanes};
use crate::output::clean_os;

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
    let opened: io::Result<Box<dyn Read>> = match is_stdin(file) {
        true => Ok(Box::new(io::stdin())),
        false => File::open(file).map(|file| Box::new(BufReader::new(file)) as Box<dyn Read>),
    };
    let input = opened.map_err(|error| unreadable(file, error.into()))?;
    let recording = Recording::open(input).map_err(|error| unreadable(file, error))?;
    Ok(RecordingLanes::read(recording))
}

/// The error of a recording, with the name of its file.
pub fn unreadable(file: &Path, error: RecordingError) -> Error {
    let name = if is_stdin(file) { "standard input".to_owned() } else { clean_os(file.as_os_str()) };
    let error = Error::from(error);
    let message = format!("cannot read {name}: {error}");
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

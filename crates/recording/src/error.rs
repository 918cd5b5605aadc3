//! Errors of reading and writing recordings.

use std::{fmt, io};

use cyclometer_core::{Error, ErrorKind, Recovery};

/// Result with a [`RecordingError`].
pub type RecordingResult<T> = std::result::Result<T, RecordingError>;

/// Why a recording cannot be read or written.
#[derive(Debug)]
#[non_exhaustive]
pub enum RecordingError {
    /// The reader or writer below failed.
    Io(io::Error),
    /// The input does not begin as a recording.
    Foreign,
    /// The input is a recording of another version of the format.
    Version {
        /// Its version.
        version: u32,
    },
    /// The input has no byte.
    Empty,
    /// The input ends before its header is complete; no row was written before that.
    NoHeader,
    /// A frame differs from what was written; frames behind it are not read.
    Damaged {
        /// The offset of the frame, in bytes.
        offset: u64,
    },
    /// A frame contradicts the format, although its checksum is right.
    Malformed {
        /// The offset of the frame, in bytes.
        offset: u64,
        /// The contradiction.
        problem: String,
    },
    /// A header, row or footer that cannot be written.
    Unwritable {
        /// The reason.
        problem: String,
    },
}

impl RecordingError {
    pub(crate) fn unwritable(problem: impl Into<String>) -> RecordingError {
        RecordingError::Unwritable { problem: problem.into() }
    }
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordingError::Io(error) => write!(f, "{error}"),
            RecordingError::Foreign => f.write_str("it is not a cyclometer recording"),
            RecordingError::Version { version } => {
                write!(f, "it has version {version} of the recording format")
            }
            RecordingError::Empty => f.write_str("it is empty"),
            RecordingError::NoHeader => f.write_str("the recording ends within its header, before any row"),
            RecordingError::Damaged { offset } => {
                write!(f, "the frame at byte {offset} is damaged: its checksum is wrong")
            }
            RecordingError::Malformed { offset, problem } => {
                write!(f, "the frame at byte {offset} is malformed: {problem}")
            }
            RecordingError::Unwritable { problem } => write!(f, "the recording cannot be written: {problem}"),
        }
    }
}

impl std::error::Error for RecordingError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RecordingError::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for RecordingError {
    fn from(error: io::Error) -> RecordingError {
        RecordingError::Io(error)
    }
}

impl From<RecordingError> for Error {
    fn from(error: RecordingError) -> Error {
        let message = error.to_string();
        let remedy = match error {
            RecordingError::Io(cause) => return Error::new(ErrorKind::Io, message).with_source(cause),
            RecordingError::Version { .. } => {
                "use the version of cyclometer that recorded it, or a newer one"
            }
            RecordingError::Foreign => "name a file that `cyclometer record` has written",
            RecordingError::Empty | RecordingError::NoHeader => {
                "record again; an earlier recording may be in FILE.old, and rows of a run that was killed in FILE.part"
            }
            RecordingError::Damaged { .. } | RecordingError::Malformed { .. } => {
                "copy the file again if it is a copy, else record again; the rows before that byte are intact"
            }
            RecordingError::Unwritable { .. } => "record fewer events, or with longer rows",
        };
        Error::new(ErrorKind::InvalidInput, message).with_recovery(Recovery::fix(remedy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_of_a_recording_has_a_remedy() {
        let problem = String::new();
        for (error, said) in [
            (RecordingError::Foreign, "cyclometer record"),
            (RecordingError::Version { version: 9 }, "version"),
            (RecordingError::Empty, "FILE.old"),
            (RecordingError::NoHeader, "FILE.old"),
            (RecordingError::Damaged { offset: 9 }, "copy the file again"),
            (RecordingError::Malformed { offset: 9, problem: problem.clone() }, "copy the file again"),
            (RecordingError::Unwritable { problem }, "fewer events"),
        ] {
            let error = Error::from(error);
            assert!(error.recovery().to_string().contains(said), "{error}: {}", error.recovery());
        }
    }
}

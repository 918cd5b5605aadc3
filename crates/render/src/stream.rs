//! Results of functions that write contents piece by piece.

use std::io;

use cyclometer_toolkit::core::Error;

/// Why contents could not be made or written.
#[derive(Debug)]
pub enum StreamError {
    /// The destination did not take them.
    Write(io::Error),
    /// They could not be made.
    Contents(Error),
}

/// Result of a function that writes contents piece by piece.
pub type Streamed<T> = std::result::Result<T, StreamError>;

impl From<io::Error> for StreamError {
    fn from(error: io::Error) -> StreamError {
        StreamError::Write(error)
    }
}

impl From<Error> for StreamError {
    fn from(error: Error) -> StreamError {
        StreamError::Contents(error)
    }
}

impl StreamError {
    /// The error as it is shown; `describe` names the destination.
    pub fn named(self, describe: impl FnOnce(io::Error) -> Error) -> Error {
        match self {
            StreamError::Write(error) => describe(error),
            StreamError::Contents(error) => error,
        }
    }
}

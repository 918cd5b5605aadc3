//! The reasons why a task cannot be followed any more.

use std::io;

/// The reason why a task cannot be followed any more.
#[derive(Debug)]
pub(super) enum TraceError {
    /// It has ended, or is about to.
    Gone,
    /// It must be detached; the reason.
    Detach(String),
    /// It needs a translation of its own.
    OwnTranslation,
}

impl From<io::Error> for TraceError {
    fn from(error: io::Error) -> TraceError {
        match error.raw_os_error() {
            Some(cyclometer_sys::process::errno::ESRCH) => TraceError::Gone,
            _ => TraceError::Detach(format!("could not be translated: {error}")),
        }
    }
}

impl TraceError {
    /// The mappings of a process cannot be read: it has ended, or its memory is kept from this user.
    pub(super) fn of_maps(error: io::Error) -> TraceError {
        match error.kind() {
            io::ErrorKind::NotFound => TraceError::Gone,
            io::ErrorKind::PermissionDenied => {
                TraceError::Detach("has memory that this user may not read".to_owned())
            }
            _ => error.into(),
        }
    }
}

pub(super) type TraceResult = Result<(), TraceError>;

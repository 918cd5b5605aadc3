//! Things that a machine may lack: a reason to skip, and to say so; never one to pass, nor to fail.

use std::fmt;

/// Something that is needed and not there: the network, a package, a tool.
#[derive(Debug)]
pub(super) struct Missing(pub(super) String);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Missing {}

/// An error that says what is missing.
pub(super) fn missing(what: impl Into<String>) -> anyhow::Error {
    Missing(what.into()).into()
}

/// Whether an error, or what caused it, is something missing.
pub(super) fn is_missing(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.is::<Missing>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn what_is_missing_is_known_through_its_context() {
        assert!(is_missing(&missing("no network").context("the emulator")));
        assert!(is_missing(&Err::<(), _>(missing("x")).context("y").unwrap_err()));
        assert!(!is_missing(&anyhow::anyhow!("broken")));
    }
}

//! Systems without the models' stepper.

use cyclometer_core::exec::CommandSpec;
use cyclometer_core::{Error, ErrorKind, Result};

use crate::Launcher;
use crate::modelled_counts::{ModelRunSettings, ModelledRun};

/// Runs a command for the models; not supported here.
///
/// # Errors
///
/// Always `ErrorKind::ArchUnsupported`. The command has not run.
pub fn modelled_run(
    _launcher: &Launcher,
    _command: &CommandSpec,
    _settings: ModelRunSettings,
) -> Result<ModelledRun> {
    let text = "models of caches and branches require Linux on x86-64";
    Err(Error::new(ErrorKind::ArchUnsupported, text))
}

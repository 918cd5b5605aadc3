//! Systems without the stepper that the model needs.

use cyclometer_core::cache_geometry::HierarchyGeometry;
use cyclometer_core::exec::CommandSpec;
use cyclometer_core::{Error, ErrorKind, Result};

use crate::Launcher;
use crate::miss_counts::{MissRun, MissRunKind};

/// Runs a command for the model of its caches; not supported here.
///
/// # Errors
///
/// Always `ErrorKind::ArchUnsupported`. The command has not run.
pub fn miss_run(
    _launcher: &Launcher,
    _command: &CommandSpec,
    _geometry: &HierarchyGeometry,
    _kind: MissRunKind,
) -> Result<MissRun> {
    let text = "models of caches and branches require Linux on x86-64";
    Err(Error::new(ErrorKind::ArchUnsupported, text))
}

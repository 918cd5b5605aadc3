//! Systems for which there is no NVML.

use cyclometer_core::nvml::NvmlObstacle;

use crate::facts::NvmlFacts;

/// There is no library.
pub(super) fn probe() -> Result<NvmlFacts, NvmlObstacle> {
    Err(NvmlObstacle::NoLibrary("it belongs to Linux".to_owned()))
}

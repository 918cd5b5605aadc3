//! NVML on the host.

use std::path::Path;
use std::time::Duration;

use cyclometer_core::nvml::{NvmlObstacle, NvmlReturn};
use cyclometer_sys::nvml::{LIBRARY, Nvml, NvmlError, within};

use crate::facts::NvmlFacts;

/// The time that the driver has to answer. Waking devices without a persistence daemon takes about a second
/// for each.
const LIMIT: Duration = Duration::from_secs(10);

/// Opens the library and lists the devices, which may wake them.
pub(super) fn probe() -> Result<NvmlFacts, NvmlObstacle> {
    let answer = within(LIMIT, || Nvml::open(Path::new(LIBRARY))?.inventory());
    let inventory = answer.ok_or(NvmlObstacle::NoAnswer(LIMIT))?.map_err(|error| match error {
        NvmlError::NoLibrary(reason) => NvmlObstacle::NoLibrary(reason),
        NvmlError::Code(code) => NvmlObstacle::Returned(NvmlReturn(code)),
    })?;
    Ok(NvmlFacts { driver: inventory.driver, devices: inventory.devices })
}

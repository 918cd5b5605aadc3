//! Quantities in files of drivers.
//!
//! # Source
//!
//! Linux `Documentation/gpu/amdgpu/thermal.rst`, `Documentation/hwmon/sysfs-interface.rst`.

use std::fs;

use cyclometer_core::gpu::GpuPlace;
use cyclometer_core::reason::GpuObstacle;

use super::processes::MeasuredProcesses;
use super::reader::{DeviceProbe, GpuReader, GpuSample, ProbePlace, WantedPart};

/// Reads files.
pub(super) struct FileReader;

impl GpuReader for FileReader {
    fn probes(&mut self, wanted: &WantedPart) -> Result<Vec<DeviceProbe>, GpuObstacle> {
        Ok(match &wanted.part.place {
            GpuPlace::File { device, holds, file } => vec![DeviceProbe {
                device: device.clone(),
                quantity: *holds,
                place: ProbePlace::File(file.clone()),
            }],
            GpuPlace::Nvml(_) => Vec::new(),
        })
    }

    fn read(&mut self, probe: &DeviceProbe, _: &MeasuredProcesses) -> Result<GpuSample, GpuObstacle> {
        let ProbePlace::File(file) = &probe.place else { return Ok(GpuSample::default()) };
        let path = &file.path;
        let text = fs::read_to_string(path).map_err(|error| GpuObstacle::Unreadable {
            path: path.clone(),
            kind: error.kind(),
            error: error.to_string(),
        })?;
        match text.trim().parse() {
            Ok(number) => Ok(GpuSample { value: file.raw(number), reasons: 0 }),
            Err(_) => Err(GpuObstacle::NoNumber { path: path.clone() }),
        }
    }
}

//! Quantities in files of drivers.
//!
//! # Source
//!
//! Linux `Documentation/gpu/amdgpu/thermal.rst`, `Documentation/hwmon/sysfs-interface.rst`.

use std::fs;
use std::io::ErrorKind;

use cyclometer_core::RefusalKind;
use cyclometer_core::gpu::GpuPlace;

use super::processes::MeasuredProcesses;
use super::reader::{DeviceProbe, GpuReader, GpuSample, Obstacle, ProbePlace, WantedPart};

/// Reads files.
pub(super) struct FileReader;

impl GpuReader for FileReader {
    fn probes(&mut self, wanted: &WantedPart) -> Result<Vec<DeviceProbe>, Obstacle> {
        Ok(match &wanted.part.place {
            GpuPlace::File { device, holds, file } => vec![DeviceProbe {
                device: device.clone(),
                quantity: *holds,
                place: ProbePlace::File(file.clone()),
            }],
            GpuPlace::Nvml(_) => Vec::new(),
        })
    }

    fn read(&mut self, probe: &DeviceProbe, _: &MeasuredProcesses) -> Result<GpuSample, Obstacle> {
        let ProbePlace::File(file) = &probe.place else { return Ok(GpuSample::default()) };
        let path = &file.path;
        let text = fs::read_to_string(path).map_err(|error| {
            let (kind, remedy) = match error.kind() {
                ErrorKind::PermissionDenied => {
                    (RefusalKind::NoPermission, format!("; to permit it: sudo chmod a+r {path}"))
                }
                ErrorKind::NotFound => (RefusalKind::NotSupported, String::new()),
                _ => (RefusalKind::Unavailable, String::new()),
            };
            Obstacle { kind, text: format!("{path} cannot be read: {error}{remedy}") }
        })?;
        match text.trim().parse() {
            Ok(number) => Ok(GpuSample { value: file.raw(number), reasons: 0 }),
            Err(_) => {
                let text = format!("{path} holds no number");
                Err(Obstacle { kind: RefusalKind::Unavailable, text })
            }
        }
    }
}

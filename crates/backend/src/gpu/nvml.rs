//! Quantities of NVIDIA's management library.

use std::collections::BTreeMap;
use std::path::Path;

use cyclometer_core::gpu::{GpuPlace, GpuQuantity};
use cyclometer_core::nvml::{NvmlObstacle, NvmlReturn};
use cyclometer_core::reason::GpuObstacle;
use cyclometer_sys::nvml::{Nvml, NvmlClock, NvmlDevice, NvmlDirection, NvmlError, NvmlInventory, within};

use super::meter::is_throttled;
use super::place;
use super::processes::MeasuredProcesses;
use super::reader::{DeviceProbe, GpuReader, GpuSample, ProbePlace, WantedPart};

/// The driver and devices of the library of this build.
///
/// # Errors
///
/// Why the library gave no answer.
pub fn probe() -> Result<NvmlInventory, NvmlObstacle> {
    let library = place::library();
    let answer = within(place::OPEN_LIMIT, move || Nvml::open(&library)?.inventory());
    answer.ok_or(NvmlObstacle::NoAnswer(place::OPEN_LIMIT))?.map_err(obstacle)
}

fn obstacle(error: NvmlError) -> NvmlObstacle {
    match error {
        NvmlError::NoLibrary(reason) => NvmlObstacle::NoLibrary(reason),
        NvmlError::Code(code) => NvmlObstacle::Returned(NvmlReturn(code)),
    }
}

fn refused(error: NvmlError) -> GpuObstacle {
    GpuObstacle::Nvml(obstacle(error))
}

/// Reads NVML.
pub(super) struct NvmlReader {
    nvml: Nvml,
    devices: Vec<NvmlDevice>,
}

impl NvmlReader {
    /// Opens the library and lists the devices.
    pub(super) fn open(library: &Path) -> Result<NvmlReader, GpuObstacle> {
        let nvml = Nvml::open(library).map_err(refused)?;
        let devices = nvml.devices().map_err(refused)?;
        Ok(NvmlReader { nvml, devices })
    }

    /// Indices of the devices that a name means. Without a name they are the whole devices, whose values
    /// contain those of their instances.
    fn meant(&self, name: Option<&str>) -> Result<Vec<usize>, GpuObstacle> {
        let is_meant = |device: &NvmlDevice| match name {
            Some(name) => device.name == name,
            None => !device.is_instance,
        };
        let found: Vec<usize> =
            (0..self.devices.len()).filter(|index| is_meant(&self.devices[*index])).collect();
        if !found.is_empty() {
            return Ok(found);
        }
        let known: Vec<String> = self.devices.iter().map(|device| device.name.clone()).collect();
        Err(match (name, known.is_empty()) {
            (Some(name), false) => GpuObstacle::UnknownDevice { name: name.to_owned(), known },
            (None, false) => GpuObstacle::OnlyInstances { known },
            (_, true) => GpuObstacle::NoNvmlDevice,
        })
    }

    fn value(
        &self,
        index: usize,
        quantity: GpuQuantity,
        of: &MeasuredProcesses,
    ) -> Result<GpuSample, NvmlError> {
        let (nvml, device) = (&self.nvml, self.devices[index].handle);
        let plain = |value| GpuSample { value, reasons: 0 };
        let thousandths = |value: u32| plain(u64::from(value) * 1000);
        Ok(match quantity {
            GpuQuantity::Utilisation => thousandths(nvml.utilisation(device)?.device),
            GpuQuantity::MemoryUtilisation => thousandths(nvml.utilisation(device)?.memory),
            GpuQuantity::SmClock => thousandths(nvml.clock_mhz(device, NvmlClock::Sm)?),
            GpuQuantity::MemoryClock => thousandths(nvml.clock_mhz(device, NvmlClock::Memory)?),
            GpuQuantity::Power => plain(nvml.power_mw(device)?.into()),
            GpuQuantity::Energy => plain(nvml.energy_mj(device)?),
            GpuQuantity::MemoryUsed => plain(nvml.used_memory_bytes(device)? / 1024),
            GpuQuantity::ProcessMemory => plain(self.process_memory(index, of)? / 1024),
            GpuQuantity::PcieReceive => plain(nvml.pcie_kb_per_s(device, NvmlDirection::Receive)?.into()),
            GpuQuantity::PcieTransmit => plain(nvml.pcie_kb_per_s(device, NvmlDirection::Transmit)?.into()),
            GpuQuantity::Temperature => thousandths(nvml.temperature_celsius(device)?),
            GpuQuantity::Throttled => {
                let reasons = nvml.clock_reasons(device)?;
                GpuSample { value: if is_throttled(reasons) { 100_000 } else { 0 }, reasons }
            }
            _ => return Err(NvmlError::NOT_SUPPORTED),
        })
    }

    /// The memory of the measured processes, in bytes.
    fn process_memory(&self, index: usize, of: &MeasuredProcesses) -> Result<u64, NvmlError> {
        let mut by_process: BTreeMap<(u32, u32, u32), u64> = BTreeMap::new();
        for process in self.nvml.processes(self.devices[index].handle)? {
            if process.used_bytes == u64::MAX {
                return Err(NvmlError::NOT_SUPPORTED);
            }
            // A process with a compute and a graphics context stands twice, each time with all its memory on
            // this instance.
            let on_instance = (process.pid, process.device_instance, process.compute_instance);
            let used = by_process.entry(on_instance).or_default();
            *used = (*used).max(process.used_bytes);
        }
        Ok(by_process.into_iter().filter(|((pid, ..), _)| of.contains(*pid)).map(|(_, used)| used).sum())
    }
}

impl GpuReader for NvmlReader {
    fn probes(&mut self, wanted: &WantedPart) -> Result<Vec<DeviceProbe>, GpuObstacle> {
        let GpuPlace::Nvml(name) = &wanted.part.place else { return Ok(Vec::new()) };
        let quantity = wanted.part.quantity;
        let probe = |index: usize| {
            // A device without a counter of energy has its power added up.
            let counts = quantity != GpuQuantity::Energy
                || self.nvml.energy_mj(self.devices[index].handle) != Err(NvmlError::NOT_SUPPORTED);
            let quantity = if counts { quantity } else { GpuQuantity::Power };
            DeviceProbe { device: self.devices[index].name.clone(), quantity, place: ProbePlace::Nvml(index) }
        };
        Ok(self.meant(name.as_deref())?.into_iter().map(probe).collect())
    }

    fn read(&mut self, probe: &DeviceProbe, processes: &MeasuredProcesses) -> Result<GpuSample, GpuObstacle> {
        let ProbePlace::Nvml(index) = probe.place else { return Ok(GpuSample::default()) };
        let is_by_process = probe.quantity == GpuQuantity::ProcessMemory;
        if is_by_process && *processes != MeasuredProcesses::All && !place::sees_ids_of_host() {
            return Err(GpuObstacle::ProcessIdsOfHost);
        }
        self.value(index, probe.quantity, processes).map_err(refused)
    }
}

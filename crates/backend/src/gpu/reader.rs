//! The interface between a sampler and the driver that it reads.

use std::time::Duration;

use cyclometer_core::SlotId;
use cyclometer_core::gpu::{GpuFile, GpuPart, GpuQuantity};
use cyclometer_core::reason::GpuObstacle;

use super::processes::MeasuredProcesses;

/// The time that a driver has for an answer. Reading PCIe takes 20 ms for each device and direction.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// One part of an event that is to be sampled.
#[derive(Clone, Debug)]
pub(super) struct WantedPart {
    pub(super) slot: SlotId,
    /// Index of the part in its event.
    pub(super) index: usize,
    pub(super) part: GpuPart,
    pub(super) processes: MeasuredProcesses,
}

/// One quantity of one device.
#[derive(Clone, Debug)]
pub(super) struct DeviceProbe {
    /// The device's name.
    pub(super) device: String,
    /// The quantity that is read. For energy it may be power, which is then added up.
    pub(super) quantity: GpuQuantity,
    /// Where the reader finds it.
    pub(super) place: ProbePlace,
}

/// The place of a quantity in a reader.
#[derive(Clone, Debug)]
pub(super) enum ProbePlace {
    /// The device of this index among those of NVML.
    Nvml(usize),
    /// A file.
    File(GpuFile),
}

/// The value of a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct GpuSample {
    /// In the quantity's raw unit.
    pub(super) value: u64,
    /// The reasons why clocks are held down, as NVML's bits; 0 for other quantities.
    pub(super) reasons: u64,
}

/// Reads a driver, on the sampler's thread.
pub(super) trait GpuReader {
    /// The devices that a part means.
    fn probes(&mut self, wanted: &WantedPart) -> Result<Vec<DeviceProbe>, GpuObstacle>;

    /// Reads one quantity now.
    fn read(&mut self, probe: &DeviceProbe, processes: &MeasuredProcesses) -> Result<GpuSample, GpuObstacle>;
}

//! GPUs: their devices, and the quantities that their drivers report.

/// A quantity that the driver of a GPU reports.
///
/// # Source
///
/// NVML API Reference Guide, "Device Queries"; Linux `Documentation/gpu/amdgpu/thermal.rst`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum GpuQuantity {
    /// Share of the time in which a kernel executed, in thousandths of a percent.
    Utilisation,
    /// Share of the time in which the device's memory was read or written, in thousandths of a percent.
    MemoryUtilisation,
    /// Clock of the shader cores, in kHz.
    SmClock,
    /// Clock of the memory, in kHz.
    MemoryClock,
    /// Power of the board, in mW.
    Power,
    /// Energy of the board, in mJ.
    Energy,
    /// Memory of the device in use, by all processes, in KiB.
    MemoryUsed,
    /// Memory of the device that the processes of the target use, in KiB.
    ProcessMemory,
    /// Data that the device received over PCIe, in KB/s.
    PcieReceive,
    /// Data that the device sent over PCIe, in KB/s.
    PcieTransmit,
    /// Temperature of the chip, in thousandths of a degree Celsius.
    Temperature,
    /// Share of the time in which power or temperature held the clocks down, in thousandths of a percent.
    Throttled,
}

/// How the means of several devices become one value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceTotal {
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
    /// The greatest of them.
    Greatest,
}

impl DeviceTotal {
    /// The word for messages.
    pub fn word(self) -> &'static str {
        match self {
            DeviceTotal::Sum => "sum",
            DeviceTotal::Mean => "mean",
            DeviceTotal::Greatest => "greatest",
        }
    }
}

impl GpuQuantity {
    /// Every quantity.
    pub const ALL: [GpuQuantity; 12] = [
        GpuQuantity::Utilisation,
        GpuQuantity::MemoryUtilisation,
        GpuQuantity::SmClock,
        GpuQuantity::MemoryClock,
        GpuQuantity::Power,
        GpuQuantity::Energy,
        GpuQuantity::MemoryUsed,
        GpuQuantity::ProcessMemory,
        GpuQuantity::PcieReceive,
        GpuQuantity::PcieTransmit,
        GpuQuantity::Temperature,
        GpuQuantity::Throttled,
    ];

    /// The name between the slashes of its event: `power` of `gpu/power/`.
    pub const fn name(self) -> &'static str {
        match self {
            GpuQuantity::Utilisation => "utilisation",
            GpuQuantity::MemoryUtilisation => "memory-utilisation",
            GpuQuantity::SmClock => "sm-clock",
            GpuQuantity::MemoryClock => "memory-clock",
            GpuQuantity::Power => "power",
            GpuQuantity::Energy => "energy",
            GpuQuantity::MemoryUsed => "memory-used",
            GpuQuantity::ProcessMemory => "process-memory",
            GpuQuantity::PcieReceive => "pcie-rx",
            GpuQuantity::PcieTransmit => "pcie-tx",
            GpuQuantity::Temperature => "temperature",
            GpuQuantity::Throttled => "throttled",
        }
    }

    /// A short description.
    pub const fn about(self) -> &'static str {
        match self {
            GpuQuantity::Utilisation => "share of the time in which the GPU executed a kernel",
            GpuQuantity::MemoryUtilisation => "share of the time in which the GPU's memory was accessed",
            GpuQuantity::SmClock => "clock of the GPU's shader cores",
            GpuQuantity::MemoryClock => "clock of the GPU's memory",
            GpuQuantity::Power => "power of the GPU's board",
            GpuQuantity::Energy => "energy of the GPU's board",
            GpuQuantity::MemoryUsed => "GPU memory in use, by all processes",
            GpuQuantity::ProcessMemory => "GPU memory that the measured processes use",
            GpuQuantity::PcieReceive => "data that the GPU received over PCIe",
            GpuQuantity::PcieTransmit => "data that the GPU sent over PCIe",
            GpuQuantity::Temperature => "temperature of the GPU's chip",
            GpuQuantity::Throttled => "share of the time in which power or heat held the GPU's clocks down",
        }
    }

    /// The value of one raw count, in [`GpuQuantity::unit`].
    pub const fn scale(self) -> f64 {
        match self {
            GpuQuantity::MemoryUsed | GpuQuantity::ProcessMemory => 1024.0,
            GpuQuantity::PcieReceive | GpuQuantity::PcieTransmit => 1000.0,
            _ => 1e-3,
        }
    }

    /// How the means of several devices become one value; `None` for energy, which is a count and no gauge.
    pub const fn gauge(self) -> Option<DeviceTotal> {
        match self {
            GpuQuantity::Energy => None,
            GpuQuantity::Power
            | GpuQuantity::MemoryUsed
            | GpuQuantity::ProcessMemory
            | GpuQuantity::PcieReceive
            | GpuQuantity::PcieTransmit => Some(DeviceTotal::Sum),
            GpuQuantity::Temperature => Some(DeviceTotal::Greatest),
            _ => Some(DeviceTotal::Mean),
        }
    }

    /// The quantity of a name, in British or American spelling and any case.
    pub fn named(name: &str) -> Option<GpuQuantity> {
        let name = name.to_ascii_lowercase().replace("utilization", "utilisation");
        GpuQuantity::ALL.into_iter().find(|quantity| quantity.name() == name)
    }
}

/// The data by which the source reads one quantity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GpuPart {
    /// The quantity.
    pub quantity: GpuQuantity,
    /// Where it is read.
    pub place: GpuPlace,
}

/// The device and driver of a [`GpuPart`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GpuPlace {
    /// Through NVML: the device of this name; `None` for all devices.
    Nvml(Option<String>),
    /// A file of a driver's, with the name of its device.
    File {
        /// The name of the device: `amd0`.
        device: String,
        /// The quantity that the file holds: for energy it may be power, which is then added up.
        holds: GpuQuantity,
        /// The file.
        file: GpuFile,
    },
}

/// A file with one number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GpuFile {
    /// Its path.
    pub path: String,
    /// The number in the file is multiplied by this.
    pub multiplier: u32,
    /// Then it is divided by this, which gives the raw unit of the quantity.
    pub divisor: u32,
}

impl GpuFile {
    /// The value in the quantity's raw unit.
    pub fn raw(&self, number: u64) -> u64 {
        number.saturating_mul(self.multiplier.into()) / u64::from(self.divisor.max(1))
    }
}

/// The GPUs of a machine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Gpus {
    /// The version of NVIDIA's kernel driver; `None` where it is not loaded.
    pub nvidia_driver: Option<String>,
    /// Whether this process may reach NVIDIA's driver by device files.
    pub nvidia_nodes: bool,
    /// The devices. Those of NVML are in it only if NVML was asked, which a measurement does when it begins.
    pub devices: Vec<GpuDevice>,
}

impl Gpus {
    /// Whether NVML may find a device.
    pub fn may_have_nvml(&self) -> bool {
        self.nvidia_driver.is_some() || self.nvidia_nodes
    }

    /// The devices that a driver's files describe.
    pub fn by_files(&self) -> impl Iterator<Item = (&GpuDevice, &[(GpuQuantity, GpuFile)])> {
        self.devices.iter().filter_map(|device| match &device.access {
            GpuAccess::Files(files) => Some((device, files.as_slice())),
            _ => None,
        })
    }
}

/// One device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GpuDevice {
    /// The name in events: `nvidia0`, `nvidia0-mig1`, `amd0`.
    pub name: String,
    /// The model, if known.
    pub model: Option<String>,
    /// How it is read.
    pub access: GpuAccess,
}

/// How a device is read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GpuAccess {
    /// Through NVML.
    Nvml,
    /// By files of its driver.
    Files(Vec<(GpuQuantity, GpuFile)>),
    /// Not at all, for this reason.
    Unsupported(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_both_spellings_and_mean_one_quantity() {
        for quantity in GpuQuantity::ALL {
            assert_eq!(GpuQuantity::named(quantity.name()), Some(quantity));
            assert_eq!(GpuQuantity::named(&quantity.name().to_ascii_uppercase()), Some(quantity));
        }
        assert_eq!(GpuQuantity::named("memory-utilization"), Some(GpuQuantity::MemoryUtilisation));
        assert_eq!(GpuQuantity::named("fan"), None);
    }

    #[test]
    fn the_number_of_a_file_becomes_the_raw_unit() {
        let file = |multiplier, divisor| GpuFile { path: String::new(), multiplier, divisor };
        assert_eq!(file(1000, 1).raw(37), 37_000);
        assert_eq!(file(1, 1000).raw(89_123_456), 89_123);
        assert_eq!(file(1000, 0).raw(u64::MAX), u64::MAX);
    }
}

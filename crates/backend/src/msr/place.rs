//! Locations of devices and journals.

use std::io;
use std::path::{Path, PathBuf};

use cyclometer_sys::msr::MsrDevice;

use super::cpu_msrs::CpuMsrs;
use super::faults::MsrEnvironment;

/// The location of register devices and of the journals.
///
/// It holds names only, so a forked process can use its copy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MsrLocation(LocationKind);

#[derive(Clone, PartialEq, Eq, Debug)]
enum LocationKind {
    Kernel,
    #[cfg(feature = "fake-devices")]
    Fake(PathBuf),
}

impl MsrLocation {
    /// The machine's; in builds with fake devices, the folder `CYCLOMETER_FAKE_DEVICES` where it is set.
    #[cfg(not(feature = "fake-devices"))]
    pub fn here() -> MsrLocation {
        MsrLocation(LocationKind::Kernel)
    }

    /// The machine's; in builds with fake devices, the folder `CYCLOMETER_FAKE_DEVICES` where it is set.
    #[cfg(feature = "fake-devices")]
    pub fn here() -> MsrLocation {
        std::env::var_os("CYCLOMETER_FAKE_DEVICES")
            .map_or(MsrLocation(LocationKind::Kernel), |folder| MsrLocation::fake(folder.into()))
    }

    /// A folder of sockets that stand for devices, one `msr.N` for each CPU.
    #[cfg(feature = "fake-devices")]
    pub fn fake(folder: PathBuf) -> MsrLocation {
        MsrLocation(LocationKind::Fake(folder))
    }

    /// Opens the registers of a CPU.
    pub(super) fn open(&self, cpu: u32) -> io::Result<Box<dyn CpuMsrs>> {
        match &self.0 {
            LocationKind::Kernel => Ok(Box::new(MsrDevice::open(cpu)?)),
            #[cfg(feature = "fake-devices")]
            LocationKind::Fake(folder) => Ok(Box::new(super::fake::FakeDevice::open(folder, cpu)?)),
        }
    }

    /// State of the system that explains a refusal.
    pub(super) fn surroundings(&self, cpu: u32) -> MsrEnvironment {
        match &self.0 {
            LocationKind::Kernel => MsrEnvironment::of_kernel(cpu),
            #[cfg(feature = "fake-devices")]
            LocationKind::Fake(folder) => MsrEnvironment::of_fake(folder, cpu),
        }
    }

    /// The folder of the journals.
    pub(super) fn journals(&self) -> PathBuf {
        match &self.0 {
            LocationKind::Kernel => Path::new("/run/cyclometer").to_path_buf(),
            #[cfg(feature = "fake-devices")]
            LocationKind::Fake(folder) => folder.join("run"),
        }
    }
}

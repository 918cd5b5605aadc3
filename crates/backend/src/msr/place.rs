//! Locations of devices and journals.

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};

use cyclometer_sys::msr::MsrDevice;

use super::faults::Surroundings;

/// The location of register devices and of the journals.
///
/// It holds names only, so a forked process can use its copy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place(Kind);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Kind {
    Kernel,
    #[cfg(feature = "fake-devices")]
    Fake(PathBuf),
}

/// The registers of one CPU.
pub(super) trait Device: Debug + Send {
    fn read(&self, address: u32) -> io::Result<u64>;
    fn write(&self, address: u32, value: u64) -> io::Result<()>;
}

impl Device for MsrDevice {
    fn read(&self, address: u32) -> io::Result<u64> {
        MsrDevice::read(self, address)
    }

    fn write(&self, address: u32, value: u64) -> io::Result<()> {
        MsrDevice::write(self, address, value)
    }
}

impl Place {
    /// The machine's; in builds with fake devices, the folder `CYCLOMETER_FAKE_DEVICES` where it is set.
    #[cfg(not(feature = "fake-devices"))]
    pub fn here() -> Place {
        Place(Kind::Kernel)
    }

    /// The machine's; in builds with fake devices, the folder `CYCLOMETER_FAKE_DEVICES` where it is set.
    #[cfg(feature = "fake-devices")]
    pub fn here() -> Place {
        std::env::var_os("CYCLOMETER_FAKE_DEVICES")
            .map_or(Place(Kind::Kernel), |folder| Place::fake(folder.into()))
    }

    /// A folder of sockets that stand for devices, one `msr.N` for each CPU.
    #[cfg(feature = "fake-devices")]
    pub fn fake(folder: PathBuf) -> Place {
        Place(Kind::Fake(folder))
    }

    /// Opens the registers of a CPU.
    pub(super) fn open(&self, cpu: u32) -> io::Result<Box<dyn Device>> {
        match &self.0 {
            Kind::Kernel => Ok(Box::new(MsrDevice::open(cpu)?)),
            #[cfg(feature = "fake-devices")]
            Kind::Fake(folder) => Ok(Box::new(super::fake::FakeDevice::open(folder, cpu)?)),
        }
    }

    /// State of the system that explains a refusal.
    pub(super) fn surroundings(&self, cpu: u32) -> Surroundings {
        match &self.0 {
            Kind::Kernel => Surroundings::of_kernel(cpu),
            #[cfg(feature = "fake-devices")]
            Kind::Fake(folder) => Surroundings::of_fake(folder, cpu),
        }
    }

    /// The folder of the journals.
    pub(super) fn journals(&self) -> PathBuf {
        match &self.0 {
            Kind::Kernel => Path::new("/run/cyclometer").to_path_buf(),
            #[cfg(feature = "fake-devices")]
            Kind::Fake(folder) => folder.join("run"),
        }
    }
}

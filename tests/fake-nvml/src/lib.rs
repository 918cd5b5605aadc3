//! A library that behaves as NVIDIA's management library does, over the devices of a scenario.
//!
//! Tests open it in place of NVML. The file `nvml.scenario` beside the library says which devices there are,
//! what they report and which calls fail or never return ([`Scenario`]). The library writes a file
//! `nvml.opened` beside itself when it is initialised: a test can tell whether NVML was asked at all.
//!
//! Every copy of the library file is a driver of its own, so tests of one process do not disturb each other.

pub mod functions;
mod scenario;

pub use cyclometer_fake_library::ScenarioError;
pub use scenario::{FakeDevice, Fault, FaultEffect, Scenario};

use std::path::{Path, PathBuf};

use cyclometer_fake_library::FakeLibrary;

/// The name of the library in a folder that stands for a machine.
pub const LIBRARY: &str = "nvml";

/// The name of the scenario beside the library.
pub const SCENARIO: &str = "nvml.scenario";

/// The name of the file that the library writes when it is initialised.
pub const OPENED: &str = "nvml.opened";

/// The library's files.
const FAKE: FakeLibrary =
    FakeLibrary { crate_name: "cyclometer_fake_nvml", library: LIBRARY, scenario: SCENARIO };

/// The file of the library that Cargo built.
///
/// # Panics
///
/// When it is not there.
pub fn library() -> PathBuf {
    FAKE.built()
}

/// Puts a driver into a folder: a copy of the library, and its scenario. Returns the path of the library.
///
/// # Panics
///
/// When the folder cannot be written.
pub fn install(folder: &Path, scenario: &str) -> PathBuf {
    FAKE.install(folder, scenario)
}

//! A library that behaves as NVIDIA's management library does, over the devices of a scenario.
//!
//! Tests open it in place of NVML. The file `nvml.scenario` beside the library says which devices there are,
//! what they report and which calls fail or never return ([`Scenario`]). The library writes a file
//! `nvml.opened` beside itself when it is initialised: a test can tell whether NVML was asked at all.
//!
//! Every copy of the library file is a driver of its own, so tests of one process do not disturb each other.

pub mod functions;
mod scenario;

pub use scenario::{FakeDevice, Fault, FaultEffect, Scenario, ScenarioError};

use std::path::{Path, PathBuf};

/// The name of the library in a folder that stands for a machine.
pub const LIBRARY: &str = "nvml";

/// The name of the scenario beside the library.
pub const SCENARIO: &str = "nvml.scenario";

/// The name of the file that the library writes when it is initialised.
pub const OPENED: &str = "nvml.opened";

/// The file of the library in the folder of the test program, where Cargo puts it for a crate that depends on
/// this one.
///
/// # Panics
///
/// When it is not there.
pub fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let folder = program.parent().unwrap_or_else(|| Path::new("."));
    let name =
        format!("{}cyclometer_fake_nvml{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let places = [folder.join(&name), folder.join("deps").join(&name)];
    let found = places.iter().find(|place| place.exists());
    found.unwrap_or_else(|| panic!("no {name} in {}", folder.display())).clone()
}

/// Puts a driver into a folder: a copy of the library, and its scenario. Returns the path of the library.
///
/// # Panics
///
/// When the folder cannot be written.
pub fn install(folder: &Path, scenario: &str) -> PathBuf {
    let library_there = folder.join(LIBRARY);
    let copied = std::fs::copy(library(), &library_there);
    copied.and_then(|_| std::fs::write(folder.join(SCENARIO), scenario)).unwrap_or_else(|error| {
        panic!("{}: {error}", folder.display());
    });
    library_there
}

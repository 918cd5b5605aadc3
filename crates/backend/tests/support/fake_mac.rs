//! A Mac for tests of whole programs: recorded facts, and a library that behaves as kperf does.
//!
//! A program that was built with the feature `fake-devices` and has `CYCLOMETER_FAKE_DEVICES` set to
//! [`FakeMac::folder`] finds itself on that Mac. The scenario of the library
//! (`cyclometer_fake_kperf::Scenario`) says which Mac it is.
//!
//! Tests of other crates use this file by `#[path = "…/crates/backend/tests/support/fake_mac.rs"]`; it needs
//! `cyclometer-fake-kperf` and `tempfile`.
#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses its own part; a test may panic")]

use std::fs;
use std::path::Path;

use cyclometer_fake_kperf::{LIBRARY, SCENARIO, Scenario, library};
use tempfile::TempDir;

/// The environment variable that names the folder.
pub const VARIABLE: &str = "CYCLOMETER_FAKE_DEVICES";

/// A Mac in a folder, which is removed when this is dropped.
pub struct FakeMac {
    folder: TempDir,
}

impl FakeMac {
    /// The Mac of a scenario.
    pub fn new(scenario: &str) -> FakeMac {
        FakeMac::with(scenario, "")
    }

    /// The Mac of a scenario, with more lines of recorded facts.
    pub fn with(scenario: &str, facts: &str) -> FakeMac {
        let mac = FakeMac { folder: tempfile::tempdir().unwrap() };
        let recording = recording(&Scenario::parse(scenario).unwrap());
        fs::write(mac.folder().join("machine"), recording + facts).unwrap();
        fs::write(mac.folder().join(SCENARIO), scenario).unwrap();
        std::os::unix::fs::symlink(library(), mac.folder().join(LIBRARY)).unwrap();
        mac
    }

    /// The folder, for [`VARIABLE`].
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// `hw.cpufamily` of a chip.
pub fn family(chip: &str) -> u32 {
    match chip {
        "apple-m1" => 0x1b58_8bb3,
        "apple-m2" => 0xda33_d83d,
        "apple-m3" => 0xfa33_415e,
        "apple-m4" => 0x6f51_29ac,
        other => panic!("{other} is no chip of a Mac"),
    }
}

/// The facts of a scenario's Mac.
fn recording(scenario: &Scenario) -> String {
    // Darwin's version: 23 is that of macOS 14, 25 that of macOS 26.
    let darwin = match scenario.macos.0 {
        major @ 26.. => major - 1,
        major => major + 9,
    };
    format!(
        "note synthetic: a Mac of the tests\nos macos\narchitecture aarch64\nrelease {darwin}.{}.0\neuid {}\n\
         cpus {cpus}\nsysctl hw.cpufamily {}\nsysctl hw.cputype 16777228\nsysctl hw.cpusubtype 2\n\
         sysctl hw.logicalcpu {cpus}\nsysctl hw.nperflevels 2\nsysctl kern.hv_vmm_present {}\n\
         sysctl machdep.cpu.brand_string Apple {}\n",
        scenario.macos.1,
        if scenario.root { 0 } else { 501 },
        family(scenario.chip.id),
        u8::from(scenario.vm),
        scenario.chip.id,
        cpus = scenario.cpus,
    )
}

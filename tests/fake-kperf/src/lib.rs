//! A library that behaves as the kperf framework of a Mac does, over a simulated chip.
//!
//! Tests open it in place of the framework. It has the same functions ([`kpc`]), behind them a kernel that
//! follows the rules of xnu ([`FakeKernel`]), and below that a chip of the crate `sim`: the constraint masks
//! and registers are those that the register driver is tested with. The file `kperf.scenario` beside the
//! library says which Mac it is and what fails ([`Scenario`]); without it the library is an M1 on which
//! everything works.
//!
//! Every copy of the library file is a Mac of its own, so tests of one process do not disturb each other.

pub mod accounting;
mod fake_kernel;
pub mod kpc;
mod machine;
pub mod sampling;
mod scenario;

pub use fake_kernel::{Errno, FakeKernel};
pub use scenario::{Clock, Fault, ProcessWork, Scenario, ScenarioError};

use std::path::{Path, PathBuf};

/// The file of the library in the folder of the test program, where Cargo puts it for a crate that depends on
/// this one.
///
/// # Panics
///
/// When it is not there.
pub fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let folder = program.parent().unwrap_or_else(|| Path::new("."));
    let suffix = std::env::consts::DLL_SUFFIX;
    let name = format!("{}cyclometer_fake_kperf{suffix}", std::env::consts::DLL_PREFIX);
    let places = [folder.join(&name), folder.join("deps").join(&name)];
    let found = places.iter().find(|place| place.exists());
    found.unwrap_or_else(|| panic!("no {name} in {}", folder.display())).clone()
}

/// Puts a Mac into a folder: a copy of the library, and its scenario. Returns the path of the library.
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

/// Whether nothing is forced, counting, sampled or traced in an open copy of the library.
///
/// # Panics
///
/// When it is another library.
pub fn is_at_rest_in(library: &cyclometer_sys::macos::Library) -> bool {
    // SAFETY: the function of that name has this signature in `kpc`.
    let asks = unsafe { library.function::<extern "C" fn() -> bool>(c"fake_kperf_is_at_rest") };
    asks.unwrap_or_else(|error| panic!("{error}"))()
}

/// The name of the library in a folder that stands for a Mac.
pub const LIBRARY: &str = "kperf";

/// The name of the scenario beside the library.
pub const SCENARIO: &str = "kperf.scenario";

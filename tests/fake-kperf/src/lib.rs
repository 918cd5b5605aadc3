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

pub use cyclometer_fake_library::ScenarioError;
pub use fake_kernel::{Errno, FakeKernel};
pub use scenario::{Clock, Fault, ProcessWork, Scenario};

use std::path::{Path, PathBuf};

use cyclometer_fake_library::FakeLibrary;

/// The library's files.
const FAKE: FakeLibrary =
    FakeLibrary { crate_name: "cyclometer_fake_kperf", library: LIBRARY, scenario: SCENARIO };

/// The file of the library that Cargo built.
///
/// # Panics
///
/// When it is not there.
pub fn library() -> PathBuf {
    FAKE.built()
}

/// Puts a Mac into a folder: a copy of the library, and its scenario. Returns the path of the library.
///
/// # Panics
///
/// When the folder cannot be written.
pub fn install(folder: &Path, scenario: &str) -> PathBuf {
    FAKE.install(folder, scenario)
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

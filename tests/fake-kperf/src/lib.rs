//! A library that behaves as the kperf framework of a Mac does, over a simulated chip.
//!
//! Tests open it in place of the framework. It has the same functions ([`kpc`]), behind them a kernel that
//! follows the rules of xnu ([`FakeKernel`]), and below that a chip of the crate `sim`: the constraint masks and
//! registers are those that the register driver is tested with. The file `kperf.scenario` beside the library
//! says which Mac it is and what fails ([`Scenario`]); without it the library is an M1 on which everything
//! works.
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

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
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

/// Whether nothing is forced, counting, sampled or traced on the Mac of an open library.
///
/// # Panics
///
/// When the library is not there.
pub fn is_at_rest(library: &Path) -> bool {
    let name = CString::new(library.as_os_str().as_bytes()).unwrap_or_default();
    // SAFETY: the name is a live C string; opening the library again gives the copy that is open.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!handle.is_null(), "cannot open {}", library.display());
    // SAFETY: the handle is open, and the name is a live C string.
    let address = unsafe { libc::dlsym(handle, c"fake_kperf_is_at_rest".as_ptr()) };
    assert!(!address.is_null(), "{} is not the library", library.display());
    // SAFETY: the address is that of the function below, which has this signature.
    let at_rest: extern "C" fn() -> bool = unsafe { std::mem::transmute(address) };
    at_rest()
}

/// The name of the library in a folder that stands for a Mac.
pub const LIBRARY: &str = "kperf";

/// The name of the scenario beside the library.
pub const SCENARIO: &str = "kperf.scenario";

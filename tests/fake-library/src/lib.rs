//! Files and scenarios of the libraries that stand for those of vendors in tests.
//!
//! Such a library is a crate that is built as a dynamic library. A test copies it into a folder, with a file
//! beside it that says what it pretends to be and which calls fail: its scenario.

mod scenario;

pub use scenario::{ScenarioError, nth_call, read};

use std::ffi::{CStr, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A library of that kind, and the names of its files in a folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FakeLibrary {
    /// The name of its crate as a library: `cyclometer_fake_nvml`.
    pub crate_name: &'static str,
    /// The name of the copy.
    pub library: &'static str,
    /// The name of the scenario beside the copy.
    pub scenario: &'static str,
}

impl FakeLibrary {
    /// The file that Cargo built, in the folder of the test program: Cargo puts the library of a crate there
    /// that the test depends on.
    ///
    /// # Panics
    ///
    /// When it is not there.
    pub fn built(&self) -> PathBuf {
        use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
        let program = std::env::current_exe().unwrap_or_default();
        let folder = program.parent().unwrap_or_else(|| Path::new("."));
        let name = format!("{DLL_PREFIX}{}{DLL_SUFFIX}", self.crate_name);
        let places = [folder.join(&name), folder.join("deps").join(&name)];
        let found = places.iter().find(|place| place.exists());
        found.unwrap_or_else(|| panic!("no {name} in {}", folder.display())).clone()
    }

    /// Puts a copy of the library and its scenario into a folder. Returns the path of the copy.
    ///
    /// # Panics
    ///
    /// When the folder cannot be written.
    pub fn install(&self, folder: &Path, scenario: &str) -> PathBuf {
        let copy = folder.join(self.library);
        let copied = std::fs::copy(self.built(), &copy);
        copied.and_then(|_| std::fs::write(folder.join(self.scenario), scenario)).unwrap_or_else(|error| {
            panic!("{}: {error}", folder.display());
        });
        copy
    }
}

/// A file beside the library that has a function at this address; `None` where none has.
pub fn beside(address: usize, name: &str) -> Option<PathBuf> {
    let mut found = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: any address may be asked about, and the result is written to live memory.
    let known = unsafe { libc::dladdr(address as *const c_void, found.as_mut_ptr()) };
    // SAFETY: all bits of the struct are zero at least, which are null pointers.
    let found = unsafe { found.assume_init() };
    if known == 0 || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the path is not null, and lives as long as the library is loaded.
    let path = unsafe { CStr::from_ptr(found.dli_fname) };
    Some(Path::new(OsStr::from_bytes(path.to_bytes())).parent()?.join(name))
}

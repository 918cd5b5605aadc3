//! Builds with fake devices: the library of the tests in the folder that the environment names.

use std::path::{Path, PathBuf};

/// The file `kperf` in that folder, if it is there.
pub fn library() -> Option<PathBuf> {
    let folder = std::env::var_os("CYCLOMETER_FAKE_DEVICES")?;
    Some(Path::new(&folder).join("kperf")).filter(|file| file.exists())
}

/// The same library, which has functions of the system, too.
pub(super) fn system_library(library: &Path) -> PathBuf {
    library.to_owned()
}

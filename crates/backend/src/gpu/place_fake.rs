//! Builds with fake devices: the library of the tests in the folder that the environment names.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// As short as the time for any other answer: the library of the tests has nothing to wake.
pub(super) const OPEN_LIMIT: Duration = super::reader::ANSWER_LIMIT;

/// The library of the tests looks at the processes of their own namespace.
pub(super) fn sees_ids_of_host() -> bool {
    true
}

/// The file `nvml` in that folder, whether it exists or not; without the variable that of the system.
pub fn library() -> PathBuf {
    match std::env::var_os("CYCLOMETER_FAKE_DEVICES") {
        Some(folder) => Path::new(&folder).join("nvml"),
        None => PathBuf::from(cyclometer_sys::nvml::LIBRARY),
    }
}

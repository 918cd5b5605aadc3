//! The accounts of counters in builds with fake devices: those of a library that behaves as macOS does.

use std::sync::Arc;

use cyclometer_sys::counter_accounts::{AccountFunctions, CounterAccounts, of_system};
use cyclometer_sys::macos::Library;

use crate::kperf;

/// From the library in the folder that the environment names; without that variable or file the system's.
///
/// # Panics
///
/// On a library that cannot be opened: a test must not take the host for the machine that it made up.
pub(crate) fn here() -> Option<Arc<dyn CounterAccounts>> {
    let functions = match kperf::library() {
        Some(file) => {
            let library = Library::open(&file).unwrap_or_else(|error| panic!("{error}"));
            AccountFunctions::of_library(&library)
        }
        None => of_system(),
    };
    functions.map(|functions| Arc::new(functions) as Arc<dyn CounterAccounts>)
}

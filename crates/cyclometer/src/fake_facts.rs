//! Where the facts come from in builds with fake devices: from a recording beside those, if there are any.

use std::path::Path;

use cyclometer_detect::{FactSource, HostFacts, RecordedFacts};

/// From the file `machine` in the folder that the environment names; without that variable or file from the
/// host.
///
/// # Panics
///
/// On a recording that cannot be read: a test must not take the host for the machine that it made up.
pub(super) fn here() -> Box<dyn FactSource> {
    let Some(folder) = std::env::var_os("CYCLOMETER_FAKE_DEVICES") else { return Box::new(HostFacts) };
    let file = Path::new(&folder).join("machine");
    if !file.exists() {
        return Box::new(HostFacts);
    }
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let facts = RecordedFacts::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    Box::new(facts)
}

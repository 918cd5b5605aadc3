//! Every source of this system.

use cyclometer_core::Source;
use cyclometer_sys::user_read::Serialisation;

use crate::os::OsSource;

/// The sources of this build, best first. Detection finds out whether they work here.
pub fn sources() -> Vec<Box<dyn Source>> {
    vec![Box::new(OsSource::new())]
}

/// The sources for regions of the calling thread. Here no source reads counters in user space.
pub fn region_sources(_: Result<Serialisation, String>) -> Vec<Box<dyn Source>> {
    sources()
}

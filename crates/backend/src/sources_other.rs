//! Every source of this system.

use cyclometer_core::Source;
use cyclometer_sys::user_read::Serialisation;

use crate::os::OsSource;
use crate::selfcounts;

/// The sources of this build, best first. Detection finds out whether they work here.
pub fn sources() -> Vec<Box<dyn Source>> {
    let mut sources: Vec<Box<dyn Source>> = Vec::new();
    sources.extend(selfcounts::source());
    sources.push(Box::new(OsSource::new()));
    sources
}

/// The sources for regions of the calling thread. Here no source reads counters in user space.
pub fn region_sources(_: Result<Serialisation, String>) -> Vec<Box<dyn Source>> {
    sources()
}

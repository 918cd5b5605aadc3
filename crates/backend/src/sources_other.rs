//! Every source of this system.

use cyclometer_core::Source;
use cyclometer_sys::user_read::Serialisation;

use crate::os::OsSource;

/// The sources that this build has, best first. Whether they work here is for detection to say.
pub fn sources() -> Vec<Box<dyn Source>> {
    vec![Box::new(OsSource::new())]
}

/// The sources for regions of the calling thread; none of them reads counters in user space here.
pub fn region_sources(_: Result<Serialisation, String>) -> Vec<Box<dyn Source>> {
    sources()
}

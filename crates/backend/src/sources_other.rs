//! Every source of this system.

use cyclometer_core::Source;

use crate::os::OsSource;

/// The sources that this build has, best first. Whether they work here is for detection to say.
pub fn sources() -> Vec<Box<dyn Source>> {
    vec![Box::new(OsSource::new())]
}

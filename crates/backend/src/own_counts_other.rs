//! Systems whose programs no software PMU runs.

use cyclometer_core::Source;

/// The software PMU that runs this process; always `None` here.
pub(crate) fn source() -> Option<Box<dyn Source>> {
    None
}

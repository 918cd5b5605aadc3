//! Where the facts about the machine come from that this runs on.

use cyclometer_detect::{FactSource, HostFacts};

/// From the host itself.
pub(super) fn here() -> Box<dyn FactSource> {
    Box::new(HostFacts)
}

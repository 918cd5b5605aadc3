//! Marks behind values, which show their sources.

use cyclometer_toolkit::core::{Provenance, Verdict};
use cyclometer_toolkit::stats::LineSummary;

/// The source of a value, as far as its mark shows it.
pub fn marked(line: &LineSummary) -> Option<Provenance> {
    line.provenance.filter(|who| line.statistics.mean.is_some() && holds(*who, line.verdict))
}

/// The mark of the software PMU says that a count is exact, so a partial count has none.
pub fn holds(provenance: Provenance, verdict: Verdict) -> bool {
    (provenance, verdict) != (Provenance::Counted, Verdict::Partial)
}

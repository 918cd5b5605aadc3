//! The count of an event that shared counters in rotation.

use cyclometer_core::{Count, Interval, MissingReason, NoInterval, PartReason};

use super::combine::{Span, combine, without};
use super::instance::{Instance, InstanceState, clamp, scaled};

/// The observations of an event that shared counters in rotation.
pub(crate) enum Observed {
    /// No observation, for this reason.
    Nothing(MissingReason),
    /// No complete slice: other users held its counter in part of each.
    Scaled { time_enabled_ns: u64, time_running_ns: u64 },
    /// Every slice in which anything ran: no other rotation group was active.
    All,
    /// Some slices, from which the total was estimated.
    Estimated { total: u64, interval: Interval, time_enabled_ns: u64, time_running_ns: u64 },
}

/// The count of an event that shared counters in rotation. Lost instances make it partial, as without
/// rotation.
pub(super) fn combine_rotated(
    instances: &[Instance],
    span: Span,
    observed: impl FnOnce() -> Observed,
) -> Count {
    let lost = |instance: &&Instance| matches!(instance.state, InstanceState::Lost(_));
    if instances.is_empty() || instances.iter().all(|instance| lost(&instance)) {
        return combine(instances, span);
    }
    let raw = clamp(instances.iter().filter(|instance| !lost(instance)).map(|i| i.raw).sum());
    let count = match observed() {
        Observed::Nothing(reason) => return Count::NotCounted { reason },
        Observed::All => return combine(instances, span),
        Observed::Scaled { time_enabled_ns, time_running_ns } => Count::Scaled {
            raw,
            estimate: scaled(raw.into(), time_enabled_ns, time_running_ns),
            time_enabled_ns,
            time_running_ns,
            interval: Interval::Unknown { reason: NoInterval::SharedSlices },
        },
        Observed::Estimated { total, interval, time_enabled_ns, time_running_ns } => {
            Count::Scaled { raw, estimate: total.max(raw), time_enabled_ns, time_running_ns, interval }
        }
    };
    let missing: Vec<&Instance> = instances.iter().filter(|i| i.missing().is_some()).collect();
    let is_whole = missing.is_empty();
    let parts = || PartReason::all([without(&missing)].into_iter().chain(count.part()));
    match (count.value(), parts()) {
        (Some(raw), Some(part)) if !is_whole => Count::Partial { raw, part },
        _ => count,
    }
}

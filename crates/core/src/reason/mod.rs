//! Reasons: why an event has no source, a source refuses an event, a count has no number, a number is not
//! everything, an estimate has no interval.
//!
//! A reason is data with one wording, its `Display`. Decisions look at the data, never at the words. The
//! variants `Reported` have the words of others: of the kernel, of a driver, of the tracer, of a recording.

mod interval;
mod lack;
mod missing;
mod part;
mod refused;

pub use interval::NoInterval;
pub use lack::{CoreLack, LackReason, PmuLack};
pub use missing::{DeviceLoss, MissingReason};
pub use part::{CONFIDENCE, InstanceReason, MissingInstance, ObservedTime, PartReason};
pub use refused::{
    AccountRefusal, EventFamily, EventPmus, GpuObstacle, KperfObstacle, KperfRefusal, LockedPages,
    PerfAnswer, PerfRefusal, RefusalReason, RegisterRefusal, SamplingPermit, SoftwareRefusal,
};

/// The displays of several values, with a separator between them.
fn joined<T: std::fmt::Display>(all: &[T], separator: &str) -> String {
    all.iter().map(T::to_string).collect::<Vec<_>>().join(separator)
}

//! From raw readings to values that say what they mean.
//!
//! [`settle()`] turns the cells of one event into a [`Count`](cyclometer_core::Count), and [`difference()`]
//! subtracts one reading from another. [`summarise`] turns a whole report into a [`Summary`]: statistics over
//! runs, hybrid parts and derived metrics. [`compare`] finds the differences between two summaries. A
//! [`Rotation`] estimates the totals of events that shared counters in rotation. [`phases`] divides a
//! recording into the parts in which a program does the same work, by its [`window_rates`]. All functions are
//! pure; none reads a clock.
#![forbid(unsafe_code)]

pub mod compare;
mod derived;
mod difference;
mod failures;
pub mod formula;
mod label;
mod line_summary;
pub mod miss_rates;
pub mod phases;
mod request;
mod rotated_slices;
pub mod rotation;
mod settle;
mod statistics;
mod summary;
#[cfg(test)]
mod testing;
mod times;
pub mod window_rates;

pub use derived::{DerivedSummary, DerivedValue, partners};
pub use difference::{difference, latest, settle_interval};
pub use failures::{Failures, RunFailure};
pub use label::{effective_modes, label};
pub use line_summary::{Determinism, LineSummary, MeanInterval, PartSummary, RunValue};
pub use request::{Environment, MetricRequest};
pub use rotated_slices::settle_slices;
pub use rotation::{Rotation, TotalEstimate};
pub use settle::{PartCount, by_part, settle};
pub use statistics::Statistics;
pub use summary::{DroppedRun, Summary, asked_scope, summarise, summarise_as, summarise_with};

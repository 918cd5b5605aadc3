//! Counts loops of known length, and shows which events count correctly.
//!
//! [`Truth`] says what is known of an event by its name, [`examine`] has an [`EventMeter`] count work and
//! judges what it says: exact, too high by a documented little, plausible, wrong, or not countable. A
//! [`ThreadMeter`] counts the calling thread with any [`Source`](cyclometer_core::Source).
#![forbid(unsafe_code)]

mod bounds;
mod examine;
mod finding;
mod judge;
mod meter;
mod thread;
mod together;
mod truth;

#[cfg(test)]
mod testing;

pub use cyclometer_kernels::{Kernel, KernelMemory, KernelQuantity, Rounds};
pub use examine::examine;
pub use finding::{EventVerdict, Finding, Measurement};
pub use judge::{ROUNDS, Repetitions};
pub use meter::{EventMeter, MeterSample, MeteredWork, RecordedCounts, run_kernel};
pub use thread::ThreadMeter;
pub use together::together;
pub use truth::Truth;

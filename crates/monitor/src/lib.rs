//! Counts regions of the program that contains this library. It opens a plan's counters in each thread, reads
//! them where regions begin and end, adds up, and measures the cost of reading.
//!
//! Counters run from the first region of a thread on, and are never stopped. A region is the difference of
//! two reads, so that regions nest and cost two reads each. Sources report what they read, and
//! [`settle`](cyclometer_stats::settle) judges it. A source's refusal while a monitor is built is answered by
//! `plan`, as in a session; each answer is one of the [`LadderStep`]s. A later refusal in a thread is
//! reported in that thread's counts.
#![forbid(unsafe_code)]

mod begun;
mod cost;
mod counter;
mod here;
mod ladder;
mod monitor;
mod opening;
mod region;
mod report;
mod sampling;
mod shared;
mod standing;
mod thread;
mod totals;
mod windows;

pub use begun::BegunRegion;
pub use cost::{Bias, Cost, Quantiles};
pub use counter::Counter;
pub use ladder::{LadderStep, StepOutcome};
pub use monitor::{Monitor, Setup};
pub use opening::SourceMaker;
pub use region::Region;
pub use report::{Measured, Net, ThreadName, Value};
pub use sampling::{Estimate, Sample, Samples, Sampling};
pub use standing::{CounterTimes, StandingCounters, StandingSetup, StandingValue};
pub use windows::ShortWindows;

//! The pure core of the software PMU.
//!
//! - [`event`]: the vocabulary, with the convention of each event.
//! - [`classify`]: one instruction to its static counts and to what must be counted at run time ([`addend`]).
//! - [`block`]: a straight run of instructions, how it ends, and what cannot be followed.
//! - [`flow`]: counters by maximum spanning tree, with redundant ones as a check, in a graph that grows.
//! - [`totals`]: executions × vectors, in 64 bits that never wrap.
#![forbid(unsafe_code)]

pub mod addend;
pub mod block;
mod classify;
pub mod event;
mod floating;
pub mod flow;
mod memory;
mod simd;
pub mod totals;
mod vector;

pub use addend::Addend;
pub use classify::{Class, classify};
pub use event::Event;
pub use totals::Totals;
pub use vector::{Tally, Vector};

/// The decoder whose types [`classify`] and [`addend::Mask`] use.
pub use iced_x86;

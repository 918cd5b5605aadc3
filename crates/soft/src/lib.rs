//! The pure core of the software PMU.
//!
//! - [`flow`]: counters by maximum spanning tree, with redundant ones as a check, in a graph that grows.
#![forbid(unsafe_code)]

pub mod flow;

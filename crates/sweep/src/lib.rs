//! Sweeps: counts unknown events on every counter while kernels of known work run.
//!
//! ```text
//! recipes ──kernel_table──> KernelTable ─────────────┐
//!    │                                               ├──> inference
//!    └── run on a SweepTarget, each code on all ──> EventObservations
//! ```
//!
//! Each code is first counted once in every kernel. One that no kernel moves is dead, and is not counted any
//! further. The others are counted at four sizes, several times each, in random order: a machine that becomes
//! slower or hotter cannot imitate an effect.
//!
//! [`SimulatedTarget`] is a chip of the crate `sim`, on which a kernel is a loop that has the concepts of its
//! recipe. No other target is built yet.
#![forbid(unsafe_code)]

mod recipes;
mod simulated;
mod sweeping;

pub use recipes::{SweepKernel, kernel_table, kernels_for};
pub use simulated::SimulatedTarget;
pub use sweeping::{SweepError, SweepProgress, SweepSettings, SweepTarget, sweep};

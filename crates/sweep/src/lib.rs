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
//! recipe. The façade has a target for the counters of the machine that it runs on. Where that has a counter
//! of instructions beside those under test (a *witness*), a code that changes the witness is excluded.
//!
//! A sweep can be interrupted: [`JournalWriter`] makes a line of each code that is done, and
//! [`SweepJournal`] reads them. The order of the counts of a code depends on the seed and the code only.
#![forbid(unsafe_code)]

mod journal;
mod recipes;
mod simulated;
mod sweeping;
mod swept;
mod target;
mod threshold;
mod witness;

pub use journal::{JournalError, JournalHeader, JournalWriter, SweepJournal, text_digest};
pub use recipes::{SweepKernel, kernel_table, kernels_for};
pub use simulated::SimulatedTarget;
pub use sweeping::{SweepError, SweepObserver, SweepProgress, SweepRun, sweep};
pub use swept::{Exclusion, SweptCode, SweptOutcome};
pub use target::{CodePlacement, SweepCounts, SweepSettings, SweepTarget};
pub use threshold::{ThresholdCode, ThresholdPair, threshold_sweep};

//! What does an event count? From counts of kernels whose work is known to a verdict.
//!
//! A [`KernelTable`] says what each kernel does in one iteration: loads, branches, misses. A sweep counts an
//! unknown event while kernels run, each at several sizes. [`Inference::judge`] turns those counts into a
//! [`Judgement`]: the slopes, the constraint mask, and one of five verdicts.
//!
//! | verdict | | |
//! |---|---|---|
//! | A | [`Identified`](Identification::Identified) | one sum of concepts explains every kernel |
//! | B | [`Ambiguous`](Identification::Ambiguous) | several sums do, or one that is not certain |
//! | C | [`Unexplained`](Identification::Unexplained) | kernels move the event, no sum explains it |
//! | D | [`Irregular`](Identification::Irregular) | it is cycle-like, not linear, or too noisy |
//! | E | [`NoSignal`](Identification::NoSignal) | no kernel moves it |
//!
//! ```
//! use cyclometer_core::{Concept, CounterId};
//! use cyclometer_inference::*;
//!
//! let kernel = |name: &str, role, loads, misses| TableKernel {
//!     name: name.into(),
//!     family: "memory".into(),
//!     role,
//!     per_iteration: vec![(Concept::Loads, loads), (Concept::L1dLoadMisses, misses)],
//!     estimates: vec![],
//! };
//! let table = KernelTable::new(vec![
//!     kernel("nops", KernelRole::Fitting, 0.0, 0.0),
//!     kernel("hits", KernelRole::Fitting, 2.0, 0.0),
//!     kernel("more hits", KernelRole::Fitting, 4.0, 0.0),
//!     kernel("misses", KernelRole::Fitting, 1.0, 1.0),
//!     kernel("more misses", KernelRole::Fitting, 2.0, 2.0),
//!     kernel("mixture", KernelRole::HeldOut, 3.0, 1.0),
//! ])?;
//!
//! // An event that counts loads, on counters 0 and 1 of three; 40 of them are in the set-up.
//! let counts = |counter: u8, loads: f64| {
//!     let live = if counter < 2 { 1 } else { 0 };
//!     [1001, 2002, 4004, 8008].map(|n| (n, live * (40 + n * loads as u64)))
//! };
//! let counters = (0..3).map(|counter| CounterObservations {
//!     counter: Some(CounterId::General(counter)),
//!     observations: (0..6)
//!         .flat_map(|k| {
//!             let loads = [0.0, 2.0, 4.0, 1.0, 2.0, 3.0][k];
//!             counts(counter, loads).map(|(iterations, count)| Observation {
//!                 kernel: KernelIndex(k),
//!                 iterations,
//!                 counts: vec![count; 3],
//!                 interrupts: vec![],
//!             })
//!         })
//!         .collect(),
//! });
//! let event = EventObservations { event: "0x95".into(), counters: counters.collect() };
//! let judgement = Inference::new(&table).judge(&event)?;
//!
//! let Identification::Identified(hypothesis) = &judgement.verdict else { panic!("{judgement:?}") };
//! assert_eq!(hypothesis.sum.to_string(), "loads");
//! assert_eq!(judgement.mask.belongs.to_string(), "0-1");
//! assert_eq!(judgement.stability, Stability::Deterministic);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Identifiability`] says before any measurement which concepts a table can tell apart, [`relations`] which
//! events are equal to or sums of others, [`shuffled_labels`] and [`leave_one_family_out`] how often A may be
//! wrong. [`Inference::check_claim`] compares a judgement with what the event is said to count.
//! [`ThresholdRule`] is the method of a published framework, for comparison.
//!
//! Everything is pure: no files, no clock, and random numbers only from a seed that the caller gives.
//! The method, its reasons and what it cannot tell: `docs/internals/inference.md`.
#![forbid(unsafe_code)]

mod claim;
mod controls;
mod cover;
mod doubts;
mod hypothesis;
mod identifiability;
mod inference;
mod large_sum;
mod mask;
mod observation;
mod relations;
mod search;
mod signature;
mod slope;
mod sum;
mod table;
mod threshold;
mod verdict;

pub use claim::{ClaimDoubt, ClaimFinding, ClaimRefutation, ClaimedCount};
pub use controls::{
    FamilyCheck, FamilyOutcome, ShuffledLabels, error_bound_95, leave_one_family_out, shuffled_labels,
};
pub use hypothesis::{Hypothesis, MICRO_ARCHITECTURAL_TOLERANCE};
pub use identifiability::{CollinearPair, Identifiability};
pub use inference::Inference;
pub use mask::MaskFinding;
pub use observation::{CounterObservations, EventObservations, Observation, ObservationError};
pub use relations::{Relation, relations};
pub use signature::{EventSignature, Linearity, Stability};
pub use slope::{KernelSlope, SlopeShape};
pub use sum::{ConceptSum, TermWeight};
pub use table::{KernelIndex, KernelRole, KernelTable, KernelTableError, TableKernel};
pub use threshold::{ThresholdAnswer, ThresholdCounts, ThresholdRule};
pub use verdict::{Ambiguity, Doubt, Identification, Irregularity, Judgement, Response, Split};

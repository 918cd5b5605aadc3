//! Verdicts.
#![forbid(unsafe_code)]

mod cover;
mod doubts;
mod hypothesis;
mod inference;
mod large_sum;
mod mask;
mod observation;
mod search;
mod signature;
mod slope;
mod sum;
mod table;
mod verdict;

pub use hypothesis::{Hypothesis, MICRO_ARCHITECTURAL_TOLERANCE};
pub use inference::Inference;
pub use mask::MaskFinding;
pub use observation::{CounterObservations, EventObservations, Observation, ObservationError};
pub use signature::{EventSignature, Linearity, Stability};
pub use slope::{KernelSlope, SlopeShape};
pub use sum::{ConceptSum, Weight};
pub use table::{KernelIndex, KernelRole, KernelTable, KernelTableError, TableKernel};
pub use verdict::{Ambiguity, Doubt, Identification, Irregularity, Judgement, Response, Split};

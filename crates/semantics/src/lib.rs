//! Tables of the meaning of events: the concepts that each event of a chip counts.
//!
//! [`Semantics`] is a table: an [`EventSemantics`] for each event code, with the counters that count it and
//! its [`Meaning`], a weighted sum of [`Concept`](cyclometer_core::Concept)s under a [`CountingRule`].
//! Simulated chips count by such tables, which come from a file ([`Semantics::parse`]), from a seed
//! ([`Semantics::generated`]) or from a model of a real chip. The counts that `reverse` explains are then
//! counts whose explanation is known; the crate that explains them may not depend on this one.
//!
//! ```
//! use cyclometer_core::{Concept, CounterId};
//! use cyclometer_semantics::{Activity, ActivityProgress, Semantics};
//!
//! let file = b"cyclometer-semantics 1\n0x9b counters=0x80 counts loads + 1/2 stores\n";
//! let semantics = Semantics::parse(file)?;
//! let meaning = semantics.meaning(0x9b, CounterId::General(7)).expect("counter 7 counts it");
//! let copy = Activity::of_iteration(2, &[(Concept::Loads, 1.0), (Concept::Stores, 1.0)]);
//! assert_eq!(meaning.counted(&ActivityProgress::default(), &copy, 2 * 1000), 1500);
//! assert!(semantics.meaning(0x9b, CounterId::General(6)).is_none());
//! # Ok::<(), cyclometer_semantics::SemanticsError>(())
//! ```
//!
//! Counts are whole numbers that do not depend on where a run is cut into pieces: see [`ActivityProgress`].
//! `docs/reference/semantics-format.md` describes the file.
#![forbid(unsafe_code)]

mod activity;
mod generated;
mod meaning;
mod table;
mod text;

pub use activity::{Activity, ActivityProgress};
pub use generated::SemanticsShape;
pub use meaning::{ConceptTerm, CountUnit, CountingRule, InterruptNoise, MOST_TERMS, Meaning, Weight};
pub use table::{EventSemantics, MAX_ROWS, Overlap, Semantics};
pub use text::{FIRST_LINE, MAX_BYTES, MAX_LINE, SemanticsError};

//! The types that every stage of cyclometer shares.
//!
//! A count travels in one direction, as plain values:
//!
//! ```text
//! detect ──> catalog ──> plan ──> session ──> stats ──> render
//! Machine    Event       Plan     Report      Summary   table, JSON, CSV, Markdown
//! ```
//!
//! This crate holds those values and the execution interface ([`exec`]) between `session` and the sources. It
//! does no I/O, reads no clock, looks at no target and contains no unsafe code.
#![forbid(unsafe_code)]

pub mod cache_geometry;
pub mod code;
pub mod code_memory;
pub mod concept;
pub mod count;
pub mod counter;
pub mod cpuset;
pub mod energy;
pub mod error;
pub mod event;
pub mod exec;
pub mod gauge;
pub mod gpu;
pub mod ladder;
pub mod machine;
pub mod modes;
pub mod nvml;
pub mod plan;
pub mod pmu;
pub mod random;
pub mod reason;
pub mod refusal;
pub mod report;
pub mod scope;
pub mod skipped;
pub mod slot;
pub mod slot_id;
pub mod syntax;
pub mod tlb_geometry;
pub mod window;

pub use concept::Concept;
pub use count::{Count, Interval, Provenance, Verdict};
pub use counter::{CounterId, CounterMask, CounterWidth};
pub use cpuset::CpuSet;
pub use error::{Error, ErrorKind, Recovery, Result};
pub use event::{Candidate, Event, EventCode, Part, Unit};
pub use exec::{Child, Counting, CpuBaseline, Launch, LaunchKind, Layout, Source, Target};
pub use ladder::{Ladder, Rung};
pub use machine::Machine;
pub use modes::{Modes, Modifiers};
pub use plan::{Counted, Intent, Pass, Plan, PlanLine};
pub use random::Random;
pub use reason::{LackReason, MissingReason, NoInterval, PartReason};
pub use refusal::{Refusal, RefusalKind};
pub use report::Report;
pub use scope::Scope;
pub use slot::Slot;
pub use slot_id::SlotId;

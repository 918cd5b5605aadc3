//! The software PMU: runs an unmodified program in translated code, and counts its executions exactly.
//!
//! The program's own instructions are copied, with counters between them. The count of every event follows
//! from the executions of each block and edge. All modules but `host` are pure: plain bytes and numbers.
//!
//! ```text
//! bytes ──translate──> code with counters ──host: run──> counters ──flow──> Solution ──totals──> counts
//!            │ block, classify: event counts and addends of each instruction              │
//!            └────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! - [`event`]: the events, with the convention of each.
//! - [`classify`]: the static counts of one instruction, and its run-time counts ([`addend`]).
//! - [`block`]: basic blocks, their ends, and the instructions that cannot be followed.
//! - [`flow`]: counters by maximum spanning tree, with redundant ones as a check, in a graph that grows.
//! - [`translate`]: translated blocks, links between them, and the program point of each translated
//!   instruction.
//! - [`totals`]: executions × vectors, in 64 bits that never wrap.
//! - [`model`]: caches, a branch predictor and line sharing, for programs that are executed step by step.
//! - `host` (Linux, x86-64): a tracer process for the command and its descendants.
//!
//! # Conventions
//!
//! - Counts are of user mode, and of instructions that *retire*. An instruction that faults counts when it
//!   completes.
//! - A repeated string instruction is one instruction; its loads, stores and bytes are those of its
//!   iterations.
//! - Loads and stores are memory operands, the implicit ones of the stack included. A gather is one load.
//!   They are not a cache's accesses, nor a vendor's event of that name.
//! - A mask selects bytes on every store, on gathers, expands and loads that only move. Everywhere else a
//!   mask changes neither bytes nor floating-point operations.
//! - Basic blocks are runs that end with a branch as executed, so that they do not depend on the translator.
//! - An event whose run-time part was not counted has no total.
//!
//! # Example
//!
//! A loop that copies eight bytes each time, executed a hundred times:
//!
//! ```
//! use cyclometer_soft::block::{BlockDecoder, CodeBytes, BlockLimits, Terminator};
//! use cyclometer_soft::flow::{FlowGraph, FlowPoint, Redundancy};
//! use cyclometer_soft::addend::AddendKind;
//! use cyclometer_soft::{ExecutionEvent, EventTotals};
//!
//! // mov rax, [rsi]; mov [rdi], rax; loop back
//! let bytes = [0x48, 0x8b, 0x06, 0x48, 0x89, 0x07, 0xe2, 0xf8];
//! let code = CodeBytes { address: 0x1000, bytes: &bytes };
//! let block = BlockDecoder::new().decode(code, BlockLimits::page(0x1000));
//! assert_eq!(block.terminator, Terminator::Conditional { taken: 0x1000, not_taken: 0x1008 });
//!
//! let mut flow = FlowGraph::new(Redundancy::PerEpoch(1));
//! let body = flow.block(100);
//! let enter = flow.observed(FlowPoint::Outside, FlowPoint::Entry(body));
//! let back = flow.edge(FlowPoint::Exit(body), FlowPoint::Entry(body), 99);
//! let leave = flow.edge(FlowPoint::Exit(body), FlowPoint::Outside, 1);
//! flow.close_epoch();
//!
//! // The counters after a run.
//! let counted = |arc| if arc == back { 99 } else { 1 };
//! let values: Vec<u64> = flow.counters().iter().map(|counter| counted(counter.arc)).collect();
//! let solution = flow.solve(&values)?;
//!
//! let mut totals = EventTotals::new();
//! totals.add_block(&block, solution.block(body))?;
//! totals.add_directions(solution.arc(back), solution.arc(leave))?;
//! totals.settle(AddendKind::Direction);
//! assert_eq!(solution.arc(enter), 1);
//! assert_eq!(totals.total(ExecutionEvent::Instructions)?, 300);
//! assert_eq!(totals.total(ExecutionEvent::BytesStored)?, 800);
//! assert_eq!(totals.total(ExecutionEvent::ConditionalTaken)?, 99);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

#[cfg(feature = "translator")]
pub mod addend;
#[cfg(feature = "translator")]
pub mod baseline;
#[cfg(feature = "translator")]
pub mod block;
#[cfg(feature = "translator")]
pub mod call_paths;
#[cfg(feature = "translator")]
mod chunks;
#[cfg(feature = "translator")]
mod classify;
#[cfg(feature = "translator")]
pub mod code_profile;
pub mod event;
#[cfg(feature = "translator")]
mod floating;
#[cfg(feature = "translator")]
pub mod flow;
#[cfg(feature = "translator")]
mod hash;
#[cfg(all(feature = "translator", target_os = "linux", target_arch = "x86_64"))]
pub mod host;
#[cfg(feature = "translator")]
mod memory;
#[cfg(feature = "translator")]
pub mod model;
#[cfg(feature = "translator")]
mod pack;
#[cfg(feature = "translator")]
pub mod profile;
#[cfg(feature = "translator")]
mod recent_values;
#[cfg(feature = "translator")]
mod simd;
#[cfg(feature = "translator")]
pub mod totals;
#[cfg(feature = "translator")]
pub mod translate;
#[cfg(feature = "translator")]
mod vector;

#[cfg(feature = "translator")]
pub use addend::Addend;
#[cfg(feature = "translator")]
pub use baseline::ProcessorBaseline;
#[cfg(feature = "translator")]
pub use classify::{InstructionCounts, classify};
pub use event::{EventSet, ExecutionEvent};
#[cfg(feature = "translator")]
pub use totals::EventTotals;
#[cfg(feature = "translator")]
pub use vector::{EventTally, EventVector};

#[cfg(feature = "translator")]
/// The decoder whose types [`classify`] and [`addend::ElementMask`] use.
pub use iced_x86;

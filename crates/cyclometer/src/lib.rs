//! Counts what a program does on a CPU, and says how far each number can be trusted.
//!
//! This is the façade, and the only API that is meant to stay stable. It chains the stages (detect,
//! catalogue, plan, session, statistics) and contains no logic of its own.
//!
//! # Where to start
//!
//! | to count | take |
//! |---|---|
//! | a part of your own program | [`Monitor`], [`Region`] |
//! | how it changes in time | [`MonitorBuilder::sampling_rate`], [`Monitor::samples`] |
//! | parts of a program, from outside: `cyclometer stat -m` | [`marker`] |
//! | another program, once or many times | [`Command`], or [`Stat`] for all of its options |
//! | machines, control groups and processes for as long as they exist | [`StandingEvents`] |
//! | a simulated chip | [`Simulated`] |
//!
//! A part of a program:
//!
//! ```
//! use cyclometer::Monitor;
//!
//! # fn main() -> cyclometer::Result<()> {
//! let monitor = Monitor::builder().event("instructions,cycles,task-clock").build()?;
//! for job in 0..3 {
//!     let _region = monitor.region("job");
//!     std::hint::black_box((0..10_000 * job).sum::<u64>());
//! }
//! let jobs = monitor.total("job").expect("there were jobs");
//! match jobs.ratio("instructions", "cycles") {
//!     Some(ipc) => println!("{ipc:.2} instructions a cycle"),
//!     // Without a PMU: each value says why it has no number, and the ladder what was tried.
//!     None => println!("{jobs}{:#?}", monitor.ladder()),
//! }
//! # assert_eq!(jobs.calls, 3);
//! # Ok(())
//! # }
//! ```
//!
//! Every value is a [`Count`]: a number with its quality, or the reason why there is none. No function panics
//! where there is no PMU, and none gives a zero for an event that was not counted. Threads, forks, costs,
//! configuration: the project's page `docs/guides/sdk.md`.
//!
//! A program that is run:
//!
//! ```
//! use cyclometer::{CommandSpec, Launcher, Quiet, Stat, machine};
//!
//! # fn main() -> cyclometer::Result<()> {
//! // First thing in `main`: the helper that starts commands must be small.
//! let launcher = Launcher::start()?;
//! let report = Stat::new(machine())
//!     .command(CommandSpec::new("true"))
//!     .events("wall_time,page-faults,instructions")?
//!     .runs(3)
//!     .run(&launcher, &mut Quiet)?;
//! for line in cyclometer::stats::summarise(&report).lines {
//!     match line.statistics.mean {
//!         Some(mean) => println!("{}: {mean} {}", line.name, line.unit.symbol()),
//!         None => println!("{}: {}", line.name, line.reason.unwrap_or_default()),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod chips;
#[cfg(feature = "reverse")]
pub mod claims;
mod command;
pub mod compare;
pub mod config;
mod host;
mod kperf_source;
mod marked;
mod metric;
mod monitor;
pub mod placement;
mod record;
#[cfg(feature = "reverse")]
pub mod reverse;
pub mod selftest;
pub mod simulated;
mod standing;
mod stat;
mod tables;

pub use command::Command;
pub use config::Config;
pub use cyclometer_arch as arch;
pub use cyclometer_backend::Serialisation;
#[cfg(unix)]
pub use cyclometer_backend::code_is_unchanged;
#[cfg(unix)]
pub use cyclometer_backend::counted_cgroup_root;
pub use cyclometer_backend::registers;
pub use cyclometer_backend::registers::{LeftRegisters, LeftState, Restoration, Restored};
pub use cyclometer_backend::{Attached, Launcher, StandardInput, check_program, standard_output_is_null};
pub use cyclometer_catalog as catalogue;
pub use cyclometer_catalog::among::{decode_in, table_for};
pub use cyclometer_catalog::{Listing, ListingKind};
pub use cyclometer_core as core;
pub use cyclometer_core::exec::ReadWay;
pub use cyclometer_core::exec::{CommandSpec, ExitStatus, InputStream, OutputStream};
pub use cyclometer_core::plan::Multiplex;
pub use cyclometer_core::{
    Count, Counted, CpuSet, Error, ErrorKind, Ladder, Machine, Modes, Plan, Provenance, Recovery, Report,
    Result, Rung, Scope, Target, Unit, Verdict,
};
#[cfg(feature = "reverse")]
pub use cyclometer_inference as inference;
pub use cyclometer_marker as marker;
pub use cyclometer_monitor::{
    BegunRegion, Bias, Cost, Counter, CounterTimes, Estimate, LadderStep, Measured, Net, Quantiles, Region,
    Sample, Samples, ShortWindows, StandingCounters, StandingValue, StepOutcome, ThreadName, Value,
};
pub use cyclometer_recording as recording;
pub use cyclometer_semantics as semantics;
pub use cyclometer_session::compare as interleaved;
pub use cyclometer_session::{Moment, Observer, Quiet};
pub use cyclometer_sim as sim;
pub use cyclometer_stats as stats;
pub use cyclometer_stats::asked_scope;
#[cfg(feature = "reverse")]
pub use cyclometer_sweep as sweep;
#[cfg(feature = "symbols")]
pub use cyclometer_symbols as symbols;
pub use cyclometer_sys::descriptor::inherited_for_writing as inherited_output;
pub use cyclometer_sys::invoker::with_rights as with_invoker_rights;
pub use cyclometer_sys::process::{raise_open_files, with_stack};
pub use cyclometer_sys::signals::{FileSizeSignalIgnored, Watch as SignalWatch};
pub use host::{
    count_vendor_events, diagnosed_machine, diagnosed_machine_with_gpus, left_registers, list_events,
    list_events_in, list_vendor_events, machine, machine_for_regions, record_machine, replay_machine,
    restore_registers,
};
pub use marked::{MarkedRegion, MarkedRegions, MarkedRun, MarkedThread};
pub use metric::{MetricListing, list_metrics, list_metrics_of};
pub use monitor::{CountedScope, Monitor, MonitorBuilder};
pub use record::{Leader, RecordRun, Recorded, RecordedColumn, RecordingSink};
pub use simulated::Simulated;
pub use standing::StandingEvents;
pub use stat::Stat;
pub use tables::EventTables;

/// The events that are counted by default, as an event list.
pub use cyclometer_catalog::DEFAULT_EVENTS;

/// The README's examples, compiled and run with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The same with the page about marked regions.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/markers.md")]
struct MarkersPage;

/// The same with the page about regions.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/sdk.md")]
struct SdkPage;

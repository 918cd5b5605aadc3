//! The stages chained: what the programs of this project and its bindings share.
//!
//! This crate is internal. It exports whole crates of the project, and its API changes in any release. Users
//! depend on the crate `cyclometer`, the façade, which exports the stable part of this one.
//!
//! | module | chains |
//! |---|---|
//! | [`Stat`], [`Command`] | machine, catalogue, plan and session to a report of one command or target |
//! | [`compare`] | the same for several commands in turn |
//! | [`Monitor`] | machine, catalogue, plan and monitor to regions of this program |
//! | [`StandingEvents`] | the same for targets that are counted for as long as they exist |
//! | [`RecordRun`] | a report with rows of windows |
//! | [`selftest`], `reverse` | kernels of known work, and what events count of them |
//!
//! A measurement of commands is wired once, in the module `wiring`: launchers, sources, the software PMU.
#![forbid(unsafe_code)]

#[cfg(all(feature = "advise", unix))]
pub mod advise;
mod built_sources;
mod chips;
#[cfg(feature = "reverse")]
pub mod claims;
mod command;
pub mod compare;
pub mod config;
mod host;
#[cfg(all(feature = "symbols", unix))]
mod host_code_files;
mod kperf_source;
mod marked;
mod metric;
#[cfg(all(feature = "advise", unix))]
pub mod modelled_misses;
mod monitor;
pub mod placement;
mod record;
#[cfg(feature = "reverse")]
pub mod reverse;
pub mod selftest;
#[cfg(feature = "simulated")]
pub mod simulated;
#[cfg(not(feature = "simulated"))]
#[path = "simulated_other.rs"]
mod simulated;
mod standing;
mod stat;
mod tables;
mod wiring;

pub use command::Command;
pub use config::Config;
pub use cyclometer_arch as arch;
pub use cyclometer_backend::Serialisation;
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
#[cfg(feature = "simulated")]
pub use cyclometer_semantics as semantics;
pub use cyclometer_session::compare as interleaved;
pub use cyclometer_session::{Moment, Observer, Quiet};
#[cfg(feature = "simulated")]
pub use cyclometer_sim as sim;
pub use cyclometer_stats as stats;
pub use cyclometer_stats::asked_scope;
#[cfg(feature = "reverse")]
pub use cyclometer_sweep as sweep;
#[cfg(feature = "symbols")]
pub use cyclometer_symbols as symbols;
pub use cyclometer_sys::descriptor::inherited_for_writing as inherited_output;
pub use cyclometer_sys::folder_changes::{FolderChange, FolderWatch, WatchedFolder};
pub use cyclometer_sys::invoker::with_rights as with_invoker_rights;
pub use cyclometer_sys::process::{raise_open_files, with_stack};
pub use cyclometer_sys::signals::{FileSizeSignalIgnored, Watch as SignalWatch};
pub use host::{
    count_vendor_events, diagnosed_machine, diagnosed_machine_with_gpus, left_registers, list_events,
    list_events_in, list_vendor_events, machine, machine_for_regions, record_machine, replay_machine,
    restore_registers,
};
#[cfg(all(feature = "symbols", unix))]
pub use host_code_files::HostCodeFiles;
pub use marked::{MarkedRegion, MarkedRegions, MarkedRun, MarkedThread};
pub use metric::{MetricListing, list_metrics, list_metrics_of};
pub use monitor::{CountedScope, Monitor, MonitorBuilder};
pub use record::{Leader, RecordRun, Recorded, RecordedColumn, RecordingSink, least_timer_period};
pub use simulated::Simulated;
pub use standing::StandingEvents;
pub use stat::Stat;
pub use tables::{EventTables, description as event_description};

/// The events that are counted by default, as an event list.
pub use cyclometer_catalog::DEFAULT_EVENTS;

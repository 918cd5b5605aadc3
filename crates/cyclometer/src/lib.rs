//! Counts what a program does on a CPU, and says how far each number can be trusted.
//!
//! # Where to start
//!
//! | task | types | example |
//! |---|---|---|
//! | count a part of this program | [`Monitor`], [`Region`] | [below](#a-part-of-a-program) |
//! | see how it changes in time | [`MonitorBuilder::sampling_rate`], [`Samples`] | [`MonitorBuilder::sampling_rate`] |
//! | configure it by a file or the environment | [`Config`], [`config`] | [`Config`] |
//! | mark regions for `cyclometer stat -m` | [`marker`] | [`marker`] |
//! | count another program | [`Command`]; [`Stat`] for all options | [`Command`], [below](#another-program) |
//! | count parts of it that it marks | [`Stat::run_marked`], [`MarkedRegions`] | [`marker`] |
//! | statistics of its runs | [`Summary`], [`summarise`] | [below](#another-program) |
//! | compare two programs | [`compare`] | [`compare::Compare`] |
//! | count a machine, control groups, processes for long | [`StandingEvents`] | [`StandingEvents`] |
//! | find out what can be counted here, and why not more | [`machine`], [`Ladder`], [`list_events`] | [`Ladder`] |
//! | judge a value | [`Count`], [`Verdict`], [`Provenance`], [`Scope`] | [`Count`] |
//! | handle an error | [`Error`], [`ErrorKind`], [`Recovery`] | [`Error`] |
//!
//! # A part of a program
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
//! # Another program
//!
//! ```
//! use cyclometer::{CommandSpec, Launcher, Quiet, Stat, machine, summarise};
//!
//! # fn main() -> cyclometer::Result<()> {
//! // First thing in `main`: the helper that starts commands must be small.
//! let launcher = Launcher::start()?;
//! let report = Stat::new(machine())
//!     .command(CommandSpec::new("true"))
//!     .events("wall_time,page-faults,instructions")?
//!     .runs(3)
//!     .run(&launcher, &mut Quiet)?;
//! for line in summarise(&report).lines {
//!     match line.statistics.mean {
//!         Some(mean) => println!("{}: {mean} {}", line.name, line.unit.symbol()),
//!         None => println!("{}: {}", line.name, line.reason.unwrap_or_default()),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! None is on by default, so that the crate is cheap to add.
//!
//! | feature | adds |
//! |---|---|
//! | `software-pmu` | commands under the software PMU: exact counts where there is no PMU (Linux on x86-64) |
//! | `registers` | counting by the PMU's registers, without the kernel's driver (`Rung::Msr`, `Rung::Sysreg`) |
//! | `simulated` | `Simulated`: chips to test with |
//! | `yaml` | [`Config::from_file`] |
//! | `unstable` | `cyclometer::unstable`: the internal crates, which change in any release |
//!
//! A source that a program is built without is listed in its [`Ladder`] as such. A program that runs under
//! the software PMU (`cyclometer run -- PROGRAM`) reads its counts with any features.
#![forbid(unsafe_code)]

/// Regions of this program. Example: [`Monitor`].
#[doc(inline)]
pub use cyclometer_toolkit::{
    BegunRegion, Bias, Cost, CountedScope, Counter, Estimate, LadderStep, Measured, Monitor, MonitorBuilder,
    Net, Quantiles, ReadWay, Region, Sample, Serialisation, ShortWindows, StepOutcome, ThreadName, Value,
};

/// Reads of all counters by a thread of the monitor.
///
/// ```
/// use cyclometer::{CountedScope, Monitor, SlotId};
///
/// # fn main() -> cyclometer::Result<()> {
/// let sampled = Monitor::builder().event("page-faults").scope(CountedScope::Process).sampling_rate(1000);
/// let monitor = sampled.build()?;
/// let samples = monitor.samples();
/// for (slot, line) in monitor.plan().lines.iter().enumerate() {
///     // A sample without a value of the event is `None`, not zero.
///     println!("{}: {:?}", line.event.name, samples.series(SlotId(slot)));
/// }
/// # Ok(())
/// # }
/// ```
#[doc(inline)]
pub use cyclometer_toolkit::Samples;

/// Settings of a monitor from a file and the environment.
///
/// ```
/// use cyclometer::{Config, Monitor};
///
/// # fn main() -> cyclometer::Result<()> {
/// // The variables of the environment, and the file that CYCLOMETER_CONFIG names.
/// let monitor = Monitor::builder().event("page-faults").config(Config::load(None)?).build()?;
/// # assert_eq!(monitor.read().values.len(), 1);
/// # Ok(())
/// # }
/// ```
#[doc(inline)]
pub use cyclometer_toolkit::Config;

/// Commands and other targets. Example: [`Command`].
#[doc(inline)]
pub use cyclometer_toolkit::{
    Command, CommandSpec, Counted, CpuSet, DEFAULT_EVENTS, EventTables, ExitStatus, InputStream, Launcher,
    MarkedRegion, MarkedRegions, MarkedRun, MarkedThread, Moment, Multiplex, Observer, OutputStream, Plan,
    Quiet, Report, Stat, Target,
};

/// Statistics of the runs of a command. Example: [the crate's second one](crate#another-program).
#[doc(inline)]
pub use cyclometer_toolkit::stats::{
    DerivedSummary, DerivedValue, Determinism, DroppedRun, Failures, LineSummary, MeanInterval,
    MetricRequest, PartSummary, RunFailure, RunValue, Statistics, Summary, asked_scope, summarise,
    summarise_as, summarise_with,
};

/// One value: a number with its quality, or the reason why there is none.
///
/// ```
/// use cyclometer::{Count, Monitor};
///
/// # fn main() -> cyclometer::Result<()> {
/// let monitor = Monitor::builder().event("cycles,page-faults").build()?;
/// for value in monitor.read().values {
///     match value.count {
///         Count::Exact(number) => println!("{}: {number}", value.name),
///         Count::Scaled { estimate, .. } => println!("{}: about {estimate}", value.name),
///         // Not counted, not supported, lost: no number, and never a zero.
///         _ => println!("{}: {}", value.name, value.reason().unwrap_or_default()),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[doc(inline)]
pub use cyclometer_toolkit::core::Count;

/// The quality of values. Example: [`Count`].
#[doc(inline)]
pub use cyclometer_toolkit::core::{
    Interval, MissingReason, Modes, NoInterval, PartReason, Provenance, Scope, SlotId, Unit, Verdict,
};

/// An error with its kind and its remedy.
///
/// ```
/// use cyclometer::{ErrorKind, Monitor};
///
/// let error = Monitor::builder().event("instrutcions").build().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::UnknownEvent);
/// println!("{error}\nhelp: {}", error.recovery());
/// ```
#[doc(inline)]
pub use cyclometer_toolkit::core::Error;

/// Errors. Example: [`Error`].
#[doc(inline)]
pub use cyclometer_toolkit::core::{ErrorKind, Recovery, Result};

/// The sources of counts of a machine, as `cyclometer doctor` shows them.
///
/// ```
/// use cyclometer::{diagnosed_machine, list_events};
///
/// let machine = diagnosed_machine();
/// for state in &machine.ladder.rungs {
///     println!("{}: {}", state.rung, state.works.word());
///     for cause in &state.causes {
///         println!("  {}", cause.text);
///     }
/// }
/// let listed = list_events(&machine);
/// # assert!(!listed.is_empty());
/// ```
#[doc(inline)]
pub use cyclometer_toolkit::core::Ladder;

/// This machine, its sources of counts and its events. Example: [`Ladder`].
#[doc(inline)]
pub use cyclometer_toolkit::core::{
    Machine, Rung,
    ladder::{Cause, CauseKind, RungState, Works},
    machine::{AccessRights, Architecture, Capabilities, CoreType, Os, Vendor},
};
/// Events and metrics of a machine. Example: [`Ladder`].
#[doc(inline)]
pub use cyclometer_toolkit::{
    Listing, ListingKind, MetricListing, count_vendor_events, diagnosed_machine, list_events, list_events_in,
    list_metrics, list_metrics_of, list_vendor_events, machine, machine_for_regions, record_machine,
    replay_machine,
};

/// Counters that stay open. Example: [`StandingEvents`].
#[doc(inline)]
pub use cyclometer_toolkit::{CounterTimes, StandingCounters, StandingEvents, StandingValue};

/// A simulated machine, to test with.
///
/// ```
/// use cyclometer::{CommandSpec, Launcher, Quiet, Simulated, Stat, summarise};
///
/// # fn main() -> cyclometer::Result<()> {
/// let launcher = Launcher::start()?;
/// let stat = Stat::simulated(Simulated::find("skylake")?).command(CommandSpec::new("loop"));
/// let summary = summarise(&stat.events("instructions")?.run(&launcher, &mut Quiet)?);
/// assert!(summary.lines[0].statistics.mean.is_some());
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "simulated")]
#[doc(inline)]
pub use cyclometer_toolkit::{Simulated, simulated::Misery};

/// Settings of monitors from files and the environment. Example: [`Config`].
pub mod config {
    /// Settings of monitors. Example: [`Config`].
    #[doc(inline)]
    pub use cyclometer_toolkit::config::{AppleConfig, CONFIG_KEYS, Config, ConfigKey, X86Config};
}

/// Marks regions of a program for `cyclometer stat -m`.
///
/// ```
/// use cyclometer::marker;
///
/// fn solve() -> u64 {
///     let _region = marker::region("solve");
///     (0..1000).sum()
/// }
/// # assert_eq!(solve(), 499_500);
/// ```
///
/// Without `cyclometer stat -m`, each end of a region costs a call, a load and a branch. The project's page
/// `docs/guides/markers.md` has the whole of it.
pub mod marker {
    /// Marks of regions. Example: [the module's](crate::marker).
    #[doc(inline)]
    pub use cyclometer_toolkit::marker::{Region, begin, end, is_attached, region};
}

/// Comparing commands, as `cyclometer compare` does. Example: [`Compare`](compare::Compare).
pub mod compare {
    /// Runs of commands in turn. Example: [`Compare`].
    #[doc(inline)]
    pub use cyclometer_toolkit::compare::{COUNTED, Compare, Executions, Ignore, PAIRS};
    /// Executed runs. Example: [`Compare`].
    #[doc(inline)]
    pub use cyclometer_toolkit::interleaved::{Comparison, EarlyEnd, Hooks, Round, Watcher};
    /// Statistics of differences. Example: [`Compare`].
    #[doc(inline)]
    pub use cyclometer_toolkit::stats::compare::{
        Basis, Compared, ComparisonFinding, Design, FailedRuns, Gate, GateError, GateOutcome, GateSide,
        MetricChange, Question, Ruling, RunOf, Series, THRESHOLD, compare, compare_single,
    };
}

/// The internal crates of the project. They change in any release.
#[cfg(feature = "unstable")]
pub use cyclometer_toolkit as unstable;

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

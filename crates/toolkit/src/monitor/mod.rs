//! Counting regions of one's own program.

mod builder;
mod settings;
mod user_reads;

use cyclometer_core::exec::CommandSpec;
use cyclometer_core::{Error, ErrorKind, Machine, Plan, Recovery, Result, Scope};
use cyclometer_monitor::{BegunRegion, Cost, Counter, LadderStep, Measured, Region, Samples};

use crate::Command;
pub use builder::{CountedScope, MonitorBuilder};

/// Counts regions of one's own program, at the cost of two reads each.
///
/// Threads share a monitor (`Send` and `Sync`; a clone is the same monitor). Each of them opens its own
/// counters at its first region and closes them when it ends. The source of each event is chosen once, when
/// the monitor is built: [`Monitor::ladder`] lists the steps. If no source can count an event, its value
/// gives the reason. No function panics, and none gives a zero for an event that was not counted.
///
/// ```
/// use cyclometer::Monitor;
///
/// # fn main() -> cyclometer::Result<()> {
/// let monitor = Monitor::builder().event("instructions").event("page-faults").build()?;
/// let sum: u64 = monitor.measure("sum", || (0..1000).sum());
/// for value in &monitor.total("sum").unwrap().values {
///     match value.number() {
///         Some(number) => println!("{}: {number}", value.name),
///         None => println!("{}: {}", value.name, value.reason().unwrap_or_default()),
///     }
/// }
/// # assert_eq!(sum, 499_500);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Monitor {
    engine: cyclometer_monitor::Monitor,
    builder: MonitorBuilder,
}

impl Monitor {
    /// Starts to configure a monitor.
    pub fn builder() -> MonitorBuilder {
        MonitorBuilder::new()
    }

    /// Begins a region in the calling thread; it ends when it is dropped or stopped.
    ///
    /// Never fails. After the first region of a label in a thread it allocates nothing, and where all
    /// counters are read in user space it makes no system call. Regions nest: an outer region includes the
    /// counts of inner ones. The counts of equal labels add up.
    pub fn region(&self, label: &str) -> Region {
        self.engine.region(label)
    }

    /// Begins a region that any thread may name, for languages that cannot bind a guard to a scope. Mistakes
    /// (stopping twice, or in another thread) are errors of its functions.
    pub fn begin(&self, label: &str) -> BegunRegion {
        self.engine.begin(label)
    }

    /// Counts a piece of work as a region, also when it panics.
    pub fn measure<T>(&self, label: &str, work: impl FnOnce() -> T) -> T {
        self.engine.measure(label, work)
    }

    /// The counter of an event in the calling thread, to be read by itself, at the least cost. `None` if the
    /// event is not counted here, which the values of [`Monitor::read`] explain.
    pub fn counter(&self, event: &str) -> Option<Counter> {
        self.engine.counter(event)
    }

    /// The counts since the calling thread opened its counters, or since its last [`Monitor::reset`]. A
    /// thread without counters opens them now.
    pub fn read(&self) -> Measured {
        self.engine.read()
    }

    /// Every label with the counts of its regions, over all threads, in the order of their first use. A label
    /// whose first region is still open has the reason in place of counts.
    pub fn regions(&self) -> Vec<Measured> {
        self.engine.regions()
    }

    /// Every label in every thread.
    pub fn regions_by_thread(&self) -> Vec<Measured> {
        self.engine.regions_by_thread()
    }

    /// The counts of the regions of a label, over all threads; `None` if none has begun.
    pub fn total(&self, label: &str) -> Option<Measured> {
        self.engine.total(label)
    }

    /// The number of regions that could not be measured, by label. They began while their thread ended, or
    /// within the start of another region, as in a signal handler.
    pub fn missed(&self) -> Vec<(String, u64)> {
        self.engine.missed()
    }

    /// Forgets the counts of all regions so far. Regions that are open go on, and count as a whole.
    pub fn reset(&self) {
        self.engine.reset();
    }

    /// Forgets the counts of the regions of one label so far.
    pub fn reset_label(&self, label: &str) {
        self.engine.reset_label(label);
    }

    /// How many regions are open, in all threads.
    pub fn open_regions(&self) -> u64 {
        self.engine.open_regions()
    }

    /// Each step of the source order: the source that was tried, whether it works, and the consequence if it
    /// does not.
    pub fn ladder(&self) -> &[LadderStep] {
        self.engine.ladder()
    }

    /// The cost of reading, and its effect on the counts; `None` if it was not to be measured.
    pub fn cost(&self) -> Option<&Cost> {
        self.engine.cost()
    }

    /// The samples since the last call; none unless sampling was requested.
    pub fn samples(&self) -> Samples {
        self.engine.samples()
    }

    /// How each event is counted.
    pub fn plan(&self) -> &Plan {
        self.engine.plan()
    }

    /// The scope of the values.
    pub fn scope(&self) -> Scope {
        self.engine.scope()
    }

    /// The machine that this runs on.
    pub fn machine(&self) -> &Machine {
        self.engine.machine()
    }

    /// The builder that this was built with, to build another one that differs.
    pub fn to_builder(&self) -> MonitorBuilder {
        self.builder.clone()
    }

    /// Replaces this monitor by one from another builder; all counts are forgotten.
    ///
    /// # Errors
    ///
    /// `ErrorKind::InvalidInput` while regions are open, and those of [`MonitorBuilder::build`]; after an
    /// error the monitor is unchanged.
    pub fn reconfigure(&mut self, builder: MonitorBuilder) -> Result<()> {
        match self.open_regions() {
            0 => {
                *self = builder.build()?;
                Ok(())
            }
            open => Err(Error::new(
                ErrorKind::InvalidInput,
                format!("cannot configure a monitor while {open} of its regions are being counted"),
            )
            .with_recovery(Recovery::fix("end the regions first, or build another monitor"))),
        }
    }

    /// Measures a child process with the events of this monitor.
    pub fn command(&self, command: CommandSpec) -> Result<Command> {
        self.builder.command(command)
    }
}

//! Criterion benchmarks measured in events of the CPU, with other events beside them.
//!
//! [`Events`] is a [`Measurement`]: Criterion samples, compares and plots instructions, cache misses or CPU
//! time as it does wall time. [`Events::bench`] counts the other events of the group in the same iterations;
//! [`Events::report`] returns them after the run.
//!
//! ```no_run
//! use criterion::Criterion;
//! use cyclometer_criterion::Events;
//!
//! # fn main() -> cyclometer::Result<()> {
//! let events = Events::of("instructions")?.beside("cycles,branch-misses")?;
//! let mut criterion = Criterion::default().with_measurement(events.clone());
//! let mut group = criterion.benchmark_group("sorting");
//! events.bench(&mut group, "sort", || (0..1000).rev().collect::<Vec<u32>>().sort());
//! group.finish();
//! println!("{}", events.report());
//! # Ok(())
//! # }
//! ```
//!
//! If the measured event cannot be counted here, that is an error. If an event beside it cannot be counted,
//! the report has the reason. Neither is ever reported as zero.
#![forbid(unsafe_code)]

mod format;
mod report;

use std::hint::black_box;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use criterion::BenchmarkGroup;
use criterion::measurement::{Measurement, ValueFormatter};
use cyclometer::{Error, ErrorKind, Measured, Monitor, Recovery, Region, Result, Value};

use crate::format::Formatter;
pub use crate::report::{Beside, Report};

/// The measured event, and the events that are counted beside it. Clones share their state.
#[derive(Clone, Debug)]
pub struct Events {
    monitor: Monitor,
    formatter: Formatter,
    report: Arc<Mutex<Report>>,
}

impl Events {
    /// Measures an event of the calling thread, in every spelling of `cyclometer stat -e`.
    ///
    /// # Errors
    ///
    /// `ErrorKind::EventUnsupported`, with the reason, if the event cannot be counted here. For a text that
    /// is no event, the errors of [`MonitorBuilder::build`](cyclometer::MonitorBuilder::build).
    pub fn of(event: &str) -> Result<Events> {
        Events::counting(event, None)
    }

    /// Counts these events, a comma-separated list, in the same iterations.
    ///
    /// # Errors
    ///
    /// As [`Events::of`], for a text that is no event. An event that cannot be counted here is no error.
    pub fn beside(self, events: &str) -> Result<Events> {
        let [line, ..] = self.monitor.plan().lines.as_slice() else { return Ok(self) };
        Events::counting(&line.event.name.clone(), Some(events))
    }

    fn counting(event: &str, beside: Option<&str>) -> Result<Events> {
        let monitor = Monitor::builder().event(event).events(beside).build()?;
        let first = measured_event(monitor.read())?;
        if let Some(others) = beside.is_none().then(|| monitor.plan().lines.len()).filter(|lines| *lines != 1)
        {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                format!("`{event}` is {others} events, and Criterion measures one"),
            )
            .with_recovery(Recovery::fix("measure one, and count the others with `beside`")));
        }
        Ok(Events { formatter: Formatter::new(&first), monitor, report: Arc::default() })
    }

    /// Benchmarks a function, and counts all events of its iterations.
    ///
    /// # Panics
    ///
    /// As [`Measurement::end`] of this type.
    pub fn bench<T>(&self, group: &mut BenchmarkGroup<'_, Events>, name: &str, mut work: impl FnMut() -> T) {
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|iterations| {
                let region = self.monitor.region(name);
                for _ in 0..iterations {
                    black_box(work());
                }
                let measured = region.stop();
                let value = number(&measured);
                self.reported().add(name, iterations, &measured);
                value
            });
        });
    }

    /// The counts of [`Events::bench`] so far, for each iteration, including iterations of the warm-up.
    pub fn report(&self) -> Report {
        self.reported().clone()
    }

    fn reported(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The monitor that counts: its ladder lists the sources.
    pub fn monitor(&self) -> &Monitor {
        &self.monitor
    }
}

/// The value of the measured event, which must be exactly one.
fn measured_event(measured: Measured) -> Result<Value> {
    let none = || Error::new(ErrorKind::InvalidInput, "there is no event to measure");
    let first = measured.values.into_iter().next().ok_or_else(none)?;
    match first.number() {
        Some(_) => Ok(first),
        None => {
            let why = first.reason().unwrap_or_default();
            let hint = "measure an event that this machine counts (`cyclometer list`), such as task-clock";
            Err(Error::new(
                ErrorKind::EventUnsupported,
                format!("{} cannot be measured here: {why}", first.name),
            )
            .with_recovery(Recovery::fix(hint)))
        }
    }
}

/// The number of the measured event.
///
/// # Panics
///
/// If the value was lost: Criterion has no error path, and would take any number for a measurement.
fn number(measured: &Measured) -> f64 {
    let first = measured.values.first();
    let counted = first.and_then(Value::number);
    counted.unwrap_or_else(|| panic!("a benchmark's event was not counted: {}", measured))
}

impl Measurement for Events {
    type Intermediate = Region;
    type Value = f64;

    fn start(&self) -> Region {
        self.monitor.region("criterion")
    }

    /// The count since `start`.
    ///
    /// # Panics
    ///
    /// If the event was lost meanwhile: Criterion has no error path, and would take any number for a
    /// measurement.
    fn end(&self, region: Region) -> f64 {
        number(&region.stop())
    }

    fn add(&self, a: &f64, b: &f64) -> f64 {
        a + b
    }

    fn zero(&self) -> f64 {
        0.0
    }

    fn to_f64(&self, value: &f64) -> f64 {
        *value
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        &self.formatter
    }
}

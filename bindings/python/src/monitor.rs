//! Monitors and regions.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use cyclometer_toolkit::{
    BegunRegion, Config, CountedScope, CpuSet, Error, ErrorKind, Monitor, MonitorBuilder,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::exception;
use crate::values::{SampledRows, SourceStep, Total, totals};

/// The native part of a monitor.
#[pyclass(frozen, name = "Native", module = "perf_monitor._native")]
pub(crate) struct NativeMonitor {
    monitor: Monitor,
}

/// The settings of a monitor.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct MonitorSettings {
    events: Vec<String>,
    /// `thread`, `process`, `pid:N`, `cpus:LIST`.
    scope: String,
    sampling_rate: Option<u32>,
    buffer_size: Option<usize>,
    config: Option<PathBuf>,
    /// Whether environment variables are settings too.
    environment: bool,
    calibrate: bool,
}

impl MonitorSettings {
    fn builder(&self) -> cyclometer_toolkit::Result<MonitorBuilder> {
        let asked = self.environment || self.config.is_some();
        let config = if asked { Config::load(self.config.as_deref())? } else { Config::default() };
        let builder = Monitor::builder().config(config).events(&self.events).calibrate(self.calibrate);
        let builder = builder.scope(scope(&self.scope)?);
        let builder = self.sampling_rate.iter().fold(builder, |builder, rate| builder.sampling_rate(*rate));
        Ok(self.buffer_size.iter().fold(builder, |builder, size| builder.buffer_size(*size)))
    }
}

fn scope(text: &str) -> cyclometer_toolkit::Result<CountedScope> {
    let wrong = || Error::new(ErrorKind::InvalidInput, format!("`{text}` is no scope"));
    let hint = "give thread, process, pid:NUMBER or cpus:LIST";
    let wrong = || wrong().with_recovery(cyclometer_toolkit::Recovery::fix(hint));
    Ok(match text.split_once(':') {
        None if text == "thread" => CountedScope::Thread,
        None if text == "process" => CountedScope::Process,
        Some(("pid", pid)) => CountedScope::Pid(pid.parse().map_err(|_| wrong())?),
        Some(("cpus", cpus)) => CountedScope::Cpus(CpuSet::parse(cpus).map_err(|_| wrong())?),
        _ => return Err(wrong()),
    })
}

#[pymethods]
impl NativeMonitor {
    /// Opens the counters in the calling thread. Other threads of Python run meanwhile.
    #[new]
    fn new(py: Python<'_>, settings: &Bound<'_, PyDict>) -> PyResult<NativeMonitor> {
        let settings: MonitorSettings = settings.extract()?;
        let built = py.detach(|| settings.builder().and_then(|builder| builder.build()));
        Ok(NativeMonitor { monitor: built.map_err(|error| exception(&error))? })
    }

    /// Begins a region in the calling thread.
    fn begin(&self, label: &str) -> NativeRegion {
        NativeRegion { begun: Mutex::new(self.monitor.begin(label)) }
    }

    /// The totals of every label, over all threads.
    fn totals(&self, py: Python<'_>) -> Vec<Total> {
        totals(&py.detach(|| self.monitor.regions()))
    }

    /// The totals of every label in every thread.
    fn totals_by_thread(&self, py: Python<'_>) -> Vec<Total> {
        totals(&py.detach(|| self.monitor.regions_by_thread()))
    }

    /// The counts of the calling thread since its counters were opened.
    fn read(&self) -> Total {
        Total::of(&self.monitor.read())
    }

    fn reset(&self) {
        self.monitor.reset();
    }

    fn open_regions(&self) -> u64 {
        self.monitor.open_regions()
    }

    fn samples(&self, py: Python<'_>) -> SampledRows {
        let scale =
            |line: &cyclometer_toolkit::core::plan::PlanLine| line.candidate().map_or(1.0, |way| way.scale);
        let scales: Vec<f64> = self.monitor.plan().lines.iter().map(scale).collect();
        py.detach(|| SampledRows::of(&self.monitor.samples(), &scales))
    }

    fn ladder(&self) -> Vec<SourceStep> {
        self.monitor.ladder().iter().map(SourceStep::of).collect()
    }

    /// The cost of a read and of a region, in ns: medians and 99th percentiles.
    fn cost(&self) -> Option<(f64, f64, f64, f64)> {
        let cost = self.monitor.cost()?;
        let (read, region) = (cost.read_ns, cost.region_ns);
        Some((read.median, read.p99, region.median, region.p99))
    }

    /// The requested events, without modifiers.
    fn events(&self) -> Vec<String> {
        self.monitor.plan().lines.iter().map(|line| line.event.name.clone()).collect()
    }
}

/// A region that has begun.
#[pyclass(frozen, module = "perf_monitor._native")]
pub(crate) struct NativeRegion {
    begun: Mutex<BegunRegion>,
}

#[pymethods]
impl NativeRegion {
    /// Ends it, in the thread that began it.
    fn stop(&self) -> PyResult<Total> {
        let stopped = self.begun.lock().unwrap_or_else(PoisonError::into_inner).stop();
        stopped.map(|measured| Total::of(&measured)).map_err(|error| exception(&error))
    }
}

/// The machine's properties: architecture, counters, fixed counters, width in bits, user-mode access, whether
/// registers need a changed kernel.
#[pyfunction]
pub(crate) fn capabilities(py: Python<'_>) -> (String, u32, u32, u32, bool, bool) {
    let machine = py.detach(cyclometer_toolkit::machine);
    let known = machine.capabilities;
    (
        known.architecture,
        known.counter_count,
        known.fixed_counters,
        known.counter_width_bits.unwrap_or(0),
        known.user_mode_access,
        known.needs_kernel_patch,
    )
}

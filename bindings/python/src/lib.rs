//! The native part of the Python package: monitors, regions and samples as plain values.
//! `python/perf_monitor` wraps them in its classes.
#![deny(unsafe_code)]

mod compare;
mod errors;
mod monitor;
mod values;

use pyo3::prelude::*;

/// Counters of the CPU; use the package `perf_monitor`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<monitor::NativeMonitor>()?;
    module.add_class::<monitor::NativeRegion>()?;
    module.add_function(wrap_pyfunction!(monitor::capabilities, module)?)?;
    module.add_function(wrap_pyfunction!(compare::compare, module)?)?;
    module.add_function(wrap_pyfunction!(marker_begin, module)?)?;
    module.add_function(wrap_pyfunction!(marker_end, module)?)?;
    module.add_function(wrap_pyfunction!(marker_attached, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}

/// Marks the beginning of a region of this thread for `cyclometer stat -m`.
#[pyfunction]
fn marker_begin(label: &str) {
    cyclometer_toolkit::marker::begin(label);
}

/// Marks the end of one.
#[pyfunction]
fn marker_end(label: &str) {
    cyclometer_toolkit::marker::end(label);
}

/// Whether that tool runs this program.
#[pyfunction]
fn marker_attached() -> bool {
    cyclometer_toolkit::marker::is_attached()
}

//! The native part of the Python package: monitors, regions and samples as plain values; `python/perf_monitor` gives them their shape.
#![deny(unsafe_code)]

mod compare;
mod errors;
mod monitor;
mod values;

use pyo3::prelude::*;

/// Counters of the CPU; use the package `perf_monitor`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<monitor::Native>()?;
    module.add_class::<monitor::NativeRegion>()?;
    module.add_function(wrap_pyfunction!(monitor::capabilities, module)?)?;
    module.add_function(wrap_pyfunction!(compare::compare, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}

//! Errors as exceptions, one class for each kind; the classes are in `python/perf_monitor/errors.py`.

use cyclometer_toolkit::Error;
use pyo3::prelude::*;

/// The exception of an error.
pub(crate) fn exception(error: &Error) -> PyErr {
    Python::attach(|py| made(py, error).unwrap_or_else(|other| other))
}

fn made(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let of_kind = py.import("perf_monitor.errors")?.getattr("of_kind")?;
    let args = (error.kind().number(), error.to_string(), error.recovery().to_string());
    Ok(PyErr::from_value(of_kind.call1(args)?))
}

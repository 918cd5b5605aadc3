//! NVIDIA's management library, opened at run time.
//!
//! The library is part of NVIDIA's driver, and reading it may wake a device. The path is given by the caller,
//! so tests open a library that behaves as NVML does. A call may block as long as the kernel's driver does:
//! [`within`] limits that.

mod functions;
mod inventory;
mod limit;

pub use functions::{Nvml, NvmlClock, NvmlDirection, NvmlHandle, NvmlProcess, NvmlUtilisation};
pub use inventory::{NvmlDevice, NvmlInventory};
pub use limit::within;

use std::fmt;

/// The file name of the library, which the dynamic linker looks up.
///
/// # Source
///
/// NVML API Reference Guide, "Linking".
pub const LIBRARY: &str = "libnvidia-ml.so.1";

/// Why NVML gave no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NvmlError {
    /// The library or one of its functions is missing; the dynamic linker's reason.
    NoLibrary(String),
    /// A function returned this code.
    Code(u32),
}

impl NvmlError {
    /// `NVML_ERROR_NOT_SUPPORTED`.
    pub const NOT_SUPPORTED: NvmlError = NvmlError::Code(3);
    /// `NVML_ERROR_FUNCTION_NOT_FOUND`.
    pub const FUNCTION_NOT_FOUND: NvmlError = NvmlError::Code(13);
}

impl fmt::Display for NvmlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NvmlError::NoLibrary(reason) => f.write_str(reason),
            NvmlError::Code(code) => write!(f, "NVML returned {code}"),
        }
    }
}

impl std::error::Error for NvmlError {}

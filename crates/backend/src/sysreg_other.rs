//! Programs without the drivers of registers.

use cyclometer_core::{Error, ErrorKind, Recovery, Result, Source};

use crate::registers::CorePmu;

/// This program has no such source.
///
/// # Errors
///
/// Always [`ErrorKind::ArchUnsupported`].
pub fn source(_cores: Vec<CorePmu>, _cpu: Option<u32>) -> Result<Box<dyn Source>> {
    let text = "this program was built without the drivers of registers";
    let help = Recovery::fix("build the crate cyclometer with its feature registers");
    Err(Error::new(ErrorKind::ArchUnsupported, text).with_recovery(help))
}

//! The configurable counters that kperf offers.

use std::io;

use libc::EACCES;

use super::kpc::{Kpc, KpcClasses};

/// The configurable counters that kperf offers to this process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KpcCounters {
    /// Their number, after all were requested.
    pub configurable: u32,
    /// Whether the kernel accepted the request for all counters. Another task may have requested them.
    pub forced: bool,
}

impl KpcCounters {
    /// Requests all counters, asks how many there are, and releases them unless they were requested before.
    ///
    /// # Errors
    ///
    /// The error of the first call that fails. Only `EACCES` of the request is none: another task has
    /// requested all counters.
    pub fn ask(kpc: &dyn Kpc) -> io::Result<KpcCounters> {
        let was_forced = kpc.has_forced_counters()?;
        let forced = match kpc.force_counters(true) {
            Ok(()) => true,
            Err(error) if error.raw_os_error() == Some(EACCES) => false,
            Err(error) => return Err(error),
        };
        let configurable = kpc.counter_count(KpcClasses::CONFIGURABLE);
        if forced && !was_forced {
            kpc.force_counters(false)?;
        }
        Ok(KpcCounters { configurable: u32::try_from(configurable).unwrap_or(u32::MAX), forced })
    }
}

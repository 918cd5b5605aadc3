//! The cost of the exporter itself, by `/proc/self`.

use std::fs;

use crate::families::{FamilyKind, MetricFamily};

/// Ticks in a second of the times in `/proc`.
///
/// # Source
///
/// Linux `include/asm-generic/param.h`, `USER_HZ`, the same on every architecture that the project supports.
const TICKS_PER_SECOND: f64 = 100.0;

/// The resources of this process.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct OwnCost {
    /// CPU time in user and kernel mode, in seconds.
    pub cpu_seconds: Option<f64>,
    /// Resident memory, in bytes.
    pub resident_bytes: Option<u64>,
    /// Open file descriptors.
    pub open_descriptors: Option<usize>,
}

impl OwnCost {
    /// The families of what could be read.
    pub fn families(&self) -> Vec<MetricFamily> {
        use FamilyKind::{Counter, Gauge};
        let seconds = self.cpu_seconds.map(|value| {
            let help = "CPU time of the exporter.";
            MetricFamily::single("cyclometer_exporter_cpu_seconds", Counter, Some("seconds"), help, value)
        });
        let resident = self.resident_bytes.map(|value| {
            let (name, help) = ("cyclometer_exporter_resident_bytes", "Resident memory of the exporter.");
            MetricFamily::single(name, Gauge, Some("bytes"), help, value as f64)
        });
        let descriptors = self.open_descriptors.map(|value| {
            let (name, help) =
                ("cyclometer_exporter_open_descriptors", "Open file descriptors of the exporter.");
            MetricFamily::single(name, Gauge, None, help, value as f64)
        });
        [seconds, resident, descriptors].into_iter().flatten().collect()
    }

    /// The present cost; what cannot be read is `None`.
    pub fn now() -> OwnCost {
        OwnCost {
            cpu_seconds: fs::read_to_string("/proc/self/stat").ok().and_then(|stat| cpu_seconds(&stat)),
            resident_bytes: fs::read_to_string("/proc/self/status").ok().and_then(|status| resident(&status)),
            // Reading the folder opens one.
            open_descriptors: fs::read_dir("/proc/self/fd").ok().map(|fds| fds.count().saturating_sub(1)),
        }
    }
}

/// Fields 14 and 15.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace().skip(11);
    let (user, system): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) / TICKS_PER_SECOND)
}

fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_memory_are_read_from_their_fields() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 9 9 20 0 1 0 4242 0 0";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(resident("Name:\tx\nVmRSS:\t    2048 kB\n"), Some(2 << 20));
        assert_eq!((cpu_seconds("7"), resident("")), (None, None));
    }

    #[test]
    fn this_process_has_a_cost() {
        let cost = OwnCost::now();
        assert!(cost.resident_bytes.is_some_and(|bytes| bytes > 0));
        assert!(cost.open_descriptors.is_some_and(|number| number >= 3) && cost.cpu_seconds.is_some());
    }
}

//! `perf_event_open(2)` of the host.

use cyclometer_sys::perf::{Attr, Whom, flags, open};

use crate::facts::PerfProbe;

/// Linux's number for "not supported": what Apple's driver says when guests are not excluded.
const EOPNOTSUPP: i32 = 95;
/// Linux's number for "invalid argument".
const EINVAL: i32 = 22;

/// Opens and closes one event; tries again without guests where the driver wants that.
///
/// # Source
///
/// Linux `drivers/perf/apple_m1_cpu_pmu.c`, `m1_pmu_set_event_filter`: `exclude_guest` must be set.
pub(super) fn probe(probe: &PerfProbe) -> Result<(), i32> {
    match try_open(probe, 0) {
        Err(EOPNOTSUPP) => try_open(probe, flags::EXCLUDE_GUEST),
        outcome => outcome,
    }
}

fn try_open(probe: &PerfProbe, more_flags: u64) -> Result<(), i32> {
    let mut attr = Attr::new(probe.pmu_type, probe.config);
    attr.flags |= more_flags;
    if probe.exclude_user {
        attr.flags |= flags::EXCLUDE_USER;
    }
    if probe.exclude_kernel {
        attr.flags |= flags::EXCLUDE_KERNEL | flags::EXCLUDE_HV;
    }
    let whom = match u32::try_from(probe.pid) {
        Ok(0) => Whom::ThisThread,
        Ok(pid) => Whom::Task(pid),
        Err(_) => Whom::Everyone,
    };
    let outcome = open(&attr, whom, u32::try_from(probe.cpu).ok(), None);
    outcome.map(drop).map_err(|error| error.raw_os_error().unwrap_or(EINVAL))
}

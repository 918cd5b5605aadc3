//! The kernel's accounting of resources.

use std::io;
use std::mem::MaybeUninit;

/// Size of a page of memory in bytes.
///
/// # Source
///
/// `sysconf(3)`, `_SC_PAGESIZE`.
pub fn page_size() -> usize {
    // SAFETY: touches no memory of ours.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

/// The values of `getrusage(2)`, in ns and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ResourceUsage {
    /// CPU time in user mode, in ns.
    pub user_ns: u64,
    /// CPU time in kernel mode, in ns.
    pub system_ns: u64,
    /// Peak resident set, in bytes.
    pub peak_rss_bytes: u64,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
    /// Switches because the task waited.
    pub voluntary_switches: u64,
    /// Switches because the scheduler took the CPU away.
    pub involuntary_switches: u64,
}

impl ResourceUsage {
    pub(super) fn from_raw(raw: &libc::rusage) -> ResourceUsage {
        ResourceUsage {
            user_ns: nanoseconds(raw.ru_utime),
            system_ns: nanoseconds(raw.ru_stime),
            peak_rss_bytes: count(raw.ru_maxrss).saturating_mul(super::linux::MAXRSS_UNIT_BYTES),
            minor_faults: count(raw.ru_minflt),
            major_faults: count(raw.ru_majflt),
            voluntary_switches: count(raw.ru_nvcsw),
            involuntary_switches: count(raw.ru_nivcsw),
        }
    }

    /// The usage since `before`. The peak resident set is no sum and is not changed.
    pub fn since(self, before: ResourceUsage) -> ResourceUsage {
        ResourceUsage {
            user_ns: self.user_ns.saturating_sub(before.user_ns),
            system_ns: self.system_ns.saturating_sub(before.system_ns),
            peak_rss_bytes: self.peak_rss_bytes,
            minor_faults: self.minor_faults.saturating_sub(before.minor_faults),
            major_faults: self.major_faults.saturating_sub(before.major_faults),
            voluntary_switches: self.voluntary_switches.saturating_sub(before.voluntary_switches),
            involuntary_switches: self.involuntary_switches.saturating_sub(before.involuntary_switches),
        }
    }
}

fn count(n: libc::c_long) -> u64 {
    u64::try_from(n).unwrap_or(0)
}

fn nanoseconds(time: libc::timeval) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(micros.saturating_mul(1_000))
}

/// The accounting of the calling thread; its peak resident set is the process's.
///
/// # Errors
///
/// `Unsupported` where the system accounts for processes only.
pub fn thread_usage() -> io::Result<ResourceUsage> {
    let who = super::linux::RUSAGE_OF_THREAD.ok_or(io::ErrorKind::Unsupported)?;
    let mut raw = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: writes one rusage.
    if unsafe { libc::getrusage(who, raw.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded and wrote the struct.
    Ok(ResourceUsage::from_raw(unsafe { raw.assume_init_ref() }))
}

/// The unit of times in `/proc`: ticks a second, at least 1.
///
/// # Source
///
/// `proc_pid_stat(5)`; `sysconf(3)`, `_SC_CLK_TCK`.
pub fn clock_ticks_per_second() -> u64 {
    // SAFETY: touches no memory of ours.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks).unwrap_or(100).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_become_nanoseconds() {
        assert_eq!(nanoseconds(libc::timeval { tv_sec: 2, tv_usec: 5 }), 2_000_005_000);
        assert_eq!(nanoseconds(libc::timeval { tv_sec: -1, tv_usec: 0 }), 0);
    }

    #[test]
    fn what_was_used_before_is_taken_off_and_a_peak_is_not() {
        let before = ResourceUsage {
            minor_faults: 30,
            voluntary_switches: 2,
            peak_rss_bytes: 9,
            ..ResourceUsage::default()
        };
        let all = ResourceUsage {
            minor_faults: 80,
            voluntary_switches: 1,
            peak_rss_bytes: 9,
            ..ResourceUsage::default()
        };
        let expected = ResourceUsage { minor_faults: 50, peak_rss_bytes: 9, ..ResourceUsage::default() };
        assert_eq!(all.since(before), expected);
    }

    #[test]
    fn a_thread_that_works_uses_time() {
        let Ok(before) = thread_usage() else { return };
        let started = std::time::Instant::now();
        while started.elapsed() < std::time::Duration::from_millis(30) {
            std::hint::spin_loop();
        }
        let after = thread_usage().unwrap();
        assert!(after.user_ns + after.system_ns > before.user_ns + before.system_ns);
        assert!(after.peak_rss_bytes > 100 * 1024);
    }
}

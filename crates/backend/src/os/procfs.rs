//! Parsers of `/proc` and control group files. Names in these files are untrusted.

use cyclometer_core::CpuSet;

use super::accounts::Accounts;

/// How long a tick of `/proc` lasts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ticks {
    /// Ticks a second, not 0.
    pub(super) per_second: u64,
}

impl Ticks {
    fn nanoseconds(self, ticks: u64) -> u64 {
        let ns = u128::from(ticks) * 1_000_000_000 / u128::from(self.per_second.max(1));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

/// Faults and times that a process took over from children that it waited for, in the kernel's units.
///
/// # Source
///
/// `proc_pid_stat(5)`: cminflt is field 11, cmajflt 13, cutime 16, cstime 17.
pub(super) fn of_children(bytes: &[u8]) -> Option<[u64; 4]> {
    let text = String::from_utf8_lossy(bytes);
    let (_, behind_name) = text.rsplit_once(')')?;
    let fields: Vec<&str> = behind_name.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some([field(11)?, field(13)?, field(16)?, field(17)?])
}

/// When the process or thread began, in ticks after boot. Later ones with its id began later.
///
/// # Source
///
/// `proc_pid_stat(5)`: starttime is field 22; Linux `fs/exec.c`, `de_thread`: a thread that executes a
/// program takes over the id and the start time of the process.
pub(super) fn start_ticks(bytes: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(bytes);
    let (_, behind_name) = text.rsplit_once(')')?;
    behind_name.split_ascii_whitespace().nth(22 - 3)?.parse().ok()
}

/// Times and faults from `/proc/PID/stat` or `/proc/PID/task/TID/stat`.
///
/// # Source
///
/// `proc_pid_stat(5)`: minflt is field 10, majflt 12, utime 14, stime 15. The name is field 2; it may
/// contain blanks and parentheses, so that fields are counted behind the last one.
pub(super) fn stat(bytes: &[u8], ticks: Ticks) -> Option<Accounts> {
    let text = String::from_utf8_lossy(bytes);
    let (_, behind_name) = text.rsplit_once(')')?;
    let fields: Vec<&str> = behind_name.split_ascii_whitespace().collect();
    // The first field behind the name is number 3.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(Accounts {
        user_ns: Some(ticks.nanoseconds(field(14)?)),
        system_ns: Some(ticks.nanoseconds(field(15)?)),
        minor_faults: Some(field(10)?),
        major_faults: Some(field(12)?),
        ..Accounts::default()
    })
}

/// Whether `/proc/PID/stat` is that of a kernel thread, which has no memory of its own.
///
/// # Source
///
/// `proc_pid_stat(5)`: flags is field 9; Linux `include/linux/sched.h`, `PF_KTHREAD`.
pub(super) fn is_kernel_thread(bytes: &[u8]) -> bool {
    const PF_KTHREAD: u64 = 0x0020_0000;
    let text = String::from_utf8_lossy(bytes);
    let flags = text.rsplit_once(')').and_then(|(_, behind)| behind.split_ascii_whitespace().nth(9 - 3));
    flags.and_then(|flags| flags.parse::<u64>().ok()).is_some_and(|flags| flags & PF_KTHREAD != 0)
}

/// Switches of one thread: voluntary, involuntary.
///
/// # Source
///
/// `proc_pid_status(5)`, `voluntary_ctxt_switches`, `nonvoluntary_ctxt_switches`.
pub(super) fn switches(status: &[u8]) -> Option<(u64, u64)> {
    Some((field(status, "voluntary_ctxt_switches:")?, field(status, "nonvoluntary_ctxt_switches:")?))
}

/// Peak resident set in bytes; `None` for kernel threads and for processes that have ended.
///
/// # Source
///
/// `proc_pid_status(5)`, `VmHWM`, in kB.
pub(super) fn peak_rss_bytes(status: &[u8]) -> Option<u64> {
    field(status, "VmHWM:").map(|kilobytes| kilobytes.saturating_mul(1024))
}

/// User and system time of CPUs from `/proc/stat`. Time for guests is user time, time for interrupts is
/// system time; `None` when a CPU is missing.
///
/// # Source
///
/// `proc_stat(5)`: user nice system idle iowait irq softirq.
pub(super) fn cpu_times(bytes: &[u8], cpus: &CpuSet, ticks: Ticks) -> Option<Accounts> {
    let text = String::from_utf8_lossy(bytes);
    let (mut user, mut system) = (0u64, 0u64);
    for cpu in cpus.iter() {
        let name = format!("cpu{cpu} ");
        let line = text.lines().find_map(|line| line.strip_prefix(name.as_str()))?;
        let fields: Vec<u64> = line.split_ascii_whitespace().map_while(|f| f.parse().ok()).collect();
        user += fields.first()? + fields.get(1)?;
        system += fields.get(2)? + fields.get(5)? + fields.get(6)?;
    }
    let (user, system) = (ticks.nanoseconds(user), ticks.nanoseconds(system));
    Some(Accounts { user_ns: Some(user), system_ns: Some(system), ..Accounts::default() })
}

/// Times from a control group's `cpu.stat`.
///
/// # Source
///
/// Linux `Documentation/admin-guide/cgroup-v2.rst`, `cpu.stat`: in µs.
pub(super) fn cgroup_times(bytes: &[u8]) -> Option<Accounts> {
    let nanoseconds = |name| field(bytes, name).map(|micros| micros.saturating_mul(1000));
    let (user_ns, system_ns) = (Some(nanoseconds("user_usec ")?), Some(nanoseconds("system_usec ")?));
    Some(Accounts { user_ns, system_ns, ..Accounts::default() })
}

/// The number behind a name at the start of a line.
fn field(bytes: &[u8], name: &str) -> Option<u64> {
    let lines = bytes.split(|byte| *byte == b'\n');
    let value = lines.filter_map(|line| line.strip_prefix(name.as_bytes())).next()?;
    std::str::from_utf8(value).ok()?.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICKS: Ticks = Ticks { per_second: 100 };

    #[test]
    fn fields_are_counted_behind_the_last_parenthesis() {
        for name in ["sh", "a) S 1 2 3 4 5 6", "(", ") 9 9 9 9 9 9 9 9 9 9 9 9 9 9", "\u{1b}[2J\n"] {
            let line = format!("77 ({name}) S 1 77 77 0 -1 4194304 11 12 13 14 250 3 0 0 20 0 1 0 5\n");
            let accounts = stat(line.as_bytes(), TICKS).unwrap();
            assert_eq!(accounts.user_ns, Some(2_500_000_000), "{name}");
            assert_eq!(accounts.system_ns, Some(30_000_000));
            assert_eq!((accounts.minor_faults, accounts.major_faults), (Some(11), Some(13)));
            assert_eq!(of_children(line.as_bytes()), Some([12, 14, 0, 0]));
            assert_eq!(start_ticks(line.as_bytes()), Some(5));
        }
        for broken in ["", "77 (x", "77 (x) S 1 2 3"] {
            assert_eq!(stat(broken.as_bytes(), TICKS), None, "{broken}");
            assert_eq!(start_ticks(broken.as_bytes()), None, "{broken}");
        }
    }

    #[test]
    fn a_kernel_thread_is_known_by_its_flags() {
        let kthreadd = b"2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 1 0 0 20 0 1 0 5\n";
        let odd_name = b"77 (a) S 0 0 0 0 -1 2129984) S 1 77 77 0 -1 4194304 11 12 13 14 250 3\n";
        assert!(is_kernel_thread(kthreadd));
        assert!(!is_kernel_thread(odd_name) && !is_kernel_thread(b"") && !is_kernel_thread(b"77 (x) S"));
    }

    #[test]
    fn status_tells_switches_and_peak() {
        let status = b"Name:\tx VmHWM: 1\nVmPeak:\t  10 kB\nVmHWM:\t    2048 kB\n\
            voluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t6\n";
        assert_eq!(peak_rss_bytes(status), Some(2 << 20));
        assert_eq!(switches(status), Some((5, 6)));
        assert_eq!(peak_rss_bytes(b"Name:\tkthreadd\n"), None);
    }

    #[test]
    fn times_of_cpus_add_up() {
        let text = b"cpu  9 9 9 9 9 9 9 0 0 0\ncpu0 1 2 3 4 5 6 7 0 0 0\ncpu1 10 0 0 0 0 0 0 0 0 0\n\
            cpu10 500 0 0 0 0 0 0 0 0 0\n";
        let cpus = |list| CpuSet::parse(list).unwrap();
        let both = cpu_times(text, &cpus("0-1"), TICKS).unwrap();
        assert_eq!((both.user_ns, both.system_ns), (Some(130_000_000), Some(160_000_000)));
        assert_eq!(cpu_times(text, &cpus("0,2"), TICKS), None);
    }

    #[test]
    fn a_control_groups_times_are_microseconds() {
        let accounts = cgroup_times(b"usage_usec 30\nuser_usec 10\nsystem_usec 20\nnr_periods 0\n").unwrap();
        assert_eq!((accounts.user_ns, accounts.system_ns), (Some(10_000), Some(20_000)));
        assert_eq!(cgroup_times(b"usage_usec 30\n"), None);
    }
}

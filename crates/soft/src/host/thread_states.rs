//! States of the threads of a process and its descendants: looks without tracing.

use super::proc;

/// Threads that were seen, over all looks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ThreadStates {
    /// Looks at which there was a thread.
    pub looks: u64,
    /// Threads over all looks.
    pub threads: u64,
    /// Those that ran or were ready to run.
    pub running: u64,
    /// Those that waited for a device.
    pub device: u64,
    /// Those that waited in `futex(2)`: for a lock, a condition or the end of a thread.
    pub futex: u64,
    /// Those that waited in another system call.
    pub waiting: u64,
    /// The most threads of one process at a look.
    pub most_threads: u64,
}

/// System calls that wait for a device, whatever the kernel calls the wait.
///
/// # Source
///
/// Linux `arch/x86/entry/syscalls/syscall_64.tbl`: msync, fsync, fdatasync, sync, syncfs.
const SYNCS: [u64; 5] = [26, 74, 75, 162, 306];

/// System calls that wait for a child to execute a program, in the state of a wait for a device.
///
/// # Source
///
/// Linux `kernel/fork.c`, `wait_for_vfork_done`; the table above: clone, vfork, clone3.
const VFORKS: [u64; 3] = [56, 58, 435];

/// The number of `futex(2)`.
const FUTEX: u64 = 202;

impl ThreadStates {
    /// Names of the counts, in the order of [`ThreadStates::values`].
    pub const NAMES: [&'static str; 7] = [
        "sampled_looks",
        "sampled_threads",
        "sampled_running",
        "sampled_device_waits",
        "sampled_futex_waits",
        "sampled_other_waits",
        "most_threads",
    ];

    /// The counts in order.
    pub fn values(&self) -> [u64; 7] {
        let ThreadStates { looks, threads, running, device, futex, waiting, most_threads } = *self;
        [looks, threads, running, device, futex, waiting, most_threads]
    }

    /// Looks once at a process and its descendants.
    pub fn look(&mut self, root: u32) {
        let before = self.threads;
        for pid in descendants(root) {
            let of_others = self.threads;
            for tid in threads_of(pid) {
                self.add(pid, tid);
            }
            self.most_threads = self.most_threads.max(self.threads - of_others);
        }
        self.looks += u64::from(self.threads > before);
    }

    fn add(&mut self, pid: u32, tid: u32) {
        let task = format!("/proc/{pid}/task/{tid}");
        let Ok(stat) = proc::text(format!("{task}/stat")) else { return };
        let call = || proc::text(format!("{task}/syscall")).ok().and_then(|text| call(&text));
        let count = match state(&stat) {
            Some('R') => &mut self.running,
            Some('D') if call().is_some_and(|number| VFORKS.contains(&number)) => &mut self.waiting,
            Some('D') => &mut self.device,
            Some('S') => match call() {
                Some(FUTEX) => &mut self.futex,
                Some(number) if SYNCS.contains(&number) => &mut self.device,
                _ => &mut self.waiting,
            },
            _ => return,
        };
        *count += 1;
        self.threads += 1;
    }
}

/// A process and its descendants.
pub(super) fn descendants(root: u32) -> Vec<u32> {
    const MOST_PROCESSES: usize = 256;
    let mut all = vec![root];
    let mut next = 0;
    while next < all.len() && all.len() < MOST_PROCESSES {
        let pid = all[next];
        for tid in threads_of(pid) {
            let children = proc::text(format!("/proc/{pid}/task/{tid}/children")).unwrap_or_default();
            all.extend(children.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
        }
        next += 1;
    }
    all
}

pub(super) fn threads_of(pid: u32) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// # Source
///
/// `proc(5)`, `/proc/pid/stat`: the letter behind the name, which may contain parentheses.
pub(super) fn state(stat: &str) -> Option<char> {
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// # Source
///
/// `proc(5)`, `/proc/pid/syscall`: a number, `running`, or -1 outside of a system call.
fn call(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_stands_behind_the_last_parenthesis_of_the_name() {
        assert_eq!(state("12 (a) b) S 1 2"), Some('S'));
        assert_eq!(state("12 (x) R"), Some('R'));
        assert_eq!(state("12"), None);
    }

    #[test]
    fn a_system_call_is_a_number_and_nothing_else() {
        assert_eq!(call("202 0x7f 0x80"), Some(FUTEX));
        assert_eq!(call("running\n"), None);
        assert_eq!(call("-1 0x7f 0x80"), None);
        assert_eq!(call(""), None);
    }

    #[test]
    fn a_look_at_this_process_sees_its_threads() {
        let mut states = ThreadStates::default();
        states.look(std::process::id());
        assert!(states.running >= 1, "{states:?}");
        assert!(states.most_threads >= 2, "{states:?}");
    }

    #[test]
    fn a_process_that_has_ended_is_not_counted() {
        let mut states = ThreadStates::default();
        states.look(u32::MAX >> 1);
        assert_eq!(states, ThreadStates::default());
    }
}

//! CPU times of the threads of a process and its descendants: looks without tracing.
//!
//! The kernel adds up for each thread how long it ran, and how long it waited for a CPU. Both are exact where
//! states at looks are samples, and the second shows a machine that is busy with other programs.
//!
//! # Source
//!
//! Linux `Documentation/scheduler/sched-stats.rst`, `/proc/pid/schedstat`: time on the CPU and time on a run
//! queue, in ns. `proc(5)`, `/proc/stat`: the eighth time of the line `cpu` is stolen by the hypervisor.

use std::collections::HashMap;

use super::proc;
use super::thread_states::{descendants, threads_of};

/// Most threads whose times are kept.
const MOST_THREADS: usize = 4096;

/// The part of the busiest thread's CPU time from which on a thread shares the work: helpers of an
/// interpreter (timers, compilation) use less.
const WORKING_PART: u64 = 50;

/// Times of threads, over all looks.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ThreadTimes {
    threads: HashMap<u32, SeenThread>,
    look: u64,
    /// Whether the last look was before a break, in which times do not count.
    is_after_break: bool,
    ran_ns: u64,
    queued_ns: u64,
    /// The system's CPU time at the first look and at the last one, in ticks.
    system: Option<[SystemTicks; 2]>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct SeenThread {
    pid: u32,
    first_look: u64,
    last_look: u64,
    times: RunTimes,
    /// Its CPU time outside of breaks, in ns.
    ran_ns: u64,
}

/// The times of a thread so far, in ns.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct RunTimes {
    ran: u64,
    queued: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct SystemTicks {
    all: u64,
    stolen: u64,
}

impl ThreadTimes {
    /// Names of the counts, in the order of [`ThreadTimes::values`].
    pub const NAMES: [&'static str; 7] = [
        "working_threads",
        "busiest_process_time",
        "busiest_thread_time",
        "sampled_cpu_time",
        "sampled_queue_time",
        "sampled_system_ticks",
        "sampled_stolen_ticks",
    ];

    /// The counts in order: threads, times in ns, ticks.
    pub fn values(&self) -> [u64; 7] {
        let [first, last] = self.system.unwrap_or_default();
        let busiest = self.busiest_process();
        [
            at_once(&busiest),
            busiest.iter().map(|thread| thread.ran_ns).sum(),
            busiest.iter().map(|thread| thread.ran_ns).max().unwrap_or(0),
            self.ran_ns,
            self.queued_ns,
            last.all.saturating_sub(first.all),
            last.stolen.saturating_sub(first.stolen),
        ]
    }

    /// Looks once at a process and its descendants.
    pub fn look(&mut self, root: u32) {
        self.look += 1;
        for pid in descendants(root) {
            for tid in threads_of(pid) {
                let times = proc::text(format!("/proc/{pid}/task/{tid}/schedstat"));
                if let Some(times) = times.ok().as_deref().and_then(run_times) {
                    self.add(pid, tid, times);
                }
            }
        }
        self.is_after_break = false;
        if let Some(now) = proc::text("/proc/stat").ok().as_deref().and_then(system_ticks) {
            self.system = Some([self.system.map_or(now, |[first, _]| first), now]);
        }
    }

    /// Leaves out what happens up to the next look: steps cost a thread CPU time.
    pub fn take_break(&mut self) {
        self.is_after_break = self.look > 0;
    }

    fn add(&mut self, pid: u32, tid: u32, times: RunTimes) {
        let (look, has_room) = (self.look, self.threads.len() < MOST_THREADS);
        let counts = !self.is_after_break;
        let before = match self.threads.get_mut(&tid).filter(|seen| seen.pid == pid) {
            Some(seen) => {
                let before = std::mem::replace(&mut seen.times, times);
                seen.last_look = look;
                seen.ran_ns += if counts { times.ran.saturating_sub(before.ran) } else { 0 };
                before
            }
            None if has_room => {
                let ran_ns = if counts { times.ran } else { 0 };
                self.threads
                    .insert(tid, SeenThread { pid, first_look: look, last_look: look, times, ran_ns });
                RunTimes::default()
            }
            None => return,
        };
        if counts {
            self.ran_ns += times.ran.saturating_sub(before.ran);
            self.queued_ns += times.queued.saturating_sub(before.queued);
        }
    }

    /// The threads of the process that used most CPU time which did a part of its work.
    fn busiest_process(&self) -> Vec<&SeenThread> {
        let mut processes: HashMap<u32, Vec<&SeenThread>> = HashMap::new();
        for thread in self.threads.values() {
            processes.entry(thread.pid).or_default().push(thread);
        }
        let used = |threads: &Vec<&SeenThread>| threads.iter().map(|thread| thread.ran_ns).sum::<u64>();
        let mut threads = processes.into_values().max_by_key(used).unwrap_or_default();
        let most = threads.iter().map(|thread| thread.ran_ns).max().unwrap_or(0);
        threads.retain(|thread| thread.ran_ns > most / WORKING_PART);
        threads
    }
}

/// The most of these threads that existed at a time: at a look at which one of them appears.
fn at_once(threads: &[&SeenThread]) -> u64 {
    let there = |at: u64| {
        let is_there = |other: &&&SeenThread| (other.first_look..=other.last_look).contains(&at);
        threads.iter().filter(is_there).count() as u64
    };
    threads.iter().map(|thread| there(thread.first_look)).max().unwrap_or(0)
}

fn run_times(schedstat: &str) -> Option<RunTimes> {
    let mut numbers = schedstat.split_whitespace().map(str::parse);
    Some(RunTimes { ran: numbers.next()?.ok()?, queued: numbers.next()?.ok()? })
}

fn system_ticks(stat: &str) -> Option<SystemTicks> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // Times of guests are contained in the first two.
    let times: Vec<u64> = line.split_whitespace().take(8).map_while(|time| time.parse().ok()).collect();
    Some(SystemTicks { all: times.iter().sum(), stolen: *times.get(7)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn times(ran: u64, queued: u64) -> RunTimes {
        RunTimes { ran, queued }
    }

    #[test]
    fn the_kernels_lines_are_read_and_shorter_ones_are_none() {
        assert_eq!(run_times("893522418 870940344 17\n"), Some(times(893_522_418, 870_940_344)));
        assert_eq!([run_times(""), run_times("5"), run_times("a b c")], [None; 3]);
        let ticks = system_ticks("cpu  10 1 5 100 2 0 1 4 9 9\ncpu0 1 1 1 1 1 1 1 1 1 1\n");
        assert_eq!(ticks, Some(SystemTicks { all: 123, stolen: 4 }));
        assert_eq!([system_ticks("cpu 1 2 3"), system_ticks("intr 1")], [None; 2]);
    }

    fn working(all: &ThreadTimes) -> u64 {
        all.values()[0]
    }

    #[test]
    fn threads_that_hardly_run_are_not_part_of_the_work() {
        let mut all = ThreadTimes { look: 1, ..ThreadTimes::default() };
        all.add(1, 1, times(1_000, 0));
        all.add(1, 2, times(20, 0));
        all.add(1, 3, times(0, 0));
        assert_eq!(all.values()[..3], [1, 1_000, 1_000]);
        all.add(1, 2, times(21, 0));
        assert_eq!(all.values()[..3], [2, 1_021, 1_000]);
        // A process has threads of its own.
        all.add(9, 9, times(3, 0));
        assert_eq!(working(&all), 2);
        all.add(9, 9, times(5_000, 0));
        assert_eq!(all.values()[..3], [1, 5_000, 5_000]);
    }

    #[test]
    fn threads_that_follow_each_other_are_not_threads_at_once() {
        let mut all = ThreadTimes::default();
        for tid in 1..=5 {
            all.look += 1;
            all.add(1, tid, times(100, 0));
        }
        assert_eq!(working(&all), 1);
        (all.look, all.threads.get_mut(&5).unwrap().first_look) = (9, 4);
        assert_eq!(working(&all), 2);
    }

    #[test]
    fn time_in_a_break_is_left_out() {
        let mut all = ThreadTimes::default();
        all.take_break();
        all.add(1, 1, times(10, 1));
        all.look = 1;
        all.add(1, 1, times(30, 4));
        all.take_break();
        all.add(1, 1, times(1_000, 1_000));
        all.add(1, 2, times(9_000, 9_000));
        all.is_after_break = false;
        all.add(1, 1, times(1_001, 1_002));
        assert_eq!((all.ran_ns, all.queued_ns), (31, 6));
        assert_eq!(all.values()[..3], [1, 31, 31]);
    }

    #[test]
    fn without_a_thread_all_counts_are_none() {
        assert_eq!(ThreadTimes::default().values(), [0; 7]);
    }

    #[test]
    fn a_look_at_this_process_sees_threads_that_work() {
        let mut all = ThreadTimes::default();
        all.look(std::process::id());
        let [working, ..] = all.values();
        if std::path::Path::new("/proc/self/schedstat").exists() {
            assert!(working >= 1, "{all:?}");
        }
    }
}

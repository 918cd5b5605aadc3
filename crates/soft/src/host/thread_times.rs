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
    pub const NAMES: [&'static str; 5] = [
        "working_threads",
        "sampled_cpu_time",
        "sampled_queue_time",
        "sampled_system_ticks",
        "sampled_stolen_ticks",
    ];

    /// The counts in order: threads, ns, ns, ticks, ticks.
    pub fn values(&self) -> [u64; 5] {
        let [first, last] = self.system.unwrap_or_default();
        [
            self.working_threads(),
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

    /// Leaves out what happens up to the next look.
    pub fn take_break(&mut self) {
        self.is_after_break = true;
    }

    fn add(&mut self, pid: u32, tid: u32, times: RunTimes) {
        let (look, has_room) = (self.look, self.threads.len() < MOST_THREADS);
        match self.threads.get_mut(&tid).filter(|seen| seen.pid == pid) {
            Some(seen) => {
                if !self.is_after_break {
                    self.ran_ns += times.ran.saturating_sub(seen.times.ran);
                    self.queued_ns += times.queued.saturating_sub(seen.times.queued);
                }
                (seen.times, seen.last_look) = (times, look);
            }
            None if has_room => {
                self.threads.insert(tid, SeenThread { pid, first_look: look, last_look: look, times });
            }
            None => {}
        }
    }

    /// The most threads of one process that existed at a time and did a part of its work.
    fn working_threads(&self) -> u64 {
        let mut busiest: HashMap<u32, u64> = HashMap::new();
        for thread in self.threads.values() {
            let most = busiest.entry(thread.pid).or_default();
            *most = (*most).max(thread.times.ran);
        }
        let is_working =
            |thread: &&SeenThread| thread.times.ran >= 1 + busiest[&thread.pid] / WORKING_PART;
        let working: Vec<&SeenThread> = self.threads.values().filter(is_working).collect();
        // The number is largest at a look at which one of them appears.
        let at_once = |thread: &&SeenThread| {
            let at = thread.first_look;
            let is_there = |other: &&&SeenThread| {
                other.pid == thread.pid && (other.first_look..=other.last_look).contains(&at)
            };
            working.iter().filter(is_there).count() as u64
        };
        working.iter().map(at_once).max().unwrap_or(0)
    }
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

    #[test]
    fn threads_that_hardly_run_are_not_part_of_the_work() {
        let mut all = ThreadTimes { look: 1, ..ThreadTimes::default() };
        all.add(1, 1, times(1_000, 0));
        all.add(1, 2, times(19, 0));
        all.add(1, 3, times(0, 0));
        assert_eq!(all.working_threads(), 1);
        all.add(1, 2, times(21, 0));
        assert_eq!(all.working_threads(), 2);
        // A process has threads of its own.
        all.add(9, 9, times(3, 0));
        assert_eq!(all.working_threads(), 2);
    }

    #[test]
    fn threads_that_follow_each_other_are_not_threads_at_once() {
        let mut all = ThreadTimes::default();
        for tid in 1..=5 {
            all.look += 1;
            all.add(1, tid, times(100, 0));
        }
        assert_eq!(all.working_threads(), 1);
        (all.look, all.threads.get_mut(&5).unwrap().first_look) = (9, 4);
        assert_eq!(all.working_threads(), 2);
    }

    #[test]
    fn time_in_a_break_is_left_out() {
        let mut all = ThreadTimes::default();
        all.add(1, 1, times(10, 1));
        all.add(1, 1, times(30, 4));
        all.take_break();
        all.add(1, 1, times(1_000, 1_000));
        all.is_after_break = false;
        all.add(1, 1, times(1_001, 1_002));
        assert_eq!((all.ran_ns, all.queued_ns), (21, 5));
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

//! Changes of code by a process: the flush in progress, and the cost of all of them.

use std::time::{Duration, Instant};

/// A flush in progress: for a change of code by a process with several threads, or for a retranslation of a
/// process with one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CacheFlush {
    /// The thread that makes the change, or the only one.
    pub(super) by: u32,
    /// All other threads are suspended, and the call was started.
    pub(super) called: bool,
    /// The thread has a system call to make first.
    pub(super) pending: bool,
    /// The code does not change: the flush is a retranslation.
    pub(super) retranslates: bool,
}

/// The cost of replacing the translation of a process because its code changes.
///
/// Each flush translates the executed code again: some milliseconds for a small program, a second for a large
/// one. Unloading a library changes code now and then; a compiler at run time may do it all the time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CodeChangeCost {
    begin: Instant,
    /// CPU time of the tracer for the process since the first change.
    cost: Duration,
    /// That time at the last change.
    pub(super) before: Option<Duration>,
}

/// The allowed cost in the life of a process: a fixed time, and a part of its elapsed time.
const AT_ONCE: Duration = Duration::from_secs(5);
const OF_ITS_TIME: u32 = 4;

/// The least cost of a change: the kernel's part and the mappings are not measured.
const AT_LEAST: Duration = Duration::from_millis(1);

impl CodeChangeCost {
    pub(super) fn new(now: Instant) -> CodeChangeCost {
        CodeChangeCost { begin: now, cost: Duration::ZERO, before: None }
    }

    /// Whether the translation may be replaced once more. `work` is the CPU time of the tracer for the
    /// process.
    pub(super) fn allow(&mut self, now: Instant, work: Duration) -> bool {
        let since = self.before.map_or(Duration::ZERO, |before| work.saturating_sub(before));
        self.before = Some(work);
        self.cost += since.max(AT_LEAST);
        self.cost <= AT_ONCE + now.saturating_duration_since(self.begin) / OF_ITS_TIME
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_changes_cost_no_more_than_their_share() {
        let start = Instant::now();
        let times = |cost: Duration, own: Duration| {
            let mut changes = CodeChangeCost::new(start);
            let each = cost + own;
            // It was translated for the first time before.
            (0..10_000).take_while(|i| changes.allow(start + each * *i, AT_ONCE + cost * *i)).count() as u32
        };
        let (rare, second) = (Duration::from_millis(100), Duration::from_secs(1));
        assert_eq!(times(rare, 4 * rare), 10_000, "a fifth of its time is what it may cost");
        assert_eq!(times(second, Duration::ZERO), 7, "6 s are as many as 5 and a quarter of 6");
        assert!((50..100).contains(&times(rare, Duration::ZERO)));
        let nothing = times(Duration::ZERO, Duration::ZERO);
        assert_eq!(nothing, AT_ONCE.div_duration_f64(AT_LEAST) as u32, "it costs something in any case");
    }
}

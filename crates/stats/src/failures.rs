//! Runs that failed and count all the same: with `-i`, or in a file of another time.

use std::fmt;

use cyclometer_core::Report;
use cyclometer_core::exec::ExitStatus;

/// The failure of a run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RunFailure {
    /// The run ended with this status, which is not 0.
    Status(i32),
    /// A signal ended the run.
    Signal(i32),
    /// The run has no known status.
    Unknown,
}

impl RunFailure {
    /// The failure that an exit status stands for; `None` for a success.
    pub fn of(exit: ExitStatus) -> Option<RunFailure> {
        match exit {
            ExitStatus::Code(0) => None,
            ExitStatus::Code(code) => Some(RunFailure::Status(code)),
            ExitStatus::Signal(signal) => Some(RunFailure::Signal(signal)),
        }
    }
}

impl fmt::Display for RunFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunFailure::Status(code) => write!(f, "exit status {code}"),
            RunFailure::Signal(signal) => write!(f, "signal {signal}"),
            RunFailure::Unknown => f.write_str("an unknown status"),
        }
    }
}

/// The number of runs, and the failures among them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Failures {
    runs: usize,
    /// Each kind of failure with the number of its runs, the most frequent first.
    kinds: Vec<(RunFailure, usize)>,
}

impl Failures {
    /// Counts the failures of those runs of a report that enter its statistics.
    pub fn of(report: &Report) -> Failures {
        let kept = report.runs.iter().filter(|run| run.dropped_because.is_none());
        Failures::among(kept.map(|run| run.exit.and_then(RunFailure::of)))
    }

    /// Counts failures over runs; each has its failure, or `None` for a run that succeeded.
    pub fn among(runs: impl IntoIterator<Item = Option<RunFailure>>) -> Failures {
        let mut failures = Failures::default();
        for failure in runs {
            failures.runs += 1;
            let Some(failure) = failure else { continue };
            match failures.kinds.iter_mut().find(|(kind, _)| *kind == failure) {
                Some((_, times)) => *times += 1,
                None => failures.kinds.push((failure, 1)),
            }
        }
        failures.kinds.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
        failures
    }

    /// How many runs failed.
    pub fn count(&self) -> usize {
        self.kinds.iter().map(|(_, times)| times).sum()
    }

    /// `3 of 5 runs failed`; `None` where none did.
    pub fn summary(&self) -> Option<String> {
        Some(match (self.count(), self.runs) {
            (0, _) => return None,
            (1, 1) => "the run failed".to_owned(),
            (2, 2) => "both runs failed".to_owned(),
            (failed, runs) if failed == runs => format!("all {runs} runs failed"),
            (failed, runs) => format!("{failed} of {runs} runs failed"),
        })
    }

    /// The same with the kinds: `3 of 5 runs failed (2 with exit status 2, 1 with signal 9)`.
    pub fn text(&self) -> Option<String> {
        let kind = |(kind, times): &(RunFailure, usize)| match self.kinds.len() {
            1 => kind.to_string(),
            _ => format!("{times} with {kind}"),
        };
        let kinds: Vec<String> = self.kinds.iter().map(kind).collect();
        self.summary().map(|summary| format!("{summary} ({})", kinds.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(exits: &[ExitStatus]) -> Option<String> {
        Failures::among(exits.iter().map(|exit| RunFailure::of(*exit))).text()
    }

    #[test]
    fn failures_are_counted_by_kind_the_most_frequent_first() {
        use ExitStatus::{Code, Signal};
        assert_eq!(text(&[]), None);
        assert_eq!(text(&[Code(0), Code(0)]), None);
        assert_eq!(text(&[Code(7)]).unwrap(), "the run failed (exit status 7)");
        assert_eq!(text(&[Code(2), Code(2)]).unwrap(), "both runs failed (exit status 2)");
        assert_eq!(
            text(&[Signal(9), Code(1), Code(0), Code(1)]).unwrap(),
            "3 of 4 runs failed (2 with exit status 1, 1 with signal 9)"
        );
    }
}

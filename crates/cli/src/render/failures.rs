//! Runs that failed and count all the same: with `-i`, or in a file of another time.

use cyclometer::core::exec::ExitStatus;
use cyclometer::core::report::Report;

/// How many of some runs failed, and how.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Failures {
    runs: usize,
    /// Each kind of failure with the number of its runs, the most frequent first.
    ways: Vec<(String, usize)>,
}

impl Failures {
    /// Counts the failures of those runs of a report that enter its statistics.
    pub fn of(report: &Report) -> Failures {
        let kept = report.runs.iter().filter(|run| run.dropped_because.is_none());
        Failures::among(kept.map(|run| run.exit.and_then(way)))
    }

    /// Counts failures over runs; each has its kind of failure, or `None` for a run that succeeded.
    pub fn among(ends: impl IntoIterator<Item = Option<String>>) -> Failures {
        let mut failures = Failures::default();
        for end in ends {
            failures.runs += 1;
            let Some(end) = end else { continue };
            match failures.ways.iter_mut().find(|(way, _)| *way == end) {
                Some((_, times)) => *times += 1,
                None => failures.ways.push((end, 1)),
            }
        }
        failures.ways.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
        failures
    }

    /// How many runs failed.
    pub fn count(&self) -> usize {
        self.ways.iter().map(|(_, times)| times).sum()
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

    /// The same with the ways: `3 of 5 runs failed (2 with exit status 2, 1 with signal 9)`.
    pub fn text(&self) -> Option<String> {
        let way = |(way, times): &(String, usize)| match self.ways.len() {
            1 => way.clone(),
            _ => format!("{times} with {way}"),
        };
        let ways: Vec<String> = self.ways.iter().map(way).collect();
        self.summary().map(|summary| format!("{summary} ({})", ways.join(", ")))
    }
}

/// How a run failed; `None` where it did not.
pub fn way(exit: ExitStatus) -> Option<String> {
    match exit {
        ExitStatus::Code(0) => None,
        ExitStatus::Code(code) => Some(format!("exit status {code}")),
        ExitStatus::Signal(signal) => Some(format!("signal {signal}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(ends: &[ExitStatus]) -> Option<String> {
        Failures::among(ends.iter().map(|end| way(*end))).text()
    }

    #[test]
    fn failures_are_counted_with_their_ways_the_most_frequent_first() {
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

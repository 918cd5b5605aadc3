//! Times of events, in ns: enabled, and on a counter.

/// A difference of two times that has no meaning: the kernel's time between them, or a share of the time.
#[derive(Clone, Copy)]
pub(crate) struct Slack {
    /// The difference that any time may have, in ns.
    pub(crate) least_ns: u64,
    /// The difference that grows with the time: one part in this many.
    pub(crate) divisor: u64,
}

impl Slack {
    /// Whether an event was on a counter for all of the time that it was enabled.
    pub(crate) fn is_whole(self, running_ns: u64, enabled_ns: u64) -> bool {
        self.covers(enabled_ns.saturating_sub(running_ns), enabled_ns)
    }

    /// Whether a difference to this time has no meaning.
    pub(crate) fn covers(self, difference_ns: u64, time_ns: u64) -> bool {
        difference_ns <= self.least_ns.max(time_ns / self.divisor)
    }
}

/// The sum of times.
pub(crate) fn total(times_ns: impl Iterator<Item = u64>) -> u64 {
    times_ns.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slack_is_a_least_time_or_a_share_of_the_time() {
        let slack = Slack { least_ns: 1_000, divisor: 100 };
        for (running_ns, enabled_ns, is_whole) in [
            (0, 0, true),
            (0, 1_000, true),
            (0, 1_001, false),
            (990_000, 1_000_000, true),
            (989_999, 1_000_000, false),
            (2_000_000, 1_000_000, true),
            (u64::MAX, u64::MAX, true),
        ] {
            assert_eq!(slack.is_whole(running_ns, enabled_ns), is_whole, "{running_ns} of {enabled_ns}");
        }
    }
}

//! Limits on descriptors and series.

use std::collections::BTreeMap;

/// Descriptors that are open besides counters and connections: streams, the listener, files of `/proc`.
const OWN_DESCRIPTORS: usize = 24;

/// The number of descriptors for counters, of those that the process may open. Connections get a part of
/// them.
pub fn descriptors_for_counters(open_files: usize, connections: usize) -> usize {
    let reserve = OWN_DESCRIPTORS + connections.min(open_files / 4);
    open_files.saturating_sub(reserve)
}

/// The number of connections that fit beside the counters.
pub fn connections(open_files: usize, wanted: usize) -> usize {
    wanted.min(open_files / 4).max(1)
}

/// Why a target is not counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DropReason {
    /// Its counters would take more descriptors than are allowed.
    Descriptors,
    /// Its series would be more than are allowed.
    Series,
    /// It vanished before its counters were open.
    Vanished,
    /// Its counters could not be opened.
    Refused,
    /// Another target has the same labels.
    SameLabels,
}

impl DropReason {
    /// All reasons.
    pub const ALL: [DropReason; 5] = [
        DropReason::Descriptors,
        DropReason::Series,
        DropReason::Vanished,
        DropReason::Refused,
        DropReason::SameLabels,
    ];

    /// The word in a label.
    pub fn word(self) -> &'static str {
        match self {
            DropReason::Descriptors => "descriptors",
            DropReason::Series => "series",
            DropReason::Vanished => "vanished",
            DropReason::Refused => "refused",
            DropReason::SameLabels => "same_labels",
        }
    }
}

/// The resources that a target takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TargetNeed {
    /// Open counters.
    pub descriptors: usize,
    /// Series.
    pub series: usize,
}

/// The resources that may be used, those in use, and the number of targets that were dropped.
#[derive(Clone, Debug)]
pub struct Budget {
    /// The limits.
    pub most: TargetNeed,
    /// The resources in use.
    pub used: TargetNeed,
    dropped: BTreeMap<DropReason, u64>,
}

impl Budget {
    /// A budget of which nothing is used.
    pub fn new(most: TargetNeed) -> Budget {
        Budget { most, used: TargetNeed::default(), dropped: BTreeMap::new() }
    }

    /// The reason why there is no room; `None` if there is.
    pub fn refuses(&self, need: TargetNeed) -> Option<DropReason> {
        if self.used.descriptors + need.descriptors > self.most.descriptors {
            return Some(DropReason::Descriptors);
        }
        (self.used.series + need.series > self.most.series).then_some(DropReason::Series)
    }

    /// Takes room.
    pub fn take(&mut self, need: TargetNeed) {
        self.used.descriptors += need.descriptors;
        self.used.series += need.series;
    }

    /// Gives room back.
    pub fn give_back(&mut self, need: TargetNeed) {
        self.used.descriptors = self.used.descriptors.saturating_sub(need.descriptors);
        self.used.series = self.used.series.saturating_sub(need.series);
    }

    /// Counts a target that was dropped.
    pub fn drop_one(&mut self, reason: DropReason) {
        *self.dropped.entry(reason).or_default() += 1;
    }

    /// How many targets were dropped so far for a reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped.get(&reason).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_leave_descriptors_to_connections() {
        assert_eq!(descriptors_for_counters(64, 1024), 24);
        assert_eq!(connections(64, 1024), 16);
        assert_eq!(descriptors_for_counters(100_000, 1024), 98_952);
        assert_eq!(connections(100_000, 1024), 1024);
        assert_eq!((descriptors_for_counters(8, 4), connections(2, 4)), (0, 1));
    }

    #[test]
    fn room_is_taken_and_given_back() {
        let need = |descriptors, series| TargetNeed { descriptors, series };
        let mut budget = Budget::new(need(10, 6));
        assert_eq!(budget.refuses(need(10, 6)), None);
        budget.take(need(8, 3));
        assert_eq!(budget.refuses(need(3, 1)), Some(DropReason::Descriptors));
        assert_eq!(budget.refuses(need(2, 4)), Some(DropReason::Series));
        budget.give_back(need(8, 3));
        assert_eq!((budget.used, budget.refuses(need(10, 6))), (TargetNeed::default(), None));
        budget.drop_one(DropReason::Series);
        assert_eq!((budget.dropped(DropReason::Series), budget.dropped(DropReason::Refused)), (1, 0));
    }
}

//! Ranges that may lie inside others, made disjoint.

use std::ops::Range;

/// The disjoint parts of ranges, ascending, each with the index of its range: an address belongs to the
/// innermost one. The ranges are in the order of their starts; of those with one start the outer ones are
/// first.
pub(crate) fn innermost(all: impl IntoIterator<Item = Range<u64>>) -> Vec<(Range<u64>, u32)> {
    let mut parts = InnermostParts::default();
    for (index, range) in (0..).zip(all) {
        parts.close(range.start);
        parts.open.push((range.end, index));
    }
    parts.close(u64::MAX);
    parts.ranges
}

/// The index of the range with an address, among disjoint ascending ranges.
pub(crate) fn at(ranges: &[(Range<u64>, u32)], address: u64) -> Option<u32> {
    let index = ranges.partition_point(|(range, _)| range.start <= address);
    let (range, of) = ranges.get(index.checked_sub(1)?)?;
    range.contains(&address).then_some(*of)
}

#[derive(Default)]
struct InnermostParts {
    ranges: Vec<(Range<u64>, u32)>,
    /// The ends and indices of the ranges around an address, the innermost last.
    open: Vec<(u64, u32)>,
    at: u64,
}

impl InnermostParts {
    /// Adds the parts below an address.
    fn close(&mut self, until: u64) {
        while let Some((last, index)) = self.open.last().copied() {
            let end = last.min(until);
            if self.at < end {
                self.ranges.push((self.at..end, index));
                self.at = end;
            }
            if last > until {
                break;
            }
            self.open.pop();
        }
        self.at = self.at.max(until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_the_innermost_range() {
        let ranges = innermost([10..40, 20..30, 40..50, 90..95]);
        assert_eq!(ranges, [(10..20, 0), (20..30, 1), (30..40, 0), (40..50, 2), (90..95, 3)]);
        let found = [9, 10, 25, 39, 50, 94, 95].map(|address| at(&ranges, address));
        assert_eq!(found, [None, Some(0), Some(1), Some(0), None, Some(3), None]);
    }

    #[test]
    fn of_ranges_with_one_start_the_last_is_the_innermost() {
        assert_eq!(innermost([10..40, 10..20]), [(10..20, 1), (20..40, 0)]);
    }

    #[test]
    fn ranges_that_overlap_or_are_empty_leave_no_gap_and_no_overlap() {
        let ranges = innermost([0..25, 10..40, 15..15, 20..22]);
        assert_eq!(ranges, [(0..10, 0), (10..15, 1), (15..20, 1), (20..22, 3), (22..40, 1)]);
    }
}

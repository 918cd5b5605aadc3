//! Reads with two words of memory in place of the CPU's counter and time stamp. They show the cost of the
//! protocol itself, and how code that uses it behaves without a PMU.

use std::sync::atomic::{AtomicU64, Ordering};

use super::page::{Content, Counters, Page, PageValues, Permit, capabilities};

/// A page of an event that is on a counter, and the counter.
#[derive(Debug)]
pub struct Rehearsal {
    page: Page,
    cpu: Words,
}

#[derive(Debug, Default)]
struct Words {
    counter: AtomicU64,
    stamp: AtomicU64,
}

impl Counters for Words {
    #[inline]
    fn counter(&self, _: Permit) -> u64 {
        self.counter.load(Ordering::Relaxed)
    }

    #[inline]
    fn time_stamp(&self) -> u64 {
        self.stamp.load(Ordering::Relaxed)
    }
}

impl Default for Rehearsal {
    fn default() -> Rehearsal {
        Rehearsal::new()
    }
}

impl Rehearsal {
    /// A counter of 48 bits at 0, with a time stamp of 1 GHz.
    pub fn new() -> Rehearsal {
        let content = Content {
            index: 1,
            capabilities: capabilities::READ | capabilities::TIME,
            pmc_width: 48,
            time_mult: 1,
            ..Content::default()
        };
        Rehearsal { page: Page::new(&content), cpu: Words::default() }
    }

    /// Adds events and ns to the counter and the time stamp.
    pub fn count(&self, events: u64, ns: u64) {
        self.cpu.counter.fetch_add(events, Ordering::Relaxed);
        self.cpu.stamp.fetch_add(ns, Ordering::Relaxed);
    }

    /// The page, for changing its content.
    pub fn page(&self) -> &Page {
        &self.page
    }

    /// Reads as [`Mapping::read`](super::Mapping::read) does.
    #[inline(never)]
    pub fn read(&self) -> Option<PageValues> {
        self.page.read(&self.cpu)
    }

    /// Reads as [`Mapping::value`](super::Mapping::value) does.
    #[inline(never)]
    pub fn value(&self) -> Option<u64> {
        self.page.value(&self.cpu)
    }

    /// Reads the value `times` times; returns the sum.
    pub fn values(&self, times: u32) -> u64 {
        (0..times).fold(0, |sum, _| sum.wrapping_add(self.value().unwrap_or_default()))
    }

    /// Reads the value and the times `times` times; returns the sum of the values.
    pub fn reads(&self, times: u32) -> u64 {
        (0..times).fold(0, |sum, _| sum.wrapping_add(self.read().unwrap_or_default().value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rehearsal_counts_what_it_is_told() {
        let rehearsal = Rehearsal::new();
        rehearsal.count(5, 100);
        rehearsal.count(2, 10);
        let values = rehearsal.read().unwrap();
        assert_eq!((values.value, values.time_enabled_ns, values.time_running_ns), (7, 110, 110));
        assert_eq!((rehearsal.values(3), rehearsal.reads(2)), (21, 14));
    }
}

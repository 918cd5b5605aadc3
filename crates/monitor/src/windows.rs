//! Sampling of counters that the kernel reprograms: they are counted in short windows, for as long as the
//! kernel preserves them.
//!
//! Where the kernel writes its own values to the registers of counters, the counts between two samples are
//! always lost. Only a window shorter than the kernel's interval survives. At each sample, the counters are
//! opened, count for a window, and are read, checked and closed. A lost window makes the next ones shorter,
//! and windows that held make them longer. The sums cover a part of the time, and their times show which
//! part.

use std::time::{Duration, Instant};

use cyclometer_core::exec::Raw;
use cyclometer_core::{Rung, Slot, Source, Target};

/// The initial length where the configuration sets no limit.
///
/// # Source
///
/// On M3 and M4, values in PMCR0 were observed to last about 100 µs (`Trouble::RewriteControl` of the
/// simulated chips).
const USUAL: Duration = Duration::from_micros(100);

/// The shortest window: in a shorter one, the code around it would make up most of the count.
const SHORTEST: Duration = Duration::from_micros(2);

/// Number of consecutive windows that must hold before the length is doubled.
const IN_A_ROW: u32 = 16;

/// Number of attempts for one sample.
const ATTEMPTS: u32 = 6;

/// Statistics of counters that were sampled in short windows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShortWindows {
    /// The source.
    pub rung: Rung,
    /// Number of windows that were tried since sampling began.
    pub tried: u64,
    /// Number of windows that held.
    pub held: u64,
    /// The length of the next one, in ns.
    pub length_ns: u64,
}

impl ShortWindows {
    /// The share of windows that held, 0 to 1; `None` before the first one.
    pub fn share(&self) -> Option<f64> {
        (self.tried > 0).then(|| self.held as f64 / self.tried as f64)
    }
}

/// Whether the kernel may write to the registers of this source's counters, whatever process uses them.
pub(crate) fn may_be_short(rung: Rung) -> bool {
    rung == Rung::Sysreg
}

/// The lengths of windows.
#[derive(Clone, Copy, Debug)]
struct Lengths {
    now: Duration,
    longest: Duration,
    in_a_row: u32,
}

impl Lengths {
    fn new(longest: Option<Duration>, interval: Duration) -> Lengths {
        let longest = longest.unwrap_or(USUAL).min(interval / 2).max(SHORTEST);
        Lengths { now: longest, longest, in_a_row: 0 }
    }

    fn held(&mut self) {
        self.in_a_row += 1;
        if self.in_a_row >= IN_A_ROW {
            (self.now, self.in_a_row) = ((self.now * 2).min(self.longest), 0);
        }
    }

    fn lost(&mut self) {
        (self.now, self.in_a_row) = ((self.now / 2).max(SHORTEST), 0);
    }
}

/// The counters of one source, which are open within windows only.
pub(crate) struct Windowed {
    rung: Rung,
    slots: Vec<Slot>,
    target: Target,
    lengths: Lengths,
    /// The start of sampling, in the source's time. All the time since then is enabled time.
    since: Instant,
    sums: Vec<Raw>,
    tried: u64,
    held: u64,
}

/// The counters, and the greatest length of a window.
pub(crate) struct WindowInput<'a> {
    pub(crate) source: &'a dyn Source,
    pub(crate) slots: Vec<Slot>,
    pub(crate) target: &'a Target,
    pub(crate) longest: Option<Duration>,
    pub(crate) interval: Duration,
    /// The start of sampling, in the source's time.
    pub(crate) since: Instant,
}

impl Windowed {
    /// The sums continue from these values. Counts that were lost between them and now are time that passed
    /// without counting.
    pub(crate) fn new(of: WindowInput<'_>, sums: Vec<Raw>) -> Windowed {
        Windowed {
            rung: of.source.rung(),
            slots: of.slots,
            target: of.target.clone(),
            lengths: Lengths::new(of.longest, of.interval),
            since: of.since,
            sums,
            tried: 0,
            held: 0,
        }
    }

    /// The statistics so far.
    pub(crate) fn told(&self) -> ShortWindows {
        let length_ns = nanos(self.lengths.now);
        ShortWindows { rung: self.rung, tried: self.tried, held: self.held, length_ns }
    }

    /// Appends the sums after one more window, which is tried again when it is lost. If no window holds, the
    /// values of this sample are lost.
    pub(crate) fn sample(&mut self, source: &dyn Source, out: &mut Vec<Raw>) {
        let counted = (0..ATTEMPTS).find_map(|_| self.attempt(source));
        let enabled_ns = nanos(now_of(source).saturating_duration_since(self.since));
        for sum in &mut self.sums {
            sum.time_enabled_ns = enabled_ns;
        }
        match counted {
            None => out.extend(self.sums.iter().map(|_| Raw::LOST)),
            Some(counted) => {
                for (sum, (value, ns)) in self.sums.iter_mut().zip(counted) {
                    sum.value = sum.value.saturating_add(value);
                    sum.time_running_ns = sum.time_running_ns.saturating_add(ns);
                    sum.time_enabled_ns = sum.time_enabled_ns.max(sum.time_running_ns);
                }
                out.extend_from_slice(&self.sums);
            }
        }
    }

    fn attempt(&mut self, source: &dyn Source) -> Option<Vec<(u64, u64)>> {
        self.tried += 1;
        let counted = self.window(source).filter(|counted| counted.len() == self.sums.len());
        match counted {
            Some(_) => {
                self.held += 1;
                self.lengths.held();
            }
            None => self.lengths.lost(),
        }
        counted
    }

    /// The counts and times of each counter in one window; `None` where one of them was reprogrammed.
    fn window(&self, source: &dyn Source) -> Option<Vec<(u64, u64)>> {
        let mut counting = source.open(&self.slots, &self.target).ok()?;
        counting.start().ok()?;
        let (mut before, mut after) = (Vec::new(), Vec::new());
        counting.sample(&mut before).ok()?;
        pass(source, self.lengths.now);
        counting.sample(&mut after).ok()?;
        let counted = |(start, end): (&Raw, &Raw)| {
            let value = end.value.checked_sub(start.value)?;
            let ns = end.time_running_ns.checked_sub(start.time_running_ns)?;
            (!start.is_lost && !end.is_lost).then_some((value, ns))
        };
        before.iter().zip(&after).map(counted).collect()
    }
}

/// The time on the clock by which a source counts.
pub(crate) fn now_of(source: &dyn Source) -> Instant {
    source.clock().map_or_else(Instant::now, |clock| clock.now())
}

/// Lets time pass without sleeping, because another thread would be counted during a sleep.
fn pass(source: &dyn Source, time: Duration) {
    if let Some(clock) = source.clock() {
        return clock.pass(time);
    }
    let began = Instant::now();
    while began.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    #[test]
    fn windows_that_are_lost_make_shorter_ones_and_those_that_hold_longer_ones() {
        let mut lengths = Lengths::new(None, Duration::from_millis(10));
        assert_eq!(lengths.now, 100 * US);
        lengths.lost();
        lengths.lost();
        assert_eq!(lengths.now, 25 * US);
        (0..15).for_each(|_| lengths.held());
        assert_eq!(lengths.now, 25 * US);
        lengths.held();
        assert_eq!(lengths.now, 50 * US);
        lengths.lost();
        (0..320).for_each(|_| lengths.held());
        assert_eq!(lengths.now, 100 * US, "and never longer than they may be");
        (0..50).for_each(|_| lengths.lost());
        assert_eq!(lengths.now, SHORTEST);
    }

    #[test]
    fn a_window_takes_half_of_the_time_between_samples_at_most() {
        assert_eq!(Lengths::new(Some(1000 * US), 300 * US).now, 150 * US);
        assert_eq!(Lengths::new(Some(50 * US), 300 * US).now, 50 * US);
    }
}

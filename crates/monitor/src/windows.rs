//! Sampling counters that do not stay ours for long: in short windows, as long as the kernel leaves them.
//!
//! Where the kernel writes its own values over the registers of counters, what is counted from one sample to the next is lost each time.
//! What lasts is a window that is shorter than the kernel's patience. So at each sample the counters are opened, let count for a
//! window, read, looked at, and given back; windows that were lost make the next ones shorter, and those that held longer. The
//! sums are of a part of the time, and their times say of which.

use std::time::{Duration, Instant};

use cyclometer_core::exec::Raw;
use cyclometer_core::{Rung, Slot, Source, Target};

/// The length to begin with where nobody says.
///
/// # Source
///
/// On M3 and M4 values in PMCR0 were seen to last about 100 µs (`Trouble::RewriteControl` of the simulated chips).
const USUAL: Duration = Duration::from_micros(100);

/// Windows are never shorter: what stands around them would be most of what they count.
const SHORTEST: Duration = Duration::from_micros(2);

/// So many windows that hold one after the other make the next ones twice as long.
const IN_A_ROW: u32 = 16;

/// How often a window is tried again for one sample.
const ATTEMPTS: u32 = 6;

/// How counters were sampled that do not stay as they were programmed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShortWindows {
    /// Which source it is of.
    pub rung: Rung,
    /// How many windows were tried since sampling began.
    pub tried: u64,
    /// How many of them held.
    pub held: u64,
    /// How long the next one will be, in ns.
    pub length_ns: u64,
}

impl ShortWindows {
    /// The share of windows that held, 0 to 1; `None` before there was any.
    pub fn share(&self) -> Option<f64> {
        (self.tried > 0).then(|| self.held as f64 / self.tried as f64)
    }
}

/// Whether the kernel may write to the registers of this source's counters as well, whoever uses them.
pub(crate) fn may_be_short(rung: Rung) -> bool {
    rung == Rung::Sysreg
}

/// How long windows are.
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
    /// The point in the source's time at which sampling began: all the time since is enabled time.
    since: Instant,
    sums: Vec<Raw>,
    tried: u64,
    held: u64,
}

/// Which counters, and for how long at most.
pub(crate) struct Subject<'a> {
    pub(crate) source: &'a dyn Source,
    pub(crate) slots: Vec<Slot>,
    pub(crate) target: &'a Target,
    pub(crate) longest: Option<Duration>,
    pub(crate) interval: Duration,
    /// When sampling began, in the source's time.
    pub(crate) since: Instant,
}

impl Windowed {
    /// Sums go on from these values. What was lost between them and now is time that passed without being counted.
    pub(crate) fn new(of: Subject<'_>, sums: Vec<Raw>) -> Windowed {
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

    /// What came of it so far.
    pub(crate) fn told(&self) -> ShortWindows {
        let length_ns = nanos(self.lengths.now);
        ShortWindows { rung: self.rung, tried: self.tried, held: self.held, length_ns }
    }

    /// Appends the sums after one more window, which is tried again when it is lost; where none holds they are lost this time.
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

    /// What each counter counted in one window, and for how long; `None` where one of them did not stay ours.
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

/// The time by which a source counts.
pub(crate) fn now_of(source: &dyn Source) -> Instant {
    source.clock().map_or_else(Instant::now, |clock| clock.now())
}

/// Lets it pass, without sleeping: another thread would be counted.
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

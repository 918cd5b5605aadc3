//! A lower bound of the working set, from lines that windows touch again.
//!
//! # Problem
//!
//! A window is too short to fill a cache: each line that it touches for the first time may be a hit or a
//! miss. A program that walks through more memory than the cache holds touches other lines in each window; a
//! program with a small working set touches the same lines again and again.
//!
//! # Method
//!
//! Windows come in *bursts*: some windows with a short native run between them. Lines that exactly one window
//! of a burst touches, and those that exactly two touch, give a lower bound of the number of lines that are
//! in use at that time (capture and recapture). Lines in three windows and more are known to be in use, and
//! tell nothing about the others. Some lines are in use more often than others, which makes the bound lower.
//!
//! Two windows of a walk in a fixed order have many lines in common, or none: a *clump*. The number of clumps
//! is bounded instead of the number of lines, so that windows that miss each other by chance prove little.
//!
//! # Source
//!
//! Chao, "Estimating the Population Size for Capture-Recapture Data with Unequal Catchability", Biometrics
//! 1987, the lower bound for incidences. Upper limits of a Poisson mean at 95 %: Garwood, Biometrika 1936.

use std::collections::{BTreeMap, HashMap};

/// Lines of one process, window by window.
#[derive(Debug, Default)]
pub(super) struct WorkingSet {
    /// The lines of this window, and whether the first touch of each was irregular.
    window: HashMap<u64, bool>,
    /// The lines of the windows of this burst.
    burst: HashMap<u64, LineHistory>,
    windows: u32,
    reuse: LineReuse,
}

/// The windows of a burst that touched a line.
#[derive(Clone, Copy, Default, Debug)]
struct LineHistory {
    windows: u32,
    first: u32,
    second: u32,
    is_irregular: bool,
}

/// Numbers of lines that were touched again, over all bursts.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
struct LineReuse {
    /// Windows.
    windows: u32,
    /// Lines in one window of their burst.
    once: u64,
    /// Lines in two windows of their burst.
    twice: u64,
    /// Pairs of windows with such lines.
    pairs: u64,
    /// The sum of the squares of their numbers of lines.
    squares: f64,
    /// Lines in two windows that a working set of one line would have.
    chances: f64,
}

/// The fewest windows of a burst that say something.
const LEAST_WINDOWS: u32 = 3;

/// Pairs of windows from which on their numbers of common lines show the size of a clump.
const ENOUGH_PAIRS: u64 = 8;

impl WorkingSet {
    /// Notes a touch of a line. The first one of the window counts.
    pub(super) fn touch(&mut self, line: u64, is_irregular: bool) {
        self.window.entry(line).or_insert(is_irregular);
    }

    /// Whether this window has touched a line.
    pub(super) fn has_touched(&self, line: u64) -> bool {
        self.window.contains_key(&line)
    }

    /// Ends a window.
    pub(super) fn end_window(&mut self) {
        if self.window.is_empty() {
            return;
        }
        for (line, is_irregular) in self.window.drain() {
            let history = self.burst.entry(line).or_default();
            match history.windows {
                0 => history.first = self.windows,
                1 => history.second = self.windows,
                _ => {}
            }
            history.windows += 1;
            history.is_irregular |= is_irregular;
        }
        self.windows += 1;
    }

    /// Ends a burst: what runs afterwards may use other lines.
    pub(super) fn end_burst(&mut self) {
        let windows = std::mem::take(&mut self.windows);
        let lines = std::mem::take(&mut self.burst);
        if windows < LEAST_WINDOWS {
            return;
        }
        let (mut once, mut pairs) = (0, BTreeMap::<(u32, u32), u64>::new());
        for line in lines.into_values().filter(|line| line.is_irregular) {
            match line.windows {
                1 => once += 1,
                2 => *pairs.entry((line.first, line.second)).or_default() += 1,
                _ => {}
            }
        }
        let reuse = &mut self.reuse;
        reuse.windows += windows;
        reuse.once += once;
        reuse.twice += pairs.values().sum::<u64>();
        reuse.pairs += pairs.len() as u64;
        reuse.squares += pairs.values().map(|common| (*common as f64).powi(2)).sum::<f64>();
        reuse.chances += (once as f64).powi(2) * f64::from(windows - 1) / f64::from(2 * windows);
    }

    /// The lines that only one window of their burst touched, irregularly.
    pub(super) fn touched_once(&self) -> u64 {
        self.reuse.once
    }

    /// The fewest lines that the program uses at a time, at a confidence of about 95 %; 0 without evidence.
    pub(super) fn least_lines(&self) -> f64 {
        let LineReuse { windows, once, twice, pairs, squares, chances } = self.reuse;
        if once == 0 {
            return 0.0;
        }
        let (twice, of_a_walk) = (twice as f64, once as f64 / f64::from(windows) / 2.0);
        let seen = if twice > 0.0 { squares / twice } else { 1.0 };
        let clump = if pairs >= ENOUGH_PAIRS { seen } else { seen.max(of_a_walk) }.max(1.0);
        chances / (clump * most_expected(twice / clump))
    }
}

/// An upper limit at 95 % for the mean of a Poisson distribution of which so many were seen: at least the
/// exact one.
fn most_expected(seen: f64) -> f64 {
    seen + 3.0 + 2.0 * seen.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bursts of windows in which a program touches lines.
    fn bound(mut line: impl FnMut(u64, u64, u64) -> u64) -> f64 {
        let mut set = WorkingSet::default();
        for burst in 0..5 {
            for window in 0..8 {
                (0..400).for_each(|touch| set.touch(line(burst, window, touch), true));
                set.end_window();
            }
            set.end_burst();
        }
        set.least_lines()
    }

    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *state >> 33
    }

    #[test]
    fn the_bound_is_below_a_random_working_set_and_not_far() {
        for lines in [8_000, 16_000, 100_000, 1_000_000] {
            let mut state = lines;
            let bound = bound(|_, _, _| random(&mut state) % lines);
            let lines = lines as f64;
            assert!(bound < lines * 1.05 && bound > (lines / 2.0).min(30_000.0), "{bound} of {lines}");
        }
    }

    #[test]
    fn the_bound_of_a_walk_in_a_fixed_order_is_below_its_length() {
        for lines in [1_000, 5_000, 16_000] {
            for seed in 0..20 {
                let mut state = seed;
                let mut start = 0;
                let bound = bound(|_, _, touch| {
                    if touch == 0 {
                        start = random(&mut state);
                    }
                    (start + touch) % lines
                });
                assert!(bound < lines as f64 * 1.3, "{bound} of {lines}, seed {seed}");
            }
        }
    }

    #[test]
    fn a_walk_without_an_end_has_a_large_bound() {
        assert!(bound(|burst, window, touch| (burst * 8 + window) * 400 + touch) > 30_000.0);
    }

    #[test]
    fn small_working_sets_that_change_between_bursts_are_small() {
        let mut state = 5;
        let bound = bound(|burst, _, _| burst * 1_000_000 + random(&mut state) % 3_000);
        assert!(bound < 3_000.0, "{bound}");
    }

    #[test]
    fn lines_that_all_windows_use_tell_nothing() {
        assert_eq!(bound(|_, _, touch| touch), 0.0);
        let (with, without) = (
            bound(|burst, window, touch| match touch % 2 {
                0 => touch,
                _ => 1_000 + (burst * 8 + window) * 400 + touch,
            }),
            bound(|burst, window, touch| 1_000 + (burst * 8 + window) * 400 + touch / 2),
        );
        assert!((with / without - 1.0).abs() < 0.01, "{with} {without}");
    }

    #[test]
    fn a_single_window_is_no_evidence() {
        let mut set = WorkingSet::default();
        (0..1_000).for_each(|line| set.touch(line, true));
        set.end_window();
        set.end_burst();
        assert_eq!((set.least_lines(), set.touched_once()), (0.0, 0));
    }
}

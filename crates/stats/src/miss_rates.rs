//! Rates of modelled misses, from windows of a run.

use crate::rotation::quantile::t_95;

/// Windows that an interval needs at least.
pub const LEAST_WINDOWS: usize = 5;

/// A window: how many accesses missed, and how many may have.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RateWindow {
    /// The native time that it stands for, in any unit.
    pub weight: f64,
    /// Its instructions, more than 0.
    pub instructions: f64,
    /// Known misses.
    pub known: f64,
    /// Accesses that may have been misses.
    pub unknown: f64,
}

/// An interval of a rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RateInterval {
    /// Its low end, at least 0.
    pub low: f64,
    /// Its high end.
    pub high: f64,
}

impl RateInterval {
    /// Its middle.
    pub fn middle(self) -> f64 {
        f64::midpoint(self.low, self.high)
    }

    /// Half its width.
    pub fn half_width(self) -> f64 {
        (self.high - self.low) / 2.0
    }
}

/// The interval of the rate of misses per instruction over the whole run: the low end is that of a run in
/// which no unknown access missed, the high end that of one in which all of them did, each with its 95 %
/// interval over the windows. `None` for fewer than [`LEAST_WINDOWS`] windows.
///
/// # Source
///
/// W. G. Cochran, "Sampling Techniques", 3rd edition, 6.4: the variance of a ratio.
pub fn miss_rate(windows: &[RateWindow]) -> Option<RateInterval> {
    if windows.len() < LEAST_WINDOWS {
        return None;
    }
    let (low, low_error) = ratio(windows, |window| window.known)?;
    let (high, high_error) = ratio(windows, |window| window.known + window.unknown)?;
    Some(RateInterval { low: (low - low_error).max(0.0), high: high + high_error })
}

/// A weighted mean of the windows' rates, and half the width of its interval.
fn ratio(windows: &[RateWindow], misses: impl Fn(&RateWindow) -> f64) -> Option<(f64, f64)> {
    let weights: f64 = windows.iter().map(|window| window.weight).sum();
    if weights <= 0.0 {
        return None;
    }
    let rate = |window: &RateWindow| misses(window) / window.instructions;
    let mean = windows.iter().map(|window| window.weight * rate(window)).sum::<f64>() / weights;
    let squares: f64 = windows.iter().map(|window| (window.weight * (rate(window) - mean)).powi(2)).sum();
    let count = windows.len() as f64;
    let error = (squares * count / (count - 1.0)).sqrt() / weights;
    Some((mean, t_95(count - 1.0) * error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows(misses: &[(f64, f64)]) -> Vec<RateWindow> {
        let one = |(known, unknown): &(f64, f64)| RateWindow {
            weight: 2.0,
            instructions: 1000.0,
            known: *known,
            unknown: *unknown,
        };
        misses.iter().map(one).collect()
    }

    #[test]
    fn unknown_accesses_and_windows_that_differ_widen_an_interval() {
        let steady = miss_rate(&windows(&[(10.0, 0.0); 6])).unwrap();
        assert!((steady.low - 0.01).abs() < 1e-12 && steady.half_width() < 1e-12, "{steady:?}");
        let unknown = miss_rate(&windows(&[(10.0, 4.0); 6])).unwrap();
        assert!((unknown.low - 0.01).abs() < 1e-12 && (unknown.high - 0.014).abs() < 1e-12);
        assert!((unknown.middle() - 0.012).abs() < 1e-12);
        let differ = [(0.0, 0.0), (20.0, 0.0), (0.0, 0.0), (20.0, 0.0), (0.0, 0.0), (20.0, 0.0)];
        let differ = miss_rate(&windows(&differ)).unwrap();
        assert!(differ.low < 0.001 && differ.high > 0.019, "{differ:?}");
    }

    #[test]
    fn an_interval_covers_the_rate_that_windows_were_drawn_from() {
        let mut seed = 12345_u64;
        let mut draw = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as f64 / (1_u64 << 31) as f64
        };
        let covered = (0..1000).filter(|_| {
            let drawn: Vec<(f64, f64)> = (0..12).map(|_| (100.0 * draw(), 0.0)).collect();
            let interval = miss_rate(&windows(&drawn)).unwrap();
            (interval.low..=interval.high).contains(&0.05)
        });
        let covered = covered.count();
        assert!((920..=980).contains(&covered), "{covered}");
    }

    #[test]
    fn few_windows_have_no_interval() {
        assert_eq!(miss_rate(&windows(&[(10.0, 0.0); 4])), None);
        assert_eq!(miss_rate(&[]), None);
    }
}

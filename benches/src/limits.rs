//! Measured times and their limits.

use anyhow::{Result, bail};

/// Seconds.
pub(crate) const NS: f64 = 1e-9;
/// Seconds.
pub(crate) const US: f64 = 1e-6;
/// Seconds.
pub(crate) const MS: f64 = 1e-3;

/// A number of seconds in a unit, or a number without one.
pub(crate) fn shown(value: f64, unit: &str) -> String {
    match unit {
        "ns" => format!("{:.0} ns", value / NS),
        "µs" => format!("{:.1} µs", value / US),
        "ms" => format!("{:.2} ms", value / MS),
        _ => format!("{value:.2}"),
    }
}

/// The limits that were exceeded.
#[derive(Default)]
pub(crate) struct BrokenLimits {
    broken: Vec<String>,
}

impl BrokenLimits {
    /// Prints a row and records a value above its limit, or one that is no number.
    pub(crate) fn at_most(&mut self, what: &str, value: f64, limit: f64, unit: &str) {
        self.add(what, [value, limit], "at most", value <= limit, unit);
    }

    /// Prints a row and records a value below its limit, or one that is no number.
    pub(crate) fn at_least(&mut self, what: &str, value: f64, limit: f64, unit: &str) {
        self.add(what, [value, limit], "at least", value >= limit, unit);
    }

    fn add(&mut self, what: &str, numbers: [f64; 2], how: &str, holds: bool, unit: &str) {
        let [value, limit] = numbers.map(|number| shown(number, unit));
        println!("| {what} | {value} | {limit} |");
        self.must(holds, &format!("{what}: {value}, {how} {limit}"));
    }

    /// Records a condition, in words, if it does not hold.
    pub(crate) fn must(&mut self, holds: bool, what: &str) {
        if !holds {
            self.broken.push(what.to_owned());
        }
    }

    /// # Errors
    ///
    /// The limits that were exceeded.
    pub(crate) fn judge(self) -> Result<()> {
        match self.broken.is_empty() {
            true => Ok(()),
            false => bail!("a limit does not hold\n  {}", self.broken.join("\n  ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_does_not_hold_is_an_error() {
        let mut limits = BrokenLimits::default();
        limits.at_most("a", 1.0, 2.0, "");
        limits.at_least("a", 2.0, 2.0, "");
        limits.must(true, "b");
        assert!(limits.judge().is_ok());
        let mut limits = BrokenLimits::default();
        limits.at_most("a", 3.0, 2.0, "");
        limits.must(false, "c");
        limits.at_least("d", 1.0, 2.0, "");
        limits.at_least("e", f64::NAN, 2.0, "");
        let said = limits.judge().unwrap_err().to_string();
        assert!(said.contains("a: 3.00, at most 2.00\n  c\n  d: 1.00, at least 2.00\n  e: NaN"), "{said}");
    }
}

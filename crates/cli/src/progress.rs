//! The progress bar: on a terminal, for sessions that take their time.

use std::time::{Duration, Instant};

use crate::output;
use crate::render::units;
use cyclometer::core::Unit;

/// Shorter sessions show no bar.
const PATIENCE: Duration = Duration::from_millis(500);

/// Columns of the bar itself.
const BAR: u32 = 20;

/// Tells how many runs are done and how long the rest will take.
#[derive(Debug)]
pub struct Progress {
    total: u32,
    begun: Instant,
    shown: bool,
    enabled: bool,
}

impl Progress {
    /// For `total` executions, warm-ups included; nothing is ever shown unless `enabled`.
    pub fn new(total: u32, enabled: bool) -> Progress {
        Progress { total, begun: Instant::now(), shown: false, enabled }
    }

    /// Says that another execution begins after `done` ones.
    pub fn advance(&mut self, done: u32) {
        let elapsed = self.begun.elapsed();
        if self.enabled && elapsed >= PATIENCE {
            output::tell(&format!("\r\x1b[K{}", line(done, self.total, elapsed)));
            self.shown = true;
        }
    }

    /// Takes the bar away again.
    pub fn clear(&mut self) {
        if self.shown {
            output::tell("\r\x1b[K");
            self.shown = false;
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn line(done: u32, total: u32, elapsed: Duration) -> String {
    let filled = u64::from(BAR) * u64::from(done) / u64::from(total.max(1));
    let filled = usize::try_from(filled).unwrap_or_default();
    let bar = "█".repeat(filled) + &"░".repeat((BAR as usize).saturating_sub(filled));
    let left = match done {
        0 => String::new(),
        _ => {
            let per_run_ns = elapsed.as_nanos() as f64 / f64::from(done);
            let left_ns = per_run_ns * f64::from(total.saturating_sub(done));
            format!(", about {} left", units::short(left_ns, &Unit::Nanoseconds))
        }
    };
    format!("{bar} {done} of {total} runs{left}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_estimated_from_what_was_done() {
        assert_eq!(line(0, 4, Duration::from_secs(1)), "░░░░░░░░░░░░░░░░░░░░ 0 of 4 runs");
        assert_eq!(line(1, 4, Duration::from_secs(2)), "█████░░░░░░░░░░░░░░░ 1 of 4 runs, about 6.00 s left");
    }

    #[test]
    fn a_disabled_bar_is_never_shown() {
        let mut progress = Progress::new(3, false);
        progress.begun = Instant::now().checked_sub(Duration::from_secs(9)).unwrap();
        progress.advance(1);
        assert!(!progress.shown);
    }
}

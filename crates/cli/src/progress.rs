//! Drawings that a terminal shows in place: a bar for sessions that take their time, and the counts of the
//! last interval.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::render::interval::IntervalValues;
use crate::render::live::LiveTable;

/// Shorter sessions show no bar.
const PATIENCE: Duration = Duration::from_millis(500);

/// How the bar looks, in indicatif's notation.
const LOOK: &str = "{bar:20} {pos} of {len} runs, about {eta} left";

const LOOK_OF_CODES: &str = "{bar:20} {pos} of {len} codes, about {eta} left";

/// Shows how many runs are done and how long the rest will take.
///
/// It is drawn between runs only: a thread that ticks would disturb the measurement.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    begun: Instant,
    enabled: bool,
}

impl Progress {
    /// For `total` executions, warm-ups included; shows progress only if `enabled`.
    pub fn new(total: u32, enabled: bool) -> Progress {
        Progress::of(total, LOOK, enabled)
    }

    /// For a sweep over `total` codes.
    pub fn of_codes(total: u32, enabled: bool) -> Progress {
        Progress::of(total, LOOK_OF_CODES, enabled)
    }

    fn of(total: u32, look: &str, enabled: bool) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(total.into()), ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template(look).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏░"));
        Progress { bar, begun: Instant::now(), enabled }
    }

    /// Says that another execution begins after `done` ones.
    pub fn advance(&mut self, done: u32) {
        if self.enabled && self.bar.is_hidden() && self.begun.elapsed() >= PATIENCE {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(done.into());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The width where the terminal does not tell one, in columns.
const USUAL_WIDTH: usize = 80;

/// The counts of the last interval, drawn over those of the interval before.
#[derive(Debug)]
pub struct LiveView {
    bar: ProgressBar,
    table: LiveTable,
}

impl LiveView {
    /// An empty view on standard error.
    pub fn new() -> LiveView {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_style(
            ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()),
        );
        LiveView { bar, table: LiveTable::default() }
    }

    /// Draws the next interval.
    pub fn show(&mut self, interval: IntervalValues) {
        self.table.add(interval);
        let terminal = terminal_size::terminal_size_of(std::io::stderr());
        let width = terminal.map_or(USUAL_WIDTH, |(width, _)| usize::from(width.0));
        self.bar.set_message(self.table.text(width).trim_end().to_owned());
    }
}

impl Drop for LiveView {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

//! Progress callbacks.

use cyclometer_core::code::CodeCounts;
use cyclometer_core::exec::Reading;
use cyclometer_core::report::{FallbackStep, Run, Slice};
use cyclometer_core::window::RowBatch;
use cyclometer_core::{Plan, Result};

/// Hears of the session's progress; every method may be left out.
pub trait Observer {
    /// The plan before the first run.
    fn planned(&mut self, plan: &Plan) {
        let _ = plan;
    }

    /// An execution is about to start.
    fn run_started(&mut self, index: u32, warmup: bool) {
        let _ = (index, warmup);
    }

    /// An interval passed.
    fn interval(&mut self, moment: &Moment<'_>, plan: &Plan) {
        let _ = (moment, plan);
    }

    /// Rows of windows, in the order in which their threads made them.
    fn windows(&mut self, batch: &RowBatch, plan: &Plan) {
        let _ = (batch, plan);
    }

    /// Notes of the source on what the windows contain, after their last row.
    fn window_notes(&mut self, notes: Vec<String>) {
        let _ = notes;
    }

    /// The counts of each instruction of a measured execution, where they were requested, or why they are
    /// missing.
    fn code(&mut self, counts: Result<CodeCounts>) {
        let _ = counts;
    }

    /// A measured execution ended.
    fn run_finished(&mut self, run: &Run, plan: &Plan) {
        let _ = (run, plan);
    }

    /// A step of recovery was taken.
    fn step(&mut self, step: &FallbackStep) {
        let _ = step;
    }
}

/// The state of a run at some moment.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// Time since its start, in ns.
    pub elapsed_ns: u64,
    /// Its pass.
    pub pass: usize,
    /// The raw values since its start.
    pub reading: &'a Reading,
    /// Where events rotate: every rotation group that has ended, since its start.
    pub slices: &'a [Slice],
}

/// An observer that does nothing.
pub struct Quiet;

impl Observer for Quiet {}

//! Who is told what happens while it happens.

use cyclometer_core::Plan;
use cyclometer_core::exec::Reading;
use cyclometer_core::report::{Run, Step};

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

    /// An interval passed: `reading` holds the raw values since the run's start.
    fn interval(&mut self, elapsed_ns: u64, reading: &Reading, plan: &Plan) {
        let _ = (elapsed_ns, reading, plan);
    }

    /// A measured execution ended.
    fn run_finished(&mut self, run: &Run, plan: &Plan) {
        let _ = (run, plan);
    }

    /// A step of recovery was taken.
    fn step(&mut self, step: &Step) {
        let _ = step;
    }
}

/// An observer that does nothing.
pub struct Quiet;

impl Observer for Quiet {}

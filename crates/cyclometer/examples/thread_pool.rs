//! What does each thread of a pool do? One monitor for all: each worker counts its own jobs, and a label is
//! the sum.
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::fmt::Write as _;
use std::sync::Mutex;

use cyclometer::Monitor;

const WORKERS: usize = 3;
const JOBS: u32 = 24;

/// Prints the report.
pub fn main() -> cyclometer::Result<()> {
    print!("{}", report()?);
    Ok(())
}

/// The jobs of each worker, and of all.
pub fn report() -> cyclometer::Result<String> {
    let monitor = Monitor::builder().event("instructions,task-clock,context-switches").build()?;
    let jobs = Mutex::new(0..JOBS);
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| work(&monitor, &jobs));
        }
    });
    let mut text = String::new();
    for region in monitor.regions_by_thread() {
        let _ = write!(text, "{region}");
    }
    if let Some(all) = monitor.total("job") {
        let _ = write!(text, "{all}");
    }
    Ok(text)
}

fn work(monitor: &Monitor, jobs: &Mutex<std::ops::Range<u32>>) {
    loop {
        let next = jobs.lock().ok().and_then(|mut jobs| jobs.next());
        let Some(job) = next else { return };
        let _region = monitor.region("job");
        std::hint::black_box(
            (0..u64::from(job + 1) * 5_000).fold(0u64, |sum, i| sum ^ std::hint::black_box(i)),
        );
    }
}

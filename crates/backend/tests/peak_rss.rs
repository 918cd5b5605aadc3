//! Peak resident set. One test, as it is about the size of the whole process.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{command, run};
use cyclometer_backend::Launcher;

#[test]
fn the_peak_of_a_command_is_its_own_and_not_ours() {
    let launcher = Launcher::start().unwrap();
    let ballast = vec![std::hint::black_box(1u8); 200 << 20];
    let usage = run(&launcher, &command("true", &[])).usage.unwrap();
    assert!(usage.peak_rss_bytes < 4 << 20, "{usage:?}");
    assert!(usage.peak_rss_bytes > 100 << 10, "{usage:?}");
    assert_eq!(ballast.iter().step_by(4096).map(|byte| u64::from(*byte)).sum::<u64>(), 51_200);
}

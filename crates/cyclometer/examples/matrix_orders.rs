//! Which order of loops misses the cache? The same sum over a matrix, row by row and column by column.
//!
//! Without a PMU the misses are not counted, and the example says so; the times show the difference all the
//! same.
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::fmt::Write as _;

use cyclometer::Monitor;

/// Rows and columns: 8 MB of numbers, more than a second-level cache.
const SIZE: usize = 1024;

/// Prints the report.
pub fn main() -> cyclometer::Result<()> {
    print!("{}", report()?);
    Ok(())
}

/// Both orders, measured.
pub fn report() -> cyclometer::Result<String> {
    let matrix: Vec<u64> = (0..SIZE * SIZE).map(|i| i as u64).collect();
    let monitor = Monitor::builder().event("l1d_cache_misses,l1d_cache_loads,task-clock").build()?;
    let rows = monitor.measure("row by row", || sum(&matrix, |i, j| i * SIZE + j));
    let columns = monitor.measure("column by column", || sum(&matrix, |i, j| j * SIZE + i));
    assert_eq!(rows, columns, "the order changes nothing but the time");
    let mut text = String::new();
    for region in monitor.regions() {
        let _ = write!(text, "{region}");
        if let Some(rate) = region.ratio("l1d_cache_misses", "l1d_cache_loads") {
            let _ = writeln!(text, "  {:.1} % of the loads miss", 100.0 * rate);
        }
    }
    Ok(text)
}

fn sum(matrix: &[u64], index: impl Fn(usize, usize) -> usize) -> u64 {
    let all = (0..SIZE).flat_map(|i| (0..SIZE).map(move |j| (i, j)));
    all.fold(0, |sum, (i, j)| sum.wrapping_add(std::hint::black_box(matrix[index(i, j)])))
}

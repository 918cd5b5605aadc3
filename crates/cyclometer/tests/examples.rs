//! The examples run here, and print their counts or the reason why there are none.
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]
#![allow(dead_code, reason = "the examples' main functions print what their reports say")]

#[path = "../examples/ipc_of_a_loop.rs"]
mod ipc_of_a_loop;
#[path = "../examples/matrix_orders.rs"]
mod matrix_orders;
#[path = "../examples/overflow_windows.rs"]
mod overflow_windows;
#[path = "../examples/sorted_branches.rs"]
mod sorted_branches;
#[path = "../examples/thread_pool.rs"]
mod thread_pool;

/// Whether hardware events are counted here.
fn has_pmu() -> bool {
    cyclometer::machine().ladder.perf_hardware.is_ok()
}

/// Every line about this event is a number, or says that it was not counted and why.
fn is_honest(text: &str, event: &str) {
    let lines: Vec<&str> = text.lines().filter(|line| line.contains(event)).collect();
    assert!(!lines.is_empty(), "{event} is missing:\n{text}");
    for line in lines {
        let told = ["not supported (", "not counted (", "lost ("].iter().any(|state| line.contains(state));
        assert!(told || has_pmu(), "{line}");
        assert!(!line.ends_with(": 0"), "{line}");
    }
}

#[test]
fn the_loops_have_an_ipc_or_a_reason() {
    let text = ipc_of_a_loop::report().unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    assert_eq!(text.matches(" instructions a cycle; ").count(), if has_pmu() { 2 } else { 0 }, "{text}");
    if !has_pmu() {
        is_honest(&text, "cycles:u");
    }
    assert!(text.contains("task-clock: "), "{text}");
}

#[test]
fn both_orders_of_a_matrix_are_measured() {
    let text = matrix_orders::report().unwrap();
    assert!(text.contains("row by row, 1 region:") && text.contains("column by column, 1 region:"), "{text}");
    is_honest(&text, "l1d_cache_misses");
}

#[test]
fn branches_are_measured_in_both_orders() {
    let text = sorted_branches::report().unwrap();
    assert!(text.contains("unsorted, 1 region:\n") && text.contains("sorted, 1 region:\n"), "{text}");
    is_honest(&text, "branch-misses");
}

#[test]
fn each_worker_of_a_pool_is_told_apart() {
    let text = thread_pool::report().unwrap();
    assert!(text.contains("job in thread ") && text.contains("\njob, 24 regions:\n"), "{text}");
    is_honest(&text, "instructions");
}

#[test]
fn a_window_follows_the_other_until_the_program_ends() {
    let text = overflow_windows::report().unwrap();
    let page = include_str!("../../../docs/tutorial/4-windows.md");
    assert!(page.contains(&text), "docs/tutorial/4-windows.md shows something else than\n{text}");
    let rows: Vec<Vec<&str>> = text.lines().skip(2).map(|row| row.split_whitespace().collect()).collect();
    let counts = |column: usize| rows.iter().map(move |row| row[column].parse::<u64>().unwrap());
    // Boundaries are at multiples of the period, but for the lateness of one interrupt.
    let twelve: u64 = counts(1).take(12).sum();
    assert!((12 * 512_000..12 * 512_000 + 300).contains(&twelve), "{twelve}");
    // The workload's phases: 900,000 cycles at 3 instructions, 5,000,000 at 0.4, 2,000,000 at 0.9, to the
    // last one.
    assert!((6_499_998..=6_500_000).contains(&counts(1).sum::<u64>()), "{text}");
    assert_eq!(counts(2).sum::<u64>(), 7_900_000);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

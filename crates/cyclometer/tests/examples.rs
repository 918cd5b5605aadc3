//! The examples run here, and print their counts or the reason why there are none.
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]
#![allow(dead_code, reason = "the examples' main functions print what their reports say")]

#[path = "../examples/ipc_of_a_loop.rs"]
mod ipc_of_a_loop;
#[path = "../examples/matrix_orders.rs"]
mod matrix_orders;
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

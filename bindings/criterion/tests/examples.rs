//! The example without a framework runs here, and prints the cost of each round or the reason why it was not
//! counted.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]
#![allow(dead_code, reason = "the example's main function prints what its report says")]

#[path = "../examples/plain_loop.rs"]
mod plain_loop;

#[test]
fn the_plain_loop_says_what_each_round_cost() {
    let text = plain_loop::report().unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let named = |event: &str| *lines.iter().find(|line| line.starts_with(event)).unwrap();
    assert_eq!(lines.len(), 4, "{text}");
    for event in ["instructions", "cycles"] {
        let line = named(event);
        assert!(line.ends_with(" for each round") || line.contains(": not counted ("), "{line}");
        assert!(!line.contains(": 0.000 "), "a silent zero: {line}");
    }
    let clock = named("task-clock");
    if let Some((_, rest)) = clock.split_once(": ") {
        let number: f64 = rest.split(' ').next().unwrap().parse().unwrap();
        assert!(number > 0.0, "{clock}");
    }
}

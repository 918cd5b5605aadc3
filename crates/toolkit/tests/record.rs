//! Recordings of the façade on simulated machines.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[allow(dead_code, reason = "the example's main function prints what its report says")]
#[path = "../examples/overflow_windows.rs"]
mod overflow_windows;

use std::num::NonZeroU64;
use std::time::Duration;

use cyclometer_toolkit::core::exec::CommandSpec;
use cyclometer_toolkit::core::window::{WindowCause, WindowRow, WindowSpec};
use cyclometer_toolkit::core::{Count, ErrorKind, Plan};
use cyclometer_toolkit::simulated::Misery;
use cyclometer_toolkit::{
    Launcher, Leader, RecordRun, Recorded, RecordedColumn, RecordingSink, Result, Simulated, Stat,
};

/// Rows as they come.
#[derive(Default)]
struct Rows {
    names: Vec<String>,
    rows: Vec<WindowRow>,
    lost: u64,
    batches: usize,
}

impl RecordingSink for Rows {
    fn begin(&mut self, columns: &[RecordedColumn], _: &WindowSpec, _: &Plan) -> Result<()> {
        self.names = columns.iter().map(|column| column.name.clone()).collect();
        Ok(())
    }

    fn rows(&mut self, rows: &[WindowRow], lost: u64) -> Result<()> {
        self.rows.extend(rows.iter().cloned());
        self.lost += lost;
        self.batches += 1;
        Ok(())
    }
}

impl Rows {
    fn sum(&self, column: usize) -> Option<u64> {
        self.rows.iter().map(|row| row.counts[column].value()).sum()
    }

    fn at(&self, boundary: usize) -> Vec<&WindowRow> {
        self.rows.iter().filter(|row| row.cause == WindowCause::Boundary(boundary)).collect()
    }
}

fn stat(machine: Simulated, events: &str, workload: &str) -> Stat {
    Stat::simulated(machine).events(events).unwrap().command(CommandSpec::new(workload))
}

fn machine(name: &str) -> Simulated {
    Simulated::find(name).unwrap().with_seed(7)
}

fn leader(event: &str, period: u64) -> Leader {
    Leader { event: event.to_owned(), period: NonZeroU64::new(period).unwrap() }
}

fn recorded(run: &RecordRun) -> (Recorded, Rows) {
    let mut rows = Rows::default();
    let recorded = run.run(&Launcher::start().unwrap(), &mut rows).unwrap();
    (recorded, rows)
}

const EVENTS: &str = "instructions,cycles,branches,branch-misses";

#[test]
fn the_rows_of_a_simulated_workload_add_up_to_its_totals() {
    for name in ["sim:skylake", "sim:apple-m1", "sim:amdzen4", "sim:neoverse-n1"] {
        let stat = stat(machine(name), EVENTS, "phases:100");
        let (recorded, rows) = recorded(&RecordRun::every(stat, leader("instructions", 500_000)));
        assert_eq!((recorded.lost_rows, recorded.rows), (0, rows.rows.len() as u64), "{name}");
        assert_eq!(recorded.totals.len(), 4, "{name}: {:?}", recorded.without_column);
        for (column, total) in recorded.totals.iter().enumerate() {
            assert!(matches!(total, Count::Exact(1..)), "{name}: {total:?}");
            assert_eq!(rows.sum(column), total.value(), "{name} {}", rows.names[column]);
        }
        // Rows are taken out while the workload runs, on its own clock.
        assert!(rows.batches > 5, "{name}: {} batches", rows.batches);
        let end = rows.rows.iter().filter(|row| row.cause == WindowCause::End).count();
        assert_eq!(end, 1, "{name}");
    }
}

#[test]
fn windows_of_phases_differ_in_their_rates() {
    for name in ["sim:skylake", "sim:apple-m1"] {
        let stat = stat(machine(name), EVENTS, "phases:100");
        let (_, rows) = recorded(&RecordRun::every(stat, leader("instructions", 100_000)));
        let rate = |row: &&WindowRow| {
            let value = |column: usize| row.counts[column].value().unwrap() as f64;
            value(0) / value(1)
        };
        let rates: Vec<f64> = rows.at(0).iter().map(rate).collect();
        let near = |rate: f64| rates.iter().filter(|found| (**found - rate).abs() < rate / 10.0).count();
        // The instructions per cycle of computing, missing and mispredicting.
        for phase in [3.0, 0.4, 0.9] {
            assert!(near(phase) > 10, "{name}: {} rows near {phase}", near(phase));
        }
    }
}

#[test]
fn windows_end_at_each_of_several_events() {
    let stat = stat(machine("sim:icelake"), EVENTS, "phases:100");
    let run = RecordRun::every(stat, leader("instructions", 1_000_000)).also(leader("branch-misses", 5_000));
    let (recorded, rows) = recorded(&run);
    assert!(rows.at(0).len() > 20 && rows.at(1).len() > 20, "{} {}", rows.at(0).len(), rows.at(1).len());
    for (column, total) in recorded.totals.iter().enumerate() {
        assert_eq!(rows.sum(column), total.value(), "{}", rows.names[column]);
    }
}

#[test]
fn a_total_of_windows_is_that_of_the_same_run_without_them() {
    for name in ["sim:skylake", "sim:apple-m1"] {
        let stat = || stat(machine(name), "instructions:u,branches:u", "phases:50");
        let (recorded, _) = recorded(&RecordRun::every(stat(), leader("instructions:u", 300_000)));
        let (whole, _) = self::recorded(&RecordRun::interval(stat(), Duration::from_millis(10)));
        assert_eq!(recorded.totals, whole.totals, "{name}");
    }
}

#[test]
fn counters_that_are_taken_away_are_lost_in_rows_and_totals_with_the_reason() {
    for (name, misery) in [("sim:skylake", Misery::Steal), ("sim:apple-m1", Misery::Rewrite)] {
        let stat = stat(machine(name).with(misery), EVENTS, "phases:100");
        let (recorded, rows) = recorded(&RecordRun::every(stat, leader("instructions", 100_000)));
        let lost = |count: &Count| matches!(count, Count::Lost { reason } if !reason.to_string().is_empty());
        assert!(recorded.totals.iter().any(lost), "{name}: {:?}", recorded.totals);
        assert!(rows.rows.iter().flat_map(|row| &row.counts).any(lost), "{name}");
        for (column, total) in recorded.totals.iter().enumerate() {
            match total.value() {
                Some(total) => assert_eq!(rows.sum(column), Some(total), "{name}"),
                None => assert_eq!(rows.sum(column), None, "{name}"),
            }
        }
    }
}

#[test]
fn rows_of_intervals_add_up_also_where_counters_wrap_between_them() {
    // 32 bits: an interval is longer than the longest pause between two reads.
    for (name, every_ms) in [("sim:neoverse-n1", 400), ("sim:skylake", 7)] {
        let stat = stat(machine(name), EVENTS, "loop:1000");
        let (recorded, rows) = recorded(&RecordRun::interval(stat, Duration::from_millis(every_ms)));
        assert_eq!(rows.rows.last().unwrap().cause, WindowCause::End, "{name}");
        let expected = recorded.report.runs[0].wall_ns.div_ceil(every_ms * 1_000_000);
        assert_eq!(rows.rows.len() as u64, expected, "{name}");
        for (column, total) in recorded.totals.iter().enumerate() {
            assert!(total.value().is_some(), "{name}: {total:?}");
            assert_eq!(rows.sum(column), total.value(), "{name} {}", rows.names[column]);
        }
    }
}

#[test]
fn a_period_that_no_counter_holds_is_an_error_that_names_the_event() {
    let stat = stat(machine("sim:skylake"), EVENTS, "loop");
    let run = RecordRun::every(stat, leader("instructions", 1 << 60));
    let error = run.run(&Launcher::start().unwrap(), &mut Rows::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("instructions"), "{error}");
}

#[test]
fn events_that_do_not_fit_at_once_have_no_windows() {
    let many = "instructions,cycles,branches,branch-misses,cache-references,cache-misses,\
                mem_inst_retired.all_loads,mem_inst_retired.all_stores";
    let stat = stat(machine("sim:skylake"), many, "loop");
    let run = RecordRun::every(stat, leader("instructions", 100_000));
    let error = run.run(&Launcher::start().unwrap(), &mut Rows::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EventUnsupported);
    assert!(error.to_string().contains("fit"), "{error}");
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

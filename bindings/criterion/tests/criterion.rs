//! Criterion measures events that this machine has.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

use std::time::Duration;

use criterion::Criterion;
use cyclometer::ErrorKind;
use cyclometer_criterion::Events;

/// Criterion with short times; it writes its files into the folder.
fn criterion(events: &Events, folder: &std::path::Path) -> Criterion<Events> {
    Criterion::default()
        .with_measurement(events.clone())
        .without_plots()
        .output_directory(folder)
        .warm_up_time(Duration::from_millis(5))
        .measurement_time(Duration::from_millis(20))
        .sample_size(10)
}

/// Some work whose result is used.
fn work() -> u64 {
    (0..std::hint::black_box(20_000_u64)).map(|i| i ^ (i >> 3)).sum()
}

/// Causes about ten page faults.
fn touch() {
    let memory = vec![1_u8; 400 * 1024];
    std::hint::black_box(&memory);
    std::mem::forget(memory);
}

/// The mean that Criterion computed.
fn mean(folder: &std::path::Path, benchmark: &str) -> f64 {
    let file = folder.join(benchmark).join("new/estimates.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let (_, rest) = text.split_once("\"mean\":").unwrap();
    let (_, rest) = rest.split_once("\"point_estimate\":").unwrap();
    rest.split([',', '}']).next().unwrap().parse().unwrap()
}

#[test]
fn an_event_is_measured_and_others_are_counted_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let events = Events::of("page-faults").unwrap().beside("task-clock,instructions").unwrap();
    let mut criterion = criterion(&events, folder.path());
    let mut group = criterion.benchmark_group("memory");
    events.bench(&mut group, "touch", touch);
    group.finish();
    let report = events.report();
    assert!(report.names().eq(["touch"]));
    assert!(report.iterations("touch").unwrap() >= 10);
    let faults = report.per_iteration("touch", "page-faults").unwrap();
    assert!((50.0..150.0).contains(&faults), "100 pages were touched: {faults}");
    let measured = mean(folder.path(), "memory/touch");
    assert!((50.0..150.0).contains(&measured), "Criterion took the page faults: {measured}");
    assert!(report.per_iteration("touch", "task-clock").unwrap() > 0.0);
    let instructions = &report.events("touch").unwrap()[2];
    match instructions.sum {
        Some(sum) => assert!(sum > 1000.0),
        None => {
            assert!(!instructions.reason.as_ref().unwrap().is_empty());
            assert!(report.to_string().contains("not counted  instructions:u ("), "{report}");
        }
    }
}

#[test]
fn criterions_own_loops_are_measured_too() {
    let folder = tempfile::tempdir().unwrap();
    let events = Events::of("task-clock").unwrap();
    criterion(&events, folder.path()).bench_function("work", |bencher| bencher.iter(work));
    assert!(mean(folder.path(), "work") > 0.0);
    assert_eq!(events.report().names().count(), 0, "how many iterations there were is not known");
}

#[test]
fn what_cannot_be_measured_here_is_an_error_that_says_why() {
    match Events::of("instructions") {
        Ok(events) => assert!(events.monitor().plan().lines[0].candidate().is_some()),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::EventUnsupported);
            let text = error.to_string();
            assert!(
                text.starts_with("instructions:u cannot be measured here: ") && text.len() > 50,
                "{text}"
            );
            assert!(error.recovery().to_string().contains("task-clock"));
        }
    }
}

#[test]
fn what_is_no_event_is_an_error() {
    let error = Events::of("page-fault").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownEvent);
    let error = Events::of("page-faults,task-clock").unwrap_err();
    assert!(error.to_string().contains("is 2 events"), "{error}");
    assert!(Events::of("page-faults").unwrap().beside("nonsense").is_err());
}

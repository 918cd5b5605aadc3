//! Counters that stay open.
#![allow(clippy::unwrap_used, reason = "a test ends where something fails")]

use cyclometer_toolkit::core::ErrorKind;
use cyclometer_toolkit::{CpuSet, Scope, StandingEvents, Target, Verdict, machine_for_regions};

fn events(list: &str) -> StandingEvents {
    StandingEvents::new(machine_for_regions(), list).unwrap()
}

fn this_process() -> Target {
    Target::Process { pid: std::process::id(), inherit: true }
}

#[test]
fn totals_of_a_running_process_grow_from_read_to_read() {
    let mut counters = events("user_time,system_time,minor_faults").open(this_process()).unwrap();
    let mut before = vec![0; 3];
    for _ in 0..3 {
        std::hint::black_box(vec![1u8; 4 << 20]);
        let values = counters.read();
        let totals: Vec<u64> = values.iter().map(|value| value.total).collect();
        assert!(totals.iter().zip(&before).all(|(now, before)| now >= before), "{totals:?} {before:?}");
        assert!(values.iter().all(|value| value.verdict.is_some() && value.times.is_none()), "{values:?}");
        before = totals;
    }
    assert!(before[2] > 0, "memory was touched");
}

#[test]
fn a_machine_has_the_scope_of_a_system_and_what_it_cannot_count_has_a_reason() {
    let machine = machine_for_regions();
    let online = machine.online.clone();
    let mut counters = events("cycles,user_time").open(Target::Cpus(online)).unwrap();
    let values = counters.read();
    assert_eq!(values[1].scope, Scope::System);
    for value in &values {
        assert_eq!(value.latest.value().is_some(), value.verdict.is_some(), "{value:?}");
        let is_reasoned = value.latest.verdict() == Verdict::Exact || value.latest.reason().is_some();
        assert!(is_reasoned, "{value:?}");
    }
}

#[test]
fn targets_and_events_that_do_not_exist_are_errors() {
    let error = StandingEvents::new(machine_for_regions(), "no_such_event_anywhere").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownEvent);
    let cpus = CpuSet::parse("0").unwrap();
    let nowhere = Target::Cgroup { path: "no/such/group".into(), cpus };
    let error = events("user_time").open(nowhere).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSuchTarget, "{error}");
}

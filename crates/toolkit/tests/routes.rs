//! From a recorded machine to a plan: the source of each event, and the runs that count it.

use cyclometer_toolkit::core::LaunchKind;
use cyclometer_toolkit::{CommandSpec, Counted, ErrorKind, Machine, Plan, Rung, Stat, replay_machine};
use std::time::Duration;

/// A virtual machine without a PMU, where tracing is permitted.
fn vm() -> Machine {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/machines/vm-without-vpmu.txt");
    let recording = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    replay_machine(&recording).unwrap_or_else(|error| panic!("{error}"))
}

fn stat(events: Option<&str>, runs: u32) -> Stat {
    let stat = Stat::new(vm()).command(CommandSpec::new("true")).runs(runs);
    match events {
        Some(list) => stat.events(list).unwrap_or_else(|error| panic!("{error}")),
        None => stat,
    }
}

fn planned(stat: &Stat) -> Plan {
    stat.plan().unwrap_or_else(|error| panic!("{error}"))
}

fn rung(plan: &Plan, event: &str) -> Option<Rung> {
    let line = plan.lines.iter().find(|line| line.event.name == event);
    line.unwrap_or_else(|| panic!("no {event}")).candidate().map(|candidate| candidate.rung)
}

fn launches(plan: &Plan, runs: u32) -> Vec<LaunchKind> {
    (0..runs).map(|run| plan.launch_of(run)).collect()
}

use LaunchKind::{Native, Translated};

#[test]
fn one_run_of_the_default_events_is_native() {
    let plan = planned(&stat(None, 1));
    assert_eq!(launches(&plan, 1), [Native]);
    assert_eq!((rung(&plan, "instructions"), rung(&plan, "wall_time")), (None, Some(Rung::Os)));
}

#[test]
fn several_runs_of_the_default_events_are_counted_and_timed() {
    let plan = planned(&stat(None, 3));
    assert_eq!(launches(&plan, 3), [Translated, Translated, Native]);
    assert_eq!(rung(&plan, "instructions"), Some(Rung::Soft));
    assert_eq!(rung(&plan, "branches"), Some(Rung::Soft));
    assert_eq!((rung(&plan, "cycles"), rung(&plan, "branch-misses")), (None, None));
    let all = planned(&stat(None, 3).counted(Counted::All));
    assert_eq!(launches(&all, 3), [Translated; 3]);
}

#[test]
fn an_event_that_is_named_translates_the_only_run() {
    for events in ["instructions", "branch-instructions", "calls,page-faults", "soft/loads/"] {
        assert_eq!(launches(&planned(&stat(Some(events), 1)), 1), [Translated], "{events}");
    }
    assert_eq!(launches(&planned(&stat(Some("cycles,page-faults,instructions:k"), 1)), 1), [Native]);
}

#[test]
fn one_source_alone_is_used_where_it_is_asked_for() {
    let soft = planned(&stat(None, 1).backend(Some(Rung::Soft)));
    assert_eq!(launches(&soft, 1), [Translated]);
    assert_eq!(rung(&soft, "wall_time"), None);
    let perf = planned(&stat(Some("instructions"), 3).backend(Some(Rung::Perf)));
    assert_eq!((launches(&perf, 1), rung(&perf, "instructions")), (vec![Native], None));
}

#[test]
fn what_runs_already_is_not_translated() {
    let stat = Stat::new(vm()).process(1).events("instructions,calls");
    let plan = planned(&stat.unwrap_or_else(|error| panic!("{error}")));
    assert_eq!((rung(&plan, "instructions"), rung(&plan, "calls")), (None, None));
}

#[test]
fn a_short_interval_and_a_named_event_exclude_each_other() {
    let stat = stat(Some("calls"), 1).interval(Duration::from_millis(9));
    let error = stat.plan().err().unwrap_or_else(|| panic!("it was planned"));
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

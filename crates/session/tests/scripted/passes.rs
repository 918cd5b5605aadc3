//! More events than counters: passes over the runs, rotation groups, and a kernel that sees it otherwise.

use cyclometer_core::exec::{ExitStatus, RefusalKind};
use cyclometer_core::plan::Multiplex;
use cyclometer_core::{Event, Report};
use cyclometer_session::SessionSettings;

use crate::script::*;
use crate::{Play, Played, play, runs, values};

/// So many events for four counters.
fn many(n: usize) -> Vec<Event> {
    (0..n).map(|i| placed(&format!("e{i}"))).collect()
}

fn played(events: usize, settings: SessionSettings) -> Played {
    play(Play { events: many(events), settings, ..Play::default() })
}

/// How many runs gave a value of each event.
fn times(report: &Report) -> Vec<usize> {
    let of = |slot: usize| {
        let has = |run: &&cyclometer_core::report::Run| values(run).iter().any(|(own, _)| *own == slot);
        report.runs.iter().filter(has).count()
    };
    (0..report.plan.lines.len()).map(of).collect()
}

#[test]
fn with_runs_enough_every_event_is_counted_for_whole_runs_and_the_command_runs_no_more_often() {
    for n in [3, 4, 7] {
        let played = played(9, runs(n));
        let report = played.report();
        assert_eq!((played.count("release"), report.plan.passes.len()), (n as usize, 3));
        assert!(!report.plan.is_rotated());
        assert!(times(report).iter().all(|times| *times >= 1), "{:?}", times(report));
        assert!(report.runs.iter().all(|run| run.slices.is_empty() && values(run).len() == 4));
        let mut first_round: Vec<usize> = report.runs[..3].iter().map(|run| run.pass).collect();
        first_round.sort_unstable();
        assert_eq!(first_round, [0, 1, 2]);
    }
}

#[test]
fn with_too_few_runs_events_rotate_in_each() {
    for settings in [runs(1), runs(2)] {
        let played = played(9, settings.clone());
        let report = played.report();
        assert_eq!((played.count("release"), report.plan.passes.len()), (settings.runs as usize, 1));
        assert!(report.plan.is_rotated());
        assert!(report.runs.iter().all(|run| !run.slices.is_empty()));
    }
    let events = many(9);
    let played = play(Play { events, settings: runs(5), multiplex: Multiplex::Always, ..Play::default() });
    assert!(played.report().plan.is_rotated());
}

#[test]
fn a_run_that_fails_ends_the_session_and_what_was_not_reached_has_no_value() {
    let acts = vec![Act::Exit(ExitStatus::Code(0)), Act::Exit(ExitStatus::Code(3))];
    let played = play(Play { events: many(9), acts, settings: runs(3), ..Play::default() });
    let report = played.report();
    assert_eq!((played.count("release"), report.runs.len()), (2, 2));
    let reached: Vec<usize> = report.runs.iter().map(|run| run.pass).collect();
    let unreached = (0..3).find(|pass| !reached.contains(pass)).unwrap();
    let only_there = report.plan.passes[unreached].slots.iter().filter(|slot| times(report)[slot.id.0] == 0);
    assert!(only_there.count() > 0);
}

#[test]
fn what_any_pass_is_refused_is_settled_before_the_command_runs() {
    let perf = vec![OpenAnswer::RefuseLast(RefusalKind::NotSupported)];
    let played = play(Play { events: many(9), perf, settings: runs(3), ..Play::default() });
    let report = played.report();
    assert_eq!((played.count("release"), report.plan.passes.len()), (3, 2));
    assert!(
        played.log.iter().position(|line| line == "release")
            > played.log.iter().position(|l| l == "close perf")
    );
    assert_eq!(times(report).iter().filter(|times| **times == 0).count(), 1);
    assert_eq!(played.count("prepare"), 3);
}

#[test]
fn an_event_with_a_result_is_lost_where_a_later_run_is_refused_it() {
    // The first run tries two other passes before its own, the second and third run open theirs.
    let opens = (0..5).map(|_| OpenAnswer::Open);
    let perf = opens.chain([OpenAnswer::RefuseLast(RefusalKind::Invalid)]).collect();
    let played = play(Play { events: many(9), perf, settings: runs(6), ..Play::default() });
    let report = played.report();
    assert_eq!((report.steps.len(), played.count("release")), (0, 6));
    let lost = |run: &cyclometer_core::report::Run| {
        run.reading.cells.iter().filter(|cell| cell.lost.is_some()).count()
    };
    assert_eq!(report.runs.iter().map(lost).collect::<Vec<_>>(), [0, 0, 0, 1, 0, 0]);
    assert!(times(report).iter().all(|times| *times >= 1));
}

#[test]
fn what_a_later_run_alone_is_refused_leaves_passes_and_results_as_they_are() {
    let refuse = OpenAnswer::RefuseLast(RefusalKind::NotSupported);
    let perf = vec![OpenAnswer::Open, OpenAnswer::Open, refuse];
    let played = play(Play { events: many(8), perf, settings: runs(2), ..Play::default() });
    let report = played.report();
    assert_eq!((played.count("release"), report.plan.passes.len()), (2, 2));
    assert_eq!((values(&report.runs[0]).len(), values(&report.runs[1]).len()), (4, 3));
    assert_eq!(times(report).iter().filter(|times| **times == 0).count(), 1);
}

#[test]
fn a_refusal_before_the_first_result_makes_a_new_plan_that_rotates() {
    let perf = vec![OpenAnswer::RefuseLast(RefusalKind::NotSupported)];
    let played = play(Play { events: many(9), perf, ..Play::default() });
    let report = played.report();
    assert_eq!(
        (report.plan.sharing.sets.len(), played.heard.steps.as_slice()),
        (2, &["left it out".to_owned()][..])
    );
    assert!(report.plan.is_rotated());
}

fn probed(events: Vec<Event>, settings: SessionSettings, probed: Probed) -> Played {
    play(Play { events, settings, probed: Some(probed), ..Play::default() })
}

#[test]
fn what_fits_is_probed_once_before_the_command_is_prepared() {
    let played = probed(many(4), runs(3), |_, _| true);
    assert_eq!(played.log[..2], ["probe e0+e1+e2+e3", "prepare"]);
    assert_eq!((played.count("probe"), played.report().steps.len()), (1, 0));
}

#[test]
fn one_event_alone_and_events_of_no_core_pmu_are_not_probed() {
    let events = vec![placed("e"), accounting("wall_time")];
    assert_eq!(probed(events, runs(1), |_, _| false).count("probe"), 0);
}

#[test]
fn what_the_kernel_does_not_count_beside_the_others_gets_a_pass_of_its_own() {
    let played = probed(many(4), runs(2), |_, name| name != "e2");
    let report = played.report();
    assert_eq!(report.plan.passes.len(), 2);
    assert_eq!((played.count("probe"), played.count("release")), (1, 2));
    let said = "the kernel does not count e2:u while it counts e0:u, e1:u and e3:u, though by what is known of the \
                counters they fit";
    assert_eq!((report.steps[0].refused.as_str(), report.steps.len()), (said, 1));
    assert!(times(report).iter().all(|times| *times == 1), "{:?}", times(report));
}

#[test]
fn with_one_run_it_rotates() {
    let played = probed(many(4), runs(1), |_, name| name != "e2");
    assert!(played.report().plan.is_rotated());
    assert_eq!(played.count("release"), 1);
}

#[test]
fn counters_that_nobody_knows_are_found_by_trial() {
    let events: Vec<Event> = (0..7).map(|i| hardware(&format!("e{i}"))).collect();
    let played = probed(events, runs(4), |place, _| place < 2);
    let report = played.report();
    let sizes: Vec<usize> = report.plan.passes.iter().map(|pass| pass.slots.len()).collect();
    assert_eq!((sizes, played.count("probe")), (vec![2, 2, 2, 1], 3));
    assert_eq!(report.plan.sharing.contradictions, [""; 0]);
    assert!(times(report).iter().all(|times| *times == 1));
}

#[test]
fn cycles_join_every_set_that_has_a_counter_for_them() {
    let mut events: Vec<Event> = (0..5).map(|i| hardware(&format!("e{i}"))).collect();
    events.push(hardware("cycles"));
    events[5].candidates[0].never_zero = true;
    for (settings, counts, always) in [
        (runs(1), (|place, name| place < 2 || name == "cycles") as Probed, true),
        (runs(3), |place, name| place < 2 || name == "cycles", true),
        (runs(1), |place, _| place < 2, false),
    ] {
        let played = probed(events.clone(), settings, counts);
        let sets = &played.report().plan.sharing.sets;
        assert_eq!(sets.len(), 3, "{sets:?}");
        let with_cycles = sets.iter().filter(|set| set.contains(&cyclometer_core::SlotId(5))).count();
        assert_eq!(with_cycles == 3, always, "{sets:?}");
    }
}

#[test]
fn a_kernel_that_counts_one_at_a_time_is_obeyed_and_trying_comes_to_an_end() {
    let played = probed(many(9), runs(9), |place, _| place == 0);
    let report = played.report();
    assert_eq!(report.plan.passes.len(), 9);
    assert!(report.plan.passes.iter().all(|pass| pass.slots.len() == 1), "{:?}", report.plan.sharing);
    assert!(times(report).iter().all(|times| *times == 1));
    let played = probed(many(60), runs(1), |place, _| place == 0);
    assert_eq!((played.count("probe"), played.count("release")), (24, 1));
}

#[test]
fn a_kernel_that_counts_nothing_at_all_contradicts_nothing() {
    let played = probed(many(4), runs(1), |_, _| false);
    assert_eq!((played.report().steps.len(), played.report().plan.passes.len()), (0, 1));
}

#[test]
fn an_event_that_must_not_rotate_is_refused_when_the_kernel_disagrees_and_nothing_runs() {
    let events = many(4);
    let probed: Option<Probed> = Some(|_, name| name != "e2");
    let played = play(Play { events, probed, multiplex: Multiplex::Never, ..Play::default() });
    let error = played.result.as_ref().unwrap_err().to_string();
    assert!(error.ends_with("2 passes are needed, and -r gives 1 run"), "{error}");
    assert_eq!((played.count("release"), played.count("prepare")), (0, 0));
}

#[test]
fn an_event_that_is_named_twice_is_opened_once_and_has_both_values() {
    for (n, settings) in [(2, runs(2)), (6, runs(1)), (6, runs(2))] {
        let mut events = many(n);
        events.push(placed("e0"));
        let played = play(Play { events, settings, ..Play::default() });
        let report = played.report();
        assert!(played.log.iter().all(|line| line.matches("e0").count() <= 1), "{:?}", played.log);
        for run in &report.runs {
            let of = |slot: usize| {
                let own = run.reading.cells.iter().filter(|cell| cell.slot.0 == slot);
                own.map(|cell| (cell.raw, cell.time_running_ns)).collect::<Vec<_>>()
            };
            assert_eq!(of(0), of(n));
            assert!(run.slices.iter().all(|slice| {
                let raw = |slot| slice.count(cyclometer_core::SlotId(slot)).map(|count| count.raw);
                raw(0) == raw(n)
            }));
        }
        assert!(times(report)[n] >= 1);
    }
}

#[test]
fn twins_are_lost_together() {
    let events = vec![placed("a"), placed("b"), placed("b")];
    let perf = vec![OpenAnswer::Open, OpenAnswer::RefuseLast(RefusalKind::Invalid)];
    let played = play(Play { events, perf, settings: runs(2), ..Play::default() });
    let lost: Vec<usize> =
        played.report().runs[1].reading.cells.iter().filter(|c| c.lost.is_some()).map(|c| c.slot.0).collect();
    assert_eq!((lost, values(&played.report().runs[1]).len()), (vec![1, 2], 1));
}

//! Runs under the software PMU: how many, which, and what when it refuses.

use std::time::Duration;

use cyclometer_core::exec::{Cell, ExitStatus, KillCause, Layout, RefusalKind};
use cyclometer_core::plan::Outcome;
use cyclometer_core::{Count, Counted, Event, LaunchKind, Plan, Recovery, Report};
use cyclometer_session::SessionSettings;

use crate::script::*;
use crate::{Play, Played, play, runs, values};

use LaunchKind::{Native, Translated};

fn launches(played: &Played) -> Vec<LaunchKind> {
    played.report().runs.iter().map(|run| run.launch).collect()
}

fn counted(play: Play) -> Play {
    Play { events: vec![soft("calls"), accounting("wall_time")], ..play }
}

/// The reason why an event was not counted.
fn reason(plan: &Plan, line: usize) -> Option<String> {
    match &plan.lines[line].outcome {
        Outcome::NotCounted(Count::NotCounted { reason }) => Some(reason.to_string()),
        _ => None,
    }
}

fn lost(report: &Report, run: usize) -> Vec<(usize, Option<String>)> {
    let reason = |cell: &Cell| cell.lost.as_ref().map(|reason| reason.to_string());
    report.runs[run].reading.cells.iter().map(|cell| (cell.slot.0, reason(cell))).collect()
}

#[test]
fn a_single_run_with_a_counted_event_is_translated_with_its_times() {
    let played = play(counted(Play::default()));
    assert_eq!(
        played.log,
        [
            "prepare translated",
            "open soft calls:u on child 4711",
            "open os wall_time on child 4711",
            "start soft",
            "start os",
            "release",
            "close soft",
            "close os"
        ]
    );
    let run = &played.report().runs[0];
    assert_eq!((run.launch, run.layout), (Translated, Some(Layout::Fixed)));
    assert_eq!(values(run), [(0, 100), (1, 100)]);
}

#[test]
fn k_of_n_runs_are_translated_and_only_the_others_are_timed() {
    for (n, k, wanted) in [
        (2, Counted::Auto, vec![Translated, Native]),
        (4, Counted::Auto, vec![Translated, Translated, Native, Native]),
        (3, Counted::Runs(1), vec![Translated, Native, Native]),
        (2, Counted::All, vec![Translated, Translated]),
    ] {
        let played = play(counted(Play { settings: runs(n), counted: k, ..Play::default() }));
        assert_eq!(launches(&played), wanted);
        assert_eq!(played.count("release"), n as usize);
        for run in &played.report().runs {
            let slots: Vec<usize> = values(run).iter().map(|(slot, _)| *slot).collect();
            let expected = match run.launch {
                _ if k == Counted::All => vec![0, 1],
                Translated => vec![0],
                _ => vec![1],
            };
            assert_eq!(slots, expected, "run {} of {n}", run.index);
        }
    }
}

#[test]
fn warm_ups_run_as_the_command_is_and_are_measured_by_nobody() {
    let settings = SessionSettings { warmups: 1, ..runs(2) };
    let played = play(counted(Play { settings, ..Play::default() }));
    let prepared: Vec<&String> = played.log.iter().filter(|line| line.starts_with("prepare")).collect();
    assert_eq!(prepared, ["prepare", "prepare translated", "prepare"]);
    let single = SessionSettings { warmups: 1, ..runs(1) };
    let played = play(counted(Play { settings: single, ..Play::default() }));
    assert_eq!(played.log[..3], ["prepare", "release", "prepare translated"]);
}

#[test]
fn a_command_that_cannot_be_translated_runs_natively_once_and_its_counts_say_why() {
    let untranslatable = vec![Some("/usr/bin/su is setuid")];
    let played = play(counted(Play { untranslatable, ..Play::default() }));
    assert_eq!(launches(&played), [Native]);
    assert_eq!((played.count("release"), played.count("open soft")), (1, 0));
    assert_eq!(reason(&played.report().plan, 0).as_deref(), Some("/usr/bin/su is setuid"));
    assert_eq!(values(&played.report().runs[0]), [(1, 100)]);
    assert_eq!(played.heard.steps, ["left the source soft out for this command"]);
}

#[test]
fn a_source_that_refuses_the_whole_pass_is_answered_alike() {
    let soft = vec![OpenAnswer::RefuseAll("a 32-bit program")];
    let played = play(counted(Play { soft, settings: runs(3), ..Play::default() }));
    assert_eq!(launches(&played), [Native; 3]);
    assert_eq!(played.count("release"), 3);
    assert_eq!(reason(&played.report().plan, 0).as_deref(), Some("a 32-bit program"));
}

#[test]
fn without_a_translating_launcher_the_command_still_runs() {
    let played = play(counted(Play { without_translation: true, ..Play::default() }));
    assert_eq!(launches(&played), [Native]);
    assert!(reason(&played.report().plan, 0).unwrap().contains("no software PMU"));
}

#[test]
fn one_event_that_is_refused_leaves_the_others_translated() {
    let events = vec![soft("calls"), soft("loads")];
    let soft = vec![OpenAnswer::Refuse("loads", RefusalKind::NotSupported)];
    let played = play(Play { events, soft, ..Play::default() });
    assert_eq!(launches(&played), [Translated]);
    assert_eq!(values(&played.report().runs[0]), [(0, 100)]);
}

#[test]
fn the_last_event_that_is_refused_takes_the_translation_with_it() {
    let soft = vec![OpenAnswer::Refuse("calls", RefusalKind::NotSupported)];
    let played = play(counted(Play { soft, ..Play::default() }));
    assert_eq!(launches(&played), [Native]);
    assert_eq!((played.count("prepare"), played.count("release")), (2, 1));
}

#[test]
fn what_the_hardware_refuses_is_translated_if_it_was_asked_for() {
    let refuse = || vec![OpenAnswer::Refuse("branches", RefusalKind::NotSupported)];
    let played = play(Play { events: vec![portable("branches")], perf: refuse(), ..Play::default() });
    assert_eq!(launches(&played), [Translated]);
    assert_eq!(values(&played.report().runs[0]), [(0, 100)]);
    assert_eq!(played.count("release"), 1);
    let unasked = Event { requested: false, ..portable("branches") };
    let played = play(Play { events: vec![unasked], perf: refuse(), ..Play::default() });
    assert_eq!(launches(&played), [Native]);
}

#[test]
fn a_refusal_of_a_later_run_loses_its_counts_and_is_not_made_up_for() {
    let untranslatable = vec![None, Some("no more memory")];
    let played = play(counted(Play { untranslatable, settings: runs(3), ..Play::default() }));
    assert_eq!(launches(&played), [Translated, Native, Native]);
    assert_eq!(lost(played.report(), 1), [(0, Some("no more memory".to_owned()))]);
    assert_eq!(played.count("release"), 3);
    let soft = vec![OpenAnswer::Open, OpenAnswer::RefuseAll("gone")];
    let played = play(counted(Play { soft, settings: runs(3), ..Play::default() }));
    assert_eq!(lost(played.report(), 1), [(0, Some("gone".to_owned()))]);
    assert_eq!(played.count("release"), 3);
}

#[test]
fn counts_that_are_lost_come_home_as_lost() {
    let played = play(counted(Play { soft_fate: Fate::Leave, ..Play::default() }));
    let text = "detached at 0x401000: the program started a thread".to_owned();
    assert_eq!(lost(played.report(), 0), [(0, Some(text)), (1, None)]);
}

#[test]
fn the_first_native_pass_is_still_replanned_after_translated_runs() {
    let events = vec![soft("calls"), software("page-faults")];
    let perf = vec![OpenAnswer::Refuse("page-faults", RefusalKind::NoPermission)];
    let played = play(Play { events, perf, settings: runs(3), ..Play::default() });
    assert_eq!(launches(&played), [Translated, Translated, Native]);
    assert_eq!(values(&played.report().runs[2]), [(1, 100)], "the accounting stands in");
}

#[test]
fn translated_runs_are_read_at_their_interval() {
    let settings =
        SessionSettings { interval: Some(Duration::from_millis(100)), ..SessionSettings::default() };
    let played =
        play(counted(Play { translated_acts: vec![Act::Deadlines(2)], settings, ..Play::default() }));
    assert_eq!(played.heard.intervals, 2);
}

#[test]
fn a_failing_translated_run_ends_the_session_as_any_other() {
    let translated_acts = vec![Act::Exit(ExitStatus::Code(3))];
    let played = play(counted(Play { translated_acts, settings: runs(4), ..Play::default() }));
    assert_eq!(played.count("release"), 1);
    assert_eq!(played.report().runs[0].dropped_because.as_deref(), Some("exited with status 3"));
}

#[test]
fn where_a_translated_run_ran_out_of_memory_the_memory_of_translation_is_named_with_the_remedy() {
    let translated_acts = vec![Act::Killed(KillCause::GroupOutOfMemory { limit_bytes: 1 << 30 })];
    let played = play(counted(Play { translated_acts, settings: runs(1), ..Play::default() }));
    let failure = played.report().failure.as_ref().unwrap();
    assert!(
        failure.message.ends_with("ran out of memory; the likely cause is the memory that translation takes")
    );
    let remedy = Recovery::fix("run it natively with --backend os, or raise the limit");
    assert_eq!(failure.recovery, remedy, "{failure}");
}

#[test]
fn a_program_that_leaves_translation_is_not_translated_again_and_the_other_runs_are_timed() {
    for (n, counted_runs, wanted) in [
        (3, Counted::Auto, vec![Translated, Native, Native]),
        (5, Counted::Auto, vec![Translated, Native, Native, Native, Native]),
        (2, Counted::Auto, vec![Translated, Native]),
        (3, Counted::Runs(2), vec![Translated, Translated, Native]),
        (3, Counted::All, vec![Translated; 3]),
    ] {
        let settings = runs(n);
        let played = play(counted(Play {
            settings,
            counted: counted_runs,
            soft_fate: Fate::Leave,
            ..Play::default()
        }));
        assert_eq!(launches(&played), wanted, "{counted_runs:?} of {n}");
        assert_eq!(played.count("release"), n as usize);
        for run in played.report().runs.iter().filter(|run| run.launch == Native) {
            assert_eq!(values(run), [(1, 100)], "run {} of {n}", run.index);
        }
        let steps = usize::from(counted_runs == Counted::Auto && n > 2);
        assert_eq!(played.heard.steps.len(), steps, "{:?}", played.heard.steps);
    }
}

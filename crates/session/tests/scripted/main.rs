//! The session against scripted launchers and sources: every way in which the world can disagree.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod compare;
mod passes;
mod rotation;
mod script;
mod translated;
mod windows;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

use cyclometer_core::exec::{CommandSpec, ExitStatus, KillCause, RefusalKind, Signalled};
use cyclometer_core::plan::{IntentSubject, Multiplex, Outcome};
use cyclometer_core::report::{FallbackStep, Run};
use cyclometer_core::window::RowBatch;
use cyclometer_core::{
    Count, Counted, CpuSet, Error, ErrorKind, Event, Intent, Launch, Pass, Plan, Recovery, Report, Rung,
    Source, Target, Verdict,
};
use cyclometer_session::{MeasurementJob, Moment, Observer, SessionResources, SessionSettings, run};
use script::*;

struct Play {
    events: Vec<Event>,
    acts: Vec<Act>,
    perf: Vec<OpenAnswer>,
    fate: Fate,
    cells: Option<SlotCells>,
    settings: SessionSettings,
    target: Option<Target>,
    passes: Option<fn(&mut Plan)>,
    soft: Vec<OpenAnswer>,
    soft_fate: Fate,
    untranslatable: Vec<Option<&'static str>>,
    translated_acts: Vec<Act>,
    without_translation: bool,
    counted: Counted,
    multiplex: Multiplex,
    probed: Option<Probed>,
    /// Something that runs already, in place of a command.
    watches: bool,
    windows: Option<windows::WindowFate>,
}

impl Default for Play {
    fn default() -> Play {
        Play {
            events: vec![hardware("cycles"), accounting("wall_time")],
            acts: Vec::new(),
            perf: Vec::new(),
            fate: Fate::Count,
            cells: None,
            settings: SessionSettings::default(),
            target: None,
            passes: None,
            soft: Vec::new(),
            soft_fate: Fate::Count,
            untranslatable: Vec::new(),
            translated_acts: Vec::new(),
            without_translation: false,
            counted: Counted::Auto,
            multiplex: Multiplex::Auto,
            probed: None,
            watches: false,
            windows: None,
        }
    }
}

#[derive(Default)]
struct Heard {
    intervals: u32,
    steps: Vec<String>,
    started: Vec<(u32, bool)>,
    finished: u32,
    window_rows: usize,
    window_notes: Vec<String>,
}

impl Observer for Heard {
    fn run_started(&mut self, index: u32, warmup: bool) {
        self.started.push((index, warmup));
    }
    fn interval(&mut self, moment: &Moment<'_>, _: &Plan) {
        assert!(!moment.reading.cells.is_empty());
        self.intervals += 1;
    }
    fn windows(&mut self, batch: &RowBatch, _: &Plan) {
        self.window_rows += batch.rows.len();
    }
    fn window_notes(&mut self, notes: Vec<String>) {
        self.window_notes.extend(notes);
    }
    fn run_finished(&mut self, _: &Run, _: &Plan) {
        self.finished += 1;
    }
    fn step(&mut self, step: &FallbackStep) {
        self.steps.push(step.done.clone());
    }
}

struct Played {
    result: Result<Report, Error>,
    log: Vec<String>,
    heard: Heard,
}

impl Played {
    fn report(&self) -> &Report {
        self.result.as_ref().unwrap()
    }

    fn count(&self, what: &str) -> usize {
        self.log.iter().filter(|line| line.starts_with(what)).count()
    }
}

fn play(play: Play) -> Played {
    let log = Log::default();
    let machine = machine_with_counters();
    let launch = ScriptedLaunch { log: log.clone(), acts: RefCell::new(VecDeque::from(play.acts)) };
    let mut perf = ScriptedSource::new(Rung::Perf, &log).answering(play.perf);
    perf.fate = play.fate;
    perf.cells = play.cells.unwrap_or(perf.cells);
    perf.probed = play.probed;
    perf.windows = play.windows;
    let os = ScriptedSource::new(Rung::Os, &log);
    let mut soft = ScriptedSource::new(Rung::Soft, &log).answering(play.soft);
    soft.fate = play.soft_fate;
    let translation = ScriptedTranslation {
        log: log.clone(),
        refusals: RefCell::new(VecDeque::from(play.untranslatable)),
        acts: RefCell::new(VecDeque::from(play.translated_acts)),
    };
    let translated = (!play.without_translation).then_some(&translation as &dyn Launch);
    let sources: [&dyn Source; 3] = [&perf, &soft, &os];
    let means = SessionResources { launch: &launch, translated, sources: &sources, machine: &machine };
    let intent = Intent {
        runs: play.settings.runs,
        counted: play.counted,
        subject: if play.target.is_none() { IntentSubject::Command } else { IntentSubject::Running },
        interval: play.settings.interval,
        multiplex: play.multiplex,
        seed: 1,
        ..Intent::default()
    };
    let mut plan = cyclometer_plan::plan(play.events, &machine, intent).unwrap();
    if let Some(change) = play.passes {
        change(&mut plan);
    }
    let command = CommandSpec::new("x");
    let job = match play.watches {
        true => MeasurementJob { command: None, target: play.target, watched: launch.prepare(&command).ok() },
        false => MeasurementJob { command: Some(command), target: play.target, watched: None },
    };
    let mut heard = Heard::default();
    let result = run(job, plan, &play.settings, &means, &mut heard);
    let log = log.borrow().clone();
    Played { result, log, heard }
}

fn runs(runs: u32) -> SessionSettings {
    SessionSettings { runs, ..SessionSettings::default() }
}

fn values(run: &Run) -> Vec<(usize, u64)> {
    run.reading.cells.iter().filter(|cell| cell.lost.is_none()).map(|cell| (cell.slot.0, cell.raw)).collect()
}

#[test]
fn a_run_is_prepared_opened_started_released_read_and_closed_in_that_order() {
    let played = play(Play::default());
    assert_eq!(
        played.log,
        [
            "prepare",
            "open perf cycles:u on child 4711",
            "open os wall_time on child 4711",
            "start perf",
            "start os",
            "release",
            "close perf",
            "close os"
        ]
    );
    assert_eq!(values(&played.report().runs[0]), [(0, 100), (1, 100)]);
}

#[test]
fn the_command_runs_exactly_as_often_as_asked() {
    let settings = SessionSettings { runs: 5, warmups: 2, ..SessionSettings::default() };
    let played = play(Play { settings, ..Play::default() });
    assert_eq!((played.count("release"), played.report().runs.len(), played.heard.finished), (7, 5, 5));
    assert_eq!(played.heard.started[..3], [(0, true), (1, true), (0, false)]);
}

#[test]
fn refusals_are_answered_before_the_command_is_executed() {
    let perf = vec![
        OpenAnswer::Refuse("cycles", RefusalKind::Invalid),
        OpenAnswer::Refuse("cycles", RefusalKind::NotSupported),
    ];
    let played = play(Play { perf, ..Play::default() });
    assert_eq!(played.count("release"), 1);
    assert_eq!(played.heard.steps, ["counted all modes, as it may not filter them", "left it out"]);
    let Outcome::NotCounted(count) = &played.report().plan.lines[0].outcome else { panic!() };
    assert_eq!(
        (count.verdict(), count.reason().unwrap().as_str()),
        (Verdict::NotSupported, "cycles: NotSupported")
    );
    assert_eq!(values(&played.report().runs[0]), [(1, 100)]);
}

#[test]
fn what_was_opened_is_closed_when_a_later_source_refuses() {
    let mut events = vec![accounting("wall_time"), hardware("cycles"), hardware("branches")];
    events.swap(0, 2);
    let perf = vec![OpenAnswer::Refuse("branches", RefusalKind::NotSupported)];
    let played = play(Play { events, perf, ..Play::default() });
    assert_eq!(played.count("open perf"), 2);
    assert_eq!(played.count("close perf"), 1);
    assert_eq!(played.count("close os"), played.count("open os"));
    assert_eq!(played.report().runs.len(), 1);
}

#[test]
fn a_refused_kernel_event_steps_down_the_ladder() {
    let perf = vec![OpenAnswer::Refuse("page-faults", RefusalKind::NoPermission)];
    let played = play(Play { events: vec![software("page-faults")], perf, ..Play::default() });
    assert_eq!(played.report().plan.lines[0].candidate().unwrap().rung, Rung::Os);
    assert_eq!(played.report().plan.lines[0].skipped[0].reason.to_string(), "page-faults: NoPermission");
}

#[test]
fn missing_permission_for_the_kernel_reduces_the_modes() {
    let perf = vec![OpenAnswer::Refuse("cycles", RefusalKind::NoPermission)];
    let played = play(Play { events: vec![both_modes("cycles")], perf, ..Play::default() });
    assert_eq!(played.log[1..3], ["open perf cycles:uk on child 4711", "open perf cycles:u on child 4711"]);
}

#[test]
fn nobody_waits_for_what_nothing_is_counted_of() {
    let watching = |events: Vec<Event>, kind| {
        let perf = vec![OpenAnswer::Refuse("cycles", kind)];
        let target = Some(Target::Process { pid: 7, inherit: true });
        play(Play { events, perf, target, watches: true, ..Play::default() })
    };
    let denied = watching(vec![hardware("cycles")], RefusalKind::NoPermission);
    let error = denied.result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(error.to_string().contains("nothing is counted: cycles: "), "{error}");
    assert!(error.recovery().to_string().contains("as root"), "{}", error.recovery());
    assert!(!denied.log.iter().any(|line| line.starts_with("release")), "{:?}", denied.log);
    let missing = watching(vec![hardware("cycles")], RefusalKind::NotSupported);
    assert_eq!(missing.result.unwrap_err().kind(), ErrorKind::EventUnsupported);
    let partly = watching(vec![hardware("cycles"), accounting("wall_time")], RefusalKind::NoPermission);
    assert_eq!(values(&partly.report().runs[0]), [(1, 100)], "the rest is waited for");
}

#[test]
fn a_busy_pmu_is_tried_three_more_times_and_then_left_out() {
    let busy = || OpenAnswer::Refuse("cycles", RefusalKind::Busy);
    let perf = vec![busy(), busy(), busy(), busy()];
    let played = play(Play { perf, ..Play::default() });
    assert_eq!(played.count("open perf"), 4);
    assert!(matches!(played.report().plan.lines[0].outcome, Outcome::NotCounted(Count::NotCounted { .. })));
    let perf = vec![busy(), OpenAnswer::Open];
    let played = play(Play { perf, ..Play::default() });
    assert_eq!(values(&played.report().runs[0]).len(), 2);
}

#[test]
fn a_refusal_after_the_first_result_loses_that_value_and_changes_no_meaning() {
    let perf = vec![OpenAnswer::Open, OpenAnswer::Refuse("cycles", RefusalKind::Invalid), OpenAnswer::Open];
    let played = play(Play { perf, settings: runs(3), ..Play::default() });
    let report = played.report();
    assert_eq!(report.steps, []);
    let lost: Vec<bool> =
        report.runs.iter().map(|run| run.reading.cells.iter().any(|cell| cell.lost.is_some())).collect();
    assert_eq!(lost, [false, true, false]);
    assert_eq!(values(&report.runs[1]), [(1, 100)]);
}

#[test]
fn a_source_that_loses_its_state_costs_its_own_values_only() {
    let played = play(Play { fate: Fate::Lose, ..Play::default() });
    let cells = &played.report().runs[0].reading.cells;
    assert_eq!(cells[0].lost, Some("the registers were overwritten".into()));
    assert_eq!((cells[1].raw, &cells[1].lost), (100, &None));
}

#[test]
fn every_round_of_runs_makes_each_pass_once_and_orders_differ() {
    let split = |plan: &mut Plan| {
        let slots = std::mem::take(&mut plan.passes[0].slots);
        let pass = |slot| Pass { slots: vec![slot], ..Pass::default() };
        plan.passes = slots.into_iter().map(pass).collect();
    };
    let events = vec![hardware("cycles"), hardware("branches")];
    let played = play(Play { events, settings: runs(20), passes: Some(split), ..Play::default() });
    let passes: Vec<usize> = played.report().runs.iter().map(|run| run.pass).collect();
    let slots: Vec<_> = played.report().runs.iter().map(|run| values(run)[0].0).collect();
    assert_eq!(passes, slots);
    assert!(passes.chunks(2).all(|round| round[0] != round[1]), "{passes:?}");
    let firsts: Vec<usize> = passes.chunks(2).map(|round| round[0]).collect();
    assert!(firsts.contains(&0) && firsts.contains(&1), "{passes:?}");
}

#[test]
fn hybrid_parts_and_threads_come_home_as_separate_cells() {
    let cells = vec![(0, None, Some(10), 70, 60), (1, None, Some(10), 30, 40), (0, None, Some(11), 5, 100)];
    let played = play(Play { events: vec![hybrid("cycles")], cells: Some(cells), ..Play::default() });
    let at: Vec<_> = played.report().runs[0]
        .reading
        .cells
        .iter()
        .map(|cell| (cell.at.part, cell.at.tid, cell.raw))
        .collect();
    assert_eq!(at, [(0, Some(10), 70), (1, Some(10), 30), (0, Some(11), 5)]);
}

#[test]
fn the_first_failure_stops_the_session_and_is_kept() {
    let acts = vec![Act::Exit(ExitStatus::Code(0)), Act::Exit(ExitStatus::Code(3))];
    let played = play(Play { acts, settings: runs(5), ..Play::default() });
    let report = played.report();
    assert_eq!((played.count("release"), report.runs.len()), (2, 2));
    assert_eq!(report.runs[1].dropped_because.as_deref(), Some("exited with status 3"));
    assert_eq!(
        report.failure.as_ref().map(ToString::to_string).as_deref(),
        Some("the command exited with status 3 in run 2")
    );
}

#[test]
fn failures_can_be_ignored() {
    let acts = vec![Act::Exit(ExitStatus::Code(1)); 3];
    let settings = SessionSettings { runs: 3, ignore_failure: true, ..SessionSettings::default() };
    let played = play(Play { acts, settings, ..Play::default() });
    assert_eq!(played.report().runs.iter().filter(|run| run.dropped_because.is_none()).count(), 3);
    assert_eq!(played.report().failure, None);
}

#[test]
fn a_single_run_that_fails_keeps_its_numbers() {
    let acts = vec![Act::Exit(ExitStatus::Signal(9))];
    let played = play(Play { acts, ..Play::default() });
    assert_eq!(played.report().runs[0].dropped_because, None);
    assert_eq!(values(&played.report().runs[0]).len(), 2);
}

#[test]
fn the_cause_of_a_kill_is_told_with_the_failure() {
    for settings in [runs(1), runs(3)] {
        let acts = vec![Act::Killed(KillCause::GroupOutOfMemory { limit_bytes: 64 << 20 })];
        let played = play(Play { acts, settings, ..Play::default() });
        let failure = played.report().failure.as_ref().unwrap();
        let cause = "its memory control group, limited to 64 MiB, ran out of memory";
        assert_eq!(failure.message, format!("the command was killed by signal 9 in run 1: {cause}"));
        assert_eq!(failure.recovery, Recovery::fix("raise the limit of the group"));
        assert!(failure.to_string().ends_with("ran out of memory; raise the limit of the group"));
    }
}

#[test]
fn a_failing_warm_up_ends_the_session_and_is_no_result() {
    let acts = vec![Act::Exit(ExitStatus::Code(2))];
    let settings = SessionSettings { runs: 3, warmups: 1, ..SessionSettings::default() };
    let played = play(Play { acts, settings, ..Play::default() });
    assert_eq!(played.count("release"), 1);
    assert_eq!(played.report().runs[0].dropped_because.as_deref(), Some("a warm-up"));
}

#[test]
fn a_command_that_does_not_exist_is_an_error_and_everything_is_closed() {
    let played = play(Play { acts: vec![Act::NotFound], ..Play::default() });
    assert_eq!(played.result.as_ref().unwrap_err().kind(), ErrorKind::CommandNotFound);
    assert_eq!(played.count("close"), 2);
}

#[test]
fn an_error_after_a_result_keeps_the_result() {
    let acts = vec![Act::Exit(ExitStatus::Code(0)), Act::NotFound];
    let played = play(Play { acts, settings: runs(3), ..Play::default() });
    assert_eq!(played.report().runs.len(), 1);
    assert_eq!(
        played.report().failure.as_ref().map(ToString::to_string).as_deref(),
        Some("command 'x' not found")
    );
}

#[test]
fn intervals_are_read_while_the_command_runs() {
    let settings = SessionSettings { interval: Some(Duration::from_millis(1)), ..SessionSettings::default() };
    let played = play(Play { acts: vec![Act::Deadlines(4)], settings, ..Play::default() });
    assert_eq!(played.heard.intervals, 4);
}

#[test]
fn a_signal_is_passed_on_and_what_was_measured_is_kept() {
    let played = play(Play {
        acts: vec![Act::Signalled(Signalled { signal: 15, reached_command: false })],
        settings: runs(3),
        ..Play::default()
    });
    let report = played.report();
    assert_eq!(report.interrupted, Some(15));
    assert!(played.log.contains(&"signal 15".to_owned()));
    assert_eq!((played.count("release"), report.runs.len()), (1, 1));
    assert_eq!(report.runs[0].dropped_because.as_deref(), Some("interrupted by signal 15"));
}

#[test]
fn a_signal_of_the_terminal_is_not_sent_to_the_command_twice() {
    let by_terminal = Signalled { signal: 2, reached_command: true };
    let played = play(Play { acts: vec![Act::Signalled(by_terminal)], settings: runs(3), ..Play::default() });
    assert_eq!(played.count("signal"), 0);
    assert_eq!((played.report().interrupted, played.count("release")), (Some(2), 1));
    let by_kill = Signalled { signal: 2, reached_command: false };
    let played = play(Play { acts: vec![Act::Signalled(by_kill)], ..Play::default() });
    assert!(played.log.contains(&"signal 2".to_owned()));
}

#[test]
fn a_second_signal_is_passed_on_and_never_made_worse() {
    let term = Signalled { signal: 15, reached_command: false };
    let played = play(Play { acts: vec![Act::Deaf(term, 3)], ..Play::default() });
    assert_eq!(played.log.iter().filter(|line| *line == "signal 15").count(), 3);
    assert_eq!(played.count("signal"), 3);
    assert_eq!(played.report().runs[0].exit, Some(ExitStatus::Code(0)));
}

#[test]
fn a_target_beside_the_command_is_what_is_counted() {
    let target = Some(Target::Cpus(CpuSet::parse("0-1").unwrap()));
    let played = play(Play { target, ..Play::default() });
    assert_eq!(played.log[1], "open perf cycles:u on cpus 0-1");
}

#[test]
fn a_vanished_target_is_an_error_before_anything_runs() {
    let perf = vec![OpenAnswer::Refuse("cycles", RefusalKind::NoSuchTarget)];
    let played = play(Play { perf, ..Play::default() });
    assert_eq!(played.result.as_ref().unwrap_err().kind(), ErrorKind::NoSuchTarget);
    assert_eq!(played.count("release"), 0);
}

#[test]
fn no_runs_and_no_subject_are_refused() {
    let played = play(Play { settings: runs(0), ..Play::default() });
    assert_eq!(played.result.unwrap_err().kind(), ErrorKind::InvalidInput);
}

//! Several commands in turn.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use cyclometer_core::exec::{Child, CommandSpec, ExitStatus, Signalled};
use cyclometer_core::report::Run;
use cyclometer_core::{Counted, Error, Event, Intent, Launch, LaunchKind, Result, Rung, Source};
use cyclometer_session::compare::{Arm, Comparison, EarlyEnd, Hooks, Schedule, Watcher, compare};
use cyclometer_session::{SessionResources, SessionSettings};

use crate::script::*;

/// A launcher that notes which command it is asked for, with its padding.
struct Noting {
    inner: ScriptedLaunch,
    asked: Rc<RefCell<Vec<(String, u16)>>>,
}

impl Launch for Noting {
    fn prepare(&self, command: &CommandSpec) -> Result<Box<dyn Child>> {
        let name = command.program.to_string_lossy().into_owned();
        self.asked.borrow_mut().push((name, command.padding));
        self.inner.prepare(command)
    }
}

#[derive(Default)]
struct CompareHeard {
    started: Vec<(usize, u32, bool)>,
    stops_after: Option<usize>,
    finished: usize,
}

impl Watcher for CompareHeard {
    fn run_started(&mut self, arm: usize, index: u32, warmup: bool) {
        self.started.push((arm, index, warmup));
    }

    fn run_finished(&mut self, _: usize, _: &Run) -> Option<String> {
        self.finished += 1;
        (Some(self.finished) == self.stops_after).then(|| "seen enough".to_owned())
    }
}

struct ComparePlay {
    events: Vec<Event>,
    acts: Vec<Act>,
    arms: usize,
    hooks: Hooks,
    settings: SessionSettings,
    schedule: Schedule,
    stops_after: Option<usize>,
    counted: Counted,
    soft_fate: Fate,
}

impl Default for ComparePlay {
    fn default() -> ComparePlay {
        ComparePlay {
            events: vec![accounting("wall_time")],
            acts: Vec::new(),
            arms: 2,
            hooks: Hooks::default(),
            settings: SessionSettings { runs: 8, seed: Some(5), ..SessionSettings::default() },
            schedule: Schedule { padding: 4095, budget: None },
            stops_after: None,
            counted: Counted::AtMost(2),
            soft_fate: Fate::Count,
        }
    }
}

struct ComparePlayed {
    result: std::result::Result<Comparison, Error>,
    asked: Vec<(String, u16)>,
    heard: CompareHeard,
}

fn play(play: ComparePlay) -> ComparePlayed {
    let log = Log::default();
    let machine = machine_with_counters();
    let inner = ScriptedLaunch { log: log.clone(), acts: RefCell::new(VecDeque::from(play.acts)) };
    let launch = Noting { inner, asked: Rc::default() };
    let translation =
        ScriptedTranslation { log: log.clone(), refusals: RefCell::default(), acts: RefCell::default() };
    let (os, mut soft) = (ScriptedSource::new(Rung::Os, &log), ScriptedSource::new(Rung::Soft, &log));
    soft.fate = play.soft_fate;
    let sources: [&dyn Source; 2] = [&soft, &os];
    let means = SessionResources {
        launch: &launch,
        translated: Some(&translation),
        sources: &sources,
        machine: &machine,
    };
    let intent = Intent { runs: play.settings.runs, counted: play.counted, seed: 1, ..Intent::default() };
    let plan = cyclometer_plan::plan(play.events, &machine, intent).unwrap();
    let arm = |i: usize| Arm {
        command: CommandSpec::new(["a", "b", "c"][i]),
        plan: plan.clone(),
        hooks: play.hooks.clone(),
    };
    let arms = (0..play.arms).map(arm).collect();
    let mut heard = CompareHeard { stops_after: play.stops_after, ..CompareHeard::default() };
    let result = compare(arms, &play.settings, &play.schedule, &means, &mut heard);
    let asked = launch.asked.borrow().clone();
    ComparePlayed { result, asked, heard }
}

impl ComparePlayed {
    fn comparison(&self) -> &Comparison {
        self.result.as_ref().unwrap()
    }

    fn names(&self) -> Vec<&str> {
        self.asked.iter().map(|(name, _)| name.as_str()).collect()
    }
}

fn hooks() -> Hooks {
    let hook = |name: &str| Some(CommandSpec::new(name));
    Hooks {
        setup: hook("setup"),
        prepare: hook("prepare"),
        conclude: hook("conclude"),
        cleanup: hook("cleanup"),
    }
}

#[test]
fn every_round_has_each_command_once_in_random_order_with_one_padding() {
    let played = play(ComparePlay { arms: 3, ..ComparePlay::default() });
    let rounds: Vec<&[(String, u16)]> = played.asked.chunks(3).collect();
    assert_eq!(rounds.len(), 8);
    let mut orders = std::collections::BTreeSet::new();
    let mut paddings = std::collections::BTreeSet::new();
    for (round, told) in rounds.iter().zip(&played.comparison().rounds) {
        let names: Vec<&str> = round.iter().map(|(name, _)| name.as_str()).collect();
        let expected: Vec<&str> = told.order.iter().map(|arm| ["a", "b", "c"][*arm]).collect();
        assert_eq!(names, expected);
        assert!(round.iter().all(|(_, padding)| *padding == told.padding && *padding <= 4095));
        orders.insert(told.order.clone());
        paddings.insert(told.padding);
        let mut sorted = names.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, ["a", "b", "c"]);
    }
    assert!(orders.len() > 2 && paddings.len() > 4, "{orders:?} {paddings:?}");
    assert!(played.comparison().reports.iter().all(|report| report.runs.len() == 8));
    assert_eq!(played.comparison().ended, None);
}

#[test]
fn no_command_runs_more_often_than_said() {
    let settings = SessionSettings { runs: 3, warmups: 2, seed: Some(1), ..SessionSettings::default() };
    let played = play(ComparePlay { settings, ..ComparePlay::default() });
    assert_eq!(played.names().iter().filter(|name| **name == "a").count(), 5);
    assert_eq!(played.names().iter().filter(|name| **name == "b").count(), 5);
    let warmups = played.heard.started.iter().filter(|(_, _, warmup)| *warmup).count();
    assert_eq!((warmups, played.heard.finished), (4, 6));
    assert!(played.heard.started[..4].iter().all(|(_, _, warmup)| *warmup));
}

#[test]
fn hooks_run_around_every_execution_and_cleanup_once() {
    let settings = SessionSettings { runs: 2, warmups: 1, seed: Some(1), ..SessionSettings::default() };
    let played = play(ComparePlay { settings, hooks: hooks(), ..ComparePlay::default() });
    let count = |name: &str| played.names().iter().filter(|own| **own == name).count();
    assert_eq!([count("setup"), count("prepare"), count("conclude"), count("cleanup")], [2, 6, 6, 2]);
    let names = played.names();
    assert_eq!(names[..2], ["setup", "setup"]);
    assert_eq!(names[names.len() - 2..], ["cleanup", "cleanup"]);
    for (i, name) in names.iter().enumerate().filter(|(_, name)| ["a", "b"].contains(name)) {
        assert_eq!((names[i - 1], names[i + 1]), ("prepare", "conclude"), "around {name}");
    }
}

#[test]
fn a_command_that_fails_ends_the_comparison_and_is_named_and_cleanup_runs() {
    let fail = Act::Exit(ExitStatus::Code(3));
    let ok = || Act::Exit(ExitStatus::Code(0));
    // Three rounds pass; then the first command of the fourth fails.
    let acts = [ok(), ok(), ok(), ok(), ok(), ok(), fail].into_iter().collect();
    let played = play(ComparePlay { acts, ..ComparePlay::default() });
    let arm = played.comparison().rounds[3].order[0];
    let expected = format!("command {}: the command exited with status 3 in run 4", arm + 1);
    assert_eq!(played.comparison().ended, Some(EarlyEnd::Failed(expected)));
    let other = &played.comparison().reports[1 - arm];
    assert_eq!(other.runs.len(), 3, "nothing runs behind a failure");
    let with_cleanup = play(ComparePlay {
        acts: vec![ok(), ok(), Act::Exit(ExitStatus::Code(3))],
        hooks: Hooks { cleanup: Some(CommandSpec::new("cleanup")), ..Hooks::default() },
        ..ComparePlay::default()
    });
    assert_eq!(with_cleanup.names().iter().filter(|name| **name == "cleanup").count(), 2);
}

#[test]
fn failures_that_are_to_be_ignored_are_runs_like_others() {
    let settings =
        SessionSettings { runs: 2, ignore_failure: true, seed: Some(1), ..SessionSettings::default() };
    let acts = vec![Act::Exit(ExitStatus::Code(1)); 4];
    let played = play(ComparePlay { acts, settings, ..ComparePlay::default() });
    assert_eq!(played.comparison().ended, None);
    assert!(
        played.comparison().reports.iter().flat_map(|r| &r.runs).all(|run| run.dropped_because.is_none())
    );
}

#[test]
fn a_command_that_does_not_exist_is_an_error_even_when_the_other_ran() {
    let played = play(ComparePlay {
        acts: vec![Act::Exit(ExitStatus::Code(0)), Act::NotFound],
        ..ComparePlay::default()
    });
    assert_eq!(played.result.unwrap_err().kind(), cyclometer_core::ErrorKind::CommandNotFound);
}

#[test]
fn a_hook_that_fails_is_named_with_its_option() {
    let hooks = Hooks { prepare: Some(CommandSpec::new("make")), ..Hooks::default() };
    let played =
        play(ComparePlay { acts: vec![Act::Exit(ExitStatus::Code(2))], hooks, ..ComparePlay::default() });
    let error = played.result.unwrap_err();
    assert_eq!(error.to_string(), "--prepare: the command 'make' exited with status 2");
    assert_eq!(played.asked.len(), 1, "the command itself was not run");
    let hooks = Hooks { cleanup: Some(CommandSpec::new("rm")), ..Hooks::default() };
    let settings = SessionSettings { runs: 1, seed: Some(1), ..SessionSettings::default() };
    let ok = Act::Exit(ExitStatus::Code(0));
    let acts = vec![ok.clone(), ok, Act::Exit(ExitStatus::Code(1))];
    let played = play(ComparePlay { acts, hooks, settings, ..ComparePlay::default() });
    let [failed] = played.comparison().failed_cleanups.as_slice() else { panic!("one cleanup fails") };
    assert_eq!(failed.to_string(), "--cleanup: the command 'rm' exited with status 1");
    let remedy = "run the command of --cleanup by itself to see what it says";
    assert_eq!(*failed.recovery(), cyclometer_core::Recovery::fix(remedy));
}

#[test]
fn a_cleanup_that_cannot_run_or_is_interrupted_keeps_its_own_kind_of_error() {
    use cyclometer_core::ErrorKind;
    let ok = || Act::Exit(ExitStatus::Code(0));
    let signal = Act::Signalled(Signalled { signal: 2, reached_command: true });
    for (act, kind) in [(Act::NotFound, ErrorKind::CommandNotFound), (signal, ErrorKind::Interrupted)] {
        let hooks = Hooks { cleanup: Some(CommandSpec::new("rm")), ..Hooks::default() };
        let settings = SessionSettings { runs: 1, seed: Some(1), ..SessionSettings::default() };
        let acts = vec![ok(), ok(), act.clone(), ok()];
        let played = play(ComparePlay { acts, hooks, settings, ..ComparePlay::default() });
        let kinds: Vec<ErrorKind> = played.comparison().failed_cleanups.iter().map(Error::kind).collect();
        assert_eq!((kinds, &played.comparison().ended), (vec![kind], &None), "results stay");
    }
}

#[test]
fn a_signal_ends_everything_and_what_was_measured_stays() {
    let ok = || Act::Exit(ExitStatus::Code(0));
    let signal = Act::Signalled(Signalled { signal: 15, reached_command: false });
    let played = play(ComparePlay { acts: vec![ok(), ok(), signal], ..ComparePlay::default() });
    assert_eq!(played.comparison().ended, Some(EarlyEnd::Interrupted(15)));
    assert_eq!(played.asked.len(), 3);
}

#[test]
fn the_watcher_can_end_it() {
    let played = play(ComparePlay { stops_after: Some(3), ..ComparePlay::default() });
    assert_eq!(played.comparison().ended, Some(EarlyEnd::Stopped("seen enough".to_owned())));
    assert_eq!(played.asked.len(), 3);
}

#[test]
fn time_that_is_over_ends_it_behind_a_whole_round() {
    let schedule = Schedule { budget: Some(Duration::ZERO), padding: 0 };
    let played = play(ComparePlay { schedule, ..ComparePlay::default() });
    assert_eq!(played.comparison().ended, Some(EarlyEnd::Budget));
    assert_eq!(played.asked.len(), 2, "one pair is always made");
    assert!(played.asked.iter().all(|(_, padding)| *padding == 0));
}

#[test]
fn translated_runs_come_first_and_without_padding() {
    let events = vec![soft("calls"), accounting("wall_time")];
    let played = play(ComparePlay { events, ..ComparePlay::default() });
    let comparison = played.comparison();
    let launches: Vec<LaunchKind> = comparison.reports[1].runs.iter().map(|run| run.launch).collect();
    assert_eq!(launches[..3], [LaunchKind::Translated, LaunchKind::Translated, LaunchKind::Native]);
    assert!(comparison.rounds[..2].iter().all(|round| round.padding == 0));
    assert!(comparison.rounds[2..].iter().any(|round| round.padding > 0));
}

#[test]
fn a_command_that_loses_its_counts_is_not_translated_again_unless_that_was_asked_for() {
    for (counted, wanted) in
        [(Counted::AtMost(2), 1), (Counted::AtMost(4), 1), (Counted::Runs(2), 2), (Counted::All, 8)]
    {
        let events = vec![soft("calls"), accounting("wall_time")];
        let played = play(ComparePlay { events, counted, soft_fate: Fate::Leave, ..ComparePlay::default() });
        for report in &played.comparison().reports {
            let translated = report.runs.iter().filter(|run| run.launch == LaunchKind::Translated).count();
            assert_eq!((translated, report.runs.len()), (wanted, 8), "{counted:?}");
            assert_eq!(report.steps.len(), usize::from(wanted == 1), "{:?}", report.steps);
        }
    }
}

#[test]
fn plans_for_other_numbers_of_runs_are_refused() {
    let machine = machine_with_counters();
    let plan = cyclometer_plan::plan(vec![accounting("wall_time")], &machine, Intent::default()).unwrap();
    let log = Log::default();
    let launch = ScriptedLaunch { log: log.clone(), acts: RefCell::default() };
    let means = SessionResources { launch: &launch, translated: None, sources: &[], machine: &machine };
    let settings = SessionSettings { runs: 2, ..SessionSettings::default() };
    let try_arms = |arms| {
        let mut heard = CompareHeard::default();
        compare(arms, &settings, &Schedule::default(), &means, &mut heard).unwrap_err().to_string()
    };
    assert_eq!(try_arms(Vec::new()), "there is no command to compare");
    let arm = Arm { command: CommandSpec::new("a"), plan, hooks: Hooks::default() };
    assert_eq!(try_arms(vec![arm]), "the plans are for other numbers of runs");
}

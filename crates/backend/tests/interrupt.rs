//! Signals to this process. A watch is for the whole process: one test waits here, the others in processes of
//! their own.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::env;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use common::{command, ended};
use cyclometer_backend::{Attached, Launcher};
use cyclometer_core::exec::{CommandSpec, ExitStatus, InputStream, OutputStream, Signalled, Waited};
use cyclometer_core::{Child, Launch};
use cyclometer_sys::process::{poll_readable, signal};
use cyclometer_sys::signals::Watch;

/// SIGINT, SIGTERM.
const SIGNALS: [i32; 2] = [2, 15];

#[test]
fn a_signal_to_us_ends_the_wait_and_not_the_child() {
    let _alone = alone();
    let watch = Arc::new(Watch::install().unwrap());
    let launcher = Launcher::start().unwrap().with_signals(Arc::clone(&watch));
    let mut child = launcher.prepare(&command("sleep", &["60"])).unwrap();
    child.release().unwrap();
    let attached: Attached = launcher.watched(Attached::system());
    let waiters: [Box<dyn Child>; 2] = [child, Box::new(attached)];
    for (mut waiter, number) in waiters.into_iter().zip(SIGNALS) {
        let sender = thread::spawn(move || {
            thread::sleep(Duration::from_millis(30));
            signal(std::process::id(), number).unwrap();
        });
        let late = Some(Instant::now() + Duration::from_secs(300));
        // A target that is only observed gets nothing from this process, so nothing is to be passed on.
        let reached_command = waiter.pid().is_none();
        assert_eq!(
            waiter.wait(late).unwrap(),
            Waited::Interrupted(Signalled { signal: number, reached_command })
        );
        sender.join().unwrap();
        let soon = Some(Instant::now() + Duration::from_millis(10));
        assert_eq!(waiter.wait(soon).unwrap(), Waited::TimedOut);
        if waiter.pid().is_some() {
            waiter.signal(15);
            assert_eq!(ended(waiter.as_mut()).status, Some(ExitStatus::Signal(15)));
        }
    }
    the_helper_ignores_what_the_terminal_sends(&launcher);
}

#[test]
fn a_signal_that_comes_before_the_command_begins_keeps_it_from_beginning() {
    let _alone = alone();
    let watch = Arc::new(Watch::install().unwrap());
    let launcher = Launcher::start().unwrap().with_signals(Arc::clone(&watch));
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let late = Some(Instant::now() + Duration::from_secs(300));
    let comes = |number| {
        signal(std::process::id(), number).unwrap();
        // The kernel may deliver it to another thread of this process.
        assert_eq!(poll_readable(&[watch.as_fd()], late).unwrap(), Some(0));
    };
    for (number, exists_before) in [(2, true), (15, true), (2, false), (15, false)] {
        if !exists_before {
            comes(number);
        }
        let mut child = launcher.prepare(&command("touch", &[mark.to_str().unwrap()])).unwrap();
        if exists_before {
            comes(number);
        }
        child.release().unwrap();
        let signalled = Signalled { signal: number, reached_command: true };
        assert_eq!(child.wait(late).unwrap(), Waited::Interrupted(signalled));
        assert_eq!(ended(child.as_mut()).status, Some(ExitStatus::Signal(number)));
        assert!(!mark.exists(), "the command must not have begun");
    }
}

/// One test at a time: the first one sends signals to every child of this process.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn the_helper_ignores_what_the_terminal_sends(launcher: &Launcher) {
    for helper in common::children() {
        for number in [2, 3, 15, 1, 20] {
            signal(helper, number).unwrap();
        }
    }
    let mut child = launcher.prepare(&command("sh", &["-c", "kill -INT $$"])).unwrap();
    child.release().unwrap();
    assert_eq!(ended(child.as_mut()).status, Some(ExitStatus::Signal(2)));
}

/// Set in a process that waits for a signal: the command's program.
const ROLE: &str = "CYCLOMETER_TEST_WAITS_FOR";

/// The waiting process prints this before its answer.
const READY: &str = "ready";

/// Not a test by itself: [`reached`] runs it in a process group of its own.
#[test]
#[allow(clippy::print_stdout, reason = "the answer to the test that started it")]
fn wait_for_a_signal() {
    let Some(program) = env::var_os(ROLE) else { return };
    let watch = Arc::new(Watch::install().unwrap());
    let launcher = Launcher::start().unwrap().with_signals(watch);
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let script = "trap 'sleep 0.2; exit 9' INT TERM; echo > \"$0\"; while :; do sleep 0.02; done";
    let mut spec = CommandSpec::new(&program);
    if program != "sh" {
        spec.args.push("sh".into());
    }
    spec.args.extend(["-c".into(), script.into(), mark.clone().into()]);
    (spec.stdin, spec.stdout, spec.stderr) = (InputStream::Null, OutputStream::Null, OutputStream::Null);
    let mut child = launcher.prepare(&spec).unwrap();
    child.release().unwrap();
    appears(&mark);
    println!("\n{READY}");
    let late = Some(Instant::now() + Duration::from_secs(20));
    let Waited::Interrupted(signalled) = child.wait(late).unwrap() else { panic!("no signal came") };
    // Time for the command to receive its signal: one that got it ends, however busy the machine is.
    let patience = Duration::from_millis(if signalled.reached_command { 20_000 } else { 900 });
    let end = child.wait(Some(Instant::now() + patience)).unwrap();
    println!("reached {} ended {}", signalled.reached_command, matches!(end, Waited::Exited(_)));
}

fn appears(file: &Path) {
    let late = Instant::now() + Duration::from_secs(20);
    while !file.exists() {
        assert!(Instant::now() < late, "{}", file.display());
        thread::sleep(Duration::from_millis(1));
    }
}

/// The answer of a process that waits for `program` and is sent `number`, alone or with its whole group.
fn reached(program: &str, number: i32, to_group: bool) -> String {
    let mut waiter = Command::new(env::current_exe().unwrap())
        .args(["wait_for_a_signal", "--exact", "--nocapture"])
        .env(ROLE, program)
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(waiter.stdout.take().unwrap()).lines().map(Result::unwrap);
    lines.find(|line| line == READY).unwrap();
    let sign = if to_group { "-" } else { "" };
    let kill = ["-s", &number.to_string(), "--", &format!("{sign}{}", waiter.id())];
    assert!(Command::new("kill").args(kill).status().unwrap().success());
    let answer = lines.find(|line| line.starts_with("reached")).unwrap();
    lines.for_each(drop);
    assert!(waiter.wait().unwrap().success());
    answer
}

#[test]
fn a_signal_to_the_group_has_reached_the_command_and_one_to_us_has_not() {
    let _alone = alone();
    for number in SIGNALS {
        assert_eq!(reached("sh", number, true), "reached true ended true");
        assert_eq!(reached("sh", number, false), "reached false ended false");
    }
}

#[test]
fn a_command_that_left_our_group_has_got_nothing() {
    let _alone = alone();
    if Command::new("setsid").arg("true").status().is_err() {
        return common::skip("there is no setsid");
    }
    for to_group in [true, false] {
        assert_eq!(reached("setsid", SIGNALS[0], to_group), "reached false ended false");
    }
}

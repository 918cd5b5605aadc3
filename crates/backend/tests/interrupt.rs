//! Signals to us. One test, as a watch is for the whole process.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use common::{command, ended};
use cyclometer_backend::{Attached, Launcher};
use cyclometer_core::exec::{ExitStatus, Signalled, Waited};
use cyclometer_core::{Child, Launch};
use cyclometer_sys::process::signal;
use cyclometer_sys::signals::Watch;

/// SIGINT, SIGTERM.
const SIGNALS: [i32; 2] = [2, 15];

#[test]
fn a_signal_to_us_ends_the_wait_and_not_the_child() {
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
        let late = Some(Instant::now() + Duration::from_secs(30));
        assert_eq!(
            waiter.wait(late).unwrap(),
            Waited::Interrupted(Signalled { signal: number, reached_command: false })
        );
        sender.join().unwrap();
        let soon = Some(Instant::now() + Duration::from_millis(10));
        assert_eq!(waiter.wait(soon).unwrap(), Waited::TimedOut);
        if waiter.pid() != 0 {
            waiter.signal(15);
            assert_eq!(ended(waiter.as_mut()).status, Some(ExitStatus::Signal(15)));
        }
    }
    the_helper_ignores_what_the_terminal_sends(&launcher);
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

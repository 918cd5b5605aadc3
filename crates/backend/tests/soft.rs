//! The software PMU on real commands, where tracing is permitted.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use common::{children, command, ended, skip, until, value};
use cyclometer_backend::{Launcher, Software, SoftwareSettings, software};
use cyclometer_core::exec::{CommandSpec, ExitStatus, Layout, Reading, RefusalKind, Waited};
use cyclometer_core::{Child, Counting, ErrorKind, MissingReason, Part, Rung, Slot, SlotId, Target};

/// Two events, as slots 0 and 1.
const EVENTS: [&str; 2] = ["instructions", "calls"];

fn slots(names: &[&str]) -> Vec<Slot> {
    let slot = |(i, name): (usize, &&str)| {
        Slot::new(SlotId(i), *name, Rung::Soft, vec![Part::Soft((*name).to_owned())])
    };
    names.iter().enumerate().map(slot).collect()
}

/// The requirements of the tests; `None`, after reporting why, where tracing is not permitted.
struct Here {
    launcher: Launcher,
    software: Software,
}

/// A command under translation that has not been released.
struct Started {
    child: Box<dyn Child>,
    counting: Box<dyn Counting>,
}

impl Here {
    fn new() -> Option<Here> {
        Here::with(SoftwareSettings::default())
    }

    fn with(settings: SoftwareSettings) -> Option<Here> {
        if let Err(e) = cyclometer_sys::trace::permitted() {
            skip(&format!("the software PMU: tracing is not permitted here: {e}"));
            return None;
        }
        Some(Here { launcher: Launcher::start().unwrap(), software: software(settings).unwrap() })
    }

    fn start(&self, command: &CommandSpec) -> Started {
        let child = self.software.launcher(&self.launcher).prepare(command).unwrap();
        let target = Target::Child(child.pid().unwrap());
        let mut counting = self.software.source().open(&slots(&EVENTS), &target).unwrap();
        counting.start().unwrap();
        Started { child, counting }
    }

    fn run(&self, program: &str, args: &[&str]) -> (Option<ExitStatus>, Reading) {
        let mut started = self.start(&command(program, args));
        started.child.release().unwrap();
        started.end()
    }
}

impl Started {
    fn end(&mut self) -> (Option<ExitStatus>, Reading) {
        let exit = ended(self.child.as_mut());
        self.counting.exited(&exit);
        self.counting.stop().unwrap();
        let mut reading = Reading::default();
        self.counting.read(&mut reading).unwrap();
        (exit.status, reading)
    }

    /// The process id of its tracer.
    fn tracer(&self) -> u32 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.pid().unwrap())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("TracerPid:")).unwrap();
        line.trim().parse().unwrap()
    }
}

fn lost(reading: &Reading) -> String {
    let lost = reading.cells[0].lost.as_ref();
    lost.unwrap_or_else(|| panic!("nothing is lost: {reading:?}")).to_string()
}

const SUCCESS: Option<ExitStatus> = Some(ExitStatus::Code(0));

#[test]
fn a_command_is_counted_and_two_runs_give_the_same() {
    let Some(here) = Here::new() else { return };
    let (status, first) = here.run("true", &[]);
    assert_eq!(status, SUCCESS);
    assert!(value(&first, 0) > 50_000 && value(&first, 1) > 100, "{first:?}");
    assert!(value(&first, 0) > value(&first, 1));
    let cell = &first.cells[0];
    assert!(cell.time_enabled_ns > 0 && cell.time_enabled_ns == cell.time_running_ns);
    let (_, second) = here.run("true", &[]);
    assert_eq!([0, 1].map(|i| value(&second, i)), [0, 1].map(|i| value(&first, i)));
}

#[test]
fn everything_that_a_command_starts_is_counted() {
    let Some(here) = Here::new() else { return };
    let one = value(&here.run("/bin/true", &[]).1, 0);
    let (status, reading) = here.run("sh", &["-c", "/bin/true; /bin/true & wait; (/bin/true); exit 3"]);
    assert_eq!(status, Some(ExitStatus::Code(3)));
    let shell = value(&here.run("sh", &["-c", "exit 3"]).1, 0);
    assert!(value(&reading, 0) > shell + 3 * one, "{shell} + 3 × {one}: {reading:?}");
}

#[test]
fn streams_status_and_signals_are_those_of_a_native_command() {
    let Some(here) = Here::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out");
    let mut spec = command("sh", &["-c", "echo $0; kill -TERM $$", "a b"]);
    spec.stdout = cyclometer_core::exec::OutputStream::File(file.clone());
    let mut started = here.start(&spec);
    started.child.release().unwrap();
    let (status, _) = started.end();
    assert_eq!(status, Some(ExitStatus::Signal(15)));
    assert_eq!(fs::read_to_string(file).unwrap(), "a b\n");
}

#[test]
fn a_command_that_does_not_exist_is_named() {
    let Some(here) = Here::new() else { return };
    let mut child =
        here.software.launcher(&here.launcher).prepare(&command("no-such-command-at-all", &[])).unwrap();
    child.release().unwrap();
    assert_eq!(child.wait(None).unwrap_err().kind(), ErrorKind::CommandNotFound);
}

#[test]
fn a_program_that_ignores_traps_runs_on_and_its_counts_are_lost_with_the_reason() {
    let Some(here) = Here::new() else { return };
    let (status, reading) = here.run("sh", &["-c", "trap '' TRAP; exit 0"]);
    assert_eq!(status, SUCCESS);
    let reason = lost(&reading);
    assert!(reason.starts_with("sh (") && reason.contains("): detached at 0x"), "{reason}");
    assert!(reason.ends_with("ignores SIGTRAP"), "{reason}");
    assert!(reading.cells.iter().all(|cell| cell.lost.is_some() && cell.raw == 0), "{reading:?}");
}

#[test]
fn a_program_with_threads_is_counted() {
    let Some(here) = Here::new() else { return };
    let program = std::env::current_exe().unwrap();
    let args = ["--ignored", "--exact", "soft::a_thread_is_started_and_ends"];
    let (status, reading) = here.run(program.to_str().unwrap(), &args);
    assert_eq!(status, SUCCESS);
    assert!(reading.cells.iter().all(|cell| cell.lost.is_none()), "{reading:?}");
}

#[test]
#[ignore = "is the program of the test before"]
fn a_thread_is_started_and_ends() {
    std::thread::spawn(|| ()).join().unwrap();
}

#[test]
fn what_cannot_be_followed_is_refused_before_it_exists() {
    let Some(here) = Here::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("program");
    let mut head = [0; 64];
    head[..5].copy_from_slice(b"\x7fELF\x01");
    head[18] = 3;
    fs::write(&file, head).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    let error = here.software.launcher(&here.launcher).prepare(&command(file.to_str().unwrap(), &[]));
    let error = error.err().unwrap().to_string();
    assert!(error.contains("it executes a 32-bit program"), "{error}");
}

/// The count of an event, unless the tracer had no time to answer, as on a busy machine.
fn heard(reading: &Reading, slot: usize) -> Option<u64> {
    let silent = |lost: &MissingReason| lost.to_string().contains("said nothing");
    (!reading.cells[slot].lost.as_ref().is_some_and(silent)).then(|| value(reading, slot))
}

/// Whether an event was counted.
fn counts(reading: &Reading) -> bool {
    heard(reading, 0).is_some_and(|count| count > 0)
}

#[test]
fn counts_can_be_read_while_the_command_runs() {
    let Some(here) = Here::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let enough = folder.path().join("enough");
    let script = "while ! [ -e \"$0\" ]; do :; done";
    let mut started = here.start(&command("sh", &["-c", script, &enough.to_string_lossy()]));
    started.child.release().unwrap();
    let mut seen = vec![0];
    while seen.len() < 5 {
        let last = *seen.last().unwrap();
        let more = |reading: &Reading| heard(reading, 0).is_some_and(|count| count != last);
        seen.push(value(&until(started.counting.as_mut(), more), 0));
    }
    fs::write(&enough, "").unwrap();
    let (status, reading) = started.end();
    assert_eq!(status, SUCCESS);
    seen.push(value(&reading, 0));
    assert!(seen.is_sorted(), "{seen:?}");
}

#[test]
fn reading_changes_nothing() {
    let Some(here) = Here::new() else { return };
    let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let mut started = here.start(&command("sh", &["-c", script]));
    started.child.release().unwrap();
    while started.child.wait(Some(Instant::now() + Duration::from_millis(5))).unwrap() == Waited::TimedOut {
        common::read(started.counting.as_mut());
    }
    let (status, reading) = started.end();
    assert_eq!(status, SUCCESS);
    assert_eq!(value(&here.run("sh", &["-c", script]).1, 0), value(&reading, 0));
}

#[test]
fn when_the_tracer_is_killed_nothing_hangs_and_no_number_is_told() {
    let Some(here) = Here::new() else { return };
    let mut started = here.start(&command("sh", &["-c", "while :; do :; done"]));
    let tracer = started.tracer();
    started.child.release().unwrap();
    until(started.counting.as_mut(), counts);
    signal(tracer, "KILL");
    let (status, reading) = started.end();
    assert_eq!(status, Some(ExitStatus::Signal(9)));
    assert_eq!(lost(&reading), "the tracer died, and the command with it");
}

fn signal(pid: u32, name: &str) {
    let sent = std::process::Command::new("kill").args(["-s", name, &pid.to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn a_tracer_that_is_stopped_does_not_keep_us_from_hearing() {
    let Some(here) = Here::new() else { return };
    let mut started = here.start(&command("sh", &["-c", "while :; do :; done"]));
    let tracer = started.tracer();
    started.child.release().unwrap();
    until(started.counting.as_mut(), counts);
    signal(tracer, "STOP");
    started.child.signal(9);
    for _ in 0..2 {
        let late = Instant::now() + Duration::from_millis(100);
        assert_eq!(started.child.wait(Some(late)).unwrap(), Waited::TimedOut);
    }
    let mut reading = Reading::default();
    assert!(started.counting.read(&mut reading).is_err(), "{reading:?}");
    signal(tracer, "CONT");
    assert_eq!(started.end().0, Some(ExitStatus::Signal(9)));
}

#[test]
fn a_command_that_is_killed_ends_and_says_so() {
    let Some(here) = Here::new() else { return };
    let mut started = here.start(&command("sh", &["-c", "while :; do :; done"]));
    started.child.release().unwrap();
    until(started.counting.as_mut(), counts);
    started.child.signal(9);
    let (status, reading) = started.end();
    assert_eq!(status, Some(ExitStatus::Signal(9)));
    // Its last counts may have been read before it ended.
    assert!(reading.cells.iter().all(|cell| cell.lost.is_some() || cell.raw > 0), "{reading:?}");
}

#[test]
fn a_process_that_stays_is_counted_up_to_the_end_of_the_command_and_runs_on() {
    let Some(here) = Here::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("done");
    let script = r#"(sleep 0.3; echo done > "$0") & exit 0"#;
    let (status, reading) = here.run("sh", &["-c", script, file.to_str().unwrap()]);
    assert_eq!(status, SUCCESS);
    assert!(!file.exists());
    assert!(value(&reading, 0) > 0);
    let late = Instant::now() + Duration::from_secs(20);
    while fs::read_to_string(&file).unwrap_or_default() != "done\n" {
        assert!(Instant::now() < late);
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_layout_is_told_as_it_is() {
    for (random_layout, expected) in [(false, Layout::Fixed), (true, Layout::Random)] {
        let Some(here) = Here::with(SoftwareSettings { random_layout, ..SoftwareSettings::default() }) else {
            return;
        };
        let mut started = here.start(&command("true", &[]));
        started.child.release().unwrap();
        started.end();
        let layout = started.child.layout();
        if !random_layout && layout == Some(Layout::Random) {
            return skip("the software PMU's fixed layout: the sandbox forbids it");
        }
        assert_eq!(layout, Some(expected));
    }
}

#[test]
fn only_its_own_commands_and_events_are_opened() {
    let Some(here) = Here::new() else { return };
    let source = here.software.source();
    let refusal = |slots: &[Slot], target| source.open(slots, &target).err().unwrap();
    assert_eq!(refusal(&slots(&EVENTS), Target::ThisThread).kind, RefusalKind::TargetNotSupported);
    assert_eq!(refusal(&slots(&EVENTS), Target::Child(1)).slot, None);
    let child = here.software.launcher(&here.launcher).prepare(&command("true", &[])).unwrap();
    let refused = refusal(&slots(&["instructions", "cycles"]), Target::Child(child.pid().unwrap()));
    assert_eq!((refused.slot, refused.kind), (Some(SlotId(1)), RefusalKind::NotSupported));
    // Another attempt on the same child succeeds like the first.
    drop(source.open(&slots(&EVENTS), &Target::Child(child.pid().unwrap())).unwrap());
    assert!(source.open(&slots(&EVENTS), &Target::Child(child.pid().unwrap())).is_ok());
}

/// Whether a process exists and is no zombie.
fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, behind)| !behind.starts_with('Z'))
}

#[test]
fn nothing_is_left_of_a_command_that_was_not_released() {
    let Some(here) = Here::new() else { return };
    let started = here.start(&command("true", &[]));
    let (pid, tracer) = (started.child.pid().unwrap(), started.tracer());
    drop(started);
    assert!(!children().contains(&pid));
    let late = Instant::now() + Duration::from_secs(20);
    while lives(tracer) {
        assert!(Instant::now() < late, "the tracer {tracer} stays");
        std::thread::sleep(Duration::from_millis(5));
    }
}

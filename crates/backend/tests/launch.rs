//! Commands as children: streams, arguments, ends, failures.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::common;

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use common::{command, ended, run};
use cyclometer_backend::{Attached, Launcher};
use cyclometer_core::exec::{CommandSpec, ExitStatus, InputStream, OutputStream, Waited};
use cyclometer_core::{Child, Error, ErrorKind, Launch};

fn status(program: &str, args: &[&str]) -> ExitStatus {
    run(&Launcher::start().unwrap(), &command(program, args)).status.unwrap()
}

/// The output of a shell script with arguments.
fn output(script: &str, args: Vec<OsString>) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out");
    let mut spec = command("sh", &["-c", script]);
    spec.args.extend(args);
    spec.stdout = OutputStream::File(file.clone());
    assert_eq!(run(&Launcher::start().unwrap(), &spec).status, Some(ExitStatus::Code(0)));
    fs::read(file).unwrap()
}

fn refused(spec: &CommandSpec) -> Error {
    let launcher = Launcher::start().unwrap();
    launcher.prepare(spec).and_then(|mut child| child.release().and_then(|()| child.wait(None))).unwrap_err()
}

#[test]
fn a_command_gives_its_status_and_its_signal() {
    assert_eq!(status("true", &[]), ExitStatus::Code(0));
    assert_eq!(status("sh", &["-c", "exit 41"]), ExitStatus::Code(41));
    assert_eq!(status("sh", &["-c", "kill -9 $$"]), ExitStatus::Signal(9));
}

#[test]
fn a_command_that_cannot_run_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "no program\n").unwrap();
    let path = file.to_str().unwrap();
    let error = refused(&command("no-such-command-at-all", &[]));
    assert_eq!(error.kind(), ErrorKind::CommandNotFound);
    assert_eq!(error.to_string(), "command 'no-such-command-at-all' not found");
    for (program, mode, words) in [
        (path, 0o644, "permission denied"),
        (path, 0o755, "neither a program"),
        ("/", 0, "it is a directory"),
    ] {
        if program == path {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        }
        let error = refused(&command(program, &[]));
        assert_eq!(error.kind(), ErrorKind::CommandNotExecutable);
        assert!(error.to_string().contains(words), "{error}");
    }
    let error = refused(&command(&format!("{path}/x"), &[]));
    assert_eq!(error.kind(), ErrorKind::CommandNotExecutable);
}

#[test]
fn a_stream_that_cannot_be_opened_is_named() {
    let mut spec = command("true", &[]);
    spec.stdin = InputStream::File("/no/such/input".into());
    let error = refused(&spec);
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().starts_with("cannot read '/no/such/input': "), "{error}");
}

#[test]
fn standard_input_is_empty_or_a_file() {
    assert_eq!(output("cat", vec![]), b"");
    let folder = tempfile::tempdir().unwrap();
    let (input, out) = (folder.path().join("in"), folder.path().join("out"));
    fs::write(&input, "both\n").unwrap();
    let spec = CommandSpec {
        stdin: InputStream::File(input),
        stdout: OutputStream::File(out.clone()),
        stderr: OutputStream::File(out.clone()),
        ..command("sh", &["-c", "cat; echo outputs >&2"])
    };
    let launcher = Launcher::start().unwrap();
    for _ in 0..2 {
        run(&launcher, &spec);
        assert_eq!(fs::read_to_string(&out).unwrap(), "both\noutputs\n");
    }
}

#[test]
fn many_and_long_arguments_arrive_whole() {
    let mut args: Vec<OsString> = vec!["sh".into(), "x".repeat(100_000).into()];
    args.extend((0..1000).map(|n| OsString::from(n.to_string())));
    assert_eq!(output("echo $# ${#1}; shift 1000; echo $1", args), b"1001 100000\n999\n");
}

#[test]
fn arguments_arrive_byte_for_byte() {
    let bytes = b"\xff\xfe \n'\"$HOME\x01".to_vec();
    assert_eq!(output("printf %s \"$1\"", vec!["sh".into(), OsString::from_vec(bytes.clone())]), bytes);
}

#[test]
fn too_many_arguments_are_an_error_of_the_command() {
    let long = "x".repeat(120_000);
    let error = refused(&command("true", &vec![long.as_str(); 100]));
    assert_eq!(error.kind(), ErrorKind::CommandNotExecutable);
    assert!(error.to_string().contains("too long"), "{error}");
}

#[test]
fn wall_time_runs_from_release_to_the_end() {
    let launcher = Launcher::start().unwrap();
    let mut child = launcher.prepare(&command("sleep", &["0.1"])).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let released = Instant::now();
    child.release().unwrap();
    let exit = ended(child.as_mut());
    let outside = released.elapsed();
    assert!(exit.wall_ns >= 100_000_000, "{exit:?}");
    assert!(u128::from(exit.wall_ns) <= outside.as_nanos(), "{exit:?} {outside:?}");
}

#[test]
fn a_deadline_comes_before_the_end_and_the_end_stays_known() {
    let launcher = Launcher::start().unwrap();
    let mut child = launcher.prepare(&command("sleep", &["60"])).unwrap();
    child.release().unwrap();
    let soon = Some(Instant::now() + Duration::from_millis(30));
    assert_eq!(child.wait(soon).unwrap(), Waited::TimedOut);
    child.signal(15);
    let exit = ended(child.as_mut());
    assert_eq!(exit.status, Some(ExitStatus::Signal(15)));
    assert_eq!(ended(child.as_mut()), exit);
}

#[test]
fn a_child_does_nothing_before_it_is_released() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let launcher = Launcher::start().unwrap();
    let child = launcher.prepare(&command("touch", &[mark.to_str().unwrap()])).unwrap();
    let pid = child.pid().unwrap();
    std::thread::sleep(Duration::from_millis(30));
    assert!(fs::exists(format!("/proc/{pid}")).unwrap());
    drop(child);
    assert!(!fs::exists(format!("/proc/{pid}")).unwrap() && !mark.exists());
}

#[test]
fn a_running_process_is_watched_to_its_end() {
    let launcher = Launcher::start().unwrap();
    let mut child = launcher.prepare(&command("sleep", &["60"])).unwrap();
    child.release().unwrap();
    let mut attached = launcher.watched(Attached::process(child.pid().unwrap()).unwrap());
    let soon = Some(Instant::now() + Duration::from_millis(20));
    assert_eq!(attached.wait(soon).unwrap(), Waited::TimedOut);
    attached.signal(9);
    assert_eq!(attached.wait(Some(Instant::now())).unwrap(), Waited::TimedOut);
    child.signal(9);
    let exit = ended(&mut attached);
    assert_eq!((exit.status, exit.usage), (None, None));
    assert!(exit.wall_ns >= 20_000_000);
}

#[test]
fn commands_outlive_their_launcher() {
    let launcher = Launcher::start().unwrap();
    let mut child = launcher.prepare(&command("sh", &["-c", "sleep 0.05; exit 3"])).unwrap();
    drop(launcher);
    child.release().unwrap();
    assert_eq!(ended(child.as_mut()).status, Some(ExitStatus::Code(3)));
}

//! The standard input and the output of commands that run several times.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::support;

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{cyclometer, run, stderr, stdout};

/// Without a PMU, and without translation.
const STAT: [&str; 4] = ["stat", "--backend", "os", "-r"];

/// A folder, and the file in it to which commands write their input.
struct Seen {
    folder: tempfile::TempDir,
}

impl Seen {
    fn new() -> Seen {
        Seen { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path("seen")).unwrap_or_default()
    }

    /// `stat` of a script, in the folder; `$0` is the file.
    fn stat(&self, runs: &str, options: &[&str], script: &str, stdin: impl Into<Stdio>) -> Output {
        let mut command = cyclometer();
        command.current_dir(&self.folder).stdin(stdin).args(STAT).arg(runs).args(options);
        command.args(["--", "sh", "-c", script, &self.path("seen")]).output().unwrap()
    }

    /// `compare` of two commands, in the folder.
    fn compare(&self, options: &[&str], commands: [&str; 2], stdin: impl Into<Stdio>) -> Output {
        let mut command = cyclometer();
        command.current_dir(&self.folder).stdin(stdin).args(["compare", "--backend", "os", "-p", "2"]);
        command.args(["-w", "0"]).args(options).args(commands).output().unwrap()
    }
}

/// Prints the kind of standard output.
const WHAT_OUTPUT_IS: &str = "exec 3>&1; if [ /dev/fd/3 -ef /dev/null ]; then echo null; elif [ -p /dev/fd/3 ]; then \
                              echo pipe; elif [ -t 3 ]; then echo terminal; else echo other; fi >> \"$0\"";

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(300);
    while !done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn output_that_is_dropped_is_not_seen_to_be_and_the_table_says_so() {
    let seen = Seen::new();
    let out = seen.stat("2", &[], WHAT_OUTPUT_IS, Stdio::null());
    assert_eq!(seen.text(), "other\nother\n");
    assert!(stdout(&out).contains("standard output: discarded"), "{}", stdout(&out));
    let script = format!("sh -c '{WHAT_OUTPUT_IS}' seen");
    let out = seen.compare(&[], [&script, "true"], Stdio::null());
    assert_eq!(seen.text(), "other\n".repeat(4));
    assert!(stdout(&out).contains("standard output: discarded"), "{}", stdout(&out));
}

#[test]
fn reserved_words_of_output_make_no_files() {
    for (word, saw, told) in [("null", "null", "/dev/null, for which"), ("pipe", "pipe", "a pipe, read")] {
        let seen = Seen::new();
        let out = seen.stat("2", &["--output", word], WHAT_OUTPUT_IS, Stdio::null());
        assert_eq!(seen.text(), format!("{saw}\n{saw}\n"), "{out:?}");
        assert!(stdout(&out).contains(&format!("standard output: {told}")), "{}", stdout(&out));
        assert!(!Path::new(&seen.path(word)).exists());
        let file = format!("./{word}");
        seen.stat("2", &["--output", &file], "echo written", Stdio::null());
        assert_eq!(fs::read_to_string(seen.path(word)).unwrap(), "written\n");
    }
}

#[test]
fn one_run_may_write_to_a_pipe_and_json_says_where_output_went() {
    let seen = Seen::new();
    let out = seen.stat("1", &["--output", "pipe", "--json"], WHAT_OUTPUT_IS, Stdio::null());
    assert_eq!(seen.text(), "pipe\n");
    let value: Value = serde_json::from_str(&stdout(&out)).unwrap();
    assert_eq!(value["commands"][0]["streams"]["stdout"], "pipe");
    let out = seen.stat("2", &["--json"], "true", Stdio::null());
    let value: Value = serde_json::from_str(&stdout(&out)).unwrap();
    assert_eq!(value["commands"][0]["streams"]["stdout"], "discard");
    assert_eq!(value["commands"][0]["streams"]["stdin"], "null");
}

#[test]
fn one_run_that_inherits_the_null_device_is_told_what_that_means() {
    let out =
        cyclometer().args(["stat", "--backend", "os", "--", "true"]).stdout(Stdio::null()).output().unwrap();
    assert!(stderr(&out).contains("standard output: /dev/null, for which some programs"), "{}", stderr(&out));
    let out = run(&["stat", "--backend", "os", "--", "true"]);
    assert!(!stderr(&out).contains("standard output:"), "{}", stderr(&out));
}

#[test]
fn a_pipe_takes_all_that_is_written() {
    let seen = Seen::new();
    let script = "head -c 5000000 /dev/zero && echo whole >> \"$0\"";
    let out = seen.stat("3", &["--output", "pipe"], script, Stdio::null());
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    assert_eq!(seen.text(), "whole\n".repeat(3));
}

#[test]
fn a_process_that_a_command_leaves_behind_holds_nothing_up_and_gets_no_sigpipe() {
    let seen = Seen::new();
    let script = "(until [ -e go ]; do sleep 0.05; done; head -c 300000 /dev/zero && echo whole >> \"$0\") &";
    let out = seen.stat("2", &["--output", "pipe"], script, Stdio::null());
    assert_eq!((out.status.code(), seen.text().as_str()), (Some(0), ""), "{out:?}");
    // We have ended, and they write now.
    File::create(seen.path("go")).unwrap();
    until("what was left behind could not write", || seen.text() == "whole\nwhole\n");
}

#[test]
fn a_program_that_looks_for_the_null_device_does_all_its_work_as_into_a_pipe() {
    if !support::software_pmu_works() {
        return;
    }
    // As GNU's grep and tar do; of the shell alone, so that it is the same everywhere.
    let script = "[ /dev/fd/1 -ef /dev/null ] && exit; i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done";
    let count = |output: &[&str]| {
        let mut command = cyclometer();
        command.args(["stat", "--backend", "soft", "-e", "calls", "--json", "-r", "2"]).args(output);
        let out = command.args(["--", "sh", "-c", script]).output().unwrap();
        let value: Value = serde_json::from_str(&stdout(&out)).unwrap();
        value["commands"][0]["metrics"][0]["mean"].as_f64().unwrap()
    };
    let (dropped, piped, null) = (count(&[]), count(&["--output", "pipe"]), count(&["--output", "null"]));
    assert!((dropped - piped).abs() < 0.01 * piped, "{dropped} {piped}");
    assert!(null < 0.5 * piped, "{null} {piped}");
}

#[test]
fn a_file_in_standard_input_is_read_by_each_run_from_where_it_stands() {
    let seen = Seen::new();
    fs::write(seen.path("in"), "skipped\nfirst\nsecond\n").unwrap();
    let mut file = File::open(seen.path("in")).unwrap();
    file.seek(SeekFrom::Start(8)).unwrap();
    let out = seen.stat("2", &["-w", "1"], "cat >> \"$0\"", file.try_clone().unwrap());
    assert_eq!(seen.text(), "first\nsecond\n".repeat(3), "{out:?}");
    assert!(stdout(&out).contains("standard input: the same file in each run"), "{}", stdout(&out));
    assert_eq!(file.stream_position().unwrap(), 8, "ours stays where it was");
    let out = seen.compare(&[], ["sh -c 'read x; echo $x >> a'", "sh -c 'cat >> b'"], file);
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    assert_eq!(fs::read_to_string(seen.path("a")).unwrap(), "first\n".repeat(2));
    assert_eq!(fs::read_to_string(seen.path("b")).unwrap(), "first\nsecond\n".repeat(2));
}

#[test]
fn a_file_without_a_name_and_a_device_are_read_by_each_run() {
    let seen = Seen::new();
    fs::write(seen.path("in"), "gone\n").unwrap();
    let file = File::open(seen.path("in")).unwrap();
    fs::remove_file(seen.path("in")).unwrap();
    seen.stat("2", &[], "cat >> \"$0\"", file);
    assert_eq!(seen.text(), "gone\ngone\n");
    let seen = Seen::new();
    let zero = File::open("/dev/zero").unwrap();
    seen.stat("2", &[], "head -c 3 | wc -c | tr -d ' ' >> \"$0\"", zero);
    assert_eq!(seen.text(), "3\n3\n");
}

#[test]
fn data_in_a_pipe_is_refused_before_anything_runs() {
    let seen = Seen::new();
    let full = || {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"data\n").unwrap();
        reader
    };
    let script = "echo ran >> \"$0\"";
    for out in [
        seen.stat("2", &[], script, full()),
        seen.stat("1", &["-w", "1"], script, full()),
        seen.compare(&[], ["touch seen", "touch seen"], full()),
    ] {
        assert_eq!(out.status.code(), Some(125), "{out:?}");
        let text = stderr(&out);
        assert!(text.contains("standard input is a pipe with data"), "{text}");
        assert!(text.contains("--input FILE") && text.contains("--input null"), "{text}");
    }
    assert!(!Path::new(&seen.path("seen")).exists());
    let out = seen.stat("2", &["--input", "null"], "cat >> \"$0\"; echo ran >> \"$0\"", full());
    assert_eq!((out.status.code(), seen.text().as_str()), (Some(0), "ran\nran\n"), "{out:?}");
    let out = seen.stat("1", &[], "cat >> \"$0\"", full());
    assert_eq!((out.status.code(), seen.text().as_str()), (Some(0), "ran\nran\ndata\n"), "one run reads it");
}

#[test]
fn a_silent_pipe_is_no_error_and_is_noted() {
    let seen = Seen::new();
    let (silent, writer) = std::io::pipe().unwrap();
    let out = seen.stat("2", &[], "cat >> \"$0\"", silent.try_clone().unwrap());
    assert_eq!((out.status.code(), seen.text().as_str()), (Some(0), ""), "{out:?}");
    assert!(stderr(&out).contains("note: nothing arrives in standard input"), "{}", stderr(&out));
    let out = seen.stat("2", &["-q"], "true", silent.try_clone().unwrap());
    assert_eq!(stderr(&out), "");
    drop(writer);
    let out = seen.stat("2", &[], "true", silent);
    assert_eq!(stderr(&out), "", "a pipe that has ended says all that it has to say");
}

#[test]
fn data_that_arrives_too_late_is_warned_of() {
    let seen = Seen::new();
    let (late, mut writer) = std::io::pipe().unwrap();
    let go = seen.path("go");
    let begun = seen.path("seen");
    let writes = std::thread::spawn(move || {
        until("the first run has not begun", || Path::new(&begun).exists());
        writer.write_all(b"late\n").unwrap();
        File::create(go).unwrap();
        writer
    });
    let script = "echo begun >> \"$0\"; until [ -e go ]; do sleep 0.01; done";
    let out = seen.stat("2", &["-q"], script, late);
    drop(writes.join().unwrap());
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    assert!(stderr(&out).contains("warning: data arrived in standard input too late"), "{}", stderr(&out));
}

#[test]
fn several_runs_get_the_same_errors_from_standard_input_as_one_run() {
    let seen = Seen::new();
    let folder = || File::open("/").unwrap();
    let write_only =
        || File::options().write(true).create(true).truncate(false).open(seen.path("log")).unwrap();
    fs::write(seen.path("log"), "not to be read").unwrap();
    let script = "cat >> \"$0\" 2>&1";
    for stdin in [&folder as &dyn Fn() -> File, &write_only] {
        let mut texts = Vec::new();
        for runs in ["1", "2"] {
            fs::write(seen.path("seen"), "").unwrap();
            let out = seen.stat(runs, &["-q", "-i"], script, stdin());
            assert_eq!(out.status.code(), Some(0), "{out:?}");
            texts.push(seen.text());
        }
        assert_eq!(texts[0].lines().count(), 1, "{texts:?}");
        assert_eq!(texts[1], texts[0].repeat(2));
    }
    fs::write(seen.path("seen"), "").unwrap();
    seen.compare(&["-q", "-i"], ["sh -c 'cat 2>> seen'", "true"], folder());
    assert_eq!(seen.text().lines().count(), 2, "{}", seen.text());
}

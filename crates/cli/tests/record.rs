//! `record`: rows of a command, their sums, and files and options that make no sense.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use cyclometer::core::Count;
use cyclometer::core::window::{WindowCause, WindowRow};
use cyclometer::recording::{Recording, RecordingEnd};
use support::{cyclometer, skip, software_pmu_works, stderr, stdout};

/// A recording that was read to its end.
struct ReadRecording {
    columns: Vec<String>,
    rows: Vec<WindowRow>,
    end: RecordingEnd,
}

fn read(path: &Path) -> ReadRecording {
    let mut recording = Recording::open(fs::File::open(path).unwrap()).unwrap();
    let columns = recording.header().events.iter().map(|event| event.name.clone()).collect();
    let rows = recording.by_ref().map(Result::unwrap).collect();
    ReadRecording { columns, rows, end: recording.end().unwrap().clone() }
}

impl ReadRecording {
    fn totals(&self) -> &[Count] {
        match &self.end {
            RecordingEnd::Complete(footer) => &footer.totals,
            incomplete => panic!("{incomplete:?}"),
        }
    }

    fn sum(&self, column: usize) -> u64 {
        self.rows.iter().map(|row| row.counts[column].value().unwrap()).sum()
    }
}

fn record(folder: &Path, arguments: &[&str]) -> Output {
    cyclometer().arg("record").args(arguments).current_dir(folder).output().unwrap()
}

const LOOP: &str = "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done";

#[test]
fn rows_of_the_software_pmu_have_exactly_the_period_and_add_up_to_the_totals_of_stat() {
    if !software_pmu_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let events = ["--backend", "soft", "-e", "instructions,loads,calls"];
    let command = ["--", "env", "-i", "sh", "-c", LOOP];
    let out = record(
        folder.path(),
        &[&["--every", "500k:instructions", "-o", "r"], &events[..], &command].concat(),
    );
    assert!(out.status.success(), "{out:?}");
    let recording = read(&folder.path().join("r"));
    assert_eq!(recording.columns, ["instructions:u", "loads:u", "calls:u"]);
    let boundaries: Vec<&WindowRow> =
        recording.rows.iter().filter(|row| row.cause == WindowCause::Boundary(0)).collect();
    assert!(boundaries.len() > 3, "{:?}", recording.rows);
    assert!(boundaries.iter().all(|row| row.counts[0] == Count::Exact(500_000)), "{boundaries:?}");
    assert_eq!(recording.rows.last().map(|row| row.cause), Some(WindowCause::End));
    // In the same folder, as the shell looks at its name.
    let stat = [&["stat", "--json", "--output", "null"], &events[..], &command].concat();
    let counted = cyclometer().args(&stat).current_dir(folder.path()).output().unwrap();
    let report: serde_json::Value = serde_json::from_str(&stdout(&counted)).unwrap();
    for (column, name) in recording.columns.iter().enumerate() {
        assert_eq!(recording.totals()[column], Count::Exact(recording.sum(column)), "{name}");
        let mut lines = report["commands"][0]["metrics"].as_array().unwrap().iter();
        let line = lines.find(|line| line["name"] == name.as_str()).unwrap_or_else(|| panic!("{report}"));
        let of_stat = line["mean"].as_f64().unwrap_or_else(|| panic!("{line}"));
        assert_eq!(recording.sum(column) as f64, of_stat, "{name}");
    }
    let table = stderr(&out);
    assert!(table.contains("rows, one every 500,000 instructions:u, in r\n"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
}

#[test]
fn rows_by_time_add_up_and_the_command_decides_the_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("{LOOP}; exit 3");
    let options = ["-I", "5", "--backend", "os", "-e", "user_time,page-faults"];
    let out = record(folder.path(), &[&options[..], &["--", "sh", "-c", &script]].concat());
    assert_eq!(out.status.code(), Some(3), "{out:?}");
    let recording = read(&folder.path().join("cyclometer.rec"));
    assert_eq!(recording.rows.last().map(|row| row.cause), Some(WindowCause::End));
    // The accounts of a command that runs contain its launch; the total does not.
    let faults = recording.totals()[1].value().unwrap();
    assert!(faults > 0 && recording.sum(1) >= faults, "{:?}", recording.rows);
}

#[test]
fn a_recording_of_that_name_is_kept_and_another_file_stays() {
    let folder = tempfile::tempdir().unwrap();
    let os = ["-q", "-I", "5", "--backend", "os", "-e", "user_time", "-o", "r", "--", "true"];
    for _ in 0..2 {
        let out = record(folder.path(), &os);
        assert!(out.status.success() && out.stderr.is_empty(), "{out:?}");
    }
    assert!(matches!(read(&folder.path().join("r.old")).end, RecordingEnd::Complete(_)));
    fs::write(folder.path().join("r"), "notes\n").unwrap();
    let out = record(folder.path(), &os);
    assert_eq!(out.status.code(), Some(125));
    assert!(stderr(&out).contains("r is no recording, and stays as it is"), "{}", stderr(&out));
    assert_eq!(fs::read_to_string(folder.path().join("r")).unwrap(), "notes\n");
}

#[test]
fn options_that_make_no_sense_are_errors_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let touch = ["--", "touch", "ran"];
    for (options, said) in [
        (&["--every", "0"][..], "a row of 0 events never ends"),
        (&["--every", "99999999999999999999"], "wider than any counter"),
        (&["--every", "1M", "--interval", "10"], "cannot be used with"),
        (&["--every", "1000:cycels"], "cycels"),
        (&["--backend", "os", "--every", "1000", "-e", "user_time"], "instructions"),
        (&["-o", "/nope/r"], "/nope/r"),
        (&["-o", "-"], "would mix on standard output"),
        (&["-p", "1", "-t", "1"], "cannot be used with"),
    ] {
        let out = record(folder.path(), &[options, &touch[..]].concat());
        assert_eq!(out.status.code(), Some(125), "{options:?}: {out:?}");
        assert!(stderr(&out).contains(said), "{options:?}: {}", stderr(&out));
        assert!(!folder.path().join("ran").exists(), "{options:?}");
    }
    assert_eq!(record(folder.path(), &["--", "no-such-program"]).status.code(), Some(127));
}

#[test]
fn windows_end_at_the_event_that_is_named_in_its_modes() {
    let folder = tempfile::tempdir().unwrap();
    for (options, leader, period, others) in [
        (
            ["--every", "1M", "-e", "instructions:k,instructions:u"],
            "instructions:u",
            1_000_000,
            "instructions:k",
        ),
        (["--every", "500k:cycles", "-e", "{cycles:k,instructions}"], "cycles:u", 500_000, "cycles:k"),
    ] {
        let out = record(folder.path(), &[&["--machine", "sim:skylake", "-o", "r"], &options[..]].concat());
        assert!(out.status.success(), "{out:?}");
        let recording = read(&folder.path().join("r"));
        let column = recording.columns.iter().position(|name| name == leader).unwrap();
        assert!(recording.columns.iter().any(|name| name == others), "{:?}", recording.columns);
        let inner: Vec<u64> = recording
            .rows
            .iter()
            .filter(|row| row.cause == WindowCause::Boundary(0))
            .map(|row| row.counts[column].value().unwrap())
            .collect();
        let mean = inner.iter().sum::<u64>() / inner.len() as u64;
        assert!(mean.abs_diff(period) < period / 1000, "{leader}: {mean}");
    }
}

#[test]
fn a_recording_is_drawn_when_it_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!("{LOOP}; exit 3");
    for (name, begins) in [("p.svg", "<svg "), ("p.html", "<!DOCTYPE html>")] {
        let options = ["-q", "-I", "5", "--backend", "os", "-e", "user_time,page-faults", "--plot", name];
        let out = record(folder.path(), &[&options[..], &["--", "sh", "-c", &script]].concat());
        assert_eq!((out.status.code(), stderr(&out).as_str()), (Some(3), ""), "{out:?}");
        let picture = fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(picture.starts_with(begins) && picture.contains("page-faults"), "{picture}");
        let mut again = cyclometer();
        again.args(["plot", "cyclometer.rec", "-o"]).arg(format!("again-{name}"));
        assert!(again.current_dir(folder.path()).output().unwrap().status.success());
        assert_eq!(fs::read_to_string(folder.path().join(format!("again-{name}"))).unwrap(), picture);
    }
}

#[test]
fn a_picture_that_cannot_be_drawn_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("in.svg"), "input").unwrap();
    for (options, said) in [
        (&["-o", "-", "--output", "null", "--plot", "p.svg"][..], "--plot reads the file of the recording"),
        (&["--plot", "p.png"], "--plot p.png: the name ends neither in .svg nor in .html"),
        (&["--plot", "-"], "--plot -: the name ends neither"),
        (&["--plot", "nope/p.svg"], "--plot: cannot write nope/p.svg"),
        (&["-o", "p.svg", "--plot", "./p.svg"], "-o and --plot both go to ./p.svg"),
        (&["--input", "in.svg", "--plot", "in.svg"], "--plot and --input are one file: in.svg"),
        (&["--output", "./out.svg", "--plot", "out.svg"], "--plot and --output both go to ./out.svg"),
    ] {
        let os = ["-I", "5", "--backend", "os", "-e", "user_time"];
        let out = record(folder.path(), &[&os[..], options, &["--", "touch", "ran"]].concat());
        assert_eq!(out.status.code(), Some(125), "{options:?}: {out:?}");
        assert!(support::one_line(&stderr(&out)).contains(said), "{options:?}: {}", stderr(&out));
    }
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["in.svg"], "neither a recording nor a picture is made");
}

#[test]
fn a_recording_goes_to_a_pipe_and_is_converted_from_it() {
    let mut recorder = cyclometer()
        .args([
            "record",
            "-q",
            "-I",
            "5",
            "--backend",
            "os",
            "-e",
            "user_time",
            "-o",
            "-",
            "--output",
            "null",
        ])
        .args(["--", "sh", "-c", LOOP])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pipe = recorder.stdout.take().unwrap();
    let converted = cyclometer().args(["convert", "-", "--to", "csv"]).stdin(pipe).output().unwrap();
    assert!(recorder.wait().unwrap().success());
    assert!(converted.status.success(), "{converted:?}");
    assert!(stdout(&converted).lines().count() >= 2, "{converted:?}");
}

#[test]
fn a_killed_recorder_loses_no_row_that_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    let mut recorder = cyclometer()
        .args(["record", "-q", "-I", "5", "--backend", "os", "-e", "user_time", "-o"])
        .arg(&path)
        .args(["--", "sleep", "60"])
        .spawn()
        .unwrap();
    let late = Instant::now() + Duration::from_secs(60);
    let rows = || fs::File::open(&path).ok().and_then(|file| Some(Recording::open(file).ok()?.count()));
    while rows().unwrap_or(0) < 3 {
        assert!(Instant::now() < late, "no row was written");
        std::thread::sleep(Duration::from_millis(5));
    }
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    let recording = read(&path);
    assert!(recording.rows.len() >= 3);
    assert!(matches!(recording.end, RecordingEnd::Incomplete { .. }), "{:?}", recording.end);
}

#[test]
fn a_full_disk_ends_the_recording_and_not_the_command() {
    let full = Path::new("/dev/full");
    if !full.exists() {
        skip("there is no /dev/full");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let options = ["-I", "5", "--backend", "os", "-e", "user_time", "-o", "/dev/full", "--", "touch", "ran"];
    let out = record(folder.path(), &options);
    assert_eq!(out.status.code(), Some(125), "{out:?}");
    assert!(stderr(&out).contains("-o: cannot write /dev/full: no space left on device"), "{}", stderr(&out));
    assert!(folder.path().join("ran").exists(), "the command ran to its end");
}

#[test]
fn help_names_the_commands_that_read_recordings() {
    let mut text = String::new();
    let mut child = cyclometer().args(["record", "--help"]).stdout(Stdio::piped()).spawn().unwrap();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success() && text.contains("convert FILE"), "{text}");
}

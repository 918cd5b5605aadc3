//! `record`: rows of a command, their sums, and files and options that make no sense.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::support;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use cyclometer_toolkit::core::Count;
use cyclometer_toolkit::core::window::{WindowCause, WindowRow};
use cyclometer_toolkit::recording::{Recording, RecordingEnd};
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

/// Rows by time, which every machine has.
const BY_TIME: [&str; 7] = ["-q", "-I", "5", "--backend", "os", "-e", "user_time"];

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
fn runs_that_fail_leave_recordings_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let command = ["-o", "r", "--", "true"];
    let good = || record(folder.path(), &[&BY_TIME[..], &command].concat());
    assert!(good().status.success() && good().status.success());
    let contents = || ["r", "r.old"].map(|name| fs::read(folder.path().join(name)).unwrap());
    let before = contents();
    for options in
        [&["--every", "1000:cycels"][..], &["--backend", "os", "--every", "1000", "-e", "user_time"]]
    {
        for _ in 0..2 {
            let out = record(folder.path(), &[options, &command].concat());
            assert_eq!(out.status.code(), Some(125), "{out:?}");
            assert!(contents() == before, "{options:?}");
        }
    }
    fs::write(folder.path().join("r.old"), "notes\n").unwrap();
    let out = good();
    assert_eq!(out.status.code(), Some(125), "{out:?}");
    assert!(stderr(&out).contains("r.old is no recording, and stays as it is"), "{}", stderr(&out));
    assert_eq!(fs::read(folder.path().join("r")).unwrap(), before[0]);
    assert_eq!(fs::read_to_string(folder.path().join("r.old")).unwrap(), "notes\n");
}

#[test]
fn the_target_of_a_link_is_recorded_to_and_the_link_stays() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("other")).unwrap();
    let (target, link) = (folder.path().join("other/r"), folder.path().join("link"));
    symlink("other/r", &link).unwrap();
    for _ in 0..2 {
        let out = record(folder.path(), &[&BY_TIME[..], &["-o", "link", "--", "true"]].concat());
        assert!(out.status.success(), "{out:?}");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(matches!(read(&target).end, RecordingEnd::Complete(_)));
    }
    assert!(matches!(read(&folder.path().join("other/r.old")).end, RecordingEnd::Complete(_)));
}

/// The recorder below a limit on the size of files, in blocks of 512 bytes, of a script.
fn limited(folder: &Path, blocks: u32, interval_ms: &str, script: &str) -> Output {
    let program = env!("CARGO_BIN_EXE_cyclometer");
    let shell = format!("ulimit -f {blocks}; exec {program} \"$@\"");
    let mut limited = Command::new("sh");
    limited.args(["-c", &shell, "sh", "record", "-I", interval_ms, "--backend", "os", "-e", "user_time"]);
    limited.args(["-o", "r", "--", "sh", "-c", script]).current_dir(folder).stdin(Stdio::null());
    limited.env("NO_COLOR", "1").output().unwrap()
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error_and_leaves_the_former_recording_beside_the_rows_until_then() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let good = record(folder.path(), &[&BY_TIME[..], &["-o", "r", "--", "true"]].concat());
    assert!(good.status.success(), "{good:?}");
    let before = fs::read(at("r")).unwrap();
    let blocks = u32::try_from(before.len() / 512 + 2).unwrap();
    let is_full = format!("[ $(wc -c < r.part) -ge {} ]", blocks * 512);
    let script = format!(
        "n=0; until {is_full} || [ $n = 6000 ]; do sleep 0.01; n=$((n+1)); done; sleep 0.05; : > ran"
    );
    let out = limited(folder.path(), blocks, "1", &script);
    assert_eq!(out.status.code(), Some(125), "{out:?}");
    let said = stderr(&out);
    assert!(said.contains("-o: cannot write r: file too large"), "{said}");
    assert!(said.contains("ulimit -f") && said.contains("rows that were recorded are in r.part"), "{said}");
    assert!(said.contains(" rows, one every 1 ms, in r.part\n"), "{said}");
    assert!(at("ran").exists(), "the command ran to its end");
    assert!(!at("r.old").exists() && fs::read(at("r")).unwrap() == before);
    let kept = read(&at("r.part"));
    assert!(!kept.rows.is_empty() && matches!(kept.end, RecordingEnd::Incomplete { .. }), "{:?}", kept.end);
}

#[test]
fn a_limit_on_the_size_of_files_that_no_row_fits_in_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let out = limited(folder.path(), 1, "5", "sleep 0.1; : > ran");
    assert_eq!(out.status.code(), Some(125), "{out:?}");
    let said = stderr(&out);
    assert!(said.contains("\n0 rows, one every 5 ms\n") && !said.contains("r.part"), "{said}");
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["ran"]);
}

#[test]
fn a_limit_on_the_size_of_files_ends_the_command_as_without_the_recorder() {
    let folder = tempfile::tempdir().unwrap();
    let script = "sleep 0.1; head -c 999999 /dev/zero > big; echo status $? >&2";
    let out = limited(folder.path(), 64, "5", script);
    assert!(stderr(&out).contains("status 153"), "SIGXFSZ is 25: {}", stderr(&out));
}

/// A recorder whose rows go to a pipe, of a script that waits for the file `go`, and fails after a minute.
fn recorder_to_pipe(folder: &Path, quiet: &[&str], then: &str) -> Child {
    let wait = "n=0; until [ -e go ] || [ $n = 6000 ]; do sleep 0.01; n=$((n+1)); done; [ -e go ] || exit 9";
    let mut recorder = cyclometer();
    recorder.args(["record", "-I", "5", "--backend", "os", "-e", "user_time", "-o", "-"]).args(quiet);
    recorder.args(["--output", "null", "--", "sh", "-c", &format!("{wait}; {then}")]).current_dir(folder);
    recorder.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn rows_arrive_at_a_reader_while_the_command_runs() {
    let folder = tempfile::tempdir().unwrap();
    let mut recorder = recorder_to_pipe(folder.path(), &["-q"], "exit 0");
    let mut rows = Recording::open(recorder.stdout.take().unwrap()).unwrap();
    for _ in 0..3 {
        assert!(rows.next().unwrap().unwrap().time_ns.is_some());
    }
    fs::write(folder.path().join("go"), "").unwrap();
    rows.by_ref().for_each(|row| drop(row.unwrap()));
    assert!(matches!(rows.end(), Some(RecordingEnd::Complete(_))), "{:?}", rows.end());
    let out = recorder.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(0), "the command saw no row before its end: {out:?}");
}

#[test]
fn a_reader_that_ends_early_is_no_error_and_the_command_runs_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    for (quiet, said) in [(&[][..], "in standard output, whose reader ended early\n"), (&["-q"], "")] {
        let mut recorder = recorder_to_pipe(folder.path(), quiet, "sleep 0.05; : > ran; exit 3");
        drop(recorder.stdout.take());
        fs::write(folder.path().join("go"), "").unwrap();
        let out = recorder.wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(3), "{out:?}");
        assert!(stderr(&out).contains(said) && !stderr(&out).contains("error"), "{}", stderr(&out));
        assert!(!said.is_empty() || stderr(&out).is_empty(), "{}", stderr(&out));
        fs::remove_file(folder.path().join("ran")).unwrap();
        fs::remove_file(folder.path().join("go")).unwrap();
    }
}

#[test]
fn options_that_make_no_sense_are_errors_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let touch = ["--", "touch", "ran"];
    fs::write(folder.path().join("input"), "").unwrap();
    fs::write(folder.path().join("table"), "").unwrap();
    symlink("input", folder.path().join("link")).unwrap();
    for _ in 0..2 {
        assert!(
            record(folder.path(), &[&BY_TIME[..], &["-o", "recording", "--", "true"]].concat())
                .status
                .success()
        );
    }
    let before = fs::read(folder.path().join("recording")).unwrap();
    for (options, said) in [
        (&["--every", "0"][..], "a row of 0 events never ends"),
        (&["--every", "99999999999999999999"], "wider than any counter"),
        (&["--every", "1M", "--interval", "10"], "cannot be used with"),
        (&["--every", "1000:cycels"], "cycels"),
        (&["--backend", "os", "--every", "1000", "-e", "user_time"], "instructions"),
        (&["-o", "/nope/r"], "/nope/r"),
        (&["-o", "-"], "would mix on standard output"),
        (&["-p", "1", "-t", "1"], "cannot be used with"),
        (&["--every", "1,5M"], "'1,5M' is no number of events; write 1500k"),
        (&["-o", "same", "--output", "./same"], "-o and --output both go to ./same"),
        (&["-o", "input", "--input", "input"], "-o and --input are one file: input"),
        (&["-o", "table", "--events", "table"], "are one file: table"),
        (&["-o", "link", "--input", "input"], "-o and --input are one file: input"),
        (&["--output", "recording"], "-o FILE"),
        (&["-o", "recording", "--input", "recording.old"], "are one file: recording.old"),
    ] {
        let out = record(folder.path(), &[options, &touch[..]].concat());
        assert_eq!(out.status.code(), Some(125), "{options:?}: {out:?}");
        assert!(stderr(&out).contains(said), "{options:?}: {}", stderr(&out));
        assert!(!folder.path().join("ran").exists(), "{options:?}");
    }
    assert_eq!(record(folder.path(), &["--", "no-such-program"]).status.code(), Some(127));
    assert_eq!(fs::read(folder.path().join("recording")).unwrap(), before);
    assert!(!folder.path().join("cyclometer.rec").exists());
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
fn windows_of_perf_end_at_several_events_each_at_its_own_period() {
    let folder = tempfile::tempdir().unwrap();
    let options = "--backend perf --every 1000000:task-clock --also page-faults=100 -o r -- sh -c";
    let options: Vec<&str> = options.split(' ').chain([LOOP]).collect();
    let out = record(folder.path(), &options);
    if !out.status.success() && stderr(&out).contains("perf_event_paranoid") {
        return skip("the kernel permits no events of perf");
    }
    assert!(out.status.success(), "{out:?}");
    assert!(stderr(&out).contains("every 1.000 ms of task-clock, and every 100 page-faults"), "{out:?}");
    let recording = read(&folder.path().join("r"));
    let column = recording.columns.iter().position(|name| name.starts_with("page-faults")).unwrap();
    let first = recording.rows[0].thread;
    let (mut sum, mut ended) = (0, [0, 0]);
    for row in recording.rows.iter().filter(|row| row.thread == first && row.thread.is_some()) {
        sum += row.counts[column].value().unwrap();
        if let WindowCause::Boundary(which) = row.cause {
            ended[which] += 1;
            assert!(which == 0 || sum == 100 * ended[1], "{row:?}");
        }
    }
    assert!(ended[0] > 0, "{:?}", recording.rows);
}

/// A program whose time is spent in one function, in a process of its own too.
const SPINNING: &str = "
#include <sys/wait.h>
#include <unistd.h>
volatile long sum;
__attribute__((noinline)) void spin_in_parent(void) { for (long i = 0; i < 200000000; i++) sum += i; }
__attribute__((noinline)) void spin_in_child(void) { for (long i = 0; i < 200000000; i++) sum -= i; }
int main(void) {
    int child = fork();
    if (child == 0) { spin_in_child(); _exit(0); }
    spin_in_parent();
    waitpid(child, 0, 0);
    return 0;
}
";

#[test]
fn stacks_of_a_recording_name_the_functions_that_rows_end_in() {
    if !support::has("gcc") {
        return skip("there is no gcc");
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("spinning");
    fs::write(folder.path().join("spinning.c"), SPINNING).unwrap();
    let gcc = ["-O1", "-o", "spinning", "spinning.c"];
    assert!(Command::new("gcc").args(gcc).current_dir(folder.path()).status().unwrap().success());
    let folded =
        || cyclometer().args(["convert", "--to", "folded", "r"]).current_dir(folder.path()).output().unwrap();
    let backends = [("soft", "2000000"), ("perf", "1000000:task-clock")];
    for (backend, period) in backends {
        let options = ["--backend", backend, "--every", period, "-o", "r", "--", "./spinning"];
        let out = record(folder.path(), &options);
        if !out.status.success() {
            skip(&stderr(&out));
            continue;
        }
        let stacks = stdout(&folded());
        let in_function = |name: &str| stacks.lines().filter(|line| line.contains(name)).count();
        let (parent, child) =
            (in_function(";spinning;spin_in_parent "), in_function(";spinning;spin_in_child "));
        assert!(parent > 0, "{backend}: {stacks}");
        // perf opens the counters of the child some time after its begin, and it may have ended by then.
        assert!(child > 0 || backend == "perf", "{stacks}");
        assert!(2 * (parent + child) > stacks.lines().count() || backend == "perf", "{stacks}");
    }
    if !folder.path().join("r").exists() {
        return;
    }
    let later = std::time::SystemTime::now() + Duration::from_secs(5);
    fs::File::options().write(true).open(&program).unwrap().set_modified(later).unwrap();
    let out = folded();
    assert!(stdout(&out).contains(";spinning;[unknown] ") && !stdout(&out).contains("spin_in"), "{out:?}");
    assert!(stderr(&out).contains("spinning was changed after the recording began"), "{out:?}");
}

#[test]
fn processes_that_end_at_once_have_their_names_and_their_code() {
    if !software_pmu_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = "for i in 1 2 3 4 5; do /bin/true; done";
    let options = ["-q", "--backend", "soft", "--every", "2000", "-o", "r", "--", "sh", "-c", script];
    let out = record(folder.path(), &options);
    assert!(out.status.success(), "{}", stderr(&out));
    let mut recording = Recording::open(fs::File::open(folder.path().join("r")).unwrap()).unwrap();
    let mut processes = BTreeMap::new();
    while let Some(row) = recording.next() {
        let row = row.unwrap();
        let Some(thread) = row.thread else { continue };
        let name = recording.thread_name(thread).unwrap_or_else(|| panic!("{row:?}")).to_owned();
        let place = row.address.map(|address| (address, recording.code_place(&row).is_some()));
        assert!(place.is_none_or(|(_, is_known)| is_known), "{row:?}");
        processes.entry((thread.pid, name)).or_insert(row.cause);
    }
    let of = |name: &str| processes.keys().filter(|(_, known)| known == name).count();
    assert_eq!(of("true"), 5, "{processes:?}");
    // The shell, and its copy in each child until that executes a program.
    assert_eq!(of("sh"), 6, "{processes:?}");
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
        (&["-o", "/dev/null", "--plot", "p.svg"], "and -o /dev/null is none"),
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

/// A process with its process group, which ends with the test.
struct KilledGroup(Child);

impl Drop for KilledGroup {
    fn drop(&mut self) {
        let _ = Command::new("sh").args(["-c", &format!("kill -KILL -{}", self.0.id())]).status();
        let _ = self.0.wait();
    }
}

#[test]
fn a_killed_recorder_leaves_its_rows_in_a_file_beside_and_the_former_recordings() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let good = || record(folder.path(), &[&BY_TIME[..], &["-o", "r", "--", "true"]].concat());
    assert!(good().status.success() && good().status.success());
    let contents = || [at("r"), at("r.old")].map(|path| fs::read(path).unwrap());
    let (before, path) = (contents(), at("r.part"));
    let recorder = cyclometer()
        .args(["record", "-q", "-I", "5", "--backend", "os", "-e", "user_time", "-o"])
        .arg(at("r"))
        .args(["--", "sleep", "60"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut recorder = KilledGroup(recorder);
    let late = Instant::now() + Duration::from_secs(300);
    let rows = || fs::File::open(&path).ok().and_then(|file| Some(Recording::open(file).ok()?.count()));
    while rows().unwrap_or(0) < 3 {
        assert!(Instant::now() < late, "no row was written");
        std::thread::sleep(Duration::from_millis(5));
    }
    recorder.0.kill().unwrap();
    recorder.0.wait().unwrap();
    let recording = read(&path);
    assert!(recording.rows.len() >= 3);
    assert!(matches!(recording.end, RecordingEnd::Incomplete { .. }), "{:?}", recording.end);
    assert!(contents() == before, "a run that was killed replaced a recording");
    let (kept, good) = (fs::read(&path).unwrap(), good());
    assert!(good.status.success() && fs::read(&path).unwrap() == kept, "{good:?}");
    assert_eq!(fs::read(at("r.old")).unwrap(), before[0]);
}

#[test]
fn a_file_that_takes_the_name_while_the_command_runs_stays() {
    let folder = tempfile::tempdir().unwrap();
    let script = "echo notes > r; sleep 0.05";
    let out = record(folder.path(), &[&BY_TIME[..], &["-o", "r", "--", "sh", "-c", script]].concat());
    assert_eq!(out.status.code(), Some(125), "{out:?}");
    let said = stderr(&out);
    assert!(said.contains("-o: r is no recording, and stays as it is"), "{said}");
    assert!(said.contains("the rows that were recorded are in r.part\n"), "{said}");
    assert_eq!(fs::read_to_string(folder.path().join("r")).unwrap(), "notes\n");
    assert!(matches!(read(&folder.path().join("r.part")).end, RecordingEnd::Complete(_)));
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

//! Recordings by kperf: rows of a process's threads, whose sums are the totals of the run.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use cyclometer_recording::{RecordedBoundary, Recording, RecordingEnd};
use cyclometer_test_support::skip;

use super::support::{cyclometer, one_line, stderr, stdout, unwrapped};
use super::{Count, FakeMac, WindowCause, WindowRow, run};

/// Two CPUs that work as long as counters count.
const BUSY: &str = "cpus 2\nworkload 0 loop\nworkload 1 memory\n";

fn busy(chip: &str, more: &str) -> FakeMac {
    FakeMac::new(&format!("chip {chip}\n{BUSY}{more}"))
}

/// A recording as it was read back.
struct ReadBack {
    names: Vec<String>,
    boundaries: Vec<RecordedBoundary>,
    rows: Vec<WindowRow>,
    totals: Vec<Count>,
    notes: Vec<String>,
}

fn read_back(file: &Path) -> ReadBack {
    let mut recording = Recording::open(File::open(file).unwrap()).unwrap();
    let header = recording.header();
    let names = header.events.iter().map(|event| event.name.clone()).collect();
    let boundaries = header.boundaries.clone();
    let rows = recording.by_ref().map(Result::unwrap).collect();
    let Some(RecordingEnd::Complete(footer)) = recording.end() else { panic!("the end is missing") };
    ReadBack { names, boundaries, rows, totals: footer.totals.clone(), notes: footer.notes.clone() }
}

/// A recording of a command that does nothing for a while, and what the tool printed.
fn recorded(mac: &FakeMac, words: &[&str]) -> (ReadBack, String) {
    let file = mac.folder().join("rows");
    let all = [&["record", "-o", file.to_str().unwrap()], words, &["--", "sleep", "0.3"]].concat();
    let out = run(mac, &all);
    assert!(out.status.success(), "{}", stderr(&out));
    (read_back(&file), unwrapped(&out))
}

/// Each column's rows, the row `unassigned` among them, add up to the total of the run.
fn adds_up(read: &ReadBack) {
    for (column, total) in read.totals.iter().enumerate() {
        let sum: u64 = read.rows.iter().map(|row| row.counts[column].value().unwrap()).sum();
        assert_eq!(sum, total.value().unwrap(), "{}: {total:?}", read.names[column]);
        assert!(sum > 0, "{}", read.names[column]);
    }
}

#[test]
fn rows_and_the_unassigned_row_add_up_to_the_total() {
    for chip in ["apple-m1", "apple-m4"] {
        let mac = busy(chip, "");
        let words = ["--every", "1000000:INST_ALL", "-e", "CORE_ACTIVE_CYCLE,L1D_CACHE_MISS_LD_NONSPEC"];
        let (read, said) = recorded(&mac, &words);
        adds_up(&read);
        assert_eq!(read.names, ["INST_ALL:u", "CORE_ACTIVE_CYCLE:u", "L1D_CACHE_MISS_LD_NONSPEC:u"]);
        let is = |cause| move |row: &&WindowRow| row.cause == cause;
        assert!(read.rows.iter().filter(is(WindowCause::Boundary(0))).count() > 10, "{said}");
        let rest: Vec<&WindowRow> = read.rows.iter().filter(is(WindowCause::Unassigned)).collect();
        assert_eq!(rest.len(), 1, "{said}");
        // The totals are those of whole CPUs, and say so.
        assert!(said.contains("in no window") && said.contains("partial"), "{said}");
    }
}

#[test]
fn as_root_a_recording_without_options_has_rows_by_kperf() {
    for chip in ["apple-m1", "apple-m4"] {
        let (read, said) = recorded(&busy(chip, ""), &[]);
        // The fixed counters count both modes.
        assert_eq!(read.names, ["instructions:uk", "cycles:uk", "branches:u", "branch-misses:u"], "{said}");
        let period = 10_000_000.try_into().unwrap();
        assert_eq!(read.boundaries, [RecordedBoundary::Events { event: 0, period }]);
        assert!(read.rows.len() > 3, "{said}");
        adds_up(&read);
    }
}

#[test]
fn the_timer_ends_rows_of_each_thread_that_has_a_cpu() {
    let mac = busy("apple-m1", "");
    let (read, said) = recorded(&mac, &["--timer", "2ms", "-e", "INST_ALL,CORE_ACTIVE_CYCLE,FIXED_CYCLES"]);
    assert_eq!(read.boundaries, [RecordedBoundary::Interval(Duration::from_millis(2))]);
    assert!(said.contains("every 2000 µs of kperf's timer"), "{said}");
    adds_up(&read);
    for tid in [4096, 4097] {
        let times: Vec<u64> = read
            .rows
            .iter()
            .filter(|row| row.thread.is_some_and(|thread| thread.tid == tid))
            .map(|row| row.time_ns.unwrap())
            .collect();
        assert!(times.len() > 3, "{said}");
        // The timer is a clock of the chip: each row ends one period after the one before.
        // The first expiry is at any time after the start.
        let ends = times[1..].windows(2).map(|pair| pair[1] - pair[0]);
        assert!(ends.clone().all(|ns| ns >= 1_700_000), "{:?}", ends.collect::<Vec<_>>());
    }
    assert!(read.rows.iter().all(|row| row.address.is_none()));
}

#[test]
fn a_period_below_that_of_the_kernels_timer_is_raised_and_reported() {
    let mac = FakeMac::new("chip apple-m1\ncpus 1\nworkload 0 loop:5\nclock step 1000000\n");
    let (read, said) = recorded(&mac, &["--timer", "10us", "-e", "INST_ALL"]);
    assert_eq!(read.boundaries, [RecordedBoundary::Interval(Duration::from_micros(50))]);
    assert!(said.contains("the period is 50 µs, the shortest that macOS's timer has"), "{said}");
    assert!(read.notes.iter().any(|note| note.contains("50 µs")), "{:?}", read.notes);
    adds_up(&read);
}

#[test]
fn the_timer_is_refused_without_root_and_without_an_event_of_kperf() {
    let check = |scenario: &str, words: &[&str], expected: &str| {
        let mac = busy("apple-m1", scenario);
        let file = mac.folder().join("rows");
        let record = ["record", "-o", file.to_str().unwrap(), "--timer", "1ms"];
        let out = run(&mac, &[&record[..], words, &["--", "true"]].concat());
        assert_eq!(out.status.code(), Some(125), "{}", stderr(&out));
        let said = one_line(&stderr(&out));
        assert!(said.contains(expected), "{said}");
    };
    check("user\n", &["-e", "INST_ALL"], "kperf counts for root only");
    check("vm\n", &["-e", "INST_ALL"], "no configurable counters");
    check("", &["-e", "wall_time"], "kperf's timer");
    check("fail kperf_timer_period_set 1 EBUSY\n", &["-e", "INST_ALL"], "Instruments");
    check("", &["-e", "cycles", "--backend", "selfcounts"], "--backend is selfcounts");
    check("", &["-a", "-e", "INST_ALL"], "threads of one process");
    check("", &["-e", "INST_ALL", "--interval", "5"], "cannot be used with");
}

#[test]
fn elsewhere_the_timer_is_the_cpu_time_of_a_thread() {
    // No Mac: the tool finds the machine that the test runs on.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows");
    let words = ["record", "--timer", "500us", "-e", "page-faults", "-o", file.to_str().unwrap()];
    let work = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let out = cyclometer().args(words).args(["--", "sh", "-c", work]).output().unwrap();
    if !out.status.success() {
        let said = one_line(&stderr(&out));
        assert!(said.contains("task-clock"), "{said}");
        return skip("perf counts no CPU time of threads here");
    }
    let read = read_back(&file);
    let leader = read.names.iter().position(|name| name.starts_with("task-clock")).unwrap();
    let period = 500_000.try_into().unwrap();
    assert_eq!(read.boundaries, [RecordedBoundary::Events { event: leader, period }]);
}

#[test]
fn a_process_that_runs_is_recorded_by_its_threads() {
    let mac = busy("apple-m1", "");
    let mut sleeper = std::process::Command::new("sleep").arg("0.5").spawn().unwrap();
    let (file, pid) = (mac.folder().join("rows"), sleeper.id().to_string());
    let words = ["record", "-p", &pid, "--every", "1000000:INST_ALL", "-o", file.to_str().unwrap()];
    let out = run(&mac, &words);
    sleeper.wait().unwrap();
    assert!(out.status.success(), "{}", stderr(&out));
    let read = read_back(&file);
    assert!(read.rows.len() > 10, "{}", stderr(&out));
    let threads = read.rows.iter().filter_map(|row| row.thread);
    assert!(threads.clone().all(|thread| thread.pid.to_string() == pid), "{:?}", threads.collect::<Vec<_>>());
    adds_up(&read);
    // Its counts alone stay with the accounts of macOS, which are those of the process.
    let accounts = "accounts process=cores thread=1 counts=1\n";
    let mac = FakeMac::with(&format!("chip apple-m1\n{BUSY}process loop 75\n"), accounts);
    let out =
        run(&mac, &["stat", "-p", &std::process::id().to_string(), "-e", "cycles", "--", "sleep", "0.1"]);
    let said = one_line(&(stdout(&out) + &stderr(&out)));
    assert!(out.status.success() && !said.contains("whole CPUs"), "{said}");
}

//! `convert`: recordings in the formats of other programs, and files that are no good recordings.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::support;

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use cyclometer_toolkit::core::window::{WindowCause, WindowFlags, WindowRow, WindowThread};
use cyclometer_toolkit::core::{Count, Interval, NoInterval};
use cyclometer_toolkit::recording::{
    RecordedBoundary, RecordedEvent, RecordedMachine, RecordingFooter, RecordingHeader, RecordingWriter,
};
use cyclometer_toolkit::{ExitStatus, Unit};
use serde_json::Value;
use support::{cyclometer, recorded_event as event, run, schema, stderr, stdout};

const MAIN: WindowThread = WindowThread { pid: 120, tid: 120 };
const WORKER: WindowThread = WindowThread { pid: 120, tid: 121 };

fn header() -> RecordingHeader {
    let energy = RecordedEvent { unit: Unit::Joules, scale: 0.25, modes: None, ..event("energy-pkg") };
    RecordingHeader {
        tool: "cyclometer 0.1.0".to_owned(),
        machine: RecordedMachine { os: "linux".to_owned(), ..RecordedMachine::default() },
        command: ["/opt/a;b/matrix;x", "400"].map(str::to_owned).to_vec(),
        target: None,
        start_unix_ns: Some(1_800_000_000_000_000_000),
        events: vec![event("instructions:u"), event("loads:u"), event("loads:u"), energy],
        boundaries: vec![RecordedBoundary::Events { event: 0, period: 1000.try_into().unwrap() }],
        sources: Vec::new(),
        notes: vec!["a note from the start".to_owned()],
    }
}

fn row(thread: WindowThread, number: u64) -> WindowRow {
    WindowRow {
        thread: Some(thread),
        cpu: Some(3),
        time_ns: Some(1_000_000 * number),
        address: Some(0x40_1000 + 4 * number),
        cause: WindowCause::Boundary(0),
        counts: [1000 + number, 200, 201, 8].map(Count::Exact).to_vec(),
        enabled_ns: Some(900_000),
        running_ns: Some(900_000),
        flags: WindowFlags { switches: Some(0), migrations: Some(0), ..WindowFlags::default() },
    }
}

/// Rows of two threads, with flags, lost rows, missing counts, and one of no window.
fn rows() -> Vec<WindowRow> {
    let lost = |reason: &str| Count::Lost { reason: reason.into() };
    let scaled = |interval| Count::Scaled {
        raw: 50,
        estimate: 200,
        time_enabled_ns: 900_000,
        time_running_ns: 225_000,
        interval,
    };
    let estimated = vec![
        Count::Exact(1003),
        scaled(Interval::Known { half_width: 9, concentrated: false }),
        scaled(Interval::Unknown { reason: NoInterval::Reported("too few slices".to_owned()) }),
        Count::NotSupported { reason: "no such zone, \"here\"".into() },
    ];
    vec![
        row(MAIN, 1),
        WindowRow {
            flags: WindowFlags { switches: Some(2), migrations: Some(1), throttled: true, lost_before: 4 },
            running_ns: Some(225_000),
            counts: estimated,
            ..row(WORKER, 2)
        },
        WindowRow {
            cause: WindowCause::CountersLost,
            counts: vec![lost("the watchdog took the counter"); 4],
            address: None,
            cpu: None,
            ..row(MAIN, 3)
        },
        WindowRow { cause: WindowCause::End, flags: WindowFlags::default(), ..row(WORKER, 4) },
        WindowRow {
            cause: WindowCause::Unassigned,
            time_ns: None,
            address: None,
            enabled_ns: None,
            running_ns: None,
            ..row(MAIN, 5)
        },
    ]
}

fn footer() -> RecordingFooter {
    RecordingFooter {
        totals: [5015, 1000, 1005, 40].map(Count::Exact).to_vec(),
        lost_rows: 4,
        status: Some(ExitStatus::Code(0)),
        elapsed_ns: Some(5_000_000),
        notes: vec!["a note from the end".to_owned()],
    }
}

/// A recording of [`rows`], the last row in a frame of its own.
fn recorded() -> Vec<u8> {
    let (rows, mut writer) = (rows(), RecordingWriter::new(Vec::new(), &header()).unwrap());
    writer.thread_name(MAIN, "main, \"the\" one").unwrap();
    writer.rows(&rows[..2]).unwrap();
    writer.thread_name(WORKER, "worker;1\x1b[2J").unwrap();
    writer.rows(&rows[2..4]).unwrap();
    writer.rows(&rows[4..]).unwrap();
    writer.finish(&footer()).unwrap()
}

/// A folder with a file `r` of these bytes, and its path.
fn file(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r");
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

fn convert(path: &Path, options: &[&str]) -> Output {
    cyclometer().arg("convert").arg(path).args(options).output().unwrap()
}

fn golden(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, actual).unwrap();
    }
    assert_eq!(actual, fs::read_to_string(&path).unwrap_or_default(), "{} differs", path.display());
}

/// The standard output of a conversion that succeeds.
fn converted(bytes: &[u8], format: &str) -> String {
    let (_folder, path) = file(bytes);
    let out = convert(&path, &["--to", format]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    stdout(&out)
}

#[test]
fn csv_has_a_row_for_each_window_and_no_number_for_a_missing_count() {
    golden("convert.csv", &converted(&recorded(), "csv").replace("\r\n", "\n"));
}

#[test]
fn json_lines_obey_their_schema() {
    let text = converted(&recorded(), "jsonl");
    let schema = schema("window-1.json");
    for line in text.lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        let errors: Vec<String> = schema.iter_errors(&value).map(|error| error.to_string()).collect();
        assert_eq!(errors, [""; 0], "{line}");
    }
    golden("convert.jsonl", &text);
}

#[test]
fn folded_stacks_have_the_weight_of_the_leader() {
    golden("convert.folded", &converted(&recorded(), "folded"));
    let mut by_time = header();
    by_time.boundaries = vec![RecordedBoundary::Interval(std::time::Duration::from_millis(10))];
    (by_time.command, by_time.target) = (Vec::new(), Some("process 120".to_owned()));
    let mut writer = RecordingWriter::new(Vec::new(), &by_time).unwrap();
    writer.rows(&[WindowRow { thread: None, ..row(MAIN, 1) }, row(WORKER, 2)]).unwrap();
    let text = converted(&writer.finish(&footer()).unwrap(), "folded");
    assert_eq!(text, "process 120;CPU 3;0x401004 1001\nprocess 120;thread 121;0x401008 1002\n");
}

#[cfg(feature = "firefox")]
#[test]
fn a_firefox_profile_has_a_sample_and_counters_for_each_window() {
    let text = converted(&recorded(), "firefox");
    let profile: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(profile["meta"]["product"], "cyclometer 0.1.0");
    let threads = profile["threads"].as_array().unwrap();
    let of = |tid: &str| threads.iter().find(|thread| thread["tid"] == tid).unwrap();
    assert_eq!(of("121")["name"], "worker;1\u{1b}[2J");
    assert_eq!(of("121")["samples"]["weight"], serde_json::json!([1003, 1004]));
    assert_eq!(of("120")["samples"]["weight"], serde_json::json!([1001]), "the leader is lost in one row");
    let counters = profile["counters"].as_array().unwrap();
    assert_eq!(counters.len(), 4);
    assert_eq!(counters[0]["name"], "instructions:u");
    assert_eq!(counters[0]["samples"]["count"], serde_json::json!([1001.0, 1003.0, 1004.0]));
    assert_eq!(counters[3]["samples"]["count"], serde_json::json!([2.0, 2.0]), "joules");
}

#[cfg(feature = "firefox")]
#[test]
fn counts_of_more_than_32_bits_and_rows_without_a_clock_are_no_silent_error_in_a_firefox_profile() {
    let large = WindowRow { counts: vec![Count::Exact(u64::MAX); 4], ..row(MAIN, 1) };
    let mut writer = RecordingWriter::new(Vec::new(), &header()).unwrap();
    writer.rows(&[large, row(MAIN, 2)]).unwrap();
    let text = converted(&writer.finish(&footer()).unwrap(), "firefox");
    let profile: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(profile["threads"][0]["samples"]["weight"], serde_json::json!([i32::MAX - 1, 0]));
    let mut writer = RecordingWriter::new(Vec::new(), &header()).unwrap();
    writer.rows(&[WindowRow { time_ns: None, ..row(MAIN, 1) }]).unwrap();
    let (_folder, path) = file(&writer.finish(&footer()).unwrap());
    let out = convert(&path, &["--to", "firefox"]);
    assert_eq!((out.status.code(), stdout(&out).as_str()), (Some(125), ""));
    assert!(stderr(&out).contains("no row of the recording has a time"), "{}", stderr(&out));
}

#[cfg(not(feature = "parquet"))]
#[test]
fn a_format_that_is_not_built_in_says_how_to_build_it() {
    let out = run(&["convert", "no-such-file", "--to", "parquet", "-o", "/no/such/folder"]);
    assert_eq!(out.status.code(), Some(125));
    assert_eq!(
        stderr(&out),
        "cyclometer: error: this cyclometer was built without --to parquet\n\
         help: build it with `cargo install --locked cyclometer-cli --features parquet`, or convert to csv\n"
    );
}

#[cfg(feature = "parquet")]
fn as_json(row: &parquet::record::Row) -> Value {
    use parquet::record::Field;
    let json = |field: &Field| match field {
        Field::Null => Value::Null,
        Field::Bool(flag) => (*flag).into(),
        Field::ULong(number) => (*number).into(),
        Field::Double(number) => (*number).into(),
        Field::Str(text) => text.as_str().into(),
        other => panic!("{other:?}"),
    };
    row.get_column_iter().map(|(name, field)| (name.clone(), json(field))).collect()
}

#[cfg(feature = "parquet")]
#[test]
fn a_parquet_file_has_the_rows_and_columns_of_csv() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let (folder, path) = file(&recorded());
    let target = folder.path().join("r.parquet");
    let out = convert(&path, &["--to", "parquet", "-o", target.to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    let reader = SerializedFileReader::new(fs::File::open(&target).unwrap()).unwrap();
    let rows: Vec<Value> = reader.get_row_iter(None).unwrap().map(|row| as_json(&row.unwrap())).collect();
    let lines: Vec<Value> =
        converted(&recorded(), "jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), lines.len());
    for (row, line) in rows.iter().zip(&lines) {
        for name in ["pid", "tid", "thread", "cpu", "time_ns", "cause", "boundary", "switches", "throttled"] {
            assert_eq!(row[name], line[name], "{name}");
        }
        for (name, count) in line["counts"].as_object().unwrap() {
            assert_eq!(row[name], count["value"], "{name}");
            assert_eq!(row[format!("{name}.count")], count["count"], "{name}");
            assert_eq!(row[format!("{name}.half_width")], count["half_width"], "{name}");
            assert_eq!(row[format!("{name}.reason")], count["reason"], "{name}");
        }
    }
    assert_eq!(rows[0]["address"], 0x40_1004);
}

#[test]
fn lost_rows_are_a_warning_and_notes_are_shown_on_request() {
    let (_folder, path) = file(&recorded());
    let out = convert(&path, &["--to", "csv"]);
    let name = path.display();
    assert_eq!(
        stderr(&out),
        format!("cyclometer: warning: {name}: rows that were lost when it was recorded: 4\n")
    );
    let said = stderr(&convert(&path, &["--to", "folded", "-v"]));
    assert!(said.contains("rows that were left out, without a count of the leader or a time: 1\n"), "{said}");
    assert!(said.contains("a note from the start\n") && said.contains("a note from the end\n"), "{said}");
}

/// The warnings of a conversion that succeeds, without the name of the recording.
fn warnings(bytes: &[u8], format: &str) -> Vec<String> {
    let (folder, path) = file(bytes);
    let target = folder.path().join("converted");
    let out = convert(&path, &["--to", format, "-o", target.to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    let before = format!("cyclometer: warning: {}: ", path.display());
    stderr(&out).lines().map(|line| line.strip_prefix(&before).unwrap().to_owned()).collect()
}

fn written(rows: &[WindowRow]) -> Vec<u8> {
    let mut writer = RecordingWriter::new(Vec::new(), &header()).unwrap();
    writer.rows(rows).unwrap();
    writer.finish(&RecordingFooter { lost_rows: 0, ..footer() }).unwrap()
}

/// A row with two partial counts, the leader's among them, and an exact one of a thread that was throttled.
fn rows_without_exact_counts() -> Vec<WindowRow> {
    let partial = |raw| Count::Partial { raw, part: "cpu_core only".into() };
    let counts = vec![partial(900), Count::Exact(1), partial(2), Count::Exact(3)];
    let flags = WindowFlags { throttled: true, ..row(MAIN, 2).flags };
    vec![WindowRow { counts, ..row(MAIN, 1) }, WindowRow { flags, ..row(MAIN, 2) }]
}

#[test]
fn folded_stacks_of_counts_that_are_not_exact_come_with_a_warning() {
    let throttled = "rows for which the kernel stopped the counters for a while (throttling); \
                     csv and jsonl have them: 1";
    assert_eq!(
        warnings(&written(&rows_without_exact_counts()), "folded"),
        ["counts that are written without their verdicts; csv and jsonl have them: 1 partial", throttled]
    );
    for format in ["csv", "jsonl"] {
        assert_eq!(warnings(&written(&rows_without_exact_counts()), format), [""; 0]);
    }
    assert_eq!(warnings(&written(&[row(MAIN, 1)]), "folded"), [""; 0]);
}

#[cfg(feature = "firefox")]
#[test]
fn a_firefox_profile_of_counts_that_are_not_exact_comes_with_a_warning() {
    assert_eq!(
        warnings(&recorded(), "firefox"),
        [
            "rows that were lost when it was recorded: 4",
            "rows that were left out, without a count of the leader or a time: 2",
            "counts that are written without their verdicts; csv and jsonl have them: 2 scaled",
            "counts that are missing, and left out with their reasons; csv and jsonl have them: \
             1 not supported, 4 lost",
            "rows for which the kernel stopped the counters for a while (throttling); \
             csv and jsonl have them: 1",
        ]
    );
    let partial = warnings(&written(&rows_without_exact_counts()), "firefox");
    assert!(partial[0].ends_with(": 2 partial"), "{partial:?}");
    assert_eq!(warnings(&written(&[row(MAIN, 1)]), "firefox"), [""; 0]);
}

#[test]
fn standard_input_is_read_and_a_file_is_replaced_as_a_whole() {
    let (folder, path) = file(&recorded());
    let expected = converted(&recorded(), "csv");
    let target = folder.path().join("rows.csv");
    fs::write(&target, "as it was").unwrap();
    let mut child = cyclometer()
        .args(["convert", "-", "--to", "csv", "-o", target.to_str().unwrap()])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&recorded()).unwrap();
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
    assert!(
        stderr(&out).starts_with("cyclometer: warning: standard input: rows that were lost"),
        "{}",
        stderr(&out)
    );
    assert_eq!(fs::read_to_string(&target).unwrap(), expected);
    let out = convert(&path, &["--to", "csv", "-o", path.to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(125));
    assert!(stderr(&out).contains("the recording and -o are one file"), "{}", stderr(&out));
    assert_eq!(fs::read(&path).unwrap(), recorded());
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error_also_on_standard_output() {
    let (folder, path) = file(&written(&vec![row(MAIN, 1); 200]));
    for (destination, said) in
        [("> out", "to standard output: file too large"), ("-o out", "-o: cannot write out")]
    {
        let script = format!("ulimit -f 1; exec \"$0\" convert \"$1\" --to jsonl {destination}");
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_cyclometer")]).arg(&path).current_dir(folder.path());
        let out = shell.stdin(Stdio::null()).output().unwrap();
        assert_eq!(out.status.code(), Some(125), "{out:?}");
        assert!(stderr(&out).contains(said) && stderr(&out).contains("\nhelp: "), "{}", stderr(&out));
    }
}

#[test]
fn a_recording_that_ends_early_is_converted_as_far_as_it_goes() {
    let bytes = recorded();
    let whole = converted(&bytes, "csv");
    for cut in [1, 40] {
        let (_folder, path) = file(&bytes[..bytes.len() - cut]);
        let out = convert(&path, &["--to", "csv"]);
        assert_eq!(out.status.code(), Some(0), "{}", stderr(&out));
        assert_eq!(stdout(&out), whole);
        let said = stderr(&out);
        assert!(said.contains("the recording is incomplete: it ends without its totals at byte "), "{said}");
        assert!(said.ends_with("; rows before that: 5\n"), "{said}");
        assert!(said.contains("rows that were lost when it was recorded: 4\n"), "{said}");
    }
}

#[test]
fn a_damaged_recording_is_converted_up_to_the_damage_and_is_an_error() {
    let mut bytes = recorded();
    // In the frame of the last row, before the footer.
    let footer = bytes.windows(4).rposition(|tag| tag == b"FOOT").unwrap();
    bytes[footer - 1] ^= 1;
    let (folder, path) = file(&bytes);
    let target = folder.path().join("rows.csv");
    let out = convert(&path, &["--to", "csv", "-o", target.to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(125));
    let said = stderr(&out);
    assert!(said.contains("rows that were converted before the error: 4\n"), "{said}");
    assert!(said.contains(" is damaged: its checksum is wrong"), "{said}");
    assert!(said.contains("\nhelp: copy the file again"), "{said}");
    assert_eq!(fs::read_to_string(&target).unwrap().lines().count(), 5);
}

#[test]
fn files_that_are_no_recordings_are_named_and_nothing_is_written() {
    let mut newer = recorded();
    newer[8] = 2;
    for (bytes, problem, help) in [
        (&b""[..], "it is empty", "record again"),
        (b"\x7fELF\x02\x01\x01", "it is not a cyclometer recording", "`cyclometer record` has written"),
        (b"{\"schema_version\":1}\n", "it is not a cyclometer recording", "`cyclometer record` has written"),
        (&recorded()[..30], "the recording ends within its header, before any row", "record again"),
        (&newer, "it has version 2 of the recording format", "or a newer one"),
    ] {
        let (folder, path) = file(bytes);
        let target = folder.path().join("out");
        let out = convert(&path, &["--to", "csv", "-o", target.to_str().unwrap()]);
        assert_eq!((out.status.code(), stdout(&out).as_str()), (Some(125), ""), "{problem}");
        let said = stderr(&out);
        let expected = format!("cyclometer: error: cannot convert {}: {problem}\n", path.display());
        assert!(said.starts_with(&expected), "{said}");
        assert!(said.lines().any(|line| line.starts_with("help: ") && line.contains(help)), "{said}");
        assert!(!target.exists());
    }
    let out = run(&["convert", "/no/such/file", "--to", "csv"]);
    assert_eq!(out.status.code(), Some(125));
    assert!(stderr(&out).contains("error: cannot read /no/such/file: no such file"), "{}", stderr(&out));
    assert_eq!(run(&["convert", "x", "--to", "xlsx"]).status.code(), Some(125));
}

#[test]
fn a_reader_that_goes_away_ends_the_conversion_quietly() {
    let mut writer = RecordingWriter::new(Vec::new(), &header()).unwrap();
    let rows: Vec<WindowRow> = (0..5000).map(|number| row(MAIN, number)).collect();
    (0..4).for_each(|_| writer.rows(&rows).unwrap());
    let (_folder, path) = file(&writer.finish(&footer()).unwrap());
    for format in ["csv", "jsonl", "folded"] {
        let mut child = cyclometer()
            .arg("convert")
            .arg(&path)
            .args(["--to", format])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = [0];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let out = child.wait_with_output().unwrap();
        assert_eq!((out.status.code(), stderr(&out)), (Some(0), String::new()), "{format}");
    }
}

#[test]
fn a_disk_that_is_full_is_named() {
    if !Path::new("/dev/full").exists() {
        return support::skip("there is no /dev/full");
    }
    let (_folder, path) = file(&recorded());
    for format in ["csv", "jsonl", "folded"] {
        let out = convert(&path, &["--to", format, "-o", "/dev/full"]);
        assert_eq!(out.status.code(), Some(125), "{format}");
        assert!(stderr(&out).contains("-o: cannot write /dev/full: no space left"), "{}", stderr(&out));
    }
}

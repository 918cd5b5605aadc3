//! `plot` and `phases` on recordings with known contents: phases, flags, gaps, spikes, few rows and many.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::support;

use std::fs::File;
use std::io::BufWriter;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use cyclometer_core::window::{WindowCause, WindowFlags, WindowRow, WindowThread};
use cyclometer_core::{Count, Provenance, Random, Rung, Unit};
use cyclometer_recording::{
    RecordedBoundary, RecordedEvent, RecordedMachine, RecordingFooter, RecordingHeader, RecordingWriter,
};
use serde_json::Value;
use support::{recorded_event as event, run, schema, stderr, stdout};

const MAIN: WindowThread = WindowThread { pid: 1200, tid: 1200 };
const WORKER: WindowThread = WindowThread { pid: 1200, tid: 1201 };
const PERIOD: u64 = 512_000;

fn header(events: Vec<RecordedEvent>, boundary: RecordedBoundary) -> RecordingHeader {
    RecordingHeader {
        tool: "cyclometer 0.1.0".to_owned(),
        machine: RecordedMachine { os: "linux".to_owned(), ..RecordedMachine::default() },
        command: ["./matrix", "400"].map(str::to_owned).to_vec(),
        target: None,
        start_unix_ns: None,
        events,
        boundaries: vec![boundary],
        sources: Vec::new(),
        notes: Vec::new(),
    }
}

fn hardware() -> RecordingHeader {
    let events = ["instructions:u", "cycles:u", "l1d_cache_misses:u", "branch-misses:u"].map(event).to_vec();
    header(events, RecordedBoundary::Events { event: 0, period: NonZeroU64::new(PERIOD).unwrap() })
}

fn row(thread: WindowThread, counts: Vec<Count>, end_ns: u64, enabled_ns: u64) -> WindowRow {
    WindowRow {
        thread: Some(thread),
        cpu: Some(3),
        time_ns: Some(end_ns),
        address: None,
        cause: WindowCause::Boundary(0),
        counts,
        enabled_ns: Some(enabled_ns),
        running_ns: Some(enabled_ns),
        flags: WindowFlags { switches: Some(0), migrations: Some(0), ..WindowFlags::default() },
    }
}

/// IPC, and misses of the L1 and of branches per 1,000 instructions.
type Work = [f64; 3];

const READ: Work = [0.7, 31.0, 2.0];
const COMPUTE: Work = [2.4, 1.5, 0.4];
const WRITE: Work = [1.1, 12.0, 9.0];

/// So many windows of each kind of work, one after the other, with some noise.
fn worked(thread: WindowThread, stretches: &[(usize, Work)], noise: f64) -> Vec<WindowRow> {
    let mut random = Random::seeded(7);
    let mut time = 0;
    let work = stretches.iter().flat_map(|(windows, work)| std::iter::repeat_n(*work, *windows));
    let row = |work: Work| {
        let mut vary = |value: f64| value * (1.0 + noise * (random.word() as f64 / 2f64.powi(63) - 1.0));
        let instructions = PERIOD + (vary(100.0) as u64) % 200;
        let n = instructions as f64;
        let cycles = n / vary(work[0]);
        let counts = [n, cycles, n / 1000.0 * vary(work[1]), n / 1000.0 * vary(work[2])];
        time += (cycles / 3.0) as u64;
        let counts = counts.map(|count| Count::Exact(count as u64)).to_vec();
        row(thread, counts, time, (cycles / 3.0) as u64)
    };
    work.map(row).collect()
}

/// A recording in a folder of its own, as its path.
struct Recorded {
    folder: tempfile::TempDir,
    file: PathBuf,
}

impl Recorded {
    fn new(header: &RecordingHeader, rows: &[WindowRow]) -> Recorded {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("r");
        let mut writer = RecordingWriter::new(BufWriter::new(File::create(&file).unwrap()), header).unwrap();
        writer.thread_name(MAIN, "matrix").unwrap();
        rows.chunks(500).for_each(|rows| writer.rows(rows).unwrap());
        let totals = vec![Count::Exact(0); header.events.len()];
        writer.finish(&RecordingFooter { totals, ..RecordingFooter::default() }).unwrap();
        Recorded { folder, file }
    }

    fn path(&self) -> &str {
        self.file.to_str().unwrap()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        run(&[&arguments[..1], &[self.path()], &arguments[1..]].concat())
    }

    fn shown(&self, arguments: &[&str]) -> String {
        let out = self.run(arguments);
        assert!(out.status.success(), "{}", stderr(&out));
        assert_eq!(stderr(&out), "");
        stdout(&out)
    }

    fn picture(&self, name: &str, arguments: &[&str]) -> String {
        let path = self.folder.path().join(name);
        let out = self.run(&[&["plot", "-o", path.to_str().unwrap()], arguments].concat());
        assert!(out.status.success(), "{}", stderr(&out));
        assert_eq!(stdout(&out), "");
        std::fs::read_to_string(path).unwrap()
    }
}

/// Four stretches of three kinds of work, with every mark and a gap.
fn known() -> Recorded {
    let mut rows = worked(MAIN, &[(200, READ), (300, COMPUTE), (150, READ), (250, WRITE)], 0.06);
    for i in [40, 41, 333, 700] {
        rows[i].flags.switches = Some(2);
    }
    rows[333].flags.migrations = Some(1);
    rows[600].flags.throttled = true;
    rows[601].flags.lost_before = 3;
    for row in &mut rows[380..420] {
        row.counts[2] = Count::NotCounted { reason: "the counter was in use by others".into() };
    }
    Recorded::new(&hardware(), &rows)
}

/// Two threads that take turns.
fn two_threads() -> Recorded {
    let (main, worker) =
        (worked(MAIN, &[(60, READ), (90, COMPUTE)], 0.02), worked(WORKER, &[(80, WRITE)], 0.02));
    let mut rows = [main, worker].concat();
    rows.sort_by_key(|row| row.time_ns);
    Recorded::new(&hardware(), &rows)
}

/// Windows of 10 ms without a PMU.
fn timed() -> Recorded {
    let mut events = ["task-clock", "page-faults"].map(event).to_vec();
    events[0].unit = Unit::Nanoseconds;
    for event in &mut events {
        (event.modes, event.source, event.provenance) = (None, Some(Rung::Os), Some(Provenance::Kernel));
    }
    let rows: Vec<WindowRow> = (1..=120u64)
        .map(|n| {
            let (busy, faults) = if n <= 40 { (9_900_000 - n % 3, 400 + n % 7) } else { (5_000_000, n % 2) };
            let counts = [busy, faults].map(Count::Exact).to_vec();
            WindowRow { enabled_ns: None, running_ns: None, ..row(MAIN, counts, n * 10_000_000, 0) }
        })
        .collect();
    Recorded::new(&header(events, RecordedBoundary::Interval(Duration::from_millis(10))), &rows)
}

fn well_formed(picture: &str) -> roxmltree::Document<'_> {
    roxmltree::Document::parse(picture).unwrap_or_else(|error| panic!("{error}: {picture}"))
}

/// Compares with a file below `tests/golden`; set `UPDATE_GOLDEN` to write it anew.
fn golden(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, actual).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(actual, expected, "{} differs", path.display());
}

/// The `d` of each path of a class.
fn paths<'a>(document: &'a roxmltree::Document<'_>, class: &str) -> Vec<&'a str> {
    let of_class = |node: &roxmltree::Node<'_, '_>| node.attribute("class") == Some(class);
    let paths = document.descendants().filter(|node| node.has_tag_name("path"));
    paths.filter(of_class).filter_map(|node| node.attribute("d")).collect()
}

fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

#[test]
fn a_recording_is_drawn_on_the_terminal_with_phases_marks_and_gaps() {
    let text = known().shown(&["plot"]);
    assert!(widest(&text) <= 80, "{text}");
    golden("plot.txt", &text);
}

#[test]
fn phases_are_a_table_with_the_rates_of_each() {
    let text = known().shown(&["phases"]);
    assert!(widest(&text) <= 80, "{text}");
    golden("phases.txt", &text);
}

#[test]
fn threads_over_time_share_an_axis() {
    golden("plot-threads.txt", &two_threads().shown(&["plot", "--over", "time"]));
    let picture = two_threads().picture("t.svg", &["--over", "time"]);
    let labels = |picture: &str| picture.matches(">20 ms<").count();
    assert_eq!(labels(&picture), 2, "{picture}");
}

#[test]
fn windows_of_a_fixed_time_are_drawn_over_time() {
    golden("plot-time.txt", &timed().shown(&["plot"]));
    golden("phases-time.txt", &timed().shown(&["phases"]));
}

#[test]
fn a_picture_is_well_formed_with_a_gap_where_values_are_missing() {
    let recorded = known();
    let picture = recorded.picture("p.svg", &[]);
    assert_eq!(picture, recorded.picture("p.SVG", &[]), "the same picture each time");
    let document = well_formed(&picture);
    let gaps: Vec<usize> = paths(&document, "line").iter().map(|d| d.matches('M').count() - 1).collect();
    assert_eq!(gaps, [0, 1, 0], "only l1d_cache_misses lacks values");
    let marks: Vec<usize> = paths(&document, "mark").iter().map(|d| d.matches('M').count()).collect();
    assert_eq!(marks, [3, 1, 1, 1, 1], "neighbours are one mark");
    for words in
        ["switched: 4 of 900", "migrated: 1 of", "throttled: 1 of", "lost before: 1 of", "unavailable: 40 of"]
    {
        assert!(picture.contains(words), "{words}");
    }
    assert_eq!(picture.matches("class=\"strip\"").count(), 4, "four segments");
}

#[test]
fn one_window_of_a_hundred_thousand_is_seen_and_the_picture_stays_small() {
    let mut rows = worked(MAIN, &[(30_000, READ), (45_000, COMPUTE), (25_000, WRITE)], 0.2);
    rows[54_321].counts[2] = Count::Exact(90 * 512);
    let many = Recorded::new(&hardware(), &rows);
    let (picture, page) = (many.picture("m.svg", &[]), many.picture("m.html", &[]));
    assert!(picture.len() < 200 << 10 && page.len() < 4 << 20, "{} {}", picture.len(), page.len());
    let document = well_formed(&picture);
    let steps = paths(&document, "env")[1].split('V').skip(1);
    let heights: Vec<f64> =
        steps.filter_map(|step| step.split(['H', 'M', 'L', 'Z']).next()?.parse().ok()).collect();
    let top = heights.iter().copied().fold(f64::INFINITY, f64::min);
    assert_eq!(heights.iter().filter(|height| **height < top + 10.0).count(), 1, "one step reaches the top");
    assert!(many.shown(&["plot"]).contains("1.20 … 90.0"));
    let boundaries: Vec<u64> = boundaries(&many);
    assert_eq!(boundaries, [30_000, 75_000]);
}

fn boundaries(recorded: &Recorded) -> Vec<u64> {
    let json: Value = serde_json::from_str(&recorded.shown(&["phases", "--json"])).unwrap();
    let segments = json["lanes"][0]["segments"].as_array().unwrap();
    segments.iter().skip(1).map(|segment| segment["first_window"].as_u64().unwrap()).collect()
}

#[test]
fn phases_as_json_keep_to_the_schema_and_find_the_boundaries() {
    for recorded in [known(), two_threads(), timed(), Recorded::new(&hardware(), &[])] {
        let json: Value = serde_json::from_str(&recorded.shown(&["phases", "--json"])).unwrap();
        schema("phases-1.json").validate(&json).unwrap_or_else(|error| panic!("{error}: {json:#}"));
    }
    assert_eq!(boundaries(&known()), [200, 500, 650]);
    assert_eq!(boundaries(&timed()), [40]);
    let json: Value = serde_json::from_str(&known().shown(&["phases", "--json"])).unwrap();
    let phases: Vec<&str> = json["lanes"][0]["segments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["phase"].as_str().unwrap())
        .collect();
    assert_eq!(phases, ["A", "B", "A", "C"]);
    let ipc = json["lanes"][0]["phases"][1]["rates"][0]["mean"].as_f64().unwrap();
    assert!((2.3..2.5).contains(&ipc), "{ipc}");
}

#[test]
fn work_that_alternates_in_each_window_is_no_phase_in_silence() {
    let turns: Vec<(usize, Work)> = (0..300).map(|i| (1, if i % 2 == 0 { READ } else { COMPUTE })).collect();
    let recorded = Recorded::new(&hardware(), &worked(MAIN, &turns, 0.02));
    let said = "rates change from window to window: choose a smaller N \
        (thread 1200: IPC, l1d_cache_misses:u, branch-misses:u)";
    for command in ["plot", "phases"] {
        let text = support::one_line(&recorded.shown(&[command]));
        assert!(text.contains(said), "{text}");
        assert!(!known().shown(&[command]).contains("smaller N"));
    }
    assert!(recorded.picture("p.svg", &[]).contains(said));
    let json: Value = serde_json::from_str(&recorded.shown(&["phases", "--json"])).unwrap();
    schema("phases-1.json").validate(&json).unwrap_or_else(|error| panic!("{error}: {json:#}"));
    assert_eq!(json["lanes"][0]["rates"][0]["fast"], true);
    assert_eq!(json["remarks"][0], said);
}

#[test]
fn phases_beyond_z_are_no_phase_of_one_letter_on_the_terminal() {
    let level = |rate: u32, i: u32| 1.0 + f64::from(i / 4u32.pow(rate) % 4);
    let work = |i: u32| (20, [level(0, i), 10.0 * level(1, i), level(2, i)]);
    let recorded = |kinds: u32| {
        Recorded::new(&hardware(), &worked(MAIN, &(0..kinds).map(work).collect::<Vec<_>>(), 0.0))
    };
    let text = recorded(28).shown(&["plot"]);
    let phases = text.lines().find_map(|line| line.trim_start().strip_prefix("phase ")).unwrap();
    assert!(text.contains("28 phases") && phases.starts_with('A') && phases.contains("Z++"), "{text}");
    assert_eq!(phases.trim_end_matches('+').rfind('A'), phases.find('B').map(|b| b - 1), "{text}");
    assert!(text.contains("+: a phase beyond Z; cyclometer phases shows each\n"), "{text}");
    assert!(!recorded(26).shown(&["plot"]).contains('+'));
}

#[test]
fn no_rows_and_one_row_are_shown_as_what_they_are() {
    let none = Recorded::new(&hardware(), &[]);
    let one = Recorded::new(&hardware(), &worked(WORKER, &[(1, WRITE)], 0.0));
    assert!(none.shown(&["plot"]).ends_with("\nthe recording has no windows\n"));
    assert!(none.shown(&["phases"]).ends_with("\nthe recording has no windows\n"));
    golden("plot-one-row.txt", &one.shown(&["plot"]));
    for recorded in [&none, &one] {
        well_formed(&recorded.picture("p.svg", &[]));
        let page = recorded.picture("p.html", &[]);
        assert!(page.starts_with("<!DOCTYPE html>") && !page.contains("NaN") && !page.contains("inf"));
    }
}

#[test]
fn a_window_without_any_count_is_a_gap_and_a_recording_of_such_has_no_curve() {
    let lost = |_| Count::Lost { reason: "the counter was taken".into() };
    let rows: Vec<WindowRow> =
        (1..=30).map(|n| row(MAIN, (0..4).map(lost).collect(), n * 1000, 1000)).collect();
    let recorded = Recorded::new(&hardware(), &rows);
    let text = recorded.shown(&["plot"]);
    assert_eq!(text.matches("no window has a value").count(), 3, "{text}");
    assert!(
        !text.contains('▁') && text.contains("unavailable") && !text.contains("instructions ·"),
        "{text}"
    );
    assert!(recorded.shown(&["phases"]).contains('–'));
    assert_eq!(paths(&well_formed(&recorded.picture("p.svg", &[])), "line").len(), 0);
}

#[test]
fn a_single_thread_is_drawn_and_an_unknown_one_is_an_error_with_those_there_are() {
    let recorded = two_threads();
    let text = recorded.shown(&["plot", "--thread", "1201"]);
    assert!(text.contains("thread 1201 ·") && !text.contains("thread 1200"), "{text}");
    for command in ["plot", "phases"] {
        let out = recorded.run(&[command, "--thread", "9"]);
        assert_eq!(out.status.code(), Some(125));
        assert!(stderr(&out).contains("help: its threads are 1200, 1201\n"), "{}", stderr(&out));
    }
}

#[test]
fn the_busiest_threads_are_drawn_and_the_others_named() {
    let thread = |n: usize| WindowThread { pid: 7, tid: 100 + n as u32 };
    let rows: Vec<WindowRow> = (1..=20).flat_map(|n| worked(thread(n), &[(n, READ)], 0.0)).collect();
    let recorded = Recorded::new(&hardware(), &rows);
    let text = recorded.shown(&["plot"]);
    assert!(
        text.contains("\nthread 120 ·")
            && text.contains("\nthread 117 ·")
            && !text.contains("\nthread 116 ·"),
        "{text}"
    );
    assert!(support::one_line(&text).contains("not shown: thread 116, thread 115,"), "{text}");
    assert!(text.contains("8 more"), "{text}");
}

#[test]
fn an_axis_that_the_recording_lacks_is_an_error() {
    let out = timed().run(&["plot", "--over", "instructions"]);
    assert_eq!(out.status.code(), Some(125));
    assert!(stderr(&out).contains("no column of instructions"), "{}", stderr(&out));
    let mut rows = worked(MAIN, &[(30, READ)], 0.0);
    rows.iter_mut().for_each(|row| row.time_ns = None);
    let out = Recorded::new(&hardware(), &rows).run(&["plot", "--over", "time"]);
    assert!(stderr(&out).contains("the rows of the recording have no times"), "{}", stderr(&out));
}

#[test]
fn a_clock_that_goes_back_draws_no_curve_backwards() {
    let mut rows = worked(MAIN, &[(30, READ)], 0.0);
    rows[10].time_ns = Some(1);
    let recorded = Recorded::new(&hardware(), &rows);
    well_formed(&recorded.picture("p.svg", &["--over", "time"]));
    recorded.shown(&["plot", "--over", "time"]);
}

#[test]
fn a_cut_recording_is_drawn_as_far_as_it_goes_and_a_damaged_one_fails_afterwards() {
    let recorded = known();
    let bytes = std::fs::read(&recorded.file).unwrap();
    std::fs::write(&recorded.file, &bytes[..bytes.len() - 9]).unwrap();
    let text = recorded.shown(&["plot"]);
    assert!(text.contains("900 windows") && text.contains("the recording is incomplete"), "{text}");
    let mut damaged = bytes.clone();
    let last = damaged.len() - 9;
    damaged[last] ^= 1;
    std::fs::write(&recorded.file, &damaged).unwrap();
    for command in ["plot", "phases"] {
        let out = recorded.run(&[command]);
        assert_eq!(out.status.code(), Some(125));
        assert!(stdout(&out).contains("900 windows") && stderr(&out).contains("cannot read "), "{out:?}");
    }
    std::fs::write(&recorded.file, "event,count\n").unwrap();
    assert_eq!(recorded.run(&["plot"]).status.code(), Some(125));
    let path = recorded.path().to_owned();
    std::fs::remove_file(&path).unwrap();
    for command in [&["plot"][..], &["phases"], &["convert", "--to", "csv"]] {
        let out = recorded.run(command);
        assert_eq!(out.status.code(), Some(125));
        let said = support::one_line(&stderr(&out));
        assert!(said.contains(&format!("error: cannot read {path}: no such file")), "{said}");
    }
}

#[test]
fn a_picture_does_not_replace_its_recording_and_has_a_known_format() {
    let recorded = known();
    let same = recorded.folder.path().join("same.svg");
    std::os::unix::fs::symlink(&recorded.file, &same).unwrap();
    let out = recorded.run(&["plot", "-o", same.to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(125), "{out:?}");
    let out = recorded.run(&["plot", "-o", "x.png"]);
    assert!(stderr(&out).contains("ends neither in .svg nor in .html"), "{out:?}");
}

#[test]
fn names_in_a_picture_are_no_markup() {
    let header = RecordingHeader {
        command: vec!["</title></script><script>alert(1)</script>".to_owned(), "\u{1b}[31m".to_owned()],
        events: ["instructions:u", "cycles:u", "<b>&\"x\u{202e}\u{ffff}", "]]></script>"].map(event).to_vec(),
        ..hardware()
    };
    let recorded = Recorded::new(&header, &worked(MAIN, &[(30, READ)], 0.0));
    let (picture, page) = (recorded.picture("n.svg", &[]), recorded.picture("n.html", &[]));
    well_formed(&picture);
    assert_eq!(page.matches("<script").count(), 2, "the data and the script");
    for text in [&picture, &page, &recorded.shown(&["plot"])] {
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'));
    }
    assert!(page.contains("default-src 'none'") && !page.contains("https://"));
}

#[test]
fn events_of_no_window_are_named_in_words() {
    let mut rows = worked(MAIN, &[(40, READ)], 0.01);
    let no_window = WindowRow { cause: WindowCause::Unassigned, thread: None, ..rows[0].clone() };
    rows.push(WindowRow { time_ns: None, ..no_window });
    let recorded = Recorded::new(&hardware(), &rows);
    let pictures = ["p.svg", "p.html"].map(|name| recorded.picture(name, &[]));
    for text in [recorded.shown(&["plot"]), recorded.shown(&["phases"])].iter().chain(&pictures) {
        assert!(text.contains("some events are in no window") && !text.contains("unassigned"), "{text}");
    }
}

/// A browser that gives no document for so long has hung.
const CHROMIUM_LIMIT: std::time::Duration = std::time::Duration::from_secs(300);

/// The document that Chromium has after it ran a page, for readers who prefer light or dark.
fn chromium(page: &str, is_dark: bool) -> Option<String> {
    if !support::has("chromium") {
        support::skip("Chromium is not installed");
        return None;
    }
    let profile = tempfile::tempdir().unwrap();
    let mut browser = std::process::Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom"])
        .arg("--window-size=1000,800")
        .arg(format!("--blink-settings=preferredColorScheme={}", if is_dark { 0 } else { 1 }))
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(page)
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut stdout = browser.stdout.take().unwrap();
    let (sender, document) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = std::io::Read::read_to_string(&mut stdout, &mut text);
        // The test has ended if there is no receiver.
        let _ = sender.send(read.map(|_| text));
    });
    let document = document.recv_timeout(CHROMIUM_LIMIT);
    if document.is_err() {
        browser.kill().unwrap();
    }
    browser.wait().unwrap();
    Some(document.expect("Chromium gave the document within its time limit").unwrap())
}

#[test]
fn a_browser_draws_the_curves_in_light_and_dark() {
    let recorded = known();
    recorded.picture("p.svg", &[]);
    // Counts the pixels of the background and of the line in the panel of IPC.
    let script = "const c = document.createElement('canvas'), g = c.getContext('2d');\
        c.width = 960; c.height = 500; g.drawImage(document.images[0], 0, 0);\
        const d = g.getImageData(0, 0, 960, 500).data, at = (x, y) => [0, 1, 2].map(i => d[4 * (960 * y + x) + i]);\
        let dark = 0, light = 0;\
        for (let y = 125; y < 215; y++) for (let x = 260; x < 940; x++) {\
          const [r, g, b] = at(x, y); if (r + g + b < 120) dark++; if (r + g + b > 700) light++; }\
        document.body.textContent = `background ${at(3, 3)} dark-pixels ${dark} light-pixels ${light} end`;";
    let svg = std::fs::read_to_string(recorded.folder.path().join("p.svg")).unwrap();
    let encoded: String = svg.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let page = recorded.folder.path().join("page.html");
    let html = format!(
        "<meta name=color-scheme content='light dark'><body><img src='data:image/svg+xml,{encoded}' onload=\"{script}\">"
    );
    std::fs::write(&page, html).unwrap();
    for (is_dark, background, line) in
        [(false, "255,255,255", "dark-pixels"), (true, "22,24,29", "light-pixels")]
    {
        let Some(seen) = chromium(&format!("file://{}", page.display()), is_dark) else { return };
        assert!(seen.contains(&format!("background {background}")), "{seen}");
        let drawn = seen.split(&format!("{line} ")).nth(1).unwrap();
        let drawn: u32 = drawn.split([' ', '<']).next().unwrap().parse().unwrap();
        assert!(drawn > 500, "{drawn} pixels of the line: {seen}");
    }
}

#[test]
fn a_browser_zooms_the_page() {
    let recorded = known();
    recorded.picture("z.html", &[]);
    let page = format!("file://{}/z.html#0,0.5,0.75", recorded.folder.path().display());
    let Some(seen) = chromium(&page, false) else { return };
    assert!(seen.contains("viewBox=\"346 0 173 "), "the view is a quarter of the axis");
    assert!(
        seen.contains("class=\"fine\" style=\"\"")
            && seen.contains("class=\"coarse\" style=\"display: none;\"")
    );
    assert!(seen.contains(">240M<") || seen.contains(">250M<"), "the axis has other values");
}

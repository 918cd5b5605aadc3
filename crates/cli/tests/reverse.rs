//! `reverse`: verdicts on the events of simulated chips, and questions that make no sense.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::support;

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{cyclometer, run, schema, stderr, stdout};

const HIDDEN: &str = "cyclometer-semantics 1
0x20 counters=0x0e0 counts stores
0x21 counters=0x3fc counts conditional-branches + calls
0x22 counters=0x3fc counts stores at-most 1 per cycle
";

fn reversed(options: &[&str]) -> Value {
    let out = run(&[&["reverse", "--json", "--repeats", "2"], options].concat());
    assert!(out.status.success(), "{out:?}");
    let report: Value = serde_json::from_str(&stdout(&out)).unwrap();
    let errors: Vec<String> = schema("reverse-1.json").iter_errors(&report).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    report
}

fn event(report: &Value, code: u64) -> &Value {
    report["events"].as_array().unwrap().iter().find(|event| event["code"] == code).unwrap()
}

#[test]
fn documented_events_of_a_chip_are_found_out_with_their_counters() {
    let report = reversed(&["--machine", "sim:apple-m1", "--ids", "0x8d,0x95,0x0d,0xff"]);
    let loads = event(&report, 0x95);
    assert_eq!((loads["verdict"].as_str(), loads["text"].as_str()), (Some("A"), Some("loads")));
    assert_eq!(loads["counters"], serde_json::json!(["5", "6", "7"]));
    assert_eq!(loads["documented"][0]["name"], "INST_INT_LD");
    assert_eq!(event(&report, 0x8d)["text"], "branches");
    let faults = &event(&report, 0x0d)["hypotheses"];
    assert_eq!(faults[0]["sum"], "faults", "its published label is another: {faults}");
    assert_eq!(event(&report, 0xff)["verdict"], "E");
    assert_eq!(report["control"]["identified"], 0);
}

#[test]
fn hidden_meanings_are_found_out_and_those_that_are_no_sums_are_never_identified() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hidden.txt");
    fs::write(&file, HIDDEN).unwrap();
    let options = ["--machine", "sim:apple-m1", "--semantics", file.to_str().unwrap(), "--ids", "0x20-0x22"];
    let report = reversed(&options);
    assert_eq!(event(&report, 0x20)["text"], "stores");
    assert_eq!(event(&report, 0x20)["counters"], serde_json::json!(["5", "6", "7"]));
    assert_eq!(event(&report, 0x21)["text"], "conditional-branches + calls");
    assert_ne!(event(&report, 0x22)["verdict"], "A", "{}", event(&report, 0x22));
    assert_eq!(event(&report, 0x20)["documented"], serde_json::json!([]), "names say nothing here");
    let again = reversed(&options);
    assert_eq!(report, again, "a seed repeats everything");
}

#[test]
fn identified_events_are_a_file_that_stat_counts_by() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (hidden, events) = (path("hidden.txt"), path("found.txt"));
    fs::write(&hidden, HIDDEN).unwrap();
    let machine = ["--machine", "sim:apple-m1", "--semantics", &hidden];
    reversed(&[&machine[..], &["--ids", "0x20-0x22", "--export-events", &events]].concat());
    let written = fs::read_to_string(&events).unwrap();
    assert!(written.contains("stores_0x20 event=0x20 counters=0xe0\n"), "{written}");
    assert!(!written.contains("0x22"), "it is no sum: {written}");
    let list = "stores_0x20,conditional_branches_plus_calls_0x21";
    let options = ["stat", "--json", "--events", &events, "-e", list, "--workload", "loop:1"];
    let out = run(&[&options[..], &machine].concat());
    let report: Value = serde_json::from_str(&stdout(&out)).unwrap_or_else(|e| panic!("{e}: {out:?}"));
    let metrics = report["commands"][0]["metrics"].as_array().unwrap();
    assert!(metrics.iter().all(|metric| metric["mean"].as_f64().is_some_and(|n| n > 0.0)), "{report}");
}

#[test]
fn the_table_fits_on_a_terminal_and_counts_every_verdict() {
    let out = run(&["reverse", "--machine", "sim:skylake", "--ids", "0xc4,0xd0,0x81d0", "--repeats", "2"]);
    let text = stdout(&out);
    assert!(out.status.success() && out.stderr.is_empty(), "{out:?}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("moved by no kernel") && text.contains("0x81d0"), "{text}");
}

#[test]
fn questions_that_make_no_sense_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("bad"), "cyclometer-semantics 1\n0x20 counts nonsense\n").unwrap();
    let long = fs::File::create(folder.path().join("long")).unwrap();
    (&long).write_all(b"cyclometer-sweep 1 00000000\n").unwrap();
    long.set_len(3 << 30).unwrap();
    for (options, said) in [
        (&["--backend", "os"][..], "cannot place a code on counters"),
        (&["--machine", "sim:apple-m1", "--backend", "msr"], "--backend"),
        (&["--machine", "sim:apple-m1", "--resume", "missing"], "missing"),
        (&["--machine", "sim:apple-m1", "--resume", "bad"], "the file is no journal of a sweep"),
        (&["--machine", "sim:apple-m1", "--journal", "bad"], "bad exists"),
        (&["--machine", "sim:apple-m1", "--deny", "bad"], "line 1: 'cyclometer-semantics 1' is no code"),
        (&["--machine", "sim:apple-m1", "--iterations", "0"], "--iterations"),
        (&["--machine", "sim:apple-m1", "--method", "threshold"], "needs two kernels"),
        (&["--machine", "sim:apple-m1", "--kernel", "x.s", "--control", "adds"], "of two kinds"),
        (&["--machine", "sim:apple-m1", "--kernel", "x.s", "--control", "y.s"], "x.s"),
        (
            &["--machine", "sim:apple-m1", "--kernel", "nonsense", "--control", "adds"],
            "'nonsense' is no kernel",
        ),
        (&["--machine", "sim:apple-m1", "--kernel", "adds"], "--control"),
        (&["--machine", "sim:apple-m1", "--html", "-", "--export-events", "-"], "standard output"),
        (&["--machine", "apple-m1"], "is no machine to sweep"),
        (&["--machine", "sim:nonsense"], "nonsense"),
        (&["--machine", "sim:apple-m1", "--ids", "0xff-0x00"], "is no code and no range"),
        (&["--machine", "sim:apple-m1", "--ids", "0x1000"], "0x1000"),
        (&["--machine", "sim:apple-m1", "--repeats", "0"], "--repeats"),
        (&["--machine", "sim:apple-m1", "--repeats", "4294967295"], "from 1 to 1000"),
        (&["--machine", "sim:apple-m1", "--resume", "/dev/zero"], "/dev/zero: it is no regular file"),
        (&["--machine", "sim:apple-m1", "--resume", "long"], "long: it is longer than 1 GiB"),
        (&["--machine", "sim:apple-m1", "--semantics", "bad"], "line 2"),
        (&["--machine", "sim:apple-m1", "--semantics", "missing"], "missing"),
    ] {
        let out = cyclometer().arg("reverse").args(options).current_dir(folder.path()).output().unwrap();
        assert_eq!(out.status.code(), Some(125), "{options:?}: {out:?}");
        assert!(stderr(&out).contains(said), "{options:?}: {}", stderr(&out));
    }
    let dry = run(&["reverse", "--machine", "sim:apple-m1", "--dry-run"]);
    assert!(stdout(&dry).contains("256 codes") && stdout(&dry).contains("nothing was swept"), "{dry:?}");
}

const SMALL: [&str; 6] = ["--machine", "sim:apple-m1", "--repeats", "2", "--iterations", "255"];

fn lines(file: &Path) -> usize {
    fs::read_to_string(file).map_or(0, |text| text.lines().count())
}

#[test]
fn a_sweep_that_was_killed_ends_as_one_that_was_not() {
    let folder = tempfile::tempdir().unwrap();
    let ids = ["--ids", "0x8d,0x94-0x96,0xbf,0xf0-0xff", "--seed", "5"];
    let whole = run(&[&["reverse", "--json"], &SMALL[..], &ids].concat());
    assert!(whole.status.success(), "{whole:?}");
    // The header has 8 lines; the kills come after the first, the fourth and the tenth code at the earliest.
    for done in [9, 12, 18] {
        let journal = folder.path().join(format!("journal-{done}"));
        let name = journal.to_str().unwrap();
        let words = [&SMALL[..], &ids, &["--journal", name]].concat();
        let mut child = cyclometer().arg("reverse").args(words).stdout(Stdio::null()).spawn().unwrap();
        let end = Instant::now() + Duration::from_secs(120);
        while lines(&journal) < done && child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < end, "no code is done");
            std::thread::sleep(Duration::from_millis(1));
        }
        // Fails if the sweep has ended meanwhile, which the next lines bear as well.
        let _ = child.kill();
        child.wait().unwrap();
        let resumed = run(&["reverse", "--json", "--machine", "sim:apple-m1", "--resume", name]);
        assert_eq!(stdout(&resumed), stdout(&whole), "{}", stderr(&resumed));
        assert_eq!(lines(&journal), 8 + 21, "each code once");
    }
    let name = folder.path().join("journal-9");
    let other = run(&["reverse", "--machine", "sim:skylake", "--resume", name.to_str().unwrap()]);
    assert_eq!(other.status.code(), Some(125));
    let said = "the journal is of another machine: sim:apple-m1, and now sim:skylake";
    assert!(stderr(&other).contains(said), "{}", stderr(&other));
}

#[test]
fn a_page_has_the_verdicts_and_a_picture_for_each_event_that_a_sum_explains() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    let words = ["--ids", "0x95,0x76,0xbf,0xff", "--html", file.to_str().unwrap()];
    let out = run(&[&["reverse"], &SMALL[..], &words].concat());
    assert!(out.status.success() && stdout(&out).contains("loads"), "{out:?}");
    let page = fs::read_to_string(&file).unwrap();
    assert!(page.contains("<h1>Events of sim:apple-m1</h1>") && page.contains("INST_INT_LD"), "{page}");
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("<script"), "{page}");
    let pictures: Vec<&str> = page.match_indices("<svg").map(|(at, _)| &page[at..]).collect();
    assert_eq!(pictures.len(), 2, "one for 0x95 and one for 0xbf");
    for picture in pictures {
        let end = picture.find("</svg>").unwrap() + "</svg>".len();
        let parsed = roxmltree::Document::parse(&picture[..end]).unwrap();
        assert!(parsed.descendants().any(|node| node.attribute("class") == Some("told")));
    }
}

#[test]
fn codes_that_no_counter_takes_are_excluded_with_the_reason() {
    let report =
        reversed(&["--machine", "sim:sapphirerapids", "--ids", "0x1000,0xc4", "--iterations", "255"]);
    assert_eq!(report["events"].as_array().unwrap().len(), 1);
    assert_eq!(report["excluded"][0]["code"], 0x1000);
    assert!(report["excluded"][0]["reason"].as_str().unwrap().starts_with("refused: "), "{report}");
}

#[test]
fn the_threshold_method_calls_an_id_noise_that_the_control_moves_and_a_hit_that_only_the_kernel_does() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.h");
    fs::write(&config, "#define TEST_TIME 20000\n#define DEVIATION 1000\n").unwrap();
    let ids = ["--ids", "0x95,0xbf,0xff", "--config", config.to_str().unwrap()];
    let pair = ["--method", "threshold", "--kernel", "update_l2", "--control", "update_l1"];
    let out = run(&[&["reverse", "--machine", "sim:apple-m1"], &ids[..], &pair].concat());
    let text = stdout(&out);
    assert!(out.status.success(), "{out:?}");
    let hits: Vec<&str> = text.lines().filter(|line| line.trim_start().starts_with("0x")).collect();
    assert_eq!(hits.len(), 1, "{text}");
    assert!(hits[0].contains("0xbf"), "{text}");
    assert!(text.contains("noise     1") && text.contains("miss      1"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn assembly_is_not_executed_on_a_simulated_chip() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| {
        let path = folder.path().join(name);
        fs::write(&path, ".globl kernel\nkernel: ret\n").unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (real, fake) = (file("real.s"), file("fake.s"));
    let out = run(&["reverse", "--machine", "sim:apple-m1", "--kernel", &real, "--control", &fake]);
    assert_eq!(out.status.code(), Some(125));
    assert!(stderr(&out).contains("simulated chips execute no assembly"), "{}", stderr(&out));
}

//! `stat -m`: regions that a program marks. The program is this one, with a test that marks some when it is
//! asked to.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::support;

use std::process::Output;

use cyclometer_toolkit::marker;
use serde_json::Value;
use support::{cyclometer, schema, stderr, stdout};

/// Says to the program that it is to mark regions.
const ASKED: &str = "CYCLOMETER_TEST_MARKS";

#[test]
fn program() {
    match std::env::var(ASKED) {
        Ok(what) if what == "the page's" => return as_on_the_page(),
        Ok(_) => {}
        Err(_) => return,
    }
    for _ in 0..3 {
        let _region = marker::region("solve, \"twice\"");
        std::hint::black_box((0..1000u64).sum::<u64>());
    }
    marker::begin("open\u{1b}");
}

fn as_on_the_page() {
    marker::begin("fill");
    marker::end("fill");
    for _ in 0..3 {
        let _region = marker::region("multiply");
        std::hint::black_box((0..1000u64).sum::<u64>());
    }
}

/// A table without the parts that differ from machine to machine: numbers, units, widths.
fn shape(text: &str) -> Vec<String> {
    let is_number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
    let units = ["ns", "µs", "ms", "s"];
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // How often and in how many threads is the same everywhere.
        match words.first() {
            Some(&"region") => words[..words.iter().rposition(|word| *word == "·").unwrap()].join(" "),
            _ => words
                .iter()
                .filter(|word| !is_number(word) && !units.contains(word))
                .copied()
                .collect::<Vec<_>>()
                .join(" "),
        }
    };
    // The command has another name, and its output is in front.
    text.lines().skip_while(|line| !line.contains(" run")).skip(1).map(line).collect()
}

#[test]
fn the_page_shows_what_the_tool_prints() {
    let page = include_str!("../../../docs/guides/markers.md");
    let texts: Vec<&str> =
        page.split("```text\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    let soft = ["-e", "instructions,branches,wall_time", "--backend", "auto"];
    let kernel = ["-r", "3", "-e", "page-faults,task-clock"];
    for (text, arguments) in texts.iter().zip([soft.as_slice(), &kernel]) {
        let own = std::env::current_exe().unwrap();
        let mut command = cyclometer();
        command.args(["stat", "-m"]).args(arguments).arg("--").arg(own);
        command.args(["--exact", "markers::program", "--test-threads=1"]).env(ASKED, "the page's");
        let out = command.output().unwrap();
        let said = stdout(&out) + &stderr(&out);
        let told = shape(&said);
        if text.contains('≡') && !said.contains('≡') {
            support::skip("docs/guides/markers.md: the software PMU does not count here");
            continue;
        }
        assert_eq!(told, shape(text), "{said}");
    }
    assert_eq!(texts.len(), 2);
}

/// Runs `stat -m` with these arguments over the program.
fn marked(arguments: &[&str]) -> Output {
    let own = std::env::current_exe().unwrap();
    let mut command = cyclometer();
    command.args(["stat", "-m"]).args(arguments).arg("--").arg(own);
    command.args(["--exact", "markers::program", "--test-threads=1"]).env(ASKED, "1").output().unwrap()
}

fn json(arguments: &[&str]) -> Value {
    let out = marked(&[&["--json", "--output", "null"], arguments].concat());
    let value: Value = serde_json::from_str(&stdout(&out)).unwrap_or_else(|e| panic!("{e}: {out:?}"));
    let errors: Vec<String> = schema("stat-1.json").iter_errors(&value).map(|e| e.to_string()).collect();
    assert_eq!(errors, [""; 0], "{arguments:?}");
    value["commands"][0].clone()
}

#[test]
fn each_region_has_a_table_below_that_of_the_command() {
    let out = marked(&["-e", "page-faults,wall_time", "--output", "null"]);
    assert!(out.status.success(), "{out:?}");
    let said = stdout(&out) + &stderr(&out);
    let (whole, regions) = said.split_once("region solve, \"twice\" · 3 calls · 1 thread · ").unwrap();
    assert!(whole.contains("wall_time") && whole.contains("page-faults"), "{said}");
    assert!(regions.contains("page-faults"), "{said}");
    assert!(regions.contains(r"region open\x1b · 1 call"), "control bytes are escaped: {said}");
    assert!(regions.contains("begun and not ended once"), "{said}");
    assert!(
        regions.contains("not counted in regions, as the system accounts it for processes: wall_time"),
        "{said}"
    );
}

#[test]
fn json_has_each_region_by_run_and_thread() {
    let command = json(&["-e", "page-faults,wall_time", "-r", "2"]);
    assert_eq!(command["region_notes"], Value::Array(Vec::new()));
    let solve = &command["regions"][0];
    assert_eq!(solve["label"], "solve, \"twice\"");
    for run in solve["runs"].as_array().unwrap() {
        assert_eq!((&run["calls"], &run["ended"], &run["threads"]), (&3.into(), &3.into(), &1.into()));
        assert!(run["time_ns"].as_u64().unwrap() > 0);
        let thread = &run["by_thread"][0];
        assert!(
            thread["tid"].as_u64().is_some() && thread["values"][0]["name"].as_str().is_some(),
            "{thread}"
        );
    }
    assert_eq!(solve["metrics"].as_array().unwrap().len(), 2);
    let wall = &solve["metrics"][1];
    assert_eq!((&wall["mean"], &wall["count"]), (&Value::Null, &"lost".into()), "{wall}");
    let open = &command["regions"][1];
    assert_eq!(open["metrics"][0]["mean"], Value::Null, "what did not end has no count: {open}");
    assert_eq!(open["notes"][0].as_str().unwrap().split(':').next(), Some("begun and not ended 2 times"));
}

#[test]
fn the_time_of_a_region_is_of_runs_on_the_processor() {
    let command = json(&["-e", "instructions,wall_time", "-r", "3"]);
    let how: Vec<Option<bool>> = command["regions"][0]["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["time_is_translated"].as_bool())
        .collect();
    if !how.contains(&Some(true)) {
        return support::skip("the software PMU does not count here");
    }
    assert!(how.contains(&Some(false)) && how.len() == 3, "{how:?}");
    let heading = |runs: &str| {
        let out = marked(&["-e", "instructions,wall_time", "-r", runs, "--output", "null"]);
        let said = stdout(&out) + &stderr(&out);
        said.lines().find(|line| line.starts_with("region solve")).unwrap().to_owned()
    };
    assert!(heading("3").ends_with(" a run"), "{}", heading("3"));
    assert!(heading("1").ends_with(", translated"), "{}", heading("1"));
}

#[test]
fn there_may_be_more_runs_than_descriptors() {
    let own = std::env::current_exe().unwrap();
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "ulimit -n 60 && exec \"$0\" \"$@\""]).arg(cyclometer().get_program());
    shell.args(["stat", "-m", "-e", "page-faults", "-r", "70", "--json", "--output", "null", "--"]).arg(own);
    let out =
        shell.args(["--exact", "markers::program", "--test-threads=1"]).env(ASKED, "1").output().unwrap();
    let value: Value = serde_json::from_str(&stdout(&out)).unwrap_or_else(|e| panic!("{e}: {out:?}"));
    let runs = value["commands"][0]["regions"][0]["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 70, "{}", stderr(&out));
    assert!(runs.iter().all(|run| run["calls"] == 3), "{runs:?}");
}

#[test]
fn tables_of_regions_are_in_every_export() {
    let folder = tempfile::tempdir().unwrap();
    let [csv, markdown] = ["a.csv", "a.md"].map(|name| folder.path().join(name));
    let [csv_file, markdown_file] = [&csv, &markdown].map(|path| path.to_str().unwrap().to_owned());
    let exports = ["--export-csv", &csv_file, "--export-markdown", &markdown_file];
    let out = marked(&[&["-q", "-e", "page-faults"], exports.as_slice()].concat());
    assert!(out.status.success(), "{out:?}");
    let csv = std::fs::read_to_string(csv).unwrap();
    let columns: Vec<&str> = csv.lines().map(|row| row.rsplit_once(',').unwrap().1).collect();
    assert_eq!(columns[..2], ["region", ""], "{csv}");
    assert!(csv.contains(",\"solve, \"\"twice\"\"\"\r\n"), "{csv}");
    let markdown = std::fs::read_to_string(markdown).unwrap();
    assert!(markdown.contains("#### Region `solve, \"twice\"`: 3 calls · 1 thread"), "{markdown}");
}

#[test]
fn the_software_pmu_counts_regions_exactly() {
    let command = json(&["-e", "instructions", "--backend", "soft"]);
    let line = &command["regions"][0]["metrics"][0];
    if command["metrics"][0]["mean"].is_null() {
        return support::skip("regions: the software PMU does not work here");
    }
    assert_eq!((&line["count"], &line["provenance"]), (&"exact".into(), &"counted".into()), "{line}");
    // Three times a thousand additions, however they are compiled.
    assert!(line["mean"].as_u64().unwrap() >= 100, "{line}");
}

#[test]
fn a_command_without_markers_is_told() {
    let out = cyclometer().args(["stat", "-m", "-e", "page-faults", "--", "true"]).output().unwrap();
    assert!(out.status.success());
    let said = stderr(&out).replace("\n    ", " ");
    assert!(said.contains("no region was marked: the command does not use the library's markers"), "{said}");
}

#[test]
fn markers_are_refused_where_nothing_can_be_handed_over() {
    for arguments in [["-p", "1"], ["-t", "1"], ["-C", "0"], ["-G", "x"], ["--machine", "sim:apple-m1"]] {
        let out = cyclometer().args(["stat", "-m"]).args(arguments).output().unwrap();
        assert_eq!(out.status.code(), Some(125), "{arguments:?}: {out:?}");
        assert!(stderr(&out).contains("cannot be used with"), "{}", stderr(&out));
    }
}

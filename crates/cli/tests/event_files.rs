//! `--events FILE` from the outside: what is read, what is refused, and how it ends.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use support::{run, stderr, stdout};

#[test]
fn a_file_that_is_no_table_ends_before_the_command_runs() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let touch = ["touch", mark.to_str().unwrap()];
    let cut = folder.path().join("cut.json");
    std::fs::write(&cut, "{\"Events\": [{\"EventName\": \"A.B\"").unwrap();
    for path in [cut.to_str().unwrap(), "/no/such/file.json", "/dev/null", "/"] {
        let out = run(&[&["stat", "--events", path, "--"], &touch[..]].concat());
        assert_eq!(out.status.code(), Some(125), "{path}: {out:?}");
        let text = stderr(&out);
        assert!(text.starts_with("cyclometer: error: ") && text.contains(path), "{text}");
        assert!(!mark.exists(), "the command ran");
    }
    let out = run(&["stat", "--events", cut.to_str().unwrap(), "true"]);
    assert!(stderr(&out).contains("\nhelp: name a whole file"), "{}", stderr(&out));
}

#[test]
fn events_of_other_cpus_are_reported_and_the_command_runs() {
    let out = run(&["stat", "-e", "no_cpu_has_this_event", "--", "echo", "ran"]);
    assert_eq!((out.status.code(), stdout(&out).as_str()), (Some(125), ""));
    let out = run(&["stat", "-e", "wall_time,FIXED_CYCLES", "--", "echo", "ran"]);
    assert_eq!((out.status.code(), stdout(&out).as_str()), (Some(0), "ran\n"), "{}", stderr(&out));
}

#[test]
fn vendors_events_are_listed_when_a_pattern_asks_for_them() {
    let machine = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/machines/skylake.txt");
    let all = stdout(&run(&["list", "--machine", machine]));
    assert!(!all.contains("MEM_LOAD_RETIRED") && all.trim_end().ends_with("searches them, too"), "{all}");
    let found = stdout(&run(&["list", "--machine", machine, "mem_load_retired.l3*"]));
    assert!(found.starts_with("vendor events\n  MEM_LOAD_RETIRED.L3_HIT\n"), "{found}");
    let text = stdout(&run(&["list", "--json", "--machine", machine, "INST_RETIRED.ANY"]));
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let event = value.as_array().unwrap().iter().find(|event| event["name"] == "INST_RETIRED.ANY").unwrap();
    assert_eq!((&event["kind"], &event["fixed"]), (&"vendor".into(), &0.into()));
    assert_eq!(event["resolution"], "cpu/config=0xc0/ (INST_RETIRED.ANY)");
}

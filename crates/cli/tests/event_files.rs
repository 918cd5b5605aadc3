//! `--events FILE` from the outside: files that are read, files that are refused, and the exit codes.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::support;

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

/// Two events as Intel publishes them, the second with another code than in the catalogue.
const PERFMON: &str = r#"{"Header": {"Copyright": "of the test", "Version": "9.99", "DatePublished": "2026-01-01"},
"Events": [
 {"EventName": "MY.EVENT", "EventCode": "0x77", "UMask": "0x03", "Counter": "0,1", "BriefDescription": "made \u001b[31mup"},
 {"EventName": "BR_MISP_RETIRED.ALL_BRANCHES", "EventCode": "0xfe", "UMask": "0x01", "Counter": "0,1,2,3"}
]}"#;

/// A table of ours of a CPU that the catalogue does not have.
const OURS: &str = "cyclometer-events 1\ncpu newchip\nlayout amd\n\
                    counters general=0x3f fixed=0 width=48 overflow=48 selector=12 version=2\n\
                    [events]\nmy_event event=0x1aa umask=0x7 counters=0x3f\n";

/// A folder with these files, and the path of each.
struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new(files: &[(&str, &str)]) -> Files {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        Files { folder }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }
}

/// The output of a command line that succeeds.
fn printed(words: &[&str]) -> String {
    let out = run(words);
    assert_eq!(out.status.code(), Some(0), "{words:?}: {}", stderr(&out));
    stdout(&out)
}

/// The message of a command line that is refused.
fn refused(words: &[&str]) -> String {
    let out = run(words);
    assert_eq!((out.status.code(), stdout(&out).as_str()), (Some(125), ""), "{words:?}");
    stderr(&out)
}

fn objects(words: &[&str]) -> Vec<serde_json::Value> {
    let text = printed(&[words, &["--json"]].concat());
    serde_json::from_str::<serde_json::Value>(&text).unwrap().as_array().unwrap().clone()
}

#[test]
fn a_files_events_are_encoded_before_the_catalogues() {
    let files = Files::new(&[("intel.json", PERFMON), ("newer.json", &PERFMON.replace("0x77", "0x78"))]);
    let (file, newer) = (files.path("intel.json"), files.path("newer.json"));
    let config = |event: &str, more: &[&str]| {
        let words = ["encode", "--cpu", "skylake", "--events", &file, event];
        objects(&[&words, more].concat())[0]["config"].as_str().unwrap().to_owned()
    };
    for (event, expected) in [
        ("my.event", "0x377"),
        ("MY.EVENT:c=1", "0x1000377"),
        ("BR_MISP_RETIRED.ALL_BRANCHES", "0x1fe"),
        ("BR_INST_RETIRED.ALL_BRANCHES", "0xc4"),
        ("branch-misses", "0xc5"),
        ("cycles", "0x3c"),
        ("cpu/event=0xcd,umask=1,ldlat=50/", "0x1cd"),
    ] {
        assert_eq!(config(event, &[]), expected, "{event}");
    }
    assert_eq!(config("my.event", &["--events", &newer]), "0x378", "the last file goes first");
    let all = objects(&["encode", "--cpu", "skylake", "--events", &file, "--all"]);
    let names: Vec<&str> = all.iter().map(|one| one["event"].as_str().unwrap()).collect();
    assert_eq!(names[..2], ["BR_MISP_RETIRED.ALL_BRANCHES", "MY.EVENT"]);
    let catalogued = objects(&["encode", "--cpu", "skylake", "--all"]).len();
    assert_eq!(names.len(), catalogued + 1, "what the file has, too, is there once");
}

#[test]
fn a_files_own_words_are_shown_without_what_a_terminal_would_obey() {
    let files = Files::new(&[("intel.json", PERFMON)]);
    let file = files.path("intel.json");
    for words in [&["encode", "MY.EVENT"][..], &["decode", "0x377"], &["list", "MY.EVENT"]] {
        let text = printed(&[words, &["--cpu", "skylake", "--events", &file]].concat());
        assert!(text.contains("made") && text.contains("[31mup"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }
    let text = printed(&["encode", "--cpu", "skylake", "--events", &file, "MY.EVENT:c=1"]);
    assert!(!text.contains("made") && text.contains("with fields changed"), "{text}");
}

#[test]
fn values_are_decoded_to_the_names_of_the_file_and_of_the_catalogue() {
    let both = PERFMON.replace("0x77", "0xc5").replace("0x03", "0x00");
    let files = Files::new(&[("intel.json", PERFMON), ("both.json", &both)]);
    let (file, both) = (files.path("intel.json"), files.path("both.json"));
    let names = |file: &str, value: &str| {
        let found = objects(&["decode", "--cpu", "skylake", "--events", file, value]);
        assert_eq!(found.len(), 1);
        let events = found[0]["events"].as_array().unwrap().clone();
        assert_eq!(events.len(), 1, "{events:?}");
        events[0]["names"].clone()
    };
    assert_eq!(names(&file, "0x377"), serde_json::json!(["MY.EVENT"]));
    assert_eq!(names(&file, "0x412e"), serde_json::json!(["LONGEST_LAT_CACHE.MISS"]));
    assert_eq!(names(&both, "0xc5"), serde_json::json!(["MY.EVENT", "BR_MISP_RETIRED.ALL_BRANCHES"]));
    let labelled = |label: &str| objects(&["decode", "--cpu", "skylake", "--events", &file, label]);
    assert_eq!(labelled("0x412e=LLC miss")[0]["mismatch"], serde_json::Value::Null);
    assert_eq!(labelled("0x377=my.event")[0]["mismatch"], serde_json::Value::Null);
    let wrong = labelled("0x377=LLC miss");
    assert_eq!(wrong[0]["mismatch"]["is"], serde_json::json!(["MY.EVENT"]));
}

#[test]
fn events_of_a_file_are_planned_beside_the_catalogues() {
    let files = Files::new(&[("intel.json", PERFMON)]);
    let events = "MY.EVENT@1,INST_RETIRED.ANY,branch-misses";
    let words = ["plan", "--cpu", "skylake", "--events", &files.path("intel.json"), "-e", events, "--json"];
    let planned: serde_json::Value = serde_json::from_str(&printed(&words)).unwrap();
    let seats =
        planned["passes"][0].as_array().unwrap().iter().map(|seat| (&seat["event"], &seat["counter"]));
    let seats: Vec<_> =
        seats.map(|(event, counter)| (event.as_str().unwrap(), counter.as_str().unwrap())).collect();
    assert_eq!(seats, [("MY.EVENT", "PMC1"), ("INST_RETIRED.ANY", "fixed 0"), ("branch-misses", "PMC0")]);
}

#[test]
fn lists_have_the_files_events_first_and_each_name_once() {
    let files = Files::new(&[("intel.json", PERFMON)]);
    let file = files.path("intel.json");
    let found = objects(&["list", "--cpu", "skylake", "--events", &file, "BR_MISP_RETIRED.*"]);
    let events: Vec<_> = found
        .iter()
        .map(|one| (one["name"].as_str().unwrap(), one["table"]["version"].as_str().unwrap()))
        .collect();
    assert_eq!(events[0], ("BR_MISP_RETIRED.ALL_BRANCHES", "9.99"));
    let again = events[1..].iter().any(|(name, version)| *name == events[0].0 || *version == "9.99");
    assert!(!again && events.len() > 2, "{events:?}");
    let machine = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/machines/skylake.txt");
    let text = printed(&["list", "--machine", machine, "--events", &file, "MY.EVENT"]);
    assert!(text.starts_with("vendor events\n  MY.EVENT\n"), "{text}");
}

#[test]
fn a_file_stands_for_a_cpu_that_the_catalogue_does_not_have() {
    let files = Files::new(&[("intel.json", PERFMON), ("own.txt", OURS)]);
    let (intel, own) = (files.path("intel.json"), files.path("own.txt"));
    let found = objects(&["encode", "--cpu", "no-such-cpu", "--events", &intel, "MY.EVENT"]);
    assert_eq!((&found[0]["cpu"], &found[0]["config"]), (&"no-such-cpu".into(), &"0x377".into()));
    for words in [&["encode"][..], &["encode", "--cpu", "NewChip"]] {
        let found = objects(&[words, &["--events", &own, "my_event"]].concat());
        assert_eq!((&found[0]["cpu"], &found[0]["config"]), (&"newchip".into(), &"0x1000007aa".into()));
    }
    let text = printed(&["list", "--events", &own, "--counter", "5"]);
    assert!(text.contains("of newchip") && text.contains("my_event"), "{text}");
    let text = refused(&["encode", "--events", &own, "my_evnt"]);
    assert!(text.contains("newchip has no event named 'my_evnt'") && text.contains("my_event"), "{text}");
}

#[test]
fn a_file_without_a_cpu_is_for_the_one_that_another_names() {
    let files =
        Files::new(&[("own.txt", &OURS.replace("layout amd", "layout intel")), ("intel.json", PERFMON)]);
    let words =
        ["encode", "--events", &files.path("own.txt"), "--events", &files.path("intel.json"), "MY.EVENT"];
    assert_eq!(objects(&words)[0]["cpu"], "newchip");
}

#[test]
fn files_that_are_not_for_the_cpu_are_refused() {
    let files = Files::new(&[("intel.json", PERFMON), ("own.txt", OURS), ("cut.json", "{\"Events\": [")]);
    let (intel, own, cut) = (files.path("intel.json"), files.path("own.txt"), files.path("cut.json"));
    let text = refused(&["encode", "--cpu", "skylake", "--events", &own, "my_event"]);
    assert!(text.contains("it is of newchip, and skylake is asked for\nhelp: "), "{text}");
    let text = refused(&["plan", "--cpu", "alderlake", "--events", &intel, "-e", "MY.EVENT"]);
    assert!(text.contains("which core type") && text.contains("--events alderlake/atom=FILE"), "{text}");
    let of_atom = format!("alderlake/atom={intel}");
    let words = ["plan", "--cpu", "alderlake", "--events", &of_atom, "-e", "MY.EVENT", "--json"];
    let planned: serde_json::Value = serde_json::from_str(&printed(&words)).unwrap();
    let cores = planned["core_types"].as_array().unwrap().iter();
    let unplaced: Vec<usize> = cores.map(|core| core["unplaced"].as_array().unwrap().len()).collect();
    assert_eq!(unplaced, [0, 1]);
    for path in [cut.as_str(), "/no/such/file", "/dev/null", "/"] {
        for words in [&["encode", "A"][..], &["decode", "1"], &["plan", "-e", "A"], &["list"]] {
            let text = refused(&[words, &["--cpu", "skylake", "--events", path]].concat());
            assert!(text.starts_with("cyclometer: error: ") && text.contains(path), "{text}");
        }
    }
    for words in [&["list", "--metrics"][..], &["list", "--cpus"], &["list", "--everywhere", "x"]] {
        let text = refused(&[words, &["--events", &intel]].concat());
        assert!(text.contains("cannot be used with"), "{text}");
    }
}

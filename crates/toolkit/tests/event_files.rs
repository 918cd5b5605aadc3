//! Tables of events that users give: found before the catalogue's, for the right core type, or refused by
//! name.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::path::{Path, PathBuf};

use cyclometer_toolkit::core::Event;
use cyclometer_toolkit::{
    Error, ErrorKind, EventTables, Machine, Result, Stat, list_vendor_events, replay_machine,
};

fn machine(name: &str) -> Machine {
    let path = format!("{}/../../fixtures/machines/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let recording = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    replay_machine(&recording).unwrap_or_else(|error| panic!("{error}"))
}

/// A file with this text; every test has names of its own.
fn file(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn of_core(core: &str, path: &Path) -> PathBuf {
    PathBuf::from(format!("{core}={}", path.display()))
}

fn tables(on: &str, argument: &Path) -> Result<EventTables> {
    EventTables::embedded().with_file(argument, &machine(on))
}

fn refused(on: &str, argument: &Path) -> Error {
    match tables(on, argument) {
        Ok(_) => panic!("{} is accepted on {on}", argument.display()),
        Err(error) => error,
    }
}

fn event(on: &str, tables: &EventTables, text: &str) -> Event {
    let stat = Stat::new(machine(on)).tables(tables.clone());
    let plan = stat.events(text).and_then(|stat| stat.plan());
    plan.unwrap_or_else(|error| panic!("{on} {text}: {error}")).lines.remove(0).event
}

fn resolution(on: &str, tables: &EventTables, text: &str) -> String {
    let event = event(on, tables, text);
    let reason = event.unsupported.as_ref().map_or_else(String::new, |reason| reason.to_string());
    event.candidates.first().map_or(reason, |candidate| candidate.resolution.clone())
}

/// Two events as Intel publishes them, the second with another code than in the catalogue.
const PERFMON: &str = r#"{"Header": {"Copyright": "of the test", "Version": "9.99", "DatePublished": "2026-01-01"},
"Events": [
 {"EventName": "MY.EVENT", "EventCode": "0x77", "UMask": "0x03", "Counter": "0,1", "BriefDescription": "made up"},
 {"EventName": "BR_MISP_RETIRED.ALL_BRANCHES", "EventCode": "0xfe", "UMask": "0x01", "Counter": "0,1,2,3"}
]}"#;

#[test]
fn a_files_events_go_before_the_catalogues() {
    let tables = tables("skylake", &file("first.json", PERFMON)).unwrap();
    assert_eq!(resolution("skylake", &tables, "my.event"), "cpu/config=0x377/ (MY.EVENT)");
    assert_eq!(
        resolution("skylake", &tables, "BR_MISP_RETIRED.ALL_BRANCHES"),
        "cpu/config=0x1fe/ (BR_MISP_RETIRED.ALL_BRANCHES)"
    );
    assert_eq!(
        resolution("skylake", &tables, "BR_INST_RETIRED.ALL_BRANCHES"),
        "cpu/config=0xc4/ (BR_INST_RETIRED.ALL_BRANCHES)"
    );
    let listed = list_vendor_events(&machine("skylake"), &tables, &|name| name == "MY.EVENT");
    assert_eq!((listed.len(), listed[0].description.as_str()), (1, "made up"));
    assert!(tables.event("skylake", "MY.EVENT").is_some());
}

#[test]
fn the_newest_of_several_files_wins() {
    let newer = PERFMON.replace("0x77", "0x78");
    let tables = tables("skylake", &file("older.json", PERFMON)).unwrap();
    let tables = tables.with_file(&file("newer.json", &newer), &machine("skylake")).unwrap();
    assert_eq!(resolution("skylake", &tables, "MY.EVENT"), "cpu/config=0x378/ (MY.EVENT)");
}

#[test]
fn a_file_that_does_not_tell_its_core_type_needs_to_be_told() {
    let path = file("hybrid.json", PERFMON);
    let error = refused("alder-lake", &path);
    assert!(error.to_string().ends_with("it does not tell which core type it is for"), "{error}");
    assert!(error.recovery().to_string().contains("alderlake/atom"), "{}", error.recovery());
    for core in ["alderlake/atom", "cpu_atom"] {
        let tables = tables("alder-lake", &of_core(core, &path)).unwrap();
        let event = event("alder-lake", &tables, "MY.EVENT");
        assert_eq!(event.candidates[0].resolution, "cpu_atom/config=0x377/ (MY.EVENT)");
        assert!(event.candidates[0].only.as_ref().is_some_and(|only| only.is_only("cpu_atom")));
    }
}

#[test]
fn units_tell_the_core_types_of_linuxs_files_apart() {
    let linux = r#"[
      {"EventName": "MY.BOTH", "EventCode": "0x11", "UMask": "0x1", "Counter": "0,1", "Unit": "cpu_core"},
      {"EventName": "MY.ATOM", "EventCode": "0x12", "UMask": "0x2", "Counter": "0,1", "Unit": "cpu_atom"},
      {"EventName": "MY.CORE", "EventCode": "0x13", "UMask": "0x3", "Counter": "0,1", "Unit": "cpu_core"}
    ]"#;
    let tables = tables("alder-lake", &file("linux.json", linux)).unwrap();
    assert_eq!(resolution("alder-lake", &tables, "MY.ATOM"), "cpu_atom/config=0x212/ (MY.ATOM)");
    assert_eq!(resolution("alder-lake", &tables, "MY.CORE"), "cpu_core/config=0x313/ (MY.CORE)");
}

#[test]
fn apples_databases_are_read_for_their_chip() {
    let plist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../import/tests/data/kpep.plist");
    let on_m1 = tables("m1-asahi", &plist).unwrap();
    assert!(resolution("m1-asahi", &on_m1, "INST_LDST").ends_with(" (INST_LDST)"));
    let error = refused("m4-macos", &plist);
    assert!(error.to_string().ends_with("it is of apple-m1, and this machine has apple-m4"), "{error}");
}

/// A table of ours, of a CPU that the catalogue knows.
const OURS: &str = "cyclometer-events 1\ncpu amdzen4\nlayout amd\nmatch AuthenticAMD-25-61\n\
                    counters general=0x3f fixed=0 width=48 overflow=48 selector=12 version=2\n\
                    [events]\nmy_event event=0x1aa umask=0x7 counters=0x3f\n";

#[test]
fn our_own_tables_are_read_for_their_cpu() {
    let path = file("ours.txt", OURS);
    let on_zen4 = tables("zen4", &path).unwrap();
    assert_eq!(resolution("zen4", &on_zen4, "my_event"), "cpu/config=0x1000007aa/ (my_event)");
    let error = refused("zen2", &path);
    assert!(error.to_string().ends_with("it is of amdzen4, and this machine has amdzen2"), "{error}");
    let told = tables("zen2", &of_core("amdzen2", &path)).unwrap();
    assert_eq!(resolution("zen2", &told, "my_event"), "cpu/config=0x1000007aa/ (my_event)");
    let error = refused("skylake", &of_core("skylake", &path));
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_machine_that_the_catalogue_does_not_know_can_be_given_its_table() {
    let mut unknown = machine("zen4");
    unknown.core_types[0].cpu_id = None;
    let tables = EventTables::embedded();
    let before = Stat::new(unknown.clone()).tables(tables.clone()).events("l2_cache_misses").unwrap();
    let before = before.plan().unwrap().lines.remove(0).event;
    assert!(
        before.candidates.is_empty()
            && before.unsupported.as_ref().unwrap().to_string().contains("generic event"),
        "{before:?}"
    );
    let new = OURS.replace("cpu amdzen4", "cpu amdzen9").replace("match AuthenticAMD-25-61\n", "");
    let tables = tables.with_file(&file("unknown.txt", &new), &unknown).unwrap();
    let stat = Stat::new(unknown).tables(tables).events("my_event").unwrap();
    let event = stat.plan().unwrap().lines.remove(0).event;
    assert_eq!(event.candidates[0].resolution, "cpu/config=0x1000007aa/ (my_event)");
}

#[test]
fn files_that_are_none_are_refused_by_name() {
    let cases = [
        ("empty.json", "", "the file is empty"),
        ("cut.json", &PERFMON[..200], "JSON"),
        ("text.json", "hello", "is no event file"),
        ("cut.plist", "<?xml version=\"1.0\"?><plist><dict>", "kpep"),
        ("no-events.json", "{\"Events\": []}", "no event"),
    ];
    for (name, text, message) in cases {
        let error = refused("skylake", &file(name, text));
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{name}");
        assert!(error.to_string().contains(message) && error.to_string().contains(name), "{name}: {error}");
        assert_ne!(error.recovery().to_string(), "");
    }
    let missing = refused("skylake", Path::new("/no/such/file.json"));
    assert_eq!(missing.kind(), ErrorKind::Io);
    assert!(missing.to_string().starts_with("cannot read /no/such/file.json: "), "{missing}");
}

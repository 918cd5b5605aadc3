//! The tool on a Mac: from the command line to the functions of kperf, which a library of the tests has.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::fake_mac;
use crate::support;

#[path = "kperf/bad_input.rs"]
mod bad_input;
#[path = "kperf/recording.rs"]
mod recording;

use std::fmt::Write as _;
use std::process::Output;

use cyclometer_core::Count;
use cyclometer_core::window::{WindowCause, WindowRow};
use cyclometer_sim::{Concept, Model, Settings, SimMachine, Workload};
use fake_mac::{FakeMac, VARIABLE, family};
use serde_json::Value;
use support::{cyclometer, one_line, schema, stderr, stdout};

/// Before each read of the counters, 20 ms pass, in which CPU 0 works for 10 ms.
const WORK: &str = "cpus 2\nworkload 0 loop:10\nclock step 20000000\n";

/// The events of lauka's example.
const SEED: [&str; 4] =
    ["CORE_ACTIVE_CYCLE", "INST_ALL", "L1D_CACHE_MISS_LD_NONSPEC", "BRANCH_MISPRED_NONSPEC"];

/// The order of events that the allocator of kpep refuses: PMC7 is taken before `INST_LDST` comes.
const FAILING: &str =
    "L1D_TLB_ACCESS,L1D_TLB_MISS,L1D_CACHE_MISS_ST,L1D_CACHE_MISS_LD,LD_UNIT_UOP,ST_UNIT_UOP,INST_LDST";

/// The same by events that simulated M3 and M4 have.
const FAILING_TOO: &str = "CORE_ACTIVE_CYCLE,L1D_TLB_MISS,L1D_CACHE_MISS_ST,L1D_CACHE_MISS_LD,\
                           L1D_CACHE_MISS_LD_NONSPEC,INST_BRANCH,INST_LDST";

/// The same with work that misses caches, too.
const MISSES: &str = "cpus 2\nworkload 0 memory:10\nclock step 20000000\n";

fn missing(chip: &str, more: &str) -> FakeMac {
    FakeMac::new(&format!("chip {chip}\n{MISSES}{more}"))
}

fn mac(chip: &str, more: &str) -> FakeMac {
    FakeMac::new(&format!("chip {chip}\n{WORK}{more}"))
}

fn run(mac: &FakeMac, words: &[&str]) -> Output {
    cyclometer().args(words).env(VARIABLE, mac.folder()).output().unwrap()
}

/// The metrics of `stat -a`, and what it wrote to standard error.
fn metrics(mac: &FakeMac, words: &[&str]) -> (Vec<Value>, String) {
    let out = run(mac, &[&["stat", "-a", "--json", "--output", "null"], words, &["--", "true"]].concat());
    assert!(out.status.success(), "{}", stderr(&out));
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    (report["commands"][0]["metrics"].as_array().unwrap().clone(), stderr(&out))
}

/// The events of the work of CPU 0 before each read, in user mode.
fn work(chip: &str) -> impl Fn(Concept) -> u64 {
    let model = Model::find(chip).unwrap();
    let mut machine = SimMachine::new(model, Settings::default());
    let loops = Workload::named("loop").unwrap();
    let round = loops.cycles().unwrap_or_else(|| loops.phases[0].cycles);
    let rounds = (10_000 * model.mhz).div_ceil(round);
    let thread = machine.spawn(loops.for_rounds(rounds), &[0]).unwrap();
    machine.run(1_000_000_000, |_, _| {});
    move |concept| machine.truth(thread, concept)
}

fn orders(events: &[&str]) -> Vec<Vec<String>> {
    if events.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (i, first) in events.iter().enumerate() {
        let rest: Vec<&str> = [&events[..i], &events[i + 1..]].concat();
        all.extend(orders(&rest).into_iter().map(|order| [vec![(*first).to_owned()], order].concat()));
    }
    all
}

#[test]
fn the_seeds_four_events_are_exact_in_all_24_orders_and_none_is_zero() {
    for chip in ["apple-m1", "apple-m4"] {
        let (mac, truth) = (mac(chip, ""), work(chip));
        let concepts =
            [Concept::Cycles, Concept::Instructions, Concept::L1dLoadMisses, Concept::Mispredicts].map(truth);
        let all = orders(&SEED);
        assert_eq!(all.len(), 24);
        for order in all {
            let (found, _) = metrics(&mac, &["-e", &order.join(",")]);
            let values = SEED.map(|name| {
                let metric = found.iter().find(|metric| metric["name"] == format!("{name}:u")).unwrap();
                let kind = (&metric["count"], &metric["source"], &metric["scope"]);
                assert_eq!(kind, (&"exact".into(), &"kperf".into(), &"system".into()), "{metric}");
                metric["mean"].as_f64().unwrap()
            });
            // The work is done before each read: as often for one event as for another.
            let times = values[0] / concepts[0] as f64;
            assert!(times >= 1.0 && times.fract() == 0.0, "{order:?} {values:?} {concepts:?}");
            for (value, truth) in values.iter().zip(concepts) {
                assert_eq!(*value, truth as f64 * times, "{order:?} {values:?} {concepts:?}");
            }
        }
    }
}

#[test]
fn the_order_that_fails_elsewhere_is_one_pass_with_exact_counts() {
    for (chip, events) in
        [("apple-m1", FAILING), ("apple-m2", FAILING), ("apple-m3", FAILING_TOO), ("apple-m4", FAILING_TOO)]
    {
        let (found, _) = metrics(&missing(chip, ""), &["-e", events]);
        assert_eq!(found.len(), 7, "{chip}");
        for metric in found {
            let value = metric["mean"].as_f64().unwrap();
            assert!(metric["count"] == "exact" && value > 0.0, "{chip} {metric}");
        }
    }
}

#[test]
fn ten_events_take_the_fewest_passes_and_plan_proves_it() {
    let ten = format!("{FAILING},INST_ALL,INST_BRANCH,BRANCH_MISPRED_NONSPEC");
    let mac = missing("apple-m1", "");
    let out = run(&mac, &["plan", "-e", &ten, "--json"]);
    let plan: Value = serde_json::from_slice(&out.stdout).unwrap();
    let (passes, bound) = (plan["passes"].as_array().unwrap().len(), &plan["lower_bound"]);
    assert_eq!((passes, bound, &plan["optimal"]), (2, &2.into(), &true.into()), "{plan}");
    // Two runs: each event is counted for a whole one.
    let (found, _) = metrics(&mac, &["-r", "2", "-e", &ten]);
    assert_eq!(found.len(), 10);
    assert!(found.iter().all(|metric| metric["count"] == "exact"), "{found:?}");
    assert!(found.iter().all(|metric| metric["mean"].as_f64().unwrap() > 0.0), "{found:?}");
}

#[test]
fn events_of_one_run_rotate_and_their_values_say_so() {
    let ten = format!("{FAILING},INST_ALL,INST_BRANCH,BRANCH_MISPRED_NONSPEC");
    let mac = FakeMac::new("chip apple-m1\ncpus 2\nworkload 0 memory\n");
    let out = run(&mac, &["stat", "-a", "--json", "--output", "null", "-e", &ten, "--", "sleep", "0.5"]);
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    let found = report["commands"][0]["metrics"].as_array().unwrap();
    let scaled = found.iter().filter(|metric| metric["count"] == "scaled").count();
    assert!(scaled >= 2, "{report}");
    for metric in found {
        assert!(metric["mean"].as_f64().is_none_or(|value| value > 0.0), "{metric}");
    }
}

#[test]
fn counters_that_the_power_manager_keeps_are_planned_around_and_named() {
    let mac = missing("apple-m1", "power-manager keeps\n");
    let (found, _) = metrics(&mac, &["-e", "L1D_TLB_ACCESS,L1D_TLB_MISS,CORE_ACTIVE_CYCLE,INST_LDST"]);
    let count = |name: &str| found.iter().find(|metric| metric["name"] == name).unwrap();
    for name in ["L1D_TLB_ACCESS:u", "L1D_TLB_MISS:u", "CORE_ACTIVE_CYCLE:u"] {
        let metric = count(name);
        assert!(metric["count"] == "exact" && metric["mean"].as_f64().unwrap() > 0.0, "{metric}");
    }
    let lost = found.iter().find(|metric| metric["name"].as_str().unwrap().starts_with("INST_LDST")).unwrap();
    assert_eq!(lost["mean"], Value::Null, "{lost}");
    assert!(lost["reason"].as_str().unwrap().contains('7'), "{lost}");
    let doctor = one_line(&stdout(&run(&mac, &["doctor"])));
    assert!(doctor.contains("the power manager keeps PMC5 to PMC7"), "{doctor}");
    let plan = run(&mac, &["plan", "-e", "INST_LDST"]);
    assert_eq!(plan.status.code(), Some(125), "{}", stdout(&plan));
    let plan = one_line(&stdout(&plan));
    assert!(plan.contains("kept by the power manager"), "{plan}");
    // Six events that any counter counts take two passes where five counters are left.
    let six = "L1D_TLB_ACCESS,L1D_TLB_MISS,L1D_CACHE_MISS_ST,L1D_CACHE_MISS_LD,LD_UNIT_UOP,ST_UNIT_UOP";
    let (found, _) = metrics(&mac, &["-r", "2", "-e", six]);
    assert!(found.iter().all(|metric| metric["mean"].as_f64().unwrap() > 0.0), "{found:?}");
}

#[test]
fn the_power_managers_counters_are_those_of_the_hosts_database() {
    let database = database("a14", &some_events())
        .replace("power_counters</key><integer>224<", "power_counters</key><integer>28<");
    let kept = "power-manager keeps\npower-counters 0x1c\n";
    let mac = with_database("apple-m1", kept, family("apple-m1"), &database);
    // INST_ALL counts on PMC7 alone, which the power manager of this Mac leaves.
    let (found, _) = metrics(&mac, &["-e", "INST_ALL,CORE_ACTIVE_CYCLE,NEW_NAME_OF_BRANCHES"]);
    let concepts = [Concept::Instructions, Concept::Cycles, Concept::Branches].map(work("apple-m1"));
    let values: Vec<f64> = found.iter().map(|metric| metric["mean"].as_f64().unwrap()).collect();
    assert!(found.iter().all(|metric| metric["count"] == "exact"), "{found:?}");
    let times = values[0] / concepts[0] as f64;
    assert!(times >= 1.0 && times.fract() == 0.0, "{values:?} {concepts:?}");
    assert!(values.iter().zip(concepts).all(|(value, truth)| *value == truth as f64 * times), "{values:?}");
    let doctor = one_line(&stdout(&run(&mac, &["doctor"])));
    assert!(doctor.contains("the power manager keeps PMC2 to PMC4"), "{doctor}");
    let plan = one_line(&stdout(&run(&mac, &["plan", "-e", "INST_ALL,CORE_ACTIVE_CYCLE"])));
    assert!(plan.contains("PMC7") && plan.contains("kept by the power manager"), "{plan}");
}

#[test]
fn a_child_is_counted_with_everything_else_and_the_value_says_so() {
    let out =
        run(&mac("apple-m1", ""), &["stat", "--json", "--output", "null", "-e", "INST_BRANCH", "--", "true"]);
    let report: Value = serde_json::from_slice(&out.stdout).unwrap();
    let metric = &report["commands"][0]["metrics"][0];
    assert_eq!((&metric["count"], &metric["source"]), (&"partial".into(), &"kperf".into()), "{metric}");
    assert!(metric["reason"].as_str().unwrap().contains("kperf counts CPUs"), "{metric}");
}

#[test]
fn two_commands_are_compared_by_events_of_kperf() {
    // Each run has the same work between its first and its last read.
    let mac = mac("apple-m1", "");
    let out = run(&mac, &["compare", "-r", "5", "-e", "INST_BRANCH", "true", "true"]);
    let said = one_line(&(stdout(&out) + &stderr(&out)));
    assert_eq!(out.status.code(), Some(0), "{said}");
    assert!(said.contains("INST_BRANCH:u"), "{said}");
    assert!(said.contains("kperf counts CPUs"), "the counts are of the whole Mac: {said}");
}

#[test]
fn modes_are_those_in_which_macos_counts() {
    let names = |release: &str, list: &str| {
        let (found, _) = metrics(&mac("apple-m1", &format!("macos {release}\n")), &["-e", list]);
        found.iter().map(|metric| metric["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("15.5", "FIXED_INSTRUCTIONS,INST_ALL"), ["FIXED_INSTRUCTIONS:uk", "INST_ALL:u"]);
    assert_eq!(names("14.6", "INST_ALL:uk"), ["INST_ALL:uk"]);
    let (found, _) = metrics(&mac("apple-m1", ""), &["-e", "INST_BRANCH:uk"]);
    assert_eq!(found[0]["mean"], Value::Null);
    assert!(found[0]["reason"].as_str().unwrap().contains("user mode only"), "{found:?}");
}

#[test]
fn each_refusal_has_its_cause_and_remedy() {
    for (scenario, expected) in [
        ("user", "kperf counts for root only"),
        ("vm", "macOS in a virtual machine has no configurable counters"),
        ("fail kpc_force_all_ctrs_set always EBUSY", "Instruments"),
        ("fail kpc_force_all_ctrs_get always EBUSY", "Instruments"),
        ("fail kpc_force_all_ctrs_set always EACCES", "another program has requested all counters"),
        ("fail kpc_force_all_ctrs_set always EPERM", "refuses kperf even to root"),
    ] {
        let mac = mac("apple-m1", &format!("{scenario}\n"));
        let doctor = one_line(&stdout(&run(&mac, &["doctor"])));
        assert!(doctor.contains(expected), "{scenario}: {doctor}");
    }
    let user = run(&mac("apple-m1", "user\n"), &["stat", "-a", "-e", "INST_BRANCH", "--", "true"]);
    let said = one_line(&(stdout(&user) + &stderr(&user)));
    assert!(said.contains("sudo cyclometer"), "{said}");
}

#[test]
fn a_program_that_takes_the_pmu_later_is_an_error_that_names_it() {
    // The first call is the diagnosis', which finds nothing.
    let mac = mac("apple-m1", "fail kpc_set_config always EBUSY\n");
    let out = run(&mac, &["stat", "-a", "-e", "INST_BRANCH", "--", "true"]);
    assert_eq!(out.status.code(), Some(125), "{}", stdout(&out));
    let error = one_line(&stderr(&out));
    assert!(error.contains("another program has the PMU") && error.contains("help:"), "{error}");
}

#[test]
fn an_event_that_this_macos_does_not_allow_is_not_counted_and_the_others_are() {
    let mac = mac("apple-m1", "refuse 0xbf\n");
    let (found, _) = metrics(&mac, &["-e", &SEED.join(",")]);
    let refused = found.iter().find(|metric| metric["name"].as_str().unwrap().starts_with(SEED[2])).unwrap();
    assert_eq!(refused["mean"], Value::Null, "{refused}");
    let reason = refused["reason"].as_str().unwrap();
    assert!(reason.contains("does not allow the event 0xbf"), "{reason}");
    assert_eq!(found.iter().filter(|metric| metric["count"] == "exact").count(), 3, "{found:?}");
}

/// A database as macOS has it, with these events.
fn database(name: &str, events: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<plist version=\"1.0\"><dict>\n\
         <key>name</key><string>{name}</string>\n<key>system</key><dict><key>cpu</key><dict>\n\
         <key>architecture</key><string>arm64</string>\n<key>config_counters</key><integer>1020</integer>\n\
         <key>fixed_counters</key><integer>3</integer>\n<key>power_counters</key><integer>224</integer>\n\
         <key>aliases</key><dict><key>Instructions</key><string>FIXED_INSTRUCTIONS</string></dict>\n\
         <key>events</key><dict>\n{events}</dict>\n</dict></dict>\n</dict></plist>\n"
    )
}

fn event(name: &str, fields: &str) -> String {
    format!("<key>{name}</key><dict>{fields}</dict>\n")
}

fn number(key: &str, value: u32) -> String {
    format!("<key>{key}</key><integer>{value}</integer>")
}

/// Some events of an M1, one of them with a name that the catalogue does not have, one without a mask.
fn some_events() -> String {
    event(
        "FIXED_INSTRUCTIONS",
        &(number("fixed_counter", 1) + "<key>fallback</key><string>INST_ALL</string>"),
    ) + &event("INST_ALL", &(number("number", 0x8c) + &number("counters_mask", 0x80)))
        + &event("CORE_ACTIVE_CYCLE", &number("number", 0x02))
        + &event("NEW_NAME_OF_BRANCHES", &(number("number", 0x8d) + &number("counters_mask", 0xe0)))
        + &event("ST_MEM_ORDER_VIOL_LD_NONSPEC", &(number("number", 0xc4) + &number("counters_mask", 0xe0)))
}

/// The Mac with a database in the folder of macOS.
fn with_database(chip: &str, more: &str, family: u32, database: &str) -> FakeMac {
    let mut facts = format!("file /usr/share/kpep/cpu_100000c_2_{family:x}.plist\n");
    database.lines().for_each(|line| writeln!(facts, "| {line}").unwrap());
    FakeMac::with(&format!("chip {chip}\n{WORK}{more}"), &facts)
}

#[test]
fn events_of_the_hosts_database_are_listed_planned_encoded_and_counted() {
    let mac = with_database("apple-m1", "", family("apple-m1"), &database("a14", &some_events()));
    let new = "NEW_NAME_OF_BRANCHES";
    let list = run(&mac, &["list", "NEW_NAME*"]);
    assert!(stdout(&list).contains(new), "{}{}", stdout(&list), stderr(&list));
    let encode = one_line(&stdout(&run(&mac, &["encode", new])));
    assert!(encode.contains("kpc config[3] = 0x6008d"), "{encode}");
    let plan = one_line(&stdout(&run(&mac, &["plan", "-e", new])));
    assert!(plan.contains("PMC5") || plan.contains(" 5 "), "{plan}");
    let (found, said) = metrics(&mac, &["-e", &format!("{new},CORE_ACTIVE_CYCLE")]);
    assert!(found.iter().all(|metric| metric["mean"].as_f64().unwrap() > 0.0), "{found:?}");
    assert!(!said.contains("warning"), "{said}");
    // Names of the catalogue and of other versions of macOS go on to work.
    let (found, _) = metrics(&mac, &["-e", "INST_BRANCH,ST_MEMORY_ORDER_VIOLATION_NONSPEC,instructions:u"]);
    assert!(found[0]["mean"].as_f64().unwrap() > 0.0, "{found:?}");
    assert_eq!((found.len(), &found[1]["source"]), (3, &"kperf".into()), "{found:?}");
}

#[test]
fn a_fixed_event_falls_back_to_its_other_event_where_modes_ask_for_it() {
    let mac = with_database("apple-m1", "", family("apple-m1"), &database("a14", &some_events()));
    let (found, _) = metrics(&mac, &["-e", "FIXED_INSTRUCTIONS,FIXED_INSTRUCTIONS:u"]);
    let names: Vec<&str> = found.iter().map(|metric| metric["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["FIXED_INSTRUCTIONS:uk", "FIXED_INSTRUCTIONS:u"]);
    let value = |i: usize| found[i]["mean"].as_f64().unwrap();
    assert!(value(0) > value(1) && value(1) > 0.0, "the kernel is left out: {found:?}");
}

#[test]
fn a_chip_that_the_catalogue_lacks_is_counted_by_its_own_database() {
    let unknown = 0x1234_5678;
    let mac = with_database("apple-m1", "", unknown, &database("a99", &some_events()));
    let machine = mac.folder().join("machine");
    let text = std::fs::read_to_string(&machine).unwrap();
    let known = format!("hw.cpufamily {}", family("apple-m1"));
    std::fs::write(&machine, text.replace(&known, &format!("hw.cpufamily {unknown}"))).unwrap();
    let (found, _) = metrics(&mac, &["-e", "NEW_NAME_OF_BRANCHES,INST_ALL"]);
    assert!(found.iter().all(|metric| metric["mean"].as_f64().unwrap() > 0.0), "{found:?}");
    let plan = run(&mac, &["plan", "-e", "INST_ALL"]);
    assert!(plan.status.success(), "{}", stderr(&plan));
}

#[test]
fn a_database_that_cannot_be_used_is_a_warning_and_the_built_in_table_serves() {
    let whole = database("a14", &some_events());
    let truncated = &whole[..whole.len() / 2];
    let of_another = database("as4", &some_events());
    let own = family("apple-m1");
    let too_wide = database("a14", &(some_events() + &event("TOO_WIDE", &number("number", 0x4006))));
    for (database, expected) in [
        (truncated, "kpep"),
        (&of_another, "it is of apple-m4"),
        (&too_wide, "TOO_WIDE has the selector 0x4006"),
    ] {
        let mac = with_database("apple-m1", "", own, database);
        let (found, said) = metrics(&mac, &["-e", "INST_BRANCH"]);
        assert!(said.contains("warning:") && said.contains(expected), "{said}");
        assert!(said.contains("built-in tables"), "{said}");
        assert!(found[0]["mean"].as_f64().unwrap() > 0.0, "{found:?}");
    }
    let (_, said) = metrics(&mac("apple-m1", ""), &["-e", "INST_BRANCH"]);
    let path = format!("/usr/share/kpep/cpu_100000c_2_{own:x}.plist");
    assert!(said.contains(&format!("cannot read the event database {path}")), "{said}");
}

/// The sections of a self-test's report: kind, source, why it is absent, number of events with counts.
fn selftest_sections(mac: &FakeMac) -> Vec<(String, String, String, usize)> {
    let file = mac.folder().join("report.json");
    let out = run(mac, &["selftest", "--report", file.to_str().unwrap()]);
    let said = one_line(&(stdout(&out) + &stderr(&out)));
    // The simulated chip does not execute the loops, so that its counts may contradict them.
    assert!(matches!(out.status.code(), Some(0 | 1)), "{said}");
    let report: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert!(schema("selftest-1.json").is_valid(&report), "{report}");
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let section = |section: &Value| {
        let events = section["events"].as_array().unwrap();
        let counted = events.iter().filter(|event| event["verdict"] != "not_counted").count();
        (word(&section["kind"]), word(&section["source"]), word(&section["absent"]), counted)
    };
    report["sections"].as_array().unwrap().iter().map(section).collect()
}

#[test]
fn a_self_test_reports_kperf_and_the_sums_of_macos() {
    let quick = "cpus 1\nworkload 0 loop\nclock step 20000\nprocess loop 75\n";
    let sections = selftest_sections(&FakeMac::new(&format!("chip apple-m4\n{quick}")));
    let (kind, source, absent, counted) = &sections[0];
    assert_eq!((kind.as_str(), source.as_str(), absent.as_str()), ("hardware", "kperf", ""));
    assert!(*counted >= 5, "{sections:?}");
    let sections = selftest_sections(&FakeMac::new(&format!("chip apple-m4\n{quick}user\n")));
    assert!(sections[0].2.contains("root only") && sections[0].3 == 0, "{sections:?}");
    assert_eq!((sections[1].0.as_str(), sections[1].1.as_str()), ("accounts", "selfcounts"));
}

#[test]
fn list_says_which_events_kperf_counts() {
    let list = one_line(&stdout(&run(&mac("apple-m1", ""), &["list", "INST_BRANCH"])));
    assert!(list.contains("INST_BRANCH") && !list.contains("not here"), "{list}");
    let list = one_line(&stdout(&run(&mac("apple-m1", "user\n"), &["list", "INST_BRANCH"])));
    assert!(list.contains("kperf counts for root only"), "{list}");
}

//! Refusals, gaps and wrong files of a Mac, from the command line.

use serde_json::Value;

use super::support::{one_line, stderr, stdout};
use super::{FakeMac, database, family, mac, metrics, run, some_events, with_database};

/// The exit status of a command, and all that it said on one line.
fn said(mac: &FakeMac, words: &[&str]) -> (Option<i32>, String) {
    let out = run(mac, words);
    (out.status.code(), one_line(&(stdout(&out) + &stderr(&out))))
}

#[test]
fn an_event_of_another_chip_is_named_and_the_others_are_counted() {
    let m1 = mac("apple-m1", "");
    let (found, _) = metrics(&m1, &["-e", "ARM_L1D_CACHE_REFILL,INST_BRANCH"]);
    assert_eq!((&found[0]["count"], &found[0]["mean"]), (&"not_supported".into(), &Value::Null));
    let reason = found[0]["reason"].as_str().unwrap();
    assert!(reason.contains("apple-m1 has no event named 'ARM_L1D_CACHE_REFILL'"), "{reason}");
    assert_eq!(found[1]["count"], "exact", "the others are counted");
    for words in [&["plan", "-e", "ARM_L1D_CACHE_REFILL"][..], &["encode", "ARM_L1D_CACHE_REFILL"]] {
        let (status, text) = said(&m1, words);
        assert_eq!(status, Some(125), "{text}");
        assert!(text.contains("ARM_L1D_CACHE_REFILL"), "{text}");
        assert!(text.contains("help:"), "{text}");
    }
    // The same name is an event of an M4.
    let (found, _) = metrics(&mac("apple-m4", ""), &["-e", "INST_BRANCH,ARM_BR_PRED"]);
    assert_eq!(found.len(), 2);
}

#[test]
fn a_virtual_machine_counts_no_event_and_never_shows_zero() {
    let guest = mac("apple-m1", "vm\n");
    let (found, _) = metrics(&guest, &["-e", "INST_BRANCH,cycles"]);
    for metric in &found {
        assert_eq!(metric["mean"], Value::Null, "{metric}");
        assert_ne!(metric["count"], "exact", "{metric}");
        assert!(!metric["reason"].as_str().unwrap().is_empty(), "{metric}");
    }
    assert!(found[0]["reason"].as_str().unwrap().contains("virtual machine"), "{found:?}");
    let (_, list) = said(&guest, &["list", "INST_BRANCH"]);
    assert!(list.contains("no configurable counters"), "{list}");
}

#[test]
fn a_system_that_refuses_root_and_one_that_instruments_holds_are_named_by_stat() {
    for (scenario, expected) in [
        ("fail kpc_force_all_ctrs_set always EPERM\n", "even to root"),
        ("fail kpc_force_all_ctrs_set always EBUSY\n", "Instruments"),
        ("fail kpc_force_all_ctrs_get always EBUSY\n", "Instruments"),
    ] {
        let (found, text) = metrics(&mac("apple-m1", scenario), &["-e", "INST_BRANCH"]);
        let reason = found[0]["reason"].as_str().unwrap();
        assert_eq!(found[0]["mean"], Value::Null, "{found:?}");
        assert!(reason.contains(expected), "{scenario}: {reason} {text}");
    }
}

/// The Mac with a CPU family that no table has.
fn of_unknown_family(mac: FakeMac) -> FakeMac {
    let machine = mac.folder().join("machine");
    let text = std::fs::read_to_string(&machine).unwrap();
    let known = format!("hw.cpufamily {}", family("apple-m1"));
    std::fs::write(&machine, text.replace(&known, &format!("hw.cpufamily {}", 0x1234_5678))).unwrap();
    mac
}

#[test]
fn an_unknown_family_without_a_database_is_named_and_cycles_stay() {
    let unknown = of_unknown_family(mac("apple-m1", "process loop:5 75\n"));
    let (status, text) = said(&unknown, &["stat", "-e", "cycles,wall_time", "--", "true"]);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("cannot read the event database"), "{text}");
    assert!(text.contains("cycles"), "{text}");
    let (status, text) = said(&unknown, &["plan", "-e", "INST_ALL"]);
    assert_eq!(status, Some(125), "{text}");
    assert!(text.contains("help:"), "{text}");
}

#[test]
fn a_database_of_nothing_but_noise_is_a_warning() {
    for text in ["", "bplist00", "<plist><dict>", "no list at all"] {
        let mac = with_database("apple-m1", "", family("apple-m1"), text);
        let (found, text) = metrics(&mac, &["-e", "INST_BRANCH"]);
        assert!(text.contains("warning:") && text.contains("built-in tables"), "{text}");
        assert!(found[0]["mean"].as_f64().unwrap() > 0.0, "{found:?}");
    }
}

#[test]
fn names_of_older_and_newer_databases_are_one_event() {
    let (older, newer) = ("ST_MEMORY_ORDER_VIOLATION_NONSPEC", "ST_MEM_ORDER_VIOL_LD_NONSPEC");
    for (there, other) in [(older, newer), (newer, older)] {
        let events = some_events().replace(newer, there);
        let mac = with_database("apple-m1", "", family("apple-m1"), &database("a14", &events));
        let word = |name: &str| {
            let out = run(&mac, &["encode", name, "--json"]);
            let found: Value = serde_json::from_slice(&out.stdout).unwrap();
            found[0]["config"].clone()
        };
        assert_eq!(word(there), word(other), "{there}");
        let (_, list) = said(&mac, &["list", other]);
        assert!(list.contains(there), "{list}");
    }
}

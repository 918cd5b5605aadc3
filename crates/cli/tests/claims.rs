//! `reverse --check`, on simulated chips: whether events count what documents say.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::support;

use std::fs;
use std::process::Output;

use serde_json::Value;
use support::{run, schema, stderr, stdout};

/// A check of some labels, as JSON that obeys its schema.
fn checked(machine: &str, arguments: &[&str]) -> Value {
    let output = check(machine, &[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let value: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let schema = schema("reverse-check-1.json");
    let errors: Vec<String> = schema.iter_errors(&value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    value
}

fn check(machine: &str, arguments: &[&str]) -> Output {
    run(&[&["reverse", "--machine", machine, "--repeats", "2", "--check"], arguments].concat())
}

/// The codes with an outcome.
fn with_outcome(value: &Value, outcome: &str) -> Vec<u64> {
    let claims = value["claims"].as_array().unwrap().iter();
    claims.filter(|claim| claim["outcome"] == outcome).map(|claim| claim["code"].as_u64().unwrap()).collect()
}

fn refusal(output: &Output) -> String {
    assert!(!output.status.success() && stdout(output).is_empty(), "{}", stdout(output));
    stderr(output)
}

#[test]
fn seven_labels_of_the_document_disagree_with_its_56_codes() {
    let value = checked("sim:apple-m1", &["--table", "seed-000"]);
    assert_eq!(value["claims"].as_array().unwrap().len(), 56);
    assert_eq!(with_outcome(&value, "disagrees"), [0x0d, 0x52, 0x84, 0x94, 0x97, 0xca, 0xd3]);
    let agree = with_outcome(&value, "agrees");
    for code in [0x8d, 0x8e, 0x90, 0x96, 0x9b, 0xb3, 0xbf, 0xc5, 0xd4] {
        assert!(agree.contains(&code), "{code:#x}");
    }
}

/// As many labels as a debug build sweeps in some seconds, of each kind of event; the others are checked with
/// the document.
#[test]
fn documented_events_of_apple_do_not_disagree() {
    let labels = "CORE_ACTIVE_CYCLE,L2_TLB_MISS_DATA,MMU_VIRTUAL_MEMORY_FAULT_NONSPEC,SCHEDULE_UOP,MAP_STALL,\
                  MAP_INT_UOP,FLUSH_RESTART_OTHER_NONSPEC,INST_ALL,INST_BRANCH_COND,INST_BRANCH_INDIR,\
                  INST_INT_ALU,INST_SIMD_ALU,L1D_CACHE_MISS_LD,L1D_CACHE_MISS_ST_NONSPEC,LDST_X64_UOP,\
                  ST_MEM_ORDER_VIOL_LD_NONSPEC,BRANCH_INDIR_MISPRED_NONSPEC,BRANCH_RET_INDIR_MISPRED_NONSPEC,\
                  BRANCH_CALL_INDIR_MISPRED_NONSPEC,L1I_CACHE_MISS_DEMAND";
    let value = checked("sim:apple-m1", &[labels]);
    assert_eq!(value["claims"].as_array().unwrap().len(), 20);
    assert_eq!(with_outcome(&value, "disagrees"), [0; 0], "{value:#}");
    for code in [0x93, 0x94, 0xa3, 0xb1, 0xdb] {
        assert!(with_outcome(&value, "agrees").contains(&code), "{code:#x}");
    }
    assert_eq!(value["table"]["vendor"], true);
}

#[test]
fn a_file_of_claims_is_checked_with_the_kernel_that_refutes_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine");
    let rows =
        "cyclometer-claims 1\n0x8d jumps = branches\n0x8f jumps_back = calls + returns\n0xff none = loads\n";
    fs::write(&file, rows).unwrap();
    let value = checked("sim:apple-m1", &["0x8d", "JUMPS_BACK", "none", "--table", file.to_str().unwrap()]);
    assert_eq!(with_outcome(&value, "agrees"), [0x8d]);
    assert_eq!(with_outcome(&value, "disagrees"), [0x8f, 0xff]);
    let evidence = &value["claims"][1]["evidence"];
    assert!(evidence["predicted"].as_f64().unwrap() > evidence["measured"].as_f64().unwrap(), "{evidence}");
    assert!(value["claims"][2]["reason"].as_str().unwrap().starts_with("counts nothing here"), "{value:#}");
}

#[test]
fn other_meanings_of_the_chip_refute_the_labels_of_its_vendor() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("semantics");
    fs::write(&file, "cyclometer-semantics 1\n0x8d counters=0xe0 counts loads\n").unwrap();
    let value = checked("sim:apple-m1", &["INST_BRANCH", "--semantics", file.to_str().unwrap()]);
    assert_eq!(with_outcome(&value, "disagrees"), [0x8d]);
}

#[test]
fn events_of_intel_have_unit_masks_and_no_concepts_yet() {
    let value = checked("sim:skylake", &["MEM_LOAD_RETIRED.L1_MISS"]);
    assert_eq!(with_outcome(&value, "cannot tell"), [0x08d1]);
    let reason = value["claims"][0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("no concepts are written down for this event"), "{reason}");
}

#[test]
fn the_table_fits_80_columns_and_counts_the_outcomes() {
    let output = check("sim:apple-m2", &["0x94", "0x7f", "ICACHE_miss", "--table", "seed-000"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("0x7f     cannot tell  int_unknown_deps"), "{text}");
    assert!(text.contains("no concept for dependences between operations"), "{text}");
    assert!(text.contains("these labels are about apple-m1, and the machine is sim:apple-m2"), "{text}");
}

#[test]
fn unknown_tables_events_and_codes_are_refused_with_a_remedy() {
    let unknown = refusal(&check("sim:apple-m1", &["--table", "seed-001"]));
    assert!(unknown.contains("'seed-001'") && unknown.contains("apple-m1, seed-000"), "{unknown}");
    let typo = refusal(&check("sim:apple-m1", &["INST_BRANHC"]));
    assert!(typo.contains("'INST_BRANHC'") && typo.contains("did you mean INST_BRANCH"), "{typo}");
    let code = refusal(&check("sim:apple-m1", &["0xd3"]));
    assert!(code.contains("no event of apple-m1 has the label or code '0xd3'"), "{code}");

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine");
    for (row, message) in [
        ("0x195 a = loads", "selectors of this CPU have 8 bits"),
        ("0x10095 a = loads", "event 0x10095 has bits that no select or unit mask of apple-m1 has"),
        ("0x95 a = lodas", "line 2: 'lodas' is no concept"),
    ] {
        fs::write(&file, format!("cyclometer-claims 1\n{row}\n")).unwrap();
        let text = refusal(&check("sim:apple-m1", &["--table", file.to_str().unwrap()]));
        assert!(text.contains(message), "{text}");
    }
    let both = refusal(&run(&["reverse", "--machine", "sim:apple-m1", "--ids", "0x1", "--check"]));
    assert!(both.contains("cannot be used with"), "{both}");
    let alone = refusal(&run(&["reverse", "--machine", "sim:apple-m1", "--table", "seed-000"]));
    assert!(alone.contains("--check"), "{alone}");
}

#[test]
fn decode_knows_18_codes_of_the_document_as_claims_and_not_as_names() {
    let codes = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../catalog/data/claims/seed-000"));
    let codes = codes.unwrap();
    let codes: Vec<&str> =
        codes.lines().filter(|line| line.starts_with("0x")).map(|line| &line[..4]).collect();
    let output = run(&[&["decode", "--cpu", "apple-m1", "--json"][..], &codes[..]].concat());
    let values: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let events = |value: &Value| value["events"].as_array().unwrap().clone();
    let has_name = |value: &&Value| events(value).iter().any(|event| event["names"][0].is_string());
    let (named, claimed): (Vec<&Value>, Vec<&Value>) = values.as_array().unwrap().iter().partition(has_name);
    assert_eq!((claimed.len(), named.len()), (18, 38));
    let claims = |value: &Value| events(value).iter().any(|event| event["claims"][0]["table"] == "seed-000");
    assert!(claimed.into_iter().all(claims));
    assert!(!named.into_iter().any(claims));
    let text = stdout(&run(&["decode", "--cpu", "apple-m1", "0x53"]));
    assert!(text.contains("a claim, not a name: labelled 'uops_int' and 'int_unit_uops'"), "{text}");
    let other = stdout(&run(&["decode", "--cpu", "apple-m2", "0x53"]));
    assert!(!other.contains("claim"), "{other}");
    let stat = run(&["stat", "--machine", "sim:apple-m1", "-e", "int_unknown_deps", "loop"]);
    assert!(!stat.status.success());
}

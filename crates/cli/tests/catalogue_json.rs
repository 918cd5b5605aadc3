//! JSON of `encode`, `decode`, `plan` and `list`, for every CPU of the catalogue, beside its schemas.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::support;

use serde_json::{Value, json};
use support::{run, schema, stderr, stdout};

/// The objects of a command's result, which must obey its schema.
fn valid(schema: &jsonschema::Validator, words: &[&str]) -> Vec<Value> {
    valid_one(schema, words).as_array().unwrap().clone()
}

fn valid_one(schema: &jsonschema::Validator, words: &[&str]) -> Value {
    let out = run(words);
    // A plan may be incomplete: see `what_cannot_be_counted_is_told_by_the_exit_code`.
    let fine = out.status.code() == Some(0) || (words[0] == "plan" && out.status.code() == Some(125));
    assert!(fine, "{words:?}: {}", stderr(&out));
    let value: Value = serde_json::from_str(&stdout(&out)).unwrap();
    let errors: Vec<String> =
        schema.iter_errors(&value).take(3).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert_eq!(errors, [""; 0], "{words:?}");
    value
}

fn cpus() -> Vec<String> {
    let all = valid(&schema("list-1.json"), &["list", "--cpus", "--json"]);
    all.iter().map(|cpu| cpu["cpu"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_event_of_every_cpu_is_listed_and_encoded() {
    let (encode, list) = (schema("encode-1.json"), schema("list-1.json"));
    let mut seen = 0;
    for cpu in cpus() {
        let encoded = valid(&encode, &["encode", "--all", "--cpu", &cpu, "--json"]);
        let listed = valid(&list, &["list", "--cpu", &cpu, "--json"]);
        let listed: Vec<&Value> = listed.iter().filter(|event| event["kind"] != "portable").collect();
        assert_eq!(encoded.len(), listed.len(), "{cpu}");
        for (encoded, listed) in encoded.iter().zip(listed) {
            assert_eq!(encoded["event"], listed["name"], "{cpu}");
            let without_bits = encoded["config"].is_null() && encoded["registers"] == json!([]);
            assert!(!without_bits || encoded["reason"].is_string(), "{cpu}: {encoded}");
        }
        seen += encoded.len();
    }
    assert!(seen > 25_000, "{seen} events");
}

#[test]
fn portable_events_of_a_cpu_are_listed_with_the_vendors_events() {
    let list = schema("list-1.json");
    for (cpu, name, summands) in [
        ("amdzen4", "l1d_cache_loads", json!(["ls_dispatch.ld_dispatch", "ls_dispatch.ld_st_dispatch"])),
        ("neoverse-n1", "memory_instructions", json!(["LD_SPEC", "ST_SPEC"])),
    ] {
        let found = valid(&list, &["list", "--cpu", cpu, name, "--json"]);
        // The pattern also finds events whose description names this one.
        let named: Vec<_> = found.iter().filter(|event| event["name"] == name).collect();
        assert_eq!(named.len(), 1, "{cpu}: {found:?}");
        assert_eq!(named[0]["summands"], summands);
        let text = stdout(&run(&["list", "--cpu", cpu, name]));
        let sum: Vec<&str> = summands.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        assert!(text.contains(&sum.join(" + ")), "{text}");
    }
    let names = |words: &[&str]| -> Vec<String> {
        let found = valid(&list, words);
        found
            .iter()
            .filter(|event| event["kind"] == "portable")
            .map(|event| format!("{} {}", event["cpu"], event["name"]).replace('"', ""))
            .collect()
    };
    let hybrid = names(&["list", "--cpu", "alderlake", "--json", "L1D_CACHE_MISSES"]);
    for cpu in ["alderlake/atom", "alderlake/core"] {
        assert!(hybrid.contains(&format!("{cpu} l1d_cache_misses")), "{hybrid:?}");
    }
    assert!(hybrid.iter().all(|event| event.starts_with("alderlake/")), "{hybrid:?}");
    assert!(names(&["list", "--cpu", "skylake", "--fixed", "--json"]).is_empty());
    let missing = valid(&list, &["list", "--cpu", "cortex-a53", "fp_operations", "--json"]);
    assert!(missing.iter().all(|event| event["summands"] != json!([]) || event["reason"].is_string()));
}

#[test]
fn the_encodings_of_a_sum_say_that_their_counts_are_added() {
    let encode = schema("encode-1.json");
    let sum =
        "l1d_cache_loads is the sum ls_dispatch.ld_dispatch + ls_dispatch.ld_st_dispatch: add their counts";
    let found = valid(&encode, &["encode", "--cpu", "amdzen4", "l1d_cache_loads:u", "--json"]);
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|event| event["notes"][0] == sum), "{found:?}");
    let text = stdout(&run(&["encode", "--cpu", "amdzen4", "l1d_cache_loads"]));
    assert!(text.contains("add their counts"), "{text}");
    let one = valid(&encode, &["encode", "--cpu", "amdzen4", "ex_ret_instr", "--json"]);
    assert_eq!(one[0]["notes"], json!([]));
}

#[test]
fn plans_of_every_cpu_obey_their_schema() {
    let schema = schema("plan-1.json");
    for cpu in cpus() {
        let first = &valid(&schema_of_list(), &["list", "--cpu", &cpu, "--json"])[0]["name"];
        let planned = valid_one(&schema, &["plan", "--cpu", &cpu, "-e", first.as_str().unwrap(), "--json"]);
        let on = &planned;
        let placed = on["passes"].as_array().unwrap().len();
        assert_eq!(placed + on["unplaced"].as_array().unwrap().len(), 1, "{cpu}: {on}");
    }
}

fn schema_of_list() -> jsonschema::Validator {
    schema("list-1.json")
}

#[test]
fn decoded_values_obey_their_schema() {
    let schema = schema("decode-1.json");
    for words in [
        &["decode", "--json", "--cpu", "skylake", "0x4101C2=L3 cache miss", "rdpmc=0x400001"][..],
        &[
            "decode",
            "--json",
            "--cpu",
            "skylake",
            "0x412e",
            "FIXED_CTR_CTRL=0xfff",
            "GLOBAL_STATUS=0xffffffffffffffff",
        ],
        &["decode", "--json", "--cpu", "alderlake", "0xffffffffffffffff", "config1=0xffffffffffffffff"],
        &["decode", "--json", "--cpu", "amdzen4", "PERF_CTL0=0xffffffffffffffff"],
        &["decode", "--json", "--cpu", "neoverse-n1", "PMCR_EL0=0xffffffffffffffff", "0x8"],
        &["decode", "--json", "--cpu", "sifive-bullet", "mhpmevent3=0x200", "0x8000000000000001"],
        &["decode", "--json", "--cpu", "apple-m1", "PMCR0=0xffffffffffffffff", "PMESR0=0xbf000000"],
    ] {
        assert!(!valid(&schema, words).is_empty());
    }
}

#[test]
fn registers_of_every_cpu_obey_their_schema() {
    let schema = schema("registers-1.json");
    for cpu in cpus() {
        let found = valid(&schema, &["registers", "--json", "--cpu", &cpu]);
        assert!(found.iter().any(|register| register["access"] != "none"), "{cpu}");
        assert!(found.iter().any(|register| !register["address"].is_null()), "{cpu}");
    }
    let one = &valid(&schema, &["regs", "--json", "--cpu", "skylake", "0x1d9"])[0];
    assert_eq!((&one["name"], &one["writable"]), (&json!("IA32_DEBUGCTL"), &json!("0x1000")));
    let freezes = one["fields"].as_array().unwrap().iter().find(|field| field["low"] == 12).unwrap();
    assert_eq!(freezes["name"], "FREEZE_PERFMON_ON_PMI");
}

#[test]
fn what_decode_says_of_a_bit_is_what_the_table_says() {
    let (table, decoded) = (schema("registers-1.json"), schema("decode-1.json"));
    let all = "0xffffffffffffffff";
    for (cpu, register) in [("skylake", "FIXED_CTR_CTRL"), ("amdzen4", "PERF_CTL0"), ("apple-m1", "PMCR0")] {
        let of_table = &valid(&table, &["registers", "--json", "--cpu", cpu, register])[0];
        let of_value = &valid(&decoded, &["decode", "--json", "--cpu", cpu, &format!("{register}={all}")])[0];
        for field in of_table["fields"].as_array().unwrap() {
            let same = |shown: &&Value| shown["name"] == field["name"];
            let shown = of_value["fields"].as_array().unwrap().iter().find(same).unwrap();
            assert_eq!((&shown["high"], &shown["low"]), (&field["high"], &field["low"]));
            let (meaning, in_table) =
                (shown["meaning"].as_str().unwrap(), field["meaning"].as_str().unwrap());
            let one_of_several = field["values"].as_array().is_some_and(|values| !values.is_empty());
            assert!(one_of_several || meaning.starts_with(in_table), "{meaning}");
        }
    }
}

#[test]
fn lists_of_every_kind_obey_one_schema() {
    let schema = schema("list-1.json");
    for words in [
        &["list", "--json"][..],
        &["list", "--json", "--everywhere", "L1D*"],
        &["list", "--json", "--metrics"],
        &["list", "--json", "--metrics", "--cpu", "skylake"],
        &["list", "--json", "--cpu", "alderlake", "mem"],
    ] {
        assert!(!valid(&schema, words).is_empty(), "{words:?}");
    }
}

#[test]
fn every_value_that_was_given_is_decoded_in_its_place() {
    let schema = schema("decode-1.json");
    let words = [
        "decode",
        "--json",
        "--cpu",
        "skylake",
        "0x412e",
        "0xc5",
        "PERFEVTSEL1=0x4300c0",
        "config=0x1b7",
        "config1=1",
    ];
    let found = valid(&schema, &words);
    let values: Vec<(&str, &str)> =
        found.iter().map(|one| (one["register"].as_str().unwrap(), one["value"].as_str().unwrap())).collect();
    let expected =
        [("config", "0x412e"), ("config", "0xc5"), ("IA32_PERFEVTSEL1", "0x4300c0"), ("config", "0x1b7")];
    assert_eq!(values, expected);
    assert_eq!(found[1]["events"][0]["names"], json!(["BR_MISP_RETIRED.ALL_BRANCHES"]));
}

#[test]
fn a_label_that_is_wrong_is_told_with_what_was_meant() {
    let found =
        valid(&schema("decode-1.json"), &["decode", "--json", "--cpu", "skylake", "0x4101C2=L3 cache miss"]);
    let mismatch = &found[0]["mismatch"];
    assert_eq!((&mismatch["label"], &mismatch["is"]), (&json!("L3 cache miss"), &json!([])));
    assert!(mismatch["meant"].as_array().unwrap().contains(&json!("LONGEST_LAT_CACHE.MISS")), "{mismatch}");
    let right =
        valid(&schema("decode-1.json"), &["decode", "--json", "--cpu", "skylake", "0x412e=llc_misses"]);
    assert_eq!(right[0]["mismatch"], Value::Null);
}

#[test]
fn generic_events_of_riscv_are_asked_of_the_kernel() {
    let found = valid(
        &schema("encode-1.json"),
        &["encode", "--json", "--cpu", "thead-c900-legacy", "instructions", "L1-dcache-load-misses"],
    );
    // As raw codes the numbers of the SBI would be other events of this core.
    let words: Vec<(&Value, &Value)> = found.iter().map(|one| (&one["type"], &one["config"])).collect();
    assert_eq!(words, [(&json!(0), &json!("0x1")), (&json!(3), &json!("0x10000"))]);
    assert!(found.iter().all(|one| one["registers"] == json!([]) && one["reason"].is_string()), "{found:?}");
}

#[test]
fn what_a_core_type_of_a_hybrid_lacks_is_unplaced_there() {
    let words = ["plan", "--json", "--cpu", "alderlake", "-e", "cycles,MEM_LOAD_RETIRED.L1_MISS"];
    let planned = valid_one(&schema("plan-1.json"), &words);
    let of = |n: usize| &planned["core_types"][n]["unplaced"];
    assert_eq!(of(0)[0]["event"], "MEM_LOAD_RETIRED.L1_MISS");
    assert_eq!(of(1), &json!([]));
}

#[test]
fn plans_of_all_events_of_every_cpu_obey_their_schema_and_prove_their_bound() {
    let schema = schema("plan-1.json");
    for cpu in cpus() {
        let plan = valid_one(&schema, &["plan", "--cpu", &cpu, "-e", "all", "--json"]);
        let length = |of: &Value| of.as_array().unwrap().len();
        let certificate = &plan["certificate"];
        let places = length(&certificate["counters"]) + length(&certificate["registers"]);
        match certificate["kind"].as_str().unwrap() {
            "none" => assert!(length(&plan["passes"]) <= 1, "{cpu}"),
            _ => assert_eq!(
                json!(length(&certificate["events"]).div_ceil(places)),
                plan["lower_bound"],
                "{cpu}"
            ),
        }
        assert_eq!(plan["optimal"], json!(json!(length(&plan["passes"])) == plan["lower_bound"]), "{cpu}");
        assert_eq!(plan["optimal"], json!(true), "{cpu}: {certificate}");
    }
}

#[test]
fn what_cannot_be_counted_is_told_by_the_exit_code() {
    for (cpu, events, code) in [
        ("apple-m1", "INST_LDST,INST_ALL", 0),
        ("apple-m1", "{INST_LDST,INST_ALL}", 125),
        ("apple-m1", "{INST_LDST,INST_LDST}", 0),
        ("apple-m1", "INST_LDST@6", 125),
        ("apple-m1", "{INST_LDST@5,INST_BRANCH}", 125),
        ("alderlake", "cycles,MEM_LOAD_RETIRED.L1_MISS", 0),
    ] {
        let out = run(&["plan", "--cpu", cpu, "-e", events, "--json"]);
        assert_eq!((out.status.code(), stderr(&out).as_str()), (Some(code), ""), "{events}");
    }
    for all in ["all@3", "all:u", "{all,cycles}"] {
        let out = run(&["plan", "--cpu", "apple-m1", "-e", all]);
        assert!(stderr(&out).contains("no event named 'all'"), "{all}: {}", stderr(&out));
    }
}

#[test]
fn groups_that_do_not_fit_and_conflicts_are_told() {
    let words = [
        "plan",
        "--json",
        "--cpu",
        "apple-m1",
        "-e",
        "{INST_LDST,INST_ALL},RETIRE_UOP",
        "--without",
        "2-4,fixed1",
    ];
    let plan = valid_one(&schema("plan-1.json"), &words);
    assert_eq!(plan["unplaced"][0]["group"], json!(["INST_LDST", "INST_ALL"]));
    assert_eq!(plan["conflicts"], json!(["INST_LDST, INST_ALL and RETIRE_UOP can each only use counter 7"]));
    assert_eq!(
        (&plan["lower_bound"], &plan["held"]),
        (&json!(3), &json!(["fixed 1", "PMC2", "PMC3", "PMC4"]))
    );
}

#[test]
fn documents_have_the_right_number_of_cpus_and_events() {
    let all = valid(&schema("list-1.json"), &["list", "--cpus", "--json"]);
    let events: u64 = all.iter().filter_map(|cpu| cpu["events"].as_u64()).sum();
    let figure =
        format!("{},{:03} events of {} CPUs and core types", events / 1000, events % 1000, all.len());
    for name in ["README.md", "CHANGELOG.md"] {
        let text = std::fs::read_to_string(format!("{}/../../{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        assert!(text.contains(&figure), "{name} does not say '{figure}'");
    }
}

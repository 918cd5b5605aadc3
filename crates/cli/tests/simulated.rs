//! Simulated machines from the outside: `stat`, `plan`, `list`, `doctor`, `cpus` with `--machine sim:ID`.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::support;

use serde_json::Value;
use support::{run, schema, stderr, stdout};

const CHIPS: [&str; 10] = [
    "apple-m1",
    "apple-m2",
    "apple-m3",
    "apple-m4",
    "skylake",
    "icelake",
    "sapphirerapids",
    "amdzen2",
    "amdzen4",
    "neoverse-n1",
];

fn stat(chip: &str, words: &[&str]) -> std::process::Output {
    run(&[&["stat", "--machine", &format!("sim:{chip}")], words].concat())
}

fn json(chip: &str, words: &[&str]) -> Value {
    let out = stat(chip, &[words, &["--json"]].concat());
    assert!(out.status.success(), "{}", stderr(&out));
    serde_json::from_slice(&out.stdout).unwrap()
}

fn metric<'a>(report: &'a Value, name: &str) -> &'a Value {
    let metrics = report["commands"][0]["metrics"].as_array().unwrap();
    metrics.iter().find(|metric| metric["name"] == name).unwrap_or_else(|| panic!("no {name}: {metrics:?}"))
}

#[test]
fn every_chip_counts_its_workload_and_says_that_it_is_simulated() {
    let schema = schema("stat-1.json");
    for chip in CHIPS {
        let report = json(chip, &["--workload", "loop:50"]);
        let errors: Vec<String> = schema.iter_errors(&report).map(|error| error.to_string()).collect();
        assert_eq!(errors, [""; 0], "{chip}");
        assert_eq!(report["commands"][0]["runs"][0]["launch"], "simulated");
        let (cycles, instructions) = (metric(&report, "cycles:u"), metric(&report, "instructions:u"));
        for counted in [cycles, instructions] {
            assert_eq!(counted["provenance"], "simulated", "{chip}");
            assert_eq!(counted["count"], "exact", "{chip}");
        }
        // The loop has three instructions in each cycle.
        assert_eq!(cycles["mean"].as_u64().unwrap() * 3, instructions["mean"].as_u64().unwrap(), "{chip}");
    }
}

#[test]
fn events_count_as_a_file_of_semantics_says_whatever_their_names_say() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hidden.sem");
    let path = file.to_str().unwrap();
    let hidden =
        "cyclometer-semantics 1\n0x52 counters=0x3fc counts 1/2 loads\n0x8c counters=0x80 counts branches\n";
    std::fs::write(&file, hidden).unwrap();
    let report =
        json("apple-m1", &["--semantics", path, "--workload", "loop:50", "-e", "cycles,r52,INST_ALL,r95"]);
    let counted = |name| metric(&report, name)["mean"].as_u64().unwrap();
    // A cycle of the loop has three quarters of a load and three eighths of a branch.
    let cycles = counted("cycles:u");
    assert_eq!(
        [counted("r52:u"), counted("INST_ALL:u"), counted("r95:u")],
        [cycles * 3 / 8, cycles * 3 / 8, 0]
    );

    std::fs::write(&file, "cyclometer-semantics 1\n\n0x52 counters=0x3fc counts lods\n").unwrap();
    let out = stat("apple-m1", &["--semantics", path, "-e", "r52"]);
    assert!(!out.status.success());
    assert!(stderr(&out).contains("line 3: 'lods' is no concept"), "{}", stderr(&out));
    assert!(stderr(&out).contains("help: docs/reference/semantics-format.md"), "{}", stderr(&out));
    let out = stat("apple-m1", &["--semantics", "no-such-file", "-e", "r52"]);
    assert!(stderr(&out).contains("--semantics: cannot read no-such-file"), "{}", stderr(&out));
}

/// On this chip `memory_instructions` is `LD_SPEC` + `ST_SPEC`.
const SUM: &str = "memory_instructions:u";

#[test]
fn a_portable_event_that_is_a_sum_is_the_sum_of_its_summands() {
    let schema = schema("stat-1.json");
    for events in ["LD_SPEC,ST_SPEC,memory_instructions", "{memory_instructions,ST_SPEC,LD_SPEC}"] {
        let report = json("neoverse-n1", &["--workload", "phases", "-e", events]);
        let errors: Vec<String> = schema.iter_errors(&report).map(|error| error.to_string()).collect();
        assert_eq!(errors, [""; 0]);
        let value = |name: &str| metric(&report, name)["mean"].as_u64().unwrap();
        assert_eq!(value(SUM), value("LD_SPEC:u") + value("ST_SPEC:u"));
        let sum = metric(&report, SUM);
        assert_eq!((sum["count"].as_str(), sum["provenance"].as_str()), (Some("exact"), Some("simulated")));
        let parts = sum["parts"].as_array().unwrap();
        let parts: Vec<_> = parts
            .iter()
            .map(|part| (part["event"].as_str().unwrap(), part["mean"].as_u64().unwrap()))
            .collect();
        assert_eq!(parts, [("LD_SPEC", value("LD_SPEC:u")), ("ST_SPEC", value("ST_SPEC:u"))]);
    }
}

#[test]
fn a_sum_that_takes_turns_is_scaled_as_a_whole() {
    let others = "BR_RETIRED,BR_MIS_PRED,L1D_CACHE,L1D_CACHE_REFILL,INST_RETIRED";
    let words = ["--workload", "loop", "--multiplex", "-e", &format!("memory_instructions,{others}")];
    let report = json("neoverse-n1", &words);
    let sum = metric(&report, SUM);
    assert_eq!(sum["count"], "scaled", "{sum}");
    let alone = json("neoverse-n1", &["--workload", "loop", "-e", "memory_instructions"]);
    let (estimate, truth) = (sum["mean"].as_f64().unwrap(), metric(&alone, SUM)["mean"].as_f64().unwrap());
    assert!((estimate / truth - 1.0).abs() < 0.05, "{estimate} is not {truth}");
    for part in sum["parts"].as_array().unwrap() {
        assert_eq!(part["count"], "partial", "{part}");
    }
}

#[test]
fn the_summands_of_a_sum_are_shown_where_more_is_asked_for() {
    let table =
        |words: &[&str]| stdout(&stat("neoverse-n1", &[&["-e", "memory_instructions"], words].concat()));
    let (short, long) = (table(&[]), table(&["-v"]));
    assert!(!short.contains("LD_SPEC"), "{short}");
    for summand in ["    LD_SPEC ", "    ST_SPEC ", "(LD_SPEC + ST_SPEC)"] {
        assert!(long.contains(summand), "{long}");
    }
}

#[test]
fn the_same_seed_gives_the_same_numbers_and_another_gives_others() {
    let values = |seed: &str| {
        let report = json("amdzen4", &["--workload", "noisy", "--seed", seed]);
        metric(&report, "instructions:u")["mean"].as_u64().unwrap()
    };
    assert_eq!(values("1"), values("1"));
    assert_ne!(values("1"), values("2"));
}

#[test]
fn a_table_marks_every_value_and_goes_to_standard_output() {
    let out = stat("apple-m1", &["-e", "cycles,L1D_CACHE_MISS_LD,INST_ALL:k"]);
    let text = stdout(&out);
    assert_eq!(stderr(&out), "");
    assert!(text.starts_with("workload loop on a simulated apple-m1 · 1 run\n"), "{text}");
    let rows = text.lines().filter(|line| line.contains(":u ") || line.contains(":k "));
    assert!(rows.clone().count() == 3 && rows.clone().all(|row| row.ends_with(" sim")), "{text}");
    assert!(text.contains("sim simulated: no program's behaviour"), "{text}");
}

#[test]
fn strict_does_not_take_a_simulation_for_a_count() {
    assert_eq!(stat("skylake", &["--strict"]).status.code(), Some(124));
}

#[test]
fn more_events_than_counters_take_turns_or_are_spread_over_runs() {
    let events = "branches,branch-misses,MEM_INST_RETIRED.ALL_LOADS,MEM_INST_RETIRED.ALL_STORES,\
                  LONGEST_LAT_CACHE.MISS,LONGEST_LAT_CACHE.REFERENCE,MEM_LOAD_RETIRED.L1_MISS,\
                  UOPS_RETIRED.RETIRE_SLOTS";
    let whole = json("skylake", &["-e", "branches", "--workload", "phases:1000"]);
    let whole = metric(&whole, "branches:u")["mean"].as_f64().unwrap();
    let shared = json("skylake", &["-e", events, "--workload", "phases:1000"]);
    let estimated = metric(&shared, "branches:u");
    assert_eq!(estimated["count"], "scaled");
    assert!((estimated["mean"].as_f64().unwrap() / whole - 1.0).abs() < 0.01, "{estimated}");
    let spread = json("skylake", &["-e", events, "--workload", "phases:1000", "-r", "2"]);
    let exact = metric(&spread, "branches:u");
    assert_eq!((&exact["count"], exact["mean"].as_f64()), (&Value::from("exact"), Some(whole)));
}

#[test]
fn a_pin_is_obeyed_and_one_that_cannot_be_is_told() {
    let events = "MEM_INST_RETIRED.ALL_LOADS@3,branches@0,branches@1";
    let report = json("skylake", &["-e", events]);
    let metrics = report["commands"][0]["metrics"].as_array().unwrap();
    assert!(metrics.iter().take(3).all(|metric| metric["count"] == "exact"), "{metrics:?}");
    let text = stdout(&stat("skylake", &["-e", "branches@7"]));
    assert!(text.contains("BR_INST_RETIRED.ALL_BRANCHES cannot use counter 7 of skylake"), "{text}");
}

#[test]
fn intervals_are_those_of_the_simulated_clock() {
    let out = stat("amdzen2", &["-e", "cycles", "-I", "20", "--workload", "phases:100", "-q"]);
    assert_eq!(stdout(&out), "");
    let out = stat("amdzen2", &["-e", "cycles", "-I", "20", "--workload", "phases:100"]);
    let rows = stderr(&out);
    let rows: Vec<Vec<&str>> = rows.lines().skip(1).map(|row| row.split_whitespace().collect()).collect();
    assert_eq!(rows.len(), 6, "{rows:?}");
    // 3,400 cycles a microsecond, without five ticks of the kernel's timer of 5 µs each.
    assert_eq!(rows[1][..2], ["0.040000", "67,915,000"]);
}

#[test]
fn what_happens_to_the_driver_makes_lost_counts_or_a_refusal_and_never_a_number() {
    let lost = json("apple-m1", &["-e", "cycles,branches", "--trouble", "rewrite"]);
    for name in ["cycles:u", "branches:u"] {
        let metric = metric(&lost, name);
        assert_eq!((&metric["count"], &metric["mean"]), (&Value::from("lost"), &Value::Null));
        assert!(metric["reason"].as_str().unwrap().contains("wrote PMCR0 of CPU 0"), "{metric}");
    }
    let stolen = json("skylake", &["-e", "branches@0", "--trouble", "steal"]);
    assert_eq!(metric(&stolen, "branches:u")["count"], "lost");
    for chip in CHIPS {
        let out = stat(chip, &["--trouble", "ignore-writes"]);
        assert_eq!(out.status.code(), Some(125), "{chip}");
        assert!(stderr(&out).contains("does not let us have the PMU"), "{}", stderr(&out));
        let out = stat(chip, &["-e", "cycles", "--trouble", "watchdog"]);
        assert_eq!(out.status.code(), Some(125), "{chip}: {}", stdout(&out));
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_a_remedy() {
    for (words, message, help) in [
        (&["stat", "--machine", "sim:z80"][..], "no chip 'z80' is simulated", "apple-m1"),
        (&["stat", "--machine", "vax"], "'vax' is no machine to count on", "sim:apple-m1"),
        (&["stat", "--machine", "sim:skylake", "--workload", "zork"], "'zork' is no workload", "phases"),
        (&["stat", "--machine", "sim:skylake", "--workload", "loop:x"], "'x' is no time", "loop:250"),
        (&["stat", "--machine", "sim:skylake", "true"], "executes no command", "--workload"),
        (&["stat", "--machine", "sim:skylake", "-p", "1"], "has no processes", "-p"),
        (&["plan", "--machine", "sim:z80", "-e", "cycles"], "no chip 'z80'", "skylake"),
        (&["doctor", "--machine", "sim:z80"], "no chip 'z80'", "skylake"),
    ] {
        let out = run(words);
        assert_eq!(out.status.code(), Some(125), "{words:?}");
        assert!(stderr(&out).contains(message) && stderr(&out).contains(help), "{words:?}: {}", stderr(&out));
    }
}

#[test]
fn the_other_commands_know_the_machine() {
    let doctor = run(&["doctor", "--machine", "sim:sapphirerapids", "--json"]);
    let value: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    assert!(schema("doctor-1.json").is_valid(&value), "{value}");
    let list = stdout(&run(&["list", "--machine", "sim:apple-m1", "L1D_CACHE_MISS_LD"]));
    assert!(list.contains("wrong path included; counters 2-9\n  L1D_CACHE_MISS_LD_NONSPEC"), "{list}");
    let list = stdout(&run(&["list", "--machine", "sim:apple-m1", "MAP_REWIND"]));
    assert!(list.contains("not among the events that this apple-m1 counts"), "{list}");
    let plan = run(&["plan", "--machine", "sim:apple-m1", "-e", "branches,branch-misses"]);
    let same = run(&["plan", "--cpu", "apple-m1", "-e", "branches,branch-misses"]);
    assert_eq!(stdout(&plan), stdout(&same));
    let cpus = stdout(&run(&["cpus", "--machine", "sim:neoverse-n1"]));
    assert!(cpus.contains("simulated neoverse-n1"), "{cpus}");
}

#[test]
fn intervals_have_metrics_and_add_up_to_the_whole() {
    let arguments = ["stat", "--machine", "sim:apple-m1", "--workload", "phases:60", "-I", "20", "-M", "ipc"];
    let out = run(&[&arguments[..], &["-e", "cycles,instructions", "--json"]].concat());
    assert!(out.status.success(), "{out:?}");
    let rows = stderr(&out);
    assert!(rows.lines().any(|row| row.ends_with(" ipc:u")), "{rows}");
    let report: Value = serde_json::from_str(&stdout(&out)).unwrap();
    let errors: Vec<String> = schema("stat-1.json").iter_errors(&report).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    let command = &report["commands"][0];
    let intervals = command["intervals"].as_array().unwrap();
    assert!(intervals.len() >= 3, "{intervals:?}");
    let named = |values: &Value, name: &str| {
        let found = values.as_array().unwrap().iter().find(|value| value["name"] == name).cloned();
        found.and_then(|value| value["value"].as_f64()).unwrap_or_else(|| panic!("{name}: {values}"))
    };
    let sum = |name: &str| intervals.iter().map(|interval| named(&interval["events"], name)).sum::<f64>();
    for name in ["cycles:u", "instructions:u"] {
        let whole = command["metrics"].as_array().unwrap().iter().find(|metric| metric["name"] == name);
        assert_eq!(whole.and_then(|metric| metric["mean"].as_f64()), Some(sum(name)), "{name}");
    }
    for interval in intervals {
        let [cycles, instructions] =
            ["cycles:u", "instructions:u"].map(|name| named(&interval["events"], name));
        let ipc = named(&interval["metrics"], "ipc:u");
        assert!((ipc - instructions / cycles).abs() < 1e-9, "{interval}");
    }
    let quiet = run(&[&arguments[..], &["-q", "--export-json", "/dev/null"]].concat());
    assert!(quiet.status.success() && quiet.stderr.is_empty(), "{quiet:?}");
}

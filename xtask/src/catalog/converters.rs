//! Tests of the converters of Arm and Apple on small collections written here.

use std::fs;
use std::path::Path;

use cyclometer_catalog::table::{CpuTable, TableEvent};
use tempfile::TempDir;

use super::{apple, arm};

/// Writes a file below a collection.
fn put(root: &TempDir, path: &str, text: &str) {
    let path = root.path().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn data(cpu: &str, cpuid: &str, events: &str) -> String {
    format!(
        r#"{{"_type": "Events", "timestamp": "Fri Jan 17 16:05:21 2025", "cpu": "{cpu}", "cpuid": "{cpuid}",
            "architecture": "armv8.2-a", "pmu_architecture": "pmuv3", "counters": 6, "events": [{events}]}}"#
    )
}

fn telemetry(minor: u32, events: &str) -> String {
    format!(
        r#"{{"document": {{"timestamp": "08 Aug 10:54:04 2025"}}, "product_configuration": {{"product_name": "Neoverse N9",
            "part_num": "0xfff", "minor_revision": "{minor}", "implementer": "0x41", "architecture": "armv8.2",
            "pmu_architecture": "pmu_v3"}}, "events": {{{events}}}}}"#
    )
}

/// A collection with one core of Arm's in every source.
fn arm_collection() -> TempDir {
    let root = TempDir::new().unwrap();
    let cycles = r#"{"code": 17, "name": "CPU_CYCLES"}"#;
    for version in ["common_armv7", "common_armv8", "common_armv9"] {
        put(&root, &format!("events/arm/arm-data/pmu/{version}.json"), &data(version, "0x0", cycles));
    }
    let events = format!(r#"{cycles}, {{"code": 12, "name": "PC_WRITE_RETIRED"}}, {{"code": 200}}"#);
    put(&root, "events/arm/arm-data/pmu/neoverse-n9.json", &data("Neoverse N9", "0x41fff", &events));
    put(&root, "events/arm/arm-data/pmu/nameless.json", &data("Nameless", "0x41ffe", r#"{"code": 200}"#));
    put(&root, "events/arm/telemetry/neoverse/n9.json", &telemetry(2, r#""NEW": {"code": "0x1F0"}"#));
    put(&root, "events/arm/telemetry/neoverse/n9-r0p3.json", &telemetry(3, r#""NEW": {"code": "0x1F0"}"#));
    put(&root, "events/arm/telemetry/lumex/none.txt", "");
    for file in ["common-and-microarch", "recommended", "sbsa"] {
        let list = r#"[{"EventName": "L1D_CACHE", "EventCode": "0x04"}]"#;
        put(&root, &format!("events/arm/linux/{file}.json"), list);
    }
    put(&root, "events/arm/linux/arm/n9/a.json", r#"[{"ArchStdEvent": "L1D_CACHE", "Errata": "EX1"}]"#);
    let mut map = "# comment\n0x00000000410ffff0,v1,arm/n9,core\n".to_owned();
    for (i, core) in OTHERS.iter().enumerate() {
        put(&root, &format!("events/arm/linux/{core}/a.json"), "[]");
        map += &format!("0x00000000c00f{i:03x}0,v1,{core},core\n");
    }
    put(&root, "events/arm/linux/mapfile.csv", &map);
    put(
        &root,
        "events/perf-generic/arm64_hw_events.csv",
        "perf_event,event_code,event_name\ncpu-cycles,0x11,C\nbranch-instructions,0x21 or 0x0c,B\nref-cycles,,\n",
    );
    root
}

const OTHERS: [&str; 8] = [
    "ampere/ampereone",
    "ampere/ampereonex",
    "ampere/emag",
    "cavium/thunderx2",
    "fujitsu/a64fx",
    "fujitsu/monaka",
    "hisilicon/hip08",
    "nvidia/t410",
];

fn named<'a>(tables: &'a [CpuTable], cpu: &str) -> &'a CpuTable {
    tables.iter().find(|table| table.header.cpu == cpu).unwrap_or_else(|| panic!("no {cpu}"))
}

fn event<'a>(table: &'a CpuTable, name: &str) -> &'a TableEvent {
    table.events.iter().find(|event| event.name == name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn a_core_of_arms_has_the_events_of_every_source() {
    let tables = arm::tables(arm_collection().path()).unwrap();
    let core = named(&tables, "neoverse-n9");
    let codes: Vec<u16> = core.events.iter().map(|event| event.code.select).collect();
    assert_eq!(codes, [0x04, 0x0c, 0x11, 0x1f0]);
    assert_eq!(event(core, "L1D_CACHE").errata, ["EX1"]);
    assert_eq!(core.header.matches, ["arm-0x41-0xfff"]);
    assert_eq!((core.header.date.as_str(), core.header.sources.len()), ("2025-08-08", 3));
    let generic: Vec<_> = core.generic.iter().map(|g| (g.name.as_str(), g.config)).collect();
    assert_eq!(generic, [("cpu-cycles", 0x11), ("branch-instructions", 0x0c)]);
}

#[test]
fn a_core_without_any_named_event_has_no_table_and_others_have_what_every_pmu_counts() {
    let tables = arm::tables(arm_collection().path()).unwrap();
    assert!(tables.iter().all(|table| table.header.cpu != "nameless"));
    let other = named(&tables, "hip08");
    assert_eq!((other.events.len(), event(other, "INST_RETIRED").code.select), (7, 8));
    assert_eq!(other.header.matches, ["arm-0xc0-0x6"]);
}

fn arm_refused(root: &TempDir, expected: &str) {
    let error = format!("{:#}", arm::tables(root.path()).unwrap_err());
    assert!(error.contains(expected), "{error}");
}

#[test]
fn sources_of_arm_that_contradict_each_other_are_refused() {
    let root = arm_collection();
    put(&root, "events/arm/telemetry/neoverse/n9.json", &telemetry(2, r#""CPU_CYCLES": {"code": "0x12"}"#));
    put(
        &root,
        "events/arm/telemetry/neoverse/n9-r0p3.json",
        &telemetry(3, r#""CPU_CYCLES": {"code": "0x12"}"#),
    );
    arm_refused(&root, "neoverse-n9: CPU_CYCLES: is 0x11 and 0x12");
    let root = arm_collection();
    put(&root, "events/arm/telemetry/neoverse/n9-r0p3.json", &telemetry(3, r#""NEW": {"code": "0x1F1"}"#));
    arm_refused(&root, "neoverse-n9: two revisions with different events");
    let root = arm_collection();
    put(&root, "events/arm/linux/arm/n9/a.json", r#"[{"ArchStdEvent": "NOPE"}]"#);
    arm_refused(&root, "NOPE, ArchStdEvent: the architecture has no event of that name");
    let root = arm_collection();
    put(&root, "events/arm/linux/ampere/emag/a.json", r#"[{"EventName": "A", "EventCode": "0x412"}]"#);
    arm_refused(&root, "emag: more than 10 bits");
}

/// A collection with every chip and three events.
fn apple_collection() -> TempDir {
    let root = TempDir::new().unwrap();
    let mut events = "chip,name,number_hex,counters_mask,fixed_counter,alias\n".to_owned();
    for chip in ["m1", "m2", "m3", "m4", "m5"] {
        events += &format!("{chip},FIXED_CYCLES,,0x1,0,Cycles\n{chip},INST_ALL,0x8c,0x80,,\n");
        events += &format!("{chip},CORE_ACTIVE_CYCLE,0x2,0x3fc,,\n{chip},INST_BRANCH,0x8d,0xe0,,\n");
        events += &format!("{chip},BRANCH_MISPRED_NONSPEC,0xcb,0xe0,,\n");
        events += &format!("{chip},ST_MEM_ORDER_VIOL_LD_NONSPEC,0xc4,0xe0,,\n");
    }
    put(&root, "apple/kpep_events_m1_m5.csv", &events);
    put(
        &root,
        "apple/kpep_event_numbers_2024-10.csv",
        "kpep_db,name,number_hex\na14,DROPPED,0x94\na14,INST_ALL,0x8c\na14,ST_MEMORY_ORDER_VIOLATION_NONSPEC,0xc4\n",
    );
    put(&root, "apple/kpep_event_numbers_newer.csv", "kpep_db,name,number_hex\nas5,NEW,0x91e\n");
    put(&root, "apple/linux_m1_event_affinity.csv", "event,affinity_mask\nDROPPED,0xe3\n");
    let mut chips = "chip,hw_cpufamily,pmc_bits,overflow_bit,event_bits,midr_part_p,midr_part_e\n".to_owned();
    for (i, chip) in CHIPS.iter().enumerate() {
        chips += &format!("{chip},{i:#x},64 (says a driver),63,16,0x{i}1,0x{i}0\n");
    }
    put(&root, "apple/chips.csv", &chips);
    root
}

const CHIPS: [&str; 22] = [
    "A14",
    "M1",
    "M1 Pro",
    "M1 Max/Ultra",
    "A15",
    "M2",
    "M2 Pro",
    "M2 Max/Ultra",
    "A16",
    "M3",
    "A17 Pro",
    "M3 Pro",
    "M3 Max",
    "M4",
    "M4 Pro",
    "M4 Max",
    "A18",
    "A18 Pro",
    "M5",
    "M5 Pro/Max",
    "A19",
    "A19 Pro",
];

#[test]
fn a_chip_has_todays_events_and_older_and_newer_ones() {
    let tables = apple::tables(apple_collection().path()).unwrap();
    let m1 = named(&tables, "apple-m1");
    assert_eq!(
        (event(m1, "DROPPED").deprecated, event(m1, "DROPPED").counters.unwrap().general_bits()),
        (true, 0xe0)
    );
    assert_eq!(event(m1, "ST_MEM_ORDER_VIOL_LD_NONSPEC").aliases, ["ST_MEMORY_ORDER_VIOLATION_NONSPEC"]);
    assert_eq!(event(m1, "FIXED_CYCLES").counters.unwrap().fixed_bits(), 1);
    assert_eq!(m1.events.len(), 7);
    assert_eq!((m1.generic.len(), named(&tables, "apple-m3").generic.len()), (4, 0));
    let m5 = named(&tables, "apple-m5");
    assert!(event(m5, "NEW").counters.is_none() && !event(m5, "NEW").deprecated);
    assert_eq!(m1.header.matches[..2], ["apple-0x0", "apple-0x1"]);
    assert_eq!(m5.header.counter_width.unwrap().bits, 64);
}

#[test]
fn databases_of_apple_that_contradict_each_other_are_refused() {
    let refused = |path: &str, from: &str, to: &str, expected: &str| {
        let root = apple_collection();
        let path = Path::new("apple").join(path).display().to_string();
        let text = fs::read_to_string(root.path().join(&path)).unwrap();
        assert!(text.contains(from), "{from}");
        put(&root, &path, &text.replacen(from, to, 1));
        let error = format!("{:#}", apple::tables(root.path()).unwrap_err());
        assert!(error.contains(expected), "{error}");
    };
    refused("kpep_event_numbers_2024-10.csv", "0x8c", "0x8d", "INST_ALL is 0x8c and 0x8d");
    refused("kpep_events_m1_m5.csv", "m1,INST_ALL,", "m1,FIXED_CYCLES,", "FIXED_CYCLES twice");
    refused("kpep_events_m1_m5.csv", "0x1,0,", "0x2,0,", "FIXED_CYCLES: counter 0x1, mask 0x2");
    refused("kpep_events_m1_m5.csv", "0x80,,", "0x480,,", "0x480 are not all counters");
    refused("chips.csv", "A14,", "A99,", "3 of [\"A14\"");
    refused("kpep_events_m1_m5.csv", "number_hex", "number", "no column number_hex");
}

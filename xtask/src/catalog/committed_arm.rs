//! Tests of the committed tables of Arm, RISC-V and Apple: against documents that they were not made from,
//! and against what detection says.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use cyclometer_catalog::table::{CpuTable, TableEvent, text};
use cyclometer_core::CounterMask;
use cyclometer_core::pmu::Family;

use super::committed::{fixed_bits, general_bits};
use super::{data, files_below};

fn tables(family: Family) -> BTreeMap<String, CpuTable> {
    let files = files_below(&data(&crate::root()).join(family.word())).unwrap();
    let table = |path| text::read(&fs::read_to_string(path).unwrap()).unwrap();
    files.into_iter().map(table).map(|table: CpuTable| (table.header.cpu.clone(), table)).collect()
}

fn event<'a>(table: &'a CpuTable, name: &str) -> &'a TableEvent {
    let named = |event: &&TableEvent| event.name == name || event.aliases.iter().any(|alias| alias == name);
    table.events.iter().find(named).unwrap_or_else(|| panic!("{} has no {name}", table.header.cpu))
}

fn source(file: &str) -> String {
    fs::read_to_string(crate::root().join("crates/detect/src").join(file)).unwrap()
}

/// How many events of today's database have each mask: PMC7, PMC5 to 7, PMC2 to 7, all.
fn classes(table: &CpuTable) -> [usize; 4] {
    let masks = [0x80, 0xe0, 0xfc, 0x3fc];
    let today = table.events.iter().filter(|event| !event.deprecated && fixed_bits(event) == 0);
    let today: Vec<u64> = today.map(general_bits).collect();
    assert!(today.iter().all(|mask| *mask == 0 || masks.contains(mask)), "{}", table.header.cpu);
    masks.map(|mask| today.iter().filter(|other| **other == mask).count())
}

/// The numbers of two published dumps of Apple's databases, counted by hand.
#[test]
fn apples_events_fall_into_the_classes_that_others_counted() {
    let tables = tables(Family::Apple);
    let expected = [
        ("apple-m1", [6, 18, 0, 34]),
        ("apple-m2", [7, 18, 0, 33]),
        ("apple-m3", [7, 18, 0, 39]),
        ("apple-m4", [5, 0, 25, 71]),
        ("apple-m5", [5, 0, 25, 71]),
    ];
    for (cpu, classes_expected) in expected {
        assert_eq!(classes(&tables[cpu]), classes_expected, "{cpu}");
    }
    assert_eq!(tables.len(), expected.len());
}

#[test]
fn the_events_for_pmc7_alone_are_known_by_name() {
    let tables = tables(Family::Apple);
    let only = |cpu: &str| -> BTreeSet<String> {
        let events = tables[cpu].events.iter().filter(|event| general_bits(event) == 0x80);
        events.map(|event| event.name.clone()).collect()
    };
    let names = |list: &str| list.split(' ').map(str::to_owned).collect::<BTreeSet<_>>();
    assert_eq!(
        only("apple-m1"),
        names("INST_ALL INST_INT_ALU INST_INT_ST INST_LDST INST_SIMD_ALU RETIRE_UOP")
    );
    assert!(only("apple-m3").contains("INST_SIMD_ALU_VEC"));
    let m4 = names("INST_INT_ALU INST_INT_ST INST_LDST INST_SIMD_ALU INST_SIMD_ALU_VEC");
    assert_eq!((only("apple-m4"), only("apple-m5")), (m4.clone(), m4));
}

#[test]
fn apples_selectors_change_with_the_generation() {
    let tables = tables(Family::Apple);
    let cases: [(&str, [u16; 4]); 8] = [
        ("CORE_ACTIVE_CYCLE", [0x02, 0x02, 0x02, 0x11]),
        ("INST_ALL", [0x8c, 0x8c, 0x8c, 0x08]),
        ("INST_BRANCH", [0x8d, 0x8d, 0x8d, 0x21]),
        ("BRANCH_MISPRED_NONSPEC", [0xcb, 0xcb, 0xcb, 0x22]),
        ("RETIRE_UOP", [0x01, 0x01, 0x01, 0x3a]),
        ("L1D_CACHE_MISS_LD", [0xa3, 0xa3, 0x5a3, 0x5a3]),
        ("L1I_CACHE_MISS_DEMAND", [0xdb, 0xdb, 0x1db, 0x4006]),
        ("SCHEDULE_EMPTY", [0x51, 0x51, 0x351, 0x351]),
    ];
    for (name, [m1, m2, m3, m4]) in cases {
        let chips =
            [("apple-m1", m1), ("apple-m2", m2), ("apple-m3", m3), ("apple-m4", m4), ("apple-m5", m4)];
        for (cpu, select) in chips {
            assert_eq!(event(&tables[cpu], name).code.select, select, "{cpu} {name}");
        }
    }
}

#[test]
fn apples_registers_have_the_widths_of_their_generation() {
    let tables = tables(Family::Apple);
    let widths = |cpu: &str| {
        let header = &tables[cpu].header;
        assert_eq!(header.counters, CounterMask::from_bits(0x3fc, 3), "{cpu}");
        let width = header.counter_width.unwrap();
        (header.selector_bits.unwrap(), width.bits, width.overflow_bit)
    };
    assert_eq!(widths("apple-m1"), (8, 48, 47));
    assert_eq!(widths("apple-m2"), (8, 64, 63));
    for cpu in ["apple-m3", "apple-m4", "apple-m5"] {
        assert_eq!(widths(cpu), (16, 64, 63), "{cpu}");
    }
}

#[test]
fn apples_old_names_still_find_their_events() {
    let tables = tables(Family::Apple);
    for table in tables.values() {
        let renamed = event(table, "ST_MEMORY_ORDER_VIOLATION_NONSPEC");
        assert_eq!(renamed.name, "ST_MEM_ORDER_VIOL_LD_NONSPEC");
        assert_eq!(event(table, "Cycles").counters, Some(CounterMask::from_bits(0, 1)));
        assert_eq!(event(table, "Instructions").counters, Some(CounterMask::from_bits(0, 2)));
    }
    let dropped = event(&tables["apple-m1"], "INST_BRANCH_COND");
    assert_eq!((dropped.code.select, dropped.deprecated), (0x94, true));
    assert!(!event(&tables["apple-m4"], "INST_BRANCH_COND").deprecated);
}

#[test]
fn every_arm_event_is_one_number_that_fits_and_only_cycles_are_on_the_cycle_counter() {
    for (cpu, table) in tables(Family::Arm) {
        let mut codes = BTreeSet::new();
        for event in &table.events {
            assert!(codes.insert(event.code.select), "{cpu}: {} has another event's number", event.name);
            assert_eq!(
                u32::from(event.code.select) >> table.header.selector_bits.unwrap(),
                0,
                "{cpu}: {}",
                event.name
            );
            let on_cycle_counter = fixed_bits(event) == 1 << 31;
            assert_eq!(on_cycle_counter, event.code.select == 0x11, "{cpu}: {}", event.name);
            let odd = if event.name == "CHAIN" { 0xaaaa_aaaa } else { u64::MAX };
            assert_eq!(general_bits(event), table.header.counters.general_bits() & odd, "{cpu}");
        }
    }
}

/// Names of its own that the eMAG gave to numbers which the architecture defined later.
const EMAG: [&str; 2] = ["L2D_TLB_ACCESS", "L2I_TLB_ACCESS"];

/// Numbers up to 0x3F and from 0x4000 to 0x403F mean the same event on every PMUv3.
#[test]
fn a_number_of_the_architecture_has_the_same_name_on_every_core() {
    let tables = tables(Family::Arm);
    let architecture: BTreeMap<u16, &str> =
        tables["armv9"].events.iter().map(|event| (event.code.select, event.name.as_str())).collect();
    for (cpu, table) in tables.iter().filter(|(_, table)| table.header.pmu_version == Some(3)) {
        let common = table.events.iter().filter(|event| event.code.select & !0x403f == 0);
        for event in common.filter(|event| cpu != "emag" || !EMAG.contains(&event.name.as_str())) {
            assert_eq!(architecture.get(&event.code.select), Some(&event.name.as_str()), "{cpu}");
        }
    }
}

#[test]
fn arms_numbers_and_counters_are_those_of_the_manuals() {
    let tables = tables(Family::Arm);
    let cases = [
        ("neoverse-n1", "L3D_CACHE_REFILL", 0x2a),
        ("neoverse-n2", "STALL_SLOT", 0x3f),
        ("neoverse-v1", "SVE_INST_SPEC", 0x8006),
        ("cortex-a53", "PREFETCH_LINEFILL", 0xc2),
        ("cortex-a35", "READ_ALLOC", 0xc5),
        ("cortex-a57", "L1D_CACHE_LD", 0x40),
        ("cortex-x1", "SAMPLE_POP", 0x4000),
        ("c1-ultra", "INST_RETIRED", 0x08),
        ("a64fx", "BC_LD_SPEC", 0x11a),
        ("hip08", "L1I_CACHE_PRF", 0x102e),
        ("ampereonex", "GPC_FLUSH_MEM_FAULT", 0x121),
    ];
    for (cpu, name, code) in cases {
        assert_eq!(event(&tables[cpu], name).code.select, code, "{cpu} {name}");
    }
    let counters = |cpu: &str| tables[cpu].header.counters.general_bits().count_ones();
    assert_eq!(
        ["cortex-a5", "cortex-a7", "cortex-r52", "a64fx", "neoverse-n1"].map(counters),
        [2, 4, 8, 8, 6]
    );
    let widths = |cpu: &str| {
        let header = &tables[cpu].header;
        (header.selector_bits.unwrap(), header.counter_width.unwrap().bits)
    };
    assert_eq!(["cortex-a72", "neoverse-n1", "neoverse-v2"].map(widths), [(10, 32), (16, 32), (16, 64)]);
}

#[test]
fn arms_generic_events_are_events_of_the_core() {
    let tables = tables(Family::Arm);
    for (cpu, table) in &tables {
        for generic in &table.generic {
            assert!(table.events.iter().any(|event| u64::from(event.code.select) == generic.config), "{cpu}");
        }
    }
    let config =
        |cpu: &str, name: &str| tables[cpu].generic.iter().find(|g| g.name == name).map(|g| g.config);
    assert_eq!(config("neoverse-n1", "branch-instructions"), Some(0x21));
    assert_eq!(config("cortex-a53", "branch-instructions"), Some(0x0c));
    assert_eq!(config("cortex-a53", "stalled-cycles-frontend"), None);
    assert_eq!(config("hip08", "cpu-cycles"), Some(0x11));
}

#[test]
fn every_arm_core_that_detection_names_has_a_table_with_its_ids() {
    let tables = tables(Family::Arm);
    let detect = source("arm.rs");
    let rows = detect.lines().filter_map(|line| line.trim().strip_prefix("(0x"));
    let mut found = 0;
    for row in rows.filter(|row| row.contains("Some(\"")) {
        let fields: Vec<&str> = row.split(", ").collect();
        let number = |text: &str| u32::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
        let id = fields[2].trim_start_matches("Some(\"").trim_end_matches("\")");
        let pattern = format!("arm-{:#x}-{:#x}", number(fields[0]), number(fields[1]));
        let table = tables.get(id).unwrap_or_else(|| panic!("no table for {id}"));
        assert!(table.header.matches.contains(&pattern), "{id} does not say {pattern}");
        found += 1;
    }
    assert!(found > 50, "{found}");
}

#[test]
fn every_chip_that_detection_names_has_a_table_with_its_ids() {
    let tables = tables(Family::Apple);
    let detect = source("apple.rs");
    let number =
        |text: &str| u32::from_str_radix(&text.trim_start_matches("0x").replace('_', ""), 16).unwrap();
    let mut ids = BTreeMap::new();
    for row in detect.lines().filter_map(|line| line.trim().strip_prefix("chip(0x")) {
        let (family, rest) = row.split_once(", \"").unwrap();
        let id = rest.split('"').next().unwrap();
        assert!(tables[id].header.matches.contains(&format!("apple-{:#x}", number(family))), "{id} {family}");
        ids.insert(number(family), id);
    }
    for row in detect.lines().filter_map(|line| line.trim().strip_prefix("([0x")) {
        let (parts, family) = row.split_once("], ").unwrap();
        let id = ids[&number(family.trim_end_matches("),"))];
        for part in parts.split(", ") {
            assert!(
                tables[id].header.matches.contains(&format!("arm-0x61-{:#x}", number(part))),
                "{id} {part}"
            );
        }
    }
    assert!(ids.len() > 12, "{ids:?}");
}

#[test]
fn every_risc_v_core_that_detection_names_has_a_table() {
    let tables = tables(Family::RiscV);
    let detect = source("riscv.rs");
    let rows: Vec<&str> = detect.lines().filter_map(|line| line.trim().strip_prefix("(0x")).collect();
    let ids = rows.iter().filter_map(|row| row.split('"').nth(5));
    let ids: BTreeSet<&str> = ids.collect();
    assert_eq!(ids.len(), 9, "{ids:?}");
    for id in ids {
        assert!(!tables[id].header.matches.is_empty(), "{id}");
    }
}

#[test]
fn risc_v_events_are_whole_words_and_every_core_has_the_firmwares() {
    for (cpu, table) in tables(Family::RiscV) {
        let firmware = table.events.iter().filter(|event| event.config.unwrap() >> 63 == 1).count();
        assert_eq!(firmware, 22, "{cpu}");
        for event in &table.events {
            let config = event.config.unwrap();
            assert!(config >> 62 == 0b10 || config >> 56 == 0, "{cpu}: {} {config:#x}", event.name);
        }
        assert_eq!(event(&table, "FW_MISALIGNED_LOAD").config, Some(1 << 63), "{cpu}");
        let config = |name: &str| table.generic.iter().find(|g| g.name == name).map(|g| g.config);
        assert_eq!(
            (config("cpu-cycles"), config("L1-dcache-load-misses")),
            (Some(1), Some(0x10001)),
            "{cpu}"
        );
    }
    assert_eq!(event(&tables(Family::RiscV)["sifive-p550"], "PTE_CACHE_HIT").config, Some(0x10002));
}

//! Tests of the tables that are committed: they are what the converter writes, and what other documents say.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use cyclometer_catalog::table::{CpuTable, TableEvent, text};
use cyclometer_core::CounterMask;
use cyclometer_core::pmu::Family;

use super::{data, files_below};

/// Every table: its path below the folder of tables, its text, and what it says.
fn tables() -> Vec<(String, String, CpuTable)> {
    let root = data(&crate::root());
    let mut tables = Vec::new();
    for family in Family::ALL {
        let folder = root.join(family.word());
        for path in files_below(&folder).unwrap() {
            let name = path.strip_prefix(&root).unwrap().display().to_string();
            let text = fs::read_to_string(&path).unwrap();
            let table = text::read(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
            tables.push((name, text, table));
        }
    }
    tables
}

/// The table of one Intel or AMD core.
fn table(cpu: &str) -> CpuTable {
    let family = if cpu.starts_with("amd") { "amd" } else { "intel" };
    let path = data(&crate::root()).join(family).join(cpu);
    text::read(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The general counters that are named for an event, as a mask.
pub(super) fn general_bits(event: &TableEvent) -> u64 {
    event.counters.map_or(0, CounterMask::general_bits)
}

/// The fixed counters that are named for an event, as a mask.
pub(super) fn fixed_bits(event: &TableEvent) -> u64 {
    event.counters.map_or(0, CounterMask::fixed_bits)
}

/// The counters that the events of a table use.
fn used(table: &CpuTable) -> CounterMask {
    let all = table
        .events
        .iter()
        .flat_map(|event| std::iter::once(event.counters).chain(event.also.iter().map(|also| also.counters)));
    all.flatten().fold(CounterMask::EMPTY, CounterMask::or)
}

#[test]
fn every_table_reads_back_as_it_stands() {
    let tables = tables();
    for family in Family::ALL {
        assert!(tables.iter().any(|(_, _, table)| table.header.family == family), "{}", family.word());
    }
    for (name, text, table) in tables {
        assert!(text::write(&table) == text, "{name} is not what is written for what it says");
    }
}

#[test]
fn every_table_stands_where_its_id_says_and_is_sorted_by_name() {
    for (name, _, table) in tables() {
        assert_eq!(name, format!("{}/{}", table.header.family.word(), table.header.cpu));
        assert!(table.events.is_sorted_by(|a, b| a.name < b.name), "{name}: events");
        assert!(table.generic.is_sorted_by(|a, b| a.name < b.name), "{name}: generic events");
    }
}

#[test]
fn names_are_unique_without_regard_to_case() {
    for (name, _, table) in tables() {
        let names = table.events.iter().flat_map(|event| std::iter::once(&event.name).chain(&event.aliases));
        let mut seen = BTreeSet::new();
        for event in names {
            assert!(seen.insert(event.to_ascii_lowercase()), "{name}: {event}");
        }
        assert!(!seen.is_empty(), "{name} has no events");
    }
}

#[test]
fn every_table_names_source_licence_and_title_and_no_sentence() {
    for (name, _, table) in tables() {
        let header = &table.header;
        assert!(!header.sources.is_empty() && !header.licence.is_empty(), "{name}");
        assert!(!header.title.is_empty() && header.counter_width.is_some(), "{name}");
        assert!(table.events.iter().all(|event| event.about.is_empty()), "{name}");
    }
}

/// A vendor may say more one day: then the counters of the CPU are to be looked at, or this test.
#[test]
fn events_of_intel_and_amd_use_the_counters_of_their_cpu_and_no_others() {
    let mut beyond = Vec::new();
    for (name, _, table) in tables() {
        let (Family::Intel | Family::Amd) = table.header.family else { continue };
        let used = used(&table);
        if used != table.header.counters {
            beyond.push(format!("{name}: events use {used}; there are {}", table.header.counters));
        }
    }
    assert!(beyond.is_empty(), "{beyond:#?}");
}

#[test]
fn fixed_events_are_on_the_counter_that_their_pseudo_code_says() {
    let mut fixed = 0;
    for (name, _, table) in tables() {
        for event in table.events.iter().filter(|event| fixed_bits(event) != 0) {
            if table.header.family == Family::Intel {
                assert_eq!(general_bits(event), 0, "{name}: {}", event.name);
                assert_eq!(event.code.select, 0, "{name}: {}", event.name);
                assert_eq!(fixed_bits(event), 1 << (event.code.umask - 1), "{name}: {}", event.name);
                fixed += 1;
            }
        }
    }
    assert!(fixed > 48 * 3, "{fixed}");
}

#[test]
fn every_id_that_detection_gives_has_a_table() {
    let root = crate::root();
    let ids: BTreeSet<String> = tables().into_iter().map(|(_, _, table)| table.header.cpu).collect();
    let intel = fs::read_to_string(root.join("crates/detect/src/intel.rs")).unwrap();
    let amd = fs::read_to_string(root.join("crates/detect/src/amd.rs")).unwrap();
    let generations = quoted(&intel).filter(|word| word.len() > 5 && word.bytes().all(is_id));
    let found: BTreeSet<&str> =
        generations.filter(|word| intel.contains(&format!("], \"{word}\", &["))).collect();
    assert!(found.len() > 35, "{found:?}");
    for id in found.into_iter().chain(quoted(&amd).filter(|word| word.starts_with("amdzen"))) {
        let hybrid = format!("{id}/");
        assert!(ids.contains(id) || ids.iter().any(|known| known.starts_with(&hybrid)), "no table for {id}");
    }
}

fn is_id(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte == b'-'
}

/// The texts between quotation marks.
fn quoted(source: &str) -> impl Iterator<Item = &str> {
    source.split('"').skip(1).step_by(2)
}

/// Config words in perf's order (unit mask, select), as written in documents other than the tables' sources.
#[test]
fn codes_are_those_of_other_documents() {
    let cases = [
        ("skylake", "BR_INST_RETIRED.ALL_BRANCHES", 0x00c4),
        ("skylake", "L1D.REPLACEMENT", 0x0151),
        ("skylake", "LONGEST_LAT_CACHE.MISS", 0x412e),
        ("sandybridge", "L2_RQSTS.ALL_DEMAND_DATA_RD", 0x0324),
        ("haswell", "L2_RQSTS.ALL_DEMAND_DATA_RD", 0xe124),
        ("sapphirerapids", "MEM_INST_RETIRED.ALL_LOADS", 0x81d0),
        ("icelake", "MEM_LOAD_RETIRED.L1_MISS", 0x08d1),
        ("novalake/core", "MEM_LOAD_RETIRED.L1_MISS", 0x10d1),
        ("lunarlake/core", "L1D.REPLACEMENT", 0x0551),
        ("nehalemep", "BR_INST_RETIRED.ALL_BRANCHES", 0x04c4),
        ("amdzen1", "ex_ret_instr", 0x00c0),
        ("amdzen5", "ls_not_halted_cyc", 0x0076),
    ];
    for (cpu, name, expected) in cases {
        let table = table(cpu);
        let event = table.events.iter().find(|event| event.name == name);
        let code = event.unwrap_or_else(|| panic!("{cpu} has no {name}")).code;
        assert_eq!(u32::from(code.umask) << 8 | u32::from(code.select), expected, "{cpu} {name}");
    }
}

#[test]
fn traps_of_the_vendors_files_are_as_they_should_be() {
    let event = |cpu: &str, name: &str| {
        table(cpu)
            .events
            .into_iter()
            .find(|event| event.name == name)
            .unwrap_or_else(|| panic!("{cpu} {name}"))
    };
    assert_eq!(
        event("jaketown", "CPU_CLK_UNHALTED.THREAD_ANY").counters,
        Some(CounterMask::from_bits(0, 0b10))
    );
    assert_eq!(event("silvermont", "INST_RETIRED.ANY").counters, Some(CounterMask::from_bits(0, 0b1)));
    assert_eq!(event("nehalemep", "CPU_CLK_UNHALTED.REF").counters, Some(CounterMask::from_bits(0, 0b100)));
    let far = event("pantherlake/core", "BR_INST_RETIRED.FAR_BRANCH").code;
    assert_eq!((far.umask, far.umask2), (0, 1));
    assert_eq!(table("lunarlake/atom").header.counters.fixed_bits(), 0x77);
    assert_eq!(event("novalake/core", "MEM_LOAD_L2_MISS_RETIRED.L3_MISS").also.len(), 3);
    assert_eq!(event("amdzen4", "op_cache_hit_miss.op_cache_hit").code.select, 0x28f);
    assert_eq!(general_bits(&event("amdzen4", "fp_ret_sse_avx_ops.all")), 0x15);
}

#[test]
fn nothing_that_is_committed_names_the_place_of_the_raw_material() {
    for (name, text, table) in tables() {
        assert!(!text.contains("../"), "{name}");
        assert!(table.header.sources.iter().all(|source| !Path::new(source).is_absolute()), "{name}");
    }
}

//! A written example of every format reads to the expected table; what is wrong is said with format, event
//! and field.
#![allow(clippy::unwrap_used, reason = "a test fails where it stands")]

use cyclometer_catalog::table::text;
use cyclometer_catalog::table::{CpuTable, TableEvent};
use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterMask, CounterWidth};
use cyclometer_import::read_file;

/// The example `name` of `data`.
fn example(name: &str) -> Vec<u8> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    std::fs::read(path).unwrap()
}

fn read(name: &str, cpu: Option<&str>) -> CpuTable {
    let table = read_file(&example(name), name, cpu).unwrap();
    assert_eq!(text::read(&text::write(&stripped(&table))).as_ref(), Ok(&stripped(&table)), "{name}");
    table
}

/// As it would be written: descriptions are no part of a table's text.
fn stripped(table: &CpuTable) -> CpuTable {
    let events = table.events.iter().map(|event| TableEvent { about: String::new(), ..event.clone() });
    CpuTable { events: events.collect(), ..table.clone() }
}

fn event<'a>(table: &'a CpuTable, name: &str) -> &'a TableEvent {
    table.events.iter().find(|event| event.name == name).unwrap()
}

/// The lines of the events, as a table has them.
fn lines(table: &CpuTable) -> Vec<String> {
    let text = text::write(&stripped(table));
    text.lines().skip_while(|line| *line != "[events]").skip(1).map(str::to_owned).collect()
}

#[test]
fn our_own_table_reads_as_it_stands() {
    let table = read("own.txt", None);
    assert_eq!(text::write(&table).replace("source own.txt\n", "").into_bytes(), example("own.txt"));
    assert_eq!(read("own.txt", Some("other")).header.cpu, "other");
}

#[test]
fn intels_file_reads_with_its_version_and_words() {
    let table = read("intel.json", None);
    assert_eq!((table.header.cpu.as_str(), table.header.family), ("intel", Family::Intel));
    assert_eq!((table.header.version.as_str(), table.header.date.as_str()), ("1.40", "2026-05-27"));
    assert_eq!(
        lines(&table),
        [
            "BR_MISP_RETIRED.ALL_BRANCHES event=0xc5 counters=0xf errata=EX01,EX02",
            "FRONTEND_RETIRED.L2_MISS event=0xc6 umask=0x1 cmask=0x4 inv edge extra=0x3f7:0x13 counters=0xf deprecated alone",
            "INST_RETIRED.ANY umask=0x1 fixed=0x1",
        ]
    );
    assert_eq!(event(&table, "INST_RETIRED.ANY").about, "Instructions that retired.");
    assert_eq!(table.header.counters, CounterMask::from_bits(0xf, 1));
}

#[test]
fn a_cpu_of_the_catalogue_gives_its_counters() {
    let table = read("intel.json", Some("Skylake"));
    assert_eq!((table.header.cpu.as_str(), table.header.title.is_empty()), ("skylake", false));
    assert_eq!((table.header.counters, table.header.pmu_version), (CounterMask::from_bits(0xf, 7), Some(4)));
    assert_eq!(table.header.sources, ["intel.json"]);
}

#[test]
fn linuxs_files_read_for_each_family() {
    let amd = read("linux-amd.json", None);
    assert_eq!(amd.header.family, Family::Amd);
    assert_eq!(lines(&amd), ["op_cache_hit_miss.hit event=0x28f umask=0x3 cmask=0x2 counters=0x3f"]);
    let arm = read("linux-arm.json", None);
    assert_eq!((arm.header.cpu.as_str(), arm.header.family), ("linux-arm", Family::Arm));
    assert_eq!(
        lines(&arm),
        [
            "CPU_CYCLES event=0x11 counters=0x3f fixed=0x80000000",
            "l1d_cache_rd event=0x40 counters=0x3f errata=EX03",
            "EXAMPLE_STALL event=0xe1 counters=0x3f",
        ]
    );
    assert_eq!(event(&arm, "EXAMPLE_STALL").about, "Cycles of waiting.");
    let riscv = read("linux-riscv.json", Some("sifive-p550"));
    assert_eq!(riscv.header.cpu, "sifive-p550");
    assert_eq!(
        lines(&riscv),
        [
            "FW_MISALIGNED_LOAD config=0x8000000000000000",
            "EXAMPLE_MISS config=0x10002",
            "EXAMPLE_FIRMWARE config=0x8000000000000105",
        ]
    );
    let intel = read("linux-intel.json", None);
    assert_eq!(lines(&intel), ["EXAMPLE.SOME event=0x2e umask=0x41 counters=0xf"]);
    let uncounted = changed("linux-intel.json", r#" "Counter": "0,1,2,3","#, "");
    let intel = read_file(&uncounted, "f", None).unwrap();
    assert_eq!((intel.header.family, lines(&intel)), {
        (Family::Intel, vec!["EXAMPLE.SOME event=0x2e umask=0x41".to_owned()])
    });
}

#[test]
fn arms_own_files_read() {
    let core = read("arm-data.json", None);
    assert_eq!((core.header.cpu.as_str(), core.header.title.as_str()), ("arm-data", "Example E9"));
    assert_eq!(
        (core.header.counters.general_bits(), core.header.counter_width),
        (0xf_ffff, Some(CounterWidth::carrying(64)))
    );
    assert_eq!(
        lines(&core),
        [
            "CPU_CYCLES event=0x11 counters=0xfffff fixed=0x80000000",
            "INST_SPEC event=0x1b counters=0xfffff alias=INT_SPEC"
        ]
    );
    let known = read("arm-telemetry.json", None);
    assert_eq!((known.header.cpu.as_str(), known.header.date.as_str()), ("neoverse-n1", "2025-08-08"));
    assert_eq!(event(&known, "STALL").about, "Cycles of waiting.");
    assert_eq!(lines(&known)[1], "STALL event=0x3c counters=0x3f");
}

#[test]
fn apples_database_reads_the_same_as_xml_and_binary() {
    let table = read("kpep.plist", None);
    let mut binary = read("kpep-binary.plist", None);
    binary.header.sources.clone_from(&table.header.sources);
    assert_eq!(table, binary);
    assert_eq!(table.header.cpu, "apple-m1");
    assert_eq!(table.header.counter_width, Some(CounterWidth { bits: 48, overflow_bit: 47 }));
    assert_eq!(
        lines(&table),
        [
            "FIXED_CYCLES fixed=0x1 alias=Cycles",
            "INST_LDST event=0x9b counters=0x80",
            "MAP_STALL event=0x76 counters=0x3fc",
        ]
    );
    assert_eq!(event(&table, "INST_LDST").about, "Loads & stores – retired.");
}

fn refused(bytes: &[u8], name: &str, cpu: Option<&str>, expected: &str) {
    let error = read_file(bytes, name, cpu).unwrap_err().to_string();
    assert!(error.starts_with(expected), "{error}\n{expected}");
}

/// An example with one place changed.
fn changed(name: &str, from: &str, to: &str) -> Vec<u8> {
    let text = String::from_utf8(example(name)).unwrap();
    assert!(text.contains(from), "{name}: {from}");
    text.replacen(from, to, 1).into_bytes()
}

#[test]
fn errors_name_the_file_the_format_the_event_and_the_field() {
    let cases = [
        ("own.txt", "event=0xc5", "event=z", "own.txt (cyclometer's own table), line 10: BR_MISP"),
        (
            "intel.json",
            "0xC5",
            "0x1C5",
            "intel.json (Intel perfmon JSON), BR_MISP_RETIRED.ALL_BRANCHES, EventCode: ",
        ),
        (
            "linux-arm.json",
            "l1d_cache_rd",
            "l1d_cash_rd",
            "linux-arm.json (Linux pmu-events JSON), l1d_cash_rd, ArchStdEvent: ",
        ),
        (
            "linux-arm.json",
            "0xE1",
            "0x10000",
            "linux-arm.json (Linux pmu-events JSON), EXAMPLE_STALL, EventCode: 0x10000 is more",
        ),
        ("arm-data.json", "27", "-1", "arm-data.json (ARM-software/data JSON), INST_SPEC, code: "),
        ("arm-telemetry.json", "0x003C", "slots", "arm-telemetry.json (Arm telemetry JSON), STALL, code: "),
        (
            "kpep.plist",
            "<integer>155",
            "<integer>99999",
            "kpep.plist (Apple kpep property list), INST_LDST, number: ",
        ),
    ];
    for (name, from, to, expected) in cases {
        refused(&changed(name, from, to), name, None, expected);
    }
}

#[test]
fn one_name_with_two_numbers_is_refused_and_one_number_with_two_names_is_not() {
    let twice = changed("linux-arm.json", "EXAMPLE_STALL", "CPU_CYCLES");
    refused(&twice, "f", None, "f (Linux pmu-events JSON), CPU_CYCLES: is 0x11 and 0xe1");
    let alias = changed("linux-arm.json", "0xE1", "0x11");
    let table = read_file(&alias, "f", None).unwrap();
    assert_eq!(table.events[0].aliases, ["EXAMPLE_STALL"]);
}

#[test]
fn what_is_no_event_file_is_refused() {
    refused(b"", "f", None, "f: the file is empty; read are cyclometer's own tables");
    refused(b"\x7fELF\x02", "f", None, "f: a file that starts with '\\u{7f}ELF\\u{2}' is no event file");
    refused(b"{}", "f", None, "f: JSON, but no list of events");
    refused(b"[1", "f", None, "f (JSON): no JSON: EOF");
    refused(b"[]", "f", None, "f (Linux pmu-events JSON): there is no event of a core in it");
    refused(b"[]", "f", Some("neoverse-n1"), "f (Linux pmu-events JSON): there is no event of a core in it");
    refused(b"<plist>", "f", None, "f (Apple kpep property list), line 1: the file ends");
    refused(b"bplist00", "f", None, "f (Apple kpep property list): no binary property list");
    refused(&example("own.txt"), "f", Some("a b"), "'a b' is no id of a CPU");
}

#[test]
fn a_file_of_another_family_than_the_cpus_is_refused() {
    refused(
        &example("kpep.plist"),
        "f",
        Some("skylake"),
        "f (Apple kpep property list): skylake is a CPU of the intel",
    );
    refused(
        &example("intel.json"),
        "f",
        Some("neoverse-n1"),
        "f (Intel perfmon JSON): neoverse-n1 is a CPU of the arm",
    );
    refused(
        &example("own.txt"),
        "f",
        Some("neoverse-n1"),
        "f (cyclometer's own table): neoverse-n1 is a CPU of the arm",
    );
    let plain = br#"[{"EventName": "A", "EventCode": "0x12"}]"#;
    refused(plain, "f", None, "f (Linux pmu-events JSON): its fields do not tell whose events these are");
    assert_eq!(read_file(plain, "f", Some("cortex-a53")).unwrap().events[0].code.select, 0x12);
    let large = br#"[{"EventName": "A", "EventCode": "0x412"}]"#;
    refused(
        large,
        "f",
        Some("cortex-a53"),
        "f (Linux pmu-events JSON), A: 0x412 does not fit the 10 bits of cortex-a53",
    );
}

#[test]
fn a_hybrid_needs_its_core_type() {
    refused(&example("intel.json"), "f", Some("alderlake"), "alderlake has several core types: alderlake/");
    assert_eq!(read("intel.json", Some("alderlake/atom")).header.cpu, "alderlake/atom");
}

#[test]
fn a_new_cpu_is_named_by_the_user_or_after_the_file() {
    assert_eq!(read("intel.json", Some("newlake")).header.cpu, "newlake");
    let bytes = changed("kpep.plist", "<string>a14", "<string>a99");
    let table = read_file(&bytes, "/some/where/A99 new.plist", None).unwrap();
    assert_eq!((table.header.cpu.as_str(), table.header.title.as_str()), ("a99-new", "Example chip"));
    assert_eq!(table.header.counter_width, Some(CounterWidth { bits: 64, overflow_bit: 63 }));
}

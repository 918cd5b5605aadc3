//! RISC-V's tables: names and numbers of Linux's folders, SBI firmware events, the SBI's generic events.
//!
//! The RISC-V performance events standard fixes names without numbers, so it adds nothing here.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use cyclometer_catalog::table::{CpuTable, Generic, Header, TableEvent};
use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterMask, CounterWidth};
use cyclometer_import::file_linux::{self, LinuxEvent};

use super::arm::json_files;
use super::csv;

const LINUX: &str = "Linux 7.2.8 tools/perf/pmu-events/arch/riscv";
const SBI: &str = "riscv-sbi-firmware.json";

/// The cores: folder, from which the id comes, and title.
///
/// # Source
///
/// Linux `tools/perf/pmu-events/arch/riscv/mapfile.csv`, which also gives their machine ids.
const CORES: [(&str, &str); 9] = [
    ("andes/ax45", "Andes AX45"),
    ("openhwgroup/cva6", "OpenHW CVA6"),
    ("sifive/bullet", "SiFive Bullet (U74 class)"),
    ("sifive/bullet-07", "SiFive Bullet (07)"),
    ("sifive/bullet-0d", "SiFive Bullet (0d)"),
    ("sifive/p550", "SiFive P550"),
    ("sifive/p650", "SiFive P650"),
    ("starfive/dubhe-80", "StarFive Dubhe 80"),
    ("thead/c900-legacy", "T-Head C906, C910, C920"),
];

/// All tables of RISC-V: the cores, and `riscv` for a core that is not known.
pub(super) fn tables(from: &Path) -> Result<Vec<CpuTable>> {
    let linux = from.join("events/riscv/linux");
    let firmware = read(&linux.join(SBI), &|_| None)?;
    let generic = generic(&from.join("events/perf-generic/riscv_hw_events.csv"))?;
    let map = csv::rows(&linux.join("mapfile.csv"))?;
    let mut tables = vec![table("riscv", "RISC-V, SBI firmware events", SBI, firmware.clone(), &generic)];
    for (folder, title) in CORES {
        let mut events = Vec::new();
        for path in json_files(&linux.join(folder))? {
            let standard = |name: &str| firmware.iter().find(|e| e.name == name).map(|e| e.number);
            events.extend(read(&path, &standard)?);
        }
        let mut table = table(&folder.replace('/', "-"), title, folder, events, &generic);
        table.header.matches = matches(&map, folder);
        tables.push(table);
    }
    Ok(tables)
}

fn read(path: &Path, standard: file_linux::Standard<'_>) -> Result<Vec<LinuxEvent>> {
    file_linux::events(&fs::read(path)?, standard).with_context(|| path.display().to_string())
}

fn table(id: &str, title: &str, path: &str, events: Vec<LinuxEvent>, generic: &[Generic]) -> CpuTable {
    let header = Header {
        cpu: id.to_owned(),
        title: title.to_owned(),
        version: "Linux 7.2.8".to_owned(),
        sources: vec![format!("{LINUX}/{path}")],
        licence: "GPL-2.0 (names and numbers only)".to_owned(),
        ..header()
    };
    CpuTable { header, events: events.into_iter().map(event).collect(), generic: generic.to_vec() }
}

/// The known counters of every core: cycle (0) and instret (2), of 64 bits. How many event counters there
/// are, how wide they are and which events they count is known to the firmware only.
///
/// # Source
///
/// RISC-V privileged specification, "Hardware Performance Monitor"; Linux `drivers/perf/riscv_pmu_sbi.c`:
/// `event` is config bits 0 to 55.
fn header() -> Header {
    Header {
        family: Family::RiscV,
        selector_bits: Some(56),
        counter_width: Some(CounterWidth::carrying(64)),
        counters: CounterMask::from_bits(0, 0b101),
        ..Header::default()
    }
}

fn event(event: LinuxEvent) -> TableEvent {
    TableEvent {
        name: event.name,
        config: Some(event.number.config()),
        errata: event.errata,
        ..TableEvent::default()
    }
}

/// The patterns of a folder, as Linux's map has them: regular expressions for the whole of the three ids.
fn matches(map: &[Vec<String>], folder: &str) -> Vec<String> {
    let rows = map.iter().filter(|row| row.get(2).is_some_and(|known| known == folder));
    rows.map(|row| format!("riscv-{}", row[0])).collect()
}

/// The generic events. Their config here is the SBI's event index: the kernel hands it to the firmware, which
/// alone knows the core's number for it.
///
/// # Source
///
/// RISC-V SBI specification, "Performance Monitoring Unit Extension", event types 0 and 1.
fn generic(path: &Path) -> Result<Vec<Generic>> {
    let mut events = Vec::new();
    for row in csv::rows(path)?.into_iter().skip(1) {
        // Other rows are rules, not numbers.
        if let Some(digits) = row[1].strip_prefix("0x0") {
            let index = u64::from_str_radix(digits, 16).with_context(|| row.join(","))?;
            events.push(Generic { name: row[0].clone(), config: index, config1: 0 });
        }
    }
    if events.is_empty() {
        bail!("{}: no events", path.display());
    }
    events.extend(cache_events());
    Ok(events)
}

/// The cache events that perf has, with `0x10000 | cache << 3 | operation << 1 | result`.
///
/// # Source
///
/// Linux `include/uapi/linux/perf_event.h` for the ids; `tools/perf/util/evsel.c` for names and for what a
/// cache cannot do.
fn cache_events() -> Vec<Generic> {
    const CACHES: [(&str, &[u64]); 7] = [
        ("L1-dcache", &[0, 1, 2]),
        ("L1-icache", &[0, 2]),
        ("LLC", &[0, 1, 2]),
        ("dTLB", &[0, 1, 2]),
        ("iTLB", &[0]),
        ("branch", &[0]),
        ("node", &[0, 1, 2]),
    ];
    const OPERATIONS: [[&str; 2]; 3] =
        [["loads", "load-misses"], ["stores", "store-misses"], ["prefetches", "prefetch-misses"]];
    let mut events = Vec::new();
    for (cache, (name, operations)) in CACHES.iter().enumerate() {
        for operation in *operations {
            for (result, word) in OPERATIONS[*operation as usize].iter().enumerate() {
                let config = 0x10000 | (cache as u64) << 3 | operation << 1 | result as u64;
                events.push(Generic { name: format!("{name}-{word}"), config, config1: 0 });
            }
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use cyclometer_import::file_linux::Number;

    use super::*;

    #[test]
    fn cache_events_have_the_sbis_index() {
        let events = cache_events();
        let index = |name: &str| events.iter().find(|event| event.name == name).map(|event| event.config);
        assert_eq!(index("L1-dcache-loads"), Some(0x10000));
        assert_eq!(index("LLC-store-misses"), Some(0x10013));
        assert_eq!(index("branch-load-misses"), Some(0x10029));
        assert_eq!(index("iTLB-stores"), None);
    }

    #[test]
    fn a_firmware_event_keeps_its_whole_word() {
        let number = Number::Config(0x8000_0000_0000_0005);
        let linux =
            LinuxEvent { name: "FW".to_owned(), number, errata: Vec::new(), about: "words".to_owned() };
        assert_eq!(event(linux).config, Some(0x8000_0000_0000_0005));
    }
}

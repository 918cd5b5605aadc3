//! Apple's tables: the newest databases with masks, older and newer ones for further events and names.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use cyclometer_catalog::table::{CpuTable, Generic, Header, TableEvent};
use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterMask, CounterWidth, EventCode};

use super::csv::{self, CsvRecord};

/// PMC2 to PMC9, and PMC0 (cycles) and PMC1 (instructions), which are fixed.
///
/// # Source
///
/// kpep `config_counters` 0x3fc and `fixed_counters` 3 of every chip here; xnu `pexpert/pexpert/arm64/H13.h`
/// to `H16.h`, `CORE_NCTRS` 10.
const COUNTERS: CounterMask = CounterMask::from_bits(0x3fc, 0b11);

/// A table: chips with one set of events.
struct ChipTable {
    /// Id of the table, and the chip's word in the list of events.
    id: &'static str,
    key: &'static str,
    title: &'static str,
    /// Database as of 2024-10, and a newer one than the list of events has.
    older: &'static str,
    newer: &'static str,
    /// Names of its family in the list of chips.
    members: &'static [&'static str],
}

/// The chips.
///
/// # Source
///
/// jiegec/apple-pmu: which databases have the same content.
const CHIPS: [ChipTable; 5] = [
    ChipTable {
        id: "apple-m1",
        key: "m1",
        title: "Apple M1, A14 (Firestorm, Icestorm)",
        older: "a14",
        newer: "",
        members: &["A14", "M1", "M1 Pro", "M1 Max/Ultra"],
    },
    ChipTable {
        id: "apple-m2",
        key: "m2",
        title: "Apple M2, A15 (Avalanche, Blizzard)",
        older: "a15",
        newer: "",
        members: &["A15", "M2", "M2 Pro", "M2 Max/Ultra"],
    },
    ChipTable {
        id: "apple-m3",
        key: "m3",
        title: "Apple M3, A16, A17 Pro (Everest, Sawtooth)",
        older: "as1",
        newer: "",
        members: &["A16", "M3", "A17 Pro", "M3 Pro", "M3 Max"],
    },
    ChipTable {
        id: "apple-m4",
        key: "m4",
        title: "Apple M4, A18 (Donan, Brava, Tupai, Tahiti)",
        older: "as4",
        newer: "as4-1",
        members: &["M4", "M4 Pro", "M4 Max", "A18", "A18 Pro"],
    },
    ChipTable {
        id: "apple-m5",
        key: "m5",
        title: "Apple M5, A19 (Hidra, Sotra, Tilos, Thera)",
        older: "",
        newer: "as5",
        members: &["M5", "M5 Pro/Max", "A19", "A19 Pro"],
    },
];

/// Old name and new name of events that kept their number.
///
/// # Source
///
/// kpep databases of macOS 15.0 and of macOS 26, compared.
const RENAMED: [(&str, &str); 1] = [("ST_MEMORY_ORDER_VIOLATION_NONSPEC", "ST_MEM_ORDER_VIOL_LD_NONSPEC")];

/// The events that the kernel counts for generic events, on the chips that Linux has a driver for.
///
/// # Source
///
/// Linux `drivers/perf/apple_m1_cpu_pmu.c`, `m1_pmu_perf_map`.
const LINUX_GENERIC: [(&str, &str); 4] = [
    ("cpu-cycles", "CORE_ACTIVE_CYCLE"),
    ("instructions", "INST_ALL"),
    ("branch-instructions", "INST_BRANCH"),
    ("branch-misses", "BRANCH_MISPRED_NONSPEC"),
];

/// The chips of [`LINUX_GENERIC`].
const LINUX_CHIPS: [&str; 2] = ["apple-m1", "apple-m2"];

const HASH: &str =
    "https://github.com/hashintel/hash 20bd86095109069ef5ebb8f16d1cdd536b75bf70 libs/darwin-kperf/events/src";
const JIEGEC: &str = "https://github.com/jiegec/apple-pmu";
const JIEGEC_OLDER: &str = "cd01fb899449632b466bd4471095cd2411771458";
const JIEGEC_NEWER: &str = "fbbc94f3fe86161a2e230d076f751f35cceb080e";
const XNU: &str =
    "https://github.com/apple-oss-distributions/xnu xnu-11417.121.6 osfmk/mach/machine.h, osfmk/arm/cpuid.h";
const LINUX: &str = "https://github.com/torvalds/linux 0401bbf56da5f15a6fdb1adaad6dc4ec624ce5f2 drivers/perf/apple_m1_cpu_pmu.c";

/// All tables of Apple.
pub(super) fn tables(from: &Path) -> Result<Vec<CpuTable>> {
    let material = AppleInputs::load(&from.join("apple"))?;
    CHIPS.iter().map(|chips| material.table(chips).with_context(|| chips.id)).collect()
}

/// The collected files, read.
struct AppleInputs {
    events: Vec<CsvRecord>,
    older: Vec<CsvRecord>,
    newer: Vec<CsvRecord>,
    chips: Vec<CsvRecord>,
    /// Counters by event of the Linux driver.
    affinity: BTreeMap<String, u64>,
}

impl AppleInputs {
    fn load(apple: &Path) -> Result<AppleInputs> {
        let mut affinity = BTreeMap::new();
        for record in csv::records(&apple.join("linux_m1_event_affinity.csv"))? {
            affinity.insert(record.field("event")?.to_owned(), hex(record.field("affinity_mask")?)?);
        }
        Ok(AppleInputs {
            events: csv::records(&apple.join("kpep_events_m1_m5.csv"))?,
            older: csv::records(&apple.join("kpep_event_numbers_2024-10.csv"))?,
            newer: csv::records(&apple.join("kpep_event_numbers_newer.csv"))?,
            chips: csv::records(&apple.join("chips.csv"))?,
            affinity,
        })
    }

    fn table(&self, chips: &ChipTable) -> Result<CpuTable> {
        let mut events = ChipEvents::default();
        for record in &self.events {
            if record.field("chip")? == chips.key {
                events.add(event(record)?)?;
            }
        }
        for record in &self.newer {
            if record.field("kpep_db")? == chips.newer {
                events.add_newer(record)?;
            }
        }
        for record in &self.older {
            if record.field("kpep_db")? == chips.older {
                events.add_older(record, |name| self.counters_of_older(chips, name))?;
            }
        }
        events.rename()?;
        let generic = generic(chips, &events)?;
        Ok(CpuTable { header: self.header(chips)?, events: events.list, generic })
    }

    /// The counters of an event that newer databases have dropped: the Linux driver knows them for the M1 and
    /// M2, nobody who publishes for the others.
    fn counters_of_older(&self, chips: &ChipTable, name: &str) -> u64 {
        let known = self.affinity.get(name).filter(|_| LINUX_CHIPS.contains(&chips.id));
        known.map_or(0, |mask| mask & COUNTERS.general_bits())
    }

    fn header(&self, chips: &ChipTable) -> Result<Header> {
        let members: Vec<&CsvRecord> = self.chips.iter().filter(|record| is_member(record, chips)).collect();
        ensure!(members.len() == chips.members.len(), "{} of {:?}", members.len(), chips.members);
        let first = members.first().context("no chips")?;
        let bits = |name: &str| -> Result<u32> {
            let text = first.field(name)?.split([' ', '?']).next().unwrap_or_default();
            text.parse().with_context(|| format!("{name} of {}", chips.id))
        };
        Ok(Header {
            cpu: chips.id.to_owned(),
            title: chips.title.to_owned(),
            family: Family::Apple,
            matches: matches(&members)?,
            pmu_version: None,
            selector_bits: Some(bits("event_bits")?),
            counter_width: Some(CounterWidth {
                bits: bits("pmc_bits")?,
                overflow_bit: bits("overflow_bit")?,
            }),
            counters: COUNTERS,
            version: "kpep databases of macOS 26".to_owned(),
            date: String::new(),
            sources: sources(chips),
            licence: "MIT OR Apache-2.0; further names and numbers from sources without a licence".to_owned(),
        })
    }
}

fn is_member(record: &CsvRecord, chips: &ChipTable) -> bool {
    record.field("chip").is_ok_and(|chip| chips.members.contains(&chip))
}

/// The ids of the chips: `hw.cpufamily`, then MIDR_EL1 parts (implementer 0x61).
fn matches(members: &[&CsvRecord]) -> Result<Vec<String>> {
    let (mut families, mut parts) = (Vec::new(), Vec::new());
    for record in members {
        families.push(format!("apple-{:#x}", hex(record.field("hw_cpufamily")?)?));
        for column in ["midr_part_e", "midr_part_p"] {
            let part = record.field(column)?;
            if !part.is_empty() {
                parts.push(format!("arm-0x61-{:#x}", hex(part)?));
            }
        }
    }
    families.sort();
    families.dedup();
    parts.sort();
    families.extend(parts);
    Ok(families)
}

fn sources(chips: &ChipTable) -> Vec<String> {
    let mut sources = vec![format!("{HASH}/{}.rs", chips.key)];
    let databases = [(chips.older, JIEGEC_OLDER), (chips.newer, JIEGEC_NEWER)];
    for (database, commit) in databases.iter().filter(|(database, _)| !database.is_empty()) {
        sources.push(format!("{JIEGEC} {commit} {database}.md"));
    }
    sources.push(XNU.to_owned());
    if LINUX_CHIPS.contains(&chips.id) {
        sources.push(LINUX.to_owned());
    }
    sources
}

/// Events of one chip, by name.
#[derive(Default)]
struct ChipEvents {
    list: Vec<TableEvent>,
}

impl ChipEvents {
    fn find(&mut self, name: &str) -> Option<&mut TableEvent> {
        self.list.iter_mut().find(|event| event.name == name)
    }

    fn add(&mut self, event: TableEvent) -> Result<()> {
        ensure!(self.find(&event.name).is_none(), "{} twice", event.name);
        self.list.push(event);
        Ok(())
    }

    /// An event that only a newer database has. Its counters are nobody's knowledge yet: an unofficial driver
    /// names some, but contradicts Apple's databases elsewhere, so they stay open.
    fn add_newer(&mut self, record: &CsvRecord) -> Result<()> {
        match self.known(record)? {
            true => Ok(()),
            false => self.add(numbered(record, 0)?),
        }
    }

    /// An event that the newer databases have dropped: it still counts, but Apple no longer says so.
    fn add_older(&mut self, record: &CsvRecord, counters: impl Fn(&str) -> u64) -> Result<()> {
        let name = record.field("name")?;
        if self.known(record)? || RENAMED.iter().any(|(old, _)| *old == name) {
            return Ok(());
        }
        let event = numbered(record, counters(name))?;
        self.add(TableEvent { deprecated: true, ..event })
    }

    /// Whether the event is there already.
    ///
    /// No number differs between the databases of one chip.
    fn known(&mut self, record: &CsvRecord) -> Result<bool> {
        let (name, number) = (record.field("name")?, hex(record.field("number_hex")?)?);
        match self.find(name) {
            None => Ok(false),
            Some(event) if u64::from(event.code.select) == number => Ok(true),
            Some(event) => bail!("{name} is {:#x} and {number:#x}", event.code.select),
        }
    }

    fn rename(&mut self) -> Result<()> {
        for (old, new) in RENAMED {
            self.find(new).ok_or_else(|| anyhow!("no {new}"))?.aliases.push(old.to_owned());
        }
        Ok(())
    }
}

/// A row of the newest databases.
fn event(record: &CsvRecord) -> Result<TableEvent> {
    let mask = hex(record.field("counters_mask")?)?;
    let fixed = match record.field("fixed_counter")? {
        "" => None,
        number => Some(1u64 << number.parse::<u32>()?),
    };
    let mut event = match fixed {
        None => numbered(record, mask)?,
        // A fixed event has no number. The mask says PMC0 or PMC1, which are the fixed counters of those
        // numbers.
        Some(fixed) => {
            ensure!(mask == fixed, "{}: counter {fixed:#x}, mask {mask:#x}", record.field("name")?);
            let counters = Some(CounterMask::from_bits(0, fixed));
            TableEvent { name: record.field("name")?.to_owned(), counters, ..TableEvent::default() }
        }
    };
    event.aliases.extend(Some(record.field("alias")?.to_owned()).filter(|alias| !alias.is_empty()));
    Ok(event)
}

fn numbered(record: &CsvRecord, counters: u64) -> Result<TableEvent> {
    let select = u16::try_from(hex(record.field("number_hex")?)?)?;
    ensure!(counters & !COUNTERS.general_bits() == 0, "{counters:#x} are not all counters");
    Ok(TableEvent {
        name: record.field("name")?.to_owned(),
        code: EventCode { select, ..EventCode::default() },
        counters: (counters != 0).then_some(CounterMask::from_bits(counters, 0)),
        ..TableEvent::default()
    })
}

fn generic(chips: &ChipTable, events: &ChipEvents) -> Result<Vec<Generic>> {
    if !LINUX_CHIPS.contains(&chips.id) {
        return Ok(Vec::new());
    }
    let code = |name: &str| events.list.iter().find(|e| e.name == name).map(|e| e.code.select.into());
    let generic = |(name, event): &(&str, &str)| {
        let config = code(event).with_context(|| format!("no {event}"))?;
        Ok(Generic { name: (*name).to_owned(), config, config1: 0 })
    };
    LINUX_GENERIC.iter().map(generic).collect()
}

fn hex(text: &str) -> Result<u64> {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).with_context(|| format!("'{text}'"))
}

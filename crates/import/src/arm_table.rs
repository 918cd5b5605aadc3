//! Arm's tables: events of several sources put together, and what the architecture says of counters.
//!
//! An event of Arm's is its number: no unit mask, no other field. So two names of one number are one event,
//! and one name with two numbers is an error of somebody's.

use std::collections::{BTreeMap, HashMap};

use cyclometer_catalog::table::{Generic, Header, TableEvent};
use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterMask, CounterWidth, EventCode};

use crate::arm::{ArmEvent, ArmFile};
use crate::error::{ImportError, ImportResult};

/// The number of the cycle counter (PMCCNTR_EL0) among the fixed counters.
///
/// # Source
///
/// Arm ARM, PMCNTENSET_EL0: bit 31 is the cycle counter.
pub const CYCLE_COUNTER: u32 = 31;

/// The event that the cycle counter counts.
///
/// # Source
///
/// Arm ARM, CPU_CYCLES.
pub const CPU_CYCLES: u16 = 0x11;

/// The event that carries from an even counter to the odd one behind it; an even counter does not count it.
///
/// # Source
///
/// Arm ARM, CHAIN.
pub const CHAIN: u16 = 0x1e;

/// The odd counters.
const ODD: u64 = 0xaaaa_aaaa_aaaa_aaaa;

/// Event counters of a core whose file gives no number: what nearly all application cores have.
///
/// # Source
///
/// ARM-software/data `pmu/*.json`, `counters`.
pub const USUAL_COUNTERS: u32 = 6;

/// The version of the PMU of a core whose file names none.
const USUAL_VERSION: u32 = 3;

/// The events that every PMUv3 counts.
///
/// # Source
///
/// Arm ARM, "Required events" of PMUv3.
pub const REQUIRED: [(u16, &str); 7] = [
    (0x00, "SW_INCR"),
    (0x03, "L1D_CACHE_REFILL"),
    (0x04, "L1D_CACHE"),
    (0x08, "INST_RETIRED"),
    (0x10, "BR_MIS_PRED"),
    (CPU_CYCLES, "CPU_CYCLES"),
    (0x12, "BR_PRED"),
];

/// Events by number, from however many sources.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ArmEvents {
    by_code: BTreeMap<u16, TableEvent>,
    codes: HashMap<String, u16>,
}

impl ArmEvents {
    /// Adds an event; a second name of a number becomes an alias.
    ///
    /// # Errors
    ///
    /// A name that has another number already.
    pub fn add(&mut self, name: &str, code: u16) -> ImportResult<&mut TableEvent> {
        let known = *self.codes.entry(name.to_ascii_uppercase()).or_insert(code);
        if known != code {
            return Err(ImportError::at(name, format!("is {known:#x} and {code:#x}")));
        }
        let event = self.by_code.entry(code).or_insert_with(|| new_event(name, code));
        let is_new = |other: &String| !other.eq_ignore_ascii_case(name);
        if is_new(&event.name) && event.aliases.iter().all(is_new) {
            event.aliases.push(name.to_owned());
        }
        Ok(event)
    }

    /// Adds a file's events, then the spellings of the core's manual.
    ///
    /// Events without a name are left out. A manual's spelling that is another event's name is left out too:
    /// there the manual and the file disagree, and the file is the later one.
    ///
    /// # Errors
    ///
    /// As [`Self::add`].
    pub fn add_file(&mut self, events: &[ArmEvent]) -> ImportResult<()> {
        for event in events.iter().filter(|event| !event.name.is_empty()) {
            self.add(&event.name, event.code)?.about.clone_from(&event.about);
        }
        let is_name = |event: &&ArmEvent| crate::json::event_name(&event.manual_name).is_ok();
        for event in events.iter().filter(|event| !event.name.is_empty()).filter(is_name) {
            if self.code(&event.manual_name).is_none() {
                self.add(&event.manual_name, event.code)?;
            }
        }
        Ok(())
    }

    /// The number of a name, in any case.
    pub fn code(&self, name: &str) -> Option<u16> {
        self.codes.get(&name.to_ascii_uppercase()).copied()
    }

    /// Whether there is an event of that number.
    pub fn contains(&self, code: u16) -> bool {
        self.by_code.contains_key(&code)
    }

    /// The events, by number, with the counters of [`counters_of`].
    pub fn into_table(self, counters: CounterMask) -> Vec<TableEvent> {
        let events = self.by_code.into_values();
        events
            .map(|event| TableEvent { counters: counters_of(event.code.select, counters), ..event })
            .collect()
    }
}

fn new_event(name: &str, code: u16) -> TableEvent {
    let code = EventCode { select: code, ..EventCode::default() };
    TableEvent { name: name.to_owned(), code, ..TableEvent::default() }
}

/// The counters that may count an event, of those there are; `None` where these are unknown.
pub fn counters_of(code: u16, counters: CounterMask) -> Option<CounterMask> {
    let general = counters.general_bits();
    let own = match code {
        CPU_CYCLES => counters,
        CHAIN => CounterMask::from_bits(general & ODD, 0),
        _ => CounterMask::from_bits(general, 0),
    };
    (!own.is_empty()).then_some(own)
}

/// The kind of PMU that an architecture brings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArmPmu {
    /// Version of the PMU.
    pub version: u32,
    /// Event counters, without the cycle counter.
    pub counters: u32,
    /// Bits of PMEVTYPERn.evtCount.
    pub selector_bits: u32,
    /// Width of an event counter in bits.
    pub counter_width_bits: u32,
}

impl ArmPmu {
    /// The PMU of a core: what its file says, else what its architecture says.
    ///
    /// # Source
    ///
    /// Arm ARM: evtCount has 8 bits in PMUv2, 10 in PMUv3, and 16 from FEAT_PMUv3p1 (Armv8.1) on; event
    /// counters have 64 bits from FEAT_PMUv3p5 (Armv8.5, hence all of Armv9) on and 32 before.
    pub fn of(file: &ArmFile) -> ArmPmu {
        let (major, minor) = architecture(&file.architecture);
        let version = file.pmu_version.unwrap_or(USUAL_VERSION);
        ArmPmu {
            version,
            counters: file.counters.unwrap_or(USUAL_COUNTERS),
            selector_bits: match (version, (major, minor)) {
                (..=2, _) => 8,
                // A file of the architecture itself has the events of all its versions.
                (_, (..=8, 0)) if file.part.is_some() => 10,
                _ => 16,
            },
            counter_width_bits: if (major, minor) >= (8, 5) { 64 } else { 32 },
        }
    }

    /// The header of a core's table, as far as the PMU makes it.
    pub fn header(&self, cpu: &str, title: &str) -> Header {
        Header {
            cpu: cpu.to_owned(),
            title: title.to_owned(),
            family: Family::Arm,
            pmu_version: Some(self.version),
            selector_bits: Some(self.selector_bits),
            counter_width: Some(CounterWidth::carrying(self.counter_width_bits)),
            counters: self.mask(),
            ..Header::default()
        }
    }

    /// Its counters.
    pub fn mask(&self) -> CounterMask {
        let general = CounterMask::first(self.counters, 0).general_bits();
        CounterMask::from_bits(general, 1 << CYCLE_COUNTER)
    }
}

/// Major and minor version in `armv8.2-a`, `armv9.3`; (8, 0) for what is no version.
fn architecture(text: &str) -> (u32, u32) {
    let version = text.trim_start_matches("armv").split('-').next().unwrap_or_default();
    let (major, minor) = version.split_once('.').unwrap_or((version, "0"));
    (major.parse().unwrap_or(8), minor.parse().unwrap_or(0))
}

/// The generic events that a core counts: those whose event it has, the first of several.
///
/// # Source
///
/// Linux `drivers/perf/arm_pmuv3.c`: an event that PMCEID does not report is refused; branches are BR_RETIRED
/// where reported, else PC_WRITE_RETIRED.
pub fn generic_of(map: &[(String, Vec<u16>)], events: &ArmEvents) -> Vec<Generic> {
    let counted = |(name, codes): &(String, Vec<u16>)| {
        let code = *codes.iter().find(|code| events.contains(**code))?;
        Some(Generic { name: name.clone(), config: code.into(), config1: 0 })
    };
    map.iter().filter_map(counted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(code: u16, name: &str, manual_name: &str) -> ArmEvent {
        ArmEvent { code, name: name.to_owned(), manual_name: manual_name.to_owned(), about: String::new() }
    }

    #[test]
    fn a_second_name_of_a_number_is_an_alias_and_a_second_number_of_a_name_an_error() {
        let mut events = ArmEvents::default();
        events.add("BPU_FLUSH_MEM_FAULT", 0x121).unwrap();
        events.add("GPC_FLUSH_MEM_FAULT", 0x121).unwrap();
        events.add("bpu_flush_mem_fault", 0x121).unwrap();
        let error = events.add("BPU_FLUSH_MEM_FAULT", 0x122).unwrap_err();
        assert_eq!(error.to_string(), "BPU_FLUSH_MEM_FAULT: is 0x121 and 0x122");
        let table = events.into_table(CounterMask::EMPTY);
        assert_eq!((table.len(), &table[0].aliases), (1, &vec!["GPC_FLUSH_MEM_FAULT".to_owned()]));
    }

    #[test]
    fn the_manuals_spelling_is_an_alias_unless_it_is_another_events_name() {
        let file =
            [event(0x1b, "INST_SPEC", "INT_SPEC"), event(8, "A", "B"), event(9, "B", ""), event(1, "", "")];
        let mut events = ArmEvents::default();
        events.add_file(&file).unwrap();
        let table = events.into_table(CounterMask::EMPTY);
        let names: Vec<_> = table.iter().map(|e| (e.name.as_str(), e.aliases.len())).collect();
        assert_eq!(names, [("A", 0), ("B", 0), ("INST_SPEC", 1)]);
    }

    #[test]
    fn only_cycles_can_use_the_cycle_counter_and_a_chain_needs_an_odd_one() {
        let mask = CounterMask::from_bits(0x3f, 1 << CYCLE_COUNTER);
        assert_eq!(counters_of(CPU_CYCLES, mask), Some(mask));
        assert_eq!(counters_of(8, mask), Some(CounterMask::from_bits(0x3f, 0)));
        assert_eq!(counters_of(CHAIN, mask), Some(CounterMask::from_bits(0x2a, 0)));
    }

    #[test]
    fn the_architecture_gives_the_widths() {
        let pmu = |architecture: &str, pmu_version| {
            let architecture = architecture.to_owned();
            let file = ArmFile { architecture, pmu_version, part: Some((0x41, 1)), ..ArmFile::default() };
            let pmu = ArmPmu::of(&file);
            (pmu.selector_bits, pmu.counter_width_bits)
        };
        assert_eq!(pmu("armv7-a", Some(2)), (8, 32));
        assert_eq!(pmu("armv8-a", Some(3)), (10, 32));
        assert_eq!(pmu("armv8.2-a", Some(3)), (16, 32));
        assert_eq!(pmu("armv8.4-r", Some(3)), (16, 32));
        assert_eq!(pmu("armv9-a", Some(3)), (16, 64));
        assert_eq!(pmu("armv9.3", Some(3)), (16, 64));
    }

    #[test]
    fn a_generic_event_takes_the_first_event_that_the_core_has() {
        let map = [("branches".to_owned(), vec![0x21, 0xc]), ("LLC-loads".to_owned(), vec![0x36])];
        let mut events = ArmEvents::default();
        events.add("PC_WRITE_RETIRED", 0xc).unwrap();
        let generic = generic_of(&map, &events);
        assert_eq!(generic, [Generic { name: "branches".to_owned(), config: 0xc, config1: 0 }]);
    }
}

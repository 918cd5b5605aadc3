//! Arm's own event files: ARM-software/data (`pmu/*.json`) and the telemetry specification.
//!
//! # Source
//!
//! ARM-software/data `schemas/pmu-schema.json`; telemetry-solution `v1.0.schema.json`.

use serde_json::{Map, Value};

use crate::error::{ImportError, ImportResult};
use crate::json::{self, JsonRecord};

/// One of Arm's files: a core, or the architecture, and its events.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ArmFile {
    /// The core's name (`Neoverse N1`), or the architecture's.
    pub title: String,
    /// Implementer and part number (MIDR_EL1 bits 31 to 24 and 15 to 4); `None` for an architecture.
    pub part: Option<(u32, u32)>,
    /// Version of the architecture: `armv8.2-a`, `armv9.3`.
    pub architecture: String,
    /// Version of the PMU: 2 or 3; `None` where the file names none.
    pub pmu_version: Option<u32>,
    /// Event counters, without the cycle counter; `None` where the file does not say.
    pub counters: Option<u32>,
    /// The day on which the file was made, `2025-01-17`; empty where it has none.
    pub date: String,
    /// Its events.
    pub events: Vec<ArmEvent>,
}

/// One event of Arm's.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ArmEvent {
    /// Its number, PMEVTYPERn_EL0 bits 15 to 0.
    pub code: u16,
    /// Its name; empty where the file has a number and no name.
    pub name: String,
    /// How the core's manual spells it, where that differs; else empty.
    pub manual_name: String,
    /// Arm's own words.
    pub about: String,
}

/// Whether JSON looks like a file of ARM-software/data.
pub fn is_data(file: &Map<String, Value>) -> bool {
    file.get("_type").and_then(Value::as_str) == Some("Events") && file.contains_key("events")
}

/// Whether JSON looks like a telemetry specification.
pub fn is_telemetry(file: &Map<String, Value>) -> bool {
    file.contains_key("product_configuration") && file.contains_key("events")
}

/// Reads a file of ARM-software/data.
///
/// Entries without a number are no PMU events but signals of the core, and left out.
///
/// # Errors
///
/// A text that is no such file; an event whose number is none or has more than 16 bits.
pub fn data(bytes: &[u8]) -> ImportResult<ArmFile> {
    data_value(&json::parse(bytes)?)
}

/// As [`data`], of JSON that was parsed already.
///
/// # Errors
///
/// As [`data`].
pub fn data_value(file: &Value) -> ImportResult<ArmFile> {
    let file = JsonRecord::named("the file", file)?;
    let list = file.value("events").and_then(Value::as_array);
    let list = list.ok_or_else(|| file.error("events", "is no list"))?;
    let events: ImportResult<Vec<_>> = list.iter().enumerate().filter_map(data_event).collect();
    let counters = file.number("counters", 31)? as u32;
    Ok(ArmFile {
        title: file.text("cpu")?.to_owned(),
        part: part_of_cpuid(file.number("cpuid", 0xf_ffff)?),
        architecture: file.text("architecture")?.to_owned(),
        pmu_version: pmu_version(file.text("pmu_architecture")?),
        counters: (counters != 0).then_some(counters),
        date: date(file.text("timestamp")?),
        events: events?,
    })
}

/// `cpuid` is the implementer in bits 19 to 12 and the part in bits 11 to 0.
fn part_of_cpuid(cpuid: u64) -> Option<(u32, u32)> {
    (cpuid != 0).then_some((cpuid as u32 >> 12, cpuid as u32 & 0xfff))
}

fn data_event((position, value): (usize, &Value)) -> Option<ImportResult<ArmEvent>> {
    let fields = value.as_object();
    if fields.is_some_and(|fields| !fields.contains_key("code")) {
        return None;
    }
    Some(match fields.is_some_and(|fields| fields.contains_key("name")) {
        true => JsonRecord::new(value, "name", position).and_then(|record| numbered(&record, record.name())),
        false => {
            let place = format!("entry {}", position + 1);
            JsonRecord::named(&place, value).and_then(|record| numbered(&record, ""))
        }
    })
}

fn numbered(record: &JsonRecord<'_>, name: &str) -> ImportResult<ArmEvent> {
    Ok(ArmEvent {
        code: record.required("code", u16::MAX.into())? as u16,
        name: name.to_owned(),
        manual_name: record.text("trm_name")?.to_owned(),
        about: record.text("description")?.to_owned(),
    })
}

/// Reads a telemetry specification.
///
/// # Errors
///
/// As [`data`].
pub fn telemetry(bytes: &[u8]) -> ImportResult<ArmFile> {
    telemetry_value(&json::parse(bytes)?)
}

/// As [`telemetry`], of JSON that was parsed already.
///
/// # Errors
///
/// As [`data`].
pub fn telemetry_value(file: &Value) -> ImportResult<ArmFile> {
    let missing = |what: &str| ImportError::file(format!("no telemetry file: it has no {what}"));
    let product = file.get("product_configuration").ok_or_else(|| missing("product_configuration"))?;
    let product = JsonRecord::named("product_configuration", product)?;
    let list = file.get("events").and_then(Value::as_object).ok_or_else(|| missing("events by name"))?;
    let events: ImportResult<Vec<_>> = list.iter().map(telemetry_event).collect();
    let part = (product.number("implementer", 0xff)? as u32, product.number("part_num", 0xfff)? as u32);
    let timestamp = file.pointer("/document/timestamp").and_then(Value::as_str).unwrap_or_default();
    Ok(ArmFile {
        title: product.text("product_name")?.to_owned(),
        part: Some(part),
        architecture: product.text("architecture")?.to_owned(),
        pmu_version: pmu_version(product.text("pmu_architecture")?),
        counters: None,
        date: date(timestamp),
        events: events?,
    })
}

fn telemetry_event((name, value): (&String, &Value)) -> ImportResult<ArmEvent> {
    let name = json::event_name(name)?;
    let record = JsonRecord::named(name, value)?;
    if !record.has("code") {
        return Err(record.error("code", "is missing"));
    }
    numbered(&record, name)
}

/// The version in `pmuv3` and `pmu_v3`.
fn pmu_version(text: &str) -> Option<u32> {
    let digits = text.trim_start_matches("pmu").trim_start_matches('_').trim_start_matches('v');
    digits.parse().ok().filter(|version| (1..=3).contains(version))
}

/// The day in `Fri Jan 17 16:05:21 2025` and `08 Aug 10:54:04 2025`; empty where there is none.
fn date(timestamp: &str) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let words: Vec<&str> = timestamp.split_whitespace().collect();
    let month = words.iter().find_map(|word| MONTHS.iter().position(|month| month == word));
    let number = |low: u32, high: u32| {
        words.iter().filter_map(|word| word.parse::<u32>().ok()).find(|n| (low..=high).contains(n))
    };
    match (month, number(1, 31), number(1990, 2200)) {
        (Some(month), Some(day), Some(year)) => format!("{year}-{:02}-{day:02}", month + 1),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: &str = r#"{"_type": "Events", "timestamp": "Fri Jan 17 16:05:21 2025", "cpuid": "0x41d0c",
        "cpu": "Example N1", "architecture": "armv8.2-a", "pmu_architecture": "pmuv3", "counters": 6,
        "events": [
            {"code": 17, "name": "CPU_CYCLES", "description": "cycles"},
            {"code": 27, "name": "INST_SPEC", "trm_name": "INT_SPEC"},
            {"code": 192, "description": "has a number and no name"},
            {"type": "INS", "event_lsb": 8}
        ]}"#;

    #[test]
    fn a_core_and_its_events_are_read() {
        let file = data(DATA.as_bytes()).unwrap();
        assert_eq!((file.title.as_str(), file.part), ("Example N1", Some((0x41, 0xd0c))));
        assert_eq!((file.pmu_version, file.counters, file.date.as_str()), (Some(3), Some(6), "2025-01-17"));
        let events: Vec<_> = file.events.iter().map(|e| (e.code, e.name.as_str())).collect();
        assert_eq!(events, [(0x11, "CPU_CYCLES"), (0x1b, "INST_SPEC"), (0xc0, "")]);
        assert_eq!(file.events[1].manual_name, "INT_SPEC");
    }

    #[test]
    fn a_telemetry_specification_is_read() {
        let text = r#"{"document": {"timestamp": "08 Aug 10:54:04 2025"},
            "product_configuration": {"product_name": "Example V9", "implementer": "0x41", "part_num": "0xd84",
                "architecture": "armv9.2", "pmu_architecture": "pmu_v3"},
            "events": {"STALL_SLOT": {"code": "0x003F", "description": "slots"}}}"#;
        let file = telemetry(text.as_bytes()).unwrap();
        assert_eq!((file.part, file.date.as_str()), (Some((0x41, 0xd84)), "2025-08-08"));
        assert_eq!((file.events[0].code, file.events[0].name.as_str()), (0x3f, "STALL_SLOT"));
    }

    #[test]
    fn errors_name_the_event_and_the_field() {
        let refused = |from: &str, to: &str, expected: &str| {
            let text = DATA.replace(from, to);
            assert_ne!(text, DATA, "{from}");
            assert_eq!(data(text.as_bytes()).unwrap_err().to_string(), expected);
        };
        refused("17,", "65536,", "CPU_CYCLES, code: 0x10000 is more than 0xffff");
        refused("192,", "\"x\",", "entry 3, code: 'x' is no number");
        refused("192,", "null,", "entry 3, code: is missing");
        refused("\"events\"", "\"evts\"", "the file, events: is no list");
        refused("\"CPU_CYCLES\"", "\"CPU CYCLES\"", "entry 1: 'CPU CYCLES' is no name");
        let error = telemetry(br#"{"product_configuration": {}, "events": {"A": {}}}"#).unwrap_err();
        assert_eq!(error.to_string(), "A, code: is missing");
    }
}

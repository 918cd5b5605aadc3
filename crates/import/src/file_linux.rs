//! Linux's pmu-events files in which an event is a number: Arm's and RISC-V's folders.
//!
//! An entry has `EventName` with `EventCode` (a number for the event field) or `ConfigCode` (the whole config
//! word), or `ArchStdEvent`, the name of an event that the architecture defines. Entries that have neither
//! are metrics.
//!
//! # Source
//!
//! Linux `tools/perf/pmu-events/jevents.py`.

use serde_json::Value;

use crate::error::{ImportError, ImportResult};
use crate::json::{self, JsonRecord};

/// The most bits of an event number: RISC-V's `event` field is config bits 0 to 55.
///
/// # Source
///
/// Linux `drivers/perf/riscv_pmu_sbi.c`.
const CODE: u64 = (1 << 56) - 1;

/// One event of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinuxEvent {
    /// Its name.
    pub name: String,
    /// Its number.
    pub number: Number,
    /// Names of errata.
    pub errata: Vec<String>,
    /// The file's words.
    pub about: String,
}

/// The meaning of an event's number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Number {
    /// For the event field.
    Code(u64),
    /// The whole config word.
    Config(u64),
}

impl Number {
    /// The config word of `perf_event_attr`, where the event field starts at bit 0.
    pub fn config(self) -> u64 {
        match self {
            Number::Code(word) | Number::Config(word) => word,
        }
    }
}

/// The meaning of the architecture's names.
pub type Standard<'a> = &'a dyn Fn(&str) -> Option<Number>;

/// Reads a file.
///
/// # Errors
///
/// A text that is no list of objects; an event without a number; a name that the architecture does not have.
pub fn events(bytes: &[u8], standard: Standard<'_>) -> ImportResult<Vec<LinuxEvent>> {
    events_of(&json::parse(bytes)?, standard)
}

/// As [`events`], of JSON that was parsed already.
///
/// # Errors
///
/// As [`events`].
pub fn events_of(file: &Value, standard: Standard<'_>) -> ImportResult<Vec<LinuxEvent>> {
    let list = file.as_array().ok_or_else(|| ImportError::file("no list of events"))?;
    list.iter()
        .enumerate()
        .filter_map(|(position, value)| entry(position, value, standard).transpose())
        .collect()
}

fn entry(position: usize, value: &Value, standard: Standard<'_>) -> ImportResult<Option<LinuxEvent>> {
    let place = format!("entry {}", position + 1);
    let outer = JsonRecord::named(&place, value)?;
    // A metric can be made from a metric of the architecture, as `ArchStdEvent` too.
    let is_metric = outer.has("MetricExpr") || outer.has("MetricName");
    let (has_name, is_standard) = (outer.has("EventName"), outer.has("ArchStdEvent"));
    if is_metric && !has_name {
        return Ok(None);
    }
    let key = if is_standard && !has_name { "ArchStdEvent" } else { "EventName" };
    let record = JsonRecord::new(value, key, position)?;
    let Some(number) = number(&record, standard, is_standard)? else { return Ok(None) };
    let about = [record.text("PublicDescription")?, record.text("BriefDescription")?];
    Ok(Some(LinuxEvent {
        name: record.name().to_owned(),
        number,
        errata: errata(record.text("Errata")?),
        about: about.into_iter().find(|text| !text.is_empty()).unwrap_or_default().to_owned(),
    }))
}

fn number(
    record: &JsonRecord<'_>,
    standard: Standard<'_>,
    is_standard: bool,
) -> ImportResult<Option<Number>> {
    if record.has("ConfigCode") {
        return Ok(Some(Number::Config(record.required("ConfigCode", u64::MAX)?)));
    }
    if record.has("EventCode") {
        return Ok(Some(Number::Code(record.required("EventCode", CODE)?)));
    }
    if !is_standard {
        return Err(record.error("EventCode", "is missing"));
    }
    let name = record.text("ArchStdEvent")?;
    if STANDARD_METRICS.contains(&name) {
        return Ok(None);
    }
    let unknown = || record.error("ArchStdEvent", "the architecture has no event of that name");
    standard(name).map(Some).ok_or_else(unknown)
}

/// Names under `ArchStdEvent` that are metrics.
///
/// # Source
///
/// Linux `tools/perf/pmu-events/arch/arm64/sbsa.json`.
const STANDARD_METRICS: [&str; 4] = ["frontend_bound", "backend_bound", "bad_speculation", "retiring"];

fn errata(list: &str) -> Vec<String> {
    let names = list.split([',', ';']).map(str::trim).filter(|name| json::event_name(name).is_ok());
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> ImportResult<Vec<LinuxEvent>> {
        let standard = |name: &str| name.eq_ignore_ascii_case("CPU_CYCLES").then_some(Number::Code(0x11));
        events(text.as_bytes(), &standard)
    }

    #[test]
    fn numbers_words_and_names_of_the_architecture_are_read() {
        let events = read(
            r#"[{"ArchStdEvent": "cpu_cycles", "Errata": "E1, E2"},
                {"EventName": "A", "EventCode": "0x10002", "BriefDescription": "a"},
                {"EventName": "FW", "ConfigCode": "0x8000000000000005"},
                {"ArchStdEvent": "retiring"},
                {"ArchStdEvent": "backend_bound", "MetricExpr": "1"},
                {"MetricName": "M", "MetricExpr": "A / B"}]"#,
        );
        let events = events.unwrap();
        let numbers: Vec<_> = events.iter().map(|e| (e.name.as_str(), e.number)).collect();
        let word = Number::Config(0x8000_0000_0000_0005);
        assert_eq!(numbers, [("cpu_cycles", Number::Code(0x11)), ("A", Number::Code(0x10002)), ("FW", word)]);
        assert_eq!(events[0].errata, ["E1", "E2"]);
        assert_eq!(events[1].about, "a");
    }

    #[test]
    fn what_has_no_number_is_refused_with_its_name() {
        let refused = |text: &str, expected: &str| assert_eq!(read(text).unwrap_err().to_string(), expected);
        refused("{}", "no list of events");
        refused("[1]", "entry 1: is no object");
        refused("[{}]", "entry 1: has no EventName");
        refused(r#"[{"EventName": "A"}]"#, "A, EventCode: is missing");
        refused(r#"[{"EventName": "A", "EventCode": null}]"#, "A, EventCode: is missing");
        refused(r#"[{"EventName": "A", "ConfigCode": ""}]"#, "A, ConfigCode: is missing");
        refused(
            r#"[{"ArchStdEvent": "NOPE"}]"#,
            "NOPE, ArchStdEvent: the architecture has no event of that name",
        );
        refused(
            r#"[{"EventName": "A", "EventCode": "0x100000000000000"}]"#,
            "A, EventCode: 0x100000000000000 is more than 0xffffffffffffff",
        );
    }
}

//! Intel's event files: those of intel/perfmon, and what Linux makes of them.
//!
//! # Source
//!
//! intel/perfmon, `README.md` (fields) and the files themselves; Linux `tools/perf/pmu-events/jevents.py` for
//! the same data as arrays with a field `Unit`.

mod codes;
mod counters;
pub mod map;

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use cyclometer_catalog::table::TableEvent;
use cyclometer_core::EventCode;
use serde_json::Value;

use crate::error::{ImportError, ImportResult};
use crate::json::{self, JsonRecord};
use crate::words;

/// An event file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PerfmonFile {
    /// The vendor's version (`1.40`); empty where the file has none.
    pub version: String,
    /// The vendor's date as `2026-05-27`; empty where the file has none.
    pub date: String,
    /// The core events, as they stand.
    pub events: Vec<TableEvent>,
}

/// Reads the core events of a file, of whatever core type.
///
/// # Errors
///
/// See [`file()`].
pub fn core_events(bytes: &[u8]) -> ImportResult<Vec<TableEvent>> {
    Ok(file(bytes, None)?.events)
}

/// Reads a file: `{"Header": {…}, "Events": […]}` as Intel has it, or the bare array as Linux has it.
///
/// `device` keeps one core type of a file with several, by the kernel's name of its PMU (`cpu_atom`); without
/// it every core type is read. Metrics, and events of other units, are left out.
///
/// # Errors
///
/// A text that is no such file, a field that is no number or does not fit, lists that do not pair, an event
/// without a name or with one that another has, without a select (fixed events of Linux need none) or without
/// counters (an array of Linux in which no event has them needs none): with the event and the field.
pub fn file(bytes: &[u8], device: Option<&str>) -> ImportResult<PerfmonFile> {
    file_value(&json::parse(bytes)?, device)
}

/// The same for a file that is JSON already.
///
/// # Errors
///
/// See [`file()`].
pub fn file_value(root: &Value, device: Option<&str>) -> ImportResult<PerfmonFile> {
    let list = list(root)?;
    let header = root.get("Header");
    let fact =
        |key: &str| header.and_then(|header| header.get(key)).and_then(Value::as_str).unwrap_or_default();
    Ok(PerfmonFile {
        version: words::word(fact("Version")),
        date: words::date(fact("DatePublished")),
        events: events(list, Form::of(root, list), device)?,
    })
}

fn list(root: &Value) -> ImportResult<&[Value]> {
    let list = if root.is_array() { Some(root) } else { root.get("Events") };
    let list = list.and_then(Value::as_array);
    list.map(Vec::as_slice).ok_or_else(|| ImportError::file("there is no list of events ('Events')"))
}

/// Whose form of the data it is.
///
/// Linux leaves out what is 0, so that fixed events have no select, and has both unit masks in one number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// Intel's own: every event has all fields.
    Intel,
    /// An array of Linux.
    Linux,
    /// An array of Linux of a time when its events had no counters.
    LinuxUncounted,
}

impl Form {
    fn of(root: &Value, list: &[Value]) -> Form {
        let counted = |entry: &Value| entry.get("EventName").is_some() && entry.get("Counter").is_some();
        match (root.is_array(), list.iter().any(counted)) {
            (false, _) => Form::Intel,
            (true, true) => Form::Linux,
            (true, false) => Form::LinuxUncounted,
        }
    }
}

fn events(list: &[Value], form: Form, device: Option<&str>) -> ImportResult<Vec<TableEvent>> {
    let (mut events, mut names) = (Vec::new(), HashSet::new());
    for (position, value) in list.iter().enumerate() {
        if value.get("EventName").is_none() && value.get("MetricName").is_some() {
            continue;
        }
        let record = JsonRecord::new(value, "EventName", position)?;
        if !wanted(record.text("Unit")?, device) {
            continue;
        }
        if !names.insert(record.name().to_ascii_lowercase()) {
            return Err(record.error("EventName", "is there twice"));
        }
        events.push(event(&record, form)?);
    }
    Ok(events)
}

/// Whether an event belongs to the core, and to the core type that is asked for.
fn wanted(unit: &str, device: Option<&str>) -> bool {
    let core = matches!(unit, "" | "core" | "cpu" | "cpu_core" | "cpu_atom" | "cpu_lowpower");
    let hybrid = unit.starts_with("cpu_");
    core && device.is_none_or(|device| !hybrid || unit == device)
}

fn event(record: &JsonRecord<'_>, form: Form) -> ImportResult<TableEvent> {
    let codes = codes::codes(record, form)?;
    Ok(TableEvent {
        name: record.name().to_owned(),
        config: kernels_config(record.name(), &codes.first.code),
        code: codes.first.code,
        counters: codes.first.counters,
        also: codes.also,
        deprecated: record.flag("Deprecated")?,
        taken_alone: record.flag("TakenAlone")?,
        errata: errata(record.text("Errata")?),
        about: words::line(record.text("BriefDescription")?),
        ..TableEvent::default()
    })
}

/// The config with which perf asks for an event that its code does not name: `INST_RETIRED.PREC_DIST` on a
/// fixed counter has the pseudo code of `INST_RETIRED.ANY`.
///
/// perf also has configs of its own for `CPU_CLK_UNHALTED.REF` and `INST_RETIRED.ANY_P`, by name only. Where
/// the vendor has a code for them on general counters, that code is the event.
///
/// # Source
///
/// Linux `tools/perf/pmu-events/jevents.py`, `fixed` by name; `arch/x86/events/intel/core.c`,
/// pseudo-encodings.
fn kernels_config(name: &str, code: &EventCode) -> Option<u64> {
    let is_precise = name.eq_ignore_ascii_case("INST_RETIRED.PREC_DIST");
    (is_precise && code.select == 0).then_some(0x100)
}

/// The names in a list of errata; `null` and `0` are none.
fn errata(list: &str) -> Vec<String> {
    let names = list.split(|c: char| c == ',' || c.is_whitespace()).map(words::word);
    names.filter(|name| !name.is_empty() && name != "null" && name != "0").collect()
}

//! AMD's events as Linux has them.
//!
//! # Source
//!
//! Linux `tools/perf/pmu-events/arch/x86/amdzen*`; counters: `arch/x86/events/amd/core.c`,
//! `amd_core_pmu_init`.

use std::collections::HashSet;

use cyclometer_catalog::table::TableEvent;
use cyclometer_core::{CounterMask, EventCode};
use serde_json::Value;

use crate::error::{ImportError, ImportResult};
use crate::json::{self, JsonRecord};
use crate::words;

/// The six counters of every Zen core.
pub const COUNTERS: CounterMask = CounterMask::from_bits(0x3f, 0);

/// Counters of events that can count more than 15 in a cycle: an even one, whose odd neighbour is merged.
const MERGED: CounterMask = CounterMask::from_bits(0x15, 0);

/// Event select of the floating-point operations, which need a merged pair of counters.
///
/// # Source
///
/// AMD PPR, "Large Increment per Cycle Events"; Linux `arch/x86/events/amd/core.c`, `amd_is_pair_event_code`.
const LARGE_INCREMENT: u16 = 0x003;

/// Reads the core events of a file. Metrics, and events of the L3, the data fabric or the memory, are left
/// out.
///
/// # Errors
///
/// A text that is no such file, a field that is no number or does not fit, an event without a name or with
/// one that another has: with the event and the field.
pub fn core_events(bytes: &[u8]) -> ImportResult<Vec<TableEvent>> {
    let root = json::parse(bytes)?;
    let list = root.as_array().ok_or_else(|| ImportError::file("there is no list of events"))?;
    let (mut events, mut names) = (Vec::new(), HashSet::new());
    for (position, value) in list.iter().enumerate() {
        if other(value) {
            continue;
        }
        let record = JsonRecord::new(value, "EventName", position)?;
        if !names.insert(record.name().to_ascii_lowercase()) {
            return Err(record.error("EventName", "is there twice"));
        }
        events.push(event(&record)?);
    }
    Ok(events)
}

/// Whether an entry is a metric, or an event of another unit than the core.
fn other(value: &Value) -> bool {
    let metric = value.get("EventName").is_none() && value.get("MetricName").is_some();
    let unit = value.get("Unit").and_then(Value::as_str).unwrap_or_default();
    metric || !matches!(unit, "" | "core" | "cpu")
}

fn event(record: &JsonRecord<'_>) -> ImportResult<TableEvent> {
    let code = EventCode {
        select: record.required("EventCode", 0xfff)? as u16,
        umask: record.number("UMask", 0xff)? as u8,
        cmask: record.number("CounterMask", 0xff)? as u8,
        inv: record.flag("Invert")?,
        edge: record.flag("EdgeDetect")?,
        ..EventCode::default()
    };
    Ok(TableEvent {
        name: record.name().to_owned(),
        code,
        counters: Some(if code.select == LARGE_INCREMENT { MERGED } else { COUNTERS }),
        deprecated: record.flag("Deprecated")?,
        about: words::line(record.text("BriefDescription")?),
        ..TableEvent::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Vec<TableEvent> {
        core_events(json.as_bytes()).unwrap()
    }

    #[test]
    fn an_event_code_has_twelve_bits() {
        let events = read(
            r#"[{"EventName": "op_cache_hit_miss.op_cache_hit", "EventCode": "0x28f", "UMask": "0x03"}]"#,
        );
        assert_eq!((events[0].code.select, events[0].code.umask), (0x28f, 3));
        assert_eq!(events[0].counters, Some(COUNTERS));
        let error = core_events(br#"[{"EventName": "a", "EventCode": "0x1000"}]"#).unwrap_err();
        assert_eq!(error.to_string(), "a, EventCode: 0x1000 is more than 0xfff");
    }

    #[test]
    fn events_of_other_units_and_metrics_are_left_out() {
        let events = read(
            r#"[{"EventName": "l3", "EventCode": "0x4", "Unit": "L3PMC"},
                {"EventName": "df", "EventCode": "0x7", "Unit": "DFPMC"},
                {"EventName": "umc", "EventCode": "0x7", "Unit": "UMCPMC"},
                {"MetricName": "ipc", "MetricExpr": "a / b"},
                {"EventName": "ex_ret_instr", "EventCode": "0xc0", "BriefDescription": "Retired."}]"#,
        );
        assert_eq!(events.len(), 1);
        assert_eq!((events[0].name.as_str(), events[0].about.as_str()), ("ex_ret_instr", "Retired."));
    }

    #[test]
    fn events_with_large_increments_need_an_even_counter() {
        let events =
            read(r#"[{"EventName": "fp_ret_sse_avx_ops.all", "EventCode": "0x03", "UMask": "0xff"}]"#);
        assert_eq!(events[0].counters.unwrap().general_bits(), 0b01_0101);
    }

    #[test]
    fn cmask_inversion_edge_and_deprecation_are_kept() {
        let events = read(
            r#"[{"EventName": "a", "EventCode": "0x0", "CounterMask": "2", "Invert": "1", "EdgeDetect": "1",
                 "Deprecated": "1"}]"#,
        );
        let code = events[0].code;
        assert_eq!((code.cmask, code.inv, code.edge, events[0].deprecated), (2, true, true, true));
    }

    #[test]
    fn an_event_without_a_code_or_with_a_flag_that_is_none_is_refused() {
        let refused = |fields: &str, expected: &str| {
            let json = format!(r#"[{{"EventName": "a", {fields}}}]"#);
            assert_eq!(core_events(json.as_bytes()).unwrap_err().to_string(), expected);
        };
        refused(r#""UMask": "0x1""#, "a, EventCode: is missing");
        refused(r#""EventCode": null"#, "a, EventCode: is missing");
        refused(r#""EventCode": "0x1", "Invert": "7""#, "a, Invert: 0x7 is neither 0 nor 1");
    }

    #[test]
    fn what_is_no_list_or_has_a_name_twice_is_refused() {
        let refused = |json: &str| core_events(json.as_bytes()).unwrap_err().to_string();
        assert_eq!(refused("{}"), "there is no list of events");
        assert_eq!(
            refused(r#"[{"EventName": "a", "EventCode": 0}, {"EventName": "A"}]"#),
            "A, EventName: is there twice"
        );
        assert_eq!(refused(r#"[{"EventCode": "0x1"}]"#), "entry 1: has no EventName");
    }
}

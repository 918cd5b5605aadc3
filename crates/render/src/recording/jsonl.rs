//! JSON lines by `schemas/window-1.json`: an object for each window.

use std::fmt::Write as _;
use std::io::{Read, Write};

use cyclometer_toolkit::core::Count;
use cyclometer_toolkit::core::window::WindowRow;
use cyclometer_toolkit::recording::RecordedEvent;
use serde_json::{Map, Value, json};

use super::{RecordedRows, RecordedValue, address, boundary, column_names, half_width, reason, value};
use crate::stream::Streamed;

/// An object for each window, on a line of its own.
pub fn write<R: Read>(rows: &mut RecordedRows<R>, out: &mut (dyn Write + Send)) -> Streamed<()> {
    let names = column_names(rows.header());
    let mut line = String::new();
    while let Some(row) = rows.next_row() {
        line.clear();
        // Writing to a string does not fail.
        let _ = writeln!(line, "{}", object(rows, &row, &names));
        out.write_all(line.as_bytes())?;
    }
    Ok(())
}

fn object<R: Read>(rows: &RecordedRows<R>, row: &WindowRow, names: &[String]) -> Value {
    let counts = row.counts.iter().zip(&rows.header().events).zip(names);
    let counts: Map<String, Value> =
        counts.map(|((count, event), name)| (name.clone(), count_object(count, event))).collect();
    json!({
        "pid": row.thread.map(|thread| thread.pid),
        "tid": row.thread.map(|thread| thread.tid),
        "thread": rows.thread_name(row),
        "cpu": row.cpu,
        "time_ns": row.time_ns,
        "address": address(row),
        "cause": row.cause.word(),
        "boundary": boundary(row),
        "enabled_ns": row.enabled_ns,
        "running_ns": row.running_ns,
        "switches": row.flags.switches,
        "migrations": row.flags.migrations,
        "throttled": row.flags.throttled,
        "lost_before": row.flags.lost_before,
        "counts": counts,
    })
}

fn count_object(count: &Count, event: &RecordedEvent) -> Value {
    let mut object = json!({ "count": count.verdict().word(), "value": value(count, event).map(number) });
    if let Some(half_width) = half_width(count, event) {
        object["half_width"] = number(half_width);
    }
    if let Some(reason) = reason(count) {
        object["reason"] = reason.into();
    }
    object
}

fn number(value: RecordedValue) -> Value {
    match value {
        RecordedValue::Whole(number) => number.into(),
        RecordedValue::Real(number) => number.into(),
    }
}

//! CSV: a row for each window.

use std::fmt::{self, Write as _};
use std::io::{Read, Write};

use cyclometer_toolkit::core::window::WindowRow;

use super::{RecordedRows, RecordedValue, address, boundary, column_names, half_width, reason, value};
use crate::csv::quoted;
use crate::stream::Streamed;
use crate::text::clean;

/// The columns before those of the events.
const COLUMNS: &str = "pid,tid,thread,cpu,time_ns,address,cause,boundary,enabled_ns,running_ns,switches,\
                       migrations,throttled,lost_before";

/// A header and a row for each window.
///
/// # Source
///
/// RFC 4180, as in [`crate::csv`].
pub fn write<R: Read>(rows: &mut RecordedRows<R>, out: &mut (dyn Write + Send)) -> Streamed<()> {
    write!(out, "{COLUMNS}")?;
    for name in column_names(rows.header()) {
        for column in ["", ".count", ".half_width", ".reason"] {
            write!(out, ",{}", quoted(&clean(&format!("{name}{column}"))))?;
        }
    }
    out.write_all(b"\r\n")?;
    let mut line = String::new();
    while let Some(row) = rows.next_row() {
        line.clear();
        line_of(rows, &row, &mut line);
        out.write_all(line.as_bytes())?;
    }
    Ok(())
}

fn line_of<R: Read>(rows: &RecordedRows<R>, row: &WindowRow, line: &mut String) {
    let name = rows.thread_name(row).map(|name| quoted(&clean(name)));
    let flags = row.flags;
    push(line, row.thread.map(|thread| thread.pid));
    push(line, row.thread.map(|thread| thread.tid));
    push(line, name);
    push(line, row.cpu);
    push(line, row.time_ns);
    push(line, address(row));
    push(line, Some(row.cause.word()));
    push(line, boundary(row));
    push(line, row.enabled_ns);
    push(line, row.running_ns);
    push(line, flags.switches);
    push(line, flags.migrations);
    push(line, Some(u8::from(flags.throttled)));
    push(line, Some(flags.lost_before));
    for (count, event) in row.counts.iter().zip(&rows.header().events) {
        push(line, value(count, event));
        push(line, Some(count.verdict().word()));
        push(line, half_width(count, event));
        push(line, Some(quoted(&clean(&reason(count).unwrap_or_default()))));
    }
    line.pop();
    line.push_str("\r\n");
}

/// Appends a field and a comma; the field is empty if there is no value.
fn push(line: &mut String, field: Option<impl fmt::Display>) {
    if let Some(field) = field {
        // Writing to a string does not fail.
        let _ = write!(line, "{field}");
    }
    line.push(',');
}

impl fmt::Display for RecordedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordedValue::Whole(number) => write!(f, "{number}"),
            RecordedValue::Real(number) => write!(f, "{number}"),
        }
    }
}

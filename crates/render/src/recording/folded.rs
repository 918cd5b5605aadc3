//! Folded stacks: `command;thread;file;function count`, a line for each window in the order of the recording.
//!
//! # Source
//!
//! Brendan Gregg, `stackcollapse-perf.pl`: frames between semicolons, and the weight behind the last blank.
//! `flamegraph.pl`, inferno and speedscope add up equal stacks.

use std::fmt::Write as _;
use std::io::{Read, Write};

use cyclometer_toolkit::core::window::WindowCause;

use super::{RecordedRows, command_name, leader};
use crate::stream::Streamed;
use crate::text::clean;

/// A line for each window whose leader was counted.
pub fn write<R: Read>(rows: &mut RecordedRows<R>, out: &mut (dyn Write + Send)) -> Streamed<()> {
    let leader = leader(rows.header())?;
    let command = frame(&command_name(rows.header()));
    let mut line = String::new();
    while let Some(row) = rows.next_row() {
        let Some(weight) = row.counts[leader].value() else {
            rows.omitted += 1;
            continue;
        };
        rows.bare.add(&row, &row.counts[leader..=leader]);
        let thread = frame(&super::thread_label(rows, &row));
        let place = match row.cause {
            WindowCause::Unassigned => "[in no window]".to_owned(),
            _ => rows.place(&row).iter().map(|name| frame(name)).collect::<Vec<_>>().join(";"),
        };
        line.clear();
        // Writing to a string does not fail.
        let _ = writeln!(line, "{command};{thread};{place} {weight}");
        out.write_all(line.as_bytes())?;
    }
    Ok(())
}

/// A frame that has no semicolon.
fn frame(text: &str) -> String {
    clean(text).replace(';', ":")
}

//! Folded stacks: `command;thread;address count`, a line for each window in the order of the recording.
//!
//! # Source
//!
//! Brendan Gregg, `stackcollapse-perf.pl`: frames between semicolons, and the weight behind the last blank.
//! `flamegraph.pl`, inferno and speedscope add up equal stacks.

use std::io::{Read, Write};

use cyclometer_toolkit::core::window::{WindowCause, WindowRow};

use super::{RecordedRows, address, command_name, leader};
use crate::export::Streamed;
use crate::output::clean;

/// A line for each window whose leader was counted.
pub fn write<R: Read>(rows: &mut RecordedRows<R>, out: &mut (dyn Write + Send)) -> Streamed<()> {
    let leader = leader(rows.header())?;
    let command = frame(&command_name(rows.header()));
    while let Some(row) = rows.next_row() {
        let Some(weight) = row.counts[leader].value() else {
            rows.omitted += 1;
            continue;
        };
        rows.bare.add(&row, &row.counts[leader..=leader]);
        let thread = frame(&super::thread_label(rows, &row));
        writeln!(out, "{command};{thread};{} {weight}", place(&row))?;
    }
    Ok(())
}

fn place(row: &WindowRow) -> String {
    match row.cause {
        WindowCause::Unassigned => "[in no window]".to_owned(),
        _ => address(row).unwrap_or_else(|| "[unknown]".to_owned()),
    }
}

/// A frame that has no semicolon.
fn frame(text: &str) -> String {
    clean(text).replace(';', ":")
}

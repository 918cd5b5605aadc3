//! Requests for windows and their rows, as lines of the protocol.
//!
//! ```text
//! w PERIOD MOST EVENT...                     from the tool: instructions of a window, most rows, events
//! windows                                    the answer
//! window PID TID END ADDRESS TIME LOST COUNT...    a row: a count for each event, - for an unknown one
//! lost-windows NUMBER                        rows that were lost since the line before of this kind
//! ```
//!
//! Rows are never inside a report ([`super::protocol`]).

use std::num::NonZeroU64;

use crate::ExecutionEvent;

/// The first byte of a request.
pub const WINDOWS: u8 = b'w';

/// The answer to a request.
pub const ACCEPTED: &str = "windows";

/// The first words of rows, and of a number of lost rows.
const ROW: &str = "window ";
const LOST: &str = "lost-windows ";

/// A text for an unknown number.
const UNKNOWN: &str = "-";

/// Windows to make of the executions of each thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WindowRequest {
    /// Instructions of a window.
    pub period: NonZeroU64,
    /// Most rows that the tracer keeps.
    pub most_rows: usize,
    /// The events whose counts are in rows.
    pub events: Vec<ExecutionEvent>,
}

/// The end of a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TracedWindowEnd {
    /// After its instructions.
    Period,
    /// The thread executes another program.
    Exec,
    /// The thread ends, or is detached.
    End,
}

impl TracedWindowEnd {
    const ALL: [TracedWindowEnd; 3] = [TracedWindowEnd::Period, TracedWindowEnd::Exec, TracedWindowEnd::End];

    fn word(self) -> &'static str {
        match self {
            TracedWindowEnd::Period => "period",
            TracedWindowEnd::Exec => "exec",
            TracedWindowEnd::End => "end",
        }
    }
}

/// A window of a thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TracedWindow {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Why it ended.
    pub end: TracedWindowEnd,
    /// The address of the program's next instruction at its end.
    pub address: Option<u64>,
    /// Its end, in ns since the request.
    pub time_ns: u64,
    /// Rows of the thread that were lost immediately before.
    pub lost_before: u64,
    /// The count of each requested event; `None` where it is unknown.
    pub counts: Vec<Option<u64>>,
}

/// A line about windows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WindowLine {
    /// A row.
    Row(TracedWindow),
    /// Rows that were lost.
    Lost(u64),
}

impl WindowRequest {
    /// The line of the request, with its end.
    pub fn line(&self) -> String {
        let head = format!("{} {} {}", char::from(WINDOWS), self.period, self.most_rows);
        let events = self.events.iter().map(|event| format!(" {event}"));
        events.fold(head, |line, event| line + &event) + "\n"
    }

    /// Reads the rest of the line, after its first byte.
    pub(crate) fn read(rest: &str) -> Option<WindowRequest> {
        let mut words = rest.split_ascii_whitespace();
        let (period, most_rows) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let events = words.map(ExecutionEvent::from_name).collect::<Option<Vec<_>>>()?;
        Some(WindowRequest { period, most_rows, events })
    }
}

impl WindowLine {
    /// The line, with its end.
    pub(crate) fn text(&self) -> String {
        match self {
            WindowLine::Lost(rows) => format!("{LOST}{rows}\n"),
            WindowLine::Row(row) => {
                let TracedWindow { pid, tid, end, address, time_ns, lost_before, counts } = row;
                let address = address.map_or(UNKNOWN.to_owned(), |address| format!("{address:x}"));
                let head = format!("{ROW}{pid} {tid} {} {address} {time_ns} {lost_before}", end.word());
                let count = |count: &Option<u64>| count.map_or(UNKNOWN.to_owned(), |count| count.to_string());
                counts.iter().map(count).fold(head, |line, count| line + " " + &count) + "\n"
            }
        }
    }

    /// Whether a line is about windows.
    pub fn is_one(line: &str) -> bool {
        line.starts_with(ROW) || line.starts_with(LOST)
    }

    /// Reads a line without its end; `None` where it is not about windows, or damaged.
    pub fn read(line: &str) -> Option<WindowLine> {
        if let Some(rows) = line.strip_prefix(LOST) {
            return Some(WindowLine::Lost(rows.parse().ok()?));
        }
        let mut words = line.strip_prefix(ROW)?.split(' ');
        let mut word = || words.next();
        let (pid, tid) = (word()?.parse().ok()?, word()?.parse().ok()?);
        let end = word()?;
        let end = TracedWindowEnd::ALL.into_iter().find(|known| known.word() == end)?;
        let address = match word()? {
            UNKNOWN => None,
            address => Some(u64::from_str_radix(address, 16).ok()?),
        };
        let (time_ns, lost_before) = (word()?.parse().ok()?, word()?.parse().ok()?);
        let count = |word: &str| match word {
            UNKNOWN => Some(None),
            count => count.parse().ok().map(Some),
        };
        let counts = words.map(count).collect::<Option<Vec<_>>>()?;
        Some(WindowLine::Row(TracedWindow { pid, tid, end, address, time_ns, lost_before, counts }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lines_are_read_as_they_were_written(
            (pid, tid, end, address) in (any::<u32>(), any::<u32>(), 0usize..3, any::<Option<u64>>()),
            (time_ns, lost_before) in (any::<u64>(), any::<u64>()),
            counts in prop::collection::vec(any::<Option<u64>>(), 0..4),
        ) {
            let end = TracedWindowEnd::ALL[end];
            let row = TracedWindow { pid, tid, end, address, time_ns, lost_before, counts };
            for line in [WindowLine::Row(row), WindowLine::Lost(time_ns)] {
                let text = line.text();
                prop_assert!(WindowLine::is_one(&text));
                prop_assert_eq!(WindowLine::read(text.strip_suffix('\n').unwrap()), Some(line));
            }
        }

        #[test]
        fn requests_are_read_as_they_were_written(
            period: NonZeroU64, most_rows: usize, events in 0..ExecutionEvent::ALL.len(),
        ) {
            let request = WindowRequest {
                period,
                most_rows,
                events: ExecutionEvent::ALL[..events].to_vec(),
            };
            prop_assert_eq!(WindowRequest::read(&request.line()[1..]), Some(request));
        }
    }

    #[test]
    fn damaged_lines_are_no_rows() {
        for line in ["window 1 2 period - 3", "window 1 2 never - 3 4", "lost-windows x", "windows", ""] {
            assert_eq!(WindowLine::read(line), None, "{line}");
        }
        for line in [" 1 5 cycles", " 0 5 loads", " 1 x loads", " 1", ""] {
            assert_eq!(WindowRequest::read(line), None, "{line}");
        }
    }
}

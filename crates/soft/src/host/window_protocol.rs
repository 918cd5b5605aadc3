//! Requests for windows and their rows, as lines of the protocol.
//!
//! ```text
//! w PERIOD MOST EVENT...                     from the tool: instructions of a window, most rows, events
//! windows | windows-refused REASON           the answer
//! window PID TID END ADDRESS TIME LOST COUNT...    a row: a count for each event, - for an unknown one
//! lost-windows NUMBER                        rows that were lost since the line before of this kind
//! window-name PID TID NAME                   the name of a thread, for its next rows
//! window-memory PID                          the executable memory of a process, which follows as a whole
//! window-mapping PID START LEN OFFSET FILE   an executable mapping; START, LEN, OFFSET in hexadecimal
//! ```
//!
//! Lines about windows are never inside a report ([`super::protocol`]). Names of threads and files are as
//! [`escaped_path`](super::escaped_path) writes them.

use std::num::NonZeroU64;

use crate::ExecutionEvent;

/// The first byte of a request.
pub const WINDOWS: u8 = b'w';

/// The answers to a request.
const ACCEPTED: &str = "windows";
const REFUSED: &str = "windows-refused ";

/// Most bytes of a request, without its end.
const MOST_REQUEST_BYTES: usize = 4096;

/// The first words of rows, and of a number of lost rows.
const ROW: &str = "window ";
const LOST: &str = "lost-windows ";

/// The first words of what rows are explained by: a thread's name, and the memory of a process.
const NAME: &str = "window-name ";
const MEMORY: &str = "window-memory ";
const MAPPING: &str = "window-mapping ";

/// A text for an unknown number.
const UNKNOWN: &str = "-";

/// Windows to make of the executions of each thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WindowRequest {
    /// Instructions of a window.
    pub period: NonZeroU64,
    /// Most lines that the tracer keeps: rows, and what explains them.
    pub most_rows: usize,
    /// The events whose counts are in rows.
    pub events: Vec<ExecutionEvent>,
}

/// Why a request is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowRefusal {
    /// Its line has more bytes than the tracer takes.
    TooLong,
    /// Its line is no request of this protocol.
    Malformed,
    /// The command has been released. Windows begin with its first instruction.
    Released,
}

/// A request of which bytes arrive.
#[derive(Default)]
pub(crate) struct ArrivingRequest {
    /// Its line so far, without those beyond one byte too many.
    bytes: Vec<u8>,
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

/// A part of a file in the executable memory of a process.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TracedMapping {
    /// The process.
    pub pid: u32,
    /// The first address.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// Offset of the first byte in the file.
    pub offset: u64,
    /// The path of the file, or the kernel's name of the mapping; it has at least one character.
    pub file: String,
}

/// A line about windows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WindowLine {
    /// A row.
    Row(TracedWindow),
    /// Rows that were lost.
    Lost(u64),
    /// The name of a thread, which holds for its next rows.
    Name {
        /// The process.
        pid: u32,
        /// The thread.
        tid: u32,
        /// The name, which may be empty.
        name: String,
    },
    /// The executable memory of a process is another one for its next rows: the mappings that follow.
    Memory {
        /// The process.
        pid: u32,
    },
    /// A mapping of a process, for its next rows.
    Mapping(TracedMapping),
}

impl WindowRequest {
    /// The line of the request, with its end.
    pub fn line(&self) -> String {
        let head = format!("{} {} {}", char::from(WINDOWS), self.period, self.most_rows);
        let events = self.events.iter().map(|event| format!(" {event}"));
        events.fold(head, |line, event| line + &event) + "\n"
    }

    /// Reads the rest of the line, after its first byte.
    fn read(rest: &str) -> Option<WindowRequest> {
        let mut words = rest.split_ascii_whitespace();
        let (period, most_rows) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let events = words.map(ExecutionEvent::from_name).collect::<Option<Vec<_>>>()?;
        Some(WindowRequest { period, most_rows, events })
    }
}

impl ArrivingRequest {
    /// Adds a byte. Returns the request at the end of its line; a line that is too long is discarded up to
    /// its end.
    pub(crate) fn add(&mut self, byte: u8) -> Option<Result<WindowRequest, WindowRefusal>> {
        if byte != b'\n' {
            if self.bytes.len() <= MOST_REQUEST_BYTES {
                self.bytes.push(byte);
            }
            return None;
        }
        let line = std::mem::take(&mut self.bytes);
        if line.len() > MOST_REQUEST_BYTES {
            return Some(Err(WindowRefusal::TooLong));
        }
        let request = std::str::from_utf8(&line).ok().and_then(WindowRequest::read);
        Some(request.ok_or(WindowRefusal::Malformed))
    }
}

impl WindowRefusal {
    const ALL: [WindowRefusal; 3] =
        [WindowRefusal::TooLong, WindowRefusal::Malformed, WindowRefusal::Released];

    fn word(self) -> &'static str {
        match self {
            WindowRefusal::TooLong => "too-long",
            WindowRefusal::Malformed => "malformed",
            WindowRefusal::Released => "released",
        }
    }
}

/// The line of an answer, with its end.
pub(crate) fn answer(answer: Result<(), WindowRefusal>) -> String {
    match answer {
        Ok(()) => format!("{ACCEPTED}\n"),
        Err(refusal) => format!("{REFUSED}{}\n", refusal.word()),
    }
}

/// Reads an answer, without its end; `None` where the line is none.
pub fn read_answer(line: &str) -> Option<Result<(), WindowRefusal>> {
    match line.strip_prefix(REFUSED) {
        None => (line == ACCEPTED).then_some(Ok(())),
        Some(word) => WindowRefusal::ALL.into_iter().find(|refusal| refusal.word() == word).map(Err),
    }
}

impl WindowLine {
    /// The line, with its end.
    pub(crate) fn text(&self) -> String {
        match self {
            WindowLine::Lost(rows) => format!("{LOST}{rows}\n"),
            WindowLine::Name { pid, tid, name } => format!("{NAME}{pid} {tid} {name}\n"),
            WindowLine::Memory { pid } => format!("{MEMORY}{pid}\n"),
            WindowLine::Mapping(TracedMapping { pid, start, len, offset, file }) => {
                format!("{MAPPING}{pid} {start:x} {len:x} {offset:x} {file}\n")
            }
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
        [ROW, LOST, NAME, MEMORY, MAPPING].iter().any(|first| line.starts_with(first))
    }

    /// Reads a line without its end; `None` where it is not about windows, or damaged.
    pub fn read(line: &str) -> Option<WindowLine> {
        if let Some(rows) = line.strip_prefix(LOST) {
            return Some(WindowLine::Lost(rows.parse().ok()?));
        }
        if let Some(rest) = line.strip_prefix(NAME) {
            let mut words = rest.splitn(3, ' ');
            let (pid, tid) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            return Some(WindowLine::Name { pid, tid, name: words.next()?.to_owned() });
        }
        if let Some(pid) = line.strip_prefix(MEMORY) {
            return Some(WindowLine::Memory { pid: pid.parse().ok()? });
        }
        if let Some(rest) = line.strip_prefix(MAPPING) {
            return TracedMapping::read(rest).map(WindowLine::Mapping);
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

impl TracedMapping {
    /// Reads the rest of its line, after the first word.
    fn read(rest: &str) -> Option<TracedMapping> {
        let mut words = rest.splitn(5, ' ');
        let pid = words.next()?.parse().ok()?;
        let mut hexadecimal = || u64::from_str_radix(words.next()?, 16).ok();
        let (start, len, offset) = (hexadecimal()?, hexadecimal()?, hexadecimal()?);
        let file = words.next().filter(|file| !file.is_empty())?.to_owned();
        Some(TracedMapping { pid, start, len, offset, file })
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
            (start, len, offset, file) in (any::<u64>(), any::<u64>(), any::<u64>(), "[a-z /()]{1,20}"),
        ) {
            let end = TracedWindowEnd::ALL[end];
            let row = TracedWindow { pid, tid, end, address, time_ns, lost_before, counts };
            let name = WindowLine::Name { pid, tid, name: file.clone() };
            let mapping = WindowLine::Mapping(TracedMapping { pid, start, len, offset, file });
            let (lost, memory) = (WindowLine::Lost(time_ns), WindowLine::Memory { pid });
            for line in [WindowLine::Row(row), lost, name, memory, mapping] {
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
        for line in ["name 1", "name 1 x a", "memory", "memory -1", "mapping 1 2 3 a", "mapping 1 2 3 4 "] {
            assert_eq!(WindowLine::read(&format!("window-{line}")), None, "{line}");
        }
        for line in [" 1 5 cycles", " 0 5 loads", " 1 x loads", " 1", ""] {
            assert_eq!(WindowRequest::read(line), None, "{line}");
        }
        for line in ["refused", "windows-refused", "windows-refused why", "windows 1"] {
            assert_eq!(read_answer(line), None, "{line}");
        }
    }

    #[test]
    fn answers_are_read_as_they_were_written() {
        let refused = WindowRefusal::ALL.into_iter().map(Err);
        for expected in refused.chain([Ok(())]) {
            let line = answer(expected);
            assert_eq!(read_answer(line.strip_suffix('\n').unwrap()), Some(expected));
        }
    }

    /// The results of the requests in these bytes.
    fn arrived(bytes: &[u8]) -> Vec<Result<WindowRequest, WindowRefusal>> {
        let mut request = ArrivingRequest::default();
        bytes.iter().filter_map(|byte| request.add(*byte)).collect()
    }

    #[test]
    fn a_request_is_complete_at_the_end_of_its_line() {
        let request = WindowRequest { period: NonZeroU64::MIN, most_rows: 5, events: Vec::new() };
        assert_eq!(arrived(b" 1 5"), []);
        assert_eq!(arrived(b" 1 5\n 1 5\n"), [Ok(request.clone()), Ok(request)]);
        assert_eq!(arrived(b"\xff\n"), [Err(WindowRefusal::Malformed)]);
    }

    #[test]
    fn a_request_that_is_too_long_is_discarded_in_whole() {
        let spaced = |bytes: usize| format!(" 1 5{}\n", " ".repeat(bytes - 4)).into_bytes();
        let requests = [spaced(MOST_REQUEST_BYTES + 1), spaced(MOST_REQUEST_BYTES), spaced(100_000)].concat();
        let results: Vec<_> = arrived(&requests).into_iter().map(|result| result.map(drop)).collect();
        assert_eq!(results, [Err(WindowRefusal::TooLong), Ok(()), Err(WindowRefusal::TooLong)]);
    }
}

//! Rows of a frame, one after the other, each as differences from the row before.
//!
//! Each frame can be read alone: its first row is a difference from the time, address and counts 0. A text,
//! such as the reason of a missing count, is written once in each frame and numbered from then on.

use std::collections::HashMap;
use std::ops::Range;

use cyclometer_core::window::{WindowCause, WindowFlags, WindowRow, WindowThread};
use cyclometer_core::{Count, Interval, MissingReason, NoInterval};

use crate::MOST_TEXT;
use crate::bytes::{Contradiction, FrameBytes, cut, put_difference, put_number};

/// Bits of the two bytes that a row begins with.
mod bit {
    /// The thread differs from that of the row before.
    pub(super) const THREAD: u16 = 1 << 0;
    /// The CPU differs from that of the row before.
    pub(super) const CPU: u16 = 1 << 1;
    /// The cause differs from that of the row before.
    pub(super) const CAUSE: u16 = 1 << 2;
    pub(super) const TIME: u16 = 1 << 3;
    pub(super) const ADDRESS: u16 = 1 << 4;
    pub(super) const ENABLED: u16 = 1 << 5;
    pub(super) const RUNNING: u16 = 1 << 6;
    /// The running time is the enabled time.
    pub(super) const RUNNING_ENABLED: u16 = 1 << 7;
    pub(super) const SWITCHES: u16 = 1 << 8;
    pub(super) const MIGRATIONS: u16 = 1 << 9;
    pub(super) const THROTTLED: u16 = 1 << 10;
    pub(super) const LOST_BEFORE: u16 = 1 << 11;
    /// Every count is exact.
    pub(super) const EXACT: u16 = 1 << 12;
    pub(super) const ALL: u16 = (1 << 13) - 1;
}

/// Kinds of counts where not all of a row are exact.
mod kind {
    pub(super) const EXACT: u8 = 0;
    pub(super) const SCALED: u8 = 1;
    pub(super) const SCALED_CONCENTRATED: u8 = 2;
    pub(super) const SCALED_UNKNOWN: u8 = 3;
    pub(super) const PARTIAL: u8 = 4;
    pub(super) const NOT_COUNTED: u8 = 5;
    pub(super) const NOT_SUPPORTED: u8 = 6;
    pub(super) const LOST: u8 = 7;
}

/// Numbers of the causes that are no boundary; those of boundaries follow.
mod cause {
    pub(super) const EXEC: u64 = 0;
    pub(super) const END: u64 = 1;
    pub(super) const COUNTERS_LOST: u64 = 2;
    pub(super) const UNASSIGNED: u64 = 3;
    pub(super) const BOUNDARIES: u64 = 4;
}

/// The numbers of columns and boundaries, by which rows are checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RowShape {
    pub(crate) events: usize,
    pub(crate) boundaries: usize,
}

/// Values of the row before.
#[derive(Debug)]
struct FormerRow {
    thread: Option<WindowThread>,
    cpu: Option<u32>,
    cause: WindowCause,
    time_ns: u64,
    address: u64,
    enabled_ns: u64,
    running_ns: u64,
    counts: Vec<u64>,
}

impl FormerRow {
    fn none(shape: RowShape) -> FormerRow {
        FormerRow {
            thread: None,
            cpu: None,
            cause: WindowCause::Boundary(0),
            time_ns: 0,
            address: 0,
            enabled_ns: 0,
            running_ns: 0,
            counts: vec![0; shape.events],
        }
    }
}

/// Rows of the frame that is being written.
#[derive(Debug)]
pub(crate) struct RowEncoder {
    shape: RowShape,
    payload: Vec<u8>,
    /// Rows of the payload, each whole.
    rows: u64,
    former: FormerRow,
    texts: HashMap<String, u64>,
}

impl RowEncoder {
    pub(crate) fn new(shape: RowShape) -> RowEncoder {
        let former = FormerRow::none(shape);
        RowEncoder { shape, payload: Vec::new(), rows: 0, former, texts: HashMap::new() }
    }

    /// The rows of the frame.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// The number of rows of the frame.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Begins a new frame.
    pub(crate) fn clear(&mut self) {
        self.payload.clear();
        self.rows = 0;
        self.texts.clear();
        self.former = FormerRow::none(self.shape);
    }

    /// Appends a row.
    ///
    /// # Errors
    ///
    /// The contradiction to the header; nothing of the row is then appended.
    pub(crate) fn put(&mut self, row: &WindowRow) -> Result<(), String> {
        self.check(row)?;
        self.rows += 1;
        let head = self.head(row);
        self.payload.extend_from_slice(&head.to_le_bytes());
        self.put_origin(row, head);
        self.put_times(row, head);
        self.put_flags(row.flags);
        match head & bit::EXACT {
            0 => row.counts.iter().enumerate().for_each(|(column, count)| self.put_count(column, count)),
            _ => self.put_exact(&row.counts),
        }
        Ok(())
    }

    fn put_exact(&mut self, counts: &[Count]) {
        for (former, count) in self.former.counts.iter_mut().zip(counts) {
            let Count::Exact(value) = count else { unreachable!("the head says that all are exact") };
            put_difference(&mut self.payload, *former, *value);
            *former = *value;
        }
    }

    fn check(&self, row: &WindowRow) -> Result<(), String> {
        let (counts, RowShape { events, boundaries }) = (row.counts.len(), self.shape);
        if counts != events {
            return Err(format!("a row has {counts} counts, and the header {events} events"));
        }
        if !row.counts.iter().all(has_kind) {
            return Err("a count is of a kind that the format does not have".to_owned());
        }
        match row.cause {
            WindowCause::Boundary(n) if n >= boundaries => {
                Err(format!("a row ended at boundary {n}, and the header has {boundaries}"))
            }
            _ => Ok(()),
        }
    }

    fn head(&self, row: &WindowRow) -> u16 {
        let former = &self.former;
        let runs_always = row.running_ns.is_some() && row.running_ns == row.enabled_ns;
        [
            (row.thread != former.thread, bit::THREAD),
            (row.cpu != former.cpu, bit::CPU),
            (row.cause != former.cause, bit::CAUSE),
            (row.time_ns.is_some(), bit::TIME),
            (row.address.is_some(), bit::ADDRESS),
            (row.enabled_ns.is_some(), bit::ENABLED),
            (row.running_ns.is_some() && !runs_always, bit::RUNNING),
            (runs_always, bit::RUNNING_ENABLED),
            (row.flags.switches.is_some(), bit::SWITCHES),
            (row.flags.migrations.is_some(), bit::MIGRATIONS),
            (row.flags.throttled, bit::THROTTLED),
            (row.flags.lost_before > 0, bit::LOST_BEFORE),
            (row.counts.iter().all(|count| matches!(count, Count::Exact(_))), bit::EXACT),
        ]
        .into_iter()
        .fold(0, |head, (is_set, bit)| if is_set { head | bit } else { head })
    }

    fn put_origin(&mut self, row: &WindowRow, head: u16) {
        let (out, former) = (&mut self.payload, &mut self.former);
        if head & bit::THREAD != 0 {
            out.push(row.thread.is_some().into());
            for id in row.thread.into_iter().flat_map(|thread| [thread.pid, thread.tid]) {
                put_number(out, id.into());
            }
            former.thread = row.thread;
        }
        if head & bit::CPU != 0 {
            put_number(out, row.cpu.map_or(0, |cpu| u64::from(cpu) + 1));
            former.cpu = row.cpu;
        }
        if head & bit::CAUSE != 0 {
            put_number(out, cause_number(row.cause));
            former.cause = row.cause;
        }
    }

    fn put_times(&mut self, row: &WindowRow, head: u16) {
        let (out, former) = (&mut self.payload, &mut self.former);
        let running = row.running_ns.filter(|_| head & bit::RUNNING != 0);
        for (value, former) in [
            (row.time_ns, &mut former.time_ns),
            (row.address, &mut former.address),
            (row.enabled_ns, &mut former.enabled_ns),
            (running, &mut former.running_ns),
        ] {
            let Some(value) = value else { continue };
            put_difference(out, *former, value);
            *former = value;
        }
    }

    fn put_flags(&mut self, flags: WindowFlags) {
        let lost = Some(flags.lost_before).filter(|lost| *lost > 0);
        let numbers = [flags.switches.map(u64::from), flags.migrations.map(u64::from), lost];
        for number in numbers.into_iter().flatten() {
            put_number(&mut self.payload, number);
        }
    }

    fn put_count(&mut self, column: usize, count: &Count) {
        match count {
            Count::Exact(value) => {
                self.payload.push(kind::EXACT);
                put_difference(&mut self.payload, self.former.counts[column], *value);
                self.former.counts[column] = *value;
            }
            Count::Scaled { raw, estimate, time_enabled_ns, time_running_ns, interval } => {
                let numbers = [*raw, *estimate, *time_enabled_ns, *time_running_ns];
                self.put_scaled(numbers, interval);
            }
            Count::Partial { raw, part } => {
                self.payload.push(kind::PARTIAL);
                put_number(&mut self.payload, *raw);
                self.put_text(&part.to_string());
            }
            Count::NotCounted { reason } => self.put_missing(kind::NOT_COUNTED, reason),
            Count::NotSupported { reason } => self.put_missing(kind::NOT_SUPPORTED, reason),
            Count::Lost { reason } => self.put_missing(kind::LOST, reason),
            _ => unreachable!("rows are checked"),
        }
    }

    fn put_scaled(&mut self, numbers: [u64; 4], interval: &Interval) {
        self.payload.push(match interval {
            Interval::Known { concentrated: false, .. } => kind::SCALED,
            Interval::Known { concentrated: true, .. } => kind::SCALED_CONCENTRATED,
            Interval::Unknown { .. } => kind::SCALED_UNKNOWN,
            _ => unreachable!("rows are checked"),
        });
        numbers.into_iter().for_each(|number| put_number(&mut self.payload, number));
        match interval {
            Interval::Unknown { reason } => self.put_text(&reason.to_string()),
            known => put_number(&mut self.payload, known.half_width().unwrap_or_default()),
        }
    }

    fn put_missing(&mut self, kind: u8, reason: &MissingReason) {
        self.payload.push(kind);
        self.put_text(&reason.to_string());
    }

    /// Appends the number of a text, or 0 and the text if it is new in this frame.
    fn put_text(&mut self, text: &str) {
        let text = cut(text, MOST_TEXT);
        if let Some(number) = self.texts.get(text) {
            return put_number(&mut self.payload, *number);
        }
        put_number(&mut self.payload, 0);
        put_number(&mut self.payload, text.len() as u64);
        self.payload.extend_from_slice(text.as_bytes());
        self.texts.insert(text.to_owned(), self.texts.len() as u64 + 1);
    }
}

/// Whether the format has this kind of count; `core` may get others.
fn has_kind(count: &Count) -> bool {
    match count {
        Count::Scaled { interval, .. } => {
            matches!(interval, Interval::Known { .. } | Interval::Unknown { .. })
        }
        Count::Exact(_)
        | Count::Partial { .. }
        | Count::NotCounted { .. }
        | Count::NotSupported { .. }
        | Count::Lost { .. } => true,
        _ => false,
    }
}

fn cause_number(cause: WindowCause) -> u64 {
    match cause {
        WindowCause::Exec => cause::EXEC,
        WindowCause::End => cause::END,
        WindowCause::CountersLost => cause::COUNTERS_LOST,
        WindowCause::Unassigned => cause::UNASSIGNED,
        WindowCause::Boundary(n) => cause::BOUNDARIES + n as u64,
    }
}

/// Rows of a frame that was read.
#[derive(Debug)]
pub(crate) struct RowDecoder {
    shape: RowShape,
    payload: Vec<u8>,
    at: usize,
    former: FormerRow,
    /// The texts of the frame, as positions in its payload.
    texts: Vec<Range<u32>>,
}

impl RowDecoder {
    pub(crate) fn new(shape: RowShape) -> RowDecoder {
        let former = FormerRow::none(shape);
        RowDecoder { shape, payload: Vec::new(), at: 0, former, texts: Vec::new() }
    }

    /// Begins a new frame; `payload` is exchanged for that of the former one.
    pub(crate) fn begin(&mut self, payload: &mut Vec<u8>) {
        std::mem::swap(&mut self.payload, payload);
        self.at = 0;
        self.texts.clear();
        self.former = FormerRow::none(self.shape);
    }

    /// The next row of the frame; `None` at its end.
    pub(crate) fn next(&mut self) -> Result<Option<WindowRow>, Contradiction> {
        if self.at == self.payload.len() {
            return Ok(None);
        }
        let mut row = RowInFrame {
            bytes: FrameBytes(&self.payload[self.at..]),
            payload: &self.payload,
            shape: self.shape,
            former: &mut self.former,
            texts: &mut self.texts,
        };
        let read = row.read()?;
        self.at = self.payload.len() - row.bytes.0.len();
        Ok(Some(read))
    }
}

/// A row that is being read.
struct RowInFrame<'a> {
    bytes: FrameBytes<'a>,
    payload: &'a [u8],
    shape: RowShape,
    former: &'a mut FormerRow,
    texts: &'a mut Vec<Range<u32>>,
}

impl RowInFrame<'_> {
    fn read(&mut self) -> Result<WindowRow, Contradiction> {
        let head = u16::from_le_bytes([self.bytes.byte()?, self.bytes.byte()?]);
        if head & !bit::ALL != 0 || head & bit::RUNNING_ENABLED != 0 && head & bit::ENABLED == 0 {
            return Err("a row has bits that are not defined");
        }
        self.origin(head)?;
        let [time_ns, address, enabled_ns, running] = self.times(head)?;
        Ok(WindowRow {
            thread: self.former.thread,
            cpu: self.former.cpu,
            time_ns,
            address,
            cause: self.former.cause,
            enabled_ns,
            running_ns: if head & bit::RUNNING_ENABLED != 0 { enabled_ns } else { running },
            flags: self.flags(head)?,
            counts: self.counts(head)?,
        })
    }

    fn origin(&mut self, head: u16) -> Result<(), Contradiction> {
        if head & bit::THREAD != 0 {
            self.former.thread = match self.bytes.byte()? {
                0 => None,
                1 => Some(WindowThread { pid: self.bytes.number_u32()?, tid: self.bytes.number_u32()? }),
                _ => return Err("a thread is neither given nor missing"),
            };
        }
        if head & bit::CPU != 0 {
            let number = self.bytes.number()?;
            let cpu = number.checked_sub(1).map(u32::try_from).transpose();
            self.former.cpu = cpu.map_err(|_| "a CPU has a number of more than 32 bits")?;
        }
        if head & bit::CAUSE != 0 {
            self.former.cause = self.cause()?;
        }
        match self.former.cause {
            WindowCause::Boundary(n) if n >= self.shape.boundaries => {
                Err("a row ended at a boundary that the header does not have")
            }
            _ => Ok(()),
        }
    }

    fn cause(&mut self) -> Result<WindowCause, Contradiction> {
        Ok(match self.bytes.number()? {
            cause::EXEC => WindowCause::Exec,
            cause::END => WindowCause::End,
            cause::COUNTERS_LOST => WindowCause::CountersLost,
            cause::UNASSIGNED => WindowCause::Unassigned,
            number => WindowCause::Boundary(
                usize::try_from(number - cause::BOUNDARIES)
                    .map_err(|_| "a boundary has too great a number")?,
            ),
        })
    }

    /// Time, address, enabled and running time.
    fn times(&mut self, head: u16) -> Result<[Option<u64>; 4], Contradiction> {
        let former = &mut *self.former;
        let mut values = [None; 4];
        for (value, (bit, former)) in values.iter_mut().zip([
            (bit::TIME, &mut former.time_ns),
            (bit::ADDRESS, &mut former.address),
            (bit::ENABLED, &mut former.enabled_ns),
            (bit::RUNNING, &mut former.running_ns),
        ]) {
            if head & bit != 0 {
                *former = self.bytes.differing_from(*former)?;
                *value = Some(*former);
            }
        }
        Ok(values)
    }

    fn flags(&mut self, head: u16) -> Result<WindowFlags, Contradiction> {
        let has = |bit| head & bit != 0;
        Ok(WindowFlags {
            switches: has(bit::SWITCHES).then(|| self.bytes.number_u32()).transpose()?,
            migrations: has(bit::MIGRATIONS).then(|| self.bytes.number_u32()).transpose()?,
            throttled: has(bit::THROTTLED),
            lost_before: if has(bit::LOST_BEFORE) { self.bytes.number()? } else { 0 },
        })
    }

    fn counts(&mut self, head: u16) -> Result<Vec<Count>, Contradiction> {
        // A count has at least one byte, so that a short payload makes no large row.
        let mut counts = Vec::with_capacity(self.shape.events.min(self.bytes.0.len()));
        for column in 0..self.shape.events {
            let kind = if head & bit::EXACT != 0 { kind::EXACT } else { self.bytes.byte()? };
            counts.push(self.count(kind, column)?);
        }
        Ok(counts)
    }

    fn count(&mut self, kind: u8, column: usize) -> Result<Count, Contradiction> {
        Ok(match kind {
            kind::EXACT => {
                let former = &mut self.former.counts[column];
                *former = self.bytes.differing_from(*former)?;
                Count::Exact(*former)
            }
            kind::SCALED | kind::SCALED_CONCENTRATED | kind::SCALED_UNKNOWN => self.scaled(kind)?,
            kind::PARTIAL => Count::Partial { raw: self.bytes.number()?, part: self.text()?.into() },
            kind::NOT_COUNTED => Count::NotCounted { reason: self.text()?.into() },
            kind::NOT_SUPPORTED => Count::NotSupported { reason: self.text()?.into() },
            kind::LOST => Count::Lost { reason: self.text()?.into() },
            _ => return Err("a count is of an unknown kind"),
        })
    }

    fn scaled(&mut self, kind: u8) -> Result<Count, Contradiction> {
        Ok(Count::Scaled {
            raw: self.bytes.number()?,
            estimate: self.bytes.number()?,
            time_enabled_ns: self.bytes.number()?,
            time_running_ns: self.bytes.number()?,
            interval: match kind {
                kind::SCALED_UNKNOWN => Interval::Unknown { reason: NoInterval::Reported(self.text()?) },
                _ => Interval::Known {
                    half_width: self.bytes.number()?,
                    concentrated: kind == kind::SCALED_CONCENTRATED,
                },
            },
        })
    }

    fn text(&mut self) -> Result<String, Contradiction> {
        let number = self.bytes.number()?;
        let bytes = match number.checked_sub(1) {
            None => self.new_text()?,
            Some(index) => {
                let known = usize::try_from(index).ok().and_then(|index| self.texts.get(index));
                let known = known.ok_or("a text has a number that no text has")?;
                &self.payload[known.start as usize..known.end as usize]
            }
        };
        str::from_utf8(bytes).map(str::to_owned).map_err(|_| "a text is not UTF-8")
    }

    fn new_text(&mut self) -> Result<&[u8], Contradiction> {
        let length = self.bytes.number()?;
        if length > MOST_TEXT as u64 {
            return Err("a text is too long");
        }
        let text = self.bytes.take(length)?;
        // A payload has far less than 2^32 bytes.
        let end = (self.payload.len() - self.bytes.0.len()) as u32;
        self.texts.push(end - text.len() as u32..end);
        Ok(text)
    }
}

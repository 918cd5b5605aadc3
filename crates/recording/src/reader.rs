//! Reading a recording.

use std::collections::HashMap;
use std::io::Read;

use cyclometer_core::code_memory::{CodeMemory, MappedPlace};
use cyclometer_core::window::{WindowRow, WindowThread};

use crate::code_memory;
use crate::frame::{FoundFrame, FrameReader, MAGIC, PREAMBLE, VERSION, read_up_to, tag};
use crate::json::{FieldProblem, JsonFields, parse};
use crate::rows::RowDecoder;
use crate::{MOST_TEXT, RecordingError, RecordingFooter, RecordingHeader, RecordingResult};

/// The most threads whose names are kept; those of further ones are not given.
const MOST_NAMES: usize = 1 << 16;

/// A recording that is being read: an iterator over its rows.
///
/// After `None`, [`Recording::end`] says whether the recording is complete. An error ends the iteration; the
/// rows before it are good. Memory is bounded by one frame, the names of the threads and
/// a limit on mappings.
#[derive(Debug)]
pub struct Recording<R> {
    frames: FrameReader<R>,
    header: RecordingHeader,
    decoder: RowDecoder,
    rows: u64,
    names: HashMap<WindowThread, String>,
    code_memory: CodeMemory,
    has_failed: bool,
    end: Option<RecordingEnd>,
}

/// The end of a recording.
#[derive(Clone, PartialEq, Debug)]
pub enum RecordingEnd {
    /// It is complete.
    Complete(RecordingFooter),
    /// It ends early: its writer was killed or had no room, or it was cut.
    Incomplete {
        /// Length of the part that was read, in bytes; a part of a frame may follow.
        offset: u64,
    },
}

impl<R: Read> Recording<R> {
    /// Reads the header.
    ///
    /// # Errors
    ///
    /// [`RecordingError::Foreign`], [`RecordingError::Version`], [`RecordingError::Empty`],
    /// [`RecordingError::NoHeader`], [`RecordingError::Damaged`], [`RecordingError::Malformed`],
    /// [`RecordingError::Io`].
    pub fn open(mut input: R) -> RecordingResult<Recording<R>> {
        read_preamble(&mut input)?;
        let mut frames = FrameReader::new(input);
        let header = match frames.read()? {
            FoundFrame::Whole(tag::HEADER) => RecordingHeader::from_payload(&frames.payload),
            FoundFrame::Whole(_) => Err("the first frame is no header".to_owned()),
            FoundFrame::End => return Err(RecordingError::NoHeader),
            FoundFrame::Damaged => return Err(RecordingError::Damaged { offset: frames.offset }),
        };
        let offset = frames.offset;
        let header = header.map_err(|problem| RecordingError::Malformed { offset, problem })?;
        let decoder = RowDecoder::new(header.shape());
        Ok(Recording {
            frames,
            header,
            decoder,
            rows: 0,
            names: HashMap::new(),
            code_memory: CodeMemory::default(),
            has_failed: false,
            end: None,
        })
    }

    /// The header.
    pub fn header(&self) -> &RecordingHeader {
        &self.header
    }

    /// The name that a thread has in the row that was given last, if known.
    pub fn thread_name(&self, thread: WindowThread) -> Option<&str> {
        self.names.get(&thread).map(String::as_str)
    }

    /// The place in a file of code at the address of the row that was given last, if known.
    pub fn code_place(&self, row: &WindowRow) -> Option<MappedPlace<'_>> {
        self.code_memory.place(row.thread?.pid, row.address?)
    }

    /// The number of rows that were given.
    pub fn rows_read(&self) -> u64 {
        self.rows
    }

    /// The end of the recording; `None` before the last row was given, and after an error.
    pub fn end(&self) -> Option<&RecordingEnd> {
        self.end.as_ref()
    }

    fn next_row(&mut self) -> RecordingResult<Option<WindowRow>> {
        loop {
            if let Some(row) = self.decoder.next().map_err(|problem| self.malformed(problem))? {
                self.rows += 1;
                return Ok(Some(row));
            }
            self.end = self.next_frame()?;
            if self.end.is_some() {
                return Ok(None);
            }
        }
    }

    fn next_frame(&mut self) -> RecordingResult<Option<RecordingEnd>> {
        match self.frames.read()? {
            FoundFrame::End => Ok(Some(RecordingEnd::Incomplete { offset: self.frames.offset })),
            FoundFrame::Damaged => Err(RecordingError::Damaged { offset: self.frames.offset }),
            FoundFrame::Whole(tag::ROWS) => {
                self.decoder.begin(&mut self.frames.payload);
                Ok(None)
            }
            FoundFrame::Whole(tag::NAME) => {
                self.name().map_err(|problem| self.malformed(problem))?;
                Ok(None)
            }
            FoundFrame::Whole(tag::CODE_MEMORY) => {
                let changes = code_memory::from_payload(&self.frames.payload);
                let changes = changes.map_err(|problem| self.malformed(problem))?;
                changes.iter().for_each(|change| self.code_memory.apply(change));
                Ok(None)
            }
            FoundFrame::Whole(tag::FOOTER) => self.footer().map(Some),
            FoundFrame::Whole([first, ..]) if first.is_ascii_lowercase() => Ok(None),
            FoundFrame::Whole(_) => Err(self.malformed("it is of an unknown kind")),
        }
    }

    fn name(&mut self) -> Result<(), FieldProblem> {
        let value = parse(&self.frames.payload)?;
        let fields = JsonFields::of(&value, "a name")?;
        let thread = WindowThread { pid: fields.number_u32("pid")?, tid: fields.number_u32("tid")? };
        let name = fields.text("name")?;
        if name.len() > MOST_TEXT {
            return Err("the name of a thread is too long".to_owned());
        }
        if self.names.len() < MOST_NAMES || self.names.contains_key(&thread) {
            self.names.insert(thread, name);
        }
        Ok(())
    }

    fn footer(&mut self) -> RecordingResult<RecordingEnd> {
        let footer = RecordingFooter::from_payload(&self.frames.payload);
        let (footer, rows) = footer.map_err(|problem| self.malformed(problem))?;
        if rows != self.rows {
            return Err(self.malformed(format!("{rows} rows were written, and {} are there", self.rows)));
        }
        if footer.totals.len() != self.header.events.len() {
            return Err(self.malformed("there is not one total for each event"));
        }
        match self.frames.is_at_end()? {
            true => Ok(RecordingEnd::Complete(footer)),
            false => Err(self.malformed("data follow the footer")),
        }
    }

    fn malformed(&self, problem: impl Into<String>) -> RecordingError {
        RecordingError::Malformed { offset: self.frames.offset, problem: problem.into() }
    }
}

impl<R: Read> Iterator for Recording<R> {
    type Item = RecordingResult<WindowRow>;

    fn next(&mut self) -> Option<RecordingResult<WindowRow>> {
        if self.has_failed || self.end.is_some() {
            return None;
        }
        let next = self.next_row();
        self.has_failed = next.is_err();
        next.transpose()
    }
}

/// Whether a file that begins with these bytes is a recording, of whatever version.
pub fn is_recording(start: &[u8]) -> bool {
    start.starts_with(&MAGIC)
}

fn read_preamble(input: &mut impl Read) -> RecordingResult<()> {
    let mut preamble = [0; PREAMBLE];
    let length = read_up_to(input, &mut preamble)?;
    let (magic, version) = preamble.split_at(MAGIC.len());
    if length == 0 {
        return Err(RecordingError::Empty);
    }
    if !MAGIC.starts_with(&magic[..length.min(MAGIC.len())]) {
        return Err(RecordingError::Foreign);
    }
    if length < PREAMBLE {
        return Err(RecordingError::NoHeader);
    }
    match u32::from_le_bytes([version[0], version[1], version[2], version[3]]) {
        VERSION => Ok(()),
        version => Err(RecordingError::Version { version }),
    }
}

//! Writing a recording.

use std::io::Write;

use cyclometer_core::code_memory::CodeMemoryChange;
use cyclometer_core::window::{WindowRow, WindowThread};

use crate::bytes::cut;
use crate::code_memory::{CHANGES_PER_FRAME, to_payload};
use crate::frame::{FrameWriter, MOST_PAYLOAD, tag};
use crate::json;
use crate::rows::RowEncoder;
use crate::{MOST_TEXT, RecordingError, RecordingFooter, RecordingHeader, RecordingResult};

/// Length at which a frame of rows is ended, in bytes.
const FULL_FRAME: usize = 64 << 10;

/// Writes a recording, frame by frame, each by one call of the writer below. A file without a buffer of its
/// own has every frame when the process is killed.
///
/// An error of the writer below is final: a part of a frame may have been written. Rows that were written
/// before remain readable.
#[derive(Debug)]
pub struct RecordingWriter<W: Write> {
    frames: FrameWriter<W>,
    encoder: RowEncoder,
    events: usize,
    rows: u64,
}

impl<W: Write> RecordingWriter<W> {
    /// Writes the header.
    ///
    /// # Errors
    ///
    /// [`RecordingError::Unwritable`] for a header that contradicts itself, that has more than
    /// [`MOST_COLUMNS`](crate::MOST_COLUMNS) events, or that is longer than a frame;
    /// [`RecordingError::Io`].
    pub fn new(out: W, header: &RecordingHeader) -> RecordingResult<RecordingWriter<W>> {
        let payload = fitting(header.to_payload()?, "the header")?;
        let mut frames = FrameWriter::new(out)?;
        frames.put(tag::HEADER, &payload)?;
        let (encoder, events) = (RowEncoder::new(header.shape()), header.events.len());
        Ok(RecordingWriter { frames, encoder, events, rows: 0 })
    }

    /// Writes rows, all of them before it returns. Batches of some hundred rows take least space.
    ///
    /// Reasons of missing counts are cut to [`MOST_TEXT`] bytes.
    ///
    /// # Errors
    ///
    /// [`RecordingError::Unwritable`] for a row that contradicts the header; rows before it are written.
    /// [`RecordingError::Io`].
    pub fn rows(&mut self, rows: &[WindowRow]) -> RecordingResult<()> {
        for row in rows {
            if let Err(problem) = self.encoder.put(row) {
                self.end_frame()?;
                return Err(RecordingError::unwritable(problem));
            }
            if self.encoder.payload().len() >= FULL_FRAME {
                self.end_frame()?;
            }
        }
        self.end_frame()
    }

    /// Number of rows in the frames that were written.
    pub fn rows_written(&self) -> u64 {
        self.rows
    }

    fn end_frame(&mut self) -> RecordingResult<()> {
        let rows = self.encoder.rows();
        if rows > 0 {
            self.frames.put(tag::ROWS, self.encoder.payload())?;
            self.rows += rows;
            self.encoder.clear();
        }
        Ok(())
    }

    /// Writes the name of a thread, which it has in rows from here on. It is cut to [`MOST_TEXT`] bytes.
    ///
    /// # Errors
    ///
    /// [`RecordingError::Io`].
    pub fn thread_name(&mut self, thread: WindowThread, name: &str) -> RecordingResult<()> {
        let value = serde_json::json!({ "pid": thread.pid, "tid": thread.tid, "name": cut(name, MOST_TEXT) });
        Ok(self.frames.put(tag::NAME, value.to_string().as_bytes())?)
    }

    /// Writes changes of executable memory, which hold for rows from here on. Paths are cut to [`MOST_TEXT`]
    /// bytes.
    ///
    /// # Errors
    ///
    /// [`RecordingError::Io`].
    pub fn code_memory(&mut self, changes: &[CodeMemoryChange]) -> RecordingResult<()> {
        for part in changes.chunks(CHANGES_PER_FRAME) {
            self.frames.put(tag::CODE_MEMORY, &to_payload(part))?;
        }
        Ok(())
    }

    /// Writes the footer and flushes the writer below.
    ///
    /// # Errors
    ///
    /// [`RecordingError::Unwritable`] unless there is a total for each event; [`RecordingError::Io`].
    pub fn finish(mut self, footer: &RecordingFooter) -> RecordingResult<W> {
        if footer.totals.len() != self.events {
            let (totals, events) = (footer.totals.len(), self.events);
            return Err(RecordingError::unwritable(format!("there are {totals} totals of {events} events")));
        }
        let payload = fitting(footer.to_payload(self.rows)?, "the footer")?;
        self.frames.put(tag::FOOTER, &payload)?;
        self.frames.out.flush()?;
        Ok(self.frames.out)
    }
}

/// A payload that one frame holds, and that a reader accepts.
fn fitting(payload: Vec<u8>, name: &str) -> RecordingResult<Vec<u8>> {
    json::check(&payload).map_err(|problem| RecordingError::unwritable(format!("{name}: {problem}")))?;
    match payload.len() {
        length if length > MOST_PAYLOAD => {
            let problem = format!("{name} has {length} bytes; {MOST_PAYLOAD} are possible");
            Err(RecordingError::unwritable(problem))
        }
        _ => Ok(payload),
    }
}

//! The file of a recording: a header, the rows of the windows as they came, and a footer.
//!
//! ```text
//!   magic  version │ HEAD │ name │ ROWS │ ROWS │ … │ FOOT
//!                    └ tag, length, checksum, payload
//! ```
//!
//! A file consists of frames. [`RecordingWriter`] appends whole frames and changes none. A file that ends
//! early, by `kill -9` or a full disk, is therefore readable up to its last whole frame. [`Recording`] reads
//! these rows one by one, and [`Recording::end`] says whether the end is missing, and from which byte on.
//!
//! The input is not trusted. A frame has at most [`MOST_PAYLOAD`] bytes, which are read as they come and
//! checked by a checksum before they are decoded, so that no claim of a length or a number allocates memory.
//! The checksum of a frame is computed over the frames before it too: a frame that was removed, repeated or
//! moved is found as one that was changed.
//!
//! ```
//! use cyclometer_core::window::{WindowCause, WindowFlags, WindowRow, WindowThread};
//! use cyclometer_core::Count;
//! use cyclometer_recording::{Recording, RecordingEnd, RecordingFooter, RecordingHeader, RecordingWriter};
//!
//! # fn main() -> cyclometer_recording::RecordingResult<()> {
//! # let events = vec![cyclometer_recording::RecordedEvent {
//! #     name: "instructions:u".to_owned(), unit: cyclometer_core::Unit::Count, scale: 1.0,
//! #     source: None, provenance: None, modes: None,
//! # }];
//! # let period = std::num::NonZeroU64::new(1000).expect("it is not 0");
//! # let boundaries = vec![cyclometer_recording::RecordedBoundary::Events { event: 0, period }];
//! # let header = RecordingHeader {
//! #     tool: "cyclometer".to_owned(), machine: Default::default(), command: vec!["true".to_owned()],
//! #     target: None, start_unix_ns: None, events, boundaries, sources: vec![], notes: vec![],
//! # };
//! # let row = WindowRow {
//! #     thread: Some(WindowThread { pid: 1, tid: 1 }), cpu: None, time_ns: None, address: None,
//! #     cause: WindowCause::Boundary(0), counts: vec![Count::Exact(1000)], enabled_ns: None,
//! #     running_ns: None, flags: WindowFlags::default(),
//! # };
//! let mut writer = RecordingWriter::new(Vec::new(), &header)?;
//! writer.rows(&[row])?;
//! let totals = vec![Count::Exact(1000)];
//! let file = writer.finish(&RecordingFooter { totals, ..RecordingFooter::default() })?;
//!
//! let mut recording = Recording::open(&file[..])?;
//! for row in recording.by_ref() {
//!     println!("{:?}", row?.counts);
//! }
//! assert!(matches!(recording.end(), Some(RecordingEnd::Complete(_))));
//! # Ok(())
//! # }
//! ```
//!
//! `docs/reference/recording-format.md` describes every byte. This crate opens no file and reads no clock.
#![forbid(unsafe_code)]

mod bytes;
mod code_memory;
mod count;
mod error;
mod footer;
mod frame;
mod header;
mod json;
mod reader;
mod rows;
mod totals;
mod writer;

pub use error::{RecordingError, RecordingResult};
pub use footer::RecordingFooter;
pub use frame::{MOST_PAYLOAD, VERSION};
pub use header::{RecordedBoundary, RecordedEvent, RecordedMachine, RecordedSource, RecordingHeader};
pub use reader::{Recording, RecordingEnd, is_recording};
pub use totals::RecordingTotals;
pub use writer::RecordingWriter;

/// The greatest number of events, and of boundaries, of a recording.
pub const MOST_COLUMNS: usize = 2048;

/// Length, in bytes, to which a reason of a count or the name of a thread is cut.
pub const MOST_TEXT: usize = 1024;

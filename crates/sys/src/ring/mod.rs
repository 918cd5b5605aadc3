//! Samples: the ring that the kernel writes records to, and the content of records.
//!
//! Parsing records is plain arithmetic on bytes on every system; the mapped ring is Linux's.

mod extent;
mod format;
#[cfg(target_os = "linux")]
mod mapping;
mod record;
#[cfg(target_os = "linux")]
mod waiting;

use std::error::Error;
use std::fmt;

pub use extent::{Extent, Records};
pub use format::{Format, UnknownFields, read_format, sample_type};
#[cfg(target_os = "linux")]
pub use mapping::Ring;

pub use crate::process::page_size;
pub use record::{EventValue, ForkRecord, MappingRecord, Mode, Read, Record, SampleRecord, TaskRecord, kind};
#[cfg(target_os = "linux")]
pub use waiting::{Woken, wait};

/// The reason why the content of a ring cannot be read. A working kernel causes none of these errors. After
/// one, the rest of the ring is useless, because the start of the next record is unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RingError {
    /// A forked child does not have its parent's ring.
    Forked,
    /// The kernel claims to have written more than the ring holds.
    Overrun {
        /// Number of bytes that are claimed to be unread.
        unread: u64,
        /// Capacity of the ring in bytes.
        size: u64,
    },
    /// A record claims an invalid size: below that of its header, no multiple of eight, or beyond the end.
    Size {
        /// The size that it claims, in bytes.
        size: usize,
        /// Number of bytes that remain.
        left: usize,
    },
    /// The fields of a record do not fill it, or exceed it.
    Body {
        /// The kind of the record, as in [`kind`].
        kind: u32,
        /// Its size, in bytes.
        size: usize,
    },
}

impl fmt::Display for RingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RingError::Forked => f.write_str("a forked process does not have the samples of its parent"),
            RingError::Overrun { unread, size } => {
                write!(f, "the kernel claims {unread} unread bytes in a ring of {size}")
            }
            RingError::Size { size, left } => {
                write!(f, "a record claims {size} bytes where {left} are left")
            }
            RingError::Body { kind, size } => {
                write!(f, "the fields of a record of kind {kind} do not fit its {size} bytes")
            }
        }
    }
}

impl Error for RingError {}

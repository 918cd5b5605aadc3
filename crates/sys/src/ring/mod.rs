//! Samples: the ring that the kernel writes records to, and what is in them.
//!
//! Reading records is plain arithmetic on bytes, and the same everywhere; the mapped ring is Linux's.

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
pub use mapping::{Ring, page_size};
pub use record::{Mode, Read, Record, Sample, Value, kind};
#[cfg(target_os = "linux")]
pub use waiting::{Woken, wait};

/// Why what is in a ring cannot be read. None of this comes from a kernel that works; after each of it the rest is of no use,
/// as nobody knows where the next record begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RingError {
    /// A forked child does not have its parent's ring.
    Forked,
    /// The kernel claims to have written more than the ring holds.
    Overrun {
        /// Bytes that are said to be unread.
        unread: u64,
        /// Bytes that the ring holds.
        size: u64,
    },
    /// A record claims a size that is none: below that of its header, no multiple of eight, or beyond the end.
    Size {
        /// The size that it claims, in bytes.
        size: usize,
        /// Bytes that are there.
        left: usize,
    },
    /// The fields of a record do not fill it, or need more than it has.
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

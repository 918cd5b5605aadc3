//! Tables as bytes: written by the build, read in place.
//!
//! All numbers are little-endian and need no alignment. Texts, masks and definitions are stored once. A CPU
//! has a row for each of its names, in the order of the names. The numbers of its rows are also stored in the
//! order of their codes.
//!
//! ```text
//! head     magic, offset and number of records of each part
//! text     every string
//! names    string of each name, ascending without regard to case; spellings of one name stand together
//! hash     number of a name by its hash, open addressing
//! masks    pairs of counter masks
//! defs     definitions of events
//! lists    numbers of definitions: other codes of an event
//! cpus     a record each, by id
//! rows     name, definition, the name that it is an alias of
//! codes    numbers of rows and of their codes: the event's own, others of it, its whole config
//! generic  name and config words
//! ```
//!
//! A lookup by name is a hash and a binary search among numbers; a lookup by code is a binary search.

mod read;
mod write;

pub use read::{Blob, Cpu, Entry};
pub use write::{TooMany, write};

/// The first bytes; they change with the layout.
const MAGIC: [u8; 8] = *b"cyctabl1";

/// The parts, in the order of the head's entries.
#[derive(Clone, Copy)]
enum BlobPart {
    Text,
    Names,
    Hash,
    Masks,
    Defs,
    Lists,
    Cpus,
    Rows,
    Codes,
    Generic,
    Strings,
}

const SECTIONS: usize = 11;

/// Bytes of the head: the magic, and offset and number for each part.
const HEAD: usize = 8 + 8 * SECTIONS;

/// Bytes of a definition: select, unit masks, counter mask, flags, extra register, masks, list, errata,
/// value.
const DEF: usize = 24;

/// Bytes of a row: name, definition, and for an alias the name that it stands for.
const ROW: usize = 6;

/// Bytes of a reference to a string: offset and length.
const STRING: usize = 8;

/// Bytes of a CPU's record: see `write::cpu`.
const CPU: usize = 104;

/// Bytes of a generic event: string, config, config1.
const GENERIC: usize = STRING + 16;

/// Bytes of an entry in the order of codes: row, and the number of its code.
const CODE: usize = 4;

/// Number of an event's code: its own is 0, the others count from 1, and this value is its whole config.
const WHOLE: u16 = u16::MAX;

/// Flags of a definition.
mod flag {
    pub(super) const INV: u8 = 1;
    pub(super) const EDGE: u8 = 2;
    pub(super) const EQ: u8 = 4;
    pub(super) const ANY: u8 = 8;
    pub(super) const DEPRECATED: u8 = 0x10;
    pub(super) const ALONE: u8 = 0x20;
    /// The value is the whole config, not that of the extra register.
    pub(super) const CONFIG: u8 = 0x40;
}

/// FNV-1a over the name in lower case.
///
/// # Source
///
/// G. Fowler, L. C. Noll, K.-P. Vo: FNV hash, 32 bits (draft-eastlake-fnv).
fn hash(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests;

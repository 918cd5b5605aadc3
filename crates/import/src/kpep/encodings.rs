//! The two encodings of a property list: XML and binary.

use super::plist::Plist;
use super::{binary, xml};
use crate::error::{ImportError, ImportResult};
use crate::json::MAX_BYTES;

/// Whether bytes start like a property list.
pub(super) fn is_plist(bytes: &[u8]) -> bool {
    bytes.starts_with(binary::MAGIC) || xml::is_xml(bytes)
}

/// Reads a property list, in XML or binary.
pub(super) fn parse(bytes: &[u8]) -> ImportResult<Plist> {
    if bytes.len() > MAX_BYTES {
        return Err(ImportError::file(format!("{} bytes; at most {MAX_BYTES} are read", bytes.len())));
    }
    if bytes.starts_with(binary::MAGIC) { binary::parse(bytes) } else { xml::parse(bytes) }
}

//! Debug sections, expanded where a file has them compressed.
//!
//! # Source
//!
//! System V gABI, chapter "Sections", `SHF_COMPRESSED`; GNU binutils, `.zdebug` sections.

use std::borrow::Cow;
use std::fmt;

use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;
use object::{CompressionFormat, Object, ObjectSection};

use crate::inlined_functions::DAMAGED;

/// The largest section after expansion, in bytes.
const LARGEST: u64 = 2 << 30;

/// The most bytes that zlib makes of one.
///
/// # Source
///
/// zlib, "Technical Details", "Maximum Compression Factor": 1032.
const MOST_PER_BYTE: u64 = 1032;

/// The reason why debug sections are not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnreadSection {
    /// It is compressed in a format that is not read here, such as Zstandard.
    Format,
    /// Its compressed data is damaged, or too large.
    Damaged,
    /// The content of the sections is damaged.
    DebugInformation,
}

impl fmt::Display for UnreadSection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UnreadSection::Format => {
                "its debug sections are compressed by other means than zlib; `objcopy \
                 --decompress-debug-sections FILE` expands them"
            }
            UnreadSection::Damaged => "its compressed debug sections are damaged, or too large",
            UnreadSection::DebugInformation => DAMAGED,
        })
    }
}

/// The data of a section, empty if the file has none of this name.
///
/// # Errors
///
/// [`UnreadSection`].
pub(crate) fn section_data<'a>(file: &object::File<'a>, name: &str) -> Result<Cow<'a, [u8]>, UnreadSection> {
    let gnu_name = || format!(".z{}", name.trim_start_matches('.'));
    let section = file.section_by_name(name).or_else(|| file.section_by_name(&gnu_name()));
    let Some(section) = section else { return Ok(Cow::Borrowed(&[])) };
    let found = section.compressed_data().map_err(|_| UnreadSection::Damaged)?;
    match found.format {
        CompressionFormat::None => Ok(Cow::Borrowed(found.data)),
        CompressionFormat::Zlib => expanded(found.data, found.uncompressed_size).map(Cow::Owned),
        _ => Err(UnreadSection::Format),
    }
}

/// The data of so many bytes that was compressed by zlib.
fn expanded(data: &[u8], len: u64) -> Result<Vec<u8>, UnreadSection> {
    let is_possible = len <= LARGEST && len <= (data.len() as u64).saturating_mul(MOST_PER_BYTE);
    let len = usize::try_from(len).ok().filter(|_| is_possible).ok_or(UnreadSection::Damaged)?;
    let data = decompress_to_vec_zlib_with_limit(data, len).ok().filter(|data| data.len() == len);
    data.ok_or(UnreadSection::Damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `b"hello hello hello hello"`, compressed by zlib.
    const HELLO: [u8; 16] =
        [0x78, 0x9c, 0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0x57, 0xc8, 0x40, 0x27, 0x01, 0x68, 0x03, 0x08, 0xb1];

    #[test]
    fn data_of_another_length_or_content_is_damaged() {
        let whole = &HELLO[..];
        assert_eq!(expanded(whole, 23).unwrap(), b"hello hello hello hello");
        for (data, len) in [(whole, 22), (whole, 24), (&whole[..12], 23), (&[][..], 0), (&[1, 2, 3][..], 9)] {
            assert_eq!(expanded(data, len), Err(UnreadSection::Damaged), "{len}");
        }
        let mut other = whole.to_vec();
        other[15] ^= 1;
        assert_eq!(expanded(&other, 23), Err(UnreadSection::Damaged), "the checksum is another one");
        assert_eq!(expanded(whole, 1 << 40), Err(UnreadSection::Damaged), "no memory is reserved for that");
    }
}

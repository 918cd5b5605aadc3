//! Frames: tag, length, checksum, payload.

use std::io::{self, ErrorKind, Read, Write};

use crc32fast::Hasher;

/// The version of the format that is written, and the only one that is read.
pub const VERSION: u32 = 1;

/// The most bytes of a frame's payload.
pub const MOST_PAYLOAD: usize = 4 << 20;

/// The beginning of a recording. Its first byte is no ASCII and its last ones are a line end, so that a file
/// that was transferred as text is not taken for one.
pub(crate) const MAGIC: [u8; 8] = *b"\x89cycrec\n";

/// Bytes before the first frame: the magic and the version.
pub(crate) const PREAMBLE: usize = 12;

/// Bytes of a frame before its payload.
const HEAD: usize = 12;

/// The kind of a frame. Readers skip those that they do not know if the first letter is small.
pub(crate) mod tag {
    pub(crate) const HEADER: [u8; 4] = *b"HEAD";
    pub(crate) const ROWS: [u8; 4] = *b"ROWS";
    pub(crate) const NAME: [u8; 4] = *b"name";
    pub(crate) const CODE_MEMORY: [u8; 4] = *b"code";
    pub(crate) const FOOTER: [u8; 4] = *b"FOOT";
}

pub(crate) fn preamble() -> [u8; PREAMBLE] {
    let mut bytes = [0; PREAMBLE];
    bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
    bytes[MAGIC.len()..].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// The checksum up to the end of the preamble.
pub(crate) fn first_checksum() -> u32 {
    crc32fast::hash(&preamble())
}

/// The checksum up to the end of a frame: CRC-32 of its tag, length and payload, continued from the checksum
/// before it.
///
/// # Source
///
/// ISO 3309, as in gzip (RFC 1952, section 8) and `zlib.crc32`.
fn checksum(before: u32, tag: [u8; 4], payload: &[u8]) -> u32 {
    let mut hasher = Hasher::new_with_initial(before);
    hasher.update(&tag);
    hasher.update(&(payload.len() as u32).to_le_bytes());
    hasher.update(payload);
    hasher.finalize()
}

/// Appends frames; the first failure is final, as a part of a frame may be written.
#[derive(Debug)]
pub(crate) struct FrameWriter<W> {
    pub(crate) out: W,
    checksum: u32,
    frame: Vec<u8>,
    has_failed: bool,
}

impl<W: Write> FrameWriter<W> {
    /// Writes the preamble.
    pub(crate) fn new(mut out: W) -> io::Result<FrameWriter<W>> {
        out.write_all(&preamble())?;
        Ok(FrameWriter { out, checksum: first_checksum(), frame: Vec::new(), has_failed: false })
    }

    /// Writes a frame by one call of the writer below.
    pub(crate) fn put(&mut self, tag: [u8; 4], payload: &[u8]) -> io::Result<()> {
        if self.has_failed {
            return Err(io::Error::other("an earlier part of the recording could not be written"));
        }
        if payload.len() > MOST_PAYLOAD {
            let length = payload.len();
            let message = format!("a frame of {length} bytes is longer than the format allows");
            return Err(io::Error::new(ErrorKind::InvalidInput, message));
        }
        self.checksum = checksum(self.checksum, tag, payload);
        self.frame.clear();
        self.frame.extend_from_slice(&tag);
        self.frame.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        self.frame.extend_from_slice(&self.checksum.to_le_bytes());
        self.frame.extend_from_slice(payload);
        self.has_failed = true;
        self.out.write_all(&self.frame)?;
        self.has_failed = false;
        Ok(())
    }
}

/// A frame, or the lack of one, at the position of a reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FoundFrame {
    /// A frame whose checksum is right.
    Whole([u8; 4]),
    /// The end of the input, or a frame that the input ends within.
    End,
    /// A frame that was changed.
    Damaged,
}

/// Reads frames.
#[derive(Debug)]
pub(crate) struct FrameReader<R> {
    input: R,
    checksum: u32,
    /// The offset of the frame that was read last, or is next.
    pub(crate) offset: u64,
    next: u64,
    pub(crate) payload: Vec<u8>,
}

impl<R: Read> FrameReader<R> {
    /// Reads frames behind a preamble.
    pub(crate) fn new(input: R) -> FrameReader<R> {
        let behind = PREAMBLE as u64;
        FrameReader { input, checksum: first_checksum(), offset: behind, next: behind, payload: Vec::new() }
    }

    /// Reads a frame into `payload`. The payload grows as bytes come, whatever the frame claims.
    pub(crate) fn read(&mut self) -> io::Result<FoundFrame> {
        self.offset = self.next;
        let mut head = [0; HEAD];
        if read_up_to(&mut self.input, &mut head)? < HEAD {
            return Ok(FoundFrame::End);
        }
        let [tag, length, expected] =
            [0, 4, 8].map(|at| [head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let length = u32::from_le_bytes(length) as usize;
        if length > MOST_PAYLOAD {
            return Ok(FoundFrame::Damaged);
        }
        self.payload.clear();
        let read = (&mut self.input).take(length as u64).read_to_end(&mut self.payload)?;
        if read < length {
            return Ok(FoundFrame::End);
        }
        self.checksum = checksum(self.checksum, tag, &self.payload);
        self.next = self.offset + (HEAD + length) as u64;
        match self.checksum == u32::from_le_bytes(expected) {
            true => Ok(FoundFrame::Whole(tag)),
            false => Ok(FoundFrame::Damaged),
        }
    }

    /// Whether the input ends here.
    pub(crate) fn is_at_end(&mut self) -> io::Result<bool> {
        Ok(read_up_to(&mut self.input, &mut [0])? == 0)
    }
}

/// Fills a buffer from the beginning, unless the input ends before.
pub(crate) fn read_up_to(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

//! The binary form: objects, a table of their offsets, a trailer.
//!
//! # Source
//!
//! Apple CoreFoundation `CFBinaryPList.c`, the comment on the format.

use super::plist::{Plist, PlistBudget};
use crate::error::{ImportError, ImportResult};

/// The first bytes of every version that macOS writes.
pub(super) const MAGIC: &[u8] = b"bplist00";

/// Length of the trailer in bytes.
const TRAILER: usize = 32;

/// Reads the top object of a file.
pub(super) fn parse(bytes: &[u8]) -> ImportResult<Plist> {
    let mut file = Binary::open(bytes)?;
    file.object(file.top, 1)
}

struct Binary<'a> {
    bytes: &'a [u8],
    /// Bytes of a number in the offset table, and of a reference in an array.
    offset_size: usize,
    reference_size: usize,
    objects: usize,
    top: usize,
    /// Where the offset table starts.
    table: usize,
    budget: PlistBudget,
}

impl<'a> Binary<'a> {
    fn open(bytes: &'a [u8]) -> ImportResult<Binary<'a>> {
        let start = bytes.len().checked_sub(TRAILER).filter(|start| *start >= MAGIC.len());
        let start = start.ok_or_else(|| bad("it ends before its trailer"))?;
        let trailer = &bytes[start..];
        let long = |at: usize| usize::try_from(number(&trailer[at..at + 8])).unwrap_or(usize::MAX);
        let file = Binary {
            bytes,
            offset_size: trailer[6].into(),
            reference_size: trailer[7].into(),
            objects: long(8),
            top: long(16),
            table: long(24),
            budget: PlistBudget::default(),
        };
        let sizes = (1..=8).contains(&file.offset_size) && (1..=8).contains(&file.reference_size);
        let end = file.objects.checked_mul(file.offset_size).and_then(|size| size.checked_add(file.table));
        match end {
            Some(end) if sizes && end <= start => Ok(file),
            _ => Err(bad("its trailer contradicts its length")),
        }
    }

    fn slice(&self, at: usize, length: usize) -> ImportResult<&'a [u8]> {
        let end = at.checked_add(length).ok_or_else(|| bad("an object is too long"))?;
        self.bytes.get(at..end).ok_or_else(|| bad("an object ends behind the file"))
    }

    fn object(&mut self, index: usize, depth: usize) -> ImportResult<Plist> {
        self.budget.value(depth)?;
        if index >= self.objects {
            return Err(bad(format!("there is no object {index}")));
        }
        let offset = number(self.slice(self.table + index * self.offset_size, self.offset_size)?);
        let at = usize::try_from(offset).map_err(|_| bad("an offset is too large"))?;
        let marker = self.slice(at, 1)?[0];
        match marker >> 4 {
            0x1 => Ok(Plist::Integer(self.integer(at)?.0)),
            0x5 => self.ascii(at),
            0x6 => self.utf16(at),
            0xa | 0xc => self.array(at, depth),
            0xd => self.dict(at, depth),
            0x0 | 0x2 | 0x3 | 0x4 | 0x8 => Ok(Plist::Other),
            kind => Err(bad(format!("object {index} is of kind {kind:#x}, which there is not"))),
        }
    }

    /// The number at a marker 0x1n, of 2^n bytes, and where it ends. An integer of 8 bytes and more has a
    /// sign.
    fn integer(&self, at: usize) -> ImportResult<(i128, usize)> {
        let marker = self.slice(at, 1)?[0];
        let length = 1usize << (marker & 0xf);
        if marker >> 4 != 1 || length > 16 {
            return Err(bad("a number has no number's form"));
        }
        let bytes = self.slice(at + 1, length)?;
        let value = match <[u8; 8]>::try_from(bytes) {
            Ok(bytes) => i64::from_be_bytes(bytes).into(),
            Err(_) => bytes.iter().fold(0i128, |value, byte| value << 8 | i128::from(*byte)),
        };
        Ok((value, at + 1 + length))
    }

    /// How many elements an object has, and where they start.
    fn count(&self, at: usize) -> ImportResult<(usize, usize)> {
        let low = usize::from(self.slice(at, 1)?[0] & 0xf);
        if low < 0xf {
            return Ok((low, at + 1));
        }
        let (count, start) = self.integer(at + 1)?;
        Ok((usize::try_from(count).map_err(|_| bad("an object has an impossible length"))?, start))
    }

    fn ascii(&mut self, at: usize) -> ImportResult<Plist> {
        let (count, start) = self.count(at)?;
        let bytes = self.slice(start, count)?;
        self.budget.text(count)?;
        let text = std::str::from_utf8(bytes).map_err(|_| bad("a text is no ASCII"))?;
        Ok(Plist::Text(text.to_owned()))
    }

    fn utf16(&mut self, at: usize) -> ImportResult<Plist> {
        let (count, start) = self.count(at)?;
        let bytes = self.slice(start, count.checked_mul(2).ok_or_else(|| bad("a text is too long"))?)?;
        self.budget.text(bytes.len())?;
        let units: Vec<u16> =
            bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
        String::from_utf16(&units).map(Plist::Text).map_err(|_| bad("a text is no UTF-16"))
    }

    fn array(&mut self, at: usize, depth: usize) -> ImportResult<Plist> {
        let (count, start) = self.count(at)?;
        let references = self.references(start, count)?;
        let values: ImportResult<Vec<Plist>> =
            references.map(|index| self.object(index, depth + 1)).collect();
        Ok(Plist::Array(values?))
    }

    fn dict(&mut self, at: usize, depth: usize) -> ImportResult<Plist> {
        let (count, start) = self.count(at)?;
        let keys = self.references(start, count)?;
        let values = self.references(start + count * self.reference_size, count)?;
        let mut entries = Vec::new();
        for (key, value) in keys.zip(values) {
            let Plist::Text(key) = self.object(key, depth + 1)? else { return Err(bad("a key is no text")) };
            entries.push((key, self.object(value, depth + 1)?));
        }
        Ok(Plist::Dict(entries))
    }

    /// The numbers of an object's elements.
    fn references(&self, start: usize, count: usize) -> ImportResult<impl Iterator<Item = usize> + use<'a>> {
        let size = self.reference_size;
        let length = count.checked_mul(size).ok_or_else(|| bad("an object has an impossible length"))?;
        let bytes = self.slice(start, length)?;
        Ok(bytes.chunks_exact(size).map(|bytes| usize::try_from(number(bytes)).unwrap_or(usize::MAX)))
    }
}

/// A number, the high byte first; at most eight bytes.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn bad(message: impl std::fmt::Display) -> ImportError {
    ImportError::file(format!("no binary property list: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Objects one behind the other, with one-byte offsets and references; the first is the top.
    fn file(objects: &[&[u8]]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let mut offsets = Vec::new();
        for object in objects {
            offsets.push(bytes.len() as u8);
            bytes.extend_from_slice(object);
        }
        let table = bytes.len() as u8;
        bytes.extend(offsets);
        bytes.extend([0, 0, 0, 0, 0, 0, 1, 1]);
        for value in [objects.len() as u8, 0, table] {
            bytes.extend([0, 0, 0, 0, 0, 0, 0, value]);
        }
        bytes
    }

    fn refused(bytes: &[u8], expected: &str) {
        let error = parse(bytes).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn every_kind_of_object_is_read() {
        let bytes = file(&[
            &[0xd2, 1, 2, 3, 4],
            b"\x51a",
            b"\x61\x00\xe9",
            &[0x11, 0x01, 0x02],
            &[0xa3, 5, 6, 3],
            &[0x09],
            &[0x13, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe],
        ]);
        let list = vec![Plist::Other, Plist::Integer(-2), Plist::Integer(0x102)];
        let entries = vec![("a".to_owned(), Plist::Integer(0x102)), ("é".to_owned(), Plist::Array(list))];
        assert_eq!(parse(&bytes), Ok(Plist::Dict(entries)));
    }

    #[test]
    fn a_length_of_fifteen_and_more_stands_in_a_number() {
        let mut text = vec![0x5f, 0x10, 20];
        text.extend([b'x'; 20]);
        assert_eq!(parse(&file(&[&text])), Ok(Plist::Text("x".repeat(20))));
    }

    #[test]
    fn an_object_within_itself_and_one_named_a_million_times_are_refused() {
        refused(&file(&[&[0xa1, 0]]), "nested deeper than 64");
        // Nine arrays of fourteen times the next one each: 20 thousand million values.
        let arrays: Vec<Vec<u8>> = (1..=9u8).map(|next| [vec![0xae], vec![next; 14]].concat()).collect();
        let mut objects: Vec<&[u8]> = arrays.iter().map(Vec::as_slice).collect();
        objects.push(&[0x09]);
        refused(&file(&objects), " values");
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        refused(MAGIC, "ends before its trailer");
        refused(&[MAGIC, &[0xff; 40]].concat(), "its trailer contradicts its length");
        refused(&file(&[&[0xa1, 7]]), "there is no object 7");
        refused(&file(&[&[0xd1, 1, 1], &[0x09]]), "a key is no text");
        refused(&file(&[&[0x5f, 0x13, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]]), "an object");
        refused(&file(&[&[0x5f, 0x13, 0xff, 0, 0, 0, 0, 0, 0, 0]]), "impossible length");
        refused(&file(&[&[0xdf, 0x13, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]]), "an object");
        refused(&file(&[&[0xf0]]), "kind 0xf");
        let good = file(&[b"\x51a"]);
        for length in 0..good.len() {
            assert!(parse(&good[..length]).is_err(), "{length}");
        }
    }
}

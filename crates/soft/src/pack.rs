//! Numbers and bytes in a file, in chunks with a checksum each.
//!
//! ```text
//! chunk: number of bytes (32 bits), checksum over them (64 bits), the bytes
//! ```
//!
//! All numbers are little-endian. No number is split between two chunks; other bytes may be.

use std::io::{self, Read, Write};

/// Most bytes of a chunk.
const CHUNK: usize = 1 << 18;

/// Most elements for which memory is reserved in advance: a wrong number of elements takes no memory.
pub(crate) const MOST_AT_ONCE: usize = 1 << 20;

/// Bytes before each chunk.
pub(crate) const HEAD: usize = 12;

/// A checksum that detects damage, over four lanes of eight bytes. It is no proof against forgery: where
/// bytes decide which code is executed, they are compared.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
    let mut lanes = [1, 2, 3, 4].map(|lane: u64| 0xcbf2_9ce4_8422_2325 ^ lane);
    let (rows, rest) = bytes.as_chunks::<32>();
    for row in rows {
        for (lane, word) in lanes.iter_mut().zip(row.as_chunks().0) {
            *lane = mix(*lane, u64::from_le_bytes(*word));
        }
    }
    let whole = lanes.into_iter().fold(mix(0, bytes.len() as u64), mix);
    rest.iter().fold(whole, |sum, byte| mix(sum, u64::from(*byte)))
}

/// Writes numbers and bytes.
pub(crate) struct ChunkWriter<'a> {
    to: &'a mut dyn Write,
    chunk: Vec<u8>,
    written: io::Result<()>,
}

impl ChunkWriter<'_> {
    pub(crate) fn new(to: &mut dyn Write) -> ChunkWriter<'_> {
        ChunkWriter { to, chunk: Vec::with_capacity(CHUNK), written: Ok(()) }
    }

    fn put<const N: usize>(&mut self, number: [u8; N]) {
        if self.chunk.len() + N > CHUNK {
            self.flush();
        }
        self.chunk.extend_from_slice(&number);
    }

    fn flush(&mut self) {
        let mut head = [0; HEAD];
        head[..4].copy_from_slice(&(self.chunk.len() as u32).to_le_bytes());
        head[4..].copy_from_slice(&sum(&self.chunk).to_le_bytes());
        if self.written.is_ok() {
            self.written = self.to.write_all(&head).and_then(|()| self.to.write_all(&self.chunk));
        }
        self.chunk.clear();
    }

    pub(crate) fn u8(&mut self, number: u8) {
        self.put([number]);
    }

    pub(crate) fn u16(&mut self, number: u16) {
        self.put(number.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, number: u32) {
        self.put(number.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, number: u64) {
        self.put(number.to_le_bytes());
    }

    /// The number of elements that follow.
    pub(crate) fn count(&mut self, number: usize) {
        self.u64(number as u64);
    }

    /// Bytes whose number the reader knows.
    pub(crate) fn bytes(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.chunk.len() == CHUNK {
                self.flush();
            }
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK - self.chunk.len()));
            self.chunk.extend_from_slice(now);
            bytes = later;
        }
    }

    /// Bytes with their number.
    pub(crate) fn counted(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.bytes(bytes);
    }

    /// Writes the last chunk.
    ///
    /// # Errors
    ///
    /// That of the first write that failed.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.flush();
        self.written
    }
}

/// Reads the output of a [`ChunkWriter`], in the same order. `None` where it is damaged, or ends.
pub(crate) struct ChunkReader<'a> {
    from: &'a mut dyn Read,
    chunk: Vec<u8>,
    at: usize,
}

impl ChunkReader<'_> {
    pub(crate) fn new(from: &mut dyn Read) -> ChunkReader<'_> {
        ChunkReader { from, chunk: Vec::with_capacity(CHUNK), at: 0 }
    }

    fn refill(&mut self) -> Option<()> {
        let mut head = [0; HEAD];
        self.from.read_exact(&mut head).ok()?;
        let (len, expected) = head.split_first_chunk::<4>()?;
        let len = u32::from_le_bytes(*len) as usize;
        if len > CHUNK {
            return None;
        }
        self.chunk.resize(len, 0);
        self.at = 0;
        self.from.read_exact(&mut self.chunk).ok()?;
        (sum(&self.chunk).to_le_bytes() == *expected).then_some(())
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        if self.at == self.chunk.len() {
            self.refill()?;
        }
        let (number, _) = self.chunk.get(self.at..)?.split_first_chunk()?;
        self.at += N;
        Some(*number)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        Some(u8::from_le_bytes(self.take()?))
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take()?))
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take()?))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take()?))
    }

    /// The number of elements that follow. No list has four billion elements.
    pub(crate) fn count(&mut self) -> Option<usize> {
        Some(u32::try_from(self.u64()?).ok()? as usize)
    }

    /// Fills a buffer.
    pub(crate) fn fill(&mut self, mut room: &mut [u8]) -> Option<()> {
        while !room.is_empty() {
            if self.at == self.chunk.len() {
                self.refill()?;
            }
            let there = self.chunk.get(self.at..).filter(|there| !there.is_empty())?;
            let now = there.len().min(room.len());
            let (filled, later) = room.split_at_mut(now);
            filled.copy_from_slice(&there[..now]);
            self.at += now;
            room = later;
        }
        Some(())
    }

    /// Bytes with their number.
    pub(crate) fn counted(&mut self) -> Option<Vec<u8>> {
        let count = self.count()?;
        let mut bytes = Vec::with_capacity(count.min(CHUNK));
        while bytes.len() < count {
            let start = bytes.len();
            bytes.resize(count.min(start + CHUNK), 0);
            self.fill(&mut bytes[start..])?;
        }
        Some(bytes)
    }

    /// A text with its number of bytes.
    pub(crate) fn text(&mut self) -> Option<String> {
        String::from_utf8(self.counted()?).ok()
    }

    /// A list of elements, each read by `one`.
    pub(crate) fn list<T>(&mut self, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.count()?;
        let mut list = Vec::with_capacity(count.min(MOST_AT_ONCE));
        for _ in 0..count {
            list.push(one(self)?);
        }
        Some(list)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, PartialEq, Eq, Debug)]
    enum PackedItem {
        Small(u8),
        Short(u16),
        Word(u32),
        Long(u64),
        Bytes(Vec<u8>),
    }

    fn items() -> impl Strategy<Value = Vec<PackedItem>> {
        let item = prop_oneof![
            any::<u8>().prop_map(PackedItem::Small),
            any::<u16>().prop_map(PackedItem::Short),
            any::<u32>().prop_map(PackedItem::Word),
            any::<u64>().prop_map(PackedItem::Long),
            (any::<u8>(), 0..3 * CHUNK / 2).prop_map(|(byte, len)| PackedItem::Bytes(vec![byte; len])),
        ];
        prop::collection::vec(item, 0..20)
    }

    fn written(items: &[PackedItem]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut packer = ChunkWriter::new(&mut bytes);
        for item in items {
            match item {
                PackedItem::Small(number) => packer.u8(*number),
                PackedItem::Short(number) => packer.u16(*number),
                PackedItem::Word(number) => packer.u32(*number),
                PackedItem::Long(number) => packer.u64(*number),
                PackedItem::Bytes(bytes) => packer.counted(bytes),
            }
        }
        packer.finish().unwrap();
        bytes
    }

    fn read(mut bytes: &[u8], like: &[PackedItem]) -> Option<Vec<PackedItem>> {
        let mut unpacker = ChunkReader::new(&mut bytes);
        let one = |item: &PackedItem| {
            Some(match item {
                PackedItem::Small(_) => PackedItem::Small(unpacker.u8()?),
                PackedItem::Short(_) => PackedItem::Short(unpacker.u16()?),
                PackedItem::Word(_) => PackedItem::Word(unpacker.u32()?),
                PackedItem::Long(_) => PackedItem::Long(unpacker.u64()?),
                PackedItem::Bytes(_) => PackedItem::Bytes(unpacker.counted()?),
            })
        };
        like.iter().map(one).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_is_written_is_read(items in items()) {
            prop_assert_eq!(read(&written(&items), &items), Some(items));
        }

        #[test]
        fn damage_is_noticed(items in items(), position in any::<prop::sample::Index>(), bit in 0u8..8) {
            let mut bytes = written(&items);
            prop_assume!(!items.is_empty());
            let position = position.index(bytes.len());
            bytes[position] ^= 1 << bit;
            prop_assert_eq!(read(&bytes, &items), None);
        }

        #[test]
        fn the_end_is_noticed(items in items(), position in any::<prop::sample::Index>()) {
            let bytes = written(&items);
            prop_assume!(!items.is_empty());
            prop_assert_eq!(read(&bytes[..position.index(bytes.len())], &items), None);
        }
    }

    #[test]
    fn a_count_of_what_does_not_come_takes_no_memory() {
        let bytes = written(&[PackedItem::Long(u64::from(u32::MAX))]);
        let mut from = bytes.as_slice();
        assert_eq!(ChunkReader::new(&mut from).list(ChunkReader::u64), None);
    }
}

//! The PC map of a run of translated code, in about three bytes for each entry.
//!
//! There are several entries for each instruction of the program, and they are read only where the program is
//! interrupted. So each entry is stored as its difference from the one before, and a map is read from its
//! start.
//!
//! ```text
//! head: bits 0..4  distance from the entry before; 31: a number follows the head
//!       bits 5..6  instructions done: as before, one more, or (2) a number
//!       bit 7      a byte follows that tells whether the subject (1) and the flags (2) differ, as numbers
//! ```

use super::program_point::{PcBits, PcEntry};

const FAR: u32 = 31;
const ANOTHER: u8 = 2;
const MORE: u8 = 0x80;
const SUBJECT: u8 = 1;
const BITS: u8 = 2;

/// Marks of code from an offset on, ascending.
pub(crate) struct PcMap {
    start: u32,
    last: PcEntry,
    bytes: Vec<u8>,
}

impl PcMap {
    /// An empty map of code that starts at an offset in its region; `buffers` is empty.
    pub(crate) fn from(start: u32, buffers: Vec<u8>) -> PcMap {
        PcMap { start, last: before(start), bytes: buffers }
    }

    /// Adds an entry behind all others.
    #[inline]
    pub(crate) fn push(&mut self, entry: PcEntry) {
        debug_assert!(entry.bits.0 < 1 << 21, "three bytes of seven bits");
        let (distance, last) = (entry.at - self.last.at, self.last);
        let step = entry.done.wrapping_sub(last.done);
        if distance >= FAR || step > 1 || entry.subject != last.subject {
            return self.push_another(entry);
        }
        self.last = entry;
        let head = distance as u8 | (step as u8) << 5;
        if entry.bits == last.bits {
            return self.bytes.push(head);
        }
        // The bits as a number of three bytes at most.
        let (low, middle, high) = (entry.bits.0 & 0x7f, entry.bits.0 >> 7 & 0x7f, entry.bits.0 >> 14);
        let (number, len) = match (middle, high) {
            (0, 0) => (low, 3),
            (_, 0) => (low | 0x80 | middle << 8, 4),
            _ => (low | 0x80 | (middle | 0x80) << 8 | high << 16, 5),
        };
        let text = u64::from(head | MORE) | u64::from(BITS) << 8 | u64::from(number) << 16;
        let behind = self.bytes.len() + len;
        self.bytes.extend_from_slice(&text.to_le_bytes());
        self.bytes.truncate(behind);
    }

    /// Adds an entry that differs in more than its flags.
    fn push_another(&mut self, entry: PcEntry) {
        let (distance, last) = (entry.at - self.last.at, self.last);
        let done = match entry.done.wrapping_sub(last.done) {
            step @ 0..=1 => step as u8,
            _ => ANOTHER,
        };
        let subject = if entry.subject != last.subject { SUBJECT } else { 0 };
        let bits = if entry.bits != last.bits { BITS } else { 0 };
        let more = if subject | bits != 0 { MORE } else { 0 };
        let mut text = EncodedEntry::default();
        text.byte(distance.min(FAR) as u8 | done << 5 | more);
        if distance >= FAR {
            text.number(distance);
        }
        if done == ANOTHER {
            text.number(entry.done.into());
        }
        if more != 0 {
            text.byte(subject | bits);
        }
        if subject != 0 {
            text.number(entry.subject);
        }
        if bits != 0 {
            text.number(entry.bits.0);
        }
        let behind = self.bytes.len() + text.len;
        // A copy of the maximum size of an entry takes no call.
        self.bytes.extend_from_slice(&text.bytes);
        self.bytes.truncate(behind);
        self.last = entry;
    }

    /// The offset of the code.
    pub(crate) fn start(&self) -> u32 {
        self.start
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Finishes the map in memory of its own; returns the buffer.
    pub(crate) fn close(self) -> (PcMap, Vec<u8>) {
        let mut buffers = self.bytes;
        let map = PcMap { bytes: buffers.as_slice().to_vec(), ..self };
        buffers.clear();
        (map, buffers)
    }

    /// The bytes of a finished map, for [`PcMap::read`].
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The map of code that starts at an offset, from its bytes.
    pub(crate) fn read(start: u32, bytes: Vec<u8>) -> PcMap {
        PcMap { start, last: before(start), bytes }
    }

    /// Every entry, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = PcEntry> {
        let mut bytes = self.bytes.iter().copied();
        let mut last = before(self.start);
        std::iter::from_fn(move || {
            last = next(&mut bytes, last)?;
            Some(last)
        })
    }
}

/// The bytes of one entry: two bytes, and four numbers of up to five.
#[derive(Default)]
struct EncodedEntry {
    bytes: [u8; 24],
    len: usize,
}

impl EncodedEntry {
    fn byte(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    /// Seven bits at a time, the lowest first.
    fn number(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }
}

/// The entry that the first one is compared with.
fn before(start: u32) -> PcEntry {
    PcEntry { at: start, subject: 0, done: 0, bits: PcBits::CLEAN }
}

/// The entry behind another one.
fn next(bytes: &mut impl Iterator<Item = u8>, last: PcEntry) -> Option<PcEntry> {
    let head = bytes.next()?;
    let near = u32::from(head) & FAR;
    let distance = if near == FAR { number(bytes)? } else { near };
    let done = match head >> 5 & 3 {
        ANOTHER => number(bytes)? as u16,
        step => last.done.wrapping_add(step.into()),
    };
    let more = if head & MORE != 0 { bytes.next()? } else { 0 };
    let subject = if more & SUBJECT != 0 { number(bytes)? } else { last.subject };
    let bits = if more & BITS != 0 { PcBits(number(bytes)?) } else { last.bits };
    Some(PcEntry { at: last.at + distance, subject, done, bits })
}

fn number(bytes: &mut impl Iterator<Item = u8>) -> Option<u32> {
    let mut value = 0;
    for shift in (0..32).step_by(7) {
        let byte = bytes.next()?;
        value |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pc_maps_are_read_as_they_were_written(
            start in 0u32..1 << 26,
            steps in prop::collection::vec(
                (0u32..100, prop_oneof![Just(7u32), any::<u32>()], 0u16..4097, 0u32..1 << 20),
                0..50,
            ),
        ) {
            let mut map = PcMap::from(start, Vec::new());
            let mut written = Vec::new();
            let mut at = start;
            for (distance, subject, done, bits) in steps {
                at += distance;
                written.push(PcEntry { at, subject, done, bits: PcBits(bits) });
            }
            written.iter().for_each(|entry| map.push(*entry));
            prop_assert_eq!(map.is_empty(), written.is_empty());
            let (map, buffers) = map.close();
            prop_assert!(buffers.is_empty());
            prop_assert_eq!(map.iter().collect::<Vec<_>>(), written);
        }
    }

    #[test]
    fn an_entry_that_differs_little_takes_one_byte() {
        let mut map = PcMap::from(0, Vec::new());
        let entry = |at, done| PcEntry { at, subject: 0, done, bits: PcBits::CLEAN };
        [entry(0, 0), entry(5, 1), entry(12, 2), entry(12, 2)].into_iter().for_each(|entry| map.push(entry));
        assert_eq!(map.bytes.len(), 4);
    }
}

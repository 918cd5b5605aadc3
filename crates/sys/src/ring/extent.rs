//! The unread part of a ring, and its records one by one.

use std::ops::Range;

use super::RingError;
use super::record::HEADER;

/// The unread bytes of a ring, as ranges of it. The second range is empty unless the bytes continue at the
/// ring's start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Extent {
    /// The older bytes.
    pub older: Range<usize>,
    /// The bytes that continue at the start of the ring.
    pub newer: Range<usize>,
}

impl Extent {
    /// The bytes between the read position (`tail`) and the write position (`head`). Both only grow, and wrap
    /// at 64 bits; the ring's size in bytes is not 0.
    ///
    /// # Errors
    ///
    /// [`RingError::Overrun`] where that is more than the ring holds.
    ///
    /// # Source
    ///
    /// Linux `include/uapi/linux/perf_event.h`, `data_head` and `data_tail`; `kernel/events/ring_buffer.c`.
    pub fn new(size: usize, tail: u64, head: u64) -> Result<Extent, RingError> {
        let (unread, size) = (head.wrapping_sub(tail), size as u64);
        if unread > size || size == 0 {
            return Err(RingError::Overrun { unread, size });
        }
        let start = tail % size;
        let older = unread.min(size - start);
        let at = |from: u64, length: u64| from as usize..(from + length) as usize;
        Ok(Extent { older: at(start, older), newer: at(0, unread - older) })
    }
}

/// The records in some bytes, which may consist of two slices: a record may begin in one and end in the
/// other.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    older: &'a [u8],
    newer: &'a [u8],
}

impl<'a> Records<'a> {
    /// The records of two slices.
    pub fn new(older: &'a [u8], newer: &'a [u8]) -> Records<'a> {
        Records { older, newer }
    }

    /// The next record with its header; `None` at the end. A record in two slices is joined in `joined`.
    ///
    /// # Errors
    ///
    /// [`RingError::Size`] where it claims an invalid size. No record follows then.
    pub fn next<'s>(&mut self, joined: &'s mut Vec<u8>) -> Result<Option<&'s [u8]>, RingError>
    where
        'a: 's,
    {
        let left = self.older.len() + self.newer.len();
        if left == 0 {
            return Ok(None);
        }
        let size = self.size().unwrap_or(0);
        if size < HEADER || !size.is_multiple_of(8) || size > left {
            (self.older, self.newer) = (&[], &[]);
            return Err(RingError::Size { size, left });
        }
        Ok(Some(self.take(size, joined)))
    }

    /// The size that the next record's header claims: its last two bytes.
    fn size(&self) -> Option<usize> {
        let byte = |at: usize| self.older.iter().chain(self.newer).nth(at).copied();
        Some(u16::from_ne_bytes([byte(HEADER - 2)?, byte(HEADER - 1)?]).into())
    }

    fn take<'s>(&mut self, size: usize, joined: &'s mut Vec<u8>) -> &'s [u8]
    where
        'a: 's,
    {
        if let Some((record, rest)) = self.older.split_at_checked(size) {
            self.older = rest;
            if rest.is_empty() {
                (self.older, self.newer) = (self.newer, &[]);
            }
            return record;
        }
        let (end, rest) = self.newer.split_at(size - self.older.len());
        joined.clear();
        joined.extend_from_slice(self.older);
        joined.extend_from_slice(end);
        (self.older, self.newer) = (rest, &[]);
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(kind: u32, words: usize) -> Vec<u8> {
        let size = u16::try_from(HEADER + words * 8).unwrap();
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(0u16.to_ne_bytes());
        bytes.extend(size.to_ne_bytes());
        bytes.extend((0..words * 8).map(|i| (i as u8) ^ kind as u8));
        bytes
    }

    fn all(mut records: Records<'_>) -> (Vec<Vec<u8>>, Option<RingError>) {
        let (mut found, mut joined) = (Vec::new(), Vec::new());
        loop {
            match records.next(&mut joined) {
                Ok(Some(record)) => found.push(record.to_vec()),
                Ok(None) => return (found, None),
                Err(error) => return (found, Some(error)),
            }
        }
    }

    #[test]
    fn what_is_unread_wraps_at_the_end_of_the_ring_and_of_the_numbers() {
        let extent = |tail, head| Extent::new(64, tail, head).unwrap();
        assert_eq!(extent(0, 0), Extent { older: 0..0, newer: 0..0 });
        assert_eq!(extent(8, 24), Extent { older: 8..24, newer: 0..0 });
        assert_eq!(extent(48, 80), Extent { older: 48..64, newer: 0..16 });
        assert_eq!(extent(u64::MAX - 15, 8), Extent { older: 48..64, newer: 0..8 });
        assert_eq!(extent(0, 64), Extent { older: 0..64, newer: 0..0 });
        assert_eq!(Extent::new(64, 0, 65).unwrap_err(), RingError::Overrun { unread: 65, size: 64 });
        assert!(Extent::new(64, 8, 0).is_err(), "the kernel has read back");
        assert!(Extent::new(0, 0, 0).is_err());
    }

    #[test]
    fn a_size_that_is_none_ends_the_records() {
        for (size, left) in [(0, 16), (7, 16), (12, 16), (24, 16), (8, 4)] {
            let mut bytes = record(9, 1);
            bytes[6..8].copy_from_slice(&u16::to_ne_bytes(size));
            bytes.truncate(left);
            let (found, error) = all(Records::new(&bytes, &[]));
            let size = if left < HEADER { 0 } else { size.into() };
            assert_eq!((found.len(), error), (0, Some(RingError::Size { size, left })));
        }
        let mut bytes = record(9, 2);
        bytes.extend([0; 16]);
        let (found, error) = all(Records::new(&bytes, &[]));
        assert_eq!((found.len(), error), (1, Some(RingError::Size { size: 0, left: 16 })));
    }

    proptest! {
        #[test]
        fn records_are_the_same_wherever_the_ring_ends(
            kinds in proptest::collection::vec((0u32..20, 0usize..6), 0..12),
            cut in any::<prop::sample::Index>(),
        ) {
            let records: Vec<Vec<u8>> = kinds.iter().map(|(kind, words)| record(*kind, *words)).collect();
            let bytes = records.concat();
            let cut = cut.index(bytes.len() + 1);
            let (older, newer) = bytes.split_at(cut);
            prop_assert_eq!(all(Records::new(older, newer)), (records, None));
        }

        #[test]
        fn any_bytes_end_and_none_is_read_twice(bytes in proptest::collection::vec(any::<u8>(), 0..256), cut in 0usize..256) {
            let (older, newer) = bytes.split_at(cut.min(bytes.len()));
            let (found, error) = all(Records::new(older, newer));
            let read: usize = found.iter().map(Vec::len).sum();
            prop_assert!(read <= bytes.len());
            prop_assert!(error.is_some() || read == bytes.len());
            prop_assert_eq!(found.concat(), &bytes[..read]);
        }

        #[test]
        fn an_extent_has_as_many_bytes_as_were_written(shift in 0u32..12, tail in any::<u64>(), unread in 0u64..5000) {
            let size = 1usize << shift;
            let extent = Extent::new(size, tail, tail.wrapping_add(unread));
            prop_assert_eq!(extent.is_err(), unread > size as u64);
            if let Ok(extent) = extent {
                prop_assert_eq!(extent.older.len() + extent.newer.len(), unread as usize);
                prop_assert!(extent.older.end <= size && extent.newer.end <= extent.older.start.max(1));
            }
        }
    }
}

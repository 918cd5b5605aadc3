//! A list that grows without moving its elements.
//!
//! A large vector is copied to fresh memory each time that it doubles, and its old memory is seldom used
//! again. Fresh memory costs most, more so in a virtual machine.

use std::ops::{Index, IndexMut};

/// Elements of each chunk: a power of two.
const CHUNK: usize = 1024;

/// Elements in chunks of [`CHUNK`].
#[derive(Clone, Debug)]
pub(crate) struct ChunkedVec<T> {
    chunks: Vec<Vec<T>>,
    len: usize,
}

impl<T> ChunkedVec<T> {
    pub(crate) const fn new() -> ChunkedVec<T> {
        ChunkedVec { chunks: Vec::new(), len: 0 }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn push(&mut self, element: T) {
        if self.len.is_multiple_of(CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        if let Some(last) = self.chunks.last_mut() {
            last.push(element);
            self.len += 1;
        }
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.chunks.get(index / CHUNK)?.get(index % CHUNK)
    }

    /// From the first to the last.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        self.chunks.iter().flatten()
    }
}

impl<T> Index<usize> for ChunkedVec<T> {
    type Output = T;

    #[inline]
    fn index(&self, index: usize) -> &T {
        &self.chunks[index / CHUNK][index % CHUNK]
    }
}

impl<T> IndexMut<usize> for ChunkedVec<T> {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self.chunks[index / CHUNK][index % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_keep_their_order_and_place() {
        let mut chunks = ChunkedVec::new();
        (0..3 * CHUNK).for_each(|i| chunks.push(i));
        let first: *const usize = &raw const chunks[0];
        chunks.push(7);
        assert_eq!(first, &raw const chunks[0]);
        chunks[CHUNK] += 1;
        assert_eq!((chunks[CHUNK - 1], chunks[CHUNK], chunks[3 * CHUNK]), (CHUNK - 1, CHUNK + 1, 7));
        assert_eq!((chunks.len(), chunks.get(3 * CHUNK + 1)), (3 * CHUNK + 1, None));
        assert_eq!(chunks.iter().count(), chunks.len());
    }
}

//! A fast hash for addresses. Collisions that a program provokes only slow it down.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map keyed by addresses or numbers.
pub(crate) type AddressMap<K, V> = HashMap<K, V, BuildHasherDefault<Multiply>>;

/// Multiplication by 2⁶⁴ / φ; the upper half decides.
///
/// # Source
///
/// D. E. Knuth: The Art of Computer Programming, volume 3, section 6.4 (Fibonacci hashing).
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Multiply(u64);

impl Hasher for Multiply {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        words.iter().for_each(|word| self.write_u64(u64::from_ne_bytes(*word)));
        rest.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        let product = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
}

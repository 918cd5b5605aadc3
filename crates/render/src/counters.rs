//! Masks of counters, for people and as JSON.

use cyclometer_toolkit::core::CounterMask;

/// Counters as people read them: `0-3, fixed 1`.
pub fn counters(mask: CounterMask) -> String {
    if mask.is_empty() { "not named by the vendor".to_owned() } else { mask.to_string() }
}

/// The numbers of the bits that are set.
pub fn numbers(bits: u64) -> Vec<u8> {
    (0..64).filter(|n| bits >> n & 1 == 1).collect()
}

/// The number of the fixed counter, if there is one.
pub fn fixed(counters: CounterMask) -> Option<u32> {
    let bits = counters.fixed_bits();
    (bits != 0).then(|| bits.trailing_zeros())
}

//! Counters and constraint masks. Counter indices, numbers of counters and masks are different types.

use std::fmt;

/// One hardware counter: general or fixed, each with its number.
///
/// Numbers are the vendor's: Intel's `IA32_PMCn` and `IA32_FIXED_CTRn`, Apple's `PMCn`
/// (there PMC0 and PMC1 are fixed), Arm's `PMEVCNTRn` with the cycle counter as fixed 31.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum CounterId {
    /// A programmable counter.
    General(u8),
    /// A counter that can count one event only.
    Fixed(u8),
}

impl fmt::Display for CounterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CounterId::General(n) => write!(f, "{n}"),
            CounterId::Fixed(n) => write!(f, "fixed {n}"),
        }
    }
}

/// How far a PMU's counters count.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CounterWidth {
    /// Width of a counter in bits.
    pub bits: u32,
    /// The bit that tells an overflow; the width where a carry does.
    pub overflow_bit: u32,
}

impl CounterWidth {
    /// Counters of this many bits that overflow by a carry.
    pub const fn carrying(bits: u32) -> CounterWidth {
        CounterWidth { bits, overflow_bit: bits }
    }
}

/// A set of counters: the constraint mask of an event, or the counters that a PMU has.
///
/// Bit `i` of a half stands for general (or fixed) counter `i`. Either half can have holes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct CounterMask {
    general: u64,
    fixed: u64,
}

impl CounterMask {
    /// No counter at all.
    pub const EMPTY: CounterMask = CounterMask { general: 0, fixed: 0 };

    /// From two bit masks; bit `i` is counter `i`.
    pub const fn from_bits(general: u64, fixed: u64) -> CounterMask {
        CounterMask { general, fixed }
    }

    /// The first `general` general and the first `fixed` fixed counters; each at most 64.
    pub const fn first(general: u32, fixed: u32) -> CounterMask {
        CounterMask { general: low_bits(general), fixed: low_bits(fixed) }
    }

    /// The mask of general counters: bit `i` is counter `i`.
    pub const fn general_bits(self) -> u64 {
        self.general
    }

    /// The mask of fixed counters: bit `i` is counter `i`.
    pub const fn fixed_bits(self) -> u64 {
        self.fixed
    }

    /// Number of counters in the mask.
    pub const fn len(self) -> u32 {
        self.general.count_ones() + self.fixed.count_ones()
    }

    /// Whether no counter is in the mask.
    pub const fn is_empty(self) -> bool {
        self.general | self.fixed == 0
    }

    /// Whether `counter` is in the mask.
    pub const fn contains(self, counter: CounterId) -> bool {
        match counter {
            CounterId::General(n) => n < 64 && self.general >> n & 1 == 1,
            CounterId::Fixed(n) => n < 64 && self.fixed >> n & 1 == 1,
        }
    }

    /// The counters in both masks.
    pub const fn and(self, other: CounterMask) -> CounterMask {
        CounterMask { general: self.general & other.general, fixed: self.fixed & other.fixed }
    }

    /// The counters in either mask.
    pub const fn or(self, other: CounterMask) -> CounterMask {
        CounterMask { general: self.general | other.general, fixed: self.fixed | other.fixed }
    }

    /// The counters of this mask that are not in `other`.
    pub const fn without(self, other: CounterMask) -> CounterMask {
        CounterMask { general: self.general & !other.general, fixed: self.fixed & !other.fixed }
    }

    /// `counter 7`, `counters 0-3, fixed 1`.
    pub fn in_words(self) -> String {
        let noun = if self.len() == 1 { "counter" } else { "counters" };
        format!("{noun} {self}")
    }

    /// The counters, fixed ones first, then by number.
    pub fn iter(self) -> impl Iterator<Item = CounterId> {
        let bits = |mask: u64| (0..64u8).filter(move |n| mask >> n & 1 == 1);
        bits(self.fixed).map(CounterId::Fixed).chain(bits(self.general).map(CounterId::General))
    }
}

const fn low_bits(n: u32) -> u64 {
    if n >= 64 { u64::MAX } else { (1 << n) - 1 }
}

impl FromIterator<CounterId> for CounterMask {
    fn from_iter<I: IntoIterator<Item = CounterId>>(counters: I) -> CounterMask {
        let mut mask = CounterMask::EMPTY;
        for counter in counters {
            match counter {
                CounterId::General(n) => mask.general |= 1u64.checked_shl(n.into()).unwrap_or(0),
                CounterId::Fixed(n) => mask.fixed |= 1u64.checked_shl(n.into()).unwrap_or(0),
            }
        }
        mask
    }
}

/// The ranges of counters, general ones first: `0-3, fixed 1`.
impl fmt::Display for CounterMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let general = ranges(self.general);
        let fixed = Some(ranges(self.fixed)).filter(|fixed| !fixed.is_empty());
        let parts: Vec<String> =
            general.into_iter().chain(fixed.map(|fixed| format!("fixed {}", fixed.join(", ")))).collect();
        f.write_str(if parts.is_empty() { "none" } else { "" })?;
        f.write_str(&parts.join(", "))
    }
}

/// The numbers of the set bits, with neighbours joined to ranges: `0-3`, `7`.
fn ranges(bits: u64) -> Vec<String> {
    let mut found: Vec<(u8, u8)> = Vec::new();
    for n in (0..64).filter(|n| bits >> n & 1 == 1) {
        match found.last_mut() {
            Some((_, last)) if *last + 1 == n => *last = n,
            _ => found.push((n, n)),
        }
    }
    let shown = |(first, last): (u8, u8)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    found.into_iter().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_keep_general_and_fixed_counters_apart() {
        let skymont = CounterMask::from_bits(0xff, 0b111_0111);
        assert_eq!(skymont.len(), 14);
        assert!(!skymont.contains(CounterId::Fixed(3)));
        assert!(skymont.contains(CounterId::General(3)));
        assert_eq!(skymont.and(CounterMask::first(2, 1)), CounterMask::from_bits(0b11, 1));
    }

    #[test]
    fn counters_are_shown_in_ranges_and_those_behind_the_word_are_fixed() {
        for (general, fixed, expected) in [
            (0, 0, "none"),
            (0b1, 0, "0"),
            (0xff, 0b1, "0-7, fixed 0"),
            (0b1011, 0b1101, "0-1, 3, fixed 0, 2-3"),
            (u64::MAX, 1 << 31, "0-63, fixed 31"),
        ] {
            assert_eq!(CounterMask::from_bits(general, fixed).to_string(), expected);
        }
    }

    #[test]
    fn a_mask_survives_its_iterator() {
        for mask in [CounterMask::EMPTY, CounterMask::first(64, 3), CounterMask::from_bits(0x80, 0)] {
            assert_eq!(mask.iter().collect::<CounterMask>(), mask);
        }
    }
}

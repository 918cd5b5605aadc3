//! Bit fields of registers, as data.

use cyclometer_core::CounterWidth;
use std::fmt;

use crate::presence::Presence;

/// How a field is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldKind {
    /// Shown whatever its value.
    Always,
    /// Shown unless it is 0.
    WhenSet,
    /// Means nothing where it stands: set, it is a warning.
    Ignored,
}

/// One field of a register: all that is said of it anywhere, here once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FieldSpec {
    /// Its lowest bit.
    pub low: u8,
    /// Its highest bit.
    pub high: u8,
    /// The vendor's name, without a counter's number.
    pub name: &'static str,
    /// The counter's number, where the field belongs to one.
    pub index: Option<u16>,
    /// The effect of the field.
    pub meaning: &'static str,
    /// The meaning of single values.
    pub values: &'static [(u64, &'static str)],
    /// How it is shown.
    pub kind: FieldKind,
    /// Which chips of the family have it.
    pub presence: Presence,
    /// The document that says so; never empty for fields that [`layout`](crate::layout()) lists.
    pub source: &'static str,
}

impl FieldSpec {
    /// A field of several bits.
    pub(crate) const fn bits(low: u8, high: u8, name: &'static str, meaning: &'static str) -> FieldSpec {
        let (values, kind, presence) = (&[], FieldKind::WhenSet, Presence::ALWAYS);
        FieldSpec { low, high, name, index: None, meaning, values, kind, presence, source: "" }
    }

    /// A field of one bit.
    pub(crate) const fn bit(n: u8, name: &'static str, meaning: &'static str) -> FieldSpec {
        FieldSpec::bits(n, n, name, meaning)
    }

    /// The count of a counter of this width: the whole register where the width is unknown.
    pub(crate) const fn count(width: Option<CounterWidth>) -> FieldSpec {
        let last = match width {
            Some(CounterWidth { bits: bits @ 1..=64, .. }) => (bits - 1) as u8,
            _ => 63,
        };
        FieldSpec::bits(0, last, "COUNT", "the count").always()
    }

    /// The same on chips from this version of the PMU on.
    pub(crate) const fn since(self, first: u32) -> FieldSpec {
        FieldSpec { presence: Presence { first, ..self.presence }, ..self }
    }

    /// The same on chips up to this version of the PMU.
    pub(crate) const fn until(self, last: u32) -> FieldSpec {
        FieldSpec { presence: self.presence.until(last), ..self }
    }

    /// The same on chips that have something besides.
    pub(crate) const fn needing(self, needs: &'static str) -> FieldSpec {
        FieldSpec { presence: self.presence.needing(needs), ..self }
    }

    /// The same with a source of its own, where its register's does not tell of it.
    pub(crate) const fn by(self, source: &'static str) -> FieldSpec {
        FieldSpec { source, ..self }
    }

    /// The same, shown also when it is 0.
    pub(crate) const fn always(self) -> FieldSpec {
        FieldSpec { kind: FieldKind::Always, ..self }
    }

    /// The same, as one that means nothing where it stands.
    pub(crate) const fn ignored(self) -> FieldSpec {
        FieldSpec { kind: FieldKind::Ignored, ..self }
    }

    /// The same with meanings of single values.
    pub(crate) const fn with_values(self, values: &'static [(u64, &'static str)]) -> FieldSpec {
        FieldSpec { values, ..self }
    }

    /// The same for a counter, at other bits.
    pub(crate) const fn of(self, index: u16, low: u8) -> FieldSpec {
        FieldSpec { index: Some(index), low, high: low + (self.high - self.low), ..self }
    }

    /// The register bits that it covers.
    pub const fn mask(&self) -> u64 {
        low_mask(self.high as u32 - self.low as u32 + 1) << self.low
    }

    /// Its value in a register's value.
    pub const fn take(&self, register: u64) -> u64 {
        (register & self.mask()) >> self.low
    }

    /// Its name with the counter's number.
    pub fn full_name(&self) -> String {
        self.index.map_or_else(|| self.name.to_owned(), |index| format!("{}{index}", self.name))
    }

    /// The meaning of a value, and the features that a chip must have for it.
    pub(crate) fn explain(&self, value: u64) -> String {
        let known = self.values.iter().find(|(known, _)| *known == value);
        let meaning = known.map_or(self.meaning, |(_, meaning)| meaning);
        match self.presence.needs {
            None => meaning.to_owned(),
            Some(needs) => format!("{meaning} ({needs})"),
        }
    }
}

/// The bits whose conditions hold, together.
pub(crate) fn flags<const N: usize>(flags: [(bool, u64); N]) -> u64 {
    flags.iter().filter(|(set, _)| *set).fold(0, |sum, (_, bit)| sum | bit)
}

/// One field for each of these counters, a bit each, that of counter 0 at `first`.
pub(crate) fn each_counter(counters: u64, field: FieldSpec, first: u8) -> Vec<FieldSpec> {
    set_bits(counters).map(|n| field.of(n.into(), first + n)).collect()
}

/// `bit 22`, `bits 38-39`.
pub(crate) struct BitRange(pub u8, pub u8);

impl fmt::Display for BitRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BitRange(low, high) = *self;
        if low == high { write!(f, "bit {low}") } else { write!(f, "bits {low}-{high}") }
    }
}

/// The `width` lowest bits; all of them from 64 on.
pub(crate) const fn low_mask(width: u32) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}

/// The numbers of the set bits.
pub(crate) fn set_bits(mask: u64) -> impl Iterator<Item = u8> {
    (0..64u8).filter(move |n| mask >> n & 1 == 1)
}

/// The runs of set bits, each with its lowest and highest bit.
pub(crate) fn runs(mut bits: u64) -> impl Iterator<Item = BitRange> {
    std::iter::from_fn(move || {
        if bits == 0 {
            return None;
        }
        let low = bits.trailing_zeros();
        let length = (bits >> low).trailing_ones();
        bits &= !(low_mask(length) << low);
        Some(BitRange(low as u8, (low + length - 1) as u8))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_takes_its_bits() {
        let field = FieldSpec::bits(8, 15, "UMASK", "");
        assert_eq!((field.mask(), field.take(0x12_3456)), (0xff00, 0x34));
        assert_eq!(FieldSpec::bits(0, 63, "all", "").mask(), u64::MAX);
        assert_eq!(FieldSpec::bits(0, 3, "CTRL", "").of(7, 28).mask(), 0xf000_0000);
    }

    #[test]
    fn set_bits_are_found_as_runs() {
        let found: Vec<String> = runs(0xc000_0000_0000_0106).map(|run| run.to_string()).collect();
        assert_eq!(found, ["bits 1-2", "bit 8", "bits 62-63"]);
        assert_eq!(runs(u64::MAX).map(|BitRange(low, high)| (low, high)).collect::<Vec<_>>(), [(0, 63)]);
    }
}

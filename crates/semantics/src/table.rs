//! Tables of the meaning of events.

use std::fmt;

use cyclometer_core::{CounterId, CounterMask};

use crate::meaning::Meaning;

/// The most rows of a table.
pub const MAX_ROWS: usize = 1 << 17;

/// The meaning of an event on some counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventSemantics {
    /// The code of the event: select, with the unit mask from bit 8 on where the chip has unit masks.
    pub code: u32,
    /// The general counters that count so.
    pub counters: CounterMask,
    /// The counts of these counters.
    pub meaning: Meaning,
}

/// Two rows of one code for the same counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overlap {
    /// The code.
    pub code: u32,
    /// The counters that both rows have.
    pub counters: CounterMask,
    /// The places of the rows, from 0.
    pub rows: [usize; 2],
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event {:#x} has two rows for counters {}", self.code, self.counters)
    }
}

impl std::error::Error for Overlap {}

/// The meaning of each event of a chip. Events without a row count nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Semantics {
    /// By code, then by counters.
    rows: Vec<EventSemantics>,
}

impl Semantics {
    /// A table with these rows, in any order. One code can have several rows with different counters.
    ///
    /// # Errors
    ///
    /// Two rows for one code and counter.
    pub fn new(rows: &[EventSemantics]) -> Result<Semantics, Overlap> {
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|at| (rows[*at].code, rows[*at].counters.general_bits()));
        for same in order.chunk_by(|a, b| rows[*a].code == rows[*b].code) {
            if let Some(overlap) = overlap(rows, same) {
                return Err(overlap);
            }
        }
        Ok(Semantics { rows: order.into_iter().map(|at| rows[at]).collect() })
    }

    /// The rows, by code.
    pub fn rows(&self) -> &[EventSemantics] {
        &self.rows
    }

    /// The rows of a code.
    pub fn of(&self, code: u32) -> &[EventSemantics] {
        let start = self.rows.partition_point(|row| row.code < code);
        let end = self.rows.partition_point(|row| row.code <= code);
        &self.rows[start..end]
    }

    /// The meaning of a code on a counter; `None`: it counts nothing.
    pub fn meaning(&self, code: u32, counter: CounterId) -> Option<&Meaning> {
        self.of(code).iter().find(|row| row.counters.contains(counter)).map(|row| &row.meaning)
    }
}

/// Two of these rows, all of one code, that share a counter.
fn overlap(rows: &[EventSemantics], same: &[usize]) -> Option<Overlap> {
    // A code has 64 counters, so that more rows than those overlap before long.
    let pairs = same.iter().enumerate().flat_map(|(n, a)| same[..n].iter().map(move |b| (*b, *a)));
    pairs
        .map(|(a, b)| (a, b, rows[a].counters.and(rows[b].counters)))
        .find(|(_, _, shared)| !shared.is_empty())
        .map(|(a, b, counters)| Overlap { code: rows[a].code, counters, rows: [a.min(b), a.max(b)] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_core::Concept;

    fn row(code: u32, general: u64, concept: Concept) -> EventSemantics {
        EventSemantics {
            code,
            counters: CounterMask::from_bits(general, 0),
            meaning: Meaning::sum(&[concept]),
        }
    }

    #[test]
    fn a_code_counts_by_the_row_of_its_counter() {
        let rows =
            [row(7, 0b1100, Concept::Loads), row(3, 0b1, Concept::Calls), row(7, 0b1, Concept::Stores)];
        let semantics = Semantics::new(&rows).unwrap();
        let on = |code, n| semantics.meaning(code, CounterId::General(n)).copied();
        assert_eq!(on(7, 3), Some(Meaning::sum(&[Concept::Loads])));
        assert_eq!(on(7, 0), Some(Meaning::sum(&[Concept::Stores])));
        assert_eq!([on(7, 1), on(4, 0), on(3, 64)], [None; 3]);
        assert_eq!((semantics.of(7).len(), semantics.of(8).len()), (2, 0));
    }

    #[test]
    fn two_rows_for_one_counter_are_refused_by_their_places() {
        let rows =
            [row(7, 0b0110, Concept::Loads), row(3, 1, Concept::Calls), row(7, 0b0011, Concept::Stores)];
        let overlap = Semantics::new(&rows).unwrap_err();
        assert_eq!(overlap.rows, [0, 2]);
        assert_eq!(overlap.to_string(), "event 0x7 has two rows for counters 1");
    }
}

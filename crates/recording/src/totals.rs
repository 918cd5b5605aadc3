//! The totals of a recording.

use std::io::Read;

use cyclometer_core::{Count, MissingReason, PartReason};

use crate::{Recording, RecordingEnd, RecordingHeader, RecordingResult};

/// The totals of a recording that was read to its end.
#[derive(Clone, PartialEq, Debug)]
pub struct RecordingTotals {
    /// Its header.
    pub header: RecordingHeader,
    /// The totals, in the order of the events of the header.
    pub totals: Vec<Count>,
    /// Length of the recording, in ns; `None` where the source has no clock, or it ends early.
    pub elapsed_ns: Option<u64>,
    /// Whether it is complete. The totals of one that ends early are those of its rows.
    pub is_complete: bool,
}

impl<R: Read> Recording<R> {
    /// Reads all rows, and gives the totals.
    ///
    /// # Errors
    ///
    /// As the rows.
    pub fn into_totals(mut self) -> RecordingResult<RecordingTotals> {
        let mut sums = vec![RecordedSum::default(); self.header().events.len()];
        for row in self.by_ref() {
            sums.iter_mut().zip(&row?.counts).for_each(|(sum, count)| sum.add(count));
        }
        let header = self.header().clone();
        Ok(match self.end() {
            Some(RecordingEnd::Complete(footer)) => RecordingTotals {
                header,
                totals: footer.totals.clone(),
                elapsed_ns: footer.elapsed_ns,
                is_complete: true,
            },
            _ => RecordingTotals {
                header,
                totals: sums.into_iter().map(RecordedSum::into_count).collect(),
                elapsed_ns: None,
                is_complete: false,
            },
        })
    }
}

/// The sum of an event over rows.
#[derive(Clone, Default, Debug)]
struct RecordedSum {
    raw: u64,
    rows: u64,
    /// The first count without a number.
    missing: Option<Count>,
}

impl RecordedSum {
    fn add(&mut self, count: &Count) {
        match count.value() {
            Some(value) => (self.raw, self.rows) = (self.raw.saturating_add(value), self.rows + 1),
            None => {
                self.missing.get_or_insert_with(|| count.clone());
            }
        }
    }

    fn into_count(self) -> Count {
        match (self.missing, self.rows) {
            (Some(missing), 0) => missing,
            (None, 0) => Count::NotCounted { reason: MissingReason::NoRows },
            _ => Count::Partial { raw: self.raw, part: PartReason::BeforeEarlyEnd },
        }
    }
}

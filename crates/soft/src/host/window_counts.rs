//! Counts of windows: readouts of a translation, and the executions between them.

use super::window_protocol::WindowRequest;
use crate::block::Block;
use crate::totals::TotalError;
use crate::{EventTotals, ExecutionEvent};

/// The sums of a thread in its translation, at a program point.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct WindowReadout {
    instructions: u64,
    /// In the order of the request; `None` where it is unknown.
    counts: Vec<Option<u64>>,
}

impl WindowReadout {
    /// The readout of the requested events and of instructions.
    ///
    /// # Errors
    ///
    /// Where the instructions are unknown: they end windows.
    pub(super) fn of(totals: &EventTotals, request: &WindowRequest) -> Result<WindowReadout, TotalError> {
        let instructions = totals.total(ExecutionEvent::Instructions)?;
        let counts = request.events.iter().map(|event| totals.total(*event).ok()).collect();
        Ok(WindowReadout { instructions, counts })
    }

    pub(super) fn instructions(&self) -> u64 {
        self.instructions
    }

    /// The readout after some instructions of a block, of which this one is before the first.
    pub(super) fn after(&self, block: &Block, request: &WindowRequest) -> WindowReadout {
        let counted = |event| u64::from(block.events.of(event));
        let known = |event: &ExecutionEvent| !block.kinds().any(|kind| kind.feeds().contains(event));
        let counts = self.counts.iter().zip(&request.events);
        let counts = counts.map(|(count, event)| {
            count.filter(|_| known(event)).map(|count| count.wrapping_add(counted(*event)))
        });
        WindowReadout {
            instructions: self.instructions.wrapping_add(counted(ExecutionEvent::Instructions)),
            counts: counts.collect(),
        }
    }
}

/// The executions of a window so far. A system call that is to be made again is taken back: until then its
/// counts are less by one, which may be less than zero.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct WindowCounts {
    instructions: i64,
    /// In the order of the request; `None` where it is unknown.
    counts: Vec<Option<i64>>,
}

/// The outcome of a window that ends.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum WindowOutcome {
    /// It has no execution, or only a system call of the window before that was taken back: there is no row.
    Empty,
    /// The row, and the executions that the next window begins with.
    Row {
        /// In the order of the request; `None` where it is unknown.
        counts: Vec<Option<u64>>,
        /// Executions of the window before that were taken back, and are made again in the next one.
        owed: WindowCounts,
    },
}

impl WindowCounts {
    /// No executions.
    pub(super) fn none(request: &WindowRequest) -> WindowCounts {
        WindowCounts { instructions: 0, counts: vec![Some(0); request.events.len()] }
    }

    pub(super) fn instructions(&self) -> i64 {
        self.instructions
    }

    /// With the executions between two readouts of a translation.
    pub(super) fn between(&self, start: &WindowReadout, now: &WindowReadout) -> WindowCounts {
        let sum =
            |before: i64, start: u64, now: u64| before.wrapping_add(now.wrapping_sub(start).cast_signed());
        let counts = self.counts.iter().zip(&start.counts).zip(&now.counts);
        WindowCounts {
            instructions: sum(self.instructions, start.instructions, now.instructions),
            counts: counts.map(|((before, start), now)| Some(sum((*before)?, (*start)?, (*now)?))).collect(),
        }
    }

    /// The outcome of a window that ends with these executions.
    pub(super) fn outcome(&self) -> WindowOutcome {
        let only_taken_back = || self.counts.iter().flatten().all(|count| *count <= 0);
        if self.instructions < 0 || self.instructions == 0 && only_taken_back() {
            return WindowOutcome::Empty;
        }
        WindowOutcome::Row {
            counts: self.counts.iter().map(|count| count.map(|count| count.max(0).cast_unsigned())).collect(),
            owed: WindowCounts {
                instructions: 0,
                counts: self.counts.iter().map(|count| Some(count.unwrap_or(0).min(0))).collect(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;
    use crate::EventSet;

    fn request(events: &[ExecutionEvent]) -> WindowRequest {
        WindowRequest { period: NonZeroU64::MIN, most_rows: 1, events: events.to_vec() }
    }

    fn readout(instructions: u64, counts: &[Option<u64>]) -> WindowReadout {
        WindowReadout { instructions, counts: counts.to_vec() }
    }

    fn executed(instructions: i64, counts: &[Option<i64>]) -> WindowCounts {
        WindowCounts { instructions, counts: counts.to_vec() }
    }

    #[test]
    fn a_readout_without_instructions_is_an_error_and_other_unknown_events_are_no_zeros() {
        let of = |known: &[ExecutionEvent]| {
            let known: EventSet = known.iter().copied().collect();
            WindowReadout::of(
                &EventTotals::of(known),
                &request(&[ExecutionEvent::Loads, ExecutionEvent::Calls]),
            )
        };
        assert_eq!(
            of(&[ExecutionEvent::Loads, ExecutionEvent::Calls]),
            Err(TotalError::NotRequested(ExecutionEvent::Instructions))
        );
        let loads = of(&[ExecutionEvent::Instructions, ExecutionEvent::Loads]);
        assert_eq!(loads, Ok(readout(0, &[Some(0), None])));
    }

    #[test]
    fn counts_of_a_window_come_from_several_translations_and_unknown_ones_stay_unknown() {
        let none = WindowCounts::none(&request(&[ExecutionEvent::Loads, ExecutionEvent::Calls]));
        let first = none.between(&readout(10, &[Some(5), Some(1)]), &readout(30, &[Some(8), None]));
        assert_eq!(first, executed(20, &[Some(3), None]));
        let both = first.between(&readout(0, &[Some(0), Some(0)]), &readout(2, &[Some(1), Some(1)]));
        assert_eq!(both, executed(22, &[Some(4), None]));
        let WindowOutcome::Row { counts, owed } = both.outcome() else { panic!("there is a row") };
        assert_eq!((counts, owed), (vec![Some(4), None], none));
    }

    #[test]
    fn a_system_call_that_was_taken_back_makes_no_row_and_no_huge_number() {
        assert_eq!(executed(0, &[Some(0), None]).outcome(), WindowOutcome::Empty);
        let taken_back = executed(-1, &[Some(-1), Some(0)]);
        assert_eq!(taken_back.outcome(), WindowOutcome::Empty);
        // A handler was executed before the call is made again.
        let start = readout(10, &[Some(1), Some(7)]);
        let handler = taken_back.between(&start, &readout(31, &[Some(1), Some(9)]));
        let WindowOutcome::Row { counts, owed } = handler.outcome() else { panic!("there is a row") };
        assert_eq!(counts, [Some(0), Some(2)]);
        assert_eq!(owed, executed(0, &[Some(-1), Some(0)]), "the rows still add up");
    }
}

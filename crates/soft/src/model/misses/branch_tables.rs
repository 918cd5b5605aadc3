//! The branch predictors.

use super::BranchOutcome;
use super::cache_levels::Lookup;

/// Bits of an address, and outcomes, that choose a counter.
const ADDRESS_BITS: u32 = 7;
const HISTORY_BITS: u32 = 7;

/// Targets of indirect branches.
pub(super) const TARGETS: usize = 512;

/// Counters of conditional branches.
pub(super) const COUNTERS: usize = 1 << (ADDRESS_BITS + HISTORY_BITS);

/// The state of a two-bit counter that was not used yet. It predicts as 0 does.
const UNUSED: u8 = 4;

/// The next state of a two-bit counter, by the state and the outcome.
const AFTER: [[u8; 2]; 8] = [[0, 1], [0, 2], [1, 3], [2, 3], [0, 1], [0, 1], [0, 1], [0, 1]];

/// The branch predictors.
#[derive(Debug)]
pub(super) struct BranchTables {
    pub(super) counters: Box<[u8; COUNTERS]>,
    pub(super) history: usize,
    pub(super) targets: Vec<Option<u64>>,
    /// Whether every branch of the program was seen.
    pub(super) is_from_the_start: bool,
}

impl BranchTables {
    pub(super) fn new() -> BranchTables {
        BranchTables {
            counters: Box::new([UNUSED; COUNTERS]),
            history: 0,
            targets: vec![None; TARGETS],
            is_from_the_start: true,
        }
    }

    /// Predicts a branch, and learns its outcome; a hit is a right prediction.
    pub(super) fn lookup(&mut self, pc: u64, outcome: BranchOutcome) -> Lookup {
        let (was_known, is_right) = match outcome {
            BranchOutcome::Conditional { taken } => {
                let before = count_outcome(&mut self.counters, &mut self.history, pc, taken);
                (before != UNUSED, (before & 2 != 0) == taken)
            }
            BranchOutcome::Indirect { target } => {
                let entry = usize::try_from(pc % TARGETS as u64).unwrap_or(0);
                let before = self.targets[entry].replace(target);
                (before.is_some(), before == Some(target))
            }
        };
        match (was_known || self.is_from_the_start, is_right) {
            (false, _) => Lookup::Unknown,
            (true, true) => Lookup::Hit,
            (true, false) => Lookup::Miss,
        }
    }
}

/// Gives a conditional branch to its counter, without a branch of ours that depends on it. The state of the
/// counter before.
#[inline(always)]
pub(super) fn count_outcome(counters: &mut [u8; COUNTERS], history: &mut usize, pc: u64, taken: bool) -> u8 {
    let address = pc as usize % (1 << ADDRESS_BITS);
    let before = *history % (1 << HISTORY_BITS);
    *history = before << 1 | usize::from(taken);
    let counter = &mut counters[before << ADDRESS_BITS | address];
    let state = *counter;
    *counter = AFTER[usize::from(state % 8)][usize::from(taken)];
    state
}

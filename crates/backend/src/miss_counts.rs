//! Misses of modelled caches and TLBs of a command.

use std::time::Duration;

use cyclometer_core::code::CodeCounts;
use cyclometer_core::exec::ExitStatus;

/// The part of a command that the model sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MissRunKind {
    /// Each instruction.
    Full,
    /// Windows, between which the command runs natively.
    Windows {
        /// Most instructions of a window.
        steps: u64,
        /// The longest time that a window takes.
        time: Duration,
        /// The longest time between two windows; the first ones come sooner, and windows that take more than
        /// half of it later.
        gap: Duration,
    },
}

/// Sums of the model.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MissSums {
    /// Executed instructions.
    pub instructions: u64,
    /// Accesses to memory.
    pub data_references: u64,
    /// Conditional and indirect branches.
    pub branches: u64,
    /// Known misses of L1I, L1D, the last level, the branch predictor, and the TLBs of instructions, of data
    /// and the second level.
    pub known: [u64; 7],
    /// Accesses that may have been misses, in the same order.
    pub unknown: [u64; 7],
}

impl MissSums {
    /// Names of [`MissSums::values`]. The last [`MissSums::OF_TLBS`] are those of TLBs.
    pub const NAMES: [&'static str; 10] = [
        "instructions",
        "data_references",
        "l1i_misses",
        "l1d_misses",
        "ll_misses",
        "branches",
        "branch_misses",
        "itlb_misses",
        "dtlb_misses",
        "stlb_misses",
    ];

    /// The number of values that only a model with TLBs has.
    pub const OF_TLBS: usize = 3;

    /// The number of values of a model with TLBs, or of one without.
    pub fn value_count(has_tlbs: bool) -> usize {
        MissSums::NAMES.len() - if has_tlbs { 0 } else { MissSums::OF_TLBS }
    }

    /// The counts in order, misses as far as they are known.
    pub fn values(&self) -> [u64; 10] {
        let [l1i, l1d, ll, mispredictions, itlb, dtlb, stlb] = self.known;
        let MissSums { instructions, data_references, branches, .. } = *self;
        [instructions, data_references, l1i, l1d, ll, branches, mispredictions, itlb, dtlb, stlb]
    }
}

/// A window, with the native time that it stands for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WindowMisses {
    /// Its sums.
    pub sums: MissSums,
    /// The time that the command ran natively before it.
    pub native: Duration,
}

/// Misses of modelled caches of a command.
#[derive(Clone, PartialEq, Debug)]
pub struct MissRun {
    /// How the command ended.
    pub exit: Option<ExitStatus>,
    /// The signal that ended the measurement early.
    pub interrupted: Option<i32>,
    /// From start to end.
    pub wall: Duration,
    /// The windows with at least one instruction; one for a whole command.
    pub windows: Vec<WindowMisses>,
    /// Counts by instruction, in the order of [`MissSums::NAMES`]; slot `n` is the name number `n`. There are
    /// [`MissSums::value_count`] of them.
    pub code: CodeCounts,
    /// Why a part of the command was not seen that should have been.
    pub left: Option<String>,
}

//! Counts by code address: how much each instruction of a command counted.

use crate::SlotId;

/// The counts of each instruction of a run, over all of its processes and threads.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CodeCounts {
    /// The slots that are counted, in the order of [`CodePlace::counts`].
    pub slots: Vec<SlotId>,
    /// The files of code.
    pub objects: Vec<CodeObject>,
    /// The instructions that have counts, ascending by object and offset. Their counts add up to the total of
    /// the processes that have one.
    pub places: Vec<CodePlace>,
    /// The executions of call instructions, ascending by object and offset.
    pub calls: Vec<CodeCall>,
}

/// A file of code.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CodeObject {
    /// Its path, as the command sees it.
    pub path: String,
    /// A sum by which a file that was replaced since is noticed; the source says how it is made.
    pub sum: String,
}

/// The counts of an instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodePlace {
    /// The index of its file in [`CodeCounts::objects`]; `None`: code of no file.
    pub object: Option<usize>,
    /// Its offset in the file, in bytes; of code of no file, its address.
    pub offset: u64,
    /// The count of each slot.
    pub counts: Box<[u64]>,
}

/// The executions of a call instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodeCall {
    /// As [`CodePlace::object`].
    pub object: Option<usize>,
    /// As [`CodePlace::offset`].
    pub offset: u64,
    /// The distance in bytes from the instruction to its target, modulo 2⁶⁴; `None`: the target is in a
    /// register or in memory.
    pub distance: Option<u64>,
    /// The number of executions.
    pub times: u64,
}

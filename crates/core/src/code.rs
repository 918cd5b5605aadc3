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

//! Counts by code address: how much each instruction of a command counted.

use crate::SlotId;

/// The counts of each instruction of a run: over all of its processes and threads, or of each of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CodeCounts {
    /// The slots that are counted, in the order of [`CodePlace::counts`].
    pub slots: Vec<SlotId>,
    /// Those of the slots that count instructions, which [`CodePath::instructions`] counts too.
    pub instructions: Vec<SlotId>,
    /// The processes or threads whose counts are kept apart; none where all are added up.
    pub owners: Vec<CodeOwner>,
    /// The files of code, and the memory of processes with code that they have made.
    pub objects: Vec<CodeObject>,
    /// The instructions that have counts, ascending by object, offset and owner. Their counts add up to the
    /// total of the processes that have one.
    pub places: Vec<CodePlace>,
    /// The executions of call instructions, ascending by object, offset and owner.
    pub calls: Vec<CodeCall>,
    /// The instructions by call path, where that was requested: a path comes after that of its caller.
    pub paths: Vec<CodePath>,
}

/// The kind of tasks whose counts are kept apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OwnerKind {
    /// Each process, with all of its threads.
    Process,
    /// Each thread.
    Thread,
}

/// A process or thread whose counts are kept apart.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CodeOwner {
    /// The name of the process or thread when it ended, as the kernel shortens it to 15 bytes; empty where it
    /// could not be read.
    pub name: String,
    /// The id of the process.
    pub pid: u32,
    /// The id of the thread; `None`: all threads of the process.
    pub tid: Option<u32>,
}

/// A file of code, or the memory of a process with code of no file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct CodeObject {
    /// Its path, as the command sees it, with `\xHH` for bytes of control characters and bytes that are no
    /// UTF-8; empty for memory.
    pub path: String,
    /// A sum by which a file that was replaced since is noticed; the source says how it is made.
    pub sum: String,
    /// The process whose memory it is; `None` for a file.
    pub memory: Option<ProcessMemory>,
}

/// The memory of a process, in which it has made code while it ran.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProcessMemory {
    /// The process.
    pub pid: u32,
    /// A time before the process began, in nanoseconds since 1970: older files are not about it.
    pub since_ns: u64,
}

/// The counts of an instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodePlace {
    /// The index of its file or memory in [`CodeCounts::objects`]; `None`: unknown.
    pub object: Option<usize>,
    /// Its offset in the file, in bytes; of code of no file, its address.
    pub offset: u64,
    /// The index of its process or thread in [`CodeCounts::owners`]; `None`: all are added up.
    pub owner: Option<usize>,
    /// The count of each slot.
    pub counts: Box<[u64]>,
}

/// A path of functions that have called each other, with the instructions that were executed at its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodePath {
    /// The index of the path of the caller in [`CodeCounts::paths`]; `None` at the start of a thread.
    pub parent: Option<usize>,
    /// As [`CodePlace::object`], of the instruction at which the function was entered.
    pub object: Option<usize>,
    /// As [`CodePlace::offset`].
    pub offset: u64,
    /// The number of calls from the caller.
    pub calls: u64,
    /// The number of calls by itself, which stay in this path.
    pub recursions: u64,
    /// The instructions of this path alone. Those of all paths add up to all instructions.
    pub instructions: u64,
    /// Whether some instructions may belong to a neighbouring path, because frames were skipped.
    pub is_partial: bool,
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
    /// As [`CodePlace::owner`].
    pub owner: Option<usize>,
    /// The number of executions.
    pub times: u64,
}

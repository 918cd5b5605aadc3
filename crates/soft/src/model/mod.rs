//! Models of caches, a branch predictor and the sharing of cache lines, fed with instructions one by one.
//!
//! A model is no measurement: its sizes are those of a usual core, and it knows no latencies. It separates
//! access patterns that every cache serves from those that none does, and branches that every predictor
//! learns from those that none can.
//!
//! # Terms
//!
//! - *Site*: an instruction of the program, by its address.
//! - *Window*: instructions that were executed without a gap. The caches are empty at its start.
//! - *Irregular touch*: an access that no stride prefetcher foresees, to a line that the caches do not have:
//!   the first one of the window, or one after the line was evicted.
//! - *Irregular miss*: an irregular touch that must be a miss, because the line was evicted, or because the
//!   program uses more lines than a cache has (`working_set`). Their number is a lower bound.
//! - *Misprediction*: a branch that the best of three predictors for its site predicts wrongly.
//! - *Line transfer*: an access by one thread to a line that another thread had, where one of the two wrote.
//!   It is *false sharing* if no byte that one of them wrote was accessed by the other in that window.
//!
//! # Source
//!
//! Two-level adaptive prediction: Yeh and Patt, MICRO 1991. Global history: McFarling,
//! "Combining Branch Predictors", 1993. Torrellas, Lam and Hennessy, "False Sharing and Spatial Locality in
//! Multiprocessor Caches", 1994.

mod branches;
mod caches;
pub mod misses;
mod sharing;
mod working_set;

use std::collections::{HashMap, HashSet};

use branches::BranchPredictors;
use caches::{Caches, SECOND_LINES};
use sharing::LineSharing;
use working_set::WorkingSet;

/// Bytes of a cache line.
pub const LINE_BYTES: u64 = 64;

/// Bytes of a page, by which the footprint is counted.
const PAGE_BYTES: u64 = 4096;

/// A memory operand that an instruction accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryAccess {
    /// The first address.
    pub address: u64,
    /// The number of bytes.
    pub bytes: u64,
    /// Whether it writes; a read-modify-write writes.
    pub writes: bool,
    /// Whether one element of a plain array may be meant: a scalar operand that is not on the stack.
    pub is_element: bool,
}

/// The outcome of a branch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BranchOutcome {
    /// A conditional branch, taken or not.
    Conditional {
        /// Whether it was taken.
        taken: bool,
    },
    /// A jump or call by register or memory.
    Indirect {
        /// Its target.
        target: u64,
    },
}

/// An executed instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExecutedInstruction<'a> {
    /// A number of the thread.
    pub thread: u32,
    /// The address of the instruction.
    pub pc: u64,
    /// Its memory operands.
    pub accesses: &'a [MemoryAccess],
    /// The outcome if it is a conditional or indirect branch.
    pub branch: Option<BranchOutcome>,
}

/// The counts of a site, or of all sites.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ModelCounts {
    /// Executions.
    pub instructions: u64,
    /// Irregular touches.
    pub irregular_touches: u64,
    /// First touches of a line by an instruction whose stride is not known yet.
    pub unknown_touches: u64,
    /// Mispredictions.
    pub mispredictions: u64,
    /// Line transfers by false sharing.
    pub false_sharing: u64,
    /// Line transfers of data that threads really share.
    pub true_sharing: u64,
    /// Loads of array elements one after the other, one element each.
    pub unit_stride_loads: u64,
    /// Memory accesses.
    pub accesses: u64,
    /// First accesses of the window to a page: what page faults are caused by.
    pub page_touches: u64,
}

impl ModelCounts {
    /// Names of the counts, in the order of [`ModelCounts::values`].
    pub const NAMES: [&'static str; 9] = [
        "modelled_instructions",
        "modelled_irregular_touches",
        "modelled_unknown_touches",
        "modelled_mispredictions",
        "modelled_false_sharing",
        "modelled_true_sharing",
        "modelled_unit_stride_loads",
        "modelled_accesses",
        "modelled_page_touches",
    ];

    /// The counts in order.
    pub fn values(&self) -> [u64; 9] {
        [
            self.instructions,
            self.irregular_touches,
            self.unknown_touches,
            self.mispredictions,
            self.false_sharing,
            self.true_sharing,
            self.unit_stride_loads,
            self.accesses,
            self.page_touches,
        ]
    }

    /// Adds the counts of another site.
    pub fn add(&mut self, other: &ModelCounts) {
        self.instructions += other.instructions;
        self.irregular_touches += other.irregular_touches;
        self.unknown_touches += other.unknown_touches;
        self.mispredictions += other.mispredictions;
        self.false_sharing += other.false_sharing;
        self.true_sharing += other.true_sharing;
        self.unit_stride_loads += other.unit_stride_loads;
        self.accesses += other.accesses;
        self.page_touches += other.page_touches;
    }
}

/// Bounds of the irregular misses of all windows.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct MissBounds {
    /// Irregular touches.
    pub touches: u64,
    /// Those that are misses at least.
    pub misses: f64,
    /// The fewest lines that the program uses at a time; 0: unknown.
    pub working_set_lines: f64,
}

/// The last access of a site, for its strides.
#[derive(Clone, Copy, Debug)]
struct LastAccess {
    address: u64,
    stride: i64,
}

/// The distance of an access from the last one of its site.
#[derive(Clone, Copy, Debug)]
struct SiteStride {
    bytes: i64,
    /// Whether a prefetcher foresees the access.
    is_foreseen: bool,
}

/// The models of one process, over all of its windows.
#[derive(Debug, Default)]
pub struct CoreModel {
    caches: Caches,
    branches: BranchPredictors,
    sharing: LineSharing,
    last: HashMap<(u32, u64, usize), LastAccess>,
    working_set: WorkingSet,
    /// Irregular touches, and those of lines that were evicted.
    touches: u64,
    evicted: u64,
    pages: HashSet<u64>,
    window_pages: HashSet<u64>,
    sites: HashMap<u64, ModelCounts>,
}

/// The longest stride that a prefetcher follows, in bytes: it does not cross pages.
///
/// # Source
///
/// Intel 64 and IA-32 Architectures Optimization Reference Manual, "Data Prefetching": the streamer and the
/// stride prefetcher (2 KiB) stay in a 4 KiB page.
const LONGEST_STRIDE: u64 = 2048;

impl CoreModel {
    /// Executes an instruction.
    pub fn execute(&mut self, instruction: &ExecutedInstruction<'_>) {
        let ExecutedInstruction { thread, pc, accesses, branch } = *instruction;
        let mut counts = ModelCounts { instructions: 1, ..ModelCounts::default() };
        for (index, access) in accesses.iter().enumerate() {
            self.access(thread, pc, index, access, &mut counts);
        }
        if let Some(outcome) = branch
            && self.branches.mispredicts(thread, pc, outcome)
        {
            counts.mispredictions += 1;
        }
        self.sites.entry(pc).or_default().add(&counts);
    }

    fn access(
        &mut self,
        thread: u32,
        pc: u64,
        index: usize,
        access: &MemoryAccess,
        counts: &mut ModelCounts,
    ) {
        counts.accesses += 1;
        let page = access.address / PAGE_BYTES;
        if self.window_pages.insert(page) {
            counts.page_touches += 1;
            self.pages.insert(page);
        }
        let stride = self.stride(thread, pc, index, access.address);
        if access.is_element
            && !access.writes
            && stride.is_some_and(|stride| stride.bytes.unsigned_abs() == access.bytes)
        {
            counts.unit_stride_loads += 1;
        }
        self.touch(access.address / LINE_BYTES, stride.map(|stride| stride.is_foreseen), counts);
        self.sharing.access(thread, pc, access);
    }

    /// Accesses a line. A prefetcher foresees it or does not; `None`: its site has no earlier access.
    fn touch(&mut self, line: u64, is_foreseen: Option<bool>, counts: &mut ModelCounts) {
        let (is_held, is_again) = (self.caches.access(line), self.working_set.has_touched(line));
        let is_irregular = !is_held && is_foreseen == Some(false);
        if is_irregular {
            counts.irregular_touches += 1;
            self.touches += 1;
            self.evicted += u64::from(is_again);
        } else if !is_held && is_foreseen.is_none() {
            counts.unknown_touches += 1;
        }
        self.working_set.touch(line, is_irregular);
    }

    /// The distance of an address from the last one of its site, if there is one.
    fn stride(&mut self, thread: u32, pc: u64, index: usize, address: u64) -> Option<SiteStride> {
        let key = (thread, pc, index);
        let Some(last) = self.last.get(&key).copied() else {
            self.last.insert(key, LastAccess { address, stride: 0 });
            return None;
        };
        let bytes = address.wrapping_sub(last.address).cast_signed();
        let is_steady = bytes == last.stride && bytes.unsigned_abs() <= LONGEST_STRIDE;
        let is_near = bytes.unsigned_abs() < 2 * LINE_BYTES;
        self.last.insert(key, LastAccess { address, stride: bytes });
        Some(SiteStride { bytes, is_foreseen: is_steady || is_near })
    }

    /// Ends a window of instructions that were executed without a gap.
    pub fn end_window(&mut self) {
        let sites = &mut self.sites;
        self.sharing.end_window(|pc, is_false, transfers| {
            let counts = sites.entry(pc).or_default();
            match is_false {
                true => counts.false_sharing += transfers,
                false => counts.true_sharing += transfers,
            }
        });
        self.last.clear();
        // Native code runs before the next window.
        self.caches.clear();
        self.window_pages.clear();
        self.working_set.end_window();
    }

    /// Ends windows that were close together in time.
    pub fn end_burst(&mut self) {
        self.working_set.end_burst();
    }

    /// The bounds of the misses of all windows of bursts that have ended.
    ///
    /// The cache holds at most its size of the lines that only one window touched.
    pub fn miss_bounds(&self) -> MissBounds {
        let lines = self.working_set.least_lines();
        let missing = if lines > SECOND_LINES { 1.0 - SECOND_LINES / lines } else { 0.0 };
        MissBounds {
            touches: self.touches,
            misses: self.evicted as f64 + self.working_set.touched_once() as f64 * missing,
            working_set_lines: lines,
        }
    }

    /// The counts of each site so far; the sites begin anew, the state of the models stays.
    pub fn take_sites(&mut self) -> HashMap<u64, ModelCounts> {
        std::mem::take(&mut self.sites)
    }

    /// Bytes of the pages that were accessed.
    pub fn footprint_bytes(&self) -> u64 {
        self.pages.len() as u64 * PAGE_BYTES
    }
}

#[cfg(test)]
mod tests;

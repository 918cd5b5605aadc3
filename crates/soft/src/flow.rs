//! Placement of counters: few are executed, and every count can be derived.
//!
//! Executions flow: each execution that enters a point of the program also leaves it. So not every block and
//! every edge needs a counter. If the arcs of a maximum spanning tree are left uncounted, the others
//! determine them. The tree has the arcs that are executed most, so the counters are where little is
//! executed.
//!
//! The graph has two points for each block, its entry and its exit, and one for the outside. The outside is
//! the source of entries, returns and targets of indirect jumps, and the target of exits. A block is an arc
//! from its entry to its exit; an edge is an arc between blocks. So a counter can be in a block or on an
//! edge, whichever is cheaper.
//!
//! A tree determines the counts, but cannot contradict itself. [`Redundancy`] counts some of its arcs too;
//! each makes an equation that must hold. A count that contradicts an equation is an error, never a number.
//!
//! # Graphs that grow
//!
//! Code is found while it runs. Arcs are decided in *epochs*, as they are found. They are never decided
//! again, because the counter, or its absence, is then in emitted code. An epoch's arcs are tried in the
//! order of their weights against the forest of earlier epochs.
//! The number of counters is the least possible at every time. Their weight is the least possible within an
//! epoch; an earlier choice may turn out to be worse. No count is lost: an arc is added before it is executed
//! for the first time, so that its counter starts at zero.
//!
//! # Source
//!
//! D. E. Knuth, F. R. Stevenson: Optimal measurement points for program frequency counts, BIT 13 (1973).
//! T. Ball, J. R. Larus: Optimally profiling and tracing programs, ACM TOPLAS 16 (1994), section 3.

mod packed;
mod readout;
mod redundancy;
mod sets;
mod solve;

pub use readout::{CounterWeights, LinearReadout};
pub use redundancy::Redundancy;
pub use solve::{FlowError, Solution, SolvingOrder};

use std::fmt;
use std::num::NonZeroU32;

use crate::chunks::ChunkedVec;
use sets::DisjointSets;

/// A block of the graph; numbered from 0 in the order in which they are added.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockId(pub(crate) u32);

impl BlockId {
    /// The number of the block.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// An arc of the graph: a block, or an edge; numbered from 0 in the order in which they are added.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ArcId(NonZeroU32);

impl ArcId {
    /// One more than the number, so that `Option<ArcId>` needs no extra byte.
    pub(crate) fn new(number: usize) -> ArcId {
        ArcId(NonZeroU32::MIN.saturating_add(number as u32))
    }

    /// The number of the arc.
    pub fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// A point of an execution.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FlowPoint {
    /// Not in a block of the graph.
    Outside,
    /// Before the first instruction of a block.
    Entry(BlockId),
    /// After the last instruction of a block.
    Exit(BlockId),
}

impl FlowPoint {
    fn node(self) -> u32 {
        match self {
            FlowPoint::Outside => 0,
            FlowPoint::Entry(block) => 1 + 2 * block.0,
            FlowPoint::Exit(block) => 2 + 2 * block.0,
        }
    }

    fn of_node(node: u32) -> FlowPoint {
        match node {
            0 => FlowPoint::Outside,
            odd if odd % 2 == 1 => FlowPoint::Entry(BlockId(odd / 2)),
            even => FlowPoint::Exit(BlockId(even / 2 - 1)),
        }
    }
}

impl fmt::Display for FlowPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlowPoint::Outside => f.write_str("the outside"),
            FlowPoint::Entry(block) => write!(f, "the entry of block {}", block.0),
            FlowPoint::Exit(block) => write!(f, "the exit of block {}", block.0),
        }
    }
}

/// The reason why an arc has a counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CounterRole {
    /// Its count does not follow from others.
    Needed,
    /// It follows, and is counted as a check.
    Redundant,
    /// The host counts it: entries and exits that pass through it anyway.
    Observed,
}

/// A counter and the arc that it counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowCounter {
    /// The counted arc.
    pub arc: ArcId,
    /// Why.
    pub role: CounterRole,
}

#[derive(Clone, Debug)]
struct FlowArc {
    from: u32,
    to: u32,
    /// The number of its counter; [`NO_COUNTER`].
    counter: u32,
}

const NO_COUNTER: u32 = u32::MAX;

impl FlowArc {
    /// The points that it leads from and to.
    fn ends(&self) -> (u32, u32) {
        (self.from, self.to)
    }

    fn counter(&self) -> Option<u32> {
        (self.counter != NO_COUNTER).then_some(self.counter)
    }
}

/// The data by which an open arc is decided.
#[derive(Clone, Copy, Debug)]
struct OpenArc {
    weight: u64,
    observed: bool,
}

/// A growing flow graph and its counters.
#[derive(Clone, Debug)]
pub struct FlowGraph {
    arcs: ChunkedVec<FlowArc>,
    /// The arc of each block.
    blocks: Vec<ArcId>,
    counters: Vec<FlowCounter>,
    /// The last arcs, which are not decided yet.
    open: Vec<OpenArc>,
    /// Points that the spanning forest connects.
    forest: DisjointSets,
    redundancy: Redundancy,
    /// The number of arcs that were decided since the last one that is counted as a check.
    unchecked: usize,
    /// Buffers that every epoch uses again.
    epoch: EpochArcs,
    scratch: redundancy::RedundancyScratch,
}

impl FlowGraph {
    /// A graph with nothing but the outside.
    pub fn new(redundancy: Redundancy) -> FlowGraph {
        FlowGraph {
            arcs: ChunkedVec::new(),
            blocks: Vec::new(),
            counters: Vec::new(),
            open: Vec::new(),
            forest: DisjointSets::new(1),
            redundancy,
            unchecked: 0,
            epoch: EpochArcs::default(),
            scratch: redundancy::RedundancyScratch::default(),
        }
    }

    /// Adds a block.
    ///
    /// `weight` is the expected number of executions times the cost of a counter, in any unit. It decides
    /// where counters are, and never affects the counts.
    pub fn block(&mut self, weight: u64) -> BlockId {
        let block = BlockId(self.blocks.len() as u32);
        self.forest.grow(2);
        let arc = self.arc(FlowPoint::Entry(block), FlowPoint::Exit(block), weight, false);
        self.blocks.push(arc);
        block
    }

    /// Adds an edge that a counter can be put on. `weight` as for [`FlowGraph::block`].
    ///
    /// An indirect branch is an edge from its block's exit to the outside. A block that is entered indirectly
    /// has an edge from the outside to its entry. So each of them costs one counter at most.
    ///
    /// # Panics
    ///
    /// If a point's block is not of this graph.
    pub fn edge(&mut self, from: FlowPoint, to: FlowPoint, weight: u64) -> ArcId {
        self.arc(from, to, weight, false)
    }

    /// Adds an edge whose executions the host counts itself, and adds to the counter.
    ///
    /// An execution may end in the middle of a block, by a fault or because counting ends. It goes to the
    /// outside from the block's entry if the block's counter has not counted it, else from the exit. The
    /// instructions that were or were not executed are added to or taken from the totals. An execution that
    /// starts in the middle comes from the outside likewise.
    ///
    /// # Panics
    ///
    /// If a point's block is not of this graph.
    pub fn observed(&mut self, from: FlowPoint, to: FlowPoint) -> ArcId {
        self.arc(from, to, 0, true)
    }

    fn arc(&mut self, from: FlowPoint, to: FlowPoint, weight: u64, observed: bool) -> ArcId {
        let (from, to) = (from.node(), to.node());
        assert!((from.max(to) as usize) < self.forest.len(), "an arc to a block that is not in the graph");
        let id = ArcId::new(self.arcs.len());
        self.arcs.push(FlowArc { from, to, counter: NO_COUNTER });
        self.open.push(OpenArc { weight, observed });
        id
    }

    /// Arcs below this number are decided.
    fn decided(&self) -> usize {
        self.arcs.len() - self.open.len()
    }

    /// Decides every arc that was added since the last epoch; hands back the new counters.
    pub fn close_epoch(&mut self) -> &[FlowCounter] {
        let first = self.counters.len();
        let mut epoch = std::mem::take(&mut self.epoch);
        self.sort(&mut epoch);
        self.check(&mut epoch);
        epoch.needed.iter().for_each(|arc| self.count(arc.id, CounterRole::Needed));
        epoch.observed.iter().for_each(|arc| self.count(arc.id, CounterRole::Observed));
        self.open.clear();
        epoch.clear();
        self.epoch = epoch;
        &self.counters[first..]
    }

    /// Decides each arc, the heaviest first: one that connects two trees needs no counter (Kruskal's
    /// algorithm). The arcs are between the trees of earlier epochs.
    fn sort(&mut self, epoch: &mut EpochArcs) {
        let first = self.decided();
        // The weight above the number, in one that is compared at once.
        let place = |(wish, i): (&OpenArc, u32)| u128::from(!wish.weight) << 32 | u128::from(i);
        epoch.order.extend(self.open.iter().zip(0..).map(place));
        epoch.order.sort_unstable();
        for place in &epoch.order {
            let i = *place as u32 as usize;
            let OpenArc { weight, observed } = self.open[i];
            let id = ArcId::new(first + i);
            let FlowArc { from, to, .. } = self.arcs[id.index()];
            epoch.open.push((
                redundancy::EpochArc { id, from: self.forest.find(from), to: self.forest.find(to), weight },
                observed,
            ));
        }
        for (link, observed) in epoch.open.drain(..) {
            match () {
                () if observed => epoch.observed.push(link),
                () if self.forest.join(link.from, link.to) => epoch.tree.push(link),
                () => epoch.needed.push(link),
            }
        }
    }

    /// Counts some arcs of the tree as a check.
    fn check(&mut self, epoch: &mut EpochArcs) {
        self.unchecked += self.open.len();
        let most = match self.redundancy {
            Redundancy::None => return,
            Redundancy::OneIn(arcs) if self.unchecked < arcs => return,
            Redundancy::OneIn(_) => 1,
            Redundancy::PerEpoch(most) => most,
            Redundancy::Full => usize::MAX,
        };
        let checkable = self.checkable(epoch);
        let chosen = redundancy::choose(most, &epoch.tree, &checkable, &mut self.scratch);
        for (link, _) in epoch.tree.iter().zip(chosen).filter(|(_, chosen)| *chosen) {
            self.count(link.id, CounterRole::Redundant);
            self.unchecked = 0;
        }
    }

    /// The counters that tree arcs of the epoch may check: those that close a circle with the forest.
    fn checkable(&mut self, epoch: &EpochArcs) -> Vec<redundancy::EpochArc> {
        let closes = |link: &&redundancy::EpochArc| self.forest.find(link.from) == self.forest.find(link.to);
        epoch.needed.iter().chain(&epoch.observed).filter(closes).copied().collect()
    }

    fn count(&mut self, arc: ArcId, role: CounterRole) {
        self.arcs[arc.index()].counter = self.counters.len() as u32;
        self.counters.push(FlowCounter { arc, role });
    }

    /// Every counter, in the order of the values for [`FlowGraph::solve`].
    pub fn counters(&self) -> &[FlowCounter] {
        &self.counters
    }

    /// The counter of an arc, by its position in [`FlowGraph::counters`].
    pub fn counter_of(&self, arc: ArcId) -> Option<usize> {
        self.arcs[arc.index()].counter().map(|counter| counter as usize)
    }

    /// The number of arcs.
    pub fn arcs(&self) -> usize {
        self.arcs.len()
    }

    /// The arc of a block.
    pub fn arc_of(&self, block: BlockId) -> ArcId {
        self.blocks[block.index()]
    }

    /// Whether a wrong value of this counter alone is found by [`FlowGraph::solve`], however small the error.
    ///
    /// Others are found only where the error makes a count negative or greater than 64 bits.
    pub fn covers(&self, counter: usize) -> bool {
        let mut uncounted = DisjointSets::new(self.forest.len() as u32);
        let decided = self.arcs.iter().take(self.decided());
        decided.filter(|arc| arc.counter().is_none()).for_each(|arc| {
            uncounted.join(arc.from, arc.to);
        });
        let FlowArc { from, to, .. } = self.arcs[self.counters[counter].arc.index()];
        uncounted.find(from) != uncounted.find(to)
    }

    /// Every count from the counters' values, in the order of [`FlowGraph::counters`].
    ///
    /// # Errors
    ///
    /// [`FlowError`], which names the point where the values contradict each other.
    pub fn solve(&self, counters: &[u64]) -> Result<Solution, FlowError> {
        let mut order = SolvingOrder::default();
        order.update(self)?;
        self.solve_in(&order, counters)
    }

    /// As [`FlowGraph::solve`], in an order that was made for the graph as it is.
    ///
    /// # Errors
    ///
    /// [`FlowError`]. An order for a smaller graph is an [`FlowError::OpenEpoch`].
    pub fn solve_in(&self, order: &SolvingOrder, counters: &[u64]) -> Result<Solution, FlowError> {
        solve::solve(self, order, counters)
    }
}

/// The arcs of an epoch, sorted by their role.
#[derive(Clone, Default, Debug)]
struct EpochArcs {
    order: Vec<u128>,
    /// And whether they are observed.
    open: Vec<(redundancy::EpochArc, bool)>,
    tree: Vec<redundancy::EpochArc>,
    needed: Vec<redundancy::EpochArc>,
    observed: Vec<redundancy::EpochArc>,
}

impl EpochArcs {
    fn clear(&mut self) {
        self.order.clear();
        self.open.clear();
        self.tree.clear();
        self.needed.clear();
        self.observed.clear();
    }
}

#[cfg(test)]
mod tests;

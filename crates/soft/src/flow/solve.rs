//! Counts of every arc from the counters.

use std::fmt;

use super::{ArcId, BlockId, FlowGraph, FlowPoint};

/// The reason why counters give no counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FlowError {
    /// Not as many values as there are counters.
    WrongNumber {
        /// Number of counters.
        counters: usize,
        /// Number of values.
        values: usize,
    },
    /// Arcs were added after the last epoch was closed.
    OpenEpoch,
    /// The executions that enter a point do not leave it. A counter is wrong, or an execution went along an
    /// arc that the graph does not have. The fault may be at any point that arcs without a counter connect
    /// with this one.
    Inconsistent {
        /// The point of the contradiction.
        at: FlowPoint,
        /// Executions into it.
        inflow: i128,
        /// Executions that go out of it.
        outflow: i128,
    },
    /// The count of an arc would be negative, or exceed 64 bits.
    Impossible {
        /// The start of the arc.
        from: FlowPoint,
        /// The end of the arc.
        to: FlowPoint,
        /// Its count.
        count: i128,
    },
}

impl fmt::Display for FlowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlowError::WrongNumber { counters, values } => {
                write!(f, "{values} values were given for {counters} counters")
            }
            FlowError::OpenEpoch => f.write_str("the flow graph has arcs that were not decided"),
            FlowError::Inconsistent { at, inflow, outflow } => {
                write!(f, "inconsistent counts at {at}: {inflow} executions in, {outflow} out")
            }
            FlowError::Impossible { from, to, count } => {
                write!(f, "inconsistent counts: {count} executions from {from} to {to}")
            }
        }
    }
}

impl std::error::Error for FlowError {}

/// The count of every block and edge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Solution {
    arcs: Vec<u64>,
    blocks: Vec<ArcId>,
}

impl Solution {
    /// Executions of an arc.
    ///
    /// # Panics
    ///
    /// If it was added after the solution was made.
    pub fn arc(&self, arc: ArcId) -> u64 {
        self.arcs[arc.index()]
    }

    /// Executions of a block.
    ///
    /// # Panics
    ///
    /// If it was added after the solution was made.
    pub fn block(&self, block: BlockId) -> u64 {
        self.arc(self.blocks[block.index()])
    }
}

/// Leaves of the forest of unknown arcs are solved one after the other; then every point must balance.
pub(super) fn solve(flow: &FlowGraph, counters: &[u64]) -> Result<Solution, FlowError> {
    if counters.len() != flow.counters.len() {
        return Err(FlowError::WrongNumber { counters: flow.counters.len(), values: counters.len() });
    }
    if !flow.open.is_empty() {
        return Err(FlowError::OpenEpoch);
    }
    // The final value of an unknown arc or a balance contains each counter once at most, added or subtracted.
    let all: u128 = counters.iter().map(|count| u128::from(*count)).sum();
    if i64::try_from(all).is_ok() {
        FlowSolver::<i64>::new(flow, counters).solution()
    } else {
        FlowSolver::<i128>::new(flow, counters).solution()
    }
}

/// A number of executions, or a balance.
trait Amount: Copy + Default + PartialEq {
    fn of(count: u64) -> Self;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn wide(self) -> i128;
}

/// Used where the sum of all counters fits. Intermediate values may wrap, and wrap back.
impl Amount for i64 {
    fn of(count: u64) -> i64 {
        count.cast_signed()
    }

    fn plus(self, other: i64) -> i64 {
        self.wrapping_add(other)
    }

    fn minus(self, other: i64) -> i64 {
        self.wrapping_sub(other)
    }

    fn wide(self) -> i128 {
        self.into()
    }
}

/// 64-bit counts of 2^32 arcs fit.
impl Amount for i128 {
    fn of(count: u64) -> i128 {
        count.into()
    }

    fn plus(self, other: i128) -> i128 {
        self + other
    }

    fn minus(self, other: i128) -> i128 {
        self - other
    }

    fn wide(self) -> i128 {
        self
    }
}

struct FlowSolver<'a, N> {
    flow: &'a FlowGraph,
    counts: Vec<u64>,
    points: Vec<PointBalance<N>>,
}

/// The balance of a point.
#[derive(Clone, Copy, Default)]
struct PointBalance<N> {
    /// Known executions into the point minus those out of it.
    left: N,
    /// Unknown arcs.
    unknown: u32,
    /// The numbers of all unknown arcs, combined by exclusive or: with one arc, its number.
    which: u32,
}

impl<'a, N: Amount> FlowSolver<'a, N> {
    fn new(flow: &'a FlowGraph, counters: &[u64]) -> FlowSolver<'a, N> {
        let points = vec![PointBalance::default(); flow.forest.len()];
        let mut work = FlowSolver { flow, counts: vec![0; flow.arcs.len()], points };
        for (i, arc) in flow.arcs.iter().enumerate() {
            match arc.counter() {
                Some(counter) => work.know(i, counters[counter as usize]),
                None => [arc.from, arc.to].into_iter().for_each(|point| work.toggle(point, i, 1)),
            }
        }
        work
    }

    fn solution(mut self) -> Result<Solution, FlowError> {
        (0..self.points.len() as u32).rev().try_for_each(|point| self.peel(point))?;
        self.check()?;
        Ok(Solution { arcs: self.counts, blocks: self.flow.blocks.clone() })
    }

    fn know(&mut self, arc: usize, count: u64) {
        let (from, to) = (self.flow.arcs[arc].from, self.flow.arcs[arc].to);
        self.counts[arc] = count;
        let count = N::of(count);
        let from = &mut self.points[from as usize];
        from.left = from.left.minus(count);
        let to = &mut self.points[to as usize];
        to.left = to.left.plus(count);
    }

    fn toggle(&mut self, point: u32, arc: usize, by: i32) {
        let point = &mut self.points[point as usize];
        point.unknown = point.unknown.wrapping_add_signed(by);
        point.which ^= arc as u32;
    }

    /// Solves the arc of a leaf; then that of the point at its other end, if that has become a leaf.
    fn peel(&mut self, mut leaf: u32) -> Result<(), FlowError> {
        while let PointBalance { left, unknown: 1, which } = self.points[leaf as usize] {
            let arc = which as usize;
            let (from, to) = (self.flow.arcs[arc].from, self.flow.arcs[arc].to);
            let count = if from == leaf { left.wide() } else { -left.wide() };
            self.know(arc, self.possible(from, to, count)?);
            [from, to].into_iter().for_each(|point| self.toggle(point, arc, -1));
            leaf = if from == leaf { to } else { from };
        }
        Ok(())
    }

    fn possible(&self, from: u32, to: u32, count: i128) -> Result<u64, FlowError> {
        u64::try_from(count).map_err(|_| FlowError::Impossible {
            from: FlowPoint::of_node(from),
            to: FlowPoint::of_node(to),
            count,
        })
    }

    fn check(&self) -> Result<(), FlowError> {
        match self.points.iter().position(|point| point.left != N::default()) {
            None => Ok(()),
            Some(node) => Err(self.inconsistent(node as u32)),
        }
    }

    fn inconsistent(&self, node: u32) -> FlowError {
        let arcs = || self.flow.arcs.iter().zip(&self.counts);
        let inflow = arcs().filter(|(arc, _)| arc.to == node).map(|(_, count)| i128::from(*count)).sum();
        let outflow = arcs().filter(|(arc, _)| arc.from == node).map(|(_, count)| i128::from(*count)).sum();
        FlowError::Inconsistent { at: FlowPoint::of_node(node), inflow, outflow }
    }
}

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
    /// Arcs were added after the last epoch was closed, or after an order was made.
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

/// The order in which the counts of arcs without a counter follow from those that are known. It holds until
/// the graph grows.
#[derive(Clone, Default, Debug)]
pub struct SolvingOrder {
    steps: Vec<SolvingStep>,
    /// The arcs and counters of the graph that it was made for.
    made_for: Option<(usize, usize)>,
}

/// An arc that is the last unknown one of a point.
#[derive(Clone, Copy, Debug)]
struct SolvingStep {
    arc: u32,
    leaf: u32,
}

impl SolvingOrder {
    /// Makes the order, if the graph has grown since it was made. Leaves of the forest of unknown arcs are
    /// solved one after the other.
    ///
    /// # Errors
    ///
    /// [`FlowError::OpenEpoch`].
    pub fn update(&mut self, flow: &FlowGraph) -> Result<(), FlowError> {
        let size = Some((flow.arcs.len(), flow.counters.len()));
        if !flow.open.is_empty() {
            return Err(FlowError::OpenEpoch);
        }
        if self.made_for != size {
            *self = SolvingOrder { steps: Peeling::new(flow).steps(), made_for: size };
        }
        Ok(())
    }
}

/// The unknown arcs at each point, while an order is made.
struct Peeling<'a> {
    flow: &'a FlowGraph,
    points: Vec<UnknownArcs>,
    steps: Vec<SolvingStep>,
}

#[derive(Clone, Copy, Default)]
struct UnknownArcs {
    number: u32,
    /// The numbers of the arcs, combined by exclusive or: with one arc, its number.
    which: u32,
}

impl<'a> Peeling<'a> {
    fn new(flow: &'a FlowGraph) -> Peeling<'a> {
        let points = vec![UnknownArcs::default(); flow.forest.len()];
        let mut peeling = Peeling { flow, points, steps: Vec::new() };
        for (i, arc) in flow.arcs.iter().enumerate().filter(|(_, arc)| arc.counter().is_none()) {
            [arc.from, arc.to].into_iter().for_each(|point| peeling.toggle(point, i, 1));
        }
        peeling
    }

    fn steps(mut self) -> Vec<SolvingStep> {
        (0..self.points.len() as u32).rev().for_each(|point| self.peel(point));
        self.steps
    }

    fn toggle(&mut self, point: u32, arc: usize, by: i32) {
        let point = &mut self.points[point as usize];
        point.number = point.number.wrapping_add_signed(by);
        point.which ^= arc as u32;
    }

    /// Takes the arc of a leaf; then that of the point at its other end, if that has become a leaf.
    fn peel(&mut self, mut leaf: u32) {
        while let UnknownArcs { number: 1, which: arc } = self.points[leaf as usize] {
            let (from, to) = self.flow.arcs[arc as usize].ends();
            [from, to].into_iter().for_each(|point| self.toggle(point, arc as usize, -1));
            self.steps.push(SolvingStep { arc, leaf });
            leaf = if from == leaf { to } else { from };
        }
    }
}

/// The counts of all arcs in an order; then every point must balance.
pub(super) fn solve(flow: &FlowGraph, order: &SolvingOrder, counters: &[u64]) -> Result<Solution, FlowError> {
    if counters.len() != flow.counters.len() {
        return Err(FlowError::WrongNumber { counters: flow.counters.len(), values: counters.len() });
    }
    if !flow.open.is_empty() || order.made_for != Some((flow.arcs.len(), flow.counters.len())) {
        return Err(FlowError::OpenEpoch);
    }
    // The final value of an unknown arc or a balance contains each counter once at most, added or subtracted.
    let all: u128 = counters.iter().map(|count| u128::from(*count)).sum();
    if i64::try_from(all).is_ok() {
        FlowSolver::<i64>::new(flow, counters).solution(order)
    } else {
        FlowSolver::<i128>::new(flow, counters).solution(order)
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
    /// Known executions into each point minus those out of it.
    balances: Vec<N>,
}

impl<'a, N: Amount> FlowSolver<'a, N> {
    fn new(flow: &'a FlowGraph, counters: &[u64]) -> FlowSolver<'a, N> {
        let balances = vec![N::default(); flow.forest.len()];
        let mut work = FlowSolver { flow, counts: vec![0; flow.arcs.len()], balances };
        for (counter, count) in flow.counters.iter().zip(counters).filter(|(_, count)| **count > 0) {
            let arc = counter.arc.index();
            work.know(arc, flow.arcs[arc].ends(), *count);
        }
        work
    }

    fn solution(mut self, order: &SolvingOrder) -> Result<Solution, FlowError> {
        for SolvingStep { arc, leaf } in &order.steps {
            let balance = self.balances[*leaf as usize];
            if balance != N::default() {
                let (from, to) = self.flow.arcs[*arc as usize].ends();
                let count = if from == *leaf { balance.wide() } else { -balance.wide() };
                let count = self.possible(from, to, count)?;
                self.know(*arc as usize, (from, to), count);
            }
        }
        self.check()?;
        Ok(Solution { arcs: self.counts, blocks: self.flow.blocks.clone() })
    }

    fn know(&mut self, arc: usize, (from, to): (u32, u32), count: u64) {
        self.counts[arc] = count;
        let count = N::of(count);
        let from = &mut self.balances[from as usize];
        *from = from.minus(count);
        let to = &mut self.balances[to as usize];
        *to = to.plus(count);
    }

    fn possible(&self, from: u32, to: u32, count: i128) -> Result<u64, FlowError> {
        u64::try_from(count).map_err(|_| FlowError::Impossible {
            from: FlowPoint::of_node(from),
            to: FlowPoint::of_node(to),
            count,
        })
    }

    fn check(&self) -> Result<(), FlowError> {
        match self.balances.iter().position(|balance| *balance != N::default()) {
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

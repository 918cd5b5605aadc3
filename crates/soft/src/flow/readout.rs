//! Weighted sums over all arcs, straight from the counters.
//!
//! A sum over all arcs, each execution of an arc times the *value* of the arc, is linear in the counters. The
//! points get *potentials*: along an arc without a counter, the potential grows by its value. Executions are
//! conserved at each point, so the sum over arcs without a counter is a difference of potentials:
//!
//! ```text
//! sum = Σ over arcs with a counter: executions × (value + potential of its start − potential of its end)
//! ```
//!
//! The factor of each counter is its *weight*. It is computed once, and each reading is a dot product.
//! [`FlowGraph::solve`] needs all arcs for each reading; in exchange it checks the counters.
//!
//! # Source
//!
//! T. Ball, J. R. Larus: Optimally profiling and tracing programs, ACM TOPLAS 16 (1994), section 3: sums
//! along the paths of a spanning tree, moved to its chords.

use super::{ArcId, CounterRole, FlowArc, FlowGraph};

/// The arcs without a counter, in the order in which potentials spread along them.
#[derive(Clone, Default, Debug)]
pub struct LinearReadout {
    steps: Vec<PotentialStep>,
    points: usize,
    /// Arcs and counters of the graph at that time.
    arcs: usize,
    counters: usize,
}

/// A point, and the arc by which its potential follows from that of another one.
#[derive(Clone, Copy, Debug)]
struct PotentialStep {
    point: u32,
    arc: u32,
}

/// The weight of each counter, for one value of each arc.
#[derive(Clone, Default, Debug)]
pub struct CounterWeights {
    potentials: Vec<i64>,
    weights: Vec<i64>,
}

impl LinearReadout {
    /// The readout of a graph of which every arc is decided.
    pub fn new(flow: &FlowGraph) -> LinearReadout {
        // For each point the number of arcs without a counter, and their numbers, combined by exclusive or.
        let mut ends = vec![(0u32, 0u32); flow.forest.len()];
        let uncounted = |(_, arc): &(usize, &FlowArc)| arc.counter().is_none();
        for (i, FlowArc { from, to, .. }) in flow.arcs.iter().enumerate().filter(uncounted) {
            for end in [from, to] {
                let (arcs, which) = &mut ends[*end as usize];
                (*arcs, *which) = (*arcs + 1, *which ^ i as u32);
            }
        }
        let mut steps = Vec::with_capacity(flow.arcs.len() - flow.counters.len());
        for first in 0..ends.len() {
            let mut point = first;
            while let (1, arc) = ends[point] {
                steps.push(PotentialStep { point: point as u32, arc });
                let FlowArc { from, to, .. } = flow.arcs[arc as usize];
                for end in [from, to] {
                    let (arcs, which) = &mut ends[end as usize];
                    (*arcs, *which) = (*arcs - 1, *which ^ arc);
                }
                point = (if from as usize == point { to } else { from }) as usize;
            }
        }
        // From the roots of the trees to their leaves.
        steps.reverse();
        let (arcs, counters) = (flow.arcs.len(), flow.counters.len());
        LinearReadout { steps, points: flow.forest.len(), arcs, counters }
    }

    /// Whether the weights of this readout hold for the graph, which may have grown by observed arcs.
    pub fn suits(&self, flow: &FlowGraph) -> bool {
        let added = flow.counters.get(self.counters..).unwrap_or_default();
        let observed = added.iter().all(|counter| counter.role == CounterRole::Observed);
        self.points == flow.forest.len() && observed && flow.arcs.len() - self.arcs == added.len()
    }

    /// The weights for a value of each arc. Sums are modulo 2^64, as are the counters.
    pub fn weights(&self, flow: &FlowGraph, value: impl Fn(ArcId) -> i64) -> CounterWeights {
        let mut potentials = vec![0i64; self.points];
        for PotentialStep { point, arc } in &self.steps {
            let FlowArc { from, to, .. } = flow.arcs[*arc as usize];
            let value = value(ArcId::new(*arc as usize));
            potentials[*point as usize] = if to == *point {
                potentials[from as usize].wrapping_add(value)
            } else {
                potentials[to as usize].wrapping_sub(value)
            };
        }
        let mut weights = CounterWeights { potentials, weights: Vec::with_capacity(self.counters) };
        for counter in &flow.counters[..self.counters] {
            let weight = value(counter.arc).wrapping_add(weights.drop_along(flow, counter.arc));
            weights.weights.push(weight);
        }
        weights
    }
}

impl CounterWeights {
    /// The sum for the values of counters, in the order of [`FlowGraph::counters`]. Counters of observed arcs
    /// that were added since are left out: [`CounterWeights::of_observed`].
    pub fn sum(&self, counters: &[u64]) -> u64 {
        let terms = self.weights.iter().zip(counters);
        terms.fold(0, |sum, (weight, count)| sum.wrapping_add(weight.cast_unsigned().wrapping_mul(*count)))
    }

    /// The amount that one execution of an observed arc adds, whose own value is zero.
    pub fn of_observed(&self, flow: &FlowGraph, arc: ArcId) -> u64 {
        self.drop_along(flow, arc).cast_unsigned()
    }

    /// The potential at the start of an arc minus that at its end.
    fn drop_along(&self, flow: &FlowGraph, arc: ArcId) -> i64 {
        let FlowArc { from, to, .. } = flow.arcs[arc.index()];
        self.potentials[from as usize].wrapping_sub(self.potentials[to as usize])
    }
}

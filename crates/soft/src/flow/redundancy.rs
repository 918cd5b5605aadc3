//! Redundancy: tree arcs that are counted as a check.

use super::ArcId;
use crate::hash::AddressMap;

/// The number of arcs of the spanning tree that get a counter although it is not needed.
///
/// A counter on a tree arc checks the counters whose arcs it closes a circle with. Its weight is at least
/// that of each that is not observed, as the tree has the heaviest arcs: a full check costs more than the
/// counts do. Only arcs of the epoch in which a counter is placed can check it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Redundancy {
    /// None: counts that become negative are found, others are not.
    None,
    /// At most this number in each epoch, each the one that checks most for its weight; fewer where no
    /// counter is left to check.
    PerEpoch(usize),
    /// One for this number of arcs that were decided since the last one, in the epoch that completes the
    /// number.
    OneIn(usize),
    /// As many as it takes to check every counter that can be checked.
    Full,
}

/// An arc between trees of earlier epochs, each named by one of its points.
#[derive(Clone, Copy, Debug)]
pub(super) struct EpochArc {
    pub(super) id: ArcId,
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) weight: u64,
}

/// Chooses at most `most` of the epoch's tree arcs.
///
/// For each tree arc whether it is counted; short where the last ones are not.
///
/// Greedy weighted cover (V. Chvatal: A greedy heuristic for the set-covering problem, 1979).
pub(super) fn choose(
    most: usize,
    tree: &[EpochArc],
    counted: &[EpochArc],
    scratch: &mut RedundancyScratch,
) -> Vec<bool> {
    if counted.is_empty() {
        return Vec::new();
    }
    let forest = EpochForest::new(tree, scratch);
    let mut open: Vec<&EpochArc> = counted.iter().collect();
    let mut chosen = vec![false; tree.len()];
    let most = most.min(tree.len());
    for i in 0..most {
        let Some(best) = best(tree, &forest.circles(&open)) else { break };
        chosen[best] = true;
        if i + 1 < most {
            open.retain(|link| !forest.is_between(best, link));
        }
    }
    chosen
}

/// The tree arc with most open circles for its weight; the first of equals.
fn best(tree: &[EpochArc], circles: &[u32]) -> Option<usize> {
    let mut best: Option<(usize, u128, u128)> = None;
    for (i, gain) in circles.iter().enumerate().filter(|(_, gain)| **gain > 0) {
        let gain = u128::from(*gain);
        let weight = u128::from(tree[i].weight) + 1;
        let better = best.is_none_or(|(_, gained, cost)| gain * cost > gained * weight);
        if better {
            best = Some((i, gain, weight));
        }
    }
    best.map(|(i, _, _)| i)
}

/// Room that every epoch uses again.
#[derive(Clone, Default, Debug)]
pub(super) struct RedundancyScratch {
    /// For each point of the epoch its number among them.
    places: AddressMap<u32, u32>,
}

impl RedundancyScratch {
    fn place(&self, point: u32) -> Option<usize> {
        self.places.get(&point).map(|place| *place as usize)
    }

    /// The number of a point, which is the next one if it has none yet.
    fn place_or_next(&mut self, point: u32) -> usize {
        let next = self.places.len() as u32;
        *self.places.entry(point).or_insert(next) as usize
    }
}

/// The tree arcs of one epoch, with a parent for each point.
struct EpochForest<'a> {
    places: &'a RedundancyScratch,
    /// For each point its parent, the arc to it, and the depth.
    up: Vec<Option<ParentStep>>,
    arcs: usize,
}

#[derive(Clone, Copy)]
struct ParentStep {
    above: usize,
    arc: usize,
    depth: u32,
}

impl EpochForest<'_> {
    fn new<'a>(tree: &[EpochArc], scratch: &'a mut RedundancyScratch) -> EpochForest<'a> {
        scratch.places.clear();
        let ends: Vec<[usize; 2]> =
            tree.iter().map(|link| [link.from, link.to].map(|point| scratch.place_or_next(point))).collect();
        let points = scratch.places.len();
        let mut forest = EpochForest { up: vec![None; points], places: scratch, arcs: tree.len() };
        let beside = AdjacencyList::new(points, &ends);
        let (mut seen, mut reached) = (vec![false; points], Vec::with_capacity(points));
        for top in 0..points {
            if !std::mem::replace(&mut seen[top], true) {
                reached.push((top, 0));
                forest.climb(&mut reached, &beside, &mut seen);
            }
        }
        forest
    }

    /// Gives every point of a tree its parent.
    fn climb(&mut self, reached: &mut Vec<(usize, u32)>, beside: &AdjacencyList, seen: &mut [bool]) {
        while let Some((point, depth)) = reached.pop() {
            for (next, arc) in beside.of(point) {
                if !std::mem::replace(&mut seen[*next], true) {
                    self.up[*next] = Some(ParentStep { above: point, arc: *arc, depth: depth + 1 });
                    reached.push((*next, depth + 1));
                }
            }
        }
    }

    /// For each tree arc how many counted arcs it closes a circle with.
    fn circles(&self, counted: &[&EpochArc]) -> Vec<u32> {
        let mut circles = vec![0; self.arcs];
        for link in counted {
            self.path(link, |arc| circles[arc] += 1);
        }
        circles
    }

    /// Whether a tree arc closes a circle with a counted one.
    fn is_between(&self, arc: usize, counted: &EpochArc) -> bool {
        let mut found = false;
        self.path(counted, |on| found |= on == arc);
        found
    }

    /// The tree arcs between the two points of an arc that are in one tree.
    fn path(&self, link: &EpochArc, mut visit: impl FnMut(usize)) {
        let (Some(mut a), Some(mut b)) = (self.places.place(link.from), self.places.place(link.to)) else {
            return;
        };
        while a != b {
            let (one, other) = (self.up[a], self.up[b]);
            let depth = |step: Option<ParentStep>| step.map_or(0, |step| step.depth);
            let (point, step) = if depth(one) >= depth(other) { (&mut a, one) } else { (&mut b, other) };
            let Some(step) = step else { return };
            visit(step.arc);
            *point = step.above;
        }
    }
}

/// For each point its neighbours, one after the other.
struct AdjacencyList {
    starts: Vec<usize>,
    neighbours: Vec<(usize, usize)>,
}

impl AdjacencyList {
    fn new(points: usize, ends: &[[usize; 2]]) -> AdjacencyList {
        let mut starts = vec![0; points + 1];
        ends.iter().flatten().for_each(|point| starts[point + 1] += 1);
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        let mut free = starts.clone();
        let mut neighbours = vec![(0, 0); 2 * ends.len()];
        for (arc, [a, b]) in ends.iter().enumerate() {
            for (point, other) in [(a, b), (b, a)] {
                neighbours[free[*point]] = (*other, arc);
                free[*point] += 1;
            }
        }
        AdjacencyList { starts, neighbours }
    }

    fn of(&self, point: usize) -> &[(usize, usize)] {
        &self.neighbours[self.starts[point]..self.starts[point + 1]]
    }
}

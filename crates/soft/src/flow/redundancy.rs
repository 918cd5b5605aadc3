//! Which arcs of the tree are counted as a check.

use std::collections::{HashMap, HashSet};

use super::ArcId;

/// How many arcs of the spanning tree get a counter although it is not needed.
///
/// A counter on a tree arc checks the counters whose arcs it closes a circle with. Its weight is at least that of each
/// that is not observed, as the tree has the heaviest arcs: a full check costs more than the counts do. Only
/// arcs of the epoch in which a counter is placed can check it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Redundancy {
    /// None: counts that become negative are found, others are not.
    None,
    /// At most so many in each epoch, each the one that checks most for its weight; none where nothing is left to check.
    PerEpoch(usize),
    /// As many as it takes to check every counter that can be checked.
    Full,
}

/// An arc between trees of earlier epochs, each named by one of its points.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) id: ArcId,
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) weight: u64,
}

/// Chooses among the epoch's tree arcs; hands back their positions.
///
/// Greedy weighted cover (V. Chvatal: A greedy heuristic for the set-covering problem, 1979).
pub(super) fn choose(redundancy: Redundancy, tree: &[Link], counted: &[Link]) -> HashSet<usize> {
    let most = match redundancy {
        Redundancy::None => return HashSet::new(),
        Redundancy::PerEpoch(most) => most,
        Redundancy::Full => usize::MAX,
    };
    let circles = Forest::new(tree).circles(counted);
    let mut open: Vec<bool> = vec![true; counted.len()];
    let mut chosen = HashSet::new();
    while chosen.len() < most {
        let Some(best) = best(tree, &circles, &open) else { break };
        chosen.insert(best);
        circles[best].iter().for_each(|checked| open[*checked] = false);
    }
    chosen
}

/// The tree arc with most open circles for its weight; the first of equals.
fn best(tree: &[Link], circles: &[Vec<usize>], open: &[bool]) -> Option<usize> {
    let mut best: Option<(usize, u128, u128)> = None;
    for (i, through) in circles.iter().enumerate() {
        let gain = through.iter().filter(|checked| open[**checked]).count() as u128;
        let weight = u128::from(tree[i].weight) + 1;
        let better = best.is_none_or(|(_, gained, cost)| gain * cost > gained * weight);
        if gain > 0 && better {
            best = Some((i, gain, weight));
        }
    }
    best.map(|(i, _, _)| i)
}

/// The tree arcs of one epoch, with a way up from each point.
struct Forest {
    /// From a point to the one above it, by which arc, and how deep the point is.
    up: HashMap<u32, Step>,
    arcs: usize,
}

#[derive(Clone, Copy)]
struct Step {
    above: u32,
    arc: usize,
    depth: u32,
}

impl Forest {
    fn new(tree: &[Link]) -> Forest {
        let mut beside: HashMap<u32, Vec<(u32, usize)>> = HashMap::new();
        for (i, link) in tree.iter().enumerate() {
            beside.entry(link.from).or_default().push((link.to, i));
            beside.entry(link.to).or_default().push((link.from, i));
        }
        let mut forest = Forest { up: HashMap::new(), arcs: tree.len() };
        let mut seen = HashSet::new();
        for link in tree {
            if seen.insert(link.from) {
                forest.climb_from(link.from, &beside, &mut seen);
            }
        }
        forest
    }

    /// Gives every point of a tree its way to the point `top`.
    fn climb_from(&mut self, top: u32, beside: &HashMap<u32, Vec<(u32, usize)>>, seen: &mut HashSet<u32>) {
        let mut reached = vec![(top, 0)];
        while let Some((point, depth)) = reached.pop() {
            for (next, arc) in beside.get(&point).into_iter().flatten() {
                if seen.insert(*next) {
                    self.up.insert(*next, Step { above: point, arc: *arc, depth: depth + 1 });
                    reached.push((*next, depth + 1));
                }
            }
        }
    }

    /// For each tree arc the counted arcs that it closes a circle with.
    fn circles(&self, counted: &[Link]) -> Vec<Vec<usize>> {
        let mut circles = vec![Vec::new(); self.arcs];
        for (i, link) in counted.iter().enumerate() {
            self.path(link.from, link.to, |arc| circles[arc].push(i));
        }
        circles
    }

    /// The tree arcs between two points of one tree.
    fn path(&self, mut a: u32, mut b: u32, mut visit: impl FnMut(usize)) {
        while a != b {
            let (one, other) = (self.up.get(&a), self.up.get(&b));
            let depth = |step: Option<&Step>| step.map_or(0, |step| step.depth);
            let (point, step) = if depth(one) >= depth(other) { (&mut a, one) } else { (&mut b, other) };
            let Some(step) = step else { return };
            visit(step.arc);
            *point = step.above;
        }
    }
}

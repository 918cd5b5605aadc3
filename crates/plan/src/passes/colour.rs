//! Events to passes, once each has its counter: no counter twice in a pass, nor a register.
//!
//! Every event is an edge between what it takes on one side (its counter) and on the other (its register, or
//! its counter on another PMU). Such a graph with two sides is coloured with as many colours as its busiest
//! node has edges; a colour is a pass.

/// The nodes that an event takes on each side: numbers of nodes, which the sides do not share.
pub(super) type ColourEdge = [Option<usize>; 2];

const NONE: u32 = u32::MAX;

/// The pass of every edge, 0 to `passes`; `passes` is at least the greatest number of edges at a node.
///
/// # Source
///
/// D. Kőnig (1916): the chromatic index of a bipartite multigraph is its maximum degree; by alternating
/// paths.
pub(super) fn colour(edges: &[ColourEdge], nodes: usize, passes: usize) -> Vec<usize> {
    let mut graph = Graph { edges, passes, at: vec![NONE; nodes * passes], colours: vec![0; edges.len()] };
    let degree = |edge: &ColourEdge| edge.iter().flatten().count();
    let mut order: Vec<usize> = (0..edges.len()).collect();
    // Those that are free on one side fit wherever there is room.
    order.sort_by_key(|edge| std::cmp::Reverse(degree(&edges[*edge])));
    for edge in order {
        graph.add(edge);
    }
    graph.colours
}

struct Graph<'e> {
    edges: &'e [ColourEdge],
    passes: usize,
    /// For each node and colour the edge that has it there.
    at: Vec<u32>,
    colours: Vec<usize>,
}

impl Graph<'_> {
    fn add(&mut self, edge: usize) {
        let first = |node: Option<usize>| node.map_or(0, |node| self.free_at(node));
        let colour = match self.edges[edge] {
            [Some(a), Some(b)] => self.common(a, b),
            [a, b] => first(a).max(first(b)),
        };
        self.set(edge, colour);
    }

    fn free_at(&self, node: usize) -> usize {
        self.row(node).iter().position(|edge| *edge == NONE).unwrap_or(0)
    }

    fn row(&self, node: usize) -> &[u32] {
        &self.at[node * self.passes..][..self.passes]
    }

    /// A colour that is free at both nodes, if need be after a swap along a path from the second one.
    fn common(&mut self, a: usize, b: usize) -> usize {
        let both = self.row(a).iter().zip(self.row(b)).position(|(a, b)| (*a, *b) == (NONE, NONE));
        if let Some(colour) = both {
            return colour;
        }
        let (wanted, other) = (self.free_at(a), self.free_at(b));
        self.swap_along(b, wanted, other);
        wanted
    }

    /// Makes `wanted` free at a node where `other` is free: the path of the two colours from there changes
    /// them. It never ends at the other end of the new edge, as the graph has two sides.
    fn swap_along(&mut self, mut node: usize, wanted: usize, other: usize) {
        let (mut from, mut to) = (wanted, other);
        let mut path = Vec::new();
        while let Some(edge) = Some(self.row(node)[from]).filter(|edge| *edge != NONE) {
            path.push((edge as usize, to));
            let [a, b] = self.edges[edge as usize];
            let Some(next) = (if a == Some(node) { b } else { a }) else { break };
            node = next;
            (from, to) = (to, from);
        }
        for (edge, _) in &path {
            self.clear(*edge);
        }
        for (edge, colour) in path {
            self.set(edge, colour);
        }
    }

    fn clear(&mut self, edge: usize) {
        for node in self.edges[edge].into_iter().flatten() {
            self.at[node * self.passes + self.colours[edge]] = NONE;
        }
    }

    fn set(&mut self, edge: usize, colour: usize) {
        self.colours[edge] = colour;
        for node in self.edges[edge].into_iter().flatten() {
            self.at[node * self.passes + colour] = edge as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn degree(edges: &[ColourEdge], nodes: usize) -> usize {
        let at = |node| edges.iter().filter(|edge| edge.contains(&Some(node))).count();
        (0..nodes).map(at).max().unwrap_or(0)
    }

    proptest! {
        #[test]
        fn as_many_colours_as_the_busiest_node_has_edges_are_enough(
            ends in prop::collection::vec((prop::option::of(0usize..4), prop::option::of(4usize..9)), 1..60),
        ) {
            let edges: Vec<ColourEdge> = ends.into_iter().map(|(a, b)| [a, b]).collect();
            let passes = degree(&edges, 9).max(1);
            let colours = colour(&edges, 9, passes);
            for (i, colour) in colours.iter().enumerate() {
                prop_assert!(*colour < passes);
                for (j, other) in colours.iter().enumerate().filter(|(j, _)| *j != i) {
                    let shares = edges[i].iter().flatten().any(|node| edges[j].contains(&Some(*node)));
                    prop_assert!(!shares || colour != other, "{i} and {j}");
                }
            }
        }
    }
}

//! Inclusive counts and calls of functions, from the instructions by call path.
//!
//! # Problem
//!
//! A recursive function is on a path several times. Its inclusive count has each instruction once.
//!
//! # Solution
//!
//! A function gets the instructions below its outermost entry on each path. A call has the instructions below
//! it if it enters its function for the first time on the path, and none otherwise. So for each function that
//! is no start of a thread
//!
//! ```text
//! inclusive = sum of the costs of all calls of it
//! ```
//!
//! with recursion too. `callgrind_annotate` adds up just that.

use std::collections::HashMap;

use cyclometer_core::code::CodePath;

use crate::code_name::CodeName;

/// A function, or file, with everything that it has called.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InclusiveCount {
    /// Its name.
    pub name: CodeName,
    /// The instructions of its own. A function that is reached by a jump, and not recognised, is part of the
    /// one before.
    pub own: u64,
    /// Its instructions and those of all functions that it has called.
    pub inclusive: u64,
    /// Whether frames were skipped: then some of its instructions may have been counted for a function that
    /// it has called, or the reverse.
    pub is_partial: bool,
}

/// The calls of one function by another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallEdge {
    /// The index of the calling function in [`CallGraph::functions`].
    pub caller: usize,
    /// The index of the called function.
    pub callee: usize,
    /// The number of calls.
    pub calls: u64,
    /// The instructions below those of them that are outermost for the called function.
    pub inclusive: u64,
}

/// A path of functions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallPathNode {
    /// The index of the path of the caller, which is before it.
    pub parent: Option<usize>,
    /// The index of the function in [`CallGraph::functions`].
    pub function: usize,
    /// The instructions of this path alone.
    pub own: u64,
}

/// Functions with their inclusive counts, their calls, and the paths that these are from.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CallGraph {
    /// The functions, the largest inclusive count first.
    pub functions: Vec<InclusiveCount>,
    /// Their calls, the largest cost first.
    pub edges: Vec<CallEdge>,
    /// The paths. Those of one function and one caller's path are one.
    pub paths: Vec<CallPathNode>,
    /// All instructions.
    pub total: u64,
}

impl CallGraph {
    /// The graph of paths whose functions have these names.
    pub(crate) fn of(paths: &[CodePath], name: impl Fn(&CodePath) -> CodeName) -> CallGraph {
        let mut sums = GraphSums::default();
        sums.join(paths, name);
        sums.walk();
        sums.finish()
    }

    /// The function with a name.
    pub fn function(&self, name: &CodeName) -> Option<&InclusiveCount> {
        self.functions.iter().find(|function| function.name == *name)
    }
}

/// A path in the making.
struct JoinedPath {
    parent: Option<usize>,
    function: usize,
    own: u64,
    inclusive: u64,
    calls: u64,
    recursions: u64,
}

#[derive(Default)]
struct GraphSums {
    functions: Vec<InclusiveCount>,
    paths: Vec<JoinedPath>,
    edges: Vec<CallEdge>,
    edge_of: HashMap<(usize, usize), usize>,
}

impl GraphSums {
    /// Joins the paths that have the same names.
    fn join(&mut self, paths: &[CodePath], name: impl Fn(&CodePath) -> CodeName) {
        let mut function_of: HashMap<CodeName, usize> = HashMap::new();
        let mut known: HashMap<(Option<usize>, usize), usize> = HashMap::new();
        let mut joined = Vec::with_capacity(paths.len());
        for path in paths {
            let name = name(path);
            let function = *function_of.entry(name).or_insert_with_key(|name| {
                let name = name.clone();
                self.functions.push(InclusiveCount { name, own: 0, inclusive: 0, is_partial: false });
                self.functions.len() - 1
            });
            let parent = path.parent.and_then(|parent| joined.get(parent).copied());
            // A function that enters itself at another place is itself.
            let itself = parent.filter(|parent: &usize| self.paths[*parent].function == function);
            let index = itself.unwrap_or_else(|| {
                *known.entry((parent, function)).or_insert_with(|| {
                    let (own, inclusive, calls, recursions) = (0, 0, 0, 0);
                    self.paths.push(JoinedPath { parent, function, own, inclusive, calls, recursions });
                    self.paths.len() - 1
                })
            });
            let sum = &mut self.paths[index];
            sum.own = sum.own.wrapping_add(path.instructions);
            sum.recursions += path.recursions;
            match itself {
                Some(_) => sum.recursions += path.calls,
                None => sum.calls += path.calls,
            }
            let of_function = &mut self.functions[function];
            of_function.own = of_function.own.wrapping_add(path.instructions);
            of_function.is_partial |= path.is_partial;
            joined.push(index);
        }
    }

    fn edge(&mut self, caller: usize, callee: usize) -> usize {
        let edges = &mut self.edges;
        *self.edge_of.entry((caller, callee)).or_insert_with(|| {
            edges.push(CallEdge { caller, callee, calls: 0, inclusive: 0 });
            edges.len() - 1
        })
    }

    /// Adds up what is below each path, and gives it to functions and calls.
    fn walk(&mut self) {
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); self.paths.len()];
        for index in (0..self.paths.len()).rev() {
            let JoinedPath { parent, own, .. } = self.paths[index];
            let inclusive = self.paths[index].inclusive.wrapping_add(own);
            self.paths[index].inclusive = inclusive;
            if let Some(parent) = parent {
                self.paths[parent].inclusive = self.paths[parent].inclusive.wrapping_add(inclusive);
                children[parent].push(index);
            }
        }
        // For each function, the number of its entries on the path.
        let mut open = vec![0_u32; self.functions.len()];
        let roots = (0..self.paths.len()).filter(|index| self.paths[*index].parent.is_none());
        let mut steps: Vec<PathStep> = roots.map(PathStep::Enter).collect();
        while let Some(step) = steps.pop() {
            match step {
                PathStep::Enter(index) => {
                    self.enter(index, &mut open);
                    steps.push(PathStep::Leave(index));
                    steps.extend(children[index].iter().copied().map(PathStep::Enter));
                }
                PathStep::Leave(index) => self.leave(index, &mut open),
            }
        }
    }

    fn enter(&mut self, index: usize, open: &mut [u32]) {
        let JoinedPath { parent, function, calls, recursions, .. } = self.paths[index];
        if let Some(caller) = parent.map(|parent| self.paths[parent].function) {
            let edge = self.edge(caller, function);
            self.edges[edge].calls += calls;
        }
        if recursions > 0 {
            let edge = self.edge(function, function);
            self.edges[edge].calls += recursions;
        }
        open[function] += 1;
    }

    fn leave(&mut self, index: usize, open: &mut [u32]) {
        let JoinedPath { parent, function, inclusive, .. } = self.paths[index];
        open[function] -= 1;
        if open[function] > 0 {
            return;
        }
        let sum = &mut self.functions[function].inclusive;
        *sum = sum.wrapping_add(inclusive);
        if let Some(caller) = parent.map(|parent| self.paths[parent].function) {
            let edge = self.edge(caller, function);
            let sum = &mut self.edges[edge].inclusive;
            *sum = sum.wrapping_add(inclusive);
        }
    }

    fn finish(self) -> CallGraph {
        let total = self.functions.iter().fold(0_u64, |sum, function| sum.wrapping_add(function.own));
        let mut order: Vec<usize> = (0..self.functions.len()).collect();
        order.sort_by(|one, other| {
            let (one, other) = (&self.functions[*one], &self.functions[*other]);
            other.inclusive.cmp(&one.inclusive).then_with(|| one.name.cmp(&other.name))
        });
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(to, from)| place[*from] = to);
        let mut functions: Vec<Option<InclusiveCount>> = self.functions.into_iter().map(Some).collect();
        let functions = order.into_iter().filter_map(|from| functions[from].take()).collect();
        let edge =
            |edge: CallEdge| CallEdge { caller: place[edge.caller], callee: place[edge.callee], ..edge };
        let mut edges: Vec<CallEdge> = self.edges.into_iter().map(edge).collect();
        edges.sort_by(|one, other| {
            let key = |edge: &CallEdge| (edge.caller, edge.callee);
            (other.inclusive, other.calls).cmp(&(one.inclusive, one.calls)).then(key(one).cmp(&key(other)))
        });
        let path = |path: JoinedPath| CallPathNode {
            parent: path.parent,
            function: place[path.function],
            own: path.own,
        };
        CallGraph { functions, edges, paths: self.paths.into_iter().map(path).collect(), total }
    }
}

/// A step on the way through all paths.
enum PathStep {
    Enter(usize),
    Leave(usize),
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(parent: Option<usize>, function: u64, instructions: u64) -> CodePath {
        let (object, calls, recursions, is_partial) = (None, 1, 0, false);
        CodePath { parent, object, offset: function, calls, recursions, instructions, is_partial }
    }

    fn graph(paths: &[CodePath]) -> CallGraph {
        CallGraph::of(paths, |path| named(path.offset))
    }

    fn named(function: u64) -> CodeName {
        CodeName { function: Some(function.to_string()), ..CodeName::default() }
    }

    fn inclusive(graph: &CallGraph, function: u64) -> u64 {
        graph.function(&named(function)).map_or(0, |function| function.inclusive)
    }

    #[test]
    fn a_function_has_its_instructions_and_those_below_it() {
        let graph =
            graph(&[path(None, 0, 1), path(Some(0), 1, 10), path(Some(1), 2, 100), path(Some(0), 2, 5)]);
        assert_eq!([0, 1, 2].map(|f| inclusive(&graph, f)), [116, 110, 105]);
        assert_eq!(graph.total, 116);
        assert_eq!(graph.functions[0].name, named(0), "the largest is first");
    }

    #[test]
    fn recursion_is_counted_once() {
        // 0 > 1 > 2 > 1 > 2 > 3
        let chain = [
            path(None, 0, 1),
            path(Some(0), 1, 10),
            path(Some(1), 2, 100),
            path(Some(2), 1, 10),
            path(Some(3), 2, 100),
            path(Some(4), 3, 1000),
        ];
        let graph = graph(&chain);
        assert_eq!([0, 1, 2, 3].map(|f| inclusive(&graph, f)), [1221, 1220, 1210, 1000]);
        let cost = |caller: u64, callee: u64| {
            let is = |index: usize, function: u64| graph.functions[index].name == named(function);
            let found = graph.edges.iter().find(|edge| is(edge.caller, caller) && is(edge.callee, callee));
            found.map(|edge| (edge.calls, edge.inclusive))
        };
        assert_eq!(cost(0, 1), Some((1, 1220)));
        assert_eq!(cost(1, 2), Some((2, 1210)), "the inner call is below the outer one");
        assert_eq!(cost(2, 1), Some((1, 0)), "and so is this");
    }

    proptest! {
        #[test]
        fn inclusive_counts_are_the_sum_of_the_calls_and_at_most_the_total(
            steps in prop::collection::vec((any::<prop::sample::Index>(), 0_u64..5, 0_u64..1000), 1..60),
        ) {
            let mut paths = vec![path(None, 0, 7)];
            for (parent, function, instructions) in steps {
                paths.push(path(Some(parent.index(paths.len())), function, instructions));
            }
            let graph = graph(&paths);
            prop_assert_eq!(graph.total, paths.iter().map(|path| path.instructions).sum::<u64>());
            prop_assert_eq!(inclusive(&graph, 0), graph.total);
            for (index, function) in graph.functions.iter().enumerate().filter(|(_, f)| f.name != named(0)) {
                let calls = graph.edges.iter().filter(|edge| edge.callee == index);
                prop_assert_eq!(calls.map(|edge| edge.inclusive).sum::<u64>(), function.inclusive);
                prop_assert!(function.own <= function.inclusive);
                prop_assert!(function.inclusive <= graph.total);
            }
        }
    }
}

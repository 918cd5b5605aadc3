//! Inclusive instructions of functions, their calls, and call paths.

use std::collections::HashMap;

use cyclometer_toolkit::symbols::{
    CallEdge, CallGraph, CodeName, CountsByCode, CountsOfCode, Grouping, InclusiveCount,
};
use serde_json::{Value, json};

use crate::code_names::{base, displayed, file_label, file_of};
use crate::text::clean;
use crate::units;

/// The mark of inclusive counts that are not certain.
const PARTIAL: char = '*';

/// The inclusive counts of rows.
#[derive(Debug)]
pub struct InclusiveRows<'a> {
    graph: &'a CallGraph,
    of_name: HashMap<&'a CodeName, &'a InclusiveCount>,
}

/// The inclusive count of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowInclusive {
    /// The instructions; `None`: the function was never entered by a call that is known.
    pub count: Option<u64>,
    /// Whether some may belong to a neighbouring function.
    pub is_partial: bool,
}

impl<'a> InclusiveRows<'a> {
    /// Those of counts, if they have any.
    pub fn of(counts: &'a CountsByCode) -> Option<InclusiveRows<'a>> {
        let graph = counts.graph.as_ref()?;
        let of_name = graph.functions.iter().map(|function| (&function.name, function)).collect();
        Some(InclusiveRows { graph, of_name })
    }

    /// All instructions.
    pub fn total(&self) -> u64 {
        self.graph.total
    }

    /// The inclusive count of a row. `own` are its own instructions, if they are counted: a function that is
    /// reached by jumps that are not recognised has more of them than its calls.
    pub fn row(&self, row: &CountsOfCode, own: Option<u64>) -> RowInclusive {
        let Some(function) = self.of_name.get(&row.name) else {
            return RowInclusive { count: None, is_partial: true };
        };
        let own = own.unwrap_or(0);
        let is_partial = function.is_partial || own > function.inclusive;
        RowInclusive { count: Some(function.inclusive.max(own)), is_partial }
    }
}

impl RowInclusive {
    /// As text with a mark, or a space in place of it.
    pub fn text(self) -> String {
        match self.count {
            Some(count) => {
                let mark = if self.is_partial { PARTIAL } else { ' ' };
                format!("{}{mark}", units::grouped(count as f64))
            }
            None => "– ".to_owned(),
        }
    }
}

/// The explanation of the mark.
pub const EXPLANATION: &str =
    "* partial: frames were skipped, or jumps led to it; some may belong to a function that it calls";

/// The calls of a graph as JSON.
pub fn edges_json(graph: &CallGraph) -> Value {
    let name = |function: usize| {
        let name = &graph.functions[function].name;
        json!({ "object": file_of(name), "function": name.function })
    };
    let edge = |edge: &CallEdge| {
        json!({
            "caller": name(edge.caller),
            "callee": name(edge.callee),
            "times": edge.calls,
            "inclusive": edge.inclusive,
        })
    };
    graph.edges.iter().map(edge).collect()
}

/// A path of names in the making: each as flame graphs show it.
pub fn frame(name: &CodeName, grouping: Grouping) -> String {
    match (grouping, &name.function) {
        (Grouping::Object, _) => displayed(name, Grouping::Object, usize::MAX),
        (_, Some(function)) => function.clone(),
        (_, None) => format!("[unknown] {}", file_label(name, base)),
    }
}

/// The part of all instructions below which a path is folded into one line with its siblings: a compiler has
/// millions of paths.
const LEAST_PART: u64 = 100_000;

/// Folded stacks: each path with its instructions. Small paths of one caller are one line.
pub fn folded(graph: &CallGraph, grouping: Grouping) -> String {
    let frames: Vec<String> = graph
        .functions
        .iter()
        .map(|function| clean(&frame(&function.name, grouping)).replace(';', ":"))
        .collect();
    let mut inclusive: Vec<u64> = graph.paths.iter().map(|path| path.own).collect();
    let mut small: Vec<u64> = vec![0; graph.paths.len()];
    let least = graph.total / LEAST_PART;
    for index in (0..graph.paths.len()).rev() {
        let Some(parent) = graph.paths[index].parent else { continue };
        inclusive[parent] = inclusive[parent].wrapping_add(inclusive[index]);
        if inclusive[index] < least {
            small[parent] = small[parent].wrapping_add(inclusive[index]);
        }
    }
    let mut out = String::new();
    for (index, path) in graph.paths.iter().enumerate() {
        if inclusive[index] < least && path.parent.is_some() {
            continue;
        }
        let mut names = vec![frames[path.function].as_str()];
        let mut parent = path.parent;
        while let Some(above) = parent.map(|parent| &graph.paths[parent]) {
            names.push(&frames[above.function]);
            parent = above.parent;
        }
        names.reverse();
        let stack = names.join(";");
        for (below, count) in [("", path.own), (";[less than 0.001 %]", small[index])] {
            if count > 0 {
                out += &format!("{stack}{below} {count}\n");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use cyclometer_toolkit::symbols::CallPathNode;

    use super::*;

    #[test]
    fn small_paths_are_one_line_and_nothing_is_lost() {
        let name = |function: &str| CodeName {
            object: Some("/p".to_owned()),
            function: Some(function.to_owned()),
            ..CodeName::default()
        };
        let function =
            |text: &str| InclusiveCount { name: name(text), own: 0, inclusive: 0, is_partial: false };
        let path = |parent, function, own| CallPathNode { parent, function, own };
        let graph = CallGraph {
            functions: ["main", "f;g", "tiny"].map(function).into(),
            edges: Vec::new(),
            paths: vec![
                path(None, 0, 999_000),
                path(Some(0), 1, 1_000_000),
                path(Some(0), 2, 4),
                path(Some(2), 1, 3),
                path(Some(0), 0, 2),
            ],
            total: 1_999_009,
        };
        let text = folded(&graph, Grouping::Function);
        assert_eq!(text, "main 999000\nmain;[less than 0.001 %] 9\nmain;f:g 1000000\n");
    }
}

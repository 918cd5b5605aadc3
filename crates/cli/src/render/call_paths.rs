//! Inclusive instructions of functions, their calls, and call paths.

use std::collections::HashMap;

use cyclometer::symbols::{
    CallEdge, CallGraph, CodeName, CountsByCode, CountsOfCode, Grouping, InclusiveCount,
};
use serde_json::{Value, json};

use crate::output::clean;
use crate::render::by_code::{base, displayed, file_of};
use crate::render::units;

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
        (_, None) => format!("[unknown] {}", file_of(name).map_or_else(|| "[no file]".to_owned(), base)),
    }
}

/// Folded stacks: each path with its instructions.
pub fn folded(graph: &CallGraph, grouping: Grouping) -> String {
    let frames: Vec<String> = graph
        .functions
        .iter()
        .map(|function| clean(&frame(&function.name, grouping)).replace(';', ":"))
        .collect();
    let mut out = String::new();
    for path in graph.paths.iter().filter(|path| path.own > 0) {
        let mut names = vec![frames[path.function].as_str()];
        let mut parent = path.parent;
        while let Some(above) = parent.map(|parent| &graph.paths[parent]) {
            names.push(&frames[above.function]);
            parent = above.parent;
        }
        names.reverse();
        out += &format!("{} {}\n", names.join(";"), path.own);
    }
    out
}

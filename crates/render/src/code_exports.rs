//! Counts by code in the formats of other tools: Callgrind's, folded stacks, and a page of our own.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use cyclometer_toolkit::symbols::{CallGraph, CallPathNode, CodeName, CountsByCode, CountsOfCode, Grouping};

use crate::by_code::{ByCode, base, file_of, owner_label};
use crate::call_paths;
use crate::code_names::{JIT, NO_FILE, file_label, function_label};
use crate::plot::flame_graph::{self, FlamePath};
use crate::plot::tree_map::{MapNode, MapTexts, html};
use crate::text::clean;
use crate::{Results, target};

const UNKNOWN: &str = "[unknown]";

/// The label of the counts of a function besides those of the functions that are inlined into it.
const NOT_INLINED: &str = "[not inlined]";

/// Callgrind's format, with exclusive costs: by line of source code where counts are by line. With call paths
/// it has the instructions alone, and calls with inclusive costs.
///
/// # Source
///
/// Valgrind manual, "Callgrind Format Specification".
pub fn callgrind(results: &Results<'_>) -> String {
    results.by_code.map(|by_code| CallgrindFile::of(by_code, results)).unwrap_or_default()
}

/// Lines of a function, by its file of source code.
type FunctionLines<'a> = BTreeMap<&'a str, Vec<(u32, &'a [u64])>>;

/// A file in the making: names that are written once, with a number.
#[derive(Default)]
struct CallgrindFile {
    out: String,
    numbers: HashMap<(&'static str, String), usize>,
}

impl CallgrindFile {
    fn of(by_code: &ByCode, results: &Results<'_>) -> String {
        let (counts, mut names) = (by_code.counts(), by_code.events());
        let instructions = counts.instructions_column();
        let graph = counts.graph.as_ref().and_then(|graph| Some((graph, instructions?)));
        let columns = match graph {
            Some((_, slot)) => slot..slot + 1,
            None => 0..names.len(),
        };
        names = &names[columns.clone()];
        let mut file = CallgrindFile::default();
        file.line("# callgrind format");
        file.line("version: 1");
        file.line(&format!("creator: cyclometer {}", env!("CARGO_PKG_VERSION")));
        file.line(&format!("cmd: {}", clean(&target::command_words(results.report).join(" "))));
        let costs = if graph.is_some() { "exclusive, and inclusive of calls" } else { "exclusive" };
        file.line(&format!("desc: Cost: {costs}, {}", by_code.provenance()));
        by_code.notes().iter().for_each(|note| file.line(&format!("desc: Note: {}", clean(note))));
        file.line("positions: line");
        let events: Vec<String> = names.iter().map(|name| event(name)).collect();
        for (event, name) in events.iter().zip(names) {
            file.line(&format!("event: {event} : {}", clean(name)));
        }
        file.line(&format!("events: {}", events.join(" ")));
        let totals = counts.totals.get(columns.clone()).unwrap_or_default();
        if let Some(totals) = totals.iter().copied().collect::<Option<Vec<u64>>>() {
            file.line(&format!("summary: {}", numbers(&totals)));
        }
        let calls = graph.map(|(graph, _)| OutgoingCalls::of(graph)).unwrap_or_default();
        for (key, lines) in functions(counts, columns) {
            file.function(&key, &lines);
            calls.0.get(&key).into_iter().flatten().for_each(|call| file.call(call));
        }
        file.out
    }

    fn line(&mut self, text: &str) {
        self.out += text;
        self.out.push('\n');
    }

    /// A name after a number, so that no name is taken for one.
    fn name(&mut self, kind: &'static str, space: &'static str, name: &str) {
        let next = self.numbers.len() + 1;
        let number = *self.numbers.entry((space, name.to_owned())).or_insert(next);
        let text = if number == next { format!(" {}", clean(name)) } else { String::new() };
        self.line(&format!("{kind}=({number}){text}"));
    }

    /// The calls of a function to another one.
    fn call(&mut self, call: &OutgoingCall<'_>) {
        let (object, function) = &call.callee;
        self.name("cob", "ob", object);
        self.name("cfi", "fl", NO_SOURCE);
        self.function_name("cfn", object, function);
        self.line(&format!("calls={} 0", call.times));
        self.line(&format!("0 {}", call.inclusive));
    }

    /// callgrind_annotate adds up functions of one name, whatever their file of code.
    fn function_name(&mut self, kind: &'static str, object: &str, function: &str) {
        match function {
            UNKNOWN => self.name(kind, "fn", &format!("{UNKNOWN} {}", base(object))),
            known => self.name(kind, "fn", known),
        }
    }

    fn function(&mut self, (object, function): &FunctionKey<'_>, lines: &FunctionLines<'_>) {
        self.line("");
        self.name("ob", "ob", object);
        // The function is taken to be of the file with most of its cost; the others are inlined.
        let cost = |lines: &Vec<(u32, &[u64])>| {
            lines
                .iter()
                .filter_map(|(_, counts)| counts.first())
                .fold(0_u64, |sum, count| sum.saturating_add(*count))
        };
        let own = lines.iter().max_by_key(|(_, lines)| cost(lines)).map(|(file, _)| *file);
        self.name("fl", "fl", own.unwrap_or(NO_SOURCE));
        self.function_name("fn", object, function);
        let in_order = lines.iter().filter(|(file, _)| Some(**file) == own);
        for (file, lines) in in_order.chain(lines.iter().filter(|(file, _)| Some(**file) != own)) {
            if Some(*file) != own {
                self.name("fi", "fl", file);
            }
            for (line, counts) in lines {
                self.line(&format!("{line} {}", numbers(counts)));
            }
        }
    }
}

/// The name of an unknown source file, as Callgrind writes it.
const NO_SOURCE: &str = "???";

/// A file of code and a function.
type FunctionKey<'a> = (&'a str, Cow<'a, str>);

fn key(name: &CodeName) -> FunctionKey<'_> {
    let no_file = if name.object.is_none() && name.function.is_some() { JIT } else { NO_FILE };
    (file_of(name).unwrap_or(no_file), function_label(name).unwrap_or(UNKNOWN.into()))
}

/// The calls of each function.
#[derive(Default)]
struct OutgoingCalls<'a>(HashMap<FunctionKey<'a>, Vec<OutgoingCall<'a>>>);

struct OutgoingCall<'a> {
    callee: FunctionKey<'a>,
    times: u64,
    inclusive: u64,
}

impl<'a> OutgoingCalls<'a> {
    fn of(graph: &'a CallGraph) -> OutgoingCalls<'a> {
        let mut calls = OutgoingCalls::default();
        for edge in &graph.edges {
            let [caller, callee] = [edge.caller, edge.callee].map(|index| key(&graph.functions[index].name));
            let call = OutgoingCall { callee, times: edge.calls, inclusive: edge.inclusive };
            calls.0.entry(caller).or_default().push(call);
        }
        calls
    }
}

fn functions(
    counts: &CountsByCode,
    columns: std::ops::Range<usize>,
) -> BTreeMap<FunctionKey<'_>, FunctionLines<'_>> {
    let mut all: BTreeMap<FunctionKey<'_>, FunctionLines<'_>> = BTreeMap::new();
    for CountsOfCode { name, counts } in &counts.rows {
        let (key, counts) = (key(name), &counts[columns.clone()]);
        let (file, line) = match &name.line {
            Some(line) => (line.file.as_str(), line.line.unwrap_or(0)),
            None => (NO_SOURCE, 0),
        };
        all.entry(key).or_default().entry(file).or_default().push((line, counts));
    }
    all.values_mut().flat_map(BTreeMap::values_mut).for_each(|lines| lines.sort_unstable());
    all
}

/// The name of an event without separators; tools know instructions as `Ir`.
fn event(name: &str) -> String {
    match name.split(':').next() {
        Some("instructions") => "Ir".to_owned(),
        _ => name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect(),
    }
}

fn numbers(counts: &[u64]) -> String {
    counts.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}

/// Folded stacks of the first event: the file of code, the function, in it an inlined one, and the line if
/// counts are by line. With call paths, the functions of each path, and its instructions.
pub fn folded(results: &Results<'_>) -> String {
    let Some(by_code) = results.by_code else { return String::new() };
    if let Some(graph) = &by_code.counts().graph {
        return call_paths::folded(graph, by_code.counts().grouping);
    }
    let row = |row: &CountsOfCode| {
        let count = row.counts.first().filter(|count| **count > 0)?;
        let frames: Vec<String> = frames(&row.name, by_code.counts().grouping)
            .iter()
            .map(|frame| clean(frame).replace(';', ":"))
            .collect();
        Some(format!("{} {count}\n", frames.join(";")))
    };
    by_code.counts().rows.iter().filter_map(row).collect()
}

/// A page with a tree map of the first event, or a flame graph of call paths.
pub fn page(results: &Results<'_>) -> String {
    let Some(by_code) = results.by_code else { return String::new() };
    if let Some(graph) = &by_code.counts().graph {
        return flame_page(by_code, graph, results);
    }
    let mut root = MapNode::default();
    let rows = &by_code.counts().rows;
    let around: HashSet<_> =
        rows.iter().map(|row| (&row.name.owner, &row.name.object, &row.name.inlined_into)).collect();
    for row in rows {
        let mut path = frames(&row.name, by_code.counts().grouping);
        // An area with others in it has no count of its own.
        if row.name.function.is_some()
            && around.contains(&(&row.name.owner, &row.name.object, &row.name.function))
        {
            let is_inlined = row.name.inlined_into.is_some();
            path.extend((!is_inlined).then(|| NOT_INLINED.to_owned()));
        }
        root.add(&path, row.counts.first().copied().unwrap_or(0));
    }
    let event = by_code.events().first().map_or("", String::as_str);
    let texts = MapTexts {
        title: target::command_words(results.report).join(" "),
        subtitle: format!(
            "{event} by file of code and {}: {} in all, {}. Areas are in proportion to counts.",
            by_code.counts().grouping.word(),
            crate::units::grouped(root.count as f64),
            by_code.provenance()
        ),
        notes: by_code.notes().to_vec(),
    };
    html(&root, &texts)
}

/// A page with a flame graph of call paths.
fn flame_page(by_code: &ByCode, graph: &CallGraph, results: &Results<'_>) -> String {
    let grouping = by_code.counts().grouping;
    let mut files: HashMap<Option<&str>, usize> = HashMap::new();
    let of_function: Vec<(String, usize)> = graph
        .functions
        .iter()
        .map(|function| {
            let next = files.len();
            let file = *files.entry(function.name.object.as_deref()).or_insert(next);
            (clean(&call_paths::frame(&function.name, grouping)), file)
        })
        .collect();
    let path = |path: &CallPathNode| {
        let (name, file) = of_function[path.function].clone();
        FlamePath { parent: path.parent, name, file, own: path.own }
    };
    let paths: Vec<FlamePath> = graph.paths.iter().map(path).collect();
    let texts = MapTexts {
        title: target::command_words(results.report).join(" "),
        subtitle: format!(
            "instructions by call path: {} in all, {}. Widths are in proportion to inclusive counts; callers are \
             above the functions that they call.",
            crate::units::grouped(graph.total as f64),
            by_code.provenance()
        ),
        notes: by_code.notes().to_vec(),
    };
    flame_graph::html(&paths, &texts)
}

/// The process or thread, the file of code, the function, the function that is inlined there, and the line of
/// a row, as far as they are asked for.
fn frames(name: &CodeName, grouping: Grouping) -> Vec<String> {
    let line = name.line.as_ref().map(|line| {
        let number = line.line.map(|number| format!(":{number}")).unwrap_or_default();
        base(&line.file) + &number
    });
    let object = file_label(name, base);
    let function = name.function.clone().unwrap_or_else(|| UNKNOWN.to_owned());
    let function = Some(function).filter(|_| grouping != Grouping::Object);
    let owner = name.owner.as_ref().map(|owner| owner_label(Some(owner)));
    [owner, Some(object), name.inlined_into.clone(), function, line].into_iter().flatten().collect()
}

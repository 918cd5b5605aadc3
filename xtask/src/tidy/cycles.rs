//! Modules of a package import in one direction.
//!
//! A module imports another one if a path in its code leads to an item there: a path of a `use` line, or one
//! that begins with `crate::`, `super::` or `self::`. A re-export leads to the module that it names. Modules
//! that reach each other are a cycle:
//!
//! ```text
//! a: use crate::b::B;      b: use super::c::C;      c: use super::a::A;      a → b → c → a
//! ```
//!
//! A parent and its child are no cycle. The use of a child by its parent is no import, because the child is a
//! part of the parent: `a` may call `a::b`, and `a::b` may use the types that `a` defines for its children.
//! The use of a parent by a child is an import of the parent's own code. The check therefore misses a circle
//! that is closed only by a parent's use of its child:
//!
//! ```text
//! a: use self::b::B;       a::b: use crate::c::C;   c: use super::a::A;      a::b → c → a, no cycle
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::files::{SourceFile, comment};
use super::modules::{self, ModulePath};

/// Cycles of one package.
pub(super) struct Cycles {
    /// The package's folder.
    pub package: String,
    /// Each cycle's modules, and one shortest way around.
    cycles: Vec<(BTreeSet<String>, Vec<String>)>,
}

impl Cycles {
    /// The cycles of every package, those without any included.
    pub fn of(files: &[SourceFile]) -> Vec<Cycles> {
        let mut packages: BTreeMap<&str, Vec<&SourceFile>> = BTreeMap::new();
        for file in files {
            if let Some((package, _)) = file.package() {
                packages.entry(package).or_default().push(file);
            }
        }
        packages
            .into_iter()
            .map(|(package, files)| Cycles { package: package.to_owned(), cycles: cycles(&imports(&files)) })
            .collect()
    }

    /// The number of modules in cycles.
    pub fn modules(&self) -> usize {
        self.cycles.iter().map(|(modules, _)| modules.len()).sum()
    }

    /// One line for each cycle, the largest first.
    pub fn lines(&self) -> Vec<String> {
        let mut cycles: Vec<_> = self.cycles.iter().collect();
        cycles.sort_by_key(|(modules, _)| usize::MAX - modules.len());
        let line = |(modules, way): &(BTreeSet<String>, Vec<String>)| {
            let count = modules.len();
            format!("{}: {count} modules in a cycle; the shortest: {}", self.package, way.join(" → "))
        };
        cycles.into_iter().map(line).collect()
    }
}

type ImportGraph = BTreeMap<String, BTreeSet<String>>;

/// For each module the modules that it imports.
fn imports(files: &[&SourceFile]) -> ImportGraph {
    let mut codes: BTreeMap<ModulePath, Vec<Vec<String>>> = BTreeMap::new();
    for (file, module) in files.iter().zip(modules::of_files(files)) {
        let paths = paths(&without_comments(file.shipped()));
        let absolute = paths.iter().filter_map(|path| absolute(&module, path)).collect::<Vec<_>>();
        codes.entry(module).or_default().extend(absolute);
    }
    let mut graph = ImportGraph::new();
    for (module, paths) in &codes {
        let targets =
            paths.iter().map(|path| resolve(path, &codes, 0)).filter(|target| !target.starts_with(module));
        graph.entry(named(module)).or_default().extend(targets.map(|target| named(&target)));
    }
    graph
}

fn named(module: &[String]) -> String {
    if module.is_empty() { "crate".to_owned() } else { module.join("::") }
}

/// The module in which an item is defined: the longest module in its path, or that of the re-export it names.
fn resolve(path: &[String], codes: &BTreeMap<ModulePath, Vec<Vec<String>>>, depth: usize) -> ModulePath {
    let length = (0..=path.len()).rev().find(|length| codes.contains_key(&path[..*length])).unwrap_or(0);
    let (module, item) = path.split_at(length);
    let exported = item.first().and_then(|name| {
        let below = |other: &&Vec<String>| other.len() > length && other.starts_with(module);
        codes.get(module)?.iter().filter(below).find(|other| other.last() == Some(name) && *other != path)
    });
    match exported {
        Some(other) if depth < 8 => resolve(other, codes, depth + 1),
        _ => module.to_vec(),
    }
}

fn without_comments(code: &str) -> String {
    code.lines().filter(|line| comment(line).is_none()).collect::<Vec<_>>().join("\n")
}

/// The path from the crate's root of a path in a module.
fn absolute(module: &[String], path: &[String]) -> Option<Vec<String>> {
    let mut at = module.to_vec();
    for (index, segment) in path.iter().enumerate() {
        match segment.as_str() {
            "crate" if index == 0 => at.clear(),
            "self" => {}
            "super" => drop(at.pop()?),
            _ => at.push(segment.clone()),
        }
    }
    Some(at)
}

/// All paths in code that begin with `crate`, `super` or `self`, and those of `use` lines; lists in braces
/// are several paths.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut rest = code;
    let mut before = ' ';
    while let Some(letter) = rest.chars().next() {
        let fresh = !(before.is_alphanumeric() || ['_', ':', '$'].contains(&before));
        let import = rest.starts_with("use ");
        let start = ["crate::", "super::", "self::"].iter().any(|word| rest.starts_with(word));
        if fresh && (start || import) {
            let tree = if start { rest } else { &rest["use ".len()..] };
            let length = tree_paths(tree, &mut Vec::new(), &mut found);
            rest = &tree[length.max(1).min(tree.len())..];
            before = ' ';
        } else {
            rest = &rest[letter.len_utf8()..];
            before = letter;
        }
    }
    found
}

/// Adds the paths of one tree of imports; returns its length.
fn tree_paths(tree: &str, prefix: &mut Vec<String>, found: &mut Vec<Vec<String>>) -> usize {
    let depth = prefix.len();
    let mut at = 0;
    loop {
        let name = &tree[at..];
        let end = name.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(name.len());
        if end > 0 {
            prefix.push(name[..end].to_owned());
        }
        at += end;
        let more = tree[at..].starts_with("::");
        if more {
            at += 2;
        }
        if (more || end == 0) && tree[at..].starts_with('{') {
            at += 1 + list_paths(&tree[at + 1..], prefix, found);
            break;
        }
        if !more || end == 0 {
            found.push(prefix.clone());
            break;
        }
    }
    prefix.truncate(depth);
    at
}

/// Adds the paths of a list in braces, behind the opening one; returns its length with the closing one.
fn list_paths(list: &str, prefix: &mut Vec<String>, found: &mut Vec<Vec<String>>) -> usize {
    let mut at = 0;
    while let Some(letter) = list[at..].chars().next() {
        if letter == '}' {
            return at + 1;
        }
        if letter.is_alphanumeric() || letter == '_' {
            at += tree_paths(&list[at..], prefix, found);
            // Another name behind `as` is no path.
            at += list[at..].find([',', '}']).unwrap_or(list.len() - at);
        } else {
            at += letter.len_utf8();
        }
    }
    at
}

/// The cycles of a graph: modules that reach each other, and a shortest way around from the first of them.
fn cycles(graph: &ImportGraph) -> Vec<(BTreeSet<String>, Vec<String>)> {
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        graph.keys().map(|module| (module, reached(graph, module))).collect();
    let mut done = BTreeSet::new();
    let mut cycles = Vec::new();
    for module in graph.keys() {
        if done.contains(module) || !reached[module].contains(module) {
            continue;
        }
        let mutual = |other: &&&String| reached.get(**other).is_some_and(|reached| reached.contains(module));
        let modules: BTreeSet<String> =
            reached[module].iter().filter(mutual).map(|other| (*other).clone()).collect();
        done.extend(modules.clone());
        let ways = modules.iter().filter_map(|module| way_around(graph, module));
        let way = ways.min_by_key(Vec::len).unwrap_or_default();
        cycles.push((modules, way));
    }
    cycles
}

fn reached<'a>(graph: &'a ImportGraph, module: &String) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&String> = graph[module].iter().collect();
    while let Some(module) = next.pop() {
        if reached.insert(module) {
            next.extend(graph.get(module).into_iter().flatten());
        }
    }
    reached
}

fn way_around(graph: &ImportGraph, module: &String) -> Option<Vec<String>> {
    let mut ways = VecDeque::from([vec![module.clone()]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        for next in graph.get(way.last()?).into_iter().flatten() {
            let mut longer = way.clone();
            longer.push(next.clone());
            if next == module {
                return Some(longer);
            }
            if seen.insert(next) {
                ways.push_back(longer);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<SourceFile> = files
            .iter()
            .map(|(path, text)| SourceFile::new(&format!("crates/a/src/{path}"), text).unwrap())
            .collect();
        Cycles::of(&files).iter().flat_map(Cycles::lines).collect()
    }

    #[test]
    fn two_modules_that_import_each_other_are_a_cycle() {
        let found = lines(&[("a.rs", "use crate::b::B;\n"), ("b.rs", "fn b(a: super::a::A) {}\n")]);
        assert_eq!(found, ["crates/a: 2 modules in a cycle; the shortest: a → b → a"]);
    }

    #[test]
    fn a_cycle_of_three_is_found_and_what_hangs_on_it_is_not_counted() {
        let found = lines(&[
            ("a.rs", "use super::{b::{self, B}, d::D};\n"),
            ("b.rs", "use super::c;\n"),
            ("c/mod.rs", "pub(crate) use crate::a::A as B;\n"),
            ("d.rs", "struct D;"),
            ("e.rs", "use crate::a;\n"),
        ]);
        assert_eq!(found, ["crates/a: 3 modules in a cycle; the shortest: a → b → c → a"]);
    }

    #[test]
    fn one_direction_is_no_cycle() {
        let parent = "mod b;\nmod c;\nstruct A;\n";
        assert!(
            lines(&[("a/mod.rs", parent), ("a/b.rs", "use super::A;"), ("a/c.rs", "use super::b;")])
                .is_empty()
        );
    }

    #[test]
    fn a_module_may_use_what_it_contains() {
        assert!(lines(&[("a/mod.rs", "use self::b::B;\n"), ("a/b.rs", "use super::A;")]).is_empty());
    }

    #[test]
    fn a_circle_that_a_parent_closes_by_its_child_is_not_found() {
        let files =
            [("a/mod.rs", "use self::b::B;"), ("a/b.rs", "use crate::c::C;"), ("c.rs", "use super::a::A;")];
        assert!(lines(&files).is_empty());
        let back = [("c.rs", "use super::a::b::B;")];
        let found = lines(&[&files[..2], &back].concat());
        assert_eq!(found, ["crates/a: 2 modules in a cycle; the shortest: a::b → c → a::b"]);
    }

    #[test]
    fn a_module_below_a_sibling_is_an_import() {
        let found = lines(&[
            ("a/mod.rs", "use crate::c::d::D;"),
            ("c/mod.rs", "mod d;"),
            ("c/d.rs", "use crate::a::A;"),
        ]);
        assert_eq!(found, ["crates/a: 2 modules in a cycle; the shortest: a → c::d → a"]);
    }

    #[test]
    fn a_re_export_leads_to_the_module_that_it_names() {
        let parent = "mod b;\nmod c;\npub use b::B;\n";
        assert!(
            lines(&[("a/mod.rs", parent), ("a/b.rs", "struct B;"), ("a/c.rs", "use super::B;")]).is_empty()
        );
    }

    #[test]
    fn comments_and_tests_import_nothing() {
        let test = "//! [`crate::b::B`]\n#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}";
        assert!(lines(&[("a.rs", test), ("b.rs", "use crate::a::A;")]).is_empty());
    }
}

//! Functions of one name in one file, told apart.
//!
//! Two files of source code may each have a `static` function `helper`, and a generic function of Rust is
//! compiled for each of its types. Each of them gets a name of its own, by what stays as it is when the
//! program is built again, in this order:
//!
//! 1. The name with the hash of the Rust compiler, `f::h0123456789abcdef`.
//! 2. The file of source code in the symbol table: `helper [a.c]`.
//! 3. The symbol: `f(int) {_Z1fi}`.
//! 4. A number, by address: `helper [a.c] #2`.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::demangled::rust_with_hash;

/// A function whose name others may have too.
pub(crate) struct Namesake<'a> {
    /// The name in the source code.
    pub(crate) name: String,
    /// The symbol.
    pub(crate) symbol: &'a [u8],
    /// The file of source code that the symbol table has before it.
    pub(crate) source: Option<&'a [u8]>,
}

/// The names of functions of one file, in their order: those that several have are made different.
pub(crate) fn told_apart(mut functions: Vec<Namesake<'_>>) -> Vec<String> {
    let steps: [fn(&Namesake<'_>) -> Option<String>; 3] = [with_hash, with_source, with_symbol];
    let mut undecided: Vec<usize> = (0..functions.len()).collect();
    for step in steps {
        undecided = equal(&functions, &undecided);
        let mut all: HashMap<&str, BTreeSet<Option<String>>> = HashMap::new();
        for index in &undecided {
            let function = &functions[*index];
            all.entry(&function.name).or_default().insert(step(function));
        }
        // A step that makes no difference adds nothing to a name.
        let helps = all.into_iter().filter(|(_, names)| names.len() > 1);
        let helps: HashSet<String> = helps.map(|(name, _)| name.to_owned()).collect();
        for index in &undecided {
            let function = &mut functions[*index];
            if let Some(name) = step(function).filter(|_| helps.contains(&function.name)) {
                function.name = name;
            }
        }
    }
    let mut numbers: HashMap<String, usize> = HashMap::new();
    for index in equal(&functions, &undecided) {
        let name = &mut functions[index].name;
        let number = numbers.entry(name.clone()).or_default();
        *number += 1;
        *name = format!("{name} #{number}");
    }
    functions.into_iter().map(|function| function.name).collect()
}

/// The functions whose names others have too.
fn equal(functions: &[Namesake<'_>], among: &[usize]) -> Vec<usize> {
    let mut times: HashMap<&str, usize> = HashMap::new();
    among.iter().for_each(|index| *times.entry(&functions[*index].name).or_default() += 1);
    among.iter().copied().filter(|index| times[&*functions[*index].name] > 1).collect()
}

fn with_hash(function: &Namesake<'_>) -> Option<String> {
    rust_with_hash(function.symbol)
}

fn with_source(function: &Namesake<'_>) -> Option<String> {
    let source = printable(function.source?);
    Some(format!("{} [{}]", function.name, source.rsplit('/').next().unwrap_or_default()))
}

fn with_symbol(function: &Namesake<'_>) -> Option<String> {
    Some(format!("{} {{{}}}", function.name, printable(function.symbol)))
}

fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// A name without what [`told_apart`] added to it.
pub(crate) fn unqualified(name: &str) -> &str {
    let number = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    let name = name.rsplit_once(" #").filter(|(_, end)| number(end)).map_or(name, |(name, _)| name);
    let within = |name, [open, close]: [&str; 2]| -> &str {
        let (inner, outer) = (str::strip_suffix(name, close), |inner: &str| inner.rfind(open));
        inner.and_then(outer).map_or(name, |at| &name[..at])
    };
    let name = within(name, [" {", "}"]);
    let name = if name.contains(" [clone ") { name } else { within(name, [" [", "]"]) };
    let is_hash = |hash: &str| hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.rsplit_once("::h").filter(|(_, hash)| is_hash(hash)).map_or(name, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(functions: &[(&str, &str, &str)], expected: &[&str]) {
        let namesakes = functions.iter().map(|(name, symbol, source)| Namesake {
            name: (*name).to_owned(),
            symbol: symbol.as_bytes(),
            source: (!source.is_empty()).then_some(source.as_bytes()),
        });
        assert_eq!(told_apart(namesakes.collect()), expected);
    }

    #[test]
    fn static_functions_are_told_apart_by_their_file() {
        check(
            &[("helper", "helper", "a.c"), ("main", "main", ""), ("helper", "helper", "src/b.c")],
            &["helper [a.c]", "main", "helper [b.c]"],
        );
        check(&[("f", "f", "a.c"), ("f", "f", "")], &["f [a.c]", "f"]);
    }

    #[test]
    fn functions_of_one_name_and_file_are_numbered() {
        check(
            &[("f", "f", "a.c"), ("f", "f", "a.c"), ("f", "f", "b.c")],
            &["f [a.c] #1", "f [a.c] #2", "f [b.c]"],
        );
        check(&[("f", "f", ""), ("f", "f", "")], &["f #1", "f #2"]);
    }

    #[test]
    fn symbols_tell_copies_of_one_source_apart() {
        let constructors = [("S::S()", "_ZN1SC1Ev", ""), ("S::S()", "_ZN1SC2Ev", "")];
        check(&constructors, &["S::S() {_ZN1SC1Ev}", "S::S() {_ZN1SC2Ev}"]);
        let generics = ["_ZN1r1f17h0123456789abcdefE", "_ZN1r1f17hfedcba9876543210E"];
        check(
            &[("r::f", generics[0], "r.cgu.0"), ("r::f", generics[1], "r.cgu.0")],
            &["r::f::h0123456789abcdef", "r::f::hfedcba9876543210"],
        );
    }

    #[test]
    fn what_was_added_is_taken_off_again() {
        for (name, expected) in [
            ("helper [a.c]", "helper"),
            ("f [a.c] #2", "f"),
            ("S::S() {_ZN1SC1Ev}", "S::S()"),
            ("r::f::h0123456789abcdef", "r::f"),
            ("f(int) [clone .cold]", "f(int) [clone .cold]"),
            ("main::{lambda(int)#1}::operator()", "main::{lambda(int)#1}::operator()"),
            ("a #b", "a #b"),
            ("", ""),
        ] {
            assert_eq!(unqualified(name), expected);
        }
    }
}

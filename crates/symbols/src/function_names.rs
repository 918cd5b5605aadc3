//! The names of the functions of one file, made when they are asked for.
//!
//! # Problem
//!
//! A compiler has 100,000 functions, of which a run executes a part. Most of the time of looking them up goes
//! into demangling. But a name also depends on functions that were not executed: those of one name are told
//! apart ([`told_apart`]).
//!
//! # Solution
//!
//! Each symbol has a key, such that symbols of equal names have equal keys. It is made without making the
//! name. The name of a function is then told apart from those of its key alone.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use crate::demangled::{demangled, name_key};
use crate::same_names::{Namesake, told_apart};

/// Symbols of functions, with the names that were asked for so far.
#[derive(Default)]
pub(crate) struct FunctionNames {
    /// The bytes of all symbols.
    bytes: Vec<u8>,
    symbols: Vec<StoredSymbol>,
    /// The files of source code, without repetitions in a row.
    sources: Vec<Vec<u8>>,
    /// The key of each symbol that is no stub with its index, ascending.
    keys: OnceCell<Vec<(u64, u32)>>,
    names: RefCell<HashMap<u32, Rc<str>>>,
}

struct StoredSymbol {
    /// Where it begins in the bytes of all symbols, and its length.
    start: usize,
    len: usize,
    /// The index of its file of source code.
    source: Option<usize>,
    /// Whether it is that of a function of another file, which a stub calls.
    is_stub: bool,
}

impl FunctionNames {
    /// Adds a function, and gives its number.
    pub(crate) fn add(&mut self, symbol: &[u8], source: Option<&[u8]>) -> u32 {
        let source = source.map(|source| {
            if self.sources.last().is_none_or(|last| last != source) {
                self.sources.push(source.to_vec());
            }
            self.sources.len() - 1
        });
        self.store(symbol, source, false)
    }

    /// Adds a stub that calls a function of another file, and gives its number.
    pub(crate) fn add_stub(&mut self, symbol: &[u8]) -> u32 {
        self.store(symbol, None, true)
    }

    fn store(&mut self, symbol: &[u8], source: Option<usize>, is_stub: bool) -> u32 {
        let (start, len) = (self.bytes.len(), symbol.len());
        self.bytes.extend_from_slice(symbol);
        self.symbols.push(StoredSymbol { start, len, source, is_stub });
        (self.symbols.len() - 1) as u32
    }

    /// The name of a function, by its number.
    pub(crate) fn name(&self, number: u32) -> Rc<str> {
        if let Some(name) = self.names.borrow().get(&number) {
            return Rc::clone(name);
        }
        let (symbol, is_stub) = (self.symbol(number), self.symbols[number as usize].is_stub);
        let alike = if is_stub { &[] } else { self.alike(symbol) };
        let mut names = self.names.borrow_mut();
        if alike.len() > 1 {
            let numbers = alike.iter().map(|(_, number)| *number);
            let namesakes = numbers.clone().map(|number| self.namesake(number)).collect();
            names.extend(numbers.zip(told_apart(namesakes).into_iter().map(Rc::from)));
        }
        let alone = || if is_stub { format!("{}@plt", demangled(symbol)) } else { demangled(symbol) };
        Rc::clone(names.entry(number).or_insert_with(|| alone().into()))
    }

    /// The functions whose names may be equal to that of a symbol, with it, by number.
    fn alike(&self, symbol: &[u8]) -> &[(u64, u32)] {
        let keys = self.keys.get_or_init(|| {
            let numbers = (0..self.symbols.len() as u32).filter(|n| !self.symbols[*n as usize].is_stub);
            let mut keys: Vec<(u64, u32)> = numbers.map(|n| (name_key(self.symbol(n)), n)).collect();
            keys.sort_unstable();
            keys
        });
        let key = name_key(symbol);
        let first = keys.partition_point(|(other, _)| *other < key);
        let len = keys[first..].partition_point(|(other, _)| *other == key);
        &keys[first..first + len]
    }

    fn symbol(&self, number: u32) -> &[u8] {
        let StoredSymbol { start, len, .. } = self.symbols[number as usize];
        &self.bytes[start..start + len]
    }

    fn namesake(&self, number: u32) -> Namesake<'_> {
        let symbol = self.symbol(number);
        let source = self.symbols[number as usize].source.map(|source| self.sources[source].as_slice());
        Namesake { name: demangled(symbol), symbol, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of all functions, as they are when every one is demangled.
    fn all_at_once(functions: &[(&str, &str)]) -> Vec<String> {
        let namesakes = functions.iter().map(|(symbol, source)| Namesake {
            name: demangled(symbol.as_bytes()),
            symbol: symbol.as_bytes(),
            source: (!source.is_empty()).then_some(source.as_bytes()),
        });
        told_apart(namesakes.collect())
    }

    fn stored(functions: &[(&str, &str)]) -> FunctionNames {
        let mut names = FunctionNames::default();
        for (symbol, source) in functions {
            names.add(symbol.as_bytes(), (!source.is_empty()).then_some(source.as_bytes()));
        }
        names
    }

    const FUNCTIONS: [(&str, &str); 16] = [
        ("helper", "a.c"),
        ("main", ""),
        ("helper", "b.c"),
        ("helper", "b.c"),
        ("_ZN1SC1Ev", ""),
        ("_ZN1SC2Ev", ""),
        ("_ZN1S3runEv", ""),
        ("_ZN1r1f17h0123456789abcdefE", "r.cgu.0"),
        ("_ZN1r1f17hfedcba9876543210E", "r.cgu.0"),
        ("_RNvCskwGfYPst2Cb_3foo3bar", ""),
        ("_RNvCs9ltgdHTiPiY_3foo3bar", ""),
        ("_RNvCs9ltgdHTiPiY_3foo4bar2", ""),
        ("_Z1fIiEiT_", ""),
        ("_Z1fIiElT_", ""),
        ("_Znonsense", ""),
        ("helper2", "a.c"),
    ];

    #[test]
    fn a_name_does_not_depend_on_which_names_were_asked_for_before() {
        let expected = all_at_once(&FUNCTIONS);
        for first in 0..FUNCTIONS.len() {
            let names = stored(&FUNCTIONS);
            let order = (first..FUNCTIONS.len()).chain(0..first);
            for index in order {
                assert_eq!(&*names.name(index as u32), expected[index], "{:?}", FUNCTIONS[index]);
            }
        }
    }

    #[test]
    fn the_names_of_a_real_file_are_those_of_all_at_once() {
        let content = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let file = object::File::parse(&*content).unwrap();
        let symbols = object::Object::symbols(&file);
        let texts = symbols.filter_map(|symbol| object::ObjectSymbol::name(&symbol).ok());
        let functions: Vec<(&str, &str)> = texts.filter(|name| !name.is_empty()).zip([""; 4000]).collect();
        let names = stored(&functions);
        let found = (0..functions.len()).rev().map(|index| names.name(index as u32).to_string());
        assert_eq!(found.collect::<Vec<_>>(), all_at_once(&functions).into_iter().rev().collect::<Vec<_>>());
        assert!(functions.len() > 1000, "{}", functions.len());
    }

    #[test]
    fn a_name_alone_needs_no_other_one() {
        let names = stored(&FUNCTIONS);
        assert_eq!(&*names.name(1), "main");
        assert_eq!(names.names.borrow().len(), 1, "no other name was made");
        names.name(0);
        assert_eq!(names.names.borrow().len(), 4, "those of one name are told apart together");
    }

    #[test]
    fn a_stub_has_its_name_beside_a_function_of_the_same_symbol() {
        let mut names = stored(&[("f", "")]);
        let stub = names.add_stub(b"f");
        assert_eq!((&*names.name(stub), &*names.name(0)), ("f@plt", "f"));
    }
}

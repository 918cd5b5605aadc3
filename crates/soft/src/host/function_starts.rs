//! The starts of functions in a file of code, by its symbols: a jump there is a call that returns elsewhere.
//!
//! Only call paths need them, and no count depends on them: in a file without symbols a function that is
//! jumped to is part of the one that jumps.

use std::fs::File;
use std::path::Path;

use object::read::ReadCache;
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};

/// Offsets in a file at which functions start, ascending.
#[derive(Default)]
pub(super) struct FunctionStarts(Vec<u64>);

impl FunctionStarts {
    /// Those of a file; none where it cannot be read.
    pub(super) fn of(path: &Path) -> FunctionStarts {
        FunctionStarts(File::open(path).ok().and_then(starts).unwrap_or_default())
    }

    /// Whether a function starts at an offset.
    pub(super) fn contains(&self, offset: u64) -> bool {
        self.0.binary_search(&offset).is_ok()
    }
}

fn starts(file: File) -> Option<Vec<u64>> {
    let content = ReadCache::new(file);
    let file = object::File::parse(&content).ok()?;
    let segments: Vec<(u64, u64, u64)> = file
        .segments()
        .map(|segment| {
            let (offset, len) = segment.file_range();
            (segment.address(), len, offset)
        })
        .collect();
    let offset_of = |address: u64| {
        let holds =
            |(start, len, _): &&(u64, u64, u64)| address.checked_sub(*start).is_some_and(|at| at < *len);
        segments.iter().find(holds).map(|(start, _, offset)| offset + (address - start))
    };
    let symbols = file.symbols().chain(file.dynamic_symbols());
    // A label without a size may lie within a function.
    let functions = symbols
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition() && symbol.size() > 0);
    let mut starts: Vec<u64> = functions.filter_map(|symbol| offset_of(symbol.address())).collect();
    starts.sort_unstable();
    starts.dedup();
    Some(starts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_code_has_no_functions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::fs::write(&path, "\x7fELF, but no more").unwrap();
        assert!(!FunctionStarts::of(&path).contains(0));
        assert!(!FunctionStarts::of(&folder.path().join("none")).contains(0));
    }

    #[test]
    fn functions_of_this_program_are_found() {
        let starts = FunctionStarts::of(&std::env::current_exe().unwrap());
        assert!(starts.0.is_empty() || starts.contains(starts.0[starts.0.len() / 2]));
        assert!(!starts.contains(1), "the header is no function");
    }
}

//! Claims: the code that the processes of one translation have mapped, by address.
//!
//! A translation knows code by its address. So processes can share it as long as they have the same code at
//! an address, or none. Each executable mapping is *claimed* before it is executed. A process with other code
//! gets another translation.

use super::maps::MemoryMapping;
use super::writers::FileId;
use crate::pack::{ChunkReader, ChunkWriter};

/// Code that processes of a translation have mapped.
#[derive(Default)]
pub(crate) struct CodeClaims(Vec<CodeClaim>);

struct CodeClaim {
    start: u64,
    end: u64,
    file: Option<FileId>,
    name: String,
    /// The address of the file's first byte if it were mapped; it may be less than zero, and wraps then.
    origin: u64,
}

/// The relation of a mapping to the claims of a translation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClaimFit {
    /// The same mapping is claimed there.
    Known,
    /// No mapping is claimed there.
    New,
    /// Something else was.
    Other,
}

impl CodeClaims {
    /// Compares a mapping with the claims.
    pub(crate) fn fit(&self, mapping: &MemoryMapping) -> ClaimFit {
        let over = || self.0.iter().filter(|claim| claim.start < mapping.end && claim.end > mapping.start);
        match () {
            () if over().any(|claim| !claim.is_of(mapping)) => ClaimFit::Other,
            () if over().any(|claim| claim.start <= mapping.start && claim.end >= mapping.end) => {
                ClaimFit::Known
            }
            () => ClaimFit::New,
        }
    }

    /// Whether anything is claimed in a range.
    pub(crate) fn overlap(&self, start: u64, end: u64) -> bool {
        self.0.iter().any(|claim| claim.start < end && claim.end > start)
    }

    /// Whether any of a file is claimed.
    pub(crate) fn has(&self, file: FileId) -> bool {
        self.0.iter().any(|claim| claim.file == Some(file))
    }

    /// The names of the files that are claimed, one for each claim.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|claim| claim.file.is_some()).map(|claim| claim.name.as_str())
    }

    /// The names and files of the claims.
    pub(crate) fn files(&mut self) -> impl Iterator<Item = (&str, &mut FileId)> {
        self.0.iter_mut().filter_map(|claim| Some((claim.name.as_str(), claim.file.as_mut()?)))
    }

    pub(crate) fn pack(&self, to: &mut ChunkWriter<'_>) {
        to.count(self.0.len());
        for claim in &self.0 {
            [claim.start, claim.end, claim.origin].into_iter().for_each(|number| to.u64(number));
            to.counted(claim.name.as_bytes());
            FileId::pack(claim.file, to);
        }
    }

    pub(crate) fn unpack(from: &mut ChunkReader<'_>) -> Option<CodeClaims> {
        let claim = |from: &mut ChunkReader<'_>| {
            let (start, end, origin) = (from.u64()?, from.u64()?, from.u64()?);
            Some(CodeClaim { start, end, origin, name: from.text()?, file: FileId::unpack(from)? })
        };
        Some(CodeClaims(from.list(claim)?))
    }

    /// Claims a mapping that fits.
    pub(crate) fn add(&mut self, mapping: &MemoryMapping) {
        self.0.push(CodeClaim {
            start: mapping.start,
            end: mapping.end,
            file: mapping.file,
            name: mapping.name.clone(),
            origin: origin(mapping),
        });
    }
}

impl CodeClaim {
    /// Whether a mapping has the same bytes of the same file at the same addresses.
    fn is_of(&self, mapping: &MemoryMapping) -> bool {
        self.file == mapping.file && self.origin == origin(mapping) && self.name == mapping.name
    }
}

/// The address where the file would start if it were mapped whole; without a file, the start of the mapping.
fn origin(mapping: &MemoryMapping) -> u64 {
    mapping.file.map_or(mapping.start, |_| mapping.start.wrapping_sub(mapping.offset))
}

/// Whether another process has the same code, and no change of it goes unseen: the code is of a file that no
/// process writes, or the kernel's own.
pub(crate) fn is_common(mapping: &MemoryMapping) -> bool {
    let steady = !mapping.writable && !mapping.shared && !mapping.unsteady;
    steady && (mapping.file.is_some() || mapping.name == VDSO)
}

/// The kernel's name for its code that reads clocks.
///
/// # Source
///
/// `vdso(7)`, `proc(5)`.
const VDSO: &str = "[vdso]";

#[cfg(test)]
mod tests {
    use super::super::maps::MemoryMaps;
    use super::*;

    fn mapping(line: &str) -> MemoryMapping {
        let maps = MemoryMaps::of(line);
        maps.code().next().unwrap().clone()
    }

    const LIBRARY: &str = "1000-3000 r-xp 00001000 fe:00 7 /lib/a";

    #[track_caller]
    fn check(line: &str, expected: ClaimFit) {
        let mut claims = CodeClaims::default();
        claims.add(&mapping(LIBRARY));
        assert_eq!(claims.fit(&mapping(line)), expected, "{line}");
    }

    #[test]
    fn the_same_part_of_a_file_fits() {
        check(LIBRARY, ClaimFit::Known);
        check("2000-3000 r-xp 00002000 fe:00 7 /lib/a", ClaimFit::Known);
    }

    #[test]
    fn a_mapping_at_another_address_or_longer_is_new() {
        check("3000-4000 r-xp 00000000 fe:00 8 /lib/b", ClaimFit::New);
        check("1000-4000 r-xp 00001000 fe:00 7 /lib/a", ClaimFit::New);
    }

    #[test]
    fn another_file_or_another_part_of_it_is_another() {
        check("2000-3000 r-xp 00001000 fe:00 7 /lib/a", ClaimFit::Other);
        check("2000-3000 r-xp 00002000 fe:00 8 /lib/a", ClaimFit::Other);
        check("2000-3000 r-xp 00002000 fe:01 7 /lib/a", ClaimFit::Other);
        check("2000-3000 r-xp 00002000 fe:00 7 /lib/a (deleted)", ClaimFit::Other);
        check("2000-3000 r-xp 00000000 00:00 0 [vdso]", ClaimFit::Other);
    }

    #[test]
    fn the_kernels_code_fits_where_it_begins_at_the_same_address() {
        let mut claims = CodeClaims::default();
        claims.add(&mapping("5000-7000 r-xp 00000000 00:00 0 [vdso]"));
        assert_eq!(claims.fit(&mapping("5000-7000 r-xp 00000000 00:00 0 [vdso]")), ClaimFit::Known);
        assert_eq!(claims.fit(&mapping("6000-8000 r-xp 00000000 00:00 0 [vdso]")), ClaimFit::Other);
    }

    #[test]
    fn code_that_may_change_unseen_is_not_common() {
        assert!(is_common(&mapping(LIBRARY)));
        assert!(is_common(&mapping("2000-3000 r-xp 00000000 00:00 0                    [vdso]")));
        for line in [
            "1000-3000 rwxp 00001000 fe:00 7 /lib/a",
            "1000-3000 r-xs 00001000 fe:00 7 /lib/a",
            "1000-3000 r-xp 00000000 00:00 0 ",
            "1000-3000 r-xp 00000000 00:00 0 [heap]",
        ] {
            assert!(!is_common(&mapping(line)), "{line}");
        }
        assert!(!is_common(&MemoryMapping { unsteady: true, ..mapping(LIBRARY) }));
    }
}

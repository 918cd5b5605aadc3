//! What the programs that execute one translation have mapped where.
//!
//! What is translated is known by its address. So a translation that several processes execute holds as long as each of them
//! has nothing but the same code at an address, or no code. What each can execute is *claimed* before it can go there; who
//! has something else goes on in another translation.

use super::maps::Mapping;
use super::writers::File;
use crate::pack::{Packer, Unpacker};

/// Code that processes of a translation have mapped.
#[derive(Default)]
pub(crate) struct Claims(Vec<Claim>);

struct Claim {
    start: u64,
    end: u64,
    file: Option<File>,
    name: String,
    /// Where the file's first byte would be; it may be less than zero, and wraps then.
    origin: u64,
}

/// What a mapping is to the claims of a translation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fit {
    /// The same was mapped there before.
    Known,
    /// Nothing was known to be there.
    New,
    /// Something else was.
    Other,
}

impl Claims {
    /// Compares a mapping with what is claimed.
    pub(crate) fn fit(&self, mapping: &Mapping) -> Fit {
        let over = || self.0.iter().filter(|claim| claim.start < mapping.end && claim.end > mapping.start);
        match () {
            () if over().any(|claim| !claim.is_of(mapping)) => Fit::Other,
            () if over().any(|claim| claim.start <= mapping.start && claim.end >= mapping.end) => Fit::Known,
            () => Fit::New,
        }
    }

    /// Whether anything is claimed in a range.
    pub(crate) fn overlap(&self, start: u64, end: u64) -> bool {
        self.0.iter().any(|claim| claim.start < end && claim.end > start)
    }

    /// Whether any of a file is claimed.
    pub(crate) fn has(&self, file: File) -> bool {
        self.0.iter().any(|claim| claim.file == Some(file))
    }

    /// The names of the files that are claimed, one for each claim.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|claim| claim.file.is_some()).map(|claim| claim.name.as_str())
    }

    /// The same with the files.
    pub(crate) fn files(&mut self) -> impl Iterator<Item = (&str, &mut File)> {
        self.0.iter_mut().filter_map(|claim| Some((claim.name.as_str(), claim.file.as_mut()?)))
    }

    pub(crate) fn pack(&self, to: &mut Packer<'_>) {
        to.count(self.0.len());
        for claim in &self.0 {
            [claim.start, claim.end, claim.origin].into_iter().for_each(|number| to.u64(number));
            to.counted(claim.name.as_bytes());
            File::pack(claim.file, to);
        }
    }

    pub(crate) fn unpack(from: &mut Unpacker<'_>) -> Option<Claims> {
        let claim = |from: &mut Unpacker<'_>| {
            let (start, end, origin) = (from.u64()?, from.u64()?, from.u64()?);
            Some(Claim { start, end, origin, name: from.text()?, file: File::unpack(from)? })
        };
        Some(Claims(from.list(claim)?))
    }

    /// Claims a mapping that fits.
    pub(crate) fn add(&mut self, mapping: &Mapping) {
        self.0.push(Claim {
            start: mapping.start,
            end: mapping.end,
            file: mapping.file,
            name: mapping.name.clone(),
            origin: origin(mapping),
        });
    }
}

impl Claim {
    /// Whether a mapping has the same bytes of the same file at the same addresses.
    fn is_of(&self, mapping: &Mapping) -> bool {
        self.file == mapping.file && self.origin == origin(mapping) && self.name == mapping.name
    }
}

/// The start of a file, if all of it were mapped as the mapping is; of what has no file, its own.
fn origin(mapping: &Mapping) -> u64 {
    mapping.file.map_or(mapping.start, |_| mapping.start.wrapping_sub(mapping.offset))
}

/// Whether other processes can have the same code without our hearing of a change: it is a file's that nobody writes, or the
/// kernel's own.
pub(crate) fn is_common(mapping: &Mapping) -> bool {
    let steady = !mapping.writable && !mapping.shared && !mapping.unsteady;
    steady && (mapping.file.is_some() || mapping.name == VDSO)
}

/// What the kernel calls its code for clocks.
///
/// # Source
///
/// `vdso(7)`, `proc(5)`.
const VDSO: &str = "[vdso]";

#[cfg(test)]
mod tests {
    use super::super::maps::Maps;
    use super::*;

    fn mapping(line: &str) -> Mapping {
        let maps = Maps::of(line);
        maps.code().next().unwrap().clone()
    }

    const LIBRARY: &str = "1000-3000 r-xp 00001000 fe:00 7 /lib/a";

    #[track_caller]
    fn check(line: &str, expected: Fit) {
        let mut claims = Claims::default();
        claims.add(&mapping(LIBRARY));
        assert_eq!(claims.fit(&mapping(line)), expected, "{line}");
    }

    #[test]
    fn the_same_part_of_a_file_fits() {
        check(LIBRARY, Fit::Known);
        check("2000-3000 r-xp 00002000 fe:00 7 /lib/a", Fit::Known);
    }

    #[test]
    fn what_is_elsewhere_or_longer_is_new() {
        check("3000-4000 r-xp 00000000 fe:00 8 /lib/b", Fit::New);
        check("1000-4000 r-xp 00001000 fe:00 7 /lib/a", Fit::New);
    }

    #[test]
    fn another_file_or_another_part_of_it_is_another() {
        check("2000-3000 r-xp 00001000 fe:00 7 /lib/a", Fit::Other);
        check("2000-3000 r-xp 00002000 fe:00 8 /lib/a", Fit::Other);
        check("2000-3000 r-xp 00002000 fe:01 7 /lib/a", Fit::Other);
        check("2000-3000 r-xp 00002000 fe:00 7 /lib/a (deleted)", Fit::Other);
        check("2000-3000 r-xp 00000000 00:00 0 [vdso]", Fit::Other);
    }

    #[test]
    fn the_kernels_code_fits_where_it_begins_at_the_same_address() {
        let mut claims = Claims::default();
        claims.add(&mapping("5000-7000 r-xp 00000000 00:00 0 [vdso]"));
        assert_eq!(claims.fit(&mapping("5000-7000 r-xp 00000000 00:00 0 [vdso]")), Fit::Known);
        assert_eq!(claims.fit(&mapping("6000-8000 r-xp 00000000 00:00 0 [vdso]")), Fit::Other);
    }

    #[test]
    fn what_may_change_unseen_is_not_common() {
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
        assert!(!is_common(&Mapping { unsteady: true, ..mapping(LIBRARY) }));
    }
}

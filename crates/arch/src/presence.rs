//! Which chips of a family have a register or a field.

use cyclometer_core::pmu::Family;

/// Which chips of a family have something: versions of the PMU, and what else a chip must say that it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Presence {
    /// The first version of the PMU that has it; 0: every one.
    pub first: u32,
    /// The last version that has it.
    pub last: u32,
    /// Another requirement on the chip, if any, as its vendor calls it: a feature, a bit of CPUID, a
    /// generation.
    pub needs: Option<&'static str>,
}

impl Presence {
    /// On every chip of the family.
    pub const ALWAYS: Presence = Presence { first: 0, last: u32::MAX, needs: None };

    /// From a version on.
    pub(crate) const fn since(first: u32) -> Presence {
        Presence { first, ..Presence::ALWAYS }
    }

    /// The same up to a version.
    pub(crate) const fn until(self, last: u32) -> Presence {
        Presence { last, ..self }
    }

    /// The same on chips that have something else.
    pub(crate) const fn needing(self, needs: &'static str) -> Presence {
        Presence { needs: Some(needs), ..self }
    }

    /// Whether a PMU of this version, or of none, can have it; what it needs besides is not looked at.
    pub const fn is_on(&self, pmu_version: Option<u32>) -> bool {
        match pmu_version {
            Some(version) => self.first <= version && version <= self.last,
            None => self.first == 0,
        }
    }

    /// For people: `version 3 to 4; PERF_CAPABILITIES bit 15`; empty where every chip of the family has it.
    pub fn text(&self, family: Family) -> String {
        let word = if family == Family::Amd { "PerfMonV" } else { "version " };
        let versions = match (self.first, self.last) {
            (0, u32::MAX) => String::new(),
            (0, last) => format!("up to {word}{last}"),
            (first, u32::MAX) => format!("from {word}{first} on"),
            (first, last) if first == last => format!("{word}{first}"),
            (first, last) => format!("{word}{first} to {last}"),
        };
        match self.needs {
            None => versions,
            Some(needs) if versions.is_empty() => needs.to_owned(),
            Some(needs) => format!("{versions}; {needs}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_needs_are_told_where_there_are_any() {
        let text = |presence: Presence| presence.text(Family::Intel);
        assert_eq!(text(Presence::ALWAYS), "");
        assert_eq!(text(Presence::since(2)), "from version 2 on");
        assert_eq!(text(Presence::since(3).until(4)), "version 3 to 4");
        assert_eq!(text(Presence::since(5).until(5)), "version 5");
        assert_eq!(text(Presence::ALWAYS.until(4)), "up to version 4");
        assert_eq!(text(Presence::since(5).needing("a bit")), "from version 5 on; a bit");
        assert_eq!(text(Presence::ALWAYS.needing("a bit")), "a bit");
        assert_eq!(Presence::since(2).text(Family::Amd), "from PerfMonV2 on");
    }

    #[test]
    fn a_presence_ends_with_its_last_version() {
        let any = Presence::since(3).until(4);
        assert_eq!([2, 3, 4, 5].map(|version| any.is_on(Some(version))), [false, true, true, false]);
        assert!(Presence::ALWAYS.is_on(None));
    }
}

//! Modes a count covers (user, kernel, hypervisor) and the modifiers of perf's grammar.

use std::fmt;

/// The privilege modes that a count covers.
///
/// Printed as perf's letters: `u` user, `k` kernel, `h` hypervisor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Modes {
    /// User mode (x86 ring 3, Arm EL0, RISC-V U).
    pub user: bool,
    /// Kernel mode (x86 ring 0, Arm EL1 or EL2 with VHE, RISC-V S).
    pub kernel: bool,
    /// Hypervisor mode, where the architecture separates it from the kernel.
    pub hypervisor: bool,
}

impl Modes {
    /// User mode only: what every default event counts.
    pub const USER: Modes = Modes { user: true, kernel: false, hypervisor: false };
    /// Kernel mode only.
    pub const KERNEL: Modes = Modes { user: false, kernel: true, hypervisor: false };
    /// User and kernel mode.
    pub const USER_KERNEL: Modes = Modes { user: true, kernel: true, hypervisor: false };
    /// Every mode.
    pub const ALL: Modes = Modes { user: true, kernel: true, hypervisor: true };
    pub(crate) const NONE: Modes = Modes { user: false, kernel: false, hypervisor: false };

    /// The modes of `self` and those of `other`.
    pub fn with(self, other: Modes) -> Modes {
        Modes {
            user: self.user || other.user,
            kernel: self.kernel || other.kernel,
            hypervisor: self.hypervisor || other.hypervisor,
        }
    }

    /// Whether everything in `other` is covered by `self`.
    pub fn covers(self, other: Modes) -> bool {
        (self.user || !other.user) && (self.kernel || !other.kernel) && (self.hypervisor || !other.hypervisor)
    }
}

impl fmt::Display for Modes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (on, letter) in [(self.user, "u"), (self.kernel, "k"), (self.hypervisor, "h")] {
            if on {
                f.write_str(letter)?;
            }
        }
        Ok(())
    }
}

/// The modifiers after the colon of an event: `instructions:upp`.
///
/// # Source
///
/// `perf-list(1)`, section "Event modifiers".
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Modifiers {
    /// `u`, `k`, `h`; `None` when none of them was given.
    pub modes: Option<Modes>,
    /// `G`: count the guest only.
    pub guest_only: bool,
    /// `H`: count the host only.
    pub host_only: bool,
    /// `I`: do not count when idle.
    pub exclude_idle: bool,
    /// Number of `p`: 0 to 3, the requested precision of a sample's address.
    pub precise: u8,
    /// `P`: the greatest precision that the PMU has.
    pub most_precise: bool,
    /// `D`: pinned to the PMU, or an error.
    pub pinned: bool,
    /// `e`: alone on its PMU.
    pub exclusive: bool,
    /// `S`: read the group's values with each sample.
    pub sample_read: bool,
    /// `W`: a weak group, which is split into single events when it does not fit.
    pub weak: bool,
    /// `b`: counted by BPF.
    pub bpf: bool,
}

/// The error of a letter after the colon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ModifierError {
    /// The letter is no modifier.
    Unknown(char),
    /// The letter is repeated, or it is a fourth `p`.
    Repeated(char),
}

/// Greatest number of `p`.
const MOST_PRECISE: u8 = 3;

impl Modifiers {
    /// Parses the letters after the colon. Letters add up: `uk` counts in both modes, `GH` in guests and the
    /// host.
    ///
    /// # Errors
    ///
    /// The first letter that is no modifier, one that is repeated, or a fourth `p`.
    ///
    /// # Source
    ///
    /// Linux `tools/perf/util/parse-events.l`, `modifiers`; `parse-events.c`, `check_modifier` of older ones.
    pub fn parse(letters: &str) -> std::result::Result<Modifiers, ModifierError> {
        let mut m = Modifiers::default();
        for (at, letter) in letters.char_indices() {
            m.add(letter)?;
            let most = if letter == 'p' { usize::from(MOST_PRECISE) } else { 1 };
            if letters[..at].matches(letter).count() >= most {
                return Err(ModifierError::Repeated(letter));
            }
        }
        Ok(m.settled())
    }

    fn add(&mut self, letter: char) -> std::result::Result<(), ModifierError> {
        match letter {
            'u' => self.modes.get_or_insert(Modes::NONE).user = true,
            'k' => self.modes.get_or_insert(Modes::NONE).kernel = true,
            'h' => self.modes.get_or_insert(Modes::NONE).hypervisor = true,
            'G' => self.guest_only = true,
            'H' => self.host_only = true,
            'I' => self.exclude_idle = true,
            'p' => self.precise = self.precise.saturating_add(1),
            'P' => self.most_precise = true,
            'D' => self.pinned = true,
            'e' => self.exclusive = true,
            'S' => self.sample_read = true,
            'W' => self.weak = true,
            'b' => self.bpf = true,
            other => return Err(ModifierError::Unknown(other)),
        }
        Ok(())
    }

    /// These modifiers together with others, such as those of the group around an event. Modes and the
    /// number of `p` add up, as in perf.
    ///
    /// # Errors
    ///
    /// More than three `p` together.
    ///
    /// # Source
    ///
    /// Linux `tools/perf/util/parse-events.c`, `get_event_modifier`; its test of `{faults:k,…}:u`.
    pub fn with(mut self, outer: Modifiers) -> std::result::Result<Modifiers, ModifierError> {
        self.modes = match (self.modes, outer.modes) {
            (Some(own), Some(outer)) => Some(own.with(outer)),
            (own, outer) => own.or(outer),
        };
        self.guest_only |= outer.guest_only;
        self.host_only |= outer.host_only;
        self.exclude_idle |= outer.exclude_idle;
        self.precise = self.precise.saturating_add(outer.precise);
        self.most_precise |= outer.most_precise;
        self.pinned |= outer.pinned;
        self.exclusive |= outer.exclusive;
        self.sample_read |= outer.sample_read;
        self.weak |= outer.weak;
        self.bpf |= outer.bpf;
        if self.precise > MOST_PRECISE { Err(ModifierError::Repeated('p')) } else { Ok(self.settled()) }
    }

    /// Removes the two letters where both are given: guests and the host together are the default.
    fn settled(self) -> Modifiers {
        match (self.guest_only, self.host_only) {
            (true, true) => Modifiers { guest_only: false, host_only: false, ..self },
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modifier_letters_are_perfs() {
        let m = Modifiers::parse("ukppD").unwrap();
        assert_eq!(m.modes, Some(Modes::USER_KERNEL));
        assert_eq!((m.precise, m.pinned), (2, true));
        assert_eq!(Modifiers::parse("uz"), Err(ModifierError::Unknown('z')));
        assert_eq!(Modifiers::parse("pppp"), Err(ModifierError::Repeated('p')));
    }

    #[test]
    fn letters_add_up_and_none_is_there_twice() {
        assert_eq!(Modifiers::parse("ku").unwrap().modes, Some(Modes::USER_KERNEL));
        let both = Modifiers::parse("GH").unwrap();
        assert_eq!(both, Modifiers::default(), "guests and the host are all that there is");
        let most = Modifiers::parse("Ppp").unwrap();
        assert!(most.most_precise && most.precise == 2);
        for (letters, twice) in [("uu", 'u'), ("uku", 'u'), ("GHG", 'G'), ("DD", 'D'), ("PP", 'P')] {
            assert_eq!(Modifiers::parse(letters), Err(ModifierError::Repeated(twice)), "{letters}");
        }
    }

    #[test]
    fn modes_print_as_perf_letters_and_cover() {
        assert_eq!(Modes::ALL.to_string(), "ukh");
        assert!(Modes::ALL.covers(Modes::USER));
        assert!(!Modes::USER.covers(Modes::USER_KERNEL));
    }

    #[test]
    fn a_group_adds_its_modes_to_those_of_its_members() {
        let group = Modifiers::parse("kH").unwrap();
        let own = Modifiers::parse("u").unwrap();
        assert_eq!(own.with(group).unwrap().modes, Some(Modes::USER_KERNEL));
        assert_eq!(Modifiers::default().with(group).unwrap().modes, Some(Modes::KERNEL));
        let guest = Modifiers::parse("G").unwrap().with(group).unwrap();
        assert!(!guest.guest_only && !guest.host_only);
    }
}

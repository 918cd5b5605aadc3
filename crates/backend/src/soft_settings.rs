//! How the software PMU runs commands.

use cyclometer_core::CpuBaseline;

/// Which events of the software PMU are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WantedEvents {
    /// Each of them.
    #[default]
    All,
    /// A bit for each number of an event ([`event_number`](crate::event_number)).
    Only(u64),
}

impl WantedEvents {
    /// Those of some names. What is no event of the software PMU is none of them.
    pub fn only<'a>(names: impl IntoIterator<Item = &'a str>) -> WantedEvents {
        let bit = |number: u64| u32::try_from(number).ok().and_then(|number| 1u64.checked_shl(number));
        let numbers = names.into_iter().filter_map(crate::event_number);
        numbers
            .map(bit)
            .try_fold(0, |all, bit| Some(all | bit?))
            .map_or(WantedEvents::All, WantedEvents::Only)
    }

    /// Whether the event with a number is.
    pub fn contains(self, number: u64) -> bool {
        match self {
            WantedEvents::All => true,
            WantedEvents::Only(bits) => u32::try_from(number)
                .is_ok_and(|number| bits.checked_shr(number).is_some_and(|rest| rest & 1 == 1)),
        }
    }
}

/// What may be chosen of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SoftwareSettings {
    /// Leaves the layout of addresses and the kernel's 16 random bytes (`AT_RANDOM`) as they are drawn; else both are
    /// the same in every run, as far as that is permitted, so that counts repeat.
    pub random_layout: bool,
    /// Which processor commands are told that they have; `None`: the one that there is.
    pub cpu_baseline: Option<CpuBaseline>,
    /// The events that are wanted; those that need more than executions to be counted (bytes that masks select) and are not among
    /// them make the command faster, and are not known.
    pub wanted: WantedEvents,
    /// Keeps hints of what is executed, and translations, in folders of the user, and uses those that are there: later runs of the
    /// same code start faster. Counts do not depend on them.
    pub hints: bool,
}

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_named_is_wanted() {
        let number = |name| crate::event_number(name).unwrap_or(u64::MAX);
        let wanted = WantedEvents::only(["instructions", "no such event", "loads"]);
        assert!(wanted.contains(number("instructions")) && wanted.contains(number("loads")));
        assert!(!wanted.contains(number("bytes_loaded")));
        assert!(!wanted.contains(64) && !wanted.contains(u64::MAX));
        assert_eq!(WantedEvents::only([]), WantedEvents::Only(0));
        assert!(WantedEvents::default().contains(number("bytes_loaded")));
    }
}

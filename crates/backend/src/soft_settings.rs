//! How the software PMU runs commands.

use cyclometer_core::CpuBaseline;
use cyclometer_core::code::OwnerKind;

use crate::soft_events::event_number;

/// The requested events of the software PMU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WantedEvents {
    /// Every event.
    #[default]
    All,
    /// A bit for each number of an event ([`event_number`]).
    Only(u64),
}

impl WantedEvents {
    /// The events with these names. Names that are no events of the software PMU are ignored.
    pub fn only<'a>(names: impl IntoIterator<Item = &'a str>) -> WantedEvents {
        let bit = |number: u64| u32::try_from(number).ok().and_then(|number| 1u64.checked_shl(number));
        let numbers = names.into_iter().filter_map(event_number);
        numbers
            .map(bit)
            .try_fold(0, |all, bit| Some(all | bit?))
            .map_or(WantedEvents::All, WantedEvents::Only)
    }

    /// Whether the event with this number is requested.
    pub fn contains(self, number: u64) -> bool {
        match self {
            WantedEvents::All => true,
            WantedEvents::Only(bits) => u32::try_from(number)
                .is_ok_and(|number| bits.checked_shr(number).is_some_and(|rest| rest & 1 == 1)),
        }
    }
}

/// Options of the software PMU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SoftwareSettings {
    /// Leaves the layout of addresses and the kernel's 16 random bytes (`AT_RANDOM`) random. Otherwise both
    /// are the same in every run, as far as permitted, so that counts repeat.
    pub random_layout: bool,
    /// The processor that commands are shown; `None`: the real one.
    pub cpu_baseline: Option<CpuBaseline>,
    /// The requested events. Some events need more than executions to be counted, such as bytes that masks
    /// select. Leaving these out makes the command faster; their counts are then unknown.
    pub wanted: WantedEvents,
    /// Stores execution profiles and translations in folders of the user, and uses stored ones: later runs of
    /// the same code start faster. Counts do not depend on them.
    pub hints: bool,
    /// Counts by instruction, too: [`Counting::take_code`](cyclometer_core::Counting::take_code).
    pub by_code: bool,
    /// The processes or threads whose counts by instruction are kept apart; `None`: all are added up.
    pub owners: Option<OwnerKind>,
    /// Instructions by call path, beside the counts by instruction.
    pub call_paths: bool,
}

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_named_is_wanted() {
        let number = |name| event_number(name).unwrap_or(u64::MAX);
        let wanted = WantedEvents::only(["instructions", "no such event", "loads"]);
        assert!(wanted.contains(number("instructions")) && wanted.contains(number("loads")));
        assert!(!wanted.contains(number("bytes_loaded")));
        assert!(!wanted.contains(64) && !wanted.contains(u64::MAX));
        assert_eq!(WantedEvents::only([]), WantedEvents::Only(0));
        assert!(WantedEvents::default().contains(number("bytes_loaded")));
    }
}

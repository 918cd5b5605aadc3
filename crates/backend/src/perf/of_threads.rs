//! Events that a program opens for its own threads, as attribute words that it need not understand.

use std::io;

use cyclometer_core::event::PerfClass;
use cyclometer_core::{Part, Slot};

use super::program::{mode_flags, user_read_bits};
use super::refusal;
use crate::thread_events::ThreadEvent;

/// The events of a slot that count a thread, one for each core PMU. Empty for an event that is not one of
/// perf, or that counts whole systems.
pub fn thread_events(slot: &Slot) -> Vec<ThreadEvent> {
    let parts = slot.parts.iter().enumerate();
    // On a core of another type the page of an event names no counter.
    let pmus = |part: &Part| part.core().map(|core| core.pmu.to_owned());
    let on_one_pmu = slot.parts.iter().all(|part| pmus(part) == slot.parts.first().and_then(pmus));
    parts
        .filter_map(|(part, event)| match event {
            Part::Perf(event) if event.class != PerfClass::SystemDevice => {
                let alone = on_one_pmu && event.class == PerfClass::Core;
                let config1 = event.words.config1 | if alone { user_read_bits(&event.pmu) } else { 0 };
                Some(ThreadEvent {
                    part,
                    pmu: event.pmu.clone(),
                    pmu_type: event.pmu_type,
                    config: [event.words.config, config1, event.words.config2],
                    flags: mode_flags(slot),
                    user_reads: alone,
                })
            }
            _ => None,
        })
        .collect()
}

/// The meaning of an error number with which a program could not open such an event.
pub fn thread_refusal(errno: i32, pmu: &str) -> String {
    let error = io::Error::from_raw_os_error(errno);
    refusal::meaning(&error, pmu, "the program's own threads").1.to_string()
}

#[cfg(test)]
mod tests {
    use super::super::program::tests::{event, slot};
    use super::*;
    use cyclometer_core::Modes;
    use cyclometer_sys::perf::flags;

    #[test]
    fn a_thread_opens_what_the_command_is_counted_with() {
        let mut slot = slot(0, None, vec![event("cpu", 4, PerfClass::Core)]);
        slot.filter = Some(Modes::USER);
        let found = thread_events(&slot);
        assert_eq!((found.len(), found[0].pmu_type, found[0].config), (1, 4, [1, 2, 3]));
        assert_eq!(found[0].flags, flags::EXCLUDE_KERNEL | flags::EXCLUDE_HV);
        assert!(found[0].user_reads);
    }

    #[test]
    fn cores_that_differ_are_read_through_the_kernel() {
        let parts = vec![event("cpu_core", 4, PerfClass::Core), event("cpu_atom", 8, PerfClass::Core)];
        let found = thread_events(&slot(0, None, parts));
        assert_eq!(found.iter().map(|event| event.part).collect::<Vec<_>>(), [0, 1]);
        assert!(found.iter().all(|event| !event.user_reads));
    }

    #[test]
    fn the_summands_of_a_sum_are_read_as_any_events_of_one_pmu() {
        let parts = vec![event("cpu", 4, PerfClass::Core), event("cpu", 4, PerfClass::Core)];
        let found = thread_events(&slot(0, None, parts));
        assert_eq!(
            found.iter().map(|event| (event.part, event.user_reads)).collect::<Vec<_>>(),
            [(0, true), (1, true)]
        );
    }

    #[test]
    fn what_counts_a_system_counts_no_thread() {
        assert!(thread_events(&slot(0, None, vec![event("power", 9, PerfClass::SystemDevice)])).is_empty());
    }

    #[test]
    fn refusals_are_told_in_words() {
        assert_eq!(thread_refusal(13, "cpu"), "not permitted on the program's own threads (EACCES)");
    }
}

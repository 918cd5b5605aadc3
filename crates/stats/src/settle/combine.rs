//! The count of an event from its instances.

use cyclometer_core::{Count, Interval, MissingReason, NoInterval, PartReason};

use super::instance::{Instance, InstanceState, clamp, not_counted};
use crate::times::total;

/// Number of lost instances that a reason names before it counts the rest.
const NAMED_INSTANCES: usize = 3;

/// The time that the cells cover.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Span {
    /// A whole run.
    Whole,
    /// A part of a run: the process may have slept through it.
    Interval,
}

pub(super) fn combine(instances: &[Instance], span: Span) -> Count {
    if instances.is_empty() {
        return not_counted(MissingReason::NoValue);
    }
    if instances.iter().all(|instance| matches!(instance.state, InstanceState::Idle)) {
        // A sleeping process executes nothing, and zero is exact. A command that never ran was not counted.
        let command = instances.iter().all(|instance| instance.cpu.is_none() && instance.tid.is_none());
        return match span {
            Span::Whole if command => not_counted(MissingReason::NeverRan),
            _ => Count::Exact(0),
        };
    }
    let observed: Vec<&Instance> = instances
        .iter()
        .filter(|i| matches!(i.state, InstanceState::Whole | InstanceState::Shared))
        .collect();
    let missing: Vec<&Instance> = instances.iter().filter(|i| i.missing().is_some()).collect();
    if observed.is_empty() {
        return nothing_observed(&missing);
    }
    let estimate = clamp(observed.iter().map(|i| i.estimate).sum());
    if !missing.is_empty() {
        return Count::Partial { raw: estimate, part: without(&missing) };
    }
    if observed.iter().any(|i| matches!(i.state, InstanceState::Shared)) {
        return Count::Scaled {
            raw: clamp(observed.iter().map(|i| i.raw).sum()),
            estimate,
            time_enabled_ns: total(observed.iter().map(|i| i.enabled_ns)),
            time_running_ns: total(observed.iter().map(|i| i.running_ns)),
            interval: Interval::Unknown { reason: NoInterval::SharedByKernel },
        };
    }
    Count::Exact(estimate)
}

fn nothing_observed(missing: &[&Instance]) -> Count {
    let lost = missing.iter().find_map(|instance| match &instance.state {
        InstanceState::Lost(reason) => Some(reason.clone()),
        _ => None,
    });
    let summand = missing.iter().find_map(|instance| match &instance.state {
        InstanceState::Unobserved(summand) => summand.clone(),
        _ => None,
    });
    match lost {
        Some(reason) => Count::Lost { reason },
        None => not_counted(MissingReason::NeverOnCounter { summand }),
    }
}

/// The part of a count that lacks these instances, each of which is missing.
pub(super) fn without(missing: &[&Instance]) -> PartReason {
    let named = missing.iter().take(NAMED_INSTANCES).filter_map(|instance| instance.missing());
    let more = missing.len().saturating_sub(NAMED_INSTANCES);
    PartReason::Without { instances: named.collect(), more }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settle::testing::{ALL, SLOT, lost, offline, on_cpu, settled, summand};
    use crate::settle::{SlotReading, settle};
    use crate::testing::{cell, hardware, sum};
    use cyclometer_core::exec::{Cell, Reading};
    use cyclometer_core::{Scope, SlotId, Verdict};
    use proptest::prelude::*;

    #[test]
    fn a_counter_that_ran_all_the_time_is_exact() {
        assert_eq!(settled(1, vec![cell(SLOT, 42, 9_000_000, 9_000_000)]), Count::Exact(42));
        assert_eq!(settled(1, vec![cell(SLOT, 0, 9, 9)]), Count::Exact(0));
    }

    #[test]
    fn what_slept_counted_nothing_exactly() {
        let mut thread = cell(SLOT, 0, 0, 0);
        thread.at.tid = Some(7);
        assert_eq!(settled(1, vec![thread]), Count::Exact(0));
        assert_eq!(settled(1, vec![cell(SLOT, 0, 0, 0)]).verdict(), Verdict::NotCounted);
        let reading = Reading { cells: vec![cell(SLOT, 0, 0, 0)] };
        let line = hardware("e", 1);
        let of = SlotReading { line: &line, reading: &reading, slot: SLOT, asked: Scope::Tree };
        let interval = of.count(Span::Interval);
        assert_eq!(interval, Count::Exact(0));
    }

    #[test]
    fn a_shared_counter_is_scaled() {
        let count = settled(1, vec![cell(SLOT, 100, 10_000_000, 2_500_000)]);
        let expected = Count::Scaled {
            raw: 100,
            estimate: 400,
            time_enabled_ns: 10_000_000,
            time_running_ns: 2_500_000,
            interval: Interval::Unknown { reason: NoInterval::SharedByKernel },
        };
        assert_eq!(count, expected);
    }

    #[test]
    fn cpus_are_judged_one_by_one() {
        let cells = vec![on_cpu(0, 10, 10_000_000, 10_000_000), on_cpu(1, 10, 10_000_000, 5_000_000)];
        let Count::Scaled { raw, estimate, time_running_ns, .. } = settled(1, cells) else { panic!() };
        assert_eq!((raw, estimate, time_running_ns), (20, 30, 15_000_000));
    }

    #[test]
    fn a_counter_that_never_ran_is_not_zero() {
        for (cells, reason) in [
            (vec![cell(SLOT, 0, 10_000_000, 0)], "never reached a counter"),
            (vec![cell(SLOT, 0, 0, 0)], "never ran while counting"),
            (vec![], "gave no value"),
            (vec![cell(SlotId(1), 5, 10, 10)], "gave no value"),
        ] {
            let count = settled(1, cells);
            assert!(matches!(count, Count::NotCounted { .. }), "{count:?}");
            assert!(count.reason().unwrap().contains(reason), "{count:?}");
        }
    }

    #[test]
    fn all_instances_lost_is_lost_and_some_is_partial() {
        let one = || on_cpu(0, 10, 10_000_000, 10_000_000);
        assert_eq!(settled(1, vec![lost(one())]), Count::Lost { reason: offline() });
        let both = settled(1, vec![one(), lost(on_cpu(3, 99, 10_000_000, 10_000_000))]);
        assert_eq!((both.verdict(), both.value()), (Verdict::Partial, Some(10)));
        assert_eq!(both.reason().unwrap(), "without cpu 3 (cpu went offline)");
    }

    #[test]
    fn many_missing_instances_are_counted_instead_of_named() {
        let mut cells: Vec<Cell> = (1..=5).map(|cpu| on_cpu(cpu, 0, 10_000_000, 0)).collect();
        cells.push(on_cpu(0, 7, 10_000_000, 10_000_000));
        let reason = settled(1, cells).reason().unwrap();
        assert!(reason.ends_with("cpu 3 (never reached a counter) and 2 more"), "{reason}");
    }

    #[test]
    fn an_idle_instance_beside_a_counted_one_adds_nothing() {
        let cells = vec![on_cpu(0, 7, 10_000_000, 10_000_000), on_cpu(1, 0, 0, 0)];
        assert_eq!(settled(1, cells), Count::Exact(7));
    }

    #[test]
    fn the_threads_of_a_sum_add_up_and_one_without_a_summand_is_left_out_by_name() {
        let line = sum("loads", 2, 0);
        let of_thread = |tid, part, raw, running| {
            let mut cell = summand(part, "cpu_core", raw, running);
            cell.at.tid = Some(tid);
            cell
        };
        let mut cells = vec![of_thread(1, 0, 10, ALL), of_thread(1, 1, 5, ALL)];
        cells.extend([of_thread(2, 0, 100, ALL), of_thread(2, 1, 0, 0)]);
        let count = settle(&line, &Reading { cells }, SLOT, Scope::Tree);
        assert_eq!((count.verdict(), count.value()), (Verdict::Partial, Some(15)));
        assert_eq!(count.reason().unwrap(), "without thread 2 (B never reached a counter)");
    }

    proptest! {
        #[test]
        fn exact_counts_are_the_sum_of_their_cells(raws in proptest::collection::vec(0..1u64 << 40, 1..20)) {
            let cells = raws.iter().zip(0..).map(|(raw, cpu)| on_cpu(cpu, *raw, 500, 500)).collect();
            prop_assert_eq!(settled(1, cells), Count::Exact(raws.iter().sum()));
        }

        #[test]
        fn an_estimate_is_raw_times_enabled_by_running(
            raw in 0..1u64 << 50, running in 1_000_000u64..1 << 40, times in 2u64..1000,
        ) {
            let count = settled(1, vec![cell(SLOT, raw, running * times, running)]);
            prop_assert_eq!(count.verdict(), cyclometer_core::Verdict::Scaled);
            prop_assert_eq!(count.value(), Some(raw.saturating_mul(times)));
        }

        #[test]
        fn what_never_ran_has_no_value(raw: u64, enabled in 1u64.., cpus in 1u32..5) {
            let cells = (0..cpus).map(|cpu| on_cpu(cpu, raw, enabled, 0)).collect();
            prop_assert_eq!(settled(1, cells).value(), None);
        }
    }
}

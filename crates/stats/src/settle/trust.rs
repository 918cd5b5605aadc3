//! Limits on what a count may claim.

use std::collections::BTreeMap;

use cyclometer_core::exec::{Cell, Reading};
use cyclometer_core::plan::PlanLine;
use cyclometer_core::pmu::PmuSet;
use cyclometer_core::{Candidate, Count, MissingReason, PartReason, Scope};

use super::SlotReading;
use super::combine::without;
use super::instance::{Instance, InstanceState, clamp};

/// The limits of an event's source on its counts.
pub(super) struct SourceLimits<'a> {
    pub(super) of: SlotReading<'a>,
    pub(super) candidate: &'a Candidate,
}

impl SourceLimits<'_> {
    /// A count of these cells and instances, within the limits.
    pub(super) fn apply(&self, count: Count, cells: &[&Cell], instances: &[Instance]) -> Count {
        let count = blur(count, self.candidate, cells);
        let count = match &self.candidate.only {
            Some(only) => Narrow { only, line: self.of.line, instances }.narrow(count, self.of.reading),
            None => count,
        };
        widen(count, self.candidate.widest, self.of.asked)
    }
}

/// An event that only some of several core types count.
struct Narrow<'a> {
    only: &'a PmuSet,
    line: &'a PlanLine,
    instances: &'a [Instance],
}

impl Narrow<'_> {
    /// A task that ran only on these core types is counted exactly. Otherwise time without a counter is time
    /// on the other core type, or time in which another user held the counter. The two cannot be
    /// distinguished. So counts are not extrapolated to cores that lack the event.
    fn narrow(&self, count: Count, reading: &Reading) -> Count {
        let only = self.only;
        let of_cpus = self.instances.iter().any(|instance| instance.cpu.is_some());
        let is_named = self.line.event.named_pmu.as_deref().is_some_and(|pmu| only.is_only(pmu));
        if of_cpus && is_named {
            return count;
        }
        let off = self.instances.iter().any(Instance::was_off_counters);
        match count {
            Count::Exact(raw) if of_cpus => Count::Partial { raw, part: PartReason::OnOnly(only.clone()) },
            Count::Scaled { raw, .. } if off => {
                let observed = count.observed_time();
                Count::Partial { raw, part: PartReason::NotScaled { only: only.clone(), observed } }
            }
            Count::Partial { .. } if off => self.unscaled(),
            Count::NotCounted { .. } if off && !of_cpus && !self.was_there(reading) => {
                Count::NotCounted { reason: MissingReason::NeverOn(only.clone()) }
            }
            Count::NotCounted { reason } => {
                let (reason, only) = (Box::new(reason), only.clone());
                Count::NotCounted { reason: MissingReason::CountedOnlyOn { reason, only } }
            }
            other => other,
        }
    }

    /// The unscaled count of the instances that were not lost.
    fn unscaled(&self) -> Count {
        let (lost, kept): (Vec<&Instance>, Vec<&Instance>) =
            self.instances.iter().partition(|instance| matches!(instance.state, InstanceState::Lost(_)));
        let raw = clamp(kept.iter().map(|instance| instance.raw).sum());
        let part = PartReason::NotScaled { only: self.only.clone(), observed: None };
        match lost.is_empty() {
            true => Count::Partial { raw, part },
            false => Count::Partial { raw, part: PartReason::All(vec![part, without(&lost)]) },
        }
    }

    /// Whether any event was on a counter of these core types.
    fn was_there(&self, reading: &Reading) -> bool {
        let mut ran = reading.cells.iter().filter(|cell| cell.time_running_ns > 0);
        ran.any(|cell| cell.at.pmu.as_ref().is_some_and(|pmu| self.only.contains(pmu)))
    }
}

/// The reason why a zero of an event that cannot be zero is no count; `None` where zero is possible.
///
/// An idle CPU may well execute nothing. A task that was on a counter executed something, and a package uses
/// energy in any 10 ms (its counter is updated every ms).
pub(super) fn incredible_zero(instances: &[Instance], of_package: bool) -> Option<MissingReason> {
    let of_tasks = instances.iter().all(|instance| instance.cpu.is_none());
    // A task that did not run meanwhile was not enabled.
    let ran = instances.iter().any(|instance| instance.enabled_ns > 0);
    let long = instances.iter().any(|instance| instance.enabled_ns >= 10_000_000);
    match of_package {
        true => long.then_some(MissingReason::ZeroOfPackage),
        false => (of_tasks && ran).then_some(MissingReason::ZeroOfProcess),
    }
}

/// Makes a count partial if its source reports that it leaves out, adds or blurs events, or may leave events
/// out without a report.
fn blur(count: Count, candidate: &Candidate, cells: &[&Cell]) -> Count {
    // Equal remarks of several cells stand once, in an order that does not depend on that of the cells.
    let remarks: BTreeMap<String, &PartReason> =
        cells.iter().filter_map(|cell| cell.partial.as_ref()).map(|part| (part.to_string(), part)).collect();
    let blurs = remarks.into_values().chain(candidate.uncertain.as_ref()).cloned();
    let blurs: Vec<PartReason> = blurs.collect();
    match (count.value(), blurs.is_empty()) {
        (Some(raw), false) => match PartReason::all(blurs.into_iter().chain(count.part())) {
            Some(part) => Count::Partial { raw, part },
            None => count,
        },
        _ => count,
    }
}

fn widen(count: Count, widest: Option<Scope>, asked: Scope) -> Count {
    match (widest, count.value()) {
        (Some(widest), Some(raw)) if widest > asked => {
            let part = count.part().map(Box::new);
            Count::Partial { raw, part: PartReason::Whole { scope: widest, part } }
        }
        _ => count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settle::settle;
    use crate::settle::testing::{ALL, SLOT, lost, on_cpu, on_part, settled, summand};
    use crate::testing::{cell, hardware, sum};
    use cyclometer_core::exec::At;
    use cyclometer_core::{SlotId, Verdict};

    fn check_part(count: &Count, raw: u64, reason: &str) {
        assert_eq!((count.verdict(), count.value()), (Verdict::Partial, Some(raw)), "{count:?}");
        assert_eq!(count.reason().unwrap(), reason);
    }

    #[test]
    fn a_zero_of_what_cannot_be_zero_is_no_count() {
        let mut line = hardware("instructions", 1);
        line.event.candidates[0].never_zero = true;
        let settled = |cell: Cell| settle(&line, &Reading { cells: vec![cell] }, SLOT, Scope::Tree);
        assert_eq!(settled(cell(SLOT, 0, 9_000_000, 9_000_000)).verdict(), Verdict::NotCounted);
        assert_eq!(settled(cell(SLOT, 7, 9_000_000, 9_000_000)), Count::Exact(7));
        assert_eq!(settled(on_cpu(0, 0, 9_000_000, 9_000_000)), Count::Exact(0));
    }

    #[test]
    fn a_process_that_slept_through_an_interval_counted_zero() {
        let mut line = hardware("instructions", 1);
        line.event.candidates[0].never_zero = true;
        let count = |cell: Cell| {
            let reading = Reading { cells: vec![cell] };
            let of = SlotReading { line: &line, reading: &reading, slot: SLOT, asked: Scope::Tree };
            of.count(crate::settle::Span::Interval)
        };
        assert_eq!(count(cell(SLOT, 0, 0, 0)), Count::Exact(0));
        assert_eq!(count(cell(SLOT, 0, 9_000_000, 9_000_000)).verdict(), Verdict::NotCounted);
    }

    #[test]
    fn energy_of_zero_is_no_count_but_over_a_moment() {
        let mut line = hardware("energy", 1);
        line.event.candidates[0].never_zero = true;
        line.event.candidates[0].widest = Some(Scope::Package);
        let settled = |cell: Cell| settle(&line, &Reading { cells: vec![cell] }, SLOT, Scope::Tree).verdict();
        assert_eq!(settled(on_cpu(0, 0, 50_000_000, 50_000_000)), Verdict::NotCounted);
        assert_eq!(settled(on_cpu(0, 0, 500_000, 500_000)), Verdict::Partial);
        assert_eq!(settled(on_cpu(0, 9, 50_000_000, 50_000_000)), Verdict::Partial);
    }

    #[test]
    fn a_count_that_may_be_too_small_is_partial_and_keeps_the_other_reasons() {
        let mut line = sum("s", 2, 0);
        line.event.candidates[0].uncertain = Some("too few counters".into());
        let settled = |line: &PlanLine, cells| settle(line, &Reading { cells }, SLOT, Scope::Tree);
        let cells = |running| vec![summand(0, "cpu_core", 40, ALL), summand(1, "cpu_core", 2, running)];
        let partial = |raw, part: &str| Count::Partial { raw, part: part.into() };
        assert_eq!(settled(&line, cells(ALL)), partial(42, "too few counters"), "also of the whole time");
        let scaled = settled(&line, cells(ALL / 2));
        let reason = scaled.reason().unwrap();
        assert_eq!((scaled.verdict(), scaled.value()), (Verdict::Partial, Some(44)));
        assert!(reason.starts_with("too few counters; observed "), "{reason}");
        assert_eq!(settled(&line, cells(0)).value(), None, "a sum without a summand stays no count");
        line.event.candidates[0].uncertain = None;
        assert_eq!(settled(&line, cells(ALL)), Count::Exact(42));
    }

    #[test]
    fn what_a_source_blurs_is_partial() {
        let mut blurred = cell(SLOT, 42, 9_000_000, 9_000_000);
        blurred.partial = Some("in steps of 10 ms".into());
        assert_eq!(
            settled(1, vec![blurred.clone()]),
            Count::Partial { raw: 42, part: "in steps of 10 ms".into() }
        );
        blurred.time_running_ns = 4_500_000;
        let Count::Partial { raw, part } = settled(1, vec![blurred]) else { panic!() };
        assert_eq!((raw, part.to_string().as_str()), (84, "in steps of 10 ms; observed 50 % of the time"));
    }

    #[test]
    fn what_one_core_type_alone_can_count_is_never_extrapolated_to_the_others() {
        let settled = |cells| {
            let mut line = hardware("TOPDOWN.SLOTS", 1);
            line.event.candidates[0].only = PmuSet::new(["cpu_core"]);
            settle(&line, &Reading { cells }, SLOT, Scope::Tree)
        };
        assert_eq!(settled(vec![cell(SLOT, 42, 9_000_000, 9_000_000)]), Count::Exact(42));
        check_part(
            &settled(vec![cell(SLOT, 42, 9_000_000, 3_000_000)]),
            42,
            "on cpu_core only, not scaled, observed 33 % of the time",
        );
        check_part(&settled(vec![on_cpu(0, 42, 9_000_000, 9_000_000)]), 42, "on cpu_core only");
    }

    #[test]
    fn what_names_a_core_type_is_not_scaled_where_the_task_may_have_run_on_the_other() {
        let mut line = hardware("cpu_core/loads/", 1);
        line.event.named_pmu = Some("cpu_core".to_owned());
        line.event.candidates[0].only = PmuSet::new(["cpu_core"]);
        let settled = |cells| settle(&line, &Reading { cells }, SLOT, Scope::Tree);
        let of_thread = |tid, cell: Cell| Cell { at: At { tid: Some(tid), ..cell.at.clone() }, ..cell };
        let half = || cell(SLOT, 42, 9_000_000, 4_500_000);
        check_part(&settled(vec![half()]), 42, "on cpu_core only, not scaled, observed 50 % of the time");
        assert_eq!(settled(vec![cell(SLOT, 42, 9_000_000, 9_000_000)]), Count::Exact(42));
        let threads = vec![of_thread(1, half()), of_thread(2, cell(SLOT, 0, 9_000_000, 0))];
        check_part(&settled(threads), 42, "on cpu_core only, not scaled");
        let threads = vec![of_thread(1, half()), of_thread(2, lost(half()))];
        check_part(
            &settled(threads),
            42,
            "on cpu_core only, not scaled; without thread 2 (cpu went offline)",
        );
        assert_eq!(
            settled(vec![on_cpu(0, 42, 9_000_000, 9_000_000)]),
            Count::Exact(42),
            "all of those cores"
        );
        assert_eq!(settled(vec![on_cpu(0, 42, 9_000_000, 4_500_000)]).value(), Some(84));
    }

    #[test]
    fn what_never_ran_on_its_core_type_does_not_blame_others() {
        let mut line = hardware("cpu_core/loads/", 1);
        line.event.named_pmu = Some("cpu_core".to_owned());
        line.event.candidates[0].only = PmuSet::new(["cpu_core"]);
        let reason = |more: Vec<Cell>| {
            let cells = [vec![cell(SLOT, 0, 9_000_000, 0)], more].concat();
            settle(&line, &Reading { cells }, SLOT, Scope::Tree).reason().unwrap()
        };
        let on = |part| Cell { slot: SlotId(1), ..on_part(part, 9, 9_000_000, 9_000_000) };
        let nobody_knows =
            "never on a counter: it did not run on cpu_core, or all counters there were in use by others";
        assert_eq!(reason(vec![]), nobody_knows);
        assert_eq!(reason(vec![on(1)]), nobody_knows);
        assert_eq!(
            reason(vec![on(0)]),
            "never reached a counter: all were in use by others; only cpu_core can count it"
        );
    }

    #[test]
    fn a_scope_wider_than_asked_is_partial_and_never_exact() {
        let mut line = hardware("energy", 1);
        line.event.candidates[0].widest = Some(Scope::Package);
        let reading = Reading { cells: vec![cell(SLOT, 8, 100, 100)] };
        let narrow = settle(&line, &reading, SLOT, Scope::Tree);
        check_part(&narrow, 8, "whole package");
        assert_eq!(settle(&line, &reading, SLOT, Scope::System), Count::Exact(8));
    }
}

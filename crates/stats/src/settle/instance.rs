//! The cells of an event by CPU and thread.

use cyclometer_core::event::PerfClass;
use cyclometer_core::exec::{Cell, CellKey, PlaceCells};
use cyclometer_core::plan::PlanLine;
use cyclometer_core::reason::{InstanceReason, MissingInstance};
use cyclometer_core::{Candidate, Count, MissingReason, Part, Rung};

use crate::times::{Slack, total};

/// Shortfall of running against enabled time that is not multiplexing: the kernel's time between the two
/// clock readings.
const SLACK: Slack = Slack { least_ns: 1_000, divisor: 10_000 };

/// The meaning of the times of an event's cells.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Times {
    /// No meaning.
    Untold,
    /// Whether the target ran. The event needs no counter, so its count is complete.
    Presence,
    /// The share of the time that the event was on a counter.
    OnCounter,
}

impl Times {
    /// A software event of the kernel counts in its own handler. In a `{group}` it may wait for the counters
    /// of the others.
    ///
    /// # Source
    ///
    /// Linux `kernel/events/core.c`, `group_can_go_on`: a group of software events alone always can;
    /// `perf_cgroup_switch` and `update_cgrp_time_from_cpuctx`: the times of a control group begin and end at
    /// each switch, between which its events count.
    fn of(line: &PlanLine, candidate: &Candidate) -> Times {
        let is_software = |part: &Part| match part {
            Part::Perf(event) => event.class == PerfClass::Software,
            _ => false,
        };
        match candidate.rung {
            Rung::Os | Rung::SelfCounts | Rung::Gpu => Times::Untold,
            _ if line.event.group.is_none() && candidate.parts.iter().all(is_software) => Times::Presence,
            _ => Times::OnCounter,
        }
    }
}

/// The cells of one CPU and thread: one for each part.
pub(super) struct Instance {
    pub(super) cpu: Option<u32>,
    pub(super) tid: Option<u32>,
    pub(super) raw: u128,
    /// The raw value, extrapolated to the whole time if the event shared its counter.
    pub(super) estimate: u128,
    pub(super) enabled_ns: u64,
    pub(super) running_ns: u64,
    pub(super) state: InstanceState,
}

/// Whether the value of an instance can be used.
#[derive(PartialEq, Eq)]
pub(super) enum InstanceState {
    /// Never enabled: the target did not run.
    Idle,
    /// On a counter for the whole time.
    Whole,
    /// On a counter for a part of the time.
    Shared,
    /// Enabled, and never on a counter; for a sum, with the name of the summand.
    Unobserved(Option<String>),
    /// The source reports that the value must not be used.
    Lost(MissingReason),
}

impl InstanceState {
    /// The rank of the state, from best to worst: that of a sum is the worst of its summands'.
    fn rank(&self) -> u8 {
        match self {
            InstanceState::Idle => 0,
            InstanceState::Whole => 1,
            InstanceState::Shared => 2,
            InstanceState::Unobserved(_) => 3,
            InstanceState::Lost(_) => 4,
        }
    }

    /// The worse of two states; of equal ones the first, which names its summand.
    fn worse(self, other: InstanceState) -> InstanceState {
        if other.rank() > self.rank() { other } else { self }
    }
}

impl Instance {
    /// Adds another summand of the same CPU and thread: the state is the worse of both, and the running time
    /// the smaller.
    fn with(self, other: Instance) -> Instance {
        Instance {
            raw: self.raw.saturating_add(other.raw),
            estimate: self.estimate.saturating_add(other.estimate),
            enabled_ns: self.enabled_ns.max(other.enabled_ns),
            running_ns: self.running_ns.min(other.running_ns),
            state: self.state.worse(other.state),
            ..self
        }
    }

    /// The instance with the reason why it has no value; `None` where it has one.
    pub(super) fn missing(&self) -> Option<MissingInstance> {
        let reason = match &self.state {
            InstanceState::Lost(reason) => InstanceReason::Lost(reason.clone()),
            InstanceState::Unobserved(summand) => InstanceReason::NeverOnCounter(summand.clone()),
            _ => return None,
        };
        Some(MissingInstance { cpu: self.cpu, tid: self.tid, reason })
    }

    /// Whether it was enabled for longer than it was on a counter.
    pub(super) fn was_off_counters(&self) -> bool {
        matches!(self.state, InstanceState::Shared | InstanceState::Unobserved(_))
    }
}

/// An event whose cells are judged.
#[derive(Clone, Copy)]
pub(super) struct Judged<'a> {
    candidate: &'a Candidate,
    times: Times,
}

impl<'a> Judged<'a> {
    pub(super) fn of(line: &PlanLine, candidate: &'a Candidate) -> Judged<'a> {
        Judged { candidate, times: Times::of(line, candidate) }
    }

    /// The instances of the whole event.
    pub(super) fn instances(self, cells: &[&Cell]) -> Vec<Instance> {
        let places = PlaceCells::group(cells.iter().copied()).into_iter();
        places.map(|(place, cells)| OnePlace { place, cells, event: self }.sum()).collect()
    }

    /// The instances of one part.
    pub(super) fn instances_of_part(self, cells: &[&Cell], part: usize, pmu: Option<&str>) -> Vec<Instance> {
        let places = PlaceCells::group(cells.iter().copied()).into_iter();
        places.filter_map(|(place, cells)| OnePlace { place, cells, event: self }.part(part, pmu)).collect()
    }
}

/// The cells of an event on one CPU and thread.
struct OnePlace<'a> {
    place: CellKey,
    cells: PlaceCells<'a>,
    event: Judged<'a>,
}

impl<'a> OnePlace<'a> {
    /// The sum of the summands; an event that is no sum has one.
    fn sum(&self) -> Instance {
        let summands = self.summands();
        let (first, others) = summands.split_first().map_or((&[][..], &[][..]), |(a, b)| (a.as_slice(), b));
        let whole = others.iter().fold(self.summand(first), |sum, other| sum.with(self.summand(other)));
        match self.absent() {
            Some(name) => Instance {
                state: InstanceState::Lost(MissingReason::NoValueOf { summand: name.to_owned() }),
                ..whole
            },
            None => whole,
        }
    }

    /// One part alone; `None` where its PMU does not count on this CPU. The time on another core type is time
    /// on a counter, as in the sum: so the parts add up to it.
    fn part(&self, part: usize, pmu: Option<&str>) -> Option<Instance> {
        let is_own = |cell: &Cell| cell.at.part == part && cell.at.pmu.as_deref() == pmu;
        let mut cells =
            self.summands().into_iter().find(|cells| cells.iter().any(|(cell, _)| is_own(cell)))?;
        cells.iter_mut().filter(|(cell, _)| !is_own(cell)).for_each(|(_, raw)| *raw = 0);
        cells.sort_by_key(|(cell, _)| !is_own(cell));
        Some(self.summand(&cells))
    }

    /// The cells of each summand, with the values to add.
    ///
    /// The core PMUs of a hybrid count at different times, and their times add up. A PMU with fewer summands
    /// adds nothing more, and its time is still time on a counter. The units of a device count at the same
    /// time, so each is a summand of its own.
    fn summands(&self) -> Vec<Vec<(&'a Cell, u64)>> {
        if !self.event.candidate.parts.iter().all(|part| part.core().is_some()) {
            return self.cells.pmus().flatten().map(|cell| vec![(*cell, cell.raw)]).collect();
        }
        let of_pmu = |number: usize, cells: &[&'a Cell]| match cells.get(number) {
            Some(cell) => Some((*cell, cell.raw)),
            None => cells.last().map(|cell| (*cell, 0)),
        };
        let numbers = 0..self.cells.pmus().map(<[_]>::len).max().unwrap_or(0);
        numbers.map(|number| self.cells.pmus().filter_map(|cells| of_pmu(number, cells)).collect()).collect()
    }

    /// A summand for which a PMU has no cell, although it has cells of others.
    fn absent(&self) -> Option<&str> {
        let candidate = self.event.candidate;
        candidate.summands.get(self.cells.absent(&candidate.parts)?).map(String::as_str)
    }

    fn summand(&self, parts: &[(&Cell, u64)]) -> Instance {
        let Judged { candidate, times } = self.event;
        let raw = parts.iter().map(|(_, raw)| u128::from(*raw)).sum();
        let enabled_ns = parts.iter().map(|(cell, _)| cell.time_enabled_ns).max().unwrap_or(0);
        let running_ns = total(parts.iter().map(|(cell, _)| cell.time_running_ns));
        let name = |cell: &Cell| candidate.summands.get(cell.at.part).cloned();
        let lost = parts.iter().find_map(|(cell, _)| {
            let reason = cell.lost.clone()?;
            Some(match name(cell) {
                Some(summand) => MissingReason::OfSummand { summand, reason: Box::new(reason) },
                None => reason,
            })
        });
        let state = match lost {
            Some(reason) => InstanceState::Lost(reason),
            None if times == Times::Untold => InstanceState::Whole,
            None if enabled_ns == 0 && raw == 0 => InstanceState::Idle,
            None if times == Times::Presence => InstanceState::Whole,
            None if enabled_ns == 0 => InstanceState::Lost(MissingReason::NoTime),
            None if running_ns == 0 => {
                InstanceState::Unobserved(parts.first().and_then(|(cell, _)| name(cell)))
            }
            None if SLACK.is_whole(running_ns, enabled_ns) => InstanceState::Whole,
            None => InstanceState::Shared,
        };
        let estimate = match state {
            InstanceState::Shared => u128::from(scaled(raw, enabled_ns, running_ns)),
            _ => raw,
        };
        Instance { cpu: self.place.cpu, tid: self.place.tid, raw, estimate, enabled_ns, running_ns, state }
    }
}

pub(super) fn scaled(raw: u128, enabled_ns: u64, running_ns: u64) -> u64 {
    clamp(raw.saturating_mul(enabled_ns.into()) / u128::from(running_ns.max(1)))
}

pub(super) fn not_counted(reason: MissingReason) -> Count {
    Count::NotCounted { reason }
}

pub(super) fn clamp(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use crate::settle::settle;
    use crate::settle::testing::{ALL, SLOT, lost, on_cpu, on_part, settled, summand};
    use crate::testing::{cell, device, os_line, software, sum};
    use cyclometer_core::event::OsMetric;
    use cyclometer_core::exec::{Cell, Reading};
    use cyclometer_core::{Count, MissingReason, Scope, Verdict};

    fn software_settled(cells: Vec<Cell>) -> Count {
        settle(&software("context-switches"), &Reading { cells }, SLOT, Scope::Cgroup)
    }

    #[test]
    fn a_software_event_of_a_control_group_is_exact_on_every_cpu() {
        let never_ran = on_cpu(1, 0, 0, 0);
        assert_eq!(software_settled(vec![never_ran.clone(), on_cpu(2, 0, 0, 0)]), Count::Exact(0));
        let short = [on_cpu(0, 3, 20_000, 15_000), on_cpu(0, 3, 20_000_000, 19_990_000)];
        for cell in short {
            assert_eq!(software_settled(vec![cell, never_ran.clone()]), Count::Exact(3), "not scaled");
        }
        assert_eq!(software_settled(vec![on_cpu(0, 1, 0, 0), on_cpu(1, 4, 9_000, 9_000)]), Count::Exact(5));
        assert_eq!(software_settled(vec![on_cpu(0, 0, 9_000, 0), never_ran]), Count::Exact(0));
    }

    #[test]
    fn a_software_event_that_cannot_be_read_is_lost_all_the_same() {
        let gone = lost(on_cpu(1, 0, 0, 0));
        assert_eq!(software_settled(vec![gone.clone()]).verdict(), Verdict::Lost);
        assert_eq!(software_settled(vec![on_cpu(0, 7, 5, 5), gone]).verdict(), Verdict::Partial);
    }

    #[test]
    fn a_software_event_in_a_group_waits_for_the_counters_of_the_others() {
        let mut line = software("page-faults");
        line.event.group = Some(0);
        let reading = Reading { cells: vec![cell(SLOT, 3, 20_000_000, 10_000_000)] };
        assert_eq!(settle(&line, &reading, SLOT, Scope::Tree).verdict(), Verdict::Scaled);
        let hardware = settled(1, vec![on_cpu(0, 1, 0, 0)]);
        assert_eq!(hardware.verdict(), Verdict::Lost, "what needs a counter has a time on it");
    }

    #[test]
    fn a_hybrid_is_exact_when_its_running_times_add_up() {
        let cells = vec![on_part(0, 70, 10_000_000, 6_000_000), on_part(1, 30, 10_000_000, 4_000_000)];
        assert_eq!(settled(2, cells), Count::Exact(100));
        let cells = vec![on_part(0, 70, 10_000_000, 3_000_000), on_part(1, 30, 10_000_000, 2_000_000)];
        assert_eq!(settled(2, cells).value(), Some(200));
    }

    #[test]
    fn the_accounting_of_the_system_needs_no_times() {
        let line = os_line("major_faults", OsMetric::MajorFaults);
        let reading = Reading { cells: vec![cell(SLOT, 0, 0, 0)] };
        assert_eq!(settle(&line, &reading, SLOT, Scope::Tree), Count::Exact(0));
    }

    #[test]
    fn a_sum_is_exact_where_its_summands_are_and_scaled_where_one_is() {
        let line = sum("loads", 2, 0);
        let of = |cells: Vec<Cell>| settle(&line, &Reading { cells }, SLOT, Scope::Tree);
        let core = |part, raw, running| summand(part, "cpu_core", raw, running);
        assert_eq!(of(vec![core(0, 70, ALL), core(1, 30, ALL)]), Count::Exact(100));
        let scaled = of(vec![core(0, 70, ALL), core(1, 30, ALL / 2)]);
        let Count::Scaled { raw, estimate, time_enabled_ns, time_running_ns, .. } = scaled else {
            panic!("{scaled:?}")
        };
        assert_eq!((raw, estimate), (100, 130), "only the summand that shared its counter is scaled");
        assert_eq!((time_enabled_ns, time_running_ns), (ALL, ALL / 2));
    }

    #[test]
    fn units_of_a_device_count_at_the_same_time() {
        let line = device("cas_count", 2);
        let unit = |part, raw, running| summand(part, ["imc_0", "imc_1"][part], raw, running);
        let of = |cells: Vec<Cell>| settle(&line, &Reading { cells }, SLOT, Scope::System);
        assert_eq!(of(vec![unit(0, 70, ALL), unit(1, 30, ALL)]), Count::Exact(100));
        let half = of(vec![unit(0, 70, ALL / 2), unit(1, 30, ALL / 2)]);
        assert_eq!((half.verdict(), half.value()), (Verdict::Scaled, Some(200)), "not as of a hybrid");
        let one = of(vec![unit(0, 70, ALL), unit(1, 0, 0)]);
        assert_eq!(one.verdict(), Verdict::NotCounted, "the other unit is missing");
    }

    #[test]
    fn without_a_summand_there_is_no_sum_and_the_reason_names_it() {
        let line = sum("loads", 3, 0);
        let of = |cells: Vec<Cell>| settle(&line, &Reading { cells }, SLOT, Scope::Tree);
        let core = |part, raw, running| summand(part, "cpu_core", raw, running);
        let whole = || vec![core(0, 70, ALL), core(1, 30, ALL)];
        let never = of([whole(), vec![core(2, 0, 0)]].concat());
        let summand = || "C".to_owned();
        let reason = MissingReason::NeverOnCounter { summand: Some(summand()) };
        assert_eq!(never, Count::NotCounted { reason });
        let gone = Cell { lost: Some("gone".into()), ..core(2, 5, ALL) };
        let lost = of([whole(), vec![gone]].concat());
        assert_eq!((lost.verdict(), lost.reason().unwrap().as_str()), (Verdict::Lost, "C: gone"));
        let reason = MissingReason::NoValueOf { summand: summand() };
        assert_eq!(of(whole()), Count::Lost { reason });
    }
    #[test]
    fn the_worst_summand_gives_the_reason_and_of_equal_ones_the_first() {
        let line = sum("loads", 3, 0);
        let of = |cells: Vec<Cell>| settle(&line, &Reading { cells }, SLOT, Scope::Tree).reason().unwrap();
        let core = |part, raw, running| summand(part, "cpu_core", raw, running);
        let gone = |part, why: &str| Cell { lost: Some(why.into()), ..core(part, 5, ALL) };
        assert_eq!(of(vec![core(0, 0, 0), gone(1, "z"), gone(2, "a")]), "B: z");
        assert_eq!(of(vec![gone(0, "a"), core(1, 0, 0), gone(2, "z")]), "A: a");
        let never = of(vec![core(0, 70, ALL / 2), core(1, 0, 0), core(2, 0, 0)]);
        assert!(never.starts_with("B never reached a counter"), "{never}");
    }
}

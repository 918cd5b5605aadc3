//! The cells of an event by CPU and thread.

use cyclometer_core::event::PerfClass;
use cyclometer_core::exec::{Cell, PlaceCells};
use cyclometer_core::plan::PlanLine;
use cyclometer_core::{Candidate, Count, Part, Rung};

/// Shortfall of running against enabled time that is not multiplexing, in ns: the kernel's time between the
/// two clock readings.
const SLACK_NS: u64 = 1_000;

/// The slack also grows with the time: one part in this many.
const SLACK_DIVISOR: u64 = 10_000;

/// The meaning of the times of an event's cells.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Times {
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
    pub(super) fn of(line: &PlanLine, candidate: &Candidate) -> Times {
        let is_software = |part: &Part| match part {
            Part::Perf(event) => event.class == PerfClass::Software,
            _ => false,
        };
        match candidate.rung {
            Rung::Os => Times::Untold,
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
    pub(super) state: State,
}

/// Ordered from best to worst.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    /// Never enabled: the target did not run.
    Idle,
    /// On a counter for the whole time.
    Whole,
    /// On a counter for a part of the time.
    Shared,
    /// Enabled, and never on a counter; for a sum, with the name of the summand.
    Unobserved(Option<String>),
    /// The source reports that the value must not be used.
    Lost(String),
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
            state: self.state.max(other.state),
            ..self
        }
    }

    pub(super) fn missing(&self) -> Option<String> {
        match &self.state {
            State::Lost(reason) => Some(reason.clone()),
            State::Unobserved(summand) => Some(never_counted(summand.as_deref())),
            _ => None,
        }
    }

    /// Whether it was enabled for longer than it was on a counter.
    pub(super) fn was_off_counters(&self) -> bool {
        matches!(self.state, State::Shared | State::Unobserved(_))
    }

    pub(super) fn name(&self) -> String {
        match (self.cpu, self.tid) {
            (Some(cpu), Some(tid)) => format!("thread {tid} on cpu {cpu}"),
            (Some(cpu), None) => format!("cpu {cpu}"),
            (None, Some(tid)) => format!("thread {tid}"),
            (None, None) => "the target".to_owned(),
        }
    }
}

pub(super) fn never_counted(summand: Option<&str>) -> String {
    format!("{}never reached a counter", summand.map(|name| format!("{name} ")).unwrap_or_default())
}

pub(super) fn instances(cells: &[&Cell], candidate: &Candidate, times: Times) -> Vec<Instance> {
    let places = PlaceCells::group(cells.iter().copied()).into_iter();
    places.map(|(place, cells)| sum(place.cpu, place.tid, &cells, candidate, times)).collect()
}

/// Combines the cells of one CPU and thread: the sum of its summands; an event that is no sum has one.
fn sum(
    cpu: Option<u32>,
    tid: Option<u32>,
    cells: &PlaceCells<'_>,
    candidate: &Candidate,
    times: Times,
) -> Instance {
    let summands = cells.pmus().map(<[_]>::len).max().unwrap_or(0);
    let one = |number| summand(cpu, tid, &parts_of_summand(cells, number), candidate, times);
    let whole = (1..summands).fold(one(0), |sum, number| sum.with(one(number)));
    match lacking(cells, candidate) {
        Some(name) => {
            Instance { state: State::Lost(format!("the source gave no value for {name}")), ..whole }
        }
        None => whole,
    }
}

/// For each PMU the cell of its summand of that number, with the value to add. A PMU with fewer summands adds
/// nothing more, and its time is still time on a counter.
fn parts_of_summand<'a>(cells: &PlaceCells<'a>, number: usize) -> Vec<(&'a Cell, u64)> {
    let part = |cells: &[&'a Cell]| match cells.get(number) {
        Some(cell) => Some((*cell, cell.raw)),
        None => cells.last().map(|cell| (*cell, 0)),
    };
    cells.pmus().filter_map(part).collect()
}

/// A summand for which a PMU has no cell, although it has cells of others.
fn lacking<'a>(cells: &PlaceCells<'_>, candidate: &'a Candidate) -> Option<&'a str> {
    candidate.summands.get(cells.absent(&candidate.parts)?).map(String::as_str)
}

fn summand(
    cpu: Option<u32>,
    tid: Option<u32>,
    parts: &[(&Cell, u64)],
    candidate: &Candidate,
    times: Times,
) -> Instance {
    let raw = parts.iter().map(|(_, raw)| u128::from(*raw)).sum();
    let enabled_ns = parts.iter().map(|(cell, _)| cell.time_enabled_ns).max().unwrap_or(0);
    let running_ns = total(parts.iter().map(|(cell, _)| cell.time_running_ns));
    let name = |cell: &Cell| candidate.summands.get(cell.at.part).cloned();
    let lost = parts.iter().find_map(|(cell, _)| {
        let reason = cell.lost.clone()?;
        Some(name(cell).map(|name| format!("{name}: {reason}")).unwrap_or(reason))
    });
    let state = match lost {
        Some(reason) => State::Lost(reason),
        None if times == Times::Untold => State::Whole,
        None if enabled_ns == 0 && raw == 0 => State::Idle,
        None if times == Times::Presence => State::Whole,
        None if enabled_ns == 0 => State::Lost("the source gave a value without a time".to_owned()),
        None if running_ns == 0 => State::Unobserved(parts.first().and_then(|(cell, _)| name(cell))),
        None if is_whole(running_ns, enabled_ns) => State::Whole,
        None => State::Shared,
    };
    let estimate = match state {
        State::Shared => u128::from(scaled(raw, enabled_ns, running_ns)),
        _ => raw,
    };
    Instance { cpu, tid, raw, estimate, enabled_ns, running_ns, state }
}

/// Whether an event was on a counter for all of the time that it was enabled.
fn is_whole(running_ns: u64, enabled_ns: u64) -> bool {
    let slack_ns = SLACK_NS.max(enabled_ns / SLACK_DIVISOR);
    running_ns > 0 && running_ns.saturating_add(slack_ns) >= enabled_ns
}

pub(super) fn scaled(raw: u128, enabled_ns: u64, running_ns: u64) -> u64 {
    clamp(raw.saturating_mul(enabled_ns.into()) / u128::from(running_ns.max(1)))
}

pub(super) fn not_counted(reason: &str) -> Count {
    Count::NotCounted { reason: reason.to_owned() }
}

pub(super) fn total(times_ns: impl Iterator<Item = u64>) -> u64 {
    times_ns.fold(0, u64::saturating_add)
}

pub(super) fn clamp(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use crate::settle::settle;
    use crate::settle::testing::{ALL, SLOT, lost, on_cpu, on_part, settled, summand};
    use crate::testing::{cell, os_line, software, sum};
    use cyclometer_core::event::OsMetric;
    use cyclometer_core::exec::{Cell, Reading};
    use cyclometer_core::{Count, Scope, Verdict};

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
    fn without_a_summand_there_is_no_sum_and_the_reason_names_it() {
        let line = sum("loads", 3, 0);
        let of = |cells: Vec<Cell>| settle(&line, &Reading { cells }, SLOT, Scope::Tree);
        let core = |part, raw, running| summand(part, "cpu_core", raw, running);
        let whole = || vec![core(0, 70, ALL), core(1, 30, ALL)];
        let never = of([whole(), vec![core(2, 0, 0)]].concat());
        let reason = "C never reached a counter: others held all that it can use".to_owned();
        assert_eq!(never, Count::NotCounted { reason });
        let gone = Cell { lost: Some("gone".to_owned()), ..core(2, 5, ALL) };
        assert_eq!(of([whole(), vec![gone]].concat()), Count::Lost { reason: "C: gone".to_owned() });
        let lacking = "the source gave no value for C".to_owned();
        assert_eq!(of(whole()), Count::Lost { reason: lacking });
    }
}

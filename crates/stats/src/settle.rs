//! From the cells of one event to a count.

use std::collections::BTreeMap;

use cyclometer_core::count::CONFIDENCE;
use cyclometer_core::event::PerfClass;
use cyclometer_core::exec::{Cell, Reading};
use cyclometer_core::plan::{Outcome, PlanLine};
use cyclometer_core::{Candidate, Count, Interval, Part, Rung, Scope, SlotId};

/// Shortfall of running against enabled time that is not multiplexing, in ns: the kernel's time between the
/// two clock readings.
const SLACK_NS: u64 = 1_000;

/// The slack also grows with the time: one part in this many.
const SLACK_DIVISOR: u64 = 10_000;

/// Number of lost instances that a reason names before it counts the rest.
const NAMED_INSTANCES: usize = 3;

/// The reason why a count that the kernel multiplexed has no interval.
const UNPLANNED: &str = "the kernel shared the counter and does not tell when each event was on it";

/// The reason why an event that shared its counter in all of its slices has no interval.
const SHARED: &str = "another user held the counter for a part of every slice";

/// Combines the cells of one slot into a count.
///
/// Raw values are summed. Cells with the same CPU and thread are the parts of a hybrid, and their count is
/// exact when their running times add up to the enabled time. Otherwise each instance is scaled by its own
/// enabled / running. Cells that also have the same PMU are summands of a sum. Each is scaled by its own
/// times, and without one of them there is no sum. Software events of the kernel need no counter, so they are
/// never scaled. A count is partial if instances were lost or never reached a counter, or if the source's
/// scope is wider than `asked`. A zero of an event that cannot be zero is not a count. Some drivers claim
/// that an event without a counter ran (RISC-V with more events than counters).
///
/// # Source
///
/// `perf_event_open(2)`, section "Reading results": `time_enabled` and `time_running`.
pub fn settle(line: &PlanLine, reading: &Reading, slot: SlotId, asked: Scope) -> Count {
    settle_over(line, reading, slot, asked, Span::Whole)
}

/// The time that the cells cover.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Span {
    /// A whole run.
    Whole,
    /// A part of a run: the process may have slept through it.
    Interval,
}

/// As [`settle`], for a whole run or an interval of it.
pub(crate) fn settle_over(
    line: &PlanLine,
    reading: &Reading,
    slot: SlotId,
    asked: Scope,
    span: Span,
) -> Count {
    settle_by(line, reading, slot, asked, |instances| combine(instances, span))
}

/// The observations of an event that shared counters in rotation.
pub(crate) enum Observed {
    /// No observation, for this reason.
    Nothing(String),
    /// No complete slice: other users held its counter in part of each.
    Scaled { time_enabled_ns: u64, time_running_ns: u64 },
    /// Every slice in which anything ran: no other rotation group was active.
    All,
    /// Some slices, from which the total was estimated.
    Estimated { total: u64, interval: Interval, time_enabled_ns: u64, time_running_ns: u64 },
}

/// As [`settle`], for an event that shared counters in rotation.
pub(crate) fn settle_turn(
    line: &PlanLine,
    reading: &Reading,
    slot: SlotId,
    asked: Scope,
    span: Span,
    observed: impl FnOnce() -> Observed,
) -> Count {
    settle_by(line, reading, slot, asked, |instances| combine_turns(instances, span, observed))
}

fn settle_by(
    line: &PlanLine,
    reading: &Reading,
    slot: SlotId,
    asked: Scope,
    combine: impl FnOnce(&[Instance]) -> Count,
) -> Count {
    if let Outcome::NotCounted(count) = &line.outcome {
        return count.clone();
    }
    let Some(candidate) = line.candidate() else {
        return not_counted("the plan names no way to count it");
    };
    let times = Times::of(line, candidate);
    let cells: Vec<&Cell> = reading.cells.iter().filter(|cell| cell.slot == slot).collect();
    let instances = instances(&cells, candidate, times);
    let count = blur(combine(&instances), &cells);
    let is_zero = candidate.never_zero && count.value() == Some(0);
    if let Some(reason) = is_zero.then(|| incredible_zero(&instances, candidate.widest.is_some())).flatten() {
        return not_counted(reason);
    }
    let count = match &candidate.only {
        Some(only) => Narrow { only, line, instances: &instances }.narrow(count, reading),
        None => count,
    };
    widen(count, candidate.widest, asked)
}

/// The count of an event that shared counters in rotation. Lost instances make it partial, as without
/// rotation.
fn combine_turns(instances: &[Instance], span: Span, observed: impl FnOnce() -> Observed) -> Count {
    let lost = |instance: &&Instance| matches!(instance.state, State::Lost(_));
    if instances.is_empty() || instances.iter().all(|instance| lost(&instance)) {
        return combine(instances, span);
    }
    let raw = clamp(instances.iter().filter(|instance| !lost(instance)).map(|i| i.raw).sum());
    let count = match observed() {
        Observed::Nothing(reason) => return Count::NotCounted { reason },
        Observed::All => return combine(instances, span),
        Observed::Scaled { time_enabled_ns, time_running_ns } => Count::Scaled {
            raw,
            estimate: scaled(raw.into(), time_enabled_ns, time_running_ns),
            time_enabled_ns,
            time_running_ns,
            interval: Interval::Unknown { reason: SHARED.to_owned() },
        },
        Observed::Estimated { total, interval, time_enabled_ns, time_running_ns } => {
            Count::Scaled { raw, estimate: total.max(raw), time_enabled_ns, time_running_ns, interval }
        }
    };
    let missing: Vec<&Instance> = instances.iter().filter(|i| i.missing().is_some()).collect();
    match count.value() {
        Some(raw) if !missing.is_empty() => {
            Count::Partial { raw, part: format!("{}; {}", without(&missing), told(&count)) }
        }
        _ => count,
    }
}

/// The reason of a count with its interval, for output without a field for intervals; empty for an exact
/// count.
fn told(count: &Count) -> String {
    let reason = count.reason().unwrap_or_default();
    match count {
        Count::Scaled { interval: Interval::Known { half_width, .. }, .. } => {
            format!("{reason}, ± {half_width} ({:.0} %)", 100.0 * CONFIDENCE)
        }
        _ => reason,
    }
}

/// An event that only some of several core types count.
struct Narrow<'a> {
    only: &'a str,
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
        let is_named = self.line.event.name.starts_with(only);
        if of_cpus && is_named {
            return count;
        }
        let off = self.instances.iter().any(Instance::was_off_counters);
        match count {
            Count::Exact(raw) if of_cpus => Count::Partial { raw, part: format!("on {only} only") },
            Count::Scaled { raw, .. } if off => {
                let observed = count.reason().unwrap_or_default();
                Count::Partial { raw, part: format!("on {only} only, not scaled, {observed}") }
            }
            Count::Partial { .. } if off => self.unscaled(),
            Count::NotCounted { .. } if off && !of_cpus && !self.was_there(reading) => Count::NotCounted {
                reason: format!(
                    "never on a counter: it did not run on {only}, or others held all counters there"
                ),
            },
            Count::NotCounted { reason } => {
                Count::NotCounted { reason: format!("{reason}; only {only} can count it") }
            }
            other => other,
        }
    }

    /// The unscaled count of the instances that were not lost.
    fn unscaled(&self) -> Count {
        let (lost, kept): (Vec<&Instance>, Vec<&Instance>) =
            self.instances.iter().partition(|instance| matches!(instance.state, State::Lost(_)));
        let without = if lost.is_empty() { String::new() } else { format!("; {}", without(&lost)) };
        let raw = clamp(kept.iter().map(|instance| instance.raw).sum());
        Count::Partial { raw, part: format!("on {} only, not scaled{without}", self.only) }
    }

    /// Whether any event was on a counter of these core types.
    fn was_there(&self, reading: &Reading) -> bool {
        let ran = |cell: &&Cell| cell.time_running_ns > 0 && !cell.at.pmu.is_empty();
        reading.cells.iter().filter(ran).any(|cell| self.only.split(" and ").any(|pmu| pmu == cell.at.pmu))
    }
}

/// The reason why a zero of an event that cannot be zero is no count; `None` where zero is possible.
///
/// An idle CPU may well execute nothing. A task that was on a counter executed something, and a package uses
/// energy in any 10 ms (its counter is updated every ms).
fn incredible_zero(instances: &[Instance], of_package: bool) -> Option<&'static str> {
    let of_tasks = instances.iter().all(|instance| instance.cpu.is_none());
    let long = instances.iter().any(|instance| instance.enabled_ns >= 10_000_000);
    match of_package {
        true => long.then_some("reads zero: the counter does not count here; a hypervisor may hide it"),
        false => of_tasks.then_some("reads zero although the process ran: the counter did not count"),
    }
}

/// The count of one core PMU of a hybrid machine.
#[derive(Clone, PartialEq, Debug)]
pub struct PartCount {
    /// Index of the event's part.
    pub part: usize,
    /// The PMU's name (`cpu_core`).
    pub pmu: String,
    /// The vendor's event, if several events of a PMU are summed.
    pub summand: Option<String>,
    /// The count while the target ran on its cores.
    pub count: Count,
    /// Time on a counter of this PMU, in ns.
    pub time_running_ns: u64,
    /// Time that the event was enabled on any PMU, in ns.
    pub time_enabled_ns: u64,
}

/// The share of each core PMU in a hybrid count, and of each summand in a sum; empty where an event has a
/// single part.
///
/// A part is exact when the whole is: then it covers everything that ran on those cores.
pub fn by_part(line: &PlanLine, reading: &Reading, slot: SlotId, asked: Scope) -> Vec<PartCount> {
    let whole_is_exact = matches!(settle(line, reading, slot, asked), Count::Exact(_));
    parts_of(line, reading, slot, whole_is_exact)
}

/// As [`by_part`], if it is known whether the whole is exact.
pub(crate) fn parts_of(
    line: &PlanLine,
    reading: &Reading,
    slot: SlotId,
    whole_is_exact: bool,
) -> Vec<PartCount> {
    let Some(candidate) = line.candidate().filter(|candidate| candidate.parts.len() > 1) else {
        return Vec::new();
    };
    let mut parts: BTreeMap<(usize, &str), Vec<&Cell>> = BTreeMap::new();
    for cell in reading.cells.iter().filter(|cell| cell.slot == slot) {
        parts.entry((cell.at.part, &cell.at.pmu)).or_default().push(cell);
    }
    let of_part = |((part, pmu), cells): ((usize, &str), Vec<&Cell>)| PartCount {
        summand: candidate.summands.get(part).cloned(),
        ..part_count(part, pmu, &cells, whole_is_exact)
    };
    parts.into_iter().map(of_part).collect()
}

fn part_count(part: usize, pmu: &str, cells: &[&Cell], whole_is_exact: bool) -> PartCount {
    let raw = clamp(cells.iter().map(|cell| u128::from(cell.raw)).sum());
    let time_running_ns = total(cells.iter().map(|cell| cell.time_running_ns));
    let time_enabled_ns = total(cells.iter().map(|cell| cell.time_enabled_ns));
    let lost = cells.iter().find_map(|cell| cell.lost.clone());
    let count = match lost {
        Some(reason) => Count::Lost { reason },
        // Exact even if the part never ran: then nothing ran on those cores.
        None if whole_is_exact => Count::Exact(raw),
        None if time_running_ns == 0 => not_counted("never ran on a counter of these cores"),
        None => Count::Partial { raw, part: format!("while on a counter of {pmu}, not scaled") },
    };
    PartCount { part, pmu: pmu.to_owned(), summand: None, count, time_running_ns, time_enabled_ns }
}

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
            Rung::Os => Times::Untold,
            _ if line.event.group.is_none() && candidate.parts.iter().all(is_software) => Times::Presence,
            _ => Times::OnCounter,
        }
    }
}

/// The cells of one CPU and thread: one for each part.
struct Instance {
    cpu: Option<u32>,
    tid: Option<u32>,
    raw: u128,
    /// The raw value, extrapolated to the whole time if the event shared its counter.
    estimate: u128,
    enabled_ns: u64,
    running_ns: u64,
    state: State,
}

/// Ordered from best to worst.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum State {
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

    fn missing(&self) -> Option<String> {
        match &self.state {
            State::Lost(reason) => Some(reason.clone()),
            State::Unobserved(summand) => Some(never_counted(summand.as_deref())),
            _ => None,
        }
    }

    /// Whether it was enabled for longer than it was on a counter.
    fn was_off_counters(&self) -> bool {
        matches!(self.state, State::Shared | State::Unobserved(_))
    }

    fn name(&self) -> String {
        match (self.cpu, self.tid) {
            (Some(cpu), Some(tid)) => format!("thread {tid} on cpu {cpu}"),
            (Some(cpu), None) => format!("cpu {cpu}"),
            (None, Some(tid)) => format!("thread {tid}"),
            (None, None) => "the target".to_owned(),
        }
    }
}

/// Makes a count partial if its source reports that it leaves out, adds or blurs events.
fn blur(count: Count, cells: &[&Cell]) -> Count {
    let mut notes: Vec<&str> = cells.iter().filter_map(|cell| cell.partial.as_deref()).collect();
    notes.sort_unstable();
    notes.dedup();
    match count.value() {
        Some(raw) if !notes.is_empty() => {
            let inner = count.reason().map(|_| format!("; {}", told(&count))).unwrap_or_default();
            Count::Partial { raw, part: format!("{}{inner}", notes.join("; ")) }
        }
        _ => count,
    }
}

fn never_counted(summand: Option<&str>) -> String {
    format!("{}never reached a counter", summand.map(|name| format!("{name} ")).unwrap_or_default())
}

fn instances(cells: &[&Cell], candidate: &Candidate, times: Times) -> Vec<Instance> {
    let mut grouped: BTreeMap<(Option<u32>, Option<u32>), Vec<&Cell>> = BTreeMap::new();
    for cell in cells.iter().copied() {
        grouped.entry((cell.at.cpu, cell.at.tid)).or_default().push(cell);
    }
    grouped.into_iter().map(|((cpu, tid), cells)| sum(cpu, tid, &cells, candidate, times)).collect()
}

/// The cells of one CPU and thread by PMU, in the order of the parts.
type OfPmus<'a> = BTreeMap<&'a str, Vec<&'a Cell>>;

/// Combines the cells of one CPU and thread: the sum of its summands; an event that is no sum has one.
fn sum(cpu: Option<u32>, tid: Option<u32>, cells: &[&Cell], candidate: &Candidate, times: Times) -> Instance {
    let mut of_pmus: OfPmus<'_> = BTreeMap::new();
    for cell in cells {
        of_pmus.entry(&cell.at.pmu).or_default().push(cell);
    }
    of_pmus.values_mut().for_each(|cells| cells.sort_by_key(|cell| cell.at.part));
    let summands = of_pmus.values().map(Vec::len).max().unwrap_or(0);
    let one = |number| summand(cpu, tid, &parts_of_summand(&of_pmus, number), candidate, times);
    let whole = (1..summands).fold(one(0), |sum, number| sum.with(one(number)));
    match lacking(&of_pmus, candidate) {
        Some(name) => {
            Instance { state: State::Lost(format!("the source gave no value for {name}")), ..whole }
        }
        None => whole,
    }
}

/// For each PMU the cell of its summand of that number, with the value to add. A PMU with fewer summands adds
/// nothing more, and its time is still time on a counter.
fn parts_of_summand<'a>(of_pmus: &OfPmus<'a>, number: usize) -> Vec<(&'a Cell, u64)> {
    let part = |cells: &Vec<&'a Cell>| match cells.get(number) {
        Some(cell) => Some((*cell, cell.raw)),
        None => cells.last().map(|cell| (*cell, 0)),
    };
    of_pmus.values().filter_map(part).collect()
}

/// A summand for which a PMU has no cell, although it has cells of others.
fn lacking<'a>(of_pmus: &OfPmus<'_>, candidate: &'a Candidate) -> Option<&'a str> {
    let mut named = candidate.parts.iter().zip(&candidate.summands).enumerate();
    named.find_map(|(i, (part, name))| {
        let cells = of_pmus.get(part.core()?.pmu)?;
        cells.iter().all(|cell| cell.at.part != i).then_some(name.as_str())
    })
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

fn combine(instances: &[Instance], span: Span) -> Count {
    if instances.is_empty() {
        return not_counted("the source gave no value for it");
    }
    if instances.iter().all(|instance| matches!(instance.state, State::Idle)) {
        // A sleeping process executes nothing, and zero is exact. A command that never ran was not counted.
        let command = instances.iter().all(|instance| instance.cpu.is_none() && instance.tid.is_none());
        return match span {
            Span::Whole if command => not_counted("the process never ran while counting"),
            _ => Count::Exact(0),
        };
    }
    let observed: Vec<&Instance> =
        instances.iter().filter(|i| matches!(i.state, State::Whole | State::Shared)).collect();
    let missing: Vec<&Instance> = instances.iter().filter(|i| i.missing().is_some()).collect();
    if observed.is_empty() {
        return nothing_observed(&missing);
    }
    let estimate = clamp(observed.iter().map(|i| i.estimate).sum());
    if !missing.is_empty() {
        return Count::Partial { raw: estimate, part: without(&missing) };
    }
    if observed.iter().any(|i| matches!(i.state, State::Shared)) {
        return Count::Scaled {
            raw: clamp(observed.iter().map(|i| i.raw).sum()),
            estimate,
            time_enabled_ns: total(observed.iter().map(|i| i.enabled_ns)),
            time_running_ns: total(observed.iter().map(|i| i.running_ns)),
            interval: Interval::Unknown { reason: UNPLANNED.to_owned() },
        };
    }
    Count::Exact(estimate)
}

fn nothing_observed(missing: &[&Instance]) -> Count {
    let lost = missing.iter().find_map(|instance| match &instance.state {
        State::Lost(reason) => Some(reason.clone()),
        _ => None,
    });
    let summand = missing.iter().find_map(|instance| match &instance.state {
        State::Unobserved(summand) => summand.as_deref(),
        _ => None,
    });
    match lost {
        Some(reason) => Count::Lost { reason },
        None => not_counted(&format!("{}: others held all that it can use", never_counted(summand))),
    }
}

fn without(missing: &[&Instance]) -> String {
    let named: Vec<String> = missing
        .iter()
        .take(NAMED_INSTANCES)
        .map(|instance| format!("{} ({})", instance.name(), instance.missing().unwrap_or_default()))
        .collect();
    let rest = missing.len() - named.len();
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    format!("without {}{more}", named.join(", "))
}

fn widen(count: Count, widest: Option<Scope>, asked: Scope) -> Count {
    match (widest, count.value()) {
        (Some(widest), Some(raw)) if widest > asked => {
            let inner = count.reason().map(|_| format!(", {}", told(&count))).unwrap_or_default();
            Count::Partial { raw, part: format!("whole {widest}{inner}") }
        }
        _ => count,
    }
}

fn scaled(raw: u128, enabled_ns: u64, running_ns: u64) -> u64 {
    clamp(raw.saturating_mul(enabled_ns.into()) / u128::from(running_ns.max(1)))
}

fn not_counted(reason: &str) -> Count {
    Count::NotCounted { reason: reason.to_owned() }
}

fn total(times_ns: impl Iterator<Item = u64>) -> u64 {
    times_ns.fold(0, u64::saturating_add)
}

fn clamp(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cell, hardware, os_line, software, sum};
    use cyclometer_core::Verdict;
    use cyclometer_core::event::OsMetric;
    use cyclometer_core::exec::At;
    use proptest::prelude::*;

    const SLOT: SlotId = SlotId(0);

    fn settled(parts: usize, cells: Vec<Cell>) -> Count {
        settle(&hardware("cycles", parts), &Reading { cells }, SLOT, Scope::Tree)
    }

    fn on_part(part: usize, raw: u64, enabled: u64, running: u64) -> Cell {
        let mut cell = cell(SLOT, raw, enabled, running);
        cell.at = At { part, pmu: ["cpu_core", "cpu_atom"][part].into(), cpu: None, tid: None };
        cell
    }

    fn on_cpu(cpu: u32, raw: u64, enabled: u64, running: u64) -> Cell {
        let mut cell = cell(SLOT, raw, enabled, running);
        cell.at.cpu = Some(cpu);
        cell
    }

    fn lost(mut cell: Cell) -> Cell {
        cell.lost = Some("cpu went offline".into());
        cell
    }

    #[test]
    fn a_counter_that_ran_all_the_time_is_exact() {
        assert_eq!(settled(1, vec![cell(SLOT, 42, 9_000_000, 9_000_000)]), Count::Exact(42));
        assert_eq!(settled(1, vec![cell(SLOT, 0, 9, 9)]), Count::Exact(0));
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
    fn what_slept_counted_nothing_exactly() {
        let mut thread = cell(SLOT, 0, 0, 0);
        thread.at.tid = Some(7);
        assert_eq!(settled(1, vec![thread]), Count::Exact(0));
        assert_eq!(settled(1, vec![cell(SLOT, 0, 0, 0)]).verdict(), Verdict::NotCounted);
        let reading = Reading { cells: vec![cell(SLOT, 0, 0, 0)] };
        let interval = settle_over(&hardware("e", 1), &reading, SLOT, Scope::Tree, Span::Interval);
        assert_eq!(interval, Count::Exact(0));
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
        assert_eq!((raw, part.as_str()), (84, "in steps of 10 ms; observed 50 % of the time"));
    }

    #[test]
    fn a_shared_counter_is_scaled() {
        let count = settled(1, vec![cell(SLOT, 100, 10_000_000, 2_500_000)]);
        let expected = Count::Scaled {
            raw: 100,
            estimate: 400,
            time_enabled_ns: 10_000_000,
            time_running_ns: 2_500_000,
            interval: Interval::Unknown { reason: UNPLANNED.to_owned() },
        };
        assert_eq!(count, expected);
    }

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
    fn what_one_core_type_alone_can_count_is_never_extrapolated_to_the_others() {
        let settled = |cells| {
            let mut line = hardware("TOPDOWN.SLOTS", 1);
            line.event.candidates[0].only = Some("cpu_core".into());
            settle(&line, &Reading { cells }, SLOT, Scope::Tree)
        };
        let part = |part: &str| Count::Partial { raw: 42, part: part.into() };
        assert_eq!(settled(vec![cell(SLOT, 42, 9_000_000, 9_000_000)]), Count::Exact(42));
        assert_eq!(
            settled(vec![cell(SLOT, 42, 9_000_000, 3_000_000)]),
            part("on cpu_core only, not scaled, observed 33 % of the time")
        );
        assert_eq!(settled(vec![on_cpu(0, 42, 9_000_000, 9_000_000)]), part("on cpu_core only"));
    }

    #[test]
    fn what_names_a_core_type_is_not_scaled_where_the_task_may_have_run_on_the_other() {
        let mut line = hardware("cpu_core/loads/", 1);
        line.event.candidates[0].only = Some("cpu_core".into());
        let settled = |cells| settle(&line, &Reading { cells }, SLOT, Scope::Tree);
        let partial = |raw, part: &str| Count::Partial { raw, part: part.into() };
        let of_thread = |tid, cell: Cell| Cell { at: At { tid: Some(tid), ..cell.at.clone() }, ..cell };
        let half = || cell(SLOT, 42, 9_000_000, 4_500_000);
        assert_eq!(
            settled(vec![half()]),
            partial(42, "on cpu_core only, not scaled, observed 50 % of the time")
        );
        assert_eq!(settled(vec![cell(SLOT, 42, 9_000_000, 9_000_000)]), Count::Exact(42));
        let threads = vec![of_thread(1, half()), of_thread(2, cell(SLOT, 0, 9_000_000, 0))];
        assert_eq!(settled(threads), partial(42, "on cpu_core only, not scaled"));
        let threads = vec![of_thread(1, half()), of_thread(2, lost(half()))];
        assert_eq!(
            settled(threads),
            partial(42, "on cpu_core only, not scaled; without thread 2 (cpu went offline)")
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
        line.event.candidates[0].only = Some("cpu_core".into());
        let reason = |more: Vec<Cell>| {
            let cells = [vec![cell(SLOT, 0, 9_000_000, 0)], more].concat();
            settle(&line, &Reading { cells }, SLOT, Scope::Tree).reason().unwrap()
        };
        let on = |part| Cell { slot: SlotId(1), ..on_part(part, 9, 9_000_000, 9_000_000) };
        let nobody_knows =
            "never on a counter: it did not run on cpu_core, or others held all counters there";
        assert_eq!(reason(vec![]), nobody_knows);
        assert_eq!(reason(vec![on(1)]), nobody_knows);
        assert_eq!(
            reason(vec![on(0)]),
            "never reached a counter: others held all that it can use; only cpu_core can count it"
        );
    }

    #[test]
    fn all_instances_lost_is_lost_and_some_is_partial() {
        let one = || on_cpu(0, 10, 10_000_000, 10_000_000);
        assert_eq!(settled(1, vec![lost(one())]), Count::Lost { reason: "cpu went offline".into() });
        let both = settled(1, vec![one(), lost(on_cpu(3, 99, 10_000_000, 10_000_000))]);
        assert_eq!(both, Count::Partial { raw: 10, part: "without cpu 3 (cpu went offline)".into() });
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
    fn a_scope_wider_than_asked_is_partial_and_never_exact() {
        let mut line = hardware("energy", 1);
        line.event.candidates[0].widest = Some(Scope::Package);
        let reading = Reading { cells: vec![cell(SLOT, 8, 100, 100)] };
        let narrow = settle(&line, &reading, SLOT, Scope::Tree);
        assert_eq!(narrow, Count::Partial { raw: 8, part: "whole package".into() });
        assert_eq!(settle(&line, &reading, SLOT, Scope::System), Count::Exact(8));
    }

    #[test]
    fn the_accounting_of_the_system_needs_no_times() {
        let line = os_line("major_faults", OsMetric::MajorFaults);
        let reading = Reading { cells: vec![cell(SLOT, 0, 0, 0)] };
        assert_eq!(settle(&line, &reading, SLOT, Scope::Tree), Count::Exact(0));
    }

    #[test]
    fn what_the_plan_refused_stays_refused() {
        let mut line = hardware("cycles", 1);
        let refused = Count::NotSupported { reason: "no PMU".into() };
        line.outcome = Outcome::NotCounted(refused.clone());
        let reading = Reading { cells: vec![cell(SLOT, 5, 10, 10)] };
        assert_eq!(settle(&line, &reading, SLOT, Scope::Tree), refused);
    }

    #[test]
    fn parts_of_a_hybrid_are_told_apart() {
        let line = hardware("cycles", 2);
        let cells = vec![on_part(0, 70, 10_000_000, 6_000_000), on_part(1, 30, 10_000_000, 4_000_000)];
        let parts = by_part(&line, &Reading { cells }, SLOT, Scope::Tree);
        let seen: Vec<_> = parts.iter().map(|part| (part.pmu.as_str(), part.count.clone())).collect();
        assert_eq!(seen, [("cpu_core", Count::Exact(70)), ("cpu_atom", Count::Exact(30))]);
        let unused = vec![on_part(0, 70, 10_000_000, 10_000_000), on_part(1, 0, 10_000_000, 0)];
        let parts = by_part(&line, &Reading { cells: unused }, SLOT, Scope::Tree);
        assert_eq!((parts[1].count.clone(), parts[1].time_running_ns), (Count::Exact(0), 0));
        let shared = vec![on_part(0, 70, 10_000_000, 5_000_000), on_part(1, 0, 10_000_000, 0)];
        let parts = by_part(&line, &Reading { cells: shared }, SLOT, Scope::Tree);
        assert_eq!(parts[1].count.value(), None);
        let single = Reading { cells: vec![cell(SLOT, 1, 1, 1)] };
        assert_eq!(by_part(&hardware("cycles", 1), &single, SLOT, Scope::Tree), []);
    }

    fn any_cell() -> impl Strategy<Value = Cell> {
        let at = (0..2usize, proptest::option::of(0..3u32), proptest::option::of(0..3u32));
        let loss = proptest::option::weighted(0.1, Just("lost".to_owned()));
        (at, any::<u64>(), any::<u64>(), any::<u64>(), loss).prop_map(
            |((part, cpu, tid), raw, enabled, running, lost)| Cell {
                slot: SLOT,
                at: At { part, pmu: "cpu".into(), cpu, tid },
                raw,
                time_enabled_ns: enabled,
                time_running_ns: running,
                lost,
                partial: None,
            },
        )
    }

    /// The cell of a part of a sum: `raw` in `running` of 10 ms.
    fn summand(part: usize, pmu: &str, raw: u64, running_ns: u64) -> Cell {
        let at = At { part, pmu: pmu.to_owned(), ..At::default() };
        Cell { at, ..cell(SLOT, raw, 10_000_000, running_ns) }
    }

    const ALL: u64 = 10_000_000;

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

    #[test]
    fn a_sum_on_one_core_type_and_a_single_event_on_the_other_are_one_count() {
        let line = sum("loads", 2, 1);
        let of = |cells: Vec<Cell>| settle(&line, &Reading { cells }, SLOT, Scope::Tree);
        let (core, atom) = (ALL / 10 * 7, ALL / 10 * 3);
        let cells = vec![
            summand(0, "cpu_core", 70, core),
            summand(1, "cpu_core", 7, core),
            summand(2, "cpu_atom", 30, atom),
        ];
        assert_eq!(of(cells.clone()), Count::Exact(107));
        let parts = by_part(&line, &Reading { cells }, SLOT, Scope::Tree);
        let parts: Vec<_> =
            parts.iter().map(|p| (p.pmu.as_str(), p.summand.as_deref(), p.count.value())).collect();
        assert_eq!(
            parts,
            [
                ("cpu_core", Some("A"), Some(70)),
                ("cpu_core", Some("B"), Some(7)),
                ("cpu_atom", Some("C"), Some(30))
            ]
        );
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
        let part = "without thread 2 (B never reached a counter)".to_owned();
        let count = settle(&line, &Reading { cells }, SLOT, Scope::Tree);
        assert_eq!(count, Count::Partial { raw: 15, part });
    }

    proptest! {
        #[test]
        fn the_order_of_cells_does_not_matter(cells in proptest::collection::vec(any_cell(), 0..12)) {
            let mut reversed = cells.clone();
            reversed.reverse();
            let kinds = (settled(2, cells), settled(2, reversed));
            prop_assert_eq!(kinds.0.verdict(), kinds.1.verdict());
            prop_assert_eq!(kinds.0.value(), kinds.1.value());
        }

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

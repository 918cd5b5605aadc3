//! Events that cannot be counted at the same time, in the smallest form.

use std::collections::BTreeMap;

use super::bound::{needs_on, registers, registers_of, value};
use super::one::{PassFit, fit};
use super::{
    BUDGET, Because, Conflict, PackedEvent, PackingProblem, PassPacker, TrialBudget, Unplaceable, item,
};
use crate::matching::{CounterBits, bits, mask};

/// The events that nothing can count, and the sets that no pass can hold.
pub(super) fn refused(problem: &PackingProblem) -> Vec<Unplaceable> {
    let pmus: Vec<CounterBits> = problem.pmus.iter().map(|mask| bits(*mask)).collect();
    let impossible =
        |demand: &usize| item(problem, *demand, &pmus).needs.iter().any(|need| need.ways.is_empty());
    let events: Vec<usize> = (0..problem.demands.len()).filter(impossible).collect();
    let packer = PassPacker::new(problem, &[]);
    let set = |(set, members): (usize, &Vec<usize>)| {
        let out: Vec<usize> = members.iter().copied().filter(|event| events.contains(event)).collect();
        let conflict = match out.is_empty() {
            true => smallest_in(&packer, members)?,
            false => Conflict { events: out, because: Because::Impossible },
        };
        Some(Unplaceable::Set { set, conflict })
    };
    let sets: Vec<Unplaceable> = problem.together.iter().enumerate().filter_map(set).collect();
    events.into_iter().map(Unplaceable::Event).chain(sets).collect()
}

/// A conflict among events that can be counted each: the smallest where counters or registers alone are the
/// reason.
pub(super) fn smallest(problem: &PackingProblem, events: &[usize]) -> Option<Conflict> {
    smallest_in(&PassPacker::new(problem, &[]), events)
}

fn smallest_in(packer: &PassPacker, events: &[usize]) -> Option<Conflict> {
    let mut all = events.to_vec();
    all.sort_unstable();
    all.dedup();
    let fit = try_all(packer, &all)?;
    if fit == PassFit::Unknown {
        return Some(Conflict { events: all, because: Because::Unknown });
    }
    let alone = all.iter().find(|event| packer.items[**event].alone).copied();
    if let (Some(alone), Some(other)) = (alone, all.iter().find(|event| Some(**event) != alone)) {
        return Some(Conflict { events: vec![alone, *other], because: Because::Alone });
    }
    let pmus = 0..packer.pmus.len();
    let found = pmus.flat_map(|pmu| [by_registers(packer, &all, pmu), by_counters(packer, &all, pmu)]);
    let found = found.flatten().min_by_key(|conflict| conflict.events.len());
    let (events, because) = found.map_or((all, Because::Both), |found| (found.events, found.because));
    let least = irreducible(packer, events.clone());
    // A conflict that needs both reasons is smaller than one that needs a single reason.
    let because = if least.len() == events.len() { because } else { Because::Both };
    Some(Conflict { events: least, because })
}

/// `None` where all fit.
fn try_all(packer: &PassPacker, events: &[usize]) -> Option<PassFit> {
    let items: Vec<&PackedEvent> = events.iter().map(|i| &packer.items[*i]).collect();
    if items.len() > 1 && items.iter().any(|item| item.alone) {
        return Some(PassFit::No);
    }
    match fit(&items, &packer.pmus, &mut TrialBudget(BUDGET)) {
        PassFit::Yes(_) => None,
        not => Some(not),
    }
}

/// More values than registers, in the fewest registers.
fn by_registers(packer: &PassPacker, events: &[usize], pmu: usize) -> Option<Conflict> {
    let wanted: Vec<(usize, CounterBits, u64)> = needs_on(packer, events, pmu)
        .filter_map(|(item, need)| Some((item.demand, registers(need)?, value(need)?)))
        .collect();
    let smallest = (1..=wanted.iter().fold(0, |all, (_, registers, _)| all | registers)).filter_map(
        |set: CounterBits| {
            let within = wanted.iter().filter(|(_, registers, _)| registers & !set == 0);
            let one_each: BTreeMap<u64, usize> = within.map(|(demand, _, value)| (*value, *demand)).collect();
            let least = set.count_ones() as usize + 1;
            (one_each.len() >= least).then(|| (set, one_each.into_values().take(least).collect::<Vec<_>>()))
        },
    );
    let (set, mut events) = smallest.min_by_key(|(_, events)| events.len())?;
    events.sort_unstable();
    Some(Conflict { events, because: Because::Registers { pmu, registers: registers_of(set) } })
}

/// More places than counters, on the fewest counters.
fn by_counters(packer: &PassPacker, events: &[usize], pmu: usize) -> Option<Conflict> {
    /// More would take too long to try; then a smaller one than all may stay unfound.
    const MOST: usize = 12;
    let place = |(item, need): (&PackedEvent, &super::PackedNeed)| {
        let second = if need.wide { need.counters() << 1 } else { 0 };
        (item.demand, need.counters() | second, 1 + usize::from(need.wide))
    };
    let mut wanted: Vec<(usize, CounterBits, usize)> = needs_on(packer, events, pmu).map(place).collect();
    // Events that take two counters come first: fewer of them are needed.
    wanted.sort_by_key(|(.., places)| std::cmp::Reverse(*places));
    let mut kinds: Vec<CounterBits> = wanted.iter().map(|(_, counters, _)| *counters).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds.truncate(MOST);
    let union = |chosen: usize| {
        let each = kinds.iter().enumerate().filter(|(n, _)| chosen >> n & 1 == 1);
        each.fold(0, |all, (_, counters)| all | counters)
    };
    let clash = |set: CounterBits| {
        let within = wanted.iter().filter(|(_, counters, _)| counters & !set == 0);
        let (mut chosen, mut places) = (Vec::new(), 0);
        for (demand, _, own) in within {
            chosen.push(*demand);
            places += own;
            if places > set.count_ones() as usize {
                return Some((set, chosen, places));
            }
        }
        None
    };
    let tight = (1..1usize << kinds.len()).map(union).filter_map(clash);
    let (set, mut events, places) = tight.min_by_key(|(_, events, _)| events.len())?;
    events.sort_unstable();
    Some(Conflict { events, because: Because::Counters { pmu, counters: mask(set), places } })
}

/// Leaves out what is not needed for the conflict, one event after the other.
fn irreducible(packer: &PassPacker, mut events: Vec<usize>) -> Vec<usize> {
    let mut at = 0;
    while at < events.len() {
        let without: Vec<usize> = events.iter().copied().filter(|event| *event != events[at]).collect();
        match try_all(packer, &without).is_some() {
            true => events = without,
            false => at += 1,
        }
    }
    events
}

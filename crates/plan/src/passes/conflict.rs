//! What cannot be counted at the same time, in the smallest form.

use std::collections::BTreeMap;

use super::bound::{needs_on, registers, registers_of, value};
use super::one::{Fit, fit};
use super::{BUDGET, Because, Budget, Conflict, Item, Packer, Problem, Refused, item};
use crate::matching::{Bits, bits, mask};

/// The events that nothing can count, and the sets that no pass can hold.
pub(super) fn refused(problem: &Problem) -> Vec<Refused> {
    let pmus: Vec<Bits> = problem.pmus.iter().map(|mask| bits(*mask)).collect();
    let impossible =
        |demand: &usize| item(problem, *demand, &pmus).needs.iter().any(|need| need.ways.is_empty());
    let mut refused: Vec<Refused> =
        (0..problem.demands.len()).filter(impossible).map(Refused::Event).collect();
    for (set, events) in problem.together.iter().enumerate() {
        let possible: Vec<usize> =
            events.iter().copied().filter(|event| !refused.contains(&Refused::Event(*event))).collect();
        refused.extend(smallest(problem, &possible).map(|conflict| Refused::Set { set, conflict }));
    }
    refused
}

/// The smallest conflict among events that can be counted each.
pub(super) fn smallest(problem: &Problem, events: &[usize]) -> Option<Conflict> {
    let packer = Packer::new(problem, &[]);
    let all: Vec<usize> = events.to_vec();
    if !clashes(&packer, &all) {
        return None;
    }
    let pmus = 0..packer.pmus.len();
    let found = pmus.flat_map(|pmu| [by_registers(&packer, &all, pmu), by_counters(&packer, &all, pmu)]);
    let found = found.flatten().min_by_key(|conflict| conflict.events.len());
    let (events, because) = found.map_or((all, Because::Both), |found| (found.events, found.because));
    let least = irreducible(&packer, events.clone());
    // What needs both reasons to clash is smaller than what needs one.
    let because = if least.len() == events.len() { because } else { Because::Both };
    Some(Conflict { events: least, because })
}

fn clashes(packer: &Packer, events: &[usize]) -> bool {
    let items: Vec<&Item> = events.iter().map(|i| &packer.items[*i]).collect();
    items.iter().filter(|item| item.alone).count() > 0 && items.len() > 1
        || !matches!(fit(&items, &packer.pmus, &mut Budget(BUDGET)), Fit::Yes(_))
}

/// More values than registers, in the fewest registers.
fn by_registers(packer: &Packer, events: &[usize], pmu: usize) -> Option<Conflict> {
    let wanted: Vec<(usize, Bits, u64)> = needs_on(packer, events, pmu)
        .filter_map(|(item, need)| Some((item.demand, registers(need)?, value(need)?)))
        .collect();
    let smallest =
        (1..=wanted.iter().fold(0, |all, (_, registers, _)| all | registers)).filter_map(|set: Bits| {
            let within = wanted.iter().filter(|(_, registers, _)| registers & !set == 0);
            let one_each: BTreeMap<u64, usize> = within.map(|(demand, _, value)| (*value, *demand)).collect();
            let least = set.count_ones() as usize + 1;
            (one_each.len() >= least).then(|| (set, one_each.into_values().take(least).collect::<Vec<_>>()))
        });
    let (set, mut events) = smallest.min_by_key(|(_, events)| events.len())?;
    events.sort_unstable();
    Some(Conflict { events, because: Because::Registers { pmu, registers: registers_of(set) } })
}

/// More events than counters, on the fewest counters.
fn by_counters(packer: &Packer, events: &[usize], pmu: usize) -> Option<Conflict> {
    /// More would take too long to try; then a smaller one than all may stay unfound.
    const MOST: usize = 12;
    let wanted: Vec<(usize, Bits)> = needs_on(packer, events, pmu)
        .filter(|(_, need)| !need.wide)
        .map(|(item, need)| (item.demand, need.counters()))
        .collect();
    let mut kinds: Vec<Bits> = wanted.iter().map(|(_, counters)| *counters).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds.truncate(MOST);
    let union = |chosen: usize| {
        let each = kinds.iter().enumerate().filter(|(n, _)| chosen >> n & 1 == 1);
        each.fold(0, |all, (_, counters)| all | counters)
    };
    let tight = (1..1usize << kinds.len()).map(union).filter(|set| {
        wanted.iter().filter(|(_, counters)| counters & !set == 0).count() > set.count_ones() as usize
    });
    let set = tight.min_by_key(|set| set.count_ones())?;
    let within = wanted.iter().filter(|(_, counters)| counters & !set == 0).map(|(demand, _)| *demand);
    let events = within.take(set.count_ones() as usize + 1).collect();
    Some(Conflict { events, because: Because::Counters { pmu, counters: mask(set) } })
}

/// Leaves out what is not needed for the conflict, one event after the other.
fn irreducible(packer: &Packer, mut events: Vec<usize>) -> Vec<usize> {
    let mut at = 0;
    while at < events.len() {
        let without: Vec<usize> = events.iter().copied().filter(|event| *event != events[at]).collect();
        match clashes(packer, &without) {
            true => events = without,
            false => at += 1,
        }
    }
    events
}

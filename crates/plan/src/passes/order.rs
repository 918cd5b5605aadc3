//! Improvements of a plan with the same number of passes: keep partners together, repeat events on free
//! counters, leave registers as they are.

use super::{CounterAssignment, PackedEvent, Packing, PassPacker};
use crate::matching::{CounterBits, bit_of, counter, each};

/// Steps for a plan that only would be nicer.
const BUDGET: u64 = 20_000;

/// Events and sets for which a plan that would be nicer is still looked for.
const MOST_SETS: usize = 1_000;

/// Sets of partners that are tried one by one.
const MOST_TRIED: usize = 32;

/// Plans of as many passes that keep more partners together, each better than the one before.
pub(super) fn with_partners(
    packer: &PassPacker,
    together: &[Vec<usize>],
    partners: &[Vec<usize>],
    packing: &Packing,
) -> Option<Packing> {
    let sets = together.len() + partners.len();
    if packing.passes.len() < 2 || partners.is_empty() || sets + packer.items.len() > MOST_SETS {
        return None;
    }
    let as_few = |sets: &[Vec<usize>]| {
        let found = packer.pack(sets, BUDGET);
        (found.passes.len() == packing.passes.len()).then_some(found.passes)
    };
    let all = [together, partners].concat();
    let mut best = as_few(&all);
    if best.is_none() {
        let mut kept = together.to_vec();
        for partner in partners.iter().take(MOST_TRIED) {
            kept.push(partner.clone());
            match as_few(&kept) {
                Some(passes) => best = Some(passes),
                None => drop(kept.pop()),
            }
        }
    }
    let passes = best?;
    Some(Packing { passes, ..packing.clone() })
}

/// Repeats events on free counters, if that is wanted, and orders the passes.
pub(super) fn finish(packer: &PassPacker, together: &[Vec<usize>], packing: &mut Packing) {
    if packing.passes.len() < 2 {
        return;
    }
    once(packer, together, &mut packing.passes);
    if packer.repeats {
        repeat(packer, &mut packing.passes);
    }
    if packer.repeats
        || packer.items.iter().flat_map(|item| &item.needs).any(super::PackedNeed::has_registers)
    {
        order(packer, &mut packing.passes);
    }
    flag(packer, &mut packing.passes);
}

/// Says of each assignment whether an earlier pass counts the event.
fn flag(packer: &PassPacker, passes: &mut [Vec<CounterAssignment>]) {
    let mut seen = vec![false; packer.item_of.len()];
    for pass in passes {
        pass.iter_mut().for_each(|assignment| assignment.repeats = seen[assignment.demand]);
        pass.iter().for_each(|assignment| seen[assignment.demand] = true);
    }
}

/// Takes out what another pass counts already, where nobody asked for it.
fn once(packer: &PassPacker, together: &[Vec<usize>], passes: &mut [Vec<CounterAssignment>]) {
    let mut seen = vec![false; packer.item_of.len()];
    for pass in passes.iter_mut() {
        let demands: Vec<usize> = pass.iter().map(|assignment| assignment.demand).collect();
        // An event that needs no counter is in any pass.
        let is_easy =
            |other: &usize| packer.item_of[*other].is_some_and(|i| packer.items[i].needs.is_empty());
        let is_here = |other: &usize| demands.contains(other) || is_easy(other);
        let wanted = |demand| together.iter().any(|set| set.contains(&demand) && set.iter().all(is_here));
        pass.retain(|assignment| packer.repeats || !seen[assignment.demand] || wanted(assignment.demand));
        demands.into_iter().for_each(|demand| seen[demand] = true);
    }
}

/// Fills the counters that are free, those events first that were counted least often.
fn repeat(packer: &PassPacker, passes: &mut [Vec<CounterAssignment>]) {
    let mut times = vec![1usize; packer.items.len()];
    for pass in passes.iter_mut() {
        let is_alone = |assignment: &CounterAssignment| {
            packer.item_of[assignment.demand].is_some_and(|i| packer.items[i].alone)
        };
        if pass.iter().any(is_alone) {
            continue;
        }
        let mut order: Vec<usize> = (0..packer.items.len()).collect();
        order.sort_by_key(|i| (times[*i], *i));
        for i in order {
            if let Some(assignments) = room_for(packer, pass, &packer.items[i]) {
                pass.extend(assignments);
                times[i] += 1;
            }
        }
    }
}

/// Assignments for one more event beside those that stay where they are.
fn room_for(
    packer: &PassPacker,
    pass: &[CounterAssignment],
    item: &PackedEvent,
) -> Option<Vec<CounterAssignment>> {
    if item.alone || pass.iter().any(|assignment| assignment.demand == item.demand) {
        return None;
    }
    let assignment = |need: &super::PackedNeed| {
        let mut taken: CounterBits = 0;
        let mut held = Vec::new();
        for assignment in pass.iter().filter(|assignment| assignment.pmu == need.pmu) {
            let of = packer.item_of[assignment.demand].map(|i| &packer.items[i])?;
            let its = of.needs.iter().find(|its| its.pmu == assignment.pmu)?;
            taken |= if its.wide { 0b11 } else { 0b1 } << bit_of(assignment.counter);
            held.extend(its.ways.iter().find(|way| way.way == assignment.way).and_then(|way| way.extra));
        }
        let free = packer.pmus[need.pmu] & !taken;
        let agrees = |way: &&super::PackedEncoding| way.extra.is_none_or(|extra| held.contains(&extra));
        let mut ways = need.ways.iter().filter(agrees).filter(|_| !need.wide);
        ways.find_map(|way| {
            let bit = each(way.counters & free).next()?;
            Some(CounterAssignment {
                demand: item.demand,
                pmu: need.pmu,
                way: way.way,
                counter: counter(bit),
                repeats: true,
            })
        })
    };
    item.needs.iter().map(assignment).collect()
}

/// Puts passes behind each other that leave most registers as they are; the fullest pass first.
fn order(packer: &PassPacker, passes: &mut Vec<Vec<CounterAssignment>>) {
    passes.sort_by_key(|pass| std::cmp::Reverse(pass.len()));
    let mut open: Vec<(Vec<Setting>, Vec<CounterAssignment>)> =
        std::mem::take(passes).into_iter().map(|pass| (settings(packer, &pass), pass)).collect();
    let mut last: Vec<Setting> = Vec::new();
    while !open.is_empty() {
        let same = |own: &[Setting]| own.iter().filter(|setting| last.contains(setting)).count();
        let best = (0..open.len()).max_by_key(|i| (same(&open[*i].0), std::cmp::Reverse(*i))).unwrap_or(0);
        let (own, pass) = open.remove(best);
        last = own;
        passes.push(pass);
    }
}

/// The setting of one register: which one, and its value.
type Setting = (usize, u64, u64);

fn settings(packer: &PassPacker, pass: &[CounterAssignment]) -> Vec<Setting> {
    let of = |assignment: &CounterAssignment| {
        let item = packer.item_of[assignment.demand].map(|i| &packer.items[i]);
        let need = item.and_then(|item| item.needs.iter().find(|need| need.pmu == assignment.pmu));
        let extra = need.and_then(|need| need.ways.iter().find(|way| way.way == assignment.way)?.extra);
        let shared = extra.map(|(register, value)| (assignment.pmu, 128 + u64::from(register.msr()), value));
        std::iter::once((assignment.pmu, u64::from(bit_of(assignment.counter)), assignment.demand as u64))
            .chain(shared)
    };
    pass.iter().flat_map(of).collect()
}

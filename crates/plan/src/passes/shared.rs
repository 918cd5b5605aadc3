//! Events that need registers more than counters: equal values of a register share a pass.

use super::assign::{Guest, assign_all};
use super::bound::{ValueClass, classes, registers, value};
use super::flow::spread;
use super::one::{PassFit, fit};
use super::{CounterAssignment, PackedEvent, PassPacker, TrialBudget, assignments};
use crate::matching::{CounterBits, match_bits};

/// Puts events into so many passes, those with the same value in a register together where they can be;
/// `None` where this does not find a way, which is no proof that there is none. One PMU.
pub(super) fn share(
    packer: &PassPacker,
    items: &[usize],
    passes: usize,
) -> Option<Vec<Vec<CounterAssignment>>> {
    let plain = |need: &super::PackedNeed| {
        need.is_uniform() && !need.wide && (!need.has_registers() || value(need).is_some())
    };
    if packer.pmus.len() != 1 || !items.iter().all(|i| packer.items[*i].needs.iter().all(plain)) {
        return None;
    }
    let mut pools = vec![PassResources::default(); passes];
    let mut chunks: Vec<Chunk> = classes(packer, items, 0).iter().flat_map(chunks).collect();
    chunks.sort_by_key(|chunk| std::cmp::Reverse(chunk.members.len()));
    for chunk in chunks {
        let fitting = pools.iter_mut().filter(|pool| pool.takes(&chunk, packer.pmus[0]));
        fitting.min_by_key(|pool| pool.counters.len())?.add(chunk);
    }
    let (mut guests, mut of) = (Vec::new(), Vec::new());
    for (pass, pool) in pools.iter().enumerate() {
        guests.extend(pool.counters.iter().map(|counters| Guest { counters: *counters, pass: Some(pass) }));
        of.extend(&pool.members);
    }
    for i in items.iter().filter(|i| !packer.items[**i].needs.iter().any(|need| registers(need).is_some())) {
        guests.extend(
            packer.items[*i].needs.iter().map(|need| Guest { counters: need.counters(), pass: None }),
        );
        of.push(*i);
    }
    let assigned = assign_all(&guests, &vec![packer.pmus[0]; passes])?;
    let members = |pass| -> Vec<usize> {
        of.iter().zip(&assigned).filter(|(_, at)| **at == pass).map(|(i, _)| *i).collect()
    };
    (0..passes).map(|pass| assigned_pass(packer, &members(pass), &mut TrialBudget(super::BUDGET))).collect()
}

/// The assignments of events that are in one pass.
pub(super) fn assigned_pass(
    packer: &PassPacker,
    members: &[usize],
    budget: &mut TrialBudget,
) -> Option<Vec<CounterAssignment>> {
    let items: Vec<&PackedEvent> = members.iter().map(|i| &packer.items[*i]).collect();
    match fit(&items, &packer.pmus, budget) {
        PassFit::Yes(chosen) => {
            Some(items.iter().zip(&chosen).flat_map(|(item, chosen)| assignments(item, chosen)).collect())
        }
        PassFit::No | PassFit::Unknown => None,
    }
}

/// Events of one value that can be in one pass.
struct Chunk {
    registers: CounterBits,
    members: Vec<usize>,
    counters: Vec<CounterBits>,
}

/// As few chunks as the counters allow: the first event of each counter, then the second.
fn chunks(class: &ValueClass) -> Vec<Chunk> {
    let counters: Vec<CounterBits> = class.members.iter().map(|(_, counters)| *counters).collect();
    let loads = spread(&counters);
    let chunk = || Chunk { registers: class.registers, members: Vec::new(), counters: Vec::new() };
    let mut chunks: Vec<Chunk> = (0..loads.passes).map(|_| chunk()).collect();
    let mut used = [0; 128];
    for ((item, counters), bit) in class.members.iter().zip(&loads.given) {
        let chunk = &mut chunks[used[usize::from(*bit)]];
        used[usize::from(*bit)] += 1;
        chunk.members.push(*item);
        chunk.counters.push(*counters);
    }
    chunks
}

/// The registers and events of one pass.
#[derive(Clone, Default)]
struct PassResources {
    registers: Vec<CounterBits>,
    members: Vec<usize>,
    counters: Vec<CounterBits>,
}

impl PassResources {
    fn takes(&self, chunk: &Chunk, available: CounterBits) -> bool {
        let registers: Vec<CounterBits> = self.registers.iter().copied().chain([chunk.registers]).collect();
        let counters: Vec<CounterBits> = self.counters.iter().chain(&chunk.counters).copied().collect();
        let all = |masks: &[CounterBits], available| match_bits(masks, available).iter().all(Option::is_some);
        all(&registers, CounterBits::MAX) && all(&counters, available)
    }

    fn add(&mut self, chunk: Chunk) {
        self.registers.push(chunk.registers);
        self.members.extend(chunk.members);
        self.counters.extend(chunk.counters);
    }
}

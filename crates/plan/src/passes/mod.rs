//! Events to passes: the smallest number of passes, and why it cannot be smaller.
//!
//! Three ways, from the cheap and exact to the general one. Events that fit at once make one pass. Events
//! without groups are spread over counters and registers (`flow`) and then coloured (`colour`), which is
//! exact and quick for any number of events. Sets that must stay together, and events that take two counters,
//! are packed by a search with a budget (`search`), whose result says how far it is proved.

mod assign;
mod bound;
mod colour;
mod conflict;
mod flow;
mod one;
mod order;
mod search;
mod shared;
mod spread;
#[cfg(test)]
mod tests;

use cyclometer_core::event::{ExtraRegister, ExtraRegisterKind};
use cyclometer_core::{CounterId, CounterMask};

use crate::matching::{CounterBits, bits, counter};

/// Events that want counters, and the counters.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PackingProblem {
    /// The counters that are free, of each PMU.
    pub pmus: Vec<CounterMask>,
    /// The events.
    pub demands: Vec<Demand>,
    /// Sets of events, by index, each of which has to be whole in one pass.
    pub together: Vec<Vec<usize>>,
    /// Sets of events that are better whole in one pass, where that costs no pass.
    pub partners: Vec<Vec<usize>>,
    /// Whether counters that stay free repeat events of other passes.
    pub repeats: bool,
}

/// One event.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Demand {
    /// The needs of the event; one entry for each PMU that counts it.
    pub needs: Vec<PmuNeed>,
    /// Whether nothing else may count in its pass.
    pub alone: bool,
}

/// The needs of an event on one PMU.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PmuNeed {
    /// Index of the PMU.
    pub pmu: usize,
    /// The ways to count it, best first; one of them is enough.
    pub ways: Vec<CounterEncoding>,
    /// Whether it takes an even counter and the one behind it.
    pub wide: bool,
}

/// One way to count an event.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CounterEncoding {
    /// The counters that can do it; of an event that takes two, the first one.
    pub counters: CounterMask,
    /// The value that a shared register must hold.
    pub extra: Option<ExtraRegister>,
}

/// Events in passes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packing {
    /// The passes, each with who sits where.
    pub passes: Vec<Vec<CounterAssignment>>,
    /// No plan has fewer passes than this; where it is the number of passes, the plan is proved minimal.
    pub lower_bound: usize,
    /// Why not.
    pub certificate: Certificate,
    /// Events that no pass can count, and sets of `together` that no pass can hold.
    pub refused: Vec<Unplaceable>,
}

impl Packing {
    /// Whether no plan has fewer passes.
    pub fn is_optimal(&self) -> bool {
        self.passes.len() == self.lower_bound
    }
}

/// An event on a counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CounterAssignment {
    /// Index of the event.
    pub demand: usize,
    /// Index of the PMU.
    pub pmu: usize,
    /// Index of the way that was chosen.
    pub way: usize,
    /// The counter; of an event that takes two, the first one.
    pub counter: CounterId,
    /// Whether another pass counts the event already, so that this one is for a counter that would be free.
    pub repeats: bool,
}

impl CounterAssignment {
    /// The counters that it takes; `wide` says whether the event takes two.
    pub fn counters(&self, wide: bool) -> CounterMask {
        let second = match self.counter {
            CounterId::General(n) if wide => Some(CounterId::General(n + 1)),
            _ => None,
        };
        std::iter::once(self.counter).chain(second).collect()
    }
}

/// Why there are no fewer passes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Certificate {
    /// There is nothing to count.
    Nothing,
    /// It is one pass.
    One,
    /// So many events can use these counters only. An event that takes two counters is there twice.
    Counters {
        /// Index of the PMU.
        pmu: usize,
        /// The counters.
        counters: CounterMask,
        /// The events, by index.
        events: Vec<usize>,
    },
    /// So many values are needed in these registers only, and each holds one in a pass.
    Registers {
        /// Index of the PMU.
        pmu: usize,
        /// The registers.
        registers: Vec<ExtraRegisterKind>,
        /// For each value an event that needs it, by index.
        events: Vec<usize>,
    },
    /// No two of these sets fit into one pass; a set is of events, by index.
    Apart {
        /// The sets.
        sets: Vec<Vec<usize>>,
    },
    /// No more than so many of these sets, which share no event, fit into one pass: the smallest of them
    /// would already have more events than there are counters. A set is of events, by index.
    Crowded {
        /// Index of the PMU.
        pmu: usize,
        /// All counters that any of their events can use.
        counters: CounterMask,
        /// The sets.
        sets: Vec<Vec<usize>>,
        /// How many fit at most.
        at_most: usize,
    },
    /// A search found that one pass fewer is not enough.
    Searched {
        /// How many partial plans were looked at.
        nodes: u64,
    },
    /// Beside what another certificate proves, so many events are each alone.
    Alone {
        /// The events, by index.
        events: Vec<usize>,
        /// Why the others need as many passes as they do.
        others: Box<Certificate>,
    },
}

/// Events and sets that cannot be counted at all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unplaceable {
    /// None of the free counters can count the event.
    Event(usize),
    /// A set of `together`, by index, that does not fit into one pass.
    Set {
        /// The set.
        set: usize,
        /// A part of it that does not fit, though it does with any event less.
        conflict: Conflict,
    },
}

/// Events that cannot be counted at the same time, though all but any one of them can; unless it is not known
/// that they cannot ([`Because::Unknown`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conflict {
    /// The events, by index.
    pub events: Vec<usize>,
    /// Why.
    pub because: Because,
}

/// Why events cannot be counted at the same time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Because {
    /// They share these counters, which are fewer than the places that they take.
    Counters {
        /// Index of the PMU.
        pmu: usize,
        /// All counters that any of them can use.
        counters: CounterMask,
        /// The counters that they need: two for an event that takes two.
        places: usize,
    },
    /// They need different values in these registers.
    Registers {
        /// Index of the PMU.
        pmu: usize,
        /// All registers that any of them can use.
        registers: Vec<ExtraRegisterKind>,
    },
    /// Counters and registers together.
    Both,
    /// It must be alone, which it is not.
    Alone,
    /// None of the free counters can count it.
    Impossible,
    /// No way was found, and not all were tried.
    Unknown,
}

/// Packs events into as few passes as it can, and says what is proved about that.
///
/// Events and sets that do not fit at all are left out and refused. The time is bounded whatever the input:
/// the search for sets and pairs has a budget of a fixed number of steps.
pub fn pack(problem: &PackingProblem) -> Packing {
    let refused = conflict::refused(problem);
    let packer = PassPacker::new(problem, &refused);
    let mut packing = packer.pack(&problem.together, BUDGET);
    if let Some(better) = order::with_partners(&packer, &problem.together, &problem.partners, &packing) {
        packing = better;
    }
    order::finish(&packer, &problem.together, &mut packing);
    packing.refused = refused;
    packing
}

/// Events among `events` that cannot be counted at the same time, though they can with any event less, if
/// there are such: the fewest where counters or registers alone are the reason.
pub fn conflict(problem: &PackingProblem, events: &[usize]) -> Option<Conflict> {
    conflict::smallest(problem, events)
}

/// Events that may still be placed on trial.
#[derive(Clone, Copy, Debug)]
struct TrialBudget(u64);

impl TrialBudget {
    /// Places so many events; false when the budget is used up.
    fn spend(&mut self, events: usize) -> bool {
        let left = self.0 > 0;
        self.0 = self.0.saturating_sub(1 + events as u64);
        left
    }
}

/// Events that a search places on trial before it takes what it has: some tens of milliseconds.
const BUDGET: u64 = 400_000;

/// Events without sets that are searched when spreading them is not proved to be best.
const MOST_SEARCHED: usize = 64;

/// An event with what is possible now.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct PackedEvent {
    /// Index of the demand.
    demand: usize,
    needs: Vec<PackedNeed>,
    alone: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct PackedNeed {
    pmu: usize,
    ways: Vec<PackedEncoding>,
    wide: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct PackedEncoding {
    /// Index of the way in the demand.
    way: usize,
    counters: CounterBits,
    extra: Option<(ExtraRegisterKind, u64)>,
}

impl PackedNeed {
    fn new(need: &PmuNeed, available: CounterBits) -> PackedNeed {
        let usable = |(way, of): (usize, &CounterEncoding)| {
            let counters =
                if need.wide { firsts(bits(of.counters), available) } else { bits(of.counters) & available };
            let extra = of.extra.map(|extra| (extra.register, extra.value));
            (counters != 0).then_some(PackedEncoding { way, counters, extra })
        };
        let ways = need.ways.iter().enumerate().filter_map(usable).collect();
        PackedNeed { pmu: need.pmu, ways, wide: need.wide }
    }

    /// All counters that any way can use.
    fn counters(&self) -> CounterBits {
        self.ways.iter().fold(0, |all, way| all | way.counters)
    }

    fn has_registers(&self) -> bool {
        self.ways.iter().any(|way| way.extra.is_some())
    }

    /// Whether the choice of a register leaves the choice of a counter as it is.
    fn is_uniform(&self) -> bool {
        let first = self.ways.first();
        self.ways.iter().all(|way| {
            first.is_some_and(|first| {
                way.counters == first.counters && way.extra.is_some() == first.extra.is_some()
            })
        })
    }
}

/// The even counters among `mask` that are available with the one behind them.
fn firsts(mask: CounterBits, available: CounterBits) -> CounterBits {
    const EVEN: CounterBits = 0x5555_5555_5555_5555 << 64;
    mask & EVEN & available & available >> 1
}

/// A problem with what is possible now.
struct PassPacker {
    pmus: Vec<CounterBits>,
    /// Those that can be counted.
    items: Vec<PackedEvent>,
    /// For each demand its item.
    item_of: Vec<Option<usize>>,
    repeats: bool,
}

impl PassPacker {
    fn new(problem: &PackingProblem, refused: &[Unplaceable]) -> PassPacker {
        let pmus: Vec<CounterBits> = problem.pmus.iter().map(|mask| bits(*mask)).collect();
        let is_out = |demand: &usize| refused.contains(&Unplaceable::Event(*demand));
        let items: Vec<PackedEvent> =
            (0..problem.demands.len()).filter(|d| !is_out(d)).map(|d| item(problem, d, &pmus)).collect();
        let mut item_of = vec![None; problem.demands.len()];
        items.iter().enumerate().for_each(|(i, item)| item_of[item.demand] = Some(i));
        PassPacker { pmus, items, item_of, repeats: problem.repeats }
    }

    /// Packs all items; sets are of demands. Sets that no pass can hold are left out.
    fn pack(&self, sets: &[Vec<usize>], budget: u64) -> Packing {
        let wanting = (0..self.items.len()).filter(|i| !self.items[*i].needs.is_empty());
        let (alone, items): (Vec<usize>, Vec<usize>) = wanting.partition(|i| self.items[*i].alone);
        let mut packing = self.pack_beside(&items, &self.sets(sets), budget);
        if !alone.is_empty() {
            let own =
                alone.iter().filter_map(|i| shared::assigned_pass(self, &[*i], &mut TrialBudget(BUDGET)));
            packing.passes.extend(own);
            packing.lower_bound += alone.len();
            let events = alone.iter().map(|i| self.items[*i].demand).collect();
            packing.certificate = Certificate::Alone { events, others: Box::new(packing.certificate) };
        }
        packing
    }

    fn pack_beside(&self, items: &[usize], sets: &[Vec<usize>], budget: u64) -> Packing {
        let (lower_bound, certificate) = bound::lower(self, items);
        let packing =
            |passes| Packing { passes, lower_bound, certificate: certificate.clone(), refused: Vec::new() };
        if items.is_empty() {
            return packing(Vec::new());
        }
        let at_once =
            (lower_bound == 1).then(|| shared::assigned_pass(self, items, &mut TrialBudget(BUDGET)));
        if let Some(pass) = at_once.flatten() {
            return packing(vec![pass]);
        }
        let spread = sets.is_empty().then(|| spread::spread(self, items)).flatten();
        let Some(passes) = spread else { return search::pack(self, items, sets, budget) };
        let fewer = (lower_bound..passes.len()).find_map(|fewer| shared::share(self, items, fewer));
        let found = packing(fewer.unwrap_or(passes));
        if found.is_optimal() || items.len() > MOST_SEARCHED {
            return found;
        }
        let searched = search::pack(self, items, sets, budget);
        let better = searched.passes.len() < found.passes.len() || searched.lower_bound > found.lower_bound;
        if better { searched } else { found }
    }

    /// Sets of items that a pass can hold, without those that lie within another.
    fn sets(&self, sets: &[Vec<usize>]) -> Vec<Vec<usize>> {
        let mut found: Vec<Vec<usize>> = Vec::new();
        for set in sets {
            // One with an event that nothing can count is refused as a whole.
            let own: Option<Vec<usize>> = set.iter().map(|demand| self.item_of[*demand]).collect();
            let Some(mut own) = own else { continue };
            own.sort_unstable();
            own.dedup();
            let alone = own.iter().any(|i| self.items[*i].alone);
            if own.len() > 1
                && !alone
                && shared::assigned_pass(self, &own, &mut TrialBudget(BUDGET)).is_some()
            {
                found.push(own);
            }
        }
        found.sort_by_key(|set| std::cmp::Reverse(set.len()));
        let all = std::mem::take(&mut found);
        for set in all {
            if !found.iter().any(|other| set.iter().all(|i| other.contains(i))) {
                found.push(set);
            }
        }
        found
    }
}

fn item(problem: &PackingProblem, demand: usize, pmus: &[CounterBits]) -> PackedEvent {
    let of = &problem.demands[demand];
    let available = |need: &PmuNeed| pmus.get(need.pmu).copied().unwrap_or(0);
    let needs = of.needs.iter().map(|need| PackedNeed::new(need, available(need))).collect();
    PackedEvent { demand, needs, alone: of.alone }
}

/// Assignments of an item by what was chosen for each of its needs.
fn assignments<'a>(
    item: &'a PackedEvent,
    chosen: &'a [one::Chosen],
) -> impl Iterator<Item = CounterAssignment> + 'a {
    item.needs.iter().zip(chosen).map(|(need, (way, bit))| CounterAssignment {
        demand: item.demand,
        pmu: need.pmu,
        way: need.ways[*way].way,
        counter: counter(*bit),
        repeats: false,
    })
}

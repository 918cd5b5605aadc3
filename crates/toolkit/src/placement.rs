//! Which events of a CPU of the catalogue count at once, on which counters, and in how many passes all of
//! them.

use std::collections::BTreeMap;

use cyclometer_arch::{Coded, takes_two_counters};
use cyclometer_catalog::among::select_in;
use cyclometer_catalog::select::{Selected, chip};
use cyclometer_catalog::table::Cpu;
use cyclometer_catalog::table_id;
use cyclometer_catalog::ways::{self, usable};
use cyclometer_core::ladder::Works;
use cyclometer_core::syntax::EventRequest;
use cyclometer_core::{CounterMask, Machine, Modifiers, Result, Rung};
use cyclometer_plan::passes::{CounterEncoding, Demand, PackingProblem, PmuNeed, pack};

pub use cyclometer_plan::passes::{Because, Certificate, Conflict, CounterAssignment, Packing, Unplaceable};
pub use cyclometer_plan::taken_by_watchdog as held_by_watchdog;
pub use cyclometer_plan::words;

use crate::metric::events_of_metrics;

/// Events of a CPU in passes.
#[derive(Clone, Debug)]
pub struct Placement<'a> {
    /// The events, in the order of the request, each once.
    pub events: Vec<PlacementEvent<'a>>,
    /// The groups of the request that have two events and more: indices into `events`.
    pub groups: Vec<Vec<usize>>,
    /// The passes, and why there are no fewer. Its indices of events are those into `events`, of sets those
    /// into `groups`, and there is one PMU.
    pub packing: Packing,
    /// The counters that were there to be used.
    pub counters: CounterMask,
    problem: PackingProblem,
}

/// One event of a placement.
#[derive(Clone, Debug)]
pub struct PlacementEvent<'a> {
    /// As it was written, as often as it was.
    pub texts: Vec<String>,
    /// The event as it was selected on the CPU.
    pub selected: Selected<'a>,
    /// The counters that may count it, whether they are free or not.
    pub allowed: CounterMask,
    /// The counters that may count it when it is not pinned.
    pub unpinned: CounterMask,
    /// Whether it takes an even counter and the one behind it.
    pub wide: bool,
    /// The codes that count it, by [`CounterAssignment::way`].
    pub codes: Vec<Coded>,
    modifiers: Modifiers,
    pin: Option<u8>,
}

/// Counters that are not free, and uses of those that stay free.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wishes {
    /// Counters that are in use by others.
    pub without: CounterMask,
    /// Whether counters that stay free repeat events of other passes.
    pub repeats: bool,
}

impl<'a> Placement<'a> {
    /// Plans the events of a CPU in as few passes as possible, whatever their order. A pin (`event@7`) leaves
    /// an event one counter; events of a `{group}` are in one pass. Among plans of the same length, it
    /// prefers one that keeps the events of metrics together.
    ///
    /// `tables` are those of one CPU, best first: each event is what the first that has it says. The counters
    /// are those of the first table.
    ///
    /// # Errors
    ///
    /// Those of [`cyclometer_catalog::select::select`].
    pub fn of(tables: &[Cpu<'a>], requests: &[EventRequest], wishes: Wishes) -> Result<Placement<'a>> {
        let mut events: Vec<PlacementEvent<'a>> = Vec::new();
        let (mut groups, mut partners): (BTreeMap<u32, Vec<usize>>, Vec<Vec<usize>>) = Default::default();
        for request in requests {
            let mut own = Vec::new();
            for selected in select_in(tables, request)? {
                own.push(PlacementEvent::add(&mut events, tables, request, selected));
            }
            if let Some(group) = request.group {
                groups.entry(group).or_default().extend(&own);
            }
            partners.push(own);
        }
        let all = tables.first().map_or(CounterMask::EMPTY, Cpu::counters);
        let counters = all.without(wishes.without);
        partners.extend(of_metrics(tables, &events));
        let several = |mut sets: Vec<Vec<usize>>| -> Vec<Vec<usize>> {
            sets.iter_mut().for_each(|set| {
                set.sort_unstable();
                set.dedup();
            });
            sets.into_iter().filter(|set| set.len() > 1).collect()
        };
        let problem = PackingProblem {
            pmus: vec![counters],
            demands: events.iter().map(|event| event.demand(tables.first())).collect(),
            together: several(groups.into_values().collect()),
            partners: several(partners),
            repeats: wishes.repeats,
        };
        let packing = pack(&problem);
        Ok(Placement { events, groups: problem.together.clone(), packing, counters, problem })
    }

    /// The smallest number of these events that cannot count at the same time, if there are such.
    pub fn conflict(&self, events: &[usize]) -> Option<Conflict> {
        cyclometer_plan::passes::conflict(&self.problem, events)
    }

    /// The counters that stay free in a pass.
    pub fn free_in(&self, pass: &[CounterAssignment]) -> CounterMask {
        let taken = pass.iter().map(|assignment| assignment.counters(self.events[assignment.demand].wide));
        taken.fold(self.counters, |free, own| free.without(own))
    }
}

impl<'a> PlacementEvent<'a> {
    /// The index of an event: that of the same one, if it was named before.
    fn add(
        events: &mut Vec<PlacementEvent<'a>>,
        tables: &[Cpu<'a>],
        request: &EventRequest,
        selected: Selected<'a>,
    ) -> usize {
        let is_same = |other: &PlacementEvent<'_>| {
            (&other.selected.name, other.selected.coded.code, other.selected.coded.config, other.pin)
                == (&selected.name, selected.coded.code, selected.coded.config, request.pin)
                && other.selected.coded.counters == selected.coded.counters
                && other.modifiers == request.modifiers
        };
        if let Some(at) = events.iter().position(is_same) {
            events[at].texts.push(request.text.clone());
            return at;
        }
        let codes = ways::codes(tables, &selected);
        let Some(cpu) = tables.first() else { return 0 };
        let usable = |pin| {
            let each = codes.iter().map(|coded| usable(cpu.counters(), coded.counters, pin));
            each.fold(CounterMask::EMPTY, |all, own| all.or(own))
        };
        events.push(PlacementEvent {
            texts: vec![request.text.clone()],
            allowed: usable(request.pin),
            unpinned: usable(None),
            wide: takes_two_counters(&chip(cpu), &selected.coded),
            codes,
            selected,
            modifiers: request.modifiers,
            pin: request.pin,
        });
        events.len() - 1
    }

    /// The demand of the event, as the planner takes it.
    fn demand(&self, cpu: Option<&Cpu<'_>>) -> Demand {
        let way = |coded: &Coded| {
            let counters =
                cpu.map_or(CounterMask::EMPTY, |cpu| usable(cpu.counters(), coded.counters, self.pin));
            CounterEncoding { counters, extra: coded.code.extra }
        };
        let need = PmuNeed { pmu: 0, ways: self.codes.iter().map(way).collect(), wide: self.wide };
        // An event must be alone only when it is sampled, and nothing is sampled here.
        Demand { needs: vec![need], alone: false }
    }

    fn is_named(&self, name: &str) -> bool {
        let names = self.texts.iter().chain([&self.selected.name]);
        names.into_iter().any(|own| own.eq_ignore_ascii_case(name))
    }
}

/// The counters of a CPU that the power manager of a Mac keeps from kperf.
pub fn held_by_power_manager(machine: &Machine, cpu: &Cpu<'_>) -> CounterMask {
    let state = machine.ladder.state(Rung::Kperf);
    if !state.is_some_and(|state| state.works == Works::Partly) {
        return CounterMask::EMPTY;
    }
    let core = machine.core_types.iter().find(|core| table_id(core) == cpu.id());
    let left = core.and_then(|core| core.pmu.known_counters());
    left.map_or(CounterMask::EMPTY, |left| cpu.counters().without(left))
}

/// For each metric of a CPU those of its events that are there.
fn of_metrics(tables: &[Cpu<'_>], events: &[PlacementEvent<'_>]) -> Vec<Vec<usize>> {
    let Some(cpu) = tables.first() else { return Vec::new() };
    let own = |names: Vec<String>| {
        let at = |name: &String| events.iter().position(|event| event.is_named(name));
        names.iter().filter_map(at).collect::<Vec<usize>>()
    };
    events_of_metrics(cpu.id()).map(own).collect()
}

#[cfg(test)]
mod tests;

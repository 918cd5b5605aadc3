//! Which events can count at once on a CPU of the catalogue, and on which counters.

mod search;
mod ways;

use cyclometer_arch::{Coded, takes_two_counters};
use cyclometer_catalog::select::{Selected, chip};
use cyclometer_catalog::table::Cpu;
use cyclometer_core::event::ExtraRegister;
use cyclometer_core::syntax::EventRequest;
use cyclometer_core::{CounterId, CounterMask, Result};

use crate::lookup::select_in;
use search::{Item, Solution, Way};

/// What becomes of events that are to count at the same time.
#[derive(Clone, Debug, Default)]
pub struct Placement<'a> {
    /// Each event with its counter, in the order of the request; `None` for those that do not fit beside the others.
    pub events: Vec<Placed<'a>>,
    /// The counters that stay free.
    pub free: CounterMask,
}

/// One event of a placement.
#[derive(Clone, Debug)]
pub struct Placed<'a> {
    /// As it was written.
    pub text: String,
    /// What it is on the CPU.
    pub selected: Selected<'a>,
    /// The counters that may count it.
    pub allowed: CounterMask,
    /// Where it counts, or why it cannot beside the others.
    pub counter: std::result::Result<CounterId, Obstacle>,
}

/// Why an event does not fit beside others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Obstacle {
    /// Every counter that it may use is taken by an event that can use no other.
    Counters,
    /// Another event needs a different value in a register that both refine their event by.
    Register {
        /// The register.
        register: &'static str,
        /// The other event.
        other: String,
    },
}

/// Places events of a CPU: as many as possible at once, whatever their order. A pin (`event@7`) leaves an event one counter.
///
/// `tables` are those of one CPU, best first: each event is what the first that has it says. The counters are those of
/// the first table.
///
/// # Errors
///
/// Those of [`cyclometer_catalog::select::select`].
pub fn place<'a>(tables: &[Cpu<'a>], requests: &[EventRequest]) -> Result<Placement<'a>> {
    let Some(cpu) = tables.first() else { return Ok(Placement::default()) };
    let (mut events, mut all) = (Vec::new(), Vec::new());
    for request in requests {
        for selected in select_in(tables, request)? {
            let codes = ways::codes(tables, &selected);
            let ways: Vec<Way> = codes.iter().map(|coded| way(cpu, coded, request.pin)).collect();
            let allowed = ways.iter().fold(CounterMask::EMPTY, |all, way| all.or(way.mask));
            let wide = takes_two_counters(&chip(cpu), &selected.coded);
            let counter = Err(Obstacle::Counters);
            events.push(Placed { text: request.text.clone(), selected, allowed, counter });
            all.push((Item { ways, wide }, codes));
        }
    }
    let (items, codes): (Vec<Item>, Vec<Vec<Coded>>) = all.into_iter().unzip();
    let Solution { placed, taken } = search::solve(&items, cpu.counters());
    for (i, found) in placed.into_iter().enumerate() {
        if let Some((way, counter)) = found {
            events[i].selected.coded = codes[i][way];
            events[i].counter = Ok(counter);
        }
    }
    explain(&mut events, &items);
    Ok(Placement { events, free: cpu.counters().without(taken) })
}

/// Says of the events without a counter which register keeps them out, where one does.
fn explain(events: &mut [Placed<'_>], items: &[Item]) {
    let placed = events.iter().filter(|event| event.counter.is_ok());
    let held: Vec<(ExtraRegister, String)> = placed
        .filter_map(|event| Some((event.selected.coded.code.extra?, event.selected.name.clone())))
        .collect();
    let holder = |way: &Way| {
        let wanted = way.extra?;
        held.iter().find(|(extra, _)| extra.register == wanted.register && extra.value != wanted.value)
    };
    for (event, item) in events.iter_mut().zip(items).filter(|(event, _)| event.counter.is_err()) {
        let usable = |way: &&Way| !way.mask.is_empty();
        let holders: Option<Vec<_>> = item.ways.iter().filter(usable).map(holder).collect();
        if let Some((extra, other)) = holders.and_then(|holders| holders.first().copied()) {
            let register = extra.register.name();
            event.counter = Err(Obstacle::Register { register, other: other.clone() });
        }
    }
}

fn way(cpu: &Cpu<'_>, coded: &Coded, pin: Option<u8>) -> Way {
    Way { extra: coded.code.extra, mask: allowed(cpu, coded.counters, pin) }
}

/// The counters of a CPU among those that a vendor names, which are the general ones where it names none.
fn allowed(cpu: &Cpu<'_>, named: CounterMask, pin: Option<u8>) -> CounterMask {
    let all = match named.is_empty() {
        true => CounterMask::from_bits(cpu.counters().general_bits(), 0),
        false => named.and(cpu.counters()),
    };
    match pin {
        None => all,
        Some(n) => {
            let bit = 1u64.checked_shl(n.into()).unwrap_or(0);
            let general = CounterMask::from_bits(all.general_bits() & bit, 0);
            if general.is_empty() { all.and(CounterMask::from_bits(0, bit)) } else { general }
        }
    }
}

#[cfg(test)]
mod tests;

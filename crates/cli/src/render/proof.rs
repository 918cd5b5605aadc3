//! Why a plan has as many passes as it has, and why events cannot meet, in words.

use cyclometer::core::CounterMask;
use cyclometer::placement::{Because, Certificate, Conflict, Placement};

/// Names of events that are spelled out before the rest is counted.
const NAMED: usize = 5;

/// Why there are no fewer passes; empty where that needs no reason.
pub fn certificate(placement: &Placement<'_>) -> String {
    let packing = &placement.packing;
    let passes = packing.passes.len();
    let why = because(placement, &packing.certificate);
    match packing.is_optimal() || why.is_empty() {
        true => why,
        false => format!("{why}; a search found {passes} and gave up looking for fewer"),
    }
}

fn because(placement: &Placement<'_>, certificate: &Certificate) -> String {
    match certificate {
        Certificate::Nothing | Certificate::One => String::new(),
        Certificate::Counters { counters, events, .. } => by_counters(placement, *counters, events),
        Certificate::Registers { registers, events, .. } => {
            let names: Vec<&str> = registers.iter().map(|register| register.name()).collect();
            let needed = least(events.len(), registers.len());
            format!("{} values are needed in {}: {needed}", events.len(), listed(&names))
        }
        Certificate::Apart { sets } => {
            format!("no two of {} groups fit into one pass: {} passes", sets.len(), sets.len())
        }
        Certificate::Crowded { counters, sets, at_most, .. } => {
            let needed = least(sets.len(), *at_most);
            let groups = if *at_most == 1 { "1 group".to_owned() } else { format!("{at_most} groups") };
            let words = counter_words(placement, *counters);
            format!("of {} groups no more than {groups} of the smallest fit on {words}: {needed}", sets.len())
        }
        Certificate::Searched { .. } => {
            let fewer = placement.packing.lower_bound - 1;
            format!("every way to do it in {} was tried", passes(fewer))
        }
        Certificate::Alone { events, others } => {
            let rest = because(placement, others);
            let alone = format!("{} must each be alone", named(placement, events));
            if rest.is_empty() { alone } else { format!("{alone}; of the others: {rest}") }
        }
    }
}

fn by_counters(placement: &Placement<'_>, counters: CounterMask, events: &[usize]) -> String {
    let mut each = events.to_vec();
    each.sort_unstable();
    each.dedup();
    let needed = least(events.len(), counters.len() as usize);
    let pairs = events.len() - each.len();
    let taking = match pairs {
        0 => String::new(),
        _ => format!(" take {} places and", events.len()),
    };
    format!("{} events{taking} can only use {}: {needed}", each.len(), counter_words(placement, counters))
}

/// Counters with the word that they need, or that they are all there are.
fn counter_words(placement: &Placement<'_>, counters: CounterMask) -> String {
    let noun = if counters.len() == 1 { "counter" } else { "counters" };
    let all = if counters == placement.counters { ", all that there are" } else { "" };
    format!("{noun} {counters}{all}")
}

fn least(wanted: usize, places: usize) -> String {
    let needed = wanted.div_ceil(places.max(1));
    match places {
        1 => passes(needed),
        _ => format!("{wanted} / {places} = {}", rounded(wanted, places)),
    }
}

fn rounded(wanted: usize, places: usize) -> String {
    let needed = passes(wanted.div_ceil(places));
    match wanted % places {
        0 => needed,
        _ => format!("{:.1}, so {needed}", wanted as f64 / places as f64),
    }
}

/// `1 pass`, `8 passes`.
pub fn passes(count: usize) -> String {
    if count == 1 { "1 pass".to_owned() } else { format!("{count} passes") }
}

/// Why some of these events cannot be counted at the same time: all that are confined to counters, where these are too few.
pub fn conflict(placement: &Placement<'_>, conflict: &Conflict, among: &[usize]) -> String {
    match &conflict.because {
        Because::Counters { counters, .. } => {
            let confined: Vec<usize> =
                among.iter().copied().filter(|event| is_confined(placement, *event, *counters)).collect();
            let each = if confined.len() > 2 { "can each" } else { "can both" };
            format!("{} {each} only use {}", named(placement, &confined), counter_words(placement, *counters))
        }
        Because::Registers { registers, .. } => {
            let names = named(placement, &conflict.events);
            let registers: Vec<&str> = registers.iter().map(|register| register.name()).collect();
            let there = if registers.len() == 1 { "which holds one" } else { "which hold one each" };
            format!("{names} need different values in {}, {there}", listed(&registers))
        }
        Because::Both => {
            let names = named(placement, &conflict.events);
            format!("{names} cannot be placed at the same time: counters and registers do not suffice")
        }
    }
}

/// Whether an event can use these counters only.
pub fn is_confined(placement: &Placement<'_>, event: usize, counters: CounterMask) -> bool {
    let event = &placement.events[event];
    let usable = event.allowed.and(placement.counters);
    !event.wide && !usable.is_empty() && usable.without(counters).is_empty()
}

/// The names of events, as they were asked for; of many the first ones.
pub fn named(placement: &Placement<'_>, events: &[usize]) -> String {
    let name = |event: &usize| placement.events[*event].selected.name.as_str();
    let names: Vec<&str> = events.iter().take(NAMED).map(name).collect();
    match events.len().saturating_sub(NAMED) {
        0 => listed(&names),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

//! Events on their counters, for people and as JSON.

use cyclometer::arch::takes_two_counters;
use cyclometer::catalogue::select::chip;
use cyclometer::catalogue::table::Cpu;
use cyclometer::core::{CounterId, CounterMask};
use cyclometer::placement::{Obstacle, Placed, Placement};
use serde_json::{Value, json};

use crate::output::clean;
use crate::render::events::counters;
use crate::render::hanging;
use crate::render::paint::{Paint, Style};

/// What becomes of events on one core type.
pub struct OnCpu<'a> {
    /// The core type.
    pub cpu: Cpu<'a>,
    /// The events that it has.
    pub placement: Placement<'a>,
    /// Those that it lacks, as they were written, and why.
    pub lacking: Vec<(String, String)>,
}

/// For each CPU its events with their counters, and those that do not fit beside them.
pub fn render(placed: &[OnCpu<'_>], paint: Paint) -> String {
    placed.iter().map(|on| one(on, paint)).collect()
}

fn one(OnCpu { cpu, placement, lacking }: &OnCpu<'_>, paint: Paint) -> String {
    let bad = |text: &str| hanging("  not       ", text, |line| paint.paint(Style::Bad, line));
    let mut out = format!("{}\n", paint.paint(Style::Heading, &format!("at once on {}", cpu.id())));
    for event in &placement.events {
        out += &match &event.counter {
            Ok(counter) => {
                format!("  {:<9} {}{}\n", name(*counter), event.selected.name, second(cpu, event, *counter))
            }
            Err(obstacle) => bad(&format!("{}: {}", event.selected.name, reason(cpu, event, obstacle))),
        };
    }
    for (event, why) in lacking {
        out += &bad(&clean(&format!("{event}: {why}")));
    }
    if !placement.free.is_empty() {
        out += &paint.paint(Style::Dim, &format!("  free      {}", counters(placement.free)));
        out.push('\n');
    }
    out
}

/// The second counter of an event that takes two.
fn second(cpu: &Cpu<'_>, event: &Placed<'_>, counter: CounterId) -> String {
    match counter {
        CounterId::General(n) if takes_two_counters(&chip(cpu), &event.selected.coded) => {
            format!(", with {}", name(CounterId::General(n + 1)))
        }
        _ => String::new(),
    }
}

fn name(counter: CounterId) -> String {
    match counter {
        CounterId::General(n) => format!("PMC{n}"),
        CounterId::Fixed(n) => format!("fixed {n}"),
    }
}

/// The counters that may count an event that is not pinned.
fn unpinned(cpu: &Cpu<'_>, event: &Placed<'_>) -> CounterMask {
    let named = event.selected.coded.counters;
    match named.is_empty() {
        true => CounterMask::from_bits(cpu.counters().general_bits(), 0),
        false => named.and(cpu.counters()),
    }
}

fn reason(cpu: &Cpu<'_>, event: &Placed<'_>, obstacle: &Obstacle) -> String {
    match obstacle {
        Obstacle::Counters if cpu.counters().general_bits() == 0 => {
            "only the firmware knows which counters this CPU has".to_owned()
        }
        Obstacle::Counters if event.allowed.is_empty() && !unpinned(cpu, event).is_empty() => {
            format!("not on the counter behind its @; it may use {}", counters(unpinned(cpu, event)))
        }
        Obstacle::Counters if event.allowed.is_empty() => "no counter of this CPU may count it".to_owned(),
        Obstacle::Counters => format!("it may use {} only, which others need", counters(event.allowed)),
        Obstacle::Register { register, other } => {
            format!("{other} needs another value in {register}, which there is once")
        }
    }
}

/// For each CPU an object: the first pass, and what does not fit into it.
pub fn json(placed: &[OnCpu<'_>]) -> Value {
    let event = |event: &Placed<'_>| {
        let counter = event.counter.as_ref().ok().map(|counter| name(*counter));
        json!({ "event": event.selected.name, "counter": counter })
    };
    let misfit = |cpu: &Cpu<'_>, event: &Placed<'_>| {
        let reason = event.counter.as_ref().err().map(|obstacle| reason(cpu, event, obstacle));
        json!({ "event": event.selected.name, "reason": reason })
    };
    let lacks = |(event, why): &(String, String)| json!({ "event": event, "reason": why });
    let object = |OnCpu { cpu, placement, lacking }: &OnCpu<'_>| {
        let (fit, not): (Vec<_>, Vec<_>) = placement.events.iter().partition(|event| event.counter.is_ok());
        let unplaced = not.into_iter().map(|event| misfit(cpu, event));
        json!({
            "cpu": cpu.id(),
            "passes": [fit.into_iter().map(event).collect::<Vec<_>>()],
            "unplaced": unplaced.chain(lacking.iter().map(lacks)).collect::<Vec<_>>(),
        })
    };
    Value::Array(placed.iter().map(object).collect())
}

//! Events on their counters, for people and as JSON.

use cyclometer::catalogue::table::Cpu;
use cyclometer::core::CounterId;
use cyclometer::placement::{Obstacle, Placed, Placement};
use serde_json::{Value, json};

use crate::render::events::counters;
use crate::render::paint::{Paint, Style};

/// For each CPU its events with their counters, and those that do not fit beside them.
pub fn render(placed: &[(Cpu<'_>, Placement<'_>)], paint: Paint) -> String {
    placed.iter().map(|(cpu, placement)| one(cpu, placement, paint)).collect()
}

fn one(cpu: &Cpu<'_>, placement: &Placement<'_>, paint: Paint) -> String {
    let mut out = format!("{}\n", paint.paint(Style::Heading, &format!("at once on {}", cpu.id())));
    for event in &placement.events {
        out += &match &event.counter {
            Ok(counter) => format!("  {:<9} {}\n", name(*counter), event.selected.name),
            Err(obstacle) => {
                let text = format!("  not       {}: {}", event.selected.name, reason(event, obstacle));
                format!("{}\n", paint.paint(Style::Bad, &text))
            }
        };
    }
    if !placement.free.is_empty() {
        out += &paint.paint(Style::Dim, &format!("  free      {}", counters(placement.free)));
        out.push('\n');
    }
    out
}

fn name(counter: CounterId) -> String {
    match counter {
        CounterId::General(n) => format!("PMC{n}"),
        CounterId::Fixed(n) => format!("fixed {n}"),
    }
}

fn reason(event: &Placed<'_>, obstacle: &Obstacle) -> String {
    match obstacle {
        Obstacle::Counters if event.allowed.is_empty() => "no counter of this CPU may count it".to_owned(),
        Obstacle::Counters => format!("it may use {} only, which others need", counters(event.allowed)),
        Obstacle::Register { register, other } => {
            format!("{other} needs another value in {register}, which there is once")
        }
    }
}

/// For each CPU an object: the first pass, and what does not fit into it.
pub fn json(placed: &[(Cpu<'_>, Placement<'_>)]) -> Value {
    let event = |event: &Placed<'_>| {
        let counter = event.counter.as_ref().ok().map(|counter| name(*counter));
        json!({ "event": event.selected.name, "counter": counter })
    };
    let unplaced = |event: &Placed<'_>| {
        let reason = event.counter.as_ref().err().map(|obstacle| reason(event, obstacle));
        json!({ "event": event.selected.name, "reason": reason })
    };
    let object = |(cpu, placement): &(Cpu<'_>, Placement<'_>)| {
        let (fit, not): (Vec<_>, Vec<_>) = placement.events.iter().partition(|event| event.counter.is_ok());
        json!({
            "cpu": cpu.id(),
            "passes": [fit.into_iter().map(event).collect::<Vec<_>>()],
            "unplaced": not.into_iter().map(unplaced).collect::<Vec<_>>(),
        })
    };
    Value::Array(placed.iter().map(object).collect())
}

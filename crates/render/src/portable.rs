//! The portable events on a CPU of the catalogue, for people and as JSON.

use cyclometer_toolkit::catalogue::portable::{self, Portable, PortableEvents};
use cyclometer_toolkit::catalogue::search::Pattern;
use cyclometer_toolkit::catalogue::table::Cpu;
use serde_json::{Value, json};

use crate::paint::{Paint, Style};
use crate::{WIDTH, wrap};

/// Columns before the text below a name.
const INDENT: usize = 6;

/// A portable event with its resolution on a CPU.
pub struct PortableOnCpu {
    event: &'static Portable,
    answer: PortableEvents,
}

/// The portable events that fit a pattern by a name or by words of the description, on the core type that
/// has these tables, best first.
pub fn fitting(tables: &[Cpu<'_>], pattern: &Pattern) -> Vec<PortableOnCpu> {
    let Some(cpu) = tables.first() else { return Vec::new() };
    let has = |name: &str| tables.iter().any(|table| table.event(name).is_some());
    let fits = |event: &&Portable| {
        let mut names = std::iter::once(event.name()).chain(event.aliases().iter().copied());
        names.any(|name| pattern.fits(name, || event.about().to_owned()))
    };
    let on =
        |event: &'static Portable| PortableOnCpu { event, answer: event.among(cpu.family(), cpu.id(), has) };
    portable::all().iter().filter(fits).map(on).collect()
}

/// The events with the sum of the vendor's events that each is, or the reason why the CPU has none.
pub fn render(cpu: &Cpu<'_>, events: &[PortableOnCpu], paint: Paint) -> String {
    if events.is_empty() {
        return String::new();
    }
    let mut out = format!("{}\n", paint.paint(Style::Heading, &format!("portable events on {}", cpu.id())));
    for PortableOnCpu { event, answer } in events {
        let names: Vec<&str> = std::iter::once(event.name()).chain(event.aliases().iter().copied()).collect();
        for (i, line) in wrap(&names.join(", "), WIDTH - 2 - INDENT).iter().enumerate() {
            out += &format!("{:1$}{line}\n", "", if i == 0 { 2 } else { INDENT });
        }
        let below = [Some((Style::Dim, event.about().to_owned())), Some(resolved(answer)), note(answer)];
        for (style, text) in below.into_iter().flatten() {
            for line in wrap(&text, WIDTH - INDENT) {
                out += &format!("{:INDENT$}{}\n", "", paint.paint(style, &line));
            }
        }
    }
    out
}

fn resolved(answer: &PortableEvents) -> (Style, String) {
    match answer {
        PortableEvents::Event { names, .. } => (Style::Plain, names.join(" + ")),
        PortableEvents::None { reason, nearest } if nearest.is_empty() => {
            (Style::Bad, format!("not on this CPU: {reason}"))
        }
        PortableEvents::None { reason, nearest } => {
            (Style::Bad, format!("not on this CPU: {reason}; nearest: {}", nearest.join(", ")))
        }
    }
}

fn note(answer: &PortableEvents) -> Option<(Style, String)> {
    match answer {
        PortableEvents::Event { note, .. } => note.map(|note| (Style::Dim, note.to_owned())),
        PortableEvents::None { .. } => None,
    }
}

/// An object for each event.
pub fn json(cpu: &Cpu<'_>, events: &[PortableOnCpu]) -> Vec<Value> {
    let object = |PortableOnCpu { event, answer }: &PortableOnCpu| {
        let (summands, note, reason) = match answer {
            PortableEvents::Event { names, note } => (names.as_slice(), *note, None),
            PortableEvents::None { reason, .. } => (&[][..], None, Some(*reason)),
        };
        json!({
            "name": event.name(),
            "cpu": cpu.id(),
            "kind": "portable",
            "aliases": event.aliases(),
            "summands": summands,
            "description": event.about(),
            "note": note,
            "reason": reason,
        })
    };
    events.iter().map(object).collect()
}

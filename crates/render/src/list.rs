//! Events that can be named, for people and as JSON.

use cyclometer_toolkit::Listing;
use cyclometer_toolkit::catalogue::search::Pattern;
use cyclometer_toolkit::core::CounterMask;
use serde_json::{Value, json};

use crate::counters::{counters, fixed, numbers};
use crate::paint::{Paint, Style};
use crate::text::clean;
use crate::{WIDTH, wrap};

/// Columns before the text below a name.
const INDENT: usize = 6;

/// The events by kind, each with its description or the reason why it cannot be counted.
pub fn render(events: &[&Listing], paint: Paint) -> String {
    let mut out = String::new();
    let mut last = None;
    for event in events {
        if last != Some(event.kind) {
            out += &format!("{}\n", paint.paint(Style::Heading, &format!("{} events", event.kind.word())));
            last = Some(event.kind);
        }
        out += &entry(event, paint);
    }
    out
}

fn entry(event: &Listing, paint: Paint) -> String {
    let names: Vec<String> =
        [&event.name].into_iter().chain(&event.aliases).map(|name| clean(name)).collect();
    let mut out = String::new();
    for (i, line) in wrap(&names.join(", "), WIDTH - 2 - INDENT).iter().enumerate() {
        out += &format!("{:1$}{line}\n", "", if i == 0 { 2 } else { INDENT });
    }
    let mut about = clean(&event.description);
    if !event.unit.symbol().is_empty() {
        about += &format!(", in {}", clean(event.unit.symbol()));
    }
    if let Some(named) = event.counters {
        about += &format!("; counters {}", counters(named));
    }
    if event.deprecated {
        about += "; deprecated by the vendor";
    }
    let (style, state) = match &event.available {
        Ok(()) => (Style::Plain, String::new()),
        Err(reason) => (Style::Bad, format!("not here: {}", clean(reason))),
    };
    for line in wrap(&about, WIDTH - INDENT) {
        out += &format!("{:INDENT$}{}\n", "", paint.paint(Style::Dim, &line));
    }
    for line in wrap(&state, WIDTH - INDENT) {
        out += &format!("{:INDENT$}{}\n", "", paint.paint(style, &line));
    }
    out
}

/// An array with an object for each event.
///
/// Counters are null where no table names them: the kernel assigns such events.
pub fn json(events: &[&Listing]) -> Value {
    let entry = |event: &&Listing| {
        json!({
            "name": event.name,
            "aliases": event.aliases,
            "kind": event.kind.word(),
            "source": event.rung.word(),
            "unit": event.unit.symbol(),
            "resolution": event.resolution,
            "available": event.available.is_ok(),
            "reason": event.available.as_ref().err(),
            "description": event.description,
            "counters": event.counters.map(|counters| numbers(counters.general_bits())),
            "fixed": fixed(event.counters.unwrap_or(CounterMask::EMPTY)),
            "deprecated": event.deprecated,
        })
    };
    Value::Array(events.iter().map(entry).collect())
}

/// Whether a pattern matches an event's name or one of its aliases, or its words the description.
pub fn fits(event: &Listing, pattern: &Pattern) -> bool {
    [&event.name]
        .into_iter()
        .chain(&event.aliases)
        .any(|name| pattern.fits(name, || event.description.clone()))
}

/// The columns of the longest name, for tests of the layout.
#[cfg(test)]
fn longest(text: &str) -> usize {
    text.lines().map(crate::columns).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, vm_without_pmu};

    fn parsed(pattern: &str) -> Pattern {
        Pattern::parse(pattern).unwrap()
    }

    #[test]
    fn names_and_aliases_are_searched_without_case() {
        let events = cyclometer_toolkit::list_events(&vm_without_pmu());
        for pattern in ["CYCLES", "cyc", "*-cycles", "wall?time", "/^wall.time$/"] {
            assert!(events.iter().any(|event| fits(event, &parsed(pattern))), "{pattern}");
        }
        assert!(!events.iter().any(|event| fits(event, &parsed("no_such_thing"))));
    }

    #[test]
    fn what_is_missing_says_why() {
        let events = cyclometer_toolkit::list_events(&vm_without_pmu());
        let some: Vec<&Listing> = events.iter().filter(|event| fits(event, &parsed("*branch*"))).collect();
        let text = render(&some, Paint::NONE);
        assert!(text.contains("not here: "), "{text}");
        assert!(longest(&text) <= WIDTH, "{text}");
        golden("list.txt", &text);
    }
}

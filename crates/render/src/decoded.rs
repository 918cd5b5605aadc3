//! Values of registers, bit by bit, for people and as JSON.

use cyclometer_toolkit::EventTables;
use cyclometer_toolkit::arch::{DecodedEvent, Field};
use cyclometer_toolkit::catalogue::decode::{Explained, LabelClaim, Mismatch};
use cyclometer_toolkit::catalogue::table::Cpu;
use cyclometer_toolkit::core::CounterId;
use serde_json::{Value, json};

use crate::events::fields;
use crate::paint::{Paint, Style};
use crate::text::clean;
use crate::{WIDTH, hanging, wrap};

/// Columns before the description of an event.
const INDENT: usize = 6;

/// Each value: its fields, the events in it by name, and any error in it.
pub fn render(found: &[(Cpu<'_>, Explained)], tables: &EventTables, paint: Paint) -> String {
    let about = |cpu: &Cpu<'_>, name: &str| tables.describe(name, cpu);
    found.iter().map(|(cpu, explained)| entry(cpu, explained, &about, paint)).collect()
}

/// Describes what an event of a CPU counts, given its name.
type About<'t> = &'t dyn Fn(&Cpu<'_>, &str) -> String;

fn entry(cpu: &Cpu<'_>, explained: &Explained, about: About<'_>, paint: Paint) -> String {
    let head = format!("{} = {:#x}", explained.register, explained.value);
    let mut out = format!("{}  on {}\n", paint.paint(Style::Heading, &head), cpu.id());
    explained.decoded.fields.iter().for_each(|field| out += &line(field));
    for (i, event) in explained.decoded.events.iter().enumerate() {
        let describe = |name: &str| about(cpu, name);
        out += &named(cpu, event, (&explained.names[i], &explained.alike[i]), (&describe, paint));
        explained.claims[i].iter().for_each(|claim| out += &claimed(claim, paint));
    }
    for warning in &explained.decoded.warnings {
        out += &caution(&format!("warning: {warning}"), paint);
    }
    if let Some(mismatch) = &explained.label {
        out += &caution(&sentence(mismatch), paint);
    }
    out
}

fn line(field: &Field) -> String {
    let bits = match field.high == field.low {
        true => field.low.to_string(),
        false => format!("{}:{}", field.high, field.low),
    };
    let head = format!("  {bits:>7}  {:<16} {:<10} ", field.name, format!("{:#x}", field.value));
    hanging(&head, &field.meaning, str::to_owned)
}

fn named(
    cpu: &Cpu<'_>,
    event: &DecodedEvent,
    (names, alike): (&[String], &[String]),
    (about, paint): (&dyn Fn(&str) -> String, Paint),
) -> String {
    let place = event.counter.map_or_else(String::new, place);
    let counter = if place.is_empty() { String::new() } else { format!(" on {place}") };
    if names.is_empty() {
        let code = event.config.map_or_else(|| fields(&event.code), |config| format!("config {config:#x}"));
        let may = if place.is_empty() { String::new() } else { format!(" that {place} may count") };
        let mut text = format!("no event of {}{may} is {code}", cpu.id());
        if !alike.is_empty() {
            text += &format!("; with this select: {}", alike.join(", "));
        }
        return hanging(&format!("  event{counter}: "), &text, |line| paint.paint(Style::Bad, line));
    }
    names.iter().map(|name| format!("  event{counter}: {name}\n") + &below(&about(name), paint)).collect()
}

/// The labels of a code that has no name.
fn claimed(claim: &LabelClaim, paint: Paint) -> String {
    let LabelClaim { labels, title, source, .. } = claim;
    let labels = labels.join("' and '");
    let text = format!("a claim, not a name: labelled '{labels}' by {title} ({source})");
    below(&clean(&text), paint)
}

fn place(counter: CounterId) -> String {
    match counter {
        CounterId::General(n) => format!("counter {n}"),
        CounterId::Fixed(n) => format!("fixed counter {n}"),
    }
}

/// The description of an event, indented below its name.
fn below(text: &str, paint: Paint) -> String {
    let lines = wrap(text, WIDTH - INDENT);
    lines.iter().map(|line| format!("{:INDENT$}{}\n", "", paint.paint(Style::Dim, line))).collect()
}

fn caution(text: &str, paint: Paint) -> String {
    let lines = wrap(&clean(text), WIDTH - 2);
    lines.iter().map(|line| format!("  {}\n", paint.paint(Style::Caution, line))).collect()
}

/// The warning about a label that does not match its event.
fn sentence(mismatch: &Mismatch) -> String {
    let is = match mismatch.is.is_empty() {
        true => "no event that is known".to_owned(),
        false => mismatch.is.join(", "),
    };
    let mut text = format!("warning: it is called '{}', but the code is that of {is}", mismatch.label);
    if !mismatch.meant.is_empty() {
        text += &format!("; events that the name would fit: {}", mismatch.meant.join(", "));
    }
    text
}

/// An array with an object for each value.
pub fn json(found: &[(Cpu<'_>, Explained)]) -> Value {
    Value::Array(found.iter().map(|(cpu, explained)| object(cpu, explained)).collect())
}

fn object(cpu: &Cpu<'_>, explained: &Explained) -> Value {
    let field = |field: &Field| {
        json!({
            "high": field.high,
            "low": field.low,
            "name": field.name,
            "value": format!("{:#x}", field.value),
            "meaning": field.meaning,
        })
    };
    let claim = |claim: &LabelClaim| {
        json!({
            "labels": claim.labels,
            "table": claim.table,
            "title": claim.title,
            "source": claim.source,
        })
    };
    let event = |(i, event): (usize, &DecodedEvent)| {
        json!({
            "counter": event.counter.map(|counter| counter.to_string()),
            "select": format!("{:#x}", event.code.select),
            "umask": format!("{:#x}", event.code.umask),
            "names": explained.names[i],
            "alike": explained.alike[i],
            "claims": explained.claims[i].iter().map(claim).collect::<Vec<_>>(),
        })
    };
    let label =
        |mismatch: &Mismatch| json!({ "label": mismatch.label, "is": mismatch.is, "meant": mismatch.meant });
    json!({
        "cpu": cpu.id(),
        "register": explained.register,
        "value": format!("{:#x}", explained.value),
        "fields": explained.decoded.fields.iter().map(field).collect::<Vec<_>>(),
        "events": explained.decoded.events.iter().enumerate().map(event).collect::<Vec<_>>(),
        "warnings": explained.decoded.warnings,
        "mismatch": explained.label.as_ref().map(label),
    })
}

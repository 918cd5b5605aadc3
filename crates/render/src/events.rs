//! Events of a CPU of the catalogue, for people and as JSON.

use std::collections::{BTreeMap, HashMap};

use cyclometer_toolkit::EventTables;
use cyclometer_toolkit::catalogue::search::EventMatch;
use cyclometer_toolkit::catalogue::table::{Cpu, Entry};
use cyclometer_toolkit::core::{CounterMask, EventCode};
use serde_json::{Value, json};

use crate::counters::{counters, fixed, numbers};
use crate::paint::{Paint, Style};
use crate::{WIDTH, hanging, wrap};

/// Columns before the text below a name.
const INDENT: usize = 6;

/// A CPU and its events: code, counters, description.
pub fn render(
    cpu: &Cpu<'_>,
    events: &[Entry<'_>],
    tables: &EventTables,
    (verbose, paint): (bool, Paint),
) -> String {
    let mut out = header(cpu, events.len(), paint);
    let aliases = aliases(cpu);
    for entry in events {
        let mut head = entry.name().to_owned();
        for alias in aliases.get(entry.name()).into_iter().flatten() {
            head += &format!(", {alias}");
        }
        out += &format!("  {head}\n");
        let mut below = vec![(Style::Dim, tables.describe(entry.name(), cpu))];
        below.push((Style::Dim, format!("{}; counters {}", code(entry), counters(named(entry)))));
        if entry.deprecated() {
            below.push((Style::Caution, "deprecated by the vendor".to_owned()));
        }
        let errata: Vec<&str> = entry.errata().collect();
        if !errata.is_empty() && (verbose || errata.len() < 4) {
            below.push((Style::Caution, format!("errata: {}", errata.join(", "))));
        }
        for (style, text) in below {
            for line in wrap(&text, WIDTH - INDENT) {
                out += &format!("{:INDENT$}{}\n", "", paint.paint(style, &line));
            }
        }
    }
    out
}

/// The counters that the vendor names for an event; no counter where it names none.
fn named(entry: &Entry<'_>) -> CounterMask {
    entry.counters().unwrap_or(CounterMask::EMPTY)
}

fn header(cpu: &Cpu<'_>, count: usize, paint: Paint) -> String {
    let title = if cpu.title().is_empty() { String::new() } else { format!(" ({})", cpu.title()) };
    let date = if cpu.date().is_empty() { String::new() } else { format!(" of {}", cpu.date()) };
    let events = if count == 1 { "event" } else { "events" };
    let head = format!("{count} {events} of {}{title}, table {}{date}", cpu.id(), cpu.version());
    let head: Vec<String> = wrap(&head, WIDTH).iter().map(|line| paint.paint(Style::Heading, line)).collect();
    head.join("\n") + "\n"
}

/// The aliases of each event of a CPU, by name.
fn aliases<'a>(cpu: &Cpu<'a>) -> HashMap<&'a str, Vec<&'a str>> {
    let mut found: HashMap<&str, Vec<&str>> = HashMap::new();
    for (alias, entry) in cpu.aliases() {
        found.entry(entry.name()).or_default().push(alias);
    }
    found
}

fn code(entry: &Entry<'_>) -> String {
    let code = entry.code();
    if let Some(config) = entry.config() {
        return format!("config {config:#x}");
    }
    fields(&code)
}

/// The fields of a code that are set.
pub fn fields(code: &EventCode) -> String {
    let mut text = format!("event {:#x}", code.select);
    for (name, value) in [("umask", code.umask), ("umask2", code.umask2), ("cmask", code.cmask)] {
        if value != 0 {
            text += &format!(", {name} {value:#x}");
        }
    }
    for (name, set) in [("inv", code.inv), ("edge", code.edge), ("eq", code.eq), ("any", code.any)] {
        text += if set { name_behind(name) } else { "" };
    }
    if let Some(extra) = code.extra {
        text += &format!(", {} {:#x}", extra.register.name(), extra.value);
    }
    text
}

fn name_behind(name: &'static str) -> &'static str {
    match name {
        "inv" => ", inv",
        "edge" => ", edge",
        "eq" => ", eq",
        _ => ", any",
    }
}

/// The number of events that may use each set of counters, the smallest sets first.
pub fn classes(cpu: &Cpu<'_>, events: &[Entry<'_>], paint: Paint) -> String {
    let mut by_mask: BTreeMap<(u32, u64, u64), Vec<&str>> = BTreeMap::new();
    for entry in events {
        let mask = named(entry);
        let key = (mask.len(), mask.general_bits(), mask.fixed_bits());
        by_mask.entry(key).or_default().push(entry.name());
    }
    let mut out = header(cpu, events.len(), paint);
    out += "  events  mask          counters\n";
    for ((_, general, fixed), names) in by_mask {
        let mask = CounterMask::from_bits(general, fixed);
        let bits = if fixed == 0 { format!("{general:#x}") } else { format!("{general:#x} f{fixed:#x}") };
        out += &format!("  {:>6}  {bits:<12}  {}\n", names.len(), counters(mask));
        if names.len() <= 8 {
            for line in wrap(&names.join(", "), WIDTH - 10) {
                out += &format!("          {}\n", paint.paint(Style::Dim, &line));
            }
        }
    }
    out
}

/// An object for each event.
pub fn json(cpu: &Cpu<'_>, events: &[Entry<'_>], tables: &EventTables) -> Vec<Value> {
    let all = aliases(cpu);
    let object = |entry: &Entry<'_>| {
        let code = entry.code();
        json!({
            "name": entry.name(),
            "cpu": cpu.id(),
            "aliases": all.get(entry.name()).cloned().unwrap_or_default(),
            "counters": numbers(named(entry).general_bits()),
            "fixed": fixed(named(entry)),
            "deprecated": entry.deprecated(),
            "errata": entry.errata().collect::<Vec<_>>(),
            "event": format!("{:#x}", code.select),
            "umask": format!("{:#x}", code.umask),
            "config": entry.config().map(|config| format!("{config:#x}")),
            "description": tables.describe(entry.name(), cpu),
            "table": { "version": cpu.version(), "date": cpu.date() },
        })
    };
    events.iter().map(object).collect()
}

/// Events and the CPUs that have them.
pub fn everywhere(found: &[EventMatch], paint: Paint) -> String {
    let mut out = String::new();
    for event in found {
        out += &format!("{}\n", event.name);
        for line in wrap(&event.cpus.join(", "), WIDTH - INDENT) {
            out += &format!("{:INDENT$}{}\n", "", paint.paint(Style::Dim, &line));
        }
    }
    out
}

/// The same as an array of objects.
pub fn everywhere_json(found: &[EventMatch]) -> Value {
    Value::Array(found.iter().map(|event| json!({ "name": event.name, "cpus": event.cpus })).collect())
}

/// The CPUs of the catalogue, with the number of their events and the age of their tables.
pub fn cpus<'a>(all: impl Iterator<Item = Cpu<'a>>) -> String {
    let mut out = String::new();
    for cpu in all {
        let count = cpu.events().count();
        let head = format!("{:<19} {count:>4} events  {:<10}  ", cpu.id(), cpu.date());
        out += &hanging(&head, cpu.title(), str::to_owned);
    }
    out
}

/// The same as an array of objects.
pub fn cpus_json<'a>(all: impl Iterator<Item = Cpu<'a>>) -> Value {
    let object = |cpu: Cpu<'a>| {
        json!({
            "cpu": cpu.id(),
            "title": cpu.title(),
            "events": cpu.events().count(),
            "version": cpu.version(),
            "date": cpu.date(),
            "sources": cpu.sources().collect::<Vec<_>>(),
            "counters": numbers(cpu.counters().general_bits()),
            "fixed": numbers(cpu.counters().fixed_bits()),
            "counter_width_bits": cpu.counter_width().map(|width| width.bits),
        })
    };
    Value::Array(all.map(object).collect())
}

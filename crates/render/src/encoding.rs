//! Events with their bits, for people and as JSON.

use cyclometer_toolkit::arch::{EncodeError, RegisterWrite};
use cyclometer_toolkit::catalogue::encode::{EventEncoding, RAW, device};
use cyclometer_toolkit::catalogue::glossary;
use cyclometer_toolkit::catalogue::table::{Cpu, Entry};
use cyclometer_toolkit::core::EventCode;
use cyclometer_toolkit::core::pmu::ConfigWords;
use cyclometer_toolkit::{EventTables, event_description};
use serde_json::{Value, json};

use crate::counters::{counters, fixed, numbers};
use crate::paint::{Paint, Style};
use crate::{WIDTH, columns, hanging, wrap};

/// Each event: its description, perf's words, the counters, the register writes for one of them.
pub fn render(found: &[(Cpu<'_>, EventEncoding<'_>)], tables: &EventTables, paint: Paint) -> String {
    found.iter().map(|(cpu, encoding)| entry(cpu, encoding, &counted(cpu, encoding, tables), paint)).collect()
}

fn entry(cpu: &Cpu<'_>, encoding: &EventEncoding<'_>, counted: &str, paint: Paint) -> String {
    let name = &encoding.selected.name;
    let mut out = format!("{}  on {}\n", paint.paint(Style::Heading, name), cpu.id());
    for line in wrap(counted, WIDTH - 2) {
        out += &format!("  {}\n", paint.paint(Style::Dim, &line));
    }
    out += &match &encoding.perf {
        Ok(words) => hanging("  perf       ", &perf(cpu, encoding.perf_type, words), str::to_owned),
        Err(reason) => none("perf", reason, paint),
    };
    out += &format!("  counters   {}\n", counters(encoding.counters));
    if let Some(word) = encoding.kpc {
        out += &format!("  kpc        config[{}] = {:#x}\n", word.index, word.word);
    }
    match &encoding.registers {
        Ok(registers) => out += &writes(registers),
        Err(reason) => out += &none("registers", reason, paint),
    }
    for note in &encoding.selected.notes {
        out += &hanging("  note: ", note, |line| paint.paint(Style::Caution, line));
    }
    out
}

/// The description of an event. A generic event may be on a fixed counter where the vendor's event with that
/// code is not.
fn counted(cpu: &Cpu<'_>, encoding: &EventEncoding<'_>, tables: &EventTables) -> String {
    let Some(entry) = encoding.selected.entry else { return String::new() };
    let code = encoding.selected.coded.code;
    if !has(&entry, &code) {
        return changed(cpu, &entry, &code);
    }
    let description = event_description(tables, entry.name(), cpu);
    match encoding.counters.fixed_bits() {
        0 => description.to_string(),
        _ => description.words,
    }
}

/// Whether an event is counted by this code.
fn has(entry: &Entry<'_>, code: &EventCode) -> bool {
    entry.code() == *code || entry.also().any(|also| also.code == *code)
}

/// The description of an event with changed fields: its name spelled out, and the events whose code it has
/// now.
fn changed(cpu: &Cpu<'_>, entry: &Entry<'_>, code: &EventCode) -> String {
    let spelled = glossary::spell(entry.name(), cpu.family());
    let same: Vec<&str> =
        cpu.by_code(code, None).filter(|other| has(other, code)).map(|e| e.name()).collect();
    match same.as_slice() {
        [] => format!("{spelled}; with fields changed"),
        names => format!("{spelled}; with fields changed to the code of {}", names.join(", ")),
    }
}

/// perf's words as they are written in an event's terms; the type where it is not that of raw codes.
fn perf(cpu: &Cpu<'_>, kind: Option<u32>, words: &ConfigWords) -> String {
    let mut text = match kind {
        Some(RAW) => String::new(),
        Some(kind) => format!("type={kind} "),
        None => device(cpu).map_or_else(String::new, |pmu| format!("pmu={pmu} ")),
    };
    text += &format!("config={:#x}", words.config);
    for (name, word) in [("config1", words.config1), ("config2", words.config2)] {
        if word != 0 {
            text += &format!(" {name}={word:#x}");
        }
    }
    text
}

fn none(what: &str, reason: &EncodeError, paint: Paint) -> String {
    hanging(&format!("  {what:<10} "), &format!("none: {reason}"), |line| paint.paint(Style::Bad, line))
}

/// The register writes below each other: `=` for a whole register, `|=` for bits of one.
fn writes(registers: &[RegisterWrite]) -> String {
    let head = |write: &RegisterWrite| format!("{} ({})", write.name(), write.address);
    let width = registers.iter().map(|write| columns(&head(write))).max().unwrap_or(0);
    let line = |write: &RegisterWrite| {
        let by = if write.mask == u64::MAX { "= " } else { "|=" };
        format!("  {:<width$} {by} {:#x}\n", head(write), write.value)
    };
    registers.iter().map(line).collect()
}

/// An array with an object for each event: contract for other programs.
pub fn json(found: &[(Cpu<'_>, EventEncoding<'_>)]) -> Value {
    Value::Array(found.iter().map(|(cpu, encoding)| object(cpu, encoding)).collect())
}

fn object(cpu: &Cpu<'_>, encoding: &EventEncoding<'_>) -> Value {
    let hex = |value: u64| format!("{value:#x}");
    let perf = encoding.perf.as_ref();
    let write = |write: &RegisterWrite| {
        json!({
            "name": write.name(),
            "address": write.address.to_string(),
            "value": hex(write.value),
            "mask": hex(write.mask),
        })
    };
    let registers = encoding.registers.as_ref();
    json!({
        "event": encoding.selected.name,
        "cpu": cpu.id(),
        "type": perf.ok().and(encoding.perf_type),
        "pmu": device(cpu),
        "config": perf.ok().map(|words| hex(words.config)),
        "config1": perf.ok().map(|words| hex(words.config1)),
        "counters": numbers(encoding.counters.general_bits()),
        "fixed": fixed(encoding.counters),
        "registers": registers.map(|writes| writes.iter().map(write).collect::<Vec<_>>()).unwrap_or_default(),
        "kpc": encoding.kpc.map(|word| json!({ "index": word.index, "word": hex(word.word) })),
        "notes": encoding.selected.notes,
        "reason": perf.err().or(registers.err()).map(EncodeError::to_string),
    })
}

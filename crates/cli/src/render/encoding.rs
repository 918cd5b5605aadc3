//! Events with their bits, for people and as JSON.

use cyclometer::arch::{Coded, apple};
use cyclometer::catalogue::encode::Encoding;
use cyclometer::catalogue::select::chip;
use cyclometer::catalogue::table::Cpu;
use cyclometer::core::pmu::Family;
use cyclometer::core::{CounterMask, Modes};
use serde_json::{Value, json};

use crate::render::events::{about, counters};
use crate::render::paint::{Paint, Style};

/// `PERF_TYPE_RAW`: a code of the core PMU. On hybrids the PMU's own type stands in its place.
const RAW: u32 = 4;

/// Each event: what it counts, perf's words, the counters, the register writes for one of them.
pub fn render(found: &[(Cpu<'_>, Encoding<'_>)], paint: Paint) -> String {
    found.iter().map(|(cpu, encoding)| entry(cpu, encoding, paint)).collect()
}

fn entry(cpu: &Cpu<'_>, encoding: &Encoding<'_>, paint: Paint) -> String {
    let name = &encoding.selected.name;
    let mut out = format!("{}  on {}\n", paint.paint(Style::Heading, name), cpu.id());
    if let Some(about) = encoding.selected.entry.map(|entry| about(entry.name(), cpu)) {
        out += &format!("  {}\n", paint.paint(Style::Dim, &about));
    }
    out += &match &encoding.perf {
        Ok(words) if words.config1 == 0 => format!("  perf       config={:#x}\n", words.config),
        Ok(words) => format!("  perf       config={:#x} config1={:#x}\n", words.config, words.config1),
        Err(reason) => format!("  perf       {}\n", paint.paint(Style::Bad, &format!("none: {reason}"))),
    };
    out += &format!("  counters   {}\n", counters(encoding.counters));
    if let Some(word) = kpc(cpu, &encoding.selected.coded) {
        out += &format!("  kpc        config[{}] = {:#x}\n", word.index, word.word);
    }
    match &encoding.registers {
        Ok(writes) => {
            for write in writes {
                let whole = write.mask == u64::MAX;
                let by = if whole { "= " } else { "|=" };
                out += &format!(
                    "  {:<28} {by} {:#x}\n",
                    format!("{} ({})", write.name(), write.address),
                    write.value
                );
            }
        }
        Err(reason) => {
            out += &format!("  registers  {}\n", paint.paint(Style::Bad, &format!("none: {reason}")))
        }
    }
    for note in &encoding.selected.notes {
        out += &format!("  {}\n", paint.paint(Style::Caution, &format!("note: {note}")));
    }
    out
}

/// macOS's word for the first counter that may count an event.
fn kpc(cpu: &Cpu<'_>, coded: &Coded) -> Option<apple::KpcWord> {
    if cpu.family() != Family::Apple {
        return None;
    }
    let counter = cyclometer::arch::place(&chip(cpu), coded, None).ok()?;
    apple::kpc_word(&chip(cpu), coded, counter, Modes::USER_KERNEL).ok()
}

/// An array with an object for each event: contract for other programs.
pub fn json(found: &[(Cpu<'_>, Encoding<'_>)]) -> Value {
    Value::Array(found.iter().map(|(cpu, encoding)| object(cpu, encoding)).collect())
}

fn object(cpu: &Cpu<'_>, encoding: &Encoding<'_>) -> Value {
    let hex = |value: u64| format!("{value:#x}");
    let perf = encoding.perf.as_ref();
    let write = |write: &cyclometer::arch::RegisterWrite| {
        json!({
            "name": write.name(),
            "address": write.address.to_string(),
            "value": hex(write.value),
            "mask": hex(write.mask),
        })
    };
    let registers = encoding.registers.as_ref();
    let kpc = kpc(cpu, &encoding.selected.coded);
    json!({
        "event": encoding.selected.name,
        "cpu": cpu.id(),
        "type": perf.is_ok().then_some(RAW),
        "config": perf.ok().map(|words| hex(words.config)),
        "config1": perf.ok().map(|words| hex(words.config1)),
        "counters": numbers(encoding.counters.general_bits()),
        "fixed": fixed(encoding.counters),
        "registers": registers.map(|writes| writes.iter().map(write).collect::<Vec<_>>()).unwrap_or_default(),
        "kpc": kpc.map(|word| json!({ "index": word.index, "word": hex(word.word) })),
        "notes": encoding.selected.notes,
        "reason": perf.err().map(ToString::to_string),
    })
}

/// The numbers of the bits that are set.
pub fn numbers(bits: u64) -> Vec<u8> {
    (0..64).filter(|n| bits >> n & 1 == 1).collect()
}

/// The number of the fixed counter, if there is one.
pub fn fixed(counters: CounterMask) -> Option<u32> {
    let bits = counters.fixed_bits();
    (bits != 0).then(|| bits.trailing_zeros())
}

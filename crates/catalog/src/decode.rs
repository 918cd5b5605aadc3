//! From the value of a register back to names.

use cyclometer_arch::{Coded, Decoded, Register, decode as explain, decode_words};
use cyclometer_core::pmu::{ConfigWord, ConfigWords, Family};
use cyclometer_core::syntax::parse_event;
use cyclometer_core::{CounterMask, Error, ErrorKind, Recovery, Result};

use crate::search::{self, Filter, Pattern};
use crate::select::{chip, entries_of, entry, select};
use crate::suggest;
use crate::table::Cpu;

/// What a value says on a CPU.
#[derive(Clone, PartialEq, Debug)]
pub struct Explained {
    /// The register that it was read as.
    pub register: String,
    /// The value.
    pub value: u64,
    /// Bit by bit.
    pub decoded: Decoded,
    /// For each event of `decoded`, the names that have exactly this code.
    pub names: Vec<Vec<String>>,
    /// Where the user's label and the code do not say the same.
    pub label: Option<Mismatch>,
}

/// A label that is not what the code is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// The label.
    pub label: String,
    /// What the code is: names, or nothing that is known.
    pub is: Vec<String>,
    /// Events of the CPU that the label would fit.
    pub meant: Vec<String>,
}

/// Finds a register of a CPU by name or address.
///
/// # Errors
///
/// [`ErrorKind::InvalidInput`] with the registers that there are.
pub fn register(cpu: &Cpu<'_>, name: &str) -> Result<Register> {
    Register::parse(&chip(cpu), name).map_err(|error| {
        let known = Recovery::fix(format!("registers of {}: {}", cpu.id(), error.known.join(", ")));
        let message = format!("{} has no register '{}'", cpu.id(), suggest::shown(name));
        Error::new(ErrorKind::InvalidInput, message).with_recovery(known)
    })
}

/// The register that a bare code is read as: the event select register where the value enables a counter, else perf's
/// word.
///
/// # Source
///
/// Intel SDM volume 3, IA32_PERFEVTSELx, and AMD APM volume 2, PERF_CTL: bit 22 enables.
pub fn register_of_code(cpu: &Cpu<'_>, code: u64) -> Register {
    const ENABLE: u64 = 1 << 22;
    let select = match cpu.family() {
        Family::Intel => "PERFEVTSEL0",
        Family::Amd => "PERF_CTL0",
        _ => "config",
    };
    let found = (code & ENABLE != 0).then(|| Register::parse(&chip(cpu), select).ok()).flatten();
    found.unwrap_or(Register::Perf(ConfigWord::Config))
}

/// Explains a register's value.
pub fn decode(cpu: &Cpu<'_>, register: Register, value: u64, label: Option<&str>) -> Explained {
    explained(cpu, register.name().to_string(), value, explain(&chip(cpu), register, value), label)
}

/// Explains perf's config words together: what `config1` means depends on `config`.
pub fn decode_perf(cpu: &Cpu<'_>, words: ConfigWords, label: Option<&str>) -> Explained {
    explained(cpu, "config".to_owned(), words.config, decode_words(&chip(cpu), &words), label)
}

fn explained(
    cpu: &Cpu<'_>,
    register: String,
    value: u64,
    decoded: Decoded,
    label: Option<&str>,
) -> Explained {
    let names: Vec<Vec<String>> = decoded
        .events
        .iter()
        .map(|event| {
            let coded = Coded { code: event.code, config: event.config, counters: CounterMask::EMPTY };
            entries_of(cpu, &coded).iter().map(|entry| entry.name().to_owned()).collect()
        })
        .collect();
    let label = label.and_then(|label| mismatch(cpu, label, &names));
    Explained { register, value, decoded, names, label }
}

/// Compares a label with the names of a code.
fn mismatch(cpu: &Cpu<'_>, label: &str, names: &[Vec<String>]) -> Option<Mismatch> {
    let is: Vec<String> = names.iter().flatten().cloned().collect();
    let meant = meant_by(cpu, label);
    let fits = is.iter().any(|name| meant.iter().any(|other| other.eq_ignore_ascii_case(name)));
    (!fits).then(|| Mismatch {
        label: suggest::shown(label),
        is,
        meant: meant.into_iter().take(MOST_MEANT).collect(),
    })
}

const MOST_MEANT: usize = 5;

/// The events of a CPU that a label fits: the one of that name, else those whose name or description has its words.
fn meant_by(cpu: &Cpu<'_>, label: &str) -> Vec<String> {
    if let Some(entry) = entry(cpu, label) {
        return vec![entry.name().to_owned()];
    }
    let joined = label.trim().to_lowercase().replace([' ', '-'], "_");
    let named = parse_event(&joined).and_then(|request| select(*cpu, &request));
    let mut meant: Vec<String> =
        named.map(|found| found.into_iter().map(|one| one.name).collect()).unwrap_or_default();
    let words: Vec<String> = label.to_lowercase().split_whitespace().map(word).collect();
    if !words.is_empty() {
        let filter = Filter::by(Pattern::Words(words));
        meant.extend(search::events(*cpu, &filter).map(|entry| entry.name().to_owned()));
    }
    meant
}

/// A word as descriptions have it.
fn word(text: &str) -> String {
    match text {
        "l1" => "level-1".to_owned(),
        "l2" => "level-2".to_owned(),
        "l3" | "llc" => "l3".to_owned(),
        "misses" => "miss".to_owned(),
        "hits" => "hit".to_owned(),
        "branches" => "branch".to_owned(),
        "loads" => "load".to_owned(),
        "stores" => "store".to_owned(),
        other => other.to_owned(),
    }
}

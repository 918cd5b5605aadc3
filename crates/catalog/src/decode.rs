//! From the value of a register to the names of events.

use cyclometer_arch::{Coded, Decoded, DecodedEvent, Register, decode as explain, decode_words, perf_words};
use cyclometer_core::pmu::{ConfigWord, ConfigWords, Family};
use cyclometer_core::syntax::parse_event;
use cyclometer_core::{Error, ErrorKind, EventCode, Recovery, Result};

use crate::claims::ClaimTable;
use crate::meaning::entry;
use crate::portable::{self, PortableEvents};
use crate::search::{self, Filter, Pattern};
use crate::select::{chip, entries_of, select};
use crate::suggest;
use crate::table::{Cpu, Entry};
use crate::terms::coded;

/// The explanation of a value on a CPU.
#[derive(Clone, PartialEq, Debug)]
pub struct Explained {
    /// The register that the value was decoded as.
    pub register: String,
    /// The value.
    pub value: u64,
    /// Bit by bit.
    pub decoded: Decoded,
    /// For each event of `decoded`, the names that have exactly this code.
    pub names: Vec<Vec<String>>,
    /// For each event of `decoded` without a name, events with the same select.
    pub alike: Vec<Vec<String>>,
    /// For each event of `decoded` without a name, what documents say that it counts.
    pub claims: Vec<Vec<LabelClaim>>,
    /// The contradiction between the user's label and the code, if there is one.
    pub label: Option<Mismatch>,
}

/// The labels that a document gives to a code. They are no names: the vendor lists no event with this code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LabelClaim {
    /// The labels, as the document spells them.
    pub labels: Vec<String>,
    /// The name of the table of claims.
    pub table: String,
    /// The document.
    pub title: String,
    /// Where the label stands.
    pub source: String,
}

/// A label that contradicts the code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// The label.
    pub label: String,
    /// The names of the code; empty if it has none.
    pub is: Vec<String>,
    /// Events of the CPU that the label would fit.
    pub meant: Vec<String>,
}

/// Finds a register of a CPU by name or address.
///
/// # Errors
///
/// [`ErrorKind::InvalidInput`] with the CPU's registers.
pub fn register(cpu: &Cpu<'_>, name: &str) -> Result<Register> {
    Register::parse(&chip(cpu), name).map_err(|error| {
        let known = Recovery::fix(format!("registers of {}: {}", cpu.id(), error.known.join(", ")));
        let message = format!("{} has no register '{}'", cpu.id(), suggest::shown(name));
        Error::new(ErrorKind::InvalidInput, message).with_recovery(known)
    })
}

/// The register of a bare code. A value that enables a counter means the event select register. A value with
/// modes above Apple's 16 bits means macOS's word. Any other value means perf's word.
///
/// # Source
///
/// Intel SDM volume 3, IA32_PERFEVTSELx, and AMD APM volume 2, PERF_CTL: bit 22 enables.
pub fn register_of_code(cpu: &Cpu<'_>, code: u64) -> Register {
    const ENABLE: u64 = 1 << 22;
    const APPLE_MODES: u64 = 0xf_0000;
    if cpu.family() == Family::Apple && code & APPLE_MODES != 0 && code < 1 << 20 {
        return kpc_config(cpu, code).unwrap_or(Register::Perf(ConfigWord::Config));
    }
    let select = match cpu.family() {
        Family::Intel => "PERFEVTSEL0",
        Family::Amd => "PERF_CTL0",
        _ => "config",
    };
    let found = (code & ENABLE != 0).then(|| Register::parse(&chip(cpu), select).ok()).flatten();
    found.unwrap_or(Register::Perf(ConfigWord::Config))
}

/// macOS's word for the first counter that may count a code; the word of counter n is number n - 2.
fn kpc_config(cpu: &Cpu<'_>, code: u64) -> Option<Register> {
    let select = EventCode { select: code as u16, ..EventCode::default() };
    let first = cpu.by_code(&select, None).next().and_then(|entry| entry.counters());
    let index = first
        .and_then(|counters| counters.general_bits().trailing_zeros().checked_sub(2))
        .filter(|index| *index < 8)
        .unwrap_or(0);
    Register::parse(&chip(cpu), &format!("kpc_config{index}")).ok()
}

/// Explains a register's value.
pub fn decode(cpu: &Cpu<'_>, register: Register, value: u64, label: Option<&str>) -> Explained {
    let read = RegisterValue { register: register.name().to_string(), value, config: None };
    explained(cpu, read, explain(&chip(cpu), register, value), label)
}

/// Explains perf's config words together: the meaning of `config1` depends on `config`.
pub fn decode_perf(cpu: &Cpu<'_>, words: ConfigWords, label: Option<&str>) -> Explained {
    let read =
        RegisterValue { register: "config".to_owned(), value: words.config, config: Some(words.config) };
    explained(cpu, read, decode_words(&chip(cpu), &words), label)
}

/// The register and its value, with perf's whole config if it is that.
struct RegisterValue {
    register: String,
    value: u64,
    config: Option<u64>,
}

fn explained(cpu: &Cpu<'_>, read: RegisterValue, mut decoded: Decoded, label: Option<&str>) -> Explained {
    let RegisterValue { register, value, config } = read;
    let mut names: Vec<Vec<String>> =
        decoded.events.iter().map(|event| names_of(cpu, event, config)).collect();
    if names.iter().any(|names| !names.is_empty())
        && decoded.events.iter().all(|event| event.counter.is_none())
    {
        // Meanings of the word on other generations have no name on this CPU.
        let known: Vec<bool> = names.iter().map(|names| !names.is_empty()).collect();
        let mut keep = known.iter();
        decoded.events.retain(|_| keep.next() == Some(&true));
        names.retain(|names| !names.is_empty());
    }
    if config.is_some() {
        once(&mut decoded, &mut names);
    }
    let events = decoded.events.iter().zip(&names);
    let alike =
        events.map(|(event, names)| if names.is_empty() { alike(cpu, event) } else { Vec::new() }).collect();
    let events = decoded.events.iter().zip(&names);
    let claims = events
        .map(|(event, names)| if names.is_empty() { label_claims(cpu, event) } else { Vec::new() })
        .collect();
    let label = label.and_then(|label| mismatch(cpu, label, &names));
    Explained { register, value, decoded, names, alike, claims, label }
}

/// The labels of a code in documents that are not the vendor's.
fn label_claims(cpu: &Cpu<'_>, event: &DecodedEvent) -> Vec<LabelClaim> {
    let code = u32::from(event.code.umask) << 8 | u32::from(event.code.select);
    let tables = ClaimTable::shipped_for(cpu.id()).filter(|table| !table.vendor);
    let claims = tables.filter_map(|table| {
        let labels = table.about(code)?.labels.clone();
        Some(LabelClaim { labels, table: table.name, title: table.title, source: table.source })
    });
    claims.collect()
}

/// Keeps one event: a word of perf is one event, although it may match several codes.
fn once(decoded: &mut Decoded, names: &mut Vec<Vec<String>>) {
    let mut seen: Vec<Vec<String>> = Vec::new();
    let mut keep = Vec::new();
    for names in names.iter() {
        keep.push(names.is_empty() || !seen.contains(names));
        seen.push(names.clone());
    }
    let (mut first, mut second) = (keep.iter(), keep.iter());
    decoded.events.retain(|_| first.next() == Some(&true));
    names.retain(|_| second.next() == Some(&true));
}

/// The events that have exactly a code, and may be counted on its counter.
fn names_of(cpu: &Cpu<'_>, event: &DecodedEvent, config: Option<u64>) -> Vec<String> {
    let config = event.config.or(config);
    let coded = Coded { code: event.code, config, counters: None };
    let may = |entry: &Entry<'_>| {
        let counters = entry.counters();
        let whole = config.is_some() && entry.config() == config;
        let counts_on = |counter| counters.is_none_or(|counters| counters.contains(counter));
        let here = event.counter.is_none_or(counts_on);
        whole || here && !asked_otherwise(cpu, entry, config)
    };
    entries_of(cpu, &coded).iter().filter(|entry| may(entry)).map(|entry| entry.name().to_owned()).collect()
}

/// Whether perf uses another config than this one for an event: the event has its own config, or is fixed.
fn asked_otherwise(cpu: &Cpu<'_>, entry: &Entry<'_>, config: Option<u64>) -> bool {
    let Some(config) = config else { return false };
    let fixed = cpu.family() == Family::Intel && entry.code().select == 0;
    (entry.config().is_some() || fixed)
        && perf_words(&chip(cpu), &coded(entry)).is_ok_and(|words| words.config != config)
}

/// Some events with the select of a code without a name.
fn alike(cpu: &Cpu<'_>, event: &DecodedEvent) -> Vec<String> {
    let select = event.code.select;
    let same = |entry: &Entry<'_>| select != 0 && entry.code().select == select && entry.config().is_none();
    cpu.events().filter(same).take(MOST_MEANT).map(|entry| entry.name().to_owned()).collect()
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

/// The events of a CPU that a label fits: the one of that name, otherwise those whose name or description has
/// its words.
fn meant_by(cpu: &Cpu<'_>, label: &str) -> Vec<String> {
    if let Some(entry) = entry(cpu, label) {
        return vec![entry.name().to_owned()];
    }
    if let Some(named) = named_by(cpu, label) {
        return named;
    }
    let mut meant: Vec<String> = Vec::new();
    let label = label.to_lowercase();
    let words: Vec<&str> = label.split_whitespace().map(singular).collect();
    if !words.is_empty() {
        meant.extend(portable_of(cpu, &words));
        let filter = Filter::by(Pattern::Words(words.iter().map(|word| (*word).to_owned()).collect()));
        meant.extend(search::events(*cpu, &filter).map(|entry| entry.name().to_owned()));
        // A label without "miss" does not mean misses.
        let of_misses =
            |name: &String| ["miss", "misp"].iter().any(|part| name.to_lowercase().contains(part));
        let speaks = words.iter().any(|word| word.contains("miss") || word.contains("misp"));
        meant.retain(|name| speaks || !of_misses(name));
    }
    let mut seen = std::collections::HashSet::new();
    meant.retain(|name| seen.insert(name.to_ascii_lowercase()));
    meant
}

/// The events of a CPU that have exactly the code of the event that a label names: a generic or portable
/// event, or another spelling.
fn named_by(cpu: &Cpu<'_>, label: &str) -> Option<Vec<String>> {
    let label = label.trim().to_lowercase();
    let spellings = [label.clone(), label.replace(' ', "-"), label.replace([' ', '-'], "_")];
    let found = spellings.iter().find_map(|spelling| select(*cpu, &parse_event(spelling).ok()?).ok())?;
    let mut names = Vec::new();
    for selected in found {
        names.extend(entries_of(cpu, &selected.coded).iter().map(|entry| entry.name().to_owned()));
        names.extend(selected.entry.map(|entry| entry.name().to_owned()));
    }
    (!names.is_empty()).then_some(names)
}

/// The CPU's events for the portable events with these words.
fn portable_of(cpu: &Cpu<'_>, words: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for portable in portable::all() {
        let text = format!("{} {} {}", portable.name(), portable.aliases().join(" "), portable.about());
        let text = text.to_lowercase();
        let has =
            |word: &&str| text.contains(*word) || synonyms(word).iter().any(|other| text.contains(other));
        if let (true, PortableEvents::Event { names, .. }) = (words.iter().all(has), portable.on_cpu(cpu)) {
            found.extend(names.into_iter().map(str::to_owned));
        }
    }
    found
}

/// Synonyms of a word.
fn synonyms(word: &str) -> &'static [&'static str] {
    match word {
        "l3" => &["llc", "last-level"],
        "llc" => &["l3", "last-level"],
        "mispredict" => &["branch_miss"],
        _ => &[],
    }
}

fn singular(word: &str) -> &str {
    match word {
        "misses" => "miss",
        "branches" => "branch",
        word => word.strip_suffix('s').filter(|rest| rest.len() > 2 && !rest.ends_with('s')).unwrap_or(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpus::cpu;

    fn code(id: &str, code: u64, label: Option<&str>) -> Explained {
        let cpu = cpu(id).unwrap();
        decode(&cpu, register_of_code(&cpu, code), code, label)
    }

    #[test]
    fn a_code_that_is_not_what_it_is_called_is_told() {
        // A driver in use calls 0x4101C2 the misses of the third-level cache.
        let explained = code("skylake", 0x4101c2, Some("L3 cache miss"));
        assert_eq!(explained.register, "IA32_PERFEVTSEL0");
        let mismatch = explained.label.unwrap();
        assert!(mismatch.is.is_empty());
        assert_eq!(mismatch.meant[0], "LONGEST_LAT_CACHE.MISS");
        assert!(
            explained.alike[0].iter().all(|name| name.starts_with("UOPS_RETIRED.")),
            "{:?}",
            explained.alike
        );
        let explained = code("haswell", 0x4101c2, Some("L3 cache miss"));
        assert_eq!(explained.label.unwrap().is, ["UOPS_RETIRED.ALL"]);
        let explained = code("skylake", 0xc5, Some("branches"));
        assert_eq!(explained.label.unwrap().is, ["BR_MISP_RETIRED.ALL_BRANCHES"]);
        assert!(code("skylake", 0xc5, Some("branches retired")).label.is_some());
    }

    #[test]
    fn a_label_that_says_what_the_code_is_is_no_mismatch() {
        for (id, value, label) in [
            ("skylake", 0x41412e, "L3 cache misses"),
            ("skylake", 0x412e, "LLC miss"),
            ("skylake", 0x412e, "LONGEST_LAT_CACHE.MISS"),
            ("skylake", 0xc5, "branch misses"),
            ("skylake", 0xc4, "branches"),
            ("skylake", 0x412e, "cache-misses"),
            ("skylake", 0x4f2e, "cache references"),
            ("skylake", 0x3c, "cycles"),
            ("amdzen4", 0x4300c3, "branch-misses"),
            ("neoverse-n1", 0x03, "l1d cache miss"),
        ] {
            assert_eq!(code(id, value, Some(label)).label, None, "{id} {value:#x} {label}");
        }
    }

    #[test]
    fn fixed_counters_have_their_own_events() {
        let cpu = cpu("apple-m1").unwrap();
        let explained = decode(&cpu, register(&cpu, "PMCR0").unwrap(), 0b11, None);
        assert_eq!(explained.names, [["FIXED_CYCLES"], ["FIXED_INSTRUCTIONS"]]);
    }

    #[test]
    fn macoss_word_is_known_by_its_modes() {
        let explained = code("apple-m3", 0x6009b, None);
        assert_eq!(explained.names, [["INST_LDST"]], "{explained:?}");
        assert!(explained.decoded.warnings.is_empty());
    }

    #[test]
    fn perfs_words_are_one_event() {
        let cpu = cpu("skylake").unwrap();
        let words = ConfigWords { config: 0x1b7, config1: 0x10001, config2: 0 };
        let explained = decode_perf(&cpu, words, None);
        assert_eq!(explained.names, [["OFFCORE_RESPONSE.DEMAND_DATA_RD.ANY_RESPONSE"]]);
    }

    #[test]
    fn the_second_code_of_a_pair_has_the_name_of_the_first() {
        for (id, config, config1) in [("skylake", 0x1bb, 0x3f_fc40_0001), ("sapphirerapids", 0x12b, 0x10001)]
        {
            let cpu = cpu(id).unwrap();
            let first =
                ConfigWords { config: config - if id == "skylake" { 4 } else { 1 }, config1, config2: 0 };
            let expected = decode_perf(&cpu, first, None).names;
            let words = ConfigWords { config, config1, config2: 0 };
            assert_eq!(decode_perf(&cpu, words, None).names, expected, "{id}");
            assert!(!expected[0].is_empty(), "{id} {expected:?}");
        }
    }

    #[test]
    fn a_pseudo_code_is_one_event() {
        let cpu = cpu("sapphirerapids").unwrap();
        let names = |config| decode_perf(&cpu, ConfigWords { config, ..ConfigWords::default() }, None).names;
        assert_eq!(names(0x100), [["INST_RETIRED.PREC_DIST"]]);
        assert!(
            names(0xc0).iter().flatten().all(|name| name != "INST_RETIRED.PREC_DIST"),
            "{:?}",
            names(0xc0)
        );
    }

    #[test]
    fn an_unknown_register_is_refused_with_those_that_there_are() {
        let error = register(&cpu("skylake").unwrap(), "PMCR0").unwrap_err();
        assert_eq!(error.to_string(), "skylake has no register 'PMCR0'");
        assert!(error.recovery().to_string().contains("IA32_PERFEVTSEL0"), "{}", error.recovery());
    }
}

//! From the text of an event to its code on one CPU of the catalogue.

use cyclometer_arch::{Chip, ChipCounters, Coded, EncodeError, decode_words, perf_words};
use cyclometer_core::event::ExtraRegisterKind;
use cyclometer_core::pmu::{ConfigWords, Family};
use cyclometer_core::syntax::{EventRequest, Selector, Term};
use cyclometer_core::{CounterId, CounterMask, Error, ErrorKind, EventCode, Recovery, Result};

use crate::generic::{CacheEvent, HARDWARE, named};
use crate::meaning::{self, FoundEntry, NameMeaning, entry};
use crate::pmu_names::{check_pmu, check_prefix};
use crate::table::{Cpu, Entry, Generic};
use crate::terms::{self, apply, is_flag, kind};
use crate::{libpfm, portable};

/// A requested event on one CPU.
#[derive(Clone, Debug)]
pub struct Selected<'a> {
    /// Its name on this CPU: the vendor's if there is one.
    pub name: String,
    /// The table's entry; `None` for codes and for the kernel's generic events.
    pub entry: Option<Entry<'a>>,
    /// The code for a counter, including attributes.
    pub coded: Coded,
    /// The kernel's own words for a generic event, which take precedence over those of the code.
    pub generic: Option<Generic>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// The facts of a CPU that determine register layouts.
pub fn chip(cpu: &Cpu<'_>) -> Chip {
    Chip {
        family: cpu.family(),
        pmu_version: cpu.pmu_version(),
        selector_bits: cpu.selector_bits(),
        counter_width: cpu.counter_width(),
        counters: ChipCounters::of(cpu.counters()),
    }
}

/// Finds an event on a CPU. The text is the vendor's name in any case, libpfm4's spelling of it, a generic
/// name of perf, a portable name, a raw code, or terms between slashes. A portable name that is a sum of
/// events gives several.
///
/// # Errors
///
/// [`ErrorKind::UnknownEvent`] with the nearest names, [`ErrorKind::InvalidInput`] for an attribute that the
/// event cannot have.
pub fn select<'a>(cpu: Cpu<'a>, request: &EventRequest) -> Result<Vec<Selected<'a>>> {
    match &request.selector {
        Selector::Name(name) => {
            check_prefix(&cpu, name)?;
            let generic = libpfm::generic(name)?;
            by_name(cpu, generic.as_deref().unwrap_or(name), &request.attributes, &request.text)
        }
        Selector::Raw(config) => {
            by_words(cpu, ConfigWords { config: *config, ..ConfigWords::default() }, request)
        }
        Selector::Pmu { pmu, terms } => {
            check_pmu(&cpu, pmu)?;
            by_terms(cpu, terms, request)
        }
    }
}

/// Whether a CPU may know a name at all. Otherwise [`select`] would search for near names, which is slow.
pub(crate) fn may_know(cpu: &Cpu<'_>, name: &str) -> bool {
    entry(cpu, name).is_some() || generic(cpu, name).is_some() || portable::find(name).is_some()
}

fn by_name<'a>(cpu: Cpu<'a>, name: &str, attributes: &[Term], text: &str) -> Result<Vec<Selected<'a>>> {
    let meaning = NameMeaning::of(name, attributes, &[cpu]);
    if let NameMeaning::Event(found) = meaning {
        return of_entry(&cpu, found.entry, attributes, text).map(|selected| vec![selected]);
    }
    if let Some(generic) = generic(&cpu, name) {
        refuse_attributes(attributes, text)?;
        return Ok(vec![of_generic(cpu, generic)]);
    }
    match meaning {
        NameMeaning::Event(_) | NameMeaning::Unknown => Err(meaning::unknown(&cpu, name)),
        NameMeaning::Portable { summands, note } => {
            let one = |found: &FoundEntry<'a>| {
                let mut selected = of_entry(&cpu, found.entry, attributes, text)?;
                selected.notes.extend(note.map(str::to_owned));
                Ok(selected)
            };
            summands.iter().map(one).collect()
        }
        NameMeaning::NoCounterpart { reason, nearest } => {
            Err(Error::new(ErrorKind::EventUnsupported, format!("{} has no {name}: {reason}", cpu.id()))
                .with_recovery(Recovery::OfferNearest {
                    names: nearest.iter().map(|name| (*name).to_owned()).collect(),
                }))
        }
    }
}

/// A generic event of the kernel, with the vendor's event that the kernel counts for it.
fn of_generic(cpu: Cpu<'_>, generic: Generic) -> Selected<'_> {
    let words = ConfigWords { config: generic.config, config1: generic.config1, config2: 0 };
    let coded = code_of(&cpu, &words);
    // The kernel passes a number to the firmware that is not a code of the core.
    let found = (cpu.family() != Family::RiscV).then(|| entries_of(&cpu, &coded));
    let entry = found.into_iter().flatten().next();
    let mut coded = entry.map_or(coded, |entry| terms::coded(&entry));
    let fixed = fixed_for(&cpu, &words);
    let named = coded.counters.map(|counters| counters.or(fixed));
    coded.counters = named.or((!fixed.is_empty()).then_some(fixed));
    let notes = entry.map(|entry| format!("the kernel counts {}", entry.name())).into_iter().collect();
    Selected { name: generic.name.clone(), entry, coded, generic: Some(generic), notes }
}

fn of_entry<'a>(cpu: &Cpu<'a>, entry: Entry<'a>, attributes: &[Term], text: &str) -> Result<Selected<'a>> {
    let coded = FoundEntry { cpu: *cpu, entry }.refined(attributes, text)?;
    if !attributes.is_empty() {
        check_refinement(cpu, &coded, text)?;
    }
    Ok(Selected {
        name: entry.name().to_owned(),
        entry: Some(entry),
        coded,
        generic: None,
        notes: notes_of(&entry),
    })
}

/// The vendor's notes about an event that a user should know.
pub(crate) fn notes_of(entry: &Entry<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    if entry.deprecated() {
        notes.push("deprecated by the vendor".to_owned());
    }
    let errata: Vec<&str> = entry.errata().collect();
    if !errata.is_empty() {
        notes.push(format!("errata: {}", errata.join(", ")));
    }
    notes
}

/// The kernel's generic event of a name, as in the CPU's table. perf's name comes first, then another name of
/// a hardware event, then another spelling of a cache event.
fn generic(cpu: &Cpu<'_>, name: &str) -> Option<Generic> {
    let hardware =
        HARDWARE.iter().find(|hardware| named(hardware.names, name)).map(|hardware| hardware.names);
    let cache = CacheEvent::parse(name);
    cpu.generic()
        .find(|generic| generic.name.eq_ignore_ascii_case(name))
        .or_else(|| cpu.generic().find(|generic| hardware.is_some_and(|names| named(names, &generic.name))))
        .or_else(|| {
            cpu.generic().find(|generic| cache.is_some() && CacheEvent::parse(&generic.name) == cache)
        })
}

/// The code in perf's words on a CPU.
fn code_of(cpu: &Cpu<'_>, words: &ConfigWords) -> Coded {
    let decoded = decode_words(&chip(cpu), words);
    let event = decoded.events.into_iter().next();
    event.map_or_else(
        || Coded { config: Some(words.config), ..Coded::default() },
        |event| Coded { code: event.code, config: event.config, counters: None },
    )
}

/// The fixed counters that the kernel may use for these words.
fn fixed_for(cpu: &Cpu<'_>, words: &ConfigWords) -> CounterMask {
    let events = decode_words(&chip(cpu), words).events;
    let counters = events.iter().filter_map(|event| event.counter);
    let fixed =
        |counter: &CounterId| matches!(counter, CounterId::Fixed(_)) && cpu.counters().contains(*counter);
    counters.filter(fixed).collect()
}

/// The entries of a CPU with exactly this code among theirs: whole config words first, then the fields.
pub(crate) fn entries_of<'a>(cpu: &Cpu<'a>, coded: &Coded) -> Vec<Entry<'a>> {
    let whole = coded.config.into_iter().flat_map(|config| cpu.by_code(&coded.code, Some(config)));
    let exactly =
        |entry: &Entry<'a>| entry.code() == coded.code || entry.also().any(|also| also.code == coded.code);
    let fields = cpu.by_code(&coded.code, None).filter(exactly);
    let mut found: Vec<Entry<'a>> = whole.collect();
    for entry in fields {
        if !found.iter().any(|known| known.name() == entry.name()) {
            found.push(entry);
        }
    }
    found
}

fn by_words<'a>(cpu: Cpu<'a>, words: ConfigWords, request: &EventRequest) -> Result<Vec<Selected<'a>>> {
    refuse_attributes(&request.attributes, &request.text)?;
    let coded = code_of(&cpu, &words);
    let found = entries_of(&cpu, &coded);
    let names: Vec<&str> = found.iter().map(Entry::name).collect();
    let notes = match names.is_empty() {
        true => vec![format!("no event of {} has this code", cpu.id())],
        false => vec![format!("the code of {}", names.join(", "))],
    };
    let entry = found.into_iter().next();
    let coded = Coded { counters: entry.and_then(|entry| counters_of(&entry, &coded)), ..coded };
    let kernel = Generic { name: request.text.clone(), config: words.config, config1: words.config1 };
    Ok(vec![Selected { name: request.text.clone(), entry, coded, generic: Some(kernel), notes }])
}

/// The counters that may count an entry by this one of its codes.
fn counters_of(entry: &Entry<'_>, coded: &Coded) -> Option<CounterMask> {
    let other = entry.also().find(|also| also.code == coded.code && also.code != entry.code());
    other.map_or(entry.counters(), |also| also.counters)
}

fn by_terms<'a>(cpu: Cpu<'a>, terms: &[Term], request: &EventRequest) -> Result<Vec<Selected<'a>>> {
    let is_name = |term: &&Term| term.value.is_none() && !is_flag(&term.name);
    if let Some(name) = terms.iter().find(is_name) {
        let rest: Vec<Term> = terms.iter().filter(|term| !is_name(term)).cloned().collect();
        return by_name(cpu, &name.name, &rest, &request.text);
    }
    let (whole, fields): (Vec<&Term>, Vec<&Term>) = terms.iter().partition(|term| is_whole(&term.name));
    if whole.is_empty() && !fields.iter().any(|term| term.name == "event") {
        return Err(Error::new(ErrorKind::InvalidInput, format!("{} has fields and no event", request.text))
            .with_recovery(Recovery::fix(
                "write event=0x… or an event's name first, as in cpu/event=0xc5,umask=1/",
            )));
    }
    let mut coded = Coded::default();
    for term in &fields {
        apply(&cpu, &mut coded, term, &request.text)?;
    }
    check_refinement(&cpu, &coded, &request.text)?;
    if !whole.is_empty() {
        return by_words(cpu, combined(&cpu, &coded, &whole, &request.text)?, request);
    }
    let found = entries_of(&cpu, &coded);
    let entry = found.into_iter().next();
    coded.counters = entry.and_then(|entry| counters_of(&entry, &coded));
    coded.config = entry.filter(|entry| entry.code() == coded.code).and_then(|entry| entry.config());
    Ok(vec![Selected { name: request.text.clone(), entry, coded, generic: None, notes: Vec::new() }])
}

/// Puts fields into whole words, as perf does: bits are set, never cleared.
fn combined(cpu: &Cpu<'_>, fields: &Coded, whole: &[&Term], text: &str) -> Result<ConfigWords> {
    let mut words = match *fields == Coded::default() {
        true => ConfigWords::default(),
        false => perf_words(&chip(cpu), fields).map_err(|error| cannot_be(text, &error))?,
    };
    for term in whole {
        let value = term.value.unwrap_or(1);
        match term.name.as_str() {
            "config" => words.config |= value,
            "config1" => words.config1 |= value,
            _ => words.config2 |= value,
        }
    }
    Ok(words)
}

/// The error for an event that cannot be encoded.
pub(crate) fn cannot_be(text: &str, error: &EncodeError) -> Error {
    let hint = match error {
        EncodeError::TooLarge { greatest, .. } => format!("the greatest value is {greatest:#x}"),
        _ => "leave out what the CPU does not have".to_owned(),
    };
    Error::new(ErrorKind::InvalidInput, format!("{text}: {error}")).with_recovery(Recovery::fix(hint))
}

fn is_whole(name: &str) -> bool {
    matches!(name, "config" | "config1" | "config2")
}

/// Rejects a value for an extra register that does not refine the event: the kernel would ignore it.
///
/// # Source
///
/// Linux `arch/x86/events/intel/core.c`, `x86_pmu_extra_regs`: registers go with events.
fn check_refinement(cpu: &Cpu<'_>, coded: &Coded, text: &str) -> Result<()> {
    let Some(extra) = coded.code.extra.filter(|_| cpu.family() == Family::Intel) else { return Ok(()) };
    let code = coded.code;
    let refined = |other: &EventCode| {
        other.select == code.select
            && other.extra.is_some_and(|other| kind(other.register) == kind(extra.register))
    };
    let any =
        cpu.events().any(|entry| refined(&entry.code()) || entry.also().any(|also| refined(&also.code)));
    if any || (kind(extra.register) == kind(ExtraRegisterKind::OffcoreResponse0) && is_offcore(code.select)) {
        return Ok(());
    }
    let message =
        format!("{text}: no event of {} with select {:#x} is refined by this field", cpu.id(), code.select);
    Err(Error::new(ErrorKind::InvalidInput, message).with_recovery(Recovery::fix(
        "ldlat goes with load latencies, frontend with FRONTEND_RETIRED, offcore_rsp with OCR",
    )))
}

fn is_offcore(select: u16) -> bool {
    matches!(select, 0xb7 | 0xbb | 0x2a | 0x2b)
}

fn refuse_attributes(attributes: &[Term], text: &str) -> Result<()> {
    match attributes.first() {
        None => Ok(()),
        Some(first) => Err(Error::new(
            ErrorKind::InvalidInput,
            format!("'{}' of {text} cannot refine a generic event or a raw code", first.name),
        )
        .with_recovery(Recovery::fix("name the vendor's event"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpus::cpu;
    use crate::encode::{encode, encode_all};
    use cyclometer_core::syntax::parse_event;

    fn config(id: &str, text: &str) -> (u64, u64) {
        let request = parse_event(text).unwrap();
        let encodings = encode(cpu(id).unwrap(), &request, None).unwrap();
        assert_eq!(encodings.len(), 1, "{text}");
        let words = encodings[0].perf.clone().unwrap();
        (words.config, words.config1)
    }

    #[test]
    fn one_event_is_found_by_every_spelling() {
        let spellings = [
            "BR_MISP_RETIRED.ALL_BRANCHES",
            "br_misp_retired.all_branches:u",
            "skl::BR_MISP_RETIRED:ALL_BRANCHES",
            "BR_MISP_RETIRED:ALL_BRANCHES",
            "cpu/BR_MISP_RETIRED.ALL_BRANCHES/u",
            "cpu/event=0xc5/",
            "r00c5",
            "branch-misses",
            "branch_misses",
        ];
        for spelling in spellings {
            assert_eq!(config("skylake", spelling), (0xc5, 0), "{spelling}");
        }
    }

    #[test]
    fn attributes_change_the_code_and_not_the_counters() {
        let cases = [
            ("intel::UOPS_ISSUED:ANY:c=1:i", 0x180_010e),
            ("UOPS_ISSUED.ANY:cmask=1:inv", 0x180_010e),
            ("cpu/UOPS_ISSUED.ANY,cmask=0x1,inv,edge/", 0x184_010e),
            ("cpu/event=0x0e,umask=1,cmask=1,inv=1/", 0x180_010e),
        ];
        for (text, expected) in cases {
            assert_eq!(config("skylake", text), (expected, 0), "{text}");
        }
        assert_eq!(config("skylake", "cpu/MEM_TRANS_RETIRED.LOAD_LATENCY_GT_4,ldlat=50/"), (0x1cd, 50));
        assert_eq!(config("skylake", "FRONTEND_RETIRED.L2_MISS:frontend=0x15"), (0x1c6, 0x15));
        assert_eq!(config("skylake", "cpu/event=0xb7,umask=1,offcore_rsp=0x10001/"), (0x1b7, 0x10001));
        assert_eq!(config("skylake", "skl::MEM_TRANS_RETIRED:LOAD_LATENCY:ldlat=64"), (0x1cd, 64));
    }

    #[test]
    fn whole_words_and_fields_go_together_as_in_perf() {
        for (text, expected) in [
            ("cpu/event=0xb7,umask=1,config1=0x10001/", (0x1b7, 0x10001)),
            ("cpu/config=0x1c5,cmask=2/", (0x2_0001c5, 0)),
            ("cpu/config=0x1b7,config1=0x10001/", (0x1b7, 0x10001)),
        ] {
            assert_eq!(config("skylake", text), expected, "{text}");
        }
    }

    #[test]
    fn a_pmu_in_front_must_be_the_cpus() {
        for (id, text, message) in [
            ("skylake", "uncore_imc/event=1/", "no core PMU is named 'uncore_imc'"),
            ("alderlake/core", "cpu_atom/event=0xc5/", "cpu_atom is not the PMU of alderlake/core"),
            ("skylake", "hsw::INST_RETIRED:ANY", "hsw is not the PMU of skylake"),
        ] {
            let error = select(cpu(id).unwrap(), &parse_event(text).unwrap()).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }

    #[test]
    fn what_a_field_cannot_hold_or_refine_is_an_error() {
        for (text, message) in [
            ("cpu/event=0xcd,umask=1,ldlat=0x10000/", "cpu/event=0xcd,umask=1,ldlat=0x10000/: ldlat=0x10000"),
            ("BR_MISP_RETIRED.ALL_BRANCHES:ldlat=3", "BR_MISP_RETIRED.ALL_BRANCHES: no event of skylake"),
            (
                "FRONTEND_RETIRED.L2_MISS:ldlat=3",
                "FRONTEND_RETIRED.L2_MISS is refined by MSR_PEBS_FRONTEND already",
            ),
        ] {
            let request = parse_event(text).unwrap();
            let error = encode(cpu("skylake").unwrap(), &request, None).unwrap_err();
            assert!(error.to_string().starts_with(message), "{text}: {error}");
        }
    }

    #[test]
    fn guests_and_the_host_are_bits_of_amds_registers() {
        let value = |text: &str| {
            let request = parse_event(text).unwrap();
            let found = encode(cpu("amdzen4").unwrap(), &request, None).unwrap();
            found[0].registers.as_ref().unwrap()[0].value
        };
        assert_eq!(value("ex_ret_instr:G"), 0x100_0043_00c0);
        assert_eq!(value("ex_ret_instr:H"), 0x200_0043_00c0);
    }

    #[test]
    fn fixed_events_and_other_vendors_have_their_codes() {
        let cases = [
            ("skylake", "INST_RETIRED.ANY", 0xc0),
            ("skylake", "CPU_CLK_UNHALTED.REF_TSC", 0x300),
            ("sapphirerapids", "TOPDOWN.SLOTS", 0x400),
            ("amdzen4", "ex_ret_brn_misp", 0xc3),
            ("amdzen3", "op_cache_hit_miss.op_cache_hit", 0x2_0000_038f),
            ("neoverse-n1", "L1D_CACHE_REFILL", 0x03),
            ("apple-m1", "INST_BRANCH", 0x8d),
            ("apple-m4", "INST_BRANCH", 0x21),
            ("neoverse-v1", "instructions", 0x08),
        ];
        for (id, event, expected) in cases {
            match parse_event(event).and_then(|request| encode(cpu(id).unwrap(), &request, None)) {
                Ok(found) => assert_eq!(found[0].perf.as_ref().unwrap().config, expected, "{id} {event}"),
                Err(error) => panic!("{id} {event}: {error}"),
            }
        }
    }

    #[test]
    fn what_is_no_event_is_refused_with_a_remedy() {
        let cases = [
            ("BR_MISP_RETIRD.ALL_BRANCHES", "skylake has no event named 'BR_MISP_RETIRD.ALL_BRANCHES'"),
            ("BR_MISP_RETIRED", "'BR_MISP_RETIRED' alone is ambiguous on skylake: it has unit masks"),
            ("cpu/umask=1/", "cpu/umask=1/ has fields and no event"),
            (
                "cpu/event=1,cmask=256/",
                "'cmask' of cpu/event=1,cmask=256/ is 0x100, more than its field holds",
            ),
            ("cpu/event=0x10000/", "'event' of cpu/event=0x10000/ is 0x10000, more than its field holds"),
            ("cpu/event=1,inv=2/", "'inv' of cpu/event=1,inv=2/ is 0x2, more than its field holds"),
            ("cpu/event=1,colour=2/", "an event has no field 'colour' (in cpu/event=1,colour=2/)"),
            ("r1c5:inv", "'inv' of r1c5 cannot refine a generic event or a raw code"),
        ];
        for (text, message) in cases {
            let request = parse_event(text).unwrap();
            let error = select(cpu("skylake").unwrap(), &request).unwrap_err();
            assert_eq!(error.to_string(), message);
            assert_ne!(error.recovery().to_string(), "", "{text}");
        }
    }

    #[test]
    fn every_name_that_is_found_may_be_known() {
        for cpu in crate::cpus::cpus() {
            let vendors: Vec<String> =
                cpu.events().step_by(7).map(|entry| entry.name().to_lowercase()).collect();
            let spelled = vendors.iter().map(|name| format!("x::{}", name.replace('.', ":")));
            let kernels = HARDWARE.iter().flat_map(|hardware| hardware.names).map(|name| (*name).to_owned());
            let portables = portable::names().map(str::to_owned);
            let caches = ["L1-dcache-load-misses", "LLC-loads", "branch-loads"].map(str::to_owned);
            for name in vendors.iter().cloned().chain(spelled).chain(kernels).chain(portables).chain(caches) {
                let selected = by_name(cpu, &name, &[], &name);
                assert!(may_know(&cpu, &name) || selected.is_err(), "{} {name}", cpu.id());
            }
            assert!(!may_know(&cpu, "wall_time"));
        }
    }

    #[test]
    fn every_event_of_every_cpu_is_encoded_and_decoded_to_itself() {
        let mut without = Vec::new();
        for cpu in crate::cpus::cpus() {
            for encoding in encode_all(cpu) {
                let Ok(words) = encoding.perf else {
                    without.push(format!("{} {}", cpu.id(), encoding.selected.name));
                    continue;
                };
                let decoded = crate::decode::decode_perf(&cpu, words, None);
                let coded = &encoding.selected.coded;
                let fixed = coded.general_alone().is_none() && coded.fixed_bits() != 0;
                let found = decoded.names.iter().flatten().any(|name| *name == encoding.selected.name);
                assert!(
                    found || fixed,
                    "{} {}: {words:x?} {:?} {:?} by code {:?}",
                    cpu.id(),
                    encoding.selected.name,
                    decoded.names,
                    decoded.decoded.events,
                    cpu.by_code(&encoding.selected.coded.code, None).collect::<Vec<_>>()
                );
            }
        }
        // No kernel driver counts on these CPUs.
        let apples = ["m3", "m4", "m5"].iter();
        let fixed =
            apples.flat_map(|m| ["CYCLES", "INSTRUCTIONS"].map(|what| format!("apple-{m} FIXED_{what}")));
        assert_eq!(without, fixed.collect::<Vec<String>>());
    }
}

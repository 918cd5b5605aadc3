//! Vendor events and portable events on the core PMUs of a machine.

use cyclometer_arch::{Coded, EncodeError, perf_words, perf_words_by_format, takes_two_counters};
use cyclometer_core::event::{ExtraRegister, PerfClass, PerfEvent};
use cyclometer_core::pmu::{ConfigWords, Family, PmuSet};
use cyclometer_core::reason::{CoreLack, PartReason, PmuLack};
use cyclometer_core::syntax::Term;
use cyclometer_core::{Candidate, CounterMask, Error, ErrorKind, EventCode, Modes, Provenance, Result};

use crate::host::CoreTables;
use crate::meaning::{self, FoundEntry, NameMeaning};
use crate::pmu_names::check_prefix;
use crate::portable::{self, Portable, PortableEvents};
use crate::select::{self, chip};
use crate::table::{Cpu, Entry};
use crate::{cpus, device, perf_type, terms};

/// An event with its terms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestedEvent<'a> {
    /// The event's name: the vendor's or a portable one.
    pub name: &'a str,
    /// Fields that override those of the event.
    pub terms: &'a [Term],
    /// The text as it was written, for messages.
    pub text: &'a str,
}

/// The resolution of a table's event on a machine.
#[derive(Clone, Debug)]
pub(crate) struct HostEvent {
    /// The candidate; `None` if no core PMU can count it, for the reasons in `missing`.
    pub candidate: Option<Candidate>,
    /// The reasons of the core PMUs that cannot count it.
    pub missing: Vec<CoreLack>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// An event on one core PMU.
struct OnCore<'a> {
    part: PerfEvent,
    /// The vendor's name.
    name: &'a str,
    never_zero: bool,
    /// As [`Candidate::uncertain`].
    uncertain: Option<PartReason>,
    notes: Vec<String>,
}

/// The reason why an event is not counted on a core PMU.
enum Why {
    /// Its tables do not know the name.
    Unknown,
    /// The PMU cannot count it, for this reason.
    Cannot(PmuLack),
    /// The request is invalid.
    Refused(Error),
}

type HostResult<T> = std::result::Result<T, Why>;

impl From<Error> for Why {
    fn from(error: Error) -> Why {
        Why::Refused(error)
    }
}

/// Finds an event in the tables of these core PMUs; `None` if none of them has the name.
///
/// # Errors
///
/// `ErrorKind::InvalidInput` for a field that the event cannot have or a value that does not fit.
pub(crate) fn find(
    wanted: &RequestedEvent<'_>,
    cores: &[CoreTables<'_>],
    modes: Modes,
) -> Result<Option<HostEvent>> {
    let (mut counted, mut missing, mut unknown) = (Vec::new(), Vec::new(), 0);
    for core in cores {
        match on_core(wanted, core) {
            Ok(found) => counted.extend(found),
            Err(Why::Cannot(reason)) => missing.push(CoreLack { core: place(core), reason }),
            Err(Why::Unknown) => {
                unknown += 1;
                let reason = PmuLack::NoEvent { event: wanted.name.to_owned() };
                missing.push(CoreLack { core: place(core), reason });
            }
            Err(Why::Refused(error)) => return Err(error),
        }
    }
    Ok((unknown < cores.len()).then(|| assembled(counted, missing, modes)))
}

/// A core PMU in messages: its name if there are several, and its CPU.
fn place(core: &CoreTables<'_>) -> String {
    match core.pmu_name() {
        "cpu" => core.id.to_owned(),
        pmu if pmu == core.id => pmu.to_owned(),
        pmu => format!("{pmu} ({})", core.id),
    }
}

fn assembled(counted: Vec<OnCore<'_>>, missing: Vec<CoreLack>, modes: Modes) -> HostEvent {
    if counted.is_empty() {
        return HostEvent { candidate: None, missing, notes: Vec::new() };
    }
    let mut notes: Vec<String> = missing.iter().map(|reason| format!("not everywhere: {reason}")).collect();
    for note in counted.iter().flat_map(|on_core| &on_core.notes) {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    let only = PmuSet::new(counted.iter().map(|on_core| on_core.part.pmu.as_str()));
    let only = only.filter(|_| !missing.is_empty());
    let (resolution, never_zero) = (resolution(&counted), counted.iter().all(|on_core| on_core.never_zero));
    let uncertain = counted.iter().find_map(|on_core| on_core.uncertain.clone());
    let names = counted.iter().map(|on_core| on_core.name.to_owned()).collect();
    let parts = counted.into_iter().map(|on_core| on_core.part).collect();
    let candidate = Candidate::perf(parts, Provenance::Hardware, Some(modes)).with_summands(names);
    HostEvent {
        candidate: Some(Candidate { resolution, only, never_zero, uncertain, ..candidate }),
        missing,
        notes,
    }
}

/// `cpu/config=0xc5/ (BR_MISP_RETIRED.ALL_BRANCHES)`; the name once if it is the same on all PMUs.
fn resolution(counted: &[OnCore<'_>]) -> String {
    let words: Vec<String> = counted.iter().map(|on_core| on_core.part.to_string()).collect();
    let name = counted.first().map_or("", |first| first.name);
    if counted.iter().all(|on_core| on_core.name == name) {
        return format!("{} ({name})", words.join(" + "));
    }
    let named = words.iter().zip(counted).map(|(words, on_core)| format!("{words} ({})", on_core.name));
    named.collect::<Vec<_>>().join(" + ")
}

/// The event on a core PMU; for a portable event that is a sum, its summands.
fn on_core<'a>(wanted: &RequestedEvent<'_>, core: &CoreTables<'a>) -> HostResult<Vec<OnCore<'a>>> {
    match NameMeaning::of(wanted.name, wanted.terms, &core.tables) {
        NameMeaning::Event(found) => encoded(core, found, wanted).map(|found| vec![found]),
        NameMeaning::Portable { summands, note } => {
            let one = |found: &FoundEntry<'a>| summand(core, *found, summands.len(), note, wanted);
            summands.iter().map(one).collect()
        }
        NameMeaning::NoCounterpart { reason, nearest } => {
            let nearest = nearest.iter().map(|name| (*name).to_owned()).collect();
            Err(Why::Cannot(PmuLack::NoCounterpart { reason: reason.to_owned(), nearest }))
        }
        NameMeaning::Unknown => Err(Why::Unknown),
    }
}

/// One of the vendor's events that a portable name means.
fn summand<'a>(
    core: &CoreTables<'a>,
    found: FoundEntry<'a>,
    summands: usize,
    note: Option<&str>,
    wanted: &RequestedEvent<'_>,
) -> HostResult<OnCore<'a>> {
    let mut on_core =
        encoded(core, found, wanted).map_err(|why| of_summand(why, found.entry.name(), summands))?;
    on_core.notes.extend(note.map(str::to_owned));
    on_core.uncertain = uncertain(found.cpu, summands, on_core.part.constraint);
    Ok(on_core)
}

/// Why a sum may be too small on a CPU whose number of counters is unknown: RISC-V's driver then claims that
/// events without a counter ran.
///
/// # Source
///
/// Linux 6.12 and 7.2 in the emulated machines of `tests/guests`: with more events than counters all claim
/// the whole time, and some read 0.
fn uncertain(cpu: Cpu<'_>, summands: usize, constraint: Option<CounterMask>) -> Option<PartReason> {
    let is_unknown = cpu.family() == Family::RiscV && constraint.is_none() && summands > 1;
    is_unknown.then_some(PartReason::FewerCounters { summands })
}

/// The reason why a sum is not counted, from its summand that is not.
fn of_summand(why: Why, name: &str, summands: usize) -> Why {
    match why {
        Why::Cannot(reason) if summands > 1 => {
            Why::Cannot(PmuLack::Summand { event: name.to_owned(), reason: Box::new(reason) })
        }
        other => other,
    }
}

fn encoded<'a>(
    core: &CoreTables<'a>,
    found: FoundEntry<'a>,
    wanted: &RequestedEvent<'_>,
) -> HostResult<OnCore<'a>> {
    let FoundEntry { cpu, entry } = found;
    let (fields, rest): (Vec<&Term>, Vec<&Term>) =
        wanted.terms.iter().partition(|term| core.pmu.is_none() || terms::is_attribute(&term.name));
    let coded = found.refined(fields.iter().copied(), wanted.text)?;
    check_config(&entry, &coded, wanted.text)?;
    let mut words = words(core, &cpu, &coded).map_err(|error| refused(error, wanted.text))?;
    for (pmu, term) in core.pmu.into_iter().flat_map(|pmu| rest.iter().map(move |term| (pmu, term))) {
        device::apply(pmu, term, wanted.text, &mut words)?;
    }
    let plain = fields.is_empty() && rest.is_empty();
    let constraint = constraint(core, &cpu, &coded, plain).map_err(Why::Cannot)?;
    let others = entry.also().filter_map(|also| also.code.extra).filter(|_| coded.code == entry.code());
    let extras: Vec<ExtraRegister> = coded.code.extra.into_iter().chain(others).collect();
    let wide = takes_two_counters(&chip(&cpu), &coded);
    Ok(OnCore {
        part: PerfEvent { extras, wide, ..part(core, words, constraint) },
        name: entry.name(),
        never_zero: plain && is_never_zero(&cpu, entry.name()),
        uncertain: None,
        notes: select::notes_of(&entry),
    })
}

fn part(core: &CoreTables<'_>, words: ConfigWords, constraint: Option<CounterMask>) -> PerfEvent {
    let pmu_type = core.pmu.map_or(perf_type::RAW, |pmu| pmu.pmu_type);
    PerfEvent {
        words,
        cpus: core.pmu.and_then(|pmu| pmu.cpus.clone()),
        constraint,
        ..PerfEvent::new(core.pmu_name(), pmu_type, 0, PerfClass::Core)
    }
}

/// Encodes by the kernel's format files if it has some.
fn words(
    core: &CoreTables<'_>,
    cpu: &Cpu<'_>,
    coded: &Coded,
) -> std::result::Result<ConfigWords, EncodeError> {
    match core.pmu.map(|pmu| &pmu.formats).filter(|formats| !formats.is_empty()) {
        Some(formats) => perf_words_by_format(&chip(cpu), coded, formats),
        None => perf_words(&chip(cpu), coded),
    }
}

fn refused(error: EncodeError, text: &str) -> Why {
    let reason = error.to_string();
    let error = Error::from(error);
    match error.kind() {
        ErrorKind::EventUnsupported => Why::Cannot(PmuLack::NotEncodable(reason)),
        kind => {
            let recovery = error.recovery().clone();
            Why::Refused(Error::new(kind, format!("{text}: {reason}")).with_recovery(recovery))
        }
    }
}

/// An event that is a whole config word has no fields to change.
fn check_config(entry: &Entry<'_>, coded: &Coded, text: &str) -> Result<()> {
    let plain = |code: EventCode| EventCode { extra: None, ..code };
    if entry.config().is_none() || plain(entry.code()) == plain(coded.code) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidInput,
        format!("{text}: {} is a whole config word and has no fields to refine", entry.name()),
    ))
}

/// The counters that may count an event on this machine; `None` when they are not known.
///
/// perf passes only the code of an event to the kernel, so an event may use every counter that counts the
/// same code. These are a fixed counter and the general ones, if an event on either has that code.
fn constraint(
    core: &CoreTables<'_>,
    cpu: &Cpu<'_>,
    coded: &Coded,
    plain: bool,
) -> std::result::Result<Option<CounterMask>, PmuLack> {
    let same = if plain { counting_the_same(cpu, coded) } else { CounterMask::EMPTY };
    let own = coded.counters.unwrap_or(CounterMask::EMPTY);
    let general = match (own.general_bits(), own.fixed_bits()) {
        (0, 1..) => same.general_bits(),
        (bits, _) => bits,
    };
    let fixed = own.fixed_bits() | same.fixed_bits();
    // The vendor's "all counters" are those of its file, which may be more or fewer than this machine has.
    let any = (general == 0 && fixed == 0) || general == cpu.counters().general_bits();
    let named = CounterMask::from_bits(if any { u64::MAX } else { general }, fixed);
    match core.counters {
        None => Ok((!any).then_some(named)),
        Some(known) if named.and(known).is_empty() => Err(PmuLack::OtherCounters { only: named, has: known }),
        Some(known) => Ok(Some(named.and(known))),
    }
}

/// The counters of every event of the CPU for which perf has the same words.
fn counting_the_same(cpu: &Cpu<'_>, coded: &Coded) -> CounterMask {
    let (chip, own_is_fixed) = (chip(cpu), coded.general_alone().is_none());
    let Ok(words) = perf_words(&chip, coded) else { return CounterMask::EMPTY };
    let others = cpu.events().filter(|entry| own_is_fixed || terms::coded(entry).general_alone().is_none());
    let same = others.filter(|entry| perf_words(&chip, &terms::coded(entry)) == Ok(words));
    same.filter_map(|entry| entry.counters()).fold(CounterMask::EMPTY, CounterMask::or)
}

/// Whether every process that ran has a count above zero: cycles and instructions.
pub(crate) fn is_never_zero(cpu: &Cpu<'_>, name: &str) -> bool {
    ["cpu_cycles", "instructions"].iter().filter_map(|basic| portable::find(basic)).any(|basic| {
        let answer = basic.among(cpu.family(), cpu.id(), |name| cpu.event(name).is_some());
        matches!(answer, PortableEvents::Event { names, .. } if names == [name])
    })
}

/// Whether a core counts a portable event.
pub(crate) fn has_portable(portable: &Portable, core: &CoreTables<'_>) -> bool {
    core.tables.first().is_some_and(|cpu| {
        let answer =
            portable.among(cpu.family(), cpu.id(), |name| FoundEntry::named(name, &core.tables).is_some());
        matches!(answer, PortableEvents::Event { .. })
    })
}

/// The CPUs of the catalogue that have an event, by id. For a name with a PMU before `::` these are the CPUs
/// with this PMU.
pub(crate) fn elsewhere(name: &str) -> Vec<&'static str> {
    let has = |cpu: &Cpu<'_>| meaning::entry(cpu, name).is_some() && check_prefix(cpu, name).is_ok();
    cpus::cpus().filter(has).map(|cpu| cpu.id()).collect()
}

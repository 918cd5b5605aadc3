//! Resolves requests to events with their candidates.

mod unknown;

use cyclometer_arch::{FixedGeneric, is_large_increment, kernel_constraint};
use cyclometer_core::energy::EnergyDomain;
use cyclometer_core::event::{PerfClass, PerfEvent, Unit};
use cyclometer_core::ladder::Works;
use cyclometer_core::pmu::{CorePmuName, KernelPmu, PmuSet};
use cyclometer_core::syntax::{EventRequest, Selector, Term, parse_events, raw_code};
use cyclometer_core::{
    Candidate, Error, ErrorKind, Event, LackReason, Machine, Modes, Provenance, Recovery, Result, Rung, Scope,
};

use crate::accounts::{self, AccountEvent};
use crate::device::{self, DeviceEvent};
use crate::energy;
use crate::generic::{
    ACCOUNTING, Accounting, CacheEvent, HARDWARE, Hardware, SOFTWARE, SoftwareEvent, accounting_source, named,
};
use crate::gpu::{self, GpuEvent};
use crate::host::{CoreTables, Tables, cores};
use crate::host_event::{self, HostEvent, RequestedEvent};
use crate::soft::{self, SoftEvent};
use crate::{has_core_pmu, libpfm, notes, perf_type, portable, registers, suggest, terms};

/// The events that are counted by default.
pub const DEFAULT_EVENTS: &str = "wall_time,user_time,system_time,peak_rss,page-faults,context-switches,\
    cycles,instructions,branches,branch-misses,cache-references,cache-misses";

/// Resolves a comma-separated list with the catalogue's tables; `requested` says whether the user requested
/// it.
///
/// # Errors
///
/// Those of [`parse_events`] and [`resolve`].
pub fn resolve_list(list: &str, machine: &Machine, requested: bool) -> Result<Vec<Event>> {
    resolve_list_in(list, machine, Tables::embedded(), requested)
}

/// As [`resolve_list`], with the user's tables before the catalogue's.
///
/// # Errors
///
/// Those of [`parse_events`] and [`resolve`].
pub fn resolve_list_in(
    list: &str,
    machine: &Machine,
    tables: &Tables,
    requested: bool,
) -> Result<Vec<Event>> {
    let host = Host { machine, cores: cores(machine, tables), tables };
    let events: Result<Vec<Event>> =
        parse_events(list)?.iter().map(|request| resolve_on(request, &host)).collect();
    Ok(events?.into_iter().map(|event| Event { requested, ..event }).collect())
}

/// Finds an event by name and lists the candidates on `machine`, best first.
///
/// Names are searched among the events of the kernel, the software PMU, the accounting and sysfs, among the
/// vendor's in `tables`, and among the portable ones. An event that exists in general and has no counterpart
/// here has no candidates.
///
/// # Errors
///
/// `ErrorKind::UnknownEvent` with the nearest names. `ErrorKind::InvalidInput` for terms that do not fit
/// their fields, for terms of an event that cannot be refined, or for modes of an event without modes.
pub fn resolve(request: &EventRequest, machine: &Machine, tables: &Tables) -> Result<Event> {
    resolve_on(request, &Host { machine, cores: cores(machine, tables), tables })
}

/// A machine with the tables for its cores.
struct Host<'a> {
    machine: &'a Machine,
    cores: Vec<CoreTables<'a>>,
    tables: &'a Tables,
}

impl Host<'_> {
    /// The cores that a name means: those of the PMU before `::` if the machine has it, otherwise all.
    fn meant(&self, name: &str) -> Vec<CoreTables<'_>> {
        let prefix = name.split_once("::").map(|(prefix, _)| prefix);
        let is_named = |core: &&CoreTables<'_>| prefix == Some(core.pmu_name());
        let named: Vec<CoreTables<'_>> = self.cores.iter().filter(is_named).cloned().collect();
        if named.is_empty() { self.cores.clone() } else { named }
    }

    /// Whether some core has a table.
    fn has_tables(&self) -> bool {
        self.cores.iter().any(|core| !core.tables.is_empty())
    }
}

fn resolve_on(request: &EventRequest, host: &Host<'_>) -> Result<Event> {
    let found = match &request.selector {
        Selector::Name(name) => by_name(name, request, host)?,
        Selector::Raw(code) => {
            refuse_terms(request, "a raw code")?;
            raw(*code, request, host.machine)
        }
        Selector::Pmu { pmu, terms } => by_device(pmu, terms, request, host)?,
    };
    check_modes(request, &found)?;
    Ok(registers::add_to(found, request, host.machine, host.tables))
}

fn event(request: &EventRequest, unit: Unit, candidates: Vec<Candidate>) -> Event {
    Event {
        named_pmu: named_pmu(request),
        modifiers: request.modifiers,
        group: request.group,
        pin: request.pin,
        ..Event::new(request.label.as_deref().unwrap_or(&request.text), unit, candidates)
    }
}

/// The PMU in the name of an event, unless another name replaces it.
fn named_pmu(request: &EventRequest) -> Option<String> {
    match &request.selector {
        Selector::Pmu { pmu, .. } if request.label.is_none() => Some(pmu.clone()),
        _ => None,
    }
}

fn unsupported(request: &EventRequest, reason: LackReason) -> Event {
    Event { unsupported: Some(reason), ..event(request, Unit::Count, Vec::new()) }
}

fn by_name(name: &str, request: &EventRequest, host: &Host<'_>) -> Result<Event> {
    let machine = host.machine;
    if let Some(generic) = libpfm::generic(name)? {
        return by_name(&generic, request, host);
    }
    if let Some(hardware) = HARDWARE.iter().find(|hardware| named(hardware.names, name))
        && !is_portable_alone(name, hardware, host)
    {
        refuse_terms(request, "a generic event of the kernel")?;
        let found = accounts::add_to(generic_hardware(hardware, request, machine), hardware.names, machine);
        return Ok(or_translated(found, hardware.names, machine));
    }
    if let Some(found) = without_hardware(name, request, machine)? {
        return Ok(found);
    }
    let devices = device::named_events(machine, name);
    if !devices.is_empty() {
        let found = on_devices(request, machine, &devices, |pmu, known| {
            device::encode_refined(pmu, known, &request.attributes, &request.text)
        });
        let domain = energy::named(name).filter(|_| devices.iter().all(|(pmu, _)| pmu.name == energy::PMU));
        return found.map(|found| or_by_zones(only_on(found, &devices, machine), domain, machine));
    }
    if let Some(domain) = energy::named(name) {
        refuse_terms(request, "an event that no core PMU counts")?;
        return Ok(by_zones(domain, request, machine));
    }
    if let Some(wanted) = gpu::named(name) {
        refuse_terms(request, "an event of GPUs")?;
        return Ok(gpu_event(&wanted, request, machine));
    }
    if let Some(cache) = CacheEvent::parse(name) {
        refuse_terms(request, "a generic event of the kernel")?;
        return Ok(cache_event(cache, request, machine));
    }
    let wanted = RequestedEvent { name, terms: &request.attributes, text: &request.text };
    match host_event::find(&wanted, &host.meant(name), wanted_modes(request))? {
        Some(found) => Ok(of_tables(found, request)),
        None => unknown::without_table(name, request, host),
    }
}

/// Events without a core PMU: those of the software PMU, the kernel and the accounting.
fn without_hardware(name: &str, request: &EventRequest, machine: &Machine) -> Result<Option<Event>> {
    let found = if let Some(counted) = soft::find(&[name]) {
        soft_event(&counted, request)
    } else if let Some(software) = SOFTWARE.iter().find(|software| named(software.names, name)) {
        software_event(software, request)
    } else if let Some(accounting) = ACCOUNTING.iter().find(|accounting| named(accounting.names, name)) {
        accounting_event(accounting, request)
    } else if let Some(account) = accounts::find(name) {
        account_event(account, request, machine)
    } else {
        return Ok(None);
    };
    refuse_terms(request, "an event that no core PMU counts")?;
    Ok(Some(found))
}

/// Whether a name is a portable one whose generic event the kernel lacks on every core here, while the vendor
/// has one.
fn is_portable_alone(name: &str, hardware: &Hardware, host: &Host<'_>) -> bool {
    let Some(portable) = portable::find(name).filter(|portable| portable.name().eq_ignore_ascii_case(name))
    else {
        return false;
    };
    let lacks = |core: &CoreTables<'_>| {
        let generic: Vec<_> = core.tables.iter().flat_map(|cpu| cpu.generic()).collect();
        let has = generic.iter().any(|generic| named(hardware.names, &generic.name));
        !generic.is_empty() && !has && host_event::has_portable(portable, core)
    };
    !host.cores.is_empty() && host.cores.iter().all(lacks)
}

/// Converts the result of the tables to an event.
fn of_tables(found: HostEvent, request: &EventRequest) -> Event {
    match found.candidate {
        None => unsupported(request, LackReason::CorePmus(found.missing)),
        Some(candidate) => Event { notes: found.notes, ..event(request, Unit::Count, vec![candidate]) },
    }
}

/// An event that has a sysfs name on some core PMUs and not on others.
fn only_on(mut found: Event, devices: &[(&KernelPmu, &str)], machine: &Machine) -> Event {
    let has = |pmu: &&KernelPmu| devices.iter().any(|(known, _)| known.name == pmu.name);
    let lacking: Vec<&str> =
        machine.core_pmus().filter(|pmu| !has(pmu)).map(|pmu| pmu.name.as_str()).collect();
    if lacking.is_empty() || !devices.iter().all(|(pmu, _)| pmu.is_core()) {
        return found;
    }
    for candidate in &mut found.candidates {
        candidate.only = PmuSet::new(devices.iter().map(|(pmu, _)| pmu.name.as_str()));
    }
    found.notes.push(format!("not everywhere: {} has no event {}", lacking.join(" and "), found.name));
    found
}

fn refuse_terms(request: &EventRequest, what: &str) -> Result<()> {
    match request.attributes.first() {
        None => Ok(()),
        Some(term) => Err(Error::new(
            ErrorKind::InvalidInput,
            format!("'{}' cannot refine {}, which is {what}", term.name, request.text),
        )
        .with_recovery(Recovery::fix("name the vendor's event: `cyclometer list PATTERN` finds it"))),
    }
}

// ---------------------------------------------------------------------------------------- hardware

fn wanted_modes(request: &EventRequest) -> Modes {
    request.modifiers.modes.unwrap_or(Modes::USER)
}

fn core_candidate(request: &EventRequest, parts: Vec<PerfEvent>) -> Candidate {
    Candidate::perf(parts, Provenance::Hardware, Some(wanted_modes(request)))
}

fn generic_hardware(hardware: &Hardware, request: &EventRequest, machine: &Machine) -> Event {
    let parts = generic_parts(machine, perf_type::HARDWARE, hardware.config, hardware.sysfs);
    let parts = parts.into_iter().map(|part| constrained(part, Some(hardware.config), machine)).collect();
    let candidate = Candidate { never_zero: hardware.never_zero(), ..core_candidate(request, parts) };
    let mut found = event(request, Unit::Count, vec![candidate]);
    found.notes.extend(notes::generic(hardware.config, machine));
    found
}

fn cache_event(cache: CacheEvent, request: &EventRequest, machine: &Machine) -> Event {
    let parts = generic_parts(machine, perf_type::HW_CACHE, cache.config(), &[]);
    let parts = parts.into_iter().map(|part| constrained(part, None, machine)).collect();
    event(request, Unit::Count, vec![core_candidate(request, parts)])
}

/// One part for each core PMU; on a machine with one core type the plain generic event.
///
/// On hybrids the kernel silently binds a generic event to one of the PMUs, so each PMU gets its own. It is
/// the event of the PMU's `events/` folder if there is one (that works on every kernel), otherwise the
/// extended type.
///
/// # Source
///
/// Linux `include/uapi/linux/perf_event.h`, `PERF_PMU_TYPE_SHIFT`.
fn generic_parts(machine: &Machine, pmu_type: u32, config: u64, sysfs: &[&str]) -> Vec<PerfEvent> {
    let pmus: Vec<&KernelPmu> = machine.core_pmus().collect();
    match pmus.as_slice() {
        [] => vec![generic_part("cpu", pmu_type, config)],
        [pmu] => vec![generic_part(&pmu.name, pmu_type, config)],
        several => several.iter().map(|pmu| hybrid_part(pmu, pmu_type, config, sysfs)).collect(),
    }
}

fn generic_part(pmu: &str, pmu_type: u32, config: u64) -> PerfEvent {
    PerfEvent::new(pmu, pmu_type, config, PerfClass::Core)
}

fn hybrid_part(pmu: &KernelPmu, pmu_type: u32, config: u64, sysfs: &[&str]) -> PerfEvent {
    let own = sysfs
        .iter()
        .filter(|name| pmu.events.contains_key(**name))
        .find_map(|name| device::encode_named(pmu, name, name).ok());
    match own {
        Some(DeviceEvent { event, .. }) => event,
        None => PerfEvent {
            cpus: pmu.cpus.clone(),
            ..generic_part(&pmu.name, pmu_type, u64::from(pmu.pmu_type) << 32 | config)
        },
    }
}

/// Sets the counters that the event may use, if the PMU's counters are known. `generic` is the config of a
/// generic event of the kernel.
fn constrained(part: PerfEvent, generic: Option<u64>, machine: &Machine) -> PerfEvent {
    let known = machine
        .core_types
        .iter()
        .find(|core| core.kernel_pmu.as_deref() == Some(&part.pmu))
        .or(machine.core_types.first())
        .and_then(|core| core.pmu.known_counters());
    let vendor = &machine.cpu.vendor;
    let is_code = generic.is_none() && part.pmu_type != perf_type::HW_CACHE;
    let code = is_code.then_some(part.words.config);
    let generic = generic.and_then(FixedGeneric::of_config);
    let generic = generic.or_else(|| FixedGeneric::of_raw(vendor, code?));
    let constraint = known.map(|known| kernel_constraint(vendor, generic, known));
    let wide = code.is_some_and(|code| is_large_increment(&machine.cpu, code));
    PerfEvent { constraint, wide, ..part }
}

fn raw(code: u64, request: &EventRequest, machine: &Machine) -> Event {
    let part = |name: &str, pmu_type| generic_part(name, pmu_type, code);
    let mut parts: Vec<PerfEvent> = machine
        .core_pmus()
        .map(|pmu| PerfEvent { cpus: pmu.cpus.clone(), ..part(&pmu.name, pmu.pmu_type) })
        .collect();
    if parts.is_empty() {
        parts.push(part("cpu", perf_type::RAW));
    }
    let parts = parts.into_iter().map(|part| constrained(part, None, machine)).collect();
    let mut found = event(request, Unit::Count, vec![core_candidate(request, parts)]);
    found.notes.push(notes::RAW.to_owned());
    found
}

// ------------------------------------------------------------------------------------ software PMU

/// Adds the software PMU as a source after the hardware, if it has the event.
fn or_translated(mut found: Event, names: &[&str], machine: &Machine) -> Event {
    if let (Some(counted), true) = (soft::find(names), soft::is_here(machine)) {
        found.candidates.push(counted.candidate(found.modifiers.modes.unwrap_or(Modes::USER)));
    }
    found
}

/// An event that only the software PMU has; the plan decides whether it works here.
fn soft_event(counted: &SoftEvent, request: &EventRequest) -> Event {
    let mut found = event(request, counted.unit(), vec![counted.candidate(wanted_modes(request))]);
    found.notes.extend(notes::soft(counted.name).map(str::to_owned));
    found
}

/// `soft/calls/`: the software PMU's count, even if the hardware has the event.
fn by_software_pmu(terms: &[Term], request: &EventRequest) -> Result<Event> {
    let [Term { name, value: None }] = terms else {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            format!("{}: between the slashes stands one event of the software PMU", request.text),
        )
        .with_recovery(Recovery::fix("write soft/instructions/")));
    };
    match soft::find(&[name]) {
        Some(counted) => Ok(soft_event(&counted, request)),
        None => {
            let names: Vec<SoftEvent> = soft::soft_events().collect();
            let near = suggest::nearest(name, names.iter().map(|event| event.name));
            let message = format!("the software PMU has no event '{name}' (in {})", request.text);
            Err(Error::new(ErrorKind::UnknownEvent, message)
                .with_recovery(Recovery::OfferNearest { names: near }))
        }
    }
}

// ---------------------------------------------------------------------------------------- devices

fn by_device(name: &str, terms: &[Term], request: &EventRequest, host: &Host<'_>) -> Result<Event> {
    let machine = host.machine;
    if name == Rung::Soft.word() {
        return by_software_pmu(terms, request);
    }
    let pmus = device::devices(machine, name);
    if pmus.is_empty()
        && let Some(selector) = with_terms(name)
    {
        let attributes = terms.to_vec();
        return resolve_on(&EventRequest { selector, attributes, ..request.clone() }, host);
    }
    if pmus.is_empty() && name == gpu::PMU {
        return Ok(gpu_event(&gpu::of_terms(terms, &request.text)?, request, machine));
    }
    let domain = energy::of_terms(name, terms);
    if let Some(domain) =
        domain.filter(|domain| !pmus.iter().any(|pmu| pmu.events.contains_key(domain.event())))
    {
        return Ok(by_zones(domain, request, machine));
    }
    if pmus.is_empty() {
        return no_device(name, terms, request, machine);
    }
    if let (true, [Term { name, value: None }]) = (pmus.iter().all(|pmu| pmu.is_core()), terms)
        && let Some(hardware) = HARDWARE.iter().find(|hardware| named(hardware.names, name))
        && !pmus.iter().any(|pmu| pmu.events.contains_key(name))
    {
        return Ok(generic_hardware(hardware, request, machine));
    }
    if let ("software", [Term { name, value: None }]) = (name, terms)
        && let Some(software) = SOFTWARE.iter().find(|software| named(software.names, name))
    {
        return Ok(software_event(software, request));
    }
    if let Some(found) = vendors_event(&pmus, terms, request, host)? {
        return Ok(found);
    }
    let targets = having(&pmus, name, terms);
    let found = on_devices(request, machine, &targets, |pmu, _| device::encode(pmu, terms, &request.text))?;
    let found = if targets.len() < pmus.len() { only_on(found, &targets, machine) } else { found };
    Ok(or_by_zones(found, domain, machine))
}

/// The event before the slashes of `cycles/name=x/`: a generic event of the kernel or a raw code.
///
/// # Source
///
/// Linux `tools/perf/util/parse-events.y`, `event_legacy_symbol`, `event_legacy_cache`,
/// `event_legacy_raw`: terms follow these, and neither tracepoints nor perf's own times.
fn with_terms(name: &str) -> Option<Selector> {
    let is_generic = HARDWARE.iter().any(|hardware| named(hardware.names, name))
        || SOFTWARE.iter().any(|software| named(software.names, name))
        || CacheEvent::parse(name).is_some();
    is_generic.then(|| Selector::Name(name.to_owned())).or_else(|| raw_code(name))
}

/// Adds the zones of the kernel's power capping as a source after the PMU for energy, if there are some.
fn or_by_zones(mut found: Event, domain: Option<EnergyDomain>, machine: &Machine) -> Event {
    found.candidates.extend(domain.and_then(|domain| energy::candidate(domain, machine)));
    found
}

/// Energy on a machine whose PMUs do not count it.
fn by_zones(domain: EnergyDomain, request: &EventRequest, machine: &Machine) -> Event {
    match energy::candidate(domain, machine) {
        Some(candidate) => event(request, energy::unit(), vec![candidate]),
        None => Event { unit: energy::unit(), ..unsupported(request, LackReason::NoEnergy(domain)) },
    }
}

/// A quantity of GPUs; whether their drivers report it is known when they are asked.
fn gpu_event(wanted: &GpuEvent, request: &EventRequest, machine: &Machine) -> Event {
    let unit = wanted.quantity.unit();
    match wanted.candidate(machine) {
        Ok(candidate) => {
            Event { notes: gpu::notes(wanted.quantity), ..event(request, unit, vec![candidate]) }
        }
        Err(reason) => Event { unit, ..unsupported(request, reason) },
    }
}

/// The PMUs that name the events among these terms; all of them if none does.
fn having<'p>(pmus: &[&'p KernelPmu], name: &'p str, terms: &[Term]) -> Vec<(&'p KernelPmu, &'p str)> {
    let has = |pmu: &&&KernelPmu| {
        let known = |term: &Term| pmu.events.contains_key(&term.name) || pmu.formats.contains_key(&term.name);
        terms.iter().filter(|term| term.value.is_none()).all(known)
    };
    let some: Vec<_> = pmus.iter().filter(has).map(|pmu| (*pmu, name)).collect();
    if some.is_empty() { pmus.iter().map(|pmu| (*pmu, name)).collect() } else { some }
}

/// `cpu_core/BR_MISP_RETIRED.ALL_BRANCHES,cmask=1/`: a name that a table has and the PMUs' folders do not.
fn vendors_event(
    pmus: &[&KernelPmu],
    terms: &[Term],
    request: &EventRequest,
    host: &Host<'_>,
) -> Result<Option<Event>> {
    let in_sysfs = |term: &Term| {
        pmus.iter().any(|p| p.formats.contains_key(&term.name) || p.events.contains_key(&term.name))
    };
    let is_name = |term: &&Term| term.value.is_none() && !terms::is_flag(&term.name) && !in_sysfs(term);
    let Some(name) = terms.iter().find(is_name) else { return Ok(None) };
    let is_meant =
        |core: &&CoreTables<'_>| core.pmu.is_some_and(|pmu| pmus.iter().any(|p| p.name == pmu.name));
    let cores: Vec<CoreTables<'_>> = host.cores.iter().filter(is_meant).cloned().collect();
    let rest: Vec<Term> = terms.iter().filter(|term| *term != name).cloned().collect();
    let wanted = RequestedEvent { name: &name.name, terms: &rest, text: &request.text };
    match host_event::find(&wanted, &cores, wanted_modes(request))? {
        Some(found) => Ok(Some(of_tables(found, request))),
        None if host_event::find(&wanted, &host.cores, wanted_modes(request))?.is_some() => {
            let cores = cores.iter().map(|core| core.id.to_owned()).collect();
            let reason = LackReason::OtherCoreType { cores, event: name.name.clone() };
            Ok(Some(unsupported(request, reason)))
        }
        None => Ok(None),
    }
}

fn no_device(name: &str, terms: &[Term], request: &EventRequest, machine: &Machine) -> Result<Event> {
    // A missing core PMU is a property of this machine, not a mistake of the user.
    let is_core = match CorePmuName::of(name) {
        Some(CorePmuName::CoreType(core_type)) => matches!(core_type, "core" | "atom" | "lowpower"),
        Some(CorePmuName::Cpu | CorePmuName::Arm { .. }) => true,
        Some(CorePmuName::Apple) | None => false,
    };
    if is_core && !has_core_pmu(machine) {
        let software = of_software(terms, request, machine);
        return Ok(unsupported(request, LackReason::NoPmu { pmu: name.to_owned(), software }));
    }
    let names = machine.pmus.iter().map(|pmu| pmu.name.as_str());
    let near = suggest::nearest(name, names.clone());
    let recovery = match near.is_empty() {
        false => Recovery::OfferNearest { names: near },
        true => Recovery::fix(format!("PMUs of this machine: {}", names.collect::<Vec<_>>().join(", "))),
    };
    Err(Error::new(ErrorKind::UnknownEvent, format!("no PMU is named '{name}' (in {})", request.text))
        .with_recovery(recovery))
}

/// The software PMU's event for these terms of a core PMU, and the reason where it does not work here.
fn of_software(
    terms: &[Term],
    request: &EventRequest,
    machine: &Machine,
) -> Option<(String, std::result::Result<(), String>)> {
    let [Term { name, value: None }] = terms else { return None };
    let hardware = HARDWARE.iter().find(|hardware| named(hardware.names, name))?;
    soft::find(hardware.names)?;
    if wanted_modes(request) != Modes::USER || request.modifiers.guest_only {
        return None;
    }
    match machine.ladder.state(Rung::Soft)?.works {
        Works::NotHere | Works::NotBuilt => None,
        _ => Some((name.clone(), soft::available(machine))),
    }
}

fn on_devices(
    request: &EventRequest,
    machine: &Machine,
    targets: &[(&KernelPmu, &str)],
    encode: impl Fn(&KernelPmu, &str) -> Result<DeviceEvent>,
) -> Result<Event> {
    let found: Result<Vec<DeviceEvent>> = targets.iter().map(|(pmu, name)| encode(pmu, name)).collect();
    let found = found?;
    let first = found.first().map(|f| (f.scale, f.unit.clone(), f.event.class));
    let (scale, unit, class) = first.unwrap_or((1.0, None, PerfClass::TaskDevice));
    let parts = found.into_iter().map(|f| f.event);
    let candidate = match class {
        PerfClass::Core => {
            core_candidate(request, parts.map(|part| constrained(part, None, machine)).collect())
        }
        _ => device_candidate(parts.collect(), class, scale),
    };
    let unit = unit_of(unit);
    let never_zero = class == PerfClass::SystemDevice && unit == Unit::Joules;
    Ok(event(request, unit, vec![Candidate { never_zero, ..candidate }]))
}

fn device_candidate(parts: Vec<PerfEvent>, class: PerfClass, scale: f64) -> Candidate {
    let provenance = if class == PerfClass::Software { Provenance::Kernel } else { Provenance::Hardware };
    let widest = (class == PerfClass::SystemDevice).then_some(Scope::Package);
    Candidate { scale, widest, ..Candidate::perf(parts, provenance, None) }
}

pub(crate) fn unit_of(name: Option<String>) -> Unit {
    match name.as_deref() {
        None | Some("") => Unit::Count,
        Some("Joules") => Unit::Joules,
        Some("ns") => Unit::Nanoseconds,
        Some("Bytes" | "bytes") => Unit::Bytes,
        Some(other) => Unit::Other(other.to_owned()),
    }
}

// ------------------------------------------------------------------------- kernel events, accounting

fn software_event(software: &SoftwareEvent, request: &EventRequest) -> Event {
    let part = PerfEvent::new("software", perf_type::SOFTWARE, software.config, PerfClass::Software);
    // The kernel's clocks run on in kernel mode even if the attributes exclude it.
    let modes = request.modifiers.modes.filter(|_| !software.clock);
    let perf = Candidate { modes, ..device_candidate(vec![part], PerfClass::Software, 1.0) };
    // The operating system accounts for all modes together.
    let os = software.os.filter(|_| request.modifiers.modes.is_none() || software.clock);
    let candidates = std::iter::once(perf)
        .chain(os.map(|metric| Candidate::accounting(metric, accounting_source(metric))))
        .collect();
    match request.modifiers.modes {
        Some(modes) if software.kernel_only && !modes.kernel => {
            unsupported(request, LackReason::KernelOnly { event: request.text.clone() })
        }
        _ => {
            let mut found = event(request, software.unit(), candidates);
            if software.clock {
                found
                    .notes
                    .extend(found.modifiers.modes.take().map(|modes| notes::clock(software.names[0], modes)));
            }
            found
        }
    }
}

fn accounting_event(accounting: &Accounting, request: &EventRequest) -> Event {
    let candidate = Candidate::accounting(accounting.metric, accounting.resolution);
    let mut found = event(request, accounting.unit.clone(), vec![candidate]);
    if accounting.is_perfs_time() {
        let modes = found.modifiers.modes.take();
        found.notes.extend(modes.map(|modes| notes::time(&request.text, modes)));
    }
    found.notes.extend(notes::accounting(accounting.metric).map(str::to_owned));
    found
}

/// An event that only macOS's accounts have; the plan decides whether they work here.
fn account_event(account: &AccountEvent, request: &EventRequest, machine: &Machine) -> Event {
    match accounts::unsupported(account, request.modifiers.modes, machine) {
        None => event(request, account.unit(), vec![account.candidate()]),
        Some(reason) => unsupported(request, reason),
    }
}

fn check_modes(request: &EventRequest, found: &Event) -> Result<()> {
    let modeless = !found.candidates.is_empty() && found.candidates.iter().all(|c| c.modes.is_none());
    match found.modifiers.modes {
        Some(modes) if modeless => Err(Error::new(
            ErrorKind::InvalidInput,
            format!("{} does not tell modes apart, so ':{modes}' means nothing", request.text),
        )
        .with_recovery(Recovery::fix(format!("write {} without modifiers", request.text)))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;

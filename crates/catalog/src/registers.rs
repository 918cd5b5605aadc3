//! Events for drivers that program registers themselves: codes on counters, for each core type of a machine.

use cyclometer_arch::{Coded, Register, decode, takes_two_counters};
use cyclometer_core::event::{RegisterCode, RegisterEvent};
use cyclometer_core::ladder::Works;
use cyclometer_core::machine::CoreType;
use cyclometer_core::pmu::ConfigWord;
use cyclometer_core::reason::{LackReason, PmuLack};
use cyclometer_core::syntax::{EventRequest, Selector, parse_events};
use cyclometer_core::{Candidate, CounterMask, CpuSet, Event, Machine, Modes, Provenance, Rung};

use crate::among::select_in;
use crate::host::{Tables, table_id};
use crate::host_event::is_never_zero;
use crate::select::{Selected, chip, may_know};
use crate::table::Cpu;
use crate::ways;

/// The sources for which the planner chooses counters.
const RUNGS: [Rung; 4] = [Rung::Kperf, Rung::Sim, Rung::Msr, Rung::Sysreg];

/// Adds to an event the candidates that count it on counters that the planner chooses, if the machine has
/// such a source. Those of kperf stand in the order of sources. The others come last, because they are used
/// only on request. On a simulated machine there are no others.
pub(crate) fn add_to(mut event: Event, request: &EventRequest, machine: &Machine, tables: &Tables) -> Event {
    // No core PMU counts it: a clock, an account, a device.
    let is_off_core = !event.candidates.is_empty()
        && event.candidates.iter().flat_map(|candidate| &candidate.parts).all(|part| part.core().is_none());
    if is_simulated(machine) {
        event.candidates.clear();
    }
    if has_kperf(machine) {
        // perf counts no event of a Mac's PMU.
        let is_perfs = |other: &Candidate| {
            other.rung == Rung::Perf && other.parts.iter().any(|part| part.core().is_some())
        };
        event.candidates.retain(|other| !is_perfs(other));
    }
    for rung in RUNGS.into_iter().filter(|rung| is_here(*rung, machine)) {
        let found = match is_off_core {
            true => candidate_beside(rung, request, machine, tables)
                .ok_or_else(|| LackReason::NotOfRegisters { event: event.name.clone() }),
            false => candidate(rung, request, machine, tables),
        };
        match found {
            Ok(candidate) if rung == Rung::Kperf => {
                let place = event.candidates.iter().position(|other| other.rung > rung);
                event.candidates.insert(place.unwrap_or(event.candidates.len()), candidate);
            }
            Ok(candidate) => event.candidates.push(candidate),
            Err(_) if rung == Rung::Kperf && is_off_core => {}
            Err(reason) if rung == Rung::Sim || rung == Rung::Kperf && event.candidates.is_empty() => {
                event.unsupported = Some(reason);
            }
            Err(reason) => event.lacking.push((rung, reason)),
        }
    }
    event
}

/// Whether a machine is a simulated one.
pub(crate) fn is_simulated(machine: &Machine) -> bool {
    is_here(Rung::Sim, machine)
}

/// Whether a machine is one that kperf belongs to.
pub(crate) fn has_kperf(machine: &Machine) -> bool {
    is_here(Rung::Kperf, machine)
}

/// Whether kperf counts here.
///
/// # Errors
///
/// The reason why it does not.
pub(crate) fn kperf_counts(machine: &Machine) -> Result<(), String> {
    let state = machine.ladder.state(Rung::Kperf);
    match state.filter(|state| state.works == Works::No) {
        Some(state) => Err(state.causes.first().map_or_else(String::new, |cause| cause.text.clone())),
        None => Ok(()),
    }
}

/// The candidate for an event of this name on a simulated machine, or the reason why there is none.
pub(crate) fn simulated(name: &str, machine: &Machine, tables: &Tables) -> Result<Candidate, LackReason> {
    named(Rung::Sim, name, machine, tables)
}

/// The candidate for an event of this name by kperf, or the reason why there is none.
pub(crate) fn by_kperf(name: &str, machine: &Machine, tables: &Tables) -> Result<Candidate, LackReason> {
    named(Rung::Kperf, name, machine, tables)
}

fn named(rung: Rung, name: &str, machine: &Machine, tables: &Tables) -> Result<Candidate, LackReason> {
    let requests = parse_events(name).map_err(|error| LackReason::Unresolved(error.to_string()))?;
    match requests.as_slice() {
        [request] => candidate(rung, request, machine, tables),
        _ => Err(LackReason::Unresolved(format!("{name} is not one event"))),
    }
}

fn is_here(rung: Rung, machine: &Machine) -> bool {
    let state = machine.ladder.state(rung);
    state.is_some_and(|state| !matches!(state.works, Works::NotHere | Works::NotBuilt))
}

/// The register candidate for an event that another source counts. Most of these events have no register
/// code, so the search for near names is skipped.
fn candidate_beside(
    rung: Rung,
    request: &EventRequest,
    machine: &Machine,
    tables: &Tables,
) -> Option<Candidate> {
    let may_be_known = match &request.selector {
        Selector::Name(name) if request.attributes.is_empty() => {
            let knows = |core: &SharedPmu<'_>| tables.of(&core.id).iter().any(|cpu| may_know(cpu, name));
            cores(machine).iter().any(knows)
        }
        _ => true,
    };
    may_be_known.then(|| candidate(rung, request, machine, tables).ok()).flatten()
}

fn candidate(
    rung: Rung,
    request: &EventRequest,
    machine: &Machine,
    tables: &Tables,
) -> Result<Candidate, LackReason> {
    let mut modes = modes(request)?;
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for core in cores(machine) {
        match core.events(request, &tables.of(&core.id)) {
            Ok(events) => found.extend(events),
            Err(reason) => missing.push(reason),
        }
    }
    if found.is_empty() {
        return Err(LackReason::RegisterPmus(missing));
    }
    if rung == Rung::Kperf {
        modes = kperf_modes(&mut found, modes, request.modifiers.modes.is_some(), machine)?;
    }
    let provenance = if rung == Rung::Sim { Provenance::Simulated } else { Provenance::Hardware };
    let never_zero = found.iter().all(|found| found.never_zero);
    let names: Vec<String> = found.iter().map(|found| found.name.clone()).collect();
    let events = found.into_iter().map(|found| found.event).collect();
    let candidate = Candidate::registers(rung, events, provenance, modes);
    let resolution = format!("{} ({})", candidate.resolution, names.join(" + "));
    Ok(Candidate { resolution, never_zero, ..candidate.with_summands(names) })
}

/// The modes of the request, restricted to those that the filters of all PMUs support.
fn modes(request: &EventRequest) -> Result<Modes, LackReason> {
    let modifiers = request.modifiers;
    let modes = modifiers.modes.unwrap_or(Modes::USER);
    match modes {
        _ if modifiers.guest_only || modifiers.host_only || modifiers.exclude_idle => {
            Err(LackReason::NoGuestsOfRegisters)
        }
        _ if modifiers.precise > 0
            || modifiers.most_precise
            || modifiers.sample_read
            || modifiers.pinned
            || modifiers.bpf =>
        {
            Err(LackReason::KernelModifiers)
        }
        Modes { hypervisor: true, .. } => Err(LackReason::NoHypervisorOfRegisters),
        modes => Ok(modes),
    }
}

/// The modes in which kperf counts events, whose counters are limited to those that count in these modes.
///
/// Fixed counters count user and kernel mode. Configurable counters count user mode alone since macOS 15. An
/// event that has a fixed counter alone is counted in both modes, unless modes were requested.
///
/// # Source
///
/// xnu-11215.1.10 `osfmk/arm64/kpc.c`, `set_modes`.
fn kperf_modes(
    events: &mut [CoreEvent],
    wanted: Modes,
    requested: bool,
    machine: &Machine,
) -> Result<Modes, LackReason> {
    let is_fixed =
        |event: &CoreEvent| event.event.codes.first().is_some_and(|code| code.counters.general_bits() == 0);
    let counts_user_only = machine.darwin_version().is_none_or(|major| major >= 24);
    let modes = if !requested && events.iter().all(is_fixed) { Modes::USER_KERNEL } else { wanted };
    for event in events {
        let counters = event.counters();
        let general = CounterMask::from_bits(counters.general_bits(), 0);
        let fixed = CounterMask::from_bits(0, counters.fixed_bits());
        let usable = match (modes.user, modes.kernel) {
            (true, false) => general,
            // A configurable counter would stand in for a fixed one only where that is not free.
            (true, true) if counts_user_only || !fixed.is_empty() => fixed,
            (true, true) => counters,
            _ if counts_user_only => CounterMask::EMPTY,
            _ => general,
        };
        if usable.is_empty() {
            let name = event.name.clone();
            return Err(match general.is_empty() {
                true => LackReason::FixedCounterModes { event: name },
                false => LackReason::UserModeOnly { event: name },
            });
        }
        event.limit(usable);
    }
    Ok(modes)
}

/// The core types of a machine that share one PMU.
struct SharedPmu<'a> {
    name: &'a str,
    id: String,
    cpus: CpuSet,
    counters: Option<CounterMask>,
    implemented: Option<&'a [(u16, u8)]>,
}

/// An event on one of them.
struct CoreEvent {
    event: RegisterEvent,
    name: String,
    never_zero: bool,
}

impl CoreEvent {
    /// The counters of all its codes.
    fn counters(&self) -> CounterMask {
        self.event.codes.iter().fold(CounterMask::EMPTY, |all, code| all.or(code.counters))
    }

    /// Limits its codes to some counters.
    fn limit(&mut self, counters: CounterMask) {
        for code in &mut self.event.codes {
            code.counters = code.counters.and(counters);
        }
        self.event.codes.retain(|code| !code.counters.is_empty());
    }
}

fn cores(machine: &Machine) -> Vec<SharedPmu<'_>> {
    let mut all: Vec<SharedPmu<'_>> = Vec::new();
    for core in &machine.core_types {
        match all.iter_mut().find(|known| known.name == core.pmu_name()) {
            Some(known) => known.cpus = known.cpus.iter().chain(core.cpus.iter()).collect(),
            None => all.push(SharedPmu::new(core)),
        }
    }
    all
}

impl<'a> SharedPmu<'a> {
    fn new(core: &'a CoreType) -> SharedPmu<'a> {
        SharedPmu {
            name: core.pmu_name(),
            id: table_id(core).to_owned(),
            cpus: core.cpus.clone(),
            counters: core.pmu.known_counters(),
            implemented: core.pmu.implemented.as_deref(),
        }
    }

    /// The event by its codes that count here; for a portable event that is a sum, its summands.
    fn events(&self, request: &EventRequest, tables: &[Cpu<'_>]) -> Result<Vec<CoreEvent>, PmuLack> {
        let no_table = || PmuLack::NoTable { cpu: self.id.clone() };
        let cpu = tables.first().ok_or_else(no_table)?;
        let selected =
            select_in(tables, request).map_err(|error| PmuLack::NotEncodable(error.to_string()))?;
        if let (true, Some(pin)) = (selected.len() > 1, request.pin) {
            let (event, summands) = (request.text.clone(), selected.len());
            return Err(PmuLack::PinnedSum { event, summands, pin });
        }
        if let Selector::Raw(config) = request.selector {
            check_raw(cpu, config, request)?;
        }
        selected.into_iter().map(|one| self.one(one, request, cpu, tables)).collect()
    }

    fn one(
        &self,
        one: Selected<'_>,
        request: &EventRequest,
        cpu: &Cpu<'_>,
        tables: &[Cpu<'_>],
    ) -> Result<CoreEvent, PmuLack> {
        let codes =
            ways::codes(tables, &one).into_iter().filter_map(|coded| self.usable(cpu, coded, request));
        let codes: Vec<RegisterCode> = codes.collect();
        if codes.is_empty() {
            return Err(self.why_not(&one, request));
        }
        Ok(CoreEvent {
            never_zero: one.entry.is_some_and(|entry| is_never_zero(cpu, entry.name())),
            event: RegisterEvent {
                pmu: self.name.to_owned(),
                cpus: self.cpus.clone(),
                codes,
                wide: takes_two_counters(&chip(cpu), &one.coded),
                assignments: Vec::new(),
            },
            name: one.entry.map_or(one.name, |entry| entry.name().to_owned()),
        })
    }

    /// A code with its counters; `None` if no counter is usable.
    fn usable(&self, cpu: &Cpu<'_>, coded: Coded, request: &EventRequest) -> Option<RegisterCode> {
        let all = self.counters.unwrap_or(cpu.counters());
        let own = ways::usable(all, coded.counters, request.pin);
        let is_there = |known: &[(u16, u8)]| known.contains(&(coded.code.select, coded.code.umask));
        let counters = match self.implemented.is_none_or(is_there) {
            true => own,
            false => CounterMask::from_bits(0, own.fixed_bits()),
        };
        (!counters.is_empty()).then_some(RegisterCode { code: coded.code, counters })
    }

    fn why_not(&self, selected: &Selected<'_>, request: &EventRequest) -> PmuLack {
        let event = selected.entry.map_or(selected.name.as_str(), |entry| entry.name()).to_owned();
        let cpu = self.id.clone();
        match (request.pin, self.implemented) {
            (Some(pin), _) => PmuLack::NotOnPin { event, pin, cpu },
            (None, Some(_)) => PmuLack::NotImplemented { event, cpu },
            (None, None) => {
                let own = selected.coded.counters.unwrap_or(CounterMask::EMPTY);
                PmuLack::CountersUnavailable { event, counters: own.iter().collect(), cpu }
            }
        }
    }
}

/// Rejects a raw code with bits that mean nothing here: it would be a code of another event.
fn check_raw(cpu: &Cpu<'_>, config: u64, request: &EventRequest) -> Result<(), PmuLack> {
    let decoded = decode(&chip(cpu), Register::Perf(ConfigWord::Config), config);
    match decoded.fields.iter().find(|field| field.name == RESERVED) {
        None => Ok(()),
        Some(_) => Err(PmuLack::ReservedBits { event: request.text.clone(), cpu: cpu.id().to_owned() }),
    }
}

/// The name of bits without a field.
const RESERVED: &str = "reserved";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::vm_without_pmu;
    use cyclometer_core::ladder::RungState;
    use cyclometer_core::machine::PmuFacts;

    fn skylake(rung: Rung, implemented: Option<Vec<(u16, u8)>>) -> Machine {
        let mut machine = vm_without_pmu();
        machine.core_types = vec![CoreType {
            cpu_id: Some("skylake".to_owned()),
            microarchitecture: None,
            cpus: CpuSet::parse("0-1").unwrap(),
            pmu: PmuFacts { counters: CounterMask::first(4, 3), implemented, ..PmuFacts::default() },
            kernel_pmu: None,
        }];
        machine.ladder.rungs.push(RungState { rung, works: Works::Yes, causes: Vec::new() });
        machine
    }

    fn event(text: &str, machine: &Machine) -> Event {
        let request = parse_events(text).unwrap().remove(0);
        crate::resolve(&request, machine, Tables::embedded()).unwrap()
    }

    fn counters(text: &str) -> Result<(CounterMask, u16), String> {
        let event = event(text, &skylake(Rung::Msr, None));
        let candidate = event.candidates.iter().find(|candidate| candidate.rung == Rung::Msr);
        let Some(candidate) = candidate else { return Err(event.lacking[0].1.to_string()) };
        let cyclometer_core::Part::Registers(part) = &candidate.parts[0] else { panic!() };
        Ok((part.codes[0].counters, part.codes[0].code.select))
    }

    #[test]
    fn names_of_all_kinds_have_codes_and_counters() {
        let general = CounterMask::first(4, 0);
        assert_eq!(counters("BR_MISP_RETIRED.ALL_BRANCHES"), Ok((general, 0xc5)));
        assert_eq!(counters("branch-misses"), Ok((general, 0xc5)));
        assert_eq!(counters("instructions").map(|(mask, _)| mask), Ok(CounterMask::from_bits(0xf, 1)));
        assert_eq!(counters("cycles").map(|(mask, _)| mask), Ok(CounterMask::from_bits(0xf, 2)));
        assert_eq!(counters("rc5"), Ok((general, 0xc5)));
    }

    #[test]
    fn a_pin_leaves_one_counter_or_none() {
        assert_eq!(counters("branches@2").map(|(mask, _)| mask), Ok(CounterMask::from_bits(4, 0)));
        assert_eq!(
            counters("branch-misses@7"),
            Err("BR_MISP_RETIRED.ALL_BRANCHES cannot use counter 7 of skylake".to_owned())
        );
    }

    #[test]
    fn where_it_is_known_what_is_implemented_nothing_else_counts() {
        let machine = skylake(Rung::Sim, Some(vec![(0xc4, 0)]));
        assert_eq!(event("branches", &machine).candidates[0].provenance, Provenance::Simulated);
        assert_eq!(event("instructions", &machine).candidates.len(), 1, "its fixed counter is there");
        let missing = event("branch-misses", &machine);
        assert_eq!(
            missing.unsupported.unwrap().to_string(),
            "BR_MISP_RETIRED.ALL_BRANCHES is not among the events that this skylake counts"
        );
    }

    #[test]
    fn a_raw_code_with_bits_that_the_cpu_lacks_is_not_another_events() {
        assert!(counters("r41c4").is_ok());
        for text in ["r80000000000c4", "rff000000000000c4"] {
            assert!(counters(text).unwrap_err().contains("has bits that no event select"), "{text}");
        }
    }

    #[test]
    fn what_only_the_kernel_knows_is_said_to_be_its_own() {
        assert_eq!(counters("page-faults").unwrap_err(), "page-faults is no event of a PMU's registers");
        assert!(counters("instructions:p").unwrap_err().contains("modifiers p, S, D and b"));
    }

    #[test]
    fn what_filters_cannot_tell_apart_is_refused_and_rungs_that_are_not_here_add_nothing() {
        assert!(counters("cycles:h").unwrap_err().contains("hypervisor"));
        assert!(counters("cycles:uG").unwrap_err().contains("guests"));
        let elsewhere = event("cycles", &vm_without_pmu());
        assert!(elsewhere.candidates.iter().all(|candidate| candidate.rung != Rung::Msr));
    }
}

//! Metrics by name: from the catalogue's formulas to the events of a plan and to the inputs of the
//! statistics.

use cyclometer_catalog::metric::{self, Metric, PERF_METRICS, is_pseudo_event, request};
use cyclometer_catalog::{Tables, cpus, resolve_list_in};
use cyclometer_core::event::{Part, Unit};
use cyclometer_core::machine::{CoreType, CpuId};
use cyclometer_core::{
    Candidate, CounterMask, Error, ErrorKind, Event, LackReason, Machine, Result, Rung, SlotId,
};
use cyclometer_stats::formula::Expression;
use cyclometer_stats::{Environment, MetricRequest};

/// The event that leads a group with those of PERF_METRICS.
///
/// # Source
///
/// Linux `arch/x86/events/intel/core.c`, `intel_pmu_hw_config`: the leader has to be the event of slots.
const SLOTS: &str = "TOPDOWN.SLOTS:perf_metrics";

/// The fixed counter of slots; PERF_METRICS takes none.
///
/// # Source
///
/// Intel SDM volume 3, IA32_FIXED_CTR3 and PERF_METRICS.
const SLOTS_COUNTER: CounterMask = CounterMask::from_bits(0, 0b1000);

/// A metric as `list --metrics` shows it.
#[derive(Clone, PartialEq, Debug)]
pub struct MetricListing {
    /// Its name.
    pub name: String,
    /// The CPU or core type that it is of; `None` for one of every CPU.
    pub cpu: Option<String>,
    /// A description in one line.
    pub about: String,
    /// Unit of its values.
    pub unit: Unit,
    /// The groups that it belongs to.
    pub groups: Vec<String>,
    /// Its level in a top-down tree, from 1.
    pub level: Option<u8>,
    /// The formula.
    pub formula: String,
    /// The events that are counted for it, as formulas name them.
    pub events: Vec<String>,
}

/// The metrics of a machine: those of each of its core types, then those of every CPU.
pub fn list_metrics(machine: &Machine) -> Vec<MetricListing> {
    let ids: Vec<&str> = machine.core_types.iter().filter_map(|core| core.cpu_id.as_deref()).collect();
    listings(&ids)
}

/// The metrics of a CPU of the catalogue; of a hybrid those of all its core types.
///
/// # Errors
///
/// `ErrorKind::InvalidInput` with the nearest ids.
pub fn list_metrics_of(cpu: &str) -> Result<Vec<MetricListing>> {
    let cores = cpus::core_types(cpu);
    match cores.is_empty() {
        true => cpus::cpu(cpu).map(|cpu| listings(&[cpu.id()])),
        false => Ok(listings(&cores.iter().map(|core| core.id()).collect::<Vec<_>>())),
    }
}

fn listings(ids: &[&str]) -> Vec<MetricListing> {
    let own = ids.iter().flat_map(|id| {
        let own = metric::metrics(Some(id)).filter(|metric| !metric.of_every_cpu);
        own.map(|metric| listing(&metric, Some(id))).collect::<Vec<_>>()
    });
    own.chain(metric::metrics(None).map(|metric| listing(&metric, None))).collect()
}

fn listing(metric: &Metric<'_>, cpu: Option<&str>) -> MetricListing {
    let expression = expression(metric, cpu);
    let events =
        expression.map(|expression| expression.events().iter().map(|event| (*event).to_owned()).collect());
    MetricListing {
        name: metric.name.to_owned(),
        cpu: cpu.map(str::to_owned),
        about: metric.about.to_owned(),
        unit: metric.unit(),
        groups: metric.groups.iter().map(|group| (*group).to_owned()).collect(),
        level: metric.level,
        formula: metric.formula.to_owned(),
        events: events.unwrap_or_default(),
    }
}

/// The formula with those of the metrics of the same CPU in it.
fn expression(metric: &Metric<'_>, cpu: Option<&str>) -> Result<Expression> {
    let all: Vec<Metric<'static>> = metric::metrics(cpu).collect();
    let find = |name: &str| all.iter().find(|other| other.name == name).map(|other| other.formula);
    Expression::resolve(metric.name, metric.formula, find).map_err(|error| {
        let message = format!("the formula of {} cannot be read: {error}", metric.name);
        Error::new(ErrorKind::InvalidInput, message).with_source(error)
    })
}

/// For each metric of a CPU the names of the events that it needs.
pub(crate) fn events_of_metrics(cpu: &str) -> impl Iterator<Item = Vec<String>> {
    let all: Vec<Metric<'static>> = metric::metrics(Some(cpu)).collect();
    all.clone().into_iter().filter_map(move |metric| {
        let find = |name: &str| all.iter().find(|other| other.name == name).map(|other| other.formula);
        let expression = Expression::resolve(metric.name, metric.formula, find).ok()?;
        Some(expression.events().iter().map(|event| (*event).to_owned()).collect())
    })
}

/// A metric that was asked for, on one core type or on all of them.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    metric: Metric<'static>,
    expression: Expression,
    /// The PMU of the core type that it is of; `None` for one of every CPU.
    pmu: Option<String>,
}

/// The metrics and groups of a comma-separated list, on each core type that has them.
///
/// # Errors
///
/// `ErrorKind::UnknownEvent` with the nearest names for one that no core type has.
pub(crate) fn choose(list: &str, machine: &Machine) -> Result<Vec<Wanted>> {
    let mut all = Vec::new();
    for name in list.split(',').map(str::trim) {
        all.extend(by_name(name, machine)?);
    }
    Ok(all)
}

fn by_name(name: &str, machine: &Machine) -> Result<Vec<Wanted>> {
    let cores: Vec<&CoreType> = machine.core_types.iter().filter(|core| core.cpu_id.is_some()).collect();
    if cores.is_empty() {
        return metric::metric(name, None)?.into_iter().map(|metric| wanted(metric, None)).collect();
    }
    let mut found: Vec<Wanted> = Vec::new();
    let mut unknown = None;
    for core in cores {
        match metric::metric(name, core.cpu_id.as_deref()) {
            Ok(metrics) => {
                let more: Result<Vec<Wanted>> =
                    metrics.into_iter().map(|metric| wanted(metric, Some(core))).collect();
                let known =
                    |new: &Wanted| found.iter().any(|old| old.metric == new.metric && old.pmu == new.pmu);
                let more: Vec<Wanted> = more?.into_iter().filter(|new| !known(new)).collect();
                found.extend(more);
            }
            Err(error) => unknown = unknown.or(Some(error)),
        }
    }
    match unknown {
        Some(error) if found.is_empty() => Err(error),
        _ => Ok(found),
    }
}

fn wanted(metric: Metric<'static>, core: Option<&CoreType>) -> Result<Wanted> {
    let core = core.filter(|_| !metric.of_every_cpu);
    let expression = expression(&metric, core.and_then(|core| core.cpu_id.as_deref()))?;
    let pmu = core.map(|core| core.kernel_pmu.clone().unwrap_or_else(|| "cpu".to_owned()));
    Ok(Wanted { metric, expression, pmu })
}

/// The events of a plan, and the metrics over them.
pub(crate) struct Assembled {
    pub(crate) events: Vec<Event>,
    pub(crate) requests: Vec<MetricRequest>,
}

/// Adds the events that the metrics need to those that are counted anyway, each once.
pub(crate) fn assemble(
    events: Vec<Event>,
    wanted: &[Wanted],
    machine: &Machine,
    tables: &Tables,
) -> Assembled {
    let mut assembler = Assembler { machine, tables, only: machine.core_types.len() <= 1, events };
    assembler.add_top_down_groups(wanted);
    let requests = wanted.iter().map(|wanted| assembler.request(wanted)).collect();
    Assembled { events: assembler.events, requests }
}

struct Assembler<'a> {
    machine: &'a Machine,
    tables: &'a Tables,
    /// Whether there is one core type, so that names need no PMU.
    only: bool,
    events: Vec<Event>,
}

impl Assembler<'_> {
    /// The events of PERF_METRICS count in one group for each PMU, behind the slots.
    fn add_top_down_groups(&mut self, wanted: &[Wanted]) {
        let mut pmus: Vec<&str> = wanted.iter().filter_map(|wanted| wanted.pmu.as_deref()).collect();
        pmus.sort_unstable();
        pmus.dedup();
        for pmu in pmus {
            let of_pmu = wanted.iter().filter(|wanted| wanted.pmu.as_deref() == Some(pmu));
            let needed: Vec<&str> = of_pmu.flat_map(|wanted| wanted.expression.events()).collect();
            let members = PERF_METRICS.iter().map(|(name, _)| *name).filter(|name| needed.contains(name));
            let members: Vec<&str> = members.collect();
            if !members.is_empty() {
                let group =
                    self.events.iter().filter_map(|event| event.group).max().map_or(0, |last| last + 1);
                for name in [SLOTS].into_iter().chain(members) {
                    let event = self.pseudo_event(name, pmu);
                    let group = Some(group).filter(|_| !event.candidates.is_empty());
                    self.events.push(Event { group, ..event });
                }
            }
        }
    }

    fn pseudo_event(&self, name: &str, pmu: &str) -> Event {
        let mut event = self.resolve(&request(name, pmu, self.only));
        // Where the counter is not known to be there, it is for the kernel to say.
        let constraint = (name == SLOTS)
            .then(|| SLOTS_COUNTER.and(self.counters_of(pmu)))
            .filter(|counters| !counters.is_empty());
        for part in event.candidates.iter_mut().flat_map(|candidate| &mut candidate.parts) {
            if let Part::Perf(perf) = part {
                perf.constraint = constraint;
            }
        }
        event
    }

    /// The counters of a PMU, as far as they are known.
    fn counters_of(&self, pmu: &str) -> CounterMask {
        let mut cores = self.machine.core_types.iter();
        let core = cores.find(|core| core.kernel_pmu.as_deref() == Some(pmu));
        core.map_or(CounterMask::EMPTY, |core| core.pmu.counters)
    }

    fn request(&mut self, wanted: &Wanted) -> MetricRequest {
        let Wanted { metric, expression, pmu } = wanted;
        let pmu_of_events = pmu.as_deref().unwrap_or("cpu");
        let only = self.only || pmu.is_none();
        let names: Vec<String> = expression.events().iter().map(|name| (*name).to_owned()).collect();
        let resolve = |name: &String| self.resolve(&request(name, pmu_of_events, only));
        let events: Vec<Event> = names.iter().map(resolve).collect();
        let source = source_of(&events, self.machine);
        let slots = names.iter().zip(events).map(|(name, event)| match is_pseudo_event(name) {
            true => self.pseudo_slot(event),
            false => self.slot(event, source),
        });
        let slots: Vec<SlotId> = slots.collect();
        let inputs = names.into_iter().zip(slots.into_iter().map(Ok)).collect();
        MetricRequest {
            name: match pmu {
                Some(pmu) if !self.only => format!("{pmu}/{}/", metric.name),
                _ => metric.name.to_owned(),
            },
            unit: metric.unit(),
            scale: metric.scale,
            bounds: metric.bounds,
            expression: expression.clone(),
            inputs,
            environment: environment(self.machine, pmu.as_deref()),
        }
    }

    /// The slot of one of the kernel's top-down events, which stand in their group already.
    fn pseudo_slot(&mut self, event: Event) -> SlotId {
        let known = self.events.iter().position(|known| is_same_name(known, &event));
        self.slot_or(known, event)
    }

    /// The slot of an event: that of one which counts the same, or a new one.
    fn slot(&mut self, event: Event, source: MetricSource) -> SlotId {
        let reduced = source.reduced(event.clone());
        let counts_the_same = |known: &Event| {
            let as_it_is = known.candidates == event.candidates && source != MetricSource::Software;
            let same = as_it_is || known.candidates == reduced.candidates;
            let resolved = !event.candidates.is_empty() || is_same_name(known, &event);
            same && resolved && known.modifiers == event.modifiers && known.pin.is_none()
        };
        let known = self.events.iter().position(counts_the_same);
        self.slot_or(known, reduced)
    }

    fn slot_or(&mut self, known: Option<usize>, event: Event) -> SlotId {
        SlotId(known.unwrap_or_else(|| {
            self.events.push(event);
            self.events.len() - 1
        }))
    }

    /// The event of that name; one that this machine cannot name has no candidate, and says why.
    fn resolve(&self, text: &str) -> Event {
        let resolved = resolve_list_in(text, self.machine, self.tables, true);
        let first = resolved.map(|events| events.into_iter().next());
        match first {
            Ok(Some(event)) => event,
            Ok(None) => Event::new(text, Unit::Count, Vec::new()),
            Err(error) => {
                let reason = LackReason::Unresolved(error.to_string());
                Event { unsupported: Some(reason), ..Event::new(text, Unit::Count, Vec::new()) }
            }
        }
    }
}

fn is_same_name(a: &Event, b: &Event) -> bool {
    a.name.eq_ignore_ascii_case(&b.name) && a.modifiers == b.modifiers
}

/// The source of the events of one metric: a formula never mixes hardware counts with those of translated
/// runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum MetricSource {
    /// Any source.
    Any,
    /// The hardware, as far as it has the events: one that is missing must not move the others to a
    /// translated run.
    Hardware,
    /// The software PMU, because it alone has one of the events.
    Software,
}

fn source_of(events: &[Event], machine: &Machine) -> MetricSource {
    // Registers are used only on request, and then for every event.
    let unasked = |way: &&Candidate| !matches!(way.rung, Rung::Msr | Rung::Sysreg);
    let by_software_alone = |event: &Event| {
        let mut ways = event.candidates.iter().filter(unasked).peekable();
        ways.peek().is_some() && ways.all(|way| way.rung == Rung::Soft)
    };
    match machine.ladder.perf_hardware {
        Err(_) => MetricSource::Any,
        Ok(()) if events.iter().any(by_software_alone) => MetricSource::Software,
        Ok(()) => MetricSource::Hardware,
    }
}

impl MetricSource {
    /// The event with the encodings of this source only, if it has any.
    fn reduced(self, mut event: Event) -> Event {
        let suits = |way: &Candidate| match self {
            MetricSource::Any => true,
            MetricSource::Hardware => way.rung != Rung::Soft,
            MetricSource::Software => way.rung == Rung::Soft,
        };
        let several = event.candidates.len() > 1;
        if event.candidates.iter().any(suits) {
            event.candidates.retain(suits);
        }
        if let (MetricSource::Software, true, [way]) = (self, several, event.candidates.as_slice()) {
            event.name.clone_from(&way.resolution);
        }
        event
    }
}

/// The values about the machine that formulas can use.
fn environment(machine: &Machine, pmu: Option<&str>) -> Environment {
    let mut literals =
        vec![("num_cpus", machine.online.len() as f64), ("num_cpus_online", machine.online.len() as f64)];
    literals.extend(machine.smt_active.map(|active| ("smt_on", f64::from(active))));
    literals.extend(slots(machine, pmu).map(|slots| ("slots", slots)));
    let cpu = Some(machine.cpu.id.clone()).filter(|id| *id != CpuId::Unknown);
    Environment { literals, cpu }
}

/// Slots in a cycle; Arm's drivers report them, with 0 for a core that does not.
fn slots(machine: &Machine, pmu: Option<&str>) -> Option<f64> {
    let device = match pmu {
        Some(pmu) => machine.pmu(pmu),
        None => machine.core_pmus().next(),
    };
    let slots = cyclometer_core::syntax::parse_number(device?.caps.get("slots")?.trim())?;
    (slots > 0).then_some(slots as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_core::event::{PerfClass, PerfEvent};
    use cyclometer_core::{Modes, Provenance};

    fn event(name: &str, hardware: bool, software: bool) -> Event {
        let perf = PerfEvent::new("cpu", 4, 0xc0, PerfClass::Core);
        let perf = Candidate::perf(vec![perf], Provenance::Hardware, Some(Modes::USER));
        let soft = Candidate::soft(name, Modes::USER);
        let ways =
            [(hardware, perf), (software, soft)].into_iter().filter(|(has, _)| *has).map(|(_, way)| way);
        Event::new(name, Unit::Count, ways.collect())
    }

    #[test]
    fn an_event_of_the_software_pmu_alone_takes_the_others_along() {
        let events = [event("instructions", true, true), event("calls", false, true)];
        assert!(events[1].candidates.iter().all(|way| way.rung == Rung::Soft));
        let reduced = MetricSource::Software.reduced(events[0].clone());
        assert_eq!((reduced.name.as_str(), reduced.candidates.len()), ("soft/instructions/", 1));
        assert_eq!(reduced.candidates[0].rung, Rung::Soft);
        assert_eq!(MetricSource::Software.reduced(events[1].clone()), events[1]);
    }

    #[test]
    fn what_the_source_lacks_keeps_the_ways_that_it_has() {
        let cycles = event("cycles", true, false);
        assert_eq!(MetricSource::Software.reduced(cycles.clone()), cycles);
        let branches = MetricSource::Hardware.reduced(event("branches", true, true));
        assert_eq!((branches.name.as_str(), branches.candidates[0].rung), ("branches", Rung::Perf));
        assert_eq!(MetricSource::Any.reduced(event("e", true, true)).candidates.len(), 2);
    }
}

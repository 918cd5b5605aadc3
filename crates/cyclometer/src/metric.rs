//! Metrics by name: from the catalogue's formulas to the events of a plan and to what the statistics compute.

use cyclometer_catalog::metric::{self, Metric, PERF_METRICS, is_pseudo_event, request};
use cyclometer_catalog::{cpus, resolve_list};
use cyclometer_core::event::{Part, Unit};
use cyclometer_core::machine::{CoreType, CpuId};
use cyclometer_core::{CounterMask, Error, ErrorKind, Event, Machine, Result, SlotId};
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
    /// What it tells, in a line.
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
pub(crate) fn assemble(events: Vec<Event>, wanted: &[Wanted], machine: &Machine) -> Assembled {
    let mut assembler = Assembler { machine, only: machine.core_types.len() <= 1, events };
    assembler.add_top_down_groups(wanted);
    let requests = wanted.iter().map(|wanted| assembler.request(wanted)).collect();
    Assembled { events: assembler.events, requests }
}

struct Assembler<'a> {
    machine: &'a Machine,
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
        let constraint =
            if name == SLOTS { SLOTS_COUNTER.and(self.counters_of(pmu)) } else { CounterMask::EMPTY };
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
        let slot = |name: String| {
            let text = request(&name, pmu_of_events, only);
            let slot = self.slot(&text, is_pseudo_event(&name));
            (name, Ok(slot))
        };
        let inputs = names.into_iter().map(slot).collect();
        MetricRequest {
            name: match pmu {
                Some(pmu) if !self.only => format!("{pmu}/{}/", metric.name),
                _ => metric.name.to_owned(),
            },
            unit: metric.unit(),
            scale: metric.scale,
            expression: expression.clone(),
            inputs,
            environment: environment(self.machine, pmu.as_deref()),
        }
    }

    /// The slot of an event: that of one which counts the same, or a new one.
    fn slot(&mut self, text: &str, pseudo: bool) -> SlotId {
        let event = self.resolve(text);
        let same_name = |known: &Event| {
            known.name.eq_ignore_ascii_case(&event.name) && known.modifiers == event.modifiers
        };
        let counts_the_same = |known: &Event| match pseudo {
            true => same_name(known),
            false if event.candidates.is_empty() => known.candidates.is_empty() && same_name(known),
            false => {
                known.candidates == event.candidates
                    && known.modifiers == event.modifiers
                    && known.pin.is_none()
            }
        };
        let found = self.events.iter().position(counts_the_same);
        SlotId(found.unwrap_or_else(|| {
            self.events.push(event);
            self.events.len() - 1
        }))
    }

    /// The event of that name; one that this machine cannot name has no candidate, and says why.
    fn resolve(&self, text: &str) -> Event {
        let resolved = resolve_list(text, self.machine, true);
        let first = resolved.map(|events| events.into_iter().next());
        match first {
            Ok(Some(event)) => event,
            Ok(None) => Event::new(text, Unit::Count, Vec::new()),
            Err(error) => {
                Event { unsupported: error.to_string(), ..Event::new(text, Unit::Count, Vec::new()) }
            }
        }
    }
}

/// What the machine tells to formulas.
fn environment(machine: &Machine, pmu: Option<&str>) -> Environment {
    let mut literals =
        vec![("num_cpus", machine.online.len() as f64), ("num_cpus_online", machine.online.len() as f64)];
    literals.extend(machine.smt_active.map(|active| ("smt_on", f64::from(active))));
    literals.extend(slots(machine, pmu).map(|slots| ("slots", slots)));
    let cpu = Some(machine.cpu.id.clone()).filter(|id| *id != CpuId::Unknown);
    Environment { literals, cpu }
}

/// Slots in a cycle; Arm's drivers tell them, with 0 for a core that does not say.
fn slots(machine: &Machine, pmu: Option<&str>) -> Option<f64> {
    let device = match pmu {
        Some(pmu) => machine.pmu(pmu),
        None => machine.core_pmus().next(),
    };
    let slots = cyclometer_core::syntax::parse_number(device?.caps.get("slots")?.trim())?;
    (slots > 0).then_some(slots as f64)
}

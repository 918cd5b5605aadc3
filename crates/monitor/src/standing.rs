//! Counters that stay open on a target, and are read again and again for as long as it exists.

use std::fmt;

use cyclometer_core::event::{OsMetric, PerfClass};
use cyclometer_core::exec::{Cell, CounterAt, Raw, Reading};
use cyclometer_core::plan::PlanLine;
use cyclometer_core::{
    Candidate, Count, Counting, Machine, MissingReason, Modes, Part, Plan, Provenance, Result, Rung, Scope,
    SlotId, Source, Target, Unit, Verdict,
};
use cyclometer_stats::{latest, settle, settle_interval};

use crate::ladder::LadderStep;
use crate::opening::{Means, OpenCounters, opened_as, rungs, slots};

/// The input of [`StandingCounters::open`].
pub struct StandingSetup {
    /// The plan of the events.
    pub plan: Plan,
    /// The machine, for replans.
    pub machine: Machine,
    /// The target.
    pub target: Target,
    /// Its scope, for the values.
    pub scope: Scope,
    /// The sources.
    pub sources: Vec<Box<dyn Source>>,
}

/// Open counters with the sums of what they have counted.
///
/// They count from the opening on. Each read adds what was counted since the read before, so that totals only
/// grow, even those of events that share a counter. Like the counters of a source, it belongs to the thread
/// that opened it; dropping it closes them.
pub struct StandingCounters {
    plan: Plan,
    scope: Scope,
    steps: Vec<LadderStep>,
    sources: Vec<StandingSource>,
    sums: Vec<StandingSum>,
}

/// The counters of one source.
struct StandingSource {
    counting: Box<dyn Counting>,
    rung: Rung,
    counters: Vec<CounterAt>,
}

/// The sum of one event.
#[derive(Clone, Debug, Default)]
struct StandingSum {
    /// The latest known cells of the event.
    before: Reading,
    total: u64,
    /// The verdict on the sum; `None` where no read had a number.
    verdict: Option<Verdict>,
    /// Whether a read had none.
    has_gap: bool,
    enabled_ns: u64,
    running_ns: u64,
}

/// The state of one event at a read.
#[derive(Clone, PartialEq, Debug)]
pub struct StandingValue {
    /// The name with the modes that are counted (`instructions:u`).
    pub name: String,
    /// The requested name, without modifiers.
    pub event: String,
    /// The count since the read before, or the reason why there is none.
    pub latest: Count,
    /// The sum of all counts since the opening, in raw counts; for a peak, the highest value; for a gauge,
    /// the mean since the read before.
    pub total: u64,
    /// How far the total can be trusted. [`Verdict::Partial`] where a read had no number. `None` where
    /// none had a number.
    pub verdict: Option<Verdict>,
    /// The times of an event that needs a counter; `None` for others.
    pub times: Option<CounterTimes>,
    /// Whether the total is a peak, which is no sum.
    pub is_peak: bool,
    /// Whether the total is the value of a gauge, which is no sum.
    pub is_gauge: bool,
    /// The value of one raw count, in the unit.
    pub scale: f64,
    /// Unit of the scaled value.
    pub unit: Unit,
    /// The provenance; `None` where the event is not counted.
    pub provenance: Option<Provenance>,
    /// The source; `None` where none counts the event.
    pub rung: Option<Rung>,
    /// The scope of the value.
    pub scope: Scope,
    /// The modes that it covers; `None` where modes do not apply.
    pub modes: Option<Modes>,
}

/// For how long an event was enabled and on a counter, summed over its counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CounterTimes {
    /// Enabled, in ns.
    pub enabled_ns: u64,
    /// On a counter, in ns.
    pub running_ns: u64,
}

impl fmt::Debug for StandingCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let events: Vec<String> = self.plan.lines.iter().map(PlanLine::label).collect();
        f.debug_struct("StandingCounters").field("events", &events).field("scope", &self.scope).finish()
    }
}

impl StandingCounters {
    /// Opens the counters in the calling thread, and starts them. Events that the sources refuse are
    /// replanned as in a run; their values have the reason.
    ///
    /// # Errors
    ///
    /// Errors without a possible replan: `ErrorKind::NoSuchTarget`, `ErrorKind::HardwareLimit` for a
    /// `{group}` that does not fit.
    pub fn open(setup: StandingSetup) -> Result<StandingCounters> {
        let StandingSetup { plan, machine, target, scope, sources } = setup;
        let mut steps = Vec::new();
        let means = Means { sources: &sources, target: &target, machine: &machine };
        let (plan, OpenCounters { sources: opened, .. }) = means.settle(plan, &mut steps)?;
        let with_counters = |(mut counting, rung): (Box<dyn Counting>, Rung)| {
            let counters = counting.counters();
            StandingSource { counting, rung, counters }
        };
        let sums = vec![StandingSum::default(); plan.lines.len()];
        let sources = opened.into_iter().zip(rungs(&slots(&plan))).map(with_counters).collect();
        Ok(StandingCounters { plan, scope, steps, sources, sums })
    }

    /// Number of counters that are open. One of perf's is a file descriptor.
    pub fn counters(&self) -> usize {
        self.sources.iter().map(|source| source.counters.len()).sum()
    }

    /// The fallbacks that were taken when the counters were opened.
    pub fn ladder(&self) -> &[LadderStep] {
        &self.steps
    }

    /// Reads every counter; one value for each event, in the order asked for.
    pub fn read(&mut self) -> Vec<StandingValue> {
        let mut of_slots = vec![Reading::default(); self.plan.lines.len()];
        for source in &mut self.sources {
            source.read(&mut of_slots);
        }
        let (plan, scope) = (&self.plan, self.scope);
        let lines = plan.lines.iter().zip(&mut self.sums).enumerate();
        lines
            .map(|(i, (line, sum))| {
                let slot = opened_as(plan, SlotId(i));
                let now = of_slots.get(slot.0).cloned().unwrap_or_default();
                let latest = sum.add(line, now, slot, scope);
                value(line, sum, latest, scope)
            })
            .collect()
    }
}

impl StandingSource {
    /// Appends a cell for each counter to the reading of its event.
    fn read(&mut self, of_slots: &mut [Reading]) {
        for cell in self.cells() {
            if let Some(reading) = of_slots.get_mut(cell.slot.0) {
                reading.cells.push(cell);
            }
        }
    }

    fn cells(&mut self) -> Vec<Cell> {
        let lost = |counters: &[CounterAt]| counters.iter().map(|counter| cell(counter, Raw::LOST)).collect();
        if self.rung != Rung::Perf {
            // Remarks of other sources depend on the value.
            let mut reading = Reading::default();
            return match self.counting.read(&mut reading) {
                Ok(()) => reading.cells,
                Err(_) => lost(&self.counters),
            };
        }
        // One system call reads the software events of a CPU.
        let mut values = Vec::with_capacity(self.counters.len());
        match self.counting.sample(&mut values) {
            Ok(()) => self.counters.iter().zip(values).map(|(counter, raw)| cell(counter, raw)).collect(),
            Err(_) => lost(&self.counters),
        }
    }
}

fn cell(counter: &CounterAt, raw: Raw) -> Cell {
    Cell {
        slot: counter.slot,
        at: counter.at.clone(),
        raw: raw.value,
        time_enabled_ns: raw.time_enabled_ns,
        time_running_ns: raw.time_running_ns,
        lost: raw.is_lost.then_some(MissingReason::Gone),
        partial: counter.partial.clone(),
    }
}

impl StandingSum {
    /// Adds what was counted since the read before.
    fn add(&mut self, line: &PlanLine, now: Reading, slot: SlotId, scope: Scope) -> Count {
        let count = settle_interval(line, &now, &self.before, slot, scope);
        match count.value() {
            Some(value) if is_gauge(line) => self.total = value,
            Some(value) if is_peak(line) => self.total = self.total.max(value),
            Some(value) => self.total = self.total.saturating_add(value),
            None => self.has_gap = true,
        }
        if count.verdict().has_value() {
            self.verdict = self.verdict.max(Some(count.verdict()));
        }
        if self.verdict > Some(Verdict::Exact) {
            // A value that is coarse for a short time may be exact for a long one.
            let whole = settle(line, &now, slot, scope).verdict();
            self.verdict = Some(whole).filter(|whole| whole.has_value()).or(self.verdict);
        }
        let times = |of: fn(&Cell) -> u64| now.cells.iter().map(of).fold(0, u64::saturating_add);
        self.enabled_ns = self.enabled_ns.max(times(|cell| cell.time_enabled_ns));
        self.running_ns = self.running_ns.max(times(|cell| cell.time_running_ns));
        self.before = latest(&now, &self.before);
        count
    }

    /// The verdict on the total.
    fn verdict(&self) -> Option<Verdict> {
        let gap = self.has_gap.then_some(Verdict::Partial);
        self.verdict.map(|verdict| gap.map_or(verdict, |gap| gap.max(verdict)))
    }
}

fn value(line: &PlanLine, sum: &StandingSum, latest: Count, scope: Scope) -> StandingValue {
    let candidate = line.candidate();
    let times = CounterTimes { enabled_ns: sum.enabled_ns, running_ns: sum.running_ns };
    StandingValue {
        name: line.label(),
        event: line.event.name.clone(),
        latest,
        total: sum.total,
        verdict: sum.verdict(),
        times: candidate.is_some_and(needs_counter).then_some(times),
        is_peak: is_peak(line),
        is_gauge: is_gauge(line),
        scale: candidate.map_or(1.0, |candidate| candidate.scale),
        unit: line.event.unit.clone(),
        provenance: candidate.map(|candidate| candidate.provenance),
        rung: candidate.map(|candidate| candidate.rung),
        scope: scope.max(candidate.and_then(|way| way.widest).unwrap_or(scope)),
        modes: line.effective_modes(),
    }
}

/// Whether a counter of a PMU counts it, which others may hold.
fn needs_counter(candidate: &Candidate) -> bool {
    candidate.parts.iter().any(|part| match part {
        Part::Perf(event) => event.class != PerfClass::Software,
        _ => false,
    })
}

fn is_gauge(line: &PlanLine) -> bool {
    line.candidate().is_some_and(|candidate| candidate.gauge().is_some())
}

fn is_peak(line: &PlanLine) -> bool {
    let parts = line.candidate().map_or(&[][..], |candidate| &candidate.parts);
    parts.iter().any(|part| matches!(part, Part::Os(OsMetric::PeakRss)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends where something fails")]
mod tests {
    use super::*;
    use cyclometer_core::event::PerfEvent;
    use cyclometer_core::exec::{At, ReadWay};
    use cyclometer_core::plan::{Outcome, Sharing};
    use cyclometer_core::{Error, ErrorKind, Event, Intent, Pass, Slot};

    /// A counter on CPU 0 with prepared values, one for each read; `None` is a read that fails.
    struct PreparedCounter(Vec<Option<Raw>>);

    impl Counting for PreparedCounter {
        fn start(&mut self) -> Result<()> {
            Ok(())
        }

        fn stop(&mut self) -> Result<()> {
            Ok(())
        }

        fn read(&mut self, _: &mut Reading) -> Result<()> {
            Err(Error::new(ErrorKind::Os, "it is sampled"))
        }

        fn sample(&mut self, out: &mut Vec<Raw>) -> Result<()> {
            out.push(self.0.remove(0).ok_or_else(|| Error::new(ErrorKind::Os, "it is gone"))?);
            Ok(())
        }
    }

    fn raw(value: u64, time_enabled_ns: u64, time_running_ns: u64) -> Option<Raw> {
        Some(Raw { value, time_enabled_ns, time_running_ns, is_lost: false })
    }

    /// Counters of one event of this class with prepared values.
    fn standing(class: PerfClass, values: Vec<Option<Raw>>) -> StandingCounters {
        let part = PerfEvent::new("pmu", 4, 0, class);
        let candidate = Candidate::perf(vec![part], Provenance::Hardware, None);
        let line = PlanLine {
            event: Event::new("e", Unit::Count, vec![candidate]),
            outcome: Outcome::Counted { candidate: 0, filter: None, exclude_guest: false },
            skipped: Vec::new(),
        };
        let slots = vec![Slot::new(SlotId(0), "e", Rung::Perf, Vec::new())];
        let plan = Plan {
            lines: vec![line],
            passes: vec![Pass { slots, ..Pass::default() }],
            sharing: Sharing::default(),
            intent: Intent::default(),
        };
        let at = At { pmu: Some("pmu".to_owned()), cpu: Some(0), ..At::default() };
        let way = ReadWay::Kernel(None);
        let counters = vec![CounterAt { slot: SlotId(0), at, way, partial: None }];
        StandingCounters {
            plan,
            scope: Scope::Cgroup,
            steps: Vec::new(),
            sources: vec![StandingSource {
                counting: Box::new(PreparedCounter(values)),
                rung: Rung::Perf,
                counters,
            }],
            sums: vec![StandingSum::default()],
        }
    }

    fn read(counters: &mut StandingCounters) -> StandingValue {
        counters.read().remove(0)
    }

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_read_adds_what_was_counted_since_the_one_before() {
        let mut counters = standing(PerfClass::Core, vec![raw(5, S, S), raw(5, S, S), raw(12, 3 * S, 3 * S)]);
        let expected = [(Count::Exact(5), 5), (Count::Exact(0), 5), (Count::Exact(7), 12)];
        for (latest, total) in expected {
            let value = read(&mut counters);
            assert_eq!((value.latest, value.total, value.verdict), (latest, total, Some(Verdict::Exact)));
        }
        assert_eq!(counters.counters(), 1);
    }

    #[test]
    fn each_time_is_scaled_by_itself_so_that_totals_never_fall() {
        // A busy second on the counter, then an idle one off it: scaled as a whole, 1000 would become 1333.
        let values = vec![raw(1000, S, S), raw(1001, 2 * S, S + S / 2)];
        let mut counters = standing(PerfClass::Core, values);
        assert_eq!(read(&mut counters).total, 1000);
        let value = read(&mut counters);
        assert_eq!((value.total, value.verdict), (1002, Some(Verdict::Scaled)));
        let times = CounterTimes { enabled_ns: 2 * S, running_ns: S + S / 2 };
        assert_eq!(value.times, Some(times));
    }

    #[test]
    fn a_read_without_a_number_has_the_reason_and_leaves_the_total_partial() {
        let values = vec![raw(10, S, S), None, raw(30, 3 * S, 3 * S)];
        let mut counters = standing(PerfClass::Core, values);
        read(&mut counters);
        let lost = read(&mut counters);
        assert_eq!(lost.latest, Count::Lost { reason: MissingReason::Gone });
        assert_eq!(lost.total, 10);
        let value = read(&mut counters);
        assert_eq!((value.total, value.verdict), (30, Some(Verdict::Partial)), "nothing is counted twice");
    }

    #[test]
    fn an_event_that_never_reached_a_counter_has_no_verdict() {
        let mut counters = standing(PerfClass::Core, vec![raw(0, S, 0)]);
        let value = read(&mut counters);
        assert_eq!((value.latest.verdict(), value.verdict), (Verdict::NotCounted, None));
    }

    #[test]
    fn software_events_have_no_times_of_counters() {
        let mut counters = standing(PerfClass::Software, vec![raw(3, 0, 0)]);
        let value = read(&mut counters);
        assert_eq!((value.latest, value.times), (Count::Exact(3), None), "a value without a time is a value");
    }
}

//! The cost of measuring, and the bias that it adds to the counts. Both are measured when a monitor is built.

use std::time::Instant;

use cyclometer_core::exec::ReadWay;
use cyclometer_core::plan::PlanLine;
use cyclometer_core::{Candidate, Plan, Rung, SlotId};

use crate::opening::opened_as;
use crate::thread::{ThreadState, lock};
use crate::totals::{CounterSum, ThreadCounter};

/// The cost of a monitor's reads on the thread that built it.
#[derive(Clone, PartialEq, Debug)]
pub struct Cost {
    /// Reading all counters once, in ns.
    pub read_ns: Quantiles,
    /// Beginning and ending a region, in ns.
    pub region_ns: Quantiles,
    /// The bias of regions, one for each event.
    pub biases: Vec<Bias>,
}

/// The bias that measuring adds to an event, in raw counts.
#[derive(Clone, PartialEq, Debug)]
pub struct Bias {
    /// The event, as the monitor names it.
    pub event: String,
    /// How it is read; `None` where it is not counted.
    pub way: Option<ReadWay>,
    /// The count of an empty region; `None` where nothing was counted, or where too few regions were measured
    /// for this event.
    pub empty: Option<Quantiles>,
    /// The counts that a nested region adds to the surrounding one, beyond its own; `None` as for an empty
    /// region.
    pub nested: Option<Quantiles>,
}

/// The median and the extremes of repeated measurements.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Quantiles {
    /// The smallest value.
    pub min: f64,
    /// The median.
    pub median: f64,
    /// The 99th percentile.
    pub p99: f64,
}

impl Quantiles {
    /// The quantiles of any number of values; `None` if there are none.
    pub fn of(mut values: Vec<f64>) -> Option<Quantiles> {
        values.sort_by(f64::total_cmp);
        let at =
            |share: f64| values.get(((values.len() as f64 * share) as usize).min(values.len() - 1)).copied();
        let min = *values.first()?;
        Some(Quantiles { min, median: at(0.5)?, p99: at(0.99)? })
    }

    /// The greatest distance of a measurement from the median, up or down.
    pub fn spread(&self) -> f64 {
        (self.p99 - self.median).max(self.median - self.min)
    }
}

/// Number of repetitions. The numbers are fixed, so that a program counted by the software PMU executes the
/// same instructions in every run.
#[derive(Clone, Copy)]
struct Repeats {
    /// Repetitions before the measurement, which load caches and train predictors.
    warm_up: usize,
    measured: usize,
    /// Calls that are timed together, because reading the clock takes as long as some of them.
    batch: u32,
}

impl Repeats {
    /// Enough for a 99th percentile: 1 in 100 is more than one.
    const MANY: Repeats = Repeats { warm_up: 50, measured: 300, batch: 8 };

    /// For the software PMU. A read stops the thread, which takes far longer than a clock, and adds the same
    /// to its counts each time.
    const FEW: Repeats = Repeats { warm_up: 1, measured: 2, batch: 1 };

    fn of(plan: &Plan) -> Repeats {
        let by_software = |line: &PlanLine| line.candidate().is_some_and(is_by_software);
        if plan.lines.iter().any(by_software) { Repeats::FEW } else { Repeats::MANY }
    }

    /// Fewest measurements from which the bias of an event is estimated.
    fn enough(candidate: &Candidate) -> usize {
        if is_by_software(candidate) { Repeats::FEW.measured } else { Repeats::MANY.measured }
    }
}

fn is_by_software(candidate: &Candidate) -> bool {
    candidate.rung == Rung::Soft
}

/// Measures on the thread that has the counters open.
pub(crate) fn measure(state: &mut ThreadState, plan: &Plan) -> Cost {
    let repeats = Repeats::of(plan);
    let label = state.label("");
    let mut sums = Vec::new();
    let mut nested = Vec::new();
    for i in 0..repeats.warm_up + repeats.measured {
        let empty = empty_region(state, label);
        let both = region_around_empty_one(state, label);
        if i >= repeats.warm_up {
            sums.push(empty);
            nested.push(both);
        }
    }
    let cost = Cost {
        read_ns: timed(repeats, || state.read()),
        region_ns: timed(repeats, || {
            let frame = state.begin(label);
            state.end(frame, false);
        }),
        biases: biases(&lock(&state.totals).counters, plan, &sums, &nested),
    };
    state.forget_labels();
    cost
}

fn empty_region(state: &mut ThreadState, label: usize) -> Vec<CounterSum> {
    let frame = state.begin(label);
    state.end(frame, true).map(|ended| ended.sums).unwrap_or_default()
}

fn region_around_empty_one(state: &mut ThreadState, label: usize) -> Vec<CounterSum> {
    let outer = state.begin(label);
    let inner = state.begin(label);
    state.end(inner, false);
    state.end(outer, true).map(|ended| ended.sums).unwrap_or_default()
}

fn timed(repeats: Repeats, mut what: impl FnMut()) -> Quantiles {
    let batch = |n: u32, what: &mut dyn FnMut()| {
        let started = Instant::now();
        (0..n).for_each(|_| what());
        started.elapsed().as_nanos() as f64
    };
    let clock = Quantiles::of((0..repeats.measured).map(|_| batch(0, &mut what)).collect());
    let clock = clock.map_or(0.0, |clock| clock.median);
    let each = |ns: f64| (ns - clock).max(0.0) / f64::from(repeats.batch);
    let times = (0..repeats.measured).map(|_| each(batch(repeats.batch, &mut what))).collect();
    Quantiles::of(times).unwrap_or(Quantiles { min: 0.0, median: 0.0, p99: 0.0 })
}

/// The bias of every event for which there are enough measurements. Beside an event of the software PMU there
/// are few, and clocks and kernel counters vary. The bias of a nested region is the rest after subtracting
/// that of an empty one.
fn biases(
    counters: &[ThreadCounter],
    plan: &Plan,
    empty: &[Vec<CounterSum>],
    nested: &[Vec<CounterSum>],
) -> Vec<Bias> {
    let of_slot = |slot: SlotId, line: &PlanLine, rows: &[Vec<CounterSum>]| {
        line.candidate().filter(|candidate| rows.len() >= Repeats::enough(candidate))?;
        let value = |row: &Vec<CounterSum>| {
            let own = row.iter().zip(counters).filter(|(_, own)| own.counter.slot == slot);
            own.clone().next()?;
            own.map(|(sum, own)| (sum.lost == 0 && !own.is_peak).then_some(sum.value as f64)).sum()
        };
        Quantiles::of(rows.iter().map(value).collect::<Option<Vec<f64>>>()?)
    };
    let bias = |(i, line): (usize, &PlanLine)| {
        let slot = opened_as(plan, SlotId(i));
        let alone = of_slot(slot, line, empty);
        let within = alone.zip(of_slot(slot, line, nested)).map(|(alone, both)| Quantiles {
            min: (both.min - alone.p99).max(0.0),
            median: (both.median - alone.median).max(0.0),
            p99: (both.p99 - alone.min).max(0.0),
        });
        let counter = counters.iter().find(|counter| counter.counter.slot == slot);
        let way = counter.map(|counter| counter.counter.way.clone());
        Bias { event: line.label(), way, empty: alone, nested: within }
    };
    plan.lines.iter().enumerate().map(bias).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cyclometer_core::event::{Event, OsMetric};
    use cyclometer_core::exec::{Cell, CounterAt};
    use cyclometer_core::plan::Outcome;
    use cyclometer_core::{Intent, Modes, Unit};

    /// A plan of `instructions` by the software PMU and the time by the operating system, or of one of them,
    /// with its counters.
    fn planned(names: &[&str]) -> (Plan, Vec<ThreadCounter>) {
        let candidate = |name: &str| match name {
            "wall_time" => Candidate::accounting(OsMetric::WallTime, "clock"),
            _ => Candidate::soft(name, Modes::USER),
        };
        let line = |name: &&str| PlanLine {
            event: Event::new(*name, Unit::Count, vec![candidate(name)]),
            outcome: Outcome::Counted { candidate: 0, filter: None, exclude_guest: false },
            skipped: Vec::new(),
        };
        let counter = |slot| ThreadCounter {
            counter: CounterAt::of(Cell::new(SlotId(slot), 0, 0, 0)),
            is_peak: false,
            longest_ns: None,
        };
        let lines = names.iter().map(line).collect();
        let plan = Plan { lines, passes: Vec::new(), sharing: Default::default(), intent: Intent::default() };
        (plan, (0..names.len()).map(counter).collect())
    }

    /// Whether the bias of each event is known, after as many measurements as the plan has.
    fn known(names: &[&str]) -> Vec<bool> {
        let (plan, counters) = planned(names);
        let rows = |value| {
            vec![
                vec![CounterSum { value, ..CounterSum::default() }; names.len()];
                Repeats::of(&plan).measured
            ]
        };
        let biases = biases(&counters, &plan, &rows(7), &rows(20));
        assert!(biases.iter().all(|bias| bias.empty.is_some() == bias.nested.is_some()));
        assert!(biases.iter().all(|bias| bias.nested.is_none_or(|nested| nested.median == 13.0)));
        biases.iter().map(|bias| bias.empty.is_some()).collect()
    }

    #[test]
    fn a_clock_beside_the_software_pmu_has_no_known_bias() {
        assert_eq!(known(&["instructions", "wall_time"]), [true, false]);
        assert_eq!(known(&["wall_time", "branches", "instructions"]), [false, true, true]);
        assert_eq!(known(&["wall_time"]), [true]);
    }

    #[test]
    fn quantiles_are_of_the_sorted_values() {
        let values = (0..100).rev().map(f64::from).collect();
        assert_eq!(Quantiles::of(values), Some(Quantiles { min: 0.0, median: 50.0, p99: 99.0 }));
        assert_eq!(Quantiles::of(vec![7.0]), Some(Quantiles { min: 7.0, median: 7.0, p99: 7.0 }));
        assert_eq!(Quantiles::of(vec![]), None);
    }

    #[test]
    fn the_spread_reaches_to_the_farther_end() {
        assert_eq!(Quantiles { min: 1.0, median: 5.0, p99: 6.0 }.spread(), 4.0);
        assert_eq!(Quantiles { min: 4.0, median: 5.0, p99: 9.0 }.spread(), 4.0);
    }
}

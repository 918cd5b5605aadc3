//! Monitors: counting within a program, over all of its threads.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cyclometer_core::exec::ReadWay;
use cyclometer_core::{ErrorKind, Machine, MissingReason, Plan, Result, Scope, SlotId, Target};

use crate::begun::BegunRegion;
use crate::cost::{self, Cost};
use crate::counter::Counter;
use crate::here::{adopt, here, prune};
use crate::ladder::LadderStep;
use crate::opening::{Means, SourceMaker, is_of_registers, opened_as, slots};
use crate::region::Region;
use crate::report::{Measured, Share};
use crate::sampling::{Sampler, Samples, Sampling, SamplingInput};
use crate::shared::Shared;
use crate::thread::{ThreadState, lock};
use crate::totals::{LabelTotals, ThreadTotals};

/// The parts from which a monitor is built.
#[derive(Clone)]
pub struct Setup {
    /// The plan.
    pub plan: Plan,
    /// The machine, for replans.
    pub machine: Machine,
    /// The target of the counters that each thread opens.
    pub target: Target,
    /// The scope of that target, for the values.
    pub scope: Scope,
    /// Creates the sources.
    pub sources: SourceMaker,
    /// Whether cost and bias are measured.
    pub calibrate: bool,
    /// The fallbacks that were taken before.
    pub steps: Vec<LadderStep>,
    /// The sampling of a background thread and its target; `None`: no sampling.
    pub sampling: Option<(Sampling, Target)>,
    /// The longest duration of a region that is counted by registers which the kernel writes to as well;
    /// `None`: unlimited.
    pub longest_window: Option<Duration>,
}

/// Counts regions of a program.
///
/// It is `Send` and `Sync`: threads share it, and each opens its own counters at its first region. It never
/// changes; another configuration needs another monitor. The thread that drops it closes its counters at
/// once. Each other thread closes them when it ends, or when it begins to measure for another monitor.
#[derive(Clone)]
pub struct Monitor {
    shared: Arc<Shared>,
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let events: Vec<String> = self.shared.plan.lines.iter().map(|line| line.label()).collect();
        f.debug_struct("Monitor").field("events", &events).field("scope", &self.shared.scope).finish()
    }
}

impl Monitor {
    /// Opens the counters in the calling thread, which settles how each event is counted, and measures the
    /// cost of reading.
    ///
    /// # Errors
    ///
    /// Errors without a possible replan: `ErrorKind::NoSuchTarget`, `ErrorKind::HardwareLimit` for a
    /// `{group}` that does not fit.
    pub fn open(setup: Setup) -> Result<Monitor> {
        let Setup { plan, machine, target, scope, sources, calibrate, mut steps, sampling, longest_window } =
            setup;
        prune();
        skipped(&plan, &mut steps);
        let own = sources();
        let means = Means { sources: &own, target: &target, machine: &machine };
        let (plan, opened) = means.settle(plan, &mut steps)?;
        let mut state = ThreadState::new(&plan, opened, longest_window);
        taken(&plan, &lock(&state.totals), &mut steps);
        let samples_registers =
            sampling.is_some() && slots(&plan).iter().any(|slot| is_of_registers(slot.rung));
        if samples_registers {
            // The counters are closed first, because counters in use cannot be opened again.
            drop(state);
            let opened = means.open_without_registers(&plan);
            state = ThreadState::new(&plan, opened, longest_window);
            steps.extend(sampled_only(&plan));
        }
        let cost = calibrate.then(|| cost::measure(&mut state, &plan));
        let start = |(sampling, target): (Sampling, Target)| {
            let (plan, machine, sources) = (plan.clone(), machine.clone(), Arc::clone(&sources));
            Sampler::start(sampling, SamplingInput { plan, machine, target, sources, longest_window })
        };
        let sampler = sampling.map(start).transpose()?;
        let shared = Arc::new(Shared {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            plan,
            machine,
            target,
            scope,
            sources,
            steps,
            cost,
            threads: Mutex::default(),
            named: AtomicU32::new(0),
            missed: Mutex::default(),
            longest_window,
            samples_registers,
            sampler,
        });
        shared.register(&state);
        adopt(&shared, state);
        Ok(Monitor { shared })
    }

    /// Begins a region in the calling thread; it ends when it is dropped.
    ///
    /// Never fails: where no event can be counted, the values have the reason. After the first region of a
    /// label in a thread it allocates no memory. Where all counters are read in user space, it makes no
    /// system call.
    pub fn region(&self, label: &str) -> Region {
        Region::begin(&self.shared, label)
    }

    /// Begins a region that any code can refer to, for languages that cannot bind a guard to a scope.
    pub fn begin(&self, label: &str) -> BegunRegion {
        BegunRegion::begin(&self.shared, label)
    }

    /// Calls a function and counts it as a region.
    pub fn measure<T>(&self, label: &str, work: impl FnOnce() -> T) -> T {
        let region = self.region(label);
        let result = work();
        drop(region);
        result
    }

    /// The counter of an event in the calling thread, for individual reads. `None` where the event is not
    /// counted; [`Monitor::read`] has the reason.
    pub fn counter(&self, event: &str) -> Option<Counter> {
        let is_it =
            |line: &cyclometer_core::plan::PlanLine| line.event.name == event || line.label() == event;
        let i = self.shared.plan.lines.iter().position(is_it)?;
        Counter::of(here(&self.shared)?, opened_as(&self.shared.plan, SlotId(i)))
    }

    /// The counts since the calling thread opened its counters. It opens them now if it had none.
    pub fn read(&self) -> Measured {
        let Some(here) = here(&self.shared) else { return self.shared.unmeasured() };
        let Ok(mut state) = here.try_borrow_mut() else { return self.shared.unmeasured() };
        let sums = state.since_opened();
        let totals = Arc::clone(&state.totals);
        drop(state);
        let totals = lock(&totals);
        let share = Share { thread: None, totals: &totals, sums: &sums, calls: 0, inner: 0 };
        let values = self.shared.without_bias().values(&[share]);
        Measured { label: String::new(), thread: None, calls: 0, values }
    }

    /// The counts of every label's regions in all threads, in the order of their first use. A label whose
    /// first region is still open has the reason in place of counts.
    pub fn regions(&self) -> Vec<Measured> {
        self.shared.labels().iter().map(|label| self.shared.total(label)).collect()
    }

    /// The counts of every label in every thread.
    pub fn regions_by_thread(&self) -> Vec<Measured> {
        self.shared.by_thread()
    }

    /// The counts of a label's regions in all threads; `None` where none has begun.
    pub fn total(&self, label: &str) -> Option<Measured> {
        self.shared.labels().iter().any(|known| known == label).then(|| self.shared.total(label))
    }

    /// Number of regions that could not be measured at all, by label. They began while their thread ended, or
    /// during the start of another region, as in a signal handler.
    pub fn missed(&self) -> Vec<(String, u64)> {
        lock(&self.shared.missed).iter().map(|(label, times)| (label.clone(), *times)).collect()
    }

    /// Discards the counts of regions so far, in all threads. Open regions continue, and are counted as a
    /// whole.
    pub fn reset(&self) {
        for thread in &*lock(&self.shared.threads) {
            lock(&thread.totals).labels.iter_mut().for_each(LabelTotals::clear);
        }
        lock(&self.shared.missed).clear();
        let Some(here) = here(&self.shared) else { return };
        if let Ok(mut state) = here.try_borrow_mut() {
            state.rebase();
        }
    }

    /// Discards the counts of one label's regions so far, in all threads.
    pub fn reset_label(&self, label: &str) {
        for thread in &*lock(&self.shared.threads) {
            lock(&thread.totals)
                .labels
                .iter_mut()
                .filter(|own| *own.label == *label)
                .for_each(LabelTotals::clear);
        }
        lock(&self.shared.missed).remove(label);
    }

    /// Number of open regions, in all threads.
    pub fn open_regions(&self) -> u64 {
        lock(&self.shared.threads).iter().map(|thread| lock(&thread.totals).open()).sum()
    }

    /// Each step of the search for counters: the attempt, whether it works, and the fallback where it does
    /// not.
    pub fn ladder(&self) -> &[LadderStep] {
        &self.shared.steps
    }

    /// The cost of reading, and the bias that it adds to the counts; `None` where it was not measured.
    pub fn cost(&self) -> Option<&Cost> {
        self.shared.cost.as_ref()
    }

    /// The samples since the last call. They are empty where no sampling was requested, and in a forked
    /// child, which has no sampling thread.
    pub fn samples(&self) -> Samples {
        self.shared.sampler.as_ref().map(Sampler::take).unwrap_or_default()
    }

    /// The plan, which has the source of each event.
    pub fn plan(&self) -> &Plan {
        &self.shared.plan
    }

    /// The scope of the counts.
    pub fn scope(&self) -> Scope {
        self.shared.scope
    }

    /// The machine that this runs on.
    pub fn machine(&self) -> &Machine {
        &self.shared.machine
    }
}

/// Adds a step for each source that the plan does not use.
fn skipped(plan: &Plan, steps: &mut Vec<LadderStep>) {
    for line in &plan.lines {
        for skipped in &line.skipped {
            let because = (ErrorKind::EventUnsupported, skipped.reason.to_string());
            let next = line.candidate().map_or_else(
                || "not counted".to_owned(),
                |candidate| format!("counted by {}", candidate.rung),
            );
            steps.push(LadderStep::refused(Some(&line.event.name), skipped.rung.word(), because, next));
        }
        if line.skipped.is_empty() && line.candidate().is_none() {
            let reason = line.event.unsupported.clone().map_or(MissingReason::NoSource, MissingReason::Lacks);
            let because = (ErrorKind::EventUnsupported, reason.to_string());
            steps.push(LadderStep::refused(Some(&line.event.name), "this machine", because, "not counted"));
        }
    }
}

/// Adds a step for the source of each event, and one for how it is read.
fn taken(plan: &Plan, totals: &ThreadTotals, steps: &mut Vec<LadderStep>) {
    for (i, line) in plan.lines.iter().enumerate() {
        let Some(candidate) = line.candidate() else { continue };
        let event = Some(line.event.name.as_str());
        steps.push(LadderStep::works(event, format!("{} ({})", candidate.rung, candidate.resolution)));
        let slot = opened_as(plan, SlotId(i));
        let ways = totals.counters.iter().filter(|counter| counter.counter.slot == slot);
        let way = ways.map(|counter| &counter.counter.way).next();
        match way {
            Some(ReadWay::UserSpace) => steps.push(LadderStep::works(event, READ)),
            Some(ReadWay::Kernel(Some(reason))) => {
                let because = (ErrorKind::NoUserAccess, reason.clone());
                steps.push(LadderStep::refused(event, READ, because, "read through the kernel"));
            }
            _ => {}
        }
    }
}

/// Steps for events that are sampled, and are not counted in regions.
fn sampled_only(plan: &Plan) -> Vec<LadderStep> {
    let of_registers = slots(plan).into_iter().filter(|slot| is_of_registers(slot.rung));
    let step = |slot: cyclometer_core::Slot| {
        let event = plan.lines.get(slot.id.0).map(|line| line.event.name.as_str());
        let because = (ErrorKind::CounterBusy, MissingReason::SampledAlone.to_string());
        LadderStep::refused(event, "regions", because, "sampled only")
    };
    of_registers.map(step).collect()
}

/// The attempt to read a counter without a system call.
const READ: &str = "read in user space";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_may_share_a_monitor() {
        fn shared<T: Send + Sync>() {}
        shared::<Monitor>();
    }
}

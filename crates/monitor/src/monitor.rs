//! Monitors: counting within a program, over all of its threads.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cyclometer_core::exec::ReadWay;
use cyclometer_core::{ErrorKind, Machine, Plan, Result, Scope, SlotId, Source, Target};

use crate::begun::BegunRegion;
use crate::cost::{self, Cost};
use crate::counter::Counter;
use crate::ladder::LadderStep;
use crate::opening::{Means, is_of_registers, opened_as, slots};
use crate::region::Region;
use crate::report::{Judge, Measured, Share, ThreadName};
use crate::sampling::{Sampler, Samples, Sampling, SamplingInput};
use crate::thread::{EndedRegion, ThreadState, adopt, here, lock, prune};
use crate::totals::{CounterSum, LabelTotals, ThreadTotals};

/// Creates the sources of a thread: counters belong to threads, and so do their sources.
pub type SourceMaker = Arc<dyn Fn() -> Vec<Box<dyn Source>> + Send + Sync>;

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

/// Data shared by threads.
pub(crate) struct Shared {
    pub(crate) id: u64,
    plan: Plan,
    machine: Machine,
    target: Target,
    scope: Scope,
    sources: SourceMaker,
    steps: Vec<LadderStep>,
    cost: Option<Cost>,
    threads: Mutex<Vec<NamedThread>>,
    named: AtomicU32,
    /// Regions that could not be measured, by label.
    missed: Mutex<BTreeMap<String, u64>>,
    longest_window: Option<Duration>,
    /// Whether the sampling thread uses the registers.
    samples_registers: bool,
    sampler: Option<Sampler>,
}

struct NamedThread {
    name: ThreadName,
    totals: Arc<Mutex<ThreadTotals>>,
}

/// Number of threads that are reported individually. Beyond it, threads that have ended are added up.
const TOLD_APART: usize = 256;

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
            let opened = means.open_without_registers(&plan, SAMPLED);
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
        BegunRegion::begin(self, label)
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

    /// The counts of every label's regions in all threads, in the order of their first ends.
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
        lock(&self.shared.threads).iter().map(|thread| lock(&thread.totals).open).sum()
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

impl Drop for Shared {
    /// Closes the counters of the thread that drops the monitor. Each other thread closes its own when it
    /// measures again, or ends.
    fn drop(&mut self) {
        prune();
    }
}

impl Shared {
    /// Opens the counters of a thread that has none.
    pub(crate) fn open_here(&self) -> ThreadState {
        let sources = (self.sources)();
        let means = Means { sources: &sources, target: &self.target, machine: &self.machine };
        let opened = match self.samples_registers {
            true => means.open_without_registers(&self.plan, SAMPLED),
            false => means.open_settled(&self.plan),
        };
        let state = ThreadState::new(&self.plan, opened, self.longest_window);
        self.register(&state);
        state
    }

    fn register(&self, state: &ThreadState) {
        let number = self.named.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let name = ThreadName { number, name: std::thread::current().name().map(str::to_owned) };
        let mut threads = lock(&self.threads);
        if threads.len() >= TOLD_APART {
            add_up_ended(&mut threads);
        }
        threads.push(NamedThread { name, totals: Arc::clone(&state.totals) });
    }

    pub(crate) fn missed(&self, label: &str) {
        *lock(&self.missed).entry(label.to_owned()).or_default() += 1;
    }

    /// Values where no measurement was possible.
    pub(crate) fn unmeasured(&self) -> Measured {
        let values = self.without_bias().values(&[]);
        Measured { label: String::new(), thread: None, calls: 0, values }
    }

    pub(crate) fn measured_once(
        &self,
        totals: &ThreadTotals,
        label: usize,
        sums: &[CounterSum],
        inner: u64,
    ) -> Measured {
        let label = totals.labels.get(label).map(|label| label.label.to_string()).unwrap_or_default();
        let share = Share { thread: None, totals, sums, calls: 1, inner };
        Measured { label, thread: None, calls: 1, values: self.judge().values(&[share]) }
    }

    fn judge(&self) -> Judge<'_> {
        Judge { plan: &self.plan, scope: self.scope, cost: self.cost.as_ref() }
    }

    fn without_bias(&self) -> Judge<'_> {
        Judge { cost: None, ..self.judge() }
    }

    fn labels(&self) -> Vec<String> {
        let mut labels: Vec<String> = Vec::new();
        for thread in &*lock(&self.threads) {
            for label in &lock(&thread.totals).labels {
                if !labels.iter().any(|known| **known == *label.label) {
                    labels.push(label.label.to_string());
                }
            }
        }
        labels
    }

    fn total(&self, label: &str) -> Measured {
        self.total_of(label, &self.totals(|_| None))
    }

    /// The same, including an open region of that label in one thread, as if it had ended.
    pub(crate) fn total_with(
        &self,
        own: &Arc<Mutex<ThreadTotals>>,
        label: usize,
        open: &EndedRegion,
    ) -> Measured {
        let name = lock(own).labels.get(label).map(|label| label.label.to_string()).unwrap_or_default();
        let is_own = |thread: &NamedThread| Arc::ptr_eq(&thread.totals, own).then_some((label, open));
        self.total_of(&name, &self.totals(is_own))
    }

    /// The counts of each thread, including the open region of those that have one.
    fn totals<'a>(
        &self,
        open: impl Fn(&NamedThread) -> Option<(usize, &'a EndedRegion)>,
    ) -> Vec<(u32, ThreadTotals)> {
        let with_open = |thread: &NamedThread| {
            let mut totals = lock(&thread.totals).clone();
            if let Some((label, open)) = open(thread) {
                totals.add(label, &open.sums, open.inner);
            }
            (thread.name.number, totals)
        };
        lock(&self.threads).iter().map(with_open).collect()
    }

    fn total_of(&self, label: &str, totals: &[(u32, ThreadTotals)]) -> Measured {
        let shares: Vec<Share<'_>> =
            totals.iter().filter_map(|(number, totals)| share(*number, totals, label)).collect();
        let calls = shares.iter().map(|share| share.calls).sum();
        Measured { label: label.to_owned(), thread: None, calls, values: self.judge().values(&shares) }
    }

    fn by_thread(&self) -> Vec<Measured> {
        let threads = lock(&self.threads);
        let of_thread = |thread: &NamedThread| {
            let totals = lock(&thread.totals);
            let measured = |label: &LabelTotals| {
                let share = share(thread.name.number, &totals, &label.label)?;
                let calls = share.calls;
                let values = self.judge().values(&[share]);
                Some(Measured {
                    label: label.label.to_string(),
                    thread: Some(thread.name.clone()),
                    calls,
                    values,
                })
            };
            totals.labels.iter().filter_map(measured).collect::<Vec<_>>()
        };
        threads.iter().flat_map(of_thread).collect()
    }
}

/// The sums of a thread for a label; `None` where the thread has had none of its regions.
fn share<'a>(thread: u32, totals: &'a ThreadTotals, label: &str) -> Option<Share<'a>> {
    let own = totals.labels.iter().find(|own| *own.label == *label && own.calls > 0)?;
    Some(Share { thread: Some(thread), totals, sums: &own.sums, calls: own.calls, inner: own.inner })
}

/// Adds up threads that have ended and had the same counters. Memory then stays bounded however many threads
/// a program starts.
fn add_up_ended(threads: &mut Vec<NamedThread>) {
    let mut kept: Vec<NamedThread> = Vec::new();
    let mut ended: Option<NamedThread> = None;
    for thread in threads.drain(..) {
        let has_ended = Arc::strong_count(&thread.totals) == 1;
        let into = ended.as_ref().filter(|_| has_ended).is_some_and(|sum| add(sum, &thread));
        match (has_ended, into, &ended) {
            (_, true, _) => {}
            (true, false, None) => {
                let name = ThreadName { name: Some("and others that ended".to_owned()), ..thread.name };
                ended = Some(NamedThread { name, totals: thread.totals });
            }
            _ => kept.push(thread),
        }
    }
    threads.extend(ended);
    threads.append(&mut kept);
}

/// Adds the counts of one thread to another's; false where they have different counters.
fn add(sum: &NamedThread, thread: &NamedThread) -> bool {
    let (mut sum, more) = (lock(&sum.totals), lock(&thread.totals));
    if sum.counters != more.counters || sum.refused != more.refused {
        return false;
    }
    for label in &more.labels {
        let peaks: Vec<bool> = sum.counters.iter().map(|counter| counter.is_peak).collect();
        match sum.labels.iter_mut().find(|own| own.label == label.label) {
            None => sum.labels.push(label.clone()),
            Some(own) => {
                own.calls += label.calls;
                own.inner += label.inner;
                for ((own, more), is_peak) in own.sums.iter_mut().zip(&label.sums).zip(peaks) {
                    own.add(*more, is_peak);
                }
            }
        }
    }
    if sum.trouble.is_none() {
        sum.trouble.clone_from(&more.trouble);
    }
    true
}

/// Adds a step for each source that the plan does not use.
fn skipped(plan: &Plan, steps: &mut Vec<LadderStep>) {
    for line in &plan.lines {
        for skipped in &line.skipped {
            let because = (ErrorKind::EventUnsupported, skipped.reason.clone());
            let next = line.candidate().map_or_else(
                || "not counted".to_owned(),
                |candidate| format!("counted by {}", candidate.rung),
            );
            steps.push(LadderStep::refused(Some(&line.event.name), skipped.rung.word(), because, next));
        }
        if line.skipped.is_empty() && line.candidate().is_none() {
            let because = (ErrorKind::EventUnsupported, line.event.unsupported.clone());
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
            Some(ReadWay::Kernel(reason)) if !reason.is_empty() => {
                let because = (ErrorKind::NoUserAccess, reason.clone());
                steps.push(LadderStep::refused(event, READ, because, "read through the kernel"));
            }
            _ => {}
        }
    }
}

/// The reason why regions do not count events that the sampling thread counts by registers.
const SAMPLED: &str = "it is sampled, and registers that we program count for one at a time";

/// Steps for events that are sampled, and are not counted in regions.
fn sampled_only(plan: &Plan) -> Vec<LadderStep> {
    let of_registers = slots(plan).into_iter().filter(|slot| is_of_registers(slot.rung));
    let step = |slot: cyclometer_core::Slot| {
        let event = plan.lines.get(slot.id.0).map(|line| line.event.name.as_str());
        let because = (ErrorKind::CounterBusy, SAMPLED.to_owned());
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

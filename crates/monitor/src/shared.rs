//! The data of a monitor that its threads share, and the sums over those threads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cyclometer_core::{Machine, MissingReason, Plan, Scope, Target};

use crate::cost::Cost;
use crate::ladder::LadderStep;
use crate::opening::{Means, SourceMaker};
use crate::report::{Judge, Measured, Share, ThreadName};
use crate::sampling::Sampler;
use crate::thread::{EndedRegion, ThreadState, lock};
use crate::totals::{CounterSum, LabelTotals, ThreadTotals};

/// Data shared by threads.
pub(crate) struct Shared {
    pub(crate) id: u64,
    pub(crate) plan: Plan,
    pub(crate) machine: Machine,
    pub(crate) target: Target,
    pub(crate) scope: Scope,
    pub(crate) sources: SourceMaker,
    pub(crate) steps: Vec<LadderStep>,
    pub(crate) cost: Option<Cost>,
    pub(crate) threads: Mutex<Vec<NamedThread>>,
    pub(crate) named: AtomicU32,
    /// Regions that could not be measured, by label.
    pub(crate) missed: Mutex<BTreeMap<String, u64>>,
    pub(crate) longest_window: Option<Duration>,
    /// Whether the sampling thread uses the registers.
    pub(crate) samples_registers: bool,
    pub(crate) sampler: Option<Sampler>,
}

pub(crate) struct NamedThread {
    pub(crate) name: ThreadName,
    pub(crate) totals: Arc<Mutex<ThreadTotals>>,
}

/// Number of threads that are reported individually. Beyond it, threads that have ended are added up.
const TOLD_APART: usize = 256;

impl Shared {
    /// Opens the counters of a thread that has none.
    pub(crate) fn open_here(&self) -> ThreadState {
        let sources = (self.sources)();
        let means = Means { sources: &sources, target: &self.target, machine: &self.machine };
        let opened = match self.samples_registers {
            true => means.open_without_registers(&self.plan),
            false => means.open_settled(&self.plan),
        };
        let state = ThreadState::new(&self.plan, opened, self.longest_window);
        self.register(&state);
        state
    }

    pub(crate) fn register(&self, state: &ThreadState) {
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

    pub(crate) fn without_bias(&self) -> Judge<'_> {
        Judge { cost: None, ..self.judge() }
    }

    pub(crate) fn labels(&self) -> Vec<String> {
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

    pub(crate) fn total(&self, label: &str) -> Measured {
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
        let values = match shares.is_empty() {
            true => self.judge().without_values(&why_none(label, totals)),
            false => self.judge().values(&shares),
        };
        Measured { label: label.to_owned(), thread: None, calls, values }
    }

    pub(crate) fn by_thread(&self) -> Vec<Measured> {
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

/// Why a label has no counts.
fn why_none(label: &str, totals: &[(u32, ThreadTotals)]) -> MissingReason {
    let own = totals.iter().flat_map(|(_, totals)| &totals.labels).filter(|own| *own.label == *label);
    match own.map(|own| own.open).sum() {
        0u64 => MissingReason::NoRegionEnded,
        _ => MissingReason::RegionOpen,
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
                own.open += label.open;
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

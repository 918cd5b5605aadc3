//! Processes and tasks that are traced, with their counts.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::address_limits::ReportedLimits;
use super::code_cache::CodeCacheMapping;
use super::code_changes::{CacheFlush, CodeChangeCost};
use super::cpu_affinity::CpuAffinity;
use super::ledger::ExecutedCode;
use super::maps_listing::MapsListing;
use super::modelled_accesses::ThreadAccesses;
use super::retranslation::TranslationAge;
use super::signal_throttling::SignalThrottle;
use super::task_state::{TaskEvent, TaskState, TransitionEffect};
use super::thread_calls::ThreadCalls;
use super::translated_pc::TranslatedPc;
use super::translation_context::TranslationContext;
use super::translation_context::TranslationCounts;
use super::window_rows::OpenWindow;
use crate::EventTotals;
use crate::call_paths::CallTree;
use crate::code_profile::CodeProfile;
use crate::model::misses::MissModel;

/// A process, from its fork to its end, whatever it executes.
pub(crate) struct TracedProcess {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) name: String,
    totals: EventTotals,
    code: AddressRanges,
    /// The executions by address in translations that it has left, where they are requested.
    profile: CodeProfile,
    /// The instructions by call path, where they are requested.
    pub(super) call_tree: CallTree,
    /// Its caches, if they are modelled.
    pub(super) caches: Option<Rc<RefCell<MissModel>>>,
    /// Contexts of threads that have ended, with their counts.
    pub(crate) ended_contexts: Vec<TranslationContext>,
    /// Counts of ended threads whose slots were freed.
    pub(crate) ended_counts: Vec<TranslationCounts>,
    /// Its code was searched for restartable sequences, and has none.
    pub(crate) no_restarts: bool,
    /// It has memory that other processes may write to, too.
    pub(crate) shares: bool,
    /// A flush of its translation, for which its threads are suspended.
    pub(crate) flush: Option<CacheFlush>,
    /// The code cache to unmap when it is detached, and the thread that does it.
    pub(super) unmaps: Option<(u32, Rc<RefCell<CodeCacheMapping>>)>,
    /// CPU time of the tracer for it since its code changed for the first time.
    pub(super) work: Duration,
    /// The cost of its code changes.
    change_cost: CodeChangeCost,
    /// A thread was ended by another one's `execve`; its last program point is known only if that succeeds.
    pub(crate) unconfirmed: bool,
    /// The limits on addresses that it was told, if the kernel has others.
    pub(super) limits: Option<ReportedLimits>,
    /// The reason why the rest of its life is not counted, in words that follow "what the process did".
    uncounted: Option<&'static str>,
    /// The reason why there are no counts.
    pub(crate) lost: Option<String>,
}

/// A thread that is traced.
pub(crate) struct TracedTask {
    /// Index of its process.
    pub(crate) process: usize,
    /// Its number among all tasks so far: ids are used again.
    pub(super) number: u32,
    /// Its activity, and what is requested of it.
    state: TaskState,
    /// Its position in translated code, if it has executed nothing since that was read.
    pub(crate) last_pc: Option<TranslatedPc>,
    pub(crate) mode: TaskMode,
    /// A system call filter is in force: no call can be made on its behalf.
    pub(crate) filtered: bool,
    /// The address of its `execve`: behind the stop before the system call.
    pub(crate) exec_pc: Option<u64>,
    /// The stop of the translator at which it is, if it is at one.
    pub(crate) stopped_at: Option<u64>,
    /// The block whose last instruction it is about to execute in native state: a far transfer, or a system
    /// call such as the one by which it returns from a handler.
    pub(crate) stepped_block: Option<u32>,
    /// Its progress between signals.
    pub(crate) throttle: SignalThrottle,
    /// The list of its mappings that it reads.
    pub(crate) listing: Option<MapsListing>,
    /// Its action for SIGTRAP, as it gave it to the kernel, if not the default.
    pub(crate) trap_action: Option<[u8; 32]>,
    /// Its binding to a CPU.
    pub(crate) affinity: CpuAffinity,
    /// The CPU time of its program in the translation.
    pub(crate) age: TranslationAge,
    /// Its counts from translations that it has left, or why they are unknown; `None` where it never asked
    /// for its own counts.
    pub(crate) carried: Option<Result<EventTotals, String>>,
    /// Its open window, if windows are recorded.
    pub(super) window: Option<Box<OpenWindow>>,
    /// Its calls, if call paths are requested.
    pub(super) calls: Option<Box<ThreadCalls>>,
    /// Its accesses, if caches are modelled.
    pub(super) accesses: Option<Box<ThreadAccesses>>,
}

impl TracedTask {
    pub(crate) fn new(process: usize, number: u32, mode: TaskMode, filtered: bool) -> TracedTask {
        TracedTask {
            process,
            number,
            state: TaskState::default(),
            last_pc: None,
            mode,
            filtered,
            exec_pc: None,
            stopped_at: None,
            stepped_block: None,
            throttle: SignalThrottle::default(),
            listing: None,
            trap_action: None,
            affinity: CpuAffinity::default(),
            age: TranslationAge::default(),
            carried: None,
            window: None,
            calls: None,
            accesses: None,
        }
    }

    /// Its state.
    pub(super) fn state(&self) -> &TaskState {
        &self.state
    }

    /// Changes its state after an event.
    pub(super) fn apply(&mut self, event: TaskEvent) -> TransitionEffect {
        let (state, effect) = std::mem::take(&mut self.state).next(event);
        self.state = state;
        effect
    }

    /// Whether it executes a translation.
    pub(crate) fn uses(&self, cache: &Rc<RefCell<CodeCacheMapping>>) -> bool {
        match &self.mode {
            TaskMode::Translated(context) | TaskMode::Native(context) => Rc::ptr_eq(&context.cache, cache),
            TaskMode::Untranslated => false,
        }
    }

    /// Whether it has a slot in a translation.
    pub(crate) fn has_context(&self) -> bool {
        !matches!(self.mode, TaskMode::Untranslated)
    }

    pub(crate) fn waits_for_child(&self, child: u32) -> bool {
        self.state.vfork_wait().is_some_and(|vfork_wait| vfork_wait.by == child)
    }
}

/// The code that the processor executes for a task.
pub(crate) enum TaskMode {
    /// Its own code, and nothing is counted: it has not executed the command yet.
    Untranslated,
    /// Translated code.
    Translated(TranslationContext),
    /// Its own code, on the way into a signal handler. Its registers are the program's.
    Native(TranslationContext),
}

impl TracedProcess {
    pub(crate) fn new(pid: u32, parent: u32) -> TracedProcess {
        let name = name_of(pid);
        let (totals, code) = (EventTotals::new(), AddressRanges::default());
        let (ended_contexts, flush, limits, lost) = (Vec::new(), None, None, None);
        let (ended_counts, no_restarts, shares, unconfirmed) = (Vec::new(), false, false, false);
        TracedProcess {
            pid,
            parent,
            name,
            totals,
            code,
            profile: CodeProfile::default(),
            call_tree: CallTree::default(),
            caches: None,
            ended_contexts,
            ended_counts,
            no_restarts,
            shares,
            flush,
            unmaps: None,
            work: Duration::ZERO,
            change_cost: CodeChangeCost::new(Instant::now()),
            unconfirmed,
            limits,
            uncounted: None,
            lost,
        }
    }

    /// Whether its code has changed.
    pub(super) fn has_changed(&self) -> bool {
        self.change_cost.before.is_some()
    }

    /// Whether its translation may be replaced once more because its code changes.
    pub(super) fn may_change(&mut self) -> bool {
        self.change_cost.allow(Instant::now(), self.work)
    }

    /// Adds the executions in a translation that it has left.
    pub(crate) fn add(&mut self, executed: ExecutedCode) {
        self.code.add(executed.code);
        executed.profile.into_iter().for_each(|profile| self.profile.merge(profile));
        if let Err(reason) = self.totals.merge(&executed.totals) {
            self.lose(reason.to_string());
        }
    }

    /// Takes its executions by address; none of a process without counts.
    pub(super) fn take_profile(&mut self) -> CodeProfile {
        let profile = std::mem::take(&mut self.profile);
        if self.lost.is_none() { profile } else { CodeProfile::default() }
    }

    /// Drops the counts, with a reason.
    pub(crate) fn lose(&mut self, reason: impl Into<String>) {
        self.lost.get_or_insert_with(|| reason.into());
    }

    /// It is about to run natively, and stays counted up to now.
    pub(super) fn stop_counting(&mut self, reason: &'static str) {
        self.uncounted.get_or_insert(reason);
    }

    /// Whether it runs natively, or is about to, and stays counted up to then.
    pub(super) fn stops_counting(&self) -> bool {
        self.uncounted.is_some()
    }

    /// The reason why the rest of its life is not counted, if there are counts.
    pub(super) fn uncounted(&self) -> Option<&'static str> {
        self.uncounted.filter(|_| self.lost.is_none())
    }

    /// Its counts of events that are sums, with those of translations in use.
    pub(crate) fn sums(&self, current: Vec<EventTotals>) -> Result<EventTotals, String> {
        if let Some(reason) = &self.lost {
            return Err(reason.clone());
        }
        let mut totals = self.totals.clone();
        current.iter().try_for_each(|current| totals.merge(current)).map_err(|e| e.to_string())?;
        Ok(totals)
    }

    /// Its counts, with those of translations in use. Adds its executions to a profile.
    pub(crate) fn totals(
        &self,
        current: Vec<ExecutedCode>,
        profile: &mut CodeProfile,
    ) -> Result<EventTotals, String> {
        if let Some(reason) = &self.lost {
            return Err(reason.clone());
        }
        let mut totals = self.totals.clone();
        let mut code = self.code.clone();
        let mut profiles = Vec::new();
        for current in current {
            code.add(current.code);
            totals.merge(&current.totals).map_err(|e| e.to_string())?;
            profiles.extend(current.profile);
        }
        [self.profile.clone()].into_iter().chain(profiles).for_each(|current| profile.merge(current));
        totals.set_distinct_code_bytes(code.bytes());
        Ok(totals)
    }
}

/// The name of the executed program; empty where it cannot be read.
pub(crate) fn name_of(pid: u32) -> String {
    let name = super::proc::text(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end_matches('\n').to_owned()
}

/// Addresses, as ranges that do not touch, ascending.
#[derive(Clone, Default)]
struct AddressRanges(Vec<(u64, u64)>);

impl AddressRanges {
    fn add(&mut self, ranges: Vec<Range<u64>>) {
        let all = &mut self.0;
        all.extend(
            ranges.into_iter().filter(|range| !range.is_empty()).map(|range| (range.start, range.end)),
        );
        all.sort_unstable();
        all.dedup_by(|(start, end), (_, last)| {
            let touches = *start <= *last;
            *last = if touches { *end.max(last) } else { *last };
            touches
        });
    }

    fn bytes(&self) -> u64 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_or_overlap_become_one() {
        let mut ranges = AddressRanges::default();
        ranges.add(vec![0..4, 8..12, 4..6]);
        ranges.add(vec![10..20, 30..30, 5..7]);
        assert_eq!(ranges.0.into_iter().collect::<Vec<_>>(), [(0, 7), (8, 20)]);
    }
}

//! Binding of tasks to the CPU of the tracer.
//!
//! The types are in [`cpu_affinity`](super::cpu_affinity).

use std::fs;
use std::rc::Rc;

use cyclometer_sys::trace::Change;

use super::cpu_affinity::CpuBinding;
use super::proc::cpu_of;
use super::tracees::Tracees;

/// The number of stops between two moves of the tracer to another CPU.
const MOVE_EVERY: u64 = 100;

/// The CPU of the tracer, which follows the tracee that stops.
#[derive(Default)]
pub(super) struct CpuFollower {
    /// The number of stops at exit stubs.
    stops: u64,
    /// The CPU that the tracer is bound to.
    own: Option<u32>,
}

impl CpuFollower {
    /// Moves the tracer to the CPU of a process that stops often: one of the two waits for the other.
    pub(super) fn follow(&mut self, tracees: &Tracees, tid: u32) {
        if self.stops.is_multiple_of(MOVE_EVERY) {
            self.own = tracees.bound_cpu(tid).or_else(|| cpu_of(tid));
            self.own.into_iter().for_each(cyclometer_sys::daemon::run_on);
        }
        self.stops += 1;
    }

    /// A program is about to begin.
    pub(super) fn bind(&mut self, tracees: &mut Tracees, tid: u32) {
        if has_open_proc(tid) {
            return tracees.unbind(tid);
        }
        let stops = self.stops;
        // Several bound tasks would compete for the tracer's CPU.
        let others = tracees.tasks.iter().any(|(other, task)| *other != tid && task.affinity.since.is_some());
        let beside = self.own.filter(|_| !others);
        tracees.tasks.entry(tid).and_modify(|task| task.affinity.bind(tid, beside, stops));
    }

    /// Ends the binding of tasks that stop seldom.
    pub(super) fn unbind_idle(&mut self, tracees: &mut Tracees) {
        let stops = self.stops;
        for (tid, task) in &mut tracees.tasks {
            if task.affinity.is_over(stops) {
                task.affinity.release(*tid);
            }
        }
    }
}

impl Tracees {
    /// Ends the binding of a task at a stop, for its later children, too.
    pub(super) fn unbind(&mut self, tid: u32) {
        let Some(task) = self.tasks.get_mut(&tid) else { return };
        task.affinity.release(tid);
        task.affinity.binding = None;
    }

    /// Every task may use all of its CPUs again: one is about to look at another's, or to change them.
    pub(super) fn unbind_all(&mut self) {
        self.tasks.iter_mut().for_each(|(tid, task)| task.affinity.release(*tid));
    }

    /// A task has stopped. Unless the stop is a fork event, it is not making a child: the next child inherits
    /// its own CPUs.
    pub(super) fn forget_binding(&mut self, tid: u32, change: Change) {
        let for_child = matches!(change, Change::Fork | Change::VFork | Change::Clone | Change::Exiting);
        let Some(task) = self.tasks.get_mut(&tid) else { return };
        if !for_child && task.affinity.since.is_none() {
            task.affinity.binding = None;
        }
    }

    /// The binding that a child may have inherited.
    pub(super) fn binding_of_child(&self, parent: u32) -> Option<Rc<CpuBinding>> {
        let affinity = &self.tasks.get(&parent)?.affinity;
        // A task that is on this CPU without a binding was pinned by another process, and its child with it.
        let pinned = |binding: &Rc<CpuBinding>| affinity.since.is_none() && binding.holds(parent);
        affinity.binding.clone().filter(|binding| !pinned(binding))
    }

    /// Whether any task is bound to a CPU.
    pub(super) fn any_bound(&self) -> bool {
        self.tasks.values().any(|task| task.affinity.since.is_some())
    }

    /// Whether this one is.
    pub(super) fn is_bound(&self, tid: u32) -> bool {
        self.tasks.get(&tid).is_some_and(|task| task.affinity.since.is_some())
    }

    /// The CPU that a task is bound to.
    pub(super) fn bound_cpu(&self, tid: u32) -> Option<u32> {
        let affinity = &self.tasks.get(&tid)?.affinity;
        affinity.binding.as_ref().filter(|_| affinity.since.is_some()).map(|binding| binding.cpu)
    }
}

/// Whether a program starts with a file of `/proc` open. It could read its CPUs there without a call that is
/// watched.
fn has_open_proc(tid: u32) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{tid}/fd")) else { return false };
    let mut targets = descriptors.flatten().flat_map(|entry| fs::read_link(entry.path()));
    targets.any(|target| target.starts_with("/proc"))
}

//! Binding of tasks to the CPU of the tracer.
//!
//! The types are in [`cpu_affinity`](crate::host::cpu_affinity).

use std::fs;
use std::rc::Rc;

use cyclometer_sys::trace::Change;

use super::Tracer;
use crate::host::cpu_affinity::CpuBinding;

impl Tracer {
    /// A program is about to begin.
    pub(super) fn bind_to_cpu(&mut self, tid: u32) {
        if has_open_proc(tid) {
            return self.unbind(tid);
        }
        let stops = self.stops;
        // Several bound tasks would compete for the tracer's CPU.
        let others =
            self.tracees.tasks.iter().any(|(other, task)| *other != tid && task.affinity.since.is_some());
        let beside = self.own_cpu.filter(|_| !others);
        self.tracees.tasks.entry(tid).and_modify(|task| task.affinity.bind(tid, beside, stops));
    }

    /// Ends the binding of a task at a stop, for its later children, too.
    pub(super) fn unbind(&mut self, tid: u32) {
        let Some(task) = self.tracees.tasks.get_mut(&tid) else { return };
        task.affinity.release(tid);
        task.affinity.binding = None;
    }

    /// Every task may use all of its CPUs again: one is about to look at another's, or to change them.
    pub(super) fn unbind_all(&mut self) {
        self.tracees.tasks.iter_mut().for_each(|(tid, task)| task.affinity.release(*tid));
    }

    /// A task has stopped. Unless the stop is a fork event, it is not making a child: the next child inherits
    /// its own CPUs.
    pub(super) fn forget_binding(&mut self, tid: u32, change: Change) {
        let for_child = matches!(change, Change::Fork | Change::VFork | Change::Clone | Change::Exiting);
        let Some(task) = self.tracees.tasks.get_mut(&tid) else { return };
        if !for_child && task.affinity.since.is_none() {
            task.affinity.binding = None;
        }
    }

    /// The binding that a child may have inherited.
    pub(super) fn binding_of_child(&self, parent: u32) -> Option<Rc<CpuBinding>> {
        let affinity = &self.tracees.tasks.get(&parent)?.affinity;
        // A task that is on this CPU without a binding was pinned by another process, and its child with it.
        let pinned = |binding: &Rc<CpuBinding>| affinity.since.is_none() && binding.holds(parent);
        affinity.binding.clone().filter(|binding| !pinned(binding))
    }

    /// Whether any task is bound to a CPU.
    pub(super) fn any_bound(&self) -> bool {
        self.tracees.tasks.values().any(|task| task.affinity.since.is_some())
    }

    /// Whether this one is.
    pub(super) fn is_bound(&self, tid: u32) -> bool {
        self.tracees.tasks.get(&tid).is_some_and(|task| task.affinity.since.is_some())
    }

    /// The CPU that a task is bound to.
    pub(super) fn bound_cpu(&self, tid: u32) -> Option<u32> {
        let affinity = &self.tracees.tasks.get(&tid)?.affinity;
        affinity.binding.as_ref().filter(|_| affinity.since.is_some()).map(|binding| binding.cpu)
    }

    /// Ends the binding of tasks that stop seldom.
    pub(super) fn unbind_idle(&mut self) {
        let stops = self.stops;
        for (tid, task) in &mut self.tracees.tasks {
            if task.affinity.is_over(stops) {
                task.affinity.release(*tid);
            }
        }
    }
}

/// Whether a program starts with a file of `/proc` open. It could read its CPUs there without a call that is
/// watched.
fn has_open_proc(tid: u32) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{tid}/fd")) else { return false };
    let mut targets = descriptors.flatten().flat_map(|entry| fs::read_link(entry.path()));
    targets.any(|target| target.starts_with("/proc"))
}

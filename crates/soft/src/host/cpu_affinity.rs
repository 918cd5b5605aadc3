//! CPU affinity: a new program and the tracer share one CPU.
//!
//! A new program stops often, because little is translated. Each stop would wake another CPU up, which takes
//! longer than the translation. So the program is bound to one CPU, on which the tracer runs while it waits.
//!
//! The program does not see that. The binding ends before it reads or sets its CPUs, makes a process, or is
//! detached.
//!
//! A child inherits the binding when the kernel copies its parent. The fork event comes later, and the parent
//! may have been unbound in between. So the binding of a task is remembered up to its next stop. A task that
//! another process has pinned stays there.

use std::fs;
use std::rc::Rc;
use std::time::{Duration, Instant};

use cyclometer_sys::affinity::Affinity;
use cyclometer_sys::trace::Change;

use super::tracer::Tracer;

/// The interval at which the stops of a bound program are counted.
pub(super) const CHECK_EVERY: Duration = Duration::from_millis(10);

/// A program with fewer stops in an interval is not bound any more.
const FEW: u64 = 20;

/// The longest time that a process is bound in its life.
const LONGEST: Duration = Duration::from_secs(1);

/// The CPU that a task is bound to, and the CPUs that it may use.
pub(super) struct CpuBinding {
    cpu: u32,
    home: Affinity,
}

impl CpuBinding {
    /// Whether a thread may use that CPU only.
    fn holds(&self, tid: u32) -> bool {
        Affinity::of(tid).is_ok_and(|now| now == Affinity::only(self.cpu))
    }

    /// Restores the CPUs of a thread, unless another process has changed them.
    pub(super) fn undo(&self, tid: u32) {
        if self.holds(tid) {
            let _ = self.home.give(tid);
        }
    }
}

/// The binding of a task to a CPU.
#[derive(Default)]
pub(crate) struct CpuAffinity {
    /// The time since it is bound, if it is.
    since: Option<BindingTime>,
    /// The binding, or that of its last stop.
    binding: Option<Rc<CpuBinding>>,
    /// The time for which it was bound before.
    spent: Duration,
}

/// The times of a binding.
struct BindingTime {
    started: Instant,
    looked: Instant,
    stops: u64,
}

impl CpuAffinity {
    /// Binds a task, unless it was bound for too long already. The time of a bound task starts again.
    fn bind(&mut self, tid: u32, beside: Option<u32>, stops: u64) {
        let now = Instant::now();
        if let Some(since) = &mut self.since {
            (since.looked, since.stops) = (now, stops);
        } else if self.spent < LONGEST {
            self.binding = bind(tid, beside).map(Rc::new);
            self.since = self.binding.is_some().then_some(BindingTime { started: now, looked: now, stops });
        }
    }

    /// Lets a task use all of its CPUs. A child that it makes at this moment is still bound.
    fn release(&mut self, tid: u32) {
        if let (Some(since), Some(binding)) = (self.since.take(), &self.binding) {
            self.spent += since.started.elapsed();
            binding.undo(tid);
        }
    }

    /// Whether the binding ends: the task stops seldom, or was bound for too long.
    fn is_over(&mut self, stops: u64) -> bool {
        let now = Instant::now();
        let Some(since) = self.since.as_mut() else { return false };
        // Each new program of a task starts the time again; the sum is limited.
        if self.spent + (now - since.started) > LONGEST {
            return true;
        }
        if now - since.looked < CHECK_EVERY {
            return false;
        }
        let seldom = stops - since.stops < FEW;
        (since.looked, since.stops) = (now, stops);
        seldom
    }
}

impl Tracer {
    /// A program is about to begin.
    pub(super) fn bind_to_cpu(&mut self, tid: u32) {
        if has_open_proc(tid) {
            return self.unbind(tid);
        }
        let stops = self.stops;
        // Several bound tasks would compete for the tracer's CPU.
        let others = self.tasks.iter().any(|(other, task)| *other != tid && task.affinity.since.is_some());
        let beside = self.own_cpu.filter(|_| !others);
        self.tasks.entry(tid).and_modify(|task| task.affinity.bind(tid, beside, stops));
    }

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

    /// Ends the binding of tasks that stop seldom.
    pub(super) fn unbind_idle(&mut self) {
        let stops = self.stops;
        for (tid, task) in &mut self.tasks {
            if task.affinity.is_over(stops) {
                task.affinity.release(*tid);
            }
        }
    }
}

/// Binds a task to one CPU, if it may use several: to `beside` if it may use that, else to its current one.
fn bind(tid: u32, beside: Option<u32>) -> Option<CpuBinding> {
    let home = Affinity::of(tid).ok().filter(|home| home.len() > 1)?;
    let cpu = beside.filter(|cpu| home.contains(*cpu)).or_else(|| super::tracer::cpu_of(tid))?;
    Affinity::only(cpu).give(tid).ok()?;
    Some(CpuBinding { cpu, home })
}

/// Whether a program starts with a file of `/proc` open. It could read its CPUs there without a call that is
/// watched.
fn has_open_proc(tid: u32) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{tid}/fd")) else { return false };
    let mut targets = descriptors.flatten().flat_map(|entry| fs::read_link(entry.path()));
    targets.any(|target| target.starts_with("/proc"))
}

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

use std::rc::Rc;
use std::time::{Duration, Instant};

use cyclometer_sys::affinity::Affinity;

/// The interval at which the stops of a bound program are counted.
pub(super) const CHECK_EVERY: Duration = Duration::from_millis(10);

/// A program with fewer stops in an interval is not bound any more.
const FEW: u64 = 20;

/// The longest time that a process is bound in its life.
const LONGEST: Duration = Duration::from_secs(1);

/// The CPU that a task is bound to, and the CPUs that it may use.
pub(super) struct CpuBinding {
    pub(super) cpu: u32,
    home: Affinity,
}

impl CpuBinding {
    /// Whether a thread may use that CPU only.
    pub(super) fn holds(&self, tid: u32) -> bool {
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
    pub(super) since: Option<BindingTime>,
    /// The binding, or that of its last stop.
    pub(super) binding: Option<Rc<CpuBinding>>,
    /// The time for which it was bound before.
    spent: Duration,
}

/// The times of a binding.
pub(super) struct BindingTime {
    started: Instant,
    looked: Instant,
    stops: u64,
}

impl CpuAffinity {
    /// Binds a task, unless it was bound for too long already. The time of a bound task starts again.
    pub(super) fn bind(&mut self, tid: u32, beside: Option<u32>, stops: u64) {
        let now = Instant::now();
        if let Some(since) = &mut self.since {
            (since.looked, since.stops) = (now, stops);
        } else if self.spent < LONGEST {
            self.binding = bind(tid, beside).map(Rc::new);
            self.since = self.binding.is_some().then_some(BindingTime { started: now, looked: now, stops });
        }
    }

    /// Lets a task use all of its CPUs. A child that it makes at this moment is still bound.
    pub(super) fn release(&mut self, tid: u32) {
        if let (Some(since), Some(binding)) = (self.since.take(), &self.binding) {
            self.spent += since.started.elapsed();
            binding.undo(tid);
        }
    }

    /// Whether the binding ends: the task stops seldom, or was bound for too long.
    pub(super) fn is_over(&mut self, stops: u64) -> bool {
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

/// Binds a task to one CPU, if it may use several: to `beside` if it may use that, else to its current one.
pub(super) fn bind(tid: u32, beside: Option<u32>) -> Option<CpuBinding> {
    let home = Affinity::of(tid).ok().filter(|home| home.len() > 1)?;
    let cpu = beside.filter(|cpu| home.contains(*cpu)).or_else(|| super::proc::cpu_of(tid))?;
    Affinity::only(cpu).give(tid).ok()?;
    Some(CpuBinding { cpu, home })
}

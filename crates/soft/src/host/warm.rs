//! A program that has just been started stops often, for what is not translated yet. So long it is bound to one CPU, where
//! we run in turns with it: otherwise each stop would wake another CPU up, which takes longer than the translation.
//!
//! It does not see that: before it asks for its CPUs, makes a process or goes on without us, it may use all of them again.

use std::rc::Rc;
use std::time::{Duration, Instant};

use cyclometer_sys::affinity::Affinity;

use super::engine::Engine;

/// How often it is looked whether a program still stops often.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(10);

/// With fewer stops than that in the meantime it does not.
const FEW: u64 = 20;

/// The longest that a program is bound.
const LONGEST: Duration = Duration::from_secs(1);

/// The CPU that a task is bound to, and those that it may use.
pub(super) struct Bound {
    cpu: u32,
    home: Affinity,
}

impl Bound {
    /// Gives a thread back what it may use, unless somebody has given it something else.
    fn undo(&self, tid: u32) {
        if Affinity::of(tid).is_ok_and(|now| now == Affinity::only(self.cpu)) {
            let _ = self.home.give(tid);
        }
    }
}

/// Since when a task is bound.
pub(super) struct Warm {
    started: Instant,
    looked: Instant,
    stops: u64,
}

impl Engine {
    /// A program is about to begin.
    pub(super) fn warm_up(&mut self, tid: u32) {
        let stops = self.stops;
        let Some(task) = self.tasks.get_mut(&tid) else { return };
        if task.warm.is_none() {
            let bound = bind(tid);
            task.bound = bound.map(Rc::new);
        }
        if task.bound.is_some() {
            let now = Instant::now();
            task.warm = Some(Warm { started: now, looked: now, stops });
        }
    }

    /// It may use all of its CPUs again.
    pub(super) fn cool(&mut self, tid: u32) {
        let Some(task) = self.tasks.get_mut(&tid) else { return };
        if let (Some(_), Some(bound)) = (task.warm.take(), &task.bound) {
            bound.undo(tid);
        }
    }

    /// A child of a bound task is bound too, until now.
    pub(super) fn cool_child(&mut self, child: u32, bound: &Option<Rc<Bound>>) {
        if let Some(bound) = bound {
            bound.undo(child);
        }
    }

    /// Whether a task is bound.
    pub(super) fn is_warm(&self) -> bool {
        self.tasks.values().any(|task| task.warm.is_some())
    }

    /// Lets those go that do not stop often any more.
    pub(super) fn cool_idle(&mut self) {
        let (now, stops) = (Instant::now(), self.stops);
        let mut idle = Vec::new();
        for (tid, task) in &mut self.tasks {
            let Some(warm) = &mut task.warm else { continue };
            if now - warm.looked < LOOK_EVERY {
                continue;
            }
            if stops - warm.stops < FEW || now - warm.started > LONGEST {
                idle.push(*tid);
            }
            (warm.looked, warm.stops) = (now, stops);
        }
        idle.into_iter().for_each(|tid| self.cool(tid));
    }
}

/// Binds a task to the CPU that it is on, if it may use several.
fn bind(tid: u32) -> Option<Bound> {
    let home = Affinity::of(tid).ok().filter(|home| home.len() > 1)?;
    let cpu = super::engine::cpu_of(tid)?;
    Affinity::only(cpu).give(tid).ok()?;
    Some(Bound { cpu, home })
}

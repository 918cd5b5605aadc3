//! On which CPUs our thread runs.

use cyclometer_sys::affinity::Affinity;

/// The calling thread on one CPU; it may run where it could before when this is dropped.
pub(crate) struct OnCpu(Affinity);

impl OnCpu {
    /// `None` where the thread must not run there; `own` are the CPUs on which it may.
    pub(crate) fn new(cpu: u32, own: &Affinity) -> Option<OnCpu> {
        Affinity::only(cpu).give(0).ok()?;
        Some(OnCpu(own.clone()))
    }
}

/// Does something on one CPU; the thread may run where it could before when that is done. `None` where it must not run there.
pub fn on_cpu<T>(cpu: u32, work: impl FnOnce() -> T) -> Option<T> {
    let _bound = OnCpu::new(cpu, &Affinity::of(0).ok()?)?;
    Some(work())
}

impl Drop for OnCpu {
    fn drop(&mut self) {
        // Where it could run before it can run again, unless an administrator changed that meanwhile.
        let _ = self.0.give(0);
    }
}

//! CPU affinity of the calling thread.

use cyclometer_sys::affinity::Affinity;

/// The calling thread on one CPU; dropping this restores the previous affinity.
pub struct AffinityGuard(Affinity);

impl AffinityGuard {
    /// `None` where the kernel refuses that CPU; `own` is the affinity to restore.
    pub(crate) fn new(cpu: u32, own: &Affinity) -> Option<AffinityGuard> {
        Affinity::only(cpu).give(0).ok()?;
        Some(AffinityGuard(own.clone()))
    }

    /// Leaves the thread on its CPU for good.
    pub fn keep(self) {
        std::mem::forget(self);
    }
}

/// Binds the calling thread to one CPU. `None` where it may not run there.
pub fn bind_to(cpu: u32) -> Option<AffinityGuard> {
    AffinityGuard::new(cpu, &Affinity::of(0).ok()?)
}

/// Runs `work` on one CPU and then restores the affinity. `None` where the thread may not run on that CPU.
pub fn on_cpu<T>(cpu: u32, work: impl FnOnce() -> T) -> Option<T> {
    let _bound = bind_to(cpu)?;
    Some(work())
}

impl Drop for AffinityGuard {
    fn drop(&mut self) {
        // Restoring fails only when an administrator has changed the allowed CPUs meanwhile.
        let _ = self.0.give(0);
    }
}

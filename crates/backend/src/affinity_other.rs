//! Systems that do not let a thread choose its CPU.

/// Never runs `work`: the CPU on which it would run is unknown.
pub fn on_cpu<T>(_: u32, _: impl FnOnce() -> T) -> Option<T> {
    None
}

/// A binding that does not exist on this system.
#[derive(Debug)]
pub struct AffinityGuard(std::convert::Infallible);

impl AffinityGuard {
    /// Never called: there is no binding.
    pub fn keep(self) {
        match self.0 {}
    }
}

/// Always `None`.
pub fn bind_to(_: u32) -> Option<AffinityGuard> {
    None
}

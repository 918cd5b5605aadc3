//! Systems that do not let a thread choose its CPU.

/// Never does anything: nobody can say on which CPU it would run.
pub fn on_cpu<T>(_: u32, _: impl FnOnce() -> T) -> Option<T> {
    None
}

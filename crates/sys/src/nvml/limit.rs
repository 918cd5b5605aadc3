//! A time limit for calls that may never return.

use std::sync::mpsc;
use std::time::Duration;

/// The result of `call`, which runs on a thread of its own; `None` if it takes longer than the limit, or if
/// no thread can be started. The thread then stays behind, blocked in the call, until the process ends.
pub fn within<T: Send + 'static>(limit: Duration, call: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (answers, answer) = mpsc::channel();
    let thread = std::thread::Builder::new().name("nvml".to_owned());
    thread.spawn(move || drop(answers.send(call()))).ok()?;
    answer.recv_timeout(limit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_never_returns_gives_no_answer_and_others_give_theirs() {
        let (_never, waits) = mpsc::channel::<()>();
        assert_eq!(within(Duration::from_millis(1), move || waits.recv().is_ok()), None);
        assert_eq!(within(Duration::from_secs(600), || 7), Some(7));
    }
}

//! Detection of forks: a forked child has the memory of its parent, but not the resources that belong to it.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

#[cfg(not(target_os = "linux"))]
use super::fork_handler as word;
#[cfg(target_os = "linux")]
#[path = "fork/wiped.rs"]
mod word;

/// Counts the processes along a line of forks, from 1.
static LATEST: AtomicU32 = AtomicU32::new(0);

/// The word that a fork sets to zero in the child.
static WORD: OnceLock<&'static AtomicU32> = OnceLock::new();

/// Identifies the process in which it was created.
#[derive(Clone, Copy, Debug)]
pub struct Birth {
    word: &'static AtomicU32,
    process: u32,
}

impl Birth {
    /// The current process.
    pub fn now() -> Birth {
        let word = WORD.get_or_init(word::word);
        let process = match word.load(Ordering::Relaxed) {
            0 => number(word),
            process => process,
        };
        Birth { word, process }
    }

    /// Whether the process has not forked since: false in a child. Makes no system call.
    #[inline]
    pub fn is_here(&self) -> bool {
        self.word.load(Ordering::Relaxed) == self.process
    }
}

/// Runs `work` in a forked child and returns its answer, or 255 where it panics.
///
/// Used by tests of programs that fork.
///
/// # Errors
///
/// `Unsupported` where this process has, or may have, more than one thread: a child could deadlock on a lock
/// that another thread holds. Otherwise the operating system's.
pub fn in_child(work: impl FnOnce() -> u8) -> io::Result<u8> {
    if std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count) != 1 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // SAFETY: there is no other thread, so that the child is a whole process in which anything may be called.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(255);
        // SAFETY: ends the child, without the handlers and buffers of the parent.
        unsafe { libc::_exit(answer.into()) };
    }
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut status = 0;
    // SAFETY: writes one status.
    if unsafe { libc::waitpid(child, &raw mut status, 0) } != child {
        return Err(io::Error::last_os_error());
    }
    let code = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
    code.and_then(|code| u8::try_from(code).ok()).ok_or_else(|| io::ErrorKind::Interrupted.into())
}

/// Assigns this process a number that its parent does not have.
fn number(word: &AtomicU32) -> u32 {
    let new = LATEST.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1);
    match word.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => new,
        Err(others) => others,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_stays_the_same_without_a_fork() {
        let birth = Birth::now();
        assert!(birth.is_here());
        assert!(Birth::now().is_here());
        assert_eq!(Birth::now().process, birth.process);
    }

    #[test]
    fn a_forked_child_is_another_process() {
        let birth = Birth::now();
        // SAFETY: the child only reads and writes words of its own memory, and leaves without running
        // handlers.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let other = !birth.is_here() && Birth::now().is_here() && Birth::now().process != birth.process;
            // SAFETY: ends the child.
            unsafe { libc::_exit(if other { 7 } else { 1 }) };
        }
        assert!(child > 0);
        let mut status = 0;
        // SAFETY: writes one status.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert!(libc::WIFEXITED(status));
        assert_eq!(libc::WEXITSTATUS(status), 7);
        assert!(birth.is_here(), "the parent stays who it is");
    }
}

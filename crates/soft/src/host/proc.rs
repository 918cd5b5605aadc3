//! Files of `/proc`: of no known length, and read with as few calls as possible.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::memory_limit::MemoryLimit;

/// Larger than most files of `/proc`.
const ROOM: usize = 8 << 10;

/// All of a file.
///
/// # Errors
///
/// The operating system's.
pub(super) fn bytes(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(ROOM);
    // `take` hides the unknown length of the file, so that reading starts with the whole buffer.
    File::open(path)?.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The content of a file as text; invalid UTF-8 is replaced.
///
/// # Errors
///
/// As [`bytes`].
pub(super) fn text(path: impl AsRef<Path>) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&bytes(path)?).into_owned())
}

/// The text of `/proc/pid/status`.
pub(super) fn status(tid: u32) -> String {
    text(format!("/proc/{tid}/status")).unwrap_or_default()
}

/// Whether a set of signals in the text of a status has a signal.
pub(super) fn has_signal(status: &str, field: &str, signal: i32) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let mask = line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1).clamp(0, 63) & 1 == 1
}

/// The first thread of a thread's process.
///
/// # Source
///
/// `proc(5)`, `/proc/pid/status`: `Tgid`.
pub(super) fn first_thread(tid: u32) -> Option<u32> {
    let status = status(tid);
    let id = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    id.trim().parse().ok()
}

/// The size that the stack of a process may reach; [`MemoryLimit::Unlimited`] also where it is unknown.
///
/// # Source
///
/// `proc(5)`, `/proc/pid/limits`: the soft limit is the first number.
pub(super) fn stack_limit(pid: u32) -> MemoryLimit {
    let limits = text(format!("/proc/{pid}/limits")).unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max stack size"));
    let soft = line.and_then(|line| MemoryLimit::from_word(line.split_whitespace().next()?));
    soft.unwrap_or(MemoryLimit::Unlimited)
}

/// The CPU time of a task so far, in ns; `None` where the kernel does not report it.
///
/// # Source
///
/// `proc(5)`, `/proc/pid/schedstat`: the first number.
pub(super) fn ran_ns(tid: u32) -> Option<u64> {
    let ran = text(format!("/proc/{tid}/schedstat")).ok()?;
    ran.split(' ').next()?.parse().ok()
}

/// The kernel time of a task so far, in hundredths of a second.
///
/// # Source
///
/// `proc(5)`, `/proc/pid/stat`: field 15, the 13th behind the name.
pub(super) fn kernel_ticks(tid: u32) -> Option<u64> {
    let stat = text(format!("/proc/{tid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(12)?.parse().ok()
}

/// The CPU that a process ran on last.
///
/// # Source
///
/// `proc(5)`, `/proc/pid/stat`: field 39, the 37th behind the name.
pub(super) fn cpu_of(pid: u32) -> Option<u32> {
    let stat = text(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(36)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_a_stack_is_read_and_unknown_of_no_process() {
        assert!(stack_limit(std::process::id()).permits(64 << 10));
        assert_eq!(stack_limit(0), MemoryLimit::Unlimited);
    }

    #[test]
    fn a_file_is_read_to_its_end_however_long_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for len in [0, 1, ROOM - 1, ROOM, ROOM + 1, 5 * ROOM] {
            let written: Vec<u8> = (0..len).map(|i| i as u8).collect();
            std::fs::write(&path, &written).unwrap();
            assert_eq!(bytes(&path).unwrap(), written);
        }
        folder.close().unwrap();
        assert!(bytes(&path).is_err());
    }
}

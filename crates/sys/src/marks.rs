//! Functions for a program that marks its own regions for a tool that runs it.

use std::io;

use libc::{c_int, c_ulong};

/// The operation of `prctl(2)` by which a program asks the software PMU that runs it for the counts of the
/// calling thread: the letters `CYMC`. No kernel implements it; the kernel's answer is `EINVAL`.
///
/// The arguments after it are the address of 64-bit words and their number. Each word contains the number of
/// an event, and its count afterwards, or [`ASK_TIME`], and the time afterwards.
pub const ASK_COUNTS: c_int = 0x4359_4d43;

/// The word of a request that becomes the time of the answer in ns, from an arbitrary start.
pub const ASK_TIME: u64 = 1 << 63;

/// The largest number of words of one request.
pub const MOST_WORDS: usize = 64;

/// Asks the software PMU for the current counts of this thread. Each word contains the number of an event
/// before, and its count afterwards, or [`ASK_TIME`] before, and the time afterwards.
///
/// # Errors
///
/// `EINVAL` where no software PMU runs this program, or where the number of words exceeds [`MOST_WORDS`].
/// `ENODATA` where a software PMU runs it but has no count.
///
/// # Source
///
/// `prctl(2)`.
#[inline]
pub fn ask_counts(words: &mut [u64]) -> io::Result<()> {
    let (start, len) = (words.as_mut_ptr() as c_ulong, words.len() as c_ulong);
    // SAFETY: the software PMU writes to these words only; a kernel that does not know the operation writes
    // nothing.
    match unsafe { libc::prctl(ASK_COUNTS, start, len, 0 as c_ulong, 0 as c_ulong) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether the software PMU currently runs this program.
#[inline(never)]
pub fn is_counted_by_software() -> bool {
    ask_counts(&mut []).is_ok()
}

/// The id of the calling thread.
///
/// # Source
///
/// `gettid(2)`.
pub fn thread_id() -> u32 {
    // SAFETY: touches no memory of ours.
    let id = unsafe { libc::syscall(libc::SYS_gettid) };
    u32::try_from(id).unwrap_or(0)
}

/// Whether the program has other rights than the user who started it, and who controls its environment.
///
/// # Source
///
/// `getauxval(3)`, `AT_SECURE`.
pub fn has_more_rights_than_its_user() -> bool {
    // SAFETY: reads what the kernel passed to this process at its start.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_does_not_answer_and_changes_nothing() {
        let mut words = [1, 2];
        assert_eq!(ask_counts(&mut words).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        assert_eq!(words, [1, 2]);
        assert!(!is_counted_by_software());
    }

    #[test]
    fn the_first_thread_has_the_id_of_its_process() {
        let other = std::thread::spawn(thread_id).join().unwrap();
        assert_ne!(thread_id(), other);
        assert!(!has_more_rights_than_its_user());
    }
}

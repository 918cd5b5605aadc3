//! The memory of a tracee.

use std::io;

use libc::c_long;

use super::ptrace;

/// A word of a stopped tracee's memory, even where the tracee itself may not read.
///
/// # Errors
///
/// The operating system's: `EIO` or `EFAULT` where nothing is mapped, `ESRCH`.
///
/// # Source
///
/// `ptrace(2)`, `PTRACE_PEEKDATA`: the system call, unlike the C library's function, stores the word at
/// `data`.
pub fn peek(tid: u32, address: u64) -> io::Result<u64> {
    let mut word = 0u64;
    let place = (&raw mut word) as c_long;
    // SAFETY: the kernel writes one `unsigned long`, which has 64 bits on this architecture.
    unsafe { ptrace(libc::PTRACE_PEEKDATA.into(), tid, address as c_long, place) }?;
    Ok(word)
}

/// Replaces a word of a stopped tracee's memory, even where the tracee itself may not write. A private
/// mapping gets its own copy of the page.
///
/// # Errors
///
/// As [`peek`].
///
/// # Source
///
/// `ptrace(2)`, `PTRACE_POKEDATA`.
pub fn poke(tid: u32, address: u64, word: u64) -> io::Result<()> {
    // SAFETY: the kernel takes the word from the argument; nothing of our memory is read or written.
    unsafe { ptrace(libc::PTRACE_POKEDATA.into(), tid, address as c_long, word as c_long) }
}

/// Reads a tracee's memory, running or stopped; returns the number of bytes before the first one that the
/// tracee itself may not read.
///
/// # Errors
///
/// The operating system's: `EFAULT` when not even the first byte can be read, `EPERM`, `ESRCH`.
///
/// # Source
///
/// `process_vm_readv(2)`.
pub fn read_memory(tid: u32, address: u64, bytes: &mut [u8]) -> io::Result<usize> {
    let ours = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let theirs = theirs(address, bytes.len());
    let pid = crate::process::to_pid(tid)?;
    // SAFETY: writes to `bytes` only; `theirs` is an address in another process.
    transferred(unsafe { libc::process_vm_readv(pid, &ours, 1, &theirs, 1, 0) })
}

/// Writes a tracee's memory, running or stopped; returns the number of bytes before the first one that the
/// tracee itself may not write. [`poke`] can write there nevertheless.
///
/// # Errors
///
/// As [`read_memory`].
///
/// # Source
///
/// `process_vm_writev(2)`.
pub fn write_memory(tid: u32, address: u64, bytes: &[u8]) -> io::Result<usize> {
    let ours = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let theirs = theirs(address, bytes.len());
    let pid = crate::process::to_pid(tid)?;
    // SAFETY: only reads `bytes`; `theirs` is an address in another process.
    transferred(unsafe { libc::process_vm_writev(pid, &ours, 1, &theirs, 1, 0) })
}

fn theirs(address: u64, length: usize) -> libc::iovec {
    libc::iovec { iov_base: std::ptr::without_provenance_mut(address as usize), iov_len: length }
}

fn transferred(bytes: isize) -> io::Result<usize> {
    usize::try_from(bytes).map_err(|_| io::Error::last_os_error())
}

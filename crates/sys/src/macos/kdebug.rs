//! The trace buffer of macOS's kernel, where samples arrive.

use std::ffi::{c_int, c_uint, c_void};
use std::io;
use std::ptr;

use super::library::{Library, LibraryError};

/// Bytes of a record, `kd_buf`.
pub const KDEBUG_RECORD_BYTES: usize = 64;

/// `CTL_KERN`, `KERN_KDEBUG`.
const KDEBUG: [c_int; 2] = [1, 24];
const ENABLE: c_int = 3;
const SET_BUFFERS: c_int = 4;
const SET_UP: c_int = 6;
const REMOVE: c_int = 7;
const SET_FILTER: c_int = 8;
const READ: c_int = 10;

/// `KDBG_VALCHECK`: records whose number is one of four.
const VALUE_CHECK: c_uint = 0x20_0000;

/// The kernel's trace buffer, which one process owns at a time.
///
/// # Source
///
/// xnu `bsd/sys/kdebug_private.h`, `bsd/sys/sysctl.h`, `bsd/kern/kdebug.c`.
pub trait Kdebug {
    /// Stops tracing and frees the buffer.
    ///
    /// # Errors
    ///
    /// `EPERM` without root; `EBUSY` while another process owns it (Instruments, `ktrace`).
    fn remove(&self) -> io::Result<()>;

    /// Makes a buffer for so many records, at the next [`Kdebug::set_up`].
    ///
    /// # Errors
    ///
    /// As [`Kdebug::remove`].
    fn set_buffers(&self, records: u32) -> io::Result<()>;

    /// Makes the buffer, which is empty.
    ///
    /// # Errors
    ///
    /// As [`Kdebug::remove`], and `ENOMEM`.
    fn set_up(&self) -> io::Result<()>;

    /// Keeps records with these numbers only; the kernel's notes of lost records stay.
    ///
    /// # Errors
    ///
    /// As [`Kdebug::remove`].
    fn keep_only(&self, numbers: [u32; 4]) -> io::Result<()>;

    /// Starts or stops tracing.
    ///
    /// # Errors
    ///
    /// As [`Kdebug::remove`].
    fn enable(&self, on: bool) -> io::Result<()>;

    /// Takes at most so many records out of the buffer, as their bytes.
    ///
    /// # Errors
    ///
    /// As [`Kdebug::remove`].
    fn read(&self, records: usize) -> io::Result<Vec<u8>>;

    /// The present time by the clock of the records, in its ticks.
    fn now_ticks(&self) -> u64;
}

type Sysctl = unsafe extern "C" fn(*mut c_int, c_uint, *mut c_void, *mut usize, *mut c_void, usize) -> c_int;

/// `kd_regtype`.
#[repr(C)]
struct RecordFilter {
    kind: c_uint,
    values: [u32; 4],
}

/// The trace buffer behind `sysctl`.
#[derive(Debug)]
pub struct KdebugFunctions {
    sysctl: Sysctl,
    now: extern "C" fn() -> u64,
}

impl KdebugFunctions {
    /// Finds the function in an open library: the system library, or one that behaves as it does.
    ///
    /// # Errors
    ///
    /// The function that is missing.
    pub fn find(library: &Library) -> Result<KdebugFunctions, LibraryError> {
        // SAFETY: the type is the signature of `sysctl(3)`.
        let sysctl = unsafe { library.function(c"sysctl") }?;
        // SAFETY: the type is the signature that `mach/mach_time.h` gives for this name.
        let now = unsafe { library.function(c"mach_absolute_time") }?;
        Ok(KdebugFunctions { sysctl, now })
    }

    /// Calls an operation; the result is the new length.
    fn call(&self, operation: &[c_int], out: *mut c_void, mut length: usize) -> io::Result<usize> {
        let mut name: Vec<c_int> = KDEBUG.iter().chain(operation).copied().collect();
        let parts = name.len() as c_uint;
        // SAFETY: the name has so many parts. The kernel reads or writes at most `length` bytes at `out`,
        // which the callers below have, and nothing new is set.
        let result =
            unsafe { (self.sysctl)(name.as_mut_ptr(), parts, out, &raw mut length, ptr::null_mut(), 0) };
        if result == 0 { Ok(length) } else { Err(io::Error::last_os_error()) }
    }

    fn command(&self, operation: &[c_int]) -> io::Result<()> {
        self.call(operation, ptr::null_mut(), 0).map(drop)
    }
}

impl Kdebug for KdebugFunctions {
    fn remove(&self) -> io::Result<()> {
        self.command(&[REMOVE])
    }

    fn set_buffers(&self, records: u32) -> io::Result<()> {
        self.command(&[SET_BUFFERS, c_int::try_from(records).unwrap_or(c_int::MAX)])
    }

    fn set_up(&self) -> io::Result<()> {
        self.command(&[SET_UP])
    }

    fn keep_only(&self, values: [u32; 4]) -> io::Result<()> {
        let mut filter = RecordFilter { kind: VALUE_CHECK, values };
        self.call(&[SET_FILTER], (&raw mut filter).cast(), size_of::<RecordFilter>()).map(drop)
    }

    fn enable(&self, on: bool) -> io::Result<()> {
        self.command(&[ENABLE, on.into()])
    }

    fn read(&self, records: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0u8; records * KDEBUG_RECORD_BYTES];
        // The length is given in bytes, and returned in records.
        let count = self.call(&[READ], bytes.as_mut_ptr().cast(), bytes.len())?;
        bytes.truncate(count.saturating_mul(KDEBUG_RECORD_BYTES));
        Ok(bytes)
    }

    fn now_ticks(&self) -> u64 {
        (self.now)()
    }
}

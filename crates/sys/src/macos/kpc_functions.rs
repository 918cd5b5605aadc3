//! The functions of the kperf framework, found at run time.

use std::ffi::c_int;
use std::io;
use std::path::Path;

use super::kpc::{Kpc, KpcClasses};
use super::library::{Library, LibraryError};

/// The fewest words of a buffer of configuration words, and of one thread's counters. No chip has more.
const MOST_COUNTERS: usize = 64;

/// The fewest CPUs that a buffer has room for. The framework writes for as many CPUs as the kernel has.
const ROOM_FOR_CPUS: usize = 256;

type CountFunction = extern "C" fn(classes: u32) -> u32;
type StateFunction = extern "C" fn() -> u32;
type ClassesFunction = extern "C" fn(classes: u32) -> c_int;
type WordsFunction = unsafe extern "C" fn(classes: u32, words: *mut u64) -> c_int;
type ThreadCountersFunction = unsafe extern "C" fn(thread: u32, count: u32, values: *mut u64) -> c_int;
type CpuCountersFunction =
    unsafe extern "C" fn(all: bool, classes: u32, current: *mut c_int, values: *mut u64) -> c_int;
type ForceFunction = extern "C" fn(force: c_int) -> c_int;
type ForcedFunction = unsafe extern "C" fn(forced: *mut c_int) -> c_int;

/// The functions of the kperf framework.
///
/// # Source
///
/// Signatures: xnu `tests/cpu_counters/kpc_tests.c`; hashintel/hash `libs/darwin-kperf/sys`.
#[derive(Debug)]
pub struct KpcFunctions {
    pmu_version: StateFunction,
    counter_count: CountFunction,
    config_count: CountFunction,
    config: WordsFunction,
    set_config: WordsFunction,
    counting: StateFunction,
    set_counting: ClassesFunction,
    thread_counting: StateFunction,
    set_thread_counting: ClassesFunction,
    thread_counters: ThreadCountersFunction,
    cpu_counters: CpuCountersFunction,
    forced_counters: ForcedFunction,
    force_counters: ForceFunction,
}

/// Finds functions in a library by name; each field has the signature of its function.
macro_rules! functions {
    ($library:expr, $($field:ident = $name:literal,)*) => {
        KpcFunctions {
            // SAFETY: the signatures of the fields are those that the sources above give for these names.
            $($field: unsafe { $library.function($name) }?,)*
        }
    };
}

impl KpcFunctions {
    /// Opens the framework, or a library that behaves as it does, and finds the functions.
    ///
    /// # Errors
    ///
    /// The dynamic linker's; the function that is missing.
    pub fn open(path: &Path) -> Result<KpcFunctions, LibraryError> {
        KpcFunctions::find(&Library::open(path)?)
    }

    /// Finds the functions in an open library: the framework, or one that behaves as it does.
    ///
    /// # Errors
    ///
    /// The function that is missing.
    pub fn find(library: &Library) -> Result<KpcFunctions, LibraryError> {
        Ok(functions! {
            library,
            pmu_version = c"kpc_pmu_version",
            counter_count = c"kpc_get_counter_count",
            config_count = c"kpc_get_config_count",
            config = c"kpc_get_config",
            set_config = c"kpc_set_config",
            counting = c"kpc_get_counting",
            set_counting = c"kpc_set_counting",
            thread_counting = c"kpc_get_thread_counting",
            set_thread_counting = c"kpc_set_thread_counting",
            thread_counters = c"kpc_get_thread_counters",
            cpu_counters = c"kpc_get_cpu_counters",
            forced_counters = c"kpc_force_all_ctrs_get",
            force_counters = c"kpc_force_all_ctrs_set",
        })
    }
}

/// The result of a function that returns 0, or -1 with `errno`, or an error number.
pub(super) fn checked(result: c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        ..0 => Err(io::Error::last_os_error()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

impl Kpc for KpcFunctions {
    fn pmu_version(&self) -> u32 {
        (self.pmu_version)()
    }

    fn counter_count(&self, classes: KpcClasses) -> usize {
        ((self.counter_count)(classes.bits()) as usize).min(MOST_COUNTERS)
    }

    fn config_count(&self, classes: KpcClasses) -> usize {
        ((self.config_count)(classes.bits()) as usize).min(MOST_COUNTERS)
    }

    fn config(&self, classes: KpcClasses) -> io::Result<Vec<u64>> {
        let mut words = vec![0; MOST_COUNTERS];
        // SAFETY: writes as many words as the classes have, for which the buffer has room.
        checked(unsafe { (self.config)(classes.bits(), words.as_mut_ptr()) })?;
        words.truncate(self.config_count(classes));
        Ok(words)
    }

    fn set_config(&self, classes: KpcClasses, words: &[u64]) -> io::Result<()> {
        let mut all = vec![0; MOST_COUNTERS.max(words.len())];
        all[..words.len()].copy_from_slice(words);
        // SAFETY: reads as many words as the classes have, and as many are in the buffer.
        checked(unsafe { (self.set_config)(classes.bits(), all.as_mut_ptr()) })
    }

    fn counting(&self) -> KpcClasses {
        KpcClasses::from_bits((self.counting)())
    }

    fn set_counting(&self, classes: KpcClasses) -> io::Result<()> {
        checked((self.set_counting)(classes.bits()))
    }

    fn thread_counting(&self) -> KpcClasses {
        KpcClasses::from_bits((self.thread_counting)())
    }

    fn set_thread_counting(&self, classes: KpcClasses) -> io::Result<()> {
        checked((self.set_thread_counting)(classes.bits()))
    }

    fn thread_counters(&self, classes: KpcClasses) -> io::Result<Vec<u64>> {
        let mut values = vec![0; MOST_COUNTERS];
        // SAFETY: writes at most so many values; thread 0 is the calling one, the only one that is allowed.
        checked(unsafe { (self.thread_counters)(0, MOST_COUNTERS as u32, values.as_mut_ptr()) })?;
        values.truncate(self.counter_count(classes));
        Ok(values)
    }

    fn cpu_counters(&self, classes: KpcClasses, cpus: usize) -> io::Result<Vec<u64>> {
        let mut values = vec![0; MOST_COUNTERS * ROOM_FOR_CPUS.max(cpus)];
        let mut current = 0;
        // SAFETY: writes the counters of the classes for each CPU of the kernel, for which the buffer has
        // room, and a number.
        let result =
            unsafe { (self.cpu_counters)(true, classes.bits(), &raw mut current, values.as_mut_ptr()) };
        // A positive result is the number of values.
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        values.truncate(self.counter_count(classes) * cpus);
        Ok(values)
    }

    fn has_forced_counters(&self) -> io::Result<bool> {
        let mut forced = 0;
        // SAFETY: writes a number to a live integer.
        checked(unsafe { (self.forced_counters)(&raw mut forced) })?;
        Ok(forced != 0)
    }

    fn force_counters(&self, force: bool) -> io::Result<()> {
        checked((self.force_counters)(force.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_zero_or_minus_one_or_an_error_number() {
        assert!(checked(0).is_ok());
        assert_eq!(checked(libc::EBUSY).unwrap_err().raw_os_error(), Some(libc::EBUSY));
        assert!(checked(-1).is_err());
    }
}

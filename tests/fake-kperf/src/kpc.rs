//! The functions of the kperf framework, with their names and signatures.

use std::ffi::c_int;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::fake_kernel::{Errno, FakeKernel};
use crate::{SCENARIO, Scenario};

/// The kernel of this copy of the library.
static KERNEL: LazyLock<Mutex<FakeKernel>> = LazyLock::new(|| Mutex::new(FakeKernel::new(scenario())));

/// The kernel, for one call.
pub fn kernel() -> MutexGuard<'static, FakeKernel> {
    KERNEL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The scenario beside the library.
///
/// # Panics
///
/// On a scenario that cannot be read: a test must not take a Mac for the one that it made up.
fn scenario() -> Scenario {
    let file = beside(SCENARIO);
    let Some(text) = file.and_then(|file| std::fs::read_to_string(file).ok()) else {
        return Scenario::default();
    };
    Scenario::parse(&text).unwrap_or_else(|error| panic!("{SCENARIO}: {error}"))
}

/// A file beside this copy of the library.
fn beside(name: &str) -> Option<PathBuf> {
    let here: extern "C" fn() -> u32 = kpc_pmu_version;
    cyclometer_fake_library::beside(here as usize, name)
}

/// The result of a call as the framework gives it: 0, or -1 with `errno`.
pub(crate) fn answered(result: Result<(), Errno>) -> c_int {
    let Err(Errno(errno)) = result else { return 0 };
    #[cfg(target_os = "macos")]
    // SAFETY: takes no argument; the address is that of the thread's error number.
    let place = unsafe { libc::__error() };
    #[cfg(not(target_os = "macos"))]
    // SAFETY: as above.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: the address is valid in this thread.
    unsafe { *place = errno };
    -1
}

/// 2: Apple's PMU on Arm.
#[unsafe(no_mangle)]
pub extern "C" fn kpc_pmu_version() -> u32 {
    let entered = kernel().enter_as_root("kpc_pmu_version");
    if entered.is_ok() { 2 } else { 0 }
}

/// The number of counters of classes.
#[unsafe(no_mangle)]
pub extern "C" fn kpc_get_counter_count(classes: u32) -> u32 {
    let mut kernel = kernel();
    if kernel.enter("kpc_get_counter_count").is_ok() { kernel.counter_count(classes) } else { 0 }
}

/// The number of configuration words of classes.
#[unsafe(no_mangle)]
pub extern "C" fn kpc_get_config_count(classes: u32) -> u32 {
    let mut kernel = kernel();
    if kernel.enter("kpc_get_config_count").is_ok() { kernel.config_count(classes) } else { 0 }
}

/// Reads the configuration words of classes.
///
/// # Safety
///
/// There is room for [`kpc_get_config_count`] words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kpc_get_config(classes: u32, words: *mut u64) -> c_int {
    let mut kernel = kernel();
    let entered = kernel.enter_as_root("kpc_get_config");
    answered(entered.map(|()| {
        let found = kernel.config(classes);
        // SAFETY: the caller promises so much room.
        let out = unsafe { std::slice::from_raw_parts_mut(words, found.len()) };
        out.copy_from_slice(&found);
    }))
}

/// Sets the configuration words of classes.
///
/// # Safety
///
/// There are [`kpc_get_config_count`] words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kpc_set_config(classes: u32, words: *mut u64) -> c_int {
    let mut kernel = kernel();
    let entered = kernel.enter_as_root("kpc_set_config");
    answered(entered.and_then(|()| {
        let count = kernel.config_count(classes) as usize;
        // SAFETY: the caller promises so many words.
        let words = unsafe { std::slice::from_raw_parts(words, count) };
        kernel.set_config(classes, words)
    }))
}

/// The classes that count.
#[unsafe(no_mangle)]
pub extern "C" fn kpc_get_counting() -> u32 {
    let mut kernel = kernel();
    if kernel.enter_as_root("kpc_get_counting").is_ok() { kernel.counting() } else { 0 }
}

/// Lets classes count.
#[unsafe(no_mangle)]
pub extern "C" fn kpc_set_counting(classes: u32) -> c_int {
    let mut kernel = kernel();
    let entered = kernel.enter_as_root("kpc_set_counting");
    answered(entered.map(|()| kernel.set_counting(classes)))
}

/// The classes that the kernel accumulates for each thread.
#[unsafe(no_mangle)]
pub extern "C" fn kpc_get_thread_counting() -> u32 {
    let mut kernel = kernel();
    if kernel.enter_as_root("kpc_get_thread_counting").is_ok() { kernel.thread_counting() } else { 0 }
}

/// Lets the kernel accumulate classes for each thread.
#[unsafe(no_mangle)]
pub extern "C" fn kpc_set_thread_counting(classes: u32) -> c_int {
    let mut kernel = kernel();
    let entered = kernel.enter_as_root("kpc_set_thread_counting");
    answered(entered.map(|()| kernel.set_thread_counting(classes)))
}

/// Reads the counters of the calling thread.
///
/// # Safety
///
/// There is room for `count` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kpc_get_thread_counters(thread: u32, count: u32, values: *mut u64) -> c_int {
    let mut kernel = kernel();
    let entered = kernel.enter_as_root("kpc_get_thread_counters");
    let read = entered.and_then(|()| if thread == 0 { kernel.thread_counters() } else { Err(Errno::EINVAL) });
    answered(read.map(|read| {
        let length = read.len().min(count as usize);
        // SAFETY: the caller promises room for `count` values, and these are not more.
        let out = unsafe { std::slice::from_raw_parts_mut(values, length) };
        out.copy_from_slice(&read[..length]);
    }))
}

/// Reads the counters of all CPUs, or of CPU 0.
///
/// # Safety
///
/// There is room for the counters of so many CPUs; `current` is null or points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kpc_get_cpu_counters(
    all: bool,
    classes: u32,
    current: *mut c_int,
    values: *mut u64,
) -> c_int {
    let mut kernel = kernel();
    let entered = kernel.enter_as_root("kpc_get_cpu_counters");
    answered(entered.map(|()| {
        let read = kernel.cpu_counters(classes);
        let cpus = if all { read.len() } else { 1 };
        let read: Vec<u64> = read.into_iter().take(cpus).flatten().collect();
        // SAFETY: the caller promises so much room.
        let out = unsafe { std::slice::from_raw_parts_mut(values, read.len()) };
        out.copy_from_slice(&read);
        if !current.is_null() {
            // SAFETY: not null, so it points to a number, as the caller promises.
            unsafe { *current = 0 };
        }
    }))
}

/// Whether all counters are forced.
///
/// # Safety
///
/// `forced` points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kpc_force_all_ctrs_get(forced: *mut c_int) -> c_int {
    let mut kernel = kernel();
    let entered = kernel.enter_as_root("kpc_force_all_ctrs_get");
    answered(entered.map(|()| {
        // SAFETY: the caller promises a number.
        unsafe { *forced = kernel.is_forced().into() };
    }))
}

/// Takes all counters from the power manager, or gives its own back.
#[unsafe(no_mangle)]
pub extern "C" fn kpc_force_all_ctrs_set(force: c_int) -> c_int {
    let mut kernel = kernel();
    let entered = kernel.enter_as_root("kpc_force_all_ctrs_set");
    answered(entered.map(|()| kernel.force(force != 0)))
}

/// Whether nothing is forced or counting: for tests, which look at what a program left behind.
#[unsafe(no_mangle)]
pub extern "C" fn fake_kperf_is_at_rest() -> bool {
    kernel().is_at_rest()
}

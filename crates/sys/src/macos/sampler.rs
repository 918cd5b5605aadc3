//! The sampling part of kperf: what the kernel notes when a counter overflows or a timer expires.

use std::ffi::c_int;
use std::io;

use super::kpc::KpcClasses;
use super::kpc_functions::checked;
use super::library::{Library, LibraryError};

/// The sampler of an action that notes the accumulated counters of the thread.
///
/// # Source
///
/// xnu `osfmk/kperf/action.h`, `SAMPLER_PMC_THREAD`.
pub const SAMPLER_THREAD_COUNTERS: u32 = 0x10;

/// The sampling part of kperf. Actions and timers have numbers from 1 on, and are the whole machine's.
///
/// # Source
///
/// xnu `bsd/kern/kern_kpc.c`, `osfmk/kperf/kperfbsd.c`, `tests/cpu_counters/kpc_tests.c`.
pub trait KperfSampler {
    /// Sets after how many events each counter of these classes interrupts; 0: as late as possible.
    ///
    /// # Errors
    ///
    /// The operating system's.
    fn set_periods(&self, classes: KpcClasses, periods: &[u64]) -> io::Result<()>;

    /// Sets the action of each counter's interrupt; 0: none.
    ///
    /// # Errors
    ///
    /// The operating system's.
    fn set_interrupt_actions(&self, classes: KpcClasses, actions: &[u32]) -> io::Result<()>;

    /// Sets how many actions there are, at most 32.
    ///
    /// # Errors
    ///
    /// `EBUSY` while another process traces the system.
    fn set_action_count(&self, count: u32) -> io::Result<()>;

    /// Sets what an action notes: a sum of samplers.
    ///
    /// # Errors
    ///
    /// The operating system's.
    fn set_samplers(&self, action: u32, samplers: u32) -> io::Result<()>;

    /// Limits an action to the threads of a process.
    ///
    /// # Errors
    ///
    /// The operating system's.
    fn limit_to_process(&self, action: u32, pid: u32) -> io::Result<()>;

    /// Sets how many timers there are, at most 8.
    ///
    /// # Errors
    ///
    /// As [`KperfSampler::set_action_count`].
    fn set_timer_count(&self, count: u32) -> io::Result<()>;

    /// Sets the period of a timer, in ns. The kernel raises periods that are too short, and does not say so.
    ///
    /// # Errors
    ///
    /// The operating system's.
    fn set_timer_period(&self, timer: u32, period_ns: u64) -> io::Result<()>;

    /// Sets the action of a timer.
    ///
    /// # Errors
    ///
    /// The operating system's.
    fn set_timer_action(&self, timer: u32, action: u32) -> io::Result<()>;

    /// Lets a timer sample every thread, not only those that have a CPU.
    ///
    /// # Errors
    ///
    /// The operating system's.
    fn sample_every_thread(&self, timer: u32) -> io::Result<()>;

    /// Starts or stops sampling.
    ///
    /// # Errors
    ///
    /// The operating system's.
    fn sample(&self, on: bool) -> io::Result<()>;

    /// Stops sampling, and forgets actions and timers.
    ///
    /// # Errors
    ///
    /// The operating system's.
    fn reset(&self) -> io::Result<()>;

    /// A time of the kernel's clock, in ns.
    fn nanoseconds(&self, ticks: u64) -> u64;
}

type One = extern "C" fn(value: u32) -> c_int;
type Two = extern "C" fn(which: u32, value: u32) -> c_int;
type ProcessFilter = extern "C" fn(action: u32, pid: i32) -> c_int;
type TimerPeriod = extern "C" fn(timer: u32, ticks: u64) -> c_int;
type Nothing = extern "C" fn() -> c_int;
type Convert = extern "C" fn(value: u64) -> u64;
type Periods = unsafe extern "C" fn(classes: u32, periods: *mut u64) -> c_int;
type Actions = unsafe extern "C" fn(classes: u32, actions: *mut u32) -> c_int;

/// The most counters of a class that a buffer has room for. No chip has more.
const MOST_COUNTERS: usize = 64;

/// The sampling functions of the kperf framework.
///
/// # Source
///
/// Signatures: xnu `tests/cpu_counters/kpc_tests.c`; hashintel/hash `libs/darwin-kperf/sys`.
#[derive(Debug)]
pub struct SamplerFunctions {
    periods: Periods,
    interrupt_actions: Actions,
    action_count: One,
    samplers: Two,
    filter: ProcessFilter,
    timer_count: One,
    timer_period: TimerPeriod,
    timer_action: Two,
    every_thread: One,
    sample: One,
    reset: Nothing,
    to_ticks: Convert,
    to_ns: Convert,
}

impl SamplerFunctions {
    /// Finds the functions in an open library: the framework, or one that behaves as it does.
    ///
    /// # Errors
    ///
    /// The function that is missing.
    pub fn find(library: &Library) -> Result<SamplerFunctions, LibraryError> {
        macro_rules! functions {
            ($($field:ident = $name:literal,)*) => {
                SamplerFunctions {
                    // SAFETY: the types of the fields are the signatures that the sources give for these
                    // names.
                    $($field: unsafe { library.function($name) }?,)*
                }
            };
        }
        Ok(functions! {
            periods = c"kpc_set_period",
            interrupt_actions = c"kpc_set_actionid",
            action_count = c"kperf_action_count_set",
            samplers = c"kperf_action_samplers_set",
            filter = c"kperf_action_filter_set_by_pid",
            timer_count = c"kperf_timer_count_set",
            timer_period = c"kperf_timer_period_set",
            timer_action = c"kperf_timer_action_set",
            every_thread = c"kperf_timer_pet_set",
            sample = c"kperf_sample_set",
            reset = c"kperf_reset",
            to_ticks = c"kperf_ns_to_ticks",
            to_ns = c"kperf_ticks_to_ns",
        })
    }
}

/// The values, and zeros for the other counters that the kernel may have.
fn padded<T: Copy + Default>(values: &[T]) -> Vec<T> {
    let mut all = values.to_vec();
    all.resize(MOST_COUNTERS.max(values.len()), T::default());
    all
}

impl KperfSampler for SamplerFunctions {
    fn set_periods(&self, classes: KpcClasses, periods: &[u64]) -> io::Result<()> {
        // SAFETY: reads a period for each counter of the classes, and the buffer has more.
        checked(unsafe { (self.periods)(classes.bits(), padded(periods).as_mut_ptr()) })
    }

    fn set_interrupt_actions(&self, classes: KpcClasses, actions: &[u32]) -> io::Result<()> {
        // SAFETY: reads an action for each counter of the classes, and the buffer has more.
        checked(unsafe { (self.interrupt_actions)(classes.bits(), padded(actions).as_mut_ptr()) })
    }

    fn set_action_count(&self, count: u32) -> io::Result<()> {
        checked((self.action_count)(count))
    }

    fn set_samplers(&self, action: u32, samplers: u32) -> io::Result<()> {
        checked((self.samplers)(action, samplers))
    }

    fn limit_to_process(&self, action: u32, pid: u32) -> io::Result<()> {
        let pid = i32::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
        checked((self.filter)(action, pid))
    }

    fn set_timer_count(&self, count: u32) -> io::Result<()> {
        checked((self.timer_count)(count))
    }

    fn set_timer_period(&self, timer: u32, period_ns: u64) -> io::Result<()> {
        checked((self.timer_period)(timer, (self.to_ticks)(period_ns)))
    }

    fn set_timer_action(&self, timer: u32, action: u32) -> io::Result<()> {
        checked((self.timer_action)(timer, action))
    }

    fn sample_every_thread(&self, timer: u32) -> io::Result<()> {
        checked((self.every_thread)(timer))
    }

    fn sample(&self, on: bool) -> io::Result<()> {
        checked((self.sample)(on.into()))
    }

    fn reset(&self) -> io::Result<()> {
        checked((self.reset)())
    }

    fn nanoseconds(&self, ticks: u64) -> u64 {
        (self.to_ns)(ticks)
    }
}

//! The counting part of kperf, as a trait.

use std::io;
use std::ops::BitOr;

/// A set of classes of counters.
///
/// # Source
///
/// xnu `osfmk/kern/kpc.h`, `KPC_CLASS_*_MASK`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct KpcClasses(u32);

impl KpcClasses {
    /// No class.
    pub const NONE: KpcClasses = KpcClasses(0);
    /// Fixed counters: cycles, then instructions.
    pub const FIXED: KpcClasses = KpcClasses(1);
    /// Configurable counters.
    pub const CONFIGURABLE: KpcClasses = KpcClasses(2);
    /// Counters of the power manager.
    pub const POWER: KpcClasses = KpcClasses(4);

    /// The set as the kernel takes it.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// A set from the kernel's bits.
    pub const fn from_bits(bits: u32) -> KpcClasses {
        KpcClasses(bits)
    }

    /// Whether all classes of another set are in this one.
    pub const fn contains(self, other: KpcClasses) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for KpcClasses {
    type Output = KpcClasses;

    fn bitor(self, other: KpcClasses) -> KpcClasses {
        KpcClasses(self.0 | other.0)
    }
}

/// The counting part of kperf: a function for each function of the framework that cyclometer uses.
///
/// Counters are those of the whole machine. Values are in the order of classes: fixed counters, then
/// configurable ones from the lowest available PMC on. An error is one of the operating system.
///
/// # Source
///
/// xnu `bsd/kern/kern_kpc.c`, `osfmk/kern/kpc_common.c`; tests/cpu_counters/kpc_tests.c.
pub trait Kpc {
    /// The version of the PMU: 2 is Apple's on Arm, 0 an error.
    fn pmu_version(&self) -> u32;

    /// The number of counters of these classes. Configurable counters become more when all are forced.
    fn counter_count(&self, classes: KpcClasses) -> usize;

    /// The number of configuration words of these classes.
    fn config_count(&self, classes: KpcClasses) -> usize;

    /// The configuration words of these classes.
    ///
    /// # Errors
    ///
    /// The operating system's.
    fn config(&self, classes: KpcClasses) -> io::Result<Vec<u64>>;

    /// Sets the configuration words of these classes, at most [`Kpc::config_count`]; missing ones are 0.
    ///
    /// # Errors
    ///
    /// `EPERM` without root, and for a selector that the kernel does not allow; `EBUSY` when another client
    /// of the kernel has the PMU.
    fn set_config(&self, classes: KpcClasses, words: &[u64]) -> io::Result<()>;

    /// The classes that count.
    fn counting(&self) -> KpcClasses;

    /// Lets these classes count on every CPU, and stops the others.
    ///
    /// # Errors
    ///
    /// The operating system's.
    fn set_counting(&self, classes: KpcClasses) -> io::Result<()>;

    /// The classes that the kernel accumulates for each thread.
    fn thread_counting(&self) -> KpcClasses;

    /// Lets the kernel accumulate these classes for each thread, and no others.
    ///
    /// # Errors
    ///
    /// The operating system's.
    fn set_thread_counting(&self, classes: KpcClasses) -> io::Result<()>;

    /// The calling thread's accumulated counts.
    ///
    /// # Errors
    ///
    /// `EINVAL` as long as the kernel has no memory for the thread's counts.
    fn thread_counters(&self, classes: KpcClasses) -> io::Result<Vec<u64>>;

    /// The counters of these classes of `cpus` CPUs, one CPU after the other.
    ///
    /// # Errors
    ///
    /// The operating system's.
    fn cpu_counters(&self, classes: KpcClasses, cpus: usize) -> io::Result<Vec<u64>>;

    /// Whether all counters are taken from the power manager.
    ///
    /// # Errors
    ///
    /// The operating system's.
    fn has_forced_counters(&self) -> io::Result<bool>;

    /// Takes all counters from the power manager, or gives its own back.
    ///
    /// # Errors
    ///
    /// `EACCES` when another task has taken them.
    fn force_counters(&self, force: bool) -> io::Result<()>;
}

//! Faults that kernels, hypervisors and other users of a PMU cause for a driver.

use cyclometer_core::CounterId;

/// A misbehaviour. Times are from when it is asked for, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum InjectedFault {
    /// The kernel writes its own value over the register that enables counters, again and again: half to one
    /// and a half of `every_ns` pass between. Apple's PMCR0 then has the fixed counters, their interrupts and
    /// no access for user mode; elsewhere no counter is enabled. On Zen 2, which has no such register, the
    /// event selects become 0.
    ///
    /// # Source
    ///
    /// xnu `osfmk/arm64/monotonic_arm64.c`: at interrupts of the PMU and when it goes idle; 100,000 ns is
    /// what users of M3 and M4 see.
    RewriteControl {
        /// On the average so often.
        every_ns: u64,
    },
    /// The kernel does the same whenever a CPU has nothing to do.
    ///
    /// # Source
    ///
    /// xnu `osfmk/arm64/monotonic_arm64.c`, `core_idle`.
    RewriteControlAtIdle,
    /// Another user takes a general counter: it counts cycles, of the kernel too, from 0.
    StealCounter {
        /// The CPU.
        cpu: u32,
        /// The counter.
        counter: u8,
        /// When.
        after_ns: u64,
    },
    /// Interrupts come so much later.
    LateInterrupts {
        /// The delay.
        by_ns: u64,
    },
    /// Every n-th interrupt comes twice, the second time within the skid of the chip.
    DoubleInterrupts {
        /// n; 0 is none.
        every: u32,
    },
    /// Interrupts come without an overflow.
    SpuriousInterrupts {
        /// So often on each CPU.
        every_ns: u64,
    },
    /// A watchdog of the kernel holds a counter and starts it anew at each of its interrupts.
    Watchdog {
        /// The CPU.
        cpu: u32,
        /// Which counter: a general one, or a fixed one, whatever that counts.
        counter: CounterId,
        /// Cycles from one interrupt to the next.
        period_cycles: u64,
    },
    /// Writes seem to succeed and change nothing, as under some hypervisors.
    IgnoreWrites,
}

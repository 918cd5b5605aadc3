//! The protocol of the page: when a counter may be read, and the meaning of its value.
//!
//! The kernel increments a lock before and after it writes to the page, so that a reader can tell whether it
//! saw one state. The page is valid only on the current CPU and for the current moment: the kernel changes it
//! when the thread is descheduled. A value is therefore valid only if the lock is the same before and after
//! the counter was read.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

/// Bits of the page's capabilities.
///
/// # Source
///
/// Linux `include/uapi/linux/perf_event.h`, `struct perf_event_mmap_page`, bit fields in `capabilities`.
pub mod capabilities {
    /// Counters may be read by an instruction. `cap_user_rdpmc`.
    pub const READ: u64 = 1 << 2;
    /// Times can be extrapolated to now by a time stamp. `cap_user_time`.
    pub const TIME: u64 = 1 << 3;
    /// The time stamp is narrow and wraps. `cap_user_time_short`.
    pub const SHORT_TIME: u64 = 1 << 5;
}

/// How often a read is repeated when the kernel changes the page meanwhile; then a system call is needed.
/// Each time the thread has lost its CPU or its counter, so more than a few repetitions indicate another
/// problem.
const ATTEMPTS: usize = 100;

/// The page that the kernel shares for one event.
#[derive(Debug, Default)]
#[repr(C)]
#[doc(alias = "perf_event_mmap_page")]
pub struct Page {
    version: u32,
    compat_version: u32,
    lock: AtomicU32,
    index: AtomicU32,
    offset: AtomicU64,
    time_enabled: AtomicU64,
    time_running: AtomicU64,
    capabilities: AtomicU64,
    pmc_width: AtomicU16,
    time_shift: AtomicU16,
    time_mult: AtomicU32,
    time_offset: AtomicU64,
    time_zero: AtomicU64,
    size: u32,
    reserved: u32,
    time_cycles: AtomicU64,
    time_mask: AtomicU64,
}

/// The content of a page in plain numbers, for pages that are not a kernel's, such as those of tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Content {
    /// Changes of the page, odd while it is being changed.
    pub lock: u32,
    /// The counter's number plus one; 0 for no counter.
    pub index: u32,
    /// The number that is added to the counter.
    pub offset: i64,
    /// Time enabled when the page was written, in ns.
    pub time_enabled_ns: u64,
    /// Time on a counter when the page was written, in ns.
    pub time_running_ns: u64,
    /// Bits of [`capabilities`].
    pub capabilities: u64,
    /// Width of the counter in bits, 1 to 64.
    pub pmc_width: u16,
    /// The factor of time stamps for nanoseconds.
    pub time_mult: u32,
    /// The right shift of that product.
    pub time_shift: u16,
    /// The number of nanoseconds to add to the result.
    pub time_offset_ns: u64,
    /// The time stamp when the page was written, where it is narrow.
    pub time_cycles: u64,
    /// The bits of a narrow time stamp.
    pub time_mask: u64,
}

/// Reads counters and the time stamp: the CPU, or its substitute. The compiler must not move either past a
/// read of a page.
pub trait Counters {
    /// The raw value of a counter.
    fn counter(&self, permit: Permit) -> u64;

    /// The time stamp that the page's times refer to.
    fn time_stamp(&self) -> u64;
}

/// Proof that a page named a counter and permitted reading it by an instruction.
///
/// Only a page creates one, so that no counter is read without checking the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Permit {
    index: NonZeroU32,
}

impl Permit {
    /// The number that the instruction takes: the page's index less one.
    ///
    /// # Source
    ///
    /// On x86 the value of ECX, with the bit for fixed counters; on Arm the number of the event counter, or
    /// 31 for the cycle counter; on RISC-V the distance to the register `cycle`, 0xC00.
    pub fn number(self) -> u32 {
        self.index.get() - 1
    }
}

/// The values that were read through a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PageValues {
    /// The count since the event was opened.
    pub value: u64,
    /// How long it was enabled, up to now, in ns.
    pub time_enabled_ns: u64,
    /// How long it was on a counter, up to now, in ns.
    pub time_running_ns: u64,
    /// The page's lock, where several pages are read as one.
    lock: u32,
}

impl Page {
    /// A page with this content.
    pub fn new(content: &Content) -> Page {
        let page = Page::default();
        page.set(content);
        page
    }

    /// Replaces the content, including the lock.
    pub fn set(&self, content: &Content) {
        self.index.store(content.index, Ordering::Relaxed);
        self.offset.store(content.offset.cast_unsigned(), Ordering::Relaxed);
        self.time_enabled.store(content.time_enabled_ns, Ordering::Relaxed);
        self.time_running.store(content.time_running_ns, Ordering::Relaxed);
        self.capabilities.store(content.capabilities, Ordering::Relaxed);
        self.pmc_width.store(content.pmc_width, Ordering::Relaxed);
        self.time_shift.store(content.time_shift, Ordering::Relaxed);
        self.time_mult.store(content.time_mult, Ordering::Relaxed);
        self.time_offset.store(content.time_offset_ns, Ordering::Relaxed);
        self.time_cycles.store(content.time_cycles, Ordering::Relaxed);
        self.time_mask.store(content.time_mask, Ordering::Relaxed);
        self.lock.store(content.lock, Ordering::Release);
    }

    /// Whether the kernel currently permits reads by an instruction, and provides the time.
    pub fn permits_reads(&self) -> bool {
        const BOTH: u64 = capabilities::READ | capabilities::TIME;
        self.capabilities.load(Ordering::Relaxed) & BOTH == BOTH
    }

    /// Whether the event is currently on a counter.
    pub fn is_on_counter(&self) -> bool {
        self.index.load(Ordering::Relaxed) != 0
    }

    /// Reads the counter and extrapolates the times to now.
    ///
    /// `None` where only the kernel knows the value. Reads are not permitted, the event is not on a counter,
    /// the page has invalid content, or it changes all the time.
    #[inline]
    pub fn read(&self, counters: &impl Counters) -> Option<PageValues> {
        self.unchanged(|| self.read_once(counters, self.clock(counters)?))
    }

    /// Reads the counter only, which is the cheapest read. The value does not show whether the event was on a
    /// counter all the time.
    ///
    /// `None` as with [`Page::read`].
    #[inline]
    pub fn value(&self, counters: &impl Counters) -> Option<u64> {
        self.unchanged(|| self.counted(counters))
    }

    /// The result of `read` while the page is unchanged.
    #[inline]
    fn unchanged<T>(&self, read: impl Fn() -> Option<T>) -> Option<T> {
        let lock = self.locked();
        let found = read();
        if self.is_still(lock) { found } else { self.unchanged_later(read) }
    }

    #[cold]
    fn unchanged_later<T>(&self, read: impl Fn() -> Option<T>) -> Option<T> {
        for _ in 1..ATTEMPTS {
            let lock = self.locked();
            let found = read();
            if self.is_still(lock) {
                return found;
            }
        }
        None
    }

    /// The lock before a read; later reads are not older.
    #[inline]
    fn locked(&self) -> u32 {
        // ATOMICS: pairs with the kernel's barrier behind its first increment in
        // `perf_event_update_userpage`. It writes on the CPU that this thread runs on, so that on x86 no
        // instruction is needed.
        self.lock.load(Ordering::Acquire)
    }

    /// Whether the page is still in the same state, and was not being changed.
    #[inline]
    fn is_still(&self, lock: u32) -> bool {
        // ATOMICS: pairs with the kernel's barrier in front of its second increment: what was read before is
        // not newer.
        fence(Ordering::Acquire);
        lock & 1 == 0 && self.lock.load(Ordering::Relaxed) == lock
    }

    /// The values at a moment of the page's clock.
    #[inline]
    fn read_once(&self, counters: &impl Counters, clock_ns: u64) -> Option<PageValues> {
        let value = self.counted(counters)?;
        let since_ns = self.time_offset.load(Ordering::Relaxed).wrapping_add(clock_ns);
        Some(PageValues {
            value,
            time_enabled_ns: self.time_enabled.load(Ordering::Relaxed).wrapping_add(since_ns),
            time_running_ns: self.time_running.load(Ordering::Relaxed).wrapping_add(since_ns),
            lock: 0,
        })
    }

    #[inline]
    fn counted(&self, counters: &impl Counters) -> Option<u64> {
        let permit = self.permit()?;
        let width = u32::from(self.pmc_width.load(Ordering::Relaxed));
        if !(1..=64).contains(&width) {
            return None;
        }
        let raw = counters.counter(permit);
        Some(self.offset.load(Ordering::Relaxed).wrapping_add(extended(raw, 64 - width)))
    }

    #[inline]
    fn permit(&self) -> Option<Permit> {
        let index = NonZeroU32::new(self.index.load(Ordering::Relaxed))?;
        self.permits_reads().then_some(Permit { index })
    }

    /// The time on the page's clock, in ns. With the page's offset it is the time since the page was written.
    #[inline]
    fn clock(&self, counters: &impl Counters) -> Option<u64> {
        let mut stamp = counters.time_stamp();
        if self.capabilities.load(Ordering::Relaxed) & capabilities::SHORT_TIME != 0 {
            let written = self.time_cycles.load(Ordering::Relaxed);
            let mask = self.time_mask.load(Ordering::Relaxed);
            stamp = written.wrapping_add(stamp.wrapping_sub(written) & mask);
        }
        let shift = u32::from(self.time_shift.load(Ordering::Relaxed));
        let mult = u128::from(self.time_mult.load(Ordering::Relaxed));
        (shift < 64).then(|| ((u128::from(stamp) * mult) >> (shift & 63)) as u64)
    }
}

/// The counter's value as a signed number: counters are preset to minus the number of events until they
/// overflow.
#[inline]
fn extended(raw: u64, unused_bits: u32) -> u64 {
    ((raw << unused_bits).cast_signed() >> unused_bits).cast_unsigned()
}

/// Reads several pages as one. The thread was on one CPU without interruption, every event was on its
/// counter, and the times are of one moment.
///
/// `out` has room for one value for each page. False where any of them cannot be read so; the content of
/// `out` is then useless.
pub fn read_together<'a, P>(pages: P, counters: &impl Counters, out: &mut [PageValues]) -> bool
where
    P: Iterator<Item = &'a Page> + Clone,
{
    let Some(first) = pages.clone().next() else { return true };
    if pages.clone().count() > out.len() {
        return false;
    }
    for _ in 0..ATTEMPTS {
        // Locked before the time is read. If a page is written between the two, its times are of after it,
        // and the sum would be too low.
        for (page, out) in pages.clone().zip(out.iter_mut()) {
            out.lock = page.locked();
        }
        let Some(clock_ns) = first.clock(counters) else { return false };
        let mut is_whole = true;
        for (page, out) in pages.clone().zip(out.iter_mut()) {
            let values = page.read_once(counters, clock_ns);
            is_whole &= values.is_some();
            *out = PageValues { lock: out.lock, ..values.unwrap_or_default() };
        }
        if pages.clone().zip(out.iter()).all(|(page, values)| page.is_still(values.lock)) {
            return is_whole;
        }
    }
    false
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;

//! The mapped ring of an open event.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Extent, Format, Record, Records, RingError};
use crate::fork::Birth;
use crate::perf::OpenEvent;

/// The offset in the first page at which the kernel stores its write position.
///
/// # Source
///
/// Linux `include/uapi/linux/perf_event.h`, `struct perf_event_mmap_page`: `data_head` and `data_tail` begin
/// at 1 KiB.
const HEAD: usize = 1024;
/// The offset at which we store our read position.
const TAIL: usize = 1032;

/// The ring that an event's samples are written to; unmapped when dropped.
///
/// The kernel stops writing when it is full, and later reports how many records were lost. A forked child
/// does not have the ring.
#[derive(Debug)]
pub struct Ring {
    base: NonNull<u8>,
    /// Size of a page in bytes, which is the offset of the data.
    page: usize,
    /// Bytes of data, a power of two.
    size: usize,
    birth: Birth,
    /// A record of two slices, joined.
    joined: Vec<u8>,
}

// SAFETY: no other code in this process uses the memory, whatever thread accesses it; the kernel's part of it
// is atomic.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the ring of an event, with this number of pages of data.
    ///
    /// # Errors
    ///
    /// The operating system's: `EINVAL` where the number of pages is no power of two, or the event is
    /// inherited and bound to no CPU; `EPERM` where more memory would be locked than is allowed.
    ///
    /// # Source
    ///
    /// Linux `kernel/events/core.c`, `perf_mmap`.
    pub fn of(event: &OpenEvent, pages: usize) -> io::Result<Ring> {
        let page = crate::process::page_size();
        let invalid = || io::Error::from_raw_os_error(libc::EINVAL);
        let size =
            Some(pages).filter(|pages| pages.is_power_of_two()).and_then(|pages| pages.checked_mul(page));
        let size = size.ok_or_else(invalid)?;
        let length = size.checked_add(page).ok_or_else(invalid)?;
        let (null, access) = (std::ptr::null_mut(), libc::PROT_READ | libc::PROT_WRITE);
        let fd = event.as_fd().as_raw_fd();
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { libc::mmap(null, length, access, libc::MAP_SHARED, fd, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let ring = Ring { base, page, size, birth: Birth::now(), joined: Vec::new() };
        // SAFETY: the mapping that was just made. A child that read from it would take records away from us.
        match unsafe { libc::madvise(start, length, libc::MADV_DONTFORK) } {
            0 => Ok(ring),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Passes every record to `each`, oldest first, and releases its memory.
    ///
    /// # Errors
    ///
    /// [`RingError`]; the unread bytes are then discarded, because the start of the next record is unknown.
    pub fn drain(&mut self, format: Format, mut each: impl FnMut(Record)) -> Result<(), RingError> {
        if !self.birth.is_here() {
            return Err(RingError::Forked);
        }
        // ATOMICS: pairs with the barrier before the kernel's store in `perf_output_put_handle` (Linux
        // kernel/events/ring_buffer.c): records are complete before their end is stored.
        let head = self.position(HEAD).load(Ordering::Acquire);
        // ATOMICS: only this process writes it.
        let tail = self.position(TAIL).load(Ordering::Relaxed);
        let answer = self.each(tail, head, format, &mut each);
        // ATOMICS: pairs with the kernel's load in `__perf_output_begin`, before it writes to the bytes that
        // we released: our reads of them are over by then.
        self.position(TAIL).store(head, Ordering::Release);
        answer
    }

    fn each(
        &mut self,
        tail: u64,
        head: u64,
        format: Format,
        each: &mut dyn FnMut(Record),
    ) -> Result<(), RingError> {
        let extent = Extent::new(self.size, tail, head)?;
        let mut joined = std::mem::take(&mut self.joined);
        let mut records = Records::new(self.bytes(extent.older), self.bytes(extent.newer));
        while let Some(record) = records.next(&mut joined)? {
            each(Record::parse(record, format)?);
        }
        self.joined = joined;
        Ok(())
    }

    /// Bytes that the kernel has written, and does not change until they are released.
    fn bytes(&self, range: Range<usize>) -> &[u8] {
        debug_assert!(range.end <= self.size);
        // SAFETY: within the mapping, as `Extent` keeps ranges within the data.
        let start = unsafe { self.base.as_ptr().add(self.page + range.start) };
        // SAFETY: mapped as long as `self` lives, and not written to before the tail passes it, which only
        // `drain` does, when no such slice is left.
        unsafe { std::slice::from_raw_parts(start, range.len()) }
    }

    /// One of the positions in the first page.
    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: within the first page, which is mapped.
        let at = unsafe { self.base.as_ptr().add(offset) };
        // SAFETY: aligned, mapped as long as `self` lives; the kernel, too, accesses it by single loads and
        // stores.
        unsafe { AtomicU64::from_ptr(at.cast()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // In a forked child the address is free, or in use by another mapping.
        if self.birth.is_here() {
            // SAFETY: our own mapping, to which no references exist any more.
            unsafe { libc::munmap(self.base.as_ptr().cast(), self.page + self.size) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::tests::touch_pages;
    use crate::perf::{Attr, Reach, Whom, flags, open};
    use crate::ring::{Mode, SampleRecord, Woken, read_format, sample_type, wait};
    use std::time::{Duration, Instant};

    /// `PERF_TYPE_SOFTWARE`.
    const SOFTWARE: u32 = 1;
    /// `PERF_COUNT_SW_TASK_CLOCK`.
    const TASK_CLOCK: u64 = 1;
    /// `PERF_COUNT_SW_PAGE_FAULTS`: each is reported when it happens, so that these tests do not depend on
    /// time.
    const PAGE_FAULTS: u64 = 2;

    fn format(more: u64, read: u64) -> Format {
        use sample_type as field;
        let fields = field::IP | field::TID | field::TIME | field::ADDR | field::CPU;
        Format::new(fields | more, read).unwrap()
    }

    const READS_LOST: u64 = read_format::LOST | read_format::TIME_ENABLED;

    fn attributes(config: u64, period: u64, format: Format) -> Attr {
        let mut attr = Attr::new(SOFTWARE, config).sampling(period, format);
        attr.flags |= flags::EXCLUDE_KERNEL | flags::EXCLUDE_HV;
        attr
    }

    #[expect(clippy::print_stderr, reason = "a test that cannot run says why")]
    fn skipped(why: &io::Error) {
        eprintln!("skipped: perf_event_open: {why}");
    }

    /// Page faults of this thread in user mode, disabled, and their ring.
    fn page_faults(period: u64, pages: usize, format: Format) -> Option<(OpenEvent, Ring)> {
        match open(&attributes(PAGE_FAULTS, period, format), Whom::ThisThread, None, None) {
            Ok(event) => {
                let ring = Ring::of(&event, pages).unwrap();
                Some((event, ring))
            }
            Err(e) => {
                skipped(&e);
                None
            }
        }
    }

    fn drained(ring: &mut Ring, format: Format) -> (Vec<SampleRecord>, u64) {
        let (mut samples, mut lost) = (Vec::new(), 0);
        ring.drain(format, |record| match record {
            Record::Sample(sample) => samples.push(sample),
            Record::Lost { records, .. } => lost += records,
            _ => {}
        })
        .unwrap();
        (samples, lost)
    }

    #[test]
    fn there_is_a_sample_for_each_period_and_it_says_where_and_who() {
        let format = format(0, 0);
        let Some((event, mut ring)) = page_faults(7, 8, format) else { return };
        event.enable(Reach::Event).unwrap();
        let touched = touch_pages(300);
        event.disable(Reach::Event).unwrap();
        let count = event.read_as(format).unwrap().unwrap().values[0].value;
        let (samples, lost) = drained(&mut ring, format);
        assert_eq!((samples.len() as u64, lost), (count / 7, 0));
        // SAFETY: touches no memory of ours.
        let me = unsafe { libc::gettid() } as u32;
        for sample in &samples {
            assert_eq!((sample.tid, sample.pid), (Some(me), Some(std::process::id())));
            assert_eq!((sample.period_events, sample.mode), (None, Mode::User));
        }
        let there = samples.iter().filter(|sample| sample.addr.is_some_and(|addr| touched.contains(&addr)));
        assert!(there.count() >= 300 / 7);
        assert!(samples.is_sorted_by_key(|sample| sample.time_ns));
        assert!(drained(&mut ring, format).0.is_empty(), "records are handed over once");
    }

    /// Linux `kernel/events/core.c`, `perf_swevent_event`: an event whose period is requested is reported
    /// each time.
    #[test]
    fn a_software_event_whose_period_is_asked_for_is_sampled_each_time() {
        let format = format(sample_type::PERIOD, 0);
        let Some((event, mut ring)) = page_faults(7, 16, format) else { return };
        event.enable(Reach::Event).unwrap();
        touch_pages(100);
        event.disable(Reach::Event).unwrap();
        let count = event.read_as(format).unwrap().unwrap().values[0].value;
        let (samples, lost) = drained(&mut ring, format);
        assert_eq!((samples.len() as u64, lost), (count, 0));
        assert!(samples.iter().all(|sample| sample.period_events == Some(1)));
    }

    #[test]
    fn a_ring_that_is_read_in_time_goes_round_without_a_loss() {
        let format = format(0, 0);
        let Some((event, mut ring)) = page_faults(1, 1, format) else { return };
        event.enable(Reach::Event).unwrap();
        let mut samples = 0;
        for _ in 0..40 {
            touch_pages(20);
            let (more, lost) = drained(&mut ring, format);
            assert_eq!(lost, 0);
            samples += more.len() as u64;
        }
        event.disable(Reach::Event).unwrap();
        samples += drained(&mut ring, format).0.len() as u64;
        assert_eq!(samples, event.read_as(format).unwrap().unwrap().values[0].value);
    }

    #[test]
    fn what_does_not_fit_is_counted_as_lost() {
        let format = format(0, READS_LOST);
        let Some((event, mut ring)) = page_faults(1, 1, format) else { return };
        event.enable(Reach::Event).unwrap();
        touch_pages(500);
        let (samples, none) = drained(&mut ring, format);
        // The loss is reported with the first record for which there is room.
        touch_pages(2);
        event.disable(Reach::Event).unwrap();
        let (more, lost) = drained(&mut ring, format);
        let read = event.read_as(format).unwrap().unwrap().values[0];
        assert_eq!(none, 0);
        assert!(lost >= 300, "{lost}");
        assert_eq!((samples.len() + more.len()) as u64 + lost, read.value);
        assert_eq!(read.lost, Some(lost));
    }

    #[test]
    fn a_sample_has_the_values_of_the_group() {
        let reads = read_format::GROUP | read_format::ID | read_format::TIME_ENABLED;
        let format = format(sample_type::READ, reads);
        let Some((leader, mut ring)) = page_faults(5, 8, format) else { return };
        let mut attr = Attr::new(SOFTWARE, TASK_CLOCK).reading(format);
        attr.flags = flags::EXCLUDE_KERNEL | flags::EXCLUDE_HV;
        let member = open(&attr, Whom::ThisThread, None, Some(&leader)).unwrap();
        leader.enable(Reach::Group).unwrap();
        touch_pages(50);
        leader.disable(Reach::Group).unwrap();
        let ids = [leader.id().unwrap(), member.id().unwrap()].map(Some);
        let (samples, _) = drained(&mut ring, format);
        assert!(samples.len() >= 10);
        let mut before = 0;
        for (number, sample) in (1..).zip(&samples) {
            let values = &sample.read.as_ref().unwrap().values;
            assert_eq!(values.iter().map(|value| value.id).collect::<Vec<_>>(), ids);
            assert_eq!(values[0].value, 5 * number);
            assert!(values[1].value >= before, "time goes on");
            before = values[1].value;
        }
    }

    #[test]
    fn records_of_other_kinds_are_passed_over() {
        let format = format(0, 0);
        let mut attr = attributes(PAGE_FAULTS, 1, format);
        attr.flags |= flags::COMM | flags::TASK;
        let Ok(event) = open(&attr, Whom::ThisThread, None, None) else { return };
        let mut ring = Ring::of(&event, 8).unwrap();
        event.enable(Reach::Event).unwrap();
        // SAFETY: the kernel reads a name that ends with 0.
        unsafe { libc::prctl(libc::PR_SET_NAME, c"ring-records".as_ptr()) };
        touch_pages(3);
        event.disable(Reach::Event).unwrap();
        let mut records = Vec::new();
        ring.drain(format, |record| records.push(record)).unwrap();
        // `PERF_RECORD_COMM`.
        assert!(records.contains(&Record::Other { kind: 3 }), "{records:?}");
        assert!(records.iter().filter(|record| matches!(record, Record::Sample(_))).count() >= 3);
    }

    #[test]
    fn who_waits_is_woken_by_samples_and_by_the_time() {
        let format = format(0, 0);
        let mut attr = attributes(PAGE_FAULTS, 1, format);
        attr.wakeup_events = 10;
        let Ok(event) = open(&attr, Whom::ThisThread, None, None) else { return };
        let mut ring = Ring::of(&event, 8).unwrap();
        let soon = || Some(Instant::now() + Duration::from_millis(2));
        assert_eq!(wait(&[&event], soon()).unwrap(), [Woken::default()]);
        event.enable(Reach::Event).unwrap();
        touch_pages(10);
        event.disable(Reach::Event).unwrap();
        assert_eq!(wait(&[&event], None).unwrap(), [Woken { has_samples: true, ..Woken::default() }]);
        assert!(drained(&mut ring, format).0.len() >= 10);
        assert_eq!(wait(&[&event], soon()).unwrap(), [Woken::default()], "once for all of them");
    }

    #[test]
    fn a_thread_that_ended_is_not_waited_for() {
        let format = format(0, 0);
        let (send, receive) = std::sync::mpsc::channel();
        let (go, going) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            // SAFETY: touches no memory of ours.
            send.send(unsafe { libc::gettid() } as u32).unwrap();
            going.recv().unwrap();
        });
        let whom = Whom::Task(receive.recv().unwrap());
        let opened = open(&attributes(PAGE_FAULTS, 1, format), whom, None, None);
        go.send(()).unwrap();
        thread.join().unwrap();
        let Ok(event) = opened else { return };
        assert!(wait(&[&event], None).unwrap()[0].has_ended);
    }

    #[test]
    fn a_number_of_pages_that_is_no_power_of_two_is_refused() {
        let format = format(0, 0);
        let Ok(event) = open(&attributes(PAGE_FAULTS, 1, format), Whom::ThisThread, None, None) else {
            return;
        };
        for pages in [0, 3, usize::MAX, 1 << (usize::BITS - 1)] {
            assert_eq!(Ring::of(&event, pages).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        }
    }

    #[test]
    fn a_forked_child_has_no_ring_and_unmaps_nothing() {
        let format = format(0, 0);
        let Some((event, mut ring)) = page_faults(1, 1, format) else { return };
        event.enable(Reach::Event).unwrap();
        touch_pages(3);
        event.disable(Reach::Event).unwrap();
        // SAFETY: the child looks at its own memory, and leaves without running handlers.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let forked = ring.drain(format, |_| {}) == Err(RingError::Forked);
            drop(ring);
            // SAFETY: ends the child.
            unsafe { libc::_exit(if forked { 7 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: writes one status.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert!(libc::WIFEXITED(status), "{status:#x}");
        assert_eq!(libc::WEXITSTATUS(status), 7);
        assert!(drained(&mut ring, format).0.len() >= 3);
    }
}

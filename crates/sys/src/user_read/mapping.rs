//! The mapped page of an open event.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

use super::page::{Counters, Page, PageValues, Permit};
use super::{instructions, read_together};
use crate::fork::Birth;
use crate::perf::OpenEvent;

/// The page that the kernel shares for an event of the calling thread; unmapped when dropped.
///
/// It belongs to the thread that made it. Counters belong to CPUs, and the page describes the counter of the
/// CPU that this thread is on. A forked child does not have the page.
#[derive(Debug)]
pub struct Mapping {
    page: NonNull<Page>,
    length: usize,
    birth: Birth,
}

/// The counters of the CPU.
struct CpuCounters<'a>(&'a Mapping);

impl Counters for CpuCounters<'_> {
    #[inline]
    fn counter(&self, permit: Permit) -> u64 {
        debug_assert!(self.0.birth.is_here());
        // SAFETY: the permit was made by a kernel's page, which `Mapping` keeps mapped, for an event of this
        // thread, as `Mapping` cannot be sent to another one.
        unsafe { instructions::counter(permit) }
    }

    #[inline]
    fn time_stamp(&self) -> u64 {
        instructions::time_stamp()
    }
}

impl Mapping {
    /// Maps the page of an event that counts the calling thread.
    ///
    /// The caller ensures that it is an event of the calling thread. All CPUs that the thread may run on must
    /// have the same counters. The values of other events are useless.
    ///
    /// # Errors
    ///
    /// The operating system's: `EINVAL` for events that are inherited, `EPERM` where too much memory is
    /// locked.
    pub fn of(event: &OpenEvent) -> io::Result<Mapping> {
        let length = crate::process::page_size();
        let fd = event.as_fd().as_raw_fd();
        let null = std::ptr::null_mut();
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe { libc::mmap(null, length, libc::PROT_READ, libc::MAP_SHARED, fd, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let page = NonNull::new(start.cast::<Page>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mapping = Mapping { page, length, birth: Birth::now() };
        // SAFETY: the mapping that was just made. The kernel does not pass it on to children anyway; the call
        // makes sure of it.
        match unsafe { libc::madvise(start, length, libc::MADV_DONTFORK) } {
            0 => Ok(mapping),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The page of the kernel; `None` in a forked child, which does not have it.
    #[inline]
    pub fn page(&self) -> Option<&Page> {
        if !self.birth.is_here() {
            return None;
        }
        // SAFETY: mapped and at least as long as a `Page` as long as `self` lives, in the process that mapped
        // it; all that the kernel changes is atomic.
        Some(unsafe { self.page.as_ref() })
    }

    /// Reads the counter by an instruction; `None` where a system call is needed.
    #[inline]
    pub fn read(&self) -> Option<PageValues> {
        self.page()?.read(&CpuCounters(self))
    }

    /// Reads only the counter by an instruction, without times; `None` where a system call is needed.
    #[inline]
    pub fn value(&self) -> Option<u64> {
        self.page()?.value(&CpuCounters(self))
    }

    /// Reads the counters of several events of this thread at one moment; false where a system call is
    /// needed.
    pub fn read_all<'a>(mappings: impl Iterator<Item = &'a Mapping> + Clone, out: &mut [PageValues]) -> bool {
        let Some(first) = mappings.clone().next() else { return true };
        let pages = mappings.clone().filter_map(Mapping::page);
        mappings.count() == pages.clone().count() && read_together(pages, &CpuCounters(first), out)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // In a forked child the address is free, or in use by another mapping.
        if self.birth.is_here() {
            // SAFETY: our own mapping, to which no references exist any more.
            unsafe { libc::munmap(self.page.as_ptr().cast(), self.length) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::{Attr, Reach, Whom, flags, open};

    /// `PERF_TYPE_SOFTWARE`, `PERF_COUNT_SW_TASK_CLOCK`: available without a PMU.
    fn task_clock() -> Option<OpenEvent> {
        let mut attr = Attr::new(1, 1);
        attr.flags |= flags::EXCLUDE_KERNEL | flags::EXCLUDE_HV;
        let event = open(&attr, Whom::ThisThread, None, None);
        if let Err(e) = &event {
            skipped(e);
        }
        event.ok()
    }

    #[expect(clippy::print_stderr, reason = "a test that cannot run says why")]
    fn skipped(why: &io::Error) {
        eprintln!("skipped: perf_event_open: {why}");
    }

    #[test]
    fn a_software_event_has_a_page_and_no_counter() {
        let Some(event) = task_clock() else { return };
        event.enable(Reach::Event).unwrap();
        let mapping = Mapping::of(&event).unwrap();
        assert!(!mapping.page().unwrap().is_on_counter());
        assert_eq!(mapping.read(), None, "only the kernel knows the value");
        assert!(!Mapping::read_all([&mapping].into_iter(), &mut [PageValues::default()]));
        assert!(Mapping::read_all([].into_iter(), &mut []));
    }

    #[test]
    fn an_inherited_event_shares_no_page() {
        let mut attr = Attr::new(1, 1);
        attr.flags |= flags::EXCLUDE_KERNEL | flags::EXCLUDE_HV | flags::INHERIT;
        let Ok(event) = open(&attr, Whom::ThisThread, None, None) else { return };
        assert_eq!(Mapping::of(&event).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    fn a_forked_child_has_no_page_and_unmaps_nothing() {
        let Some(event) = task_clock() else { return };
        let mapping = Mapping::of(&event).unwrap();
        let (at, length) = (mapping.page.as_ptr().cast(), mapping.length);
        // SAFETY: the child maps, reads and unmaps its own memory, and leaves without running handlers.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let none = mapping.page().is_none() && mapping.read().is_none();
            let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
            // SAFETY: a new mapping where the page was, which the child does not have.
            let others = unsafe { libc::mmap(at, length, libc::PROT_READ, kind, -1, 0) };
            drop(mapping);
            // SAFETY: reads one byte of the mapping, which must still exist: the child dies otherwise.
            let zero = unsafe { others.cast::<u8>().read_volatile() };
            let fine = none && others == at && zero == 0;
            // SAFETY: ends the child.
            unsafe { libc::_exit(if fine { 7 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: writes one status.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert!(libc::WIFEXITED(status), "{status:#x}");
        assert_eq!(libc::WEXITSTATUS(status), 7);
        assert!(mapping.page().is_some());
    }
}

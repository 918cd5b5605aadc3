//! Calls on the list of mappings of a process.
//!
//! The types are in [`maps_listing`](super::maps_listing).

use std::cell::RefCell;
use std::fs;
use std::rc::Rc;

use cyclometer_sys::trace::{self, Registers};

use super::action::{ActionResult, TaskAction};
use super::code_cache::CodeCacheMapping;
use super::maps_listing::{MapsListing, file_of, refusal};
use super::process::TracedTask;
use super::remote_syscalls::{RemoteSyscalls, number};
use super::trace_error::{TraceError, TraceResult};
use super::tracees::Tracees;

/// Most bytes of a path that is compared.
const MOST_PATH: usize = 40;

/// Most bytes of a path that the kernel takes.
///
/// # Source
///
/// Linux `include/uapi/linux/limits.h`, `PATH_MAX`.
const LONGEST_PATH: usize = 4096;

/// Whether the text at an address is a path in `/proc`.
pub(super) fn names_proc(tid: u32, address: u64) -> bool {
    const START: u64 = u64::from_le_bytes(*b"/proc/\0\0");
    trace::peek(tid, address).unwrap_or(0) & 0xffff_ffff_ffff == START
}

/// Whether the text at an address may be the path of a process's `status`, from any folder.
pub(super) fn names_status(tid: u32, address: u64) -> bool {
    let mut bytes = [0; LONGEST_PATH];
    let count = trace::read_memory(tid, address, &mut bytes).unwrap_or(0);
    let path = bytes[..count].split(|byte| *byte == 0).next().unwrap_or_default();
    path.ends_with(b"status")
}

/// Whether the text at an address names the list of the process's own mappings.
fn names_listing(tid: u32, address: u64) -> bool {
    let mut bytes = [0; MOST_PATH];
    let count = trace::read_memory(tid, address, &mut bytes).unwrap_or(0);
    let path = bytes[..count].split(|byte| *byte == 0).next().unwrap_or_default();
    let own = format!("/proc/{tid}/maps");
    [b"/proc/self/maps", b"/proc/thread-self/maps".as_slice(), own.as_bytes()].contains(&path)
}

impl TracedTask {
    /// A file is about to be opened, whose path is at this address. The call is made here if it opens the
    /// list of the process's own mappings.
    pub(super) fn open_listing(&mut self, tid: u32, path: u64, registers: Registers) -> ActionResult {
        if self.filtered || !names_listing(tid, path) || self.reads_another(tid)? {
            return Ok(TaskAction::Resume);
        }
        let Registers { rax, rdi, rsi, rdx, r10, r8, r9, .. } = registers;
        let cache = self.translated()?.cache.clone();
        let remote = RemoteSyscalls::new(tid, cache.borrow().gadget());
        match remote.call(rax, [rdi, rsi, rdx, r10, r8, r9]) {
            Ok(descriptor) => {
                if let Some(file) = file_of(tid, descriptor) {
                    self.listing = Some(MapsListing::new(descriptor, file));
                    cache.borrow_mut().watch_listing(true);
                }
                Ok(TaskAction::Emulate { registers, result: descriptor })
            }
            Err(error) => Ok(TaskAction::Emulate { registers, result: refusal(&error) }),
        }
    }

    /// It leaves its translation: calls that were watched for its list only are not watched any more.
    pub(super) fn end_listing(&mut self) {
        if let (Some(_), Some(context)) = (self.listing.take(), self.context()) {
            context.cache.borrow_mut().watch_listing(false);
        }
    }

    /// Whether a list is open already. One whose descriptor got lost is forgotten.
    fn reads_another(&mut self, tid: u32) -> Result<bool, TraceError> {
        let Some(listing) = &self.listing else { return Ok(false) };
        let open = listing.is_untouched(tid);
        if !open {
            self.forget_listing()?;
        }
        Ok(open)
    }

    /// A descriptor is about to be read.
    pub(super) fn handle_read(&mut self, tid: u32, registers: Registers) -> ActionResult {
        let cache = self.translated()?.cache.clone();
        let listing = self.listing.as_mut().filter(|listing| listing.is(registers.rdi));
        let Some(listing) = listing else { return Ok(TaskAction::Resume) };
        if !listing.is_untouched(tid) {
            self.forget_listing()?;
            return Ok(TaskAction::Resume);
        }
        let text = fs::read(format!("/proc/{tid}/maps"))?;
        let cache = cache.borrow();
        let size = usize::try_from(registers.rdx).unwrap_or(usize::MAX);
        let bytes =
            listing.read(size, &String::from_utf8_lossy(&text), |start, end| cache.overlaps(start, end));
        drop(cache);
        let written = if bytes.is_empty() { Ok(0) } else { trace::write_memory(tid, registers.rsi, &bytes) };
        let result = match written {
            Ok(count) if count == bytes.len() => count as u64,
            _ => -super::syscalls::EFAULT as u64,
        };
        Ok(TaskAction::Emulate { registers, result })
    }

    /// The offset into a file is about to be changed.
    ///
    /// # Source
    ///
    /// `lseek(2)`: 0 is `SEEK_SET`.
    pub(super) fn handle_seek(&mut self, tid: u32, registers: Registers) -> ActionResult {
        const SEEK_SET: u64 = 0;
        let listing = self.listing.as_mut().filter(|listing| listing.is(registers.rdi));
        let Some(listing) = listing else { return Ok(TaskAction::Resume) };
        if (registers.rsi, registers.rdx & 0xffff_ffff) != (0, SEEK_SET) {
            self.hand_over(tid)?;
        } else {
            *listing = MapsListing::new(listing.descriptor, listing.file);
        }
        Ok(TaskAction::Resume)
    }

    /// One of [`OTHER_USES`](super::maps_listing::OTHER_USES) is about to be called.
    pub(super) fn handle_use(&mut self, tid: u32, registers: &Registers) -> ActionResult {
        let Registers { rax, rdi, rsi, .. } = *registers;
        if self.listing.as_ref().is_some_and(|listing| listing.is_used_by(rax, [rdi, rsi])) {
            self.hand_over(tid)?;
        }
        Ok(TaskAction::Resume)
    }

    /// Hands the list over to the kernel, from the current offset on.
    fn hand_over(&mut self, tid: u32) -> TraceResult {
        let cache = self.translated()?.cache.clone();
        let untouched = self.listing.as_ref().filter(|listing| listing.is_untouched(tid));
        if let Some(listing) = untouched.filter(|_| !self.filtered) {
            let text = fs::read(format!("/proc/{tid}/maps"))?;
            let cache = cache.borrow();
            let ours = |start, end| cache.overlaps(start, end);
            let offset = listing.kernel_offset(&String::from_utf8_lossy(&text), ours) as u64;
            let remote = RemoteSyscalls::new(tid, cache.gadget());
            remote.call(number::LSEEK, [listing.descriptor, offset, 0, 0, 0, 0])?;
        }
        self.forget_listing()
    }

    fn forget_listing(&mut self) -> TraceResult {
        self.listing = None;
        self.translated()?.cache.borrow_mut().watch_listing(false);
        Ok(())
    }

    /// A descriptor is about to be closed.
    pub(super) fn handle_close(&mut self, registers: Registers) -> ActionResult {
        if self.listing.as_ref().is_some_and(|listing| listing.is(registers.rdi)) {
            self.forget_listing()?;
        }
        Ok(TaskAction::Resume)
    }
}

impl Tracees {
    /// The lists of a task's process are read in another translation from now on.
    pub(super) fn move_listings(
        &self,
        tid: u32,
        from: &Rc<RefCell<CodeCacheMapping>>,
        to: &mut CodeCacheMapping,
    ) {
        let Some(process) = self.tasks.get(&tid).map(|task| task.process) else { return };
        let lists = self.threads_of(process).filter(|(_, task)| task.listing.is_some()).count() as u32;
        let mut from = from.borrow_mut();
        let left = from.listings.saturating_sub(lists);
        from.watch_listings(left);
        to.watch_listings(lists);
    }
}

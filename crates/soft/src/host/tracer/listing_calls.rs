//! Calls on the list of mappings of a process.
//!
//! The types are in [`maps_listing`](crate::host::maps_listing).

use std::cell::RefCell;
use std::fs;
use std::io;
use std::rc::Rc;

use cyclometer_sys::trace::{self, Registers};

use super::Tracer;
use crate::host::action::{ActionResult, TaskAction};
use crate::host::code_cache::CodeCacheMapping;
use crate::host::maps_listing::{MapsListing, file_of, refusal};
use crate::host::process::TaskMode;
use crate::host::remote_syscalls::{RemoteSyscalls, number};
use crate::host::trace_error::{TraceError, TraceResult};

/// Most bytes of a path that is compared.
const MOST_PATH: usize = 40;

/// Most bytes of a path that the kernel takes.
///
/// # Source
///
/// Linux `include/uapi/linux/limits.h`, `PATH_MAX`.
const LONGEST_PATH: usize = 4096;

/// Whether the text at an address is a path in `/proc`.
fn names_proc(tid: u32, address: u64) -> bool {
    const START: u64 = u64::from_le_bytes(*b"/proc/\0\0");
    trace::peek(tid, address).unwrap_or(0) & 0xffff_ffff_ffff == START
}

/// Whether the text at an address may be the path of a process's `status`, from any folder.
fn names_status(tid: u32, address: u64) -> bool {
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

impl Tracer {
    /// A file is about to be opened, whose path is at this address.
    pub(super) fn handle_open(&mut self, tid: u32, path: u64, registers: Registers) -> ActionResult {
        let in_proc = names_proc(tid, path);
        if in_proc || (self.is_bound(tid) && names_status(tid, path)) {
            self.unbind(tid);
        }
        if let Some(action) = self.handle_open_for_writing(tid, path, &registers)? {
            return Ok(action);
        }
        if !in_proc {
            return Ok(TaskAction::Resume);
        }
        if self.tracees.task(tid)?.filtered || !names_listing(tid, path) || self.reads_another(tid)? {
            return Ok(TaskAction::Resume);
        }
        let Registers { rax, rdi, rsi, rdx, r10, r8, r9, .. } = registers;
        let cache = self.cache_of(tid)?;
        let remote = RemoteSyscalls::new(tid, cache.borrow().gadget());
        match remote.call(rax, [rdi, rsi, rdx, r10, r8, r9]) {
            Ok(descriptor) => {
                if let Some(file) = file_of(tid, descriptor) {
                    self.tracees.task(tid)?.listing = Some(MapsListing::new(descriptor, file));
                    cache.borrow_mut().watch_listing(true);
                }
                Ok(TaskAction::Emulate { registers, result: descriptor })
            }
            Err(error) => Ok(TaskAction::Emulate { registers, result: refusal(&error) }),
        }
    }

    /// Whether a list is open already. One whose descriptor got lost is forgotten.
    fn reads_another(&mut self, tid: u32) -> Result<bool, TraceError> {
        let Some(listing) = &self.tracees.task(tid)?.listing else { return Ok(false) };
        let open = listing.is_untouched(tid);
        if !open {
            self.forget_listing(tid)?;
        }
        Ok(open)
    }

    fn cache_of(&mut self, tid: u32) -> Result<Rc<RefCell<CodeCacheMapping>>, TraceError> {
        match &self.tracees.task(tid)?.mode {
            TaskMode::Translated(context) => Ok(context.cache.clone()),
            _ => Err(TraceError::Gone),
        }
    }

    /// A descriptor is about to be read.
    pub(super) fn handle_read(&mut self, tid: u32, registers: Registers) -> ActionResult {
        let cache = self.cache_of(tid)?;
        let listing = self.tracees.task(tid)?.listing.as_mut().filter(|listing| listing.is(registers.rdi));
        let Some(listing) = listing else { return Ok(TaskAction::Resume) };
        if !listing.is_untouched(tid) {
            self.forget_listing(tid)?;
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
            _ => -crate::host::syscalls::EFAULT as u64,
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
        let listing = self.tracees.task(tid)?.listing.as_mut().filter(|listing| listing.is(registers.rdi));
        let Some(listing) = listing else { return Ok(TaskAction::Resume) };
        if (registers.rsi, registers.rdx & 0xffff_ffff) != (0, SEEK_SET) {
            self.hand_over(tid)?;
        } else {
            *listing = MapsListing::new(listing.descriptor, listing.file);
        }
        Ok(TaskAction::Resume)
    }

    /// One of [`OTHER_USES`](crate::host::maps_listing::OTHER_USES) is about to be called.
    pub(super) fn handle_use(&mut self, tid: u32, registers: &Registers) -> ActionResult {
        let Registers { rax, rdi, rsi, .. } = *registers;
        if self.tracees.task(tid)?.listing.as_ref().is_some_and(|listing| listing.is_used_by(rax, [rdi, rsi]))
        {
            self.hand_over(tid)?;
        }
        Ok(TaskAction::Resume)
    }

    /// Hands the list over to the kernel, from the current offset on.
    fn hand_over(&mut self, tid: u32) -> TraceResult {
        let cache = self.cache_of(tid)?;
        let task = self.tracees.task(tid)?;
        if let Some(listing) =
            task.listing.as_ref().filter(|listing| listing.is_untouched(tid) && !task.filtered)
        {
            let text = fs::read(format!("/proc/{tid}/maps"))?;
            let cache = cache.borrow();
            let ours = |start, end| cache.overlaps(start, end);
            let offset = listing.kernel_offset(&String::from_utf8_lossy(&text), ours) as u64;
            let remote = RemoteSyscalls::new(tid, cache.gadget());
            remote.call(number::LSEEK, [listing.descriptor, offset, 0, 0, 0, 0])?;
        }
        self.forget_listing(tid)
    }

    fn forget_listing(&mut self, tid: u32) -> TraceResult {
        self.tracees.task(tid)?.listing = None;
        self.cache_of(tid)?.borrow_mut().watch_listing(false);
        Ok(())
    }

    /// A process leaves its translation: calls that were watched for its list only are not watched any more.
    pub(super) fn end_listing(&mut self, tid: u32) {
        let Some(task) = self.tracees.tasks.get_mut(&tid) else { return };
        if let (Some(_), TaskMode::Translated(context) | TaskMode::Native(context)) =
            (task.listing.take(), &task.mode)
        {
            context.cache.borrow_mut().watch_listing(false);
        }
    }

    /// The lists of a task's process are read in another translation from now on.
    pub(super) fn move_listings(
        &self,
        tid: u32,
        from: &Rc<RefCell<CodeCacheMapping>>,
        to: &mut CodeCacheMapping,
    ) {
        let Some(process) = self.tracees.tasks.get(&tid).map(|task| task.process) else { return };
        let lists =
            self.tracees.threads_of(process).filter(|(_, task)| task.listing.is_some()).count() as u32;
        let mut from = from.borrow_mut();
        let left = from.listings.saturating_sub(lists);
        from.watch_listings(left);
        to.watch_listings(lists);
    }

    /// A descriptor is about to be closed.
    pub(super) fn handle_close(&mut self, tid: u32, registers: Registers) -> ActionResult {
        if self.tracees.task(tid)?.listing.as_ref().is_some_and(|listing| listing.is(registers.rdi)) {
            self.forget_listing(tid)?;
        }
        Ok(TaskAction::Resume)
    }

    /// Goes on behind a system call that is not made, with its result.
    pub(super) fn emulate_call(&mut self, tid: u32, registers: Registers, rax: u64) -> TraceResult {
        let behind = Registers { rax, rip: registers.rip + 2, r11: registers.eflags, ..registers };
        trace::set_registers(tid, &behind)?;
        self.tracees.task(tid)?.last_pc = None;
        self.resume_checked(tid)
    }

    /// Sets the registers behind a system call that was made on behalf of the tracee.
    pub(super) fn step_over_call(
        &mut self,
        tid: u32,
        registers: Registers,
        result: io::Result<u64>,
    ) -> TraceResult {
        let rax = result.unwrap_or_else(|error| refusal(&error));
        let behind = Registers { rax, rip: registers.rip + 2, r11: registers.eflags, ..registers };
        trace::set_registers(tid, &behind)?;
        self.tracees.task(tid)?.last_pc = None;
        Ok(())
    }
}

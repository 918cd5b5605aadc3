//! Shared translations: one translation for all programs that start with the same code.
//!
//! ```text
//! a program starts ──> a suitable translation: mapped at its addresses, with a slot of its own
//!                  ──> else a new translation, which other programs can share
//! code is mapped   ──> equal to the code that is claimed there, or new: the process stays
//!                  ──> other code: the process gets a translation of its own
//! ```
//!
//! Suitable is decided by content: every translated page is compared with the memory of the process.

use std::cell::RefCell;
use std::rc::Rc;

use cyclometer_sys::trace::{self, Registers};

use super::Tracer;
use crate::host::action::{ActionResult, TaskAction};
use crate::host::code_cache::{AT_ENTRY, CodeCacheMapping, auxiliary};
use crate::host::maps::{MapsCache, MemoryMaps};
use crate::host::maps_listing::refusal;
use crate::host::proc;
use crate::host::process::TaskMode;
use crate::host::remote_syscalls::RemoteSyscalls;
use crate::host::shared_code::Admission;
use crate::host::syscalls::{MappingCall, behind_call, remapped};
use crate::host::trace_error::{TraceError, TraceResult};
use crate::host::translation_context::TranslationContext;

/// Most translations.
const MOST_CACHES: usize = 24;

/// Most blocks of all translations without a process; each takes some 500 bytes, its code included.
const MOST_BLOCKS: u32 = 400_000;

/// Translations that programs can share, in the order of their last use.
#[derive(Default)]
pub(super) struct SharedTranslations(Vec<Rc<RefCell<CodeCacheMapping>>>);

impl SharedTranslations {
    /// A translation that suits a program; it becomes the last one used.
    fn find(&mut self, tid: u32, maps: &MemoryMaps) -> Option<Rc<RefCell<CodeCacheMapping>>> {
        let found = self.0.iter().rposition(|cache| cache.borrow().is_suitable(tid, maps))?;
        let cache = self.0.remove(found);
        self.0.push(cache.clone());
        Some(cache)
    }

    /// Adds a translation. Returns those that are removed because there are too many.
    fn add(&mut self, cache: Rc<RefCell<CodeCacheMapping>>) -> Vec<Rc<RefCell<CodeCacheMapping>>> {
        self.0.push(cache);
        self.0.retain(|cache| cache.borrow().shared_code.is_open());
        let mut removed = Vec::new();
        while self.0.len() > MOST_CACHES || self.idle_blocks() > MOST_BLOCKS {
            let idle = self.0.iter().position(is_idle);
            removed.push(self.0.remove(idle.unwrap_or(0)));
        }
        removed
    }

    /// Removes a translation, so that no other program shares it.
    pub(super) fn give_up(&mut self, cache: &Rc<RefCell<CodeCacheMapping>>) {
        self.0.retain(|known| !Rc::ptr_eq(known, cache));
    }

    /// All translations.
    pub(super) fn caches(&self) -> impl Iterator<Item = &Rc<RefCell<CodeCacheMapping>>> {
        self.0.iter()
    }

    /// Whether a translation is in the list.
    pub(super) fn holds(&self, cache: &Rc<RefCell<CodeCacheMapping>>) -> bool {
        self.0.iter().any(|known| Rc::ptr_eq(known, cache))
    }

    fn idle_blocks(&self) -> u32 {
        let idle = self.0.iter().filter(|cache| is_idle(cache));
        idle.map(|cache| cache.borrow().translation.blocks()).sum()
    }
}

/// Whether no task executes a translation.
fn is_idle(cache: &Rc<RefCell<CodeCacheMapping>>) -> bool {
    Rc::strong_count(cache) == 1
}

impl Tracer {
    /// A slot for a program that is at its first instruction.
    pub(super) fn assign_program(
        &mut self,
        tid: u32,
        registers: &Registers,
    ) -> Result<TranslationContext, TraceError> {
        let mut known = MapsCache::default();
        let maps = known.read(tid).map_err(TraceError::of_maps)?;
        let shares = !self.settings.separate && has_fixed_layout(tid);
        let found = if shares { self.shared_translations.find(tid, maps) } else { None };
        let allowance = self.tracees.allowance(tid);
        let enters = |cache: &Rc<RefCell<CodeCacheMapping>>| {
            cache.borrow().enter_program(tid, registers, maps, allowance).is_ok()
        };
        let shared = found.filter(enters);
        let cache = match shared {
            Some(cache) => {
                cache.borrow_mut().shared_code.add_program();
                cache
            }
            None => {
                let name = if shares { self.cache_name(tid, maps) } else { None };
                let stored = name.as_deref();
                let stored =
                    stored.and_then(|name| self.load_translation((tid, registers), maps, allowance, name));
                let mut cache = match stored {
                    Some(cache) => cache,
                    None => self.new_cache(tid, registers, maps, allowance, shares)?,
                };
                let entry = name.as_ref().and_then(|_| auxiliary(tid, AT_ENTRY).ok());
                cache.record.set_name(name, entry);
                let cache = Rc::new(RefCell::new(cache));
                if cache.borrow().shared_code.is_open() {
                    for removed in self.shared_translations.add(cache.clone()) {
                        self.learn_new(&removed.borrow());
                        self.store_translation(&removed);
                    }
                }
                cache
            }
        };
        cache.borrow_mut().record.add_program();
        let slot = cache.borrow_mut().take_slot().ok_or(TraceError::Gone)?;
        Ok(TranslationContext { maps: known, ..TranslationContext::new(cache, slot) })
    }

    fn new_cache(
        &mut self,
        tid: u32,
        registers: &Registers,
        maps: &MemoryMaps,
        allowance: u64,
        shares: bool,
    ) -> Result<CodeCacheMapping, TraceError> {
        let process = self.tracees.task(tid)?.process;
        let mut cache = CodeCacheMapping::new(tid, registers, maps, allowance, self.settings.translation)?;
        if shares {
            cache.open_for(process, maps);
        }
        Ok(cache)
    }

    /// A slot in a translation of its own for a new process in native state.
    pub(super) fn assign_apart(
        &self,
        child: u32,
        old: &Rc<RefCell<CodeCacheMapping>>,
    ) -> Result<TranslationContext, TraceError> {
        let near = trace::registers(child)?.rip;
        let mut cache = CodeCacheMapping::after(
            &old.borrow(),
            child,
            near,
            self.tracees.allowance(child),
            self.settings.translation,
        )?;
        let slot = cache.take_slot().ok_or(TraceError::Gone)?;
        Ok(TranslationContext::new(Rc::new(RefCell::new(cache)), slot))
    }

    /// Whether a call changes code that a process can execute, or could. In a shared translation, other code
    /// belongs to other processes.
    pub(super) fn changes_code(&mut self, tid: u32, call: &MappingCall) -> Result<bool, TraceError> {
        let (TaskMode::Translated(context) | TaskMode::Native(context)) = &mut self.tracees.task(tid)?.mode
        else {
            return Err(TraceError::Gone);
        };
        let cache = context.cache.borrow();
        let touches = |(start, end): &(u64, u64)| cache.translation.touches_fixed(*start, *end);
        let mut touched = call.ranges.iter().copied().filter(touches).peekable();
        if !cache.shared_code.is_open() || touched.peek().is_none() {
            return Ok(touched.peek().is_some());
        }
        let maps = context.maps.read(tid).map_err(TraceError::of_maps)?;
        Ok(touched.any(|(start, end)| maps.executes(start, end)))
    }

    /// Notes a call that makes the translation of a task invalid.
    pub(super) fn note_change(&mut self, tid: u32, call: &MappingCall) -> TraceResult {
        let TaskMode::Translated(context) = &mut self.tracees.task(tid)?.mode else {
            return Err(TraceError::Gone);
        };
        let maps = context.maps.read(tid).map_err(TraceError::of_maps)?;
        let mut cache = context.cache.borrow_mut();
        let ranges = call.ranges.iter();
        let pages = ranges.flat_map(|(start, end)| cache.translation.fixed_pages(*start, *end)).collect();
        cache.change_history.note(call, pages, maps);
        Ok(())
    }

    /// Makes a call that maps code, for a process with one thread in a shared translation. The new code is
    /// compared before it is executed.
    pub(super) fn map_shared_code(
        &mut self,
        tid: u32,
        call: &MappingCall,
        registers: Registers,
    ) -> ActionResult {
        let fresh = self.call_on_behalf(tid, registers)?;
        let ranges: Vec<(u64, u64)> = call.ranges.iter().copied().chain(fresh).collect();
        Ok(if self.is_admitted(tid, &ranges)? { TaskAction::Resume } else { TaskAction::Flush })
    }

    /// Whether a call maps executable memory, or changes an executable mapping.
    pub(super) fn concerns_code(&mut self, tid: u32, call: &MappingCall) -> Result<bool, TraceError> {
        let TaskMode::Translated(context) = &mut self.tracees.task(tid)?.mode else {
            return Err(TraceError::Gone);
        };
        if call.code {
            return Ok(true);
        }
        let maps = context.maps.read(tid).map_err(TraceError::of_maps)?;
        Ok(call.ranges.iter().any(|(start, end)| maps.executes(*start, *end)))
    }

    /// Whether a task's translation has code that the task cannot execute. Another process had it there, and
    /// may have ended since.
    pub(super) fn is_stale(&mut self, tid: u32) -> Result<bool, TraceError> {
        let (TaskMode::Translated(context) | TaskMode::Native(context)) = &mut self.tracees.task(tid)?.mode
        else {
            return Err(TraceError::Gone);
        };
        let maps = context.maps.read(tid).map_err(TraceError::of_maps)?;
        Ok(context.cache.borrow().has_code_outside(maps))
    }

    /// Whether a process executes a translation alone. If it is the only one, the translation is closed for
    /// others. No call can be made on behalf of a process that filters its calls.
    pub(super) fn is_sole_user(&mut self, tid: u32) -> Result<bool, TraceError> {
        let task = self.tracees.task(tid)?;
        let process = task.process;
        let TaskMode::Translated(context) = &task.mode else { return Err(TraceError::Gone) };
        let home = context.cache.clone();
        if home.borrow().shared_code.is_open() {
            self.close_if_sole_user(tid, process, &home)
        } else {
            Ok(true)
        }
    }

    /// Closes a translation, if a process is the only one that executes or has executed it, and still has all
    /// of its code. No code is claimed from then on.
    fn close_if_sole_user(
        &mut self,
        tid: u32,
        process: usize,
        home: &Rc<RefCell<CodeCacheMapping>>,
    ) -> Result<bool, TraceError> {
        let alone =
            home.borrow().shared_code.is_all_of(process) && !self.tracees.is_mapped_elsewhere(tid, home);
        let takes = alone && !self.is_stale(tid)?;
        if takes {
            home.borrow_mut().shared_code.shut();
        }
        Ok(takes)
    }

    /// Makes a system call that maps memory, on behalf of a program; returns the mapped range.
    pub(super) fn call_on_behalf(
        &mut self,
        tid: u32,
        registers: Registers,
    ) -> Result<Option<(u64, u64)>, TraceError> {
        let TaskMode::Translated(context) = &self.tracees.task(tid)?.mode else {
            return Err(TraceError::Gone);
        };
        let gadget = context.cache.borrow().gadget();
        let Registers { rax, rdi, rsi, rdx, r10, r8, r9, .. } = registers;
        let result = RemoteSyscalls::new(tid, gadget).call(rax, [rdi, rsi, rdx, r10, r8, r9]);
        self.tracees.forget_maps(tid);
        let fresh = remapped(&registers, &result);
        let rax = result.unwrap_or_else(|error| refusal(&error));
        trace::set_registers(tid, &behind_call(registers, rax))?;
        self.tracees.task(tid)?.last_pc = None;
        Ok(fresh)
    }

    /// Whether a process that has mapped code in these ranges stays where it is translated.
    pub(super) fn is_admitted(&mut self, tid: u32, ranges: &[(u64, u64)]) -> Result<bool, TraceError> {
        let task = self.tracees.task(tid)?;
        let process = task.process;
        let TaskMode::Translated(context) = &mut task.mode else { return Err(TraceError::Gone) };
        let home = context.cache.clone();
        let maps = context.maps.read(tid).map_err(TraceError::of_maps)?;
        let admission = home.borrow_mut().admit(tid, process, maps, ranges);
        let stays = match admission {
            Admission::Stays => true,
            Admission::Diverges => false,
            Admission::Exclusive => self.close_if_sole_user(tid, process, &home)?,
        };
        if !stays {
            home.borrow_mut().record.diverge();
        }
        Ok(stays)
    }
}

/// Whether a process begins with its memory laid out as in every run, and with nothing executable that is
/// only to be read.
///
/// # Source
///
/// `personality(2)`; Linux `include/uapi/linux/personality.h`.
fn has_fixed_layout(tid: u32) -> bool {
    const ADDR_NO_RANDOMIZE: u32 = 0x004_0000;
    const READ_IMPLIES_EXEC: u32 = 0x040_0000;
    let text = proc::text(format!("/proc/{tid}/personality")).unwrap_or_default();
    let persona = u32::from_str_radix(text.trim(), 16).unwrap_or(0);
    persona & (ADDR_NO_RANDOMIZE | READ_IMPLIES_EXEC) == ADDR_NO_RANDOMIZE
}

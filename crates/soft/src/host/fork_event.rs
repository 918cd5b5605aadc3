//! Fork events that wait for their child.

use std::cell::RefCell;
use std::rc::Rc;

use super::address_limits::ReportedLimits;
use super::code_cache::CodeCacheMapping;
use super::cpu_affinity::CpuBinding;
use super::thread_calls::ForkedCalls;

/// The code segment of 64-bit programs.
///
/// # Source
///
/// Linux `arch/x86/include/asm/segment.h`, `__USER_CS`.
pub(super) const USER_CS: u64 = 0x33;

/// A fork event: the state of the parent that its child inherits. The parent may be gone when the child stops
/// for the first time.
pub(super) struct ForkEvent {
    /// The id of the parent process.
    pub(super) parent: u32,
    /// For a thread, the index of its process.
    pub(super) thread_of: Option<usize>,
    /// The translation, and the parent's slot; `None` when nothing is translated yet.
    pub(super) home: Option<(Rc<RefCell<CodeCacheMapping>>, usize)>,
    pub(super) filtered: bool,
    pub(super) shares: bool,
    pub(super) trap_action: Option<[u8; 32]>,
    /// The limits that the parent was told, if they are not the real ones.
    pub(super) limits: Option<ReportedLimits>,
    /// The CPU that the child is bound to, if its parent was bound at the fork.
    pub(super) binding: Option<Rc<CpuBinding>>,
    /// The calls that the child returns from, if call paths are requested.
    pub(super) calls: Option<Rc<ForkedCalls>>,
}

impl ForkEvent {
    /// Whether the child will execute a translation.
    pub(super) fn uses(&self, cache: &Rc<RefCell<CodeCacheMapping>>) -> bool {
        self.home.as_ref().is_some_and(|(home, _)| Rc::ptr_eq(home, cache))
    }

    /// The same event for another child.
    pub(super) fn duplicate(&self) -> ForkEvent {
        let (home, binding, calls) = (self.home.clone(), self.binding.clone(), self.calls.clone());
        ForkEvent { home, binding, calls, ..*self }
    }
}

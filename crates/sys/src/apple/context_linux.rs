//! The registers of an interrupted thread, as Linux passes them to a handler.

use libc::{c_void, ucontext_t};

/// The registers of the thread that a signal interrupted. Changes take effect when the thread continues.
pub(super) struct Interrupted<'a>(&'a mut ucontext_t);

impl Interrupted<'_> {
    /// # Safety
    ///
    /// `context` is what the system passed to a handler with SA_SIGINFO, and the handler has not returned
    /// yet.
    pub(super) unsafe fn new<'a>(context: *mut c_void) -> Interrupted<'a> {
        let context = context.cast::<ucontext_t>();
        // SAFETY: the caller promises that it is a live context, which nobody else uses before the handler
        // returns.
        Interrupted(unsafe { &mut *context })
    }

    pub(super) fn x(&self, n: usize) -> u64 {
        self.0.uc_mcontext.regs[n]
    }

    pub(super) fn set_x(&mut self, n: usize, value: u64) {
        self.0.uc_mcontext.regs[n] = value;
    }

    pub(super) fn pc(&self) -> u64 {
        self.0.uc_mcontext.pc
    }

    pub(super) fn set_pc(&mut self, pc: u64) {
        self.0.uc_mcontext.pc = pc;
    }
}

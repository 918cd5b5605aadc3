//! The registers of an interrupted thread, as macOS passes them to a handler.
//!
//! # Source
//!
//! xnu `bsd/sys/_types/_ucontext.h`, `bsd/arm/_mcontext.h` (`_STRUCT_MCONTEXT64`),
//! `osfmk/mach/arm/_structs.h` (`_STRUCT_ARM_EXCEPTION_STATE64`, `_STRUCT_ARM_THREAD_STATE64` without pointer
//! authentication).

use std::mem::offset_of;

use libc::{c_int, c_void, sigset_t, stack_t};

/// `ucontext_t`.
#[repr(C)]
struct Context {
    on_stack: c_int,
    mask: sigset_t,
    stack: stack_t,
    link: *mut Context,
    machine_size: usize,
    machine: *mut MachineContext,
}

/// `_STRUCT_MCONTEXT64` without the vector registers at its end.
#[repr(C)]
struct MachineContext {
    fault_address: u64,
    syndrome: u32,
    exception: u32,
    x: [u64; 29],
    frame_pointer: u64,
    link_register: u64,
    stack_pointer: u64,
    pc: u64,
    cpsr: u32,
    flags: u32,
}

const _: () = assert!(offset_of!(Context, machine) == 48);
const _: () = assert!(offset_of!(MachineContext, x) == 16);
const _: () = assert!(offset_of!(MachineContext, pc) == 272);

/// The registers of the thread that a signal interrupted. Changes take effect when the thread continues.
pub(super) struct Interrupted<'a>(&'a mut MachineContext);

impl Interrupted<'_> {
    /// # Safety
    ///
    /// `context` is what the system passed to a handler with SA_SIGINFO, and the handler has not returned
    /// yet.
    pub(super) unsafe fn new<'a>(context: *mut c_void) -> Interrupted<'a> {
        let context = context.cast::<Context>();
        // SAFETY: the caller promises that it is a live context; the field is read where the layout above has
        // it.
        let machine = unsafe { (*context).machine };
        // SAFETY: the context points to a live machine context, which nobody else uses before the handler
        // returns.
        Interrupted(unsafe { &mut *machine })
    }

    pub(super) fn x(&self, n: usize) -> u64 {
        self.0.x[n]
    }

    pub(super) fn set_x(&mut self, n: usize, value: u64) {
        self.0.x[n] = value;
    }

    pub(super) fn pc(&self) -> u64 {
        self.0.pc
    }

    pub(super) fn set_pc(&mut self, pc: u64) {
        self.0.pc = pc;
    }
}

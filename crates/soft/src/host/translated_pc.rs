//! Positions in translated code.

use cyclometer_sys::trace::Registers;

/// The program counter of a thread in translated code, and its registers that may hold counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TranslatedPc {
    pub(crate) pc: u64,
    /// `None` where it is not known, as behind a system call: nothing counts in it there.
    pub(crate) rcx: Option<u64>,
    /// The value of r11, likewise.
    pub(crate) r11: Option<u64>,
}

impl TranslatedPc {
    /// The position with its registers.
    pub(crate) fn new(pc: u64, registers: &Registers) -> TranslatedPc {
        TranslatedPc { pc, rcx: Some(registers.rcx), r11: Some(registers.r11) }
    }

    /// A position in a system call, or right behind one.
    pub(crate) fn of_call(pc: u64) -> TranslatedPc {
        TranslatedPc { pc, rcx: None, r11: None }
    }
}

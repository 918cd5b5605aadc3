//! Access functions with one instruction for each register and direction.

use std::arch::asm;

use super::Encoding;
use super::guard::mark;

/// The result of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Answer {
    /// The value read; 0 for a write or a refused read.
    pub(super) value: u64,
    /// Whether the CPU refused the instruction, and [`super::guard`] skipped it.
    pub(super) refused: bool,
}

/// Reads a register by its assembler name.
///
/// Register x9 tells the handler of SIGILL that the instruction is ours. The handler sets x10 to report that
/// it skipped the instruction.
macro_rules! mrs {
    ($name:literal) => {{
        let (mut value, mut refused) = (0u64, 0u64);
        // SAFETY: the instruction writes one general register. Where it is undefined the kernel sends SIGILL
        // to this thread, which the handler of `guard` recognises by x9 and skips: callers hold a `Guard`.
        unsafe {
            asm!(
                concat!("mrs {value}, ", $name),
                value = inout(reg) value,
                in("x9") mark(),
                inout("x10") refused,
                options(nostack, preserves_flags),
            );
        }
        Answer { value, refused: refused != 0 }
    }};
}

/// Writes a register by its assembler name.
macro_rules! msr {
    ($name:literal, $value:expr) => {{
        let mut refused = 0u64;
        // SAFETY: the register counts events and touches no memory of the process; refusal is as in `mrs`.
        unsafe {
            asm!(
                concat!("msr ", $name, ", {value}"),
                value = in(reg) $value,
                in("x9") mark(),
                inout("x10") refused,
                options(nostack, preserves_flags),
            );
        }
        Answer { value: 0, refused: refused != 0 }
    }};
}

/// Defines the list of registers, and the two functions for exactly these registers.
macro_rules! registers {
    ($([$op0:literal, $op1:literal, $crn:literal, $crm:literal, $op2:literal] $name:literal,)*) => {
        /// All accessible registers.
        pub(super) const REGISTERS: &[Encoding] = &[$([$op0, $op1, $crn, $crm, $op2]),*];

        /// Reads a register; `None` where it is not on the list.
        pub(super) fn read(register: Encoding) -> Option<Answer> {
            match register {
                $([$op0, $op1, $crn, $crm, $op2] => Some(mrs!($name)),)*
                _ => None,
            }
        }

        /// Writes a register; `None` where it is not on the list.
        pub(super) fn write(register: Encoding, value: u64) -> Option<Answer> {
            match register {
                $([$op0, $op1, $crn, $crm, $op2] => Some(msr!($name, value)),)*
                _ => None,
            }
        }

        #[cfg(test)]
        const NAMES: &[&str] = &[$($name),*];
    };
}

// # Source
//
// AsahiLinux/docs, `docs/hw/cpu/system-registers.md`; Linux `arch/arm64/include/asm/apple_m1_pmu.h`. PMC8 is
// C9: C8 is skipped.
registers! {
    [3, 1, 15, 0, 0] "S3_1_C15_C0_0",
    [3, 1, 15, 1, 0] "S3_1_C15_C1_0",
    [3, 1, 15, 2, 0] "S3_1_C15_C2_0",
    [3, 1, 15, 3, 0] "S3_1_C15_C3_0",
    [3, 1, 15, 4, 0] "S3_1_C15_C4_0",
    [3, 1, 15, 5, 0] "S3_1_C15_C5_0",
    [3, 1, 15, 6, 0] "S3_1_C15_C6_0",
    [3, 1, 15, 13, 0] "S3_1_C15_C13_0",
    [3, 2, 15, 0, 0] "S3_2_C15_C0_0",
    [3, 2, 15, 1, 0] "S3_2_C15_C1_0",
    [3, 2, 15, 2, 0] "S3_2_C15_C2_0",
    [3, 2, 15, 3, 0] "S3_2_C15_C3_0",
    [3, 2, 15, 4, 0] "S3_2_C15_C4_0",
    [3, 2, 15, 5, 0] "S3_2_C15_C5_0",
    [3, 2, 15, 6, 0] "S3_2_C15_C6_0",
    [3, 2, 15, 7, 0] "S3_2_C15_C7_0",
    [3, 2, 15, 9, 0] "S3_2_C15_C9_0",
    [3, 2, 15, 10, 0] "S3_2_C15_C10_0",
}

/// Instruction synchronisation barrier: values written to system registers take effect from here on.
pub(super) fn barrier() {
    // SAFETY: the instruction touches neither memory nor registers.
    unsafe { asm!("isb", options(nostack, preserves_flags)) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_encodings() {
        for ([op0, op1, crn, crm, op2], name) in REGISTERS.iter().zip(NAMES) {
            assert_eq!(*name, format!("S{op0}_{op1}_C{crn}_C{crm}_{op2}"));
        }
    }

    #[test]
    fn an_access_that_is_allowed_gives_the_value_and_is_not_refused() {
        // FPCR and the virtual counter are always accessible to user mode.
        let before = mrs!("S3_3_C4_C4_0");
        assert!(!before.refused);
        let rounding = before.value ^ 1 << 22;
        assert!(!msr!("S3_3_C4_C4_0", rounding).refused);
        barrier();
        assert_eq!(mrs!("S3_3_C4_C4_0"), Answer { value: rounding, refused: false });
        assert!(!msr!("S3_3_C4_C4_0", before.value).refused);
        barrier();
        assert_ne!(mrs!("S3_3_C14_C0_2").value, 0);
    }
}

//! Questions about the processor, answered for a baseline.

use std::io;

use cyclometer_sys::trace::{self, Registers};

use super::trace_error::TraceResult;
use crate::ProcessorBaseline;
use crate::baseline::{CpuQuery, HWCAP};
use crate::translate::ANSWERED;

/// Entries of the auxiliary vector with features of the processor.
///
/// # Source
///
/// `getauxval(3)`; Linux `include/uapi/linux/auxvec.h`.
const AT_HWCAP: u64 = 16;
const AT_HWCAP2: u64 = 26;

/// The answer to a question about the processor: the registers that the instruction sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CpuAnswer {
    rax: u64,
    rdx: u64,
    /// The other two that `cpuid` sets.
    rbx_and_rcx: Option<[u64; 2]>,
}

impl CpuAnswer {
    /// The answer of a baseline to a question with these values of `eax` and `ecx`.
    ///
    /// # Errors
    ///
    /// The reason why there is none, in words that follow "the program".
    pub(super) fn of(
        baseline: &ProcessorBaseline,
        question: CpuQuery,
        [leaf, subleaf]: [u32; 2],
        cpuid: impl Fn(u32, u32) -> [u32; 4],
    ) -> Result<CpuAnswer, String> {
        match question {
            CpuQuery::Features => {
                let [rax, rbx, rcx, rdx] = baseline.cpuid(leaf, subleaf, cpuid).map(u64::from);
                Ok(CpuAnswer { rax, rdx, rbx_and_rcx: Some([rbx, rcx]) })
            }
            // Register 1 is the state in use: all of it may be.
            CpuQuery::ExtendedState if subleaf < 2 => {
                let xcr0 = baseline.xcr0();
                Ok(CpuAnswer { rax: xcr0 & 0xffff_ffff, rdx: xcr0 >> 32, rbx_and_rcx: None })
            }
            CpuQuery::ExtendedState => Err(format!("asks for extended control register {subleaf}")),
        }
    }

    /// The registers behind the instruction.
    pub(super) fn registers(self, before: Registers) -> Registers {
        let [rbx, rcx] = self.rbx_and_rcx.unwrap_or([before.rbx, before.rcx]);
        Registers { rax: self.rax, rbx, rcx, rdx: self.rdx, rip: before.rip.wrapping_add(ANSWERED), ..before }
    }
}

/// Sets the features in the auxiliary vector of a new program to those of the baseline. `stack` is its stack
/// pointer.
pub(super) fn set_hwcap(tid: u32, stack: u64) -> TraceResult {
    for (key, value) in [(AT_HWCAP, u64::from(HWCAP)), (AT_HWCAP2, 0)] {
        if let Some(at) = find_entry(key, stack, |at| trace::peek(tid, at))? {
            trace::write_memory(tid, at, &value.to_le_bytes())?;
        }
    }
    Ok(())
}

/// Most words of arguments and environment.
const MOST_WORDS: u64 = 1 << 22;

/// The address of an entry's value on the stack of a program at its first instruction.
///
/// # Source
///
/// System V ABI, AMD64 supplement, section 3.4.1: the number of arguments, arguments, 0, environment, 0,
/// entries.
fn find_entry(key: u64, stack: u64, read: impl Fn(u64) -> io::Result<u64>) -> io::Result<Option<u64>> {
    let arguments = read(stack)?.min(MOST_WORDS);
    let mut at = stack + 8 * (arguments + 2);
    let mut words = 0;
    while read(at)? != 0 && words < MOST_WORDS {
        (at, words) = (at + 8, words + 1);
    }
    at += 8;
    for _ in 0..64 {
        match read(at)? {
            0 => break,
            found if found == key => return Ok(Some(at + 8)),
            _ => at += 16,
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_baseline_answers_for_every_leaf_and_for_the_extended_state_in_use() {
        let ask = |question, values| {
            CpuAnswer::of(&ProcessorBaseline::X86_64V2, question, values, |_, _| [u32::MAX; 4])
        };
        let state = ask(CpuQuery::ExtendedState, [0, 1]).unwrap();
        assert_eq!((state.rax, state.rdx, state.rbx_and_rcx), (0b11, 0, None));
        let features = ask(CpuQuery::Features, [1, 0]).unwrap();
        assert!(features.rbx_and_rcx.is_some_and(|[_, rcx]| rcx < u32::MAX.into()), "{features:?}");
        let refused = ask(CpuQuery::ExtendedState, [0, 2]).unwrap_err();
        assert_eq!(refused, "asks for extended control register 2");
    }

    #[test]
    fn an_entry_is_found_behind_arguments_and_environment() {
        let stack = [2, 0x10, 0x20, 0, 0x30, 0, AT_HWCAP, 5, AT_HWCAP2, 6, 0, 0];
        let read = |at: u64| Ok(stack[(at / 8) as usize]);
        assert_eq!(find_entry(AT_HWCAP, 0, read).unwrap(), Some(8 * 7));
        assert_eq!(find_entry(AT_HWCAP2, 0, read).unwrap(), Some(8 * 9));
        assert_eq!(find_entry(33, 0, read).unwrap(), None);
    }
}

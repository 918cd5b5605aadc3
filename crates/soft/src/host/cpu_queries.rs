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

/// The registers of a program behind its `cpuid` or `xgetbv`, answered from the baseline.
///
/// # Errors
///
/// The reason why the question cannot be answered, in words that follow "the program".
pub(super) fn answered(
    baseline: &ProcessorBaseline,
    question: CpuQuery,
    registers: Registers,
    cpuid: impl Fn(u32, u32) -> [u32; 4],
) -> Result<Registers, String> {
    let (leaf, subleaf) = (registers.rax as u32, registers.rcx as u32);
    let rip = registers.rip.wrapping_add(ANSWERED);
    match question {
        CpuQuery::Features => {
            let [rax, rbx, rcx, rdx] = baseline.cpuid(leaf, subleaf, cpuid).map(u64::from);
            Ok(Registers { rax, rbx, rcx, rdx, rip, ..registers })
        }
        // Register 1 is the state in use: all of it may be.
        CpuQuery::ExtendedState if subleaf < 2 => {
            let xcr0 = baseline.xcr0();
            Ok(Registers { rax: xcr0 & 0xffff_ffff, rdx: xcr0 >> 32, rip, ..registers })
        }
        CpuQuery::ExtendedState => Err(format!("asks for extended control register {subleaf}")),
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
    fn a_query_is_answered_behind_the_instruction_and_an_unknown_register_is_refused() {
        let baseline = ProcessorBaseline::X86_64V2;
        let registers = Registers { rip: 100, rax: 0, rcx: 0, rbx: 7, ..Registers::default() };
        let ask =
            |question, rcx| answered(&baseline, question, Registers { rcx, ..registers }, |_, _| [9; 4]);
        let state = ask(CpuQuery::ExtendedState, 1).unwrap();
        assert_eq!((state.rip, state.rax, state.rbx), (100 + ANSWERED, baseline.xcr0() & 0xffff_ffff, 7));
        assert_eq!(ask(CpuQuery::Features, 0).unwrap().rip, 100 + ANSWERED);
        let refused = ask(CpuQuery::ExtendedState, 2).unwrap_err();
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

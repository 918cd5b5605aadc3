//! The kernels of riscv64.
//!
//! `rounds` is never 0. Each block is one loop: its last two instructions count down and branch back.

use std::arch::asm;

use crate::counts::{INCREMENT, MULTIPLIER};
use crate::memory::{CacheLine, PointerChain};

pub(crate) const HERE: bool = true;

#[inline(never)]
pub(crate) fn additions(rounds: u64) {
    // SAFETY: it changes no memory and only registers that are declared; its jumps stay within the block.
    unsafe {
        asm!(
            "2:",
            "addi {sum}, {sum}, 1",
            "addi {sum}, {sum}, 1",
            "addi {sum}, {sum}, 1",
            "addi {sum}, {sum}, 1",
            "addi {sum}, {sum}, 1",
            "addi {sum}, {sum}, 1",
            "addi {sum}, {sum}, 1",
            "addi {sum}, {sum}, 1",
            "addi {sum}, {sum}, 1",
            "addi {sum}, {sum}, 1",
            "addi {sum}, {sum}, 1",
            "addi {sum}, {sum}, 1",
            "addi {sum}, {sum}, 1",
            "addi {sum}, {sum}, 1",
            "addi {sum}, {sum}, 1",
            "addi {sum}, {sum}, 1",
            "addi {rounds}, {rounds}, -1",
            "bnez {rounds}, 2b",
            rounds = inout(reg) rounds => _,
            sum = inout(reg) 0u64 => _,
            options(nomem, nostack),
        );
    }
}

#[inline(never)]
pub(crate) fn jumps(rounds: u64) {
    // SAFETY: it changes no memory and only registers that are declared; its jumps stay within the block.
    unsafe {
        asm!(
            "2:",
            "j 3f",
            "nop",
            "3:",
            "j 3f",
            "nop",
            "3:",
            "j 3f",
            "nop",
            "3:",
            "j 3f",
            "nop",
            "3:",
            "addi {rounds}, {rounds}, -1",
            "bnez {rounds}, 2b",
            rounds = inout(reg) rounds => _,
            options(nomem, nostack),
        );
    }
}

#[inline(never)]
pub(crate) fn not_taken(rounds: u64) {
    // SAFETY: it changes no memory and only registers that are declared; its jumps stay within the block.
    unsafe {
        asm!(
            "2:",
            "nop",
            "bnez {zero}, 9f",
            "nop",
            "bnez {zero}, 9f",
            "nop",
            "bnez {zero}, 9f",
            "nop",
            "bnez {zero}, 9f",
            "addi {rounds}, {rounds}, -1",
            "bnez {rounds}, 2b",
            "9:",
            rounds = inout(reg) rounds => _,
            zero = in(reg) 0u64,
            options(nomem, nostack),
        );
    }
}

#[inline(never)]
pub(crate) fn random(rounds: u64, first: u64) {
    // SAFETY: it changes no memory and only registers that are declared; its jumps stay within the block.
    unsafe {
        asm!(
            "2:",
            "mul {number}, {number}, {multiplier}",
            "add {number}, {number}, {increment}",
            "nop",
            "bltz {number}, 3f",
            "3:",
            "addi {rounds}, {rounds}, -1",
            "bnez {rounds}, 2b",
            rounds = inout(reg) rounds => _,
            number = inout(reg) first => _,
            multiplier = in(reg) MULTIPLIER,
            increment = in(reg) INCREMENT,
            options(nomem, nostack),
        );
    }
}

#[inline(never)]
pub(crate) fn calls(rounds: u64) {
    // SAFETY: it changes no memory and only registers that are declared, that of return addresses among them;
    // its jumps stay within the block.
    unsafe {
        asm!(
            "j 2f",
            "4:",
            "ret",
            "2:",
            "jal ra, 4b",
            "addi {rounds}, {rounds}, -1",
            "bnez {rounds}, 2b",
            rounds = inout(reg) rounds => _,
            out("ra") _,
            options(nomem, nostack),
        );
    }
}

#[inline(never)]
pub(crate) fn indirect_calls(rounds: u64) {
    // SAFETY: it changes no memory and only registers that are declared, that of return addresses among them;
    // its jumps stay within the block.
    unsafe {
        asm!(
            "lla t1, 4f",
            "j 2f",
            "4:",
            "ret",
            "2:",
            "jalr ra, 0(t1)",
            "addi {rounds}, {rounds}, -1",
            "bnez {rounds}, 2b",
            rounds = inout(reg) rounds => _,
            out("t1") _,
            out("ra") _,
            options(nomem, nostack),
        );
    }
}

#[inline(never)]
pub(crate) fn indirect_jumps(rounds: u64) {
    // SAFETY: it changes no memory and only registers that are declared; its jumps stay within the block.
    unsafe {
        asm!(
            "lla t1, 5f",
            "2:",
            "jr t1",
            "5:",
            "addi {rounds}, {rounds}, -1",
            "bnez {rounds}, 2b",
            rounds = inout(reg) rounds => _,
            out("t1") _,
            options(nomem, nostack),
        );
    }
}

#[inline(never)]
pub(crate) fn loads(rounds: u64, line: &CacheLine) {
    // SAFETY: it reads the eight words of `line`, which is borrowed, and changes only registers that are
    // declared.
    unsafe {
        asm!(
            "2:",
            "ld {value}, 0({line})",
            "ld {value}, 8({line})",
            "ld {value}, 16({line})",
            "ld {value}, 24({line})",
            "ld {value}, 32({line})",
            "ld {value}, 40({line})",
            "ld {value}, 48({line})",
            "ld {value}, 56({line})",
            "addi {rounds}, {rounds}, -1",
            "bnez {rounds}, 2b",
            rounds = inout(reg) rounds => _,
            line = in(reg) line.0.as_ptr(),
            value = out(reg) _,
            options(readonly, nostack),
        );
    }
}

#[inline(never)]
pub(crate) fn stores(rounds: u64, line: &mut CacheLine) {
    // SAFETY: it writes the eight words of `line`, which is borrowed mutably, and changes only registers that
    // are declared.
    unsafe {
        asm!(
            "2:",
            "sd {value}, 0({line})",
            "sd {value}, 8({line})",
            "sd {value}, 16({line})",
            "sd {value}, 24({line})",
            "sd {value}, 32({line})",
            "sd {value}, 40({line})",
            "sd {value}, 48({line})",
            "sd {value}, 56({line})",
            "addi {rounds}, {rounds}, -1",
            "bnez {rounds}, 2b",
            rounds = inout(reg) rounds => _,
            line = in(reg) line.0.as_mut_ptr(),
            value = in(reg) rounds,
            options(nostack),
        );
    }
}

#[inline(never)]
pub(crate) fn copies(rounds: u64, line: &mut CacheLine) {
    // SAFETY: it reads and writes the eight words of `line`, which is borrowed mutably, and changes only
    // registers that are declared.
    unsafe {
        asm!(
            "2:",
            "ld {value}, 0({line})",
            "sd {value}, 32({line})",
            "ld {value}, 8({line})",
            "sd {value}, 40({line})",
            "ld {value}, 16({line})",
            "sd {value}, 48({line})",
            "ld {value}, 24({line})",
            "sd {value}, 56({line})",
            "addi {rounds}, {rounds}, -1",
            "bnez {rounds}, 2b",
            rounds = inout(reg) rounds => _,
            line = in(reg) line.0.as_mut_ptr(),
            value = out(reg) _,
            options(nostack),
        );
    }
}

#[inline(never)]
pub(crate) fn chase(rounds: u64, chain: &PointerChain) {
    // SAFETY: every word that it reads is a link of `chain`, which is borrowed: the first by `first`, each
    // other because links hold addresses of links. It changes only registers that are declared.
    unsafe {
        asm!(
            "2:",
            "ld {link}, 0({link})",
            "ld {link}, 0({link})",
            "ld {link}, 0({link})",
            "ld {link}, 0({link})",
            "addi {rounds}, {rounds}, -1",
            "bnez {rounds}, 2b",
            rounds = inout(reg) rounds => _,
            link = inout(reg) chain.first() => _,
            options(readonly, nostack),
        );
    }
}

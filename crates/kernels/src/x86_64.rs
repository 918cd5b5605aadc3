//! The kernels of x86-64.
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
            "add {sum}, 1",
            "add {sum}, 1",
            "add {sum}, 1",
            "add {sum}, 1",
            "add {sum}, 1",
            "add {sum}, 1",
            "add {sum}, 1",
            "add {sum}, 1",
            "add {sum}, 1",
            "add {sum}, 1",
            "add {sum}, 1",
            "add {sum}, 1",
            "add {sum}, 1",
            "add {sum}, 1",
            "add {sum}, 1",
            "add {sum}, 1",
            "dec {rounds}",
            "jnz 2b",
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
            "jmp 3f",
            "nop",
            "3:",
            "jmp 3f",
            "nop",
            "3:",
            "jmp 3f",
            "nop",
            "3:",
            "jmp 3f",
            "nop",
            "3:",
            "dec {rounds}",
            "jnz 2b",
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
            "test {zero}, {zero}",
            "jnz 9f",
            "test {zero}, {zero}",
            "jnz 9f",
            "test {zero}, {zero}",
            "jnz 9f",
            "test {zero}, {zero}",
            "jnz 9f",
            "dec {rounds}",
            "jnz 2b",
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
            "imul {number}, {multiplier}",
            "add {number}, {increment}",
            "test {number}, {number}",
            "js 3f",
            "3:",
            "dec {rounds}",
            "jnz 2b",
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
    // SAFETY: it changes only registers that are declared and the stack below its pointer, which the call and
    // its return leave as they found it; its jumps stay within the block.
    unsafe {
        asm!(
            "jmp 2f",
            "4:",
            "ret",
            "2:",
            "call 4b",
            "dec {rounds}",
            "jnz 2b",
            rounds = inout(reg) rounds => _,
        );
    }
}

#[inline(never)]
pub(crate) fn indirect_calls(rounds: u64) {
    // SAFETY: it changes only registers that are declared and the stack below its pointer, which the call and
    // its return leave as they found it; its jumps stay within the block.
    unsafe {
        asm!(
            "lea {target}, [rip + 4f]",
            "jmp 2f",
            "4:",
            "ret",
            "2:",
            "call {target}",
            "dec {rounds}",
            "jnz 2b",
            rounds = inout(reg) rounds => _,
            target = out(reg) _,
        );
    }
}

#[inline(never)]
pub(crate) fn indirect_jumps(rounds: u64) {
    // SAFETY: it changes no memory and only registers that are declared; its jumps stay within the block.
    unsafe {
        asm!(
            "lea {target}, [rip + 5f]",
            "2:",
            "jmp {target}",
            "5:",
            "dec {rounds}",
            "jnz 2b",
            rounds = inout(reg) rounds => _,
            target = out(reg) _,
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
            "mov {value}, [{line} + 0]",
            "mov {value}, [{line} + 8]",
            "mov {value}, [{line} + 16]",
            "mov {value}, [{line} + 24]",
            "mov {value}, [{line} + 32]",
            "mov {value}, [{line} + 40]",
            "mov {value}, [{line} + 48]",
            "mov {value}, [{line} + 56]",
            "dec {rounds}",
            "jnz 2b",
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
            "mov [{line} + 0], {value}",
            "mov [{line} + 8], {value}",
            "mov [{line} + 16], {value}",
            "mov [{line} + 24], {value}",
            "mov [{line} + 32], {value}",
            "mov [{line} + 40], {value}",
            "mov [{line} + 48], {value}",
            "mov [{line} + 56], {value}",
            "dec {rounds}",
            "jnz 2b",
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
            "mov {value}, [{line} + 0]",
            "mov [{line} + 32], {value}",
            "mov {value}, [{line} + 8]",
            "mov [{line} + 40], {value}",
            "mov {value}, [{line} + 16]",
            "mov [{line} + 48], {value}",
            "mov {value}, [{line} + 24]",
            "mov [{line} + 56], {value}",
            "dec {rounds}",
            "jnz 2b",
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
            "mov {link}, [{link}]",
            "mov {link}, [{link}]",
            "mov {link}, [{link}]",
            "mov {link}, [{link}]",
            "dec {rounds}",
            "jnz 2b",
            rounds = inout(reg) rounds => _,
            link = inout(reg) chain.first() => _,
            options(readonly, nostack),
        );
    }
}

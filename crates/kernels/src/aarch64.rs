//! The kernels of arm64.
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
            "add {sum}, {sum}, #1",
            "add {sum}, {sum}, #1",
            "add {sum}, {sum}, #1",
            "add {sum}, {sum}, #1",
            "add {sum}, {sum}, #1",
            "add {sum}, {sum}, #1",
            "add {sum}, {sum}, #1",
            "add {sum}, {sum}, #1",
            "add {sum}, {sum}, #1",
            "add {sum}, {sum}, #1",
            "add {sum}, {sum}, #1",
            "add {sum}, {sum}, #1",
            "add {sum}, {sum}, #1",
            "add {sum}, {sum}, #1",
            "add {sum}, {sum}, #1",
            "add {sum}, {sum}, #1",
            "subs {rounds}, {rounds}, #1",
            "b.ne 2b",
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
            "b 3f",
            "nop",
            "3:",
            "b 3f",
            "nop",
            "3:",
            "b 3f",
            "nop",
            "3:",
            "b 3f",
            "nop",
            "3:",
            "subs {rounds}, {rounds}, #1",
            "b.ne 2b",
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
            "cbnz {zero}, 9f",
            "nop",
            "cbnz {zero}, 9f",
            "nop",
            "cbnz {zero}, 9f",
            "nop",
            "cbnz {zero}, 9f",
            "subs {rounds}, {rounds}, #1",
            "b.ne 2b",
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
            "tbnz {number}, #63, 3f",
            "3:",
            "subs {rounds}, {rounds}, #1",
            "b.ne 2b",
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
    // SAFETY: it changes no memory and only registers that are declared, the link register among them; its
    // jumps stay within the block.
    unsafe {
        asm!(
            "b 2f",
            "4:",
            "ret",
            "2:",
            "bl 4b",
            "subs {rounds}, {rounds}, #1",
            "b.ne 2b",
            rounds = inout(reg) rounds => _,
            out("lr") _,
            options(nomem, nostack),
        );
    }
}

#[inline(never)]
pub(crate) fn indirect_calls(rounds: u64) {
    // SAFETY: it changes no memory and only registers that are declared, the link register among them; its
    // jumps stay within the block.
    unsafe {
        asm!(
            "adr {target}, 4f",
            "b 2f",
            "4:",
            "ret",
            "2:",
            "blr {target}",
            "subs {rounds}, {rounds}, #1",
            "b.ne 2b",
            rounds = inout(reg) rounds => _,
            target = out(reg) _,
            out("lr") _,
            options(nomem, nostack),
        );
    }
}

#[inline(never)]
pub(crate) fn indirect_jumps(rounds: u64) {
    // SAFETY: it changes no memory and only registers that are declared; its jumps stay within the block.
    unsafe {
        asm!(
            "adr {target}, 5f",
            "2:",
            "br {target}",
            "5:",
            "subs {rounds}, {rounds}, #1",
            "b.ne 2b",
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
            "ldr {value}, [{line}, #0]",
            "ldr {value}, [{line}, #8]",
            "ldr {value}, [{line}, #16]",
            "ldr {value}, [{line}, #24]",
            "ldr {value}, [{line}, #32]",
            "ldr {value}, [{line}, #40]",
            "ldr {value}, [{line}, #48]",
            "ldr {value}, [{line}, #56]",
            "subs {rounds}, {rounds}, #1",
            "b.ne 2b",
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
            "str {value}, [{line}, #0]",
            "str {value}, [{line}, #8]",
            "str {value}, [{line}, #16]",
            "str {value}, [{line}, #24]",
            "str {value}, [{line}, #32]",
            "str {value}, [{line}, #40]",
            "str {value}, [{line}, #48]",
            "str {value}, [{line}, #56]",
            "subs {rounds}, {rounds}, #1",
            "b.ne 2b",
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
            "ldr {value}, [{line}, #0]",
            "str {value}, [{line}, #32]",
            "ldr {value}, [{line}, #8]",
            "str {value}, [{line}, #40]",
            "ldr {value}, [{line}, #16]",
            "str {value}, [{line}, #48]",
            "ldr {value}, [{line}, #24]",
            "str {value}, [{line}, #56]",
            "subs {rounds}, {rounds}, #1",
            "b.ne 2b",
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
            "ldr {link}, [{link}]",
            "ldr {link}, [{link}]",
            "ldr {link}, [{link}]",
            "ldr {link}, [{link}]",
            "subs {rounds}, {rounds}, #1",
            "b.ne 2b",
            rounds = inout(reg) rounds => _,
            link = inout(reg) chain.first() => _,
            options(readonly, nostack),
        );
    }
}

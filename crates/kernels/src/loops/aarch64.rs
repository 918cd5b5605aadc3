//! The loops of recipes on AArch64.
//!
//! Registers: `x9` counts rounds, `x3` is [`LoopArguments::read`], `x4` is `write`, `x5` is `mask`, `x6` is
//! `other`, `x10` is `number`, `x11` is the generator's multiplier, `x12` is `increment`. `d0` to `d5` begin
//! as 1.0, `x13` to `x16` as they are.

use std::arch::asm;

use super::{LoopArguments, LoopCode, RecipeLoop};
use crate::counts::MULTIPLIER;
use crate::recipe::InstructionSet;

pub(crate) const HOST: Option<InstructionSet> = Some(InstructionSet::Aarch64);

/// Whether this CPU has fused multiply-adds: every one has.
pub(crate) fn has_fused_multiply_add() -> bool {
    true
}

/// Loops of lines before the first round and lines of each round.
macro_rules! loops {
    ($($name:ident { $($before:literal)* } [ $($round:literal)* ])*) => {
        /// The code of a loop, where the instruction set has it.
        pub(crate) fn code_of(it: RecipeLoop) -> Option<LoopCode> {
            Some(match it {
                $(RecipeLoop::$name => {
                    #[inline(never)]
                    unsafe fn run(rounds: u64, arguments: &mut LoopArguments) {
                        // SAFETY: the caller guarantees that the arguments are the memory that this loop
                        // reads and writes. It changes only registers that are declared, and the stack below
                        // its pointer, which it leaves as it found it; its jumps stay within the block.
                        unsafe {
                            asm!(
                                $($before,)*
                                "2:",
                                $($round,)*
                                "subs x9, x9, #1",
                                "nop",
                                "b.ne 2b",
                                "9:",
                                inout("x9") rounds => _,
                                inout("x3") arguments.read,
                                inout("x4") arguments.write => _,
                                inout("x5") arguments.mask => _,
                                inout("x6") arguments.other => _,
                                inout("x10") arguments.number,
                                inout("x11") MULTIPLIER => _,
                                inout("x12") arguments.increment => _,
                                out("x0") _,
                                out("x1") _,
                                out("x2") _,
                                out("x8") _,
                                out("x13") _,
                                out("x14") _,
                                out("x15") _,
                                out("x16") _,
                                out("x30") _,
                                inout("v0") 1.0f64 => _,
                                inout("v1") 1.0f64 => _,
                                inout("v2") 1.0f64 => _,
                                inout("v3") 1.0f64 => _,
                                inout("v4") 1.0f64 => _,
                                inout("v5") 1.0f64 => _,
                            );
                        }
                    }
                    run
                })*
                RecipeLoop::JumpRing => jump_ring,
                _ => return None,
            })
        }
    };
}

/// Runs a ring of jumps, which counts rounds itself.
#[inline(never)]
unsafe fn jump_ring(rounds: u64, arguments: &mut LoopArguments) {
    // SAFETY: the caller guarantees that `read` is the begin of a function of `recipe::ring`, which changes
    // only the register of the rounds and returns.
    unsafe {
        asm!(
            "blr x3",
            inout("x9") rounds => _,
            in("x3") arguments.read,
            out("x30") _,
        );
    }
}

loops! {
    Empty {} []
    Nops {} [".rept 16" "nop" ".endr"]
    Adds {} [".rept 4" "add x13, x13, #1" "add x14, x14, #1" "add x15, x15, #1" "add x16, x16, #1" ".endr"]
    Multiplies {} [
        ".rept 2" "mul x13, x13, x11" "mul x14, x14, x11" "mul x15, x15, x11" "mul x16, x16, x11" ".endr"
    ]
    Divides { "mov x13, #1" "mov x14, #1" } [".rept 4" "udiv x13, x13, x14" ".endr"]
    FewDivides { "mov x13, #1" "mov x14, #1" } [
        ".rept 2" "udiv x13, x13, x14" ".endr" ".rept 4" "add x15, x15, #1" ".endr"
    ]
    Moves {} [".rept 4" "mov x13, x10" "mov x14, x11" "mov x15, x13" "mov x16, x14" ".endr"]
    FewMoves {} [".rept 4" "mov x13, x10" "add x14, x14, #1" ".endr"]
    Zeros {} [".rept 4" "mov x13, #0" "mov x14, #0" "mov x15, #0" "mov x16, #0" ".endr"]
    FewZeros {} [".rept 4" "mov x13, #0" "add x14, x14, #1" ".endr"]
    FloatAdds {} [".rept 2" "fadd d0, d0, d4" "fadd d1, d1, d4" "fadd d2, d2, d4" "fadd d3, d3, d4" ".endr"]
    FloatMultiplies {} [
        ".rept 2" "fmul d0, d0, d4" "fmul d1, d1, d4" "fmul d2, d2, d4" "fmul d3, d3, d4" ".endr"
    ]
    FloatDivides {} ["fdiv d0, d0, d4" "fdiv d1, d1, d4" "fdiv d2, d2, d4" "fdiv d3, d3, d4"]
    FusedMultiplyAdds {} [
        ".rept 2" "fmadd d0, d4, d5, d0" "fmadd d1, d4, d5, d1" "fmadd d2, d4, d5, d2"
        "fmadd d3, d4, d5, d3" ".endr"
    ]
    FewFusedMultiplyAdds {} [
        "fmadd d0, d4, d5, d0" "fmadd d1, d4, d5, d1" ".rept 2" "fadd d2, d2, d4" "fadd d3, d3, d4" ".endr"
    ]
    FloatSequence {} [
        "fadd d0, d0, d4" "fadd d1, d1, d4" "fadd d2, d2, d4" "fmul d3, d3, d4" "fmul d0, d0, d4"
        "fdiv d1, d1, d4"
    ]
    SimdIntegers {} [
        ".rept 2" "add v0.4s, v0.4s, v4.4s" "add v1.4s, v1.4s, v4.4s" "add v2.4s, v2.4s, v4.4s"
        "add v3.4s, v3.4s, v4.4s" ".endr"
    ]
    SimdFloats {} [
        ".rept 2" "fadd v0.2d, v0.2d, v4.2d" "fadd v1.2d, v1.2d, v4.2d" "fadd v2.2d, v2.2d, v4.2d"
        "fadd v3.2d, v3.2d, v4.2d" ".endr"
    ]
    SimdFusedMultiplyAdds {} [
        "fmla v0.2d, v4.2d, v5.2d" "fmla v1.2d, v4.2d, v5.2d" "fmla v2.2d, v4.2d, v5.2d"
        "fmla v3.2d, v4.2d, v5.2d"
    ]
    SimdSequence {} [
        "add v0.4s, v0.4s, v4.4s" "add v1.4s, v1.4s, v4.4s" "add v2.4s, v2.4s, v4.4s"
        "fadd v3.2d, v3.2d, v4.2d"
    ]
    Loads {} [
        "ldr x13, [x3, #0]" "ldr x13, [x3, #8]" "ldr x13, [x3, #16]" "ldr x13, [x3, #24]"
        "ldr x13, [x3, #32]" "ldr x13, [x3, #40]" "ldr x13, [x3, #48]" "ldr x13, [x3, #56]"
    ]
    Stores {} [
        "str x10, [x4, #0]" "str x10, [x4, #8]" "str x10, [x4, #16]" "str x10, [x4, #24]"
        "str x10, [x4, #32]" "str x10, [x4, #40]" "str x10, [x4, #48]" "str x10, [x4, #56]"
    ]
    Copies {} [
        "ldr x13, [x3, #0]" "str x13, [x4, #0]" "ldr x13, [x3, #8]" "str x13, [x4, #8]" "ldr x13, [x3, #16]"
        "str x13, [x4, #16]" "ldr x13, [x3, #24]" "str x13, [x4, #24]"
    ]
    SimdLoads {} [
        ".rept 2" "ldr q0, [x3, #0]" "ldr q1, [x3, #16]" "ldr q2, [x3, #32]" "ldr q3, [x3, #48]" ".endr"
    ]
    SimdStores {} ["str q0, [x4, #0]" "str q1, [x4, #16]" "str q2, [x4, #32]" "str q3, [x4, #48]"]
    SimdCopies {} ["ldr q0, [x3]" "str q0, [x4]" "ldr q1, [x3, #16]" "str q1, [x4, #16]"]
    PairLoads {} [
        "ldp x13, x14, [x3, #0]" "ldp x13, x14, [x3, #16]" "ldp x13, x14, [x3, #32]"
        "ldp x13, x14, [x3, #48]"
    ]
    PairStores {} [
        "stp x10, x11, [x4, #0]" "stp x10, x11, [x4, #16]" "stp x10, x11, [x4, #32]"
        "stp x10, x11, [x4, #48]"
    ]
    Chase {} [".rept 4" "ldr x3, [x3]" ".endr"]
    FewLinks {} ["ldr x3, [x3]" ".rept 4" "add x13, x13, #1" ".endr"]
    RandomStores {} [
        ".rept 2" "mul x10, x10, x11" "add x10, x10, x12" "and x10, x10, x5" "str x13, [x4, x10]" ".endr"
    ]
    StoreBurst {} [
        ".rept 16" "mul x10, x10, x11" "add x10, x10, x12" "and x10, x10, x5" "str x13, [x4, x10]" ".endr"
    ]
    RandomUpdates {} [
        "mul x10, x10, x11" "add x10, x10, x12" "and x10, x10, x5" "ldr x13, [x4, x10]" "add x13, x13, #1"
        "str x13, [x4, x10]"
    ]
    WrongPath {} [
        "mul x10, x10, x11" "add x10, x10, x12" "lsr x13, x10, #8" "and x13, x13, x6" "add x13, x13, x4"
        "tst x10, x5" "csel x14, x3, x13, ne" "csel x15, x13, x3, ne" "and x16, x10, x5" ".rept 8"
        "mul x16, x16, x11" ".endr" "cmp x16, #0" "nop" "b.eq 3f" "ldr x13, [x14]" "3:" "b.ne 4f"
        "ldr x13, [x15]" "4:"
    ]
    LoadsAt {} [".rept 8" "ldr x13, [x3]" ".endr"]
    StoresAt {} [".rept 4" "str x10, [x4]" ".endr"]
    Forwards {} [".rept 4" "str x10, [x4]" "ldr x13, [x3]" ".endr"]
    FewForwards {} ["str x10, [x4]" "ldr x13, [x3]" ".rept 4" "add x14, x14, #1" ".endr"]
    LateStores {} [
        "mul x10, x10, x11" "add x10, x10, x12" "lsr x13, x10, #40" "and x13, x13, x5" "add x13, x13, x4"
        ".rept 6" "mul x13, x13, x6" ".endr" "str x10, [x13]" "ldr x14, [x4]"
    ]
    NeverTaken { "mov x13, #0" } [".rept 4" "cmp x13, #0" "nop" "b.ne 9f" ".endr"]
    AlwaysTaken { "mov x13, #0" } [".rept 4" "cmp x13, #0" "nop" "b.eq 3f" "nop" "3:" ".endr"]
    Alternating { "mov x13, #0" "mov x14, #1" } [".rept 2" "subs x13, x14, x13" "nop" "b.eq 3f" "3:" ".endr"]
    RandomBranch {} [
        "mul x10, x10, x11" "add x10, x10, x12" "tst x10, x5" "nop" "b.eq 3f" "3:" "b.ne 4f" "4:"
    ]
    IndirectJump { "adr x6, 5f" } [
        "mul x10, x10, x11" "add x10, x10, x12" "lsr x13, x10, #51" "and x13, x13, x5" "add x13, x13, x6"
        "br x13" ".balign 16" "5:" ".rept 16" "b 6f" ".balign 16" ".endr" "6:"
    ]
    IndirectCall {
        "adr x6, 4f" "b 2f" ".balign 16" "4:" ".rept 16" "ret" ".balign 16" ".endr"
    } [
        "mul x10, x10, x11" "add x10, x10, x12" "lsr x13, x10, #51" "and x13, x13, x5" "add x13, x13, x6" "blr x13"
    ]
    Jumps {} [".rept 4" "b 3f" "nop" "3:" ".endr"]
    Calls { "b 2f" "4:" "ret" } ["bl 4b"]
    IndirectCalls { "adr x13, 4f" "b 2f" "4:" "ret" } [".rept 2" "blr x13" ".endr"]
    ReturnsAlone {} ["adr x30, 3f" "ret" "3:"]
    CallsAlone {} ["bl 3f" "nop" "3:"]
    ReturnsElsewhere { "b 2f" "4:" "add x30, x14, #0" "ret" } ["adr x14, 5f" "bl 4b" "nop" "5:"]
    ThriceElsewhere { "b 2f" "4:" "add x30, x14, #0" "ret" } [
        ".rept 3" "adr x14, 5f" "bl 4b" "nop" "5:" ".endr"
    ]
    Recursion { "b 2f" "4:" "str x30, [sp, #-16]!" "subs x13, x13, #1" "nop" "b.eq 5f" "bl 4b" "5:" "ldr x30, [sp], #16" "ret" } [
        "mov x13, #64" "bl 4b"
    ]
    MemoryBarriers {} [".rept 4" "dmb ish" ".endr"]
    InstructionBarriers {} [".rept 2" "isb" ".endr"]
    Atomics {} [".rept 4" "ldxr x13, [x4]" "stxr w14, x13, [x4]" ".endr"]
    FewAtomics {} ["ldaxr x13, [x4]" "stlxr w14, x13, [x4]"]
    ExclusiveFailures {} [".rept 4" "clrex" "stxr w14, x13, [x4]" ".endr"]
    FewExclusiveFailures {} ["clrex" "stxr w14, x13, [x4]" ".rept 4" "add x15, x15, #1" ".endr"]
    SystemCall {} ["mov x8, #173" "svc #0"]
    TwoSystemCalls {} [".rept 2" "mov x8, #173" "svc #0" ".endr"]
    PageTouch {} ["mov x0, x4" "mov x1, x3" "mov x2, x5" "mov x8, #233" "svc #0" "str x10, [x4]"]
    TwoPages {} [
        "mov x0, x4" "mov x1, x3" "mov x2, x5" "mov x8, #233" "svc #0" "str x10, [x4]" "str x10, [x4, x6]"
    ]
    Chain {} [".rept 16" "mul x13, x13, x11" ".endr"]
    MixArithmetic {} [
        "add x13, x13, #1" "mul x14, x14, x11" "add x15, x15, #1" "fadd d0, d0, d4" "nop" "add x16, x16, #1"
        "fadd d1, d1, d4" "add x13, x13, #1" "mul x14, x14, x11" "nop" "fadd d2, d2, d4" "add x15, x15, #1"
    ]
    MixMemory {} [
        "ldr x13, [x3]" "str x10, [x4]" "ldr x14, [x3, #8]" "add x15, x15, #1" "ldr x13, [x3, #16]"
        "str x10, [x4, #8]" "ldr x14, [x3, #24]" "add x16, x16, #1" "str x10, [x4, #16]"
        "ldr x13, [x3, #32]"
    ]
    MixBranches {} [
        "mul x10, x10, x11" "add x10, x10, x12" "tst x10, x5" "nop" "b.eq 3f" "3:" "b.ne 4f" "4:"
        "ldr x13, [x3]" "ldr x14, [x3, #8]" "b 3f" "nop" "3:"
    ]
    MixChase {} [
        "ldr x3, [x3]" "add x13, x13, #1" "add x14, x14, #1" "ldr x3, [x3]" "add x15, x15, #1"
        "str x10, [x4]" "add x16, x16, #1"
    ]
    MixCalls { "mov x15, #0" "b 2f" "4:" "ret" } [
        "bl 4b" "ldr x13, [x3]" "cmp x15, #0" "nop" "b.ne 9f" "ldr x14, [x3, #8]"
    ]
    MixSimd {} [
        "add v0.4s, v0.4s, v4.4s" "fmul d1, d1, d4" "ldr q2, [x3]" "fadd v3.2d, v3.2d, v4.2d"
        "add v0.4s, v0.4s, v4.4s" "fmul d1, d1, d4"
    ]
    MixSynchronised {} [
        "ldxr x13, [x4]" "stxr w14, x13, [x4]" "add x15, x15, #1" "dmb ish" "add x16, x16, #1"
        "ldxr x13, [x4]" "stxr w14, x13, [x4]" "add x15, x15, #1"
    ]
    MixIndirect { "adr x6, 5f" } [
        "mul x10, x10, x11" "add x10, x10, x12" "lsr x13, x10, #51" "and x13, x13, x5" "add x13, x13, x6"
        "br x13" ".balign 16" "5:" ".rept 16" "b 6f" ".balign 16" ".endr" "6:" "str x10, [x4]"
        "str x10, [x4, #8]"
    ]
}

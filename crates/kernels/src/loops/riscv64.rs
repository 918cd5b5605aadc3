//! The loops of recipes on RV64GC.
//!
//! Registers: `t0` counts rounds, `t1` is [`LoopArguments::read`], `t2` is `write`, `t3` is `mask`, `t4` is
//! `other`, `t5` is `number`, `t6` is the generator's multiplier, `a5` is `increment`. `ft0` to `ft5` begin
//! as 1.0. Addresses of labels are two instructions, which linkers must not shorten.

use std::arch::asm;

use super::{LoopArguments, LoopCode, RecipeLoop};
use crate::counts::MULTIPLIER;
use crate::recipe::InstructionSet;

pub(crate) const HOST: Option<InstructionSet> = Some(InstructionSet::Riscv64);

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
                                "addi t0, t0, -1",
                                "nop",
                                "bnez t0, 2b",
                                "9:",
                                inout("t0") rounds => _,
                                inout("t1") arguments.read,
                                inout("t2") arguments.write => _,
                                inout("t3") arguments.mask => _,
                                inout("t4") arguments.other => _,
                                inout("t5") arguments.number,
                                inout("t6") MULTIPLIER => _,
                                inout("a5") arguments.increment => _,
                                out("a0") _,
                                out("a1") _,
                                out("a2") _,
                                out("a3") _,
                                out("a4") _,
                                out("a6") _,
                                out("a7") _,
                                out("s2") _,
                                out("ra") _,
                                inout("ft0") 1.0f64 => _,
                                inout("ft1") 1.0f64 => _,
                                inout("ft2") 1.0f64 => _,
                                inout("ft3") 1.0f64 => _,
                                inout("ft4") 1.0f64 => _,
                                inout("ft5") 1.0f64 => _,
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
            "jalr ra, 0(t1)",
            inout("t0") rounds => _,
            in("t1") arguments.read,
            out("ra") _,
        );
    }
}

loops! {
    Empty {} []
    Nops {} [".rept 16" "nop" ".endr"]
    Adds {} [".rept 4" "addi a3, a3, 1" "addi a4, a4, 1" "addi a6, a6, 1" "addi s2, s2, 1" ".endr"]
    Multiplies {} [".rept 2" "mul a3, a3, t6" "mul a4, a4, t6" "mul a6, a6, t6" "mul s2, s2, t6" ".endr"]
    Divides { "li a3, 1" "li a4, 1" } [".rept 4" "divu a3, a3, a4" ".endr"]
    FewDivides { "li a3, 1" "li a4, 1" } [
        ".rept 2" "divu a3, a3, a4" ".endr" ".rept 4" "addi a6, a6, 1" ".endr"
    ]
    FloatAdds {} [
        ".rept 2" "fadd.d ft0, ft0, ft4" "fadd.d ft1, ft1, ft4" "fadd.d ft2, ft2, ft4"
        "fadd.d ft3, ft3, ft4" ".endr"
    ]
    FloatMultiplies {} [
        ".rept 2" "fmul.d ft0, ft0, ft4" "fmul.d ft1, ft1, ft4" "fmul.d ft2, ft2, ft4"
        "fmul.d ft3, ft3, ft4" ".endr"
    ]
    FloatDivides {} [
        "fdiv.d ft0, ft0, ft4" "fdiv.d ft1, ft1, ft4" "fdiv.d ft2, ft2, ft4" "fdiv.d ft3, ft3, ft4"
    ]
    FusedMultiplyAdds {} [
        ".rept 2" "fmadd.d ft0, ft4, ft5, ft0" "fmadd.d ft1, ft4, ft5, ft1" "fmadd.d ft2, ft4, ft5, ft2"
        "fmadd.d ft3, ft4, ft5, ft3" ".endr"
    ]
    FewFusedMultiplyAdds {} [
        "fmadd.d ft0, ft4, ft5, ft0" "fmadd.d ft1, ft4, ft5, ft1" ".rept 2" "fadd.d ft2, ft2, ft4"
        "fadd.d ft3, ft3, ft4" ".endr"
    ]
    FloatSequence {} [
        "fadd.d ft0, ft0, ft4" "fadd.d ft1, ft1, ft4" "fadd.d ft2, ft2, ft4" "fmul.d ft3, ft3, ft4"
        "fmul.d ft0, ft0, ft4" "fdiv.d ft1, ft1, ft4"
    ]
    Loads {} [
        "ld a3, 0(t1)" "ld a3, 8(t1)" "ld a3, 16(t1)" "ld a3, 24(t1)" "ld a3, 32(t1)" "ld a3, 40(t1)"
        "ld a3, 48(t1)" "ld a3, 56(t1)"
    ]
    Stores {} [
        "sd t5, 0(t2)" "sd t5, 8(t2)" "sd t5, 16(t2)" "sd t5, 24(t2)" "sd t5, 32(t2)" "sd t5, 40(t2)"
        "sd t5, 48(t2)" "sd t5, 56(t2)"
    ]
    Copies {} [
        "ld a3, 0(t1)" "sd a3, 0(t2)" "ld a3, 8(t1)" "sd a3, 8(t2)" "ld a3, 16(t1)" "sd a3, 16(t2)"
        "ld a3, 24(t1)" "sd a3, 24(t2)"
    ]
    Chase {} [".rept 4" "ld t1, 0(t1)" ".endr"]
    FewLinks {} ["ld t1, 0(t1)" ".rept 4" "addi a3, a3, 1" ".endr"]
    RandomStores {} [
        ".rept 2" "mul t5, t5, t6" "add t5, t5, a5" "and t5, t5, t3" "add a3, t2, t5" "sd a4, 0(a3)" ".endr"
    ]
    StoreBurst {} [
        ".rept 16" "mul t5, t5, t6" "add t5, t5, a5" "and t5, t5, t3" "add a3, t2, t5" "sd a4, 0(a3)"
        ".endr"
    ]
    RandomUpdates {} [
        "mul t5, t5, t6" "add t5, t5, a5" "and t5, t5, t3" "add a3, t2, t5" "ld a4, 0(a3)" "addi a4, a4, 1"
        "sd a4, 0(a3)"
    ]
    LoadsAt {} [".rept 8" "ld a3, 0(t1)" ".endr"]
    StoresAt {} [".rept 4" "sd t5, 0(t2)" ".endr"]
    Forwards {} [".rept 4" "sd t5, 0(t2)" "ld a3, 0(t1)" ".endr"]
    FewForwards {} ["sd t5, 0(t2)" "ld a3, 0(t1)" ".rept 4" "addi a4, a4, 1" ".endr"]
    LateStores {} [
        "mul t5, t5, t6" "add t5, t5, a5" "srli a3, t5, 40" "and a3, a3, t3" "add a3, a3, t2" ".rept 6"
        "mul a3, a3, t4" ".endr" "sd t5, 0(a3)" "ld a4, 0(t2)"
    ]
    NeverTaken { "li a3, 0" } [".rept 4" "nop" "nop" "bnez a3, 9f" ".endr"]
    AlwaysTaken { "li a3, 0" } [".rept 4" "nop" "nop" "beqz a3, 3f" "nop" "3:" ".endr"]
    Alternating { "li a3, 0" } [".rept 2" "xori a3, a3, 1" "nop" "beqz a3, 3f" "3:" ".endr"]
    RandomBranch {} [
        "mul t5, t5, t6" "add t5, t5, a5" "and a3, t5, t3" "nop" "beqz a3, 3f" "3:" "bnez a3, 4f" "4:"
    ]
    IndirectJump { ".option push" ".option norelax" "lla t4, 5f" ".option pop" } [
        "mul t5, t5, t6" "add t5, t5, a5" "srli a3, t5, 51" "and a3, a3, t3" "add a3, a3, t4" "jr a3"
        ".balign 16" "5:" ".rept 16" "j 6f" ".balign 16" ".endr" "6:"
    ]
    IndirectCall {
        ".option push" ".option norelax" "lla t4, 4f" ".option pop" "j 2f" ".balign 16" "4:" ".rept 16" "ret" ".balign 16" ".endr"
    } [
        "mul t5, t5, t6" "add t5, t5, a5" "srli a3, t5, 51" "and a3, a3, t3" "add a3, a3, t4" "jalr ra, 0(a3)"
    ]
    Jumps {} [".rept 4" "j 3f" "nop" "3:" ".endr"]
    Calls { "j 2f" "4:" "ret" } ["jal ra, 4b"]
    IndirectCalls { ".option push" ".option norelax" "lla a4, 4f" ".option pop" "j 2f" "4:" "ret" } [
        ".rept 2" "jalr ra, 0(a4)" ".endr"
    ]
    ReturnsAlone {} [".option push" ".option norelax" "lla ra, 3f" ".option pop" "ret" "3:"]
    CallsAlone {} ["jal ra, 3f" "nop" "3:"]
    ReturnsElsewhere { "j 2f" "4:" "addi ra, a4, 0" "ret" } [
        ".option push" ".option norelax" "lla a4, 5f" ".option pop" "jal ra, 4b" "nop" "5:"
    ]
    ThriceElsewhere { "j 2f" "4:" "addi ra, a4, 0" "ret" } [
        ".rept 3" ".option push" ".option norelax" "lla a4, 5f" ".option pop" "jal ra, 4b" "nop" "5:"
        ".endr"
    ]
    Recursion { "j 2f" "4:" "addi sp, sp, -16" "sd ra, 0(sp)" "addi a4, a4, -1" "nop" "beqz a4, 5f" "jal ra, 4b" "5:" "ld ra, 0(sp)" "addi sp, sp, 16" "ret" } [
        "li a4, 64" "jal ra, 4b"
    ]
    MemoryBarriers {} [".rept 4" "fence rw, rw" ".endr"]
    InstructionBarriers {} [".rept 2" "fence.i" ".endr"]
    Atomics {} [".rept 4" "amoswap.d a3, t5, (t2)" ".endr"]
    FewAtomics {} ["amoswap.d.aqrl a3, t5, (t2)"]
    ExclusiveFailures {} [".rept 4" "sc.d a3, t5, (t2)" ".endr"]
    FewExclusiveFailures {} ["sc.d a3, t5, (t2)" ".rept 4" "addi a4, a4, 1" ".endr"]
    SystemCall {} ["li a7, 173" "ecall"]
    TwoSystemCalls {} [".rept 2" "li a7, 173" "ecall" ".endr"]
    PageTouch {} ["mv a0, t2" "mv a1, t1" "mv a2, t3" "li a7, 233" "ecall" "sd t5, 0(t2)"]
    TwoPages {} [
        "mv a0, t2" "mv a1, t1" "mv a2, t3" "li a7, 233" "ecall" "sd t5, 0(t2)" "add a3, t2, t4"
        "sd t5, 0(a3)"
    ]
    Chain {} [".rept 16" "mul a3, a3, t6" ".endr"]
    MixArithmetic {} [
        "addi a3, a3, 1" "mul a4, a4, t6" "addi a6, a6, 1" "fadd.d ft0, ft0, ft4" "nop" "addi s2, s2, 1"
        "fadd.d ft1, ft1, ft4" "addi a3, a3, 1" "mul a4, a4, t6" "nop" "fadd.d ft2, ft2, ft4"
        "addi a6, a6, 1"
    ]
    MixMemory {} [
        "ld a3, 0(t1)" "sd t5, 0(t2)" "ld a4, 8(t1)" "addi a6, a6, 1" "ld a3, 16(t1)" "sd t5, 8(t2)"
        "ld a4, 24(t1)" "addi s2, s2, 1" "sd t5, 16(t2)" "ld a3, 32(t1)"
    ]
    MixBranches {} [
        "mul t5, t5, t6" "add t5, t5, a5" "and a3, t5, t3" "nop" "beqz a3, 3f" "3:" "bnez a3, 4f" "4:"
        "ld a3, 0(t1)" "ld a4, 8(t1)" "j 3f" "nop" "3:"
    ]
    MixChase {} [
        "ld t1, 0(t1)" "addi a3, a3, 1" "addi a4, a4, 1" "ld t1, 0(t1)" "addi a6, a6, 1" "sd t5, 0(t2)"
        "addi s2, s2, 1"
    ]
    MixCalls { "li a6, 0" "j 2f" "4:" "ret" } [
        "jal ra, 4b" "ld a3, 0(t1)" "nop" "nop" "bnez a6, 9f" "ld a4, 8(t1)"
    ]
    MixSynchronised {} [
        "amoswap.d a3, t5, (t2)" "addi a4, a4, 1" "fence rw, rw" "addi a6, a6, 1" "amoswap.d a3, t5, (t2)"
        "addi a4, a4, 1"
    ]
    MixIndirect { ".option push" ".option norelax" "lla t4, 5f" ".option pop" } [
        "mul t5, t5, t6" "add t5, t5, a5" "srli a3, t5, 51" "and a3, a3, t3" "add a3, a3, t4" "jr a3"
        ".balign 16" "5:" ".rept 16" "j 6f" ".balign 16" ".endr" "6:" "sd t5, 0(t2)" "sd t5, 8(t2)"
    ]
}

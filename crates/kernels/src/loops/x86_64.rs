//! The loops of recipes on x86-64.
//!
//! Registers: `r8` counts rounds, `rsi` is [`LoopArguments::read`], `rdi` is `write`, `rdx` is
//! `mask`, `r12` is `other`, `r9` is `number`, `r10` is the generator's multiplier, `r11`
//! is `increment`. `xmm0` to `xmm5` begin as 1.0, `rax` and `rcx` as 1.

use std::arch::asm;

use super::{LoopArguments, LoopCode, RecipeLoop};
use crate::counts::MULTIPLIER;
use crate::recipe::InstructionSet;

pub(crate) const HOST: Option<InstructionSet> = Some(InstructionSet::X86_64);

/// Whether this CPU has fused multiply-adds.
pub(crate) fn has_fused_multiply_add() -> bool {
    std::arch::is_x86_feature_detected!("fma")
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
                                "dec r8",
                                "nop",
                                "jnz 2b",
                                "9:",
                                inout("r8") rounds => _,
                                inout("rsi") arguments.read,
                                inout("rdi") arguments.write => _,
                                inout("rdx") arguments.mask => _,
                                inout("r12") arguments.other => _,
                                inout("r9") arguments.number,
                                inout("r10") MULTIPLIER => _,
                                inout("r11") arguments.increment => _,
                                inout("rax") 1u64 => _,
                                inout("rcx") 1u64 => _,
                                out("r13") _,
                                out("r14") _,
                                inout("xmm0") 1.0f64 => _,
                                inout("xmm1") 1.0f64 => _,
                                inout("xmm2") 1.0f64 => _,
                                inout("xmm3") 1.0f64 => _,
                                inout("xmm4") 1.0f64 => _,
                                inout("xmm5") 1.0f64 => _,
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
            "call rsi",
            inout("r8") rounds => _,
            in("rsi") arguments.read,
        );
    }
}

loops! {
    Empty {} []
    Nops {} [".rept 16" "nop" ".endr"]
    LongNops {} [".rept 8" "nop word ptr [rax + rax + 512]" ".endr"]
    Adds {} [".rept 4" "add rax, 1" "add rcx, 1" "add r13, 1" "add r14, 1" ".endr"]
    Multiplies {} [".rept 2" "imul rax, r10" "imul rcx, r10" "imul r13, r10" "imul r14, r10" ".endr"]
    Divides { "xor edx, edx" } [".rept 4" "div rcx" ".endr"]
    FewDivides { "xor edx, edx" } [".rept 2" "div rcx" ".endr" ".rept 4" "add r13, 1" ".endr"]
    Moves {} [".rept 4" "mov rax, r9" "mov rcx, r10" "mov r13, rax" "mov r14, rcx" ".endr"]
    FewMoves {} [".rept 4" "mov rax, r9" "add rcx, 1" ".endr"]
    Zeros {} [".rept 4" "xor eax, eax" "xor ecx, ecx" "xor r13d, r13d" "xor r14d, r14d" ".endr"]
    FewZeros {} [".rept 4" "xor eax, eax" "add rcx, 1" ".endr"]
    FloatAdds {} [
        ".rept 2" "addsd xmm0, xmm4" "addsd xmm1, xmm4" "addsd xmm2, xmm4" "addsd xmm3, xmm4" ".endr"
    ]
    FloatMultiplies {} [
        ".rept 2" "mulsd xmm0, xmm4" "mulsd xmm1, xmm4" "mulsd xmm2, xmm4" "mulsd xmm3, xmm4" ".endr"
    ]
    FloatDivides {} ["divsd xmm0, xmm4" "divsd xmm1, xmm4" "divsd xmm2, xmm4" "divsd xmm3, xmm4"]
    FusedMultiplyAdds {} [
        ".rept 2" "vfmadd231sd xmm0, xmm4, xmm5" "vfmadd231sd xmm1, xmm4, xmm5"
        "vfmadd231sd xmm2, xmm4, xmm5" "vfmadd231sd xmm3, xmm4, xmm5" ".endr"
    ]
    FewFusedMultiplyAdds {} [
        "vfmadd231sd xmm0, xmm4, xmm5" "vfmadd231sd xmm1, xmm4, xmm5" ".rept 2" "vaddsd xmm2, xmm2, xmm4"
        "vaddsd xmm3, xmm3, xmm4" ".endr"
    ]
    FloatSequence {} [
        "addsd xmm0, xmm4" "addsd xmm1, xmm4" "addsd xmm2, xmm4" "mulsd xmm3, xmm4" "mulsd xmm0, xmm4"
        "divsd xmm1, xmm4"
    ]
    SimdIntegers {} [
        ".rept 2" "paddd xmm0, xmm4" "paddd xmm1, xmm4" "paddd xmm2, xmm4" "paddd xmm3, xmm4" ".endr"
    ]
    SimdFloats {} [
        ".rept 2" "addpd xmm0, xmm4" "addpd xmm1, xmm4" "addpd xmm2, xmm4" "addpd xmm3, xmm4" ".endr"
    ]
    SimdFusedMultiplyAdds {} [
        "vfmadd231pd xmm0, xmm4, xmm5" "vfmadd231pd xmm1, xmm4, xmm5" "vfmadd231pd xmm2, xmm4, xmm5"
        "vfmadd231pd xmm3, xmm4, xmm5"
    ]
    SimdSequence {} ["paddd xmm0, xmm4" "paddd xmm1, xmm4" "paddd xmm2, xmm4" "addpd xmm3, xmm4"]
    Loads {} [
        "mov rax, [rsi + 0]" "mov rax, [rsi + 8]" "mov rax, [rsi + 16]" "mov rax, [rsi + 24]"
        "mov rax, [rsi + 32]" "mov rax, [rsi + 40]" "mov rax, [rsi + 48]" "mov rax, [rsi + 56]"
    ]
    Stores {} [
        "mov [rdi + 0], r9" "mov [rdi + 8], r9" "mov [rdi + 16], r9" "mov [rdi + 24], r9"
        "mov [rdi + 32], r9" "mov [rdi + 40], r9" "mov [rdi + 48], r9" "mov [rdi + 56], r9"
    ]
    Copies {} [
        "mov rax, [rsi + 0]" "mov [rdi + 0], rax" "mov rax, [rsi + 8]" "mov [rdi + 8], rax"
        "mov rax, [rsi + 16]" "mov [rdi + 16], rax" "mov rax, [rsi + 24]" "mov [rdi + 24], rax"
    ]
    Updates {} [
        "add qword ptr [rdi + 0], 1" "add qword ptr [rdi + 16], 1" "add qword ptr [rdi + 32], 1"
        "add qword ptr [rdi + 48], 1"
    ]
    SimdLoads {} [
        ".rept 2" "movaps xmm0, [rsi + 0]" "movaps xmm1, [rsi + 16]" "movaps xmm2, [rsi + 32]"
        "movaps xmm3, [rsi + 48]" ".endr"
    ]
    SimdStores {} [
        "movaps [rdi + 0], xmm0" "movaps [rdi + 16], xmm1" "movaps [rdi + 32], xmm2"
        "movaps [rdi + 48], xmm3"
    ]
    SimdCopies {} [
        "movaps xmm0, [rsi]" "movaps [rdi], xmm0" "movaps xmm1, [rsi + 16]" "movaps [rdi + 16], xmm1"
    ]
    Chase {} [".rept 4" "mov rsi, [rsi]" ".endr"]
    FewLinks {} ["mov rsi, [rsi]" ".rept 4" "add rax, 1" ".endr"]
    RandomStores {} [".rept 2" "imul r9, r10" "add r9, r11" "and r9, rdx" "mov [rdi + r9], rax" ".endr"]
    StoreBurst {} [".rept 16" "imul r9, r10" "add r9, r11" "and r9, rdx" "mov [rdi + r9], rax" ".endr"]
    RandomUpdates {} [
        "imul r9, r10" "add r9, r11" "and r9, rdx" "mov rax, [rdi + r9]" "add rax, 1" "mov [rdi + r9], rax"
    ]
    WrongPath {} [
        "imul r9, r10" "add r9, r11" "lea rax, [r9 + r9]" "shr rax, 9" "and rax, r12" "add rax, rdi"
        "test r9, rdx" "lea r13, [rax]" "cmovnz r13, rsi" "lea r14, [rsi]" "cmovnz r14, rax" "lea rcx, [r9]"
        "and rcx, rdx" ".rept 8" "imul rcx, r10" ".endr" "test rcx, rcx" "nop" "jz 3f" "mov rax, [r13]" "3:"
        "jnz 4f" "mov rax, [r14]" "4:"
    ]
    LoadsAt {} [".rept 8" "mov rax, [rsi]" ".endr"]
    StoresAt {} [".rept 4" "mov [rdi], r9" ".endr"]
    Forwards {} [".rept 4" "mov [rdi], r9" "mov rax, [rsi]" ".endr"]
    FewForwards {} ["mov [rdi], r9" "mov rax, [rsi]" ".rept 4" "add rcx, 1" ".endr"]
    LateStores {} [
        "imul r9, r10" "add r9, r11" "lea rax, [r9 + r9]" "shr rax, 40" "and rax, rdx" "add rax, rdi"
        ".rept 6" "imul rax, r12" ".endr" "mov [rax], r9" "mov rcx, [rdi]"
    ]
    NeverTaken { "xor eax, eax" } [".rept 4" "test rax, rax" "nop" "jnz 9f" ".endr"]
    AlwaysTaken { "xor eax, eax" } [".rept 4" "test rax, rax" "nop" "jz 3f" "nop" "3:" ".endr"]
    Alternating { "xor eax, eax" } [".rept 2" "xor rax, 1" "nop" "jz 3f" "3:" ".endr"]
    RandomBranch {} ["imul r9, r10" "add r9, r11" "test r9, rdx" "nop" "jz 3f" "3:" "jnz 4f" "4:"]
    IndirectJump { "lea r12, [rip + 5f]" } [
        "imul r9, r10" "add r9, r11" "lea rax, [r9 + r9]" "shr rax, 52" "and rax, rdx" "add rax, r12"
        "jmp rax" ".balign 16" "5:" ".rept 16" "jmp 6f" ".balign 16" ".endr" "6:"
    ]
    IndirectCall {
        "lea r12, [rip + 4f]" "jmp 2f" ".balign 16" "4:" ".rept 16" "ret" ".balign 16" ".endr"
    } [
        "imul r9, r10" "add r9, r11" "lea rax, [r9 + r9]" "shr rax, 52" "and rax, rdx" "add rax, r12" "call rax"
    ]
    Jumps {} [".rept 4" "jmp 3f" "nop" "3:" ".endr"]
    Calls { "jmp 2f" "4:" "ret" } ["call 4b"]
    IndirectCalls { "lea r12, [rip + 4f]" "jmp 2f" "4:" "ret" } [".rept 2" "call r12" ".endr"]
    ReturnsAlone {} ["lea r12, [rip + 3f]" "push r12" "ret" "3:"]
    CallsAlone {} ["call 3f" "nop" "3:" "add rsp, 8"]
    ReturnsElsewhere { "jmp 2f" "4:" "mov [rsp], r12" "ret" } ["lea r12, [rip + 5f]" "call 4b" "nop" "5:"]
    ThriceElsewhere { "jmp 2f" "4:" "mov [rsp], r12" "ret" } [
        ".rept 3" "lea r12, [rip + 5f]" "call 4b" "nop" "5:" ".endr"
    ]
    Recursion { "jmp 2f" "4:" "dec rcx" "nop" "jz 5f" "call 4b" "5:" "ret" } ["mov ecx, 64" "call 4b"]
    MemoryBarriers {} [".rept 4" "mfence" ".endr"]
    InstructionBarriers {} [".rept 2" "lfence" ".endr"]
    Atomics {} [".rept 4" "lock add qword ptr [rdi], 1" ".endr"]
    FewAtomics {} ["xchg [rdi], rax"]
    SystemCall {} ["mov eax, 110" "syscall"]
    TwoSystemCalls {} [".rept 2" "mov eax, 110" "syscall" ".endr"]
    PageTouch {} ["mov eax, 28" "syscall" "mov [rdi], r9"]
    TwoPages {} ["mov eax, 28" "syscall" "mov [rdi], r9" "mov [rdi + r12], r9"]
    Chain {} [".rept 16" "imul rax, r10" ".endr"]
    MixArithmetic {} [
        "add rax, 1" "imul rcx, r10" "add r13, 1" "addsd xmm0, xmm4" "nop" "add r14, 1" "addsd xmm1, xmm4"
        "add rax, 1" "imul rcx, r10" "nop" "addsd xmm2, xmm4" "add r13, 1"
    ]
    MixMemory {} [
        "mov rax, [rsi]" "mov [rdi], r9" "mov rcx, [rsi + 8]" "add r13, 1" "mov rax, [rsi + 16]"
        "mov [rdi + 8], r9" "mov rcx, [rsi + 24]" "add r14, 1" "mov [rdi + 16], r9" "mov rax, [rsi + 32]"
    ]
    MixBranches {} [
        "imul r9, r10" "add r9, r11" "test r9, rdx" "nop" "jz 3f" "3:" "jnz 4f" "4:" "mov rax, [rsi]"
        "mov rcx, [rsi + 8]" "jmp 3f" "nop" "3:"
    ]
    MixChase {} [
        "mov rsi, [rsi]" "add rax, 1" "add rcx, 1" "mov rsi, [rsi]" "add r13, 1" "mov [rdi], r9"
        "add r14, 1"
    ]
    MixCalls { "xor r13d, r13d" "jmp 2f" "4:" "ret" } [
        "call 4b" "mov rax, [rsi]" "test r13, r13" "nop" "jnz 9f" "mov rcx, [rsi + 8]"
    ]
    MixSimd {} [
        "paddd xmm0, xmm4" "mulsd xmm1, xmm4" "movaps xmm2, [rsi]" "addpd xmm3, xmm4" "paddd xmm0, xmm4"
        "mulsd xmm1, xmm4"
    ]
    MixSynchronised {} [
        "lock add qword ptr [rdi], 1" "add rax, 1" "mfence" "add rcx, 1" "lock add qword ptr [rdi], 1"
        "add r13, 1"
    ]
    MixIndirect { "lea r12, [rip + 5f]" } [
        "imul r9, r10" "add r9, r11" "lea rax, [r9 + r9]" "shr rax, 52" "and rax, rdx" "add rax, r12"
        "jmp rax" ".balign 16" "5:" ".rept 16" "jmp 6f" ".balign 16" ".endr" "6:" "mov [rdi], r9"
        "mov [rdi + 8], r9"
    ]
}

//! Short cases: bytes, what they are, what they count.

use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory, Register};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::cell::Cell;

use super::*;
use crate::addend::{ElementMask, MaskedElements, StringIteration};

mod cross_check;

pub(crate) use cross_check::encodings;

fn decode(bytes: &[u8]) -> Instruction {
    Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).decode()
}

/// The counts of hexadecimal bytes, and the instruction.
#[track_caller]
fn class_of(hex: &str) -> InstructionCounts {
    let bytes: Vec<u8> = hex.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    let instruction = decode(&bytes);
    assert_eq!(instruction.len(), bytes.len(), "{hex} is one instruction");
    classify(&instruction, InstructionInfoFactory::new().info(&instruction))
}

/// The counts as text, without the one instruction.
fn text(events: &EventTally) -> String {
    let name = |(event, count): (ExecutionEvent, u32)| match (event, count) {
        (ExecutionEvent::Instructions, 1) => None,
        (event, 1) => Some(event.to_string()),
        (event, count) => Some(format!("{event}={count}")),
    };
    events.compact().iter().filter_map(name).collect::<Vec<_>>().join(" ")
}

/// One instruction, with these counts beside.
#[track_caller]
fn check(hex: &str, assembly: &str, counts: &str) {
    let class = class_of(hex);
    assert_eq!(class.events.of(ExecutionEvent::Instructions), 1, "{assembly}");
    assert_eq!(text(&class.events), counts, "{assembly}");
    let conditional = class.events.of(ExecutionEvent::ConditionalBranches) > 0;
    assert_eq!(class.addend, conditional.then_some(Addend::Direction), "{assembly}");
}

/// A repeated string instruction: loads, stores, bytes loaded, bytes stored of an iteration.
#[track_caller]
fn check_repeated(hex: &str, assembly: &str, iteration: [u8; 4]) {
    let class = class_of(hex);
    assert_eq!(text(&class.events), "rep_instructions", "{assembly}");
    let [loads, stores, bytes_loaded, bytes_stored] = iteration;
    let expected = StringIteration { loads, stores, bytes_loaded, bytes_stored };
    assert_eq!(class.addend, Some(Addend::Iterations(expected)), "{assembly}");
}

/// A masked access: elements, bytes of each.
#[track_caller]
fn check_masked(hex: &str, assembly: &str, counts: &str, mask: ElementMask, lanes: u8, element_bytes: u8) {
    let class = class_of(hex);
    assert_eq!(text(&class.events), counts, "{assembly}");
    let stores = class.events.of(ExecutionEvent::Stores) > 0;
    let event = if stores { ExecutionEvent::BytesStored } else { ExecutionEvent::BytesLoaded };
    let expected = MaskedElements { event, mask, lanes, element_bytes };
    assert_eq!(class.addend, Some(Addend::Elements(expected)), "{assembly}");
}

#[test]
fn moves_and_arithmetic_count_their_memory_operands() {
    check("89 d8", "mov eax, ebx", "");
    check("48 8b 07", "mov rax, [rdi]", "loads bytes_loaded=8");
    check("88 07", "mov [rdi], al", "stores bytes_stored");
    check("48 01 07", "add [rdi], rax", "loads stores bytes_loaded=8 bytes_stored=8");
    check("48 03 07", "add rax, [rdi]", "loads bytes_loaded=8");
    check("48 83 3f 00", "cmp qword ptr [rdi], 0", "loads bytes_loaded=8");
    check("0f b6 07", "movzx eax, byte ptr [rdi]", "loads bytes_loaded");
    check("48 0f a3 07", "bt [rdi], rax", "loads bytes_loaded=8");
    check("d7", "xlatb", "loads bytes_loaded");
    check("a0 88 77 66 55 44 33 22 11", "movabs al, [0x1122334455667788]", "loads bytes_loaded");
    check("0f 38 f0 07", "movbe eax, [rdi]", "loads bytes_loaded=4");
    check("f3 48 0f b8 07", "popcnt rax, [rdi]", "loads bytes_loaded=8");
    check("f2 0f 38 f0 07", "crc32 eax, byte ptr [rdi]", "loads bytes_loaded");
    check("48 0f c3 07", "movnti [rdi], rax", "stores bytes_stored=8");
    check("48 0f 38 f9 07", "movdiri [rdi], rax", "stores bytes_stored=8");
    check("66 0f 38 f8 07", "movdir64b rax, [rdi]", "loads stores bytes_loaded=64 bytes_stored=64");
    check("64 48 8b 04 25 28 00 00 00", "mov rax, fs:[0x28]", "loads bytes_loaded=8");
}

#[test]
fn the_stack_is_memory() {
    check("50", "push rax", "stores bytes_stored=8");
    check("58", "pop rax", "loads bytes_loaded=8");
    check("ff 37", "push qword ptr [rdi]", "loads stores bytes_loaded=8 bytes_stored=8");
    check("8f 07", "pop qword ptr [rdi]", "loads stores bytes_loaded=8 bytes_stored=8");
    check("9c", "pushfq", "stores bytes_stored=8");
    check("9d", "popfq", "loads bytes_loaded=8");
    check("c8 10 00 00", "enter 16, 0", "stores bytes_stored=8");
    check("c8 10 00 03", "enter 16, 3", "loads=2 stores=4 bytes_loaded=16 bytes_stored=32");
    check("c9", "leave", "loads bytes_loaded=8");
}

#[test]
fn branches_count_by_kind() {
    check(
        "e8 00 00 00 00",
        "call .+5",
        "basic_blocks branches branches_taken branches_direct calls stores bytes_stored=8",
    );
    check(
        "ff d0",
        "call rax",
        "basic_blocks branches branches_taken branches_indirect calls calls_indirect stores bytes_stored=8",
    );
    check(
        "ff 17",
        "call [rdi]",
        "basic_blocks branches branches_taken branches_indirect calls calls_indirect loads stores bytes_loaded=8 bytes_stored=8",
    );
    check("c3", "ret", "basic_blocks branches branches_taken returns loads bytes_loaded=8");
    check("c2 08 00", "ret 8", "basic_blocks branches branches_taken returns loads bytes_loaded=8");
    check("f3 c3", "repz ret", "basic_blocks branches branches_taken returns loads bytes_loaded=8");
    check("eb 00", "jmp .+2", "basic_blocks branches branches_taken branches_direct");
    check("ff e0", "jmp rax", "basic_blocks branches branches_taken branches_indirect");
    check(
        "ff 27",
        "jmp [rdi]",
        "basic_blocks branches branches_taken branches_indirect loads bytes_loaded=8",
    );
    check("f2 ff e0", "bnd jmp rax", "basic_blocks branches branches_taken branches_indirect");
    check("74 00", "je .+2", "basic_blocks branches branches_conditional branches_direct");
    check("e3 00", "jrcxz .+2", "basic_blocks branches branches_conditional branches_direct");
    check("e2 00", "loop .+2", "basic_blocks branches branches_conditional branches_direct");
}

#[test]
fn an_operand_without_access_counts_nothing() {
    check("48 8d 47 08", "lea rax, [rdi+8]", "");
    check("90", "nop", "nops");
    check("0f 1f 00", "nop dword ptr [rax+0]", "nops");
    check("66 0f 1a 07", "bndmov bnd0, [rdi]", "nops");
    check("f3 90", "pause", "");
    check("f3 0f 1e fa", "endbr64", "");
    check("0f 18 0f", "prefetcht0 [rdi]", "");
    check("0f ae 3f", "clflush [rdi]", "");
    check("66 0f ae 3f", "clflushopt [rdi]", "");
    check("0f 1c 07", "cldemote [rdi]", "");
}

#[test]
fn a_conditional_move_loads_and_does_not_branch() {
    check("48 0f 44 07", "cmove rax, [rdi]", "loads bytes_loaded=8");
    check("48 0f 44 c3", "cmove rax, rbx", "");
}

#[test]
fn atomics_are_locked_or_atomic_by_nature() {
    check("48 0f b1 1f", "cmpxchg [rdi], rbx", "loads stores bytes_loaded=8 bytes_stored=8");
    check("f0 48 0f c7 0f", "lock cmpxchg16b [rdi]", "loads stores bytes_loaded=16 bytes_stored=16 atomics");
    check("48 0f c7 0f", "cmpxchg16b [rdi]", "loads stores bytes_loaded=16 bytes_stored=16");
    check("f0 0f c1 07", "lock xadd [rdi], eax", "loads stores bytes_loaded=4 bytes_stored=4 atomics");
    check("0f c1 07", "xadd [rdi], eax", "loads stores bytes_loaded=4 bytes_stored=4");
    check(
        "f0 48 83 07 01",
        "lock add qword ptr [rdi], 1",
        "loads stores bytes_loaded=8 bytes_stored=8 atomics",
    );
    check("48 87 07", "xchg [rdi], rax", "loads stores bytes_loaded=8 bytes_stored=8 atomics");
    check("48 93", "xchg rbx, rax", "");
}

#[test]
fn single_string_instructions_access_once() {
    check("a4", "movsb", "loads stores bytes_loaded bytes_stored");
    check("ad", "lodsd", "loads bytes_loaded=4");
    check("66 a7", "cmpsw", "loads=2 bytes_loaded=4");
    check("48 af", "scasq", "loads bytes_loaded=8");
}

#[test]
fn integer_multiplications_and_divisions_are_counted() {
    check("48 0f af c3", "imul rax, rbx", "integer_multiplies");
    check("48 6b 07 03", "imul rax, [rdi], 3", "loads bytes_loaded=8 integer_multiplies");
    check("48 f7 e3", "mul rbx", "integer_multiplies");
    check("c4 e2 e3 f6 07", "mulx rax, rbx, [rdi]", "loads bytes_loaded=8 integer_multiplies");
    check("f7 f1", "div ecx", "integer_divides");
    check("48 f7 3f", "idiv qword ptr [rdi]", "loads bytes_loaded=8 integer_divides");
}

#[test]
fn fences_and_the_system_are_counted() {
    check("0f ae f0", "mfence", "fences");
    check("0f ae e8", "lfence", "fences");
    check("0f ae f8", "sfence", "fences");
    check("0f 05", "syscall", "basic_blocks system_calls");
    check("cd 80", "int 0x80", "basic_blocks system_calls");
    check("cc", "int3", "basic_blocks");
    check("0f a2", "cpuid", "");
    check("0f 31", "rdtsc", "");
    check("c5 f8 77", "vzeroupper", "");
    check("0f 01 d0", "xgetbv", "");
    check("f3 48 0f 1e c8", "rdsspq rax", "");
    check("0f 01 d6", "xtest", "");
    check("48 0f c7 f0", "rdrand rax", "");
    check("9b", "wait", "");
    check("ec", "in al, dx", "");
}

#[test]
fn saved_state_counts_its_fixed_part() {
    check("0f ae 27", "xsave [rdi]", "stores bytes_stored=576");
    check("48 0f c7 27", "xsavec64 [rdi]", "stores bytes_stored=576");
    check("0f ae 2f", "xrstor [rdi]", "loads bytes_loaded=576");
    check("0f ae 07", "fxsave [rdi]", "stores bytes_stored=512");
    check("0f ae 0f", "fxrstor [rdi]", "loads bytes_loaded=512");
    check("dd 37", "fnsave [rdi]", "stores bytes_stored=108");
    check("d9 37", "fnstenv [rdi]", "stores bytes_stored=28");
    check("0f ae 17", "ldmxcsr [rdi]", "loads bytes_loaded=4");
    check("0f ae 1f", "stmxcsr [rdi]", "stores bytes_stored=4");
    check("c4 e2 78 49 07", "ldtilecfg [rdi]", "loads bytes_loaded=64");
}

#[test]
fn x87_is_scalar_floating_point() {
    check("dd 07", "fld qword ptr [rdi]", "loads bytes_loaded=8");
    check("db 2f", "fld tbyte ptr [rdi]", "loads bytes_loaded=10");
    check("d9 1f", "fstp dword ptr [rdi]", "stores bytes_stored=4");
    check("d8 c1", "fadd st, st(1)", "fp_add fp_operations fp_scalar");
    check("d8 07", "fadd dword ptr [rdi]", "loads bytes_loaded=4 fp_add fp_operations fp_scalar");
    check("de 37", "fidiv word ptr [rdi]", "loads bytes_loaded=2 fp_div_sqrt fp_operations fp_scalar");
    check("d9 fa", "fsqrt", "fp_div_sqrt fp_operations fp_scalar");
    check("d9 fe", "fsin", "");
}

#[test]
fn mmx_and_one_element_are_classes_of_their_own() {
    check("0f 6f 07", "movq mm0, [rdi]", "loads bytes_loaded=8 simd_64");
    check("0f fe c1", "paddd mm0, mm1", "simd_64");
    check("66 0f 6e c0", "movd xmm0, eax", "simd_scalar");
    check("f3 0f 7e 07", "movq xmm0, [rdi]", "loads bytes_loaded=8 simd_scalar");
    check("f3 0f 10 07", "movss xmm0, [rdi]", "loads bytes_loaded=4 simd_scalar");
    check("c5 f2 10 c2", "vmovss xmm0, xmm1, xmm2", "simd_scalar");
    check("f3 0f 58 c1", "addss xmm0, xmm1", "simd_scalar fp_add fp_operations fp_scalar");
    check(
        "f2 0f 58 07",
        "addsd xmm0, [rdi]",
        "loads bytes_loaded=8 simd_scalar fp_add fp_operations fp_scalar",
    );
    check("f2 0f 59 c1", "mulsd xmm0, xmm1", "simd_scalar fp_mul fp_operations fp_scalar");
    check("f2 0f 51 c1", "sqrtsd xmm0, xmm1", "simd_scalar fp_div_sqrt fp_operations fp_scalar");
    check("f2 48 0f 2a c0", "cvtsi2sd xmm0, rax", "simd_scalar");
    check("f2 48 0f 2c 07", "cvttsd2si rax, [rdi]", "loads bytes_loaded=8 simd_scalar");
    check("66 0f 2e 07", "ucomisd xmm0, [rdi]", "loads bytes_loaded=8 simd_scalar");
    check("66 0f 3a 20 07 01", "pinsrb xmm0, [rdi], 1", "loads bytes_loaded simd_scalar");
    check("66 0f c5 c0 01", "pextrw eax, xmm0, 1", "simd_scalar");
    check("66 0f 3a 21 07 01", "insertps xmm0, [rdi], 1", "loads bytes_loaded=4 simd_scalar");
    check(
        "c4 e2 71 b9 07",
        "vfmadd231ss xmm0, xmm1, [rdi]",
        "loads bytes_loaded=4 simd_scalar fp_fma fp_operations=2 fp_scalar",
    );
    check("c4 e2 f1 9f c2", "vfnmsub132sd xmm0, xmm1, xmm2", "simd_scalar fp_fma fp_operations=2 fp_scalar");
    check(
        "62 f6 76 08 57 c2",
        "vfmaddcsh xmm0, xmm1, xmm2",
        "simd_scalar fp_fma=4 fp_operations=8 fp_scalar",
    );
}

#[test]
fn packed_instructions_count_by_width_and_elements() {
    check("0f 28 07", "movaps xmm0, [rdi]", "loads bytes_loaded=16 simd_128");
    check("0f 29 07", "movaps [rdi], xmm0", "stores bytes_stored=16 simd_128");
    check("0f 10 c1", "movups xmm0, xmm1", "simd_128");
    check(
        "0f 58 07",
        "addps xmm0, [rdi]",
        "loads bytes_loaded=16 simd_128 fp_add=4 fp_operations=4 fp_packed",
    );
    check("66 0f 58 c1", "addpd xmm0, xmm1", "simd_128 fp_add=2 fp_operations=2 fp_packed");
    check("0f 5e c1", "divps xmm0, xmm1", "simd_128 fp_div_sqrt=4 fp_operations=4 fp_packed");
    check("f2 0f 7c c1", "haddps xmm0, xmm1", "simd_128 fp_add=4 fp_operations=4 fp_packed");
    check("66 0f d0 c1", "addsubpd xmm0, xmm1", "simd_128 fp_add=2 fp_operations=2 fp_packed");
    check(
        "66 0f 3a 40 c1 ff",
        "dpps xmm0, xmm1, 0xff",
        "simd_128 fp_add=3 fp_mul=4 fp_operations=7 fp_packed",
    );
    check(
        "66 0f 3a 41 07 11",
        "dppd xmm0, [rdi], 0x11",
        "loads bytes_loaded=16 simd_128 fp_add fp_mul=2 fp_operations=3 fp_packed",
    );
    check("0f 52 c1", "rsqrtps xmm0, xmm1", "simd_128");
    check("0f 5f c1", "maxps xmm0, xmm1", "simd_128");
    check("f2 0f 12 07", "movddup xmm0, [rdi]", "loads bytes_loaded=8 simd_128");
    check("66 0f ef c0", "pxor xmm0, xmm0", "simd_128");
    check("66 0f d7 c0", "pmovmskb eax, xmm0", "simd_128");
    check("0f 50 c0", "movmskps eax, xmm0", "simd_128");
    check("66 0f e7 07", "movntdq [rdi], xmm0", "stores bytes_stored=16 simd_128");
    check("66 0f 38 dc 07", "aesenc xmm0, [rdi]", "loads bytes_loaded=16 simd_128");
    check("0f 38 cb c1", "sha256rnds2 xmm0, xmm1", "simd_128");
    check(
        "c5 f4 58 07",
        "vaddps ymm0, ymm1, [rdi]",
        "loads bytes_loaded=32 simd_256 fp_add=8 fp_operations=8 fp_packed",
    );
    check(
        "c4 e2 f5 b8 07",
        "vfmadd231pd ymm0, ymm1, [rdi]",
        "loads bytes_loaded=32 simd_256 fp_fma=4 fp_operations=8 fp_packed",
    );
    check("c4 e2 7d 18 07", "vbroadcastss ymm0, [rdi]", "loads bytes_loaded=4 simd_256");
    check("c4 e2 7d 58 c1", "vpbroadcastd ymm0, xmm1", "simd_256");
    check("c4 e3 7d 39 07 01", "vextracti128 [rdi], ymm0, 1", "stores bytes_stored=16 simd_256");
    check("c5 fd 5a c1", "vcvtpd2ps xmm0, ymm1", "simd_256");
    check("62 f1 7c 48 10 07", "vmovups zmm0, [rdi]", "loads bytes_loaded=64 simd_512");
    check(
        "62 f6 75 48 a8 c2",
        "vfmadd213ph zmm0, zmm1, zmm2",
        "simd_512 fp_fma=32 fp_operations=64 fp_packed",
    );
    check(
        "62 f6 76 28 d6 c2",
        "vfmulcph ymm0, ymm1, ymm2",
        "simd_256 fp_mul=16 fp_fma=16 fp_operations=48 fp_packed",
    );
    check(
        "62 f2 76 48 52 07",
        "vdpbf16ps zmm0, zmm1, [rdi]",
        "loads bytes_loaded=64 simd_512 fp_fma=32 fp_operations=64 fp_packed",
    );
    check("62 f3 75 48 25 c2 ff", "vpternlogd zmm0, zmm1, zmm2, 0xff", "simd_512");
    check("62 f2 fe 48 2a c1", "vpbroadcastmb2q zmm0, k1", "simd_512");
    check("c4 e1 f8 90 0f", "kmovq k1, [rdi]", "loads bytes_loaded=8");
    check("c5 f8 93 c1", "kmovw eax, k1", "");
}

#[test]
fn a_broadcast_reads_one_element_and_works_on_all() {
    check(
        "62 f1 74 58 58 07",
        "vaddps zmm0, zmm1, dword ptr [rdi]{1to16}",
        "loads bytes_loaded=4 simd_512 fp_add=16 fp_operations=16 fp_packed",
    );
    check(
        "62 f1 f5 59 58 07",
        "vaddpd zmm0{k1}, zmm1, qword ptr [rdi]{1to8}",
        "loads bytes_loaded=8 simd_512 fp_add=8 fp_operations=8 fp_packed",
    );
    check("62 f1 fd 58 5a 07", "vcvtpd2ps ymm0, qword ptr [rdi]{1to8}", "loads bytes_loaded=8 simd_512");
    check("62 f1 fd 48 5a 07", "vcvtpd2ps ymm0, [rdi]", "loads bytes_loaded=64 simd_512");
}

#[test]
fn a_mask_on_results_leaves_the_operand_whole() {
    check(
        "62 f1 74 49 58 07",
        "vaddps zmm0{k1}, zmm1, [rdi]",
        "loads bytes_loaded=64 simd_512 fp_add=16 fp_operations=16 fp_packed",
    );
    check("62 f2 75 49 16 07", "vpermps zmm0{k1}, zmm1, [rdi]", "loads bytes_loaded=64 simd_512");
    check("62 f1 7d 4a 74 0f", "vpcmpeqb k1{k2}, zmm0, [rdi]", "loads bytes_loaded=64 simd_512");
    check("62 f2 7d 48 8a 07", "vcompressps [rdi], zmm0", "stores bytes_stored=64 simd_512");
}

#[test]
fn an_undefined_instruction_never_retires() {
    for undefined in ["0f 0b", "0f b9 c0", "0f ff c0"] {
        let class = class_of(undefined);
        assert_eq!((class.events, class.addend), (EventTally::new(), None), "{undefined}");
    }
}

#[test]
fn a_repeat_prefix_counts_once_and_its_iterations_apart() {
    check_repeated("f3 a4", "rep movsb", [1, 1, 1, 1]);
    check_repeated("f3 48 ab", "rep stosq", [0, 1, 0, 8]);
    check_repeated("f3 ad", "rep lodsd", [1, 0, 4, 0]);
    check_repeated("f3 a6", "repe cmpsb", [2, 0, 2, 0]);
    check_repeated("f2 ae", "repne scasb", [1, 0, 1, 0]);
    check_repeated("f3 6c", "rep insb", [0, 1, 0, 1]);
}

#[test]
fn selected_elements_are_counted_at_run_time() {
    check_masked("0f f7 c1", "maskmovq mm0, mm1", "stores simd_64", ElementMask::Signs(Register::MM1), 8, 1);
    check_masked(
        "66 0f f7 c1",
        "maskmovdqu xmm0, xmm1",
        "stores simd_128",
        ElementMask::Signs(Register::XMM1),
        16,
        1,
    );
    check_masked(
        "c4 e2 75 2c 07",
        "vmaskmovps ymm0, ymm1, [rdi]",
        "loads simd_256",
        ElementMask::Signs(Register::YMM1),
        8,
        4,
    );
    check_masked(
        "c4 e2 71 2f 17",
        "vmaskmovpd [rdi], xmm1, xmm2",
        "stores simd_128",
        ElementMask::Signs(Register::XMM1),
        2,
        8,
    );
    check_masked(
        "c4 e2 75 8e 17",
        "vpmaskmovd [rdi], ymm1, ymm2",
        "stores simd_256",
        ElementMask::Signs(Register::YMM1),
        8,
        4,
    );
    check_masked(
        "c4 e2 6d 92 04 8f",
        "vgatherdps ymm0, [rdi+ymm1*4], ymm2",
        "loads simd_256",
        ElementMask::Signs(Register::YMM2),
        8,
        4,
    );
    check_masked(
        "c4 e2 69 93 04 8f",
        "vgatherqps xmm0, [rdi+xmm1*4], xmm2",
        "loads simd_128",
        ElementMask::Signs(Register::XMM2),
        2,
        4,
    );
    check_masked(
        "c4 e2 ed 91 04 cf",
        "vpgatherqq ymm0, [rdi+ymm1*8], ymm2",
        "loads simd_256",
        ElementMask::Signs(Register::YMM2),
        4,
        8,
    );
    check_masked(
        "62 f2 fd 49 92 04 cf",
        "vgatherdpd zmm0{k1}, [rdi+ymm1*8]",
        "loads simd_512",
        ElementMask::Opmask(Register::K1),
        8,
        8,
    );
    check_masked(
        "62 f2 7d 49 a0 04 8f",
        "vpscatterdd [rdi+zmm1*4]{k1}, zmm0",
        "stores simd_512",
        ElementMask::Opmask(Register::K1),
        16,
        4,
    );
    check_masked(
        "62 f2 7d 49 a1 04 8f",
        "vpscatterqd [rdi+zmm1*4]{k1}, ymm0",
        "stores simd_256",
        ElementMask::Opmask(Register::K1),
        8,
        4,
    );
    check_masked(
        "62 f1 7c 49 10 07",
        "vmovups zmm0{k1}, [rdi]",
        "loads simd_512",
        ElementMask::Opmask(Register::K1),
        16,
        4,
    );
    check_masked(
        "62 e1 7f aa 6f 07",
        "vmovdqu8 ymm16{k2}{z}, [rdi]",
        "loads simd_256",
        ElementMask::Opmask(Register::K2),
        32,
        1,
    );
    check_masked(
        "62 f1 7f 4b 7f 07",
        "vmovdqu8 [rdi]{k3}, zmm0",
        "stores simd_512",
        ElementMask::Opmask(Register::K3),
        64,
        1,
    );
    check_masked(
        "62 f1 7e 09 10 07",
        "vmovss xmm0{k1}, [rdi]",
        "loads simd_scalar",
        ElementMask::Opmask(Register::K1),
        1,
        4,
    );
    check_masked(
        "62 f2 7d 49 8a 07",
        "vcompressps [rdi]{k1}, zmm0",
        "stores simd_512",
        ElementMask::Opmask(Register::K1),
        16,
        4,
    );
    check_masked(
        "62 f2 fd a9 88 07",
        "vexpandpd ymm0{k1}{z}, [rdi]",
        "loads simd_256",
        ElementMask::Opmask(Register::K1),
        4,
        8,
    );
    check_masked(
        "62 f2 7d 49 31 07",
        "vpmovzxbd zmm0{k1}, [rdi]",
        "loads simd_512",
        ElementMask::Opmask(Register::K1),
        16,
        1,
    );
    check_masked(
        "62 f2 7e 49 30 07",
        "vpmovwb [rdi]{k1}, zmm0",
        "stores simd_512",
        ElementMask::Opmask(Register::K1),
        32,
        1,
    );
    check_masked(
        "62 f3 7d 49 19 07 01",
        "vextractf32x4 [rdi]{k1}, zmm0, 1",
        "stores simd_512",
        ElementMask::Opmask(Register::K1),
        4,
        4,
    );
}

#[test]
fn the_size_of_a_tile_is_elsewhere() {
    let tile = class_of("c4 e2 7b 4b 04 37");
    assert_eq!(text(&tile.events), "loads");
    assert_eq!(tile.addend, Some(Addend::Bytes { event: ExecutionEvent::BytesLoaded }));
    let tile = class_of("c4 e2 7a 4b 04 37");
    assert_eq!(text(&tile.events), "stores");
    assert_eq!(tile.addend, Some(Addend::Bytes { event: ExecutionEvent::BytesStored }));
}

#[test]
fn every_load_that_only_moves_or_expands_is_known_to_be_masked() {
    let mut seen = 0;
    for mnemonic in M::values() {
        let name = format!("{mnemonic:?}").to_lowercase();
        let copies = ["vmovap", "vmovup", "vmovdqa", "vmovdqu"].iter().any(|start| name.starts_with(start));
        let widens = name.starts_with("vpmovsx") || name.starts_with("vpmovzx");
        let expands = name.starts_with("vexpand") || name.starts_with("vpexpand");
        // Without opmasks: the forms of AVX, which have no element size in their names.
        let avx = ["vmovdqa", "vmovdqu"].contains(&name.as_str());
        if (copies || widens || expands) && !avx {
            assert!(memory::is_masked_load(mnemonic), "{name}");
            seen += 1;
        }
    }
    assert_eq!(seen, 28);
}

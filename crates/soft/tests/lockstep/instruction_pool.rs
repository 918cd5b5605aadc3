//! Instructions for random programs: every form that does not branch, fault by its nature, or depend on the
//! moment.

use std::collections::HashSet;

use cyclometer_soft::iced_x86::{
    Code, CpuidFeature as Feature, Encoder, EncodingKind, FlowControl, Instruction, Mnemonic as M,
    OpCodeOperandKind as K, OpKind, Register,
};

use crate::elf::DATA;

/// Random numbers.
///
/// # Source
///
/// G. L. Steele, D. Lea, C. H. Flood: Fast splittable pseudorandom number generators (`SplitMix64`).
pub struct RandomSource(pub u64);

impl RandomSource {
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// One of `0..below`.
    pub fn below(&mut self, below: u64) -> u64 {
        self.word() % below
    }

    pub fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }
}

/// The middle of the data that random instructions use, which r15 points to.
pub const MIDDLE: u64 = DATA + 0x2000;

/// Forms of instructions, those on general registers apart.
pub struct InstructionPool {
    general: Vec<Code>,
    vectors: Vec<Code>,
}

impl InstructionPool {
    /// The features of this processor.
    pub fn new() -> InstructionPool {
        let features = features();
        let usable = |code: &Code| {
            let op_code = code.op_code();
            let known = code.cpuid_features().iter().all(|feature| features.contains(feature));
            let kinds = op_code.op_kinds().iter().all(|kind| operand(*kind));
            known && kinds && op_code.is_instruction() && op_code.mode64() && tame(*code)
        };
        let (vectors, general) = Code::values().filter(usable).partition(|code| is_vector(*code));
        InstructionPool { general, vectors }
    }

    /// How many forms there are.
    pub fn len(&self) -> usize {
        self.general.len() + self.vectors.len()
    }

    /// A random instruction. It does not use rsp and r13 to r15. It reaches data around [`MIDDLE`] by r15, by
    /// the instruction pointer or absolutely; if allowed, also 64 to 108 bytes above the stack pointer.
    pub fn instruction(&self, random: &mut RandomSource, stack: bool) -> Instruction {
        loop {
            let forms = if random.below(4) == 0 { &self.vectors } else { &self.general };
            let made = fill(*random.of(forms), random, stack);
            if let Some(made) = made.filter(encodes) {
                return made;
            }
        }
    }
}

fn encodes(instruction: &Instruction) -> bool {
    Encoder::new(64).encode(instruction, crate::elf::CODE).is_ok()
}

fn features() -> HashSet<Feature> {
    use Feature::*;
    let mut all: HashSet<Feature> =
        [INTEL8086, INTEL186, INTEL286, INTEL386, INTEL486, X64, CMOV, SSE, SSE2].into();
    macro_rules! add {
        ($($name:tt $feature:ident),*) => {
            $(if std::arch::is_x86_feature_detected!($name) { all.insert($feature); })*
        };
    }
    add!("sse3" SSE3, "ssse3" SSSE3, "sse4.1" SSE4_1, "sse4.2" SSE4_2, "popcnt" POPCNT, "lzcnt" LZCNT);
    add!("bmi1" BMI1, "bmi2" BMI2, "adx" ADX, "movbe" MOVBE, "avx" AVX, "avx2" AVX2, "fma" FMA);
    add!("pclmulqdq" PCLMULQDQ, "aes" AES, "f16c" F16C, "avx512f" AVX512F, "avx512bw" AVX512BW);
    add!("avx512dq" AVX512DQ, "avx512vl" AVX512VL);
    all
}

/// Whether an instruction does nothing but to its operands, the same each time.
fn tame(code: Code) -> bool {
    let op_code = code.op_code();
    let name = format!("{:?}", code.mnemonic());
    let plain = code.mnemonic() != M::INVALID && flow(code) == FlowControl::Next;
    #[rustfmt::skip]
    let wild = matches!(
        code.mnemonic(),
        M::Div | M::Idiv | M::Lss | M::Lfs | M::Lgs | M::In | M::Out | M::Cpuid | M::Rdtsc | M::Xlatb | M::Ldmxcsr | M::Vldmxcsr | M::Std | M::Cld | M::Cli
        | M::Sti | M::Pushf | M::Pushfq | M::Popf | M::Popfq | M::Push | M::Pop | M::Enter | M::Leave | M::Maskmovdqu
        | M::Vmaskmovdqu | M::Lar | M::Lsl | M::Verr | M::Verw | M::Sldt | M::Str | M::Smsw | M::Sgdt | M::Sidt
        | M::Lldt | M::Ltr | M::Lmsw | M::Clts | M::Invd | M::Wbinvd | M::Invlpg | M::Wait | M::Emms | M::Bound
        | M::Rdpmc | M::Rdmsr | M::Wrmsr | M::Rsm | M::Cpu_read | M::Clflush | M::Vzeroall | M::Arpl | M::Bndmov
    );
    plain && !wild && !op_code.is_privileged() && !name.starts_with('F')
}

fn flow(code: Code) -> FlowControl {
    let mut instruction = Instruction::default();
    instruction.set_code(code);
    instruction.flow_control()
}

fn is_vector(code: Code) -> bool {
    let op_code = code.op_code();
    let general = [K::r8_reg, K::r16_reg, K::r32_reg, K::r64_reg, K::r8_or_mem, K::r16_or_mem, K::r32_or_mem];
    let touches = op_code.op_kinds().iter().any(|kind| general.contains(kind) || *kind == K::r64_or_mem);
    op_code.encoding() != EncodingKind::Legacy && !touches
        || op_code.op_kinds().iter().any(|kind| matches!(kind, K::xmm_reg | K::xmm_or_mem | K::xmm_rm))
}

fn operand(kind: K) -> bool {
    choices(kind).is_some() || is_memory(kind) || immediate(kind).is_some()
}

fn is_memory(kind: K) -> bool {
    matches!(kind, K::mem)
        || matches!(kind, K::r8_or_mem | K::r16_or_mem | K::r32_or_mem | K::r64_or_mem)
        || matches!(kind, K::xmm_or_mem | K::ymm_or_mem | K::zmm_or_mem | K::k_or_mem)
}

fn immediate(kind: K) -> Option<OpKind> {
    Some(match kind {
        K::imm8 => OpKind::Immediate8,
        K::imm8sex16 => OpKind::Immediate8to16,
        K::imm8sex32 => OpKind::Immediate8to32,
        K::imm8sex64 => OpKind::Immediate8to64,
        K::imm16 => OpKind::Immediate16,
        K::imm32 => OpKind::Immediate32,
        K::imm32sex64 => OpKind::Immediate32to64,
        K::imm64 => OpKind::Immediate64,
        K::imm8_const_1 => OpKind::Immediate8,
        _ => return None,
    })
}

/// The registers that an operand may be: the first, and how many of those that follow it.
fn choices(kind: K) -> Option<(Register, u32)> {
    Some(match kind {
        K::r8_reg | K::r8_or_mem | K::r8_opcode => (Register::AL, 20),
        K::r16_reg | K::r16_or_mem | K::r16_rm | K::r16_opcode => (Register::AX, 16),
        K::r32_reg | K::r32_or_mem | K::r32_rm | K::r32_opcode | K::r32_vvvv => (Register::EAX, 16),
        K::r64_reg | K::r64_or_mem | K::r64_rm | K::r64_opcode | K::r64_vvvv => (Register::RAX, 16),
        K::xmm_reg | K::xmm_or_mem | K::xmm_rm | K::xmm_vvvv | K::xmm_is4 => (Register::XMM0, 16),
        K::ymm_reg | K::ymm_or_mem | K::ymm_rm | K::ymm_vvvv | K::ymm_is4 => (Register::YMM0, 16),
        K::zmm_reg | K::zmm_or_mem | K::zmm_rm | K::zmm_vvvv => (Register::ZMM0, 16),
        K::k_reg | K::k_or_mem | K::k_rm | K::k_vvvv => (Register::K0, 8),
        K::al => (Register::AL, 1),
        K::cl => (Register::CL, 1),
        K::ax => (Register::AX, 1),
        K::eax => (Register::EAX, 1),
        K::rax => (Register::RAX, 1),
        _ => return None,
    })
}

/// Whether random instructions may change it.
fn free(register: Register) -> bool {
    !matches!(register.full_register(), Register::RSP | Register::R13 | Register::R14 | Register::R15)
}

fn fill(code: Code, random: &mut RandomSource, stack: bool) -> Option<Instruction> {
    let op_code = code.op_code();
    let mut made = Instruction::default();
    made.set_code(code);
    for (i, kind) in op_code.op_kinds().iter().enumerate() {
        let i = i as u32;
        if let Some(immediate) = immediate(*kind) {
            made.set_op_kind(i, immediate);
            let value = if *kind == K::imm8_const_1 { 1 } else { value(random) };
            made.try_set_immediate_u64(i, value).ok()?;
        } else if is_memory(*kind) && (random.below(3) == 0 || choices(*kind).is_none()) {
            memory(&mut made, i, random, stack);
        } else {
            let (first, count) = choices(*kind)?;
            made.set_op_kind(i, OpKind::Register);
            made.set_op_register(i, first + random.below(count.into()) as u32);
            if !free(made.op_register(i)) {
                return None;
            }
        }
    }
    if op_code.can_use_op_mask_register() && (op_code.require_op_mask_register() || random.below(3) == 0) {
        made.set_op_mask(Register::K1 + random.below(7) as u32);
        let register = made.op0_kind() == OpKind::Register;
        made.set_zeroing_masking(register && op_code.can_use_zeroing_masking() && random.below(2) == 0);
    }
    reaches(&made).then_some(made)
}

/// A bit's offset in a register goes anywhere.
fn reaches(made: &Instruction) -> bool {
    let bit = matches!(made.mnemonic(), M::Bt | M::Bts | M::Btr | M::Btc);
    !(bit && made.op0_kind() == OpKind::Memory && made.op1_kind() == OpKind::Register)
}

fn value(random: &mut RandomSource) -> u64 {
    match random.below(3) {
        0 => random.below(64),
        1 => !random.below(64),
        _ => random.word(),
    }
}

fn memory(made: &mut Instruction, i: u32, random: &mut RandomSource, stack: bool) {
    made.set_op_kind(i, OpKind::Memory);
    let general = made.op_code().encoding() == EncodingKind::Legacy && !is_vector(made.code());
    let narrow = made.memory_size().size() <= 8;
    // Many instructions on vectors want what they access aligned; these accept anything that is.
    let offset = if general && narrow { random.below(0x1800) } else { random.below(0x60) * 64 };
    let offset = offset as i64 - 0xc00;
    let (base, displacement, size) = match random.below(6) {
        0 => (Register::RIP, MIDDLE.wrapping_add_signed(offset), 8),
        1 => (Register::None, MIDDLE.wrapping_add_signed(offset), 4),
        2 if general && narrow && stack => (Register::RSP, 64 + random.below(36), 1),
        _ => (Register::R15, offset as u64, 8),
    };
    made.set_memory_base(base);
    made.set_memory_displacement64(displacement);
    made.set_memory_displ_size(size);
    let lock = made.op_code().can_use_lock_prefix() && i == 0 && random.below(4) == 0;
    made.set_has_lock_prefix(lock);
}

//! A decoded instruction, as the translator needs it: its copy, its end of a block, its effect on flags.

use iced_x86::{Code, Decoder, DecoderOptions, EncodingKind, Instruction, InstructionInfoFactory};
use iced_x86::{DecoderError, Mnemonic as M, OpAccess, OpKind, Register, RflagsBits, UsedMemory};

use super::pages::CodeStability;
use crate::addend::{Addend, AddendKind, ElementMask, MaskedElements};
use crate::baseline::CpuQuery;
use crate::block::{DetachReason, Terminator, ending, near_branch};
use crate::classify;

/// Every status flag except the carry: the flags that `inc` changes.
pub(crate) const OSZAP: u8 = 0b1_1111;
const CARRY: u8 = 0b10_0000;
/// Every status flag.
pub(crate) const STATUS: u8 = OSZAP | CARRY;

/// An instruction that was decoded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DecodedInstruction {
    pub(crate) address: u64,
    pub(crate) bytes: [u8; 15],
    pub(crate) len: u8,
    /// The offset of the 32-bit displacement to the instruction pointer, and its target.
    pub(crate) relative: Option<(u8, u64)>,
    /// Status flags that it reads; others keep their value or do not matter.
    pub(crate) reads: u8,
    /// Status flags that it gives a value that does not depend on the one before.
    pub(crate) kills: u8,
    /// The units to count beside executions.
    pub(crate) units: Option<RunTimeUnits>,
    pub(crate) ends: Option<Terminator>,
    /// Whether it is a branch target: a block starts here.
    pub(crate) leads: bool,
    /// The question to the processor, for `cpuid` and `xgetbv`.
    pub(crate) cpu_query: Option<CpuQuery>,
    /// Its operand, if it is an indirect jump or call.
    pub(crate) target: Option<BranchOperand>,
    /// Its use of r11. A system call is not included, although it leaves the flags there.
    pub(crate) r11: RegisterUse,
}

/// The use of a register by an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RegisterUse {
    /// The instruction does not use it.
    None,
    /// It needs its value.
    Reads,
    /// It may change its value. The old value is needed, too: some processors do not write the register, or
    /// write only a part of it (`rdsspq`, `tzcnt`, `sldt`).
    Changes,
}

/// The units that are counted when an instruction is executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RunTimeUnits {
    /// Iterations of a string instruction with a repeat prefix, by rcx.
    Iterations {
        /// Whether a comparison may end them before rcx is zero.
        conditional: bool,
    },
    /// Elements under a mask.
    Elements {
        /// The masked memory operand.
        of: MaskedElements,
        /// Whether the mask must be read before the instruction.
        mask_is_lost: bool,
    },
}

impl RunTimeUnits {
    pub(crate) fn kind(self) -> AddendKind {
        match self {
            RunTimeUnits::Iterations { .. } => AddendKind::Iterations,
            RunTimeUnits::Elements { .. } => AddendKind::Elements,
        }
    }
}

/// The target of an indirect branch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BranchOperand {
    /// A general register, by its number.
    Register(u8),
    /// Memory: `mov rcx, [..]` can be made of the branch's own bytes.
    Memory,
}

impl DecodedInstruction {
    /// The instruction's bytes.
    pub(crate) fn code(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Whether its operand in memory has an index register.
    pub(crate) fn has_index(&self) -> bool {
        let mut decoder = Decoder::with_ip(64, self.code(), self.address, DecoderOptions::NONE);
        decoder.decode().memory_index() != Register::None
    }

    /// The address after it.
    pub(crate) fn next(&self) -> u64 {
        self.address.wrapping_add(u64::from(self.len))
    }

    /// Decodes the instruction at an address.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be followed.
    pub(crate) fn decode(window: &[u8], address: u64) -> Result<DecodedInstruction, DetachReason> {
        let mut decoder = Decoder::with_ip(64, window, address, DecoderOptions::NONE);
        DecodedInstruction::analyse(&decoder.decode(), &decoder, window)
    }

    /// Decodes the next instruction of a run of bytes; `window` starts with its first byte.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be followed.
    #[inline]
    pub(crate) fn next_of(
        decoder: &mut Decoder<'_>,
        window: &[u8],
        traits: &mut OpcodeTraits,
    ) -> Result<DecodedInstruction, DetachReason> {
        let mut instruction = Instruction::default();
        decoder.decode_out(&mut instruction);
        let Some(known) = traits.of(&instruction, window) else {
            return DecodedInstruction::analyse(&instruction, decoder, window);
        };
        let plain = DecodedInstruction::plain(&instruction, decoder, window, known.flags);
        Ok(if known.branches {
            DecodedInstruction { ends: near_branch(&instruction), ..plain }
        } else {
            plain
        })
    }

    /// Looks at everything that an instruction may be.
    fn analyse(
        instruction: &Instruction,
        decoder: &Decoder<'_>,
        window: &[u8],
    ) -> Result<DecodedInstruction, DetachReason> {
        let ends = ending(instruction, decoder.last_error(), window)?;
        let units = repeats(instruction)?.or_else(|| elements(instruction));
        if instruction.memory_base() == Register::EIP {
            return Err(DetachReason::Reach);
        }
        let plain = DecodedInstruction::plain(instruction, decoder, window, flags(instruction));
        Ok(DecodedInstruction {
            units,
            cpu_query: cpu_query(instruction),
            target: target(instruction, ends),
            ends,
            ..plain
        })
    }

    /// An instruction that only reads and kills flags.
    #[inline]
    fn plain(
        instruction: &Instruction,
        decoder: &Decoder<'_>,
        window: &[u8],
        (reads, kills): (u8, u8),
    ) -> DecodedInstruction {
        let len = instruction.len();
        let mut bytes = [0; 15];
        match window.first_chunk() {
            Some(whole) => bytes = *whole,
            None => bytes[..len].copy_from_slice(&window[..len]),
        }
        DecodedInstruction {
            address: instruction.ip(),
            bytes,
            len: len as u8,
            relative: relative(instruction, decoder),
            reads,
            kills,
            units: None,
            leads: false,
            cpu_query: None,
            target: None,
            ends: None,
            r11: use_of_r11(instruction),
        }
    }

    /// Whether the instruction may write to the code that follows it, which has this stability. A store by
    /// the stack pointer does not, unless the stack is in the same mapping.
    pub(super) fn may_change_code(&self, stability: CodeStability) -> bool {
        let mut decoder = Decoder::with_ip(64, self.code(), self.address, DecoderOptions::NONE);
        let instruction = decoder.decode();
        let mut factory = InstructionInfoFactory::new();
        let info = factory.info(&instruction);
        let writes = |memory: &&UsedMemory| {
            !matches!(memory.access(), OpAccess::None | OpAccess::NoMemAccess)
                && !matches!(memory.access(), OpAccess::Read | OpAccess::CondRead)
        };
        let by_stack = |memory: &UsedMemory| {
            stability == CodeStability::Changing
                && memory.base() == Register::RSP
                && memory.index() == Register::None
        };
        // The operands of these are not listed in full.
        let saves = instruction.is_save_restore_instruction();
        saves || info.used_memory().iter().filter(writes).any(|memory| !by_stack(memory))
    }

    /// Whether the instruction gives the stack pointer a value that does not depend on the one before.
    pub(super) fn moves_stack(&self) -> bool {
        let mut decoder = Decoder::with_ip(64, self.code(), self.address, DecoderOptions::NONE);
        let instruction = decoder.decode();
        let keeps = match instruction.mnemonic() {
            M::Push | M::Add | M::Sub | M::And | M::Cmp | M::Test => true,
            M::Lea => instruction.memory_base() == Register::RSP,
            _ => false,
        };
        let is_stack = |operand| instruction.op_register(operand).full_register() == Register::RSP;
        !keeps && (0..instruction.op_count()).any(is_stack)
    }

    /// Whether the instruction can be copied to any address of a region: its target is in reach from there.
    pub(crate) fn reaches_from(&self, start: u64, end: u64) -> bool {
        let Some((_, target)) = self.relative else { return true };
        [start, end].into_iter().all(|from| {
            let distance = target.wrapping_sub(from).cast_signed();
            // An instruction's length away from the limits on both sides.
            i32::try_from(distance).is_ok_and(|d| (i32::MIN + 64..i32::MAX - 64).contains(&d))
        })
    }
}

/// Properties of instructions by their codes. Most instructions differ for the translator only in their bytes
/// and in the flags that they read and kill.
#[derive(Default)]
pub(crate) struct OpcodeTraits(Vec<OpcodeTrait>);

#[derive(Clone, Copy)]
enum OpcodeTrait {
    Unknown,
    /// Its instructions are analysed one by one.
    Special,
    Usual(PlainOpcode),
}

/// Properties that all instructions of a code share.
#[derive(Clone, Copy)]
struct PlainOpcode {
    /// The status flags that it reads, and kills.
    flags: (u8, u8),
    /// Whether it is a branch with its target in it.
    branches: bool,
}

impl OpcodeTraits {
    /// The shared properties of an instruction, if its code tells them; `window` starts with its first byte.
    #[inline]
    fn of(&mut self, instruction: &Instruction, window: &[u8]) -> Option<PlainOpcode> {
        if self.0.is_empty() {
            self.0 = vec![OpcodeTrait::Unknown; Code::values().len()];
        }
        if is_qualified(instruction) {
            return None;
        }
        let known = &mut self.0[instruction.code() as usize];
        if let OpcodeTrait::Unknown = known {
            *known = OpcodeTrait::analyse(instruction);
        }
        match *known {
            // A prefix may make another branch of it.
            OpcodeTrait::Usual(usual) if !usual.branches || has_no_prefix(window) => Some(usual),
            _ => None,
        }
    }
}

impl OpcodeTrait {
    /// The shared properties of all unqualified instructions of a code.
    fn analyse(instruction: &Instruction) -> OpcodeTrait {
        let branches = near_branch(instruction).is_some();
        let ends = !branches && !matches!(ending(instruction, DecoderError::None, &[]), Ok(None));
        let counted = instruction.is_string_instruction() || elements(instruction).is_some();
        // The effect of a shift on flags depends on its count.
        let special = ends || counted || cpu_query(instruction).is_some() || is_shift(instruction.mnemonic());
        if special {
            return OpcodeTrait::Special;
        }
        OpcodeTrait::Usual(PlainOpcode { flags: flags(instruction), branches })
    }
}

/// Whether a prefix, mask or base register makes the instruction differ from others of its code.
#[inline]
fn is_qualified(instruction: &Instruction) -> bool {
    instruction.segment_prefix() == Register::GS
        || instruction.has_op_mask()
        || instruction.memory_base() == Register::EIP
}

/// Whether a branch starts with its opcode.
#[inline]
fn has_no_prefix(window: &[u8]) -> bool {
    matches!(window.first(), Some(0x0f | 0x70..=0x7f | 0xe0..=0xe3 | 0xe8 | 0xe9 | 0xeb))
}

fn cpu_query(instruction: &Instruction) -> Option<CpuQuery> {
    match instruction.mnemonic() {
        M::Cpuid => Some(CpuQuery::Features),
        M::Xgetbv => Some(CpuQuery::ExtendedState),
        _ => None,
    }
}

fn relative(instruction: &Instruction, decoder: &Decoder<'_>) -> Option<(u8, u64)> {
    let memory = instruction.memory_base() == Register::RIP;
    let offset = || decoder.get_constant_offsets(instruction).displacement_offset() as u8;
    memory.then(|| (offset(), instruction.ip_rel_memory_address()))
}

fn target(instruction: &Instruction, ends: Option<Terminator>) -> Option<BranchOperand> {
    match ends? {
        Terminator::IndirectJump | Terminator::IndirectCall { .. } => Some(match instruction.op0_kind() {
            OpKind::Memory => BranchOperand::Memory,
            _ => BranchOperand::Register(instruction.op0_register().number() as u8),
        }),
        _ => None,
    }
}

/// The use of r11 by an instruction. Only instructions that name r11 are analysed.
#[inline]
fn use_of_r11(instruction: &Instruction) -> RegisterUse {
    let named = [
        instruction.op0_register(),
        instruction.op1_register(),
        instruction.op2_register(),
        instruction.op3_register(),
        instruction.memory_base(),
        instruction.memory_index(),
    ];
    if named.into_iter().any(is_r11) { analyse_r11(instruction) } else { RegisterUse::None }
}

fn is_r11(register: Register) -> bool {
    matches!(register, Register::R11 | Register::R11D | Register::R11W | Register::R11L)
}

#[cold]
fn analyse_r11(instruction: &Instruction) -> RegisterUse {
    let mut factory = InstructionInfoFactory::new();
    let used = factory.info(instruction).used_registers().iter().filter(|used| is_r11(used.register()));
    used.fold(RegisterUse::None, |so_far, used| match used.access() {
        OpAccess::None | OpAccess::NoMemAccess => so_far,
        OpAccess::Read | OpAccess::CondRead if so_far == RegisterUse::None => RegisterUse::Reads,
        OpAccess::Read | OpAccess::CondRead => so_far,
        _ => RegisterUse::Changes,
    })
}

/// Repeated instructions that count in rcx. With a 32-bit count in ecx the upper half would be counted too.
fn repeats(instruction: &Instruction) -> Result<Option<RunTimeUnits>, DetachReason> {
    let repeated = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    if !instruction.is_string_instruction() || !repeated {
        return Ok(None);
    }
    let narrow = (0..instruction.op_count()).any(|i| {
        let kind = instruction.op_kind(i);
        matches!(kind, OpKind::MemoryESEDI | OpKind::MemorySegEDI | OpKind::MemorySegESI)
    });
    if narrow {
        return Err(DetachReason::RepeatAddressSize);
    }
    #[rustfmt::skip]
    let compares = matches!(
        instruction.mnemonic(),
        M::Cmpsb | M::Cmpsw | M::Cmpsd | M::Cmpsq | M::Scasb | M::Scasw | M::Scasd | M::Scasq
    );
    Ok(Some(RunTimeUnits::Iterations { conditional: compares }))
}

/// Instructions that may have a mask are classified again, for their accesses.
fn elements(instruction: &Instruction) -> Option<RunTimeUnits> {
    let by_sign = matches!(instruction.encoding(), EncodingKind::VEX) && has_sign_mask(instruction);
    let moves = matches!(instruction.mnemonic(), M::Maskmovq | M::Maskmovdqu | M::Vmaskmovdqu);
    if !instruction.has_op_mask() && !by_sign && !moves {
        return None;
    }
    let mut factory = InstructionInfoFactory::new();
    match classify(instruction, factory.info(instruction)).addend {
        Some(Addend::Elements(of)) => {
            let (ElementMask::Opmask(mask) | ElementMask::Signs(mask)) = of.mask;
            let written = instruction.op_count() > 0
                && instruction.op0_kind() == OpKind::Register
                && instruction.op0_register().full_register() == mask.full_register();
            Some(RunTimeUnits::Elements { of, mask_is_lost: instruction.is_vsib() || written })
        }
        _ => None,
    }
}

/// # Source
///
/// Intel SDM volume 2: `VMASKMOV`, `VPMASKMOV`, `VGATHER` of AVX2.
fn has_sign_mask(instruction: &Instruction) -> bool {
    #[rustfmt::skip]
    let masked = matches!(
        instruction.mnemonic(),
        M::Vmaskmovps | M::Vmaskmovpd | M::Vpmaskmovd | M::Vpmaskmovq
    );
    masked || instruction.is_vsib()
}

/// The status flags that an instruction reads, and those whose old value is lost.
///
/// A shift by cl keeps the flags when cl is zero, as a repeated comparison does when rcx is zero. A flag that
/// the manuals call undefined may keep its value, except for AF after logical instructions.
fn flags(instruction: &Instruction) -> (u8, u8) {
    let written = instruction.rflags_written() | instruction.rflags_cleared() | instruction.rflags_set();
    let logical = matches!(instruction.mnemonic(), M::And | M::Or | M::Xor | M::Test);
    let undefined = if logical { instruction.rflags_undefined() } else { 0 };
    let by_cl = || (0..instruction.op_count()).any(|i| instruction.op_register(i) == Register::CL);
    let conditional = instruction.is_string_instruction() || (is_shift(instruction.mnemonic()) && by_cl());
    let kills = if conditional { 0 } else { status(written | undefined) };
    // `syscall` copies the flags to r11.
    let reads = if instruction.mnemonic() == M::Syscall { STATUS } else { status(instruction.rflags_read()) };
    (reads, kills)
}

fn is_shift(mnemonic: M) -> bool {
    #[rustfmt::skip]
    let shift = matches!(
        mnemonic,
        M::Shl | M::Sal | M::Shr | M::Sar | M::Rol | M::Ror | M::Rcl | M::Rcr | M::Shld | M::Shrd
    );
    shift
}

fn status(bits: u32) -> u8 {
    const ORDER: [(u32, u8); 6] = [
        (RflagsBits::OF, 1),
        (RflagsBits::SF, 2),
        (RflagsBits::ZF, 4),
        (RflagsBits::AF, 8),
        (RflagsBits::PF, 16),
        (RflagsBits::CF, CARRY),
    ];
    ORDER.iter().filter(|(bit, _)| bits & bit != 0).fold(0, |sum, (_, own)| sum | own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::tests::encodings;
    use proptest::prelude::*;
    use proptest::test_runner::TestRunner;

    /// Compares the cached properties with an analysis of the instruction; returns whether they were cached.
    #[track_caller]
    fn check(traits: &mut OpcodeTraits, bytes: &[u8]) -> bool {
        let mut decoder = Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE);
        let fast = DecodedInstruction::next_of(&mut decoder, bytes, traits);
        assert_eq!(fast, DecodedInstruction::decode(bytes, 0x1000), "{bytes:x?}");
        let instruction = Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).decode();
        traits.of(&instruction, bytes).is_some()
    }

    #[test]
    fn cached_properties_are_those_of_an_analysis() {
        let config =
            ProptestConfig { cases: 100_000, failure_persistence: None, ..ProptestConfig::default() };
        let (traits, known) = (std::cell::RefCell::new(OpcodeTraits::default()), std::cell::Cell::new(0));
        let outcome = TestRunner::new(config).run(&encodings(), |bytes| {
            known.set(known.get() + u32::from(check(&mut traits.borrow_mut(), &bytes)));
            Ok(())
        });
        outcome.unwrap();
        assert!(known.get() > 20_000, "{}", known.get());
    }

    #[test]
    fn an_instruction_that_uses_r11_names_it_except_for_a_system_call() {
        let mut factory = InstructionInfoFactory::new();
        let mut having = 0;
        let mut check = |bytes: &[u8]| {
            let instruction = Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE).decode();
            let used = factory.info(&instruction).used_registers();
            let has = used.iter().any(|used| is_r11(used.register()) && used.access() != OpAccess::None);
            // Beside the system call only privileged instructions.
            let by_itself = matches!(instruction.mnemonic(), M::Syscall | M::Sysret | M::Sysretq | M::Skinit);
            let found = use_of_r11(&instruction);
            assert!(by_itself || (found != RegisterUse::None) == has, "{bytes:x?}: {found:?}");
            having += u32::from(has);
        };
        // REX.B and REX.RXB, VEX of two and of three bytes, EVEX.
        let starts: [&[u8]; 9] = [
            &[],
            &[0x41],
            &[0x4f],
            &[0x66, 0x47],
            &[0x4f, 0x0f],
            &[0xc5, 0x28],
            &[0xc4, 0x02, 0xa0],
            &[0xc4, 0x02, 0x23],
            &[0x62, 0x12, 0x25, 0x08],
        ];
        for start in starts {
            for opcode in (0..0x100u16).map(|opcode| opcode as u8) {
                for modrm in (0..0x100u16).map(|modrm| modrm as u8) {
                    check(&[start, &[opcode, modrm, 0x1b, 1, 2, 3, 4, 5, 6, 7, 8]].concat());
                }
            }
        }
        assert!(having > 10_000, "{having}");
    }

    #[test]
    fn cached_properties_hold_for_all_operands() {
        let mut traits = OpcodeTraits::default();
        for opcode in (0..0x100u16).map(|opcode| opcode as u8) {
            for modrm in (0..0x100u16).map(|modrm| modrm as u8) {
                check(&mut traits, &[opcode, modrm, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
                check(&mut traits, &[0x0f, opcode, modrm, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
                for prefix in [0x48, 0x66, 0x67, 0x64, 0x65, 0x40] {
                    for immediate in [0, 1, 0x20, 0xff] {
                        let tail = [immediate; 10];
                        check(&mut traits, &[&[prefix, opcode, modrm], &tail[..]].concat());
                        check(&mut traits, &[&[prefix, 0x0f, opcode, modrm], &tail[..]].concat());
                    }
                }
            }
        }
    }
}

//! Basic blocks: runs of instructions with their ends, their counts, and the instructions that cannot be
//! followed.

use iced_x86::{Decoder, DecoderError, DecoderOptions, FlowControl, Instruction, InstructionInfo};
use iced_x86::{InstructionInfoFactory, InstructionInfoOptions, Mnemonic as M, OpKind, Register};

use crate::addend::{Addend, AddendKind};
use crate::classify::{Branch, branch, classify};
use crate::vector::{EventTally, EventVector};

/// The greatest number of instructions of a block.
pub const MAX_INSTRUCTIONS: usize = 4096;

/// Bytes of code and where they stand in the program's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CodeBytes<'a> {
    /// Address of the first byte.
    pub address: u64,
    /// The bytes, as far as they can be read.
    pub bytes: &'a [u8],
}

/// Limits that end a block even if no branch does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockLimits {
    /// Most instructions, 1 to [`MAX_INSTRUCTIONS`]; a value outside is clamped.
    pub max_instructions: usize,
    /// Only the first instruction may start at or above this address: a page's end, another block's start.
    ///
    /// An instruction that starts below may extend beyond it; `bytes` should continue for 15 bytes.
    pub stop_at: u64,
}

impl BlockLimits {
    /// Up to the end of the page (4096 bytes) that holds an address.
    pub fn page(address: u64) -> BlockLimits {
        let next = (address | 0xfff).checked_add(1);
        BlockLimits { max_instructions: MAX_INSTRUCTIONS, stop_at: next.unwrap_or(u64::MAX) }
    }
}

/// A run of instructions with one entry and one end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// Address of the first instruction.
    pub address: u64,
    /// Bytes of all instructions: 0 to 61,440.
    pub len: u16,
    /// The offset of each instruction from the block's address, in bytes, ascending.
    pub offsets: Box<[u16]>,
    /// The static counts of one execution of the whole block.
    pub events: EventVector,
    /// The run-time counts, by the index of their instruction, ascending.
    pub addends: Box<[(u16, Addend)]>,
    /// The end of the block.
    pub terminator: Terminator,
}

impl Block {
    /// The address after the last instruction.
    pub fn end(&self) -> u64 {
        self.address.wrapping_add(u64::from(self.len))
    }

    /// The kinds of run-time counts that the block's totals need.
    pub fn kinds(&self) -> impl Iterator<Item = AddendKind> + '_ {
        self.addends.iter().map(|(_, addend)| addend.kind())
    }
}

/// The end of a block. The last instruction of the block causes it, and is in the block's counts, except for
/// [`Terminator::FallThrough`] and [`Terminator::Detach`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Terminator {
    /// A limit was reached; execution continues there.
    FallThrough {
        /// The next instruction.
        next: u64,
    },
    /// jcc, jrcxz, loop.
    Conditional {
        /// The target of the branch.
        taken: u64,
        /// The next instruction.
        not_taken: u64,
    },
    /// A jump with its target in the instruction.
    Jump {
        /// The target.
        target: u64,
    },
    /// A call with its target in the instruction.
    Call {
        /// The target.
        target: u64,
        /// The address that it pushes.
        return_to: u64,
    },
    /// A jump through a register or memory.
    IndirectJump,
    /// A call through a register or memory.
    IndirectCall {
        /// The address that it pushes.
        return_to: u64,
    },
    /// A near return.
    Return {
        /// Bytes that it drops from the stack beside the address.
        drops: u16,
    },
    /// `syscall`: execution continues at the next instruction, unless the kernel changes that.
    SystemCall {
        /// The next instruction.
        next: u64,
    },
    /// iret; a jump, call or return with a code segment. The processor executes it at its own address: it
    /// checks the segments, and iret replaces all flags and the stack.
    FarTransfer,
    /// An instruction made to raise an exception.
    Trap(TrapKind),
    /// The instruction at the block's end cannot be followed, and is not part of the block (which may be
    /// empty).
    Detach(DetachReason),
}

/// The exception of a [`Terminator::Trap`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TrapKind {
    /// ud0, ud1, ud2: a fault at the instruction, which counts nothing.
    Undefined,
    /// int3, int1: a trap after the instruction, which counts.
    Breakpoint,
}

/// The reason why an instruction cannot be followed: the program must be detached.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum DetachReason {
    /// Accesses memory through %gs, whose base is taken by the counters.
    GsAccess,
    /// Writes a segment register.
    SegmentRegister,
    /// rdgsbase, wrgsbase: the base of %gs is taken by the counters.
    SegmentBase,
    /// A return from a user interrupt or an event (uiret, eretu).
    InterruptReturn,
    /// `int n`, the 32-bit system call included.
    SoftwareInterrupt,
    /// sysenter: the kernel returns to another address.
    Sysenter,
    /// xbegin: the translator would abort every transaction.
    Transaction,
    /// enclu: execution continues inside an enclave.
    Enclave,
    /// An instruction of VIA's and Zhaoxin's PadLock: the decoder does not know the size of its accesses.
    PadLock,
    /// A near branch with an operand-size prefix: Intel ignores it, AMD cuts the target to 16 bits.
    BranchOperandSize,
    /// A repeated string instruction that counts in ecx.
    RepeatAddressSize,
    /// The target of the instruction is out of reach of its copy.
    Reach,
    /// No instruction that is known.
    Undecodable,
    /// The instruction's bytes cannot all be read.
    Unreadable,
}

impl DetachReason {
    /// All reasons, in the order of their numbers.
    pub(crate) const ALL: [DetachReason; 14] = [
        DetachReason::GsAccess,
        DetachReason::SegmentRegister,
        DetachReason::SegmentBase,
        DetachReason::InterruptReturn,
        DetachReason::SoftwareInterrupt,
        DetachReason::Sysenter,
        DetachReason::Transaction,
        DetachReason::Enclave,
        DetachReason::PadLock,
        DetachReason::BranchOperandSize,
        DetachReason::RepeatAddressSize,
        DetachReason::Reach,
        DetachReason::Undecodable,
        DetachReason::Unreadable,
    ];

    /// The reason, in words that follow "cannot follow".
    pub fn word(self) -> &'static str {
        match self {
            DetachReason::GsAccess => "an access through %gs",
            DetachReason::SegmentRegister => "a write to a segment register",
            DetachReason::SegmentBase => "an instruction on segment bases",
            DetachReason::InterruptReturn => "a return from a user interrupt",
            DetachReason::SoftwareInterrupt => "a software interrupt",
            DetachReason::Sysenter => "sysenter",
            DetachReason::Transaction => "a transaction",
            DetachReason::Enclave => "an enclave",
            DetachReason::PadLock => "a PadLock instruction",
            DetachReason::BranchOperandSize => "a branch with an operand-size prefix",
            DetachReason::RepeatAddressSize => "a repeated string instruction with 32-bit addresses",
            DetachReason::Reach => "code that reaches too far",
            DetachReason::Undecodable => "unknown instruction bytes",
            DetachReason::Unreadable => "code that cannot be read",
        }
    }
}

/// Decodes blocks, with buffers that it uses again.
pub struct BlockDecoder {
    info: InstructionInfoFactory,
}

impl Default for BlockDecoder {
    fn default() -> BlockDecoder {
        BlockDecoder::new()
    }
}

impl BlockDecoder {
    /// A decoder for 64-bit code.
    pub fn new() -> BlockDecoder {
        BlockDecoder { info: InstructionInfoFactory::new() }
    }

    /// Decodes the block at the start of `code`.
    ///
    /// It never fails: an instruction that cannot be decoded ends the block by [`Terminator::Detach`]. Unless
    /// that is the first instruction, the block has at least one. The prefix of a block, for an execution
    /// that was cut short, is the block of the same bytes with that number as `max_instructions`.
    pub fn decode(&mut self, code: CodeBytes<'_>, limits: BlockLimits) -> Block {
        let max = limits.max_instructions.clamp(1, MAX_INSTRUCTIONS);
        let mut decoder = Decoder::with_ip(64, code.bytes, code.address, DecoderOptions::NONE);
        let mut builder = BlockBuilder::default();
        let terminator = loop {
            let at = decoder.ip();
            let full = builder.offsets.len() == max;
            if full || (at >= limits.stop_at && !builder.offsets.is_empty()) {
                break Terminator::FallThrough { next: at };
            }
            if let Some(end) = self.step(&mut decoder, code.bytes, &mut builder) {
                break end;
            }
        };
        builder.finish(code.address, terminator)
    }

    /// Decodes one instruction; `Some` when it ends the block.
    fn step(
        &mut self,
        decoder: &mut Decoder<'_>,
        bytes: &[u8],
        builder: &mut BlockBuilder,
    ) -> Option<Terminator> {
        let start = decoder.position();
        let instruction = decoder.decode();
        match ending(&instruction, decoder.last_error(), &bytes[start..]) {
            Err(reason) => Some(Terminator::Detach(reason)),
            Ok(end) => {
                let options = InstructionInfoOptions::NO_REGISTER_USAGE;
                builder.add(&instruction, self.info.info_options(&instruction, options));
                end
            }
        }
    }
}

/// A block in the making.
#[derive(Default)]
struct BlockBuilder {
    offsets: Vec<u16>,
    len: u16,
    events: EventTally,
    addends: Vec<(u16, Addend)>,
}

impl BlockBuilder {
    fn add(&mut self, instruction: &Instruction, info: &InstructionInfo) {
        let class = classify(instruction, info);
        self.events.add_all(&class.events);
        // `MAX_INSTRUCTIONS` of 15 bytes each: index, offset and length fit 16 bits.
        let index = self.offsets.len() as u16;
        self.addends.extend(class.addend.map(|addend| (index, addend)));
        self.offsets.push(self.len);
        self.len += instruction.len() as u16;
    }

    fn finish(self, address: u64, terminator: Terminator) -> Block {
        Block {
            address,
            len: self.len,
            offsets: self.offsets.into(),
            events: self.events.compact(),
            addends: self.addends.into(),
            terminator,
        }
    }
}

fn why_invalid(error: DecoderError) -> DetachReason {
    if error == DecoderError::NoMoreBytes { DetachReason::Unreadable } else { DetachReason::Undecodable }
}

/// The end of the block for an instruction that can be followed; `None` where the block continues.
fn terminator(instruction: &Instruction) -> Option<Terminator> {
    match branch(instruction) {
        Some(Branch::IndirectJump) => Some(Terminator::IndirectJump),
        Some(Branch::IndirectCall) => Some(Terminator::IndirectCall { return_to: instruction.next_ip() }),
        Some(Branch::Return) => Some(Terminator::Return { drops: dropped(instruction) }),
        Some(_) => near_branch(instruction),
        None => no_branch(instruction),
    }
}

/// The end of the block for a branch with its target in the instruction; `None` for all others.
pub(crate) fn near_branch(instruction: &Instruction) -> Option<Terminator> {
    let next = instruction.next_ip();
    let target = instruction.near_branch_target();
    match branch(instruction)? {
        Branch::Conditional => Some(Terminator::Conditional { taken: target, not_taken: next }),
        Branch::Jump => Some(Terminator::Jump { target }),
        Branch::Call => Some(Terminator::Call { target, return_to: next }),
        Branch::IndirectJump | Branch::IndirectCall | Branch::Return => None,
    }
}

fn dropped(ret: &Instruction) -> u16 {
    if ret.op_count() > 0 { ret.immediate16() } else { 0 }
}

/// Privileged instructions and calls of a hypervisor do not end a block: the processor handles them in place.
fn no_branch(instruction: &Instruction) -> Option<Terminator> {
    match instruction.flow_control() {
        _ if instruction.mnemonic() == M::Syscall => {
            Some(Terminator::SystemCall { next: instruction.next_ip() })
        }
        _ if is_far(instruction) => Some(Terminator::FarTransfer),
        FlowControl::Exception => Some(Terminator::Trap(TrapKind::Undefined)),
        FlowControl::Interrupt => Some(Terminator::Trap(TrapKind::Breakpoint)),
        _ => None,
    }
}

/// The end of the block for an instruction; `None` where the block continues.
///
/// `error` is the decoder's; `bytes` starts with the instruction.
///
/// # Errors
///
/// The reason why it cannot be followed.
pub(crate) fn ending(
    instruction: &Instruction,
    error: DecoderError,
    bytes: &[u8],
) -> Result<Option<Terminator>, DetachReason> {
    if instruction.is_invalid() {
        return Err(why_invalid(error));
    }
    match detach_reason(instruction, bytes) {
        Some(reason) => Err(reason),
        None => Ok(terminator(instruction)),
    }
}

/// The reason why an instruction cannot be followed; `None` where it can.
fn detach_reason(instruction: &Instruction, bytes: &[u8]) -> Option<DetachReason> {
    if let Some(reason) = unfollowed(instruction.mnemonic()) {
        return Some(reason);
    }
    if branch(instruction).is_some() && has_operand_size_prefix(bytes) {
        return Some(DetachReason::BranchOperandSize);
    }
    if writes_segment_register(instruction) {
        return Some(DetachReason::SegmentRegister);
    }
    accesses_gs(instruction).then_some(DetachReason::GsAccess)
}

fn unfollowed(mnemonic: M) -> Option<DetachReason> {
    match mnemonic {
        M::Rdgsbase | M::Wrgsbase => Some(DetachReason::SegmentBase),
        M::Uiret | M::Eretu | M::Erets => Some(DetachReason::InterruptReturn),
        M::Int => Some(DetachReason::SoftwareInterrupt),
        M::Sysenter => Some(DetachReason::Sysenter),
        M::Xbegin => Some(DetachReason::Transaction),
        M::Enclu => Some(DetachReason::Enclave),
        M::Xstore
        | M::Xstore_alt
        | M::Xcryptecb
        | M::Xcryptcbc
        | M::Xcryptctr
        | M::Xcryptcfb
        | M::Xcryptofb
        | M::Montmul
        | M::Xsha1
        | M::Xsha256
        | M::Xsha512
        | M::Xsha512_alt
        | M::Ccs_hash
        | M::Ccs_encrypt => Some(DetachReason::PadLock),
        _ => None,
    }
}

fn is_far(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), M::Iret | M::Iretd | M::Iretq | M::Retf)
        || instruction.is_jmp_far()
        || instruction.is_call_far()
        || instruction.is_jmp_far_indirect()
        || instruction.is_call_far_indirect()
}

/// Includes the stack and code segments. Instructions for the kernel alone fault as they do natively.
fn writes_segment_register(instruction: &Instruction) -> bool {
    match instruction.mnemonic() {
        M::Lss | M::Lfs | M::Lgs => true,
        M::Mov | M::Pop => instruction.op_count() > 0 && instruction.op0_register().is_segment_register(),
        _ => false,
    }
}

/// A prefix on an instruction without an access (lea, nop) has no effect.
fn accesses_gs(instruction: &Instruction) -> bool {
    #[rustfmt::skip]
    let idle = matches!(
        instruction.mnemonic(),
        M::Lea | M::Nop | M::Reservednop | M::Prefetchnta | M::Prefetcht0 | M::Prefetcht1 | M::Prefetcht2
            | M::Prefetchw
    );
    instruction.segment_prefix() == Register::GS && !idle && accesses_memory(instruction)
}

/// Whether an operand can be in a segment that a prefix chooses: an ordinary one, or the source of a string.
fn accesses_memory(instruction: &Instruction) -> bool {
    instruction.op_kinds().any(|kind| {
        matches!(
            kind,
            OpKind::Memory
                | OpKind::MemorySegSI
                | OpKind::MemorySegESI
                | OpKind::MemorySegRSI
                | OpKind::MemorySegDI
                | OpKind::MemorySegEDI
                | OpKind::MemorySegRDI
        )
    }) || instruction.mnemonic() == M::Xlatb
}

/// Whether an operand-size prefix is in force, which REX.W overrules.
///
/// # Source
///
/// Intel SDM volume 2, section 2.1.1 and `JMP`; AMD APM volume 3 (24594), section 1.2.2: in 64-bit mode the
/// prefix selects 16-bit near branches on AMD. `data16 rex.w call` is common: calls to `__tls_get_addr`.
fn has_operand_size_prefix(bytes: &[u8]) -> bool {
    let mut found = false;
    let mut wide = false;
    for byte in bytes {
        match byte {
            0x66 => (found, wide) = (true, false),
            0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0x67 | 0xf0 | 0xf2 | 0xf3 => wide = false,
            0x40..=0x4f => wide = byte & 8 != 0,
            _ => break,
        }
    }
    found && !wide
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ExecutionEvent;

    const AT: u64 = 0x40_1000;

    fn block(bytes: &[u8]) -> Block {
        BlockDecoder::new().decode(CodeBytes { address: AT, bytes }, BlockLimits::page(AT))
    }

    #[track_caller]
    fn check(bytes: &[u8], terminator: Terminator, instructions: usize) {
        let block = block(bytes);
        assert_eq!((block.terminator, block.offsets.len()), (terminator, instructions));
    }

    #[test]
    fn each_kind_of_branch_ends_a_block_with_its_targets() {
        use Terminator::*;
        check(&[0x90, 0x74, 0x10], Conditional { taken: AT + 0x13, not_taken: AT + 3 }, 2);
        check(&[0xe3, 0xfe], Conditional { taken: AT, not_taken: AT + 2 }, 1);
        check(&[0xe2, 0x00], Conditional { taken: AT + 2, not_taken: AT + 2 }, 1);
        check(&[0xeb, 0xfe], Jump { target: AT }, 1);
        check(&[0xe9, 0, 0, 0, 0x80], Jump { target: (AT + 5).wrapping_sub(0x8000_0000) }, 1);
        check(&[0xe8, 1, 0, 0, 0], Call { target: AT + 6, return_to: AT + 5 }, 1);
        check(&[0xff, 0xe0], IndirectJump, 1);
        check(&[0xff, 0x25, 0, 0, 0, 0], IndirectJump, 1);
        check(&[0xff, 0x17], IndirectCall { return_to: AT + 2 }, 1);
        check(&[0xc3], Return { drops: 0 }, 1);
        check(&[0xf3, 0xc3], Return { drops: 0 }, 1);
        check(&[0xc2, 8, 0], Return { drops: 8 }, 1);
        check(&[0x0f, 0x05], SystemCall { next: AT + 2 }, 1);
        check(&[0x90, 0x48, 0xcf], FarTransfer, 2); // iretq
        check(&[0xcf], FarTransfer, 1); // iretd
        check(&[0xcb], FarTransfer, 1); // retf
        check(&[0x48, 0xcb], FarTransfer, 1);
        check(&[0xff, 0x2f], FarTransfer, 1); // jmp far [rdi]
        check(&[0x48, 0xff, 0x1f], FarTransfer, 1); // call far [rdi]
        check(&[0x0f, 0x0b], Trap(super::TrapKind::Undefined), 1);
        check(&[0xcc], Trap(super::TrapKind::Breakpoint), 1);
        check(&[0xf1], Trap(super::TrapKind::Breakpoint), 1);
    }

    #[test]
    fn an_instruction_that_cannot_be_followed_ends_the_block_before_it() {
        let check = |bytes: &[u8], reason| {
            let with_nop: Vec<u8> = [&[0x90], bytes].concat();
            let block = block(&with_nop);
            assert_eq!((block.terminator, block.end()), (Terminator::Detach(reason), AT + 1), "{bytes:x?}");
            assert_eq!(block.events.of(ExecutionEvent::Instructions), 1);
        };
        check(&[0x65, 0x48, 0x8b, 0x07], DetachReason::GsAccess); // mov rax, gs:[rdi]
        check(&[0x65, 0xa4], DetachReason::GsAccess); // movsb from gs:[rsi]
        check(&[0x65, 0xff, 0x27], DetachReason::GsAccess); // jmp gs:[rdi]
        check(&[0x8e, 0xe8], DetachReason::SegmentRegister); // mov gs, eax
        check(&[0x0f, 0xa9], DetachReason::SegmentRegister); // pop gs
        check(&[0x8e, 0xd8], DetachReason::SegmentRegister); // mov ds, eax
        check(&[0x0f, 0xb5, 0x07], DetachReason::SegmentRegister); // lgs eax, [rdi]
        check(&[0xf3, 0x0f, 0xae, 0xc8], DetachReason::SegmentBase); // rdgsbase eax
        check(&[0xf3, 0x48, 0x0f, 0xae, 0xd8], DetachReason::SegmentBase); // wrgsbase rax
        check(&[0x65, 0xff, 0x2f], DetachReason::GsAccess); // jmp far gs:[rdi]
        check(&[0xf3, 0x0f, 0x01, 0xec], DetachReason::InterruptReturn); // uiret
        check(&[0xcd, 0x80], DetachReason::SoftwareInterrupt);
        check(&[0x0f, 0x34], DetachReason::Sysenter);
        check(&[0xc7, 0xf8, 0, 0, 0, 0], DetachReason::Transaction); // xbegin
        check(&[0x0f, 0x01, 0xd7], DetachReason::Enclave); // enclu
        check(&[0xf3, 0x0f, 0xa7, 0xc8], DetachReason::PadLock); // rep xcryptecb
        check(&[0x66, 0xe9, 0, 0, 0, 0], DetachReason::BranchOperandSize);
        check(&[0x66, 0xc3], DetachReason::BranchOperandSize);
        check(&[0x48, 0x66, 0xe8, 0, 0, 0, 0], DetachReason::BranchOperandSize); // REX is not last
        check(&[0x06, 0x90, 0x90], DetachReason::Undecodable); // push es, not in 64-bit code
        check(&[0x48, 0x8b], DetachReason::Unreadable); // mov, cut off
        check(&[], DetachReason::Unreadable);
    }

    #[test]
    fn harmless_relatives_are_followed() {
        let check = |bytes: &[u8]| {
            let block = block(&[bytes, &[0xc3]].concat());
            assert_eq!(block.terminator, Terminator::Return { drops: 0 }, "{bytes:x?}");
            assert_eq!(block.offsets.len(), 2);
        };
        check(&[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0]); // mov rax, fs:[0x28]
        check(&[0x65, 0x48, 0x8d, 0x07]); // lea with a gs prefix
        check(&[0x65, 0x0f, 0x1f, 0x00]); // nop with a gs prefix
        check(&[0x65, 0x0f, 0x18, 0x0f]); // prefetcht0 gs:[rdi]
        check(&[0x8c, 0xe8]); // mov eax, gs
        check(&[0x0f, 0x01, 0xd6]); // xtest
        check(&[0xf3, 0x48, 0x0f, 0x1e, 0xc8]); // rdsspq
        check(&[0xf4]); // hlt faults in place
        check(&[0x0f, 0x01, 0xd9]); // vmmcall
        check(&[0x66, 0x90]); // two-byte nop
    }

    #[test]
    fn a_call_padded_by_the_linker_is_followed() {
        let call = [0x66, 0x66, 0x48, 0xe8, 0, 0, 0, 0];
        check(&call, Terminator::Call { target: AT + 8, return_to: AT + 8 }, 1);
    }

    #[test]
    fn a_block_stops_at_its_limits_and_says_where_to_go_on() {
        let nops = [0x90; 64];
        let code = CodeBytes { address: AT + 0xff0, bytes: &nops };
        let mut decoder = BlockDecoder::new();
        let paged = decoder.decode(code, BlockLimits::page(code.address));
        assert_eq!(
            (paged.offsets.len(), paged.terminator),
            (16, Terminator::FallThrough { next: AT + 0x1000 })
        );
        let short = decoder.decode(code, BlockLimits { max_instructions: 3, stop_at: u64::MAX });
        assert_eq!((&short.offsets[..], short.end()), (&[0, 1, 2][..], AT + 0xff3));
        for careless in [0, usize::MAX] {
            let limits = BlockLimits { max_instructions: careless, stop_at: 0 };
            assert_eq!(decoder.decode(code, limits).offsets.len(), 1, "progress is made");
        }
    }

    #[test]
    fn an_instruction_may_reach_over_the_page() {
        let code = CodeBytes { address: AT + 0xffe, bytes: &[0x48, 0x89, 0xc3, 0x90] };
        let block = BlockDecoder::new().decode(code, BlockLimits::page(code.address));
        assert_eq!((block.len, block.terminator), (3, Terminator::FallThrough { next: AT + 0x1001 }));
    }

    #[test]
    fn the_last_page_of_memory_has_a_limit_too() {
        assert_eq!(BlockLimits::page(u64::MAX).stop_at, u64::MAX);
        assert_eq!(BlockLimits::page(0x1000).stop_at, 0x2000);
    }

    #[test]
    fn a_blocks_counts_are_the_sum_of_its_instructions() {
        // push rbx; rep movsb; vmovups zmm0{k1}, [rdi]; add [rdi], rax; je
        let bytes = [0x53, 0xf3, 0xa4, 0x62, 0xf1, 0x7c, 0x49, 0x10, 0x07, 0x48, 0x01, 0x07, 0x74, 0x00];
        let block = block(&bytes);
        assert_eq!(&block.offsets[..], [0, 1, 3, 9, 12]);
        let expected = [
            (ExecutionEvent::Instructions, 5),
            (ExecutionEvent::BasicBlocks, 1),
            (ExecutionEvent::Branches, 1),
            (ExecutionEvent::ConditionalBranches, 1),
            (ExecutionEvent::DirectBranches, 1),
            (ExecutionEvent::Loads, 2),
            (ExecutionEvent::Stores, 2),
            (ExecutionEvent::BytesLoaded, 8),
            (ExecutionEvent::BytesStored, 16),
            (ExecutionEvent::Simd512, 1),
            (ExecutionEvent::RepInstructions, 1),
        ];
        assert_eq!(block.events.iter().collect::<Vec<_>>(), expected);
        let at: Vec<u16> = block.addends.iter().map(|(at, _)| *at).collect();
        assert_eq!(at, [1, 2, 4]);
        assert_eq!(
            block.kinds().collect::<Vec<_>>(),
            [AddendKind::Iterations, AddendKind::Elements, AddendKind::Direction]
        );
    }

    #[test]
    fn the_longest_block_fits_its_sizes() {
        // nop of 15 bytes, as often as a block can hold.
        let nop = [0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0];
        let bytes = nop.repeat(MAX_INSTRUCTIONS + 1);
        let limits = BlockLimits { max_instructions: MAX_INSTRUCTIONS, stop_at: u64::MAX };
        let block = BlockDecoder::new().decode(CodeBytes { address: AT, bytes: &bytes }, limits);
        assert_eq!(usize::from(block.len), 15 * MAX_INSTRUCTIONS);
        assert_eq!(block.events.of(ExecutionEvent::Instructions) as usize, MAX_INSTRUCTIONS);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_decode_to_a_block_within_them(bytes in proptest::collection::vec(0u8.., 0..80)) {
            let block = block(&bytes);
            proptest::prop_assert!(usize::from(block.len) <= bytes.len());
            let of = |event| block.events.of(event);
            proptest::prop_assert!(of(ExecutionEvent::Instructions) as usize <= block.offsets.len());
            let direct = of(ExecutionEvent::DirectBranches);
            let kinds = direct + of(ExecutionEvent::IndirectBranches) + of(ExecutionEvent::Returns);
            proptest::prop_assert_eq!(of(ExecutionEvent::Branches), kinds);
            if block.offsets.is_empty() {
                proptest::prop_assert!(matches!(block.terminator, Terminator::Detach(_)));
            }
        }
    }
}

//! The log of a thread's executed blocks and data accesses, for the model of caches
//! ([`crate::model::misses`]).
//!
//! # Problem
//!
//! A model needs the address of each access, in order. A log with a word for each access would be most of the
//! work of a program. But most addresses follow from few registers: a block that uses `[rdi + 8]` and
//! `[rdi + 16]` tells both by rdi.
//!
//! # Method
//!
//! A block has a *record*: a word with its number, then the value of each register that an address needs and
//! that does not follow from the words before. A register follows from a word as long as it is only copied,
//! pushed by, or changed by constants. [`AccessPlan`] says which registers are logged before which
//! instruction, and how each address follows from the words. The translation emits the plan, and the host
//! replays it.
//!
//! ```text
//!   full?        bit 24 of the end of the log
//!   record       [end] = block; end += 8 × words, and stays in r11
//!   before an instruction that needs a register:  [r11 − 8 × words + 8 × k] = register
//! ```
//!
//! The end of the log is moved at the start of the block. So the record of a block that a signal interrupts
//! is whole up to the instructions that were executed ([`RecordState`]).
//!
//! An instruction that is repeated (`rep movs`) logs its pointers before and after it: the difference is the
//! number of elements, and its sign the direction.
//!
//! # Literature
//!
//! Larus, "Abstract Execution: A Technique for Efficiently Tracing Programs", 1990: traces from which the
//! addresses follow.

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, InstructionInfo, InstructionInfoFactory};
use iced_x86::{FlowControl, Mnemonic as M, OpAccess, OpKind, Register, UsedMemory};

use super::call_log::{FULL_LOG, LogExit};
use super::emit::{CodeEmitter, EmitState};
use super::program_point::PcBits;
use super::slot_layout::{CALL_LOG, CALL_LOG_BYTES, CALL_LOG_END, R11, RCX};
use super::{PcEntry, RcxTest, Translation};
use crate::block::MAX_INSTRUCTIONS;
use crate::memory::is_repeated;

/// Bytes of the longest record, which may begin right before the end of the log: each instruction has two
/// addresses at most, of two registers each.
const LONGEST_RECORD: u32 = 8 * (1 + 4 * MAX_INSTRUCTIONS as u32);

/// Bytes of a log.
pub(crate) const ACCESS_LOG_BYTES: u32 = CALL_LOG_BYTES - LONGEST_RECORD;

/// The value of the end of an empty log.
pub(crate) const EMPTY_ACCESS_LOG: u64 = FULL_LOG - ACCESS_LOG_BYTES as u64;

/// The distance from the end of the log to its memory in the slot.
const TO_LOG: u32 = CALL_LOG.wrapping_sub(EMPTY_ACCESS_LOG as u32);

/// A register whose value is logged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LoggedRegister {
    /// The number of the instruction before which it is logged; that of all instructions: after the last one.
    pub(crate) step: u16,
    /// The number of the register.
    pub(crate) register: u8,
}

/// A value that follows from a word of the record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LoggedValue {
    /// The word, from 1 on: word 0 is the block.
    pub(crate) word: u16,
    /// The distance from it.
    pub(crate) delta: u64,
    /// Whether only its lower half counts.
    pub(crate) is_narrow: bool,
}

/// The address of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PlannedAccess {
    pub(crate) base: Option<LoggedValue>,
    pub(crate) index: Option<LoggedValue>,
    pub(crate) scale: u8,
    pub(crate) displacement: u64,
    /// Whether addresses have 32 bits.
    pub(crate) is_narrow: bool,
    /// Whether the base of %fs is added.
    pub(crate) uses_fs: bool,
    pub(crate) bytes: u64,
}

impl PlannedAccess {
    /// The address, from the words of the record.
    pub(crate) fn address(&self, record: &[u64], fs_base: u64) -> u64 {
        let value = |logged: Option<LoggedValue>| {
            logged.map_or(0, |LoggedValue { word, delta, is_narrow }| {
                let value = record.get(usize::from(word)).copied().unwrap_or(0).wrapping_add(delta);
                if is_narrow { value & 0xffff_ffff } else { value }
            })
        };
        let index = value(self.index).wrapping_mul(self.scale.into());
        let address = value(self.base).wrapping_add(index).wrapping_add(self.displacement);
        let address = if self.is_narrow { address & 0xffff_ffff } else { address };
        if self.uses_fs { address.wrapping_add(fs_base) } else { address }
    }
}

/// The pointer that tells how often an instruction is repeated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PlannedRepeat {
    /// The number of the register.
    pub(crate) register: u8,
    pub(crate) before: LoggedValue,
    /// The word with its value after the instruction.
    pub(crate) after: u16,
    /// The distance of two elements.
    pub(crate) bytes: u64,
}

impl PlannedRepeat {
    /// The number of elements, and the distance of one from the one before, by the pointer afterwards.
    pub(crate) fn elements(&self, record: &[u64], after: u64) -> (u64, u64) {
        let before = record.get(usize::from(self.before.word)).copied().unwrap_or(0);
        let moved = after.wrapping_sub(before.wrapping_add(self.before.delta)).cast_signed();
        let bytes = self.bytes.max(1);
        let step = if moved < 0 { bytes.wrapping_neg() } else { bytes };
        (moved.unsigned_abs() / bytes, step)
    }
}

/// The branch at the end of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PlannedBranch {
    None,
    Conditional,
    Indirect,
}

/// An instruction of a block, for the model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PlannedStep {
    pub(crate) address: u64,
    pub(crate) length: u8,
    pub(crate) accesses: Vec<PlannedAccess>,
    pub(crate) repeat: Option<PlannedRepeat>,
    pub(crate) branch: PlannedBranch,
}

/// The record of a block, and the meaning of its words.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct AccessPlan {
    /// The registers that are logged, in order.
    pub(crate) logged: Vec<LoggedRegister>,
    pub(crate) steps: Vec<PlannedStep>,
    /// Whether an instruction changes the base of %fs, which no record has.
    pub(crate) changes_fs: bool,
}

/// The position of a thread in its last record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecordState {
    /// All records are of blocks that were executed to their ends.
    Complete,
    /// The last record is of this block, of which the first instructions were executed.
    InBlock {
        block: u32,
        done: u16,
        /// Whether the next instruction is repeated, and may be in the middle of it.
        repeats: bool,
    },
}

impl AccessPlan {
    /// The plan of some instructions in a row.
    pub(crate) fn of(address: u64, bytes: &[u8], instructions: usize) -> AccessPlan {
        let mut planner = Planner::default();
        let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
        let mut factory = InstructionInfoFactory::new();
        for step in 0..instructions {
            let instruction = decoder.decode();
            let info = factory.info(&instruction);
            planner.add(step as u16, &instruction, info);
        }
        planner.plan
    }

    /// Words of the record.
    pub(crate) fn words(&self) -> usize {
        1 + self.logged.len()
    }
}

/// A plan in the making.
#[derive(Default)]
struct Planner {
    plan: AccessPlan,
    /// The word that each register follows from, and its distance from that.
    known: [Option<(u16, u64)>; 16],
}

impl Planner {
    /// The value of a register before an instruction, which is logged unless it follows.
    fn value(&mut self, step: u16, register: Register) -> Option<LoggedValue> {
        let number = general(register)?;
        let is_narrow = register.size() == 4;
        if let Some((word, delta)) = self.known[number] {
            return Some(LoggedValue { word, delta, is_narrow });
        }
        let word = self.log(step, number);
        Some(LoggedValue { word, delta: 0, is_narrow })
    }

    fn log(&mut self, step: u16, number: usize) -> u16 {
        self.plan.logged.push(LoggedRegister { step, register: number as u8 });
        let word = self.plan.logged.len() as u16;
        self.known[number] = Some((word, 0));
        word
    }

    fn add(&mut self, step: u16, instruction: &Instruction, info: &InstructionInfo) {
        let element_bytes = instruction.memory_size().size() as u64;
        let used = info.used_memory().iter().filter(|used| is_access(used.access()));
        let accesses: Vec<PlannedAccess> =
            used.filter_map(|used| self.access(step, used, element_bytes)).collect();
        let pointer = is_repeated(instruction).then(|| self.pointer(step, info)).flatten();
        self.follow(instruction, info);
        let repeat = pointer.map(|(number, before)| PlannedRepeat {
            register: number as u8,
            before,
            after: self.log(step + 1, number),
            bytes: element_bytes,
        });
        self.plan.changes_fs |= instruction.mnemonic() == M::Wrfsbase;
        self.plan.steps.push(PlannedStep {
            address: instruction.ip(),
            length: instruction.len() as u8,
            accesses,
            repeat,
            branch: match instruction.flow_control() {
                FlowControl::ConditionalBranch => PlannedBranch::Conditional,
                FlowControl::IndirectBranch | FlowControl::IndirectCall => PlannedBranch::Indirect,
                _ => PlannedBranch::None,
            },
        });
    }

    /// An access; `None` where its address is in a vector register, as of gathers.
    fn access(&mut self, step: u16, used: &UsedMemory, element_bytes: u64) -> Option<PlannedAccess> {
        let is_plain = |register: Register| register == Register::None || general(register).is_some();
        if !is_plain(used.base()) || !is_plain(used.index()) {
            return None;
        }
        let bytes = match used.memory_size().size() as u64 {
            0 => element_bytes,
            bytes => bytes,
        };
        Some(PlannedAccess {
            base: self.value(step, used.base()),
            index: self.value(step, used.index()),
            scale: used.scale() as u8,
            displacement: used.displacement(),
            is_narrow: used.address_size() == iced_x86::CodeSize::Code32,
            uses_fs: used.segment() == Register::FS,
            bytes,
        })
    }

    /// The pointer of a repeated instruction.
    fn pointer(&mut self, step: u16, info: &InstructionInfo) -> Option<(usize, LoggedValue)> {
        let uses = |register| info.used_memory().iter().any(|used| used.base().full_register() == register);
        let register = [Register::RDI, Register::RSI].into_iter().find(|register| uses(*register))?;
        Some((general(register)?, self.value(step, register)?))
    }

    /// The knowledge of registers behind an instruction.
    fn follow(&mut self, instruction: &Instruction, info: &InstructionInfo) {
        let follows = self.following(instruction);
        for used in info.used_registers() {
            let writes = !matches!(
                used.access(),
                OpAccess::None | OpAccess::NoMemAccess | OpAccess::Read | OpAccess::CondRead
            );
            if let (true, Some(number)) = (writes, general(used.register())) {
                self.known[number] = None;
            }
        }
        if let Some((number, value)) = follows {
            self.known[number] = value;
        }
    }

    /// The register that has a value afterwards that follows from the one of a register before.
    fn following(&self, instruction: &Instruction) -> Option<(usize, Option<(u16, u64)>)> {
        let known = |number: usize, delta: u64| {
            self.known[number].map(|(word, before)| (word, before.wrapping_add(delta)))
        };
        let operand = |number| match instruction.op_kind(number) {
            OpKind::Register => Some(instruction.op_register(number)).filter(|register| register.is_gpr64()),
            _ => None,
        };
        let to = if instruction.op_count() > 0 { operand(0) } else { None };
        let is_constant =
            |number| matches!(instruction.op_kind(number), OpKind::Immediate8to64 | OpKind::Immediate32to64);
        let stack = general(Register::RSP)?;
        match (instruction.mnemonic(), to) {
            (M::Push | M::Call, _) | (M::Pop | M::Ret, _) if to != Some(Register::RSP) => {
                let moved = i64::from(instruction.stack_pointer_increment());
                Some((stack, known(stack, moved.cast_unsigned())))
            }
            (M::Add | M::Sub, Some(to)) if is_constant(1) => {
                let (number, constant) = (general(to)?, instruction.immediate(1));
                let is_sum = instruction.mnemonic() == M::Add;
                Some((number, known(number, if is_sum { constant } else { constant.wrapping_neg() })))
            }
            (M::Inc, Some(to)) => Some((general(to)?, known(general(to)?, 1))),
            (M::Dec, Some(to)) => Some((general(to)?, known(general(to)?, u64::MAX))),
            (M::Mov, Some(to)) if matches!(instruction.code(), Code::Mov_r64_rm64 | Code::Mov_rm64_r64) => {
                Some((general(to)?, known(general(operand(1)?)?, 0)))
            }
            (M::Lea, Some(to)) if instruction.memory_index() == Register::None => {
                let base = Some(instruction.memory_base()).filter(|register| register.is_gpr64())?;
                Some((general(to)?, known(general(base)?, instruction.memory_displacement64())))
            }
            _ => None,
        }
    }
}

fn is_access(access: OpAccess) -> bool {
    !matches!(access, OpAccess::None | OpAccess::NoMemAccess)
}

/// The number of a general register, or of a part of it.
fn general(register: Register) -> Option<usize> {
    register.is_gpr().then(|| register.full_register().number())
}

impl CodeEmitter {
    /// Begins the record of a block, unless the log is full. `live` are the status flags that matter here.
    /// The next instructions have the returned state.
    pub(super) fn begin_record(
        &mut self,
        at: EmitState,
        words: usize,
        live: u8,
        test: RcxTest,
    ) -> (LogExit, EmitState) {
        let exit = if live == 0 {
            let behind = self.here();
            self.load(at, 11, CALL_LOG_END);
            self.put(at, &[0x41, 0x0f, 0xba, 0xe3, FULL_LOG.trailing_zeros() as u8]);
            let field = self.put_field(at, &[0x0f, 0x82]);
            LogExit { field, at, behind, reloads: false }
        } else {
            self.store(at, 1, RCX);
            let busy = at.with(PcBits::RCX);
            let behind = self.here();
            let field = self.check_log(busy, test);
            self.load(busy, 1, RCX);
            self.load(at, 11, CALL_LOG_END);
            LogExit { field, at: busy, behind, reloads: false }
        };
        self.put32(at, &[0x65, 0x49, 0xc7, 0x83], TO_LOG);
        self.extend32(at.subject);
        self.put32(at, &[0x4d, 0x8d, 0x9b], 8 * words as u32);
        self.store(at, 11, CALL_LOG_END);
        let logged = at.with(PcBits::LOGGED);
        self.keep_log_end();
        (exit, logged)
    }

    /// Logs a register as a word of a record of so many words.
    pub(super) fn log_register(&mut self, at: EmitState, register: u8, word: usize, words: usize) {
        self.bring_log_end(at, CALL_LOG_END);
        let offset = TO_LOG.wrapping_sub(8 * (words - word) as u32);
        let store = |register: u8| [0x65, 0x49 | register >> 3 << 2, 0x89, 0x83 | (register & 7) << 3];
        if u32::from(register) != Register::R11.number() as u32 {
            return self.put32(at, &store(register), offset);
        }
        // The program's r11 is in the slot.
        self.store(at, 1, RCX);
        let busy = at.with(PcBits::RCX);
        self.load(busy, 1, R11);
        self.put32(busy, &store(1), offset);
        self.load(busy, 1, RCX);
    }
}

impl Translation {
    /// The plan of a block, where accesses are logged.
    pub(crate) fn access_plan(&self, block: u32) -> Option<&AccessPlan> {
        self.access_plans.get(&block).map(|plan| &**plan)
    }

    /// The position in the last record at an instruction pointer in translated code.
    pub(crate) fn record_at(&self, pc: u64) -> RecordState {
        let region = self.regions.iter().find(|region| region.contains(pc));
        let entry = region.and_then(|region| region.pc_entry(pc, self.stored_pages.as_deref()));
        let Some(PcEntry { subject: block, done, bits, .. }) = entry else { return RecordState::Complete };
        let outside = [PcBits::IN_STUB, PcBits::TO_STUB, PcBits::TO_STUB_AND_RCX, PcBits::ARRIVED];
        let begun = [PcBits::LOGGED, PcBits::NEXT, PcBits::TAKEN, PcBits::TO_RCX];
        let is_begun = done > 0 || begun.into_iter().any(|bit| bits.has(bit));
        if !is_begun || outside.into_iter().any(|bit| bits.has(bit)) {
            return RecordState::Complete;
        }
        RecordState::InBlock { block, done, repeats: bits.has(PcBits::ITERATIONS) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(bytes: &[u8], instructions: usize) -> AccessPlan {
        AccessPlan::of(0x1000, bytes, instructions)
    }

    #[track_caller]
    fn check(bytes: &[u8], instructions: usize, logged: &[(u16, u8)]) -> AccessPlan {
        let plan = plan(bytes, instructions);
        let found: Vec<(u16, u8)> = plan.logged.iter().map(|one| (one.step, one.register)).collect();
        assert_eq!(found, logged);
        plan
    }

    #[test]
    fn a_register_is_logged_once_as_long_as_it_follows() {
        // mov rax, [rdi + 8]; mov rdx, [rdi + 16]; add rdi, 32; mov [rdi], rax
        let bytes = [0x48, 0x8b, 0x47, 8, 0x48, 0x8b, 0x57, 16, 0x48, 0x83, 0xc7, 32, 0x48, 0x89, 0x07];
        let plan = check(&bytes, 4, &[(0, 7)]);
        let addresses = |plan: &AccessPlan, record: &[u64]| -> Vec<u64> {
            plan.steps.iter().flat_map(|step| &step.accesses).map(|one| one.address(record, 0)).collect()
        };
        assert_eq!(addresses(&plan, &[0, 0x5000]), [0x5008, 0x5010, 0x5020]);
    }

    #[test]
    fn a_register_that_is_loaded_is_logged_again() {
        // mov rax, [rax]; mov rax, [rax]
        check(&[0x48, 0x8b, 0x00, 0x48, 0x8b, 0x00], 2, &[(0, 0), (1, 0)]);
    }

    #[test]
    fn pushes_and_calls_need_the_stack_pointer_once() {
        // push rbp; mov rbp, rsp; sub rsp, 16; mov [rbp - 8], rdi; call
        let bytes = [0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 16, 0x48, 0x89, 0x7d, 0xf8, 0xe8, 0, 0, 0, 0];
        let plan = check(&bytes, 5, &[(0, 4)]);
        let of = |step: usize| plan.steps[step].accesses[0].address(&[0, 0x8000], 0);
        assert_eq!([of(0), of(3), of(4)], [0x7ff8, 0x7ff0, 0x7fe0]);
    }

    #[test]
    fn popping_the_stack_pointer_and_leave_are_unknown() {
        // pop rsp; push rax: the second address does not follow from the first one.
        check(&[0x5c, 0x50], 2, &[(0, 4), (1, 4)]);
        // leave; pop rax
        check(&[0xc9, 0x58], 2, &[(0, 5), (1, 4)]);
    }

    #[test]
    fn a_repeated_instruction_logs_its_pointers_before_and_one_after() {
        // rep movsb; mov [rdi], al
        let plan = check(&[0xf3, 0xa4, 0x88, 0x07], 2, &[(0, 7), (0, 6), (1, 7)]);
        let repeat = plan.steps[0].repeat.unwrap();
        let record = [0, 0x100, 0x900, 0x110];
        assert_eq!(repeat.elements(&record, 0x110), (16, 1));
        assert_eq!(repeat.elements(&record, 0xf0), (16, 1u64.wrapping_neg()));
        assert_eq!(repeat.elements(&record, 0x100).0, 0);
        assert_eq!(plan.steps[1].accesses[0].address(&record, 0), 0x110);
    }

    #[test]
    fn segments_narrow_addresses_and_indices_are_respected() {
        // mov rax, fs:[0x28]; mov eax, [edi + esi * 4 - 4]
        let bytes = [0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0, 0x67, 0x8b, 0x44, 0xb7, 0xfc];
        let plan = check(&bytes, 2, &[(1, 7), (1, 6)]);
        assert_eq!(plan.steps[0].accesses[0].address(&[0], 0x7000), 0x7028);
        let record = [0, 0xffff_ffff_0000_0002, 0x1_0000_0001];
        assert_eq!(plan.steps[1].accesses[0].address(&record, 0), 2);
    }

    #[test]
    fn addresses_relative_to_code_need_no_word() {
        // mov rax, [rip + 0x10]; lea rdx, [rax + 8]
        let plan = check(&[0x48, 0x8b, 0x05, 0x10, 0, 0, 0, 0x48, 0x8d, 0x50, 8], 2, &[]);
        assert_eq!(plan.steps[0].accesses[0].address(&[0], 0), 0x1017);
        assert!(plan.steps[1].accesses.is_empty());
    }
}

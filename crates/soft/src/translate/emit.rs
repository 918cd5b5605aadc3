//! Encoding of translated code, with a PC-map entry for each instruction.
//!
//! Added instructions change neither the flags nor the program's stack. There are two exceptions: a counter
//! where the flags are dead, and the return address of a call, which is replaced before the program sees it.
//!
//! r11 belongs to the translator. Compilers use it last of all registers that a call need not preserve. The
//! program's r11 is in the slot, and the few instructions that use it load it from there. Within a block it
//! stays in the register until the translator needs r11 or the block ends: a load after a store delays the
//! next instruction.
//!
//! # Source
//!
//! Intel SDM volume 2: opcodes and ModR/M of each sequence.

use iced_x86::Register;

use super::instruction::{BranchOperand, DecodedInstruction, RegisterUse};
use super::pc_map::PcMap;
use super::program_point::{PcBits, PcEntry};
use super::{RcxTest, slot_layout};
use crate::addend::{ElementMask, MaskedElements};

/// Code in the making.
pub(crate) struct CodeEmitter {
    /// Address of the region.
    base: u64,
    /// The offset of the code in the region.
    start: u32,
    bytes: Vec<u8>,
    pc_map: PcMap,
    literals: Vec<(usize, u64)>,
    mismatches: Vec<StubMismatch>,
    /// The content of r11 before the next instruction.
    r11: R11State,
}

/// The path out of a stub whose address is not the target, emitted behind all other code.
struct StubMismatch {
    field: JumpField,
    at: EmitState,
    stub: StubAddress,
}

/// The address that a stub checks for, and where the program continues with any other.
#[derive(Clone, Copy)]
pub(crate) struct StubAddress {
    pub(crate) address: u64,
    pub(crate) otherwise: u64,
}

/// A stub that was emitted.
pub(crate) struct EmittedStub {
    /// The address of its first instruction.
    pub(crate) start: u64,
    /// The address behind its check, where rcx is restored.
    pub(crate) hit: u64,
    /// The state behind that.
    pub(crate) arrived: EmitState,
}

/// The content of r11.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum R11State {
    /// Anything, a counter for instance: the program's is in the slot.
    Free,
    /// The program's r11, as in the slot.
    Clean,
    /// The program's r11, which is to go to the slot.
    Dirty,
    /// The end of the log of accesses: the program's is in the slot.
    LogEnd,
}

/// Buffers that an emitter hands on to the next one.
#[derive(Default)]
pub(crate) struct EmitterBuffers {
    pub(crate) bytes: Vec<u8>,
    pc_map: Vec<u8>,
    literals: Vec<(usize, u64)>,
}

/// A 32-bit field that takes the distance to a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct JumpField(u32);

/// The state that is recorded in the PC-map entries of the next instructions.
#[derive(Clone, Copy)]
pub(crate) struct EmitState {
    pub(crate) subject: u32,
    pub(crate) done: u16,
    pub(crate) bits: PcBits,
}

impl EmitState {
    pub(crate) fn with(self, bits: PcBits) -> EmitState {
        EmitState { bits: self.bits.with(bits), ..self }
    }
}

impl CodeEmitter {
    pub(crate) fn new(base: u64, start: u32, buffers: EmitterBuffers) -> CodeEmitter {
        let EmitterBuffers { bytes, pc_map, literals } = buffers;
        let (pc_map, mismatches) = (PcMap::from(start, pc_map), Vec::new());
        CodeEmitter { base, start, bytes, pc_map, literals, mismatches, r11: R11State::Free }
    }

    /// The address of the next instruction.
    pub(crate) fn here(&self) -> u64 {
        self.base + u64::from(self.start) + self.bytes.len() as u64
    }

    /// The code, its address, its PC map, and the buffers for the next emitter.
    pub(crate) fn finish(mut self) -> (u64, Vec<u8>, PcMap, EmitterBuffers) {
        debug_assert_eq!(self.r11, R11State::Free);
        for StubMismatch { field, at, stub } in std::mem::take(&mut self.mismatches) {
            self.fill(field, self.here());
            self.leave_stub(at, stub);
        }
        self.emit_literals();
        self.align(16);
        let (pc_map, buffers) = self.pc_map.close();
        let buffers = EmitterBuffers { bytes: Vec::new(), pc_map: buffers, literals: self.literals };
        (self.base + u64::from(self.start), self.bytes, pc_map, buffers)
    }

    pub(crate) fn align(&mut self, to: usize) {
        while !(self.start as usize + self.bytes.len()).is_multiple_of(to) {
            self.bytes.push(0xcc);
        }
    }

    /// Bytes that are never executed.
    pub(crate) fn skip(&mut self, count: usize) {
        self.bytes.resize(self.bytes.len() + count, 0xcc);
    }

    fn emit_literals(&mut self) {
        self.align(8);
        for i in 0..self.literals.len() {
            let (field, value) = self.literals[i];
            let here = self.here();
            self.set(field, here);
            self.bytes.extend(value.to_le_bytes());
        }
        self.literals.clear();
    }

    #[inline(never)]
    fn add_entry(&mut self, at: EmitState) {
        let offset = self.start + self.bytes.len() as u32;
        let is_own = matches!(self.r11, R11State::Clean | R11State::Dirty);
        let bits = if is_own { at.bits.with(PcBits::OWN_R11) } else { at.bits };
        self.pc_map.push(PcEntry { at: offset, subject: at.subject, done: at.done, bits });
    }

    /// Emits one instruction. For a constant length the copy takes no call.
    #[inline(always)]
    pub(crate) fn put(&mut self, at: EmitState, bytes: &[u8]) {
        self.add_entry(at);
        self.bytes.extend_from_slice(bytes);
    }

    /// An instruction that ends with a 32-bit value.
    #[inline(always)]
    pub(super) fn put32(&mut self, at: EmitState, bytes: &[u8], value: u32) {
        self.put(at, bytes);
        self.bytes.extend(value.to_le_bytes());
    }

    /// Adds a 32-bit value to the instruction before.
    pub(super) fn extend32(&mut self, value: u32) {
        self.bytes.extend(value.to_le_bytes());
    }

    /// An instruction that ends with a distance that is not known yet.
    pub(crate) fn put_field(&mut self, at: EmitState, bytes: &[u8]) -> JumpField {
        self.put32(at, bytes, 0);
        JumpField(self.start + self.bytes.len() as u32 - 4)
    }

    /// An instruction that ends with the distance to an address.
    pub(crate) fn put_to(&mut self, at: EmitState, bytes: &[u8], target: u64) {
        let field = self.put_field(at, bytes);
        self.fill(field, target);
    }

    /// An instruction that ends with the distance to eight bytes with a value.
    pub(crate) fn put_literal(&mut self, at: EmitState, bytes: &[u8], value: u64) {
        self.put32(at, bytes, 0);
        self.literals.push((self.bytes.len() - 4, value));
    }

    /// Gives a field of this code the distance to a target.
    pub(crate) fn fill(&mut self, field: JumpField, target: u64) {
        self.set((field.0 - self.start) as usize, target);
    }

    fn set(&mut self, position: usize, target: u64) {
        let after = self.base + u64::from(self.start) + position as u64 + 4;
        // A region has 64 MB, and the reach of copied instructions was checked.
        let distance = target.wrapping_sub(after) as u32;
        self.bytes[position..position + 4].copy_from_slice(&distance.to_le_bytes());
    }

    /// The address of a field.
    pub(crate) fn address(&self, field: JumpField) -> u64 {
        self.base + u64::from(field.0)
    }

    /// `mov gs:[offset], reg` for rax, rcx (1), r11.
    pub(super) fn store(&mut self, at: EmitState, register: u8, offset: u32) {
        let (rex, register) = (0x48 | register >> 3 << 2, register & 7);
        self.put32(at, &[0x65, rex, 0x89, 0x04 | register << 3, 0x25], offset);
    }

    /// `mov reg, gs:[offset]`.
    pub(super) fn load(&mut self, at: EmitState, register: u8, offset: u32) {
        let (rex, register) = (0x48 | register >> 3 << 2, register & 7);
        self.put32(at, &[0x65, rex, 0x8b, 0x04 | register << 3, 0x25], offset);
    }

    /// Adds one to a counter: at once where flags do not matter.
    pub(crate) fn count(&mut self, at: EmitState, offset: u32, flags_dead: bool) {
        if flags_dead {
            return self.put32(at, &[0x65, 0x48, 0xff, 0x04, 0x25], offset);
        }
        self.change(at, offset, &[&[0x4d, 0x8d, 0x5b, 0x01]]);
    }

    /// Loads a counter into r11, where it stays until [`CodeEmitter::end_counting`].
    pub(crate) fn begin_counting(&mut self, at: EmitState, offset: u32) {
        debug_assert_eq!(self.r11, R11State::Free);
        let start = self.bytes.len();
        self.load(at, 11, offset);
        debug_assert_eq!(self.bytes.len(), start + BEGIN_COUNTING);
    }

    /// Adds one to the counter in r11.
    pub(crate) fn count_in_register(&mut self, at: EmitState, flags_dead: bool) {
        debug_assert!(at.bits.has(PcBits::COUNTING) && self.r11 == R11State::Free);
        self.put(at, register_count(flags_dead));
    }

    /// Puts the counter in r11 back.
    pub(crate) fn end_counting(&mut self, at: EmitState, offset: u32) {
        debug_assert!(at.bits.has(PcBits::COUNTING) && self.r11 == R11State::Free);
        self.store(at, 11, offset);
    }

    /// Aligns the `len` bytes that follow the next `behind` ones to one cache line, if they fit. Otherwise a
    /// loop of a few instructions takes a cycle more in each iteration.
    pub(crate) fn align_to_line(&mut self, at: EmitState, behind: usize, len: usize) {
        let start = self.start as usize + self.bytes.len() + behind;
        if len > LINE || start % LINE + len <= LINE {
            return;
        }
        let mut missing = LINE - start % LINE;
        while missing > 0 {
            let nop = NOPS[missing.min(NOPS.len()) - 1];
            self.put(at, nop);
            missing -= nop.len();
        }
    }

    /// Counts the edge to the outside, with rcx in the slot. Returns the states at the instruction and behind
    /// it.
    fn count_outside(
        &mut self,
        at: EmitState,
        after: EmitState,
        outside: Option<u32>,
    ) -> (EmitState, EmitState) {
        let Some(offset) = outside else { return (at, after) };
        self.count(at.with(PcBits::RCX), offset, false);
        (at.with(PcBits::OUTSIDE), after.with(PcBits::OUTSIDE))
    }

    /// Changes a counter by instructions on r11.
    fn change(&mut self, at: EmitState, offset: u32, steps: &[&[u8]]) {
        self.release_r11(at);
        self.load(at, 11, offset);
        steps.iter().for_each(|step| self.put(at, step));
        self.store(at, 11, offset);
    }

    /// Adds rcx to a counter.
    pub(crate) fn add_rcx(&mut self, at: EmitState, offset: u32) {
        self.change(at, offset, &[&[0x4d, 0x8d, 0x1c, 0x0b]]);
    }

    /// Subtracts rcx from a counter that it was added to.
    pub(crate) fn subtract_rcx(&mut self, at: EmitState, offset: u32) {
        let not: &[u8] = &[0x49, 0xf7, 0xd3];
        let before = at.with(PcBits::ITERATIONS).with(PcBits::DONE);
        self.change(before, offset, &[not, &[0x4d, 0x8d, 0x1c, 0x0b], not]);
    }

    /// Adds the number of elements that a mask selects to a counter. `states` are the states before and after
    /// the addition. The flags are kept in ax.
    ///
    /// # Source
    ///
    /// Intel SDM volume 2: `KMOV`, `MOVMSKPS`, `MOVMSKPD`, `PMOVMSKB`, `POPCNT`, `LAHF`, `SAHF`.
    pub(crate) fn count_elements(
        &mut self,
        at: EmitState,
        of: MaskedElements,
        offset: u32,
        states: (PcBits, PcBits),
    ) {
        let (before, after) = (EmitState { bits: states.0, ..at }, EmitState { bits: states.1, ..at });
        let rax = before.with(PcBits::RAX);
        self.store(before, 0, slot_layout::RAX);
        self.put(rax, &[0x9f]);
        self.put(rax, &[0x0f, 0x90, 0xc0]);
        let busy = rax.with(PcBits::FLAGS);
        self.store(busy, 1, slot_layout::RCX);
        self.put(busy, &mask_to_ecx(of));
        let both = busy.with(PcBits::RCX);
        if of.lanes < 64 {
            // Bits above the lanes do not count; 32 lanes leave all bits of ecx.
            let lanes = (1u64 << of.lanes) - 1;
            self.put32(both, &[0x81, 0xe1], lanes as u32);
        }
        self.put(both, &[0xf3, 0x48, 0x0f, 0xb8, 0xc9]);
        self.put32(both, &[0x65, 0x48, 0x01, 0x0c, 0x25], offset);
        let done = after.with(PcBits::RAX).with(PcBits::FLAGS);
        self.load(done.with(PcBits::RCX), 1, slot_layout::RCX);
        self.put(done, &[0x04, 0x7f]);
        self.put(done, &[0x9e]);
        self.load(after.with(PcBits::RAX), 0, slot_layout::RAX);
    }

    /// Copies an instruction of the program, with the program's r11 where it has that.
    /// [`CodeEmitter::release_r11`] is to follow before anything that needs r11 for itself.
    pub(crate) fn copy(&mut self, at: EmitState, instruction: &DecodedInstruction) {
        self.bring_r11(at, instruction);
        self.copy_alone(at, instruction);
        if instruction.r11 == RegisterUse::Changes {
            self.r11 = R11State::Dirty;
        }
    }

    /// Gives an instruction that has r11 the program's.
    fn bring_r11(&mut self, at: EmitState, instruction: &DecodedInstruction) {
        let is_missing = matches!(self.r11, R11State::Free | R11State::LogEnd);
        if instruction.r11 != RegisterUse::None && is_missing {
            self.load(at, 11, slot_layout::R11);
            self.r11 = R11State::Clean;
        }
    }

    /// Frees r11: the program's value goes to the slot, unless it is there.
    pub(crate) fn release_r11(&mut self, at: EmitState) {
        self.settle_r11(at);
        self.r11 = R11State::Free;
    }

    /// Stores the program's r11 in the slot, unless it is there, and keeps it in the register. An indirect
    /// branch may use it.
    pub(crate) fn settle_r11(&mut self, at: EmitState) {
        if self.r11 == R11State::Dirty {
            self.store(at, 11, slot_layout::R11);
            self.r11 = R11State::Clean;
        }
        if self.r11 == R11State::LogEnd {
            self.r11 = R11State::Free;
        }
    }

    /// r11 has the end of the log of accesses now.
    pub(super) fn keep_log_end(&mut self) {
        debug_assert_eq!(self.r11, R11State::Free);
        self.r11 = R11State::LogEnd;
    }

    /// Gives r11 the end of the log of accesses, from its offset in the slot, unless r11 has it.
    pub(super) fn bring_log_end(&mut self, at: EmitState, offset: u32) {
        if self.r11 != R11State::LogEnd {
            self.release_r11(at);
            self.load(at, 11, offset);
            self.r11 = R11State::LogEnd;
        }
    }

    fn copy_alone(&mut self, at: EmitState, instruction: &DecodedInstruction) {
        let position = self.bytes.len();
        self.put(at, &instruction.bytes);
        self.bytes.truncate(position + usize::from(instruction.len));
        if let Some((offset, target)) = instruction.relative {
            let after = self.here();
            let distance = (target.wrapping_sub(after) as u32).to_le_bytes();
            let position = position + usize::from(offset);
            self.bytes[position..position + 4].copy_from_slice(&distance);
        }
    }

    /// A conditional branch with a far reach, of [`len_of_conditional`] bytes.
    pub(crate) fn conditional(
        &mut self,
        at: EmitState,
        taken: EmitState,
        instruction: &DecodedInstruction,
    ) -> JumpField {
        let code = instruction.code();
        match condition(code) {
            Some(condition) => self.put_field(at, &[0x0f, 0x80 | condition]),
            // `jrcxz` and `loop` reach 127 bytes only: they jump over a jump that skips the taken exit.
            None => {
                let mut near = code[..code.len() - 1].to_vec();
                near.push(2);
                self.put(at, &near);
                let next = EmitState { bits: taken.bits.without(PcBits::TAKEN).with(PcBits::NEXT), ..taken };
                self.put(next, &[0xeb, 5]);
                self.put_field(taken, &[0xe9])
            }
        }
    }

    /// `mov rcx, operand`, out of the bytes of an indirect branch.
    fn load_target(&mut self, at: EmitState, instruction: &DecodedInstruction) {
        match instruction.target {
            Some(BranchOperand::Register(number)) => {
                self.bring_r11(at, instruction);
                let rex = 0x48 | (number >> 3);
                self.put(at, &[rex, 0x8b, 0xc8 | (number & 7)]);
            }
            _ => self.copy(at, &as_load(instruction)),
        }
        debug_assert_ne!(self.r11, R11State::Dirty);
        self.r11 = R11State::Free;
    }

    /// Jumps through the table of indirect targets, by rcx.
    fn dispatch(&mut self, at: EmitState, table: u64) {
        debug_assert_eq!(self.r11, R11State::Free);
        self.put(at, &[0x44, 0x0f, 0xb7, 0xd9]);
        self.put32(at, &[0x42, 0xff, 0x24, 0xdd], table as u32);
    }

    /// The first part of an indirect jump, which brings its target to rcx; `outside` counts it. Returns the
    /// states before and behind the jump.
    pub(crate) fn begin_indirect_jump(
        &mut self,
        at: EmitState,
        instruction: &DecodedInstruction,
        after: EmitState,
        outside: Option<u32>,
    ) -> (EmitState, EmitState) {
        self.store(at, 1, slot_layout::RCX);
        self.load_target(at, instruction);
        self.count_outside(at, after, outside)
    }

    /// The jump itself.
    pub(crate) fn end_indirect_jump(&mut self, table: u64, after: EmitState) {
        self.dispatch(after.with(PcBits::TO_RCX).with(PcBits::RCX), table);
    }

    /// The first part of an indirect call, up to the call of its thunk; `outside` is the counter of the edge.
    /// Returns the states in the thunk before and behind the call.
    pub(crate) fn indirect_call(
        &mut self,
        at: EmitState,
        instruction: &DecodedInstruction,
        after: EmitState,
        outside: Option<u32>,
    ) -> (JumpField, EmitState, EmitState) {
        self.store(at, 1, slot_layout::RCX);
        self.load_target(at, instruction);
        let (at, after) = self.count_outside(at, after, outside);
        (self.put_field(at.with(PcBits::RCX), &[0xe8]), at, after)
    }

    /// The thunk of an indirect call. It moves the pushed address to the return-address table, and pushes the
    /// program's return address.
    pub(crate) fn indirect_thunk(&mut self, at: EmitState, return_to: u64, table: u64, after: EmitState) {
        let busy = at.with(PcBits::RCX);
        self.direct_thunk(busy, return_to);
        self.dispatch(after.with(PcBits::TO_RCX).with(PcBits::RCX), table);
    }

    /// Pushes an address of the program's.
    fn push_address(&mut self, at: EmitState, address: u64) {
        if is_low(address) {
            self.put32(at, &[0x68], address as u32);
        } else {
            self.put_literal(at, &[0xff, 0x35], address);
        }
    }

    /// The thunk of a direct call, up to the jump to the called block.
    pub(crate) fn direct_thunk(&mut self, at: EmitState, return_to: u64) {
        debug_assert_eq!(self.r11, R11State::Free);
        let pushed = at.with(PcBits::PUSHED);
        self.put(pushed, &[0x44, 0x0f, 0xb7, 0xdc]);
        self.put32(pushed, &[0x65, 0x41, 0x8f, 0x83], slot_layout::RETURN_TABLE);
        self.push_address(at, return_to);
    }

    /// The first part of a return, which frees rcx. `outside` is the counter of the edge. Returns the states
    /// before and behind the return.
    pub(crate) fn begin_return(
        &mut self,
        at: EmitState,
        after: EmitState,
        outside: Option<u32>,
    ) -> (EmitState, EmitState) {
        self.store(at, 1, slot_layout::RCX);
        self.count_outside(at, after, outside)
    }

    /// The return itself. The program's return address goes to rcx, the address from the return-address table
    /// to the stack, for a real `ret`.
    pub(crate) fn end_return(&mut self, at: EmitState, drops: u16, after: EmitState) {
        debug_assert_eq!(self.r11, R11State::Free);
        let busy = at.with(PcBits::RCX);
        self.put(busy, &[0x44, 0x0f, 0xb7, 0xdc]);
        self.put(busy, &[0x59]);
        let after = after.with(PcBits::TO_RCX).with(PcBits::RCX);
        if drops > 0 {
            self.put32(busy.with(PcBits::POPPED), &[0x48, 0x8d, 0xa4, 0x24], u32::from(drops));
        }
        self.put32(after, &[0x65, 0x41, 0xff, 0xb3], slot_layout::RETURN_TABLE);
        self.put(after.with(PcBits::PUSHED), &[0xc3]);
    }

    /// The target of indirect branches and returns, with the address in rcx: restores rcx if it is the stub's
    /// address, or continues elsewhere. `edge` is the counter of the incoming edge, and whether the flags are
    /// dead there. A `return_site` is entered at its first instruction, right behind a call.
    ///
    /// `loop` is not taken if the address is the stub's, while `jrcxz` is. `loop` reaches 127 bytes. Its
    /// target must be out of the way of the usual path: code before the stub or, behind a call, a jump in the
    /// immediate value of an instruction that changes r11 only.
    pub(crate) fn lookup_stub(
        &mut self,
        subject: u32,
        stub: StubAddress,
        edge: Option<(u32, bool)>,
        test: RcxTest,
        return_site: bool,
    ) -> EmittedStub {
        debug_assert_eq!(self.r11, R11State::Free);
        let at =
            |bits: PcBits| EmitState { subject, done: 0, bits: bits.with(PcBits::RCX).with(PcBits::IN_STUB) };
        let (to_rcx, beyond) = (at(PcBits::TO_RCX), at(PcBits::TO_STUB_AND_RCX));
        let before = self.here();
        if test == RcxTest::Loop && !return_site {
            self.leave_stub(beyond, stub);
        }
        let (start, low) = (self.here(), is_low(stub.address));
        match test {
            RcxTest::Jrcxz => {
                self.add_to_rcx(to_rcx, stub.address.wrapping_neg(), low);
                // Skips the jump.
                self.put(beyond, &[0xe3, 5]);
                let field = self.put_field(beyond, &[0xe9]);
                self.mismatches.push(StubMismatch { field, at: beyond, stub });
            }
            RcxTest::Loop => {
                self.add_to_rcx(to_rcx, stub.address.wrapping_neg().wrapping_add(1), low);
                let one_more = beyond.with(PcBits::TO_RCX);
                let behind = self.here() + 2;
                // Into the immediate value, or back before the stub.
                let distance = if return_site { 2 } else { before.wrapping_sub(behind) as u8 };
                self.put(one_more, &[0xe2, distance]);
                if return_site {
                    let field = self.begin_hidden_jump(at(PcBits::TO_STUB), beyond);
                    self.mismatches.push(StubMismatch { field, at: beyond, stub });
                }
            }
        }
        let hit = self.here();
        let mut arrived = CodeEmitter::in_stub(subject);
        if let Some((offset, flags_dead)) = edge {
            self.count(at(PcBits::TO_STUB), offset, flags_dead);
            arrived = arrived.with(PcBits::ARRIVED);
        }
        self.load(arrived.with(PcBits::RCX), 1, slot_layout::RCX);
        EmittedStub { start, hit, arrived }
    }

    /// Jumps away unless a byte of the slot is zero; uses rcx and, where it does not jump, r11.
    pub(super) fn jump_unless_zero(&mut self, at: EmitState, offset: u32, test: RcxTest) -> JumpField {
        self.put32(at, &[0x65, 0x0f, 0xb6, 0x0c, 0x25], offset);
        match test {
            RcxTest::Jrcxz => {
                self.put(at, &[0xe3, 5]);
                self.put_field(at, &[0xe9])
            }
            RcxTest::Loop => {
                self.put(at, &[0x8d, 0x49, 1]);
                self.put(at, &[0xe2, 2]);
                self.begin_hidden_jump(at, at)
            }
        }
    }

    /// A jump in the immediate value of an instruction that changes r11 only. `at` is the state before that
    /// instruction, `taken` the one at the jump.
    pub(super) fn begin_hidden_jump(&mut self, at: EmitState, taken: EmitState) -> JumpField {
        debug_assert_eq!(self.r11, R11State::Free);
        self.put(at, &[0x49, 0xbb]);
        let field = self.put_field(taken, &[0xe9]);
        self.bytes.extend([0xcc; 3]);
        field
    }

    /// Brings the target back to rcx, which has its distance from the stub's address, and goes on to where
    /// another stub may check for it.
    fn leave_stub(&mut self, beyond: EmitState, stub: StubAddress) {
        let bits = beyond.bits.without(PcBits::TO_STUB_AND_RCX).with(PcBits::TO_RCX);
        let to_rcx = EmitState { bits, ..beyond };
        self.add_to_rcx(beyond, stub.address, is_low(stub.address));
        if reaches(self.here(), stub.otherwise) {
            self.put_to(to_rcx, &[0xe9], stub.otherwise);
        } else {
            self.put_literal(to_rcx, &[0xff, 0x25], stub.otherwise);
        }
    }

    /// Adds a value to rcx: a low address or its negative directly, any other value by r11.
    fn add_to_rcx(&mut self, at: EmitState, value: u64, low: bool) {
        if low {
            return self.put32(at, &[0x48, 0x8d, 0x89], value as u32);
        }
        self.put(at, &[0x49, 0xbb]);
        self.bytes.extend(value.to_le_bytes());
        self.put(at, &[0x4a, 0x8d, 0x0c, 0x19]);
    }

    /// A system call, which leaves the flags in r11. Stops before the calls that the filter names. Returns
    /// the address of the stop.
    pub(crate) fn system_call(&mut self, at: EmitState, next: u64, after: EmitState, filter: u64) -> u64 {
        let busy = at.with(PcBits::RCX);
        debug_assert_eq!(self.r11, R11State::Free);
        // A restarted call is back at its instruction, with the flags there.
        self.load(at, 11, slot_layout::R11);
        self.store(at, 1, slot_layout::RCX);
        self.put(busy, &[0x0f, 0xb7, 0xc8]);
        self.put32(busy, &[0x0f, 0xb6, 0x89], filter as u32);
        self.put(busy, &[0xe3, 1]);
        let stop = self.here();
        self.put(busy, &[0xcc]);
        self.put(busy.with(PcBits::OWN_R11), &[0x0f, 0x05]);
        let after = after.with(PcBits::OWN_R11);
        self.put_to(after.with(PcBits::RCX_IS_NEXT), &[0x48, 0x8d, 0x0d], next);
        self.store(after, 11, slot_layout::R11);
        stop
    }

    /// Jumps on from a dispatcher that is reached with the target in rcx.
    pub(crate) fn bare_dispatch(&mut self, table: u64) {
        self.dispatch(CodeEmitter::lost(), table);
    }

    /// A stop with the target in rcx. Gives its address.
    pub(crate) fn bare_stop(&mut self) -> u64 {
        let here = self.here();
        self.put(CodeEmitter::lost(), &[0xcc]);
        here
    }

    /// The state behind the check of a stub, with the program's registers.
    pub(crate) fn in_stub(subject: u32) -> EmitState {
        EmitState { subject, done: 0, bits: PcBits::TO_STUB.with(PcBits::IN_STUB) }
    }

    /// Outside of every block, on the path to the address in rcx.
    fn lost() -> EmitState {
        let bits = PcBits::TO_RCX.with(PcBits::RCX).with(PcBits::OUTSIDE);
        EmitState { subject: u32::MAX, done: 0, bits }
    }
}

/// Bytes of a line of the cache.
const LINE: usize = 64;

/// Bytes of [`CodeEmitter::begin_counting`].
pub(crate) const BEGIN_COUNTING: usize = 9;

/// Instructions of one to nine bytes that do nothing.
///
/// # Source
///
/// Intel SDM volume 2, `NOP`: recommended multi-byte sequences.
const NOPS: [&[u8]; 9] = [
    &[0x90],
    &[0x66, 0x90],
    &[0x0f, 0x1f, 0x00],
    &[0x0f, 0x1f, 0x40, 0x00],
    &[0x0f, 0x1f, 0x44, 0x00, 0x00],
    &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
    &[0x0f, 0x1f, 0x80, 0, 0, 0, 0],
    &[0x0f, 0x1f, 0x84, 0x00, 0, 0, 0, 0],
    &[0x66, 0x0f, 0x1f, 0x84, 0x00, 0, 0, 0, 0],
];

/// The instruction of [`CodeEmitter::count_in_register`]: `inc r11`, or `lea r11, [r11 + 1]`, which keeps
/// flags.
pub(crate) fn register_count(flags_dead: bool) -> &'static [u8] {
    if flags_dead { &[0x49, 0xff, 0xc3] } else { &[0x4d, 0x8d, 0x5b, 0x01] }
}

/// The condition of a branch that tests flags; `None` of those that test rcx.
fn condition(code: &[u8]) -> Option<u8> {
    let opcode = code.iter().position(|byte| matches!(byte, 0x70..=0x7f | 0x0f | 0xe0..=0xe3));
    debug_assert!(opcode.is_some(), "{code:x?} is no conditional branch");
    match code[opcode.unwrap_or(0)..] {
        [0x0f, far, ..] => Some(far & 0xf),
        [short @ 0x70..=0x7f, ..] => Some(short & 0xf),
        _ => None,
    }
}

/// Bytes of a conditional branch where it is copied.
pub(crate) fn len_of_conditional(instruction: &DecodedInstruction) -> usize {
    if condition(instruction.code()).is_some() { 6 } else { instruction.code().len() + 2 + 5 }
}

/// Whether an address, and its negative, is a signed 32-bit value, which fits in an instruction.
fn is_low(address: u64) -> bool {
    i32::try_from(address).is_ok()
}

/// Whether a jump's 32-bit distance suffices, an instruction's length apart.
pub(super) fn reaches(from: u64, to: u64) -> bool {
    let distance = to.wrapping_sub(from).cast_signed();
    i32::try_from(distance).is_ok_and(|d| (i32::MIN + 64..i32::MAX - 64).contains(&d))
}

/// Brings one bit for each element of a mask to ecx, or rcx for more than 32.
fn mask_to_ecx(of: MaskedElements) -> Vec<u8> {
    let number = |register: Register| register.number() as u8;
    match of.mask {
        ElementMask::Opmask(k) => {
            let modrm = 0xc8 | number(k);
            match of.lanes {
                ..=16 => vec![0xc5, 0xf8, 0x93, modrm],
                17..=32 => vec![0xc5, 0xfb, 0x93, modrm],
                _ => vec![0xc4, 0xe1, 0xfb, 0x93, modrm],
            }
        }
        ElementMask::Signs(register) if register.is_mm() => vec![0x0f, 0xd7, 0xc8 | number(register)],
        ElementMask::Signs(register) if of.element_bytes == 1 => {
            let rex = 0x40 | number(register) >> 3;
            vec![0x66, rex, 0x0f, 0xd7, 0xc8 | (number(register) & 7)]
        }
        ElementMask::Signs(register) => {
            let far = if number(register) < 8 { 0xe1 } else { 0xc1 };
            let wide = if register.is_ymm() { 4 } else { 0 };
            let double = u8::from(of.element_bytes == 8);
            vec![0xc4, far, 0x78 | wide | double, 0x50, 0xc8 | (number(register) & 7)]
        }
    }
}

/// `mov rcx, [...]` with the operand of an indirect branch.
///
/// A prefix is copied once, however often the branch has it, so that the load always fits an instruction's 15
/// bytes. Two prefixes, REX, opcode, ModR/M, SIB and a displacement are 10.
///
/// # Source
///
/// Intel SDM volume 2, 2.1: a prefix that is repeated does nothing more.
pub(super) fn as_load(instruction: &DecodedInstruction) -> DecodedInstruction {
    let code = instruction.code();
    let is_prefix = |byte: &u8| PREFIXES.contains(byte) || matches!(byte, 0x40..=0x4f);
    let rest = code.iter().position(|byte| !is_prefix(byte)).unwrap_or(0);
    let (prefixes, tail) = (&code[..rest], &code[rest + 2..]);
    // A REX prefix counts only as the last one.
    let rex = prefixes.last().filter(|last| matches!(last, 0x40..=0x4f)).map_or(0, |rex| rex & 0b11);
    let mut load: Vec<u8> = [0x64, 0x67].into_iter().filter(|prefix| prefixes.contains(prefix)).collect();
    load.extend([0x48 | rex, 0x8b, (code[rest + 1] & 0b1100_0111) | 0b0000_1000]);
    let moved = load.len() as i32 - (rest as i32 + 2);
    load.extend(tail);
    let relative = instruction.relative.map(|(offset, target)| ((i32::from(offset) + moved) as u8, target));
    let mut bytes = [0; 15];
    bytes[..load.len()].copy_from_slice(&load);
    DecodedInstruction { bytes, len: load.len() as u8, relative, ..instruction.clone() }
}

/// Legacy prefixes of an indirect branch. The last one of `%gs` and `%fs` counts, which is not `%gs` here.
const PREFIXES: [u8; 10] = [0x66, 0x67, 0xf2, 0xf3, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65];

//! The log of a thread's calls and returns, for call paths ([`crate::call_paths`]).
//!
//! A record has four words: kind and block, the target of an indirect branch, the stack pointer, and the
//! budget, which shows the instructions so far. The end of the log is moved before the call or return is
//! done. A thread that is interrupted between has a record too many ([`PcBits::LOGGED`]), and makes the call
//! again when it continues.
//!
//! ```text
//!   full?      movzx ecx, byte [end + 3]     the end counts up to 2²⁴
//!   record     [end], [end + 8], [end + 16], [end + 24]
//!   end += 32  ──────────────> LOGGED ──> the call or return itself
//! ```

use super::RcxTest;
use super::emit::{CodeEmitter, EmitState, JumpField};
use super::program_point::PcBits;
use super::slot_layout::{BUDGET, CALL_LOG, CALL_LOG_BYTES, CALL_LOG_END, RCX};

/// Bytes of a record.
pub const RECORD_BYTES: u64 = 32;

/// The value of the end of an empty log.
pub const EMPTY_LOG: u64 = FULL_LOG - CALL_LOG_BYTES as u64;

/// The value of the end of a full log: the first one whose byte 3 is not zero.
pub(super) const FULL_LOG: u64 = 1 << 24;

/// The distance from the end of the log to its memory in the slot.
const TO_LOG: u32 = CALL_LOG.wrapping_sub(EMPTY_LOG as u32);

/// The bits of a record's first word that have the block.
const BLOCK_BITS: u32 = 28;

/// The kind of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordKind {
    /// A call with its target in the instruction.
    Call,
    /// A call of the target in the record.
    IndirectCall,
    /// A return to the target in the record.
    Return,
    /// A jump to the start of a function, which is in the instruction.
    Jump,
    /// A jump to the target in the record.
    IndirectJump,
    /// The same from a stub, which only leads to a function: that of the linkage table, or of the loader.
    StubJump,
}

/// A record of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallRecord {
    /// Its kind.
    pub kind: RecordKind,
    /// The block that ends with the branch.
    pub block: u32,
    /// The target of an indirect branch.
    pub target: u64,
    /// The address of the return address; of a jump, the stack pointer.
    pub sp: u64,
    /// The budget of the thread behind the branch.
    pub budget: u64,
}

impl RecordKind {
    const ALL: [RecordKind; 6] = [
        RecordKind::Call,
        RecordKind::IndirectCall,
        RecordKind::Return,
        RecordKind::Jump,
        RecordKind::IndirectJump,
        RecordKind::StubJump,
    ];

    fn tag(self, block: u32) -> u32 {
        debug_assert!(block >> BLOCK_BITS == 0);
        (self as u32) << BLOCK_BITS | block
    }
}

impl CallRecord {
    /// A record from its words; `None` where it has no kind.
    pub fn of(words: [u64; 4]) -> Option<CallRecord> {
        let [tag, target, sp, budget] = words;
        let kind = *RecordKind::ALL.get((tag >> BLOCK_BITS) as usize)?;
        Some(CallRecord { kind, block: tag as u32 & ((1 << BLOCK_BITS) - 1), target, sp, budget })
    }
}

/// The jump to the stop of a full log.
pub(super) struct LogExit {
    pub(super) field: JumpField,
    pub(super) at: EmitState,
    /// The address where the thread continues.
    pub(super) behind: u64,
    /// Whether rcx is to have the target again, which is in the record.
    pub(super) reloads: bool,
}

impl CodeEmitter {
    /// Jumps away if the log is full; uses rcx and, where it does not jump, r11.
    pub(super) fn check_log(&mut self, at: EmitState, test: RcxTest) -> JumpField {
        self.jump_unless_zero(at, CALL_LOG_END + 3, test)
    }

    /// Adds a record but for its target, with r11 and rcx.
    fn log_record(&mut self, at: EmitState, kind: RecordKind) {
        self.load(at, 11, CALL_LOG_END);
        self.load(at, 1, BUDGET);
        self.put32(at, &[0x65, 0x49, 0x89, 0x8b], TO_LOG.wrapping_add(24));
        self.put32(at, &[0x65, 0x49, 0x89, 0xa3], TO_LOG.wrapping_add(16));
        self.put32(at, &[0x65, 0x49, 0xc7, 0x83], TO_LOG);
        self.extend32(kind.tag(at.subject));
        self.put(at, &[0x4d, 0x8d, 0x5b, RECORD_BYTES as u8]);
        self.store(at, 11, CALL_LOG_END);
    }

    /// Logs a branch whose target is in the instruction, and keeps rcx. The next instructions have the
    /// returned state.
    pub(super) fn log_direct(
        &mut self,
        at: EmitState,
        kind: RecordKind,
        test: RcxTest,
    ) -> (LogExit, EmitState) {
        self.store(at, 1, RCX);
        let busy = at.with(PcBits::RCX);
        let behind = self.here();
        let field = self.check_log(busy, test);
        self.log_record(busy, kind);
        self.load(busy.with(PcBits::LOGGED), 1, RCX);
        (LogExit { field, at: busy, behind, reloads: false }, at.with(PcBits::LOGGED))
    }

    /// Logs a branch to the target in rcx, with the program's rcx in the slot, and keeps rcx.
    pub(super) fn log_indirect(
        &mut self,
        at: EmitState,
        kind: RecordKind,
        test: RcxTest,
    ) -> (LogExit, EmitState) {
        let behind = self.here();
        self.load(at, 11, CALL_LOG_END);
        self.put32(at, &[0x65, 0x49, 0x89, 0x8b], TO_LOG.wrapping_add(8));
        let field = self.check_log(at, test);
        self.log_record(at, kind);
        let logged = at.with(PcBits::LOGGED);
        let record = TO_LOG.wrapping_sub(RECORD_BYTES as u32);
        self.put32(logged, &[0x65, 0x49, 0x8b, 0x8b], record.wrapping_add(8));
        (LogExit { field, at, behind, reloads: true }, logged)
    }

    /// Logs a return, with the program's rcx in the slot; rcx is lost.
    pub(super) fn log_return(&mut self, at: EmitState, test: RcxTest) -> (LogExit, EmitState) {
        self.put(at, &[0x48, 0x8b, 0x0c, 0x24]);
        self.log_indirect(at, RecordKind::Return, test)
    }

    /// Brings the target of the branch back to rcx at the stop of a full log.
    pub(super) fn reload_target(&mut self, at: EmitState) {
        self.put32(at, &[0x65, 0x49, 0x8b, 0x8b], TO_LOG.wrapping_add(8));
    }
}

//! The budget of a thread: instructions that it may execute before it stops.
//!
//! Every block is subtracted from the budget before its first instruction. A loop of one block would wait for
//! that memory in each round. So it counts rounds up to zero in r11:
//!
//! ```text
//!   enter:  stop unless budget ≥ n; K = budget / 256 + 1 rounds, for n ≤ 128; r11 = −K
//!   round:  r11 + 1 > 0? ──> settle, enter again
//!           n instructions
//!   leave:  settle: counter += K + r11; budget −= n × (K + r11)
//! ```
//!
//! Until it settles, the budget in memory is that of the moment when the loop was entered. A loop leaves the
//! carry flag as it is, and all flags where it is entered and left.

use super::RcxTest;
use super::emit::{CodeEmitter, EmitState, JumpField};
use super::instruction::{OSZAP, STATUS};
use super::program_point::PcBits;
use super::slot_layout::{BASE, BUDGET, RCX, ROUNDS};

/// The subtraction of a block from the budget.
#[derive(Clone, Copy)]
pub(crate) struct BudgetCharge {
    pub(crate) instructions: u16,
    /// The status flags that are live at the start of the block.
    pub(crate) live: u8,
}

impl BudgetCharge {
    /// Bytes of code until the block is subtracted.
    pub(crate) fn len(self) -> u64 {
        match self.live {
            0 => 13,
            live if live & OSZAP == 0 => 9 + 7 + 9,
            _ => 9 + 9 + 7 + 9,
        }
    }
}

/// The state of the budget of a thread at a program point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BudgetState {
    /// So many instructions after the program point are subtracted already.
    Charged(u16),
    /// In a loop that counts its rounds.
    InLoop(RoundState),
    /// Where such a loop is entered or left.
    Settling,
}

/// A round of a loop that counts its rounds in r11.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RoundState {
    /// Instructions of a round, and those that are left of this one.
    pub(crate) size: u16,
    pub(crate) rest: u16,
    /// Whether r11 has this round.
    pub(crate) counted: bool,
}

impl RoundState {
    /// The instructions that may be executed from here on, of a budget in memory. `done` are the rounds in
    /// r11 since the loop was entered.
    pub(crate) fn left_of(self, budget: u64, done: u64) -> u64 {
        let rounds = done.wrapping_add(u64::from(!self.counted));
        budget.wrapping_add(self.rest.into()).wrapping_sub(rounds.wrapping_mul(self.size.into()))
    }
}

/// Bytes of the jump out of a loop of which a round was one too many.
pub(crate) const LIMIT_BYTES: usize = 6;

/// Most instructions of a loop that counts its rounds.
pub(crate) const MOST_OF_LOOP: usize = 128;

impl CodeEmitter {
    /// Subtracts a block from the budget, and jumps away if that makes it negative. Returns the field of that
    /// jump, the address where the block continues after it, and the state at both.
    pub(crate) fn spend(
        &mut self,
        at: EmitState,
        block: BudgetCharge,
        test: RcxTest,
    ) -> (JumpField, u64, EmitState) {
        let (start, size) = (self.here(), u32::from(block.instructions));
        let subtracted = start + block.len();
        if block.live & STATUS == 0 {
            self.put32(at, &[0x65, 0x48, 0x81, 0x2c, 0x25], BUDGET);
            self.extend32(size);
            debug_assert_eq!(self.here(), subtracted);
            let field = self.put_field(at, &[0x0f, 0x88]);
            return (field, self.here(), at);
        }
        if block.live & OSZAP == 0 {
            // The carry flag is live, and `inc` keeps it.
            self.load(at, 11, BUDGET);
            self.put32(at, &[0x4d, 0x8d, 0x9b], size.wrapping_neg());
            self.store(at, 11, BUDGET);
            debug_assert_eq!(self.here(), subtracted);
            self.put(at, &[0x49, 0xff, 0xc3]);
            let field = self.put_field(at, &[0x0f, 0x8e]);
            return (field, self.here(), at);
        }
        self.store(at, 1, RCX);
        let busy = at.with(PcBits::RCX);
        self.load(busy, 1, BUDGET);
        self.put32(busy, &[0x48, 0x8d, 0x89], size.wrapping_neg());
        self.store(busy, 1, BUDGET);
        debug_assert_eq!(self.here(), subtracted);
        let (field, after) = self.jump_if_negative(busy, BUDGET, test);
        self.load(busy, 1, RCX);
        (field, after, busy)
    }

    /// Jumps away if a number in the slot is negative; uses rcx and r11. Returns the field of that jump, and
    /// the address after it.
    fn jump_if_negative(&mut self, at: EmitState, offset: u32, test: RcxTest) -> (JumpField, u64) {
        // The uppermost byte is zero otherwise.
        let field = self.jump_unless_zero(at, offset + 7, test);
        (field, self.here())
    }

    /// Stops before a loop whose single round exceeds the budget, and computes its rounds. Returns the field
    /// of the jump to the stop, the address after it, and the state at both.
    pub(crate) fn enter_rounds(
        &mut self,
        at: EmitState,
        instructions: u16,
        counter: u32,
        test: RcxTest,
    ) -> (JumpField, u64, EmitState) {
        let busy = at.with(PcBits::RCX);
        self.store(at, 1, RCX);
        self.load(busy, 1, BUDGET);
        self.put32(busy, &[0x48, 0x8d, 0x89], u32::from(instructions).wrapping_neg());
        self.store(busy, 1, ROUNDS);
        let (field, after) = self.jump_if_negative(busy, ROUNDS, test);
        // A part of the budget, by its upper bytes: the byte after it is zero.
        self.load(busy, 11, BUDGET + 1);
        self.put(busy, &[0x49, 0x8d, 0x4b, 1]);
        self.store(busy, 1, ROUNDS);
        self.load(busy, 1, counter);
        self.put(busy, &[0x4a, 0x8d, 0x4c, 0x19, 1]);
        self.store(busy, 1, BASE);
        self.put(busy, &[0x49, 0xf7, 0xd3]);
        self.load(busy, 1, RCX);
        (field, after, busy)
    }

    /// Counts a round in r11, and jumps away if it was one too many. Returns the field of that jump.
    pub(crate) fn count_round(&mut self, at: EmitState, counted: EmitState) -> JumpField {
        self.count_in_register(at, true);
        self.put_field(counted, &[0x0f, 0x8f])
    }

    /// Takes the round back that was one too many.
    pub(crate) fn take_round_back(&mut self, counted: EmitState) {
        self.put(counted, &[0x4d, 0x8d, 0x5b, 0xff]);
    }

    /// Adds the rounds of a loop to its counter, and subtracts them from the budget.
    pub(crate) fn settle_rounds(&mut self, at: EmitState, instructions: u16, counter: u32) {
        debug_assert!(at.bits.has(PcBits::COUNTING));
        let busy = at.with(PcBits::RCX);
        self.store(at, 1, RCX);
        self.load(busy, 1, BASE);
        self.put(busy, &[0x4a, 0x8d, 0x0c, 0x19]);
        self.store(busy, 1, counter);
        let counted = EmitState { bits: busy.bits.without(PcBits::COUNTING), ..busy };
        self.load(counted, 1, ROUNDS);
        self.put(counted, &[0x4e, 0x8d, 0x1c, 0x19]);
        // rcx = r11 × instructions, from the uppermost bit down.
        self.put(counted, &[0x4c, 0x89, 0xd9]);
        for bit in (0..instructions.ilog2()).rev() {
            match instructions >> bit & 1 {
                0 => self.put(counted, &[0x48, 0x8d, 0x0c, 0x09]),
                _ => self.put(counted, &[0x49, 0x8d, 0x0c, 0x4b]),
            }
        }
        self.load(counted, 11, BUDGET);
        self.put(counted, &[0x48, 0xf7, 0xd1]);
        self.put(counted, &[0x4a, 0x8d, 0x4c, 0x19, 1]);
        self.store(counted, 1, BUDGET);
        self.load(counted, 1, RCX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_that_is_not_over_leaves_its_rest_of_the_budget() {
        let (round, budget) = (|rest, counted| RoundState { size: 3, rest, counted }, 100);
        assert_eq!(round(2, true).left_of(budget, 5), 87, "four rounds and an instruction are executed");
        assert_eq!(round(3, true).left_of(budget, 5), 88, "the round that was counted has not begun");
        assert_eq!(round(0, false).left_of(budget, 5), 82, "the sixth round is over, and not counted");
    }
}

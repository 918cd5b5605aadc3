//! A block that goes back to its own start, with its counter in a register.

use super::super::budget::{LIMIT_BYTES, MOST_OF_LOOP};
use super::super::emit::{BEGIN_COUNTING, len_of_conditional, register_count};
use super::super::instruction::RegisterUse;
use super::deferred::{DeferredCode, LimitExit};
use super::*;

/// A block that goes back to its own start, with its counter's offset in the slot.
pub(super) struct CountedLoop {
    pub(super) counter: u32,
    pub(super) not_taken: u64,
}

impl Translation {
    /// The counter of a block that jumps to its own start. `None` where another counter is needed, where an
    /// instruction uses r11, or where one stops.
    pub(super) fn plain_loop(
        &self,
        batch: &BlockBatch,
        pending: &batch::PendingBlock,
        id: u32,
    ) -> Option<CountedLoop> {
        let Terminator::Conditional { taken, not_taken } = pending.terminator else { return None };
        // Each round has a record.
        if self.logs_accesses {
            return None;
        }
        // Each round is counted before its first instruction, and some of them fit in a window.
        let fits = |period: NonZeroU64| {
            pending.flags_dead == Some(0)
                && pending.len() <= MOST_OF_LOOP
                && period.get() / 4 >= pending.len() as u64
        };
        if !self.budget.is_none_or(fits) {
            return None;
        }
        let back = self.blocks[id as usize].edges[BlockExit::Taken as usize];
        if pending.checked || taken != pending.address || back.is_none() || self.counter(back).is_some() {
            return None;
        }
        let stops =
            |instruction: &DecodedInstruction| self.stop_at_cpu_queries && instruction.cpu_query.is_some();
        let plain = |instruction: &DecodedInstruction| {
            instruction.r11 == RegisterUse::None && self.units(instruction).is_none() && !stops(instruction)
        };
        let counter = self.block_counter(id).filter(|_| batch.instructions(pending).iter().all(plain))?;
        Some(CountedLoop { counter, not_taken })
    }

    /// Emits such a block with its counter in r11: a counter in memory would make each iteration wait for the
    /// one before.
    pub(super) fn emit_loop(
        &mut self,
        instructions: &[DecodedInstruction],
        pending: &batch::PendingBlock,
        (id, CountedLoop { counter, not_taken }): (u32, CountedLoop),
        out: &mut CodeEmitter,
        deferred: &mut DeferredCode,
    ) {
        let flags_dead = pending.flags_dead;
        let branch = &instructions[instructions.len() - 1];
        let copies = instructions.len() - 1;
        let copied: usize = instructions[..copies].iter().map(|instruction| instruction.code().len()).sum();
        let limit = if self.budget.is_some() { LIMIT_BYTES } else { 0 };
        let round = limit + register_count(flags_dead.is_some()).len() + copied + len_of_conditional(branch);
        let before = EmitState { subject: id, done: 0, bits: PcBits::CLEAN };
        let begins = before.with(PcBits::COUNTING);
        match self.budget {
            None => {
                out.align_to_line(before, BEGIN_COUNTING, round);
                out.begin_counting(before, counter);
            }
            Some(_) => out.align_to_line(begins, 0, round),
        }
        let start = out.here();
        let mut at = begins;
        for (step, instruction) in instructions.iter().enumerate() {
            at.done = step as u16;
            if step == flags_dead.unwrap_or(0) {
                let counted = at.with(PcBits::COUNTED);
                if self.budget.is_some() {
                    let field = out.count_round(at, counted);
                    deferred.limits.push(LimitExit { field, at: counted, counter });
                } else {
                    out.count_in_register(at, flags_dead.is_some());
                }
                at = counted;
            }
            if step < copies {
                out.copy(at, instruction);
            }
        }
        let after = EmitState { done: pending.len() as u16, ..at };
        let (next, taken) = (after.with(PcBits::NEXT), after.with(PcBits::TAKEN));
        let field = out.conditional(at, taken, branch);
        out.fill(field, start);
        debug_assert_eq!(out.here(), start + round as u64);
        match self.budget {
            None => out.end_counting(next, counter),
            Some(_) => out.settle_rounds(next, pending.len() as u16, counter),
        }
        let next = EmitState { bits: next.bits.without(PcBits::COUNTING), ..next };
        self.flow_on(id, next, BlockExit::Next, not_taken, out, deferred);
    }
}

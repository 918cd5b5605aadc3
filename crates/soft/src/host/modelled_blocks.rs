//! Blocks for the model of caches: a translated block as lists of lines and accesses, and the counts of its
//! instructions.
//!
//! # Terms
//!
//! - *Row*: the counts of an instruction of the program, by its place, over all processes.
//! - *Modelled block*: a translated block for the model. It has a number of its own, because the translations
//!   of several programs have blocks with the same numbers.
//! - *Plain block*: a block whose addresses are sums of words of the record ([`DataStep`]).
//! - *Step*: a fetch or an access in the order of the program ([`ModelStep`]), for blocks that are not plain,
//!   or that miss the cache of instructions, or of which a part was executed.

use std::collections::HashMap;

use crate::code_profile::InstructionPlace;
use crate::model::misses::{MissCounts, MissModel};
use crate::translate::{
    AccessPlan, LoggedValue, PlannedAccess, PlannedBranch, PlannedRepeat, PlannedStep, Translation,
};

/// The counts of the instructions of all programs, and their blocks.
#[derive(Default)]
pub(super) struct ModelRows {
    pub(super) numbers: HashMap<InstructionPlace, u32>,
    pub(super) rows: Vec<(InstructionPlace, MissCounts)>,
    /// By the number of a modelled block.
    pub(super) blocks: Vec<ModelledBlock>,
    /// Parts of the same blocks that are needed rarely.
    pub(super) details: Vec<BlockDetails>,
    /// The accesses of all plain blocks, and their rows.
    pub(super) accesses: Vec<DataStep>,
    pub(super) access_rows: Vec<u32>,
    /// A program has changed the base of %fs by an instruction.
    pub(super) has_changed_fs: bool,
}

/// The counts of one execution of an instruction.
#[derive(Clone, Copy)]
pub(super) struct StepRow {
    pub(super) row: u32,
    pub(super) references: u16,
    pub(super) branches: u8,
}

impl StepRow {
    pub(super) fn add(self, times: u64, rows: &mut [(InstructionPlace, MissCounts)]) {
        let Some((_, counts)) = rows.get_mut(self.row as usize) else { return };
        counts.instructions = counts.instructions.wrapping_add(times);
        counts.data_references += times.wrapping_mul(self.references.into());
        counts.branches += times.wrapping_mul(self.branches.into());
    }
}

impl ModelRows {
    pub(super) fn row_of(&mut self, place: InstructionPlace) -> u32 {
        let next = self.rows.len() as u32;
        let number = *self.numbers.entry(place).or_insert(next);
        if number == next {
            self.rows.push((place, MissCounts::default()));
        }
        number
    }

    /// The counts of each instruction.
    pub(super) fn take(&mut self) -> Vec<(InstructionPlace, MissCounts)> {
        let ModelRows { rows, blocks, details, .. } = self;
        for (block, details) in blocks.iter_mut().zip(details) {
            let executions = std::mem::take(&mut block.executions);
            details.rows.iter().for_each(|step| step.add(executions, rows));
            let mispredictions = std::mem::take(&mut block.mispredictions);
            if let Some((_, counts)) = details.rows.last().and_then(|last| rows.get_mut(last.row as usize)) {
                counts.mispredictions.known += mispredictions;
            }
        }
        let executed = |(_, counts): &&(InstructionPlace, MissCounts)| *counts != MissCounts::default();
        self.rows.iter().filter(executed).copied().collect()
    }

    /// Adds a block of a translation, with its plan; its number.
    pub(super) fn add(
        &mut self,
        (block, plan): (u32, &AccessPlan),
        translation: &Translation,
        model: &MissModel,
    ) -> u32 {
        let details = BlockDetails::of(plan, translation, model, self);
        let first_access = self.accesses.len() as u32;
        let mut is_plain = true;
        for step in &details.steps {
            match step {
                ModelStep::Fetch { .. } => {}
                ModelStep::Data { access, row } => match DataStep::of(access, block, model) {
                    Some(access) => {
                        self.accesses.push(access);
                        self.access_rows.push(*row);
                    }
                    None => is_plain = false,
                },
                ModelStep::Repeat(_) => is_plain = false,
            }
        }
        if !is_plain {
            self.accesses.truncate(first_access as usize);
            self.access_rows.truncate(first_access as usize);
        }
        let last = plan.steps.last();
        let address = plan.steps.first().map_or(0, |step| step.address);
        let next = last.map_or(address, |step| step.address.wrapping_add(step.length.into()));
        let line = model.code_line(address);
        let lines = model.code_line(next.wrapping_sub(1)).wrapping_sub(line) + 1;
        self.blocks.push(ModelledBlock {
            address,
            next,
            line,
            executions: 0,
            mispredictions: 0,
            accesses: (first_access, self.accesses.len() as u32),
            branch: last.map_or(0, |step| step.address as u32),
            is_plain,
            // A block has 4096 instructions at most.
            words: plan.words() as u16,
            lines: lines as u16,
            kind: last.map_or(PlannedBranch::None, |step| step.branch),
        });
        self.details.push(details);
        self.has_changed_fs |= plan.changes_fs;
        self.blocks.len() as u32 - 1
    }
}

/// The numbers of the modelled blocks of a translation, by those of its blocks; [`UNKNOWN_BLOCK`] where a
/// block was not executed yet.
#[derive(Default)]
pub(super) struct ModelledBlocks(pub(super) Vec<u32>);

/// The number of no block.
pub(super) const UNKNOWN_BLOCK: u32 = u32::MAX;

impl ModelledBlocks {
    /// The number of a block of the translation.
    #[inline(always)]
    pub(super) fn number(&self, block: u32) -> Option<u32> {
        self.0.get(block as usize).copied().filter(|number| *number != UNKNOWN_BLOCK)
    }

    /// Notes the number of a block of the translation.
    pub(super) fn insert(&mut self, block: u32, number: u32) {
        let len = self.0.len().max(block as usize + 1);
        self.0.resize(len, UNKNOWN_BLOCK);
        self.0[block as usize] = number;
    }
}

/// The part of a block for the model that each execution needs. A cache line of this CPU has all of it.
pub(super) struct ModelledBlock {
    pub(super) address: u64,
    /// The address behind it.
    pub(super) next: u64,
    /// The line of its start.
    pub(super) line: u64,
    pub(super) executions: u64,
    pub(super) mispredictions: u64,
    /// Its part of [`ModelRows::accesses`].
    pub(super) accesses: (u32, u32),
    /// The lower half of the address of its last instruction, which is what predictors use.
    pub(super) branch: u32,
    /// Words of its record.
    pub(super) words: u16,
    /// The number of lines of its code.
    pub(super) lines: u16,
    pub(super) kind: PlannedBranch,
    pub(super) is_plain: bool,
}

/// An access as a sum: base, index × scale, displacement, and the base of %fs.
#[derive(Clone, Copy)]
pub(super) struct DataStep {
    /// The constant part. An access without a base has word 0 as base, and the number of the block is
    /// subtracted here.
    displacement: u64,
    /// Words of the record. The index is one with the scale 0 where there is none.
    base: u16,
    index: u16,
    scale: u8,
    /// The distance of the last byte.
    pub(super) last: u8,
    uses_fs: bool,
}

impl DataStep {
    /// An access of a block of the translation; `None` where an address is no such sum.
    fn of(access: &PlannedAccess, block: u32, model: &MissModel) -> Option<DataStep> {
        let PlannedAccess { base, index, scale, displacement, is_narrow, uses_fs, bytes } = *access;
        if is_narrow || base.is_some_and(|base| base.is_narrow) || index.is_some_and(|index| index.is_narrow)
        {
            return None;
        }
        let scale = if index.is_some() { scale } else { 0 };
        let delta = |logged: Option<LoggedValue>| logged.map_or(0, |value| value.delta);
        let of_base = base.map_or(word_of_block(block).wrapping_neg(), |base| base.delta);
        Some(DataStep {
            displacement: displacement
                .wrapping_add(of_base)
                .wrapping_add(delta(index).wrapping_mul(scale.into())),
            base: base.map_or(0, |base| base.word),
            index: index.map_or(0, |index| index.word),
            scale,
            last: u8::try_from(model.last_byte(bytes)).ok()?,
            uses_fs,
        })
    }

    /// The address, from the words of the record, and from 0 and the base of %fs.
    #[inline(always)]
    pub(super) fn address(&self, record: &[u64], segments: &[u64; 2]) -> u64 {
        let base = record[usize::from(self.base)];
        let index = record[usize::from(self.index)].wrapping_mul(self.scale.into());
        let segment = segments[usize::from(self.uses_fs)];
        base.wrapping_add(index).wrapping_add(self.displacement).wrapping_add(segment)
    }
}

/// The first word of a record of a block: its number as an immediate value of 32 bits.
fn word_of_block(block: u32) -> u64 {
    i64::from(block.cast_signed()).cast_unsigned()
}

/// The steps of a block.
pub(super) struct BlockDetails {
    /// The counts of one execution.
    pub(super) rows: Vec<StepRow>,
    pub(super) steps: Vec<ModelStep>,
    /// The first of its steps that belongs to each instruction.
    pub(super) starts: Vec<u32>,
}

/// A step of the model.
pub(super) enum ModelStep {
    /// A fetch from another line than the fetch before.
    Fetch { pc: u64, row: u32, length: u8 },
    /// An access.
    Data { access: PlannedAccess, row: u32 },
    /// An instruction that is repeated.
    Repeat(Box<ModelRepeat>),
}

/// An instruction that is repeated.
pub(super) struct ModelRepeat {
    pub(super) repeat: PlannedRepeat,
    pub(super) accesses: Vec<PlannedAccess>,
    pub(super) row: u32,
}

impl BlockDetails {
    fn of(
        plan: &AccessPlan,
        translation: &Translation,
        model: &MissModel,
        rows: &mut ModelRows,
    ) -> BlockDetails {
        let mut details = BlockDetails { rows: Vec::new(), steps: Vec::new(), starts: Vec::new() };
        let mut before: Option<u64> = None;
        for step in &plan.steps {
            let row = rows.row_of(translation.place(step.address));
            details.starts.push(details.steps.len() as u32);
            details.add(step, row, before, model);
            before = Some(step.address.wrapping_add(u64::from(step.length) - 1));
        }
        details
    }

    /// Adds an instruction behind one with a last byte.
    fn add(&mut self, step: &PlannedStep, row: u32, before: Option<u64>, model: &MissModel) {
        let (pc, length) = (step.address, step.length);
        let last = pc.wrapping_add(u64::from(length) - 1);
        let is_near = before.is_some_and(|end| model.is_same_line(end, last));
        // The instruction before has ended in the line of this whole one.
        if !(is_near && model.is_same_line(pc, last)) {
            self.steps.push(ModelStep::Fetch { pc, row, length });
        }
        let mut references = 0;
        match step.repeat {
            Some(repeat) => {
                let accesses = step.accesses.clone();
                self.steps.push(ModelStep::Repeat(Box::new(ModelRepeat { repeat, accesses, row })));
            }
            None => {
                references = step.accesses.len() as u16;
                let accesses = step.accesses.iter();
                self.steps.extend(accesses.map(|access| ModelStep::Data { access: *access, row }));
            }
        }
        let branches = u8::from(step.branch != PlannedBranch::None);
        self.rows.push(StepRow { row, references, branches });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::misses::CacheSize;

    #[test]
    fn an_access_of_a_plain_block_has_the_planned_address() {
        // mov rax, [rdi + 8]; add rdi, 64; mov [rdi + rsi * 4 - 4], rax; mov rax, fs:[0x28];
        // mov rdx, [rip + 16]; mov rdx, [rsi * 8]; mov edx, fs:[rdi]
        let bytes = [
            0x48, 0x8b, 0x47, 8, 0x48, 0x83, 0xc7, 64, 0x48, 0x89, 0x44, 0xb7, 0xfc, 0x64, 0x48, 0x8b, 0x04,
            0x25, 0x28, 0, 0, 0, 0x48, 0x8b, 0x15, 16, 0, 0, 0, 0x48, 0x8b, 0x14, 0xf5, 0, 0, 0, 0, 0x64,
            0x8b, 0x17,
        ];
        let plan = AccessPlan::of(0x1000, &bytes, 7);
        let size = CacheSize { sets: 4, ways: 2, line_bytes: 64 };
        let model = MissModel::empty([size; 3]);
        let planned: Vec<PlannedAccess> =
            plan.steps.iter().flat_map(|step| step.accesses.iter().copied()).collect();
        let record = [3, 0x7fff_0000_1234, 0xffff_ffff_ffff_fff0];
        assert_eq!((planned.len(), plan.words()), (6, 3));
        for access in planned {
            let plain = DataStep::of(&access, 3, &model).unwrap();
            assert_eq!(plain.address(&record, &[0, 0x5000]), access.address(&record, 0x5000), "{access:?}");
            assert_eq!(u64::from(plain.last), access.bytes - 1);
        }
        // mov eax, [edi]: its address is cut to 32 bits.
        let narrow = AccessPlan::of(0x1000, &[0x67, 0x8b, 0x07], 1).steps[0].accesses[0];
        assert!(DataStep::of(&narrow, 3, &model).is_none());
    }
}

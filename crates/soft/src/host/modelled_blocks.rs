//! Blocks for the model of caches: a translated block as a list of steps, and the counts of its instructions.
//!
//! # Terms
//!
//! - *Row*: the counts of an instruction of the program, by its place, over all processes.
//! - *Modelled block*: a translated block as a list of steps for the model ([`ModelStep`]).

use std::collections::HashMap;

use crate::code_profile::InstructionPlace;
use crate::model::misses::{MissCounts, MissModel};
use crate::translate::{AccessPlan, PlannedAccess, PlannedBranch, PlannedRepeat, Translation};

/// The counts of the instructions of all programs.
#[derive(Default)]
pub(super) struct ModelRows {
    pub(super) numbers: HashMap<InstructionPlace, u32>,
    pub(super) rows: Vec<(InstructionPlace, MissCounts)>,
    /// By the number of a modelled block.
    pub(super) blocks: Vec<BlockRows>,
    /// A program has changed the base of %fs by an instruction.
    pub(super) has_changed_fs: bool,
}

/// The counts of a block that follow from its executions.
pub(super) struct BlockRows {
    pub(super) executions: u64,
    pub(super) steps: Vec<StepRow>,
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
        let ModelRows { rows, blocks, .. } = self;
        for block in blocks {
            let executions = std::mem::take(&mut block.executions);
            block.steps.iter().for_each(|step| step.add(executions, rows));
        }
        let executed = |(_, counts): &&(InstructionPlace, MissCounts)| *counts != MissCounts::default();
        self.rows.iter().filter(executed).copied().collect()
    }
}

/// The last instruction of a block whose successor is not known yet.
#[derive(Clone, Copy)]
pub(super) struct OpenBranch {
    pub(super) pc: u64,
    pub(super) next: u64,
    pub(super) kind: PlannedBranch,
    pub(super) row: u32,
}

/// Modelled blocks of a translation, by their numbers.
#[derive(Default)]
pub(super) struct ModelledBlocks(pub(super) Vec<Option<Box<ModelledBlock>>>);

/// A translated block for the model.
pub(super) struct ModelledBlock {
    pub(super) address: u64,
    /// Words of its record.
    pub(super) words: usize,
    /// The number of its counts.
    pub(super) number: u32,
    pub(super) steps: Vec<ModelStep>,
    /// The first of its steps that belongs to each instruction.
    pub(super) starts: Vec<u32>,
    pub(super) branch: Option<OpenBranch>,
}

/// A step of the model.
pub(super) enum ModelStep {
    /// A fetch from another line than the fetch before.
    Fetch { pc: u64, row: u32, length: u8 },
    /// An access by a register.
    Data { displacement: u64, row: u32, word: u16, bytes: u16 },
    /// An access by two registers.
    Indexed { displacement: u64, row: u32, words: [u16; 2], scale: u8, bytes: u16 },
    /// Any other access.
    Other(Box<(PlannedAccess, u32)>),
    /// An instruction that is repeated.
    Repeat(Box<ModelRepeat>),
}

/// An instruction that is repeated.
pub(super) struct ModelRepeat {
    pub(super) repeat: PlannedRepeat,
    pub(super) accesses: Vec<PlannedAccess>,
    pub(super) row: u32,
}

impl ModelledBlock {
    pub(super) fn of(
        plan: &AccessPlan,
        translation: &Translation,
        model: &MissModel,
        rows: &mut ModelRows,
    ) -> Self {
        let (mut steps, mut starts, mut counted) = (Vec::new(), Vec::new(), Vec::new());
        let mut before: Option<(u64, u64)> = None;
        let mut branch = None;
        for step in &plan.steps {
            let row = rows.row_of(translation.place(step.address));
            let (pc, length) = (step.address, step.length);
            starts.push(steps.len() as u32);
            let last = pc.wrapping_add(u64::from(length) - 1);
            let is_near = before.is_some_and(|(_, end)| model.is_same_line(end, last));
            // The instruction before has ended in the line of this whole one.
            if !(is_near && model.is_same_line(pc, last)) {
                steps.push(ModelStep::Fetch { pc, row, length });
            }
            before = Some((pc, last));
            let mut references = 0;
            match step.repeat {
                Some(repeat) => {
                    let accesses = step.accesses.clone();
                    steps.push(ModelStep::Repeat(Box::new(ModelRepeat { repeat, accesses, row })));
                }
                None => {
                    references = step.accesses.len() as u16;
                    steps.extend(step.accesses.iter().map(|access| ModelStep::of(access, row)));
                }
            }
            let branches = u8::from(step.branch != PlannedBranch::None);
            if branches > 0 {
                branch = Some(OpenBranch { pc, next: last.wrapping_add(1), kind: step.branch, row });
            }
            counted.push(StepRow { row, references, branches });
        }
        rows.has_changed_fs |= plan.changes_fs;
        rows.blocks.push(BlockRows { executions: 0, steps: counted });
        ModelledBlock {
            address: plan.steps.first().map_or(0, |step| step.address),
            words: plan.words(),
            number: rows.blocks.len() as u32 - 1,
            steps,
            starts,
            branch,
        }
    }
}

impl ModelStep {
    pub(super) fn of(access: &PlannedAccess, row: u32) -> ModelStep {
        let other = || ModelStep::Other(Box::new((*access, row)));
        let PlannedAccess { base, index, scale, displacement, is_narrow, uses_fs, bytes } = *access;
        let (Some(base), Ok(bytes)) = (base, u16::try_from(bytes)) else { return other() };
        let is_plain = !is_narrow && !uses_fs && !base.is_narrow;
        let displacement = displacement.wrapping_add(base.delta);
        match index {
            None if is_plain => ModelStep::Data { displacement, row, word: base.word, bytes },
            Some(index) if is_plain && !index.is_narrow => ModelStep::Indexed {
                displacement: displacement.wrapping_add(index.delta.wrapping_mul(scale.into())),
                row,
                words: [base.word, index.word],
                scale,
                bytes,
            },
            _ => other(),
        }
    }
}

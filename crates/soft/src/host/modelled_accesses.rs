//! Replay of the logs of blocks and accesses ([`crate::translate`]) in a model of caches.
//!
//! # Terms
//!
//! - *Row*: the counts of an instruction of the program, by its place, over all processes.
//! - *Modelled block*: a translated block as a list of steps for the model ([`ModelStep`]).
//!
//! # Invariants
//!
//! - The log of a thread is replayed when it is full, and whenever the thread leaves translated code. So a
//!   log is empty while its thread is in native state, and a new thread or process begins with an empty one:
//!   the slot of a child is its own.
//! - The threads of a process share its caches. Their logs are replayed one after the other: accesses of two
//!   threads interleave by the log, not by the instruction.
//! - A fetch from the line of the fetch before hits, and is left out: nothing else is fetched in between.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use cyclometer_sys::trace::Registers;
use iced_x86::Register;

use super::code_cache::CodeCacheMapping;
use super::translated_pc::TranslatedPc;
use crate::code_profile::InstructionPlace;
use crate::model::BranchOutcome;
use crate::model::misses::{BoundedMisses, CacheSize, MissCounts, MissModel};
use crate::translate::{
    AccessPlan, CALL_LOG, CALL_LOG_END, EMPTY_ACCESS_LOG, PlannedAccess, PlannedBranch, PlannedRepeat,
    RecordState, Translation,
};

/// The caches of all processes, and the counts of their instructions.
pub(super) struct CacheModelling {
    sizes: [CacheSize; 3],
    rows: Rc<RefCell<ModelRows>>,
}

/// The counts of the instructions of all programs.
#[derive(Default)]
pub(super) struct ModelRows {
    numbers: HashMap<InstructionPlace, u32>,
    rows: Vec<(InstructionPlace, MissCounts)>,
    /// By the number of a modelled block.
    blocks: Vec<BlockRows>,
    /// A program has changed the base of %fs by an instruction.
    has_changed_fs: bool,
}

/// The counts of a block that follow from its executions.
struct BlockRows {
    executions: u64,
    steps: Vec<StepRow>,
}

/// The counts of one execution of an instruction.
#[derive(Clone, Copy)]
struct StepRow {
    row: u32,
    references: u16,
    branches: u8,
}

impl StepRow {
    fn add(self, times: u64, rows: &mut [(InstructionPlace, MissCounts)]) {
        let Some((_, counts)) = rows.get_mut(self.row as usize) else { return };
        counts.instructions = counts.instructions.wrapping_add(times);
        counts.data_references += times.wrapping_mul(self.references.into());
        counts.branches += times.wrapping_mul(self.branches.into());
    }
}

impl ModelRows {
    fn row_of(&mut self, place: InstructionPlace) -> u32 {
        let next = self.rows.len() as u32;
        let number = *self.numbers.entry(place).or_insert(next);
        if number == next {
            self.rows.push((place, MissCounts::default()));
        }
        number
    }

    /// The counts of each instruction.
    fn take(&mut self) -> Vec<(InstructionPlace, MissCounts)> {
        let ModelRows { rows, blocks, .. } = self;
        for block in blocks {
            let executions = std::mem::take(&mut block.executions);
            block.steps.iter().for_each(|step| step.add(executions, rows));
        }
        let executed = |(_, counts): &&(InstructionPlace, MissCounts)| *counts != MissCounts::default();
        self.rows.iter().filter(executed).copied().collect()
    }
}

impl CacheModelling {
    pub(super) fn new(sizes: [CacheSize; 3]) -> CacheModelling {
        CacheModelling { sizes, rows: Rc::default() }
    }

    /// Empty caches, for a process or a program that begins.
    pub(super) fn caches(&self) -> Rc<RefCell<MissModel>> {
        Rc::new(RefCell::new(MissModel::empty(self.sizes)))
    }

    /// A thread that has executed nothing, with the caches of its process.
    pub(super) fn thread(&self, caches: Rc<RefCell<MissModel>>) -> Box<ThreadAccesses> {
        Box::new(ThreadAccesses {
            caches,
            rows: Rc::clone(&self.rows),
            branch: None,
            fs_base: 0,
            former_fs: Vec::new(),
            words: Vec::new(),
            bytes: Vec::new(),
        })
    }

    /// The counts of each instruction so far.
    pub(super) fn counts(&self) -> Vec<(InstructionPlace, MissCounts)> {
        self.rows.borrow_mut().take()
    }

    /// Why addresses may be wrong, in words that follow "a program".
    pub(super) fn doubt(&self) -> Option<&'static str> {
        self.rows.borrow().has_changed_fs.then_some("sets the base of %fs by an instruction (wrfsbase)")
    }
}

/// The accesses of a thread that are not replayed yet are in its slot; this is what the replay needs.
pub(super) struct ThreadAccesses {
    caches: Rc<RefCell<MissModel>>,
    rows: Rc<RefCell<ModelRows>>,
    /// A branch whose target is the next block of the thread.
    branch: Option<OpenBranch>,
    fs_base: u64,
    /// Earlier bases of %fs, each with the end of the log up to which it was in force.
    former_fs: Vec<(u64, u64)>,
    /// Room for a log.
    words: Vec<u64>,
    bytes: Vec<u8>,
}

/// The last instruction of a block whose successor is not known yet.
#[derive(Clone, Copy)]
struct OpenBranch {
    pc: u64,
    next: u64,
    kind: PlannedBranch,
    row: u32,
}

/// Modelled blocks of a translation, by their numbers.
#[derive(Default)]
pub(crate) struct ModelledBlocks(Vec<Option<Box<ModelledBlock>>>);

/// A translated block for the model.
struct ModelledBlock {
    address: u64,
    /// Words of its record.
    words: usize,
    /// The number of its counts.
    number: u32,
    steps: Vec<ModelStep>,
    /// The first of its steps that belongs to each instruction.
    starts: Vec<u32>,
    branch: Option<OpenBranch>,
}

/// A step of the model.
enum ModelStep {
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
struct ModelRepeat {
    repeat: PlannedRepeat,
    accesses: Vec<PlannedAccess>,
    row: u32,
}

impl ModelledBlock {
    fn of(plan: &AccessPlan, translation: &Translation, model: &MissModel, rows: &mut ModelRows) -> Self {
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
    fn of(access: &PlannedAccess, row: u32) -> ModelStep {
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

/// What a step is replayed with.
struct Replay<'a> {
    caches: &'a mut MissModel,
    rows: &'a mut [(InstructionPlace, MissCounts)],
    fs_base: u64,
}

impl Replay<'_> {
    #[inline(always)]
    fn step(&mut self, step: &ModelStep, record: &[u64]) {
        let word = |word: u16| record[usize::from(word)];
        match step {
            ModelStep::Data { displacement, row, word: base, bytes } => {
                self.data(word(*base).wrapping_add(*displacement), u64::from(*bytes), *row);
            }
            ModelStep::Indexed { displacement, row, words: [base, index], scale, bytes } => {
                let index = word(*index).wrapping_mul(u64::from(*scale));
                let address = word(*base).wrapping_add(index).wrapping_add(*displacement);
                self.data(address, u64::from(*bytes), *row);
            }
            ModelStep::Fetch { pc, row, length } => {
                let found = self.caches.fetch(*pc, u64::from(*length));
                if !found.is_hit() {
                    let counts = &mut self.rows[*row as usize].1;
                    found.note(&mut counts.l1i, &mut counts.ll);
                }
            }
            ModelStep::Other(other) => {
                let (access, row) = &**other;
                self.data(access.address(record, self.fs_base), access.bytes, *row);
            }
            ModelStep::Repeat(repeated) => {
                let after = record[usize::from(repeated.repeat.after)];
                self.repeat(repeated, record, after);
            }
        }
    }

    #[inline(always)]
    fn data(&mut self, address: u64, bytes: u64, row: u32) {
        let found = self.caches.access_data(address, bytes);
        if !found.is_hit() {
            let counts = &mut self.rows[row as usize].1;
            found.note(&mut counts.l1d, &mut counts.ll);
        }
    }

    /// The elements of a repeated instruction, up to a value of its pointer.
    #[inline(never)]
    fn repeat(&mut self, repeated: &ModelRepeat, record: &[u64], after: u64) {
        let ModelRepeat { repeat, accesses, row } = repeated;
        let (elements, distance) = repeat.elements(record, after);
        self.rows[*row as usize].1.data_references += elements * accesses.len() as u64;
        let mut element = 0;
        while element < elements {
            let moved = distance.wrapping_mul(element);
            // Further elements in the same lines hit, as both lines are the most recent ones.
            let mut near = if accesses.len() <= self.caches.data_ways() { elements - element } else { 1 };
            for access in accesses {
                let address = access.address(record, self.fs_base).wrapping_add(moved);
                self.data(address, access.bytes, *row);
                let is_backward = distance.cast_signed() < 0;
                near = near.min(self.caches.elements_in_line(address, repeat.bytes.max(1), is_backward));
            }
            element += near;
        }
    }

    /// The outcome of a branch, by the address of the next instruction.
    #[inline(always)]
    fn branch(&mut self, OpenBranch { pc, next, kind, row }: OpenBranch, to: u64) {
        let outcome = match kind {
            PlannedBranch::Conditional => BranchOutcome::Conditional { taken: to != next },
            PlannedBranch::Indirect => BranchOutcome::Indirect { target: to },
            PlannedBranch::None => return,
        };
        if self.caches.branch(pc, outcome) {
            let BoundedMisses { known, .. } = &mut self.rows[row as usize].1.mispredictions;
            *known += 1;
        }
    }
}

/// The end of the records of a log.
#[derive(Clone, Copy)]
enum LogTail<'a> {
    /// All are of blocks that were executed to their ends.
    Complete,
    /// The last one is of a block of which these instructions were executed, with the registers now if the
    /// next one is repeated.
    Partial(u32, u16, Option<&'a Registers>),
    /// It is not known how much of the last one was executed.
    Unknown,
}

impl ThreadAccesses {
    /// The thread enters translated code with these registers.
    pub(super) fn enter(&mut self, cache: &CodeCacheMapping, slot: usize, registers: &Registers) {
        cache.store(slot, CALL_LOG_END, EMPTY_ACCESS_LOG);
        self.fs_base = registers.fs_base;
        self.former_fs.clear();
    }

    /// Replays the log of a thread that is before a block.
    pub(super) fn replay(&mut self, cache: &CodeCacheMapping, slot: usize, registers: &Registers) {
        self.fs_base = registers.fs_base;
        self.replay_to(cache, slot, LogTail::Complete);
    }

    /// The thread leaves translated code at a position. `registers` are those of translated code, if they are
    /// known, and `next` is the address of its next instruction.
    pub(super) fn leave(
        &mut self,
        cache: &CodeCacheMapping,
        slot: usize,
        position: TranslatedPc,
        registers: Option<&Registers>,
        next: Option<u64>,
    ) {
        registers.iter().for_each(|registers| self.fs_base = registers.fs_base);
        let tail = match cache.translation.record_at(position.pc) {
            RecordState::Complete => LogTail::Complete,
            RecordState::InBlock { block, done, .. } if done >= cache.translation.instructions(block) => {
                LogTail::Complete
            }
            RecordState::InBlock { block, done, repeats } => {
                LogTail::Partial(block, done, registers.filter(|_| repeats))
            }
        };
        self.replay_to(cache, slot, tail);
        if let (Some(branch), Some(next)) = (self.branch.take(), next) {
            let (caches, rows) = (&mut self.caches.borrow_mut(), &mut self.rows.borrow_mut());
            Replay { caches, rows: &mut rows.rows, fs_base: 0 }.branch(branch, next);
        }
    }

    /// The thread has ended at an unknown position. Returns whether its log had records.
    pub(super) fn give_up(&mut self, cache: &CodeCacheMapping, slot: usize) -> bool {
        let is_pending = cache.load(slot, CALL_LOG_END) > EMPTY_ACCESS_LOG;
        self.replay_to(cache, slot, LogTail::Unknown);
        self.branch = None;
        is_pending
    }

    /// The thread is before a system call that may change the base of %fs.
    pub(super) fn may_change_fs(&mut self, cache: &CodeCacheMapping, slot: usize, registers: &Registers) {
        self.former_fs.push((cache.load(slot, CALL_LOG_END), registers.fs_base));
    }

    /// The last instruction of a block was executed so many times more than its records say.
    pub(super) fn repeat_last(&mut self, cache: &CodeCacheMapping, block: u32, times: i64) {
        let Some(place) = cache.translation.access_plan(block).and_then(|plan| plan.steps.last()) else {
            return;
        };
        let place = cache.translation.place(place.address);
        let rows = &mut self.rows.borrow_mut();
        let row = rows.row_of(place);
        StepRow { row, references: 0, branches: 0 }.add(times.cast_unsigned(), &mut rows.rows);
    }

    fn replay_to(&mut self, cache: &CodeCacheMapping, slot: usize, tail: LogTail<'_>) {
        let end = cache.load(slot, CALL_LOG_END);
        let bytes = end.saturating_sub(EMPTY_ACCESS_LOG) as usize;
        let mut words = std::mem::take(&mut self.words);
        self.bytes.resize(bytes, 0);
        cache.read_slot(slot, CALL_LOG, &mut self.bytes);
        words.clear();
        words.extend(self.bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)));
        cache.store(slot, CALL_LOG_END, EMPTY_ACCESS_LOG);
        let former_fs = std::mem::take(&mut self.former_fs);
        let mut from = 0;
        for (until, fs_base) in former_fs {
            // A block ends with the system call that changed the base.
            let until = (until.saturating_sub(EMPTY_ACCESS_LOG) as usize / 8).min(words.len());
            self.replay_words(cache, &words[from..until], fs_base, until == words.len(), tail);
            from = until;
        }
        self.replay_words(cache, &words[from..], self.fs_base, true, tail);
        self.words = words;
    }

    /// Replays words of the log, to whose end `tail` belongs if they are the last ones.
    fn replay_words(
        &mut self,
        cache: &CodeCacheMapping,
        words: &[u64],
        fs_base: u64,
        is_last: bool,
        tail: LogTail<'_>,
    ) {
        let ModelledBlocks(blocks) = &mut *cache.modelled_blocks.borrow_mut();
        let (caches, all) = (&mut *self.caches.borrow_mut(), &mut *self.rows.borrow_mut());
        let mut rest = words;
        let mut branch = self.branch.take();
        while let Some(&number) = rest.first() {
            let number = number as u32;
            if blocks.get(number as usize).is_none_or(Option::is_none) {
                let Some(plan) = cache.translation.access_plan(number) else { break };
                let block = ModelledBlock::of(plan, &cache.translation, caches, all);
                let len = blocks.len().max(number as usize + 1);
                blocks.resize_with(len, || None);
                blocks[number as usize] = Some(Box::new(block));
            }
            let Some(block) = &blocks[number as usize] else { break };
            let Some((record, behind)) = rest.split_at_checked(block.words) else { break };
            rest = behind;
            let mut replay = Replay { caches, rows: &mut all.rows, fs_base };
            if let Some(branch) = branch.take() {
                replay.branch(branch, block.address);
            }
            let done = match tail {
                LogTail::Partial(of, done, registers) if is_last && behind.is_empty() && of == number => {
                    Some((done, registers))
                }
                LogTail::Unknown if is_last && behind.is_empty() => Some((0, None)),
                _ => None,
            };
            if let Some((done, registers)) = done {
                replay.part(block, record, done, registers);
                let steps = &all.blocks[block.number as usize].steps;
                steps.iter().take(done.into()).for_each(|step| step.add(1, &mut all.rows));
                continue;
            }
            block.steps.iter().for_each(|step| replay.step(step, record));
            all.blocks[block.number as usize].executions += 1;
            branch = block.branch;
        }
        self.branch = branch;
    }
}

impl Replay<'_> {
    /// The first instructions of a block. The next one may be repeated, and have begun: its registers tell.
    #[cold]
    fn part(&mut self, block: &ModelledBlock, record: &[u64], done: u16, registers: Option<&Registers>) {
        let start =
            |step: u16| block.starts.get(usize::from(step)).map_or(block.steps.len(), |at| *at as usize);
        block.steps[..start(done)].iter().for_each(|step| self.step(step, record));
        let next = block.steps[start(done)..start(done + 1)].last();
        if let (Some(ModelStep::Repeat(repeated)), Some(registers)) = (next, registers) {
            let is_rsi = usize::from(repeated.repeat.register) == Register::RSI.number();
            let after = if is_rsi { registers.rsi } else { registers.rdi };
            self.repeat(repeated, record, after);
        }
    }
}

//! Replay of the logs of blocks and accesses ([`crate::translate`]) in a model of caches.
//!
//! Its terms are those of [`super::modelled_blocks`].
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
use std::rc::Rc;

use cyclometer_sys::trace::Registers;
use iced_x86::Register;

use super::code_cache::CodeCacheMapping;
use super::modelled_blocks::{
    ModelRepeat, ModelRows, ModelStep, ModelledBlock, ModelledBlocks, OpenBranch, StepRow,
};
use super::translated_pc::TranslatedPc;
use crate::code_profile::InstructionPlace;
use crate::model::BranchOutcome;
use crate::model::misses::{BoundedMisses, CacheSize, MissCounts, MissModel};
use crate::translate::{CALL_LOG, CALL_LOG_END, EMPTY_ACCESS_LOG, PlannedBranch, RecordState};

/// The caches of all processes, and the counts of their instructions.
pub(super) struct CacheModelling {
    sizes: [CacheSize; 3],
    rows: Rc<RefCell<ModelRows>>,
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

/// The state with which a step is replayed.
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

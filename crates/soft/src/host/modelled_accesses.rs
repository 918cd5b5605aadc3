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
//! - A hit makes its line the most recent one of its set and changes nothing else; the same holds for pages.
//!   So the fetches of a block may be replayed before its accesses as long as all of them hit
//!   ([`replay_hits`]). Where one misses, the block is replayed in the order of the program, because the
//!   last level serves both.

use std::cell::RefCell;
use std::rc::Rc;

use cyclometer_sys::trace::Registers;
use iced_x86::Register;

use super::code_cache::CodeCacheMapping;
use super::modelled_blocks::{
    BlockDetails, ModelRepeat, ModelRows, ModelStep, ModelledBlock, ModelledBlocks, StepRow, UNKNOWN_BLOCK,
};
use super::translated_pc::TranslatedPc;
use crate::code_profile::InstructionPlace;
use crate::model::BranchOutcome;
use crate::model::misses::{MissCounts, MissModel, ModelSizes};
use crate::translate::{CALL_LOG, CALL_LOG_END, EMPTY_ACCESS_LOG, PlannedBranch, RecordState};

/// The caches of all processes, and the counts of their instructions.
pub(super) struct CacheModelling {
    sizes: ModelSizes,
    rows: Rc<RefCell<ModelRows>>,
}

impl CacheModelling {
    pub(super) fn new(sizes: ModelSizes) -> CacheModelling {
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
            open: None,
            fs_base: 0,
            former_fs: Vec::new(),
            words: Vec::new(),
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
    /// The last block, whose branch leads to the next one of the thread.
    open: Option<u32>,
    fs_base: u64,
    /// Earlier bases of %fs, each with the end of the log up to which it was in force.
    former_fs: Vec<(u64, u64)>,
    /// Room for a log.
    words: Vec<u64>,
}

/// The state with which a step is replayed.
struct Replay<'a> {
    caches: &'a mut MissModel,
    rows: &'a mut [(InstructionPlace, MissCounts)],
    fs_base: u64,
}

impl Replay<'_> {
    fn step(&mut self, step: &ModelStep, record: &[u64]) {
        match step {
            ModelStep::Data { access, row } => {
                self.data(access.address(record, self.fs_base), access.bytes, *row);
            }
            ModelStep::Fetch { pc, row, length } => {
                let found = self.caches.fetch(*pc, u64::from(*length));
                if !found.is_hit() {
                    let counts = &mut self.rows[*row as usize].1;
                    found.note(&mut counts.l1i, &mut counts.ll);
                }
                let translated = self.caches.translate_fetch(*pc, u64::from(*length));
                if !translated.is_hit() {
                    let counts = &mut self.rows[*row as usize].1;
                    translated.note(&mut counts.itlb, &mut counts.stlb);
                }
            }
            ModelStep::Repeat(repeated) => {
                let after = record[usize::from(repeated.repeat.after)];
                self.repeat(repeated, record, after);
            }
        }
    }

    fn data(&mut self, address: u64, bytes: u64, row: u32) {
        let found = self.caches.access_data(address, bytes);
        if !found.is_hit() {
            let counts = &mut self.rows[row as usize].1;
            found.note(&mut counts.l1d, &mut counts.ll);
        }
        let translated = self.caches.translate_data(address, bytes);
        if !translated.is_hit() {
            let counts = &mut self.rows[row as usize].1;
            translated.note(&mut counts.dtlb, &mut counts.stlb);
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

    /// A whole block, step by step.
    #[inline(never)]
    fn steps(&mut self, details: &BlockDetails, record: &[u64]) {
        details.steps.iter().for_each(|step| self.step(step, record));
    }
}

/// The branch at the end of a block, if it has one, by the address of the next instruction.
fn branch(caches: &mut MissModel, block: &mut ModelledBlock, to: u64) {
    let outcome = match block.kind {
        PlannedBranch::None => return,
        PlannedBranch::Conditional => BranchOutcome::Conditional { taken: to != block.next },
        PlannedBranch::Indirect => BranchOutcome::Indirect { target: to },
    };
    let is_wrong = caches.branch(block.branch.into(), outcome);
    block.mispredictions += u64::from(is_wrong);
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

    /// The thread leaves translated code at a position. `registers` are those of translated code, if they
    /// are known, and `next` is the address of its next instruction.
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
        if let (Some(open), Some(next)) = (self.open.take(), next) {
            let rows = &mut self.rows.borrow_mut();
            branch(&mut self.caches.borrow_mut(), &mut rows.blocks[open as usize], next);
        }
    }

    /// The thread has ended at an unknown position. Returns whether its log had records.
    pub(super) fn give_up(&mut self, cache: &CodeCacheMapping, slot: usize) -> bool {
        let is_pending = cache.load(slot, CALL_LOG_END) > EMPTY_ACCESS_LOG;
        self.replay_to(cache, slot, LogTail::Unknown);
        self.open = None;
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
        let len = end.saturating_sub(EMPTY_ACCESS_LOG) as usize / 8;
        let mut room = std::mem::take(&mut self.words);
        room.resize(room.len().max(len), 0);
        let words = &mut room[..len];
        cache.read_slot(slot, CALL_LOG, words);
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
        self.words = room;
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
        let known = &mut *cache.modelled_blocks.borrow_mut();
        let (caches, all) = (&mut *self.caches.borrow_mut(), &mut *self.rows.borrow_mut());
        let mut log = LogPosition { words, at: 0, open: self.open.take() };
        let replay_hits = if caches.has_tlbs() { replay_hits::<true> } else { replay_hits::<false> };
        loop {
            if let Some(missed) = replay_hits(&mut log, caches, known, all, fs_base) {
                log.finish(missed, caches, all, fs_base);
                continue;
            }
            // A record by itself: of a new block, of one that is not plain or not in the cache, or the last.
            let rest = &words[log.at..];
            let Some(block) = rest.first().map(|word| *word as u32) else { break };
            let Some(number) = known.number(block).or_else(|| add(block, cache, known, all, caches)) else {
                break;
            };
            let ModelRows { rows, blocks, details, .. } = all;
            let (number, details) = (number as usize, &details[number as usize]);
            let Some(record) = rest.get(..usize::from(blocks[number].words)) else { break };
            log.at += record.len();
            if let Some(open) = log.open.take() {
                let to = blocks[number].address;
                branch(caches, &mut blocks[open as usize], to);
            }
            let done = match tail {
                _ if log.at < words.len() || !is_last => None,
                LogTail::Partial(of, done, registers) if of == block => Some((done, registers)),
                LogTail::Unknown => Some((0, None)),
                _ => None,
            };
            if let Some((done, registers)) = done {
                Replay { caches, rows, fs_base }.part(details, record, done, registers);
                details.rows.iter().take(done.into()).for_each(|step| step.add(1, rows));
                break;
            }
            blocks[number].executions += 1;
            log.open = Some(number as u32);
            Replay { caches, rows, fs_base }.steps(details, record);
        }
        self.open = log.open;
    }
}

/// The position in a log that is being replayed.
struct LogPosition<'a> {
    words: &'a [u64],
    at: usize,
    /// The last block, whose branch leads to the next one.
    open: Option<u32>,
}

/// An access of a plain block that may miss.
struct MissedAccess {
    /// The start of the record.
    record: usize,
    /// The number of the access, and of the first one of other blocks.
    access: usize,
    end: usize,
}

impl LogPosition<'_> {
    /// Replays the accesses of a plain block from one on.
    fn finish(&self, missed: MissedAccess, caches: &mut MissModel, all: &mut ModelRows, fs_base: u64) {
        let MissedAccess { record, access, end } = missed;
        let ModelRows { rows, accesses, access_rows, .. } = all;
        let mut replay = Replay { caches, rows, fs_base };
        for (access, row) in accesses[access..end].iter().zip(&access_rows[access..end]) {
            let address = access.address(&self.words[record..self.at], &[0, fs_base]);
            replay.data(address, u64::from(access.last) + 1, *row);
        }
    }
}

/// Replays records of plain blocks as long as all that they fetch and access hits, and is found at once.
/// This is the inner loop of the model: it calls nothing, so that its state stays in registers. It stops
/// before a record that it does not replay, or behind an access. `TLBS` says whether TLBs are modelled.
#[inline(never)]
fn replay_hits<const TLBS: bool>(
    log: &mut LogPosition<'_>,
    caches: &mut MissModel,
    known: &ModelledBlocks,
    all: &mut ModelRows,
    fs_base: u64,
) -> Option<MissedAccess> {
    let (words, known, segments) = (log.words, &known.0[..], [0, fs_base]);
    let (blocks, accesses) = (&mut all.blocks[..], &all.accesses[..]);
    let (mut at, mut open) = (log.at, log.open.unwrap_or(UNKNOWN_BLOCK));
    let (mut fast, mut missed) = (caches.fast::<TLBS>(), None);
    'log: while let Some(&word) = words.get(at) {
        let Some(&number) = known.get(word as u32 as usize) else { break };
        let Some(block) = blocks.get_mut(number as usize) else { break };
        let (address, first, end) = (block.address, block.accesses.0 as usize, block.accesses.1 as usize);
        let behind = at + usize::from(block.words);
        // The last record may be of a part of a block.
        if !block.is_plain || behind >= words.len() || !fast.fetch(block.line, block.lines) {
            break;
        }
        if TLBS && !fast.translates_fetch(address, block.next.wrapping_sub(1)) {
            break;
        }
        block.executions += 1;
        let record = &words[at..behind];
        if let Some(open) = blocks.get_mut(open as usize) {
            let is_wrong = match open.kind {
                PlannedBranch::Conditional => {
                    fast.conditional_branch(open.branch.into(), address != open.next)
                }
                PlannedBranch::None => false,
                PlannedBranch::Indirect => fast.indirect_branch(open.branch.into(), address),
            };
            open.mispredictions += u64::from(is_wrong);
        }
        (open, at) = (number, behind);
        let start = at - record.len();
        for (n, access) in accesses[first..end].iter().enumerate() {
            if !fast.hits_data(access.address(record, &segments), access.last) {
                missed = Some(MissedAccess { record: start, access: first + n, end });
                break 'log;
            }
        }
    }
    fast.end();
    log.at = at;
    log.open = Some(open).filter(|open| *open != UNKNOWN_BLOCK);
    missed
}

/// Adds a block that is executed for the first time; `None` where the translation has no such block.
#[cold]
fn add(
    block: u32,
    cache: &CodeCacheMapping,
    known: &mut ModelledBlocks,
    rows: &mut ModelRows,
    caches: &MissModel,
) -> Option<u32> {
    let plan = cache.translation.access_plan(block)?;
    let number = rows.add((block, plan), &cache.translation, caches);
    known.insert(block, number);
    Some(number)
}

impl Replay<'_> {
    /// The first instructions of a block. The next one may be repeated, and have begun: its registers tell.
    #[cold]
    fn part(&mut self, details: &BlockDetails, record: &[u64], done: u16, registers: Option<&Registers>) {
        let BlockDetails { steps, starts, .. } = details;
        let start = |step: u16| starts.get(usize::from(step)).map_or(steps.len(), |at| *at as usize);
        steps[..start(done)].iter().for_each(|step| self.step(step, record));
        let next = steps[start(done)..start(done + 1)].last();
        if let (Some(ModelStep::Repeat(repeated)), Some(registers)) = (next, registers) {
            let is_rsi = usize::from(repeated.repeat.register) == Register::RSI.number();
            let after = if is_rsi { registers.rsi } else { registers.rdi };
            self.repeat(repeated, record, after);
        }
    }
}

//! Batches: the blocks that are translated together, because they are likely to be reached from one entry.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions};

use super::instruction::{DecodedInstruction, OSZAP, OpcodeTraits, STATUS};
use super::pages::{CodePages, CodeSource, CodeStability, PAGE};
use super::region::is_region_near;
use crate::block::{DetachReason, MAX_INSTRUCTIONS, Terminator};
use crate::hash::AddressMap;
use crate::profile::Heat;

/// Most instructions of a batch: more are translated in vain, fewer mean more stops.
const MAX_BATCH: usize = 400;

/// The least likelihood, from 0 to [`CERTAIN`], at which a block is translated ahead. A less likely block
/// costs more to translate than the stop that asks for it, times its probability.
const LEAST_LIKELY: u32 = CERTAIN / 32;

/// Likelihood, in percent, of an exit that earlier runs have passed and never taken.
const NEVER_TAKEN: u32 = 2;

/// The greatest distance, in bytes, of a page that is read for its profile.
const NEIGHBOURHOOD: u64 = 1 << 22;

/// It will be executed.
const CERTAIN: u32 = 1 << 20;

/// Reach of a conditional branch within a function, in bytes. Compilers move cold code farther away.
const FAR: u64 = 1 << 16;

/// The longest an instruction can be.
const MAX_LENGTH: usize = 15;

/// A block that is to be translated.
pub(crate) struct PendingBlock {
    pub(crate) address: u64,
    /// The range of its instructions in [`BlockBatch::instructions`].
    pub(crate) steps: Range<usize>,
    pub(crate) terminator: Terminator,
    /// Status flags that matter when it is entered.
    pub(crate) live_in: u8,
    /// Status flags that are live at the end of the block.
    pub(crate) live_out: u8,
    /// Expected executions, in hundredths: from the execution profile, else guessed from backward jumps.
    pub(crate) expected: u64,
    /// The successors that are in the batch, in the order of [`successors`].
    pub(crate) inside: [Option<u32>; 2],
    /// The first instruction before which flags are dead, so that a counter may change them; `None` where
    /// they are live throughout.
    pub(crate) flags_dead: Option<usize>,
    /// Whether the program's bytes are checked before each execution, because they can change.
    pub(crate) checked: bool,
}

impl PendingBlock {
    /// The number of its instructions.
    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }
}

/// Blocks that are translated together, by address.
pub(crate) struct BlockBatch {
    pub(crate) instructions: Vec<DecodedInstruction>,
    /// Ascending by address.
    pub(crate) blocks: Vec<PendingBlock>,
    scratch: BatchScratch,
}

/// Room that every batch uses again.
#[derive(Default)]
pub(crate) struct BatchScratch {
    instructions: Vec<DecodedInstruction>,
    blocks: Vec<PendingBlock>,
    seen: SeenAddresses,
    leaders: Vec<u64>,
    traits: OpcodeTraits,
}

impl BlockBatch {
    /// Finds blocks from `entry` on, which is not translated yet.
    ///
    /// `known` returns the flags that are live at the start of a translated block. `bounds` is the region for
    /// the code. `scratch` has the buffers of the batch before.
    pub(crate) fn find(
        pages: &mut CodePages,
        code: &mut dyn CodeSource,
        entry: u64,
        bounds: (u64, u64),
        known: &dyn Fn(u32) -> u8,
        scratch: BatchScratch,
    ) -> BlockBatch {
        let mut search = BlockSearch { pages, code, bounds, found: DecodedCode::with_room(scratch) };
        search.run(entry);
        let BlockSearch { pages, found, .. } = search;
        let mut batch = found.blocks(pages);
        batch.find_successors(pages);
        let fixed = |address| pages.block(address).filter(|_| !pages.can_change(address));
        batch.find_live_flags(&|address| Some(known(fixed(address)?)));
        batch.find_dead_flags();
        batch.find_loops();
        batch.apply_profile(pages);
        batch
    }

    /// The position of the block at an address.
    pub(crate) fn at(&self, address: u64) -> Option<usize> {
        self.blocks.binary_search_by_key(&address, |pending| pending.address).ok()
    }

    /// Whether the block before this one continues to it: by falling through, or because its call returns
    /// there.
    pub(crate) fn is_fallen_into(&self, position: usize) -> bool {
        let Some(before) = position.checked_sub(1).map(|before| self.blocks[before].terminator) else {
            return false;
        };
        let address = Some(self.blocks[position].address);
        return_to(before) == address || successors(before).contains(&address)
    }

    /// Buffers for the next batch.
    pub(crate) fn into_scratch(self) -> BatchScratch {
        BatchScratch { instructions: self.instructions, blocks: self.blocks, ..self.scratch }
    }

    /// The instructions of a block.
    pub(crate) fn instructions(&self, pending: &PendingBlock) -> &[DecodedInstruction] {
        &self.instructions[pending.steps.clone()]
    }

    /// A block whose bytes can change is no successor: another version of it may be there by then.
    fn find_successors(&mut self, pages: &CodePages) {
        for i in 0..self.blocks.len() {
            let fixed = |to: Option<u64>| to.filter(|to| !pages.can_change(*to));
            let inside =
                successors(self.blocks[i].terminator).map(|to| self.at(fixed(to)?).map(|to| to as u32));
            self.blocks[i].inside = inside;
        }
    }

    /// Backward data flow to a fixed point.
    fn find_live_flags(&mut self, known: &dyn Fn(u64) -> Option<u8>) {
        let effects: Vec<(u8, u8)> = self.blocks.iter().map(|pending| self.effect(pending)).collect();
        let outside: Vec<u8> =
            self.blocks.iter().map(|pending| self.live_elsewhere(pending, known)).collect();
        loop {
            let mut changed = false;
            for i in (0..self.blocks.len()).rev() {
                let inside = self.blocks[i].inside.into_iter().flatten();
                let within = inside.fold(0, |live, to| live | self.blocks[to as usize].live_in);
                let (reads, kills) = effects[i];
                let pending = &mut self.blocks[i];
                pending.live_out = within | outside[i];
                let live_in = reads | (pending.live_out & !kills);
                changed |= live_in != pending.live_in;
                pending.live_in = live_in;
            }
            if !changed {
                return;
            }
        }
    }

    /// Flags that a block reads before it kills them, and those that it kills.
    fn effect(&self, pending: &PendingBlock) -> (u8, u8) {
        self.instructions(pending).iter().fold((0, 0), |(reads, kills), instruction| {
            (reads | (instruction.reads & !kills), kills | instruction.kills)
        })
    }

    /// Flags that are live at the successors outside of the batch: all, unless the successor is translated.
    fn live_elsewhere(&self, pending: &PendingBlock, known: &dyn Fn(u64) -> Option<u8>) -> u8 {
        match pending.terminator {
            Terminator::FallThrough { .. }
            | Terminator::Conditional { .. }
            | Terminator::Jump { .. }
            | Terminator::Call { .. }
            | Terminator::SystemCall { .. } => {
                let exits = successors(pending.terminator).into_iter().zip(pending.inside);
                let outside = exits.filter(|(_, inside)| inside.is_none()).filter_map(|(to, _)| to);
                outside.fold(0, |live, to| live | known(to).unwrap_or(STATUS))
            }
            _ => STATUS,
        }
    }

    /// A backward jump makes a loop of the blocks in between. Each loop multiplies by 8.
    fn find_loops(&mut self) {
        let mut change = vec![0i32; self.blocks.len() + 1];
        for (i, pending) in self.blocks.iter().enumerate() {
            for head in pending.inside.into_iter().flatten().filter(|head| *head as usize <= i) {
                change[head as usize] += 1;
                change[i + 1] -= 1;
            }
        }
        let mut depth = 0;
        for (pending, change) in self.blocks.iter_mut().zip(change) {
            depth += change;
            pending.expected = 100 * 8u64.pow(depth.clamp(0, 6).unsigned_abs());
        }
    }

    /// Replaces guesses by the execution profile.
    fn apply_profile(&mut self, pages: &CodePages) {
        for pending in &mut self.blocks {
            let heat = pages.heats(pending.address).map(|heats| heats.block);
            pending.expected = expected(heat, pending.expected);
        }
    }

    fn find_dead_flags(&mut self) {
        for i in 0..self.blocks.len() {
            self.blocks[i].flags_dead = self.dead_flags_step(&self.blocks[i]);
        }
    }

    fn dead_flags_step(&self, pending: &PendingBlock) -> Option<usize> {
        let mut live = pending.live_out;
        let mut flags_dead = None;
        for (step, instruction) in self.instructions(pending).iter().enumerate().rev() {
            live = (live & !instruction.kills) | instruction.reads;
            if live & OSZAP == 0 {
                flags_dead = Some(step);
            }
        }
        flags_dead
    }
}

/// Expected executions, in hundredths, from the profile, or `guess` without one. A block that earlier runs
/// never reached is expected less than once; the greater the guess, the more.
pub(crate) fn expected(heat: Option<Heat>, guess: u64) -> u64 {
    match heat.map(Heat::times) {
        None => guess,
        Some(0) => u64::from(guess.checked_ilog2().unwrap_or(0)) + 1,
        Some(times) => 100 * times,
    }
}

/// The successors of a block that are in its last instruction: the next instruction, then the branch target.
pub(crate) fn successors(terminator: Terminator) -> [Option<u64>; 2] {
    match terminator {
        Terminator::FallThrough { next } | Terminator::SystemCall { next } => [Some(next), None],
        Terminator::Conditional { taken, not_taken } => [Some(not_taken), Some(taken)],
        Terminator::Jump { target } | Terminator::Call { target, .. } => [None, Some(target)],
        _ => [None, None],
    }
}

/// The addresses where a block continues, a call's return included, with the likelihood of each in percent.
/// Both directions of a branch are taken sooner or later more often than not, as are calls and returns.
///
/// The likelihoods were measured in runs of a compiler, a shell and an interpreter.
fn continuations(start: u64, end: Terminator) -> [Option<(u64, u32)>; 2] {
    let [next, target] = successors(end);
    let (onward, branch) = match end {
        Terminator::Conditional { taken, .. } if taken.abs_diff(start) > FAR => (60, 0),
        Terminator::Conditional { .. } => (60, 55),
        Terminator::Call { .. } | Terminator::IndirectCall { .. } => (85, 80),
        _ => (98, 95),
    };
    [return_to(end).or(next).map(|to| (to, onward)), target.map(|to| (to, branch))]
}

struct BlockSearch<'a> {
    pages: &'a mut CodePages,
    code: &'a mut dyn CodeSource,
    bounds: (u64, u64),
    found: DecodedCode,
}

/// The code that a search has decoded.
struct DecodedCode {
    instructions: Vec<DecodedInstruction>,
    blocks: Vec<PendingBlock>,
    /// The positions of instructions in `instructions`.
    seen: SeenAddresses,
    leaders: Vec<u64>,
    traits: OpcodeTraits,
    refused: AddressMap<u64, DetachReason>,
}

/// Addresses of a batch's instructions, with a number for each. Emptied at once.
#[derive(Default)]
struct SeenAddresses {
    /// Address, batch and number. An address is in the first free entry from its hash on.
    places: Vec<(u64, u32, u32)>,
    batch: u32,
}

impl SeenAddresses {
    /// More than twice the number of instructions, so that a free entry is never far.
    const PLACES: usize = (2 * MAX_BATCH).next_power_of_two();

    fn clear(&mut self) {
        self.batch += 1;
        self.places.resize(SeenAddresses::PLACES, (0, 0, 0));
    }

    /// The entry of an address, or the free one where it belongs.
    fn place(&self, address: u64) -> usize {
        let mut place = (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % SeenAddresses::PLACES;
        while let (known, batch, _) = self.places[place]
            && batch == self.batch
            && known != address
        {
            place = (place + 1) % SeenAddresses::PLACES;
        }
        place
    }

    fn get(&self, address: u64) -> Option<usize> {
        self.at(self.place(address))
    }

    /// The number of the address in an entry.
    fn at(&self, place: usize) -> Option<usize> {
        let (_, batch, number) = self.places[place];
        (batch == self.batch).then_some(number as usize)
    }

    /// Enters an address in the free entry that was found for it.
    fn insert(&mut self, place: usize, address: u64, number: usize) {
        self.places[place] = (address, self.batch, number as u32);
    }
}

/// The end of a run of decoded instructions.
enum ScanEnd {
    /// To its end, or to a known instruction.
    End(Option<Terminator>),
    /// To here.
    Edge(u64),
}

impl BlockSearch<'_> {
    /// Takes the likeliest block first, so that the budget is spent on code that is executed.
    fn run(&mut self, entry: u64) {
        self.found.leaders.push(entry);
        let mut open = BinaryHeap::from([(CERTAIN, Reverse(entry))]);
        while let Some((likely, Reverse(start))) = open.pop() {
            let Some(end) = self.scan(start) else { continue };
            for (to, share) in continuations(start, end).into_iter().flatten() {
                self.found.leaders.push(to);
                let likely = likely / 100 * self.share(start, to, share);
                // Code that is not near this region gets one of its own when it is executed: its data may be
                // out of reach from here.
                let is_near = is_region_near(self.bounds.0, to);
                open.extend((likely >= LEAST_LIKELY && is_near).then_some((likely, Reverse(to))));
            }
        }
    }

    /// The likelihood of an exit, in percent, from the profile; `guess` where earlier runs did not execute
    /// the block.
    fn share(&mut self, from: u64, to: u64, guess: u32) -> u32 {
        if !self.pages.was_executed(from) {
            return guess;
        }
        // A page far away is not read for this: with a wrong profile it may have no code yet.
        if to.abs_diff(from) > NEIGHBOURHOOD && !self.pages.is_known(to) {
            return guess;
        }
        let gone = self.pages.find(self.code, to).is_some() && self.pages.was_executed(to);
        if gone { 100 } else { NEVER_TAKEN }
    }

    /// Decodes from an address to the end of its block; `None` where that was known.
    fn scan(&mut self, start: u64) -> Option<Terminator> {
        let mut at = start;
        loop {
            at = match self.scan_page(at) {
                ScanEnd::End(end) => return end,
                ScanEnd::Edge(edge) => edge,
            };
            // Instructions that may cross a page are decoded from a copy.
            let window = self.pages.window(self.code, at);
            let mut decoder = Decoder::with_ip(64, window.bytes(), at, DecoderOptions::NONE);
            let starts_block = |at| self.pages.starts_block(at);
            match self.found.take(&mut decoder, window.bytes(), starts_block, self.bounds) {
                ScanEnd::End(end) => return end,
                ScanEnd::Edge(next) => at = next,
            }
        }
    }

    /// Decodes one page, up to the first instruction that may cross its end.
    fn scan_page(&mut self, start: u64) -> ScanEnd {
        let Some(page) = self.pages.find(self.code, start) else { return ScanEnd::Edge(start) };
        let rest = self.pages.rest(page, start);
        let mut decoder = Decoder::with_ip(64, rest, start, DecoderOptions::NONE);
        while decoder.position() + MAX_LENGTH <= rest.len() {
            let window = &rest[decoder.position()..];
            let starts_block = |at| self.pages.starts_block_on(page, at);
            if let end @ ScanEnd::End(_) = self.found.take(&mut decoder, window, starts_block, self.bounds) {
                return end;
            }
        }
        ScanEnd::Edge(decoder.ip())
    }
}

impl DecodedCode {
    fn with_room(scratch: BatchScratch) -> DecodedCode {
        let BatchScratch { mut instructions, mut blocks, mut seen, mut leaders, traits } = scratch;
        instructions.clear();
        instructions.reserve(MAX_BATCH);
        blocks.clear();
        seen.clear();
        leaders.clear();
        DecodedCode { instructions, blocks, seen, leaders, traits, refused: AddressMap::default() }
    }

    /// Takes the next instruction of a run of bytes, if it is new; `window` starts with its first byte.
    fn take(
        &mut self,
        decoder: &mut Decoder<'_>,
        window: &[u8],
        starts_block: impl FnOnce(u64) -> bool,
        (start, end): (u64, u64),
    ) -> ScanEnd {
        let at = decoder.ip();
        let place = self.seen.place(at);
        if self.seen.at(place).is_some() {
            self.leaders.push(at);
            return ScanEnd::End(None);
        }
        if self.instructions.len() >= MAX_BATCH || starts_block(at) {
            return ScanEnd::End(None);
        }
        match DecodedInstruction::next_of(decoder, window, &mut self.traits) {
            Ok(instruction) if instruction.reaches_from(start, end) => {
                self.seen.insert(place, at, self.instructions.len());
                let (next, ends) = (instruction.next(), instruction.ends);
                self.instructions.push(instruction);
                if ends.is_some() { ScanEnd::End(ends) } else { ScanEnd::Edge(next) }
            }
            Ok(_) => self.refuse(at, DetachReason::Reach),
            Err(reason) => self.refuse(at, reason),
        }
    }

    fn refuse(&mut self, at: u64, reason: DetachReason) -> ScanEnd {
        self.refused.insert(at, reason);
        ScanEnd::End(None)
    }

    /// Cuts the decoded code at every branch target.
    fn blocks(mut self, pages: &CodePages) -> BlockBatch {
        let mut leaders = std::mem::take(&mut self.leaders);
        leaders.sort_unstable();
        leaders.dedup();
        for leader in &leaders {
            if let Some(instruction) = self.seen.get(*leader) {
                self.instructions[instruction].leads = true;
            }
        }
        let mut blocks = std::mem::take(&mut self.blocks);
        blocks.extend(leaders.iter().filter_map(|leader| self.block(*leader, pages)));
        let scratch =
            BatchScratch { seen: self.seen, leaders, traits: self.traits, ..BatchScratch::default() };
        BlockBatch { instructions: self.instructions, blocks, scratch }
    }

    /// The block at an address, if it is new and was decoded.
    fn block(&self, address: u64, pages: &CodePages) -> Option<PendingBlock> {
        let pending = |steps, terminator| PendingBlock {
            address,
            steps,
            terminator,
            live_in: 0,
            live_out: 0,
            expected: 0,
            inside: [None; 2],
            flags_dead: None,
            checked: pages.can_change(address),
        };
        if pages.starts_block(address) {
            return None;
        }
        let Some(first) = self.seen.get(address) else {
            let refused = self.refused.get(&address)?;
            return Some(pending(0..0, Terminator::Detach(*refused)));
        };
        let mut last = first;
        let checked = pages.can_change(address);
        let mut stability = pages.stability(address);
        let terminator = loop {
            let instruction = &self.instructions[last];
            last += 1;
            if let Some(end) = instruction.ends {
                break end;
            }
            // Instructions that follow one another were decoded one after the other, up to a known block.
            let next = instruction.next();
            let changing = checked || (next % PAGE < MAX_LENGTH as u64 && pages.can_change(next));
            let follows = self.instructions.get(last).is_some_and(|next_instruction| {
                next_instruction.address == next && !next_instruction.leads && last - first < MAX_INSTRUCTIONS
            });
            let cut = changing && (!checked || ends_version(instruction, last - first, &mut stability));
            if !follows || cut {
                // An instruction that can change is decoded again when it is executed.
                let refused = self.refused.get(&next).filter(|_| !changing);
                let refused = refused.map(|reason| Terminator::Detach(*reason));
                break refused.unwrap_or(Terminator::FallThrough { next });
            }
        };
        Some(pending(first..last, terminator))
    }
}

/// Most instructions of a block that is checked: a change of one byte makes another version of the block.
const MOST_CHECKED: usize = 32;

/// Whether a version ends behind an instruction, the last one of `count`, because that may change one that
/// follows. With another stack pointer, stores to the stack may do so too.
fn ends_version(instruction: &DecodedInstruction, count: usize, stability: &mut CodeStability) -> bool {
    if instruction.moves_stack() {
        *stability = CodeStability::ChangingWithStack;
    }
    count >= MOST_CHECKED || instruction.may_change_code(*stability)
}

/// The return address of a call.
pub(crate) fn return_to(terminator: Terminator) -> Option<u64> {
    match terminator {
        Terminator::Call { return_to, .. } | Terminator::IndirectCall { return_to } => Some(return_to),
        _ => None,
    }
}

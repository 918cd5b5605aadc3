//! What is translated at a time: the blocks that can be reached from an entry without leaving the function.

use std::collections::VecDeque;
use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions};

use super::pages::{Code, Pages};
use super::shape::{OSZAP, STATUS, Shape};
use crate::block::{Leave, MAX_INSTRUCTIONS, Terminator};
use crate::hash::AddressMap;

/// Most instructions of a batch: more are translated in vain, fewer mean more stops.
const MAX_BATCH: usize = 400;

/// The longest an instruction can be.
const MAX_LENGTH: usize = 15;

/// A block that is to be translated.
pub(crate) struct Draft {
    pub(crate) address: u64,
    /// Its instructions: where they are in [`Batch::shapes`].
    pub(crate) steps: Range<usize>,
    pub(crate) terminator: Terminator,
    /// Status flags that matter when it is entered.
    pub(crate) live_in: u8,
    /// Status flags that matter when it is left.
    pub(crate) live_out: u8,
    /// How deep in loops, as far as jumps backward show.
    pub(crate) depth: u32,
    /// Before which of its instructions a counter does not disturb the flags; `None` where they matter throughout.
    pub(crate) quiet: Option<usize>,
}

impl Draft {
    /// The number of its instructions.
    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }
}

/// Blocks that are translated together, by address.
pub(crate) struct Batch {
    pub(crate) shapes: Vec<Shape>,
    pub(crate) drafts: Vec<Draft>,
    by_address: AddressMap<u64, u32>,
}

impl Batch {
    /// Finds blocks from `entry` on, which is none of the translated ones.
    ///
    /// `known` gives the flags that matter at the start of a block that was translated before; `bounds` is the region
    /// that the copies go to.
    pub(crate) fn find(
        pages: &mut Pages,
        code: &mut dyn Code,
        entry: u64,
        bounds: (u64, u64),
        known: &dyn Fn(u64) -> Option<u8>,
    ) -> Batch {
        let mut search = Search { pages, code, bounds, found: Found::with_room() };
        search.run(entry);
        let Search { pages, found, .. } = search;
        let (shapes, drafts) = found.blocks(pages, known);
        let by_address = drafts.iter().enumerate().map(|(i, draft)| (draft.address, i as u32)).collect();
        let mut batch = Batch { shapes, drafts, by_address };
        batch.find_live_flags(known);
        batch.find_quiet_steps();
        batch.find_loops();
        batch
    }

    /// The position of the block at an address.
    pub(crate) fn at(&self, address: u64) -> Option<usize> {
        self.by_address.get(&address).map(|i| *i as usize)
    }

    /// The instructions of a block.
    pub(crate) fn shapes(&self, draft: &Draft) -> &[Shape] {
        &self.shapes[draft.steps.clone()]
    }

    /// Backward data flow to a fixed point.
    fn find_live_flags(&mut self, known: &dyn Fn(u64) -> Option<u8>) {
        let effects: Vec<(u8, u8)> = self.drafts.iter().map(|draft| self.effect(draft)).collect();
        let outside: Vec<u8> = self.drafts.iter().map(|draft| self.live_elsewhere(draft, known)).collect();
        let inside: Vec<[Option<usize>; 2]> =
            self.drafts.iter().map(|draft| successors(draft.terminator).map(|to| self.at(to?))).collect();
        loop {
            let mut changed = false;
            for i in (0..self.drafts.len()).rev() {
                let within = inside[i].iter().flatten().fold(0, |live, to| live | self.drafts[*to].live_in);
                let (reads, kills) = effects[i];
                let draft = &mut self.drafts[i];
                draft.live_out = within | outside[i];
                let live_in = reads | (draft.live_out & !kills);
                changed |= live_in != draft.live_in;
                draft.live_in = live_in;
            }
            if !changed {
                return;
            }
        }
    }

    /// Flags that a block reads before it kills them, and those that it kills.
    fn effect(&self, draft: &Draft) -> (u8, u8) {
        self.shapes(draft)
            .iter()
            .fold((0, 0), |(reads, kills), shape| (reads | (shape.reads & !kills), kills | shape.kills))
    }

    /// Flags that matter where a block goes to outside of the batch: all of them, unless it is known better.
    fn live_elsewhere(&self, draft: &Draft, known: &dyn Fn(u64) -> Option<u8>) -> u8 {
        match draft.terminator {
            Terminator::FallThrough { .. }
            | Terminator::Conditional { .. }
            | Terminator::Jump { .. }
            | Terminator::Call { .. }
            | Terminator::SystemCall { .. } => {
                let outside = successors(draft.terminator).into_iter().flatten();
                let outside = outside.filter(|to| self.at(*to).is_none());
                outside.fold(0, |live, to| live | known(to).unwrap_or(STATUS))
            }
            _ => STATUS,
        }
    }

    /// A jump backward makes a loop of what is between.
    fn find_loops(&mut self) {
        let mut change = vec![0i32; self.drafts.len() + 1];
        for (i, draft) in self.drafts.iter().enumerate() {
            for head in successors(draft.terminator).into_iter().flatten().filter(|to| *to <= draft.address) {
                if let Some(head) = self.at(head) {
                    change[head] += 1;
                    change[i + 1] -= 1;
                }
            }
        }
        let mut depth = 0;
        for (draft, change) in self.drafts.iter_mut().zip(change) {
            depth += change;
            draft.depth = depth.clamp(0, 6).unsigned_abs();
        }
    }

    fn find_quiet_steps(&mut self) {
        for i in 0..self.drafts.len() {
            self.drafts[i].quiet = self.quiet_step(&self.drafts[i]);
        }
    }

    fn quiet_step(&self, draft: &Draft) -> Option<usize> {
        let mut live = draft.live_out;
        let mut quiet = None;
        for (step, shape) in self.shapes(draft).iter().enumerate().rev() {
            live = (live & !shape.kills) | shape.reads;
            if live & OSZAP == 0 {
                quiet = Some(step);
            }
        }
        quiet
    }
}

/// The addresses where a block goes on that are in its last instruction: where it falls through or on, where it jumps.
pub(crate) fn successors(terminator: Terminator) -> [Option<u64>; 2] {
    match terminator {
        Terminator::FallThrough { next } | Terminator::SystemCall { next } => [Some(next), None],
        Terminator::Conditional { taken, not_taken } => [Some(not_taken), Some(taken)],
        Terminator::Jump { target } | Terminator::Call { target, .. } => [None, Some(target)],
        _ => [None, None],
    }
}

struct Search<'a> {
    pages: &'a mut Pages,
    code: &'a mut dyn Code,
    bounds: (u64, u64),
    found: Found,
}

/// What a search has decoded.
#[derive(Default)]
struct Found {
    shapes: Vec<Shape>,
    index: AddressMap<u64, u32>,
    leaders: Vec<u64>,
    refused: AddressMap<u64, Leave>,
}

/// How far a run of instructions was decoded.
enum Scanned {
    /// To its end, or to what is known.
    End(Option<Terminator>),
    /// To here.
    Edge(u64),
}

impl Search<'_> {
    fn run(&mut self, entry: u64) {
        self.found.leaders.push(entry);
        let mut open = VecDeque::from([entry]);
        let mut callees: VecDeque<u64> = VecDeque::new();
        while let Some(start) = open.pop_front().or_else(|| callees.pop_front()) {
            let Some(end) = self.scan(start) else { continue };
            let [next, target] = successors(end);
            let back = return_to(end).or(next);
            self.found.leaders.extend(back);
            self.found.leaders.extend(target);
            // What follows first, so that a function is found before those that it jumps to.
            if let Some(back) = back {
                open.push_front(back);
            }
            match end {
                Terminator::Call { .. } => callees.extend(target),
                _ => open.extend(target),
            }
        }
    }

    /// Decodes from an address to the end of its block; `None` where that was known.
    fn scan(&mut self, start: u64) -> Option<Terminator> {
        let mut at = start;
        loop {
            at = match self.scan_page(at) {
                Scanned::End(end) => return end,
                Scanned::Edge(edge) => edge,
            };
            // What may lie on two pages is decoded from a copy.
            let window = self.pages.window(self.code, at);
            let mut decoder = Decoder::with_ip(64, window.bytes(), at, DecoderOptions::NONE);
            match self.found.take(&mut decoder, window.bytes(), self.pages, self.bounds) {
                Scanned::End(end) => return end,
                Scanned::Edge(next) => at = next,
            }
        }
    }

    /// The same up to where an instruction may reach over its page's end.
    fn scan_page(&mut self, start: u64) -> Scanned {
        let Some(page) = self.pages.find(self.code, start) else { return Scanned::Edge(start) };
        let rest = self.pages.rest(page, start);
        let mut decoder = Decoder::with_ip(64, rest, start, DecoderOptions::NONE);
        while decoder.position() + MAX_LENGTH <= rest.len() {
            let window = &rest[decoder.position()..];
            if let end @ Scanned::End(_) = self.found.take(&mut decoder, window, self.pages, self.bounds) {
                return end;
            }
        }
        Scanned::Edge(decoder.ip())
    }
}

impl Found {
    fn with_room() -> Found {
        let mut found = Found { shapes: Vec::with_capacity(MAX_BATCH), ..Found::default() };
        found.index.reserve(MAX_BATCH);
        found.leaders.reserve(MAX_BATCH);
        found
    }

    /// Takes the next instruction of a run of bytes, if it is new; `window` starts with its first byte.
    fn take(
        &mut self,
        decoder: &mut Decoder<'_>,
        window: &[u8],
        pages: &Pages,
        (start, end): (u64, u64),
    ) -> Scanned {
        let at = decoder.ip();
        if self.index.contains_key(&at) {
            self.leaders.push(at);
            return Scanned::End(None);
        }
        if self.shapes.len() >= MAX_BATCH || pages.starts_block(at) {
            return Scanned::End(None);
        }
        match Shape::next_of(decoder, window) {
            Ok(shape) if shape.reaches_from(start, end) => {
                self.index.insert(at, self.shapes.len() as u32);
                let (next, ends) = (shape.next(), shape.ends);
                self.shapes.push(shape);
                if ends.is_some() { Scanned::End(ends) } else { Scanned::Edge(next) }
            }
            Ok(_) => self.refuse(at, Leave::Reach),
            Err(reason) => self.refuse(at, reason),
        }
    }

    fn refuse(&mut self, at: u64, reason: Leave) -> Scanned {
        self.refused.insert(at, reason);
        Scanned::End(None)
    }

    /// Cuts what was decoded at every place that something jumps to.
    fn blocks(mut self, pages: &Pages, known: &dyn Fn(u64) -> Option<u8>) -> (Vec<Shape>, Vec<Draft>) {
        let mut leaders = std::mem::take(&mut self.leaders);
        leaders.sort_unstable();
        leaders.dedup();
        for leader in &leaders {
            if let Some(shape) = self.index.get(leader) {
                self.shapes[*shape as usize].leads = true;
            }
        }
        let drafts = leaders.iter().filter_map(|leader| self.block(*leader, pages, known)).collect();
        (self.shapes, drafts)
    }

    /// The block at an address, if there is one and it is new.
    fn block(&self, address: u64, pages: &Pages, known: &dyn Fn(u64) -> Option<u8>) -> Option<Draft> {
        let draft = |steps, terminator| Draft {
            address,
            steps,
            terminator,
            live_in: 0,
            live_out: 0,
            depth: 0,
            quiet: None,
        };
        let Some(first) = self.index.get(&address).map(|first| *first as usize) else {
            let refused = self.refused.get(&address).filter(|_| known(address).is_none())?;
            return Some(draft(0..0, Terminator::Leave(*refused)));
        };
        if pages.starts_block(address) {
            return None;
        }
        let mut last = first;
        let terminator = loop {
            let shape = &self.shapes[last];
            last += 1;
            if let Some(end) = shape.ends {
                break end;
            }
            // Instructions that follow one another were decoded one after the other, up to a known place.
            let next = shape.next();
            let follows = self.shapes.get(last).is_some_and(|next_shape| {
                next_shape.address == next && !next_shape.leads && last - first < MAX_INSTRUCTIONS
            });
            if !follows {
                let refused = self.refused.get(&next).map(|reason| Terminator::Leave(*reason));
                break refused.unwrap_or(Terminator::FallThrough { next });
            }
        };
        Some(draft(first..last, terminator))
    }
}

/// Where a call comes back to.
pub(crate) fn return_to(terminator: Terminator) -> Option<u64> {
    match terminator {
        Terminator::Call { return_to, .. } | Terminator::IndirectCall { return_to } => Some(return_to),
        _ => None,
    }
}

//! Blocks that count the same.
//!
//! A program has hundred thousands of blocks, which count in some thousands of ways. What a block counts is decoded once for
//! all processes that execute it, and executions of all that count alike are added up before they are multiplied.

use iced_x86::{Decoder, DecoderOptions};

use super::classes::{Classes, Counts};
use crate::block::CodeBytes;
use crate::hash::AddressMap;
use crate::totals::{TotalError, Totals};
use crate::vector::Vector;

/// What each block of a translation counts.
#[derive(Default)]
pub(crate) struct Alike {
    /// For each block the number of its way to count; [`UNKNOWN`].
    blocks: Vec<u32>,
    ways: Vec<Way>,
    numbers: AddressMap<Counts, u32>,
    classes: Classes,
}

const UNKNOWN: u32 = u32::MAX;

/// What a block counts when it is executed once, and what else must be counted of it.
struct Way {
    events: Vector,
    all: Counts,
}

/// Executions, by ways to count.
#[derive(Default)]
pub(super) struct Times(Vec<u64>);

impl Alike {
    /// The way in which a block counts, which is found out by its instructions if it is not known. All of them can be
    /// followed.
    pub(super) fn way<'a>(&mut self, block: u32, code: impl FnOnce() -> CodeBytes<'a>) -> u32 {
        let index = block as usize;
        if self.blocks.len() <= index {
            self.blocks.resize(index + 1, UNKNOWN);
        }
        if self.blocks[index] == UNKNOWN {
            self.blocks[index] = self.number(code());
        }
        self.blocks[index]
    }

    fn number(&mut self, code: CodeBytes<'_>) -> u32 {
        let mut decoder = Decoder::with_ip(64, code.bytes, code.address, DecoderOptions::NONE);
        let mut counts = Counts::default();
        while decoder.can_decode() {
            self.classes.add(&decoder.decode(), &mut counts);
        }
        let next = self.ways.len() as u32;
        let ways = &mut self.ways;
        *self.numbers.entry(counts).or_insert_with_key(|all| {
            ways.push(Way { events: all.events.compact(), all: all.clone() });
            next
        })
    }

    /// Adds what was executed to the totals.
    ///
    /// # Errors
    ///
    /// Where a sum does not fit.
    pub(super) fn add(&self, times: &Times, totals: &mut Totals) -> Result<(), TotalError> {
        let executed = self.ways.iter().zip(&times.0).filter(|(_, times)| **times > 0);
        executed.into_iter().try_for_each(|(way, times)| {
            totals.owe(way.all.kinds());
            totals.add(&way.events, *times)
        })
    }
}

impl Times {
    /// Notes executions of a block that counts in a way.
    ///
    /// # Errors
    ///
    /// Where they do not fit 64 bits: each is an instruction at least.
    pub(super) fn note(&mut self, way: u32, times: u64) -> Result<(), TotalError> {
        let index = way as usize;
        if self.0.len() <= index {
            self.0.resize(index + 1, 0);
        }
        let sum = self.0[index].checked_add(times);
        self.0[index] = sum.ok_or(TotalError::Overflow(crate::Event::Instructions))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Event;
    use crate::block::{Block, BlockDecoder, CodeBytes, Limits};

    fn block(bytes: &[u8]) -> Block {
        BlockDecoder::new().decode(CodeBytes { address: 0x1000, bytes }, Limits::page(0x1000))
    }

    #[test]
    fn what_is_added_up_by_ways_is_what_each_block_counts() {
        let codes: [&[u8]; 4] =
            [&[0x48, 0x8b, 0x07, 0xc3], &[0x48, 0x8b, 0x06, 0xc3], &[0x90, 0x74, 0x00], &[0xf3, 0xa4, 0xc3]];
        let (mut alike, mut times, mut one_by_one) = (Alike::default(), Times::default(), Totals::new());
        for (id, code) in (0..).zip(codes) {
            let way = alike.way(id, || CodeBytes { address: 0x1000, bytes: code });
            assert_eq!(alike.way(id, || unreachable!("it is known")), way);
            times.note(way, 10 + u64::from(id)).unwrap();
            one_by_one.add_block(&block(code), 10 + u64::from(id)).unwrap();
        }
        let mut totals = Totals::new();
        alike.add(&times, &mut totals).unwrap();
        assert_eq!(totals, one_by_one);
        assert_eq!(alike.ways.len(), 3, "a register more or less makes no difference");
        assert!(totals.total(Event::RepIterations).is_err(), "iterations are owed");
        assert!(times.note(0, u64::MAX).is_err());
    }
}

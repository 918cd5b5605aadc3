//! Equivalent blocks: blocks with the same event counts.
//!
//! A program has hundreds of thousands of blocks, and some thousands of classes. A block is decoded once for
//! all processes. The executions of a class are added up before they are multiplied.

use std::rc::Rc;

use iced_x86::{Decoder, DecoderOptions};

use super::instruction_counts::{InstructionCountCache, SummedCounts, kinds};
use crate::ExecutionEvent;
use crate::addend::AddendKind;
use crate::block::CodeBytes;
use crate::hash::AddressMap;
use crate::pack::{ChunkReader, ChunkWriter};
use crate::totals::{EventTotals, TotalError};
use crate::vector::EventVector;

/// The classes of the blocks of a translation.
#[derive(Default)]
pub(crate) struct EquivalentBlocks {
    /// The class of each block, or [`UNKNOWN`].
    blocks: Vec<u32>,
    block_classes: Vec<Rc<BlockClass>>,
    numbers: AddressMap<Rc<BlockClass>, u32>,
    instruction_counts: InstructionCountCache,
}

const UNKNOWN: u32 = u32::MAX;

/// A class: the events of one execution, and a bit for each [`AddendKind`](crate::addend::AddendKind) that
/// must be counted too.
#[derive(PartialEq, Eq, Hash, Debug)]
struct BlockClass {
    events: EventVector,
    kinds: u8,
}

/// Executions, by class.
#[derive(Default)]
pub(super) struct ClassExecutions(Vec<u64>);

impl EquivalentBlocks {
    /// The class of a block. An unknown block is decoded; all its instructions can be followed.
    pub(super) fn class<'a>(&mut self, block: u32, code: impl FnOnce() -> CodeBytes<'a>) -> u32 {
        let index = block as usize;
        if self.blocks.len() <= index {
            self.blocks.resize(index + 1, UNKNOWN);
        }
        if self.blocks[index] == UNKNOWN {
            self.blocks[index] = self.number(code());
        }
        self.blocks[index]
    }

    /// The count of an event in one execution of a block of a class.
    pub(super) fn count_of(&self, class: u32, event: ExecutionEvent) -> u32 {
        self.block_classes[class as usize].events.of(event)
    }

    /// Whether blocks of a class have counts of a kind that are made at run time.
    pub(super) fn has_kind(&self, class: u32, kind: AddendKind) -> bool {
        self.block_classes[class as usize].kinds & 1 << kind as u8 != 0
    }

    fn number(&mut self, code: CodeBytes<'_>) -> u32 {
        let mut decoder = Decoder::with_ip(64, code.bytes, code.address, DecoderOptions::NONE);
        let mut counts = SummedCounts::default();
        while decoder.can_decode() {
            self.instruction_counts.add(&decoder.decode(), &mut counts);
        }
        self.number_of(BlockClass { events: counts.events.compact(), kinds: counts.kinds })
    }

    fn number_of(&mut self, class: BlockClass) -> u32 {
        let next = self.block_classes.len() as u32;
        let block_classes = &mut self.block_classes;
        *self.numbers.entry(Rc::new(class)).or_insert_with_key(|class| {
            block_classes.push(class.clone());
            next
        })
    }

    /// Writes the classes and the blocks.
    pub(super) fn pack(&self, to: &mut ChunkWriter<'_>) {
        to.count(self.block_classes.len());
        for class in &self.block_classes {
            to.u8(class.kinds);
            to.count(class.events.iter().count());
            for (event, count) in class.events.iter() {
                to.u8(event as u8);
                to.u32(count);
            }
        }
        to.count(self.blocks.len());
        self.blocks.iter().for_each(|class| to.u32(*class));
    }

    pub(super) fn unpack(from: &mut ChunkReader<'_>) -> Option<EquivalentBlocks> {
        let mut equivalent = EquivalentBlocks::default();
        for number in 0..from.count()? {
            let kinds = from.u8()?;
            let event = |from: &mut ChunkReader<'_>| {
                let event = *ExecutionEvent::ALL.get(usize::from(from.u8()?))?;
                Some((event, from.u32()?))
            };
            let events = from.list(event)?.into_iter().collect();
            if equivalent.number_of(BlockClass { events, kinds }) as usize != number {
                return None;
            }
        }
        equivalent.blocks = from.list(ChunkReader::u32)?;
        let known = |class: &u32| *class == UNKNOWN || (*class as usize) < equivalent.block_classes.len();
        equivalent.blocks.iter().all(known).then_some(equivalent)
    }

    /// Adds the executions of all classes to the totals.
    ///
    /// # Errors
    ///
    /// [`TotalError::Overflow`] where a sum does not fit.
    pub(super) fn add(&self, times: &ClassExecutions, totals: &mut EventTotals) -> Result<(), TotalError> {
        let executed = self.block_classes.iter().zip(&times.0).filter(|(_, times)| **times > 0);
        executed.into_iter().try_for_each(|(class, times)| {
            totals.owe(kinds(class.kinds));
            totals.add(&class.events, *times)
        })
    }
}

impl ClassExecutions {
    /// Adds executions of a block of a class.
    ///
    /// # Errors
    ///
    /// [`TotalError::Overflow`] where they do not fit 64 bits: each execution is at least one instruction.
    pub(super) fn note(&mut self, class: u32, times: u64) -> Result<(), TotalError> {
        let index = class as usize;
        if self.0.len() <= index {
            self.0.resize(index + 1, 0);
        }
        let sum = self.0[index].checked_add(times);
        self.0[index] = sum.ok_or(TotalError::Overflow(crate::ExecutionEvent::Instructions))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{Block, BlockDecoder, BlockLimits, CodeBytes};

    fn block(bytes: &[u8]) -> Block {
        BlockDecoder::new().decode(CodeBytes { address: 0x1000, bytes }, BlockLimits::page(0x1000))
    }

    #[test]
    fn classes_of_blocks_are_read_as_they_were_written() {
        let codes: [&[u8]; 4] = [&[0xc3], &[0x90, 0xc3], &[0xc3], &[0xf3, 0xa4]];
        let code = |block: u32| CodeBytes { address: 0x1000, bytes: codes[block as usize] };
        let mut equivalent = EquivalentBlocks::default();
        let block_classes: Vec<u32> = (0..3).map(|block| equivalent.class(block, || code(block))).collect();
        let mut bytes = Vec::new();
        let mut packer = ChunkWriter::new(&mut bytes);
        equivalent.pack(&mut packer);
        packer.finish().unwrap();
        let mut from = bytes.as_slice();
        let mut again = EquivalentBlocks::unpack(&mut ChunkReader::new(&mut from)).unwrap();
        let known: Vec<u32> =
            (0..3).map(|block| again.class(block, || unreachable!("it is known"))).collect();
        assert_eq!(known, block_classes);
        assert_eq!(again.block_classes, equivalent.block_classes);
        assert_eq!(again.class(3, || code(3)), 2, "what was not executed is still to be found out");
    }

    #[test]
    fn the_sum_over_classes_is_the_sum_over_blocks() {
        let codes: [&[u8]; 4] =
            [&[0x48, 0x8b, 0x07, 0xc3], &[0x48, 0x8b, 0x06, 0xc3], &[0x90, 0x74, 0x00], &[0xf3, 0xa4, 0xc3]];
        let (mut equivalent, mut times, mut one_by_one) =
            (EquivalentBlocks::default(), ClassExecutions::default(), EventTotals::new());
        for (id, code) in (0..).zip(codes) {
            let class = equivalent.class(id, || CodeBytes { address: 0x1000, bytes: code });
            assert_eq!(equivalent.class(id, || unreachable!("it is known")), class);
            times.note(class, 10 + u64::from(id)).unwrap();
            one_by_one.add_block(&block(code), 10 + u64::from(id)).unwrap();
        }
        let mut totals = EventTotals::new();
        equivalent.add(&times, &mut totals).unwrap();
        assert_eq!(totals, one_by_one);
        assert_eq!(equivalent.block_classes.len(), 3, "a register more or less makes no difference");
        assert!(totals.total(ExecutionEvent::RepIterations).is_err(), "iterations are owed");
        assert!(times.note(0, u64::MAX).is_err());
    }
}

//! Event counts of instructions, cached by code: a program uses some hundred codes.

use iced_x86::{Code, Instruction, InstructionInfoFactory, InstructionInfoOptions, Mnemonic as M, OpKind};

use crate::addend::AddendKind;
use crate::classify::classify;
use crate::event::ExecutionEvent;
use crate::vector::EventTally;

/// Counts of instructions, added up, with the kinds of run-time counts that they need.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct SummedCounts {
    pub(super) events: EventTally,
    /// A bit for each [`AddendKind`].
    pub(super) kinds: u8,
}

/// The kinds of run-time counts that the bits stand for.
pub(super) fn kinds(bits: u8) -> impl Iterator<Item = AddendKind> {
    AddendKind::ALL.into_iter().filter(move |kind| bits & (1 << *kind as u8) != 0)
}

/// Counts of instructions by code.
#[derive(Default)]
pub(super) struct InstructionCountCache {
    /// For each [`Code`], without and with an operand in memory, the position of its class; [`UNKNOWN`],
    /// [`VARIES`].
    known: Vec<u16>,
    classes: Vec<CachedCounts>,
}

/// The counts of one instruction.
struct CachedCounts {
    events: Vec<(ExecutionEvent, u32)>,
    kinds: u8,
}

const UNKNOWN: u16 = u16::MAX;

/// The counts depend on more than the code.
const VARIES: u16 = u16::MAX - 1;

impl InstructionCountCache {
    /// Adds the counts of an instruction.
    pub(super) fn add(&mut self, instruction: &Instruction, to: &mut SummedCounts) {
        let Some(class) = self.position(instruction) else { return count_instruction(instruction).add(to) };
        self.classes[usize::from(class)].add(to);
    }

    /// The index of the counts of an instruction, if they depend on the code alone.
    fn position(&mut self, instruction: &Instruction) -> Option<u16> {
        if is_qualified(instruction) {
            return None;
        }
        if self.known.is_empty() {
            self.known = vec![UNKNOWN; 2 * Code::values().len()];
        }
        let place = 2 * instruction.code() as usize + usize::from(has_memory(instruction));
        if self.known[place] == UNKNOWN {
            self.known[place] = if varies(instruction) { VARIES } else { self.add_code(instruction) };
        }
        Some(self.known[place]).filter(|class| *class != VARIES)
    }

    fn add_code(&mut self, instruction: &Instruction) -> u16 {
        let class = count_instruction(instruction);
        self.classes.push(class);
        // There are fewer codes than 15 bits can number.
        (self.classes.len() - 1) as u16
    }
}

/// Classifies an instruction.
fn count_instruction(instruction: &Instruction) -> CachedCounts {
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info_options(instruction, InstructionInfoOptions::NO_REGISTER_USAGE);
    let class = classify(instruction, info);
    let kinds = class.addend.map_or(0, |addend| 1 << addend.kind() as u8);
    CachedCounts { events: class.events.compact().iter().collect(), kinds }
}

impl CachedCounts {
    fn add(&self, to: &mut SummedCounts) {
        self.events.iter().for_each(|(event, count)| to.events.add(*event, *count));
        to.kinds |= self.kinds;
    }
}

/// Whether a prefix or mask may change the counts of an instruction.
fn is_qualified(instruction: &Instruction) -> bool {
    instruction.has_rep_prefix()
        || instruction.has_repne_prefix()
        || instruction.has_lock_prefix()
        || instruction.has_op_mask()
        || instruction.is_broadcast()
}

fn has_memory(instruction: &Instruction) -> bool {
    let kinds =
        [instruction.op0_kind(), instruction.op1_kind(), instruction.op2_kind(), instruction.op3_kind()];
    kinds.contains(&OpKind::Memory)
}

/// Whether instructions of a code may differ although nothing qualifies them: by an immediate, or by
/// registers.
fn varies(instruction: &Instruction) -> bool {
    let by_immediate = matches!(instruction.mnemonic(), M::Int | M::Enter);
    by_immediate || instruction.is_string_instruction() || instruction.is_vsib()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::tests::encodings;
    use iced_x86::{Decoder, DecoderOptions};
    use proptest::prelude::*;
    use proptest::test_runner::TestRunner;

    #[test]
    fn cached_counts_are_those_of_each_instruction() {
        let config =
            ProptestConfig { cases: 100_000, failure_persistence: None, ..ProptestConfig::default() };
        let classes = std::cell::RefCell::new(InstructionCountCache::default());
        let remembered = std::cell::Cell::new(0);
        let outcome = TestRunner::new(config).run(&encodings(), |bytes| {
            let instruction = Decoder::with_ip(64, &bytes, 0x1000, DecoderOptions::NONE).decode();
            if instruction.is_invalid() {
                return Ok(());
            }
            let mut classes = classes.borrow_mut();
            let (before, mut counts, mut expected) =
                (classes.classes.len(), SummedCounts::default(), SummedCounts::default());
            classes.add(&instruction, &mut counts);
            count_instruction(&instruction).add(&mut expected);
            prop_assert_eq!(counts, expected, "{:?} {:x?}", instruction.code(), bytes);
            let known = classes.position(&instruction).is_some();
            remembered.set(remembered.get() + u32::from(known && classes.classes.len() == before));
            Ok(())
        });
        outcome.unwrap();
        assert!(remembered.get() > 20_000, "{}", remembered.get());
    }
}

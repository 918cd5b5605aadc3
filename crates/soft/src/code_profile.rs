//! Executions by code address, and the event counts of each instruction that follow from them.
//!
//! # Problem
//!
//! A count of a whole run says how much, and not where. The tracer knows how often each block was executed,
//! so the count of each instruction follows exactly: no sampling, and the sum over all instructions is the
//! total.
//!
//! # Terms
//!
//! - *Code object*: a file that code was mapped from. Code of no file is at its address instead.
//! - *Run*: some instructions in a row. Executions of a block that ended early are those of the whole block,
//!   less those of the run that was not reached: executions are numbers modulo 2⁶⁴, and only the sum for an
//!   instruction is a number of executions.
//!
//! ```text
//! counters ──flow──> executions of blocks ──CodeProfile──> lines ──attribute──> counts of instructions
//! ```

use std::collections::hash_map::Entry;

use crate::ExecutionEvent;
use crate::addend::{Addend, NOT_TAKEN, TAKEN};
use crate::block::{BlockDecoder, BlockLimits, CodeBytes, Terminator};
use crate::hash::AddressMap;

/// Most runs of a profile: some gigabytes of code that was executed.
pub const MOST_RUNS: usize = 8_000_000;

/// The place of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InstructionPlace {
    /// The number of its code object; `None` for code of no file.
    pub object: Option<u32>,
    /// The offset in the file, or the address, in bytes.
    pub offset: u64,
    /// The number of the process or thread that executed it; `None` where all are added up.
    pub owner: Option<u32>,
}

/// The owners of executions that a profile keeps apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProfileOwner {
    /// Each process, with all of its threads.
    Process,
    /// Each thread.
    Thread,
}

/// Instructions in a row, by place and content.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CodeRun {
    /// The first instruction.
    pub place: InstructionPlace,
    /// The bytes of the instructions.
    pub bytes: Box<[u8]>,
}

/// The executions of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RunExecutions {
    /// Executions of every instruction, modulo 2⁶⁴.
    pub times: u64,
    /// Executions of the conditional branch at the end: not taken, taken.
    pub directions: [u64; 2],
    /// Units of instructions that were counted at run time (iterations, elements), modulo 2⁶⁴, by the offset
    /// of the instruction in the run.
    pub units: Vec<(u16, u64)>,
}

impl RunExecutions {
    fn add(&mut self, other: &RunExecutions) {
        self.times = self.times.wrapping_add(other.times);
        for (sum, more) in self.directions.iter_mut().zip(other.directions) {
            *sum = sum.wrapping_add(more);
        }
        for (offset, more) in &other.units {
            match self.units.iter_mut().find(|(known, _)| known == offset) {
                Some((_, sum)) => *sum = sum.wrapping_add(*more),
                None => self.units.push((*offset, *more)),
            }
        }
    }
}

/// The executions of code, by run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CodeProfile {
    runs: AddressMap<CodeRun, RunExecutions>,
    is_full: bool,
}

/// The counts of the requested events at one instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlaceCounts {
    /// The instruction.
    pub place: InstructionPlace,
    /// The count of each requested event.
    pub counts: Box<[u64]>,
}

/// The executions of a call instruction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PlaceCall {
    /// The instruction.
    pub place: InstructionPlace,
    /// The distance in bytes from the instruction to its target, modulo 2⁶⁴; `None`: the target is in a
    /// register or in memory.
    pub distance: Option<u64>,
    /// The number of executions.
    pub times: u64,
}

/// The reason why a profile has no counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProfileError {
    /// More code was executed than a profile holds ([`MOST_RUNS`]).
    TooMuchCode,
    /// A run has bytes that are no instructions: the profile is damaged.
    NoInstruction(InstructionPlace),
}

impl std::fmt::Display for ProfileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ProfileError::TooMuchCode => write!(f, "more than {MOST_RUNS} runs of code were executed"),
            ProfileError::NoInstruction(place) => write!(f, "there is no instruction at {:#x}", place.offset),
        }
    }
}

impl std::error::Error for ProfileError {}

impl CodeProfile {
    /// Adds executions of a run.
    pub fn add(&mut self, run: CodeRun, executions: RunExecutions) {
        let is_full = self.runs.len() >= MOST_RUNS;
        match self.runs.entry(run) {
            Entry::Occupied(mut known) => known.get_mut().add(&executions),
            Entry::Vacant(_) if is_full => self.is_full = true,
            Entry::Vacant(new) => {
                new.insert(executions);
            }
        }
    }

    /// Adds another profile.
    pub fn merge(&mut self, other: CodeProfile) {
        self.is_full |= other.is_full;
        match self.runs.is_empty() {
            true => self.runs = other.runs,
            false => other.runs.into_iter().for_each(|(run, executions)| self.add(run, executions)),
        }
    }

    /// The profile of a process or thread with this number.
    pub(crate) fn owned_by(self, owner: u32) -> CodeProfile {
        let mut owned = CodeProfile { is_full: self.is_full, ..CodeProfile::default() };
        for (run, executions) in self.runs {
            let place = InstructionPlace { owner: Some(owner), ..run.place };
            owned.add(CodeRun { place, ..run }, executions);
        }
        owned
    }

    /// Every run, in no order.
    pub fn runs(&self) -> impl Iterator<Item = (&CodeRun, &RunExecutions)> {
        self.runs.iter()
    }

    /// Whether there was more code than it holds.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Says that there was more code than it holds.
    pub(crate) fn set_full(&mut self) {
        self.is_full = true;
    }

    /// The counts of events at each instruction that has any, and the executions of calls, ascending by
    /// place.
    /// [`ExecutionEvent::DistinctCodeBytes`] is no sum, and zero everywhere.
    ///
    /// # Errors
    ///
    /// [`ProfileError`].
    pub fn attribute(
        &self,
        events: &[ExecutionEvent],
    ) -> Result<(Vec<PlaceCounts>, Vec<PlaceCall>), ProfileError> {
        if self.is_full {
            return Err(ProfileError::TooMuchCode);
        }
        let mut attribution = Attribution {
            events,
            rows: AddressMap::default(),
            counts: Vec::new(),
            calls: AddressMap::default(),
            decoder: BlockDecoder::new(),
        };
        self.runs.iter().try_for_each(|(run, executions)| attribution.add(run, executions))?;
        let counts = |row: usize| &attribution.counts[row * events.len()..][..events.len()];
        let rows = attribution.rows.iter().map(|(place, row)| (*place, counts(*row)));
        let counted = rows.filter(|(_, counts)| counts.iter().any(|n| *n > 0));
        let mut counted: Vec<_> =
            counted.map(|(place, counts)| PlaceCounts { place, counts: counts.into() }).collect();
        counted.sort_unstable_by_key(|counted| counted.place);
        let executed = attribution.calls.into_iter().filter(|(_, times)| *times > 0);
        let call = |((place, distance), times)| PlaceCall { place, distance, times };
        let mut calls: Vec<PlaceCall> = executed.map(call).collect();
        calls.sort_unstable();
        Ok((counted, calls))
    }
}

/// Counts that are being added up, by instruction.
struct Attribution<'a> {
    events: &'a [ExecutionEvent],
    /// The index of the counts of an instruction.
    rows: AddressMap<InstructionPlace, usize>,
    /// The count of each event, row by row.
    counts: Vec<u64>,
    /// Executions of calls, by place and distance of the target.
    calls: AddressMap<(InstructionPlace, Option<u64>), u64>,
    decoder: BlockDecoder,
}

impl Attribution<'_> {
    fn add(&mut self, run: &CodeRun, executions: &RunExecutions) -> Result<(), ProfileError> {
        const ONE: BlockLimits = BlockLimits { max_instructions: 1, stop_at: u64::MAX };
        let (mut at, mut last) = (0_u16, run.place);
        while let Some(bytes) = run.bytes.get(usize::from(at)..).filter(|rest| !rest.is_empty()) {
            let place = InstructionPlace { offset: run.place.offset.wrapping_add(at.into()), ..run.place };
            let instruction = self.decoder.decode(CodeBytes { address: place.offset, bytes }, ONE);
            if instruction.len == 0 {
                return Err(ProfileError::NoInstruction(place));
            }
            self.count(place, instruction.events.iter(), executions.times);
            match instruction.terminator {
                Terminator::Call { target, .. } => {
                    self.call(place, Some(target.wrapping_sub(place.offset)), executions.times);
                }
                Terminator::IndirectCall { .. } => self.call(place, None, executions.times),
                _ => {}
            }
            let units = executions.units.iter().filter(|(offset, _)| *offset == at);
            for ((_, units), (_, addend)) in units.zip(instruction.addends.iter()) {
                self.count_units(place, addend, *units);
            }
            (at, last) = (at + instruction.len, place);
        }
        let [not_taken, taken] = executions.directions;
        self.count(last, NOT_TAKEN, not_taken);
        self.count(last, TAKEN, taken);
        Ok(())
    }

    fn call(&mut self, place: InstructionPlace, distance: Option<u64>, times: u64) {
        let sum = self.calls.entry((place, distance)).or_default();
        *sum = sum.wrapping_add(times);
    }

    fn count_units(&mut self, place: InstructionPlace, addend: &Addend, units: u64) {
        self.count(place, addend.per_unit(), units);
    }

    fn count(
        &mut self,
        place: InstructionPlace,
        each: impl IntoIterator<Item = (ExecutionEvent, u32)>,
        times: u64,
    ) {
        if times == 0 {
            return;
        }
        let (events, width) = (self.events, self.events.len());
        let next = self.rows.len();
        let row = *self.rows.entry(place).or_insert(next);
        if row == next {
            self.counts.resize((next + 1) * width, 0);
        }
        let counts = &mut self.counts[row * width..][..width];
        for (event, each) in each {
            for (sum, _) in counts.iter_mut().zip(events).filter(|(_, known)| **known == event) {
                *sum = sum.wrapping_add(u64::from(each).wrapping_mul(times));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: [ExecutionEvent; 3] =
        [ExecutionEvent::Instructions, ExecutionEvent::Loads, ExecutionEvent::ConditionalTaken];

    // mov rax, [rsi]; mov [rdi], rax; loop back
    const COPY: [u8; 8] = [0x48, 0x8b, 0x06, 0x48, 0x89, 0x07, 0xe2, 0xf8];

    fn place(offset: u64) -> InstructionPlace {
        InstructionPlace { object: Some(3), offset, owner: None }
    }

    fn run(offset: u64, bytes: &[u8]) -> CodeRun {
        CodeRun { place: place(offset), bytes: bytes.into() }
    }

    fn counted(profile: &CodeProfile) -> Vec<(u64, Vec<u64>)> {
        let (counts, _) = profile.attribute(&EVENTS).unwrap();
        counts.into_iter().map(|counted| (counted.place.offset, counted.counts.to_vec())).collect()
    }

    #[test]
    fn each_instruction_has_the_counts_of_its_executions() {
        let mut profile = CodeProfile::default();
        let executions = RunExecutions { times: 100, directions: [1, 99], units: Vec::new() };
        profile.add(run(0x40, &COPY), executions);
        assert_eq!(
            counted(&profile),
            [(0x40, vec![100, 100, 0]), (0x43, vec![100, 0, 0]), (0x46, vec![100, 0, 99])]
        );
    }

    #[test]
    fn an_execution_that_ended_early_is_the_whole_less_the_rest() {
        let mut profile = CodeProfile::default();
        profile.add(run(0x40, &COPY), RunExecutions { times: 7, directions: [0, 6], units: Vec::new() });
        let rest = RunExecutions { times: 1_u64.wrapping_neg(), ..RunExecutions::default() };
        profile.add(run(0x43, &COPY[3..]), rest);
        assert_eq!(counted(&profile), [(0x40, vec![7, 7, 0]), (0x43, vec![6, 0, 0]), (0x46, vec![6, 0, 6])]);
    }

    #[test]
    fn calls_have_the_distance_of_their_target_and_the_executions_that_reached_them() {
        // nop; call to the next instruction; one of the executions ended before the call.
        let direct = [0x90, 0xe8, 0, 0, 0, 0];
        let mut profile = CodeProfile::default();
        let times = |times: u64| RunExecutions { times, ..RunExecutions::default() };
        profile.add(run(0x40, &direct), times(7));
        profile.add(run(0x41, &direct[1..]), times(1_u64.wrapping_neg()));
        // call [rdi]
        profile.add(run(0x50, &[0xff, 0x17]), times(3));
        let (_, calls) = profile.attribute(&EVENTS).unwrap();
        let call = |offset, distance, times| PlaceCall { place: place(offset), distance, times };
        assert_eq!(calls, [call(0x41, Some(5), 6), call(0x50, None, 3)]);
    }

    #[test]
    fn units_that_were_counted_at_run_time_are_those_of_their_instruction() {
        // nop; rep movsb
        let mut profile = CodeProfile::default();
        let executions = RunExecutions { times: 2, directions: [0; 2], units: vec![(1, 30)] };
        profile.add(run(0x40, &[0x90, 0xf3, 0xa4]), executions.clone());
        profile.add(run(0x40, &[0x90, 0xf3, 0xa4]), executions);
        assert_eq!(counted(&profile), [(0x40, vec![4, 0, 0]), (0x41, vec![4, 60, 0])]);
    }

    #[test]
    fn other_code_at_the_same_address_is_counted_with_it_and_by_its_own_instructions() {
        let mut profile = CodeProfile::default();
        let once = RunExecutions { times: 1, ..RunExecutions::default() };
        profile.add(run(0x40, &[0x90, 0x90]), once.clone());
        profile.add(run(0x40, &COPY[..3]), once);
        assert_eq!(counted(&profile), [(0x40, vec![2, 1, 0]), (0x41, vec![1, 0, 0])]);
    }

    #[test]
    fn executions_of_owners_stay_apart() {
        let mut profile = CodeProfile::default();
        for (owner, times) in [(4, 7), (9, 1), (4, 1)] {
            let mut one = CodeProfile::default();
            one.add(run(0x40, &[0x90]), RunExecutions { times, ..RunExecutions::default() });
            profile.merge(one.owned_by(owner));
        }
        let (counts, _) = profile.attribute(&EVENTS[..1]).unwrap();
        let counts = counts.into_iter().map(|counted| (counted.place.owner, counted.counts[0]));
        assert_eq!(counts.collect::<Vec<_>>(), [(Some(4), 8), (Some(9), 1)]);
    }

    #[test]
    fn bytes_that_are_no_instruction_are_an_error() {
        let mut profile = CodeProfile::default();
        profile.add(run(0x40, &[0x90, 0x48]), RunExecutions { times: 1, ..RunExecutions::default() });
        assert_eq!(profile.attribute(&EVENTS), Err(ProfileError::NoInstruction(place(0x41))));
        let mut full = CodeProfile::default();
        full.set_full();
        assert_eq!(full.attribute(&EVENTS), Err(ProfileError::TooMuchCode));
    }
}

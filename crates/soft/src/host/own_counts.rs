//! Counts of a thread for itself, at an exact program point: by a `prctl` number that no kernel knows.
//!
//! The call is never made. A program asks at both ends of a marked region. The answer is a sum up to this
//! call, from a start that is the same for all calls of a thread. The difference of two answers is the count
//! of the code between them, to the last instruction.

use std::time::Duration;

use cyclometer_sys::marks::{ASK_TIME, MOST_WORDS};
use cyclometer_sys::trace::{self, Registers};

use super::ledger::CounterSnapshot;
use super::process::{TaskMode, TracedTask};
use super::syscalls::EFAULT;
use super::translated_pc::TranslatedPc;
use super::translation_context::TranslationContext;
use crate::{EventSet, EventTotals, ExecutionEvent};

/// The value of a word whose event is unknown for a thread.
const NONE: u64 = u64::MAX;
const EINVAL: i64 = 22;
const ENODATA: i64 = 61;

/// Bytes of a word.
const WORD: usize = 8;

impl TracedTask {
    /// Answers a thread that asks for counts; the words at `address` are event numbers. The time is that of
    /// this process, as reading a clock in the thread would be counted. Returns the result of the call.
    pub(super) fn answer_own_counts(
        &mut self,
        tid: u32,
        registers: &Registers,
        (address, words): (u64, u64),
        time: Duration,
    ) -> i64 {
        match usize::try_from(words) {
            Ok(0) => 0,
            Ok(words @ ..=MOST_WORDS) => self.fill_in(tid, registers, (address, words), time),
            _ => -EINVAL,
        }
    }

    /// Replaces the event numbers in a thread's memory by counts; returns the result of the system call.
    fn fill_in(
        &mut self,
        tid: u32,
        registers: &Registers,
        (address, words): (u64, usize),
        time: Duration,
    ) -> i64 {
        let mut bytes = vec![0; words * WORD];
        if !trace::read_memory(tid, address, &mut bytes).is_ok_and(|read| read == bytes.len()) {
            return -EFAULT;
        }
        let words = bytes.as_chunks_mut::<WORD>().0;
        let events = words.iter().filter_map(|word| event_of(*word)).collect();
        let Some(totals) = self.own_totals(tid, registers, events) else { return -ENODATA };
        for word in words {
            *word = answer_to(*word, &totals, time).unwrap_or(NONE).to_ne_bytes();
        }
        match trace::write_memory(tid, address, &bytes) {
            Ok(written) if written == bytes.len() => 0,
            _ => -EFAULT,
        }
    }

    /// The counts of a thread up to the system call that it is about to make; `None` where they are unknown.
    fn own_totals(&mut self, tid: u32, registers: &Registers, events: EventSet) -> Option<EventTotals> {
        let pc = self.pc(tid, registers);
        let TaskMode::Translated(context) = &self.mode else { return None };
        let current = context.read_out(TranslatedPc::new(pc, registers), events)?.ok()?;
        let Ok(carried) = self.carried.get_or_insert_with(|| Ok(EventTotals::new())) else { return None };
        let mut totals = carried.clone();
        totals.merge(&current).ok()?;
        Some(totals)
    }
}

/// The event of a word.
fn event_of(word: [u8; WORD]) -> Option<ExecutionEvent> {
    ExecutionEvent::ALL.get(usize::try_from(u64::from_ne_bytes(word)).ok()?).copied()
}

impl TracedTask {
    /// Keeps the counts of a thread that asks for them, when it leaves a translation.
    pub(super) fn carry(&mut self, context: &TranslationContext) {
        let Some(Ok(carried)) = &mut self.carried else { return };
        let cache = context.cache.borrow();
        let solved = CounterSnapshot::read(&cache, context.slot, &context.ledger).solve(&cache, false);
        let added = solved.and_then(|executed| carried.merge(&executed.totals).map_err(|e| e.to_string()));
        if let Err(reason) = added {
            self.carried = Some(Err(reason));
        }
    }
}

impl TranslationContext {
    /// The totals of some events, as if the thread left the translation at a position; `None` where the
    /// position is unknown.
    pub(super) fn read_out(
        &self,
        position: TranslatedPc,
        events: EventSet,
    ) -> Option<Result<EventTotals, String>> {
        let ledger = self.ledger_at(position)?;
        let cache = self.cache.borrow();
        Some(CounterSnapshot::read(&cache, self.slot, &ledger).read_out(&cache, events))
    }
}

/// The answer to one word of a request.
fn answer_to(word: [u8; WORD], totals: &EventTotals, time: Duration) -> Option<u64> {
    if u64::from_ne_bytes(word) == ASK_TIME {
        return u64::try_from(time.as_nanos()).ok();
    }
    totals.total(event_of(word)?).ok()
}

//! One CPU: stop, check, account, preset the sources, acknowledge, start.

use std::sync::Arc;

use cyclometer_arch::{Fault, RegisterBits, RegisterProgram, Registers, Step, carry_out};
use cyclometer_core::error::NextRung;
use cyclometer_core::{Error, ErrorKind, Recovery, Result};

use super::row::{CounterLoss, Fired, LossReason, Outcome, WindowEnd};
use super::setup::{Claim, Claims, Period, WindowSetup};
use super::thread::ThreadWindow;

/// Whether the registers could be used.
type Looked = std::result::Result<(), Fault>;

/// A slot on this CPU.
#[derive(Clone, Debug, Default)]
struct SlotState {
    /// Why it is not counted on this CPU any more.
    lost: Option<CounterLoss>,
    /// The counter's value when it was last read or written.
    last: u64,
    /// Events up to its overflow; for a source, those of the running thread.
    left: u64,
    /// It has overflowed, and needs a first value.
    is_spent: bool,
}

/// The windows of one CPU.
///
/// It holds the window of the thread that runs there, if that thread is counted, and no other window.
/// Instances of several CPUs share no state, and a window moves between them by value.
#[derive(Clone, Debug)]
pub struct CpuWindows<T> {
    setup: Arc<WindowSetup>,
    cpu: u32,
    /// The program of the slots that are ours; `None` when there are none.
    program: Option<RegisterProgram>,
    slots: Vec<SlotState>,
    thread: Option<ThreadWindow<T>>,
}

/// The state that was read while the counters were stopped.
#[derive(Default)]
struct Seen {
    /// Our bits of the register that reports overflows.
    status: u64,
    fired: Vec<Fired>,
    is_ours: bool,
    lost_slots: Vec<usize>,
}

impl<T: Copy> CpuWindows<T> {
    /// Sets up the counters of a CPU; they do not count before a thread is switched in.
    ///
    /// A caller that wants to restore the registers saves those of [`WindowSetup::program`] before.
    ///
    /// # Errors
    ///
    /// A fault; [`ErrorKind::StateLost`] if a register does not hold its written value afterwards, as under
    /// hypervisors that drop writes.
    pub fn begin(setup: Arc<WindowSetup>, on: &mut dyn Registers, cpu: u32) -> Result<CpuWindows<T>> {
        let slots = vec![SlotState::default(); setup.slots()];
        let mut windows = CpuWindows { setup, cpu, program: None, slots, thread: None };
        windows.set_up(on);
        let refusal = windows.lost().next().map(|(_, loss)| refused(loss));
        refusal.map_or(Ok(windows), Err)
    }

    /// The CPU.
    pub const fn cpu(&self) -> u32 {
        self.cpu
    }

    /// The thread whose window is open here.
    pub fn thread(&self) -> Option<T> {
        self.thread.as_ref().map(ThreadWindow::thread)
    }

    /// The window that is open here.
    pub(super) fn window(&self) -> Option<&ThreadWindow<T>> {
        self.thread.as_ref()
    }

    /// The slots that are not counted here any more, and why.
    pub fn lost(&self) -> impl Iterator<Item = (usize, &CounterLoss)> {
        self.slots.iter().enumerate().filter_map(|(slot, state)| Some((slot, state.lost.as_ref()?)))
    }

    /// Sets everything up, overwriting the present values; returns the slots for which that failed.
    fn set_up(&mut self, on: &mut dyn Registers) -> Vec<usize> {
        self.slots = vec![SlotState::default(); self.setup.slots()];
        self.program = Some(self.setup.program().clone());
        let mut lost = Vec::new();
        if let Err(fault) = self.write_and_look(on, &mut lost) {
            self.lose_everything(&fault, &mut lost);
        }
        self.without(&lost);
        lost
    }

    fn write_and_look(&mut self, on: &mut dyn Registers, lost: &mut Vec<usize>) -> Looked {
        let setup = Arc::clone(&self.setup);
        carry_out(&setup.program().set_up, on, self.cpu)?;
        // An unacknowledged interrupt would block later ones.
        carry_out(&setup.program().acknowledge(0), on, self.cpu)?;
        self.check(on, &setup.resting, lost)?;
        self.look_at_presets(on, lost)
    }

    /// Records the first values, which must be the written ones.
    fn look_at_presets(&mut self, on: &mut dyn Registers, lost: &mut Vec<usize>) -> Looked {
        for slot in self.ours() {
            let read = *self.setup.read_of(slot);
            self.expect(on, slot, read.preset, lost)?;
            self.slots[slot].left = self.setup.period(slot).map_or(0, Period::events);
        }
        Ok(())
    }

    /// Records the value of a slot's stopped counter, which must be the written one; otherwise the slot is
    /// lost.
    fn expect(&mut self, on: &mut dyn Registers, slot: usize, written: u64, lost: &mut Vec<usize>) -> Looked {
        let register = self.setup.read_of(slot).register;
        let found = on.read(self.cpu, register)?;
        self.slots[slot].last = found;
        if found != written {
            self.lose(slot, LossReason::NotPreset { register, written, found }, lost);
        }
        Ok(())
    }

    /// The slots that are ours.
    fn ours(&self) -> Vec<usize> {
        (0..self.slots.len()).filter(|slot| self.slots[*slot].lost.is_none()).collect()
    }

    /// Gives a slot up on this CPU; [`Self::without`] has to follow before anything is written.
    fn lose(&mut self, slot: usize, reason: LossReason, lost: &mut Vec<usize>) {
        if self.slots[slot].lost.is_some() {
            return;
        }
        let loss = CounterLoss { cpu: self.cpu, reason };
        if let Some(thread) = &mut self.thread {
            thread.lose(slot, &loss);
        }
        self.slots[slot].lost = Some(loss);
        lost.push(slot);
    }

    fn lose_everything(&mut self, fault: &Fault, lost: &mut Vec<usize>) {
        for slot in self.ours() {
            self.lose(slot, LossReason::Fault(fault.clone()), lost);
        }
    }

    /// Limits later writes to registers of slots that are still ours.
    fn without(&mut self, lost: &[usize]) {
        if lost.is_empty() {
            return;
        }
        let ours = self.ours();
        // A part of a valid program is valid; if not, nothing is written.
        self.program = if ours.is_empty() { None } else { self.setup.program_of(&ours).ok() };
    }

    /// Checks that registers still hold our values.
    fn check(&mut self, on: &mut dyn Registers, all: &[Claims], lost: &mut Vec<usize>) -> Looked {
        let before = lost.len();
        for Claims { register, claims } in all {
            if claims.iter().all(|claim| self.slots[claim.slot].lost.is_some()) {
                continue;
            }
            let value = on.read(self.cpu, *register)?;
            for Claim { slot, bits } in claims.iter().filter(|claim| !claim.bits.are_in(value)) {
                let RegisterBits { register, value: written, mask } = *bits;
                self.lose(*slot, LossReason::Rewritten { register, written, found: value & mask }, lost);
            }
        }
        if lost.len() > before {
            self.without(lost);
        }
        Ok(())
    }

    fn steps(&mut self, on: &mut dyn Registers, of: impl Fn(&RegisterProgram) -> &[Step]) -> Looked {
        self.program.as_ref().map_or(Ok(()), |program| carry_out(of(program), on, self.cpu))
    }

    /// Stops the counters and accounts for their counts.
    fn halt(&mut self, on: &mut dyn Registers) -> Seen {
        let mut seen = Seen::default();
        if let Err(fault) = self.stop_and_look(on, &mut seen) {
            self.lose_everything(&fault, &mut seen.lost_slots);
        }
        self.without(&seen.lost_slots);
        seen
    }

    fn stop_and_look(&mut self, on: &mut dyn Registers, seen: &mut Seen) -> Looked {
        let setup = Arc::clone(&self.setup);
        let runs = self.thread.is_some();
        if runs {
            self.check(on, &setup.enabling, &mut seen.lost_slots)?;
        }
        self.steps(on, |program| &program.stop)?;
        let ours = self.ours();
        if let Some(status) = setup.program().status.filter(|_| !ours.is_empty()) {
            let own = ours.iter().fold(0, |bits, slot| bits | 1 << setup.read_of(*slot).status_bit);
            seen.status = on.read(self.cpu, status)? & own;
        }
        let before = seen.lost_slots.len();
        self.check(on, &setup.resting, &mut seen.lost_slots)?;
        if runs {
            self.give_back(on, &seen.lost_slots[before..])?;
            for slot in self.ours() {
                self.account(on, slot, seen)?;
            }
        }
        Ok(())
    }

    /// Restarts counters of another user that were stopped with ours.
    fn give_back(&self, on: &mut dyn Registers, slots: &[usize]) -> Looked {
        let claims = self.setup.enabling.iter().flat_map(|claims| &claims.claims);
        let steps: Vec<Step> =
            claims.filter(|claim| slots.contains(&claim.slot)).map(|claim| Step::Write(claim.bits)).collect();
        carry_out(&steps, on, self.cpu)?;
        if !steps.is_empty() {
            on.barrier(self.cpu);
        }
        Ok(())
    }

    /// Adds the counts of a slot to the open window, and checks whether it overflowed.
    fn account(&mut self, on: &mut dyn Registers, slot: usize, seen: &mut Seen) -> Looked {
        let setup = Arc::clone(&self.setup);
        let read = setup.read_of(slot);
        let value = on.read(self.cpu, read.register)?;
        let state = &mut self.slots[slot];
        let events = read.between(state.last, value);
        state.last = value;
        let flagged = setup.program().status.map(|_| seen.status >> read.status_bit & 1 == 1);
        let passed = setup.period(slot).map(|_| events >= state.left);
        seen.is_ours |= passed.and(flagged) == Some(true);
        let contradicts = passed.zip(flagged).is_some_and(|(passed, flagged)| passed != flagged);
        if contradicts || ran_backwards(events, read.width_bits) {
            let reason = LossReason::Contradiction { register: read.register, found: value };
            self.lose(slot, reason, &mut seen.lost_slots);
            return Ok(());
        }
        if let Some(thread) = &mut self.thread {
            thread.open[slot].add(events);
        }
        match passed {
            Some(true) => self.pass(slot, events, seen),
            _ => state.left = state.left.saturating_sub(events),
        }
        Ok(())
    }

    /// A slot passed the end of its period: the excess is carried over to the next period.
    fn pass(&mut self, slot: usize, events: u64, seen: &mut Seen) {
        seen.is_ours = true;
        let state = &mut self.slots[slot];
        state.is_spent = true;
        let past = events - state.left;
        match self.setup.period(slot) {
            Some(Period::Source(period)) => {
                let carried = past % period;
                state.left = period - carried;
                seen.fired.push(Fired { slot, periods: past / period + 1, past, carried });
            }
            Some(Period::Guard(period)) => state.left = period,
            None => {}
        }
    }

    /// Presets slots, checks the values, clears the overflow flags that were read, and starts the counters.
    fn resume(&mut self, on: &mut dyn Registers, status: u64) -> Vec<usize> {
        let mut lost = Vec::new();
        if let Err(fault) = self.preset_and_start(on, status, &mut lost) {
            self.lose_everything(&fault, &mut lost);
        }
        self.without(&lost);
        lost
    }

    fn preset_and_start(&mut self, on: &mut dyn Registers, status: u64, lost: &mut Vec<usize>) -> Looked {
        let setup = Arc::clone(&self.setup);
        let spent: Vec<usize> = self.ours().into_iter().filter(|slot| self.slots[*slot].is_spent).collect();
        for slot in &spent {
            let first = setup.first_value(*slot, self.slots[*slot].left);
            on.write(self.cpu, setup.read_of(*slot).preset_register, first)?;
        }
        on.barrier(self.cpu);
        for slot in spent {
            let first = setup.first_value(slot, self.slots[slot].left);
            self.expect(on, slot, first, lost)?;
            self.slots[slot].is_spent = false;
        }
        self.without(lost);
        self.acknowledge(on, status)?;
        self.look_whether_thawed(on, lost)?;
        self.without(lost);
        if self.thread.is_some() {
            self.steps(on, |program| &program.start)?;
            self.check(on, &setup.enabling, lost)?;
        }
        Ok(())
    }

    /// Clears the overflow flags that were read, of slots that are ours, and the state that blocks further
    /// interrupts.
    fn acknowledge(&mut self, on: &mut dyn Registers, status: u64) -> Looked {
        if self.program.is_none() {
            return Ok(());
        }
        let setup = &self.setup;
        let ours = self.ours().iter().fold(0, |bits, slot| bits | 1 << setup.read_of(*slot).status_bit);
        carry_out(&setup.program().acknowledge(status & ours), on, self.cpu)
    }

    /// Checks that the counters are not frozen: an interrupt that cannot be acknowledged may freeze all of
    /// them.
    fn look_whether_thawed(&mut self, on: &mut dyn Registers, lost: &mut Vec<usize>) -> Looked {
        let Some(RegisterBits { register, value: written, mask }) = self.setup.program().acknowledged()
        else {
            return Ok(());
        };
        let ours = self.ours();
        let found = if ours.is_empty() { written } else { on.read(self.cpu, register)? & mask };
        for slot in ours.into_iter().filter(|_| found != written) {
            self.lose(slot, LossReason::Rewritten { register, written, found }, lost);
        }
        Ok(())
    }

    /// Ends the window of the thread here, if a boundary or a loss ends it.
    fn row(&mut self, end: WindowEnd, fired: Vec<Fired>, lost: Vec<usize>) -> Outcome<T> {
        let mut outcome = Outcome { lost_slots: lost, ..Outcome::default() };
        let end = if fired.is_empty() { WindowEnd::Loss } else { end };
        let ends = !fired.is_empty() || !outcome.lost_slots.is_empty();
        if let Some(thread) = self.thread.as_mut().filter(|_| ends) {
            outcome.rows.push(thread.close(Some(self.cpu), end, fired));
        }
        outcome
    }

    /// The same for slots that were lost when the counters were started again. The open window then lacks
    /// every slot that this CPU cannot count.
    fn row_of_loss(&mut self, lost: Vec<usize>) -> Outcome<T> {
        let outcome = self.row(WindowEnd::Loss, Vec::new(), lost);
        self.mark_lost();
        outcome
    }

    fn mark_lost(&mut self) {
        let Some(thread) = &mut self.thread else { return };
        for (slot, state) in self.slots.iter().enumerate() {
            if let Some(loss) = &state.lost {
                thread.lose(slot, loss);
            }
        }
    }

    /// Handles an interrupt: returns a row if a source has reached its boundary, and restarts the counters.
    ///
    /// An interrupt that none of our counters raised changes nothing: the counts stay in the open window.
    pub fn on_interrupt(&mut self, on: &mut dyn Registers) -> Outcome<T> {
        let seen = self.halt(on);
        if let Some(thread) = self.thread.as_mut().filter(|_| !seen.is_ours) {
            thread.unclaimed_interrupt();
        }
        self.go_on(on, seen, WindowEnd::Interrupt)
    }

    /// Checks whether the counters are still ours. Another user of the control registers may have taken the
    /// interrupts too, so that the loss would go unnoticed until the next switch. Ends no window, except for
    /// a loss or a passed boundary.
    pub fn look(&mut self, on: &mut dyn Registers) -> Outcome<T> {
        let seen = self.halt(on);
        self.go_on(on, seen, WindowEnd::Look)
    }

    fn go_on(&mut self, on: &mut dyn Registers, seen: Seen, end: WindowEnd) -> Outcome<T> {
        let mut outcome = self.row(end, seen.fired, seen.lost_slots);
        outcome.is_ours = seen.is_ours;
        let lost = self.resume(on, seen.status);
        outcome.then(self.row_of_loss(lost))
    }

    /// Switches the CPU from one thread to another. Returns the window of the old thread, to be moved to the
    /// CPU where it runs next; that of the new one continues here. Without a new thread the counters stay
    /// stopped.
    pub fn switch(
        &mut self,
        on: &mut dyn Registers,
        next: Option<ThreadWindow<T>>,
    ) -> (Option<ThreadWindow<T>>, Outcome<T>) {
        let (before, outcome) = self.leave(on, WindowEnd::Switch);
        match next {
            Some(window) => (before, outcome.then(self.enter(on, window))),
            None => (before, outcome),
        }
    }

    /// The thread here loses the CPU, and the counters stop.
    pub(super) fn leave(
        &mut self,
        on: &mut dyn Registers,
        end: WindowEnd,
    ) -> (Option<ThreadWindow<T>>, Outcome<T>) {
        if self.thread.is_none() {
            return (None, Outcome::default());
        }
        let seen = self.halt(on);
        let mut outcome = self.row(end, seen.fired, seen.lost_slots);
        outcome.is_ours = seen.is_ours;
        self.keep_left();
        let thread = self.thread.take();
        let lost = self.resume(on, seen.status);
        outcome.lost_slots.extend(lost);
        (thread, outcome)
    }

    /// Stores the remaining events of the sources in the thread's window.
    fn keep_left(&mut self) {
        let Some(thread) = &mut self.thread else { return };
        for (slot, state) in self.slots.iter().enumerate() {
            let is_source = matches!(self.setup.period(slot), Some(Period::Source(_)));
            thread.left[slot] = (is_source && state.lost.is_none()).then_some(state.left);
        }
    }

    /// A thread gets the CPU, on which no thread runs.
    fn enter(&mut self, on: &mut dyn Registers, mut window: ThreadWindow<T>) -> Outcome<T> {
        let mut lost = Vec::new();
        window.arrive(self.cpu);
        self.thread = Some(window);
        if let Err(fault) = self.look_before_start(on, &mut lost) {
            self.lose_everything(&fault, &mut lost);
        }
        self.without(&lost);
        lost.extend(self.resume(on, 0));
        self.row_of_loss(lost)
    }

    fn look_before_start(&mut self, on: &mut dyn Registers, lost: &mut Vec<usize>) -> Looked {
        let setup = Arc::clone(&self.setup);
        self.check(on, &setup.resting, lost)?;
        for slot in self.ours() {
            let register = setup.read_of(slot).register;
            let is_source = matches!(setup.period(slot), Some(Period::Source(_)));
            match &self.thread {
                Some(thread) if is_source => {
                    self.slots[slot].left = thread.left_of(&setup, slot);
                    self.slots[slot].is_spent = true;
                }
                _ => self.slots[slot].last = on.read(self.cpu, register)?,
            }
        }
        Ok(())
    }

    /// Takes lost slots back: sets this CPU up again, overwriting the present values.
    ///
    /// The caller decides, as this takes the counters from their present user. Without a loss nothing is
    /// done. Slots that cannot be taken back are in [`Outcome::lost_slots`] again.
    pub fn retake(&mut self, on: &mut dyn Registers) -> Outcome<T> {
        if self.lost().next().is_none() {
            return Outcome::default();
        }
        let (window, mut outcome) = self.leave(on, WindowEnd::Retake);
        outcome.lost_slots = self.set_up(on);
        if let Some(mut window) = window {
            outcome.rows.push(window.close(Some(self.cpu), WindowEnd::Retake, Vec::new()));
            outcome = outcome.then(self.enter(on, window));
        }
        outcome
    }
}

/// Why a CPU cannot be recorded.
fn refused(loss: &CounterLoss) -> Error {
    match &loss.reason {
        LossReason::Fault(fault) => fault.clone().into(),
        _ => Error::new(
            ErrorKind::StateLost,
            format!("what was written to CPU {} did not stay: {loss}", loss.cpu),
        )
        .with_recovery(Recovery::UseBackend(NextRung::Next)),
    }
}

/// Whether a counter has moved by an impossible amount: more than three quarters of its range.
fn ran_backwards(events: u64, width_bits: u32) -> bool {
    events >> width_bits.saturating_sub(2) & 0b11 == 0b11
}

//! Probes of translated code, and the stepper that runs a program natively beside it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;

use cyclometer_soft::host::{FIXED_BYTES, InstructionProbe, ProbeOrder, ProbeView};
use cyclometer_sys::trace::{self, Change};

use crate::lab::Notes;

const SIGTRAP: i32 = 5;

/// Notes of a probe that the test can read afterwards.
pub struct SharedNotes<P>(pub Rc<RefCell<P>>);

impl<P> Clone for SharedNotes<P> {
    fn clone(&self) -> SharedNotes<P> {
        SharedNotes(Rc::clone(&self.0))
    }
}

impl<P: InstructionProbe> InstructionProbe for SharedNotes<P> {
    fn look(&mut self, view: &ProbeView) -> ProbeOrder {
        self.0.borrow_mut().look(view)
    }
}

/// Counts looks, and detaches at one of them.
pub struct DetachAt {
    pub at: u64,
    pub seen: u64,
}

impl DetachAt {
    pub fn new(at: u64) -> DetachAt {
        DetachAt { at, seen: 0 }
    }
}

impl InstructionProbe for DetachAt {
    fn look(&mut self, _: &ProbeView) -> ProbeOrder {
        self.seen += 1;
        if self.seen == self.at { ProbeOrder::Detach } else { ProbeOrder::GoOn }
    }
}

impl Notes for SharedNotes<DetachAt> {
    fn notes(&self) -> String {
        self.0.borrow().seen.to_string()
    }
}

/// Leaves and enters again where a choice says so, but not before the program got on: what enters a block
/// executes what comes before its first instruction again.
pub struct Reenter<F> {
    choose: F,
    seen: u64,
    entered: Option<(u32, u64)>,
    /// Where it was of late, and what became of it.
    trail: VecDeque<(u64, u64, ProbeOrder)>,
}

impl<F: FnMut(u64) -> bool> Reenter<F> {
    /// The choice is told how many looks there were before.
    pub fn new(choose: F) -> Reenter<F> {
        Reenter { choose, seen: 0, entered: None, trail: VecDeque::new() }
    }
}

impl<F: FnMut(u64) -> bool> InstructionProbe for Reenter<F> {
    fn look(&mut self, view: &ProbeView) -> ProbeOrder {
        let here = Some((view.tid, view.program.rip));
        let mut order = ProbeOrder::GoOn;
        if self.entered != here {
            let seen = self.seen;
            self.seen += 1;
            self.entered = here.filter(|_| (self.choose)(seen));
            order = if self.entered.is_some() { ProbeOrder::Reenter } else { ProbeOrder::GoOn };
        }
        self.trail.push_back((view.pc, view.program.rip, order));
        if self.trail.len() > 12 {
            self.trail.pop_front();
        }
        order
    }
}

impl<F> Notes for SharedNotes<Reenter<F>> {
    fn notes(&self) -> String {
        format!("{:x?}", self.0.borrow().trail)
    }
}

/// Takes a process that was just released to the first instruction of what it executes.
pub fn begin(pid: u32) -> io::Result<()> {
    while trace::wait_for(pid)? != Change::Exec {
        trace::resume(pid, 0)?;
    }
    trace::step(pid, 0)?;
    while trace::wait_for(pid)? != Change::Signal(SIGTRAP) {
        trace::step(pid, 0)?;
    }
    if let Some(place) = random_bytes(pid) {
        trace::write_memory(pid, place, &FIXED_BYTES)?;
    }
    Ok(())
}

/// Where the kernel put 16 random bytes for the program.
///
/// # Source
///
/// `getauxval(3)`: `AT_RANDOM` is 25; `proc(5)`.
fn random_bytes(pid: u32) -> Option<u64> {
    let vector = std::fs::read(format!("/proc/{pid}/auxv")).ok()?;
    let words: Vec<u64> = vector.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    words.as_chunks::<2>().0.iter().find(|pair| pair[0] == 25).map(|pair| pair[1])
}

/// Executes one instruction, or one iteration of a repeated one; false when the program has ended.
pub fn step(pid: u32) -> io::Result<bool> {
    let mut signal = 0;
    loop {
        trace::step(pid, signal)?;
        match trace::wait_for(pid)? {
            Change::Signal(SIGTRAP) => return own_trap_flag(pid).map(|()| true),
            Change::Signal(other) => signal = other,
            Change::Exited(_) | Change::Killed(_) => return Ok(false),
            _ => signal = 0,
        }
    }
}

/// After `popf` the kernel takes the flag that steps for the program's own.
fn own_trap_flag(pid: u32) -> io::Result<()> {
    const TRAP: u64 = 0x100;
    let mut registers = trace::registers(pid)?;
    if registers.eflags & TRAP == 0 {
        return Ok(());
    }
    registers.eflags &= !TRAP;
    trace::set_registers(pid, &registers)
}

/// How many instructions a program executes until it ends. It repeats itself only by its string instructions.
pub fn count_steps(pid: u32) -> io::Result<u64> {
    let mut count = 0;
    let mut last = 0;
    loop {
        let at = trace::registers(pid)?.rip;
        count += u64::from(at != last);
        last = at;
        if !step(pid)? {
            return Ok(count);
        }
    }
}

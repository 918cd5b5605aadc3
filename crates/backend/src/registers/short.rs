//! Counting where the kernel writes the PMU's registers too: checked reads in short windows that are
//! repeated.
//!
//! The problem: xnu overwrites PMCR0 with its own value at every interrupt of the PMU and whenever a CPU goes
//! idle. It ignores values that programs have written; on M3 and M4 values were seen to last about 100 µs.
//!
//! So a count is valid only if the control registers still hold the written values, checked *after* the
//! counters were read. A rewrite between the two makes a valid window look lost, but never a lost one valid.
//! Work that lasts longer than the kernel's interval is cut into shorter windows, and lost windows are
//! repeated.
//!
//! Counters belong to a CPU and not to a thread, so a window in which the thread lost its CPU is lost, too.
//!
//! A register that was changed and changed back within a window is not detected. Counts are raw: they include
//! the reads around a window, where those execute in a counted mode.

use std::fmt;
use std::num::NonZeroU32;

use cyclometer_arch::{Fault, PmuReg, RegisterProgram, Registers, Step, carry_out, restore};
use cyclometer_core::Result;

use super::Bus;

/// Reports the CPU of the calling thread, and whether the thread lost it.
pub trait OnCpu {
    /// The CPU that the thread is on.
    fn cpu_now(&self) -> u32;

    /// How often the CPU was taken from the thread: any number that stays the same only if that did not
    /// happen between two calls. `None` where that is unknown.
    fn switches(&self) -> Option<u64>;
}

/// Limits of the repetition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShortLimits {
    /// How many valid windows are wanted.
    pub windows: NonZeroU32,
    /// Maximum number of attempts.
    pub attempts: NonZeroU32,
}

/// A valid window: the counts while the piece of work ran once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Window {
    /// Which attempt it was, from 0.
    pub attempt: u32,
    /// The CPU.
    pub cpu: u32,
    /// Raw counts, one for each of the program's [`reads`](RegisterProgram::reads), in their order.
    pub counts: Vec<u64>,
    /// From just before the work to just after the counters were read, in ns.
    pub took_ns: u64,
}

/// Why a window is not valid.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum WindowLoss {
    /// A control register does not hold what was written to it.
    Rewritten(PmuReg),
    /// The thread was on another CPU at the end.
    Moved,
    /// Another thread had the CPU meanwhile, and was counted.
    SwitchedOut,
    /// No counter moved: nothing was counted, or nothing happened.
    StoodStill,
    /// User access to the registers was closed.
    Closed,
}

impl fmt::Display for WindowLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WindowLoss::Rewritten(register) => write!(f, "{register} was rewritten"),
            WindowLoss::Moved => f.write_str("the thread moved to another CPU"),
            WindowLoss::SwitchedOut => f.write_str("another thread had the CPU"),
            WindowLoss::StoodStill => f.write_str("no counter moved"),
            WindowLoss::Closed => f.write_str("the kernel closed the registers"),
        }
    }
}

/// Why the repetition ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RepetitionEnd {
    /// The requested number of windows was reached.
    Enough,
    /// The maximum number of attempts was reached.
    AttemptLimit,
    /// The registers are closed, so that no window could begin.
    Closed,
}

/// The result of counting in short windows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShortCounts {
    /// The valid windows, in order of time.
    pub windows: Vec<Window>,
    /// Number of attempts.
    pub attempts: u32,
    /// Reasons of lost windows, with a count for each.
    pub losses: Vec<(WindowLoss, u32)>,
    /// Why counting ended.
    pub ended: RepetitionEnd,
    /// CPUs whose registers could not be restored, as the thread is not on them any more. The bus keeps their
    /// values.
    pub not_restored: Vec<u32>,
}

impl ShortCounts {
    /// The share of attempts that gave a valid window, 0 to 1; `None` when nothing was tried.
    #[doc(alias = "yield")]
    pub fn share(&self) -> Option<f64> {
        (self.attempts > 0).then(|| self.windows.len() as f64 / f64::from(self.attempts))
    }
}

/// How many windows are valid, and why the others are not.
impl fmt::Display for ShortCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} windows are valid", self.windows.len(), self.attempts)?;
        let mut separator = "; lost: ";
        for (loss, times) in &self.losses {
            write!(f, "{separator}{times} because {loss}")?;
            separator = ", ";
        }
        Ok(())
    }
}

/// The first control register of a running program that does not hold its written value. Call it after
/// reading the counters: if there is one, their values are lost.
///
/// # Errors
///
/// A register that cannot be read.
pub fn rewritten(
    program: &RegisterProgram,
    on: &mut dyn Registers,
    cpu: u32,
) -> std::result::Result<Option<PmuReg>, Fault> {
    for (i, bits) in program.holds.iter().enumerate() {
        // A register whose bits are listed several times is read once.
        if program.holds[..i].iter().any(|before| before.register == bits.register) {
            continue;
        }
        let value = on.read(cpu, bits.register)?;
        let holds = program.holds.iter().filter(|other| other.register == bits.register);
        if !holds.into_iter().all(|bits| bits.are_in(value)) {
            return Ok(Some(bits.register));
        }
    }
    Ok(None)
}

/// Counts a piece of work repeatedly, until there are enough valid windows: sets the program up, starts it,
/// does the work, reads, checks. `work` is called once for each attempt, on the same thread.
///
/// The program raises no interrupts, as its events have no period. The previous values of its registers are
/// restored at the end. If `work` panics, the bus restores the values that it keeps.
///
/// # Errors
///
/// A register that cannot be used, unless it was closed meanwhile; registers whose restore steps cannot be
/// kept.
pub fn count_short<B: Bus + OnCpu + ?Sized>(
    bus: &mut B,
    program: &RegisterProgram,
    limits: ShortLimits,
    mut work: impl FnMut(&mut B),
) -> Result<ShortCounts> {
    let mut found = SavedRegisters::default();
    let counted = repeat(limits, || attempt(bus, program, &mut found, &mut work));
    let not_restored = found.give_back(bus);
    Ok(ShortCounts { not_restored, ..counted? })
}

/// Repeats attempts until one of the limits is reached.
fn repeat(
    limits: ShortLimits,
    mut attempt: impl FnMut() -> std::result::Result<Window, Failure>,
) -> Result<ShortCounts> {
    let ended = RepetitionEnd::AttemptLimit;
    let mut counted =
        ShortCounts { windows: Vec::new(), attempts: 0, losses: Vec::new(), ended, not_restored: Vec::new() };
    while counted.attempts < limits.attempts.get() {
        match attempt() {
            Ok(window) => counted.windows.push(Window { attempt: counted.attempts, ..window }),
            Err(Failure::Lost(loss)) => counted.add(loss),
            Err(Failure::Unbegun) => {
                counted.ended = RepetitionEnd::Closed;
                break;
            }
            Err(Failure::Error(error)) => return Err(error),
        }
        counted.attempts += 1;
        if counted.windows.len() == limits.windows.get() as usize {
            counted.ended = RepetitionEnd::Enough;
            break;
        }
    }
    Ok(counted)
}

impl ShortCounts {
    fn add(&mut self, loss: WindowLoss) {
        match self.losses.iter_mut().find(|(known, _)| *known == loss) {
            Some((_, times)) => *times += 1,
            None => self.losses.push((loss, 1)),
        }
    }
}

/// Why an attempt gave no window.
enum Failure {
    /// The window was lost; the next one may be valid.
    Lost(WindowLoss),
    /// The registers were closed before the window began, and stay closed for the next one.
    Unbegun,
    /// An error that ends the repetition.
    Error(cyclometer_core::Error),
}

fn attempt<B: Bus + OnCpu + ?Sized>(
    bus: &mut B,
    program: &RegisterProgram,
    found: &mut SavedRegisters,
    work: &mut impl FnMut(&mut B),
) -> std::result::Result<Window, Failure> {
    let (cpu, switches) = (bus.cpu_now(), bus.switches());
    let before = begin(bus, program, found, cpu).map_err(|failure| match failure {
        // The window had not begun yet.
        Failure::Lost(WindowLoss::Closed) => Failure::Unbegun,
        failure => failure,
    })?;
    let began_ns = bus.now_ns();
    work(bus);
    let after = counters(bus, program, cpu).map_err(|fault| within(bus, cpu, fault))?;
    let took_ns = bus.now_ns().saturating_sub(began_ns);
    let counts = program.counts(&before, &after).unwrap_or_default();
    judge(bus, program, cpu, &counts)?;
    if bus.switches() != switches {
        return Err(Failure::Lost(WindowLoss::SwitchedOut));
    }
    Ok(Window { attempt: 0, cpu, counts, took_ns })
}

/// Saves the registers, starts the program, and reads the first values of its counters.
fn begin<B: Bus + OnCpu + ?Sized>(
    bus: &mut B,
    program: &RegisterProgram,
    found: &mut SavedRegisters,
    cpu: u32,
) -> std::result::Result<Vec<u64>, Failure> {
    found.on(bus, program, cpu)?;
    let start = |bus: &mut B| {
        carry_out(&program.set_up, &mut Through(bus), cpu)?;
        carry_out(&program.start, &mut Through(bus), cpu)?;
        counters(bus, program, cpu)
    };
    start(bus).map_err(|fault| within(bus, cpu, fault))
}

/// The counters' values after a barrier, so that all earlier events are included.
fn counters<B: Bus + ?Sized>(
    bus: &mut B,
    program: &RegisterProgram,
    cpu: u32,
) -> std::result::Result<Vec<u64>, Fault> {
    bus.barrier(cpu);
    program.reads.iter().map(|read| bus.read(cpu, read.register)).collect()
}

/// Whether the window that has just been read is valid.
fn judge<B: Bus + OnCpu + ?Sized>(
    bus: &mut B,
    program: &RegisterProgram,
    cpu: u32,
    counts: &[u64],
) -> std::result::Result<(), Failure> {
    let changed = rewritten(program, &mut Through(bus), cpu).map_err(|fault| within(bus, cpu, fault))?;
    let loss = match changed {
        // Another CPU has other register values, too, so the move is the reason to report.
        _ if bus.cpu_now() != cpu => Some(WindowLoss::Moved),
        Some(register) => Some(WindowLoss::Rewritten(register)),
        None if counts.iter().all(|count| *count == 0) => Some(WindowLoss::StoodStill),
        None => None,
    };
    loss.map_or(Ok(()), |loss| Err(Failure::Lost(loss)))
}

/// The meaning of a fault within an attempt: unreachable registers are a loss, all else is an error.
fn within<B: OnCpu + ?Sized>(bus: &B, cpu: u32, fault: Fault) -> Failure {
    match fault {
        _ if bus.cpu_now() != cpu => Failure::Lost(WindowLoss::Moved),
        Fault::Privilege { .. } => Failure::Lost(WindowLoss::Closed),
        fault => Failure::Error(fault.into()),
    }
}

/// The registers of a bus of any kind, for functions that take `dyn Registers`.
struct Through<'a, B: ?Sized>(&'a mut B);

impl<B: Bus + ?Sized> Registers for Through<'_, B> {
    fn read(&mut self, cpu: u32, register: PmuReg) -> std::result::Result<u64, Fault> {
        self.0.read(cpu, register)
    }

    fn write(&mut self, cpu: u32, register: PmuReg, value: u64) -> std::result::Result<(), Fault> {
        self.0.write(cpu, register, value)
    }

    fn barrier(&mut self, cpu: u32) {
        self.0.barrier(cpu);
    }
}

/// The steps that restore the registers of CPUs.
#[derive(Default)]
struct SavedRegisters(Vec<(u32, Vec<Step>)>);

impl SavedRegisters {
    /// Saves the registers of a CPU before they are written for the first time, and has the bus keep them.
    fn on<B: Bus + OnCpu + ?Sized>(
        &mut self,
        bus: &mut B,
        program: &RegisterProgram,
        cpu: u32,
    ) -> std::result::Result<(), Failure> {
        if self.0.iter().any(|(known, _)| *known == cpu) {
            return Ok(());
        }
        let save = |register: PmuReg| Ok((register, bus.read(cpu, register)?));
        let saved: std::result::Result<Vec<_>, Fault> = program.touched().into_iter().map(save).collect();
        let steps = restore(program, &saved.map_err(|fault| within(bus, cpu, fault))?);
        bus.keep(cpu, &steps).map_err(|error| match bus.cpu_now() == cpu {
            true => Failure::Error(error),
            false => Failure::Lost(WindowLoss::Moved),
        })?;
        self.0.push((cpu, steps));
        Ok(())
    }

    /// Restores all registers; returns the CPUs where that failed.
    fn give_back<B: Bus + ?Sized>(self, bus: &mut B) -> Vec<u32> {
        let mut failed = Vec::new();
        for (cpu, steps) in self.0 {
            match carry_out(&steps, &mut Through(bus), cpu) {
                Ok(()) => bus.let_go(cpu),
                Err(_) => failed.push(cpu),
            }
        }
        failed
    }
}

#[cfg(test)]
mod tests;

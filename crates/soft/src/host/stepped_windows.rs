//! Windows of a native program, executed step by step for the [models](crate::model).
//!
//! # Problem
//!
//! A model of caches needs addresses and the interleaving of threads, which translated code does not record.
//! Single steps show both, and cost a few microseconds each. So the program runs natively, and a few windows
//! of some ten thousand instructions, spread over its run, are stepped.
//!
//! # Invariants
//!
//! - The threads of a process are seized for a window only, and detached at its end, whatever happens in it.
//! - A signal that arrives in a window is delivered; the trap of a step never is.
//! - If the tool is killed in a window, the kernel kills the program: a thread that was being stepped would
//!   get the trap of its step and be killed by it at any time later. Between windows the program runs on.
//! - A thread that does not come back from a step (a system call that waits) does not hold up the others.

mod every_step;
mod miss_observer;

use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

use cyclometer_sys::affinity::Affinity;
use cyclometer_sys::trace::{self, Change, Options, Registers};
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, Register,
    UsedMemory,
};

use super::maps::MemoryMaps;
use super::proc;
use super::thread_states::{self, descendants, threads_of};
pub use every_step::EveryStep;
pub use miss_observer::{MissObserver, SiteMisses};

use crate::model::{BranchOutcome, CoreModel, ExecutedInstruction, MemoryAccess, MissBounds, ModelCounts};

/// Most threads that a window follows.
const MOST_THREADS: usize = 16;

/// How often a step that may wait in the kernel is polled for before the next thread's turn.
const POLLS: u32 = 50;

/// Rounds between two polls of a step that waits: a poll for each step of the others would slow them down.
const WAITING_ROUNDS: u32 = 16;

/// The size of a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowLimits {
    /// Most instructions, over all threads.
    pub steps: u64,
    /// The longest time that it may take.
    pub time: Duration,
}

/// The counts of a site, by its file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SiteCounts {
    /// The path of the file of code; `None`: code of no file.
    pub path: Option<String>,
    /// The offset in the file; of code of no file, the address.
    pub offset: u64,
    /// Its counts.
    pub counts: ModelCounts,
}

/// Steps through windows of a process and its descendants.
pub struct WindowStepper {
    root: u32,
    /// The models of each process.
    models: HashMap<u32, CoreModel>,
    /// CPU time of each process when it was last looked at.
    cpu_ns: HashMap<u32, u64>,
    code: HashMap<u64, SiteCode>,
    /// The process whose code that is.
    code_of: u32,
    info: InstructionInfoFactory,
    sites: Vec<SiteCounts>,
    windows: u32,
    /// A second model, of caches of given sizes.
    misses: Option<MissObserver>,
}

impl std::fmt::Debug for WindowStepper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WindowStepper").field("root", &self.root).field("windows", &self.windows).finish()
    }
}

/// A decoded instruction.
#[derive(Clone, Debug)]
struct SiteCode {
    length: u64,
    kind: BranchKind,
    repeated: bool,
    /// Whether it enters the kernel, and so may wait there.
    may_wait: bool,
    memory: Vec<UsedMemory>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BranchKind {
    None,
    Conditional,
    Indirect,
}

/// A thread in a window.
#[derive(Debug)]
struct SteppedThread {
    tid: u32,
    number: u32,
    state: StepState,
    /// The instruction that it is executing.
    before: Option<Registers>,
    /// A signal to be delivered with the next step.
    signal: i32,
    /// Whether its step may wait in the kernel.
    may_wait: bool,
    /// Rounds in which its step waited.
    waited: u32,
    /// Steps in the same repeated string instruction.
    repeats: u32,
    /// Whether the owner of the process waits for it: it is never reaped here.
    is_root: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StepState {
    /// Stopped before an instruction.
    Stopped,
    /// Executes an instruction.
    Stepping,
    /// It left its stop because it is killed, and may have to be reaped.
    Dying,
    /// Reaped, or no longer ours.
    Gone,
}

impl WindowStepper {
    /// For a process that is running, and its descendants.
    pub fn new(root: u32) -> WindowStepper {
        WindowStepper {
            root,
            models: HashMap::new(),
            cpu_ns: HashMap::new(),
            code: HashMap::new(),
            code_of: 0,
            info: InstructionInfoFactory::new(),
            sites: Vec::new(),
            windows: 0,
            misses: None,
        }
    }

    /// Gives each instruction to this model, too.
    #[must_use]
    pub fn with_misses(self, misses: MissObserver) -> WindowStepper {
        WindowStepper { misses: Some(misses), ..self }
    }

    /// The model of caches of given sizes, if there is one.
    pub fn misses(&self) -> Option<&MissObserver> {
        self.misses.as_ref()
    }

    /// The windows with at least one instruction.
    pub fn windows(&self) -> u32 {
        self.windows
    }

    /// The largest footprint of a process, in bytes of pages.
    pub fn footprint_bytes(&self) -> u64 {
        self.models.values().map(CoreModel::footprint_bytes).max().unwrap_or(0)
    }

    /// Ends windows that were close together in time.
    pub fn end_burst(&mut self) {
        self.models.values_mut().for_each(CoreModel::end_burst);
    }

    /// The bounds of the misses of all processes; the working set is that of the largest.
    pub fn miss_bounds(&self) -> MissBounds {
        self.models.values().map(CoreModel::miss_bounds).fold(MissBounds::default(), |all, one| MissBounds {
            touches: all.touches + one.touches,
            misses: all.misses + one.misses,
            working_set_lines: all.working_set_lines.max(one.working_set_lines),
        })
    }

    /// The counts of every site of every window.
    pub fn sites(&self) -> &[SiteCounts] {
        &self.sites
    }

    /// Steps through a window of the process that was busiest since the last one.
    ///
    /// # Errors
    ///
    /// The operating system's where the process cannot be traced. A process that ends is no error.
    pub fn window(&mut self, limits: WindowLimits) -> io::Result<()> {
        let pid = self.busiest();
        let Ok(maps) = MemoryMaps::read(pid) else { return Ok(()) };
        // Code may have been mapped elsewhere since.
        self.code.clear();
        self.code_of = pid;
        let mut model = self.models.remove(&pid).unwrap_or_default();
        let mut threads = SeizedThreads::seize(pid, self.root)?;
        self.misses.iter_mut().for_each(|misses| misses.begin_window(pid));
        // A step is two switches, which are quick on one CPU.
        let beside = OnCpuOf::thread(pid);
        self.step_all(&mut threads.all, &mut model, limits);
        drop(beside);
        drop(threads);
        model.end_window();
        let sites = model.take_sites();
        self.windows += u32::from(!sites.is_empty());
        self.sites.extend(sites.into_iter().map(|(pc, counts)| located(&maps, pc, counts)));
        self.models.insert(pid, model);
        Ok(())
    }

    /// The process that used most CPU time since the last look.
    fn busiest(&mut self) -> u32 {
        let mut best = (self.root, 0);
        for pid in descendants(self.root) {
            let now: u64 = threads_of(pid).into_iter().filter_map(proc::ran_ns).sum();
            let used = now.saturating_sub(self.cpu_ns.insert(pid, now).unwrap_or(0));
            if used > best.1 {
                best = (pid, used);
            }
        }
        best.0
    }

    fn step_all(&mut self, threads: &mut [SteppedThread], model: &mut CoreModel, limits: WindowLimits) {
        let end = Instant::now() + limits.time;
        let mut steps = 0;
        while steps < limits.steps {
            let before = steps;
            for thread in threads.iter_mut() {
                thread.begin_step(self, model, &mut steps);
            }
            let is_idle = steps == before;
            for thread in threads.iter_mut() {
                thread.poll(is_idle);
            }
            if threads.iter().all(SteppedThread::is_useless) || Instant::now() > end {
                return;
            }
            if is_idle {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    }

    /// The instruction at an address.
    fn code_at(&mut self, tid: u32, pc: u64) -> Option<&SiteCode> {
        if !self.code.contains_key(&pc) {
            let code = self.decode(tid, pc)?;
            self.code.insert(pc, code);
        }
        self.code.get(&pc)
    }

    fn decode(&mut self, tid: u32, pc: u64) -> Option<SiteCode> {
        let mut bytes = [0; 15];
        let length = trace::read_memory(tid, pc, &mut bytes).ok()?;
        let instruction = Decoder::with_ip(64, &bytes[..length], pc, DecoderOptions::NONE).decode();
        if instruction.is_invalid() {
            return None;
        }
        let used = self.info.info(&instruction).used_memory();
        let memory = used.iter().filter(|used| is_access(used.access())).copied().collect();
        Some(SiteCode {
            length: instruction.len() as u64,
            kind: kind_of(&instruction),
            repeated: crate::memory::is_repeated(&instruction),
            may_wait: matches!(
                instruction.mnemonic(),
                Mnemonic::Syscall | Mnemonic::Sysenter | Mnemonic::Int
            ),
            memory,
        })
    }
}

fn is_access(access: OpAccess) -> bool {
    !matches!(access, OpAccess::None | OpAccess::NoMemAccess)
}

fn kind_of(instruction: &Instruction) -> BranchKind {
    match instruction.flow_control() {
        FlowControl::ConditionalBranch => BranchKind::Conditional,
        FlowControl::IndirectBranch | FlowControl::IndirectCall => BranchKind::Indirect,
        _ => BranchKind::None,
    }
}

fn located(maps: &MemoryMaps, pc: u64, counts: ModelCounts) -> SiteCounts {
    match maps.file_offset(pc) {
        Some((path, offset)) => SiteCounts { path: Some(path.to_owned()), offset, counts },
        None => SiteCounts { path: None, offset: pc, counts },
    }
}

/// The threads of a process, stopped; dropping them lets them run natively.
#[derive(Debug)]
struct SeizedThreads {
    all: Vec<SteppedThread>,
    /// The process that its owner waits for: it is never reaped here.
    root: u32,
}

/// The longest time to wait for threads that die.
const DYING: Duration = Duration::from_secs(5);

impl SeizedThreads {
    /// # Errors
    ///
    /// The operating system's, if no thread can be seized though there are some.
    fn seize(pid: u32, root: u32) -> io::Result<SeizedThreads> {
        let (mut seized, mut refused) = (SeizedThreads { all: Vec::new(), root }, None);
        let threads = threads_of(pid).into_iter().filter(|tid| !waits_uninterruptibly(pid, *tid));
        for tid in threads.take(MOST_THREADS) {
            match trace::seize(tid, Options::EXIT | Options::EXIT_KILL) {
                Ok(()) => {
                    let thread = SteppedThread::new(tid, seized.all.len());
                    seized.all.push(SteppedThread { is_root: tid == root, ..thread });
                }
                // The kernel refuses a thread that ends (EPERM) or has ended (ESRCH).
                Err(_) if is_zombie(tid) => {}
                Err(error) => refused = Some(error),
            }
        }
        for thread in &mut seized.all {
            if trace::interrupt(thread.tid).is_err() {
                thread.state = StepState::Dying;
            }
        }
        match refused.filter(|_| seized.all.is_empty()) {
            Some(error) => Err(error),
            None => Ok(seized),
        }
    }
}

impl Drop for SeizedThreads {
    /// A thread that was killed in a stop is reaped: its process could not end otherwise. A thread that
    /// cannot be interrupted (`vfork(2)`, a device) is waited for: without its tracer it would remain in its
    /// stop.
    fn drop(&mut self) {
        let end = Instant::now() + DYING;
        self.all.iter_mut().for_each(SteppedThread::ask_to_stop);
        loop {
            let root = self.root;
            self.all.iter_mut().for_each(|thread| thread.detach(root));
            let is_left = |state| self.all.iter().any(|thread| thread.state == state);
            let waits = is_left(StepState::Stopped) || is_left(StepState::Stepping);
            if !waits && (!is_left(StepState::Dying) || Instant::now() > end) {
                return;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

/// Whether a thread waits in the kernel and cannot be stopped there, as the parent of `vfork(2)` does.
fn waits_uninterruptibly(pid: u32, tid: u32) -> bool {
    let stat = proc::text(format!("/proc/{pid}/task/{tid}/stat")).unwrap_or_default();
    thread_states::state(&stat) == Some('D')
}

/// Whether a process has ended and is not reaped yet. `waitid(2)` reports stops of a tracee, too.
fn is_zombie(pid: u32) -> bool {
    let stat = proc::text(format!("/proc/{pid}/stat")).unwrap_or_default();
    matches!(thread_states::state(&stat), None | Some('Z' | 'X'))
}

/// This thread on the CPU of another one; dropping it restores the affinity.
struct OnCpuOf(Affinity);

impl OnCpuOf {
    /// # Source
    ///
    /// `proc(5)`, `/proc/pid/stat`: `processor`, the 39th field, 37 behind the name.
    fn thread(tid: u32) -> Option<OnCpuOf> {
        let stat = proc::text(format!("/proc/{tid}/stat")).ok()?;
        let cpu = stat.rsplit_once(')')?.1.split_whitespace().nth(36)?.parse().ok()?;
        let own = Affinity::of(0).ok()?;
        Affinity::only(cpu).give(0).ok()?;
        Some(OnCpuOf(own))
    }
}

impl Drop for OnCpuOf {
    fn drop(&mut self) {
        // It fails only when an administrator has changed the allowed CPUs meanwhile.
        let _ = self.0.give(0);
    }
}

/// The signal of a step.
const SIGTRAP: i32 = 5;

impl SteppedThread {
    fn new(tid: u32, number: usize) -> SteppedThread {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        SteppedThread {
            tid,
            number,
            state: StepState::Stepping,
            before: None,
            signal: 0,
            may_wait: true,
            waited: 0,
            repeats: 0,
            is_root: false,
        }
    }

    /// The next change, without waiting for it.
    fn polled(&self) -> io::Result<Option<Change>> {
        if self.is_root { trace::poll_stop(self.tid) } else { trace::poll(self.tid) }
    }

    /// Waits for the next change.
    fn changed(&self) -> io::Result<Change> {
        if self.is_root { trace::wait_for_stop(self.tid) } else { trace::wait_for(self.tid) }
    }

    /// Waits for the stop behind an instruction that does not enter the kernel.
    fn stop(&mut self) {
        if self.state != StepState::Stepping {
            return;
        }
        match self.changed() {
            Ok(change) => self.note(change),
            Err(_) => self.state = StepState::Dying,
        }
    }

    /// Whether more steps show nothing: it has ended, or copies a lot of memory by one instruction.
    fn is_useless(&self) -> bool {
        const MOST_REPEATS: u32 = 500;
        matches!(self.state, StepState::Gone | StepState::Dying) || self.repeats > MOST_REPEATS
    }

    /// Looks whether the step is done; `is_idle`: no other thread had an instruction in this round.
    fn poll(&mut self, is_idle: bool) {
        if self.state == StepState::Stepping && !self.may_wait {
            // The kernel switches to the thread and back.
            return self.stop();
        }
        if self.state != StepState::Stepping {
            return;
        }
        // A thread that waits for the others is not polled for again at each of their steps: a yield costs
        // a time slice where the CPU is busy, and the window has no instruction then.
        self.waited += 1;
        match self.waited {
            1 => self.poll_for(POLLS),
            rounds if is_idle || rounds.is_multiple_of(WAITING_ROUNDS) => self.poll_for(1),
            _ => {}
        }
    }

    /// Polls so often at most, and lets other threads run in between.
    fn poll_for(&mut self, most: u32) {
        for poll in 0..most {
            match self.polled() {
                Ok(Some(change)) => self.note(change),
                Ok(None) if poll + 1 < most => std::thread::yield_now(),
                Ok(None) => {}
                Err(_) => self.state = StepState::Dying,
            }
            if self.state != StepState::Stepping {
                return;
            }
        }
    }

    fn note(&mut self, change: Change) {
        self.state = StepState::Stopped;
        match change {
            Change::Exited(_) | Change::Killed(_) => self.state = StepState::Gone,
            // At its end it needs to be let go, and no step.
            Change::Exiting => self.detach_with(0),
            Change::Signal(SIGTRAP) if is_of_a_step(self.tid) => {}
            Change::Signal(signal) => {
                self.signal = signal;
                self.before = None;
            }
            // Detached in this stop, it remains in the stop of its process.
            Change::Group(_) => self.let_go(),
            _ => self.before = None,
        }
    }

    /// Lets a stopped thread run natively. A step that was interrupted in a system call has raised a trap
    /// that the kernel reports after the interruption: it would kill a program without a tracer.
    ///
    /// # Source
    ///
    /// Linux `kernel/signal.c`, `get_signal`: traps of job control go before synchronous signals.
    fn let_go(&mut self) {
        const MOST_TRAPS: u32 = 8;
        for _ in 0..MOST_TRAPS {
            if self.state != StepState::Stopped || !has_pending_trap(self.tid) {
                break;
            }
            let signal = std::mem::take(&mut self.signal);
            match trace::resume(self.tid, signal).and_then(|()| self.changed()) {
                Ok(Change::Group(_)) => self.state = StepState::Stopped,
                Ok(change) => self.note(change),
                Err(_) => self.state = StepState::Dying,
            }
        }
        if self.state == StepState::Stopped {
            let signal = std::mem::take(&mut self.signal);
            self.detach_with(signal);
        }
    }

    fn detach_with(&mut self, signal: i32) {
        self.state = match trace::detach(self.tid, signal) {
            Ok(()) => StepState::Gone,
            Err(_) => StepState::Dying,
        };
    }

    /// Gives the instruction that it has executed to the models, and begins the next one.
    fn begin_step(&mut self, stepper: &mut WindowStepper, model: &mut CoreModel, steps: &mut u64) {
        if self.state != StepState::Stopped {
            return;
        }
        let Ok(now) = trace::registers(self.tid) else {
            self.state = StepState::Dying;
            return;
        };
        // After another stop the kernel may begin a system call anew that stands before this instruction.
        let is_first = self.before.is_none();
        if let Some(before) = self.before.take() {
            self.executed(&before, &now, stepper, model);
            *steps += 1;
        }
        let signal = std::mem::take(&mut self.signal);
        self.may_wait =
            is_first || signal != 0 || stepper.code_at(self.tid, now.rip).is_none_or(|code| code.may_wait);
        self.before = Some(now).filter(|_| signal == 0);
        match trace::step(self.tid, signal) {
            Ok(()) => (self.state, self.waited) = (StepState::Stepping, 0),
            Err(_) => self.state = StepState::Dying,
        }
    }

    fn executed(
        &mut self,
        before: &Registers,
        now: &Registers,
        stepper: &mut WindowStepper,
        model: &mut CoreModel,
    ) {
        let pc = before.rip;
        if let Some(misses) = &mut stepper.misses {
            misses.executed(stepper.code_of, self.tid, before, now.rip);
        }
        let Some(code) = stepper.code_at(self.tid, pc) else { return };
        // The iterations of a repeated string instruction are one; the last one moves on.
        if code.repeated && now.rip == pc {
            self.repeats += 1;
            return;
        }
        self.repeats = 0;
        let accesses: Vec<MemoryAccess> =
            code.memory.iter().filter_map(|used| access(used, before)).collect();
        let branch = match code.kind {
            BranchKind::None => None,
            BranchKind::Conditional => {
                Some(BranchOutcome::Conditional { taken: now.rip != pc + code.length })
            }
            BranchKind::Indirect => Some(BranchOutcome::Indirect { target: now.rip }),
        };
        model.execute(&ExecutedInstruction { thread: self.number, pc, accesses: &accesses, branch });
    }

    /// Stops a step that waits in the kernel.
    fn ask_to_stop(&mut self) {
        if self.state == StepState::Stepping && trace::interrupt(self.tid).is_err() {
            self.state = StepState::Dying;
        }
    }

    /// Detaches it, or reaps it if it is dead; neither may be possible yet.
    fn detach(&mut self, root: u32) {
        if self.state == StepState::Stopped {
            self.let_go();
        }
        if matches!(self.state, StepState::Stepping | StepState::Dying) {
            // Its owner gets the status of the command.
            if self.tid == root && is_zombie(root) {
                self.state = StepState::Gone;
                return;
            }
            match self.polled() {
                Ok(Some(change)) => self.note(change),
                Ok(None) => {}
                Err(_) => self.state = StepState::Gone,
            }
        }
    }
}

/// Whether a `SIGTRAP` is that of a step, and not the program's own (a breakpoint instruction, `kill`).
///
/// # Source
///
/// Linux `arch/x86/kernel/traps.c` (`TRAP_TRACE`), `arch/x86/kernel/ptrace.c` (`TRAP_BRKPT` at the end of a
/// system call); a breakpoint instruction has `SI_KERNEL`.
fn is_of_a_step(tid: u32) -> bool {
    const TRAP_BRKPT: i32 = 1;
    const TRAP_TRACE: i32 = 2;
    trace::signal_info(tid).is_ok_and(|info| matches!(info.code(), TRAP_BRKPT | TRAP_TRACE))
}

/// Whether a stopped thread stops for a `SIGTRAP` as soon as it continues.
fn has_pending_trap(tid: u32) -> bool {
    let status = proc::text(format!("/proc/{tid}/status")).unwrap_or_default();
    proc::has_signal(&status, "SigPnd:", SIGTRAP) && !proc::has_signal(&status, "SigBlk:", SIGTRAP)
}

/// The access of a memory operand.
fn access(used: &UsedMemory, registers: &Registers) -> Option<MemoryAccess> {
    let address = used.virtual_address(0, |register, _, _| value(register, registers))?;
    let size = used.memory_size();
    let bytes = size.size() as u64;
    let is_stack = matches!(used.base().full_register(), Register::RSP | Register::RBP);
    let writes = !matches!(used.access(), OpAccess::Read | OpAccess::CondRead);
    let is_element = !is_stack && !size.is_packed() && matches!(bytes, 1 | 2 | 4 | 8);
    Some(MemoryAccess { address, bytes, writes, is_element })
}

/// The value of a register that is part of an address; `None`: a vector register, as of gathers.
fn value(register: Register, r: &Registers) -> Option<u64> {
    let full = match register.full_register() {
        Register::RAX => r.rax,
        Register::RBX => r.rbx,
        Register::RCX => r.rcx,
        Register::RDX => r.rdx,
        Register::RSI => r.rsi,
        Register::RDI => r.rdi,
        Register::RBP => r.rbp,
        Register::RSP => r.rsp,
        Register::R8 => r.r8,
        Register::R9 => r.r9,
        Register::R10 => r.r10,
        Register::R11 => r.r11,
        Register::R12 => r.r12,
        Register::R13 => r.r13,
        Register::R14 => r.r14,
        Register::R15 => r.r15,
        Register::FS => r.fs_base,
        Register::GS => r.gs_base,
        Register::CS | Register::DS | Register::ES | Register::SS => 0,
        _ => return None,
    };
    Some(if register.size() == 4 { full & 0xffff_ffff } else { full })
}

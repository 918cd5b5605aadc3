//! The machine: CPUs, threads, time.

use std::collections::VecDeque;
use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;

use cyclometer_arch::{
    Coded, EncodeError, Fault, Placed, PmuReg, ProgramOptions, RegisterProgram, Registers, Step, carry_out,
    register_program,
};
use cyclometer_core::pmu::Family;
use cyclometer_core::{Concept, CounterId, CounterMask, Error, ErrorKind, EventCode, Modes, Random};
use cyclometer_semantics::{Activity, ActivityProgress, Semantics};

use crate::cpu::{ModelRegisters, SimulatedCpu, Stretch};
use crate::fault_injection::InjectedFault;
use crate::model::Model;
use crate::schedule::{Queues, WaitingThread, home};
use crate::workload::{Workload, WorkloadStream, kernel};

/// Names a thread of a machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ThreadId(usize);

impl ThreadId {
    /// Its index among the threads of the machine, in the order in which they were started.
    pub const fn index(self) -> usize {
        self.0
    }
}

/// Time of the kernel that comes again and again on every CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tick {
    /// From one to the next, in nanoseconds; at least a cycle.
    pub every_ns: u64,
    /// How long it takes, in nanoseconds.
    pub takes_ns: u64,
}

/// How a machine is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Its logical CPUs; at least 1.
    pub cpus: u32,
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// How long a thread has a CPU when others wait, in nanoseconds.
    pub slice_ns: u64,
    /// How many of a hundred slices end with the thread waiting for another CPU.
    pub migrations_percent: u32,
    /// How long the kernel takes to switch threads, in nanoseconds.
    pub switch_ns: u64,
    /// Interrupts of a timer, if there are any.
    pub tick: Option<Tick>,
}

/// One CPU, slices of 4 ms, no migration, switches that take no time, no ticks.
impl Default for Settings {
    fn default() -> Settings {
        Settings { cpus: 1, seed: 0, slice_ns: 4_000_000, migrations_percent: 0, switch_ns: 0, tick: None }
    }
}

/// Something that a driver is told of. Time stands still until [`SimMachine::next`] is called again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Happening {
    /// The PMU of a CPU interrupts.
    Interrupt {
        /// The CPU.
        cpu: u32,
        /// The thread that it interrupts.
        thread: Option<ThreadId>,
    },
    /// A CPU goes from one thread to another; the registers are still as the old one left them.
    Switch {
        /// The CPU.
        cpu: u32,
        /// The thread that had it.
        from: Option<ThreadId>,
        /// The thread that gets it.
        to: Option<ThreadId>,
    },
    /// The time that was waited for has come.
    Reached,
}

#[derive(Debug)]
struct SimulatedThread {
    stream: WorkloadStream,
    progress: ActivityProgress,
    allowed: Vec<u32>,
}

#[derive(Debug)]
struct SimulatedCore {
    cpu: SimulatedCpu,
    thread: Option<usize>,
    slice_end: u64,
    tick_at: u64,
    kernel_left: u64,
    kernel_progress: ActivityProgress,
    /// When an overflow's interrupt comes.
    interrupt_at: Option<u64>,
    /// An interrupt waits until the one before it is acknowledged.
    held: bool,
    /// When interrupts come that no overflow asked for.
    uncalled: Vec<u64>,
    watchdog: Option<Watchdog>,
}

#[derive(Clone, Copy, Debug)]
struct Watchdog {
    counter: CounterId,
    preset: u64,
}

/// Actions that are due at some time, once or periodically.
#[derive(Clone, Copy, Debug)]
enum Errand {
    RewriteControl { every: u64 },
    Steal { cpu: u32, counter: u8 },
    Spurious { every: u64 },
}

/// A CPU that a machine does not have, or no CPU at all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoSuchCpu {
    /// Its number; `None` where none was given.
    pub cpu: Option<u32>,
}

impl fmt::Display for NoSuchCpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cpu {
            Some(cpu) => write!(f, "the simulated machine has no CPU {cpu}"),
            None => f.write_str("a thread needs a CPU that it may run on"),
        }
    }
}

impl std::error::Error for NoSuchCpu {}

impl From<NoSuchCpu> for Error {
    fn from(error: NoSuchCpu) -> Error {
        Error::new(ErrorKind::InvalidInput, error.to_string()).with_source(error)
    }
}

/// A simulated machine.
///
/// Two machines with the same model, settings, threads and faults, used in the same way, do the same.
#[derive(Debug)]
pub struct SimMachine {
    model: &'static Model,
    semantics: Arc<Semantics>,
    settings: Settings,
    layout: Arc<ModelRegisters>,
    cores: Vec<SimulatedCore>,
    threads: Vec<SimulatedThread>,
    queues: Queues,
    random: Random,
    now: u64,
    happened: VecDeque<Happening>,
    agenda: Vec<(u64, Errand)>,
    late: u64,
    double_every: u32,
    interrupts: u64,
    ignores_writes: bool,
    rewrites_at_idle: bool,
    in_user_mode: bool,
    kernel_activity: Activity,
}

impl SimMachine {
    /// A machine that has just been switched on: registers 0, no threads. Events count as its model says.
    pub fn new(model: &'static Model, settings: Settings) -> SimMachine {
        SimMachine::with_semantics(model, settings, Arc::new(model.semantics()))
    }

    /// The same, whose general counters count as a table says: the model's own events are not there.
    pub fn with_semantics(
        model: &'static Model,
        settings: Settings,
        semantics: Arc<Semantics>,
    ) -> SimMachine {
        let layout = Arc::new(ModelRegisters::of(model));
        let cpus = settings.cpus.max(1);
        let tick_at = settings.tick.map_or(u64::MAX, |tick| model.cycles(tick.every_ns));
        let core = || SimulatedCore {
            cpu: SimulatedCpu::new(model, Arc::clone(&layout), Arc::clone(&semantics)),
            thread: None,
            slice_end: u64::MAX,
            tick_at,
            kernel_left: 0,
            kernel_progress: ActivityProgress::default(),
            interrupt_at: None,
            held: false,
            uncalled: Vec::new(),
            watchdog: None,
        };
        SimMachine {
            model,
            settings: Settings { cpus, ..settings },
            cores: (0..cpus).map(|_| core()).collect(),
            semantics,
            layout,
            threads: Vec::new(),
            queues: Queues::new(cpus as usize),
            random: Random::seeded(settings.seed),
            now: 0,
            happened: VecDeque::new(),
            agenda: Vec::new(),
            late: 0,
            double_every: 0,
            interrupts: 0,
            ignores_writes: false,
            rewrites_at_idle: false,
            in_user_mode: false,
            kernel_activity: kernel(),
        }
    }

    /// The meanings of its events.
    pub fn semantics(&self) -> &Semantics {
        &self.semantics
    }

    /// The chip of its CPUs.
    pub const fn model(&self) -> &'static Model {
        self.model
    }

    /// The number of its CPUs.
    pub const fn cpus(&self) -> u32 {
        self.settings.cpus
    }

    /// The time since it was switched on, in nanoseconds, rounded down.
    pub fn now_ns(&self) -> u64 {
        u64::try_from(u128::from(self.now) * 1000 / u128::from(self.model.mhz)).unwrap_or(u64::MAX)
    }

    /// Starts a thread that may run on these CPUs; it waits for the first of them.
    ///
    /// # Errors
    ///
    /// A CPU that the machine does not have; no CPU.
    pub fn spawn(&mut self, workload: Workload, cpus: &[u32]) -> Result<ThreadId, NoSuchCpu> {
        let first = *cpus.first().ok_or(NoSuchCpu { cpu: None })?;
        if let Some(cpu) = cpus.iter().find(|cpu| **cpu >= self.settings.cpus) {
            return Err(NoSuchCpu { cpu: Some(*cpu) });
        }
        let thread = self.threads.len();
        let stream = WorkloadStream::new(workload, self.random.word());
        let allowed = cpus.to_vec();
        self.queues.push(first, WaitingThread { thread, allowed: allowed.clone() });
        self.threads.push(SimulatedThread { stream, progress: ActivityProgress::default(), allowed });
        Ok(ThreadId(thread))
    }

    /// Whether a thread has done all of its workload.
    pub fn is_done(&self, thread: ThreadId) -> bool {
        self.threads.get(thread.0).is_none_or(|thread| thread.stream.is_done())
    }

    /// The thread that has a CPU.
    pub fn thread_on(&self, cpu: u32) -> Option<ThreadId> {
        self.cores.get(cpu as usize)?.thread.map(ThreadId)
    }

    /// The events of a concept in a thread, in user mode, since it was started.
    pub fn truth(&self, thread: ThreadId, concept: Concept) -> u64 {
        let events = |thread: &SimulatedThread| thread.progress.events(thread.stream.activity(), concept);
        self.threads.get(thread.0).map_or(0, events)
    }

    /// The events of a concept in the kernel on a CPU.
    pub fn kernel_truth(&self, cpu: u32, concept: Concept) -> u64 {
        let events = |core: &SimulatedCore| core.kernel_progress.events(&self.kernel_activity, concept);
        self.cores.get(cpu as usize).map_or(0, events)
    }

    /// Whether registers are used from user mode from here on: then every use faults unless the CPU is open
    /// to it.
    pub fn use_from_user_mode(&mut self, user: bool) {
        self.in_user_mode = user;
    }

    /// Opens the registers of every CPU to user mode, as a patched kernel does. Only Apple's can be.
    pub fn open_to_user(&mut self) {
        for core in &mut self.cores {
            core.cpu.open_to_user();
        }
    }

    /// Asks for a misbehaviour.
    ///
    /// # Errors
    ///
    /// A CPU that the machine does not have; a counter that cannot count cycles, a period that it cannot
    /// hold.
    pub fn inject(&mut self, fault: InjectedFault) -> Result<(), Error> {
        let model = self.model;
        let at = |ns| model.cycles(ns);
        match fault {
            InjectedFault::RewriteControl { every_ns } => {
                let every = at(every_ns);
                let due = self.now.saturating_add(self.around(every));
                self.agenda.push((due, Errand::RewriteControl { every }));
            }
            InjectedFault::StealCounter { cpu, counter, after_ns } => {
                self.core(cpu).ok_or(NoSuchCpu { cpu: Some(cpu) })?;
                self.kernels_program(self.cycles_on(CounterId::General(counter), None))?;
                self.agenda.push((self.now.saturating_add(at(after_ns)), Errand::Steal { cpu, counter }));
            }
            InjectedFault::RewriteControlAtIdle => self.rewrites_at_idle = true,
            InjectedFault::LateInterrupts { by_ns } => self.late = at(by_ns),
            InjectedFault::DoubleInterrupts { every } => self.double_every = every,
            InjectedFault::SpuriousInterrupts { every_ns } => {
                let every = at(every_ns);
                self.agenda.push((self.now.saturating_add(every), Errand::Spurious { every }));
            }
            InjectedFault::Watchdog { cpu, counter, period_cycles } => {
                self.watch(cpu, counter, period_cycles)?
            }
            InjectedFault::IgnoreWrites => self.ignores_writes = true,
        }
        Ok(())
    }

    /// Half to one and a half of a time.
    fn around(&mut self, cycles: u64) -> u64 {
        let spread = usize::try_from(cycles).unwrap_or(usize::MAX);
        (cycles / 2).saturating_add(self.random.below(spread) as u64).max(1)
    }

    fn core(&mut self, cpu: u32) -> Option<&mut SimulatedCore> {
        self.cores.get_mut(cpu as usize)
    }

    /// The event of cycles on a counter, as the kernel counts it.
    fn cycles_on(&self, counter: CounterId, period: Option<NonZeroU64>) -> Placed {
        let code = match counter {
            CounterId::Fixed(n) if self.model.chip.family == Family::Intel => {
                EventCode { umask: n + 1, ..EventCode::default() }
            }
            CounterId::Fixed(_) => EventCode::default(),
            CounterId::General(_) => {
                let mut rows = self.semantics.rows().iter();
                let row = rows.find(|row| row.meaning.is_sum_of(&[Concept::Cycles]));
                let (select, umask) = row.map_or((0, 0), |row| self.model.select(row.code));
                EventCode { select, umask, ..EventCode::default() }
            }
        };
        let coded = Coded::new(code).on(CounterMask::from_iter([counter]));
        Placed { coded, counter, modes: Modes::USER_KERNEL, period }
    }

    fn kernels_program(&self, placed: Placed) -> Result<RegisterProgram, EncodeError> {
        let full_width_writes = self.model.chip.family == Family::Intel;
        let options = ProgramOptions { full_width_writes, ..ProgramOptions::default() };
        register_program(&self.model.chip, &[placed], options)
    }

    /// Counts cycles on a counter as the kernel: neither ignored writes nor user mode stand in its way.
    fn count_as_kernel(&mut self, cpu: u32, placed: Placed) -> Result<u64, Error> {
        let program = self.kernels_program(placed)?;
        let before = (self.ignores_writes, self.in_user_mode);
        (self.ignores_writes, self.in_user_mode) = (false, false);
        let steps: Vec<Step> = program.set_up.iter().chain(&program.start).copied().collect();
        let made = carry_out(&steps, self, cpu);
        (self.ignores_writes, self.in_user_mode) = before;
        made?;
        Ok(program.reads.first().map_or(0, |read| read.preset))
    }

    fn watch(&mut self, cpu: u32, counter: CounterId, period: u64) -> Result<(), Error> {
        let placed = self.cycles_on(counter, NonZeroU64::new(period));
        let preset = self.count_as_kernel(cpu, placed)?;
        if let Some(core) = self.core(cpu) {
            core.watchdog = Some(Watchdog { counter, preset });
        }
        Ok(())
    }

    /// Lets time pass until something happens, or until `until_ns` since the machine was switched on.
    pub fn next(&mut self, until_ns: u64) -> Happening {
        self.next_before(self.model.cycles_at(until_ns))
    }

    /// The same until a time in cycles.
    fn next_before(&mut self, until: u64) -> Happening {
        loop {
            if let Some(happening) = self.happened.pop_front() {
                return happening;
            }
            self.settle();
            if !self.happened.is_empty() {
                continue;
            }
            if self.now >= until {
                return Happening::Reached;
            }
            let cycles = self.horizon(until - self.now);
            self.pass(cycles);
            self.attend();
        }
    }

    /// Lets `ns` nanoseconds pass and calls `driver` for each happening but the last.
    pub fn run(&mut self, ns: u64, mut driver: impl FnMut(&mut SimMachine, Happening)) {
        let until = if ns == 0 { self.now } else { self.now.saturating_add(self.model.cycles(ns)) };
        loop {
            match self.next_before(until) {
                Happening::Reached => return,
                happening => driver(self, happening),
            }
        }
    }

    /// The consequences of written registers: idle CPUs take threads, interrupts that were held or not
    /// acknowledged come again.
    fn settle(&mut self) {
        for cpu in 0..self.settings.cpus {
            let core = &mut self.cores[cpu as usize];
            let released = core.held && !core.cpu.holds_interrupts();
            core.held &= !released;
            let again = released && core.cpu.has_flag() || core.cpu.line_is_up();
            if again && core.interrupt_at.is_none() {
                self.raise(cpu);
            }
            if self.cores[cpu as usize].thread.is_none() && self.queues.has_any(cpu) {
                self.switch(cpu);
            }
        }
    }

    /// Lets an interrupt come after the skid.
    fn raise(&mut self, cpu: u32) {
        let due = (self.now + self.skid()).saturating_add(self.late);
        let core = &mut self.cores[cpu as usize];
        core.interrupt_at.get_or_insert(due);
    }

    fn skid(&mut self) -> u64 {
        let (fewest, most) = self.model.skid_cycles;
        fewest + self.random.below((most - fewest + 1) as usize) as u64
    }

    /// How many cycles, at most `limit`, pass before something changes anywhere.
    fn horizon(&self, limit: u64) -> u64 {
        let due = self.agenda.iter().map(|(due, _)| due.saturating_sub(self.now));
        let each = self.cores.iter().map(|core| self.horizon_of(core, limit));
        due.chain(each).min().unwrap_or(limit).clamp(1, limit)
    }

    fn horizon_of(&self, core: &SimulatedCore, limit: u64) -> u64 {
        let dates = core.interrupt_at.iter().chain(&core.uncalled).copied().chain([core.tick_at]);
        let limit = dates.map(|date| date.saturating_sub(self.now)).fold(limit, u64::min);
        match (core.kernel_left, core.thread) {
            (0, None) => limit,
            (0, Some(thread)) => {
                let left = self.threads[thread].stream.left().min(core.slice_end.saturating_sub(self.now));
                core.cpu.until_overflow(self.stretch(core), limit.min(left))
            }
            (left, _) => core.cpu.until_overflow(self.stretch(core), limit.min(left)),
        }
    }

    /// The activity of a CPU: the kernel, or its thread, of which there must be one.
    fn stretch<'a>(&'a self, core: &'a SimulatedCore) -> Stretch<'a> {
        match core.thread {
            Some(thread) if core.kernel_left == 0 => {
                let thread = &self.threads[thread];
                Stretch { progress: &thread.progress, activity: thread.stream.activity(), user: true }
            }
            _ => Stretch { progress: &core.kernel_progress, activity: &self.kernel_activity, user: false },
        }
    }

    /// Lets `cycles` pass on every CPU.
    fn pass(&mut self, cycles: u64) {
        let mut raised = Vec::new();
        for (cpu, core) in (0u32..).zip(&mut self.cores) {
            let overflowed = match (core.kernel_left, core.thread) {
                (0, None) => false,
                (0, Some(thread)) => {
                    let SimulatedThread { stream, progress, .. } = &mut self.threads[thread];
                    let activity = stream.activity();
                    let counted = core.cpu.count(Stretch { progress, activity, user: true }, cycles);
                    progress.advance(activity, cycles);
                    if cycles == stream.left() {
                        progress.cut_iteration(activity);
                    }
                    stream.advance(cycles);
                    counted
                }
                _ => {
                    let (progress, activity) = (&mut core.kernel_progress, &self.kernel_activity);
                    let counted = core.cpu.count(Stretch { progress, activity, user: false }, cycles);
                    progress.advance(activity, cycles);
                    core.kernel_left -= cycles;
                    counted
                }
            };
            if overflowed {
                raised.push(cpu);
            }
        }
        self.now += cycles;
        for cpu in raised {
            self.raise(cpu);
        }
    }

    /// Attends to all that is due.
    fn attend(&mut self) {
        for cpu in 0..self.settings.cpus {
            self.attend_interrupts(cpu);
            self.attend_time(cpu);
        }
        let now = self.now;
        let due: Vec<Errand> =
            self.agenda.extract_if(.., |(date, _)| *date <= now).map(|(_, errand)| errand).collect();
        for errand in due {
            self.run_errand(errand);
        }
    }

    fn attend_interrupts(&mut self, cpu: u32) {
        let now = self.now;
        let core = &mut self.cores[cpu as usize];
        let uncalled = core.uncalled.extract_if(.., |date| *date <= now).count();
        for _ in 0..uncalled {
            self.deliver(cpu);
        }
        let core = &mut self.cores[cpu as usize];
        if core.interrupt_at.is_some_and(|date| date <= now) {
            core.interrupt_at = None;
            if core.cpu.holds_interrupts() {
                core.held = true;
            } else if !core.cpu.takes_back_interrupts() {
                self.deliver(cpu);
                self.double(cpu);
            }
        }
    }

    fn deliver(&mut self, cpu: u32) {
        self.count_interrupt(cpu);
        let core = &mut self.cores[cpu as usize];
        if let Some(Watchdog { counter, preset }) = core.watchdog
            && core.cpu.has_overflowed(counter)
        {
            core.cpu.preset(counter, preset);
            core.cpu.forget_overflow(counter);
        }
        core.cpu.take_interrupt();
        let thread = core.thread.map(ThreadId);
        self.happened.push_back(Happening::Interrupt { cpu, thread });
    }

    /// An interrupt is an event of the thread that it interrupts.
    fn count_interrupt(&mut self, cpu: u32) {
        let core = &mut self.cores[cpu as usize];
        let Some(thread) = core.thread.filter(|_| core.kernel_left == 0) else { return };
        let SimulatedThread { stream, progress, .. } = &mut self.threads[thread];
        let stretch = Stretch { progress, activity: stream.activity(), user: true };
        let overflowed = core.cpu.count_interrupt(stretch);
        progress.interrupt();
        if overflowed {
            self.raise(cpu);
        }
    }

    /// Lets every n-th interrupt come once more.
    fn double(&mut self, cpu: u32) {
        self.interrupts += 1;
        if self.double_every != 0 && self.interrupts.is_multiple_of(self.double_every.into()) {
            let date = self.now + self.skid();
            self.cores[cpu as usize].uncalled.push(date);
        }
    }

    fn attend_time(&mut self, cpu: u32) {
        if let Some(tick) = self.settings.tick
            && self.cores[cpu as usize].tick_at <= self.now
        {
            self.count_interrupt(cpu);
            let core = &mut self.cores[cpu as usize];
            core.tick_at = self.now.saturating_add(self.model.cycles(tick.every_ns));
            core.kernel_left = core.kernel_left.saturating_add(self.model.cycles(tick.takes_ns));
        }
        let core = &self.cores[cpu as usize];
        let Some(thread) = core.thread else { return };
        let over = core.slice_end <= self.now && core.kernel_left == 0;
        if self.threads[thread].stream.is_done() || over {
            self.switch(cpu);
        }
    }

    /// Gives a CPU to the next thread. The one that had it waits again, unless it is done.
    fn switch(&mut self, cpu: u32) {
        let from = self.cores[cpu as usize].thread.take();
        if let Some(thread) = from.filter(|thread| !self.threads[*thread].stream.is_done()) {
            let allowed = self.threads[thread].allowed.clone();
            let home = home(cpu, &allowed, self.settings.migrations_percent, &mut self.random);
            self.queues.push(home, WaitingThread { thread, allowed });
        }
        let mut to = self.queues.next(cpu).map(|waiting| waiting.thread);
        while to.is_some_and(|thread| self.threads[thread].stream.is_done()) {
            to = self.queues.next(cpu).map(|waiting| waiting.thread);
        }
        let slice_end = self.now.saturating_add(self.model.cycles(self.settings.slice_ns));
        let core = &mut self.cores[cpu as usize];
        core.thread = to;
        core.slice_end = slice_end;
        if to.is_none() && self.rewrites_at_idle {
            core.cpu.rewrite_control();
        }
        if from != to {
            if self.settings.switch_ns > 0 {
                core.kernel_left =
                    core.kernel_left.saturating_add(self.model.cycles(self.settings.switch_ns));
            }
            let (from, to) = (from.map(ThreadId), to.map(ThreadId));
            self.happened.push_back(Happening::Switch { cpu, from, to });
        }
    }

    fn run_errand(&mut self, errand: Errand) {
        match errand {
            Errand::RewriteControl { every } => {
                for core in &mut self.cores {
                    core.cpu.rewrite_control();
                }
                let date = self.now.saturating_add(self.around(every));
                self.agenda.push((date, errand));
            }
            Errand::Steal { cpu, counter } => {
                let placed = self.cycles_on(CounterId::General(counter), None);
                // The program was made when the fault was injected, and the CPU is there: nothing can
                // fail.
                let _ = self.count_as_kernel(cpu, placed);
            }
            Errand::Spurious { every } => {
                for cpu in 0..self.settings.cpus {
                    self.deliver(cpu);
                }
                self.agenda.push((self.now.saturating_add(every), errand));
            }
        }
    }

    fn permit(&self, cpu: u32, register: PmuReg) -> Result<(), Fault> {
        let core = self.cores.get(cpu as usize).ok_or(Fault::NoCpu { cpu })?;
        self.layout.check(register)?;
        if self.in_user_mode && !core.cpu.is_open_to_user() {
            return Err(Fault::Privilege { register });
        }
        Ok(())
    }
}

impl Registers for SimMachine {
    fn read(&mut self, cpu: u32, register: PmuReg) -> Result<u64, Fault> {
        self.permit(cpu, register)?;
        Ok(self.cores[cpu as usize].cpu.read(register))
    }

    fn write(&mut self, cpu: u32, register: PmuReg, value: u64) -> Result<(), Fault> {
        self.permit(cpu, register)?;
        if self.ignores_writes {
            return Ok(());
        }
        self.cores[cpu as usize].cpu.write(register, value)
    }

    fn barrier(&mut self, cpu: u32) {
        if let Some(core) = self.core(cpu) {
            core.cpu.act();
        }
    }
}

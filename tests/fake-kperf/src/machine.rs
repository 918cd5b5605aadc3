//! The simulated chip below the kernel.

use std::time::Instant;

use cyclometer_arch::{
    Coded, Placed, PmuReg, ProgramOptions, Register, Registers, Step, apple, carry_out, register_program,
};
use cyclometer_core::{CounterId, CounterMask, EventCode, Modes};
use cyclometer_sim::{Settings, SimMachine, ThreadId, Tick, Workload};

use crate::scenario::{Clock, Scenario};

/// The timer of the kernel.
const TICK: Tick = Tick { every_ns: 4_000_000, takes_ns: 5_000 };

/// The counters of a CPU.
const COUNTERS: u8 = 10;

/// A chip, with the counts of each of its counters since it started.
#[derive(Debug)]
pub(crate) struct CountingMachine {
    chip: SimMachine,
    /// The counts of each counter of each CPU when it was programmed last.
    before: Vec<Vec<u64>>,
    threads: Vec<ThreadId>,
    start: Instant,
}

impl CountingMachine {
    pub(crate) fn new(scenario: &Scenario) -> CountingMachine {
        let settings = Settings { cpus: scenario.cpus, tick: Some(TICK), ..Settings::default() };
        let chip = SimMachine::new(scenario.chip, settings);
        // A Mac has counted something before.
        let before = |cpu| (0..COUNTERS).map(|pmc| 1_000_000 * (cpu + 1) + u64::from(pmc)).collect();
        let before = (0..u64::from(chip.cpus())).map(before).collect();
        let mut machine = CountingMachine { chip, before, threads: Vec::new(), start: Instant::now() };
        machine.program(&[]);
        machine
    }

    /// Programs the fixed counters, and these configurable ones: PMC, selector, modes. The others stop.
    pub(crate) fn program(&mut self, configurable: &[(u8, u16, Modes)]) {
        self.before = self.read();
        let fixed = (0..apple::FIRST_CONFIGURABLE).map(|n| (CounterId::Fixed(n), 0, Modes::USER_KERNEL));
        let general = configurable.iter().map(|(n, select, modes)| (CounterId::General(*n), *select, *modes));
        let placed: Vec<Placed> = fixed.chain(general).map(placed).collect();
        let chip = self.chip.model().chip;
        // The words of a fake are not checked by constraint masks: silicon does not check them either.
        let Ok(program) = register_program(&chip, &placed, ProgramOptions::default()) else { return };
        let steps: Vec<Step> = program.set_up.iter().chain(&program.start).copied().collect();
        for cpu in 0..self.chip.cpus() {
            self.clear(cpu);
            let _ = carry_out(&steps, &mut self.chip, cpu);
        }
    }

    /// Stops the counters of a CPU, and sets them to 0.
    fn clear(&mut self, cpu: u32) {
        let chip = self.chip.model().chip;
        let counters = (0..COUNTERS).map(apple::Register::Counter);
        for register in [apple::Register::Control, apple::Register::Modes].into_iter().chain(counters) {
            if let Ok(register) = PmuReg::of(&chip, Register::Apple(register)) {
                let _ = self.chip.write(cpu, register, 0);
            }
        }
        self.chip.barrier(cpu);
    }

    /// Lets CPUs do their work, unless they are at it; in real time once.
    pub(crate) fn work(&mut self, workloads: &[(u32, Workload)], clock: Clock) {
        let is_first = self.threads.is_empty();
        let is_done = self.threads.iter().all(|thread| self.chip.is_done(*thread));
        if is_done && (is_first || clock != Clock::Real) {
            let spawned = workloads.iter().map(|(cpu, work)| self.chip.spawn(work.clone(), &[*cpu]));
            self.threads = spawned.filter_map(Result::ok).collect();
        }
    }

    /// The chip's time.
    pub(crate) fn now_ns(&self) -> u64 {
        self.chip.now_ns()
    }

    /// How much time passes before a read.
    pub(crate) fn due_ns(&self, clock: Clock) -> u64 {
        match clock {
            Clock::Step(ns) => ns,
            Clock::Real => {
                let due = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
                due.saturating_sub(self.chip.now_ns())
            }
        }
    }

    /// Whether a CPU has work.
    pub(crate) fn has_work(&self, cpu: u32) -> bool {
        self.chip.thread_on(cpu).is_some()
    }

    /// Lets time pass before a read.
    pub(crate) fn pass(&mut self, clock: Clock) {
        let ns = match clock {
            Clock::Step(ns) => ns,
            Clock::Real => {
                let due = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
                due.saturating_sub(self.chip.now_ns())
            }
        };
        if ns > 0 {
            self.chip.run(ns, |_, _| {});
        }
    }

    /// The counts of each counter of each CPU.
    pub(crate) fn read(&mut self) -> Vec<Vec<u64>> {
        let chip = self.chip.model().chip;
        let mut counts = self.before.clone();
        for (cpu, counts) in (0u32..).zip(&mut counts) {
            for (pmc, count) in (0u8..).zip(counts) {
                let register = PmuReg::of(&chip, Register::Apple(apple::Register::Counter(pmc)));
                let counted = register.ok().and_then(|register| self.chip.read(cpu, register).ok());
                *count = count.wrapping_add(counted.unwrap_or(0));
            }
        }
        counts
    }
}

fn placed((counter, select, modes): (CounterId, u16, Modes)) -> Placed {
    let code = EventCode { select, ..EventCode::default() };
    let coded = Coded::new(code).on(CounterMask::from_iter([counter]));
    Placed { coded, counter, modes, period: None }
}

//! A simulated machine, windows on it, and a judge that knows the true counts.

use std::collections::BTreeMap;

use cyclometer_arch::{Coded, Placed, ProgramOptions};
use cyclometer_backend::registers::{Outcome, OverflowSource, Row, WindowSetup, Windows};
use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterId, CounterMask, EventCode, Modes};
use cyclometer_sim::{Concept, Happening, Model, Settings, SimMachine, ThreadId, Workload};

/// The counted events: one for each concept, on different counters.
#[derive(Clone)]
pub struct Events {
    pub concepts: Vec<Concept>,
    pub placed: Vec<Placed>,
}

impl Events {
    /// Assigns each event to the first free general counter.
    pub fn general(model: &Model, concepts: &[Concept]) -> Events {
        let mut taken = 0u64;
        let place = |concept: &Concept| {
            let row = model.events.iter().find(|row| row.meaning.is_sum_of(&[*concept])).unwrap();
            let counter = (row.counters.general_bits() & !taken).trailing_zeros() as u8;
            taken |= 1 << counter;
            let (select, umask) = model.select(row.code);
            on(counter, select, umask)
        };
        Events { concepts: concepts.to_vec(), placed: concepts.iter().map(place).collect() }
    }

    /// Adds the events of the fixed counters.
    pub fn and_fixed(mut self, model: &Model) -> Events {
        for (counter, concept) in model.fixed {
            self.concepts.push(*concept);
            self.placed.push(fixed(model.chip.family, *counter));
        }
        self
    }
}

/// Four events that every model counts at the same time.
pub const FOUR: [Concept; 4] =
    [Concept::Instructions, Concept::Cycles, Concept::Branches, Concept::Mispredicts];

pub fn on(counter: u8, select: u16, umask: u8) -> Placed {
    let coded = Coded::new(EventCode { select, umask, ..EventCode::default() });
    Placed { coded, counter: CounterId::General(counter), modes: Modes::USER, period: None }
}

pub fn fixed(family: Family, counter: u8) -> Placed {
    let umask = if family == Family::Intel { counter + 1 } else { 0 };
    let coded = Coded::new(EventCode { umask, ..EventCode::default() });
    let coded = coded.on(CounterMask::from_bits(0, 1 << counter));
    Placed { coded, counter: CounterId::Fixed(counter), modes: Modes::USER, period: None }
}

pub fn source(slot: usize, period_events: u64) -> OverflowSource {
    OverflowSource { slot, period_events }
}

/// Whether the hardware can stop the counters at an interrupt.
pub fn can_freeze(model: &Model) -> bool {
    match model.chip.family {
        Family::Intel => model.chip.is_of_version(4),
        Family::Apple => true,
        _ => false,
    }
}

pub fn freezing(freeze_on_interrupt: bool) -> ProgramOptions {
    ProgramOptions { freeze_on_interrupt, ..ProgramOptions::default() }
}

pub struct Bench {
    pub machine: SimMachine,
    pub windows: Windows<ThreadId>,
    pub events: Events,
    pub rows: Vec<Row<ThreadId>>,
    pub interrupts: u32,
    pub claimed: u32,
    /// Takes lost slots back as soon as the loss is seen.
    pub retakes: bool,
    /// The true counts of a thread when its last row ended.
    told: BTreeMap<ThreadId, Vec<u64>>,
    sequences: BTreeMap<ThreadId, u64>,
    /// Events of a thread's source at the end of its rows, and boundaries passed.
    passed: BTreeMap<(ThreadId, usize), (u64, u64)>,
}

impl Bench {
    /// KdebugRecords every thread on all CPUs of a machine.
    pub fn new(machine: SimMachine, events: Events, sources: &[OverflowSource]) -> Bench {
        Bench::with(machine, events, sources, ProgramOptions::default(), None)
    }

    pub fn with(
        machine: SimMachine,
        events: Events,
        sources: &[OverflowSource],
        options: ProgramOptions,
        only: Option<Vec<ThreadId>>,
    ) -> Bench {
        let setup = WindowSetup::new(&machine.model().chip, &events.placed, sources, options).unwrap();
        let windows = match only {
            Some(threads) => Windows::of_threads(setup, threads),
            None => Windows::of_all(setup),
        };
        let mut bench = Bench {
            machine,
            windows,
            events,
            rows: Vec::new(),
            interrupts: 0,
            claimed: 0,
            retakes: false,
            told: BTreeMap::new(),
            sequences: BTreeMap::new(),
            passed: BTreeMap::new(),
        };
        for cpu in 0..bench.machine.cpus() {
            let running = bench.machine.thread_on(cpu);
            let outcome = bench.windows.begin(&mut bench.machine, cpu, running).unwrap();
            bench.judge(outcome.rows);
        }
        bench
    }

    /// Lets so much time pass, and handles the events of the machine.
    pub fn run(&mut self, ns: u64) {
        let until = self.machine.now_ns() + ns;
        loop {
            match self.machine.next(until) {
                Happening::Reached => return,
                happening => self.attend(happening),
            }
        }
    }

    pub fn attend(&mut self, happening: Happening) {
        let (cpu, outcome) = match happening {
            Happening::Interrupt { cpu, .. } => {
                let outcome = self.windows.on_interrupt(&mut self.machine, cpu).unwrap();
                self.interrupts += 1;
                self.claimed += u32::from(outcome.is_ours);
                (cpu, outcome)
            }
            Happening::Switch { cpu, from, to } => {
                (cpu, self.windows.on_switch(&mut self.machine, cpu, from, to).unwrap())
            }
            _ => return,
        };
        self.take(cpu, outcome);
    }

    /// Checks whether every CPU still counts.
    pub fn look(&mut self) {
        for cpu in 0..self.machine.cpus() {
            let outcome = self.windows.look(&mut self.machine, cpu).unwrap();
            self.take(cpu, outcome);
        }
    }

    fn take(&mut self, cpu: u32, outcome: Outcome<ThreadId>) {
        let Outcome { rows, lost_slots, .. } = outcome;
        self.judge(rows);
        if self.retakes && !lost_slots.is_empty() {
            let outcome = self.windows.retake(&mut self.machine, cpu).unwrap();
            self.judge(outcome.rows);
        }
    }

    /// Checks that every number of a row is the true count of the thread since its previous row: time stands
    /// still meanwhile.
    fn judge(&mut self, rows: Vec<Row<ThreadId>>) {
        for row in rows {
            let id = self.machine.model().id;
            let slots = self.events.concepts.len();
            let truth: Vec<u64> =
                self.events.concepts.iter().map(|of| self.machine.truth(row.thread, *of)).collect();
            let before = self.told.entry(row.thread).or_insert_with(|| vec![0; slots]);
            assert_eq!(row.counts.len(), slots);
            for slot in 0..slots {
                if let Some(events) = row.counts[slot].exact() {
                    assert_eq!(events, truth[slot] - before[slot], "{id} slot {slot} of {row:?}");
                }
            }
            *before = truth;
            let sequence = self.sequences.entry(row.thread).or_default();
            assert_eq!(row.sequence, *sequence);
            *sequence += 1;
            self.rows.push(row);
        }
    }

    /// Ends the recording.
    pub fn finish(mut self) -> Ended {
        let windows = self.windows.clone();
        let rows = windows.finish(&mut self.machine);
        self.judge(rows);
        Ended { bench: self }
    }
}

/// A recording that has ended.
pub struct Ended {
    pub bench: Bench,
}

impl Ended {
    pub fn rows(&self) -> &[Row<ThreadId>] {
        &self.bench.rows
    }

    pub fn rows_of(&self, thread: ThreadId) -> impl Iterator<Item = &Row<ThreadId>> {
        self.bench.rows.iter().filter(move |row| row.thread == thread)
    }

    /// The sum of a slot over a thread's rows; `None` if a number is missing.
    pub fn sum(&self, thread: ThreadId, slot: usize) -> Option<u64> {
        self.rows_of(thread).map(|row| row.counts[slot].exact()).sum()
    }

    /// Asserts that the rows of these threads add up exactly to the true counts.
    pub fn assert_adds_up(&self, threads: &[ThreadId]) {
        for thread in threads {
            for (slot, concept) in self.bench.events.concepts.iter().enumerate() {
                let truth = self.bench.machine.truth(*thread, *concept);
                let id = self.bench.machine.model().id;
                assert_eq!(self.sum(*thread, slot), Some(truth), "{id} slot {slot} of {thread:?}");
            }
        }
    }

    /// Asserts that boundaries stay at multiples of the period of the thread's own events, however late
    /// interrupts are.
    pub fn assert_boundaries(&mut self) {
        let sources = self.bench.windows.setup().sources().to_vec();
        for row in &self.bench.rows {
            for OverflowSource { slot, period_events } in &sources {
                let (events, periods) = self.bench.passed.entry((row.thread, *slot)).or_default();
                *events += row.counts[*slot].exact().unwrap();
                if let Some(fired) = row.fired.iter().find(|fired| fired.slot == *slot) {
                    assert_eq!(fired.past / period_events + 1, fired.periods, "{row:?}");
                    *periods += fired.periods;
                    assert_eq!(*events, *periods * period_events + fired.carried, "{row:?}");
                }
                assert!(*events < (*periods + 1) * period_events, "{row:?} passed a boundary unseen");
            }
        }
    }
}

/// A machine with a thread of each workload, all of which may run on every CPU.
pub fn machine(model: &'static Model, settings: Settings, workloads: &[&str]) -> (SimMachine, Vec<ThreadId>) {
    let mut machine = SimMachine::new(model, settings);
    let allowed: Vec<u32> = (0..machine.cpus()).collect();
    let spawn = |name: &&str| machine.spawn(Workload::named(name).unwrap(), &allowed).unwrap();
    let threads = workloads.iter().map(spawn).collect();
    (machine, threads)
}

/// Every model, with and without freezing of the counters by the hardware.
pub fn every_chip() -> impl Iterator<Item = (&'static Model, ProgramOptions)> {
    Model::ALL.iter().flat_map(|model| {
        let ways: &[bool] = if can_freeze(model) { &[false, true] } else { &[false] };
        ways.iter().map(move |freeze| (model, freezing(*freeze)))
    })
}

//! Short windows on simulated chips, whose true counts are known.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use super::*;
use crate::registers::Bound;
use cyclometer_arch::{Chip, Coded, Placed, ProgramOptions, Register, apple, register_program};
use cyclometer_core::{CounterId, CounterMask, CpuSet, Error, ErrorKind, EventCode, Modes};
use cyclometer_sim::{
    Activity, Concept, Happening, InjectedFault, Model, Phase, Settings, SimMachine, ThreadId, Tick, Workload,
};

const CHIPS: [&str; 4] = ["apple-m1", "apple-m2", "apple-m3", "apple-m4"];

/// A simulated machine as a bus, with a thread that is "ours".
struct Lab {
    machine: SimMachine,
    thread: ThreadId,
    kept: Vec<u32>,
    keeps: bool,
    /// How often our thread lost its CPU.
    switches: u64,
    /// The true counts of our threads while work ran, by attempt.
    truths: Vec<Vec<u64>>,
}

/// The concepts that every program here counts, in the order of its events.
const COUNTED: [Concept; 4] =
    [Concept::Cycles, Concept::Instructions, Concept::Branches, Concept::L1dLoadMissesSpeculative];

impl Lab {
    fn new(id: &str, settings: Settings, workload: Workload, cpus: &[u32]) -> Lab {
        let mut machine = SimMachine::new(Model::find(id).unwrap(), settings);
        let thread = machine.spawn(workload, cpus).unwrap();
        Lab { machine, thread, kept: Vec::new(), keeps: true, switches: 0, truths: Vec::new() }
    }

    /// One CPU with an endless thread of a workload.
    fn busy(id: &str, workload: &str) -> Lab {
        Lab::new(id, Settings { seed: 7, ..Settings::default() }, Workload::named(workload).unwrap(), &[0])
    }

    fn with(mut self, trouble: InjectedFault) -> Lab {
        self.machine.inject(trouble).unwrap();
        self
    }

    /// The piece of work: time passes, and its true counts are recorded.
    fn work(&mut self, ns: u64) {
        let truth = |lab: &Lab| COUNTED.map(|concept| lab.machine.truth(lab.thread, concept));
        let before = truth(self);
        self.pass(ns);
        while self.machine.thread_on(0) != Some(self.thread) && self.machine.thread_on(1) != Some(self.thread)
        {
            if self.machine.is_done(self.thread) {
                break;
            }
            self.pass(1_000);
        }
        let happened = truth(self).iter().zip(before).map(|(after, before)| after - before).collect();
        self.truths.push(happened);
    }

    fn pass(&mut self, ns: u64) {
        let (ours, switches) = (self.thread, &mut self.switches);
        self.machine.run(ns, |machine, happening| match happening {
            Happening::Switch { from, .. } if from == Some(ours) && !machine.is_done(ours) => *switches += 1,
            _ => {}
        });
    }

    fn read(&mut self, name: &str) -> u64 {
        let register = register(&self.machine.model().chip, name);
        self.machine.read(0, register).unwrap()
    }

    fn count(&mut self, ns: u64, windows: u32, attempts: u32) -> ShortCounts {
        let program = program(&self.machine.model().chip, self.machine.model());
        let counted = count_short(self, &program, limits(windows, attempts), |lab| lab.work(ns)).unwrap();
        self.check(&counted);
        counted
    }

    /// Invariants that hold for every injected fault.
    fn check(&self, counted: &ShortCounts) {
        assert_eq!(counted.attempts as usize, self.truths.len());
        let lost: u32 = counted.losses.iter().map(|(_, times)| times).sum();
        assert_eq!(counted.windows.len() + lost as usize, counted.attempts as usize);
        // A valid window has exactly the true counts.
        for window in &counted.windows {
            assert_eq!(window.counts, self.truths[window.attempt as usize], "{window:?}");
        }
        assert!(self.kept.is_empty() && counted.not_restored.is_empty());
    }
}

impl Registers for Lab {
    fn read(&mut self, cpu: u32, register: PmuReg) -> std::result::Result<u64, Fault> {
        self.machine.read(cpu, register)
    }

    fn write(&mut self, cpu: u32, register: PmuReg, value: u64) -> std::result::Result<(), Fault> {
        assert!(self.kept.contains(&cpu), "{register} is written before anybody keeps what it held");
        self.machine.write(cpu, register, value)
    }

    fn barrier(&mut self, cpu: u32) {
        self.machine.barrier(cpu);
    }
}

impl Bus for Lab {
    fn now_ns(&self) -> u64 {
        self.machine.now_ns()
    }

    fn keep(&mut self, cpu: u32, restoring: &[Step]) -> Result<()> {
        assert!(!restoring.is_empty());
        if !self.keeps {
            return Err(Error::new(ErrorKind::Os, "nobody keeps it"));
        }
        self.kept.push(cpu);
        Ok(())
    }

    fn let_go(&mut self, cpu: u32) {
        self.kept.retain(|kept| *kept != cpu);
    }

    fn exercise(&mut self, _cpu: u32) -> Result<()> {
        unreachable!("windows see for themselves that counters move")
    }

    fn bind(&mut self, _child: u32, _among: &CpuSet) -> Result<Bound> {
        unreachable!("there is no child")
    }
}

impl OnCpu for Lab {
    fn cpu_now(&self) -> u32 {
        // A thread that asks has a CPU; a simulated one may wait for its CPU.
        let has = |cpu: &u32| self.machine.thread_on(*cpu) == Some(self.thread);
        (0..self.machine.cpus()).find(has).unwrap_or(0)
    }

    fn switches(&self) -> Option<u64> {
        Some(self.switches)
    }
}

fn limits(windows: u32, attempts: u32) -> ShortLimits {
    ShortLimits { windows: NonZeroU32::new(windows).unwrap(), attempts: NonZeroU32::new(attempts).unwrap() }
}

fn register(chip: &Chip, name: &str) -> PmuReg {
    PmuReg::of(chip, Register::parse(chip, name).unwrap()).unwrap()
}

fn placed(select: u16, counter: CounterId) -> Placed {
    let coded = Coded::new(EventCode { select, ..EventCode::default() });
    let coded = match counter {
        CounterId::Fixed(n) => coded.on(CounterMask::from_bits(0, 1 << n)),
        CounterId::General(_) => coded,
    };
    Placed { coded, counter, modes: Modes::USER, period: None }
}

/// [`COUNTED`]: the fixed counters, branches, and load misses on PMC9, whose encoding is irregular.
fn program(chip: &Chip, model: &Model) -> RegisterProgram {
    let select =
        |concept| model.events.iter().find(|row| row.meaning.is_sum_of(&[concept])).unwrap().code as u16;
    let events = [
        placed(0, CounterId::Fixed(0)),
        placed(0, CounterId::Fixed(1)),
        placed(select(Concept::Branches), CounterId::General(5)),
        placed(select(Concept::L1dLoadMissesSpeculative), CounterId::General(9)),
    ];
    register_program(chip, &events, ProgramOptions::default()).unwrap()
}

#[test]
fn widths_and_selectors_are_those_of_the_generation() {
    let expected = [("apple-m1", 48, 8), ("apple-m2", 64, 8), ("apple-m3", 64, 16), ("apple-m4", 64, 16)];
    for (id, width, selector) in expected {
        let model = Model::find(id).unwrap();
        let program = program(&model.chip, model);
        assert!(program.reads.iter().all(|read| read.width_bits == width), "{id}");
        let held = |name: &str| {
            let register = register(&model.chip, name);
            program.holds.iter().filter(move |bits| bits.register == register)
        };
        // PMC5 is the fourth of PMESR0, PMC9 the fourth of PMESR1.
        for name in ["PMESR0", "PMESR1"] {
            let mask = held(name).fold(0, |mask, bits| mask | bits.mask);
            assert_eq!(mask, ((1u64 << selector) - 1) << (3 * selector), "{id} {name}");
        }
        let read = program.reads[0];
        let top = if width == 64 { u64::MAX } else { (1 << width) - 1 };
        assert_eq!(read.between(top - 9, 10), 20, "{id}");
    }
}

#[test]
fn without_trouble_every_window_is_valid_and_true() {
    for id in CHIPS {
        let mut lab = Lab::busy(id, "noisy");
        let counted = lab.count(20_000, 50, 1000);
        assert_eq!((counted.share(), counted.ended), (Some(1.0), RepetitionEnd::Enough), "{id}");
        assert_eq!(counted.windows.len(), 50);
        assert!(
            counted.windows.iter().all(|window| window.cpu == 0 && window.took_ns.abs_diff(20_000) <= 1),
            "{id}"
        );
        assert_eq!(counted.to_string(), "50 of 50 windows are valid");
    }
}

/// The share of windows of a length that no rewrite meets. Times between rewrites are spread evenly over half
/// to one and a half of the period T.
///
/// The time from a random moment to the next rewrite is longer than `w` with this probability: 1 - w/T up to
/// T/2, and (3/2 - w/T)² / 2 from there to 3T/2.
fn expected_share(w: f64) -> f64 {
    match w {
        w if w <= 0.5 => 1.0 - w,
        w if w < 1.5 => (1.5 - w).powi(2) / 2.0,
        _ => 0.0,
    }
}

#[test]
fn the_share_is_that_which_the_period_of_rewrites_allows() {
    let period_ns = 100_000;
    for id in CHIPS {
        for window_ns in [5_000, 20_000, 50_000, 100_000] {
            let mut lab = Lab::busy(id, "loop").with(InjectedFault::RewriteControl { every_ns: period_ns });
            let attempts = 1_000;
            let counted = lab.count(window_ns, attempts, attempts);
            let expected = expected_share(f64::from(window_ns as u32) / f64::from(period_ns as u32));
            let share = counted.share().unwrap();
            // Up to T/2 a rewrite loses one window. The number of rewrites is the number of periods, give or
            // take √(n/12) of n (the spread of an even distribution). At 50 µs, n = 500: ±6.5 windows, that
            // is 0.0065. At T windows are nearly independent: √(p(1 - p)/1000) with p = 1/8. Four standard
            // deviations are allowed.
            let spread = if window_ns <= 50_000 { 0.0065 } else { 0.0105 };
            assert!(
                (share - expected).abs() < 4.0 * spread,
                "{id} {window_ns}: {share}, {expected} expected"
            );
            let control = register(&lab.machine.model().chip, "PMCR0");
            let lost = attempts - u32::try_from(counted.windows.len()).unwrap();
            assert_eq!(counted.losses, [(WindowLoss::Rewritten(control), lost)], "{id}");
        }
    }
}

#[test]
fn windows_longer_than_the_kernel_ever_waits_are_all_lost_and_the_limit_ends_it() {
    let mut lab = Lab::busy("apple-m4", "loop").with(InjectedFault::RewriteControl { every_ns: 100_000 });
    let counted = lab.count(151_000, 1, 40);
    assert_eq!(
        (counted.share(), counted.ended, counted.attempts),
        (Some(0.0), RepetitionEnd::AttemptLimit, 40)
    );
    assert_eq!(counted.to_string(), "0 of 40 windows are valid; lost: 40 because PMCR0 was rewritten");
}

#[test]
fn lost_windows_are_done_again_until_there_are_enough() {
    let mut lab = Lab::busy("apple-m3", "phases").with(InjectedFault::RewriteControl { every_ns: 100_000 });
    let counted = lab.count(50_000, 100, 10_000);
    assert_eq!((counted.windows.len(), counted.ended), (100, RepetitionEnd::Enough));
    assert!((150..300).contains(&counted.attempts), "{}", counted.attempts);
}

/// A thread of 10 µs, started again whenever the previous one has ended.
fn piece(machine: &Model) -> Workload {
    let activity = Activity::IDLE.with(Concept::Instructions, 2.0);
    Workload { phases: vec![Phase { cycles: machine.mhz * 10, activity }], rounds: Some(1), noise: 0.0 }
}

#[test]
fn the_window_in_which_the_cpu_went_idle_is_lost_and_no_other() {
    for id in CHIPS {
        let settings = Settings::default();
        let mut lab = Lab::new(id, settings, piece(Model::find(id).unwrap()), &[0])
            .with(InjectedFault::RewriteControlAtIdle);
        let program = program(&lab.machine.model().chip, lab.machine.model());
        let counted = count_short(&mut lab, &program, limits(300, 300), |lab| {
            if lab.machine.is_done(lab.thread) {
                lab.thread = lab.machine.spawn(piece(lab.machine.model()), &[0]).unwrap();
            }
            lab.work(4_000);
        });
        let counted = counted.unwrap();
        lab.check(&counted);
        // A thread covers two whole windows; it ends within the third.
        let control = register(&lab.machine.model().chip, "PMCR0");
        assert_eq!(
            (counted.windows.len(), counted.losses),
            (200, vec![(WindowLoss::Rewritten(control), 100)]),
            "{id}"
        );
    }
}

#[test]
fn a_cpu_that_never_goes_idle_loses_nothing() {
    let mut lab = Lab::busy("apple-m2", "loop").with(InjectedFault::RewriteControlAtIdle);
    assert_eq!(lab.count(150_000, 100, 100).share(), Some(1.0));
}

#[test]
fn a_stolen_counter_costs_one_window_and_is_named() {
    for id in CHIPS {
        let stolen = InjectedFault::StealCounter { cpu: 0, counter: 9, after_ns: 205_000 };
        let mut lab = Lab::busy(id, "loop").with(stolen);
        let counted = lab.count(20_000, 100, 100);
        assert_eq!(counted.windows.len(), 99, "{id}");
        let (loss, times) = counted.losses[0];
        let WindowLoss::Rewritten(register) = loss else { panic!("{loss}") };
        assert!(["PMCR1", "PMESR1"].contains(&register.to_string().as_str()), "{id} {register}");
        assert_eq!((times, counted.losses.len()), (1, 1));
    }
}

#[test]
fn a_counter_of_somebody_else_does_not_matter() {
    let stolen = InjectedFault::StealCounter { cpu: 0, counter: 3, after_ns: 205_000 };
    let mut lab = Lab::busy("apple-m1", "loop").with(stolen);
    assert_eq!(lab.count(20_000, 50, 50).share(), Some(1.0));
}

#[test]
fn writes_that_change_nothing_are_seen_at_once() {
    let mut lab = Lab::busy("apple-m1", "loop").with(InjectedFault::IgnoreWrites);
    let counted = lab.count(20_000, 1, 10);
    assert_eq!((counted.windows.len(), counted.ended), (0, RepetitionEnd::AttemptLimit));
    assert!(matches!(counted.losses[0], (WindowLoss::Rewritten(_), 10)));
}

#[test]
fn a_window_in_which_nothing_happened_is_none() {
    let idle =
        Workload { phases: vec![Phase { cycles: 1, activity: Activity::IDLE }], rounds: Some(1), noise: 0.0 };
    let mut lab = Lab::new("apple-m1", Settings::default(), idle, &[0]);
    lab.machine.run(1_000, |_, _| {});
    let counted = lab.count(20_000, 1, 3);
    assert_eq!(counted.losses, [(WindowLoss::StoodStill, 3)]);
}

#[test]
fn kernel_time_within_a_window_is_not_counted() {
    let tick = Some(Tick { every_ns: 30_000, takes_ns: 5_000 });
    let settings = Settings { tick, ..Settings::default() };
    let mut lab = Lab::new("apple-m3", settings, Workload::named("loop").unwrap(), &[0]);
    assert_eq!(lab.count(20_000, 60, 60).share(), Some(1.0));
}

#[test]
fn a_thread_that_lost_its_cpu_lost_its_window_and_goes_on_where_it_is() {
    for id in CHIPS {
        let settings =
            Settings { cpus: 2, slice_ns: 55_000, migrations_percent: 50, seed: 3, ..Settings::default() };
        let mut lab = Lab::new(id, settings, Workload::named("loop").unwrap(), &[0, 1]);
        for name in ["memory", "noisy"] {
            lab.machine.spawn(Workload::named(name).unwrap(), &[0, 1]).unwrap();
        }
        lab.pass(1);
        let counted = lab.count(10_000, 1_000, 400);
        let times =
            |loss| counted.losses.iter().find(|(known, _)| *known == loss).map_or(0, |(_, times)| *times);
        // A slice has five and a half windows; then the thread moves to another CPU, or runs again after
        // others.
        assert!(
            times(WindowLoss::Moved) > 10 && times(WindowLoss::SwitchedOut) > 10,
            "{id} {:?}",
            counted.losses
        );
        assert!((0.7..0.9).contains(&counted.share().unwrap()), "{id} {counted}");
        let cpus: std::collections::BTreeSet<u32> = counted.windows.iter().map(|window| window.cpu).collect();
        assert_eq!(cpus.len(), 2);
    }
}

#[test]
fn registers_that_are_closed_within_a_window_end_it_and_what_was_counted_stays() {
    let mut lab = Lab::busy("apple-m1", "loop");
    lab.machine.open_to_user();
    lab.machine.use_from_user_mode(true);
    let mut lab = lab.with(InjectedFault::RewriteControl { every_ns: 1_000_000 });
    let program = program(&lab.machine.model().chip, lab.machine.model());
    let counted = count_short(&mut lab, &program, limits(1000, 1000), |lab| lab.work(20_000)).unwrap();
    // The kernel's own value has no user access. After 25 to 75 windows one is lost, and no other can begin.
    assert!((24..=75).contains(&counted.windows.len()), "{}", counted.windows.len());
    assert_eq!(
        (counted.losses.clone(), counted.ended),
        (vec![(WindowLoss::Closed, 1)], RepetitionEnd::Closed)
    );
    assert_eq!(counted.not_restored, [0]);
    assert_eq!(lab.kept, [0]);
    assert!(counted.windows.iter().zip(&lab.truths).all(|(window, truth)| window.counts == *truth));
}

#[test]
fn closed_registers_give_no_window_and_no_share() {
    let mut lab = Lab::busy("apple-m1", "loop");
    lab.machine.use_from_user_mode(true);
    let counted = lab.count(20_000, 5, 5);
    assert_eq!((counted.attempts, counted.share(), counted.ended), (0, None, RepetitionEnd::Closed));
}

#[test]
fn registers_are_as_they_were_afterwards() {
    let mut lab = Lab::busy("apple-m4", "loop");
    let chip = lab.machine.model().chip;
    let held = [("PMCR1", 0x0100), ("PMESR0", 0x5a3), ("PMC5", 77), ("PMCR0", apple::PMCR0_USER | 0b100)];
    for (name, value) in held {
        lab.machine.write(0, register(&chip, name), value).unwrap();
    }
    lab.count(20_000, 10, 10);
    for (name, value) in held {
        assert_eq!(lab.read(name), value, "{name}");
    }
}

#[test]
fn nothing_is_written_where_nobody_would_restore_it() {
    let mut lab = Lab::busy("apple-m1", "loop");
    lab.keeps = false;
    let program = program(&lab.machine.model().chip, lab.machine.model());
    let error = count_short(&mut lab, &program, limits(1, 1), |lab| lab.work(1_000)).unwrap_err();
    assert_eq!(error.to_string(), "nobody keeps it");
    assert!(lab.truths.is_empty());
}

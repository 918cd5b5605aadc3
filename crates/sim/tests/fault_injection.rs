//! Interrupts, threads and misbehaviour: what a driver has to live with.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::support;

use std::collections::BTreeMap;

use cyclometer_arch::{
    Fault, Placed, PmuReg, ProgramOptions, RegisterProgram, Registers, carry_out, register_program,
};
use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterId, Random};
use cyclometer_sim::{
    Activity, Concept, Happening, InjectedFault, Model, Phase, Settings, SimMachine, ThreadId, Tick, Workload,
};
use proptest::prelude::*;
use support::{
    counting, every, fixed, model, on, program, read, register, run, running, running_with, set, start,
    values,
};

/// A driver that records a row of events at each interrupt and at each switch of threads, for each thread.
struct RowRecorder {
    program: RegisterProgram,
    /// The values at the last row, for each CPU.
    last: Vec<Vec<u64>>,
    rows: BTreeMap<Option<ThreadId>, Vec<u64>>,
    interrupts: u32,
    overflows: u32,
}

impl RowRecorder {
    fn start(machine: &mut SimMachine, placed: &[Placed]) -> RowRecorder {
        let program = program(machine, placed);
        for cpu in 0..machine.cpus() {
            start(machine, cpu, &program);
        }
        let presets: Vec<u64> = program.reads.iter().map(|read| read.preset).collect();
        let last = vec![presets; machine.cpus() as usize];
        RowRecorder { program, last, rows: BTreeMap::new(), interrupts: 0, overflows: 0 }
    }

    fn attend(&mut self, machine: &mut SimMachine, happening: Happening) {
        match happening {
            Happening::Interrupt { cpu, thread } => {
                self.interrupts += 1;
                self.row(machine, cpu, thread);
                self.rearm(machine, cpu);
            }
            Happening::Switch { cpu, from, .. } => self.row(machine, cpu, from),
            _ => {}
        }
    }

    fn row(&mut self, machine: &mut SimMachine, cpu: u32, thread: Option<ThreadId>) {
        let sums = self.rows.entry(thread).or_insert_with(|| vec![0; self.program.reads.len()]);
        let last = &mut self.last[cpu as usize];
        for ((read, last), sum) in self.program.reads.iter().zip(last).zip(sums) {
            let value = machine.read(cpu, read.register).unwrap();
            *sum += read.between(*last, value);
            *last = value;
        }
    }

    /// Starts a counter anew that is past its overflow, the overshoot carried over; acknowledges what was
    /// seen.
    fn rearm(&mut self, machine: &mut SimMachine, cpu: u32) {
        let seen = match self.program.status {
            Some(status) => machine.read(cpu, status).unwrap(),
            None => 0,
        };
        for (read, last) in self.program.reads.iter().zip(&mut self.last[cpu as usize]) {
            let past = match self.program.status {
                Some(_) => seen >> read.status_bit & 1 == 1,
                None => *last < read.preset,
            };
            if read.preset != 0 && past {
                self.overflows += 1;
                let chip = machine.model().chip;
                let top = if chip.family == Family::Apple {
                    1 << machine.model().counter_width().overflow_bit
                } else {
                    0
                };
                let overshoot = last.wrapping_sub(top);
                *last = read.preset.wrapping_add(overshoot);
                machine.write(cpu, read.register, *last).unwrap();
            }
        }
        let own = self.program.reads.iter().fold(0, |bits, read| bits | 1u64 << read.status_bit);
        carry_out(&self.program.acknowledge(seen & own), machine, cpu).unwrap();
    }

    fn run(&mut self, machine: &mut SimMachine, ns: u64) {
        machine.run(ns, |machine, happening| self.attend(machine, happening));
        for cpu in 0..machine.cpus() {
            let thread = machine.thread_on(cpu);
            self.row(machine, cpu, thread);
        }
    }

    fn sum(&self, thread: ThreadId, slot: usize) -> u64 {
        self.rows.get(&Some(thread)).map_or(0, |sums| sums[slot])
    }
}

/// Instructions that interrupt, on the counter that every chip has for them, and branches beside them.
fn leader(model: &Model, period: u64) -> Vec<Placed> {
    let instructions = counting(model, Concept::Instructions).unwrap();
    let branches = counting(model, Concept::Branches).unwrap();
    let taken = instructions.counter == branches.counter;
    let next = |placed: Placed| match placed.counter {
        CounterId::General(n) => Placed { counter: CounterId::General(n + 1), ..placed },
        CounterId::Fixed(_) => placed,
    };
    vec![every(instructions, period), if taken { next(branches) } else { branches }]
}

#[test]
fn an_interrupt_comes_a_skid_after_each_period_and_rows_add_up_to_the_truth() {
    for model in Model::ALL {
        let (mut machine, thread) = running(model.id, "loop");
        let placed = leader(model, 50_000);
        let mut recorder = RowRecorder::start(&mut machine, &placed);
        recorder.run(&mut machine, 1_000_000);
        let truth = machine.truth(thread, Concept::Instructions);
        assert_eq!(recorder.sum(thread, 0), truth, "{}", model.id);
        assert_eq!(recorder.sum(thread, 1), machine.truth(thread, Concept::Branches), "{}", model.id);
        // The overshoot is carried over: periods stay where they are.
        let expected = truth / 50_000;
        assert!((expected - 1..=expected).contains(&recorder.overflows.into()), "{} {expected}", model.id);
        assert_eq!(recorder.interrupts, recorder.overflows, "{}", model.id);
    }
}

#[test]
fn the_overshoot_is_within_the_skid() {
    for model in Model::ALL {
        let (mut machine, _) = running(model.id, "loop");
        let event = counting(model, Concept::Cycles).unwrap();
        let program = program(&machine, &[every(event, 20_000)]);
        start(&mut machine, 0, &program);
        let mut seen = Vec::new();
        machine.run(2_000_000, |machine, happening| {
            if let Happening::Interrupt { .. } = happening {
                let read = program.reads[0];
                let value = machine.read(0, read.register).unwrap();
                seen.push(read.between(read.preset, value) - 20_000);
                machine.write(0, read.register, read.preset).unwrap();
                carry_out(&program.acknowledge(1 << read.status_bit), machine, 0).unwrap();
            }
        });
        let (fewest, most) = model.skid_cycles;
        assert!(seen.len() > 50, "{} {}", model.id, seen.len());
        assert!(seen.iter().all(|over| (fewest..=most).contains(over)), "{} {seen:?}", model.id);
        assert!(seen.iter().any(|over| *over != seen[0]), "{}", model.id);
    }
}

#[test]
fn an_interrupt_freezes_the_counters_until_it_is_acknowledged() {
    for (id, event) in
        [("skylake", on(0, 0x3c, 0)), ("sapphirerapids", on(0, 0x3c, 0)), ("apple-m1", on(2, 2, 0))]
    {
        let (mut machine, _) = running(id, "loop");
        let options = ProgramOptions { freeze_on_interrupt: true, ..ProgramOptions::default() };
        let chip = machine.model().chip;
        let program = register_program(&chip, &[every(event, 10_000)], options).unwrap();
        start(&mut machine, 0, &program);
        let mut interrupts = 0;
        machine.run(100_000, |_, happening| {
            interrupts += u32::from(matches!(happening, Happening::Interrupt { .. }))
        });
        assert_eq!(interrupts, 1, "{id}");
        let frozen = values(&mut machine, &program);
        run(&mut machine, 10_000);
        assert_eq!(values(&mut machine, &program), frozen, "{id}");
        let seen = machine.read(0, program.status.unwrap()).unwrap();
        carry_out(&program.acknowledge(seen), &mut machine, 0).unwrap();
        run(&mut machine, 1_000);
        assert!(values(&mut machine, &program) > frozen, "{id}");
    }
}

#[test]
fn apple_sends_no_second_interrupt_before_the_first_is_cleared() {
    let (mut machine, _) = running("apple-m1", "loop");
    let program = program(&machine, &[every(on(2, 2, 0), 10_000)]);
    start(&mut machine, 0, &program);
    let mut interrupts = 0;
    // The counter is set back, but the interrupt is not acknowledged.
    machine.run(100_000, |machine, happening| {
        if let Happening::Interrupt { .. } = happening {
            interrupts += 1;
            machine.write(0, program.reads[0].register, program.reads[0].preset).unwrap();
        }
    });
    assert_eq!(interrupts, 1);
    assert_eq!(read(&mut machine, "PMCR0") >> 11 & 1, 1);
    carry_out(&program.acknowledge(0), &mut machine, 0).unwrap();
    machine
        .run(1_000, |_, happening| interrupts += u32::from(matches!(happening, Happening::Interrupt { .. })));
    assert_eq!(interrupts, 2);
}

#[test]
fn arm_interrupts_again_as_long_as_the_flag_is_set() {
    let (mut machine, _) = running("neoverse-n1", "loop");
    let program = program(&machine, &[every(on(0, 0x11, 0), 10_000)]);
    start(&mut machine, 0, &program);
    let mut interrupts = 0;
    machine.run(20_000, |machine, happening| {
        if let Happening::Interrupt { .. } = happening {
            interrupts += 1;
            if interrupts == 5 {
                carry_out(&program.acknowledge(1), machine, 0).unwrap();
            }
        }
    });
    assert_eq!(interrupts, 5);
}

#[test]
fn arm_takes_an_interrupt_back_whose_flag_is_cleared_before_it_comes() {
    let (mut machine, _) = running("neoverse-n1", "loop");
    machine.inject(InjectedFault::LateInterrupts { by_ns: 10_000 }).unwrap();
    let program = program(&machine, &[every(on(0, 0x11, 0), 10_000)]);
    start(&mut machine, 0, &program);
    run(&mut machine, 5_000);
    assert_eq!(read(&mut machine, "PMOVSSET"), 1);
    carry_out(&program.acknowledge(1), &mut machine, 0).unwrap();
    let mut interrupts = 0;
    machine.run(50_000, |_, happening| {
        interrupts += u32::from(matches!(happening, Happening::Interrupt { .. }))
    });
    assert_eq!(interrupts, 0);
}

#[test]
fn two_overflows_can_be_flagged_at_once_and_one_is_cleared_alone() {
    let (mut machine, _) = running("skylake", "loop");
    let placed = [every(on(0, 0x3c, 0), 10_000), every(on(1, 0x3c, 0), 10_000)];
    let program = program(&machine, &placed);
    start(&mut machine, 0, &program);
    let mut happened = Vec::new();
    machine.run(20_000, |machine, happening| {
        if let Happening::Interrupt { .. } = happening {
            happened.push(read(machine, "GLOBAL_STATUS"));
            set(machine, "GLOBAL_OVF_CTRL", 1);
        }
    });
    assert_eq!(happened, [0b11]);
    assert_eq!(read(&mut machine, "GLOBAL_STATUS"), 0b10);
}

#[test]
fn threads_are_told_apart_though_they_migrate_and_share_cpus() {
    for id in ["skylake", "amdzen4", "apple-m4", "neoverse-n1"] {
        let settings = Settings {
            cpus: 3,
            seed: 11,
            slice_ns: 20_000,
            migrations_percent: 60,
            switch_ns: 500,
            tick: Some(Tick { every_ns: 100_000, takes_ns: 1_000 }),
        };
        let mut machine = SimMachine::new(model(id), settings);
        let names = ["loop", "memory", "noisy", "phases", "loop"];
        let threads: Vec<ThreadId> = names
            .iter()
            .map(|name| machine.spawn(Workload::named(name).unwrap(), &[0, 1, 2]).unwrap())
            .collect();
        let placed = leader(model(id), 30_000);
        let mut recorder = RowRecorder::start(&mut machine, &placed);
        let mut homes: BTreeMap<ThreadId, Vec<u32>> = BTreeMap::new();
        machine.run(2_000_000, |machine, happening| {
            if let Happening::Switch { cpu, to: Some(to), .. } = happening {
                homes.entry(to).or_default().push(cpu);
            }
            recorder.attend(machine, happening);
        });
        recorder.run(&mut machine, 0);
        for thread in threads {
            assert_eq!(recorder.sum(thread, 0), machine.truth(thread, Concept::Instructions), "{id}");
            assert_eq!(recorder.sum(thread, 1), machine.truth(thread, Concept::Branches), "{id}");
            assert!((0..3).all(|cpu| homes[&thread].contains(&cpu)), "{id} {thread:?} stayed: {homes:?}");
        }
    }
}

#[test]
fn pmcr0_is_rewritten_after_about_100_us_and_the_program_sees_it() {
    let (mut machine, _) = running("apple-m4", "loop");
    machine.inject(InjectedFault::RewriteControl { every_ns: 100_000 }).unwrap();
    let program = program(&machine, &[on(2, 0x5a3, 0), on(6, 0x5a1, 0)]);
    let mut lasted = Vec::new();
    for _ in 0..100 {
        start(&mut machine, 0, &program);
        let began = machine.now_ns();
        while holds(&mut machine, &program) {
            run(&mut machine, 1_000);
        }
        lasted.push(machine.now_ns() - began);
        assert_eq!(read(&mut machine, "PMCR0"), 0x3403);
    }
    let mean = lasted.iter().sum::<u64>() / 100;
    assert!((80_000..=120_000).contains(&mean), "{mean}");
    assert!(lasted.iter().all(|ns| (49_000..=152_000).contains(ns)), "{lasted:?}");
}

fn holds(machine: &mut SimMachine, program: &RegisterProgram) -> bool {
    program.holds.iter().all(|bits| bits.are_in(machine.read(0, bits.register).unwrap()))
}

#[test]
fn pmcr0_is_rewritten_when_a_cpu_goes_idle_and_not_before() {
    let mut machine = SimMachine::new(model("apple-m1"), Settings::default());
    machine.inject(InjectedFault::RewriteControlAtIdle).unwrap();
    let phases = vec![Phase { cycles: 32_000, activity: Activity::IDLE }];
    machine.spawn(Workload { phases, rounds: Some(1), noise: 0.0 }, &[0]).unwrap();
    let program = program(&machine, &[on(2, 0x02, 0)]);
    start(&mut machine, 0, &program);
    run(&mut machine, 9_000);
    assert!(holds(&mut machine, &program));
    run(&mut machine, 2_000);
    assert!(!holds(&mut machine, &program));
    assert_eq!(values(&mut machine, &program), [32_000]);
}

#[test]
fn time_passes_in_the_smallest_steps() {
    let (mut machine, thread) = running("apple-m1", "loop");
    for _ in 0..1_000 {
        run(&mut machine, 1);
    }
    assert_eq!(machine.truth(thread, Concept::Cycles), 3_000);
}

#[test]
fn a_rewritten_pmcr0_closes_the_registers_to_user_mode() {
    let (mut machine, _) = running("apple-m1", "loop");
    machine.open_to_user();
    machine.use_from_user_mode(true);
    machine.inject(InjectedFault::RewriteControl { every_ns: 100_000 }).unwrap();
    let control = register(&machine, "PMCR0");
    assert!(machine.read(0, control).is_ok());
    run(&mut machine, 151_000);
    assert_eq!(machine.read(0, control), Err(Fault::Privilege { register: control }));
}

#[test]
fn control_is_rewritten_on_every_chip() {
    for model in Model::ALL {
        let (mut machine, _) = running(model.id, "loop");
        machine.inject(InjectedFault::RewriteControl { every_ns: 10_000 }).unwrap();
        let event = counting(model, Concept::Cycles).unwrap();
        let program = program(&machine, &[event]);
        start(&mut machine, 0, &program);
        assert!(holds(&mut machine, &program), "{}", model.id);
        run(&mut machine, 16_000);
        let stopped = values(&mut machine, &program);
        run(&mut machine, 16_000);
        assert_eq!(values(&mut machine, &program), stopped, "{}", model.id);
        assert!(!holds(&mut machine, &program), "{}", model.id);
    }
}

#[test]
fn a_stolen_counter_no_longer_holds_what_was_written() {
    for (id, event, thief) in
        [("skylake", on(1, 0xc4, 0), 1), ("apple-m4", on(2, 0x5a3, 0), 2), ("amdzen2", on(1, 0xc2, 0), 1)]
    {
        let (mut machine, _) = running(id, "loop");
        machine.inject(InjectedFault::StealCounter { cpu: 0, counter: thief, after_ns: 5_000 }).unwrap();
        let program = program(&machine, &[event]);
        start(&mut machine, 0, &program);
        run(&mut machine, 4_000);
        assert!(holds(&mut machine, &program), "{id}");
        run(&mut machine, 2_000);
        assert!(!holds(&mut machine, &program), "{id}");
    }
    let (mut machine, _) = running("skylake", "loop");
    for (cpu, counter) in [(0, 9), (7, 0)] {
        assert!(machine.inject(InjectedFault::StealCounter { cpu, counter, after_ns: 1 }).is_err());
    }
}

#[test]
fn a_watchdog_holds_its_counter_and_its_interrupts_are_not_ours() {
    let (mut machine, thread) = running("skylake", "loop");
    let watchdog = InjectedFault::Watchdog { cpu: 0, counter: CounterId::Fixed(1), period_cycles: 100_000 };
    machine.inject(watchdog).unwrap();
    assert_eq!(read(&mut machine, "GLOBAL_INUSE"), 1 << 63 | 1 << 33);
    let placed = leader(machine.model(), 70_001);
    let mut recorder = RowRecorder::start(&mut machine, &placed);
    recorder.run(&mut machine, 1_000_000);
    assert_eq!(recorder.sum(thread, 0), machine.truth(thread, Concept::Instructions));
    // 3,000,000 cycles: thirty interrupts less what the skid takes, and those that come together with ours.
    let foreign = recorder.interrupts - recorder.overflows;
    assert!((28..=30).contains(&foreign), "{foreign}");
    assert_eq!(read(&mut machine, "FIXED_CTR_CTRL"), 0xb0);
    let nowhere = InjectedFault::Watchdog { cpu: 3, counter: CounterId::Fixed(1), period_cycles: 5 };
    assert!(machine.inject(nowhere).is_err());
    let missing = InjectedFault::Watchdog { cpu: 0, counter: CounterId::Fixed(9), period_cycles: 5 };
    assert!(machine.inject(missing).is_err());
}

#[test]
fn ignored_writes_seem_to_succeed_and_change_nothing() {
    let (mut machine, _) = running("icelake", "loop");
    machine.inject(InjectedFault::IgnoreWrites).unwrap();
    let program = program(&machine, &[on(0, 0xc4, 0), fixed(machine.model().chip.family, 0)]);
    start(&mut machine, 0, &program);
    assert!(!holds(&mut machine, &program));
    run(&mut machine, 10_000);
    assert_eq!(values(&mut machine, &program), [0, 0]);
}

#[test]
fn spurious_and_double_interrupts_have_no_flag() {
    let (mut machine, _) = running("skylake", "loop");
    machine.inject(InjectedFault::SpuriousInterrupts { every_ns: 10_000 }).unwrap();
    let (mut interrupts, mut flagged) = (0, 0);
    machine.run(100_000, |machine, happening| {
        if let Happening::Interrupt { .. } = happening {
            interrupts += 1;
            flagged += read(machine, "GLOBAL_STATUS");
        }
    });
    assert_eq!((interrupts, flagged), (10, 0));
    let (mut machine, _) = running("skylake", "loop");
    machine.inject(InjectedFault::DoubleInterrupts { every: 3 }).unwrap();
    let placed = leader(machine.model(), 50_000);
    let mut recorder = RowRecorder::start(&mut machine, &placed);
    recorder.run(&mut machine, 1_000_000);
    assert_eq!(recorder.interrupts - recorder.overflows, recorder.overflows / 3);
}

#[test]
fn late_interrupts_come_later_by_what_was_asked_for() {
    let (mut machine, thread) = running("skylake", "loop");
    machine.inject(InjectedFault::LateInterrupts { by_ns: 5_000 }).unwrap();
    let program = program(&machine, &[every(on(0, 0x3c, 0), 30_000)]);
    start(&mut machine, 0, &program);
    while !matches!(machine.next(1_000_000), Happening::Interrupt { .. }) {}
    let over = machine.truth(thread, Concept::Cycles) - 30_000;
    assert!((15_004..=15_060).contains(&over), "{over}");
}

#[test]
fn the_same_seed_does_the_same_and_another_one_does_not() {
    let record = |seed| {
        let settings =
            Settings { cpus: 2, seed, slice_ns: 10_000, migrations_percent: 50, ..Settings::default() };
        let mut machine = SimMachine::new(model("amdzen4"), settings);
        for _ in 0..3 {
            machine.spawn(Workload::named("noisy").unwrap(), &[0, 1]).unwrap();
        }
        let placed = leader(machine.model(), 25_000);
        let program = program(&machine, &placed);
        start(&mut machine, 0, &program);
        let mut seen = Vec::new();
        machine.run(500_000, |machine, happening| seen.push((machine.now_ns(), happening)));
        (seen, values(&mut machine, &program))
    };
    assert_eq!(record(1), record(1));
    assert_ne!(record(1), record(2));
}

#[test]
fn a_workload_that_ends_leaves_its_cpu_to_the_next_and_then_idle() {
    let mut machine = SimMachine::new(model("apple-m1"), Settings::default());
    let phase = Phase { cycles: 32_000, activity: Activity::IDLE.with(Concept::Loads, 0.5) };
    let short = Workload { phases: vec![phase], rounds: Some(2), noise: 0.0 };
    let first = machine.spawn(short.clone(), &[0]).unwrap();
    let second = machine.spawn(short, &[0]).unwrap();
    let mut switches = Vec::new();
    machine.run(100_000, |_, happening| {
        if let Happening::Switch { from, to, .. } = happening {
            switches.push((from, to));
        }
    });
    assert_eq!(switches, [(None, Some(first)), (Some(first), Some(second)), (Some(second), None)]);
    assert!(machine.is_done(first) && machine.is_done(second));
    assert_eq!(machine.truth(second, Concept::Cycles), 64_000);
    assert_eq!(machine.truth(second, Concept::Loads), 32_000);
    assert_eq!(machine.thread_on(0), None);
}

#[test]
fn a_thread_needs_a_cpu_that_there_is() {
    let mut machine = SimMachine::new(model("skylake"), Settings { cpus: 2, ..Settings::default() });
    let error = machine.spawn(Workload::named("loop").unwrap(), &[1, 2]).unwrap_err();
    assert_eq!(error.to_string(), "the simulated machine has no CPU 2");
    assert!(machine.spawn(Workload::named("loop").unwrap(), &[]).is_err());
}

#[test]
fn counters_of_one_cpu_do_not_count_on_another() {
    let mut machine = SimMachine::new(model("skylake"), Settings { cpus: 2, ..Settings::default() });
    let here = machine.spawn(Workload::named("loop").unwrap(), &[0]).unwrap();
    machine.spawn(Workload::named("memory").unwrap(), &[1]).unwrap();
    let program = program(&machine, &[on(0, 0xc4, 0)]);
    start(&mut machine, 0, &program);
    run(&mut machine, 50_000);
    assert_eq!(values(&mut machine, &program), [machine.truth(here, Concept::Branches)]);
    let other: PmuReg = program.reads[0].register;
    assert_eq!(machine.read(1, other), Ok(0));
}

fn any_fault() -> impl Strategy<Value = InjectedFault> {
    prop_oneof![
        (1_000u64..20_000).prop_map(|by_ns| InjectedFault::LateInterrupts { by_ns }),
        (1u32..4).prop_map(|every| InjectedFault::DoubleInterrupts { every }),
        (5_000u64..50_000).prop_map(|every_ns| InjectedFault::SpuriousInterrupts { every_ns }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn rows_add_up_whatever_happens_to_interrupts_and_threads(
        model in prop::sample::select(Model::ALL.to_vec()), seed: u64, period in 5_000u64..80_000,
        faults in prop::collection::vec(any_fault(), 0..3), slice_ns in 5_000u64..100_000, cpus in 1u32..4,
    ) {
        let model = Model::find(model.id).unwrap();
        let settings = Settings { cpus, seed, slice_ns, migrations_percent: 50, ..Settings::default() };
        let mut machine = SimMachine::new(model, settings);
        let allowed: Vec<u32> = (0..cpus).collect();
        let mut random = Random::seeded(seed);
        let threads: Vec<ThreadId> = (0..3).map(|_| {
            let name = Workload::NAMES[random.below(Workload::NAMES.len())];
            machine.spawn(Workload::named(name).unwrap(), &allowed).unwrap()
        }).collect();
        for fault in faults {
            machine.inject(fault).unwrap();
        }
        let mut recorder = RowRecorder::start(&mut machine, &leader(model, period));
        recorder.run(&mut machine, 300_000);
        for thread in threads {
            prop_assert_eq!(recorder.sum(thread, 0), machine.truth(thread, Concept::Instructions));
            prop_assert_eq!(recorder.sum(thread, 1), machine.truth(thread, Concept::Branches));
        }
    }

    #[test]
    fn how_time_is_cut_does_not_change_what_is_counted(cuts in prop::collection::vec(1u64..20_000, 1..20)) {
        let count = |cuts: &[u64]| {
            let (mut machine, _) = running_with("skylake", "noisy", Settings { seed: 3, ..Settings::default() });
            let program = program(&machine, &[on(0, 0xc4, 0), on(1, 0xd0, 0x81)]);
            start(&mut machine, 0, &program);
            let mut until = 0;
            for cut in cuts {
                until += cut;
                while machine.next(until) != Happening::Reached {}
            }
            values(&mut machine, &program)
        };
        prop_assert_eq!(count(&cuts), count(&[cuts.iter().sum()]));
    }
}

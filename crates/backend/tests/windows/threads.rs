//! Rows, boundaries, and threads that share CPUs and migrate.

use cyclometer_arch::Registers;
use cyclometer_backend::registers::{Fired, WindowEnd, WindowSetup, Windows};
use cyclometer_core::CounterId;
use cyclometer_sim::{Activity, Concept, Happening, Model, Phase, Settings, SimMachine, Tick, Workload};

use crate::bench::{Bench, Events, FOUR, can_freeze, every_chip, freezing, machine, source};

#[test]
fn rows_add_up_and_boundaries_are_at_multiples_of_the_period_on_every_chip() {
    for (model, options) in every_chip() {
        let (machine, threads) = machine(model, Settings::default(), &["phases"]);
        let events = Events::general(model, &FOUR);
        let mut bench = Bench::with(machine, events, &[source(0, 50_000)], options, None);
        bench.run(1_000_000);
        assert_eq!(bench.interrupts, bench.claimed, "{}", model.id);
        let mut ended = bench.finish();
        ended.assert_adds_up(&threads);
        ended.assert_boundaries();
        let truth = ended.bench.machine.truth(threads[0], Concept::Instructions);
        let full = ended.rows().iter().filter(|row| row.end == WindowEnd::Interrupt).count() as u64;
        assert!((truth / 50_000 - 1..=truth / 50_000).contains(&full), "{} {full} {truth}", model.id);
        assert!(ended.rows().iter().all(|row| !row.is_late() && !row.is_lost() && row.unclaimed == 0));
        let remainders = ended.rows().iter().filter(|row| row.is_remainder()).count();
        assert!(remainders <= 1 && ended.rows().last().unwrap().end == WindowEnd::Finish);
    }
}

#[test]
fn the_skid_is_told_and_shortens_the_next_window() {
    for model in Model::ALL {
        let (machine, _) = machine(model, Settings::default(), &["loop"]);
        let mut bench = Bench::new(machine, Events::general(model, &FOUR), &[source(1, 20_000)]);
        bench.run(2_000_000);
        let rows = bench.finish().bench.rows;
        let (fewest, most) = model.skid_cycles;
        let mut before = 0;
        for row in rows.iter().filter(|row| row.end == WindowEnd::Interrupt) {
            let Fired { past, carried, periods, .. } = row.fired[0];
            assert!((fewest..=most).contains(&past), "{} {past}", model.id);
            assert_eq!((past, periods), (carried, 1));
            assert_eq!(row.counts[1].exact(), Some(20_000 - before + past));
            before = past;
        }
        assert!(rows.len() > 50, "{}", model.id);
        assert!(rows.iter().any(|row| row.fired.first().map(|fired| fired.past) != Some(before)));
    }
}

#[test]
fn fixed_counters_end_windows_too() {
    for model in Model::ALL.iter().filter(|model| !model.fixed.is_empty()) {
        let (machine, threads) = machine(model, Settings::default(), &["memory"]);
        let events = Events::general(model, &[Concept::Branches]).and_fixed(model);
        let mut bench = Bench::new(machine, events, &[source(1, 33_333)]);
        bench.run(500_000);
        let mut ended = bench.finish();
        ended.assert_adds_up(&threads);
        ended.assert_boundaries();
        assert!(ended.rows().len() > 5, "{}", model.id);
    }
}

#[test]
fn two_sources_that_overflow_before_one_interrupt_make_one_row() {
    for (model, options) in every_chip() {
        let (machine, threads) = machine(model, Settings::default(), &["loop"]);
        let events = Events::general(model, &FOUR);
        let sources = [source(1, 60_000), source(0, 25_000), source(2, 10_000)];
        let mut bench = Bench::with(machine, events, &sources, options, None);
        bench.run(1_000_000);
        let mut ended = bench.finish();
        ended.assert_adds_up(&threads);
        ended.assert_boundaries();
        let with = |n| ended.rows().iter().filter(|row| row.fired.len() == n).count();
        assert!(with(1) > 100 && with(2) > 2, "{} {} {}", model.id, with(1), with(2));
        let both = ended.rows().iter().find(|row| row.fired.len() == 2).unwrap();
        assert!(both.fired[0].slot < both.fired[1].slot);
    }
}

#[test]
fn each_thread_has_windows_of_its_own_events_wherever_it_runs() {
    for (model, options) in every_chip() {
        let settings = Settings {
            cpus: 3,
            seed: 11,
            slice_ns: 20_000,
            migrations_percent: 60,
            switch_ns: 500,
            tick: Some(Tick { every_ns: 100_000, takes_ns: 1_000 }),
        };
        let (machine, threads) = machine(model, settings, &["loop", "memory", "noisy", "phases", "loop"]);
        let sources = [source(0, 30_000), source(1, 41_000)];
        let mut bench = Bench::with(machine, Events::general(model, &FOUR), &sources, options, None);
        bench.run(1_000_000);
        let mut ended = bench.finish();
        ended.assert_adds_up(&threads);
        ended.assert_boundaries();
        for thread in threads {
            assert!(ended.rows_of(thread).any(|row| row.migrations > 0), "{} {thread:?}", model.id);
            assert!(ended.rows_of(thread).any(|row| row.switches > 0 && row.migrations == 0));
            let cpus: Vec<_> = ended.rows_of(thread).filter_map(|row| row.cpu).collect();
            assert!((0..3).all(|cpu| cpus.contains(&cpu)), "{} {thread:?} stayed: {cpus:?}", model.id);
        }
    }
}

#[test]
fn a_boundary_that_is_reached_just_before_a_switch_ends_its_window_there() {
    let mut seen = 0;
    for (model, options) in every_chip() {
        let settings = Settings { slice_ns: 5_000, ..Settings::default() };
        let (machine, threads) = machine(model, settings, &["loop", "loop"]);
        let mut bench =
            Bench::with(machine, Events::general(model, &FOUR), &[source(1, 2_000)], options, None);
        bench.run(500_000);
        let late: u32 = bench.interrupts - bench.claimed;
        let mut ended = bench.finish();
        ended.assert_adds_up(&threads);
        ended.assert_boundaries();
        let at_switch = ended.rows().iter().filter(|row| row.end == WindowEnd::Switch).count();
        seen += at_switch;
        // The interrupt comes when the other thread already runs; on Arm it is withdrawn.
        let unclaimed: u32 = ended.rows().iter().map(|row| row.unclaimed).sum();
        assert_eq!(late, unclaimed, "{}", model.id);
        assert!(at_switch as u32 >= late, "{} {at_switch} {late}", model.id);
    }
    assert!(seen > 50, "{seen}");
}

#[test]
fn counters_stand_still_while_threads_run_that_are_not_counted() {
    for (model, options) in every_chip() {
        let settings = Settings { cpus: 2, slice_ns: 10_000, migrations_percent: 40, ..Settings::default() };
        let (machine, threads) = machine(model, settings, &["loop", "memory", "loop"]);
        let counted = vec![threads[0], threads[1]];
        let events = Events::general(model, &FOUR);
        let mut bench = Bench::with(machine, events, &[source(0, 15_000)], options, Some(counted.clone()));
        let mut stood = 0;
        for _ in 0..400 {
            bench.run(2_000);
            for cpu in 0..2 {
                if bench.machine.thread_on(cpu) == Some(threads[2]) {
                    assert_eq!(bench.windows.on(cpu).unwrap().thread(), None);
                    stood += u32::from(stands(&mut bench, cpu));
                }
            }
        }
        assert!(stood > 50, "{} {stood}", model.id);
        let mut ended = bench.finish();
        ended.assert_adds_up(&counted);
        ended.assert_boundaries();
        assert_eq!(ended.rows_of(threads[2]).count(), 0);
    }
}

/// Whether the counters of a CPU are the same a little later, unless another thread runs there.
fn stands(bench: &mut Bench, cpu: u32) -> bool {
    let values = |bench: &mut Bench| -> Vec<u64> {
        let reads = bench.windows.setup().program().reads.clone();
        reads.iter().map(|read| bench.machine.read(cpu, read.register).unwrap()).collect()
    };
    let (thread, before) = (bench.machine.thread_on(cpu), values(bench));
    bench.run(100);
    let after = values(bench);
    if bench.machine.thread_on(cpu) != thread {
        return false;
    }
    assert_eq!(before, after, "{}", bench.machine.model().id);
    true
}

#[test]
fn a_whole_cpu_is_recorded_as_one_thread_that_never_leaves() {
    for model in Model::ALL {
        let settings = Settings { cpus: 2, slice_ns: 7_000, migrations_percent: 50, ..Settings::default() };
        let (mut machine, threads) = machine(model, settings, &["loop", "memory", "noisy"]);
        let events = Events::general(model, &FOUR);
        let options = freezing(can_freeze(model));
        let setup = WindowSetup::new(&model.chip, &events.placed, &[source(0, 20_000)], options).unwrap();
        let mut windows: Windows<u32> = Windows::of_all(setup);
        let mut rows = Vec::new();
        for cpu in 0..2 {
            windows.begin(&mut machine, cpu, Some(cpu)).unwrap();
        }
        machine.run(200_000, |machine, happening| {
            if let Happening::Interrupt { cpu, .. } = happening {
                rows.extend(windows.on_interrupt(machine, cpu).unwrap().rows);
            }
        });
        rows.extend(windows.finish(&mut machine));
        for (slot, concept) in FOUR.iter().enumerate() {
            let counted: Option<u64> = rows.iter().map(|row| row.counts[slot].exact()).sum();
            let truth = threads.iter().map(|thread| machine.truth(*thread, *concept)).sum();
            assert_eq!(counted, Some(truth), "{} {slot}", model.id);
        }
        assert!((0..2).all(|cpu| rows.iter().any(|row| row.thread == cpu && row.cpu == Some(cpu))));
    }
}

#[test]
fn a_period_of_one_event_passes_many_boundaries_at_once_and_loses_none() {
    for (model, options) in every_chip() {
        let (machine, threads) = machine(model, Settings::default(), &["loop"]);
        let events = Events::general(model, &FOUR);
        let mut bench = Bench::with(machine, events, &[source(0, 1)], options, None);
        bench.run(20_000);
        let mut ended = bench.finish();
        ended.assert_adds_up(&threads);
        ended.assert_boundaries();
        assert!(ended.rows().iter().filter(|row| !row.is_remainder()).all(|row| row.fired[0].carried == 0));
        assert!(ended.rows().iter().any(|row| row.is_late()), "{}", model.id);
    }
}

#[test]
fn a_thread_that_ends_has_its_remainder_and_begins_nothing() {
    let model = Model::find("skylake").unwrap();
    let mut machine = SimMachine::new(model, Settings::default());
    let phase = Phase { cycles: 32_000, activity: Activity::IDLE.with(Concept::Instructions, 2.0) };
    let short = Workload { phases: vec![phase], rounds: Some(3), noise: 0.0 };
    let thread = machine.spawn(short, &[0]).unwrap();
    let concepts = [Concept::Instructions, Concept::Cycles];
    let mut bench = Bench::new(machine, Events::general(model, &concepts), &[source(1, 50_000)]);
    bench.run(10_000);
    assert!(bench.windows.end(thread).unwrap_err().to_string().contains("still on CPU 0"));
    bench.run(90_000);
    assert!(bench.machine.is_done(thread));
    let rest = bench.windows.end(thread).unwrap().unwrap();
    assert_eq!((rest.sequence, rest.cpu, rest.end), (1, None, WindowEnd::Finish));
    let counted: u64 = bench.rows.iter().chain([&rest]).map(|row| row.counts[1].exact().unwrap()).sum();
    assert_eq!(counted, 96_000);
    assert_eq!(bench.windows.end(thread).unwrap(), None);
    assert_eq!(bench.finish().rows().len(), 1);
}

#[test]
fn a_counter_of_32_bits_that_no_period_bounds_does_not_wrap_unseen() {
    // Two seconds: 6,000,000,000 cycles, more than 2^32, and a source that hardly ever overflows.
    let model = Model::find("neoverse-n1").unwrap();
    let (machine, threads) = machine(model, Settings::default(), &["loop"]);
    let concepts = [Concept::LlcMisses, Concept::Cycles, Concept::Instructions];
    let mut bench = Bench::new(machine, Events::general(model, &concepts), &[source(0, 1 << 31)]);
    bench.run(2_000_000_000);
    assert_eq!(bench.interrupts, bench.claimed);
    assert!(bench.interrupts >= 5, "{}", bench.interrupts);
    let ended = bench.finish();
    assert!(ended.bench.machine.truth(threads[0], Concept::Cycles) > 1 << 32);
    ended.assert_adds_up(&threads);
    assert_eq!(ended.rows().len(), 1);
}

#[test]
fn counters_that_wrap_in_full_width_between_two_looks_are_read_through_it() {
    for (model, options) in every_chip() {
        let (machine, threads) = machine(model, Settings::default(), &["loop"]);
        let mut bench =
            Bench::with(machine, Events::general(model, &FOUR), &[source(0, 100_000)], options, None);
        // Shortly before the wrap, as after days of counting: before the thread gets the CPU.
        for slot in 1..4 {
            let read = bench.windows.setup().program().reads[slot];
            let (CounterId::General(n) | CounterId::Fixed(n)) = read.counter;
            let top = if read.width_bits == 64 { u64::MAX } else { (1 << read.width_bits) - 1 };
            if read.preset == 0 {
                bench.machine.write(0, read.preset_register, top - 1_000 - u64::from(n)).unwrap();
            }
        }
        bench.run(200_000);
        let ended = bench.finish();
        ended.assert_adds_up(&threads);
    }
}

#[test]
fn older_chips_of_intel_have_the_same_windows() {
    for version in [2, 3, 4, 5] {
        let mut model = *Model::find("skylake").unwrap();
        model.chip.pmu_version = Some(version);
        let model: &'static Model = Box::leak(Box::new(model));
        for freeze in [false, true] {
            if freeze && !can_freeze(model) {
                continue;
            }
            let settings =
                Settings { cpus: 2, slice_ns: 30_000, migrations_percent: 50, ..Settings::default() };
            let (machine, threads) = machine(model, settings, &["loop", "noisy", "memory"]);
            let events = Events::general(model, &FOUR).and_fixed(model);
            let sources = [source(0, 17_000), source(4, 29_000)];
            let mut bench = Bench::with(machine, events, &sources, freezing(freeze), None);
            bench.run(500_000);
            let mut ended = bench.finish();
            ended.assert_adds_up(&threads);
            ended.assert_boundaries();
        }
    }
}

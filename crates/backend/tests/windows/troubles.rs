//! Injected faults: interrupts that are late, double or spurious; counters and control registers that another
//! user takes. The judge of the bench compares every number with the truth. These tests also check that
//! exactly the affected counts are lost.

use cyclometer_arch::{PmuReg, ProgramOptions, Register, RegisterBits, Registers, Step};
use cyclometer_backend::registers::{
    LossReason, OverflowSource, Row, WindowCount, WindowEnd, WindowSetup, Windows,
};
use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterId, ErrorKind};
use cyclometer_sim::{
    Activity, Concept, InjectedFault, Model, Phase, Settings, SimMachine, ThreadId, Workload,
};

use crate::bench::{Bench, Ended, Events, FOUR, every_chip, machine, source};

const TWO_SOURCES: [OverflowSource; 2] =
    [OverflowSource { slot: 0, period_events: 12_000 }, OverflowSource { slot: 1, period_events: 19_000 }];

fn busy() -> Settings {
    Settings { cpus: 2, seed: 5, slice_ns: 25_000, migrations_percent: 50, ..Settings::default() }
}

/// A recording of three threads on two CPUs, with injected faults from its beginning on.
fn troubled(
    model: &'static Model,
    options: ProgramOptions,
    events: Events,
    troubles: &[InjectedFault],
) -> (Bench, Vec<ThreadId>) {
    let (mut machine, threads) = machine(model, busy(), &["loop", "noisy", "memory"]);
    for trouble in troubles {
        machine.inject(*trouble).unwrap();
    }
    (Bench::with(machine, events, &TWO_SOURCES, options, None), threads)
}

fn exact_under(trouble: impl Fn(&Model) -> InjectedFault, more: impl Fn(&Ended)) {
    for (model, options) in every_chip() {
        let (mut bench, threads) = troubled(model, options, Events::general(model, &FOUR), &[trouble(model)]);
        bench.run(400_000);
        let mut ended = bench.finish();
        ended.assert_adds_up(&threads);
        ended.assert_boundaries();
        let unclaimed: u32 = ended.rows().iter().map(|row| row.unclaimed).sum();
        // Interrupts that come while a CPU has no thread are in no window.
        assert!(unclaimed <= ended.bench.interrupts - ended.bench.claimed, "{}", model.id);
        more(&ended);
    }
}

#[test]
fn late_interrupts_make_rows_of_several_periods_and_lose_nothing() {
    exact_under(
        |_| InjectedFault::LateInterrupts { by_ns: 15_000 },
        |ended| {
            let late = ended.rows().iter().filter(|row| row.is_late()).count();
            let id = ended.bench.machine.model().id;
            assert!(late * 4 > ended.rows().len(), "{id} {late} {}", ended.rows().len());
        },
    );
}

#[test]
fn double_interrupts_make_no_rows() {
    exact_under(
        |_| InjectedFault::DoubleInterrupts { every: 2 },
        |ended| {
            let id = ended.bench.machine.model().id;
            let nobodys = ended.bench.interrupts - ended.bench.claimed;
            assert!(nobodys * 3 > ended.bench.claimed, "{id} {nobodys} {}", ended.bench.claimed);
            assert!(ended.rows().iter().any(|row| row.unclaimed > 0));
            assert!(ended.rows().len() <= ended.bench.claimed as usize + switched(ended) + 3);
        },
    );
}

fn switched(ended: &Ended) -> usize {
    ended.rows().iter().filter(|row| row.end == WindowEnd::Switch).count()
}

#[test]
fn interrupts_without_an_overflow_leave_counts_in_the_running_window() {
    exact_under(
        |_| InjectedFault::SpuriousInterrupts { every_ns: 1_500 },
        |ended| {
            let nobodys = ended.bench.interrupts - ended.bench.claimed;
            assert!(nobodys > 400, "{} {nobodys}", ended.bench.machine.model().id);
            assert!(ended.rows().iter().any(|row| row.unclaimed > 1));
            assert!(ended.rows().iter().all(|row| row.end != WindowEnd::Interrupt || !row.fired.is_empty()));
        },
    );
}

#[test]
fn the_counter_of_a_watchdog_and_its_interrupts_are_left_alone() {
    exact_under(
        |model| {
            let n = if model.chip.family == Family::Apple { 9 } else { 3 };
            let counter = if model.id == "skylake" { CounterId::Fixed(1) } else { CounterId::General(n) };
            // If the fourth event is assigned to that counter, use the next one.
            let events = Events::general(model, &FOUR);
            let taken = events.placed.iter().any(|placed| placed.counter == counter);
            let counter = if taken { CounterId::General(n + 1) } else { counter };
            InjectedFault::Watchdog { cpu: 0, counter, period_cycles: 30_000 }
        },
        |ended| {
            let nobodys = ended.bench.interrupts - ended.bench.claimed;
            assert!(nobodys > 10, "{} {nobodys}", ended.bench.machine.model().id);
        },
    );
}

fn lost(row: &Row<ThreadId>) -> Vec<usize> {
    (0..row.counts.len()).filter(|slot| row.counts[*slot].exact().is_none()).collect()
}

#[test]
fn rewritten_controls_are_seen_on_every_chip_and_give_no_number() {
    for (model, options) in every_chip() {
        let trouble = InjectedFault::RewriteControl { every_ns: 90_000 };
        let (mut bench, threads) = troubled(model, options, Events::general(model, &FOUR), &[trouble]);
        bench.run(400_000);
        let ended = bench.finish();
        for thread in threads {
            for slot in 0..4 {
                assert_eq!(ended.sum(thread, slot), None, "{} {slot}", model.id);
            }
        }
        assert!(ended.rows().iter().any(|row| lost(row).is_empty() && !row.fired.is_empty()), "{}", model.id);
        let seen = ended.rows().iter().find(|row| row.end == WindowEnd::Loss).unwrap();
        let WindowCount::Lost(loss) = &seen.counts[0] else { panic!("{seen:?}") };
        assert!(matches!(loss.reason, LossReason::Rewritten { .. }), "{} {loss}", model.id);
        assert!(loss.to_string().contains("as they were written"));
    }
}

#[test]
fn what_is_taken_back_counts_again_from_a_new_window_on() {
    for (model, options) in every_chip() {
        let (mut machine, threads) = machine(model, busy(), &["phases"]);
        machine.inject(InjectedFault::RewriteControl { every_ns: 60_000 }).unwrap();
        let events = Events::general(model, &FOUR);
        let mut bench = Bench::with(machine, events, &TWO_SOURCES, options, None);
        bench.retakes = true;
        for _ in 0..200 {
            bench.run(5_000);
            bench.look();
        }
        let ended = bench.finish();
        let rows: Vec<&Row<ThreadId>> = ended.rows_of(threads[0]).collect();
        let losses = rows.iter().filter(|row| row.is_lost()).count();
        let exact = rows.iter().filter(|row| !row.is_lost() && !row.is_remainder()).count();
        assert!(losses > 8 && exact > losses, "{}: {losses} lost, {exact} exact", model.id);
        let taken_back = rows.iter().filter(|row| row.end == WindowEnd::Retake).count();
        assert!(taken_back > 8, "{} {taken_back}", model.id);
        let last = rows.iter().rposition(|row| row.is_lost()).unwrap();
        assert!(rows[..last].iter().any(|row| !row.is_lost() && row.sequence > 20), "{}", model.id);
    }
}

#[test]
fn a_control_that_is_rewritten_when_a_cpu_goes_idle_costs_the_window_that_is_open_then() {
    for (model, options) in every_chip() {
        let mut machine = SimMachine::new(model, Settings::default());
        machine.inject(InjectedFault::RewriteControlAtIdle).unwrap();
        let events = Events::general(model, &FOUR);
        let mut bench = Bench::with(machine, events, &[source(1, 12_000)], options, None);
        bench.retakes = true;
        let mut threads = Vec::new();
        for _ in 0..5 {
            let phases =
                vec![Phase { cycles: 40_000, activity: Activity::IDLE.with(Concept::Branches, 0.3) }];
            let short = Workload { phases, rounds: Some(2), noise: 0.0 };
            threads.push(bench.machine.spawn(short, &[0]).unwrap());
            bench.run(30_000);
            assert!(bench.machine.is_done(threads[threads.len() - 1]));
        }
        let ended = bench.finish();
        for thread in threads {
            let rows: Vec<&Row<ThreadId>> = ended.rows_of(thread).collect();
            let (last, full) = rows.split_last().unwrap();
            assert!(last.is_lost() && last.end == WindowEnd::Loss, "{} {last:?}", model.id);
            assert_eq!(full.len(), 6, "{}", model.id);
            assert!(full.iter().all(|row| !row.is_lost()));
        }
    }
}

#[test]
fn fixed_counters_that_a_rewritten_pmcr0_leaves_as_they_are_go_on_ending_windows() {
    for id in ["apple-m1", "apple-m2", "apple-m3", "apple-m4"] {
        let model = Model::find(id).unwrap();
        let (mut machine, threads) = machine(model, busy(), &["loop", "noisy", "memory"]);
        machine.inject(InjectedFault::RewriteControl { every_ns: 90_000 }).unwrap();
        let events = Events::general(model, &FOUR).and_fixed(model);
        let mut bench = Bench::new(machine, events, &[source(4, 19_000), source(5, 12_000)]);
        bench.run(400_000);
        let ended = bench.finish();
        for thread in threads {
            assert_eq!(ended.sum(thread, 0), None);
            for (slot, concept) in [(4, Concept::Cycles), (5, Concept::Instructions)] {
                let truth = ended.bench.machine.truth(thread, concept);
                assert_eq!(ended.sum(thread, slot), Some(truth), "{id}");
            }
            let both = |row: &&Row<ThreadId>| lost(row) == [0, 1, 2, 3] && !row.fired.is_empty();
            assert!(ended.rows_of(thread).filter(both).count() > 10);
        }
    }
}

#[test]
fn of_a_stolen_counter_only_its_own_slot_is_lost_and_the_thief_is_left_alone() {
    for (model, options) in every_chip() {
        for slot in 0..4 {
            let events = Events::general(model, &FOUR);
            let CounterId::General(counter) = events.placed[slot].counter else { unreachable!() };
            let trouble = InjectedFault::StealCounter { cpu: 0, counter, after_ns: 120_000 };
            let (mut bench, threads) = troubled(model, options, events, &[trouble]);
            bench.run(121_000);
            let thiefs = controls(&mut bench, slot);
            bench.run(280_000);
            assert_eq!(controls(&mut bench, slot), thiefs, "{} {slot}", model.id);
            let ended = bench.finish();
            let mut missing = 0;
            for thread in threads {
                for other in (0..4).filter(|other| *other != slot) {
                    let truth = ended.bench.machine.truth(thread, FOUR[other]);
                    assert_eq!(ended.sum(thread, other), Some(truth), "{} {other} of {thread:?}", model.id);
                }
                missing += u32::from(ended.sum(thread, slot).is_none());
                // On the other CPU the slot is counted; a window that runs entirely there has a number.
                let again = |row: &&Row<ThreadId>| row.cpu == Some(1) && row.sequence > 20 && !row.is_lost();
                assert!(ended.rows_of(thread).any(|row| again(&row)), "{} {slot} {thread:?}", model.id);
            }
            assert!(missing > 0, "{} {slot}", model.id);
            assert!(ended.rows().iter().all(|row| lost(row).iter().all(|lost| *lost == slot)));
        }
    }
}

#[test]
fn a_counter_that_is_stolen_while_ours_stand_still_is_not_started() {
    for (model, options) in every_chip() {
        let settings = Settings { slice_ns: 20_000, ..Settings::default() };
        let (machine, threads) = machine(model, settings, &["loop", "memory"]);
        let events = Events::general(model, &FOUR);
        let CounterId::General(counter) = events.placed[2].counter else { unreachable!() };
        let only = Some(vec![threads[0]]);
        let mut bench = Bench::with(machine, events, &[source(0, 9_000)], options, only);
        bench.run(1_000);
        while bench.windows.on(0).unwrap().thread().is_some() {
            bench.run(1_000);
        }
        let trouble = InjectedFault::StealCounter { cpu: 0, counter, after_ns: 1 };
        bench.machine.inject(trouble).unwrap();
        bench.run(100);
        assert_eq!(bench.windows.on(0).unwrap().thread(), None);
        let thiefs = controls(&mut bench, 2);
        bench.run(200_000);
        assert_eq!(controls(&mut bench, 2), thiefs, "{}", model.id);
        let ended = bench.finish();
        for slot in [0, 1, 3] {
            let truth = ended.bench.machine.truth(threads[0], FOUR[slot]);
            assert_eq!(ended.sum(threads[0], slot), Some(truth), "{} {slot}", model.id);
        }
        assert_eq!(ended.sum(threads[0], 2), None);
        let first = ended.rows().iter().find(|row| row.is_lost()).unwrap();
        assert_eq!(lost(first), [2], "{}", model.id);
    }
}

/// The values that a thief wrote for the counter of a slot: its own bits in the registers that we share, and
/// the counter's.
fn controls(bench: &mut Bench, slot: usize) -> Vec<(String, u64)> {
    let model = bench.machine.model();
    let placed = bench.events.placed[slot];
    let program =
        cyclometer_arch::register_program(&model.chip, &[placed], ProgramOptions::default()).unwrap();
    let own = program.start.iter().filter_map(|step| match step {
        Step::Write(RegisterBits { register, mask, .. }) => Some((*register, *mask)),
        Step::Barrier => None,
    });
    let own: Vec<(PmuReg, u64)> =
        own.chain(program.rests.iter().map(|bits| (bits.register, bits.mask))).collect();
    own.iter()
        .filter(|(register, _)| !is_shared_switch(register.register()))
        .map(|(register, mask)| (register.to_string(), bench.machine.read(0, *register).unwrap() & mask))
        .collect()
}

/// Registers with bits that all users share.
fn is_shared_switch(register: Register) -> bool {
    matches!(
        register,
        Register::Intel(cyclometer_arch::intel::Register::DebugControl)
            | Register::Arm(cyclometer_arch::arm::Register::Control)
    )
}

#[test]
fn a_machine_that_drops_writes_is_refused_at_the_beginning() {
    for (model, options) in every_chip() {
        let (mut machine, _) = machine(model, Settings::default(), &["loop"]);
        machine.inject(InjectedFault::IgnoreWrites).unwrap();
        let events = Events::general(model, &FOUR);
        let setup = WindowSetup::new(&model.chip, &events.placed, &[source(0, 1000)], options).unwrap();
        let mut windows: Windows<ThreadId> = Windows::of_all(setup);
        let error = windows.begin(&mut machine, 0, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StateLost, "{}", model.id);
        assert!(error.to_string().starts_with("what was written to CPU 0 did not stay"), "{error}");
        assert!(windows.on(0).is_none());
    }
}

#[test]
fn writes_that_are_dropped_from_some_time_on_lose_the_sources_and_no_number_is_wrong() {
    for (model, options) in every_chip() {
        let (mut bench, threads) = troubled(model, options, Events::general(model, &FOUR), &[]);
        bench.run(100_000);
        bench.machine.inject(InjectedFault::IgnoreWrites).unwrap();
        bench.run(200_000);
        let ended = bench.finish();
        assert!(ended.rows().iter().any(|row| !row.is_lost()), "{}", model.id);
        for thread in threads {
            assert_eq!(ended.sum(thread, 0), None, "{}", model.id);
        }
        let reasons = ended.rows().iter().flat_map(|row| &row.counts).filter_map(|count| match count {
            WindowCount::Lost(loss) => Some(&loss.reason),
            WindowCount::Exact(_) => None,
        });
        let stopping_fails = model.id == "amdzen2";
        let is_seen = |reason: &LossReason| match reason {
            LossReason::NotPreset { .. } => !stopping_fails,
            // Stopping the counters would have written their event selects.
            LossReason::Rewritten { .. } => stopping_fails,
            _ => false,
        };
        assert!(reasons.clone().any(is_seen), "{}", model.id);
    }
}

#[test]
fn a_counter_that_somebody_else_sets_back_contradicts_itself_and_is_lost() {
    // A watchdog with a longer period holds the counter that we take: it resets the counter at interrupts.
    for (model, options) in every_chip() {
        let events = Events::general(model, &[Concept::Cycles, Concept::Branches]);
        let (mut machine, threads) = machine(model, Settings::default(), &["loop"]);
        let counter = events.placed[0].counter;
        machine.inject(InjectedFault::Watchdog { cpu: 0, counter, period_cycles: 70_000 }).unwrap();
        let mut bench = Bench::with(machine, events, &[source(0, 20_000)], options, None);
        bench.run(300_000);
        let ended = bench.finish();
        assert_eq!(ended.sum(threads[0], 0), None, "{}", model.id);
        assert_eq!(
            ended.sum(threads[0], 1),
            Some(ended.bench.machine.truth(threads[0], Concept::Branches)),
            "{}",
            model.id
        );
        let reason = ended.rows().iter().find_map(|row| match &row.counts[0] {
            WindowCount::Lost(loss) => Some(loss.reason.clone()),
            WindowCount::Exact(_) => None,
        });
        assert!(matches!(reason, Some(LossReason::Contradiction { .. })), "{} {reason:?}", model.id);
    }
}

#[test]
fn registers_that_are_closed_to_user_mode_meanwhile_lose_every_slot_and_are_not_touched() {
    for id in ["apple-m1", "apple-m4"] {
        let model = Model::find(id).unwrap();
        let (mut machine, threads) = machine(model, Settings::default(), &["loop", "loop"]);
        machine.open_to_user();
        machine.use_from_user_mode(true);
        let options = ProgramOptions { user_access: true, ..ProgramOptions::default() };
        let mut bench =
            Bench::with(machine, Events::general(model, &FOUR), &[source(0, 30_000)], options, None);
        bench.run(100_000);
        bench.machine.inject(InjectedFault::RewriteControl { every_ns: 10_000 }).unwrap();
        bench.run(8_000_000);
        let ended = bench.finish();
        for slot in 0..4 {
            assert_eq!(ended.sum(threads[0], slot), None);
        }
        let end = ended.rows().iter().find(|row| row.end == WindowEnd::Loss).unwrap();
        let WindowCount::Lost(loss) = &end.counts[1] else { panic!("{end:?}") };
        assert!(matches!(loss.reason, LossReason::Fault(_)), "{loss}");
        assert_eq!(loss.to_string(), "CPU 0: PMCR0 is closed to user mode");
    }
}

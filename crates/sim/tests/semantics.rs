//! Machines whose events count by a table that is not their model's, and loops whose counts are known.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::support;

use std::sync::Arc;

use cyclometer_core::CounterMask;
use cyclometer_sim::{
    Activity, Concept, EventSemantics, Model, Semantics, Settings, SimMachine, Tick, Workload,
};
use support::{every, model, on, program, read, run, set, start, values};

/// A machine whose events count as these lines say.
fn machine(id: &str, lines: &str) -> SimMachine {
    machine_with(id, lines, Settings::default())
}

fn machine_with(id: &str, lines: &str, settings: Settings) -> SimMachine {
    let semantics = Semantics::parse(format!("cyclometer-semantics 1\n{lines}").as_bytes()).unwrap();
    SimMachine::with_semantics(model(id), settings, Arc::new(semantics))
}

/// A loop of 7 cycles.
fn copying() -> Activity {
    let amounts = [
        (Concept::Instructions, 8.0),
        (Concept::Loads, 3.0),
        (Concept::Stores, 2.0),
        (Concept::Mispredicts, 0.125),
    ];
    Activity::of_iteration(7, &amounts)
}

/// The counts of events, each on a counter of its own, in so many iterations of [`copying`].
fn counts(machine: &mut SimMachine, events: &[(u8, u16)], iterations: u64) -> Vec<u64> {
    let placed: Vec<_> = events.iter().map(|(counter, select)| on(*counter, *select, 0)).collect();
    let program = program(machine, &placed);
    start(machine, 0, &program);
    let thread = machine.spawn(Workload::iterations(copying(), iterations), &[0]).unwrap();
    while !machine.is_done(thread) {
        run(machine, 100_000);
    }
    values(machine, &program)
}

#[test]
fn the_events_of_a_loop_are_exact_for_every_number_of_iterations() {
    for iterations in [0, 1, 2, 999, 1_000_000] {
        let mut machine = machine(
            "apple-m1",
            "0x11 counters=0x3fc counts instructions\n0x12 counters=0x3fc counts loads + 1/2 stores",
        );
        let counted = counts(&mut machine, &[(2, 0x11), (9, 0x12)], iterations);
        assert_eq!(counted, [8 * iterations, 4 * iterations], "{iterations}");
    }
}

#[test]
fn hidden_events_count_on_their_counters_and_the_models_own_are_gone() {
    let lines = "0x11 counters=0x80 counts loads\n0x11 counters=0x4 counts 1/2 loads\n0xfe counters=0x8 counts stores";
    let mut machine = machine("apple-m1", lines);
    let events = [(7, 0x11), (2, 0x11), (4, 0x11), (3, 0xfe), (6, 0x02)];
    assert_eq!(counts(&mut machine, &events, 1000), [3000, 1500, 0, 2000, 0]);
}

#[test]
fn a_code_has_its_select_and_unit_mask_on_every_family() {
    for (id, select, umask, code) in [
        ("skylake", 0xd1, 0x51, 0x51d1),
        ("amdzen4", 0x1c7, 0x22, 0x1_22c7),
        ("apple-m4", 0x5a1, 0, 0x5a1),
        ("neoverse-n1", 0x4005, 0, 0x4005),
    ] {
        assert_eq!(model(id).code(select, umask), code, "{id}");
        assert_eq!(model(id).select(code), (select, umask), "{id}");
        let mut machine = machine(id, &format!("{code:#x} counters=0x3f counts loads"));
        let counter = model(id).chip.counters.known().general_bits().trailing_zeros() as u8;
        let program = program(&machine, &[on(counter, select, umask)]);
        start(&mut machine, 0, &program);
        machine.spawn(Workload::iterations(copying(), 500), &[0]).unwrap();
        run(&mut machine, 100_000);
        assert_eq!(values(&mut machine, &program), [1500], "{id}");
    }
}

#[test]
fn a_counter_mask_of_the_event_select_replaces_the_rule_of_the_event() {
    let mut machine = machine("skylake", "0x07 counters=0xf counts instructions at-most 1 per cycle");
    for (cmask, expected) in [(0u64, 7000), (1, 7000), (2, 1000), (3, 0)] {
        set(&mut machine, "GLOBAL_CTRL", 0);
        set(&mut machine, "PERFEVTSEL0", 0x41_0007 | cmask << 24);
        set(&mut machine, "IA32_PMC0", 0);
        set(&mut machine, "GLOBAL_CTRL", 1);
        let thread = machine.spawn(Workload::iterations(copying(), 1000), &[0]).unwrap();
        run(&mut machine, 1_000_000);
        assert!(machine.is_done(thread));
        assert_eq!(read(&mut machine, "IA32_PMC0"), expected, "{cmask}");
    }
}

#[test]
fn each_interrupt_of_a_thread_adds_to_an_event_that_counts_them_and_to_no_other() {
    let tick = Some(Tick { every_ns: 50_000, takes_ns: 1_000 });
    let lines = "1 counters=0x3fc counts loads noise 1 per interrupt\n2 counters=0x3fc counts loads + 2 interrupts\n3 counters=0x3fc counts loads";
    let mut machine = machine_with("apple-m1", lines, Settings { tick, ..Settings::default() });
    let iterations = 1_000_000;
    let counted = counts(&mut machine, &[(2, 1), (3, 2), (4, 3)], iterations);
    let thread = machine.spawn(Workload::default(), &[0]).unwrap();
    assert_eq!(machine.truth(thread, Concept::Interrupts), 0);
    let noise = counted[0] - 3 * iterations;
    // 7 million cycles at 3.2 GHz are 2.2 ms, 43 ticks.
    assert!((40..50).contains(&noise), "{noise}");
    assert_eq!(counted[1..], [3 * iterations + 2 * noise, 3 * iterations]);
}

#[test]
fn a_hidden_event_interrupts_after_its_period() {
    let mut machine = machine("apple-m1", "0x11 counters=0x4 counts 1/2 loads after 100 stores");
    let program = program(&machine, &[every(on(2, 0x11, 0), 1000)]);
    start(&mut machine, 0, &program);
    machine.spawn(Workload::iterations(copying(), 100_000), &[0]).unwrap();
    let mut interrupts = 0;
    machine.run(100_000, |_, happening| {
        interrupts += u32::from(matches!(happening, cyclometer_sim::Happening::Interrupt { .. }));
    });
    assert_eq!(interrupts, 1, "the second waits for an acknowledgement");
}

#[test]
fn noise_of_a_loop_leaves_what_its_program_decides() {
    let lines = "1 counters=0x3fc counts loads\n2 counters=0x3fc counts mispredicts";
    let mut machine = machine("apple-m1", lines);
    let program = program(&machine, &[on(2, 1, 0), on(3, 2, 0)]);
    start(&mut machine, 0, &program);
    let noisy = Workload { noise: 0.5, ..Workload::iterations(copying(), 100_000) };
    let thread = machine.spawn(noisy, &[0]).unwrap();
    run(&mut machine, 1_000_000);
    assert!(machine.is_done(thread));
    let [loads, mispredicts] = values(&mut machine, &program)[..] else { panic!("two counters") };
    assert_eq!(loads, 300_000);
    assert!(mispredicts != 12_500 && (6_000..19_000).contains(&mispredicts), "{mispredicts}");
}

#[test]
fn every_model_has_one_meaning_for_a_code_and_counter() {
    for model in Model::ALL {
        assert!(Semantics::new(model.events).is_ok(), "{}", model.id);
        assert_eq!(model.semantics().rows().len(), model.events.len(), "{}", model.id);
    }
}

#[test]
fn speculative_and_retired_misses_are_events_of_their_own() {
    let misses = |id: &str, concept| {
        let rows: Vec<&EventSemantics> =
            model(id).events.iter().filter(|row| row.meaning.is_sum_of(&[concept])).collect();
        rows.iter().map(|row| (row.code, row.counters)).collect::<Vec<_>>()
    };
    let all = CounterMask::from_bits(0x3fc, 0);
    for (id, speculative, retired, counters) in
        [("apple-m1", 0xa3, 0xbf, 0xe0), ("apple-m3", 0x5a3, 0xbf, 0xe0), ("apple-m4", 0x5a3, 0x8bf, 0xfc)]
    {
        assert_eq!(misses(id, Concept::L1dLoadMissesSpeculative), [(speculative, all)], "{id}");
        let retired = [(retired, CounterMask::from_bits(counters, 0))];
        assert_eq!(misses(id, Concept::L1dLoadMisses), retired, "{id}");
    }
}

//! The registers of each chip behave as those of silicon.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::support;

use std::fs;
use std::path::Path;

use cyclometer_arch::{
    Fault, Placed, PmuReg, ProgramOptions, Register, Registers, apple, carry_out, intel, register_program,
    restore,
};
use cyclometer_catalog::table::{TableEvent, text};
use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterId, CounterMask, Modes};
use cyclometer_sim::{Activity, Concept, Model, Settings, SimMachine, Tick, Workload};
use support::{
    counting, every, fixed, model, on, program, read, register, run, running, running_with, set, start,
    values, write,
};

#[test]
fn models_have_the_facts_and_masks_of_the_tables() {
    for model in Model::ALL {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../catalog/data");
        let file = data.join(model.chip.family.word()).join(model.id);
        let table = text::read(&fs::read_to_string(&file).unwrap()).unwrap();
        let (chip, header) = (model.chip, &table.header);
        assert_eq!((chip.family, chip.pmu_version), (header.family, header.pmu_version), "{}", model.id);
        assert_eq!(
            (chip.selector_bits, chip.counters.known()),
            (header.selector_bits, header.counters),
            "{}",
            model.id
        );
        assert_eq!(chip.counter_width, header.counter_width);
        let general_bits = |event: &TableEvent| event.counters.map_or(0, CounterMask::general_bits);
        for row in model.events {
            let known = table.events.iter().find(|event| {
                let code = event.code;
                (code.select, code.umask) == model.select(row.code)
                    && code.cmask == 0
                    && general_bits(event) != 0
            });
            let general = known.map(general_bits);
            assert_eq!(general, Some(row.counters.general_bits()), "{} {row}", model.id);
        }
    }
}

#[test]
fn a_reserved_bit_faults_on_intel_and_is_dropped_elsewhere() {
    let (mut skylake, _) = running("skylake", "loop");
    for (name, value, bits) in [
        ("PERFEVTSEL0", 1u64 << 40 | 0x41_00c5, 1u64 << 40),
        ("FIXED_CTR_CTRL", 0x1222, 0x1000),
        ("GLOBAL_CTRL", 1 << 35, 1 << 35),
        ("GLOBAL_OVF_CTRL", 1 << 10, 1 << 10),
        ("IA32_A_PMC0", 1 << 48, 1 << 48),
        ("FIXED_CTR0", 1 << 63, 1 << 63),
    ] {
        let fault = Fault::Reserved { register: register(&skylake, name), bits };
        assert_eq!(write(&mut skylake, name, value), Err(fault), "{name}");
        assert_eq!(read(&mut skylake, name), 0, "{name}");
    }
    let (mut icelake, _) = running("icelake", "loop");
    assert!(write(&mut icelake, "PERFEVTSEL0", 0x61_00c5).is_err(), "version 5 has no AnyThread");
    assert!(write(&mut skylake, "PERFEVTSEL0", 0x61_00c5).is_ok(), "version 4 has it");
    for (id, name, value, kept) in [
        ("amdzen2", "PERF_CTL0", 0xffff_fff0_0028_00c0u64, 0x300_0000_00c0),
        ("amdzen4", "GLOBAL_CTL", 0xff, 0x3f),
        ("apple-m1", "PMESR0", 0xffff_ffff_1234_5678, 0x1234_5678),
        ("apple-m4", "PMESR0", 0x1122_3344_5566_7788, 0x1122_3344_5566_7788),
        ("apple-m1", "PMCR1", 1 << 60, 0),
        ("neoverse-n1", "PMCNTENSET", 0xff, 0x3f),
    ] {
        let (mut machine, _) = running(id, "loop");
        set(&mut machine, name, value);
        assert_eq!(read(&mut machine, name), kept, "{id} {name}");
    }
}

#[test]
fn a_counter_is_written_with_32_bits_and_sign_or_in_full_width() {
    let (mut machine, _) = running("icelake", "loop");
    set(&mut machine, "IA32_PMC0", 0x1234_8000_0000);
    assert_eq!(read(&mut machine, "IA32_PMC0"), 0xffff_8000_0000);
    set(&mut machine, "IA32_A_PMC0", 0x1234_8000_0000);
    assert_eq!(read(&mut machine, "IA32_PMC0"), 0x1234_8000_0000);
    assert_eq!(read(&mut machine, "PERF_CAPABILITIES") >> 13 & 1, 1);
}

#[test]
fn a_read_only_register_faults_on_intel_and_ignores_writes_on_amd() {
    let (mut machine, _) = running("skylake", "loop");
    let status = register(&machine, "GLOBAL_STATUS");
    assert_eq!(machine.write(0, status, 0), Err(Fault::ReadOnly { register: status }));
    let (mut machine, _) = running("amdzen4", "loop");
    set(&mut machine, "GLOBAL_STATUS", 0x3f);
    assert_eq!(read(&mut machine, "GLOBAL_STATUS"), 0);
}

#[test]
fn a_register_of_another_chip_or_cpu_is_not_there() {
    let (mut machine, _) = running("skylake", "loop");
    let newer = SimMachine::new(model("icelake"), Settings::default());
    let fifth = register(&newer, "PERFEVTSEL4");
    assert_eq!(machine.read(0, fifth), Err(Fault::NoRegister { register: fifth }));
    let first = register(&machine, "PERFEVTSEL0");
    assert_eq!(machine.write(1, first, 0), Err(Fault::NoCpu { cpu: 1 }));
    let metrics = register(&newer, "PERF_METRICS");
    assert_eq!(machine.read(0, metrics), Err(Fault::NoRegister { register: metrics }));
    let nine = PmuReg::of(&model("apple-m1").chip, Register::Apple(apple::Register::Counter(9))).unwrap();
    assert!(machine.read(0, nine).is_err());
}

#[test]
fn amds_legacy_registers_are_the_first_extended_ones() {
    let (mut machine, _) = running("amdzen4", "loop");
    set(&mut machine, "PERF_LEGACY_CTL2", 0x41_00c2);
    assert_eq!(read(&mut machine, "PERF_CTL2"), 0x41_00c2);
    set(&mut machine, "PERF_CTR2", 77);
    assert_eq!(read(&mut machine, "PERF_LEGACY_CTR2"), 77);
}

#[test]
fn every_event_counts_the_truth_on_its_counters_and_nothing_on_others() {
    for model in Model::ALL {
        for row in model.events {
            for counter in (0..10u8).filter(|n| model.chip.counters.known().general_bits() >> n & 1 == 1) {
                let mut machine = SimMachine::new(model, Settings::default());
                let thread = machine.spawn(Workload::named("memory").unwrap(), &[0]).unwrap();
                if row.meaning.is_sum_of(&[Concept::FloatOperations]) && counter % 2 == 1 {
                    continue; // It is the upper half of a pair.
                }
                let (select, umask) = model.select(row.code);
                let program = program(&machine, &[on(counter, select, umask)]);
                start(&mut machine, 0, &program);
                run(&mut machine, 20_000);
                let terms: u64 = row.meaning.terms().map(|term| machine.truth(thread, term.concept)).sum();
                let wrong_paths = u64::from(row.meaning.wrong_paths);
                let truth = terms + wrong_paths * machine.truth(thread, Concept::Mispredicts) / 1000;
                let may = row.counters.general_bits() >> counter & 1 == 1;
                let expected = if may { truth } else { 0 };
                assert_eq!(values(&mut machine, &program), [expected], "{} {row:?} on {counter}", model.id);
            }
        }
    }
}

#[test]
fn fixed_counters_count_their_events() {
    for model in Model::ALL {
        for &(n, concept) in model.fixed {
            let mut machine = SimMachine::new(model, Settings::default());
            let thread = machine.spawn(Workload::named("loop").unwrap(), &[0]).unwrap();
            let program = program(&machine, &[fixed(model.chip.family, n)]);
            start(&mut machine, 0, &program);
            run(&mut machine, 10_000);
            let truth = machine.truth(thread, concept);
            assert!(truth > 0);
            assert_eq!(values(&mut machine, &program), [truth], "{} fixed {n}", model.id);
        }
    }
}

#[test]
fn an_event_that_nobody_documented_counts_nothing() {
    let (mut machine, _) = running("skylake", "loop");
    let program = program(&machine, &[on(0, 0xd1, 0x51)]);
    start(&mut machine, 0, &program);
    run(&mut machine, 10_000);
    assert_eq!(values(&mut machine, &program), [0]);
}

#[test]
fn modes_are_counted_apart() {
    for id in ["skylake", "amdzen2", "amdzen4", "apple-m1", "apple-m4", "neoverse-n1"] {
        let tick = Some(Tick { every_ns: 10_000, takes_ns: 1_000 });
        let (mut machine, thread) = running_with(id, "loop", Settings { tick, ..Settings::default() });
        let event = counting(machine.model(), Concept::Cycles).unwrap();
        let place = |n: u8, modes| {
            let counter = cyclometer_core::CounterId::General(n);
            cyclometer_arch::Placed { counter, modes, ..event }
        };
        let all = [place(2, Modes::USER), place(3, Modes::KERNEL), place(4, Modes::USER_KERNEL)];
        let placed = if id == "skylake" { all.map(shifted_down) } else { all };
        let program = program(&machine, &placed);
        start(&mut machine, 0, &program);
        run(&mut machine, 100_000);
        let (user, kernel) =
            (machine.truth(thread, Concept::Cycles), machine.kernel_truth(0, Concept::Cycles));
        assert!(kernel > 0 && user > kernel, "{id}");
        assert_eq!(values(&mut machine, &program), [user, kernel, user + kernel], "{id}");
    }
}

/// The same one counter lower: Skylake has four.
fn shifted_down(placed: cyclometer_arch::Placed) -> cyclometer_arch::Placed {
    match placed.counter {
        cyclometer_core::CounterId::General(n) => {
            cyclometer_arch::Placed { counter: cyclometer_core::CounterId::General(n - 1), ..placed }
        }
        cyclometer_core::CounterId::Fixed(_) => placed,
    }
}

#[test]
fn writes_act_after_a_barrier_on_apple_and_arm_and_at_once_on_x86() {
    for (id, at_once) in [("apple-m4", false), ("neoverse-n1", false), ("skylake", true), ("amdzen4", true)] {
        let (mut machine, thread) = running(id, "loop");
        let event = counting(machine.model(), Concept::Cycles).unwrap();
        let program = program(&machine, &[event]);
        for step in program.set_up.iter().chain(&program.start) {
            if let cyclometer_arch::Step::Write(bits) = step {
                let before = machine.read(0, bits.register).unwrap();
                machine.write(0, bits.register, bits.over(before)).unwrap();
            }
        }
        run(&mut machine, 1_000);
        let expected = if at_once { machine.truth(thread, Concept::Cycles) } else { 0 };
        assert_eq!(values(&mut machine, &program), [expected], "{id}");
        machine.barrier(0);
        run(&mut machine, 1_000);
        assert!(values(&mut machine, &program)[0] > 0, "{id}");
    }
}

#[test]
fn m1_overflows_at_bit_47_and_counts_on_and_the_flag_drops_with_a_write_below_it() {
    let (mut machine, _) = running("apple-m1", "loop");
    let event = counting(machine.model(), Concept::Cycles).unwrap();
    let program = program(&machine, &[event]);
    start(&mut machine, 0, &program);
    set(&mut machine, "PMC2", (1 << 47) - 3200);
    run(&mut machine, 900);
    assert_eq!(read(&mut machine, "PMSR"), 0);
    run(&mut machine, 200);
    assert_eq!(read(&mut machine, "PMSR"), 1 << 2);
    let value = read(&mut machine, "PMC2");
    assert!(value > 1 << 47 && value < (1 << 47) + 4000, "{value:#x}");
    set(&mut machine, "PMC2", 1 << 47 | 5);
    assert_eq!(read(&mut machine, "PMSR"), 1 << 2);
    set(&mut machine, "PMC2", 5);
    assert_eq!(read(&mut machine, "PMSR"), 0);
}

#[test]
fn counters_wrap_at_their_width_and_say_so() {
    for (id, name, status, width, bit) in [
        ("skylake", "IA32_A_PMC0", "GLOBAL_STATUS", 48, 0),
        ("amdzen4", "PERF_CTR0", "GLOBAL_STATUS", 48, 0),
        ("neoverse-n1", "PMEVCNTR0", "PMOVSSET", 32, 0),
        ("apple-m2", "PMC2", "PMSR", 63, 2),
    ] {
        let (mut machine, thread) = running(id, "loop");
        let event = counting(machine.model(), Concept::Cycles).unwrap();
        let program = program(&machine, &[event]);
        start(&mut machine, 0, &program);
        let first = (1u64 << width) - 1000;
        set(&mut machine, name, first);
        run(&mut machine, 10_000);
        let expected = (first + machine.truth(thread, Concept::Cycles))
            & if id == "apple-m2" { u64::MAX } else { (1 << width) - 1 };
        assert_eq!(values(&mut machine, &program), [expected], "{id}");
        assert_eq!(read(&mut machine, status), 1 << bit, "{id}");
    }
}

#[test]
fn the_cycle_counter_of_pmuv3_overflows_at_32_bits_unless_it_is_told_otherwise() {
    for (control, flag) in [(0x01, 1u64 << 31), (0x41, 0)] {
        let (mut machine, _) = running("neoverse-n1", "loop");
        set(&mut machine, "PMCCNTR", 0xffff_ff00);
        set(&mut machine, "PMCNTENSET", 1 << 31);
        set(&mut machine, "PMCR", control);
        machine.barrier(0);
        run(&mut machine, 1_000);
        assert_eq!(read(&mut machine, "PMOVSSET"), flag, "{control:#x}");
        assert!(read(&mut machine, "PMCCNTR") > 0xffff_ffff);
    }
}

#[test]
fn pmcr_says_how_many_counters_there_are_and_resets_them() {
    let (mut machine, _) = running("neoverse-n1", "loop");
    assert_eq!(read(&mut machine, "PMCR") >> 11 & 0x1f, 6);
    set(&mut machine, "PMEVCNTR1", 5);
    set(&mut machine, "PMCCNTR", 6);
    set(&mut machine, "PMCR", 0b010);
    assert_eq!((read(&mut machine, "PMEVCNTR1"), read(&mut machine, "PMCCNTR")), (0, 6));
    set(&mut machine, "PMCR", 0b100);
    assert_eq!(read(&mut machine, "PMCCNTR"), 0);
    assert_eq!(read(&mut machine, "PMCEID0") >> 0x11 & 1, 1);
}

#[test]
fn zen_4_counts_only_what_both_registers_enable_and_zen_2_has_one() {
    let (mut machine, thread) = running("amdzen4", "loop");
    set(&mut machine, "PERF_CTL0", 0x41_0076);
    run(&mut machine, 1_000);
    assert_eq!(read(&mut machine, "PERF_CTR0"), 0);
    set(&mut machine, "GLOBAL_CTL", 1);
    let before = machine.truth(thread, Concept::Cycles);
    run(&mut machine, 1_000);
    assert_eq!(read(&mut machine, "PERF_CTR0"), machine.truth(thread, Concept::Cycles) - before);
    let (mut machine, thread) = running("amdzen2", "loop");
    set(&mut machine, "PERF_CTL0", 0x41_0076);
    run(&mut machine, 1_000);
    assert_eq!(read(&mut machine, "PERF_CTR0"), machine.truth(thread, Concept::Cycles));
    set(&mut machine, "PERF_CTL0", 0x41_0076 | 1 << 40);
    let before = read(&mut machine, "PERF_CTR0");
    run(&mut machine, 1_000);
    assert_eq!(read(&mut machine, "PERF_CTR0"), before, "no guest runs here");
}

#[test]
fn a_program_with_shares_counts_the_slots_of_each_kind_as_far_as_255ths_tell() {
    for (id, shares) in [("icelake", 4), ("sapphirerapids", 8)] {
        let (mut machine, thread) = running(id, "loop");
        let share = |n: u8| Placed {
            counter: CounterId::Fixed(intel::METRICS_BASE + n),
            ..on(0, 0, intel::METRICS_UMASK + n)
        };
        let slots = fixed(Family::Intel, intel::SLOTS);
        let placed: Vec<Placed> = std::iter::once(slots).chain((0..shares).map(share)).collect();
        let options = ProgramOptions { has_second_level: shares == 8, ..ProgramOptions::default() };
        let program = register_program(&machine.model().chip, &placed, options).unwrap();
        start(&mut machine, 0, &program);
        run(&mut machine, 20_000);
        let before = values(&mut machine, &program);
        run(&mut machine, 100_000);
        let counts = program.counts(&[0; 9][..placed.len()], &values(&mut machine, &program)).unwrap();
        assert_eq!(counts[0], machine.truth(thread, Concept::Slots), "{id}");
        for (count, concept) in counts[1..].iter().zip(Activity::SLOT_PARTS) {
            let truth = machine.truth(thread, concept);
            assert!(
                truth >= *count && truth - count <= counts[0] / 255 + 1,
                "{id} {concept:?}: {count} {truth}"
            );
        }
        let later = program.counts(&before, &values(&mut machine, &program)).unwrap();
        assert!(later[0] > 0 && later[0] < counts[0], "{id}");
        assert!(later[1] > 0 && later[1] < counts[1], "{id}");
    }
}

#[test]
fn perf_metrics_are_shares_of_slots_since_the_last_write() {
    for (id, expected) in
        [("icelake", [191, 15, 31, 15, 0, 0, 0, 0]), ("sapphirerapids", [191, 15, 31, 15, 31, 7, 15, 7])]
    {
        let (mut machine, thread) = running(id, "loop");
        assert_eq!(read(&mut machine, "PERF_CAPABILITIES") >> 15 & 1, 1);
        set(&mut machine, "FIXED_CTR_CTRL", 0x2000);
        set(&mut machine, "GLOBAL_CTRL", 1 << 35);
        run(&mut machine, 10_000);
        assert_eq!(read(&mut machine, "PERF_METRICS"), 0, "{id}");
        set(&mut machine, "GLOBAL_CTRL", 1 << 48 | 1 << 35);
        run(&mut machine, 10_000);
        assert_eq!(read(&mut machine, "PERF_METRICS").to_le_bytes(), expected, "{id}");
        assert_eq!(read(&mut machine, "FIXED_CTR3"), machine.truth(thread, Concept::Slots), "{id}");
        set(&mut machine, "PERF_METRICS", 0);
        assert_eq!(read(&mut machine, "PERF_METRICS"), 0, "{id}");
        run(&mut machine, 10_000);
        assert_eq!(read(&mut machine, "PERF_METRICS").to_le_bytes(), expected, "{id}");
    }
    let (mut machine, _) = running("skylake", "loop");
    assert!(write(&mut machine, "GLOBAL_CTRL", 1 << 48).is_err());
}

#[test]
fn one_counter_of_zen_takes_15_events_a_cycle_and_a_pair_takes_all() {
    for (id, umask) in [("amdzen2", 0xff), ("amdzen4", 0x1f)] {
        let (mut machine, thread) = running(id, "vector");
        let pair = program(&machine, &[on(2, 0x03, umask)]);
        start(&mut machine, 0, &pair);
        run(&mut machine, 10_000);
        let truth = machine.truth(thread, Concept::FloatOperations);
        assert_eq!(values(&mut machine, &pair), [truth], "{id}");
        let cycles = machine.truth(thread, Concept::Cycles);
        assert_eq!(truth, 16 * cycles, "{id}");
        set(&mut machine, "PERF_CTL3", 0);
        run(&mut machine, 10_000);
        let since = machine.truth(thread, Concept::Cycles) - cycles;
        assert_eq!(values(&mut machine, &pair), [truth + 15 * since], "{id}");
    }
}

#[test]
fn global_in_use_tells_what_somebody_has_set_up() {
    let (mut machine, _) = running("skylake", "loop");
    assert_eq!(read(&mut machine, "GLOBAL_INUSE"), 0);
    set(&mut machine, "PERFEVTSEL2", 0x41_00c5);
    set(&mut machine, "FIXED_CTR_CTRL", 0xb0);
    assert_eq!(read(&mut machine, "GLOBAL_INUSE"), 1 << 63 | 1 << 33 | 1 << 2);
}

#[test]
fn user_mode_gets_at_registers_only_where_apples_bit_30_says_so() {
    let (mut machine, _) = running("apple-m1", "loop");
    machine.use_from_user_mode(true);
    let control = register(&machine, "PMCR0");
    assert_eq!(machine.read(0, control), Err(Fault::Privilege { register: control }));
    machine.open_to_user();
    assert_eq!(machine.read(0, control), Ok(1 << 30));
    let (mut machine, _) = running("skylake", "loop");
    machine.use_from_user_mode(true);
    machine.open_to_user();
    assert!(matches!(machine.read(0, register(&machine, "IA32_PMC0")), Err(Fault::Privilege { .. })));
}

#[test]
fn a_program_that_is_torn_down_or_restored_leaves_what_was_there() {
    for model in Model::ALL {
        let mut machine = SimMachine::new(model, Settings::default());
        let event = counting(model, Concept::Cycles).unwrap();
        let used = program(&machine, &[every(event, 100_000)]);
        // The counter is unused before, then another user takes it.
        for _ in 0..2 {
            let mut now = |entry| machine.read(0, entry).unwrap();
            let saved: Vec<(PmuReg, u64)> =
                used.touched().into_iter().map(|entry| (entry, now(entry))).collect();
            start(&mut machine, 0, &used);
            carry_out(&restore(&used, &saved), &mut machine, 0).unwrap();
            for (entry, value) in &saved {
                assert_eq!(machine.read(0, *entry), Ok(*value), "{} {entry}", model.id);
            }
            start(&mut machine, 0, &used);
        }
        carry_out(&used.tear_down, &mut machine, 0).unwrap();
        let before = values(&mut machine, &used);
        machine.spawn(Workload::named("loop").unwrap(), &[0]).unwrap();
        run(&mut machine, 5_000);
        assert_eq!(values(&mut machine, &used), before, "{}", model.id);
    }
}

#[test]
fn families_other_than_these_have_no_model() {
    assert_eq!(Model::find("u74"), None);
    assert!(Model::ALL.iter().all(|model| model.chip.family != Family::RiscV));
}

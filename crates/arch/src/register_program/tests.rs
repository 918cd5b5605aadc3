//! Register programs: known ones, and what every one of them keeps to.

use std::collections::HashMap;
use std::num::NonZeroU64;

use cyclometer_core::{CounterId, CounterMask, EventCode, Modes};
use proptest::prelude::*;

use super::*;
use crate::decode;
use crate::testing::{lion_cove, m1, m3, neoverse, sapphire_rapids, skylake, u74, zen2, zen4};

fn event(select: u16, umask: u8) -> Coded {
    Coded::new(EventCode { select, umask, ..EventCode::default() })
}

/// The event of a fixed counter.
fn fixed(chip: &Chip, n: u8) -> Coded {
    let umask = if chip.family == Family::Intel { n + 1 } else { 0 };
    event(0, umask).on(CounterMask::from_bits(0, 1 << n))
}

fn placed(coded: Coded, counter: CounterId, modes: Modes) -> Placed {
    Placed { coded, counter, modes, period: None }
}

fn with_period(event: Placed, period: u64) -> Placed {
    Placed { period: NonZeroU64::new(period), ..event }
}

fn plain(chip: &Chip, events: &[Placed]) -> Result<RegisterProgram, EncodeError> {
    register_program(chip, events, ProgramOptions::default())
}

/// `name address = value`, and the bits that are meant unless all are.
fn shown(steps: &[Step]) -> Vec<String> {
    let one = |step: &Step| match step {
        Step::Barrier => "barrier".to_owned(),
        Step::Write(RegisterBits { register, value, mask: u64::MAX }) => {
            format!("{register} {} = {value:#x}", register.address())
        }
        Step::Write(RegisterBits { register, value, mask }) => {
            format!("{register} {} = {value:#x} of {mask:#x}", register.address())
        }
    };
    steps.iter().map(one).collect()
}

/// The three fixed counters and four events of a known driver for Windows: misses of branches, uops, loads, stores.
fn seven_counters(chip: &Chip) -> Vec<Placed> {
    let codes = [(0xc5, 0), (0xc2, 1), (0xd0, 0x81), (0xd0, 0x82)];
    let general =
        codes.iter().zip(0u8..).map(|((select, umask), n)| (event(*select, *umask), CounterId::General(n)));
    let fixed = (0..3u8).map(|n| (fixed(chip, n), CounterId::Fixed(n)));
    fixed.chain(general).map(|(coded, counter)| placed(coded, counter, Modes::USER)).collect()
}

#[test]
fn seven_counters_are_polled_with_the_values_of_the_tutorial() {
    let program = plain(&skylake(), &seven_counters(&skylake())).unwrap();
    let expected = [
        "IA32_PERF_GLOBAL_CTRL 0x38f = 0x0 of 0x70000000f",
        "barrier",
        "IA32_PERFEVTSEL0 0x186 = 0x4100c5",
        "IA32_PERFEVTSEL1 0x187 = 0x4101c2",
        "IA32_PERFEVTSEL2 0x188 = 0x4181d0",
        "IA32_PERFEVTSEL3 0x189 = 0x4182d0",
        "IA32_FIXED_CTR_CTRL 0x38d = 0x222 of 0xfff",
        "IA32_PERF_GLOBAL_STATUS_RESET 0x390 = 0x70000000f",
        "IA32_FIXED_CTR0 0x309 = 0x0",
        "IA32_FIXED_CTR1 0x30a = 0x0",
        "IA32_FIXED_CTR2 0x30b = 0x0",
        "IA32_PMC0 0xc1 = 0x0",
        "IA32_PMC1 0xc2 = 0x0",
        "IA32_PMC2 0xc3 = 0x0",
        "IA32_PMC3 0xc4 = 0x0",
        "barrier",
    ];
    assert_eq!(shown(&program.set_up), expected);
    assert_eq!(
        shown(&program.start),
        ["IA32_PERF_GLOBAL_CTRL 0x38f = 0x70000000f of 0x70000000f", "barrier"]
    );
    assert_eq!(shown(&program.stop), ["IA32_PERF_GLOBAL_CTRL 0x38f = 0x0 of 0x70000000f", "barrier"]);
    let read: Vec<String> = program.reads.iter().map(|read| read.register.address().to_string()).collect();
    assert_eq!(read, ["0x309", "0x30a", "0x30b", "0xc1", "0xc2", "0xc3", "0xc4"]);
}

#[test]
fn sampling_presets_the_first_fixed_counter_and_lets_it_interrupt_and_zeroes_no_preset() {
    let mut events = seven_counters(&skylake());
    events[0] = with_period(events[0], 512_000);
    let program = plain(&skylake(), &events).unwrap();
    let set_up = shown(&program.set_up);
    assert!(set_up.contains(&"IA32_FIXED_CTR_CTRL 0x38d = 0x22a of 0xfff".to_owned()), "{set_up:?}");
    let threshold = -512_000i64 as u64 & 0xffff_ffff_ffff;
    let of_counter: Vec<&String> = set_up.iter().filter(|step| step.contains(" 0x309 ")).collect();
    assert_eq!(of_counter, [&format!("IA32_FIXED_CTR0 0x309 = {threshold:#x}")]);
    assert_eq!(program.reads[0].preset, 0xffff_fff8_3000);
    assert_eq!(program.acknowledge(0), []);
    // The bit of its overflow, as the tutorial clears it.
    assert_eq!(shown(&program.acknowledge(1 << 32))[0], "IA32_PERF_GLOBAL_STATUS_RESET 0x390 = 0x100000000");
}

#[test]
fn frozen_counters_are_thawed_with_the_flags_that_were_seen() {
    let mut events = seven_counters(&sapphire_rapids());
    events[0] = with_period(events[0], 512_000);
    assert_eq!(plain(&sapphire_rapids(), &events).unwrap().acknowledged(), None);
    let options = ProgramOptions { freeze_on_interrupt: true, ..ProgramOptions::default() };
    let program = register_program(&sapphire_rapids(), &events, options).unwrap();
    let thaw = "IA32_PERF_GLOBAL_STATUS_RESET 0x390 = 0x800000000000000";
    assert_eq!(shown(&program.acknowledge(0)), [thaw, "barrier"]);
    let thawed = program.acknowledged().unwrap();
    assert_eq!(
        (thawed.register.to_string().as_str(), thawed.value, thawed.mask),
        ("IA32_PERF_GLOBAL_STATUS", 0, 1 << 59)
    );
}

#[test]
fn m4_counts_loads_that_miss_on_pmc2_and_tlb_misses_on_pmc6() {
    let events = [
        placed(event(0x5a3, 0), CounterId::General(2), Modes::USER_KERNEL),
        placed(event(0x5a1, 0), CounterId::General(6), Modes::USER_KERNEL),
    ];
    let options = ProgramOptions { user_access: true, ..ProgramOptions::default() };
    let program = register_program(&m3(), &events, options).unwrap();
    assert_eq!(
        shown(&program.set_up),
        [
            "PMCR0 S3_1_C15_C0_0 = 0x0 of 0x44044",
            "barrier",
            "PMESR0 S3_1_C15_C5_0 = 0x5a3 of 0xffff",
            "PMESR1 S3_1_C15_C6_0 = 0x5a1 of 0xffff",
            "PMCR1 S3_1_C15_C1_0 = 0x444400 of 0x444400",
            "PMC2 S3_2_C15_C2_0 = 0x0",
            "PMC6 S3_2_C15_C6_0 = 0x0",
            "barrier",
        ]
    );
    assert_eq!(shown(&program.start), ["PMCR0 S3_1_C15_C0_0 = 0x40000044 of 0x40044044", "barrier"]);
    assert_eq!(shown(&program.tear_down).last().map(String::as_str), Some("barrier"));
    assert!(shown(&program.tear_down).contains(&"PMCR0 S3_1_C15_C0_0 = 0x0 of 0x40000000".to_owned()));
    assert!(program.holds.iter().any(|bits| bits.value == 0x4000_0044 && bits.are_in(0x4000_0047)));
}

#[test]
fn m1_presets_below_bit_47_and_selects_in_8_bits() {
    let on_seven = placed(event(0x8c, 0), CounterId::General(7), Modes::USER);
    let options = ProgramOptions { freeze_on_interrupt: true, ..ProgramOptions::default() };
    let program = register_program(&m1(), &[with_period(on_seven, 1 << 20)], options).unwrap();
    assert_eq!(program.reads[0].preset, (1 << 47) - (1 << 20));
    assert!(shown(&program.set_up).contains(&"PMESR1 S3_1_C15_C6_0 = 0x8c00 of 0xff00".to_owned()));
    // Enabled, interrupting as a FIQ, stopping all counters.
    assert_eq!(shown(&program.start)[0], "PMCR0 S3_1_C15_C0_0 = 0x180480 of 0x180780");
    assert_eq!(shown(&program.stop)[0], "PMCR0 S3_1_C15_C0_0 = 0x0 of 0x80080");
    assert_eq!(shown(&program.acknowledge(1 << 7)), ["PMCR0 S3_1_C15_C0_0 = 0x0 of 0x800", "barrier"]);
    assert_eq!(program.acknowledged().map(|bits| (bits.value, bits.mask)), Some((0, 0x800)));
}

#[test]
fn zen_2_has_no_global_register_and_starts_by_its_event_selects() {
    let events = [placed(event(0x76, 0), CounterId::General(0), Modes::USER_KERNEL)];
    let program = plain(&zen2(), &events).unwrap();
    assert_eq!(
        shown(&program.set_up),
        ["PERF_CTL0 0xc0010200 = 0x30076", "barrier", "PERF_CTR0 0xc0010201 = 0x0", "barrier"]
    );
    assert_eq!(shown(&program.start), ["PERF_CTL0 0xc0010200 = 0x430076", "barrier"]);
    assert_eq!(shown(&program.stop), ["PERF_CTL0 0xc0010200 = 0x30076", "barrier"]);
    assert_eq!(program.status, None);
    assert_eq!(program.acknowledge(1), []);
}

#[test]
fn zen_4_gives_a_large_event_two_counters_and_starts_by_the_global_register() {
    let events = [placed(event(0x003, 8), CounterId::General(2), Modes::USER)];
    let program = plain(&zen4(), &events).unwrap();
    let set_up = shown(&program.set_up);
    assert!(set_up.contains(&"PERF_CTL3 0xc0010206 = 0xf004000ff".to_owned()), "{set_up:?}");
    assert!(set_up.contains(&"PERF_CTR3 0xc0010207 = 0x0".to_owned()), "{set_up:?}");
    assert_eq!(shown(&program.start)[0], "PERF_CNTR_GLOBAL_CTL 0xc0000301 = 0xc of 0xc");
    let behind = placed(event(0x76, 0), CounterId::General(3), Modes::USER);
    let twice = plain(&zen4(), &[events[0], behind]);
    assert_eq!(twice, Err(EncodeError::CounterTwice { counter: CounterId::General(3) }));
}

#[test]
fn pmuv3_clears_before_it_sets_and_enables_its_counters_last() {
    let chip = Chip { counter_width_bits: 32, overflow_bit: 32, ..neoverse() };
    let cycles = fixed(&chip, arm::CYCLE_COUNTER);
    let events = [
        with_period(placed(event(0x08, 0), CounterId::General(1), Modes::USER), 1000),
        placed(cycles, CounterId::Fixed(31), Modes::USER),
    ];
    let program = plain(&chip, &events).unwrap();
    assert_eq!(
        shown(&program.set_up),
        [
            "PMCNTENCLR_EL0 S3_3_C9_C12_2 = 0x80000002",
            "barrier",
            "PMINTENCLR_EL1 S3_0_C9_C14_2 = 0x80000002",
            "PMOVSCLR_EL0 S3_3_C9_C12_3 = 0x80000002",
            "PMEVTYPER1_EL0 S3_3_C14_C12_1 = 0x80000008",
            "PMCCFILTR_EL0 S3_3_C14_C15_7 = 0x80000000",
            "PMINTENSET_EL1 S3_0_C9_C14_1 = 0x2 of 0x2",
            "PMCR_EL0 S3_3_C9_C12_0 = 0x41 of 0x41",
            "PMEVCNTR1_EL0 S3_3_C14_C8_1 = 0xfffffc18",
            "PMCCNTR_EL0 S3_3_C9_C13_0 = 0x0",
            "barrier",
        ]
    );
    assert_eq!(shown(&program.start), ["PMCNTENSET_EL0 S3_3_C9_C12_1 = 0x80000002 of 0x80000002", "barrier"]);
    assert_eq!((program.reads[0].width_bits, program.reads[1].width_bits), (32, 64));
    assert_eq!(program.reads[0].between(0xffff_fff0, 0x10), 0x20);
}

#[test]
fn bad_programs_are_refused_by_name() {
    let on = |n| CounterId::General(n);
    let user = |coded, counter| placed(coded, counter, Modes::USER);
    let error = |chip: &Chip, events: &[Placed]| plain(chip, events).unwrap_err().to_string();
    let misses = event(0xc5, 0);
    assert_eq!(
        error(&skylake(), &[user(misses, on(8))]),
        "the event cannot be counted on counter 8; it may use 0-7"
    );
    assert_eq!(
        error(&skylake(), &[user(misses, on(200))]),
        "the event cannot be counted on counter 200; it may use 0-7"
    );
    assert_eq!(error(&m1(), &[user(event(0x5a3, 0), on(2))]), "event=0x5a3 does not fit; at most 0xff does");
    assert_eq!(
        error(&skylake(), &[user(misses, on(0)), user(event(0xc4, 0), on(0))]),
        "two events are to be counted on counter 0"
    );
    assert_eq!(
        error(&skylake(), &[with_period(user(misses, on(0)), (1 << 31) + 1)]),
        "period=0x80000001 does not fit; at most 0x80000000 does"
    );
    assert_eq!(
        error(&m1(), &[with_period(user(event(0x8c, 0), on(7)), (1 << 46) + 1)]),
        "period=0x400000000001 does not fit; at most 0x400000000000 does"
    );
    assert_eq!(
        error(&sapphire_rapids(), &[user(event(0, 0x80), CounterId::Fixed(3))]),
        "the event is a share of slots, which no counter counts"
    );
    assert_eq!(error(&u74(), &[user(event(1, 0), on(3))]), "the firmware chooses the counter and its code");
    let freezing = ProgramOptions { freeze_on_interrupt: true, ..ProgramOptions::default() };
    let refused = register_program(&zen2(), &[user(misses, on(0))], freezing).unwrap_err().to_string();
    assert_eq!(refused, "the amd layout has no field 'freeze on interrupt' at PMU version 1");
}

#[test]
fn a_full_width_write_takes_a_period_that_a_narrow_one_does_not() {
    let event = with_period(placed(event(0xc5, 0), CounterId::General(1), Modes::USER), 1 << 40);
    let wide = ProgramOptions { full_width_writes: true, ..ProgramOptions::default() };
    let program = register_program(&skylake(), &[event], wide).unwrap();
    assert!(shown(&program.set_up).contains(&"IA32_A_PMC1 0x4c2 = 0xff0000000000".to_owned()));
    let CounterRead { register, preset_register, .. } = program.reads[0];
    assert_eq!(
        (register.to_string().as_str(), preset_register.to_string().as_str()),
        ("IA32_PMC1", "IA32_A_PMC1")
    );
    assert!(plain(&skylake(), &[event]).is_err());
}

/// Registers that hold what is written, as far as they keep anything.
#[derive(Default)]
struct Plain {
    values: HashMap<PmuReg, u64>,
}

impl Registers for Plain {
    fn read(&mut self, _: u32, register: PmuReg) -> Result<u64, Fault> {
        Ok(self.values.get(&register).copied().unwrap_or(0))
    }

    fn write(&mut self, _: u32, register: PmuReg, value: u64) -> Result<(), Fault> {
        if keeps_what_is_written(register.register()) {
            self.values.insert(register, value);
        }
        Ok(())
    }

    fn barrier(&mut self, _: u32) {}
}

/// A chip and events on different counters of it.
fn plans() -> impl Strategy<Value = (Chip, Vec<Placed>)> {
    let chips = vec![skylake(), sapphire_rapids(), lion_cove(), zen2(), zen4(), neoverse(), m1(), m3()];
    let modes = prop::sample::select(vec![Modes::USER, Modes::KERNEL, Modes::USER_KERNEL]);
    let one = (4u16..=0xff, any::<u8>(), modes, prop::option::of(1u64..1 << 31));
    (prop::sample::select(chips), prop::collection::vec(one, 32)).prop_flat_map(|(chip, events)| {
        let counters: Vec<CounterId> = chip.counters.iter().collect();
        let most = counters.len();
        prop::sample::subsequence(counters, 1..=most).prop_map(move |counters| {
            let place =
                |(counter, (select, umask, modes, period)): (&CounterId, &(u16, u8, Modes, Option<u64>))| {
                    let umask = if matches!(chip.family, Family::Intel | Family::Amd) { *umask } else { 0 };
                    let coded = match counter {
                        CounterId::Fixed(n) => fixed(&chip, *n),
                        CounterId::General(_) => event(*select, umask),
                    };
                    let period = period.and_then(NonZeroU64::new);
                    Placed { coded, counter: *counter, modes: *modes, period }
                };
            (chip, counters.iter().zip(&events).map(place).collect())
        })
    })
}

proptest! {
    #[test]
    fn the_registers_of_a_program_decode_to_its_events((chip, events) in plans()) {
        let program = plain(&chip, &events).unwrap();
        let mut registers = Plain::default();
        carry_out(&program.set_up, &mut registers, 0).unwrap();
        carry_out(&program.start, &mut registers, 0).unwrap();
        for event in &events {
            let found = registers.values.iter().any(|(register, value)| {
                decode(&chip, register.register(), *value).events.iter().any(|decoded| {
                    let code = chip.family == Family::Arm && matches!(event.counter, CounterId::Fixed(_))
                        || decoded.code == event.coded.code;
                    decoded.counter == Some(event.counter) && code
                })
            });
            prop_assert!(found, "{event:?}");
        }
        prop_assert!(program.holds.iter().all(|bits| bits.are_in(registers.values[&bits.register])));
    }

    #[test]
    fn a_program_that_is_stopped_rests_and_one_that_counts_holds((chip, events) in plans()) {
        let program = plain(&chip, &events).unwrap();
        let mut registers = Plain::default();
        carry_out(&program.set_up, &mut registers, 0).unwrap();
        let are_in = |bits: &[RegisterBits], registers: &Plain| {
            bits.iter().all(|bits| bits.are_in(registers.values[&bits.register]))
        };
        prop_assert!(!program.rests.is_empty() && are_in(&program.rests, &registers));
        carry_out(&program.start, &mut registers, 0).unwrap();
        prop_assert!(are_in(&program.holds, &registers));
        carry_out(&program.stop, &mut registers, 0).unwrap();
        prop_assert!(are_in(&program.rests, &registers));
    }

    #[test]
    fn what_each_event_holds_alone_is_held_together((chip, events) in plans()) {
        let program = plain(&chip, &events).unwrap();
        let mut registers = Plain::default();
        carry_out(&program.set_up, &mut registers, 0).unwrap();
        for event in &events {
            let alone = plain(&chip, &[*event]).unwrap();
            for bits in &alone.rests {
                prop_assert!(bits.are_in(registers.values[&bits.register]), "{event:?} {bits:?}");
            }
        }
        carry_out(&program.start, &mut registers, 0).unwrap();
        for event in &events {
            let alone = plain(&chip, &[*event]).unwrap();
            for bits in &alone.holds {
                prop_assert!(bits.are_in(registers.values[&bits.register]), "{event:?} {bits:?}");
            }
        }
    }

    #[test]
    fn a_program_writes_no_bit_that_a_driver_may_not((chip, events) in plans()) {
        let program = plain(&chip, &events).unwrap();
        for steps in [&program.set_up, &program.start, &program.stop, &program.tear_down] {
            for step in steps {
                if let Step::Write(bits) = step {
                    let writable = bits.register.access().writable();
                    prop_assert_eq!(bits.value & !bits.mask, 0);
                    prop_assert!(bits.mask & !writable == 0, "{}", bits.register);
                }
            }
            prop_assert!(matches!(steps.last(), Some(Step::Barrier)));
        }
    }

    #[test]
    fn what_was_saved_is_there_again_after_restoring((chip, events) in plans(), old: u64) {
        let program = plain(&chip, &events).unwrap();
        let mut registers = Plain::default();
        // An enabled set of Arm can only grow here: nothing of ours is in it.
        let fill = if chip.family == Family::Arm { 0 } else { old };
        let saved: Vec<(PmuReg, u64)> = program.touched().into_iter().map(|register| (register, fill)).collect();
        registers.values.extend(saved.iter().copied());
        carry_out(&program.set_up, &mut registers, 0).unwrap();
        carry_out(&program.start, &mut registers, 0).unwrap();
        carry_out(&restore(&program, &saved), &mut registers, 0).unwrap();
        for (register, value) in saved {
            let expected = value & register.access().writable();
            prop_assert_eq!(registers.values[&register] & register.access().writable(), expected, "{}", register);
        }
    }

    #[test]
    fn a_period_is_that_far_below_the_overflow((chip, events) in plans()) {
        let program = plain(&chip, &events).unwrap();
        for (event, read) in events.iter().zip(&program.reads) {
            let overflow = if chip.family == Family::Apple { chip.overflow_bit } else { read.width_bits };
            let top = 1u64.checked_shl(overflow).unwrap_or(0);
            let expected = event.period.map_or(0, |period| top.wrapping_sub(period.get()) & low_mask(read.width_bits));
            prop_assert_eq!(read.preset, expected);
        }
    }
}

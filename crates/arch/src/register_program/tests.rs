//! Register programs: known ones, and what every one of them keeps to.

use std::collections::HashMap;
use std::num::NonZeroU64;

use cyclometer_core::{CounterId, CounterMask, CounterWidth, EventCode, Modes};
use proptest::prelude::*;

use super::*;
use crate::ChipCounters;
use crate::testing::{lion_cove, m1, m3, neoverse, sapphire_rapids, skylake, u74, zen2, zen4};
use crate::{DecodedEvent, decode};

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

/// The three fixed counters and four events of a known driver for Windows: misses of branches, uops, loads,
/// stores.
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
    let chip = Chip { counter_width: Some(CounterWidth::carrying(32)), ..neoverse() };
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

/// The error of a program, and its remedy.
fn refused(chip: &Chip, events: &[Placed], options: ProgramOptions) -> (String, String) {
    let error: cyclometer_core::Error = register_program(chip, events, options).unwrap_err().into();
    (error.to_string(), error.recovery().to_string())
}

fn user(coded: Coded, counter: CounterId) -> Placed {
    placed(coded, counter, Modes::USER)
}

const PLAIN: ProgramOptions = ProgramOptions {
    full_width_writes: false,
    freeze_on_interrupt: false,
    has_freeze_on_overflow: false,
    has_second_level: false,
    v6_registers: false,
    user_access: false,
};

#[test]
fn a_counter_that_is_not_there_is_named_with_those_that_are() {
    let misses = event(0xc5, 0);
    let cases = [
        (skylake(), CounterId::General(8), "this CPU has no counter 8; it has 0-7, fixed 0-2"),
        (skylake(), CounterId::General(200), "this CPU has no counter 200; it has 0-7, fixed 0-2"),
        (skylake(), CounterId::Fixed(3), "this CPU has no counter fixed 3; it has 0-7, fixed 0-2"),
        (zen4(), CounterId::General(6), "this CPU has no counter 6; it has 0-5"),
        (zen4(), CounterId::Fixed(0), "this CPU has no counter fixed 0; it has 0-5"),
        (neoverse(), CounterId::General(6), "this CPU has no counter 6; it has 0-5, fixed 31"),
        (m1(), CounterId::General(1), "this CPU has no counter 1; it has 2-9, fixed 0-1"),
        (m1(), CounterId::General(255), "this CPU has no counter 255; it has 2-9, fixed 0-1"),
    ];
    for (chip, counter, expected) in cases {
        let told = refused(&chip, &[user(misses, counter)], PLAIN);
        assert_eq!(told, (expected.to_owned(), "put the event on one of those counters".to_owned()));
    }
    let only = event(0xc5, 0).on(CounterMask::from_bits(0b1100, 0));
    let (error, remedy) = refused(&skylake(), &[user(only, CounterId::General(0))], PLAIN);
    assert_eq!(error, "the event cannot be counted on counter 0; it may use 2-3");
    assert_eq!(remedy, "put the event on one of those counters");
}

#[test]
fn a_chip_that_claims_counters_without_registers_gets_no_program_on_them() {
    let greedy = Chip { counters: ChipCounters::of(CounterMask::first(64, 64)), ..m1() };
    let (error, _) = refused(&greedy, &[user(event(0x8c, 0), CounterId::General(0))], PLAIN);
    assert!(error.starts_with("this CPU has no counter 0; it has 2-9"), "{error}");
}

#[test]
fn a_selector_that_is_too_wide_is_refused_by_the_generations_width() {
    let narrow = Chip { selector_bits: Some(10), ..neoverse() };
    let cases = [
        (m1(), 0x5a3, "event 0x5a3 does not fit: event selectors of this CPU have 8 bits"),
        (skylake(), 0x100, "event 0x100 does not fit: event selectors of this CPU have 8 bits"),
        (zen4(), 0x1000, "event 0x1000 does not fit: event selectors of this CPU have 12 bits"),
        (narrow, 0x400, "event 0x400 does not fit: event selectors of this CPU have 10 bits"),
    ];
    for (chip, select, expected) in cases {
        let (error, remedy) = refused(&chip, &[user(event(select, 0), CounterId::General(2))], PLAIN);
        assert_eq!(error, expected);
        assert!(remedy.contains("this CPU's own table"), "{remedy}");
    }
    for (chip, select) in [(m3(), 0xffff), (zen4(), 0xffe), (neoverse(), 0xffff), (narrow, 0x3ff)] {
        assert!(plain(&chip, &[user(event(select, 0), CounterId::General(2))]).is_ok(), "{select:#x}");
    }
}

#[test]
fn a_period_that_no_counter_holds_is_refused_with_the_longest() {
    let misses = user(event(0xc5, 0), CounterId::General(0));
    let told =
        |chip: &Chip, event: Placed, period: u64| refused(chip, &[event.every(period).unwrap()], PLAIN);
    let (error, remedy) = told(&skylake(), misses, (1 << 31) + 1);
    assert_eq!(error, "a period of 2147483649 events is too long for counter 0; at most 2147483648 fit");
    assert!(remedy.contains("full-width writes"), "{remedy}");
    let (error, _) = told(&m1(), user(event(0x8c, 0), CounterId::General(7)), (1 << 46) + 1);
    assert_eq!(
        error,
        "a period of 70368744177665 events is too long for counter 7; at most 70368744177664 fit"
    );
    let (error, _) = told(&zen4(), misses, u64::MAX);
    assert!(error.ends_with("at most 140737488355328 fit"), "{error}");
}

#[test]
fn a_period_of_0_is_refused() {
    let error: cyclometer_core::Error =
        user(event(0xc5, 0), CounterId::General(1)).every(0).unwrap_err().into();
    assert_eq!(error.to_string(), "the period on counter 1 is 0 events");
    assert!(error.recovery().to_string().contains("at least 1 event"));
}

#[test]
fn bits_that_are_reserved_are_refused_by_register() {
    use cyclometer_core::event::{ExtraRegister, ExtraRegisterKind};
    let with = |register, value| {
        let extra = Some(ExtraRegister { register, value });
        let code = EventCode { select: 0xcd, umask: 1, extra, ..EventCode::default() };
        user(Coded::new(code), CounterId::General(0))
    };
    let latency = with(ExtraRegisterKind::LoadLatency, 0x1_0080);
    let (error, remedy) = refused(&skylake(), &[latency], PLAIN);
    assert_eq!(error, "bits 0x10000 of MSR_PEBS_LD_LAT_THRESHOLD are reserved on this CPU");
    assert!(remedy.contains("cyclometer registers"), "{remedy}");
    assert!(plain(&skylake(), &[with(ExtraRegisterKind::LoadLatency, 0x80)]).is_ok());
    let frontend = with(ExtraRegisterKind::Frontend, 1 << 24);
    assert_eq!(
        plain(&skylake(), &[frontend]),
        Err(EncodeError::Reserved { register: "MSR_PEBS_FRONTEND".to_owned(), bits: 1 << 24 })
    );
}

#[test]
fn a_chip_whose_counters_have_no_known_width_gets_no_program() {
    let chip = Chip { counter_width: None, ..skylake() };
    let (error, remedy) = refused(&chip, &[user(event(0xc5, 0), CounterId::General(0))], PLAIN);
    assert_eq!(error, "the width of this CPU's counters is not known");
    assert_eq!(remedy, "give the counters' width in the table's header");
}

#[test]
fn a_counter_with_two_events_and_events_of_firmware_are_refused() {
    let on = CounterId::General;
    let (error, remedy) =
        refused(&skylake(), &[user(event(0xc5, 0), on(0)), user(event(0xc4, 0), on(0))], PLAIN);
    assert_eq!(error, "two events are to be counted on counter 0");
    assert_eq!(remedy, "give one of the events another counter");
    let (error, _) = refused(&u74(), &[user(event(1, 0), on(3))], PLAIN);
    assert_eq!(error, "the firmware chooses the counter and its code");
    let nothing = Placed {
        modes: Modes { user: false, kernel: false, hypervisor: false },
        ..user(event(0xc5, 0), on(0))
    };
    let (error, remedy) = refused(&skylake(), &[nothing], PLAIN);
    assert_eq!(error, "neither user nor kernel mode is to be counted");
    assert_eq!(remedy, "count user mode, kernel mode, or both");
}

#[test]
fn freezing_where_it_cannot_be_says_what_it_needs() {
    let freezing = ProgramOptions { freeze_on_interrupt: true, ..PLAIN };
    let newer = ProgramOptions { has_freeze_on_overflow: true, ..freezing };
    let on = |n| user(event(0x76, 0), CounterId::General(n));
    let cycles = user(fixed(&neoverse(), arm::CYCLE_COUNTER), CounterId::Fixed(31));
    let with_instructions =
        Chip { counters: ChipCounters::of(CounterMask::from_bits(0x3f, 1 << 31 | 1 << 32)), ..neoverse() };
    let instructions = user(fixed(&neoverse(), 32), CounterId::Fixed(32));
    let cases = [
        (
            Chip { pmu_version: Some(3), ..skylake() },
            on(0),
            freezing,
            "architectural performance monitoring version 4",
        ),
        (zen2(), on(0), freezing, "a bit of DebugCtl that no public source of this table names"),
        (zen4(), on(0), freezing, "a bit of DebugCtl that no public source of this table names"),
        (neoverse(), on(0), freezing, "FEAT_PMUv3p7"),
        (neoverse(), with_period(cycles, 1000), newer, "periods on event counters only"),
        (with_instructions, instructions, newer, "a program without the instruction counter"),
    ];
    for (chip, event, options, needs) in cases {
        let (error, remedy) = refused(&chip, &[event], options);
        assert_eq!(error, format!("this CPU cannot do 'freeze on interrupt': that needs {needs}"));
        assert!(remedy.starts_with("leave the option away"), "{remedy}");
    }
    let aliases = ProgramOptions { v6_registers: true, ..PLAIN };
    for chip in [sapphire_rapids(), zen4()] {
        let (error, _) = refused(&chip, &[on(0)], aliases);
        assert!(error.ends_with("needs architectural performance monitoring version 6"), "{error}");
    }
}

#[test]
fn pmuv3p7_freezes_with_an_event_counters_overflow_and_thaws_with_its_flag() {
    let freezing = ProgramOptions { freeze_on_interrupt: true, has_freeze_on_overflow: true, ..PLAIN };
    let misses = with_period(user(event(0x10, 0), CounterId::General(2)), 1000);
    let alone = register_program(&neoverse(), &[misses], freezing).unwrap();
    assert!(shown(&alone.set_up).contains(&"PMCR_EL0 S3_3_C9_C12_0 = 0x2c1 of 0x2c1".to_owned()));
    let cycles = user(fixed(&neoverse(), arm::CYCLE_COUNTER), CounterId::Fixed(31));
    let both = register_program(&neoverse(), &[misses, cycles], freezing).unwrap();
    assert!(shown(&both.set_up).contains(&"PMCR_EL0 S3_3_C9_C12_0 = 0x2e1 of 0x2e1".to_owned()));
    assert!(shown(&both.tear_down).contains(&"PMCR_EL0 S3_3_C9_C12_0 = 0x0 of 0x220".to_owned()));
    assert_eq!(shown(&both.acknowledge(1 << 2)), ["PMOVSCLR_EL0 S3_3_C9_C12_3 = 0x4", "barrier"]);
}

/// SLOTS and the share of number `n`.
fn slots_and(n: u8) -> [Placed; 2] {
    let slots = user(fixed(&sapphire_rapids(), 3), CounterId::Fixed(3));
    [slots, user(event(0, intel::METRICS_UMASK + n), CounterId::Fixed(intel::METRICS_BASE + n))]
}

#[test]
fn shares_of_slots_are_read_from_perf_metrics_beside_slots() {
    let [slots, retiring] = slots_and(0);
    let both_levels = ProgramOptions { has_second_level: true, ..PLAIN };
    let events = [slots_and(7)[1], slots, retiring];
    let program = register_program(&sapphire_rapids(), &events, both_levels).unwrap();
    assert_eq!(
        shown(&program.set_up),
        [
            "IA32_PERF_GLOBAL_CTRL 0x38f = 0x0 of 0x1000800000000",
            "barrier",
            "IA32_FIXED_CTR_CTRL 0x38d = 0x2000 of 0xf000",
            "IA32_PERF_GLOBAL_STATUS_RESET 0x390 = 0x1000800000000",
            "IA32_FIXED_CTR3 0x30c = 0x0",
            "IA32_PERF_METRICS 0x329 = 0x0",
            "barrier",
        ]
    );
    assert_eq!(shown(&program.start)[0], "IA32_PERF_GLOBAL_CTRL 0x38f = 0x1000800000000 of 0x1000800000000");
    let shares: Vec<_> = program.reads.iter().map(|read| read.share).collect();
    assert_eq!(shares, [Some(SlotShare { low: 56, slots: 1 }), None, Some(SlotShare { low: 0, slots: 1 })]);
    let metrics = 0x33 << 56 | 0x66;
    let counts = program.counts(&[0, 0, 0], &[metrics, 5_000, metrics]);
    assert_eq!(counts, Some(vec![1_000, 5_000, 2_000]));
    let later = program.counts(&[metrics, 5_000, metrics], &[0x33 << 56 | 0x99, 10_000, 0x33 << 56 | 0x99]);
    assert_eq!(later, Some(vec![1_000, 5_000, 4_000]));
    assert_eq!(program.counts(&[0], &[0, 0, 0]), None);
}

#[test]
fn a_share_of_all_slots_is_all_of_them_however_many() {
    let all = SlotShare { low: 8, slots: 0 };
    assert_eq!(all.of(u64::MAX, 0xff00), u64::MAX);
    assert_eq!((all.of(0, 0xff00), all.of(1_000, 0)), (0, 0));
}

#[test]
fn shares_without_slots_in_other_modes_with_periods_or_elsewhere_are_refused() {
    let [slots, retiring] = slots_and(0);
    let error = |events: &[Placed]| plain(&sapphire_rapids(), events).unwrap_err();
    assert_eq!(error(&[retiring]), EncodeError::Share);
    let (message, remedy) = refused(&sapphire_rapids(), &[retiring], PLAIN);
    assert_eq!(message, "the event is a share of slots, which fixed counter 3 does not count beside it");
    assert_eq!(remedy, "count SLOTS on fixed counter 3 in the same program");
    let kernel = Placed { modes: Modes::KERNEL, ..retiring };
    assert_eq!(error(&[slots, kernel]), EncodeError::Conflict { register: "IA32_FIXED_CTR_CTRL".to_owned() });
    let sampled = with_period(retiring, 1000);
    assert_eq!(error(&[slots, sampled]), EncodeError::NoInterrupt { counter: CounterId::Fixed(16) });
    assert_eq!(
        error(&[with_period(slots, 1000), retiring]),
        EncodeError::NoInterrupt { counter: CounterId::Fixed(3) }
    );
    let elsewhere = Placed { counter: CounterId::Fixed(17), ..retiring };
    let allowed = CounterMask::from_bits(0, 1 << 16);
    assert_eq!(
        error(&[slots, elsewhere]),
        EncodeError::NotAllowed { counter: CounterId::Fixed(17), allowed }
    );
    assert_eq!(
        error(&[slots, retiring, retiring]),
        EncodeError::CounterTwice { counter: CounterId::Fixed(16) }
    );
    let (message, remedy) = refused(&sapphire_rapids(), &slots_and(4), PLAIN);
    assert_eq!(
        message,
        "this CPU cannot do 'shares of the second level': that needs a P-core from Golden Cove on"
    );
    assert!(remedy.starts_with("count the shares of the first level"), "{remedy}");
    let older = plain(&skylake(), &[retiring]).unwrap_err().to_string();
    assert_eq!(older, "the intel layout has no field 'PERF_METRICS' at PMU version 4");
}

#[test]
fn version_6_may_be_programmed_by_its_own_registers() {
    let aliases = ProgramOptions { v6_registers: true, full_width_writes: true, ..PLAIN };
    let events = [
        user(event(0xc5, 0), CounterId::General(1)).every(1 << 40).unwrap(),
        user(fixed(&lion_cove(), 1), CounterId::Fixed(1)),
    ];
    let program = register_program(&lion_cove(), &events, aliases).unwrap();
    assert_eq!(
        shown(&program.set_up),
        [
            "IA32_PERF_GLOBAL_CTRL 0x38f = 0x0 of 0x200000002",
            "barrier",
            "IA32_PMC_GP1_CFG_A 0x1905 = 0x5100c5",
            "IA32_FIXED_CTR_CTRL 0x38d = 0x20 of 0xf0",
            "IA32_PERF_GLOBAL_STATUS_RESET 0x390 = 0x200000002",
            "IA32_PMC_GP1_CTR 0x1904 = 0xff0000000000",
            "IA32_PMC_FX1_CTR 0x1984 = 0x0",
            "barrier",
        ]
    );
    let read: Vec<String> = program.reads.iter().map(|read| read.register.to_string()).collect();
    assert_eq!(read, ["IA32_PMC_GP1_CTR", "IA32_PMC_FX1_CTR"]);
    assert!(program.touched().iter().all(|register| !register.to_string().contains("PERFEVTSEL")));
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
struct PlainRegisters {
    values: HashMap<PmuReg, u64>,
}

impl Registers for PlainRegisters {
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
        let counters: Vec<CounterId> = chip.counters.known().iter().collect();
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

/// Whether a field that belongs to a counter is set in any of the registers that a program has written.
fn is_set(chip: &Chip, registers: &PlainRegisters, names: &[&str], counter: CounterId) -> bool {
    let (CounterId::General(n) | CounterId::Fixed(n)) = counter;
    registers.values.iter().any(|(register, value)| {
        let fields = decode(chip, register.register(), *value).fields;
        fields.iter().any(|field| names.iter().any(|name| field.name == format!("{name}{n}")))
    })
}

/// The modes of an event and whether its counter interrupts, as what was written tells them.
fn modes_and_interrupt(
    chip: &Chip,
    registers: &PlainRegisters,
    decoded: &DecodedEvent,
) -> (Option<Modes>, Option<bool>) {
    let Some(counter) = decoded.counter else { return (None, None) };
    let set = |names: &[&str]| is_set(chip, registers, names, counter);
    match chip.family {
        Family::Apple => {
            let modes = Modes { user: set(&["EL0_PMC"]), kernel: set(&["EL1_PMC"]), hypervisor: false };
            (Some(modes), Some(set(&["PMI_EN_PMC"])))
        }
        Family::Arm => {
            let interrupts = match counter {
                CounterId::General(_) => set(&["INT"]),
                // The bit of the cycle counter has no number.
                CounterId::Fixed(n) => registers.values.iter().any(|(register, value)| {
                    register.register() == Register::Arm(arm::Register::InterruptSet) && value >> n & 1 == 1
                }),
            };
            (decoded.modes, Some(interrupts))
        }
        _ => (decoded.modes, decoded.interrupt),
    }
}

proptest! {
    #[test]
    fn every_value_of_a_program_gives_back_events_modes_and_interrupts((chip, events) in plans(), v6: bool) {
        let v6_registers = v6 && chip.family == Family::Intel && chip.is_of_version(6);
        let options = ProgramOptions { v6_registers, ..PLAIN };
        let program = register_program(&chip, &events, options).unwrap();
        let mut registers = PlainRegisters::default();
        carry_out(&program.set_up, &mut registers, 0).unwrap();
        carry_out(&program.start, &mut registers, 0).unwrap();
        let mut found = Vec::new();
        for (register, value) in &registers.values {
            let decoded = decode(&chip, register.register(), *value);
            prop_assert_eq!(&decoded.warnings, &Vec::<String>::new(), "{}", register);
            found.extend(decoded.events);
        }
        // Nothing is found that was not asked for; the counter of Arm that nobody enables has no value here.
        prop_assert_eq!(found.len(), events.len(), "{:?}", found);
        for event in &events {
            let decoded = found.iter().find(|decoded| decoded.counter == Some(event.counter)).unwrap();
            let cycles = EventCode { select: arm::CPU_CYCLES, ..EventCode::default() };
            let is_cycles = chip.family == Family::Arm && matches!(event.counter, CounterId::Fixed(_));
            prop_assert_eq!(decoded.code, if is_cycles { cycles } else { event.coded.code });
            let told = modes_and_interrupt(&chip, &registers, decoded);
            prop_assert_eq!(told, (Some(event.modes), Some(event.period.is_some())), "{:?}", event);
        }
    }

    #[test]
    fn the_registers_of_a_program_decode_to_its_events((chip, events) in plans()) {
        let program = plain(&chip, &events).unwrap();
        let mut registers = PlainRegisters::default();
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
        let mut registers = PlainRegisters::default();
        carry_out(&program.set_up, &mut registers, 0).unwrap();
        let are_in = |bits: &[RegisterBits], registers: &PlainRegisters| {
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
        let mut registers = PlainRegisters::default();
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
        let mut registers = PlainRegisters::default();
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
            let overflow = if chip.family == Family::Apple { chip.counter_width.unwrap().overflow_bit } else { read.width_bits };
            let top = 1u64.checked_shl(overflow).unwrap_or(0);
            let expected = event.period.map_or(0, |period| top.wrapping_sub(period.get()) & low_mask(read.width_bits));
            prop_assert_eq!(read.preset, expected);
        }
    }
}

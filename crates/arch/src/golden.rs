//! Known values: from manuals, from tutorials that have them right or wrong, from the kernels' own tables.

use cyclometer_core::event::{ExtraRegister, ExtraRegisterKind};
use cyclometer_core::pmu::ConfigWord;
use cyclometer_core::{CounterId, CounterMask, EventCode, Modes};

use crate::apple::{KpcWord, kpc_word};
use crate::testing::{k10, lion_cove, m1, m3, neoverse, sapphire_rapids, skylake, skymont, u74, zen2, zen4};
use crate::{
    Chip, Coded, CounterOptions, EncodeError, Register, combine, decode, decode_words, perf_words,
    rdpmc_index, registers,
};

fn event(select: u16, umask: u8) -> EventCode {
    EventCode { select, umask, ..EventCode::default() }
}

fn fixed(n: u8) -> Coded {
    Coded::new(event(0, n + 1)).on(CounterMask::from_bits(0, 1 << n))
}

fn config(chip: &Chip, code: EventCode) -> u64 {
    perf_words(chip, &Coded::new(code)).unwrap().config
}

/// The writes of one event, as text.
fn writes(chip: &Chip, coded: &Coded, counter: CounterId, how: CounterOptions) -> Vec<String> {
    shown(&registers(chip, coded, Some(counter), how).unwrap())
}

fn shown(writes: &[crate::RegisterWrite]) -> Vec<String> {
    writes.iter().map(|write| format!("{} {} = {:#x}", write.name(), write.address, write.value)).collect()
}

/// The fields and events of a value, as text.
fn read(chip: &Chip, register: &str, value: u64) -> (Vec<String>, Vec<String>) {
    let decoded = decode(chip, Register::parse(chip, register).unwrap(), value);
    let fields = decoded.fields.iter().map(|field| format!("{}={:#x}", field.name, field.value)).collect();
    (fields, decoded.warnings)
}

const USER_KERNEL: CounterOptions = CounterOptions::counting(Modes::USER_KERNEL);
const USER: CounterOptions = CounterOptions::counting(Modes::USER);

#[test]
fn intel_raw_configs() {
    let cases = [
        (event(0xc0, 0), 0x00c0),
        (event(0x2e, 0x41), 0x412e),
        (EventCode { cmask: 16, inv: true, ..event(0x0d, 1) }, 0x1080_010d),
        (EventCode { edge: true, cmask: 1, ..event(0xa1, 2) }, 0x0104_02a1),
        (EventCode { any: true, ..event(0x3c, 0) }, 0x20_003c),
    ];
    for (code, expected) in cases {
        assert_eq!(config(&skylake(), code), expected, "{code:?}");
    }
}

#[test]
fn a_second_unit_mask_counts_when_the_first_is_0() {
    // BR_INST_RETIRED.FAR_BRANCH of Panther Lake.
    let far = EventCode { umask2: 1, ..event(0xc4, 0) };
    assert_eq!(config(&lion_cove(), far), 0x100_0000_00c4);
    let both = EventCode { umask2: 0xff, eq: true, cmask: 2, ..event(0x24, 0xff) };
    assert_eq!(config(&lion_cove(), both), 0xff10_0200_ff24);
    let how = CounterOptions::counting(Modes::USER);
    assert_eq!(
        writes(&lion_cove(), &Coded::new(far), CounterId::General(9), how),
        ["IA32_PERFEVTSEL9 0x18f = 0x100004100c4", "IA32_PERF_GLOBAL_CTRL 0x38f = 0x200"]
    );
}

#[test]
fn fixed_events_have_the_kernels_codes() {
    let codes: Vec<u64> =
        [0, 1, 2, 3].map(|n| perf_words(&sapphire_rapids(), &fixed(n)).unwrap().config).to_vec();
    assert_eq!(codes, [0xc0, 0x3c, 0x300, 0x400]);
    let codes: Vec<u64> = [4, 5, 6].map(|n| perf_words(&skymont(), &fixed(n)).unwrap().config).to_vec();
    assert_eq!(codes, [0x500, 0x600, 0x700]);
    let thread_any = Coded { code: EventCode { any: true, ..fixed(1).code }, ..fixed(1) };
    assert_eq!(perf_words(&skylake(), &thread_any).unwrap().config, 0x20_003c);
}

#[test]
fn metrics_have_the_kernels_pseudo_codes() {
    for n in 0..8u8 {
        let metric = Coded::new(event(0, 0x80 + n));
        assert_eq!(perf_words(&sapphire_rapids(), &metric).unwrap().config, 0x8000 + (u64::from(n) << 8));
    }
    let writes = registers(&sapphire_rapids(), &Coded::new(event(0, 0x80)), None, USER_KERNEL).unwrap();
    assert_eq!(
        shown(&writes),
        ["IA32_FIXED_CTR_CTRL 0x38d = 0x3000", "IA32_PERF_GLOBAL_CTRL 0x38f = 0x1000800000000"]
    );
}

#[test]
fn a_pseudo_code_in_an_event_select_is_warned_about() {
    let (_, warnings) = read(&skylake(), "PERFEVTSEL0", 0x43_0100);
    let expected = "a general counter counts nothing here: unit mask 0x1 of event 0 is the pseudo code of fixed counter 0";
    assert_eq!(warnings, [expected]);
    let decoded = decode(&sapphire_rapids(), Register::Perf(ConfigWord::Config), 0x8400);
    assert_eq!(decoded.events.iter().map(|found| found.code).collect::<Vec<_>>(), [event(0, 0x84)]);
}

#[test]
fn intel_event_selects() {
    let value = |code, how| registers(&skylake(), &Coded::new(code), None, how).unwrap()[0].value;
    assert_eq!(value(event(0xc0, 0), USER_KERNEL), 0x43_00c0);
    assert_eq!(value(event(0xc0, 0), CounterOptions::sampling(Modes::USER_KERNEL)), 0x53_00c0);
    assert_eq!(value(event(0xc2, 1), USER), 0x41_01c2);
    assert_eq!(value(event(0xc5, 0), USER), 0x41_00c5);
}

#[test]
fn intel_fixed_control_for_counting_and_for_interrupts() {
    let all = |how: [CounterOptions; 3]| {
        let writes: Vec<_> = (0..3u8)
            .flat_map(|n| registers(&skylake(), &fixed(n), None, how[usize::from(n)]).unwrap())
            .chain((0..4).flat_map(|n| {
                registers(&skylake(), &Coded::new(event(0xc5, 0)), Some(CounterId::General(n)), USER).unwrap()
            }))
            .collect();
        let combined = combine(&writes).unwrap();
        combined.iter().filter(|write| write.value != 0x41_00c5).map(|write| write.value).collect::<Vec<_>>()
    };
    assert_eq!(all([USER; 3]), [0x222, 0x7_0000_000f]);
    assert_eq!(all([CounterOptions::sampling(Modes::USER), USER, USER]), [0x22a, 0x7_0000_000f]);
}

#[test]
fn instructions_with_a_counter_mask_go_to_a_general_counter() {
    let coded = Coded { code: EventCode { cmask: 4, ..fixed(0).code }, ..fixed(0) };
    let writes = registers(&skylake(), &coded, None, USER).unwrap();
    assert_eq!(shown(&writes)[0], "IA32_PERFEVTSEL0 0x186 = 0x44100c0");
    let slots = Coded { code: EventCode { cmask: 4, ..fixed(2).code }, ..fixed(2) };
    let error = registers(&skylake(), &slots, None, USER).unwrap_err();
    assert_eq!(error, EncodeError::NotOnFixed { field: "cmask" });
}

#[test]
fn intel_extra_registers_are_written_first() {
    let extra = Some(ExtraRegister { register: ExtraRegisterKind::Frontend, value: 0x13 });
    let l2_miss = Coded::new(EventCode { extra, ..event(0xc6, 1) }).on(CounterMask::from_bits(0xf, 0));
    let words = perf_words(&skylake(), &l2_miss).unwrap();
    assert_eq!((words.config, words.config1), (0x1c6, 0x13));
    assert_eq!(
        writes(&skylake(), &l2_miss, CounterId::General(2), USER),
        [
            "MSR_PEBS_FRONTEND 0x3f7 = 0x13",
            "IA32_PERFEVTSEL2 0x188 = 0x4101c6",
            "IA32_PERF_GLOBAL_CTRL 0x38f = 0x4"
        ]
    );
}

#[test]
fn a_counter_that_may_not_count_the_event_is_refused() {
    let coded = Coded::new(event(0xc6, 1)).on(CounterMask::from_bits(0xf, 0));
    let error = registers(&skylake(), &coded, Some(CounterId::General(4)), USER).unwrap_err();
    assert_eq!(error.to_string(), "the event cannot be counted on counter 4; it may use 0-3");
    let error = registers(&skylake(), &fixed(0), Some(CounterId::General(0)), USER).unwrap_err();
    assert_eq!(error.to_string(), "the event cannot be counted on counter 0; it may use fixed 0");
    let error = registers(&skymont(), &fixed(3), None, USER).unwrap_err();
    assert_eq!(error, EncodeError::NoCounter);
    let hypervisor = Modes { user: false, kernel: false, hypervisor: true };
    let error = registers(&skylake(), &coded, None, CounterOptions::counting(hypervisor)).unwrap_err();
    assert_eq!(error, EncodeError::NoModes);
}

#[test]
fn intel_values_read_bit_by_bit() {
    let (fields, warnings) = read(&skylake(), "0x186", 0x53_00c0);
    assert_eq!(fields, ["EVENT=0xc0", "UMASK=0x0", "USR=0x1", "OS=0x1", "INT=0x1", "EN=0x1"]);
    assert_eq!(warnings, Vec::<String>::new());
    let (fields, warnings) = read(&skylake(), "PERFEVTSEL3", 1 << 41 | 0x43_003c);
    assert_eq!(fields.last().unwrap(), "reserved=0x1");
    assert_eq!(warnings, ["bit 41 is reserved on this CPU"]);
    let (fields, warnings) = read(&skylake(), "GLOBAL_CTRL", 0x7_0000_000f);
    let enabled =
        ["EN_PMC0", "EN_PMC1", "EN_PMC2", "EN_PMC3", "EN_FIXED_CTR0", "EN_FIXED_CTR1", "EN_FIXED_CTR2"];
    assert_eq!(fields, enabled.map(|name| format!("{name}=0x1")));
    assert_eq!(warnings, Vec::<String>::new());
    let (fields, _) = read(&skylake(), "GLOBAL_STATUS", 1 << 63 | 1 << 33 | 1);
    assert_eq!(fields, ["OVF_PMC0=0x1", "OVF_FIXED_CTR1=0x1", "COND_CHGD=0x1"]);
    let (fields, _) = read(&sapphire_rapids(), "PERF_CAPABILITIES", 0x2000 | 0x8000 | 0x400 | 0x3f);
    assert_eq!(fields, ["LBR_FMT=0x3f", "PEBS_REC_FMT=0x4", "FW_WRITE=0x1", "PERF_METRICS=0x1"]);
}

#[test]
fn a_user_only_event_select_is_read_as_one() {
    let decoded = decode(&skylake(), Register::parse(&skylake(), "PERFEVTSEL0").unwrap(), 0x41_01c2);
    let [found] = decoded.events[..] else { panic!("{decoded:?}") };
    assert_eq!((found.code, found.counter), (event(0xc2, 1), Some(CounterId::General(0))));
    assert_eq!((found.modes, found.enabled, found.interrupt), (Some(Modes::USER), Some(true), Some(false)));
}

#[test]
fn counters_that_a_chip_does_not_have_are_reserved() {
    let (fields, warnings) = read(&skymont(), "GLOBAL_CTRL", 1 << 35 | 1 << 36);
    assert_eq!(fields, ["reserved=0x1", "EN_FIXED_CTR4=0x1"]);
    assert_eq!(warnings, ["bit 35 is reserved on this CPU"]);
    let (fields, _) = read(&skymont(), "FIXED_CTR_CTRL", 0xb << 24);
    assert_eq!(fields, ["OS_FIXED6=0x1", "USR_FIXED6=0x1", "PMI_FIXED6=0x1"]);
}

#[test]
fn a_fixed_control_names_its_events() {
    let decoded = decode(&skylake(), Register::parse(&skylake(), "FIXED_CTR_CTRL").unwrap(), 0x22a);
    let events: Vec<_> =
        decoded.events.iter().map(|event| (event.counter, event.code.umask, event.interrupt)).collect();
    let on = |n, interrupt| (Some(CounterId::Fixed(n)), n + 1, Some(interrupt));
    assert_eq!(events, [on(0, true), on(1, false), on(2, false)]);
    assert!(decoded.events.iter().all(|event| event.modes == Some(Modes::USER)));
}

#[test]
fn configs_of_fixed_events_name_both_ways_to_count_them() {
    let both = |config| {
        let decoded = decode(&skylake(), Register::Perf(ConfigWord::Config), config);
        decoded
            .events
            .iter()
            .map(|event| (event.code.select, event.code.umask, event.counter))
            .collect::<Vec<_>>()
    };
    assert_eq!(both(0xc0), [(0xc0, 0, None), (0, 1, Some(CounterId::Fixed(0)))]);
    assert_eq!(both(0x300), [(0, 3, Some(CounterId::Fixed(2)))]);
    assert_eq!(both(0x100), [(0, 1, Some(CounterId::Fixed(0))); 2]);
    assert_eq!(both(0x10000c0 | 1 << 23), [(0xc0, 0, None)]);
}

#[test]
fn indices_of_rdpmc() {
    use cyclometer_core::pmu::Family::{Amd, Apple, Intel};
    assert_eq!(rdpmc_index(Intel, CounterId::General(3)), Some(3));
    assert_eq!(rdpmc_index(Intel, CounterId::Fixed(1)), Some(0x4000_0001));
    assert_eq!(rdpmc_index(Amd, CounterId::General(5)), Some(5));
    assert_eq!(rdpmc_index(Apple, CounterId::General(5)), None);
    let (fields, warnings) = read(&skylake(), "rdpmc", 0x40_0001);
    assert_eq!(fields, ["INDEX=0x1", "TYPE=0x40"]);
    let expected = [
        "rdpmc faults (#GP): 0x400001 is no counter of this CPU",
        "fixed counter 1 is 0x40000001: the type stands in bits 16-31",
    ];
    assert_eq!(warnings, expected);
    assert_eq!(read(&sapphire_rapids(), "rdpmc", 0x2000_0000).1, Vec::<String>::new());
    let decoded = decode(&zen4(), Register::RdpmcIndex, 0xa);
    assert_eq!(decoded.fields[0].meaning, "counter 0 of the L3 cache");
}

#[test]
fn amd_events_have_twelve_bits() {
    // Op cache hits of Zen.
    assert_eq!(config(&zen4(), event(0x28f, 3)), 0x2_0000_038f);
    assert_eq!(
        writes(&zen4(), &Coded::new(event(0x28f, 3)), CounterId::General(1), USER_KERNEL),
        ["PERF_CTL1 0xc0010202 = 0x20043038f", "PERF_CNTR_GLOBAL_CTL 0xc0000301 = 0x2"]
    );
    assert_eq!(
        writes(&zen2(), &Coded::new(event(0x76, 0)), CounterId::General(5), USER),
        ["PERF_CTL5 0xc001020a = 0x410076"]
    );
    assert_eq!(
        writes(&k10(), &Coded::new(event(0x76, 0)), CounterId::General(3), USER_KERNEL),
        ["PERF_LEGACY_CTL3 0xc0010003 = 0x430076"]
    );
}

#[test]
fn amd_large_increments_take_two_counters() {
    let flops = Coded::new(event(3, 0xff));
    assert_eq!(
        writes(&zen4(), &flops, CounterId::General(2), USER),
        [
            "PERF_CTL3 0xc0010206 = 0xf004000ff",
            "PERF_CTL2 0xc0010204 = 0x41ff03",
            "PERF_CNTR_GLOBAL_CTL 0xc0000301 = 0xc"
        ]
    );
    let error = registers(&zen4(), &flops, Some(CounterId::General(1)), USER).unwrap_err();
    assert_eq!(error.to_string(), "the event cannot be counted on counter 1; it may use 0, 2, 4");
    let (_, warnings) = read(&zen4(), "PERF_CTL3", 0xf_0040_00ff);
    let merge = "event 0xfff merges: the counter holds the upper half of the even counter before it";
    assert_eq!(warnings, [merge]);
}

#[test]
fn arm_events_have_sixteen_bits() {
    assert_eq!(config(&neoverse(), event(0x4006, 0)), 0x4006);
    assert_eq!(
        writes(&neoverse(), &Coded::new(event(0x8074, 0)), CounterId::General(5), USER),
        [
            "PMEVTYPER5_EL0 S3_3_C14_C12_5 = 0x80008074",
            "PMCNTENSET_EL0 S3_3_C9_C12_1 = 0x20",
            "PMCR_EL0 S3_3_C9_C12_0 = 0x1"
        ]
    );
    let cycles = Coded::new(event(0x11, 0)).on(CounterMask::from_bits(0x3f, 1 << 31));
    assert_eq!(
        writes(&neoverse(), &cycles, CounterId::Fixed(31), USER_KERNEL)[..2],
        ["PMCCFILTR_EL0 S3_3_C14_C15_7 = 0x0", "PMCNTENSET_EL0 S3_3_C9_C12_1 = 0x80000000"]
    );
    let old = Chip { selector_bits: Some(10), ..neoverse() };
    let error = perf_words(&old, &Coded::new(event(0x4006, 0))).unwrap_err();
    assert_eq!(error.to_string(), "event=0x4006 does not fit; at most 0x3ff does");
}

#[test]
fn arm_registers_read_bit_by_bit() {
    let (fields, warnings) = read(&neoverse(), "PMCR_EL0", 0x4141_3003 | 1 << 6);
    assert_eq!(fields, ["E=0x1", "P=0x1", "LC=0x1", "N=0x6", "IDCODE=0x41", "IMP=0x41"]);
    assert_eq!(warnings, Vec::<String>::new());
    let (fields, _) = read(&neoverse(), "PMCNTENSET", 0x8000_0021);
    assert_eq!(fields, ["EN0=0x1", "EN5=0x1", "C=0x1"]);
    let decoded = decode(&neoverse(), Register::parse(&neoverse(), "PMCEID0").unwrap(), 1 << 17 | 1 << 37);
    let selects: Vec<u16> = decoded.events.iter().map(|event| event.code.select).collect();
    assert_eq!(selects, [0x11, 0x4005]);
}

#[test]
fn riscv_events_go_through_the_firmware() {
    assert_eq!(config(&u74(), event(0x165, 0)), 0x165);
    let firmware = Coded { config: Some(0x8000_0000_0000_0005), ..Coded::default() };
    let words = perf_words(&u74(), &firmware).unwrap();
    assert_eq!(words.config, 0x8000_0000_0000_0005);
    let decoded = decode_words(&u74(), &words);
    assert_eq!((decoded.events[0].config, decoded.events[0].code), (firmware.config, EventCode::default()));
    assert_eq!(decoded.fields.last().unwrap().meaning, "the SBI firmware");
    assert_eq!(registers(&u74(), &firmware, None, USER), Err(EncodeError::NoRegister));
    assert_eq!(
        writes(&u74(), &Coded::new(event(0x1302, 0)), CounterId::General(4), USER),
        ["mhpmevent4 0x324 = 0xe000000000001302"]
    );
}

#[test]
fn apple_selectors_by_generation() {
    // L1D_CACHE_MISS_LD: 8 bits on M1, 16 on M3 and later.
    assert_eq!(config(&m1(), event(0xa3, 0)), 0xa3);
    assert_eq!(config(&m3(), event(0x5a3, 0)), 0x5a3);
    assert_eq!(
        writes(&m1(), &Coded::new(event(0xa3, 0)), CounterId::General(3), USER),
        ["PMESR0 S3_1_C15_C5_0 = 0xa300", "PMCR1 S3_1_C15_C1_0 = 0x800", "PMCR0 S3_1_C15_C0_0 = 0x8"]
    );
    assert_eq!(
        writes(&m3(), &Coded::new(event(0x5a3, 0)), CounterId::General(9), USER_KERNEL),
        [
            "PMESR1 S3_1_C15_C6_0 = 0x5a3000000000000",
            "PMCR1 S3_1_C15_C1_0 = 0x2020000000000",
            "PMCR0 S3_1_C15_C0_0 = 0x200000000"
        ]
    );
}

#[test]
fn apple_pair_of_events_on_m4() {
    let one = registers(&m3(), &Coded::new(event(0x5a3, 0)), Some(CounterId::General(2)), USER).unwrap();
    let other = registers(&m3(), &Coded::new(event(0x5a1, 0)), Some(CounterId::General(6)), USER).unwrap();
    let combined = combine(&[one, other].concat()).unwrap();
    assert_eq!(
        shown(&combined),
        [
            "PMESR0 S3_1_C15_C5_0 = 0x5a3",
            "PMESR1 S3_1_C15_C6_0 = 0x5a1",
            "PMCR1 S3_1_C15_C1_0 = 0x4400",
            "PMCR0 S3_1_C15_C0_0 = 0x44"
        ]
    );
}

#[test]
fn apple_masks_name_counters_and_words_stand_at_two_less() {
    // INST_LDST of M1: mask 0x80 is PMC7.
    let ldst = Coded::new(event(0x9b, 0)).on(CounterMask::from_bits(0x80, 0));
    assert_eq!(shown(&registers(&m1(), &ldst, None, USER).unwrap())[0], "PMESR1 S3_1_C15_C6_0 = 0x9b00");
    let word = kpc_word(&m1(), &ldst, CounterId::General(7), Modes::USER);
    assert_eq!(word, Ok(KpcWord { index: 5, word: 0x2_009b }));
    let register = Register::parse(&m1(), "kpc_config5").unwrap();
    let decoded = decode(&m1(), register, 0x6_009b);
    assert_eq!(decoded.events[0].counter, Some(CounterId::General(7)));
    assert_eq!(decoded.events[0].modes, Some(Modes::USER_KERNEL));
}

#[test]
fn apple_counters_eight_and_nine_skip_an_encoding() {
    let at = |name| Register::parse(&m1(), name).unwrap().address().unwrap().to_string();
    assert_eq!(at("PMC7"), "S3_2_C15_C7_0");
    assert_eq!(at("PMC8"), "S3_2_C15_C9_0");
    assert_eq!(at("PMC9"), "S3_2_C15_C10_0");
    assert_eq!(at("PMTRHLD2"), "S3_2_C15_C14_0");
    assert_eq!(at("PMTRHLD6"), "S3_2_C15_C12_0");
}

#[test]
fn apple_fixed_counters_have_no_event() {
    let fixed = |n: u8| Coded::default().on(CounterMask::from_bits(0, 1 << n));
    assert_eq!(
        writes(&m1(), &fixed(1), CounterId::Fixed(1), USER_KERNEL),
        ["PMCR1 S3_1_C15_C1_0 = 0x20200", "PMCR0 S3_1_C15_C0_0 = 0x2"]
    );
    assert_eq!(perf_words(&m1(), &fixed(0)).unwrap().config, 0x02);
    assert_eq!(perf_words(&m1(), &fixed(1)).unwrap().config, 0x8c);
    let error = perf_words(&m3(), &fixed(0)).unwrap_err();
    assert_eq!(error.to_string(), "perf has no code for the event of counter fixed 0 on this CPU");
    assert!(kpc_word(&m1(), &fixed(0), CounterId::Fixed(0), Modes::USER).is_err());
}

#[test]
fn apple_registers_read_bit_by_bit() {
    // A patched kernel writes this to PMCR0: PMC0 and PMC1 interrupt by FIQ, user access.
    let (fields, warnings) = read(&m1(), "PMCR0", 0x4700_3400);
    let expected =
        ["INTERRUPT_MODE=0x4", "PMI_EN_PMC0=0x1", "PMI_EN_PMC1=0x1", "PC_CAPTURE=0x7", "EL0_ACCESS=0x1"];
    assert_eq!(fields, expected);
    assert_eq!(warnings, Vec::<String>::new());
    let (fields, _) = read(&m1(), "PMCR1", 3 << 40 | 0xff << 8);
    assert_eq!(fields.len(), 10);
    assert_eq!(fields.last().unwrap(), "EL0_PMC9=0x1");
    assert_eq!(read(&m1(), "PMSR", 0x201).0, ["OVF_PMC0=0x1", "OVF_PMC9=0x1"]);
    let decoded = decode(&m3(), Register::parse(&m3(), "PMESR1").unwrap(), 0x5a1);
    assert_eq!(
        (decoded.events[0].counter, decoded.events[0].code),
        (Some(CounterId::General(6)), event(0x5a1, 0))
    );
    assert_eq!(read(&m1(), "PMC2", 1 << 47 | 5).0, ["COUNT=0x5", "OVERFLOW=0x1"]);
    assert_eq!(read(&m3(), "PMC2", 1 << 47 | 5).0, ["COUNT=0x800000000005"]);
}

#[test]
fn registers_of_version_6_are_read_by_name_and_by_address() {
    for name in ["IA32_PMC_GP1_CFG_A", "0x1905"] {
        let register = Register::parse(&lion_cove(), name).unwrap();
        let decoded = decode(&lion_cove(), register, 0x100_0051_00c4);
        let expected = EventCode { umask2: 1, ..event(0xc4, 0) };
        assert_eq!(
            (decoded.events[0].code, decoded.events[0].counter),
            (expected, Some(CounterId::General(1)))
        );
        assert_eq!(decoded.events[0].interrupt, Some(true));
    }
    let reload = Register::parse(&lion_cove(), "0x1982").unwrap();
    assert_eq!(reload.to_string(), "IA32_PMC_FX0_CFG_B");
    assert_eq!(decode(&lion_cove(), reload, 1 << 33 | 1).fields[1].name, "RELOAD_BY_FIXED1");
    assert!(Register::parse(&sapphire_rapids(), "0x1905").is_err());
}

#[test]
fn bits_and_registers_that_came_later_are_not_there_before() {
    let version = |version| Chip { pmu_version: Some(version), ..skylake() };
    let frozen = |number| read(&version(number), "GLOBAL_STATUS", 1 << 59).1;
    assert_eq!(frozen(3), ["bit 59 is reserved on this CPU"]);
    assert!(frozen(4).is_empty());
    assert!(Register::parse(&version(3), "GLOBAL_INUSE").is_err());
    assert!(Register::parse(&version(4), "GLOBAL_INUSE").is_ok());
    assert!(Register::parse(&version(1), "GLOBAL_CTRL").is_err());
    assert!(Register::parse(&zen2(), "GLOBAL_CTL").is_err());
    assert_eq!(read(&version(4), "PERFEVTSEL0", 1 << 36).1, ["bit 36 is reserved on this CPU"]);
}

#[test]
fn the_bit_of_amd_that_may_freeze_counters_is_not_called_by_a_name_that_nobody_told() {
    let (fields, warnings) = read(&zen4(), "DebugCtl", 0x1801);
    assert_eq!(fields, ["LBR=0x1", "FLBRI=0x1", "BIT_12=0x1"]);
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(read(&zen4(), "DebugCtl", 1 << 13).1, ["bit 13 is reserved on this CPU"]);
}

//! Both directions agree: what is encoded is decoded as the same code, whatever the fields.

use cyclometer_core::event::{ExtraRegister, ExtraRegisterKind};
use cyclometer_core::pmu::{ConfigWord, Family};
use cyclometer_core::{CounterId, CounterMask, EventCode, Modes};
use proptest::prelude::*;

use crate::testing::{
    chips, k10, lion_cove, m1, m3, neoverse, sapphire_rapids, skylake, skymont, u74, zen2, zen4,
};
use crate::{
    Chip, Coded, CounterOptions, DecodedEvent, EncodeError, Register, combine, decode, decode_words, layout,
    perf_words, rdpmc_index, registers,
};

/// Whether a decoded event is the code that was encoded; RISC-V's are configs.
fn is(chip: &Chip, event: &DecodedEvent, code: EventCode) -> bool {
    match chip.family {
        Family::RiscV => event.config == Some(code.select.into()) && event.code == EventCode::default(),
        _ => event.code == code,
    }
}

/// The code of a fixed counter's event.
fn fixed_code(chip: &Chip, n: u8) -> EventCode {
    let umask = if chip.family == Family::Intel { n + 1 } else { 0 };
    EventCode { umask, ..EventCode::default() }
}

/// Any code that the chip's layout has fields for.
fn codes(chip: Chip) -> impl Strategy<Value = EventCode> {
    let (v6, threads) = (chip.is_of_version(6), matches!(chip.pmu_version, Some(3..=4)));
    let greatest = (1u32 << chip.selector_bits.map_or(16, |bits| bits.min(16))) - 1;
    let x86 = matches!(chip.family, Family::Intel | Family::Amd);
    let intel = chip.family == Family::Intel;
    let fields = (any::<u8>(), any::<u8>(), any::<u8>());
    // Select 0 of Intel and Apple is no event: those are the pseudo codes of fixed counters.
    let lowest = u32::from(matches!(chip.family, Family::Intel | Family::Apple));
    (lowest..=greatest, fields, any::<[bool; 4]>()).prop_map(
        move |(select, (umask, umask2, cmask), [inv, edge, eq, any])| EventCode {
            select: select as u16,
            umask: if x86 { umask } else { 0 },
            umask2: if intel && v6 { umask2 } else { 0 },
            cmask: if x86 { cmask } else { 0 },
            inv: x86 && inv,
            edge: x86 && edge,
            eq: intel && v6 && eq,
            any: intel && threads && any,
            extra: None,
        },
    )
}

fn chip() -> impl Strategy<Value = Chip> {
    prop::sample::select(vec![
        skylake(),
        sapphire_rapids(),
        lion_cove(),
        skymont(),
        zen2(),
        zen4(),
        k10(),
        neoverse(),
        u74(),
        m1(),
        m3(),
    ])
}

fn chip_and_code() -> impl Strategy<Value = (Chip, EventCode)> {
    chip().prop_flat_map(|chip| codes(chip).prop_map(move |code| (chip, code)))
}

fn how() -> impl Strategy<Value = CounterOptions> {
    let modes = [Modes::USER, Modes::KERNEL, Modes::USER_KERNEL];
    (prop::sample::select(modes.to_vec()), any::<bool>())
        .prop_map(|(modes, interrupt)| CounterOptions { modes, interrupt })
}

/// The writes of an event, decoded: every event in them, and what is known about its counter.
fn decoded_events(
    chip: &Chip,
    coded: &Coded,
    counter: Option<CounterId>,
    how: CounterOptions,
) -> Vec<DecodedEvent> {
    let writes = registers(chip, coded, counter, how).unwrap();
    writes.iter().flat_map(|write| decode(chip, write.register, write.value).events).collect()
}

proptest! {
    #[test]
    fn perf_words_decode_to_the_code_they_were_made_of((chip, code) in chip_and_code()) {
        let words = perf_words(&chip, &Coded::new(code)).unwrap();
        let decoded = decode_words(&chip, &words);
        let same = |event: &DecodedEvent| is(&chip, event, code);
        prop_assert!(decoded.events.iter().any(same), "{code:?}: {decoded:?}");
        prop_assert_eq!(&decoded.warnings, &Vec::<String>::new());
        for event in &decoded.events {
            let counters = event.counter.map(|counter| CounterMask::from_iter([counter]));
            let coded = Coded { code: event.code, config: event.config, counters };
            prop_assert_eq!(perf_words(&chip, &coded).unwrap(), words);
        }
    }

    #[test]
    fn registers_decode_to_the_code_counter_and_modes((chip, code) in chip_and_code(), how in how(), pick in any::<prop::sample::Index>()) {
        let general: Vec<CounterId> =
            chip.counters.known().iter().filter(|counter| matches!(counter, CounterId::General(_))).collect();
        let counter = *pick.get(&general);
        let coded = Coded::new(code);
        let written = registers(&chip, &coded, Some(counter), how);
        if let Err(error) = &written {
            // The event of AMD that takes two counters refuses odd ones.
            let refused = matches!(error, EncodeError::NotAllowed { .. });
            prop_assert!(refused && chip.family == Family::Amd && code.select == 3, "{error}");
            return Ok(());
        }
        let events = decoded_events(&chip, &coded, Some(counter), how);
        let event = events.iter().find(|event| is(&chip, event, code) && event.counter == Some(counter));
        // A register of RISC-V without an event is 0, and select 0 there means none.
        if chip.family == Family::RiscV && code.select == 0 {
            return Ok(());
        }
        let event = event.unwrap();
        if chip.family != Family::Apple {
            prop_assert_eq!(event.modes, Some(how.modes));
        }
        if !matches!(chip.family, Family::Apple | Family::Arm) {
            prop_assert_eq!(event.interrupt, Some(how.interrupt));
        }
    }

    #[test]
    fn no_write_sets_a_reserved_bit((chip, code) in chip_and_code(), how in how()) {
        for write in registers(&chip, &Coded::new(code), None, how).unwrap() {
            let decoded = decode(&chip, write.register, write.value);
            let merge = chip.family == Family::Amd && code.select == 3 || code.select == 0xfff;
            prop_assert!(merge || decoded.warnings.is_empty(), "{}: {:?}", write.name(), decoded.warnings);
            prop_assert_eq!(write.value & !write.mask, 0);
            prop_assert_eq!(Some(write.address), write.register.address());
        }
    }

    #[test]
    fn every_set_bit_is_explained_once(chip in prop::sample::select(chips().to_vec()), value: u64, pick in any::<prop::sample::Index>()) {
        let all = Register::all(&chip);
        let register = *pick.get(&all);
        let value = if register == Register::RdpmcIndex { value & 0xffff_ffff } else { value };
        let decoded = decode(&chip, register, value);
        let mut seen = 0u64;
        for field in &decoded.fields {
            let width = u32::from(field.high - field.low) + 1;
            let mask = (u64::MAX >> (64 - width)) << field.low;
            prop_assert_eq!(seen & mask, 0, "{} has {} twice", register, field.name);
            prop_assert_eq!(value >> field.low & (mask >> field.low), field.value);
            prop_assert!(!field.meaning.is_empty() && !field.name.is_empty());
            seen |= mask;
        }
        prop_assert_eq!(value & !seen, 0, "{}", register);
    }

    #[test]
    fn a_value_beyond_its_field_is_never_cut((chip, code) in chip_and_code(), select: u16) {
        let coded = Coded::new(EventCode { select, ..code });
        match perf_words(&chip, &coded) {
            Ok(words) => {
                let same = |event: &DecodedEvent| {
                    event.code.select == select || select == 0 || is(&chip, event, EventCode { select, ..code })
                };
                prop_assert!(decode_words(&chip, &words).events.iter().any(same));
            }
            Err(EncodeError::TooLarge { field, value, greatest }) => {
                prop_assert_eq!((field, value), ("event", u64::from(select)));
                prop_assert!(value > greatest);
            }
            Err(other) => prop_assert!(chip.family == Family::Apple, "{other}"),
        }
    }
}

#[test]
fn fixed_events_decode_to_their_counters() {
    for chip in [skylake(), sapphire_rapids(), skymont(), m1()] {
        for counter in CounterMask::from_bits(0, chip.counters.known().fixed_bits()).iter() {
            let CounterId::Fixed(n) = counter else { unreachable!("the mask has fixed counters only") };
            let coded = Coded::new(fixed_code(&chip, n)).on(CounterMask::from_bits(0, 1 << n));
            let events = decoded_events(&chip, &coded, None, CounterOptions::sampling(Modes::USER));
            let event = events.iter().find(|event| event.counter == Some(counter)).unwrap();
            assert_eq!((event.code, event.interrupt), (coded.code, Some(true)));
            let words = perf_words(&chip, &coded).unwrap();
            let decoded = decode_words(&chip, &words);
            let same = |event: &&DecodedEvent| event.counter == Some(counter) && event.code == coded.code;
            assert!(decoded.events.iter().any(|event| same(&event)), "{counter}: {decoded:?}");
        }
    }
}

#[test]
fn extra_registers_come_back_from_config1() {
    use ExtraRegisterKind as Kind;
    let cases = [
        (0xb7, 1, Kind::OffcoreResponse0, 0x3f_ffc0_0001),
        (0xb7, 2, Kind::OffcoreResponse1, 0x10001),
        (0xbb, 1, Kind::OffcoreResponse1, 0x10001),
        (0x2a, 1, Kind::OffcoreResponse0, 0x10001),
        (0x2b, 1, Kind::OffcoreResponse1, 0x10001),
        (0xcd, 1, Kind::LoadLatency, 0x80),
        (0xd0, 5, Kind::LoadLatency, 0x4),
        (0xc6, 1, Kind::Frontend, 0x40_0406),
        (0xad, 0x40, Kind::Frontend, 0x7),
        (0x27, 2, Kind::SnoopResponse1, 0x1),
        (0x2a, 4, Kind::Omr2, 0x1),
        (0xd6, 8, Kind::Omr3, 0x1),
    ];
    for (select, umask, register, value) in cases {
        let extra = Some(ExtraRegister { register, value });
        let coded = Coded::new(EventCode { select, umask, extra, ..EventCode::default() });
        let words = perf_words(&lion_cove(), &coded).unwrap();
        assert_eq!(words.config1, value);
        let decoded = decode_words(&lion_cove(), &words);
        assert!(decoded.events.iter().any(|event| event.code == coded.code), "{coded:?}: {decoded:?}");
        let writes = registers(&lion_cove(), &coded, None, CounterOptions::counting(Modes::USER)).unwrap();
        assert_eq!((writes[0].name(), writes[0].value), (register.name().to_owned(), value));
    }
}

#[test]
fn the_index_of_rdpmc_decodes_to_the_counter() {
    for chip in [skylake(), skymont(), zen4()] {
        for counter in chip.counters.known().iter() {
            let index = rdpmc_index(chip.family, counter).unwrap();
            let decoded = decode(&chip, Register::RdpmcIndex, index.into());
            assert_eq!(decoded.fields[0].meaning, format!("counter {counter}"));
            assert_eq!(decoded.warnings, Vec::<String>::new());
        }
    }
}

#[test]
fn writes_of_all_counters_combine_to_one_a_register() {
    for chip in [skylake(), skymont(), zen4(), neoverse(), m1(), m3()] {
        let mut writes = Vec::new();
        for counter in chip.counters.known().iter() {
            let code = match (chip.family, counter) {
                (Family::Arm, _) => EventCode { select: 0x11, ..EventCode::default() },
                (_, CounterId::General(n)) => {
                    EventCode { select: 0x40 + u16::from(n), ..EventCode::default() }
                }
                (_, CounterId::Fixed(n)) => fixed_code(&chip, n),
            };
            let coded = Coded::new(code).on([counter].into_iter().collect());
            writes.extend(
                registers(&chip, &coded, Some(counter), CounterOptions::counting(Modes::USER)).unwrap(),
            );
        }
        let combined = combine(&writes).unwrap();
        let mut names: Vec<String> = combined.iter().map(|write| write.name()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), combined.len());
        let enabling = combined.last().unwrap();
        assert_eq!(enabling.value & enabling.mask, enabling.value);
        let counted = combined.iter().flat_map(|write| decode(&chip, write.register, write.value).events);
        let counters: CounterMask = counted.filter_map(|event| event.counter).collect();
        assert_eq!(counters, chip.counters.known());
    }
}

#[test]
fn layouts_do_not_overlap_and_stay_within_64_bits() {
    for chip in chips() {
        for register in Register::all(&chip) {
            let mut seen = 0u64;
            for field in layout(&chip, register) {
                assert!(field.low <= field.high && field.high < 64, "{register} {}", field.name);
                assert_eq!(seen & field.mask(), 0, "{register} {}", field.full_name());
                seen |= field.mask();
            }
            assert!(seen != 0 || matches!(register, Register::Perf(_) | Register::RdpmcIndex), "{register}");
        }
    }
}

#[test]
fn an_offcore_register_holds_one_value() {
    let coded = |value| {
        let extra = Some(ExtraRegister { register: ExtraRegisterKind::OffcoreResponse0, value });
        Coded::new(EventCode { select: 0xb7, umask: 1, extra, ..EventCode::default() })
    };
    let on = |value, n| {
        let how = CounterOptions::counting(Modes::USER);
        registers(&skylake(), &coded(value), Some(CounterId::General(n)), how).unwrap()
    };
    assert!(combine(&[on(1, 0), on(1, 1)].concat()).is_ok());
    let error = combine(&[on(1, 0), on(2, 1)].concat()).unwrap_err();
    assert_eq!(error.to_string(), "the events need different values in MSR_OFFCORE_RSP_0");
}

#[test]
fn a_raw_config_with_bits_of_perfevtsel_is_warned_about() {
    let decoded = decode(&skylake(), Register::Perf(ConfigWord::Config), 0x41_01c2);
    assert_eq!(decoded.warnings.len(), 2, "{:?}", decoded.warnings);
    let code = EventCode { select: 0xc2, umask: 1, ..EventCode::default() };
    assert_eq!(decoded.events[0].code, code);
}

//! Event codes to perf's config words.

use std::collections::BTreeMap;

use cyclometer_core::EventCode;
use cyclometer_core::event::ExtraRegisterKind;
use cyclometer_core::pmu::{ConfigWord, ConfigWords, Family, FormatField};

use crate::chip::{Chip, Coded};
use crate::error::EncodeError;
use crate::field::low_mask;
use crate::intel::layout::has_any;
use crate::{amd, apple, arm, intel, riscv};

/// One of perf's fields with its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct PerfTerm {
    field: &'static str,
    value: u64,
}

/// The config words that make `perf_event_open` count an event on a core PMU, by the layouts of the kernel.
///
/// A fixed event becomes the code with which the kernel uses the fixed counter; a config of the event's own
/// is taken as it is. Modes are no part of the words.
///
/// # Errors
///
/// A value that is too large for its field, a field that the chip's layout does not have, a fixed event that
/// perf has no code for.
///
/// # Source
///
/// Linux `arch/x86/events/intel/core.c`, `arch/x86/events/amd/core.c`, `drivers/perf/arm_pmuv3.c`,
/// `drivers/perf/riscv_pmu_sbi.c`, `drivers/perf/apple_m1_cpu_pmu.c`: format attributes.
pub fn perf_words(chip: &Chip, coded: &Coded) -> Result<ConfigWords, EncodeError> {
    words(chip, coded, |field| usual_place(chip, field).ok_or_else(|| no_field(chip, field)))
}

/// The same as the kernel's own format files say, which differ where the kernel or the chip is newer or
/// older.
///
/// # Errors
///
/// As [`perf_words`], and a field that the event needs and that there is no file for.
pub fn perf_words_by_format(
    chip: &Chip,
    coded: &Coded,
    formats: &BTreeMap<String, FormatField>,
) -> Result<ConfigWords, EncodeError> {
    words(chip, coded, |field| formats.get(field).cloned().ok_or(EncodeError::NoFormat { field }))
}

fn words(
    chip: &Chip,
    coded: &Coded,
    place: impl Fn(&'static str) -> Result<FormatField, EncodeError>,
) -> Result<ConfigWords, EncodeError> {
    let mut words = ConfigWords::default();
    for PerfTerm { field, value } in terms(chip, coded)? {
        let put = place(field)?.deposit(value, &mut words);
        put.map_err(|greatest| EncodeError::TooLarge { field, value, greatest })?;
    }
    if let (Some(config), false) = (coded.config, chip.family == Family::RiscV) {
        words.config = config;
    }
    Ok(words)
}

fn no_field(chip: &Chip, field: &'static str) -> EncodeError {
    EncodeError::NoField { field, family: chip.family, pmu_version: chip.pmu_version }
}

/// An event in perf's fields; what is 0 is left out.
fn terms(chip: &Chip, coded: &Coded) -> Result<Vec<PerfTerm>, EncodeError> {
    let terms = match chip.family {
        Family::Intel => intel_terms(chip, coded)?,
        Family::Amd => {
            amd::check(chip, &coded.code)?;
            code_terms(&coded.code)
        }
        Family::Arm => {
            arm::check(chip, &coded.code)?;
            code_terms(&coded.code)
        }
        Family::RiscV => riscv_terms(coded),
        Family::Apple => {
            apple::check(chip, &coded.code)?;
            vec![PerfTerm { field: "event", value: apple::perf_code(chip, coded)?.into() }]
        }
    };
    let greatest = chip.selector_bits.map_or(u64::MAX, low_mask);
    match terms.iter().find(|term| term.field == "event" && term.value > greatest) {
        Some(PerfTerm { value, .. }) => {
            Err(EncodeError::TooLarge { field: "event", value: *value, greatest })
        }
        _ => Ok(terms.into_iter().filter(|term| term.value != 0).collect()),
    }
}

fn intel_terms(chip: &Chip, coded: &Coded) -> Result<Vec<PerfTerm>, EncodeError> {
    let general = intel::code::on_general(coded);
    let coded = general.as_ref().unwrap_or(coded);
    let mut code = coded.code;
    let fixed = coded.fixed_index(Family::Intel).filter(|_| !intel::code::is_metric(&code));
    if let Some(index) = fixed {
        (code.select, code.umask) = intel::code::fixed_perf_code(index);
    }
    // A whole config leaves no room for attributes, as a fixed counter does.
    intel::code::check(chip, &code, fixed.is_some() || coded.config.is_some())?;
    match coded.config {
        None => Ok(code_terms(&code)),
        Some(_) => Ok(code_terms(&EventCode { extra: code.extra, ..EventCode::default() })),
    }
}

fn riscv_terms(coded: &Coded) -> Vec<PerfTerm> {
    let config = riscv::config(coded);
    let event = config & low_mask(riscv::FIRMWARE_SHIFT);
    vec![
        PerfTerm { field: "event", value: event },
        PerfTerm { field: "firmware", value: config >> riscv::FIRMWARE_SHIFT },
    ]
}

fn code_terms(code: &EventCode) -> Vec<PerfTerm> {
    let EventCode { select, umask, umask2, cmask, inv, edge, eq, any, extra } = *code;
    let mut terms = vec![
        PerfTerm { field: "event", value: select.into() },
        PerfTerm { field: "umask", value: u64::from(umask) | u64::from(umask2) << 8 },
        PerfTerm { field: "cmask", value: cmask.into() },
        PerfTerm { field: "inv", value: inv.into() },
        PerfTerm { field: "edge", value: edge.into() },
        PerfTerm { field: "eq", value: eq.into() },
        PerfTerm { field: "any", value: any.into() },
    ];
    terms.extend(extra.map(|extra| PerfTerm { field: extra_field(extra.register), value: extra.value }));
    terms
}

/// perf's field for an extra register.
///
/// OMR registers go through `offcore_rsp`: the kernel gives these cores no field of another name.
///
/// # Source
///
/// Linux `arch/x86/events/intel/core.c`, `nhm_format_attr`, `cmt_format_attr`, `skl_format_attr`,
/// `x86_pmu_extra_regs`.
const fn extra_field(kind: ExtraRegisterKind) -> &'static str {
    match kind {
        ExtraRegisterKind::LoadLatency => "ldlat",
        ExtraRegisterKind::Frontend => "frontend",
        ExtraRegisterKind::SnoopResponse0 | ExtraRegisterKind::SnoopResponse1 => "snoop_rsp",
        _ => "offcore_rsp",
    }
}

/// Where the kernel has a field on a chip.
fn usual_place(chip: &Chip, field: &str) -> Option<FormatField> {
    let at = |word, ranges: &[(u32, u32)]| Some(FormatField { word, ranges: ranges.to_vec() });
    let config = |ranges: &[(u32, u32)]| at(ConfigWord::Config, ranges);
    match (chip.family, field) {
        (Family::Intel, "event") => config(&[(0, 7)]),
        (Family::Amd, "event") => config(&[(0, 7), (32, 35)]),
        (Family::Arm, "event") => config(&[(0, 15)]),
        (Family::RiscV, "event") => config(&[(0, riscv::EVENT_BITS - 1)]),
        (Family::RiscV, "firmware") => config(&[(62, 63)]),
        (Family::Apple, "event") => config(&[(0, u32::from(apple::selector_bits(chip)) - 1)]),
        (Family::Intel, "umask") if chip.is_of_version(6) => config(&[(8, 15), (40, 47)]),
        (Family::Intel, "eq") if chip.is_of_version(6) => config(&[(36, 36)]),
        (Family::Intel, "any") if has_any(chip) => config(&[(21, 21)]),
        (Family::Intel, "offcore_rsp" | "snoop_rsp") => at(ConfigWord::Config1, &[(0, 63)]),
        (Family::Intel, "ldlat") => at(ConfigWord::Config1, &[(0, 15)]),
        (Family::Intel, "frontend") => at(ConfigWord::Config1, &[(0, 23)]),
        (Family::Intel | Family::Amd, "umask") => config(&[(8, 15)]),
        (Family::Intel | Family::Amd, "edge") => config(&[(18, 18)]),
        (Family::Intel | Family::Amd, "inv") => config(&[(23, 23)]),
        (Family::Intel | Family::Amd, "cmask") => config(&[(24, 31)]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use cyclometer_core::event::ExtraRegister;

    use super::*;
    use crate::testing::{lion_cove, m1, m3, neoverse, skylake, u74, zen4};

    fn formats(list: &[(&str, &str)]) -> BTreeMap<String, FormatField> {
        list.iter().map(|(name, text)| ((*name).to_owned(), FormatField::parse(text).unwrap())).collect()
    }

    fn refused(chip: &Chip, code: EventCode) -> String {
        perf_words(chip, &Coded::new(code)).unwrap_err().to_string()
    }

    fn extra(register: ExtraRegisterKind, value: u64) -> EventCode {
        EventCode { extra: Some(ExtraRegister { register, value }), ..EventCode::default() }
    }

    #[test]
    fn what_does_not_fit_is_an_error_with_the_field_and_the_greatest_value() {
        let code = EventCode::default;
        let cases = [
            (skylake(), EventCode { select: 0x100, ..code() }, "event=0x100 does not fit; at most 0xff does"),
            (zen4(), EventCode { select: 0x1000, ..code() }, "event=0x1000 does not fit; at most 0xfff does"),
            (m1(), EventCode { select: 0x5a3, ..code() }, "event=0x5a3 does not fit; at most 0xff does"),
            (
                skylake(),
                extra(ExtraRegisterKind::LoadLatency, 1 << 16),
                "ldlat=0x10000 does not fit; at most 0xffff does",
            ),
            (
                skylake(),
                extra(ExtraRegisterKind::Frontend, 1 << 24),
                "frontend=0x1000000 does not fit; at most 0xffffff does",
            ),
        ];
        for (chip, code, expected) in cases {
            assert_eq!(refused(&chip, code), expected);
        }
    }

    #[test]
    fn a_field_that_the_chip_lacks_is_an_error_with_its_name() {
        let code = EventCode::default;
        let cases = [
            (skylake(), EventCode { umask2: 1, ..code() }, "the intel layout has no field 'umask2'"),
            (skylake(), EventCode { eq: true, ..code() }, "the intel layout has no field 'eq'"),
            (lion_cove(), EventCode { any: true, ..code() }, "the intel layout has no field 'any'"),
            (zen4(), EventCode { any: true, ..code() }, "the amd layout has no field 'any'"),
            (zen4(), extra(ExtraRegisterKind::Frontend, 1), "the amd layout has no field 'config1'"),
            (neoverse(), EventCode { umask: 1, ..code() }, "the arm layout has no field 'umask'"),
            (m3(), EventCode { edge: true, ..code() }, "the apple layout has no field 'edge'"),
        ];
        for (chip, code, expected) in cases {
            let message = refused(&chip, code);
            assert!(message.starts_with(expected), "{message}");
        }
    }

    #[test]
    fn format_files_are_obeyed() {
        let swapped =
            formats(&[("event", "config:8-15"), ("umask", "config:0-7,40-47"), ("cmask", "config2:3-5")]);
        let code = EventCode { select: 0xd1, umask: 0x20, umask2: 1, cmask: 7, ..EventCode::default() };
        let words = perf_words_by_format(&lion_cove(), &Coded::new(code), &swapped).unwrap();
        assert_eq!((words.config, words.config1, words.config2), (0x100_0000_d120, 0, 7 << 3));
        let code = EventCode { cmask: 8, ..code };
        let error = perf_words_by_format(&lion_cove(), &Coded::new(code), &swapped).unwrap_err();
        assert_eq!(error, EncodeError::TooLarge { field: "cmask", value: 8, greatest: 7 });
    }

    #[test]
    fn a_missing_format_file_matters_only_to_events_that_need_it() {
        let few = formats(&[("event", "config:0-7"), ("umask", "config:8-15")]);
        let code = EventCode { select: 0xc6, umask: 1, ..EventCode::default() };
        assert_eq!(perf_words_by_format(&skylake(), &Coded::new(code), &few).unwrap().config, 0x1c6);
        let code = EventCode { inv: true, ..code };
        let error = perf_words_by_format(&skylake(), &Coded::new(code), &few).unwrap_err();
        assert_eq!(error, EncodeError::NoFormat { field: "inv" });
        let code = EventCode { inv: false, ..extra(ExtraRegisterKind::Frontend, 0x12) };
        let error = perf_words_by_format(&skylake(), &Coded::new(code), &few).unwrap_err();
        assert_eq!(error, EncodeError::NoFormat { field: "frontend" });
    }

    #[test]
    fn firmware_events_keep_their_upper_bits() {
        let firmware = Coded { config: Some(0x8000_0000_0000_0005), ..Coded::default() };
        assert_eq!(perf_words(&u74(), &firmware).unwrap().config, 0x8000_0000_0000_0005);
        let older = formats(&[("event", "config:0-47"), ("firmware", "config:63")]);
        let error = perf_words_by_format(&u74(), &firmware, &older).unwrap_err();
        assert_eq!(error, EncodeError::TooLarge { field: "firmware", value: 2, greatest: 1 });
        let between = Coded { config: Some(1 << 56), ..Coded::default() };
        let error = perf_words(&u74(), &between).unwrap_err();
        assert_eq!(error.to_string(), "event=0x100000000000000 does not fit; at most 0xffffffffffffff does");
    }

    #[test]
    fn a_fixed_event_with_attributes_is_counted_by_a_general_counter_if_it_can_be() {
        let modified = |umask| EventCode { umask, cmask: 1, inv: true, ..EventCode::default() };
        let words = perf_words(&skylake(), &Coded::new(modified(1))).unwrap();
        assert_eq!(words.config, 0x0180_00c0);
        assert_eq!(refused(&skylake(), modified(3)), "a fixed counter has no field 'cmask'");
    }

    #[test]
    fn a_config_of_the_events_own_is_taken_as_it_is() {
        let precise =
            Coded { config: Some(0x0100), ..Coded::new(EventCode { umask: 1, ..EventCode::default() }) };
        assert_eq!(perf_words(&lion_cove(), &precise).unwrap().config, 0x0100);
        let modified = Coded { code: EventCode { cmask: 1, ..precise.code }, ..precise };
        let error = perf_words(&lion_cove(), &modified).unwrap_err();
        assert_eq!(error, EncodeError::NotOnFixed { field: "cmask" });
    }
}

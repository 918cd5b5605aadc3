//! General counters that a thread has to itself with Hyper-Threading off only.
//!
//! From Sandy Bridge to Cascade Lake the two threads of a core have four of its eight counters each; with
//! Hyper-Threading off the one thread has all of them. A chip's facts are those with Hyper-Threading on.
//! Chips with four counters in any case (Nehalem, Westmere, Goldmont) have the same version and number, so
//! that what is said here names the generations.
//!
//! # Source
//!
//! intel/perfmon, the fields `Counter` and `CounterHTOff` of these cores; Intel SDM volume 3, chapter
//! Performance Monitoring, where it tells of them.

use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterId, CounterMask};

use crate::chip::Chip;
use crate::field::{FieldSpec, set_bits};
use crate::intel::Register;

/// The meaning of a field of such a counter.
const MEANING: &str = "of a counter that exists with Hyper-Threading off only (Sandy Bridge to Cascade Lake)";

/// The counters that a chip may have besides its own.
pub(crate) fn counters(chip: &Chip) -> CounterMask {
    let may_share = chip.family == Family::Intel && matches!(chip.pmu_version, Some(3..=4));
    let general = if may_share && chip.counters.known().general_bits() == 0xf { 0xf0 } else { 0 };
    CounterMask::from_bits(general, 0)
}

/// Their registers, which are none of the chip with Hyper-Threading on.
pub(crate) fn registers(chip: &Chip) -> Vec<Register> {
    let counters = || set_bits(counters(chip).general_bits());
    let mut registers: Vec<Register> = counters().map(Register::EventSelect).collect();
    registers.extend(counters().map(Register::Counter));
    registers.extend(counters().map(Register::FullWidthCounter));
    registers
}

/// Their bits in a register with one bit for each general counter, from bit 0.
pub(crate) fn fields(chip: &Chip, general: FieldSpec) -> Vec<FieldSpec> {
    let field = FieldSpec { meaning: MEANING, ..general };
    set_bits(counters(chip).general_bits()).map(|n| field.of(n.into(), n)).collect()
}

/// The note about a register of such a counter.
pub(crate) fn remark(chip: &Chip, register: Register) -> Option<String> {
    let n = match register {
        Register::EventSelect(n) | Register::Counter(n) | Register::FullWidthCounter(n) => n,
        _ => return None,
    };
    counters(chip).contains(CounterId::General(n)).then(|| {
        format!("{}; which events counter {n} may count then is not known here", exists(&register.name()))
    })
}

/// The note about such a counter as `rdpmc` names it.
pub(crate) fn rdpmc_remark(chip: &Chip, counter: CounterId) -> Option<String> {
    counters(chip).contains(counter).then(|| {
        format!("{}; where it does not exist, rdpmc faults (#GP)", exists(&format!("counter {counter}")))
    })
}

fn exists(what: &dyn std::fmt::Display) -> String {
    format!("{what} exists with Hyper-Threading off only, on Sandy Bridge to Cascade Lake")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::ChipCounters;
    use crate::testing::{sapphire_rapids, skylake, zen4};
    use crate::{Coded, CounterOptions, EncodeError, decode, registers as encode};
    use cyclometer_core::{EventCode, Modes};

    /// As its table has it: four counters.
    fn threaded() -> Chip {
        Chip { counters: ChipCounters::of(CounterMask::first(4, 3)), ..skylake() }
    }

    fn read(name: &str, value: u64) -> crate::Decoded {
        decode(&threaded(), crate::Register::parse(&threaded(), name).unwrap(), value)
    }

    #[test]
    fn an_event_select_of_the_other_threads_counters_is_read_and_says_when_it_exists() {
        for name in ["PERFEVTSEL5", "0x18b", "IA32_PERFEVTSEL5"] {
            let decoded = read(name, 0x41_00c5);
            assert_eq!((decoded.events[0].code.select, decoded.events[0].counter), (0xc5, None));
            let expected = "IA32_PERFEVTSEL5 exists with Hyper-Threading off only, on Sandy Bridge to Cascade Lake; which \
                            events counter 5 may count then is not known here";
            assert_eq!(decoded.warnings, [expected], "{name}");
        }
        assert!(read("PERFEVTSEL3", 0x41_00c5).warnings.is_empty());
        assert_eq!(read("PERFEVTSEL3", 0x41_00c5).events[0].counter, Some(CounterId::General(3)));
        assert!(read("PMC7", 9).warnings[0].starts_with("IA32_PMC7 exists with Hyper-Threading off only"));
    }

    #[test]
    fn rdpmc_of_such_a_counter_says_when_it_exists() {
        for n in 4..8u64 {
            let decoded = read("rdpmc", n);
            assert_eq!(decoded.fields[0].meaning, format!("counter {n}"));
            assert!(
                decoded.warnings[0].starts_with(&format!("counter {n} exists with Hyper-Threading off only")),
                "{:?}",
                decoded.warnings
            );
        }
        assert!(read("rdpmc", 3).warnings.is_empty());
        assert_eq!(read("rdpmc", 8).warnings, ["rdpmc faults (#GP): 0x8 is no counter of this CPU"]);
    }

    #[test]
    fn their_bits_in_the_global_registers_are_not_reserved() {
        for name in ["GLOBAL_CTRL", "GLOBAL_STATUS", "GLOBAL_INUSE"] {
            let decoded = read(name, 0xff);
            assert!(decoded.warnings.is_empty(), "{name}: {:?}", decoded.warnings);
            assert_eq!(decoded.fields[7].meaning, MEANING);
        }
        assert_eq!(read("PEBS_ENABLE", 1 << 4).warnings, ["bit 4 is reserved on this CPU"]);
        assert_eq!(read("GLOBAL_CTRL", 1 << 8).warnings, ["bit 8 is reserved on this CPU"]);
    }

    #[test]
    fn chips_with_other_counters_have_none_of_these() {
        let tremont = Chip { pmu_version: Some(5), ..threaded() };
        let silvermont =
            Chip { pmu_version: Some(3), counters: ChipCounters::of(CounterMask::first(2, 3)), ..threaded() };
        for chip in [skylake(), sapphire_rapids(), tremont, silvermont, zen4(), Chip::default()] {
            assert!(counters(&chip).is_empty() && registers(&chip).is_empty(), "{chip:?}");
        }
        assert!(crate::Register::parse(&tremont, "PERFEVTSEL4").is_err());
    }

    #[test]
    fn nothing_is_encoded_for_them() {
        let coded = Coded::new(EventCode { select: 0xc5, ..EventCode::default() });
        let on = |n| {
            encode(&threaded(), &coded, Some(CounterId::General(n)), CounterOptions::counting(Modes::USER))
        };
        assert!(on(3).is_ok());
        assert!(matches!(on(4), Err(EncodeError::NotAllowed { .. })), "{:?}", on(4));
        let all = crate::Register::all(&threaded());
        assert!(!all.iter().any(|register| register.to_string() == "IA32_PERFEVTSEL4"));
    }
}

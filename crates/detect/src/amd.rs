//! AMD and Hygon: generations by family and model; counters by `CPUID` 0x8000_0022.

use cyclometer_core::CounterMask;
use cyclometer_core::machine::{PmuFacts, Vendor};

use crate::cpuid::{self, Signature};
use crate::detected::{DetectionContext, no_counters};
use crate::facts::FactSource;

/// Width of every AMD core counter in bits.
///
/// # Source
///
/// AMD APM volume 2, section "Performance Counter MSRs".
const WIDTH_BITS: u32 = 48;

/// Event folder and microarchitecture of a family and model.
///
/// # Source
///
/// Ids: Linux 7.2 `tools/perf/pmu-events/arch/x86/mapfile.csv` (first match wins). Hygon's family 18h is a
/// Zen 1 core without a row there. Names of older families: Linux 7.2 `arch/x86/kernel/cpu/amd.c`.
pub(crate) fn identify(
    vendor: &Vendor,
    signature: Signature,
) -> (Option<&'static str>, Option<&'static str>) {
    if *vendor == Vendor::Hygon {
        return if signature.family == 0x18 { (Some("amdzen1"), Some("Zen (Dhyana)")) } else { (None, None) };
    }
    match (signature.family, signature.model) {
        (0x10, _) => (None, Some("K10")),
        (0x14, _) => (None, Some("Bobcat")),
        (0x15, 0x00 | 0x01) => (None, Some("Bulldozer")),
        (0x15, 0x02 | 0x10..=0x1f) => (None, Some("Piledriver")),
        (0x15, 0x30..=0x3f) => (None, Some("Steamroller")),
        (0x15, 0x60..=0x7f) => (None, Some("Excavator")),
        (0x16, 0x00..=0x0f) => (None, Some("Jaguar")),
        (0x16, 0x30..=0x3f) => (None, Some("Puma")),
        (0x17, 0x08 | 0x18) => (Some("amdzen1"), Some("Zen+")),
        (0x17, 0x00..=0x2f) => (Some("amdzen1"), Some("Zen")),
        (0x17, _) => (Some("amdzen2"), Some("Zen 2")),
        (0x19, 0x00..=0x0f | 0x20..=0x2f | 0x40..=0x5f) => (Some("amdzen3"), Some("Zen 3")),
        (0x19, _) => (Some("amdzen4"), Some("Zen 4")),
        (0x1a, 0x00..=0x2f | 0x40..=0x4f | 0x60..=0x7f) => (Some("amdzen5"), Some("Zen 5")),
        (0x1a, _) => (Some("amdzen6"), Some("Zen 6")),
        _ => (None, None),
    }
}

/// The core PMU as `CPUID` describes it.
///
/// # Source
///
/// AMD APM volume 3, `CPUID` Fn8000_0022 (PerfMonV2: EAX bit 0, EBX bits 3 to 0) and Fn8000_0001 ECX bit 23
/// (PerfCtrExtCore: six counters); without either there are the four of every older core.
pub(crate) fn pmu_facts(facts: &dyn FactSource, around: &DetectionContext<'_>) -> PmuFacts {
    let v2 = cpuid::leaf(facts, None, 0x8000_0022, 0).filter(|registers| registers[0] & 1 == 1);
    let extended =
        cpuid::leaf(facts, None, 0x8000_0001, 0).is_some_and(|registers| registers[2] >> 23 & 1 == 1);
    let (version, count, source) = match v2 {
        Some(registers) => (Some(2), registers[1] & 0xf, "CPUID 0x80000022"),
        None if extended => (None, 6, "CPUID 0x80000001 (PerfCtrExtCore)"),
        // A hypervisor that offers no PMU leaves these four in place, and no one can tell.
        None if around.virtualised && !around.has_core_pmu(around.online) => {
            return no_counters("CPUID 0x80000001: none offered");
        }
        None => (None, 4, "the four counters of every AMD core"),
    };
    let counters = CounterMask::first(count, 0);
    PmuFacts {
        version,
        counters,
        counter_width_bits: Some(WIDTH_BITS),
        implemented: None,
        source: source.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(vendor: Vendor, family: u32, model: u32) -> Option<&'static str> {
        identify(&vendor, Signature { family, model, stepping: 0 }).0
    }

    #[test]
    fn zen_generations_follow_the_map_file() {
        let cases = [
            (0x17, 0x01, "amdzen1"),
            (0x17, 0x18, "amdzen1"),
            (0x17, 0x31, "amdzen2"),
            (0x17, 0x71, "amdzen2"),
            (0x17, 0xa0, "amdzen2"),
            (0x19, 0x01, "amdzen3"),
            (0x19, 0x21, "amdzen3"),
            (0x19, 0x50, "amdzen3"),
            (0x19, 0x11, "amdzen4"),
            (0x19, 0x61, "amdzen4"),
            (0x19, 0xa0, "amdzen4"),
            (0x1a, 0x02, "amdzen5"),
            (0x1a, 0x44, "amdzen5"),
            (0x1a, 0x70, "amdzen5"),
            (0x1a, 0x50, "amdzen6"),
            (0x1a, 0x90, "amdzen6"),
        ];
        for (family, model, expected) in cases {
            assert_eq!(id(Vendor::Amd, family, model), Some(expected), "{family:#x} {model:#x}");
        }
    }

    #[test]
    fn hygon_is_a_zen_1_core_and_older_families_have_no_events() {
        assert_eq!(id(Vendor::Hygon, 0x18, 0x02), Some("amdzen1"));
        assert_eq!(id(Vendor::Hygon, 0x19, 0x01), None);
        assert_eq!(id(Vendor::Amd, 0x15, 0x02), None);
    }
}

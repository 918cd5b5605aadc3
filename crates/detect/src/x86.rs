//! x86: who made the CPU, which one it is, and what `CPUID` says about its PMU.

use cyclometer_core::CpuSet;
use cyclometer_core::machine::{CoreType, CpuId, MachineCpu, Vendor};

use crate::cpuid::{Signature, leaf, letters};
use crate::detected::{DetectedCpu, DetectionContext, core_type};
use crate::facts::FactSource;
use crate::{amd, intel, text};

/// The CPU and its core types.
pub(crate) fn detect(facts: &dyn FactSource, around: &DetectionContext<'_>) -> DetectedCpu {
    // Reading it is slow on large machines, and needed only where the instruction is not to be had.
    let cpuinfo = match facts.cpuid(None, 0, 0) {
        Some(_) => String::new(),
        None => facts.read("/proc/cpuinfo").unwrap_or_default(),
    };
    let vendor = vendor(&vendor_letters(facts, &cpuinfo));
    let signature = signature(facts, &cpuinfo);
    let id = match signature {
        Some(Signature { family, model, stepping }) => CpuId::X86 { family, model, stepping },
        None => CpuId::Unknown,
    };
    let name = brand(facts).or_else(|| Some(text::clean(text::field(&cpuinfo, "model name")?)));
    let core_types = core_types(facts, around, &vendor, signature);
    DetectedCpu { cpu: MachineCpu { vendor, id, name: name.filter(|name| !name.is_empty()) }, core_types }
}

fn core_types(
    facts: &dyn FactSource,
    around: &DetectionContext<'_>,
    vendor: &Vendor,
    signature: Option<Signature>,
) -> Vec<CoreType> {
    let cpus: CpuSet = around.online.clone();
    match (vendor, signature) {
        (Vendor::Intel, Some(signature)) => intel::core_types(facts, around, signature),
        (Vendor::Amd | Vendor::Hygon, Some(signature)) => {
            let (id, name) = amd::identify(vendor, signature);
            let pmu = amd::pmu_facts(facts, around);
            vec![core_type(id.map(str::to_owned), name, cpus, pmu)]
        }
        // Zhaoxin and Centaur follow Intel's architectural performance monitoring.
        _ => vec![core_type(None, None, cpus, intel::pmu_facts(facts, None, around.virtualised))],
    }
}

/// The vendor's letters, from the text of `/proc/cpuinfo` where the instruction is not to be had.
pub(crate) fn vendor_letters(facts: &dyn FactSource, cpuinfo: &str) -> String {
    match facts.cpuid(None, 0, 0) {
        Some([_, b, c, d]) => letters(&[b, d, c]),
        None => text::clean(text::field(cpuinfo, "vendor_id").unwrap_or("")),
    }
}

/// The vendor with these letters.
pub(crate) fn vendor(letters: &str) -> Vendor {
    match letters {
        "GenuineIntel" => Vendor::Intel,
        "AuthenticAMD" => Vendor::Amd,
        "HygonGenuine" => Vendor::Hygon,
        "" => Vendor::Other("unknown".to_owned()),
        other => Vendor::Other(other.to_owned()),
    }
}

fn signature(facts: &dyn FactSource, cpuinfo: &str) -> Option<Signature> {
    if let Some([eax, ..]) = leaf(facts, None, 1, 0) {
        return Some(decode_signature(eax));
    }
    let number = |key| text::field(cpuinfo, key)?.parse().ok();
    Some(Signature { family: number("cpu family")?, model: number("model")?, stepping: number("stepping")? })
}

/// Splits EAX of leaf 1.
///
/// # Source
///
/// Intel SDM volume 2A, `CPUID`, figure "Version Information Returned by CPUID in EAX"; AMD uses the same
/// layout, and reports a base family of 15 for all that have an extended one.
fn decode_signature(eax: u32) -> Signature {
    let (base_family, base_model) = (eax >> 8 & 0xf, eax >> 4 & 0xf);
    let family = base_family + if base_family == 0xf { eax >> 20 & 0xff } else { 0 };
    let model = base_model + if base_family >= 6 { (eax >> 16 & 0xf) << 4 } else { 0 };
    Signature { family, model, stepping: eax & 0xf }
}

/// The processor brand string, leaves 0x8000_0002 to 4.
fn brand(facts: &dyn FactSource) -> Option<String> {
    let parts: Option<Vec<[u32; 4]>> = (0x8000_0002..=0x8000_0004).map(|n| leaf(facts, None, n, 0)).collect();
    let brand = letters(&parts?.concat());
    (!brand.is_empty()).then_some(brand)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(eax: u32, family: u32, model: u32, stepping: u32) {
        assert_eq!(decode_signature(eax), Signature { family, model, stepping }, "{eax:#x}");
    }

    #[test]
    fn extended_family_and_model_are_merged() {
        check(0x0005_06e3, 6, 0x5e, 3);
        check(0x000c_06f2, 6, 0xcf, 2);
        check(0x00a2_0f12, 0x19, 0x21, 2);
        check(0x0030_0f10, 18, 0x01, 0);
    }

    #[test]
    fn letters_are_read_low_byte_first() {
        assert_eq!(letters(&[0x756e_6547, 0x4965_6e69, 0x6c65_746e]), "GenuineIntel");
        assert_eq!(letters(&[0x4b4d_564b, 0x564b_4d56, 0x4d]), "KVMKVMKVM");
    }
}

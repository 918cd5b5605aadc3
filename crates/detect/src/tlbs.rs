//! The TLBs of the first CPU, for models of them.

use cyclometer_core::machine::Vendor;
use cyclometer_core::tlb_geometry::{TlbGeometry, TlbHierarchy};

use crate::cpuid::leaf;
use crate::facts::FactSource;
use crate::x86;

/// The TLBs of the first CPU for pages of 4 KiB, as far as `CPUID` has them; the others are usual ones.
///
/// The second level of AMD's CPUs is not shared: that of data stands for both.
pub fn tlb_geometry(facts: &dyn FactSource) -> TlbHierarchy {
    let found = match x86::vendor(&x86::vendor_letters(facts, "")) {
        Vendor::Intel => of_intel(facts),
        Vendor::Amd | Vendor::Hygon => of_amd(facts),
        _ => FoundTlbs::default(),
    };
    let usual = TlbHierarchy::USUAL;
    TlbHierarchy {
        itlb: found.itlb.unwrap_or(usual.itlb),
        dtlb: found.dtlb.unwrap_or(usual.dtlb),
        stlb: found.stlb.unwrap_or(usual.stlb),
        ..usual
    }
}

/// The TLBs that a CPU lists.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct FoundTlbs {
    itlb: Option<TlbGeometry>,
    dtlb: Option<TlbGeometry>,
    stlb: Option<TlbGeometry>,
}

/// The role of a TLB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TlbRole {
    Itlb,
    Dtlb,
    Stlb,
}

impl FoundTlbs {
    /// Adds a TLB. The largest of several with one role counts.
    fn add(&mut self, role: TlbRole, entries: u64, ways: u64) {
        let Ok(found) = TlbGeometry::new(entries, ways) else { return };
        let slot = match role {
            TlbRole::Itlb => &mut self.itlb,
            TlbRole::Dtlb => &mut self.dtlb,
            TlbRole::Stlb => &mut self.stlb,
        };
        if slot.is_none_or(|known| known.entries < found.entries) {
            *slot = Some(found);
        }
    }
}

/// Sub-leaves of leaf 0x18 that are read at most.
const MOST_SUB_LEAVES: u32 = 32;

/// # Source
///
/// Intel SDM volume 2A, `CPUID`, leaf 18H "Deterministic Address Translation Parameters".
fn of_intel(facts: &dyn FactSource) -> FoundTlbs {
    let mut found = FoundTlbs::default();
    let last = leaf(facts, None, 0x18, 0).map_or(0, |[last, ..]| last.min(MOST_SUB_LEAVES));
    for sub_leaf in 0..=last {
        let Some([_, ebx, sets, edx]) = leaf(facts, None, 0x18, sub_leaf) else { break };
        let has_small_pages = ebx & 1 == 1;
        let role = match (edx & 0x1f, edx >> 5 & 0x7) {
            // A TLB of data, or of loads only.
            (1 | 4, 1) => TlbRole::Dtlb,
            (2, 1) => TlbRole::Itlb,
            (3, 2) => TlbRole::Stlb,
            _ => continue,
        };
        if has_small_pages {
            let ways = u64::from(ebx >> 16);
            found.add(role, ways * u64::from(sets), ways);
        }
    }
    if found == FoundTlbs::default() { by_descriptors(facts) } else { found }
}

/// # Source
///
/// Intel SDM volume 2A, `CPUID`, leaf 2 "TLB and Cache Information": the lowest byte of EAX is no descriptor,
/// and a register with bit 31 has none.
fn by_descriptors(facts: &dyn FactSource) -> FoundTlbs {
    let mut found = FoundTlbs::default();
    let registers = leaf(facts, None, 2, 0).unwrap_or_default();
    let valid = registers.into_iter().enumerate().filter(|(_, register)| register >> 31 == 0);
    let bytes = valid.flat_map(|(n, register)| register.to_le_bytes().into_iter().skip(usize::from(n == 0)));
    for byte in bytes {
        if let Some((_, role, entries, ways)) = DESCRIPTORS.iter().find(|(of, ..)| *of == byte) {
            found.add(*role, *entries, *ways);
        }
    }
    found
}

/// Descriptors of TLBs that have pages of 4 KiB: byte, role, entries, ways.
///
/// # Source
///
/// Intel SDM volume 2A, `CPUID`, table "Encoding of CPUID Leaf 2 Descriptors".
const DESCRIPTORS: [(u8, TlbRole, u64, u64); 24] = [
    (0x01, TlbRole::Itlb, 32, 4),
    (0x03, TlbRole::Dtlb, 64, 4),
    (0x4f, TlbRole::Itlb, 32, 32),
    (0x50, TlbRole::Itlb, 64, 64),
    (0x51, TlbRole::Itlb, 128, 128),
    (0x52, TlbRole::Itlb, 256, 256),
    (0x57, TlbRole::Dtlb, 16, 4),
    (0x59, TlbRole::Dtlb, 16, 16),
    (0x5b, TlbRole::Dtlb, 64, 64),
    (0x5c, TlbRole::Dtlb, 128, 128),
    (0x5d, TlbRole::Dtlb, 256, 256),
    (0x61, TlbRole::Itlb, 48, 48),
    (0xa0, TlbRole::Dtlb, 32, 32),
    (0xb0, TlbRole::Itlb, 128, 4),
    (0xb2, TlbRole::Itlb, 64, 4),
    (0xb3, TlbRole::Dtlb, 128, 4),
    (0xb4, TlbRole::Dtlb, 256, 4),
    (0xb5, TlbRole::Itlb, 64, 8),
    (0xb6, TlbRole::Itlb, 128, 8),
    (0xba, TlbRole::Dtlb, 64, 4),
    (0xc0, TlbRole::Dtlb, 8, 4),
    (0xc1, TlbRole::Stlb, 1024, 8),
    (0xc3, TlbRole::Stlb, 1536, 6),
    (0xca, TlbRole::Stlb, 512, 4),
];

/// # Source
///
/// AMD64 Architecture Programmer's Manual volume 3, appendix E.4: `Fn8000_0005_EBX` and `Fn8000_0006_EBX`,
/// and the table "L2/L3 Cache and TLB Associativity Field Encoding".
fn of_amd(facts: &dyn FactSource) -> FoundTlbs {
    let mut found = FoundTlbs::default();
    let [_, first, ..] = leaf(facts, None, 0x8000_0005, 0).unwrap_or_default();
    for (role, bits) in [(TlbRole::Itlb, first & 0xffff), (TlbRole::Dtlb, first >> 16)] {
        let (ways, entries) = (u64::from(bits >> 8), u64::from(bits & 0xff));
        found.add(role, entries, if ways == 0xff { entries } else { ways });
    }
    let [_, second, ..] = leaf(facts, None, 0x8000_0006, 0).unwrap_or_default();
    let entries = u64::from(second >> 16 & 0xfff);
    let ways = match second >> 28 {
        ways @ 1..=4 => u64::from(ways),
        5 => 6,
        6 => 8,
        8 => 16,
        0xa => 32,
        0xb => 48,
        0xc => 64,
        0xd => 96,
        0xe => 128,
        0xf => entries,
        _ => 0,
    };
    found.add(TlbRole::Stlb, entries, ways);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RecordedFacts;

    const INTEL: &str = "cpuid * 0 0 0x20 0x756e6547 0x6c65746e 0x49656e69\n";
    const AMD: &str = "cpuid * 0 0 0x10 0x68747541 0x444d4163 0x69746e65\n";

    #[track_caller]
    fn check(facts: &str, expected: &str) {
        let facts = RecordedFacts::parse(&format!("note synthetic: x\nos linux\n{facts}")).unwrap();
        assert_eq!(tlb_geometry(&facts).to_string(), expected);
    }

    const USUAL: &str = "ITLB=128,8,4096:DTLB=64,4,4096:STLB=1536,12";

    #[test]
    fn a_machine_without_the_leaves_has_usual_tlbs() {
        check("", USUAL);
        check(INTEL, USUAL);
        check("cpuid * 0 0 1 0x756e6547 0x6c65746e 0x49656e69\n", USUAL);
        check(&format!("{AMD}cpuid * 0x80000000 0 0x80000004 0 0 0\n"), USUAL);
    }

    #[test]
    fn leaf_18_has_each_tlb_and_the_largest_one_of_small_pages_counts() {
        // Sub-leaf 0 only says how many follow. Then: instructions 256, loads 96, stores 16, large pages 32,
        // another one of data with 8, and the shared one of 2048, each with its number of sets in ECX.
        let leaves = "cpuid * 0x18 0 6 0 0 0\n\
                      cpuid * 0x18 1 0 0x80001 32 0x22\n\
                      cpuid * 0x18 2 0 0x60001 16 0x24\n\
                      cpuid * 0x18 3 0 0x100001 1 0x125\n\
                      cpuid * 0x18 4 0 0x80002 32 0x21\n\
                      cpuid * 0x18 5 0 0x80001 1 0x121\n\
                      cpuid * 0x18 6 0 0x100003 128 0x43\n";
        check(&format!("{INTEL}{leaves}"), "ITLB=256,8,4096:DTLB=96,6,4096:STLB=2048,16");
    }

    #[test]
    fn descriptors_stand_in_for_leaf_18_and_a_register_with_bit_31_has_none() {
        // Skylake: 0x76, 0xff, 0xb5, 0xf0, 0xc3, and in a register without descriptors 0xb4.
        check(
            &format!("{INTEL}cpuid * 2 0 0x76036301 0xf0b5ff 0xc3 0x800000b4\n"),
            "ITLB=64,8,4096:DTLB=64,4,4096:STLB=1536,6",
        );
    }

    #[test]
    fn amd_has_fully_associative_first_levels_and_the_second_one_of_data_is_taken() {
        let leaves = "cpuid * 0x80000000 0 0x80000021 0 0 0\n\
                      cpuid * 0x80000005 0 0xff40ff40 0xff48ff40 0x20080140 0x20080140\n\
                      cpuid * 0x80000006 0 0x48002200 0x68004200 0x2006140 0x8009140\n";
        check(&format!("{AMD}{leaves}"), "ITLB=64,64,4096:DTLB=72,72,4096:STLB=2048,8");
        // A second level that is off, and a first one whose entries are no multiple of its ways.
        let odd = "cpuid * 0x80000000 0 0x80000021 0 0 0\n\
                   cpuid * 0x80000005 0 0 0x0740ff40 0 0\n\
                   cpuid * 0x80000006 0 0 0x08004200 0 0\n";
        check(&format!("{AMD}{odd}"), "ITLB=64,64,4096:DTLB=64,4,4096:STLB=1536,12");
    }
}

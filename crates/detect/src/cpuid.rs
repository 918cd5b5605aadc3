//! The leaves of `CPUID`, and how they are read.

use crate::facts::FactSource;
use crate::text;

/// Family, model and stepping, with the extended parts merged in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Signature {
    pub(crate) family: u32,
    pub(crate) model: u32,
    pub(crate) stepping: u32,
}

/// A leaf of some CPU; `None` when the CPU does not have it.
///
/// Leaves beyond the highest one repeat other data, so they are never asked for.
pub(crate) fn leaf(facts: &dyn FactSource, cpu: Option<u32>, leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
    let highest = facts.cpuid(None, leaf & 0xffff_0000, 0)?[0];
    (leaf <= highest).then(|| facts.cpuid(cpu, leaf, subleaf))?
}

/// Registers as the letters they hold, low byte first; what is no letter is dropped.
pub(crate) fn letters(registers: &[u32]) -> String {
    let bytes: Vec<u8> = registers.iter().flat_map(|register| register.to_le_bytes()).collect();
    text::clean(&String::from_utf8_lossy(&bytes))
}

/// The hypervisor bit: leaf 1, ECX bit 31. `None` where there is no `CPUID`.
pub(crate) fn hypervisor_bit(facts: &dyn FactSource) -> Option<bool> {
    Some(leaf(facts, None, 1, 0)?[2] >> 31 == 1)
}

//! An instruction set without `CPUID`.

/// There is no such instruction.
pub(super) fn read(_cpu: Option<u32>, _leaf: u32, _subleaf: u32) -> Option<[u32; 4]> {
    None
}

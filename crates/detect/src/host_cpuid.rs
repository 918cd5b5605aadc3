//! `CPUID` of the host.

/// A leaf on one CPU, or on whichever CPU we run.
pub(super) fn read(cpu: Option<u32>, leaf: u32, subleaf: u32) -> Option<[u32; 4]> {
    match cpu {
        Some(cpu) => cyclometer_sys::cpuid::cpuid_on(cpu, leaf, subleaf),
        None => Some(cyclometer_sys::cpuid::cpuid(leaf, subleaf)),
    }
}

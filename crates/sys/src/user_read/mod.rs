//! Counters read in user space: the page that the kernel shares for an event, and the instructions behind it.
//!
//! [`page`] is the protocol, as pure code for every architecture: it decides whether an instruction may be executed, and
//! makes a [`Permit`] of that. The instructions are below, one function for each; only a page that the kernel
//! mapped ([`Mapping`]) leads to them.
//!
//! # Source
//!
//! Linux `include/uapi/linux/perf_event.h`, `struct perf_event_mmap_page`; `perf_event_open(2)`, section "MMAP layout".

#[cfg(target_arch = "aarch64")]
#[path = "aarch64.rs"]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux shares pages"))]
mod instructions;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
#[path = "none.rs"]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux shares pages"))]
mod instructions;
#[cfg(target_arch = "riscv64")]
#[path = "riscv64.rs"]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux shares pages"))]
mod instructions;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64.rs"]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only Linux shares pages"))]
mod instructions;
#[cfg(target_os = "linux")]
mod mapping;
pub mod page;
pub mod rehearsal;

pub use instructions::serialise;
#[cfg(target_os = "linux")]
pub use mapping::Mapping;
pub use page::{Counters, Page, PageValues, Permit, read_together};

/// How a read is kept from overlapping with what is executed before and after it.
///
/// CPUs execute out of order: without serialisation, instructions around a read may be counted on its other side; that is a
/// few dozen instructions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Serialisation {
    /// Not at all: the cheapest.
    #[default]
    None,
    /// Waits until what came before has been executed: `lfence` on x86, `isb` on Arm, `fence` on RISC-V.
    Light,
    /// Waits until what came before has been executed and its stores are done: `cpuid` on x86, which costs microseconds in
    /// a virtual machine, `dsb` and `isb` on Arm, `fence` and `fence.i` on RISC-V.
    Full,
}

impl Serialisation {
    /// The word used in configuration files.
    pub fn word(self) -> &'static str {
        match self {
            Serialisation::None => "none",
            Serialisation::Light => "light",
            Serialisation::Full => "full",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_serialisation_can_be_executed_here_and_has_a_word() {
        for (how, word) in
            [(Serialisation::None, "none"), (Serialisation::Light, "light"), (Serialisation::Full, "full")]
        {
            serialise(how);
            assert_eq!(how.word(), word);
        }
    }
}

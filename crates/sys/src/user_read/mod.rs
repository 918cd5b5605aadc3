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
/// few dozen instructions. Ordered by what they cost, the cheapest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Serialisation {
    /// Not at all.
    #[default]
    None,
    /// Waits until what came before has been executed: `lfence` on x86, `isb` on Arm, `fence` on RISC-V.
    #[doc(alias = "lfence")]
    Light,
    /// Also waits until loads and stores of before are done: `mfence` and `lfence` on x86, where `mfence` alone orders memory and
    /// lets a read of a counter pass; `dsb` and `isb` on Arm, `fence` on RISC-V.
    #[doc(alias = "mfence")]
    Memory,
    /// Also empties the pipeline: `cpuid` on x86, which costs microseconds in a virtual machine; `dsb` and `isb` on Arm, `fence` and
    /// `fence.i` on RISC-V.
    #[doc(alias = "cpuid")]
    Full,
}

impl Serialisation {
    /// Every choice, the cheapest first.
    pub const ALL: [Serialisation; 4] =
        [Serialisation::None, Serialisation::Light, Serialisation::Memory, Serialisation::Full];

    /// The word used in configuration files.
    pub fn word(self) -> &'static str {
        match self {
            Serialisation::None => "none",
            Serialisation::Light => "light",
            Serialisation::Memory => "memory",
            Serialisation::Full => "full",
        }
    }

    /// x86's instruction for it, which names it in configuration files as well, on every architecture.
    pub fn instruction(self) -> Option<&'static str> {
        match self {
            Serialisation::None => None,
            Serialisation::Light => Some("lfence"),
            Serialisation::Memory => Some("mfence"),
            Serialisation::Full => Some("cpuid"),
        }
    }

    /// The choice of a word or of x86's instruction.
    pub fn named(name: &str) -> Option<Serialisation> {
        Self::ALL.into_iter().find(|how| how.word() == name || how.instruction() == Some(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_serialisation_can_be_executed_here_and_is_found_by_its_word_and_its_instruction() {
        for how in Serialisation::ALL {
            serialise(how);
            assert_eq!(Serialisation::named(how.word()), Some(how));
            assert!(how.instruction().is_none_or(|name| Serialisation::named(name) == Some(how)));
        }
        assert_eq!(Serialisation::named("mfence"), Some(Serialisation::Memory));
        assert_eq!(Serialisation::named("CPUID"), None);
        assert!(Serialisation::ALL.is_sorted(), "the cheapest comes first");
    }
}

//! Counters read in user space: the page that the kernel shares for an event, and the instructions for it.
//!
//! [`page`] implements the protocol, as pure code for every architecture: it decides whether an instruction
//! may be executed, and represents that by a [`Permit`]. Each instruction has one function below. Only a page
//! that the kernel mapped ([`Mapping`]) leads to them.
//!
//! # Source
//!
//! Linux `include/uapi/linux/perf_event.h`, `struct perf_event_mmap_page`; `perf_event_open(2)`, section
//! "MMAP layout".

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

/// How a read is separated from the code before and after it.
///
/// CPUs execute out of order. Without serialisation, a few dozen instructions around a read may be counted on
/// its other side. The variants are ordered by cost, the cheapest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Serialisation {
    /// No serialisation.
    #[default]
    None,
    /// Waits until earlier instructions have been executed: `lfence` on x86, `isb` on Arm, `fence` on RISC-V.
    #[doc(alias = "lfence")]
    Light,
    /// Also waits until earlier loads and stores are done: `mfence` and `lfence` on x86, `dsb` and `isb` on
    /// Arm, `fence` on RISC-V. On x86, `mfence` alone orders memory and lets a read of a counter pass.
    #[doc(alias = "mfence")]
    Memory,
    /// Also empties the pipeline: `cpuid` on x86, which costs microseconds in a virtual machine; `dsb` and
    /// `isb` on Arm, `fence` and `fence.i` on RISC-V.
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

    /// The x86 instruction for it, which is also its name in configuration files on every architecture.
    pub fn instruction(self) -> Option<&'static str> {
        match self {
            Serialisation::None => None,
            Serialisation::Light => Some("lfence"),
            Serialisation::Memory => Some("mfence"),
            Serialisation::Full => Some("cpuid"),
        }
    }

    /// The choice with this word or x86 instruction.
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

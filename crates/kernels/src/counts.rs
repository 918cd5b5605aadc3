//! The counts of kernels, added up by hand from their source.

use crate::{Kernel, Rounds};

/// The quantities that are known of a kernel. The names and conventions are those of the software PMU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum KernelQuantity {
    /// Instructions retired.
    Instructions,
    /// Jumps, calls and returns, taken or not.
    Branches,
    /// Those that were taken.
    TakenBranches,
    /// Branches that depend on a condition.
    ConditionalBranches,
    /// Those that were taken.
    ConditionalTaken,
    /// Those that were not.
    NotTaken,
    /// Jumps and calls with the target in the instruction.
    DirectBranches,
    /// Jumps and calls with the target in a register.
    IndirectBranches,
    /// Calls.
    Calls,
    /// Calls with the target in a register.
    IndirectCalls,
    /// Returns.
    Returns,
    /// Reads of memory.
    Loads,
    /// Writes of memory.
    Stores,
    /// Both together.
    Accesses,
}

impl KernelQuantity {
    /// Every quantity.
    pub const ALL: [KernelQuantity; 14] = [
        KernelQuantity::Instructions,
        KernelQuantity::Branches,
        KernelQuantity::TakenBranches,
        KernelQuantity::ConditionalBranches,
        KernelQuantity::ConditionalTaken,
        KernelQuantity::NotTaken,
        KernelQuantity::DirectBranches,
        KernelQuantity::IndirectBranches,
        KernelQuantity::Calls,
        KernelQuantity::IndirectCalls,
        KernelQuantity::Returns,
        KernelQuantity::Loads,
        KernelQuantity::Stores,
        KernelQuantity::Accesses,
    ];

    /// The software PMU's name of it; that of the last one is nobody's.
    pub fn word(self) -> &'static str {
        match self {
            KernelQuantity::Instructions => "instructions",
            KernelQuantity::Branches => "branches",
            KernelQuantity::TakenBranches => "branches_taken",
            KernelQuantity::ConditionalBranches => "branches_conditional",
            KernelQuantity::ConditionalTaken => "branches_conditional_taken",
            KernelQuantity::NotTaken => "branches_not_taken",
            KernelQuantity::DirectBranches => "branches_direct",
            KernelQuantity::IndirectBranches => "branches_indirect",
            KernelQuantity::Calls => "calls",
            KernelQuantity::IndirectCalls => "calls_indirect",
            KernelQuantity::Returns => "returns",
            KernelQuantity::Loads => "loads",
            KernelQuantity::Stores => "stores",
            KernelQuantity::Accesses => "loads_and_stores",
        }
    }
}

/// The counts of a number of rounds, without the code around the loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KernelCounts {
    /// Instructions retired.
    pub instructions: u64,
    /// Conditional branches, the loop's own among them.
    pub conditional: u64,
    /// Those of them that were taken. The loop's own is counted as taken in the last round too: that it is
    /// not is the same in every run.
    pub conditional_taken: u64,
    /// Jumps that depend on nothing, with the target in the instruction.
    pub jumps: u64,
    /// Jumps with the target in a register.
    pub indirect_jumps: u64,
    /// Calls with the target in the instruction.
    pub direct_calls: u64,
    /// Calls with the target in a register.
    pub indirect_calls: u64,
    /// Returns.
    pub returns: u64,
    /// Reads of memory.
    pub loads: u64,
    /// Writes of memory.
    pub stores: u64,
}

impl KernelCounts {
    /// One of them.
    pub fn of(&self, quantity: KernelQuantity) -> u64 {
        let calls = self.direct_calls + self.indirect_calls;
        let always = self.jumps + self.indirect_jumps + calls + self.returns;
        match quantity {
            KernelQuantity::Instructions => self.instructions,
            KernelQuantity::Branches => self.conditional + always,
            KernelQuantity::TakenBranches => self.conditional_taken + always,
            KernelQuantity::ConditionalBranches => self.conditional,
            KernelQuantity::ConditionalTaken => self.conditional_taken,
            KernelQuantity::NotTaken => self.conditional - self.conditional_taken,
            KernelQuantity::DirectBranches => self.conditional + self.jumps + self.direct_calls,
            KernelQuantity::IndirectBranches => self.indirect_jumps + self.indirect_calls,
            KernelQuantity::Calls => calls,
            KernelQuantity::IndirectCalls => self.indirect_calls,
            KernelQuantity::Returns => self.returns,
            KernelQuantity::Loads => self.loads,
            KernelQuantity::Stores => self.stores,
            KernelQuantity::Accesses => self.loads + self.stores,
        }
    }

    fn times(self, rounds: u64) -> KernelCounts {
        let KernelCounts { instructions, conditional, conditional_taken, jumps, indirect_jumps, .. } = self;
        KernelCounts {
            instructions: instructions * rounds,
            conditional: conditional * rounds,
            conditional_taken: conditional_taken * rounds,
            jumps: jumps * rounds,
            indirect_jumps: indirect_jumps * rounds,
            direct_calls: self.direct_calls * rounds,
            indirect_calls: self.indirect_calls * rounds,
            returns: self.returns * rounds,
            loads: self.loads * rounds,
            stores: self.stores * rounds,
        }
    }
}

/// A round of nothing but counting down and branching back.
const LOOP: KernelCounts = KernelCounts {
    instructions: 2,
    conditional: 1,
    conditional_taken: 1,
    jumps: 0,
    indirect_jumps: 0,
    direct_calls: 0,
    indirect_calls: 0,
    returns: 0,
    loads: 0,
    stores: 0,
};

impl Kernel {
    /// The counts of so many rounds on every instruction set, except for the memory accesses of a call and a
    /// return.
    ///
    /// # Source
    ///
    /// Added up by hand from the source of each kernel; the software PMU counts the same on x86-64.
    pub fn counts(self, rounds: Rounds) -> KernelCounts {
        let rounds = u64::from(rounds.get());
        let counts = self.round().times(rounds);
        match self {
            Kernel::Random => KernelCounts { conditional_taken: rounds + random_taken(rounds), ..counts },
            _ => counts,
        }
    }

    /// Whether a quantity of it is known, and means the same on every instruction set.
    ///
    /// A call writes the return address to memory on some. Whether a system call is a branch is a matter of
    /// opinion.
    pub fn knows(self, quantity: KernelQuantity) -> bool {
        use KernelQuantity::{Accesses, Instructions, Loads, Stores};
        match self {
            Kernel::SystemCalls => quantity == Instructions,
            Kernel::Calls | Kernel::IndirectCalls => !matches!(quantity, Loads | Stores | Accesses),
            _ => true,
        }
    }

    fn round(self) -> KernelCounts {
        let with =
            |instructions: u64| KernelCounts { instructions: LOOP.instructions + instructions, ..LOOP };
        match self {
            Kernel::Additions => with(16),
            Kernel::Jumps => KernelCounts { jumps: 4, ..with(4) },
            Kernel::NotTaken => KernelCounts { conditional: 5, ..with(8) },
            Kernel::Random => KernelCounts { conditional: 2, ..with(4) },
            Kernel::Calls => KernelCounts { direct_calls: 1, returns: 1, ..with(2) },
            Kernel::IndirectCalls => KernelCounts { indirect_calls: 1, returns: 1, ..with(2) },
            Kernel::IndirectJumps => KernelCounts { indirect_jumps: 1, ..with(1) },
            Kernel::Loads => KernelCounts { loads: 8, ..with(8) },
            Kernel::Stores => KernelCounts { stores: 8, ..with(8) },
            Kernel::Copies => KernelCounts { loads: 4, stores: 4, ..with(8) },
            Kernel::ChaseResident | Kernel::ChaseCold => KernelCounts { loads: 4, ..with(4) },
            Kernel::SystemCalls => with(2),
        }
    }
}

/// The first state of the generator of [`Kernel::Random`].
pub(crate) const FIRST: u64 = 0x9e37_79b9_7f4a_7c15;

/// The generator: each number is the one before times this, and more.
///
/// # Source
///
/// D. E. Knuth, The Art of Computer Programming, volume 2, section 3.3.4: the multiplier of MMIX.
pub(crate) const MULTIPLIER: u64 = 6_364_136_223_846_793_005;

/// The number that is added each time.
///
/// # Source
///
/// As of [`MULTIPLIER`].
pub(crate) const INCREMENT: u64 = 1_442_695_040_888_963_407;

/// How many of the first numbers have their uppermost bit set, which is when the branch is taken.
fn random_taken(rounds: u64) -> u64 {
    let mut number = FIRST;
    let mut taken = 0;
    for _ in 0..rounds {
        number = number.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT);
        taken += number >> 63;
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(kernel: Kernel, rounds: u32) -> KernelCounts {
        kernel.counts(Rounds::new(rounds).unwrap())
    }

    #[test]
    fn branches_are_those_taken_and_those_not() {
        for kernel in Kernel::ALL {
            let counts = counts(kernel, 1000);
            let sum = |parts: &[KernelQuantity]| parts.iter().map(|part| counts.of(*part)).sum::<u64>();
            let branches = counts.of(KernelQuantity::Branches);
            assert_eq!(
                branches,
                sum(&[KernelQuantity::TakenBranches, KernelQuantity::NotTaken]),
                "{kernel:?}"
            );
            let kinds =
                [KernelQuantity::DirectBranches, KernelQuantity::IndirectBranches, KernelQuantity::Returns];
            assert_eq!(branches, sum(&kinds), "{kernel:?}");
            assert_eq!(
                counts.of(KernelQuantity::Accesses),
                sum(&[KernelQuantity::Loads, KernelQuantity::Stores]),
                "{kernel:?}"
            );
            assert!(branches <= counts.instructions, "{kernel:?}");
        }
    }

    #[test]
    fn random_branches_are_taken_about_half_of_the_time() {
        let counts = counts(Kernel::Random, 10_000);
        let taken = counts.of(KernelQuantity::ConditionalTaken) - 10_000;
        assert!((4500..5500).contains(&taken), "{taken}");
    }
}

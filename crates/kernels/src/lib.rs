//! Small loops in assembly whose instructions, branches, loads and stores are known before they run.
//!
//! A [`Kernel`] runs for a number of rounds, and [`Kernel::counts`] says what that number of rounds executes,
//! whatever the instruction set. The code around the loop (the call, the loop's setup) is the same for every
//! number of rounds: the difference of two runs is exactly the difference of their [`KernelCounts`].
//!
//! ```
//! use cyclometer_kernels::{Kernel, KernelMemory, Rounds};
//!
//! let mut memory = KernelMemory::new();
//! if let Some(rounds) = Rounds::new(1000) {
//!     Kernel::Additions.run(rounds, &mut memory);
//!     assert_eq!(Kernel::Additions.counts(rounds).instructions, 18_000);
//! }
//! ```

mod counts;
mod loops;
mod memory;
mod names;
mod recipe;

#[cfg(target_arch = "aarch64")]
#[path = "aarch64.rs"]
mod code;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
#[path = "none.rs"]
mod code;
#[cfg(target_arch = "riscv64")]
#[path = "riscv64.rs"]
mod code;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64.rs"]
mod code;

#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
#[path = "calls_aarch64.rs"]
mod system;
#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
)))]
#[path = "calls_none.rs"]
mod system;
#[cfg(all(target_os = "linux", target_arch = "riscv64"))]
#[path = "calls_riscv64.rs"]
mod system;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "calls_x86_64.rs"]
mod system;

#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
))]
#[path = "pages_linux.rs"]
mod pages;
#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
)))]
#[path = "pages_none.rs"]
mod pages;

use std::num::NonZeroU32;

pub use counts::{KernelCounts, KernelQuantity};
pub use memory::{COLD_BYTES, KernelMemory, RESIDENT_BYTES};
pub use recipe::{Geometry, InstructionSet, KernelFamily, KernelRecipe, Knob, RecipeAbsent, RecipeMemory};

/// How many times a loop's body is executed.
pub type Rounds = NonZeroU32;

/// A loop of known length.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kernel {
    /// Sixteen additions of registers.
    Additions,
    /// Four jumps that are always taken, each over one instruction.
    Jumps,
    /// Four conditional branches that are never taken.
    NotTaken,
    /// A conditional branch that is taken or not as a generator of pseudo-random numbers has it; both ways
    /// lead to the same instruction.
    Random,
    /// A call of a function that returns at once.
    Calls,
    /// The same through a register.
    IndirectCalls,
    /// A jump through a register.
    IndirectJumps,
    /// Eight loads from one cache line.
    Loads,
    /// Eight stores into one cache line.
    Stores,
    /// Four loads and four stores.
    Copies,
    /// Four loads, each of whose addresses is what the one before loaded, in [`RESIDENT_BYTES`].
    ChaseResident,
    /// The same in [`COLD_BYTES`], in an order that no prefetcher knows.
    ChaseCold,
    /// A system call that does nothing (`getppid`).
    SystemCalls,
}

impl Kernel {
    /// Every kernel.
    pub const ALL: [Kernel; 13] = [
        Kernel::Additions,
        Kernel::Jumps,
        Kernel::NotTaken,
        Kernel::Random,
        Kernel::Calls,
        Kernel::IndirectCalls,
        Kernel::IndirectJumps,
        Kernel::Loads,
        Kernel::Stores,
        Kernel::Copies,
        Kernel::ChaseResident,
        Kernel::ChaseCold,
        Kernel::SystemCalls,
    ];

    /// Whether this machine's instruction set and operating system have it.
    pub fn is_here(self) -> bool {
        code::HERE && (self != Kernel::SystemCalls || system::HERE)
    }

    /// Executes so many rounds. The first run of a kernel with some memory prepares that memory, and so
    /// executes more. Does nothing where [`Kernel::is_here`] is false.
    pub fn run(self, rounds: Rounds, memory: &mut KernelMemory) {
        let rounds = u64::from(rounds.get());
        match self {
            Kernel::Additions => code::additions(rounds),
            Kernel::Jumps => code::jumps(rounds),
            Kernel::NotTaken => code::not_taken(rounds),
            Kernel::Random => code::random(rounds, counts::FIRST),
            Kernel::Calls => code::calls(rounds),
            Kernel::IndirectCalls => code::indirect_calls(rounds),
            Kernel::IndirectJumps => code::indirect_jumps(rounds),
            Kernel::Loads => code::loads(rounds, &memory.line),
            Kernel::Stores => code::stores(rounds, &mut memory.line),
            Kernel::Copies => code::copies(rounds, &mut memory.line),
            Kernel::ChaseResident => code::chase(rounds, memory.resident()),
            Kernel::ChaseCold => code::chase(rounds, memory.cold()),
            Kernel::SystemCalls => system::calls(rounds),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_comes_to_its_end() {
        let mut memory = KernelMemory::new();
        for kernel in Kernel::ALL {
            for rounds in [1, 2, 1000] {
                kernel.run(Rounds::new(rounds).unwrap(), &mut memory);
            }
        }
    }

    #[test]
    fn stores_are_stored_and_nothing_beside_them() {
        let mut memory = KernelMemory::new();
        let before = memory.clone();
        for kernel in [Kernel::Stores, Kernel::Copies] {
            kernel.run(Rounds::MIN, &mut memory);
        }
        if !Kernel::Stores.is_here() {
            return;
        }
        assert_eq!(memory.line.0[..4], memory.line.0[4..], "four words were copied");
        assert_ne!(memory.line.0, before.line.0);
    }
}

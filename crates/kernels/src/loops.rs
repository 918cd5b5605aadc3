//! The loops of recipes.
//!
//! Each runs a body for a number of rounds, and ends a round by counting down, an instruction that does
//! nothing, and a branch back. The instructions of each body stand in `recipe::bodies`, for every instruction
//! set.

#[cfg(target_arch = "aarch64")]
#[path = "loops/aarch64.rs"]
mod code;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
#[path = "loops/none.rs"]
mod code;
#[cfg(target_arch = "riscv64")]
#[path = "loops/riscv64.rs"]
mod code;
#[cfg(target_arch = "x86_64")]
#[path = "loops/x86_64.rs"]
mod code;

pub(crate) use code::{HOST, code_of, has_fused_multiply_add};

/// A loop; recipes run the same one with different memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum RecipeLoop {
    Empty,
    Nops,
    LongNops,
    Adds,
    Multiplies,
    Divides,
    FewDivides,
    Moves,
    FewMoves,
    Zeros,
    FewZeros,
    FloatAdds,
    FloatMultiplies,
    FloatDivides,
    FusedMultiplyAdds,
    FewFusedMultiplyAdds,
    FloatSequence,
    SimdIntegers,
    SimdFloats,
    SimdFusedMultiplyAdds,
    SimdSequence,
    SimdLoads,
    SimdStores,
    SimdCopies,
    MixSimd,
    Loads,
    Stores,
    Copies,
    Updates,
    PairLoads,
    PairStores,
    Chase,
    FewLinks,
    RandomStores,
    StoreBurst,
    RandomUpdates,
    WrongPath,
    LoadsAt,
    StoresAt,
    Forwards,
    FewForwards,
    LateStores,
    NeverTaken,
    AlwaysTaken,
    Alternating,
    RandomBranch,
    IndirectJump,
    IndirectCall,
    Jumps,
    Calls,
    IndirectCalls,
    ReturnsAlone,
    CallsAlone,
    ReturnsElsewhere,
    ThriceElsewhere,
    Recursion,
    JumpRing,
    MemoryBarriers,
    InstructionBarriers,
    Atomics,
    FewAtomics,
    ExclusiveFailures,
    FewExclusiveFailures,
    SystemCall,
    TwoSystemCalls,
    PageTouch,
    TwoPages,
    Chain,
    MixArithmetic,
    MixMemory,
    MixBranches,
    MixChase,
    MixCalls,
    MixSynchronised,
    MixIndirect,
}

/// A loop's code: it runs for a number of rounds, which is not 0.
///
/// The caller guarantees that the arguments are what the loop says that it needs.
pub(crate) type LoopCode = unsafe fn(u64, &mut LoopArguments);

/// The registers that a loop begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct LoopArguments {
    /// The memory that is read, the first link of a chain, the first jump of a ring, or the length of a page.
    /// Afterwards the link that was reached.
    pub(crate) read: usize,
    /// The memory that is written.
    pub(crate) write: usize,
    /// The mask of numbers, or advice about pages.
    pub(crate) mask: usize,
    /// A second mask, a distance, or the number 1.
    pub(crate) other: usize,
    /// The state of the generator of numbers. Afterwards the state that was reached.
    pub(crate) number: u64,
    /// The number that the generator adds each time.
    pub(crate) increment: u64,
}

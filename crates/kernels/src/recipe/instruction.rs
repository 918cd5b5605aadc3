//! Kinds of instructions, and the concepts that one of each counts as.

use cyclometer_core::concept::Concept;

/// An instruction set that recipes are written in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum InstructionSet {
    /// x86-64.
    X86_64,
    /// AArch64.
    Aarch64,
    /// RV64GC.
    Riscv64,
}

impl InstructionSet {
    /// Every instruction set.
    pub const ALL: [InstructionSet; 3] =
        [InstructionSet::X86_64, InstructionSet::Aarch64, InstructionSet::Riscv64];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            InstructionSet::X86_64 => "x86-64",
            InstructionSet::Aarch64 => "AArch64",
            InstructionSet::Riscv64 => "RV64",
        }
    }
}

/// A kind of instruction. The same concepts count every instruction of a kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum InstructionKind {
    /// One that only counts as an instruction: an address of a label, a conditional move.
    Plain,
    Nop,
    /// Addition, logic, shift, comparison of general registers.
    Alu,
    Multiply,
    Divide,
    Move,
    /// Sets a register to zero in a form that renaming may carry out.
    ZeroIdiom,
    FloatAdd,
    FloatMultiply,
    FloatDivide,
    /// Scalar.
    FusedMultiplyAdd,
    SimdInteger,
    /// An addition of two elements.
    SimdFloatAdd,
    /// A fused multiply-add of two elements.
    SimdFusedMultiplyAdd,
    Load,
    Store,
    PairLoad,
    PairStore,
    /// An addition to memory.
    Update,
    SimdLoad,
    SimdStore,
    NotTaken,
    Taken,
    Jump,
    IndirectJump,
    Call,
    IndirectCall,
    Return,
    Barrier,
    /// An atomic addition to memory with a lock prefix.
    LockedUpdate,
    /// An atomic exchange.
    Exchange,
    ExclusiveLoad,
    /// An exclusive store that succeeds.
    ExclusiveStore,
    /// An exclusive store without a reservation.
    FailedExclusiveStore,
    SystemCall,
}

use InstructionKind as Kind;
use InstructionSet as Set;

impl Kind {
    /// The concepts that one such instruction counts as, besides instructions and micro-operations.
    pub(crate) fn concepts(self, set: InstructionSet) -> &'static [Concept] {
        use Concept::*;
        match (self, set) {
            (Kind::Plain, _) => &[],
            (Kind::Nop, _) => &[Nops],
            (Kind::Alu, _) => &[IntegerAlu],
            (Kind::Multiply, _) => &[IntegerMultiplies],
            (Kind::Divide, _) => &[IntegerDivides],
            (Kind::Move, Set::X86_64) => &[MovesEliminated],
            // `mov` is `orr`, `mv` is `addi`.
            (Kind::Move, Set::Aarch64) => &[IntegerAlu, MovesEliminated],
            (Kind::Move, Set::Riscv64) => &[IntegerAlu],
            // `xor` of a register with itself; `movz`.
            (Kind::ZeroIdiom, Set::X86_64) => &[IntegerAlu, ZeroIdioms],
            (Kind::ZeroIdiom, _) => &[ZeroIdioms],
            (Kind::FloatAdd, _) => &[FloatAdds, FloatOperations],
            (Kind::FloatMultiply, _) => &[FloatMultiplies, FloatOperations],
            (Kind::FloatDivide, _) => &[FloatDivides, FloatOperations],
            (Kind::FusedMultiplyAdd, _) => &[FusedMultiplyAdds, FloatOperations, FloatOperations],
            (Kind::SimdInteger, _) => &[SimdInteger],
            (Kind::SimdFloatAdd, _) => &[SimdFloat, FloatOperations, FloatOperations],
            (Kind::SimdFusedMultiplyAdd, _) => &[
                SimdFloat,
                FusedMultiplyAdds,
                FloatOperations,
                FloatOperations,
                FloatOperations,
                FloatOperations,
            ],
            (Kind::Load | Kind::PairLoad | Kind::ExclusiveLoad, _) => &[Loads, MemoryInstructions],
            (Kind::Store | Kind::PairStore, _) => &[Stores, MemoryInstructions],
            (Kind::Update, _) => &[Loads, Stores, MemoryInstructions, IntegerAlu],
            (Kind::SimdLoad, _) => &[Loads, SimdLoads, MemoryInstructions],
            (Kind::SimdStore, _) => &[Stores, SimdStores, MemoryInstructions],
            (Kind::NotTaken, _) => &[Branches, ConditionalBranches],
            (Kind::Taken, _) => &[Branches, ConditionalBranches, ConditionalTaken, TakenBranches],
            (Kind::Jump, _) => &[Branches, TakenBranches, DirectJumps],
            (Kind::IndirectJump, _) => &[Branches, TakenBranches, IndirectBranches],
            // The return address is in memory there.
            (Kind::Call, Set::X86_64) => &[Branches, TakenBranches, Calls, Stores, MemoryInstructions],
            (Kind::Call, _) => &[Branches, TakenBranches, Calls],
            (Kind::IndirectCall, Set::X86_64) => {
                &[Branches, TakenBranches, Calls, IndirectBranches, Stores, MemoryInstructions]
            }
            (Kind::IndirectCall, _) => &[Branches, TakenBranches, Calls, IndirectBranches],
            (Kind::Return, Set::X86_64) => &[Branches, TakenBranches, Returns, Loads, MemoryInstructions],
            (Kind::Return, _) => &[Branches, TakenBranches, Returns],
            (Kind::Barrier, _) => &[Barriers],
            (Kind::LockedUpdate, _) => &[Loads, Stores, MemoryInstructions, IntegerAlu, AtomicSuccesses],
            (Kind::Exchange, _) => &[Loads, Stores, MemoryInstructions, AtomicSuccesses],
            (Kind::ExclusiveStore, _) => &[Stores, MemoryInstructions, AtomicSuccesses],
            (Kind::FailedExclusiveStore, _) => &[AtomicFailures],
            (Kind::SystemCall, _) => &[SystemCalls],
        }
    }

    /// The concepts of [`Kind::concepts`] and others that cores count differently for it.
    pub(crate) fn uncertain(self, set: InstructionSet) -> &'static [Concept] {
        use Concept::*;
        match (self, set) {
            // Whether a store that failed retires as one, and whether entering the kernel is a branch.
            (Kind::FailedExclusiveStore, _) => &[Stores, MemoryInstructions, Uops, UopsIssued],
            (Kind::SystemCall, _) => &[Branches, TakenBranches, Uops, UopsIssued],
            // The load of the return address that the call stored may be renamed.
            (Kind::Call | Kind::IndirectCall | Kind::Return, Set::X86_64) => {
                &[Uops, UopsIssued, StoreForwards]
            }
            (Kind::Divide | Kind::Update | Kind::LockedUpdate | Kind::Exchange | Kind::Barrier, _)
            | (Kind::ExclusiveLoad | Kind::ExclusiveStore | Kind::PairLoad | Kind::PairStore, _) => {
                &[Uops, UopsIssued]
            }
            // Some cores divide stores into address and data.
            (Kind::Store | Kind::SimdStore, Set::Aarch64 | Set::Riscv64) => &[Uops, UopsIssued],
            _ => &[],
        }
    }

    /// The micro-operations that most cores make of it.
    ///
    /// # Source
    ///
    /// For x86-64 the fused domain of Intel's cores since Ice Lake, in A. Fog's instruction tables; Arm's
    /// software optimization guides otherwise.
    pub(crate) fn uops(self, set: InstructionSet) -> f64 {
        match (self, set) {
            (Kind::Divide, Set::X86_64) => 4.0,
            (Kind::Call | Kind::IndirectCall | Kind::Return | Kind::Update, Set::X86_64) => 2.0,
            (Kind::LockedUpdate | Kind::Exchange, Set::X86_64) => 8.0,
            (Kind::Barrier, Set::X86_64) => 3.0,
            (Kind::PairLoad | Kind::PairStore, _) => 2.0,
            _ => 1.0,
        }
    }
}

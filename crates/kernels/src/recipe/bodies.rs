//! The instructions of one round of each loop, by kind, on every instruction set: added up by hand from the
//! loops' source. Nothing here depends on the machine that it runs on.

use super::instruction::{InstructionKind as Kind, InstructionSet as Set};
use crate::loops::RecipeLoop;

/// Numbers of instructions of kinds.
pub(crate) type LoopBody = &'static [(u32, Kind)];

/// The end of each round: count down and branch back. The instruction between the two keeps cores from fusing
/// them into one micro-operation, which some do and some do not.
pub(crate) const ROUND_END: LoopBody = &[(1, Kind::Alu), (1, Kind::Nop), (1, Kind::Taken)];

const ONE_LENGTH: &str = "its nops have one length";
const NO_VECTORS: &str = "RV64GC has no vector instructions";
const NO_MEMORY_OPERANDS: &str = "its arithmetic has no memory operands";
const NO_EXCLUSIVES: &str = "it has no exclusive stores";
const NO_RENAMING: &str = "no core documents that renaming carries these instructions out";

/// The instructions of one round without [`ROUND_END`], or why the instruction set has no such loop.
pub(crate) fn of(it: RecipeLoop, set: Set) -> Result<LoopBody, &'static str> {
    use Kind::*;
    use RecipeLoop as Of;
    Ok(match (it, set) {
        (Of::Empty, _) => &[],
        (Of::Nops, _) => &[(16, Nop)],
        (Of::LongNops, Set::X86_64) => &[(8, Nop)],
        (Of::LongNops, _) => return Err(ONE_LENGTH),
        (Of::Adds, _) => &[(16, Alu)],
        (Of::Multiplies, _) => &[(8, Multiply)],
        (Of::Divides, _) => &[(4, Divide)],
        (Of::FewDivides, _) => &[(2, Divide), (4, Alu)],
        (Of::Moves | Of::FewMoves | Of::Zeros | Of::FewZeros, Set::Riscv64) => return Err(NO_RENAMING),
        (Of::Moves, _) => &[(16, Move)],
        (Of::FewMoves, _) => &[(4, Move), (4, Alu)],
        (Of::Zeros, _) => &[(16, ZeroIdiom)],
        (Of::FewZeros, _) => &[(4, ZeroIdiom), (4, Alu)],
        (Of::FloatAdds, _) => &[(8, FloatAdd)],
        (Of::FloatMultiplies, _) => &[(8, FloatMultiply)],
        (Of::FloatDivides, _) => &[(4, FloatDivide)],
        (Of::FusedMultiplyAdds, _) => &[(8, FusedMultiplyAdd)],
        (Of::FewFusedMultiplyAdds, _) => &[(2, FusedMultiplyAdd), (4, FloatAdd)],
        (Of::FloatSequence, _) => &[(3, FloatAdd), (2, FloatMultiply), (1, FloatDivide)],
        (
            Of::SimdIntegers
            | Of::SimdFloats
            | Of::SimdFusedMultiplyAdds
            | Of::SimdSequence
            | Of::SimdLoads
            | Of::SimdStores
            | Of::SimdCopies
            | Of::MixSimd,
            Set::Riscv64,
        ) => return Err(NO_VECTORS),
        (Of::SimdIntegers, _) => &[(8, SimdInteger)],
        (Of::SimdFloats, _) => &[(8, SimdFloatAdd)],
        (Of::SimdFusedMultiplyAdds, _) => &[(4, SimdFusedMultiplyAdd)],
        (Of::SimdSequence, _) => &[(3, SimdInteger), (1, SimdFloatAdd)],
        (Of::Loads, _) => &[(8, Load)],
        (Of::Stores, _) => &[(8, Store)],
        (Of::Copies, _) => &[(4, Load), (4, Store)],
        (Of::Updates, Set::X86_64) => &[(4, Update)],
        (Of::Updates, _) => return Err(NO_MEMORY_OPERANDS),
        (Of::SimdLoads, _) => &[(8, SimdLoad)],
        (Of::SimdStores, _) => &[(4, SimdStore)],
        (Of::SimdCopies, _) => &[(2, SimdLoad), (2, SimdStore)],
        (Of::PairLoads | Of::PairStores, Set::X86_64 | Set::Riscv64) => {
            return Err("it has no instruction for a pair of registers");
        }
        (Of::PairLoads, Set::Aarch64) => &[(4, PairLoad)],
        (Of::PairStores, Set::Aarch64) => &[(4, PairStore)],
        (Of::Chase, _) => &[(4, Load)],
        (Of::FewLinks, _) => &[(1, Load), (4, Alu)],
        (Of::RandomStores, Set::Riscv64) => &[(2, Multiply), (6, Alu), (2, Store)],
        (Of::RandomStores, _) => &[(2, Multiply), (4, Alu), (2, Store)],
        (Of::StoreBurst, Set::Riscv64) => &[(16, Multiply), (48, Alu), (16, Store)],
        (Of::StoreBurst, _) => &[(16, Multiply), (32, Alu), (16, Store)],
        (Of::RandomUpdates, Set::Riscv64) => &[(1, Multiply), (4, Alu), (1, Load), (1, Store)],
        (Of::RandomUpdates, _) => &[(1, Multiply), (3, Alu), (1, Load), (1, Store)],
        (Of::WrongPath, Set::X86_64) => {
            &[(9, Multiply), (8, Alu), (5, Plain), (1, Nop), (1, Taken), (1, NotTaken), (1, Load)]
        }
        (Of::WrongPath, Set::Aarch64) => {
            &[(9, Multiply), (7, Alu), (2, Plain), (1, Nop), (1, Taken), (1, NotTaken), (1, Load)]
        }
        (Of::WrongPath, Set::Riscv64) => return Err("RV64GC has no conditional moves"),
        (Of::LoadsAt, _) => &[(8, Load)],
        (Of::StoresAt, _) => &[(4, Store)],
        (Of::Forwards, _) => &[(4, Store), (4, Load)],
        (Of::FewForwards, _) => &[(1, Store), (1, Load), (4, Alu)],
        (Of::LateStores, Set::X86_64) => &[(7, Multiply), (5, Alu), (1, Store), (1, Load)],
        (Of::LateStores, _) => &[(7, Multiply), (4, Alu), (1, Store), (1, Load)],
        (Of::NeverTaken, Set::Riscv64) => &[(8, Nop), (4, NotTaken)],
        (Of::NeverTaken, _) => &[(4, Alu), (4, Nop), (4, NotTaken)],
        (Of::AlwaysTaken, Set::Riscv64) => &[(8, Nop), (4, Taken)],
        (Of::AlwaysTaken, _) => &[(4, Alu), (4, Nop), (4, Taken)],
        (Of::Alternating, _) => &[(2, Alu), (2, Nop), (1, Taken), (1, NotTaken)],
        (Of::RandomBranch, _) => &[(1, Multiply), (2, Alu), (1, Nop), (1, Taken), (1, NotTaken)],
        (Of::IndirectJump, Set::X86_64) => &[(1, Multiply), (5, Alu), (1, IndirectJump), (1, Jump)],
        (Of::IndirectJump, _) => &[(1, Multiply), (4, Alu), (1, IndirectJump), (1, Jump)],
        (Of::IndirectCall, Set::X86_64) => &[(1, Multiply), (5, Alu), (1, IndirectCall), (1, Return)],
        (Of::IndirectCall, _) => &[(1, Multiply), (4, Alu), (1, IndirectCall), (1, Return)],
        (Of::Jumps, _) => &[(4, Jump)],
        (Of::Calls, _) => &[(1, Call), (1, Return)],
        (Of::IndirectCalls, _) => &[(2, IndirectCall), (2, Return)],
        (Of::ReturnsAlone, Set::X86_64) => &[(1, Plain), (1, Store), (1, Return)],
        // `lla` is `auipc` and `addi`.
        (Of::ReturnsAlone, Set::Riscv64) => &[(1, Plain), (1, Alu), (1, Return)],
        (Of::ReturnsAlone, Set::Aarch64) => &[(1, Plain), (1, Return)],
        (Of::CallsAlone, Set::X86_64) => &[(1, Call), (1, Alu)],
        (Of::CallsAlone, _) => &[(1, Call)],
        (Of::ReturnsElsewhere, Set::X86_64) => &[(1, Plain), (1, Call), (1, Store), (1, Return)],
        (Of::ReturnsElsewhere, Set::Riscv64) => &[(1, Plain), (2, Alu), (1, Call), (1, Return)],
        (Of::ReturnsElsewhere, Set::Aarch64) => &[(1, Plain), (1, Alu), (1, Call), (1, Return)],
        (Of::ThriceElsewhere, Set::X86_64) => &[(3, Plain), (3, Call), (3, Store), (3, Return)],
        (Of::ThriceElsewhere, Set::Riscv64) => &[(3, Plain), (6, Alu), (3, Call), (3, Return)],
        (Of::ThriceElsewhere, Set::Aarch64) => &[(3, Plain), (3, Alu), (3, Call), (3, Return)],
        (Of::Recursion, Set::X86_64) => {
            &[(1, Plain), (64, Call), (64, Return), (64, Alu), (64, Nop), (63, NotTaken), (1, Taken)]
        }
        (Of::Recursion, Set::Aarch64) => &[
            (1, Plain),
            (64, Call),
            (64, Return),
            (64, Alu),
            (64, Nop),
            (63, NotTaken),
            (1, Taken),
            (64, Store),
            (64, Load),
        ],
        (Of::Recursion, Set::Riscv64) => &[
            (64, Call),
            (64, Return),
            (193, Alu),
            (64, Nop),
            (63, NotTaken),
            (1, Taken),
            (64, Store),
            (64, Load),
        ],
        // The jumps come with the number of links.
        (Of::JumpRing, _) => &[],
        (Of::MemoryBarriers, _) => &[(4, Barrier)],
        (Of::InstructionBarriers, _) => &[(2, Barrier)],
        (Of::Atomics, Set::X86_64) => &[(4, LockedUpdate)],
        (Of::Atomics, Set::Aarch64) => &[(4, ExclusiveLoad), (4, ExclusiveStore)],
        (Of::Atomics, Set::Riscv64) => &[(4, Exchange)],
        (Of::FewAtomics, Set::Aarch64) => &[(1, ExclusiveLoad), (1, ExclusiveStore)],
        (Of::FewAtomics, _) => &[(1, Exchange)],
        (Of::ExclusiveFailures | Of::FewExclusiveFailures, Set::X86_64) => return Err(NO_EXCLUSIVES),
        (Of::ExclusiveFailures, Set::Aarch64) => &[(4, Plain), (4, FailedExclusiveStore)],
        (Of::ExclusiveFailures, Set::Riscv64) => &[(4, FailedExclusiveStore)],
        (Of::FewExclusiveFailures, Set::Aarch64) => &[(1, Plain), (1, FailedExclusiveStore), (4, Alu)],
        (Of::FewExclusiveFailures, Set::Riscv64) => &[(1, FailedExclusiveStore), (4, Alu)],
        (Of::SystemCall, Set::Riscv64) => &[(1, Alu), (1, SystemCall)],
        (Of::SystemCall, _) => &[(1, Plain), (1, SystemCall)],
        (Of::TwoSystemCalls, Set::Riscv64) => &[(2, Alu), (2, SystemCall)],
        (Of::TwoSystemCalls, _) => &[(2, Plain), (2, SystemCall)],
        (Of::PageTouch, Set::X86_64) => &[(1, Plain), (1, SystemCall), (1, Store)],
        (Of::PageTouch, Set::Aarch64) => &[(3, Move), (1, Plain), (1, SystemCall), (1, Store)],
        (Of::PageTouch, Set::Riscv64) => &[(3, Move), (1, Alu), (1, SystemCall), (1, Store)],
        (Of::TwoPages, Set::X86_64) => &[(1, Plain), (1, SystemCall), (2, Store)],
        (Of::TwoPages, Set::Aarch64) => &[(3, Move), (1, Plain), (1, SystemCall), (2, Store)],
        (Of::TwoPages, Set::Riscv64) => &[(3, Move), (2, Alu), (1, SystemCall), (2, Store)],
        (Of::Chain, _) => &[(16, Multiply)],
        (Of::MixArithmetic, _) => &[(5, Alu), (2, Multiply), (3, FloatAdd), (2, Nop)],
        (Of::MixMemory, _) => &[(5, Load), (3, Store), (2, Alu)],
        (Of::MixBranches, _) => {
            &[(1, Multiply), (2, Alu), (1, Nop), (1, Taken), (1, NotTaken), (2, Load), (1, Jump)]
        }
        (Of::MixChase, _) => &[(2, Load), (4, Alu), (1, Store)],
        (Of::MixCalls, Set::Riscv64) => &[(1, Call), (1, Return), (2, Load), (2, Nop), (1, NotTaken)],
        (Of::MixCalls, _) => &[(1, Call), (1, Return), (2, Load), (1, Alu), (1, Nop), (1, NotTaken)],
        (Of::MixSimd, _) => &[(2, SimdInteger), (2, FloatMultiply), (1, SimdLoad), (1, SimdFloatAdd)],
        (Of::MixSynchronised, Set::X86_64) => &[(1, Barrier), (2, LockedUpdate), (3, Alu)],
        (Of::MixSynchronised, Set::Aarch64) => {
            &[(1, Barrier), (2, ExclusiveLoad), (2, ExclusiveStore), (3, Alu)]
        }
        (Of::MixSynchronised, Set::Riscv64) => &[(1, Barrier), (2, Exchange), (3, Alu)],
        (Of::MixIndirect, Set::X86_64) => {
            &[(1, Multiply), (5, Alu), (1, IndirectJump), (1, Jump), (2, Store)]
        }
        (Of::MixIndirect, _) => &[(1, Multiply), (4, Alu), (1, IndirectJump), (1, Jump), (2, Store)],
    })
}

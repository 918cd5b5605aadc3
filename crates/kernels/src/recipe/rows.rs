//! The recipes, row by row: which loop each runs, with which memory.

use super::KernelFamily as Family;
use super::geometry::Geometry;
use super::setting::RecipeSetting;
use crate::loops::RecipeLoop as Of;
use crate::memory::{ChainLayout, ChainOrder};

/// One recipe, before its numbers are computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecipeRow {
    pub(crate) name: &'static str,
    pub(crate) family: Family,
    pub(crate) effect: &'static str,
    pub(crate) control: Option<&'static str>,
    pub(crate) runs: Of,
    pub(crate) setting: RecipeSetting,
}

impl RecipeRow {
    const fn against(self, control: &'static str) -> RecipeRow {
        RecipeRow { control: Some(control), ..self }
    }

    const fn with(self, setting: RecipeSetting) -> RecipeRow {
        RecipeRow { setting, ..self }
    }
}

const fn row(family: Family, name: &'static str, runs: Of, effect: &'static str) -> RecipeRow {
    RecipeRow { name, family, effect, control: None, runs, setting: RecipeSetting::Lines }
}

/// Every recipe for a geometry, in the order of families.
pub(crate) fn all(geometry: &Geometry) -> Vec<RecipeRow> {
    [
        base(),
        integer(),
        float(),
        hits(),
        misses(geometry),
        tlb(geometry),
        splits(geometry),
        forwarding(geometry),
        branches(),
        indirect(),
        code(geometry),
        synchronisation(),
        system(),
        stalls(geometry),
        mixtures(geometry),
    ]
    .concat()
}

fn base() -> Vec<RecipeRow> {
    let row = |name, runs, effect| row(Family::Base, name, runs, effect);
    vec![
        row("empty", Of::Empty, "nothing but the loop"),
        row("nops", Of::Nops, "16 nops"),
        row("nops_long", Of::LongNops, "8 nops of 9 bytes"),
    ]
}

fn integer() -> Vec<RecipeRow> {
    let row = |name, runs, effect| row(Family::Integer, name, runs, effect);
    vec![
        row("adds", Of::Adds, "16 additions"),
        row("multiplies", Of::Multiplies, "8 multiplications"),
        row("divides", Of::Divides, "4 divisions"),
        row("divides_few", Of::FewDivides, "2 divisions, 4 additions"),
        row("moves", Of::Moves, "16 moves between registers"),
        row("moves_few", Of::FewMoves, "4 moves between registers, 4 additions"),
        row("zeros", Of::Zeros, "16 registers set to zero"),
        row("zeros_few", Of::FewZeros, "4 registers set to zero, 4 additions"),
    ]
}

fn float() -> Vec<RecipeRow> {
    let row = |name, runs, effect| row(Family::Float, name, runs, effect);
    vec![
        row("float_adds", Of::FloatAdds, "8 scalar additions"),
        row("float_multiplies", Of::FloatMultiplies, "8 scalar multiplications"),
        row("float_divides", Of::FloatDivides, "4 scalar divisions"),
        row("float_sequence", Of::FloatSequence, "3 additions, 2 multiplications, 1 division"),
        row("float_fma", Of::FusedMultiplyAdds, "8 scalar fused multiply-adds"),
        row("float_fma_few", Of::FewFusedMultiplyAdds, "2 scalar fused multiply-adds, 4 additions"),
        row("simd_integers", Of::SimdIntegers, "8 additions of 4 integers each"),
        row("simd_floats", Of::SimdFloats, "8 additions of 2 numbers each"),
        row("simd_fma", Of::SimdFusedMultiplyAdds, "4 fused multiply-adds of 2 numbers each"),
        row("simd_sequence", Of::SimdSequence, "3 additions of integers, 1 of numbers"),
    ]
}

fn hits() -> Vec<RecipeRow> {
    let row = |name, runs, effect| row(Family::MemoryHits, name, runs, effect);
    vec![
        row("hit_loads", Of::Loads, "8 loads of one line"),
        row("hit_stores", Of::Stores, "8 stores to one line"),
        row("hit_copies", Of::Copies, "4 loads, 4 stores"),
        row("hit_updates", Of::Updates, "4 additions to memory, each a load and a store"),
        row("hit_simd_loads", Of::SimdLoads, "8 vector loads"),
        row("hit_simd_stores", Of::SimdStores, "4 vector stores"),
        row("hit_simd_copies", Of::SimdCopies, "2 vector loads, 2 vector stores"),
        row("hit_pair_loads", Of::PairLoads, "4 loads of two registers"),
        row("hit_pair_stores", Of::PairStores, "4 stores of two registers"),
    ]
}

/// A chain of lines in no order that fills so many bytes.
fn chase(geometry: &Geometry, bytes: usize) -> RecipeSetting {
    let (links, spacing) = (bytes / geometry.line_bytes, geometry.line_bytes);
    RecipeSetting::Chain(ChainLayout { links, spacing, order: ChainOrder::Random })
}

fn misses(geometry: &Geometry) -> Vec<RecipeRow> {
    let row = |name, runs, effect| row(Family::MemoryMisses, name, runs, effect);
    let Geometry { l1d_bytes, l2_bytes, llc_bytes, line_bytes, .. } = *geometry;
    let scan =
        ChainLayout { links: 2 * l1d_bytes / line_bytes, spacing: line_bytes, order: ChainOrder::Ascending };
    let bytes = |bytes: usize| RecipeSetting::Bytes(bytes.next_power_of_two());
    // The largest power of two within half of a cache.
    let resident = RecipeSetting::Bytes(((l1d_bytes / 2 + 1).next_power_of_two() / 2).max(line_bytes));
    let cold = (2 * l1d_bytes).next_power_of_two();
    vec![
        row("chase_l1", Of::Chase, "4 loads that hit the first-level cache")
            .with(chase(geometry, l1d_bytes / 2)),
        row("chase_l2", Of::Chase, "4 loads that miss the first-level cache")
            .with(chase(geometry, 2 * l1d_bytes))
            .against("chase_l1"),
        row("chase_llc", Of::Chase, "4 loads that miss the second-level cache")
            .with(chase(geometry, 2 * l2_bytes))
            .against("chase_l1"),
        row("chase_memory", Of::Chase, "4 loads that miss the last-level cache")
            .with(chase(geometry, 2 * llc_bytes))
            .against("chase_l1"),
        row("chase_ascending", Of::Chase, "4 loads in an order that prefetchers know")
            .with(RecipeSetting::Chain(scan))
            .against("chase_l2"),
        row("links_l2", Of::FewLinks, "a load that misses the first-level cache, 4 additions")
            .with(chase(geometry, 2 * l1d_bytes)),
        row("links_ascending", Of::FewLinks, "the same in an order that prefetchers know")
            .with(RecipeSetting::Chain(scan))
            .against("links_l2"),
        row("store_l1", Of::RandomStores, "2 stores that hit the first-level cache").with(resident),
        row("store_l2", Of::RandomStores, "2 stores that miss the first-level cache")
            .with(bytes(2 * l1d_bytes))
            .against("store_l1"),
        row("store_llc", Of::RandomStores, "2 stores that miss the second-level cache")
            .with(bytes(2 * l2_bytes))
            .against("store_l1"),
        row("store_memory", Of::RandomStores, "2 stores that miss the last-level cache")
            .with(bytes(2 * llc_bytes))
            .against("store_l1"),
        row("update_l1", Of::RandomUpdates, "a load and a store of a line in the first-level cache")
            .with(resident),
        row("update_l2", Of::RandomUpdates, "a load that misses the first-level cache, a store that hits it")
            .with(bytes(2 * l1d_bytes))
            .against("update_l1"),
        row("update_llc", Of::RandomUpdates, "a load that misses the second-level cache, a store that hits")
            .with(bytes(2 * l2_bytes))
            .against("update_l1"),
        row("wrong_path_never", Of::WrongPath, "a load behind a branch that is predicted")
            .with(RecipeSetting::WrongPath { mispredicted: false, bytes: cold }),
        row("wrong_path_loads", Of::WrongPath, "a load that misses, on a path that is not taken")
            .with(RecipeSetting::WrongPath { mispredicted: true, bytes: cold })
            .against("wrong_path_never"),
    ]
}

fn tlb(geometry: &Geometry) -> Vec<RecipeRow> {
    let row = |name, effect| row(Family::Tlb, name, Of::Chase, effect);
    let Geometry { dtlb_entries, l2_tlb_entries, line_bytes, page_bytes, .. } = *geometry;
    let chain =
        |links, spacing| RecipeSetting::Chain(ChainLayout { links, spacing, order: ChainOrder::Random });
    // A line more, so that links are in all sets of a cache.
    let page = page_bytes + line_bytes;
    vec![
        row("pages_few", "4 loads of pages in the first-level TLB").with(chain(dtlb_entries / 2, page)),
        row("pages_dtlb", "4 loads that miss the first-level TLB")
            .with(chain(4 * dtlb_entries, page))
            .against("pages_few"),
        row("lines_l2_tlb", "4 loads of as many lines as the next one has pages")
            .with(chain(2 * l2_tlb_entries, line_bytes)),
        row("pages_l2_tlb", "4 loads that miss the second-level TLB")
            .with(chain(2 * l2_tlb_entries, page))
            .against("lines_l2_tlb"),
    ]
}

fn splits(geometry: &Geometry) -> Vec<RecipeRow> {
    let row = |name, runs, effect| row(Family::Splits, name, runs, effect);
    let (line, page) = (geometry.line_bytes, geometry.page_bytes);
    vec![
        row("load_aligned", Of::LoadsAt, "8 loads of an aligned word").with(RecipeSetting::At(0)),
        row("load_misaligned", Of::LoadsAt, "8 loads of a word that is not aligned")
            .with(RecipeSetting::At(1)),
        row("load_line_crossing", Of::LoadsAt, "8 loads of two lines")
            .with(RecipeSetting::At(line - 4))
            .against("load_misaligned"),
        row("load_page_crossing", Of::LoadsAt, "8 loads of two pages")
            .with(RecipeSetting::At(page - 4))
            .against("load_misaligned"),
        row("store_aligned", Of::StoresAt, "4 stores of an aligned word").with(RecipeSetting::At(0)),
        row("store_line_crossing", Of::StoresAt, "4 stores to two lines")
            .with(RecipeSetting::At(line - 4))
            .against("store_aligned"),
        row("store_page_crossing", Of::StoresAt, "4 stores to two pages")
            .with(RecipeSetting::At(page - 4))
            .against("store_aligned"),
    ]
}

fn forwarding(geometry: &Geometry) -> Vec<RecipeRow> {
    let row = |name, runs, effect| row(Family::Forwarding, name, runs, effect);
    let apart = RecipeSetting::Forward(2 * geometry.line_bytes);
    vec![
        row("forward_apart", Of::Forwards, "4 stores, 4 loads of another line").with(apart),
        row("forward", Of::Forwards, "4 loads of what was just stored")
            .with(RecipeSetting::Forward(0))
            .against("forward_apart"),
        row("forward_blocked", Of::Forwards, "4 loads of half of what was just stored, and more")
            .with(RecipeSetting::Forward(4))
            .against("forward_apart"),
        row("forward_few_apart", Of::FewForwards, "a store, a load of another line").with(apart),
        row("forward_few", Of::FewForwards, "a load of what was just stored")
            .with(RecipeSetting::Forward(0))
            .against("forward_few_apart"),
        row("forward_few_blocked", Of::FewForwards, "a load of half of what was just stored, and more")
            .with(RecipeSetting::Forward(4))
            .against("forward_few_apart"),
        row("late_store_always", Of::LateStores, "a load of what a store with a late address has stored")
            .with(RecipeSetting::Aliases { bits: 0 }),
        row("late_store_half", Of::LateStores, "the same in one of 2 cases at random")
            .with(RecipeSetting::Aliases { bits: 1 })
            .against("late_store_always"),
        row("late_store_quarter", Of::LateStores, "the same in one of 4 cases at random")
            .with(RecipeSetting::Aliases { bits: 2 })
            .against("late_store_always"),
    ]
}

fn branches() -> Vec<RecipeRow> {
    let row = |name, runs, effect| row(Family::Branches, name, runs, effect);
    let random = |bits| RecipeSetting::Random { bits };
    vec![
        row("branch_never", Of::NeverTaken, "4 conditional branches, never taken"),
        row("branch_always", Of::AlwaysTaken, "4 conditional branches, always taken").against("branch_never"),
        row("branch_alternating", Of::Alternating, "2 conditional branches, taken in turn"),
        row("branch_predicted", Of::RandomBranch, "2 conditional branches, predicted").with(random(0)),
        row("branch_half", Of::RandomBranch, "a branch that is taken with probability 1/2, and its opposite")
            .with(random(1))
            .against("branch_predicted"),
        row("branch_quarter", Of::RandomBranch, "the same with probability 1/4")
            .with(random(2))
            .against("branch_predicted"),
        row("branch_eighth", Of::RandomBranch, "the same with probability 1/8")
            .with(random(3))
            .against("branch_predicted"),
        row("jumps", Of::Jumps, "4 jumps"),
    ]
}

fn indirect() -> Vec<RecipeRow> {
    let row = |name, runs, effect| row(Family::Indirect, name, runs, effect);
    let targets = |bits| RecipeSetting::Targets { bits };
    vec![
        row("indirect_1", Of::IndirectJump, "an indirect jump to one target").with(targets(0)),
        row("indirect_2", Of::IndirectJump, "an indirect jump to 2 targets at random")
            .with(targets(1))
            .against("indirect_1"),
        row("indirect_16", Of::IndirectJump, "an indirect jump to 16 targets at random")
            .with(targets(4))
            .against("indirect_1"),
        row("call_indirect_1", Of::IndirectCall, "an indirect call of one function").with(targets(0)),
        row("call_indirect_2", Of::IndirectCall, "an indirect call of 2 functions at random")
            .with(targets(1))
            .against("call_indirect_1"),
        row("call_indirect_16", Of::IndirectCall, "an indirect call of 16 functions at random")
            .with(targets(4))
            .against("call_indirect_1"),
        row("calls", Of::Calls, "a call and its return"),
        row("calls_indirect", Of::IndirectCalls, "2 indirect calls and their returns"),
        row("return_alone", Of::ReturnsAlone, "a return without a call"),
        row("call_alone", Of::CallsAlone, "a call without a return"),
        row("return_elsewhere", Of::ReturnsElsewhere, "a call whose return goes elsewhere"),
        row("return_elsewhere_3", Of::ThriceElsewhere, "3 calls whose returns go elsewhere"),
        row("recursion", Of::Recursion, "64 calls, each within the one before"),
    ]
}

fn code(geometry: &Geometry) -> Vec<RecipeRow> {
    let row = |name, effect| row(Family::Code, name, Of::JumpRing, effect);
    let Geometry { l1i_bytes, line_bytes, page_bytes, itlb_entries, l2_tlb_entries, .. } = *geometry;
    let lines = 2 * l1i_bytes / line_bytes;
    let ring = |links, spacing| RecipeSetting::Ring { links, spacing };
    let page = page_bytes + line_bytes;
    // As many as jumps of 8 bytes have room in half of the cache.
    let packed = lines.min(l1i_bytes / 32);
    vec![
        row("code_packed", "jumps in half of the instruction cache").with(ring(packed, 8)),
        row("code_lines", "as many jumps, which miss the instruction cache")
            .with(ring(lines, line_bytes))
            .against("code_packed"),
        row("code_lines_more", "twice as many jumps, which miss the instruction cache")
            .with(ring(2 * lines, line_bytes)),
        row("code_few_pages", "jumps from line to line").with(ring(2 * itlb_entries, line_bytes)),
        row("code_pages", "as many jumps, which miss the instruction TLB")
            .with(ring(2 * itlb_entries, page))
            .against("code_few_pages"),
        row("code_walks", "jumps that miss the second-level TLB").with(ring(2 * l2_tlb_entries, page)),
        row("code_walks_more", "half as many jumps again, which miss the second-level TLB")
            .with(ring(3 * l2_tlb_entries, page)),
    ]
}

fn synchronisation() -> Vec<RecipeRow> {
    let row = |name, runs, effect| row(Family::Synchronisation, name, runs, effect);
    vec![
        row("barriers", Of::MemoryBarriers, "4 barriers of memory"),
        row("barriers_instructions", Of::InstructionBarriers, "2 barriers of instructions"),
        row("atomics", Of::Atomics, "4 atomic read-modify-writes"),
        row("atomics_few", Of::FewAtomics, "an atomic exchange"),
        row("exclusive_failures", Of::ExclusiveFailures, "4 exclusive stores that fail"),
        row("exclusive_failures_few", Of::FewExclusiveFailures, "an exclusive store that fails, 4 additions"),
    ]
}

/// Advice of `madvise(2)`.
///
/// # Source
///
/// Linux `include/uapi/asm-generic/mman-common.h`.
const NORMAL: usize = 0;
const DONT_NEED: usize = 4;

fn system() -> Vec<RecipeRow> {
    let row = |name, runs, effect| row(Family::System, name, runs, effect);
    let page = |advice, pages| RecipeSetting::Pages { drops: advice == DONT_NEED, advice, pages };
    vec![
        row("system_calls", Of::SystemCall, "a system call that does nothing (getppid)"),
        row("system_calls_2", Of::TwoSystemCalls, "2 system calls that do nothing (getppid)"),
        row("page_kept", Of::PageTouch, "a system call that keeps a page (madvise), and a store to it")
            .with(page(NORMAL, 1)),
        row("page_touch", Of::PageTouch, "a system call that drops a page, and a store that faults")
            .with(page(DONT_NEED, 1))
            .against("page_kept"),
        row("page_touch_2", Of::TwoPages, "a system call that drops two pages, and two stores that fault")
            .with(page(DONT_NEED, 2)),
    ]
}

fn stalls(geometry: &Geometry) -> Vec<RecipeRow> {
    let row = |name, runs, effect| row(Family::Stalls, name, runs, effect);
    let Geometry { l1d_bytes, llc_bytes, line_bytes, .. } = *geometry;
    let resident = ((l1d_bytes / 2 + 1).next_power_of_two() / 2).max(line_bytes);
    vec![
        row("chain", Of::Chain, "16 multiplications, each of which waits for the one before"),
        row("store_burst_l1", Of::StoreBurst, "16 stores that hit the first-level cache")
            .with(RecipeSetting::Bytes(resident)),
        row("store_burst", Of::StoreBurst, "16 stores that miss every cache, faster than they are drained")
            .with(RecipeSetting::Bytes((2 * llc_bytes).next_power_of_two()))
            .against("store_burst_l1"),
    ]
}

fn mixtures(geometry: &Geometry) -> Vec<RecipeRow> {
    let row = |name, runs, effect| row(Family::Mixtures, name, runs, effect);
    vec![
        row("mix_arithmetic", Of::MixArithmetic, "additions, multiplications, floating point, nops"),
        row("mix_memory", Of::MixMemory, "5 loads, 3 stores, 2 additions"),
        row("mix_branches", Of::MixBranches, "a random branch, loads, a jump")
            .with(RecipeSetting::Random { bits: 2 }),
        row("mix_chase", Of::MixChase, "2 loads that miss, additions, a store")
            .with(chase(geometry, 2 * geometry.l1d_bytes)),
        row("mix_calls", Of::MixCalls, "a call, loads, a branch that is never taken"),
        row("mix_simd", Of::MixSimd, "vectors of integers and numbers, a vector load, multiplications"),
        row("mix_synchronised", Of::MixSynchronised, "2 atomic read-modify-writes, a barrier, additions"),
        row("mix_indirect", Of::MixIndirect, "an indirect jump to 4 targets at random, stores")
            .with(RecipeSetting::Targets { bits: 2 }),
    ]
}

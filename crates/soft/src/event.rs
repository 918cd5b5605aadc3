//! The events of the software PMU, and their conventions.
//!
//! Every event counts in user mode only, and only instructions that *retire*. An instruction that raises a
//! fault counts nothing; it counts once when it is executed again and completes.

use std::fmt;

/// The origin of an event's counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CountOrigin {
    /// A fixed number for each execution of an instruction: executions of blocks are all that is needed.
    Static,
    /// Fixed for most instructions; those that carry an [`Addend`](crate::Addend) need a count made at run
    /// time.
    Addends,
    /// The union of the executed addresses, not a sum:
    /// [`distinct_code_bytes`](crate::totals::distinct_code_bytes).
    Union,
}

macro_rules! events {
    ($($variant:ident, $name:literal, [$($alias:literal),*], $origin:ident, $about:literal;)*) => {
        /// An event of the software PMU.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum ExecutionEvent {
            $(
                #[doc = concat!("`", $name, "`: ", $about, ".")]
                $(#[doc(alias = $alias)])*
                $variant,
            )*
        }

        impl ExecutionEvent {
            /// Every event, in the order of [`ExecutionEvent::index`].
            pub const ALL: &[ExecutionEvent] = &[$(ExecutionEvent::$variant),*];

            /// The name, lower case with underscores.
            pub fn name(self) -> &'static str {
                match self { $(ExecutionEvent::$variant => $name,)* }
            }

            /// Other names of the same count: portable ones, and perf's spelling where it means the same.
            pub fn aliases(self) -> &'static [&'static str] {
                match self { $(ExecutionEvent::$variant => &[$($alias),*],)* }
            }

            /// The definition of the event, with its convention, in one phrase.
            pub fn about(self) -> &'static str {
                match self { $(ExecutionEvent::$variant => $about,)* }
            }

            /// The origin of its counts.
            pub fn origin(self) -> CountOrigin {
                match self { $(ExecutionEvent::$variant => CountOrigin::$origin,)* }
            }
        }
    };
}

events! {
    Instructions, "instructions", [], Static,
        "instructions retired; one with a repeat prefix counts once, whatever the number of its iterations";
    BasicBlocks, "basic_blocks", [], Static,
        "runs of instructions ended by a branch, a system call or a trap, as executed; where a translator cuts a \
         run, or a jump enters it in the middle, does not matter";
    Branches, "branches", ["branch_instructions", "branch-instructions"], Static,
        "near jumps, conditional ones taken or not, near calls and near returns; system calls are not branches";
    ConditionalBranches, "branches_conditional", ["conditional_branches"], Static,
        "branches that depend on flags or on rcx: jcc, jrcxz, loop, loope, loopne; a conditional move is none";
    TakenBranches, "branches_taken", ["taken_branches"], Addends,
        "branches that were taken: conditional ones by what happened, all others always, even to the next address";
    ConditionalTaken, "branches_conditional_taken", [], Addends,
        "conditional branches that were taken";
    ConditionalNotTaken, "branches_not_taken", ["branches_conditional_not_taken"], Addends,
        "conditional branches that fell through";
    DirectBranches, "branches_direct", ["direct_branches"], Static,
        "jumps and calls with the target in the instruction; direct, indirect and returns add up to branches";
    IndirectBranches, "branches_indirect", ["indirect_branches"], Static,
        "jumps and calls with the target in a register or in memory; returns are counted apart";
    Calls, "calls", [], Static,
        "near calls, direct and indirect";
    IndirectCalls, "calls_indirect", ["indirect_calls"], Static,
        "near calls with the target in a register or in memory";
    Returns, "returns", [], Static,
        "near returns";
    Loads, "loads", [], Addends,
        "reads of memory operands, the stack's included: two for a string compare, one for a gather or a masked \
         load whatever its mask, one for each iteration under a repeat prefix; an access that crosses a line \
         or a page is one; the fetch of code, prefetches, lea and nops with an operand are none";
    Stores, "stores", [], Addends,
        "writes of memory operands, counted as loads are; a read-modify-write is one load and one store, a \
         compare-exchange too when it fails";
    BytesLoaded, "bytes_loaded", [], Addends,
        "bytes of the loads; under a mask of a gather, an expand or a move the selected elements only, under any \
         other mask the whole operand; a broadcast reads one element; the xsave family counts 576 bytes, without \
         extended components";
    BytesStored, "bytes_stored", [], Addends,
        "bytes of the stores; under any mask the selected elements only";
    SimdScalar, "simd_scalar", [], Static,
        "instructions with an XMM register operand that work on one element: scalar floating point, moves of one \
         element, conversions to and from general registers";
    Simd64, "simd_64", ["simd_mmx"], Static,
        "instructions with an MMX register as their widest vector operand";
    Simd128, "simd_128", [], Static,
        "instructions on several elements whose widest vector operand has 128 bits; moves and logic included";
    Simd256, "simd_256", [], Static,
        "instructions whose widest vector operand has 256 bits";
    Simd512, "simd_512", [], Static,
        "instructions whose widest vector operand has 512 bits; masks do not matter";
    FpAdd, "fp_add", [], Static,
        "additions and subtractions of floating-point elements, x87 included, horizontal ones too; this and the \
         other fp events count each element of a packed instruction, masked off or not";
    FpMul, "fp_mul", [], Static,
        "multiplications of floating-point elements";
    FpDivSqrt, "fp_div_sqrt", [], Static,
        "divisions and square roots of floating-point elements; approximations (rcp, rsqrt) are none";
    FpFma, "fp_fma", [], Static,
        "fused multiply-adds of floating-point elements, one for each element";
    FpOperations, "fp_operations", ["flops"], Static,
        "fp_add + fp_mul + fp_div_sqrt + 2 × fp_fma; compares, minima, rounding, conversions, 3DNow! and AMX are none";
    FpScalar, "fp_scalar", [], Static,
        "instructions that do fp operations on one element, x87 included";
    FpPacked, "fp_packed", [], Static,
        "instructions that do fp operations on packed elements";
    IntegerMultiplies, "integer_multiplies", ["int_mul"], Static,
        "mul, imul, mulx on general registers; lea, shifts and vector multiplications are none";
    IntegerDivides, "integer_divides", ["int_div"], Static,
        "div, idiv";
    Atomics, "atomics", [], Static,
        "read-modify-writes that are atomic: with a lock prefix, or by nature (xchg with memory, cmpccxadd, aadd)";
    Fences, "fences", [], Static,
        "mfence, lfence, sfence, serialize";
    Nops, "nops", [], Static,
        "nop of any length and reserved nops; pause, endbr and prefetches are none";
    SystemCalls, "system_calls", ["syscalls"], Static,
        "syscall, sysenter, int 0x80; what the vDSO answers without the kernel is none";
    RepInstructions, "rep_instructions", [], Static,
        "string instructions with a repeat prefix, whatever the number of iterations";
    RepIterations, "rep_iterations", [], Addends,
        "iterations of string instructions with a repeat prefix; none where rcx was zero";
    DistinctCodeBytes, "distinct_code_bytes", ["code_footprint"], Union,
        "bytes of code at addresses that were executed at least once";
}

/// The number of events.
pub(crate) const COUNT: usize = ExecutionEvent::ALL.len();

impl ExecutionEvent {
    /// The position in [`ExecutionEvent::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The event of a name or an alias, upper or lower case.
    pub fn from_name(name: &str) -> Option<ExecutionEvent> {
        ExecutionEvent::ALL.iter().copied().find(|event| {
            event.name().eq_ignore_ascii_case(name)
                || event.aliases().iter().any(|alias| alias.eq_ignore_ascii_case(name))
        })
    }
}

/// A set of events; all of them by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventSet(u64);

const _: () = assert!(COUNT < u64::BITS as usize);

impl EventSet {
    /// Whether an event is in it.
    pub fn contains(self, event: ExecutionEvent) -> bool {
        self.0 >> event.index() & 1 == 1
    }

    /// The events that are in both sets.
    #[cfg(feature = "translator")]
    pub(crate) fn common(self, other: EventSet) -> EventSet {
        EventSet(self.0 & other.0)
    }

    /// Its events, in the order of [`ExecutionEvent::ALL`].
    pub fn iter(self) -> impl Iterator<Item = ExecutionEvent> {
        ExecutionEvent::ALL.iter().copied().filter(move |event| self.contains(*event))
    }
}

impl Default for EventSet {
    fn default() -> EventSet {
        ExecutionEvent::ALL.iter().copied().collect()
    }
}

impl FromIterator<ExecutionEvent> for EventSet {
    fn from_iter<T: IntoIterator<Item = ExecutionEvent>>(events: T) -> EventSet {
        EventSet(events.into_iter().fold(0, |set, event| set | 1 << event.index()))
    }
}

impl fmt::Display for ExecutionEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_event_stands_at_its_index() {
        for (i, event) in ExecutionEvent::ALL.iter().enumerate() {
            assert_eq!(event.index(), i, "{event}");
        }
    }

    #[test]
    fn a_set_has_the_events_that_it_was_made_of() {
        let set: EventSet = [ExecutionEvent::DistinctCodeBytes, ExecutionEvent::Loads].into_iter().collect();
        assert_eq!(
            set.iter().collect::<Vec<_>>(),
            [ExecutionEvent::Loads, ExecutionEvent::DistinctCodeBytes]
        );
        assert!(set.contains(ExecutionEvent::Loads) && !set.contains(ExecutionEvent::Stores));
        assert_eq!(EventSet::default().iter().count(), ExecutionEvent::ALL.len());
    }

    #[test]
    fn no_name_or_alias_means_two_events() {
        let mut seen = HashSet::new();
        for event in ExecutionEvent::ALL {
            for name in event.aliases().iter().copied().chain([event.name()]) {
                assert!(seen.insert(name), "{name} is there twice");
                assert_eq!(ExecutionEvent::from_name(&name.to_uppercase()), Some(*event));
            }
        }
        assert_eq!(ExecutionEvent::from_name("cycles"), None);
    }

    #[test]
    fn the_portable_names_of_what_is_exact_here_resolve() {
        assert_eq!(ExecutionEvent::from_name("instructions"), Some(ExecutionEvent::Instructions));
        assert_eq!(ExecutionEvent::from_name("branch_instructions"), Some(ExecutionEvent::Branches));
        assert_eq!(ExecutionEvent::from_name("branch_misses"), None, "a misprediction can be modelled only");
        assert_eq!(ExecutionEvent::from_name("l1d_cache_loads"), None, "a cache can be modelled only");
    }
}

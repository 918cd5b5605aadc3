//! Concepts: the things that events of a core can count, whatever a vendor calls the event.
//!
//! Kernels say how often each concept happens in an iteration, simulated chips count concepts, and inference
//! finds the concepts that an unknown event counts. Concepts overlap on purpose (every taken branch is a
//! branch): an event is named by the concept that vendors would name, and which concepts some kernels tell
//! apart is a property of those kernels.

use core::fmt;
use core::str::FromStr;

/// By what kind of thing a concept is counted, which decides how exactly kernels can foretell it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Nature {
    /// The program decides it: retired instructions and their kinds. A kernel foretells it to the unit.
    Architectural,
    /// The core decides it: misses, mispredictions, micro-operations. A kernel foretells it nearly.
    MicroArchitectural,
    /// The core decides how long it takes: cycles and cycles with a property. A kernel foretells no number.
    Duration,
}

macro_rules! concepts {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $nature:ident;)+) => {
        /// A kind of event: each thing that an event can count.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[non_exhaustive]
        pub enum Concept {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Concept {
            /// Every concept, in the order of their declaration.
            pub const ALL: &'static [Concept] = &[$(Concept::$variant),+];

            /// Its name in files and output: lower case with hyphens.
            pub const fn name(self) -> &'static str {
                match self { $(Concept::$variant => $name,)+ }
            }

            /// How exactly it can be foretold.
            pub const fn nature(self) -> Nature {
                match self { $(Concept::$variant => Nature::$nature,)+ }
            }

            /// The thing counted, as a sentence's beginning without a full stop.
            pub const fn about(self) -> &'static str {
                match self { $(Concept::$variant => concat!($($doc),+).trim_ascii(),)+ }
            }
        }
    };
}

concepts! {
    /// Instructions retired
    Instructions = "instructions", Architectural;
    /// Micro-operations retired
    Uops = "uops", MicroArchitectural;
    /// Micro-operations issued, those of wrong paths included
    UopsIssued = "uops-issued", MicroArchitectural;
    /// Integer additions, logic and shifts retired
    IntegerAlu = "integer-alu", Architectural;
    /// Integer multiplications retired
    IntegerMultiplies = "integer-multiplies", Architectural;
    /// Integer divisions retired
    IntegerDivides = "integer-divides", Architectural;
    /// Scalar floating-point additions retired
    FloatAdds = "float-adds", Architectural;
    /// Scalar floating-point multiplications retired
    FloatMultiplies = "float-multiplies", Architectural;
    /// Scalar floating-point divisions and square roots retired
    FloatDivides = "float-divides", Architectural;
    /// Fused multiply-add instructions retired
    FusedMultiplyAdds = "fused-multiply-adds", Architectural;
    /// Vector instructions on integers retired
    SimdInteger = "simd-integer", Architectural;
    /// Vector instructions on floating-point numbers retired
    SimdFloat = "simd-float", Architectural;
    /// Operations on floating-point numbers retired, each element of a vector on its own
    FloatOperations = "float-operations", Architectural;
    /// Register moves that renaming carried out
    MovesEliminated = "moves-eliminated", MicroArchitectural;
    /// Idioms that set a register to zero and that renaming carried out
    ZeroIdioms = "zero-idioms", MicroArchitectural;
    /// Instructions retired that do nothing
    Nops = "nops", Architectural;
    /// Instructions retired that load, vector loads included
    Loads = "loads", Architectural;
    /// Instructions retired that store, vector stores included
    Stores = "stores", Architectural;
    /// Instructions retired that load or store, one that does both once
    MemoryInstructions = "memory-instructions", Architectural;
    /// Vector loads retired
    SimdLoads = "simd-loads", Architectural;
    /// Vector stores retired
    SimdStores = "simd-stores", Architectural;
    /// Branches of every kind retired
    Branches = "branches", Architectural;
    /// Conditional branches retired
    ConditionalBranches = "conditional-branches", Architectural;
    /// Conditional branches retired that were taken
    ConditionalTaken = "conditional-taken", Architectural;
    /// Branches of every kind retired that were taken
    TakenBranches = "taken-branches", Architectural;
    /// Jumps retired whose target is in the instruction
    DirectJumps = "direct-jumps", Architectural;
    /// Branches retired whose target is in a register or in memory, returns excepted
    IndirectBranches = "indirect-branches", Architectural;
    /// Calls retired, direct and indirect
    Calls = "calls", Architectural;
    /// Returns retired
    Returns = "returns", Architectural;
    /// Branches of every kind retired that had been predicted wrongly
    Mispredicts = "mispredicts", MicroArchitectural;
    /// Conditional branches retired that had been predicted wrongly
    ConditionalMispredicts = "conditional-mispredicts", MicroArchitectural;
    /// Indirect branches retired that had been predicted wrongly, returns excepted
    IndirectMispredicts = "indirect-mispredicts", MicroArchitectural;
    /// Indirect calls retired that had been predicted wrongly
    IndirectCallMispredicts = "indirect-call-mispredicts", MicroArchitectural;
    /// Returns retired that had been predicted wrongly
    ReturnMispredicts = "return-mispredicts", MicroArchitectural;
    /// Retired loads that missed the first-level data cache
    L1dLoadMisses = "l1d-load-misses", MicroArchitectural;
    /// Loads that missed the first-level data cache, those of wrong paths included
    L1dLoadMissesSpeculative = "l1d-load-misses-speculative", MicroArchitectural;
    /// Retired stores that missed the first-level data cache
    L1dStoreMisses = "l1d-store-misses", MicroArchitectural;
    /// Stores that missed the first-level data cache, those of wrong paths included
    L1dStoreMissesSpeculative = "l1d-store-misses-speculative", MicroArchitectural;
    /// Lines that the first-level data cache wrote back
    L1dWritebacks = "l1d-writebacks", MicroArchitectural;
    /// Demand requests that missed the second-level cache
    L2Misses = "l2-misses", MicroArchitectural;
    /// Requests to the last-level cache
    LlcReferences = "llc-references", MicroArchitectural;
    /// Requests that missed the last-level cache
    LlcMisses = "llc-misses", MicroArchitectural;
    /// Lines that a prefetcher asked for
    Prefetches = "prefetches", MicroArchitectural;
    /// Accesses to data that missed the first-level TLB
    L1dTlbMisses = "l1d-tlb-misses", MicroArchitectural;
    /// Accesses to data that missed the second-level TLB
    L2TlbMisses = "l2-tlb-misses", MicroArchitectural;
    /// Walks of page tables for data
    DataPageWalks = "data-page-walks", MicroArchitectural;
    /// Fetches that missed the first-level instruction cache
    L1iMisses = "l1i-misses", MicroArchitectural;
    /// Fetches that missed the instruction TLB
    ItlbMisses = "itlb-misses", MicroArchitectural;
    /// Walks of page tables for instructions
    InstructionPageWalks = "instruction-page-walks", MicroArchitectural;
    /// Accesses to data that cross a cache line
    LineCrossings = "line-crossings", Architectural;
    /// Accesses to data that cross a page
    PageCrossings = "page-crossings", Architectural;
    /// Loads that took their value from a store that was under way
    StoreForwards = "store-forwards", MicroArchitectural;
    /// Loads that had to wait for a store that could not hand its value over
    ForwardBlocks = "forward-blocks", MicroArchitectural;
    /// Restarts of the pipeline because memory was accessed out of order
    OrderViolations = "order-violations", MicroArchitectural;
    /// Restarts of the pipeline of any cause
    PipelineFlushes = "pipeline-flushes", MicroArchitectural;
    /// Barriers of memory or instructions retired
    Barriers = "barriers", Architectural;
    /// Atomic read-modify-write operations that succeeded
    AtomicSuccesses = "atomic-successes", Architectural;
    /// Conditional or exclusive stores that failed
    AtomicFailures = "atomic-failures", Architectural;
    /// System calls
    SystemCalls = "system-calls", Architectural;
    /// Accesses that faulted
    Faults = "faults", Architectural;
    /// Interrupts
    Interrupts = "interrupts", MicroArchitectural;
    /// Cycles in which the core was not halted
    Cycles = "cycles", Duration;
    /// The same in cycles of the reference clock
    ReferenceCycles = "reference-cycles", Duration;
    /// Cycles in which nothing retired
    StallCycles = "stall-cycles", Duration;
    /// Cycles in which nothing could be dispatched because the back end was full
    BackendStallCycles = "backend-stall-cycles", Duration;
    /// Cycles in which the front end delivered nothing
    FrontendStallCycles = "frontend-stall-cycles", Duration;
    /// Cycles in which a load that missed was outstanding
    MissOutstandingCycles = "miss-outstanding-cycles", Duration;
    /// Cycles in which a divider was busy
    DividerCycles = "divider-cycles", Duration;
    /// Cycles in which the store buffer was full
    StoreBufferFullCycles = "store-buffer-full-cycles", Duration;
}

impl fmt::Display for Concept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no concept has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownConcept(pub String);

impl fmt::Display for UnknownConcept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no concept is called {:?}", self.0)
    }
}

impl std::error::Error for UnknownConcept {}

impl FromStr for Concept {
    type Err = UnknownConcept;

    fn from_str(name: &str) -> Result<Concept, UnknownConcept> {
        Concept::ALL
            .iter()
            .copied()
            .find(|concept| concept.name() == name)
            .ok_or_else(|| UnknownConcept(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_read_back() {
        let names: BTreeSet<&str> = Concept::ALL.iter().map(|concept| concept.name()).collect();
        assert_eq!(names.len(), Concept::ALL.len());
        for concept in Concept::ALL {
            assert_eq!(concept.name().parse(), Ok(*concept));
            assert!(!concept.about().is_empty() && !concept.about().ends_with('.'), "{concept}");
        }
        assert_eq!("cats".parse::<Concept>(), Err(UnknownConcept("cats".to_owned())));
    }
}

//! A kernel table with the families of a real sweep.
//!
//! A line has name, family and instructions; concepts that follow from instructions are added up, and the
//! rest is written out. A family with `+` is held out.

use cyclometer_core::Concept;
use cyclometer_inference::{KernelRole, KernelTable, TableKernel};

/// `n` as an instruction's name is `n` of them in an iteration. Concepts by name are added as they are.
const KERNELS: &str = "
empty          base      
nops           base      nop 4
nops-long      base      nop 12
add            int       alu 4
add-long       int       alu 12
mul            int       mul 3 alu 1
div            int       div 2
div-mul        int       div 1 mul 2
moves          int       move 4 moves-eliminated 4
zero           int       zero 3 zero-idioms 3
moves-zero     int       move 2 zero 1 moves-eliminated 2 zero-idioms 1
fp-add         fp        fadd 4
fp-mul         fp        fmul 3
fp-fma         fp        fma 2 fadd 1
fp-div         fp        fdiv 1 fmul 1
fp-div-2       fp        fdiv 2
fp-fma-4       fp        fma 4
simd-int       fp        vint 3
simd-float     fp        vfloat 2
simd-both      fp        vint 1 vfloat 3
loads          hit       load 4
stores         hit       store 3
load-store     hit       load 2 store 1
rmw            hit       rmw 2
simd-load      hit       vload 3
simd-store     hit       vstore 2
simd-copy      hit       vload 1 vstore 1
chase-l2       miss      load 1 l1d-load-misses 1 l1d-load-misses-speculative 1
chase-llc      miss      load 2 l1d-load-misses 2 l1d-load-misses-speculative 2 l2-misses 2 llc-references 2
chase-dram     miss      load 1 l1d-load-misses 1 l1d-load-misses-speculative 1 l2-misses 1 llc-references 1 llc-misses 1
chase-2-dram   miss      load 2 l1d-load-misses 2 l1d-load-misses-speculative 2 l2-misses 2 llc-references 2 llc-misses 2
stride         miss      load 2 l1d-load-misses 0.25 l1d-load-misses-speculative 0.25 prefetches 2 llc-references 2
stride-wide    miss      load 1 l1d-load-misses 0.125 l1d-load-misses-speculative 0.125 prefetches 1 llc-references 1 llc-misses 1
store-l2       miss      store 2 l1d-store-misses 2 l1d-store-misses-speculative 2 l1d-writebacks 2
store-llc      miss      store 1 l1d-store-misses 1 l1d-store-misses-speculative 1 l1d-writebacks 1 l2-misses 1 llc-references 1
store-once     miss      store 4 l1d-store-misses 1 l1d-store-misses-speculative 1 llc-references 1
tlb-l1         tlb       load 1 l1d-tlb-misses 1
tlb-l1-2       tlb       load 2 l1d-tlb-misses 2
tlb-l2         tlb       load 1 l1d-tlb-misses 1 l2-tlb-misses 1 data-page-walks 1
tlb-l2-store   tlb       store 2 l1d-tlb-misses 2 l2-tlb-misses 2 data-page-walks 1
tlb-walk-2     tlb       load 2 l1d-tlb-misses 2 l2-tlb-misses 2 data-page-walks 2
split-line     split     load 2 line-crossings 2
split-store    split     store 3 line-crossings 1
split-page     split     load 1 line-crossings 1 page-crossings 1
split-page-2   split     load 2 line-crossings 2 page-crossings 2
forward        forward   store 1 load 1 store-forwards 1
forward-2      forward   store 2 load 2 store-forwards 2
blocked        forward   store 1 load 1 forward-blocks 1
blocked-2      forward   store 2 load 2 forward-blocks 2
order          forward   store 1 load 1 order-violations 0.25
order-2        forward   store 1 load 2 order-violations 0.5
never          branch    cond 3
always         branch    cond 2 taken 2
alternating    branch    cond 2 taken 1
random-half    branch    cond 1 taken 0.5 cond-miss 0.5 alu 3 wrong-load-miss 0.25 wrong-store-miss 0.125
random-quarter branch    cond 2 taken 0.5 cond-miss 0.5 alu 6 wrong-load-miss 0.5 wrong-store-miss 0.5
random-full    branch    cond 4 taken 2 cond-miss 2 alu 2
jumps          branch    jump 3
jump-calls     branch    jump 1 call 1 ret 1
indirect       indirect  ind 1
indirect-4     indirect  ind 2 ind-miss 1
indirect-rand  indirect  ind 1 ind-miss 0.75 alu 2
calls          indirect  call 2 ret 2
ret-no-call    indirect  ret 1 ret-miss 1
call-no-ret    indirect  call 1 jump 1
deep           indirect  call 1 ret 1 ret-miss 0.5
icache         fetch     jump 1 l1i-misses 1
icache-2       fetch     jump 2 l1i-misses 2
itlb           fetch     jump 1 l1i-misses 1 itlb-misses 1 instruction-page-walks 1
itlb-2         fetch     jump 2 itlb-misses 2
itlb-walk      fetch     jump 2 itlb-misses 2 instruction-page-walks 2
barrier        sync      barrier 1
barrier-2      sync      barrier 2 load 1
atomic         sync      atomic 1
atomic-2       sync      atomic 2
atomic-fail    sync      failed 1
atomic-fail-2  sync      failed 2 atomic 1
syscall        system    call 1 ret 1 alu 4 system-calls 1
syscall-2      system    alu 4 system-calls 2
fault          system    store 1 faults 1
fault-2        system    load 2 faults 2
mix-1          +mix      load 3 store 1 cond 2 taken 1 cond-miss 0.25 l1d-load-misses 1 l1d-load-misses-speculative 1.25 fadd 2 alu 2 order-violations 0.25
mix-2          +mix      mul 2 div 1 vint 2 vload 2 vfloat 1 l2-misses 1 l1d-load-misses 2 l1d-load-misses-speculative 2 llc-references 1 llc-misses 0.5 forward-blocks 1
mix-3          +mix      call 1 ret 2 ret-miss 0.5 ind 1 ind-miss 0.5 jump 3 l1i-misses 0.5 itlb-misses 1 instruction-page-walks 0.5 nop 2
mix-4          +mix      store 4 l1d-store-misses 2 l1d-store-misses-speculative 2 l1d-writebacks 1 l1d-tlb-misses 3 l2-tlb-misses 2 data-page-walks 1 vstore 1
mix-5          +mix      move 2 zero 2 moves-eliminated 2 zero-idioms 2 fma 1 fmul 2 fdiv 1 line-crossings 2 page-crossings 1 load 2
mix-6          +mix      barrier 1 atomic 1 failed 1 rmw 1 store 1 load 1 store-forwards 1 prefetches 1 llc-references 1 l1d-store-misses 0.5 l1d-store-misses-speculative 0.75
mix-7          +mix      system-calls 1 faults 1 load 1 alu 3 call 1 ret 1
";

/// The concepts that one instruction adds, each with its number.
type Effects = &'static [(Concept, f64)];

/// The words of a line, each with its micro-operations and effects.
const INSTRUCTIONS: &[(&str, f64, Effects)] = &[
    ("nop", 1.0, &[(Concept::Nops, 1.0)]),
    ("alu", 1.0, &[(Concept::IntegerAlu, 1.0)]),
    ("mul", 1.0, &[(Concept::IntegerMultiplies, 1.0)]),
    ("div", 3.0, &[(Concept::IntegerDivides, 1.0)]),
    ("move", 1.0, &[]),
    ("zero", 1.0, &[]),
    ("fadd", 1.0, &[(Concept::FloatAdds, 1.0), (Concept::FloatOperations, 1.0)]),
    ("fmul", 1.0, &[(Concept::FloatMultiplies, 1.0), (Concept::FloatOperations, 1.0)]),
    ("fdiv", 1.0, &[(Concept::FloatDivides, 1.0), (Concept::FloatOperations, 1.0)]),
    ("fma", 1.0, &[(Concept::FusedMultiplyAdds, 1.0), (Concept::FloatOperations, 2.0)]),
    ("vint", 1.0, &[(Concept::SimdInteger, 1.0)]),
    ("vfloat", 1.0, &[(Concept::SimdFloat, 1.0), (Concept::FloatOperations, 4.0)]),
    ("load", 1.0, &[(Concept::Loads, 1.0), (Concept::MemoryInstructions, 1.0)]),
    ("store", 2.0, &[(Concept::Stores, 1.0), (Concept::MemoryInstructions, 1.0)]),
    ("rmw", 4.0, &[(Concept::Loads, 1.0), (Concept::Stores, 1.0), (Concept::MemoryInstructions, 1.0)]),
    ("vload", 1.0, &[(Concept::Loads, 1.0), (Concept::SimdLoads, 1.0), (Concept::MemoryInstructions, 1.0)]),
    (
        "vstore",
        2.0,
        &[(Concept::Stores, 1.0), (Concept::SimdStores, 1.0), (Concept::MemoryInstructions, 1.0)],
    ),
    ("cond", 1.0, &[(Concept::Branches, 1.0), (Concept::ConditionalBranches, 1.0)]),
    ("taken", 0.0, &[(Concept::ConditionalTaken, 1.0), (Concept::TakenBranches, 1.0)]),
    ("jump", 1.0, &[(Concept::Branches, 1.0), (Concept::DirectJumps, 1.0), (Concept::TakenBranches, 1.0)]),
    (
        "ind",
        1.0,
        &[(Concept::Branches, 1.0), (Concept::IndirectBranches, 1.0), (Concept::TakenBranches, 1.0)],
    ),
    ("call", 2.0, &[(Concept::Branches, 1.0), (Concept::Calls, 1.0), (Concept::TakenBranches, 1.0)]),
    ("ret", 1.0, &[(Concept::Branches, 1.0), (Concept::Returns, 1.0), (Concept::TakenBranches, 1.0)]),
    ("cond-miss", 0.0, &[(Concept::ConditionalMispredicts, 1.0), (Concept::Mispredicts, 1.0)]),
    ("ind-miss", 0.0, &[(Concept::IndirectMispredicts, 1.0), (Concept::Mispredicts, 1.0)]),
    ("ret-miss", 0.0, &[(Concept::ReturnMispredicts, 1.0), (Concept::Mispredicts, 1.0)]),
    ("wrong-load-miss", 0.0, &[(Concept::L1dLoadMissesSpeculative, 1.0)]),
    ("wrong-store-miss", 0.0, &[(Concept::L1dStoreMissesSpeculative, 1.0)]),
    ("barrier", 2.0, &[(Concept::Barriers, 1.0)]),
    (
        "atomic",
        4.0,
        &[
            (Concept::AtomicSuccesses, 1.0),
            (Concept::Loads, 1.0),
            (Concept::Stores, 1.0),
            (Concept::MemoryInstructions, 1.0),
        ],
    ),
    (
        "failed",
        3.0,
        &[(Concept::AtomicFailures, 1.0), (Concept::MemoryInstructions, 1.0), (Concept::Stores, 1.0)],
    ),
];

/// Names of lines that execute no instruction.
const EFFECTS: &[&str] =
    &["taken", "cond-miss", "ind-miss", "ret-miss", "wrong-load-miss", "wrong-store-miss"];

/// More than eighty kernels, seven of them held out.
pub fn table() -> KernelTable {
    let kernels = KERNELS.lines().filter(|line| !line.trim().is_empty()).map(kernel).collect();
    KernelTable::new(kernels).unwrap()
}

fn kernel(line: &str) -> TableKernel {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut work = vec![0.0; Concept::ALL.len()];
    // Each iteration counts down and jumps back.
    add(&mut work, "alu", 1.0);
    add(&mut work, "cond", 1.0);
    add(&mut work, "taken", 1.0);
    for pair in words[2..].chunks(2) {
        add(&mut work, pair[0], pair[1].parse().unwrap());
    }
    let mispredicts = work[Concept::Mispredicts as usize];
    work[Concept::UopsIssued as usize] = work[Concept::Uops as usize] + 9.0 * mispredicts;
    work[Concept::PipelineFlushes as usize] = mispredicts + work[Concept::OrderViolations as usize];
    let per_iteration = Concept::ALL.iter().copied().zip(work).filter(|(_, number)| *number > 0.0).collect();
    TableKernel {
        name: words[0].to_owned(),
        family: words[1].trim_start_matches('+').to_owned(),
        role: if words[1].starts_with('+') { KernelRole::HeldOut } else { KernelRole::Fitting },
        per_iteration,
        estimates: vec![],
    }
}

fn add(work: &mut [f64], word: &str, number: f64) {
    let Some((_, uops, concepts)) = INSTRUCTIONS.iter().find(|(name, ..)| *name == word) else {
        let concept: Concept = word.parse().unwrap();
        work[concept as usize] += number;
        return;
    };
    for &(concept, each) in *concepts {
        work[concept as usize] += number * each;
    }
    if !EFFECTS.contains(&word) {
        work[Concept::Instructions as usize] += number;
        work[Concept::Uops as usize] += number * uops;
    }
}

use super::*;
use cyclometer_core::concept::Concept::*;

/// A machine with small caches, so that every footprint is quickly made.
fn small() -> Geometry {
    Geometry {
        l1d_bytes: 4 << 10,
        l2_bytes: 32 << 10,
        llc_bytes: 256 << 10,
        l1i_bytes: 4 << 10,
        dtlb_entries: 8,
        itlb_entries: 8,
        l2_tlb_entries: 64,
        ..Geometry::default()
    }
}

fn rounds(number: u32) -> Rounds {
    Rounds::new(number).unwrap()
}

fn table(set: InstructionSet) -> Vec<KernelRecipe> {
    KernelRecipe::of_instruction_set(set, &Geometry::default())
}

/// Those that hypotheses are fitted to, on an instruction set.
fn fitting(set: InstructionSet) -> Vec<KernelRecipe> {
    let fits = |recipe: &KernelRecipe| !recipe.held_out && recipe.absence().is_none();
    table(set).into_iter().filter(fits).collect()
}

#[test]
fn every_recipe_runs_to_its_end_or_says_why_not() {
    let mut memory = RecipeMemory::new();
    let recipes = KernelRecipe::all_for(&small());
    for number in [1, 2, 100] {
        for recipe in &recipes {
            let ran = recipe.run(rounds(number), &mut memory);
            assert_eq!(ran.err().map(|absent| absent.reason), recipe.absence().map(str::to_owned));
        }
    }
    assert!(loops::HOST.is_none() || recipes.iter().filter(|one| one.absence().is_none()).count() > 40);
}

#[test]
fn a_loop_has_code_exactly_where_it_has_a_body() {
    let Some(set) = loops::HOST else { return };
    for row in rows::all(&Geometry::default()) {
        assert_eq!(loops::code_of(row.runs).is_some(), bodies::of(row.runs, set).is_ok(), "{}", row.name);
    }
}

#[test]
fn recipes_have_names_of_their_own() {
    let recipes = table(InstructionSet::X86_64);
    let names: BTreeSet<&str> = recipes.iter().map(|recipe| recipe.name).collect();
    assert_eq!(names.len(), recipes.len());
    for recipe in &recipes {
        assert!(recipe.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'));
    }
    let families: BTreeSet<KernelFamily> = recipes.iter().map(|recipe| recipe.family).collect();
    assert_eq!(families.len(), KernelFamily::ALL.len());
    assert!((5..=9).contains(&recipes.iter().filter(|recipe| recipe.held_out).count()));
}

#[test]
fn a_control_executes_the_same_instructions_without_the_effect() {
    for set in InstructionSet::ALL {
        let recipes = table(set);
        for recipe in recipes.iter().filter(|recipe| recipe.absence().is_none()) {
            let Some(control) = recipe.control else { continue };
            let control = recipes.iter().find(|one| one.name == control).unwrap();
            assert!(!control.held_out && control.absence().is_none(), "{}", recipe.name);
            for same in [Instructions, Loads, Stores, Branches, ConditionalBranches, SystemCalls] {
                assert_eq!(recipe.number_of(same), control.number_of(same), "{set:?} {} {same}", recipe.name);
            }
            assert_ne!(recipe.per_iteration, control.per_iteration, "{set:?} {}", recipe.name);
        }
    }
}

#[test]
fn what_the_program_decides_happens_a_whole_number_of_times() {
    for set in InstructionSet::ALL {
        for recipe in table(set) {
            for (concept, number) in recipe.per_iteration() {
                assert!(number.is_finite() && *number > 0.0, "{} {concept}", recipe.name);
                assert_ne!(concept.nature(), Nature::Duration, "{} {concept}", recipe.name);
                if concept.nature() == Nature::Architectural {
                    assert_eq!(number.fract(), 0.0, "{set:?} {} {concept}", recipe.name);
                }
            }
            assert_eq!(recipe.absence().is_some(), recipe.per_iteration().is_empty(), "{}", recipe.name);
        }
    }
}

#[test]
fn kinds_of_branches_and_accesses_add_up() {
    for set in InstructionSet::ALL {
        for recipe in table(set) {
            let of = |concept| recipe.number_of(concept);
            let name = recipe.name;
            let taken = of(TakenBranches) + of(ConditionalBranches) - of(ConditionalTaken);
            assert_eq!(of(Branches), taken, "{name}");
            let kinds = of(ConditionalBranches) + of(DirectJumps) + of(IndirectBranches) + of(Returns);
            assert!((kinds..=kinds + of(Calls)).contains(&of(Branches)), "{name}");
            let accesses = of(Loads).max(of(Stores))..=of(Loads) + of(Stores);
            assert!(accesses.contains(&of(MemoryInstructions)), "{name}");
            assert!(of(Branches) + of(Nops) <= of(Instructions), "{name}");
            assert!(of(Mispredicts) <= of(Branches), "{name}");
            assert!(of(L1dLoadMisses) <= of(Loads) && of(L1dStoreMisses) <= of(Stores), "{name}");
        }
    }
}

/// Concepts that no recipe of an instruction set moves, and why.
fn unmoved(set: InstructionSet) -> &'static [Concept] {
    match set {
        // It has no exclusive stores. Interrupts come from outside.
        InstructionSet::X86_64 => &[AtomicFailures, Interrupts],
        InstructionSet::Aarch64 => &[Interrupts],
        // No vectors, no renaming that is documented, no misaligned access, jumps of 1 MiB.
        InstructionSet::Riscv64 => &[
            SimdInteger,
            SimdFloat,
            MovesEliminated,
            ZeroIdioms,
            SimdLoads,
            SimdStores,
            ItlbMisses,
            InstructionPageWalks,
            LineCrossings,
            PageCrossings,
            ForwardBlocks,
            Interrupts,
        ],
    }
}

#[test]
fn every_concept_that_is_moved_is_moved_by_different_numbers() {
    for set in InstructionSet::ALL {
        let recipes = fitting(set);
        let mut still = Vec::new();
        for concept in Concept::ALL.iter().filter(|concept| concept.nature() != Nature::Duration) {
            let numbers: BTreeSet<u64> = recipes
                .iter()
                .map(|recipe| recipe.number_of(*concept))
                .filter(|number| *number > 0.0)
                .map(f64::to_bits)
                .collect();
            match numbers.len() {
                0 => still.push(*concept),
                1 => panic!("{set:?}: every recipe moves {concept} by the same number"),
                _ => {}
            }
        }
        assert_eq!(still, unmoved(set), "{set:?}");
    }
}

/// Concepts that no recipe of an instruction set tells apart.
fn collinear(set: InstructionSet) -> Vec<(Concept, Concept)> {
    let mut pairs = vec![
        // A store looks for its line when it retires.
        (L1dStoreMisses, L1dStoreMissesSpeculative),
        // Each miss is walked once.
        (L2TlbMisses, DataPageWalks),
    ];
    if set == InstructionSet::Riscv64 {
        // Nothing that is foretold is more than one micro-operation.
        pairs.insert(0, (Instructions, Uops));
        // There is no wrong path without conditional moves.
        pairs.insert(1, (L1dLoadMisses, L1dLoadMissesSpeculative));
    }
    pairs
}

#[test]
fn concepts_that_no_recipe_tells_apart_are_the_documented_ones() {
    for set in InstructionSet::ALL {
        let recipes = fitting(set);
        let column = |concept: Concept| -> Vec<f64> {
            recipes.iter().map(|recipe| recipe.number_of(concept)).collect()
        };
        let moved: Vec<(Concept, Vec<f64>)> = Concept::ALL
            .iter()
            .map(|concept| (*concept, column(*concept)))
            .filter(|(_, column)| column.iter().any(|number| *number > 0.0))
            .collect();
        let mut found = Vec::new();
        for (i, (one, a)) in moved.iter().enumerate() {
            for (other, b) in &moved[i + 1..] {
                if are_proportional(a, b) {
                    found.push((*one, *other));
                }
            }
        }
        assert_eq!(found, collinear(set), "{set:?}");
    }
}

/// Whether no recipe has a ratio of the two that differs by a tenth from that of all others.
fn are_proportional(a: &[f64], b: &[f64]) -> bool {
    let ratio = a.iter().sum::<f64>() / b.iter().sum::<f64>();
    let near = |(a, b): (&f64, &f64)| (a - b * ratio).abs() <= 0.1 * a.max(b * ratio);
    a.iter().zip(b).all(near)
}

#[test]
fn calls_and_returns_are_told_apart_by_calls_that_nothing_returns_from() {
    for set in InstructionSet::ALL {
        let recipes = fitting(set);
        let of = |name: &str| recipes.iter().find(|recipe| recipe.name == name).unwrap();
        assert_eq!((of("return_alone").number_of(Calls), of("return_alone").number_of(Returns)), (0.0, 1.0));
        assert_eq!((of("call_alone").number_of(Calls), of("call_alone").number_of(Returns)), (1.0, 0.0));
        let others = recipes.iter().filter(|recipe| !recipe.name.ends_with("_alone"));
        others.for_each(|recipe| assert_eq!(recipe.number_of(Calls), recipe.number_of(Returns)));
    }
}

#[test]
fn footprints_follow_the_geometry() {
    let apple = Geometry {
        l1d_bytes: 128 << 10,
        l2_bytes: 12 << 20,
        llc_bytes: 8 << 20,
        l1i_bytes: 192 << 10,
        line_bytes: 128,
        page_bytes: 16 << 10,
        dtlb_entries: 160,
        itlb_entries: 192,
        l2_tlb_entries: 3072,
        return_stack_entries: 50,
    };
    let recipes = KernelRecipe::of_instruction_set(InstructionSet::Aarch64, &apple);
    let of = |name: &str| recipes.iter().find(|recipe| recipe.name == name).unwrap();
    for (name, concept, number) in [
        ("chase_l1", L1dLoadMisses, 0.0),
        ("chase_l2", L1dLoadMisses, 4.0),
        ("chase_l2", L2Misses, 0.0),
        ("chase_llc", L2Misses, 4.0),
        ("store_l2", L1dWritebacks, 2.0),
        ("pages_dtlb", L1dTlbMisses, 4.0),
        ("code_packed", L1iMisses, 0.0),
        ("code_lines", L1iMisses, 3072.0),
        ("load_page_crossing", PageCrossings, 8.0),
        ("load_line_crossing", PageCrossings, 0.0),
    ] {
        assert_eq!(of(name).number_of(concept), number, "{name} {concept}");
    }
    assert_eq!(of("chase_l2").knob.to_string(), "2048 × 128 B");
}

#[test]
fn a_footprint_near_a_capacity_is_an_estimate() {
    // The footprint that misses the first level is neither within nor beyond the second.
    let near = Geometry { l2_bytes: 64 << 10, ..Geometry::default() };
    let recipes = KernelRecipe::of_instruction_set(InstructionSet::X86_64, &near);
    let chase = recipes.iter().find(|recipe| recipe.name == "chase_l2").unwrap();
    assert!(chase.estimates().contains(&L2Misses) && !chase.estimates().contains(&L1dLoadMisses));
}

#[test]
fn a_recipe_without_room_says_so() {
    let huge = Geometry { llc_bytes: usize::MAX, ..Geometry::default() };
    let zero = Geometry {
        l1d_bytes: 0,
        l2_bytes: 0,
        llc_bytes: 0,
        l1i_bytes: 0,
        line_bytes: 0,
        page_bytes: 0,
        dtlb_entries: 0,
        itlb_entries: 0,
        l2_tlb_entries: 0,
        return_stack_entries: 0,
    };
    for set in InstructionSet::ALL {
        let recipes = KernelRecipe::of_instruction_set(set, &huge);
        let chase = recipes.iter().find(|recipe| recipe.name == "chase_memory").unwrap();
        assert_eq!(chase.absence(), Some("it would need more than 1 GiB of memory"));
        KernelRecipe::of_instruction_set(set, &zero);
    }
    let mut memory = RecipeMemory::new();
    for recipe in KernelRecipe::all_for(&zero) {
        assert_eq!(
            recipe.run(rounds(3), &mut memory).is_err(),
            recipe.absence().is_some(),
            "{}",
            recipe.name
        );
    }
}

#[test]
fn recipes_of_another_instruction_set_do_not_run() {
    let other = if loops::HOST == Some(InstructionSet::Riscv64) {
        InstructionSet::X86_64
    } else {
        InstructionSet::Riscv64
    };
    let recipes = table(other);
    let error = recipes[0].run(rounds(1), &mut RecipeMemory::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("the recipe 'empty' cannot run: this machine is not {}", other.name())
    );
}

#[test]
fn controls_are_validated_by_what_their_effects_move() {
    let recipes = table(InstructionSet::X86_64);
    let of = |name: &str| recipes.iter().find(|recipe| recipe.name == name).unwrap();
    assert!(of("chase_l1").validation().contains(&L1dLoadMisses));
    assert!(of("branch_predicted").validation().contains(&ConditionalMispredicts));
    assert_eq!(of("adds").validation(), [Instructions]);
}

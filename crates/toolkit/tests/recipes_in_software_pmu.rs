//! The recipes of kernels execute what they say: the software PMU, which knows none of them, counts a program
//! that runs them. The program is this one.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use cyclometer_core::concept::Concept;
use cyclometer_core::exec::Raw;
use cyclometer_core::{Counting, Target};
use cyclometer_kernels::{Geometry, KernelRecipe, RecipeMemory, Rounds};
use cyclometer_test_support::skip;
use cyclometer_toolkit::{Command, CommandSpec, Launcher, Monitor, OutputStream, Rung, diagnosed_machine};

/// Gives the program the file for its results.
const FOUND: &str = "CYCLOMETER_TEST_FOUND";

/// The number of events in an iteration.
type ByConcepts = fn(&KernelRecipe) -> f64;

/// The events of the software PMU that follow from concepts, and how.
const EVENTS: &[(&str, ByConcepts)] = &[
    ("instructions", |recipe| recipe.number_of(Concept::Instructions)),
    ("branches", |recipe| recipe.number_of(Concept::Branches)),
    ("branches_conditional", |recipe| recipe.number_of(Concept::ConditionalBranches)),
    ("branches_taken", |recipe| recipe.number_of(Concept::TakenBranches)),
    ("branches_conditional_taken", |recipe| recipe.number_of(Concept::ConditionalTaken)),
    ("branches_not_taken", |recipe| {
        recipe.number_of(Concept::Branches) - recipe.number_of(Concept::TakenBranches)
    }),
    ("branches_direct", |recipe| {
        recipe.number_of(Concept::Branches)
            - recipe.number_of(Concept::IndirectBranches)
            - recipe.number_of(Concept::Returns)
    }),
    ("branches_indirect", |recipe| recipe.number_of(Concept::IndirectBranches)),
    ("calls", |recipe| recipe.number_of(Concept::Calls)),
    ("returns", |recipe| recipe.number_of(Concept::Returns)),
    ("loads", |recipe| recipe.number_of(Concept::Loads)),
    ("stores", |recipe| recipe.number_of(Concept::Stores)),
    ("simd_128", |recipe| {
        let kinds = [Concept::SimdInteger, Concept::SimdFloat, Concept::SimdLoads, Concept::SimdStores];
        kinds.map(|kind| recipe.number_of(kind)).iter().sum()
    }),
    ("fp_mul", |recipe| recipe.number_of(Concept::FloatMultiplies)),
    ("fp_div_sqrt", |recipe| recipe.number_of(Concept::FloatDivides)),
    ("fp_operations", |recipe| recipe.number_of(Concept::FloatOperations)),
    ("fp_packed", |recipe| recipe.number_of(Concept::SimdFloat)),
    ("integer_multiplies", |recipe| recipe.number_of(Concept::IntegerMultiplies)),
    ("integer_divides", |recipe| recipe.number_of(Concept::IntegerDivides)),
    ("atomics", |recipe| recipe.number_of(Concept::AtomicSuccesses)),
    ("fences", |recipe| recipe.number_of(Concept::Barriers)),
    ("nops", |recipe| recipe.number_of(Concept::Nops)),
    ("system_calls", |recipe| recipe.number_of(Concept::SystemCalls)),
];

/// Caches for which every footprint is quickly made. The instructions do not depend on them.
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

const FEW: u32 = 10;
const MANY: u32 = 30;

#[test]
fn program() {
    let Ok(file) = std::env::var(FOUND) else { return };
    let mut counting = counting();
    let mut memory = RecipeMemory::new();
    let recipes: Vec<KernelRecipe> =
        KernelRecipe::all_for(&small()).into_iter().filter(|one| one.absence().is_none()).collect();
    recipes.iter().for_each(|recipe| recipe.run(rounds(1), &mut memory).unwrap());
    let before = std::iter::repeat_n((&recipes[0], FEW), 2);
    let work: Vec<_> =
        before.chain(recipes.iter().flat_map(|recipe| [(recipe, FEW), (recipe, MANY)])).collect();
    let mut samples = Vec::with_capacity(work.len() * EVENTS.len());
    // The code between two samples is the same each time, but for the loop of the recipe.
    for (recipe, number) in work {
        recipe.run(rounds(number), &mut memory).unwrap();
        counting.sample(&mut samples).unwrap();
    }
    let counts: Vec<Vec<i64>> = samples.chunks(EVENTS.len()).map(values).collect();
    let lines: Vec<String> = recipes
        .iter()
        .zip(counts[1..].windows(3).step_by(2))
        .map(|(recipe, counts)| format!("{} {}", recipe.name, joined(counts)))
        .collect();
    std::fs::write(file, lines.join("\n")).unwrap();
}

fn rounds(number: u32) -> Rounds {
    Rounds::new(number).unwrap()
}

fn values(samples: &[Raw]) -> Vec<i64> {
    samples.iter().map(|sample| sample.value as i64).collect()
}

/// The counts of [`MANY`] iterations less those of [`FEW`], for each event, from the counts before both,
/// between them and after them.
fn joined(counts: &[Vec<i64>]) -> String {
    let difference = |event: usize| counts[2][event] + counts[0][event] - 2 * counts[1][event];
    (0..EVENTS.len()).map(|event| difference(event).to_string()).collect::<Vec<_>>().join(" ")
}

/// Counts of this thread, of every event.
fn counting() -> Box<dyn Counting> {
    let monitor = Monitor::builder().event(names()).backend(Rung::Soft).build().unwrap();
    let slots = monitor.plan().passes[0].of(Rung::Soft);
    assert_eq!(slots.len(), EVENTS.len());
    let sources = cyclometer_backend::region_sources(Err("not asked for".to_owned()));
    let source = sources.iter().find(|source| source.rung() == Rung::Soft).unwrap();
    source.open(&slots, &Target::ThisThread).unwrap()
}

fn names() -> String {
    EVENTS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(",")
}

#[test]
fn the_software_pmu_counts_what_every_recipe_says_that_it_executes() {
    let here = diagnosed_machine();
    if let Some(cause) = here.ladder.state(Rung::Soft).unwrap().causes.first() {
        skip(&cause.text);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("found");
    let mut spec = CommandSpec::new("env");
    spec.args = vec![
        format!("{FOUND}={}", file.display()).into(),
        std::env::current_exe().unwrap().into(),
        "--exact".into(),
        "recipes_in_software_pmu::program".into(),
    ];
    spec.stdout = OutputStream::Null;
    let launcher = Launcher::start().unwrap();
    Command::new(spec).backend(Rung::Soft).events(&names()).unwrap().run(&launcher).unwrap();
    let found = std::fs::read_to_string(&file).unwrap();
    let mut recipes = KernelRecipe::all_for(&small());
    recipes.retain(|recipe| recipe.absence().is_none());
    assert_eq!(found.lines().count(), recipes.len(), "{found}");
    let mut counted = vec![0; EVENTS.len()];
    let mut wrong = Vec::new();
    for (recipe, line) in recipes.iter().zip(found.lines()) {
        let (name, counts) = line.split_once(' ').unwrap();
        assert_eq!(name, recipe.name);
        for ((event, number), (count, sum)) in EVENTS.iter().zip(counts.split(' ').zip(&mut counted)) {
            let (count, truth): (f64, f64) = (count.parse().unwrap(), number(recipe) * f64::from(MANY - FEW));
            *sum += u64::from(truth > 0.0);
            if count != truth {
                wrong.push(format!("{name} {event}: {count} instead of {truth}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for ((event, _), sum) in EVENTS.iter().zip(&counted) {
        assert!(*sum > 0, "{event} is 0 in every recipe, so nothing was tried");
    }
}

//! The recipes of kernels execute what they say: the software PMU, which knows none of them, counts a program
//! that runs them. The program is this one.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use cyclometer::{Command, CommandSpec, Launcher, Monitor, OutputStream, Rung, diagnosed_machine};
use cyclometer_core::concept::Concept;
use cyclometer_core::{Counting, Target};
use cyclometer_kernels::{Geometry, KernelRecipe, RecipeMemory, Rounds};
use cyclometer_test_support::skip;

/// Gives the program the file for its results.
const FOUND: &str = "CYCLOMETER_TEST_FOUND";

/// The events of the software PMU that follow from concepts, and how.
const EVENTS: &[(&str, fn(&KernelRecipe) -> f64)] = &[
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

/// Caches for which every footprint is quickly made. What is executed does not depend on it.
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
    let mut countings: Vec<Box<dyn Counting>> = EVENTS.chunks(A_REQUEST).map(opened).collect();
    let mut memory = RecipeMemory::new();
    let mut lines = Vec::new();
    for recipe in KernelRecipe::all_for(&small()) {
        match differences(&recipe, &mut memory, &mut countings) {
            Ok(counts) => lines.push(format!("{} {}", recipe.name, joined(&counts))),
            Err(absent) => lines.push(format!("{} absent {absent}", recipe.name)),
        }
    }
    std::fs::write(file, lines.join("\n")).unwrap();
}

/// The most events of one request.
const A_REQUEST: usize = 12;

/// Counts of this thread, of some events.
fn opened(events: &[(&str, fn(&KernelRecipe) -> f64)]) -> Box<dyn Counting> {
    let names = names(events);
    let monitor = Monitor::builder().event(&names).backend(Rung::Soft).build().unwrap();
    let slots = monitor.plan().passes[0].of(Rung::Soft);
    assert_eq!(slots.len(), events.len(), "{names}");
    let sources = cyclometer_backend::region_sources(Err("not asked for".to_owned()));
    let source = sources.iter().find(|source| source.rung() == Rung::Soft).unwrap();
    source.open(&slots, &Target::ThisThread).unwrap()
}

fn names(events: &[(&str, fn(&KernelRecipe) -> f64)]) -> String {
    events.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(",")
}

fn joined(counts: &[i64]) -> String {
    counts.iter().map(i64::to_string).collect::<Vec<_>>().join(" ")
}

/// What [`MANY`] iterations count more than [`FEW`], for each event. What is around the loop is the same.
fn differences(
    recipe: &KernelRecipe,
    memory: &mut RecipeMemory,
    countings: &mut [Box<dyn Counting>],
) -> Result<Vec<i64>, String> {
    let mut run = |rounds: u32| recipe.run(Rounds::new(rounds).unwrap(), memory);
    let mut samples = Vec::with_capacity(8 * EVENTS.len());
    // The first sample ends what is not compared: the begin of this loop, and the recipe's preparation.
    for rounds in [FEW, FEW, MANY] {
        run(rounds).map_err(|absent| absent.to_string())?;
        countings.iter_mut().for_each(|counting| counting.sample(&mut samples).unwrap());
    }
    let at = |moment: usize, event: usize| samples[moment * EVENTS.len() + event].value as i64;
    let difference = |event: usize| at(2, event) + at(0, event) - 2 * at(1, event);
    Ok((0..EVENTS.len()).map(difference).collect())
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
        "program".into(),
    ];
    spec.stdout = OutputStream::Null;
    let launcher = Launcher::start().unwrap();
    Command::new(spec).backend(Rung::Soft).events(&names(EVENTS)).unwrap().run(&launcher).unwrap();
    let found = std::fs::read_to_string(&file).unwrap();
    let recipes = KernelRecipe::all_for(&small());
    assert_eq!(found.lines().count(), recipes.len(), "{found}");
    let mut counted = vec![0; EVENTS.len()];
    let mut wrong = Vec::new();
    for (recipe, line) in recipes.iter().zip(found.lines()) {
        let (name, counts) = line.split_once(' ').unwrap();
        assert_eq!(name, recipe.name);
        if let Some(reason) = recipe.absence() {
            assert!(counts.ends_with(reason), "{line}");
            continue;
        }
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

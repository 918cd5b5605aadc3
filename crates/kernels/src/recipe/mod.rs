//! Kernels in pairs: recipes that move known concepts by known numbers, to find out what an event counts.
//!
//! An event that counts misses counts nothing where the same instructions hit. So a recipe with an effect has
//! a *control*: the same loop with other memory or other random numbers, and without the effect. The
//! instructions of a round are known from its source, on every instruction set ([`bodies`]). Its misses and
//! mispredictions follow from the sizes of caches and TLBs ([`Geometry`], [`effects`]).
//!
//! ```text
//! rows      name, family, loop, setting, control
//!  ├─ bodies      the loop's instructions by kind ──> instruction: concepts of a kind
//!  ├─ effects     misses and mispredictions of the setting
//!  └─ memory      the setting's memory ──> loops: the code that runs
//! ```

mod bodies;
mod effects;
mod geometry;
mod instruction;
mod memory;
mod ring;
mod rows;
mod setting;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use cyclometer_core::concept::{Concept, Nature};

use crate::Rounds;
use crate::loops::{self, RecipeLoop};
use crate::system;
use bodies::LoopBody;
use effects::Effects;
pub use geometry::Geometry;
pub use instruction::InstructionSet;
pub use memory::RecipeMemory;
use rows::RecipeRow;
pub use setting::Knob;
use setting::RecipeSetting;

/// The subject of a recipe.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum KernelFamily {
    /// The loop itself, instructions that do nothing.
    Base,
    /// Integer arithmetic, what renaming carries out.
    Integer,
    /// Floating point and vectors.
    Float,
    /// Loads and stores that hit.
    MemoryHits,
    /// The same that miss.
    MemoryMisses,
    /// Loads of many pages.
    Tlb,
    /// Accesses that cross lines and pages.
    Splits,
    /// Loads of what was just stored.
    Forwarding,
    /// Conditional branches and jumps.
    Branches,
    /// Indirect jumps, calls, returns.
    Indirect,
    /// Code of many lines and pages.
    Code,
    /// Barriers, atomic instructions.
    Synchronisation,
    /// System calls, page faults.
    System,
    /// Chains, full buffers.
    Stalls,
    /// Mixtures, which are held out from fitting.
    Mixtures,
}

impl KernelFamily {
    /// Every family.
    pub const ALL: [KernelFamily; 15] = [
        KernelFamily::Base,
        KernelFamily::Integer,
        KernelFamily::Float,
        KernelFamily::MemoryHits,
        KernelFamily::MemoryMisses,
        KernelFamily::Tlb,
        KernelFamily::Splits,
        KernelFamily::Forwarding,
        KernelFamily::Branches,
        KernelFamily::Indirect,
        KernelFamily::Code,
        KernelFamily::Synchronisation,
        KernelFamily::System,
        KernelFamily::Stalls,
        KernelFamily::Mixtures,
    ];

    /// Its name in output.
    pub fn name(self) -> &'static str {
        match self {
            KernelFamily::Base => "base",
            KernelFamily::Integer => "integer",
            KernelFamily::Float => "float",
            KernelFamily::MemoryHits => "memory-hits",
            KernelFamily::MemoryMisses => "memory-misses",
            KernelFamily::Tlb => "tlb",
            KernelFamily::Splits => "splits",
            KernelFamily::Forwarding => "forwarding",
            KernelFamily::Branches => "branches",
            KernelFamily::Indirect => "indirect",
            KernelFamily::Code => "code",
            KernelFamily::Synchronisation => "synchronisation",
            KernelFamily::System => "system",
            KernelFamily::Stalls => "stalls",
            KernelFamily::Mixtures => "mixtures",
        }
    }
}

impl fmt::Display for KernelFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A loop, the memory that it gets, and the concepts that each of its iterations moves.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct KernelRecipe {
    /// Its name, lower case with underscores.
    pub name: &'static str,
    /// Its subject.
    pub family: KernelFamily,
    /// The work of an iteration, in words.
    pub effect: &'static str,
    /// The number that tells it from others with the same instructions.
    pub knob: Knob,
    /// The recipe with the same instructions and without the effect.
    pub control: Option<&'static str>,
    /// Whether it is a mixture, to test hypotheses with that were fitted to the others.
    pub held_out: bool,
    set: InstructionSet,
    geometry: Geometry,
    runs: RecipeLoop,
    setting: RecipeSetting,
    per_iteration: Vec<(Concept, f64)>,
    estimates: Vec<Concept>,
    validation: Vec<Concept>,
    absence: Option<&'static str>,
}

impl KernelRecipe {
    /// Every recipe on this machine's instruction set, for the default [`Geometry`]. Empty where there is no
    /// loop for the instruction set.
    pub fn all() -> Vec<KernelRecipe> {
        KernelRecipe::all_for(&Geometry::default())
    }

    /// Every recipe on this machine's instruction set, with footprints for a geometry.
    pub fn all_for(geometry: &Geometry) -> Vec<KernelRecipe> {
        loops::HOST.map_or(Vec::new(), |set| {
            let mut recipes = KernelRecipe::of_instruction_set(set, geometry);
            for recipe in &mut recipes {
                recipe.absence = recipe.absence.or_else(|| recipe.absence_here());
            }
            recipes
        })
    }

    /// Every recipe on an instruction set. Only those of this machine's own run.
    pub fn of_instruction_set(set: InstructionSet, geometry: &Geometry) -> Vec<KernelRecipe> {
        let geometry = geometry.usable();
        let mut recipes: Vec<KernelRecipe> =
            rows::all(&geometry).iter().map(|row| KernelRecipe::of_row(row, set, geometry)).collect();
        validate(&mut recipes);
        recipes
    }

    /// How often each concept happens in an iteration, in user mode: those that do happen, in the order of
    /// [`Concept::ALL`].
    ///
    /// Architectural ones are exact. Micro-architectural ones are what is expected, with
    /// [`KernelRecipe::estimates`] among them. Durations are never foretold.
    pub fn per_iteration(&self) -> &[(Concept, f64)] {
        &self.per_iteration
    }

    /// How often one concept happens in an iteration.
    pub fn number_of(&self, concept: Concept) -> f64 {
        let found = self.per_iteration.iter().find(|(one, _)| *one == concept);
        found.map_or(0.0, |(_, number)| *number)
    }

    /// Concepts whose number, 0 too, is an estimate only: cores differ, or the footprint is near a capacity.
    /// Among architectural ones those that cores define differently.
    pub fn estimates(&self) -> &[Concept] {
        &self.estimates
    }

    /// Concepts to count beside: they show that a recipe has its effect, and its control has not.
    pub fn validation(&self) -> &[Concept] {
        &self.validation
    }

    /// Why it cannot run on its instruction set or this CPU; `None` where it can.
    pub fn absence(&self) -> Option<&'static str> {
        self.absence
    }

    /// Executes so many iterations.
    ///
    /// The first run with some memory also makes what the recipe needs there. That is the same for every
    /// number of iterations, so that a difference of runs is exact.
    ///
    /// # Errors
    ///
    /// [`RecipeAbsent`] where it cannot run, with the reason; nothing was executed then.
    pub fn run(&self, iterations: Rounds, memory: &mut RecipeMemory) -> Result<(), RecipeAbsent> {
        let absent = |reason: String| RecipeAbsent { recipe: self.name, reason };
        if let Some(reason) = self.absence {
            return Err(absent(reason.to_owned()));
        }
        let code = loops::code_of(self.runs).filter(|_| loops::HOST == Some(self.set));
        let code = code.ok_or_else(|| absent(format!("this machine is not {}", self.set.name())))?;
        let mut arguments = memory
            .arguments(self.setting, self.set, &self.geometry)
            .map_err(|error| absent(format!("its memory cannot be had: {error}")))?;
        // SAFETY: the arguments were made of memory that is borrowed mutably until here, for the setting of
        // the row that names this loop.
        unsafe { code(u64::from(iterations.get()), &mut arguments) };
        memory.keep(self.setting, &arguments);
        Ok(())
    }

    fn of_row(row: &RecipeRow, set: InstructionSet, geometry: Geometry) -> KernelRecipe {
        let body = bodies::of(row.runs, set);
        let absence = body.err().or_else(|| absence_of(row, set));
        let (per_iteration, estimates) = match absence {
            Some(_) => Default::default(),
            None => numbers(row, body.unwrap_or_default(), set, &geometry),
        };
        KernelRecipe {
            name: row.name,
            family: row.family,
            effect: row.effect,
            knob: row.setting.knob(geometry.line_bytes),
            control: row.control,
            held_out: row.family == KernelFamily::Mixtures,
            set,
            geometry,
            runs: row.runs,
            setting: row.setting,
            per_iteration,
            estimates,
            validation: Vec::new(),
            absence,
        }
    }

    /// Why it cannot run here, of reasons that the instruction set does not tell.
    fn absence_here(&self) -> Option<&'static str> {
        let fused = self.number_of(Concept::FusedMultiplyAdds) > 0.0;
        let calls = matches!(self.setting, RecipeSetting::Ring { .. } | RecipeSetting::Pages { .. })
            || self.number_of(Concept::SystemCalls) > 0.0;
        match () {
            () if fused && !loops::has_fused_multiply_add() => Some("the CPU has no fused multiply-add"),
            () if calls && !system::HERE => Some("this system's calls have no stable numbers"),
            () => None,
        }
    }
}

/// Why an instruction set cannot run a row, besides its loop.
fn absence_of(row: &RecipeRow, set: InstructionSet) -> Option<&'static str> {
    let reaches = match row.setting {
        RecipeSetting::Ring { links, spacing } => ring::reaches(set, ring::bytes_of(links, spacing)),
        _ => true,
    };
    match () {
        () if row.setting.bytes() > geometry::MOST_BYTES => Some("it would need more than 1 GiB of memory"),
        () if !reaches => Some("jumps do not reach that far"),
        () if set == InstructionSet::Riscv64 && row.setting.is_misaligned() => {
            Some("firmware may emulate misaligned accesses")
        }
        () => None,
    }
}

/// The concepts of an iteration, and which of them are estimates.
fn numbers(
    row: &RecipeRow,
    body: LoopBody,
    set: InstructionSet,
    geometry: &Geometry,
) -> (Vec<(Concept, f64)>, Vec<Concept>) {
    let effects = Effects::of(row, set, geometry);
    let mut sums: BTreeMap<Concept, f64> = BTreeMap::new();
    let mut estimates: BTreeSet<Concept> = effects.estimates.into_iter().collect();
    let mut add = |concept: Concept, number: f64| *sums.entry(concept).or_default() += number;
    effects.expected.into_iter().for_each(|(concept, number)| add(concept, number));
    let links = match row.setting {
        RecipeSetting::Ring { links, .. } => u32::try_from(links).unwrap_or(u32::MAX),
        _ => 0,
    };
    let jumps = [(links, instruction::InstructionKind::Jump)];
    for &(number, kind) in
        body.iter().chain(bodies::ROUND_END).chain(&jumps).filter(|(number, _)| *number > 0)
    {
        let number = f64::from(number);
        add(Concept::Instructions, number);
        add(Concept::Uops, number * kind.uops(set));
        add(Concept::UopsIssued, number * kind.uops(set));
        kind.concepts(set).iter().for_each(|concept| add(*concept, number));
        estimates.extend(kind.uncertain(set));
    }
    let happens = |(_, number): &(Concept, f64)| *number > 0.0;
    (sums.into_iter().filter(happens).collect(), estimates.into_iter().collect())
}

/// Gives each recipe the concepts that its own effect moves, or the effects that it is the control of.
fn validate(recipes: &mut [KernelRecipe]) {
    let micro = |recipe: &KernelRecipe| {
        let moved = recipe.per_iteration.iter().map(|(concept, _)| *concept);
        let moved = moved.filter(|concept| concept.nature() == Nature::MicroArchitectural);
        let plain = [Concept::Uops, Concept::UopsIssued];
        moved.filter(|concept| !plain.contains(concept)).collect::<Vec<_>>()
    };
    let mut all: BTreeMap<&str, BTreeSet<Concept>> = BTreeMap::new();
    for recipe in recipes.iter() {
        for name in [Some(recipe.name), recipe.control].into_iter().flatten() {
            all.entry(name).or_default().extend(micro(recipe));
        }
    }
    for recipe in recipes {
        let found = all.remove(recipe.name).unwrap_or_default();
        recipe.validation = [Concept::Instructions].into_iter().chain(found).collect();
    }
}

/// A recipe that cannot run here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecipeAbsent {
    /// The recipe's name.
    pub recipe: &'static str,
    /// Why not.
    pub reason: String,
}

impl fmt::Display for RecipeAbsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the recipe '{}' cannot run: {}", self.recipe, self.reason)
    }
}

impl std::error::Error for RecipeAbsent {}

//! Recipes as kernels of a sweep, and as the table that inference reads.

use cyclometer_core::concept::{Concept, Nature};
use cyclometer_inference::{KernelRole, KernelTable, KernelTableError, TableKernel};
use cyclometer_kernels::{Geometry, InstructionSet, KernelRecipe};

/// A kernel of a sweep.
#[derive(Clone, PartialEq, Debug)]
pub struct SweepKernel {
    /// Its recipe.
    pub recipe: KernelRecipe,
    /// The cycles that an iteration takes and how they pass, as far as they were measured: concepts of the
    /// nature [`Nature::Duration`].
    pub durations: Vec<(Concept, f64)>,
}

/// The recipes that an instruction set can run, without their durations.
pub fn kernels_for(set: InstructionSet, geometry: &Geometry) -> Vec<SweepKernel> {
    let recipes = KernelRecipe::of_instruction_set(set, geometry).into_iter();
    let here = recipes.filter(|recipe| recipe.absence().is_none());
    here.map(|recipe| SweepKernel { recipe, durations: Vec::new() }).collect()
}

/// The table of the kernels, in their order.
///
/// # Errors
///
/// Those of [`KernelTable::new`], for kernels that are listed twice.
pub fn kernel_table(kernels: &[SweepKernel]) -> Result<KernelTable, KernelTableError> {
    KernelTable::new(kernels.iter().map(row).collect())
}

fn row(kernel: &SweepKernel) -> TableKernel {
    let recipe = &kernel.recipe;
    let foretold = recipe.per_iteration().iter().copied();
    let foretold = foretold.filter(|(concept, _)| concept.nature() != Nature::Duration);
    TableKernel {
        name: recipe.name.to_owned(),
        family: recipe.family.name().to_owned(),
        role: if recipe.held_out { KernelRole::HeldOut } else { KernelRole::Fitting },
        per_iteration: foretold.chain(kernel.durations.iter().copied()).collect(),
        estimates: recipe.estimates().to_vec(),
    }
}

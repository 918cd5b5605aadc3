//! The screen for codes that disturb other counters.
//!
//! While a code is counted, a counter that is not under test counts instructions. Their number in an
//! iteration is known. Kernels in which this counter is wrong without any code are no witnesses.

use cyclometer_core::Error;
use cyclometer_core::concept::Concept;
use cyclometer_inference::KernelIndex;

use crate::recipes::SweepKernel;
use crate::swept::Exclusion;
use crate::target::{SweepSettings, SweepTarget};

/// The share by which the instructions of an iteration may differ from their number.
const TOLERANCE: f64 = 0.02;

/// A code that changes the instructions of fewer kernels does not disturb: an interrupt may have come.
const FEWEST: usize = 3;

/// The kernels by which disturbances are seen, with the instructions of an iteration.
#[derive(Debug)]
pub(crate) struct InstructionWitness {
    instructions: Vec<Option<f64>>,
}

/// The instructions of a kernel in its smallest and its largest size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WitnessCounts {
    pub(crate) kernel: usize,
    pub(crate) small: u64,
    pub(crate) large: u64,
}

impl InstructionWitness {
    /// The kernels in which the other counter is right while no code is counted.
    ///
    /// # Errors
    ///
    /// Those of the target.
    pub(crate) fn of(
        target: &mut dyn SweepTarget,
        kernels: &[SweepKernel],
        settings: &SweepSettings,
    ) -> Result<InstructionWitness, Error> {
        if !target.clear()? {
            return Ok(InstructionWitness { instructions: Vec::new() });
        }
        let sizes = settings.sizes();
        let mut instructions = Vec::new();
        for (index, kernel) in kernels.iter().enumerate() {
            let small = target.count(KernelIndex(index), sizes[0])?.instructions;
            let large = target.count(KernelIndex(index), sizes[3])?.instructions;
            let known = kernel.recipe.number_of(Concept::Instructions);
            let right = small.zip(large).is_some_and(|(small, large)| {
                agrees(slope(WitnessCounts { kernel: index, small, large }, settings), known)
            });
            instructions.push(right.then_some(known));
        }
        Ok(InstructionWitness { instructions })
    }

    /// Whether the counts while a code was programmed show that it disturbs.
    pub(crate) fn judge(
        &self,
        counts: &[WitnessCounts],
        kernels: &[SweepKernel],
        settings: &SweepSettings,
    ) -> Option<Exclusion> {
        let wrong = counts.iter().filter_map(|one| {
            let known = (*self.instructions.get(one.kernel)?)?;
            let found = slope(*one, settings);
            (!agrees(found, known)).then_some((one.kernel, known, found))
        });
        let wrong: Vec<(usize, f64, f64)> = wrong.collect();
        if wrong.len() < FEWEST {
            return None;
        }
        let distance = |(_, known, found): &(usize, f64, f64)| (found - known).abs() / known;
        let (kernel, expected, found) =
            wrong.into_iter().max_by(|one, other| distance(one).total_cmp(&distance(other)))?;
        let kernel = kernels[kernel].recipe.name.to_owned();
        Some(Exclusion::Disturbs { kernel, expected, found })
    }
}

fn slope(counts: WitnessCounts, settings: &SweepSettings) -> f64 {
    let sizes = settings.sizes();
    (counts.large as f64 - counts.small as f64) / (sizes[3] - sizes[0]) as f64
}

fn agrees(found: f64, known: f64) -> bool {
    (found - known).abs() <= TOLERANCE * known
}

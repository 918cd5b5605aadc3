//! The signature of an event: its slopes over all kernels, and how stable its counts are.

use cyclometer_core::CounterId;

use crate::observation::{BySize, Observation};
use crate::slope::{KernelSlope, SlopeEstimator, SlopeShape, median};
use crate::table::{KernelIndex, KernelTable};

/// The share of the typical noise of an event that is assumed where repeats happen to agree.
const TYPICAL_NOISE_SHARE: f64 = 0.7;

/// The slopes of an event on one counter.
#[derive(Clone, PartialEq, Debug)]
pub struct EventSignature {
    /// The counter; `None` where its number is not known.
    pub counter: Option<CounterId>,
    /// The slope of each kernel of the table; `None` for kernels that did not run at two sizes.
    pub slopes: Vec<Option<KernelSlope>>,
    /// How equal repeats are.
    pub stability: Stability,
    /// The median, over kernels that move the event, of half-width ÷ slope; 0 if none does.
    pub relative_noise: f64,
    /// The share of sizes in which the middle half of the repeats differs by more than a fifth, of those
    /// with counts; a median of such repeats says little.
    pub unsteady_share: f64,
    /// Sizes with more events than a few interrupts make.
    pub(crate) counting: u64,
}

/// How equal the counts of repeats are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stability {
    /// No size of a kernel was repeated, so nothing is known.
    NotRepeated,
    /// Repeats are equal, all of them.
    Deterministic,
    /// Repeats are equal but for events that interrupts add.
    CountsInterrupts,
    /// Repeats differ.
    Noisy,
}

/// How counts grow with iterations, over all kernels.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Linearity {
    /// No kernel that moves the event ran at three sizes.
    Untested,
    /// The count is proportional to the iterations in every kernel that moves the event.
    Linear,
    /// The count approaches a limit in some kernel.
    Saturating,
    /// The count is not proportional in some kernel.
    NonLinear,
}

impl EventSignature {
    pub(crate) fn new(
        table: &KernelTable,
        counter: Option<CounterId>,
        by_size: &BySize<'_>,
        estimator: &mut SlopeEstimator,
    ) -> EventSignature {
        let repeats = RepeatSpread::of(by_size);
        let less_interrupts = repeats.interrupts_explain();
        let mut slopes: Vec<Option<KernelSlope>> = (0..table.kernels().len())
            .map(|kernel| estimator.slope(by_size.of_kernel(KernelIndex(kernel)), less_interrupts))
            .collect();
        let relative_noise = relative_noise(&slopes);
        // Some kernels have repeats that agree by chance.
        for slope in slopes.iter_mut().flatten().filter(|slope| slope.responds()) {
            slope.half_width = slope.half_width.max(TYPICAL_NOISE_SHARE * relative_noise * slope.value);
        }
        let unsteady_share = repeats.unsteady as f64 / repeats.counting.max(1) as f64;
        EventSignature {
            counter,
            slopes,
            stability: repeats.stability(),
            relative_noise,
            unsteady_share,
            counting: by_size
                .iter()
                .filter(|size| size.counts.iter().any(|&n| n > LEAST_STEADY_COUNT))
                .count() as u64,
        }
    }

    /// The kernels that move the event.
    pub fn responding(&self) -> impl Iterator<Item = &KernelSlope> + '_ {
        self.slopes.iter().flatten().filter(|slope| slope.responds())
    }

    /// How counts grow with iterations.
    pub fn linearity(&self) -> Linearity {
        let has = |shape| self.slopes.iter().flatten().any(|slope| slope.shape == shape);
        if has(SlopeShape::Saturating) {
            Linearity::Saturating
        } else if has(SlopeShape::NonLinear) {
            Linearity::NonLinear
        } else if self.responding().any(|slope| slope.shape == SlopeShape::Untested) {
            Linearity::Untested
        } else {
            Linearity::Linear
        }
    }

    /// The slope of a kernel, if it was measured.
    pub fn slope(&self, kernel: KernelIndex) -> Option<&KernelSlope> {
        self.slopes.get(kernel.0)?.as_ref()
    }
}

fn relative_noise(slopes: &[Option<KernelSlope>]) -> f64 {
    let moved = slopes.iter().flatten().filter(|slope| slope.responds());
    let mut shares: Vec<f64> = moved.map(|slope| slope.half_width / slope.value.abs()).collect();
    median(&mut shares)
}

/// The share of a count by which the middle half of its repeats may differ.
const STEADY_SHARE: f64 = 0.2;

/// Counts below this are not looked at for steadiness, as interrupts may make them.
const LEAST_STEADY_COUNT: u64 = 32;

/// How repeats of one size differ, over all sizes and kernels.
#[derive(Default)]
struct RepeatSpread {
    /// Sizes that were repeated.
    groups: u64,
    /// Sizes whose repeats differ.
    differing: u64,
    /// Readings of those.
    readings: u64,
    /// Readings of those that equal the smallest of their size.
    at_minimum: u64,
    /// Sizes with more than a few events.
    counting: u64,
    /// Sizes of those whose middle half of repeats differs by much.
    unsteady: u64,
    /// The sum of largest less smallest reading.
    spread: u64,
    /// The same after one event for each interrupt was subtracted; `None` without interrupts.
    spread_less_interrupts: Option<u64>,
}

impl RepeatSpread {
    fn of(by_size: &BySize<'_>) -> RepeatSpread {
        let mut repeats = RepeatSpread::default();
        let mut less_interrupts = 0;
        let mut with_interrupts = true;
        for observation in by_size.iter().filter(|observation| observation.counts.len() > 1) {
            let least = observation.counts.iter().copied().min().unwrap_or(0);
            let most = observation.counts.iter().copied().max().unwrap_or(0);
            repeats.groups += 1;
            repeats.counting += u64::from(most > LEAST_STEADY_COUNT);
            repeats.unsteady +=
                u64::from(most > LEAST_STEADY_COUNT && most > least && is_unsteady(observation));
            repeats.spread = repeats.spread.saturating_add(most - least);
            less_interrupts += spread_less_interrupts(observation);
            with_interrupts &= !observation.interrupts.is_empty();
            if most > least {
                let at_minimum = observation.counts.iter().filter(|&&count| count == least).count();
                repeats.differing += 1;
                repeats.readings += observation.counts.len() as u64;
                repeats.at_minimum += at_minimum as u64;
            }
        }
        repeats.spread_less_interrupts = (with_interrupts && repeats.groups > 0)
            .then_some(u64::try_from(less_interrupts).unwrap_or(u64::MAX));
        repeats
    }

    /// Whether one event for each interrupt explains half of the differences.
    fn interrupts_explain(&self) -> bool {
        self.spread_less_interrupts.is_some_and(|spread| spread < self.spread.div_ceil(2))
    }

    fn stability(&self) -> Stability {
        let repeats = self.readings as f64 / self.differing.max(1) as f64;
        // By chance one reading of each size is the smallest. More of them are where something only adds.
        let one_sided = self.at_minimum as f64 >= self.readings as f64 * (1.8 / repeats).clamp(0.3, 0.9);
        match self {
            RepeatSpread { groups: 0, .. } => Stability::NotRepeated,
            RepeatSpread { spread: 0, .. } => Stability::Deterministic,
            _ if self.interrupts_explain() || one_sided => Stability::CountsInterrupts,
            _ => Stability::Noisy,
        }
    }
}

fn is_unsteady(observation: &Observation) -> bool {
    let mut counts = observation.counts.clone();
    counts.sort_unstable();
    let quarter = (counts.len() - 1) / 4;
    let (low, high) = (counts[quarter], counts[counts.len() - 1 - quarter]);
    (high - low) as f64 > STEADY_SHARE * high as f64
}

fn spread_less_interrupts(observation: &Observation) -> u128 {
    let pairs = observation.counts.iter().zip(&observation.interrupts);
    let less = pairs.map(|(&count, &interrupts)| i128::from(count) - i128::from(interrupts));
    let (least, most) =
        less.fold((i128::MAX, i128::MIN), |(least, most), one| (least.min(one), most.max(one)));
    if least > most { 0 } else { least.abs_diff(most) }
}

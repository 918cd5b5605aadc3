//! The slope of a kernel: events per iteration, from counts at several sizes.
//!
//! The difference of the counts at n and 2n iterations contains no set-up. A kernel with four sizes and r
//! repeats has 3r such differences. Their median, each weighted by its iterations, is the slope.
//!
//! ```text
//!   count │                        x   8n
//!         │                     ╱
//!         │            x  4n ╱        slope = median of (c(2n) − c(n)) / n, …
//!         │      x 2n ╱               steps that disagree: saturating or non-linear
//!         │   x n
//!         └────────────────────────────
//!           set-up: the same at every size
//! ```

use crate::observation::Observation;
use crate::table::KernelIndex;

/// Standard deviations of a normal distribution for one median absolute deviation.
const SIGMA_PER_MAD: f64 = 1.4826;

/// Half-widths of intervals, in standard deviations.
const SIGMAS: f64 = 3.0;

/// Events that the ends of a difference may be off, by an interrupt or by rounding.
const QUANTUM_EVENTS: f64 = 3.0;

/// Events that come at once: a misprediction issues so many operations of wrong paths. A count that ends
/// before the last of them is smaller by as many.
const LUMP_EVENTS: f64 = 32.0;

/// Deviation of a step from the slope that is no sign of non-linearity: a share of the slope.
const STEP_SHARE: f64 = 0.03;

/// A step's slope below this share of the first one's is a sign of saturation.
const SATURATED_SHARE: f64 = 0.8;

/// Events of a kernel without slope that setting it up explains.
const LARGEST_SET_UP_EVENTS: f64 = 64.0;

/// Slopes below this many events per iteration are no response.
const LEAST_RESPONSE: f64 = 1e-3;

/// Events per iteration of one kernel, measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct KernelSlope {
    /// The kernel.
    pub kernel: KernelIndex,
    /// Events per iteration: the weighted median of the differences between sizes. Negative values are
    /// noise.
    pub value: f64,
    /// Half the width of its interval, in events per iteration: three standard deviations, by the median
    /// absolute deviation of the differences, and at least the resolution of the largest difference.
    pub half_width: f64,
    /// The smallest difference, in events per iteration. Interrupts only add, so it bounds the slope where
    /// they are the only noise.
    pub minimum: f64,
    /// Whether the count grows in proportion to the iterations.
    pub shape: SlopeShape,
    /// The iterations by which all differences of sizes can be divided.
    pub(crate) granule_iterations: u64,
    /// The largest error of a difference, in events: its median against the slope.
    pub(crate) step_error_events: f64,
    /// Whether the smallest size has fewer events than the slope foretells, and so few fewer that events
    /// which come at once explain it, too.
    pub(crate) may_start_late: bool,
}

impl KernelSlope {
    /// Whether the kernel moves the event: the slope is beyond its interval.
    pub fn responds(&self) -> bool {
        self.value > self.half_width.max(LEAST_RESPONSE)
    }
}

/// How the count of a kernel grows with its iterations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SlopeShape {
    /// There is one difference only, so that nothing can disagree.
    Untested,
    /// All steps agree within their noise and 3 %.
    Linear,
    /// Later steps grow less: the count approaches a limit.
    Saturating,
    /// The steps disagree otherwise, or the count begins later than the first iteration.
    NonLinear,
}

/// Computes slopes; owns the memory for it.
#[derive(Default)]
pub(crate) struct SlopeEstimator {
    differences: Vec<Weighted>,
    deviations: Vec<Weighted>,
    plain: Vec<f64>,
    steps: Vec<SizeStep>,
}

#[derive(Clone, Copy)]
struct Weighted {
    value: f64,
    weight: f64,
}

/// The differences between two neighbouring sizes.
struct SizeStep {
    iterations: f64,
    median: f64,
    noise: f64,
}

impl SlopeEstimator {
    /// The slope of a kernel from its sizes in ascending order; `None` if it has fewer than two.
    /// `less_interrupts` subtracts one event for each interrupt.
    pub(crate) fn slope(&mut self, sizes: &[&Observation], less_interrupts: bool) -> Option<KernelSlope> {
        let first = sizes.first()?;
        let widest = sizes.windows(2).map(|pair| pair[1].iterations - pair[0].iterations).max()? as f64;
        if sizes.iter().all(|size| size.counts.iter().all(|&count| count == 0)) {
            return Some(silent(sizes, widest));
        }
        self.differences.clear();
        let mut steps = std::mem::take(&mut self.steps);
        steps.clear();
        steps.extend(sizes.windows(2).map(|pair| self.step(pair[0], pair[1], less_interrupts)));
        let value = weighted_median(&mut self.differences);
        self.deviations.clear();
        self.deviations.extend(
            self.differences
                .iter()
                .map(|one| Weighted { value: (one.value - value).abs(), weight: one.weight }),
        );
        let repeats = (self.differences.len() / steps.len()) as f64;
        let noise = SIGMAS * SIGMA_PER_MAD * weighted_median(&mut self.deviations) / repeats.sqrt();
        let minimum = self.differences.iter().map(|one| one.value).fold(f64::INFINITY, f64::min);
        let half_width = noise.max(QUANTUM_EVENTS / widest);
        let mut slope = KernelSlope {
            kernel: first.kernel,
            value,
            half_width,
            minimum,
            shape: SlopeShape::Untested,
            granule_iterations: granule(sizes),
            step_error_events: steps
                .iter()
                .map(|step| (step.median - value).abs() * step.iterations)
                .fold(0.0, f64::max),
            may_start_late: false,
        };
        if slope.responds() {
            let set_up = self.set_up(first, value, less_interrupts);
            let start = StartShape::of(&slope, &steps, set_up, first.iterations);
            slope.may_start_late = start == StartShape::MayBeLate;
            slope.shape = shape(&slope, &steps, start);
        } else if steps.len() > 1 {
            slope.shape = plateau(&steps, self.set_up(first, 0.0, less_interrupts) * first.iterations as f64);
        }
        self.steps = steps;
        Some(slope)
    }

    fn step(&mut self, smaller: &Observation, larger: &Observation, less_interrupts: bool) -> SizeStep {
        let iterations = (larger.iterations - smaller.iterations) as f64;
        self.plain.clear();
        for (index, _) in smaller.counts.iter().zip(&larger.counts).enumerate() {
            let events = adjusted(larger, index, less_interrupts) - adjusted(smaller, index, less_interrupts);
            let value = events / iterations;
            self.plain.push(value);
            self.differences.push(Weighted { value, weight: iterations });
        }
        let median = median(&mut self.plain);
        for value in &mut self.plain {
            *value = (*value - median).abs();
        }
        let repeats = self.plain.len() as f64;
        let noise = SIGMAS * SIGMA_PER_MAD * self::median(&mut self.plain) / repeats.sqrt();
        SizeStep { iterations, median, noise }
    }

    /// The events of the smallest size that its iterations do not explain.
    fn set_up(&mut self, smallest: &Observation, slope: f64, less_interrupts: bool) -> f64 {
        self.plain.clear();
        for index in 0..smallest.counts.len() {
            self.plain.push(adjusted(smallest, index, less_interrupts));
        }
        (median(&mut self.plain) - slope * smallest.iterations as f64) / smallest.iterations as f64
    }
}

/// The slope of a kernel that never counted.
fn silent(sizes: &[&Observation], widest: f64) -> KernelSlope {
    KernelSlope {
        kernel: sizes[0].kernel,
        value: 0.0,
        half_width: QUANTUM_EVENTS / widest,
        minimum: 0.0,
        shape: if sizes.len() < 3 { SlopeShape::Untested } else { SlopeShape::Linear },
        granule_iterations: granule(sizes),
        step_error_events: 0.0,
        may_start_late: false,
    }
}

fn granule(sizes: &[&Observation]) -> u64 {
    sizes.windows(2).fold(0, |granule, pair| gcd(granule, pair[1].iterations - pair[0].iterations))
}

/// The greatest common divisor; that of 0 and a number is the number.
pub(crate) fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// A count, less one for each interrupt if wanted. Counts are below 2⁵³, so that `f64` has them exactly.
fn adjusted(observation: &Observation, index: usize, less_interrupts: bool) -> f64 {
    let interrupts = observation.interrupts.get(index).filter(|_| less_interrupts);
    observation.counts[index] as f64 - interrupts.map_or(0.0, |&interrupts| interrupts as f64)
}

/// The begin of a count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StartShape {
    /// It counts from the first iteration on; a set-up may add some.
    Full,
    /// A few events of the first iterations are missing.
    MayBeLate,
    /// More are missing than come at once.
    Late,
}

impl StartShape {
    /// By the events that the smallest size has beside those of its iterations, for each of these.
    fn of(slope: &KernelSlope, steps: &[SizeStep], set_up: f64, iterations: u64) -> StartShape {
        let Some(step) = steps.first() else { return StartShape::Full };
        // A set-up only adds.
        let missing = -set_up - (2.0 * slope.half_width + step.noise + QUANTUM_EVENTS / step.iterations);
        match missing * iterations as f64 {
            missing if missing <= 0.0 => StartShape::Full,
            missing if missing <= LUMP_EVENTS => StartShape::MayBeLate,
            _ => StartShape::Late,
        }
    }
}

fn shape(slope: &KernelSlope, steps: &[SizeStep], start: StartShape) -> SlopeShape {
    let allowed = |step: &SizeStep| {
        STEP_SHARE * slope.value + slope.half_width + step.noise + 2.0 * QUANTUM_EVENTS / step.iterations
    };
    let agrees = |step: &SizeStep| (step.median - slope.value).abs() <= allowed(step);
    match (steps.iter().all(agrees), start == StartShape::Late) {
        (true, false) if steps.len() < 2 => SlopeShape::Untested,
        (true, false) => SlopeShape::Linear,
        _ if is_saturating(steps) => SlopeShape::Saturating,
        _ => SlopeShape::NonLinear,
    }
}

/// The shape of a count whose median step is nothing. A first step that counts shows a limit, and so does a
/// count that is there from the start.
fn plateau(steps: &[SizeStep], set_up_events: f64) -> SlopeShape {
    let counts =
        |step: &SizeStep| step.median > (2.0 * QUANTUM_EVENTS / step.iterations + step.noise).max(0.05);
    match steps.iter().any(counts) {
        true if is_saturating(steps) => SlopeShape::Saturating,
        true => SlopeShape::NonLinear,
        false if set_up_events > LARGEST_SET_UP_EVENTS => SlopeShape::Saturating,
        false => SlopeShape::Linear,
    }
}

fn is_saturating(steps: &[SizeStep]) -> bool {
    let falls = steps.windows(2).all(|pair| pair[1].median <= pair[0].median + pair[1].noise + pair[0].noise);
    let (Some(first), Some(last)) = (steps.first(), steps.last()) else { return false };
    falls && last.median < SATURATED_SHARE * first.median
}

/// The value below which half of the weight lies.
fn weighted_median(values: &mut [Weighted]) -> f64 {
    values.sort_unstable_by(|a, b| a.value.total_cmp(&b.value));
    let half = values.iter().map(|one| one.weight).sum::<f64>() / 2.0;
    let mut below = 0.0;
    for (index, one) in values.iter().enumerate() {
        below += one.weight;
        if below == half {
            return values.get(index + 1).map_or(one.value, |next| f64::midpoint(one.value, next.value));
        }
        if below > half {
            return one.value;
        }
    }
    0.0
}

/// The median; 0 of nothing.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slope_of(counts: &[(u64, &[u64])]) -> KernelSlope {
        let sizes: Vec<Observation> = counts
            .iter()
            .map(|&(iterations, counts)| Observation {
                kernel: KernelIndex(0),
                iterations,
                counts: counts.to_vec(),
                interrupts: vec![],
            })
            .collect();
        let sizes: Vec<&Observation> = sizes.iter().collect();
        SlopeEstimator::default().slope(&sizes, false).unwrap()
    }

    #[test]
    fn set_up_and_a_rare_interrupt_leave_the_slope_exact() {
        let slope = slope_of(&[
            (1000, &[2070, 2070, 2071]),
            (2000, &[4070, 4070, 4070]),
            (4000, &[8070, 8072, 8070]),
            (8000, &[16_070, 16_071, 16_070]),
        ]);
        assert_eq!((slope.value, slope.shape), (2.0, SlopeShape::Linear));
        assert_eq!(slope.half_width, 3.0 / 4000.0);
        assert!(slope.responds());
    }

    #[test]
    fn shapes_are_told_apart() {
        let shape =
            |c: [u64; 4]| slope_of(&[(100, &[c[0]]), (200, &[c[1]]), (400, &[c[2]]), (800, &[c[3]])]).shape;
        assert_eq!(shape([100, 200, 400, 800]), SlopeShape::Linear);
        assert_eq!(shape([100, 200, 300, 300]), SlopeShape::Saturating);
        assert_eq!(shape([100, 200, 200, 200]), SlopeShape::Saturating);
        assert_eq!(shape([1, 4, 16, 64]), SlopeShape::NonLinear);
        assert_eq!(shape([0, 100, 300, 700]), SlopeShape::NonLinear, "a threshold of 100 events");
        assert_eq!(shape([7, 7, 7, 7]), SlopeShape::Linear);
        assert_eq!(shape([99, 99, 99, 99]), SlopeShape::Saturating);
        assert_eq!(slope_of(&[(1, &[5]), (2, &[9])]).shape, SlopeShape::Untested);
    }

    #[test]
    fn events_that_come_at_once_are_no_other_shape_and_many_missing_ones_are() {
        // Six events for each misprediction: a count that ends before the last of them lacks some.
        let counts = |missing: u64| {
            let count = |iterations: u64| iterations * 9 - missing;
            slope_of(&[
                (16_300, &[count(16_300)]),
                (32_600, &[count(32_600)]),
                (65_200, &[count(65_200)]),
                (130_400, &[count(130_400)]),
            ])
        };
        let start = |missing| (counts(missing).shape, counts(missing).may_start_late);
        assert_eq!(start(0), (SlopeShape::Linear, false));
        assert_eq!(start(6), (SlopeShape::Linear, true));
        assert_eq!(start(60), (SlopeShape::NonLinear, false));
    }

    #[test]
    fn one_size_has_no_slope() {
        let one = Observation { kernel: KernelIndex(0), iterations: 1, counts: vec![1], interrupts: vec![] };
        assert_eq!(SlopeEstimator::default().slope(&[&one], false), None);
    }

    #[test]
    fn interrupts_that_were_counted_are_subtracted() {
        let size = |iterations: u64, interrupts: u64| Observation {
            kernel: KernelIndex(0),
            iterations,
            counts: vec![iterations + interrupts],
            interrupts: vec![interrupts],
        };
        let sizes = [size(10, 4), size(20, 9), size(40, 30)];
        let sizes: Vec<&Observation> = sizes.iter().collect();
        assert_eq!(SlopeEstimator::default().slope(&sizes, true).unwrap().value, 1.0);
    }

    #[test]
    fn a_median_of_weights_is_between_the_halves() {
        let mut values =
            [(3.0, 1.0), (1.0, 1.0), (2.0, 2.0)].map(|(value, weight)| Weighted { value, weight });
        assert_eq!(weighted_median(&mut values), 2.0);
        let mut values = [(1.0, 1.0), (3.0, 1.0)].map(|(value, weight)| Weighted { value, weight });
        assert_eq!(weighted_median(&mut values), 2.0);
    }
}

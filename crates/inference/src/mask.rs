//! The constraint mask of an event, by its slopes on each counter.
//!
//! A counter belongs to the mask if its slopes agree with those of the counter that most others agree with.
//! It is dead for the event if it counts less than a hundredth of them. Everything in between is reported as
//! it is.

use cyclometer_core::{CounterId, CounterMask};

use crate::signature::EventSignature;
use crate::slope::{KernelSlope, median};

/// A counter that counts less than this share of the best one's slopes is dead for the event.
const DEAD_SHARE: f64 = 0.01;

/// The share by which slopes of runs at different times may differ.
const AGREEING_SHARE: f64 = 0.05;

/// The counters on which an event counts.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MaskFinding {
    /// Whether the counters are known. If not, all sets below are empty.
    pub observable: bool,
    /// Counters on which the event counts the same.
    pub belongs: CounterMask,
    /// Counters on which it counts less than 1 % of that.
    pub dead: CounterMask,
    /// Counters on which it counts something else, each with the median ratio to the others: neither
    /// belonging nor dead.
    pub differs: Vec<(CounterId, f64)>,
}

impl MaskFinding {
    /// Whether each counter either belongs or is dead, or the counters cannot be observed at all.
    pub fn is_clear(&self) -> bool {
        self.differs.is_empty()
    }
}

/// The mask, and the number of the signature that stands for the event.
pub(crate) fn mask(signatures: &[EventSignature]) -> (MaskFinding, usize) {
    let best = representative(signatures);
    let mut finding = MaskFinding {
        observable: signatures.iter().all(|signature| signature.counter.is_some()),
        ..MaskFinding::default()
    };
    let responds = signatures[best].responding().next().is_some();
    let (mut belongs, mut dead) = (Vec::new(), Vec::new());
    for signature in signatures {
        let Some(counter) = signature.counter else { continue };
        if !responds && signature.counting > 0 {
            belongs.push(counter);
        } else if !responds || is_dead(signature, &signatures[best]) {
            dead.push(counter);
        } else if agrees(signature, &signatures[best]) {
            belongs.push(counter);
        } else {
            finding.differs.push((counter, ratio(signature, &signatures[best])));
        }
    }
    finding.belongs = belongs.into_iter().collect();
    finding.dead = dead.into_iter().collect();
    (finding, best)
}

/// The signature with which most others agree, and of those the one that responds most, or counts at all.
fn representative(signatures: &[EventSignature]) -> usize {
    let total = |signature: &EventSignature| -> f64 { signature.responding().map(|slope| slope.value).sum() };
    let key = |index: &usize| {
        let own = &signatures[*index];
        let live = own.responding().next().is_some();
        let agreeing = signatures.iter().filter(|other| live && agrees(other, own)).count();
        (agreeing, total(own), own.counting)
    };
    let by_key = |a: &usize, b: &usize| {
        let (a, b) = (key(a), key(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2))
    };
    (0..signatures.len()).max_by(by_key).unwrap_or(0)
}

/// The slopes of two signatures, where both were measured.
fn pairs<'a>(
    one: &'a EventSignature,
    other: &'a EventSignature,
) -> impl Iterator<Item = (&'a KernelSlope, &'a KernelSlope)> {
    one.slopes.iter().zip(&other.slopes).filter_map(|(one, other)| one.as_ref().zip(other.as_ref()))
}

fn agrees(one: &EventSignature, other: &EventSignature) -> bool {
    pairs(one, other).all(|(one, other)| {
        let allowed =
            one.half_width + other.half_width + AGREEING_SHARE * one.value.abs().max(other.value.abs());
        (one.value - other.value).abs() <= allowed
    })
}

fn is_dead(signature: &EventSignature, best: &EventSignature) -> bool {
    pairs(signature, best).all(|(one, best)| one.value <= DEAD_SHARE * best.value.max(0.0) + one.half_width)
}

fn ratio(signature: &EventSignature, best: &EventSignature) -> f64 {
    let responding = pairs(signature, best).filter(|(_, best)| best.responds());
    let mut ratios: Vec<f64> = responding.map(|(one, best)| one.value / best.value).collect();
    median(&mut ratios)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::Stability;
    use crate::slope::SlopeShape;
    use crate::table::KernelIndex;

    fn check(slopes: &[&[f64]], belongs: &str, dead: &str, differs: &[(u8, f64)]) {
        let signatures: Vec<EventSignature> = slopes
            .iter()
            .enumerate()
            .map(|(counter, slopes)| EventSignature {
                counter: Some(CounterId::General(counter as u8)),
                slopes: slopes
                    .iter()
                    .enumerate()
                    .map(|(kernel, &value)| {
                        Some(KernelSlope {
                            kernel: KernelIndex(kernel),
                            value,
                            half_width: 0.001,
                            minimum: value,
                            shape: SlopeShape::Linear,
                            granule_iterations: 1000,
                            step_error_events: 0.0,
                            may_start_late: false,
                        })
                    })
                    .collect(),
                stability: Stability::Deterministic,
                relative_noise: 0.0,
                unsteady_share: 0.0,
                counting: 0,
            })
            .collect();
        let (finding, _) = mask(&signatures);
        assert_eq!((finding.belongs.to_string(), finding.dead.to_string()), (belongs.into(), dead.into()));
        let expected: Vec<(CounterId, f64)> =
            differs.iter().map(|&(counter, ratio)| (CounterId::General(counter), ratio)).collect();
        assert_eq!(finding.differs, expected);
    }

    #[test]
    fn counters_belong_are_dead_or_differ() {
        let all: &[f64] = &[1.0, 2.0, 0.0];
        let none: &[f64] = &[0.0, 0.0, 0.0];
        check(&[all, none, all], "0, 2", "1", &[]);
        check(&[all], "0", "none", &[]);
        check(&[none, none], "none", "0-1", &[]);
        check(&[all, all, &[0.5, 1.0, 0.0]], "0-1", "none", &[(2, 0.5)]);
        check(&[all, all, &[2.0, 4.0, 0.0]], "0-1", "none", &[(2, 2.0)]);
        check(&[all, &[0.009, 0.018, 0.0]], "0", "1", &[]);
        check(&[all, &[0.02, 0.04, 0.0]], "0", "none", &[(1, 0.02)]);
    }

    #[test]
    fn a_counter_that_counts_one_kernel_otherwise_differs() {
        check(&[&[1.0, 2.0, 0.0], &[1.0, 2.0, 0.0], &[1.0, 2.0, 1.0]], "0-1", "none", &[(2, 1.0)]);
        check(&[&[1.0, 2.0, 0.0], &[1.0, 2.0, 0.0], &[0.0, 0.0, 1.0]], "0-1", "none", &[(2, 0.0)]);
    }
}

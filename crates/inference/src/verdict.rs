//! Verdicts: how much is known about the event after all kernels ran.

use std::fmt;

use cyclometer_core::Concept;

use crate::hypothesis::Hypothesis;
use crate::mask::MaskFinding;
use crate::signature::{EventSignature, Linearity, Stability};
use crate::table::KernelIndex;

/// All that was found out about one event.
#[derive(Clone, PartialEq, Debug)]
pub struct Judgement {
    /// The event, as its observations name it.
    pub event: String,
    /// The thing that it counts, as far as that is known.
    pub verdict: Identification,
    /// How counts grow with iterations.
    pub linearity: Linearity,
    /// How equal repeats are.
    pub stability: Stability,
    /// The counters on which it counts.
    pub mask: MaskFinding,
    /// The slopes from which the verdict follows, of one of the counters that agree.
    pub signature: EventSignature,
}

/// How far an event was identified: the verdicts A to E.
#[derive(Clone, PartialEq, Debug)]
pub enum Identification {
    /// A: one hypothesis fits, it predicts the held-out kernels, and nothing speaks against it.
    Identified(Hypothesis),
    /// B: some hypotheses fit, and the kernels do not decide between them; or one fits that is not certain.
    Ambiguous(Ambiguity),
    /// C: the event responds to kernels, and no sum of concepts explains it.
    Unexplained(Response),
    /// D: the event is no count of concepts.
    Irregular(Irregularity),
    /// E: no kernel moves the event on any counter.
    NoSignal,
}

impl Identification {
    /// Its letter, from `A` to `E`.
    pub const fn letter(&self) -> char {
        match self {
            Identification::Identified(_) => 'A',
            Identification::Ambiguous(_) => 'B',
            Identification::Unexplained(_) => 'C',
            Identification::Irregular(_) => 'D',
            Identification::NoSignal => 'E',
        }
    }

    /// The hypothesis of an identified event.
    pub const fn identified(&self) -> Option<&Hypothesis> {
        match self {
            Identification::Identified(hypothesis) => Some(hypothesis),
            _ => None,
        }
    }
}

/// Hypotheses that the kernels do not decide between.
#[derive(Clone, PartialEq, Debug)]
pub struct Ambiguity {
    /// The hypotheses, best first: at least one, at most [`Ambiguity::MOST_LISTED`].
    pub hypotheses: Vec<Hypothesis>,
    /// Hypotheses that fit as well and are not listed.
    pub not_listed: usize,
    /// The kernel that would decide between the first two, or the reason why none does; `None` with one
    /// hypothesis.
    pub split: Option<Split>,
    /// Reasons besides the number of hypotheses.
    pub doubts: Vec<Doubt>,
}

impl Ambiguity {
    /// The most hypotheses that are listed.
    pub const MOST_LISTED: usize = 24;
}

/// The way to decide between two hypotheses.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Split {
    /// This kernel of the table would: the hypotheses predict different slopes.
    Kernel {
        /// The kernel: held out, not measured, or measured with too much noise.
        kernel: KernelIndex,
        /// The slopes that the two predict, in events per iteration.
        predictions: [f64; 2],
    },
    /// No kernel of the table tells these two concepts apart.
    Inseparable(Concept, Concept),
    /// No kernel of the table tells the two sums apart.
    SameSlopes,
}

/// A reason why the only hypothesis is not certain.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Doubt {
    /// The event counts something else on some counters.
    MaskUnclear,
    /// No held-out kernel that was measured moves this concept, and not three others do; or no held-out
    /// kernel was measured.
    NotHeldOut(Concept),
    /// All kernels that move this concept move it equally often, so that a threshold would not show.
    OneMultiple(Concept),
    /// So few kernels move the event that some sum fits by chance: the pattern has fewer bits than the
    /// choice of a sum takes.
    ChanceFit {
        /// The information in the pattern, in bits.
        bits: f64,
        /// The bits that are needed.
        needed: f64,
    },
    /// The search ended before all sums had been considered.
    SearchIncomplete,
    /// No kernel that moves the event ran at three sizes.
    LinearityUntested,
    /// A few of the first events are missing in some kernel: they came at once and were not over yet, or the
    /// event begins late.
    MayStartLate,
    /// Measured cycles of this kind fit as well.
    CycleLike(Concept),
    /// A half or a quarter of this concept may be an event that counts it some of the time only. Sizes with
    /// an odd number of iterations tell the two apart where repeats are equal.
    Fraction(Concept),
    /// The event may count something on the wrong paths too that mispredictions lead to: so many of it for
    /// each that a multiple of mispredictions fits.
    WrongPaths,
    /// This concept could be part of the event without showing in any slope.
    Hidden(Concept),
    /// The first concept is counted more than once, and half of that could be the second one.
    HalfOf(Concept, Concept),
}

/// The kernels that move an event which nothing explains.
#[derive(Clone, PartialEq, Debug)]
pub struct Response {
    /// The kernels, in the order of the table.
    pub kernels: Vec<KernelIndex>,
    /// Concepts that may be a part of it: wherever they happen the event counts.
    pub admissible: Vec<Concept>,
    /// The best hypothesis, which fits the fitting kernels and fails on held-out ones; often none.
    pub refuted: Option<Hypothesis>,
}

/// The reason why an event is no count of concepts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Irregularity {
    /// Its slopes are in proportion to measured cycles of this kind.
    CycleLike {
        /// The concept, a duration.
        concept: Concept,
        /// Events for each of its cycles.
        factor: f64,
    },
    /// Its count approaches a limit in this kernel.
    Saturating(KernelIndex),
    /// Its count is not in proportion to the iterations of this kernel.
    NonLinear(KernelIndex),
    /// Inconclusive: the repeats differ too much. A quieter machine or longer runs may decide.
    TooNoisy {
        /// The typical half-width of a slope's interval as a share of the slope; infinite if the noise hides
        /// whether there is a slope at all.
        relative_noise: f64,
    },
    /// Inconclusive: no kernel ran at two sizes.
    NotMeasured,
}

impl Irregularity {
    /// Whether another measurement may give another verdict.
    pub const fn is_inconclusive(&self) -> bool {
        matches!(self, Irregularity::TooNoisy { .. } | Irregularity::NotMeasured)
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Doubt::MaskUnclear => f.write_str("the event counts something else on some counters"),
            Doubt::NotHeldOut(concept) => {
                write!(f, "too few kernels that were measured move {concept}, none of them held out")
            }
            Doubt::OneMultiple(concept) => {
                write!(f, "every kernel moves {concept} equally often, so that a threshold would not show")
            }
            Doubt::ChanceFit { bits, needed } => {
                write!(f, "few kernels move the event: {bits:.0} bits of pattern, {needed:.0} are needed")
            }
            Doubt::SearchIncomplete => f.write_str("not all sums were considered"),
            Doubt::LinearityUntested => f.write_str("no kernel that moves the event ran at three sizes"),
            Doubt::CycleLike(concept) => write!(f, "measured {concept} fit as well"),
            Doubt::MayStartLate => f.write_str(
                "a few of its first events are missing in a kernel: it may count from a threshold on only",
            ),
            Doubt::Fraction(concept) => {
                write!(f, "an event that counts {concept} some of the time only looks the same")
            }
            Doubt::WrongPaths => f.write_str("an event that counts on wrong paths too looks the same"),
            Doubt::HalfOf(concept, other) => {
                write!(f, "half of what is counted for {concept} could be {other}")
            }
            Doubt::Hidden(concept) => write!(f, "{concept} may be counted too and would not show"),
        }
    }
}

//! The result of a sweep, code by code.

use std::fmt;

use cyclometer_inference::EventObservations;

/// A code that a sweep is done with.
#[derive(Clone, PartialEq, Debug)]
pub struct SweptCode {
    /// The code.
    pub code: u32,
    /// Its counts, or why there are none.
    pub outcome: SweptOutcome,
}

/// The counts of a code, or why there are none.
#[derive(Clone, PartialEq, Debug)]
pub enum SweptOutcome {
    /// It was counted.
    Counted(EventObservations),
    /// It has no counts that could be judged.
    Excluded(Exclusion),
}

/// The reason why a code has no counts.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Exclusion {
    /// The user has it on a list of codes that are never programmed.
    Denied,
    /// The machine refuses it, with this reason.
    Refused(String),
    /// Another counter counts something else while it is programmed.
    Disturbs {
        /// The kernel in which that shows most.
        kernel: String,
        /// Instructions of an iteration that the other counter has without the code.
        expected: f64,
        /// The same with the code.
        found: f64,
    },
}

impl SweptCode {
    /// Its counts.
    pub fn observations(&self) -> Option<&EventObservations> {
        match &self.outcome {
            SweptOutcome::Counted(observations) => Some(observations),
            SweptOutcome::Excluded(_) => None,
        }
    }

    /// Why it has none.
    pub fn exclusion(&self) -> Option<&Exclusion> {
        match &self.outcome {
            SweptOutcome::Counted(_) => None,
            SweptOutcome::Excluded(why) => Some(why),
        }
    }
}

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exclusion::Denied => f.write_str("on the list of codes that are never programmed"),
            Exclusion::Refused(why) => write!(f, "refused: {why}"),
            Exclusion::Disturbs { kernel, expected, found } => write!(
                f,
                "disturbs the counter of instructions: {found:.2} instead of {expected:.2} an iteration in {kernel}"
            ),
        }
    }
}

//! The confidence of findings.

/// How far a finding can be trusted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Confidence {
    /// The numbers fit, and other causes would explain them, too.
    Possible,
    /// Modelled or estimated numbers that rarely mean anything else.
    Likely,
    /// Measured numbers that are the fault itself.
    Certain,
}

impl Confidence {
    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Confidence::Possible => "possible",
            Confidence::Likely => "likely",
            Confidence::Certain => "certain",
        }
    }

    /// The confidence of a name.
    pub fn of(word: &str) -> Option<Confidence> {
        [Confidence::Possible, Confidence::Likely, Confidence::Certain]
            .into_iter()
            .find(|one| one.word() == word)
    }
}

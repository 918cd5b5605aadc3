//! Counting right and wrong findings.

use std::fmt;

use serde_json::Value;

/// The fault that `advise` named for a program.
#[derive(Debug)]
pub struct NamedFault {
    name: String,
    fault: Option<&'static str>,
    /// The findings, most costly first, with their shares.
    findings: Vec<(String, f64)>,
}

impl NamedFault {
    /// Reads advice.
    pub fn of(name: &str, fault: Option<&'static str>, advice: &Value) -> NamedFault {
        let findings = advice["findings"].as_array().map(Vec::as_slice).unwrap_or_default();
        let finding = |finding: &Value| {
            (finding["rule"].as_str().unwrap_or("?").to_owned(), finding["share"].as_f64().unwrap_or(0.0))
        };
        NamedFault { name: name.to_owned(), fault, findings: findings.iter().map(finding).collect() }
    }

    fn first(&self) -> Option<&str> {
        self.findings.first().map(|(rule, _)| rule.as_str())
    }

    fn is_right(&self) -> bool {
        self.first() == self.fault
    }
}

impl fmt::Display for NamedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.is_right() { "  " } else { "✗ " };
        let fault = self.fault.unwrap_or("none");
        write!(f, "{mark}{:14} {fault:22}", self.name)?;
        self.findings.iter().try_for_each(|(rule, share)| write!(f, " {rule} {:.0} %", share * 100.0))
    }
}

/// All programs.
#[derive(Debug, Default)]
pub struct AdviceTally {
    outcomes: Vec<NamedFault>,
}

impl AdviceTally {
    /// Adds a program.
    pub fn add(&mut self, outcome: NamedFault) {
        self.outcomes.push(outcome);
    }

    fn right(&self) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.fault.is_some() && outcome.is_right()).count()
    }

    /// The part of the programs with a finding whose first one is right.
    pub fn precision(&self) -> f64 {
        ratio(self.right(), self.outcomes.iter().filter(|outcome| outcome.first().is_some()).count())
    }

    /// The part of the programs with a fault whose first finding is right.
    pub fn recall(&self) -> f64 {
        ratio(self.right(), self.outcomes.iter().filter(|outcome| outcome.fault.is_some()).count())
    }
}

fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}

impl fmt::Display for AdviceTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let healthy: Vec<_> = self.outcomes.iter().filter(|outcome| outcome.fault.is_none()).collect();
        let quiet = healthy.iter().filter(|outcome| outcome.first().is_none()).count();
        write!(
            f,
            "{} programs: precision {:.2}, recall {:.2}; {quiet} of {} healthy programs without a finding",
            self.outcomes.len(),
            self.precision(),
            self.recall(),
            healthy.len()
        )
    }
}

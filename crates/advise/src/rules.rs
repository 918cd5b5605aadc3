//! The table of rules, read from text.
//!
//! ```text
//! cyclometer-rules 1                         the first line
//!
//! value NAME = FORMULA                       a name for a formula
//!
//! limit EVIDENCE CONFIDENCE LABEL | FORMULA | > NUMBER | SOURCE
//!                                            where it holds, findings by that evidence have no more
//!
//! rule NAME                                  a rule, up to the next one
//! title TEXT                                 the finding in a few words
//! advice TEXT                                what usually helps
//! explains NAME...                           rules whose findings are effects of this one
//! test EVIDENCE CONFIDENCE                   a test; fields below belong to it
//! need LABEL | FORMULA | > NUMBER | SOURCE   must hold; `<` is possible, too
//! share FORMULA                              the part of the time that the fault costs, 0 to 1
//! functions FACT                             the fact whose counts by function show where
//! next COMMAND                               the next measurement; {command} is the command
//! ```
//!
//! The first test of which all numbers were measured decides. Tests of the same evidence behind it are
//! alternatives to it.

use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;

use cyclometer_stats::formula::Formula;

use crate::confidence::Confidence;

/// The first line of a table.
const HEADER: &str = "cyclometer-rules 1";

/// The table of this project.
const EMBEDDED: &str = include_str!("../data/rules");

/// A side of a threshold.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum RuleBound {
    /// The value must be larger.
    Above(f64),
    /// The value must be smaller.
    Below(f64),
}

impl RuleBound {
    /// Whether a value is on the side that speaks for the fault.
    pub fn holds(self, value: f64) -> bool {
        match self {
            RuleBound::Above(limit) => value > limit,
            RuleBound::Below(limit) => value < limit,
        }
    }
}

impl fmt::Display for RuleBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleBound::Above(limit) => write!(f, "> {limit}"),
            RuleBound::Below(limit) => write!(f, "< {limit}"),
        }
    }
}

/// A condition of a test.
#[derive(Clone, PartialEq, Debug)]
pub struct RuleNeed {
    /// The quantity in words.
    pub label: String,
    /// Its formula over facts and values.
    pub formula: Formula,
    /// The threshold.
    pub bound: RuleBound,
    /// Where the threshold comes from.
    pub source: String,
}

/// A condition that limits the confidence of an evidence.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ConfidenceLimit {
    /// The kind of evidence.
    pub(crate) evidence: String,
    /// The most that its findings can be trusted.
    pub(crate) most: Confidence,
    /// The condition.
    pub(crate) need: RuleNeed,
}

/// A way to find a fault.
#[derive(Clone, PartialEq, Debug)]
pub struct RuleTest {
    /// The kind of evidence.
    pub evidence: String,
    /// How far the finding can be trusted.
    pub confidence: Confidence,
    /// All of them must hold.
    pub needs: Vec<RuleNeed>,
    /// The part of the time that the fault costs.
    pub share: Formula,
}

/// A fault, and how it is found.
#[derive(Clone, PartialEq, Debug)]
pub struct Rule {
    /// Its name.
    pub name: String,
    /// The finding in a few words.
    pub title: String,
    /// The usual remedy.
    pub advice: String,
    /// Rules whose findings are effects of this one.
    pub explains: Vec<String>,
    /// The tests, best evidence first.
    pub tests: Vec<RuleTest>,
    /// The fact whose counts by function show where.
    pub functions: Option<String>,
    /// The next measurements.
    pub next: Vec<String>,
}

/// A table of rules.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Rules {
    values: HashMap<String, Formula>,
    limits: Vec<ConfidenceLimit>,
    rules: Vec<Rule>,
}

/// An invalid table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RulesError {
    /// The number of the line, from 1.
    pub line: usize,
    /// The description of the error.
    pub message: String,
}

impl fmt::Display for RulesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for RulesError {}

impl Rules {
    /// The rules of this project.
    pub fn embedded() -> &'static Rules {
        static RULES: OnceLock<Rules> = OnceLock::new();
        // A test reads the table.
        RULES.get_or_init(|| Rules::parse(EMBEDDED).unwrap_or_default())
    }

    /// Reads a table.
    ///
    /// # Errors
    ///
    /// The first line that is invalid.
    pub fn parse(text: &str) -> Result<Rules, RulesError> {
        let mut table = Rules::default();
        let mut has_header = false;
        for (index, line) in text.lines().enumerate() {
            let failed = |message: String| RulesError { line: index + 1, message };
            let line = line.trim();
            match (line, has_header) {
                ("", _) => {}
                (comment, _) if comment.starts_with('#') => {}
                (HEADER, false) => has_header = true,
                (_, false) => return Err(failed(format!("the table does not begin with '{HEADER}'"))),
                (field, true) => table.field(field).map_err(failed)?,
            }
        }
        table.check().map_err(|message| RulesError { line: text.lines().count(), message })?;
        Ok(table)
    }

    /// The rules, in order.
    pub fn all(&self) -> &[Rule] {
        &self.rules
    }

    /// The limits of an evidence.
    pub(crate) fn limits(&self, evidence: &str) -> impl Iterator<Item = &ConfidenceLimit> {
        self.limits.iter().filter(move |limit| limit.evidence == evidence)
    }

    /// The formula of a named value.
    pub(crate) fn named(&self, name: &str) -> Option<&Formula> {
        self.values.get(name)
    }

    fn field(&mut self, line: &str) -> Result<(), String> {
        let (field, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim();
        match field {
            "value" => {
                let (name, formula) = rest.split_once('=').ok_or("a value is NAME = FORMULA")?;
                self.values.insert(name.trim().to_owned(), formula_of(formula)?);
            }
            "limit" => self.limits.push(limit_of(rest)?),
            "rule" => self.rules.push(Rule {
                name: rest.to_owned(),
                title: String::new(),
                advice: String::new(),
                explains: Vec::new(),
                tests: Vec::new(),
                functions: None,
                next: Vec::new(),
            }),
            _ => {
                let rule =
                    self.rules.last_mut().ok_or_else(|| format!("'{field}' stands before the first rule"))?;
                rule.field(field, rest)?;
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        for rule in &self.rules {
            let name = &rule.name;
            if rule.title.is_empty() || rule.tests.is_empty() {
                return Err(format!("the rule '{name}' lacks a title or a test"));
            }
            if rule.tests.iter().any(|test| test.needs.is_empty()) {
                return Err(format!("a test of the rule '{name}' needs nothing"));
            }
            let is_known = |other: &String| self.rules.iter().any(|rule| rule.name == *other);
            if let Some(other) = rule.explains.iter().find(|other| !is_known(other)) {
                return Err(format!("'{name}' explains the unknown rule '{other}'"));
            }
        }
        Ok(())
    }
}

impl Rule {
    fn field(&mut self, field: &str, rest: &str) -> Result<(), String> {
        match field {
            "title" => self.title = rest.to_owned(),
            "advice" => self.advice = rest.to_owned(),
            "explains" => self.explains = rest.split_whitespace().map(str::to_owned).collect(),
            "functions" => self.functions = Some(rest.to_owned()),
            "next" => self.next.push(rest.to_owned()),
            "test" => {
                let (evidence, confidence) = rest.rsplit_once(' ').ok_or("a test is EVIDENCE CONFIDENCE")?;
                let confidence =
                    Confidence::of(confidence).ok_or_else(|| format!("'{confidence}' is no confidence"))?;
                let share = formula_of("0")?;
                let evidence = evidence.to_owned();
                self.tests.push(RuleTest { evidence, confidence, needs: Vec::new(), share });
            }
            "need" | "share" => {
                let test =
                    self.tests.last_mut().ok_or_else(|| format!("'{field}' stands before the first test"))?;
                match field {
                    "share" => test.share = formula_of(rest)?,
                    _ => test.needs.push(need(rest)?),
                }
            }
            _ => return Err(format!("'{field}' is no field")),
        }
        Ok(())
    }
}

fn limit_of(text: &str) -> Result<ConfidenceLimit, String> {
    let fields: Vec<&str> = text.splitn(3, ' ').collect();
    let [evidence, confidence, condition] = fields[..] else {
        return Err("a limit is EVIDENCE CONFIDENCE LABEL | FORMULA | < NUMBER | SOURCE".to_owned());
    };
    let most = Confidence::of(confidence).ok_or_else(|| format!("'{confidence}' is no confidence"))?;
    Ok(ConfidenceLimit { evidence: evidence.to_owned(), most, need: need(condition)? })
}

fn need(text: &str) -> Result<RuleNeed, String> {
    let fields: Vec<&str> = text.split('|').map(str::trim).collect();
    let [label, formula, bound, source] = fields[..] else {
        return Err("a need is LABEL | FORMULA | > NUMBER | SOURCE".to_owned());
    };
    if source.is_empty() {
        return Err("a threshold needs a source".to_owned());
    }
    Ok(RuleNeed {
        label: label.to_owned(),
        formula: formula_of(formula)?,
        bound: bound_of(bound)?,
        source: source.to_owned(),
    })
}

fn bound_of(text: &str) -> Result<RuleBound, String> {
    let bound = |text: &str, of: fn(f64) -> RuleBound| {
        text.trim().parse().ok().filter(|n: &f64| n.is_finite()).map(of)
    };
    let found = match (text.strip_prefix('>'), text.strip_prefix('<')) {
        (Some(limit), _) => bound(limit, RuleBound::Above),
        (_, Some(limit)) => bound(limit, RuleBound::Below),
        _ => None,
    };
    found.ok_or_else(|| format!("'{text}' is no threshold: > NUMBER or < NUMBER"))
}

fn formula_of(text: &str) -> Result<Formula, String> {
    Formula::parse(text.trim()).map_err(|error| format!("'{}': {error}", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_this_project_is_valid() {
        let rules = Rules::parse(EMBEDDED).unwrap();
        assert!(rules.all().len() >= 12);
        assert_eq!(&rules, Rules::embedded());
    }

    #[test]
    fn each_rule_names_a_next_measurement_and_each_threshold_its_source() {
        for rule in Rules::embedded().all() {
            assert!(!rule.next.is_empty(), "{}", rule.name);
            assert!(!rule.advice.is_empty(), "{}", rule.name);
            for need in rule.tests.iter().flat_map(|test| &test.needs) {
                assert!(need.source.len() > 8, "{}: {}", rule.name, need.label);
            }
        }
    }

    #[test]
    fn invalid_tables_name_the_line() {
        for (text, line, part) in [
            ("", 0, "lacks"),
            ("rules", 1, "does not begin"),
            ("cyclometer-rules 1\ntitle x", 2, "before the first rule"),
            ("cyclometer-rules 1\nrule x\nneed a | b | > 1 | s", 3, "before the first test"),
            ("cyclometer-rules 1\nrule x\ntest model likely\nneed a | b + | > 1 | s", 4, "b +"),
            ("cyclometer-rules 1\nrule x\ntest model likely\nneed a | b | 1 | s", 4, "no threshold"),
            ("cyclometer-rules 1\nrule x\ntest model likely\nneed a | b | > 1 |", 4, "source"),
            ("cyclometer-rules 1\nrule x\ntest model sure", 3, "no confidence"),
            ("cyclometer-rules 1\nlimit model", 2, "a limit is"),
            ("cyclometer-rules 1\nlimit model sure a | b | < 1 | s", 2, "no confidence"),
            ("cyclometer-rules 1\nrule x\nwish y", 3, "no field"),
            ("cyclometer-rules 1\nrule x", 2, "lacks a title"),
        ] {
            match Rules::parse(text) {
                Err(error) => {
                    assert_eq!(error.line, line, "{text}");
                    assert!(error.to_string().contains(part), "{text}: {error}");
                }
                Ok(rules) => assert!(text.is_empty() && rules.all().is_empty(), "{text}"),
            }
        }
    }
}

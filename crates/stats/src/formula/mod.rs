//! Formulas of metrics: read, checked, evaluated, in the syntax of perf and of Intel's metric files.
//!
//! ```text
//! formula = term [ "if" term "else" formula ]
//! term    = "|"  over "^"  over "&"  over "<" ">"  over "+" "-"  over "*" "/" "%"   (loosest first)
//! operand = number | name | "#" literal | "-" operand | "(" formula ")"
//!         | ("min" | "max" | "d_ratio") "(" formula "," formula ")"
//!         | "strcmp_cpuid_str" "(" id ")" | "has_event" "(" name ")"
//! ```
//!
//! A name is the name of an event or of another metric. It has letters, digits and `_ . : ?`. Any other
//! character follows a backslash (`topdown\-retiring`), or stands between two `@`, which mean the slashes of
//! `pmu/…/` (`cpu@event\,cmask\=0x6@`). Modifiers after a colon (`UOPS_EXECUTED.CORE:c1`,
//! `TOPDOWN.SLOTS:percore`) belong to the name. `&`, `|` and `^` work on the bits of whole numbers; `<` and
//! `>` give 1 or 0. In `a if c else b` only the chosen part needs a value.
//!
//! A missing value and a division by zero make the result "not countable", with the reason. There is no NaN
//! and no infinity. `d_ratio` divides like any other division, although perf gives 0 for a division by 0.
//!
//! # Source
//!
//! Linux `tools/perf/util/expr.l` and `expr.y`; Intel perfmon `metrics/*.json`, fields `Formula` and
//! `BaseFormula`.

mod evaluate;
mod expression;
mod lexer;
mod parser;

use std::fmt;
use std::ops::Range;

pub use evaluate::Inputs;
pub use expression::{Expression, MAX_FORMULAS};

/// The longest formula that is read, in bytes. Intel's longest one has about 5,000.
pub const MAX_LENGTH: usize = 32 << 10;

/// The deepest nesting of parentheses, signs and conditions. Intel's formulas have up to 20 levels.
pub const MAX_DEPTH: usize = 100;

/// The literals that a formula can name.
///
/// # Source
///
/// Linux `tools/perf/util/expr.c`, `expr__get_literal`.
pub const LITERALS: &[&str] = &[
    "#slots",
    "#smt_on",
    "#core_wide",
    "#num_cpus",
    "#num_cpus_online",
    "#num_cores",
    "#num_dies",
    "#num_packages",
    "#system_tsc_freq",
];

/// A formula, ready to be evaluated.
///
/// The formula is a list of steps on a stack of values, so that neither evaluation nor drop recurses.
#[derive(Clone, PartialEq, Debug)]
pub struct Formula {
    text: String,
    steps: Vec<FormulaStep>,
    names: Vec<String>,
}

/// One step of a formula.
#[derive(Clone, PartialEq, Debug)]
enum FormulaStep {
    /// Pushes a number.
    Number(f64),
    /// Pushes the value of a name: an index into the names.
    Name(usize),
    /// Pushes a literal: an index into [`LITERALS`].
    Literal(usize),
    /// Pushes 1 or 0: whether the CPU has this id.
    IsCpu(String),
    /// Pushes 1 or 0: whether the name, an index into the names, has a value.
    Has(usize),
    /// Negates the top of the stack.
    Negate,
    /// Pops two values and pushes one.
    Binary(Operator),
    /// Pops two values and pushes their quotient; the text of the divisor is for the reason.
    Divide(Range<usize>),
    /// Pops the value for a true condition, the condition, and the other value; pushes the chosen one.
    Choose,
}

/// Operators of two values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Remainder,
    Less,
    Greater,
    And,
    Or,
    Xor,
    Min,
    Max,
}

impl Formula {
    /// Reads a formula.
    ///
    /// # Errors
    ///
    /// An invalid formula, with the position; a formula that is too long or nested too deep.
    pub fn parse(text: &str) -> Result<Formula, FormulaError> {
        parser::parse(text)
    }

    /// The text as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The names of events and metrics in it, each once, in the order of their first use.
    ///
    /// Backslashes are resolved, and `@` is a slash: `cpu/event,cmask=0x6/`.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Its value.
    ///
    /// # Errors
    ///
    /// The reason why it has none: a missing input, a division by zero, a result that is not finite.
    pub fn evaluate(&self, inputs: &dyn Inputs) -> Result<f64, String> {
        evaluate::evaluate(self, inputs)
    }
}

/// The reason why a text is no formula.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FormulaError {
    /// The position in bytes from the beginning; `None` for the formula as a whole.
    pub at: Option<usize>,
    /// The description of the error.
    pub message: String,
}

impl FormulaError {
    fn at(at: usize, message: impl Into<String>) -> FormulaError {
        FormulaError { at: Some(at), message: message.into() }
    }

    fn whole(message: impl Into<String>) -> FormulaError {
        FormulaError { at: None, message: message.into() }
    }
}

impl fmt::Display for FormulaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.at.map_or(Ok(()), |at| write!(f, " (at byte {at})"))
    }
}

impl std::error::Error for FormulaError {}

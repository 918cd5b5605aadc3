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
//! A name is an event's or another metric's. It has letters, digits and `_ . : ?`; any other character stands behind
//! a backslash (`topdown\-retiring`), or between two `@`, which mean the slashes of `pmu/…/`
//! (`cpu@event\,cmask\=0x6@`). Modifiers behind a colon (`UOPS_EXECUTED.CORE:c1`, `TOPDOWN.SLOTS:percore`) belong to
//! the name. `&`, `|` and `^` work on the bits of whole numbers, `<` and `>` give 1 or 0, and of `a if c else b` only the
//! part that is chosen needs a value.
//!
//! A value that is missing and a division by zero make the result "not countable", with the reason. There is no NaN and
//! no infinity, and `d_ratio`, which perf lets be 0 where it divides by 0, divides like any other.
//!
//! # Source
//!
//! Linux `tools/perf/util/expr.l` and `expr.y`; Intel perfmon `metrics/*.json`, fields `Formula` and `BaseFormula`.

mod evaluate;
mod expression;
mod lexer;
mod parser;

use std::fmt;
use std::ops::Range;

pub use evaluate::Inputs;
pub use expression::{Expression, MAX_FORMULAS};

/// The longest formula that is read, in bytes. The longest of Intel's has some 5,000.
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
/// It is a list of steps on a stack of values, so that neither evaluating nor dropping it recurses.
#[derive(Clone, PartialEq, Debug)]
pub struct Formula {
    text: String,
    steps: Vec<Step>,
    names: Vec<String>,
}

/// One step of a formula.
#[derive(Clone, PartialEq, Debug)]
enum Step {
    /// Puts a number on the stack.
    Number(f64),
    /// Puts the value of a name on it: an index into the names.
    Name(usize),
    /// Puts a literal on it: an index into [`LITERALS`].
    Literal(usize),
    /// Puts 1 or 0 on it: whether the CPU has this id.
    IsCpu(String),
    /// Puts 1 or 0 on it: whether the name, an index into the names, has a value.
    Has(usize),
    /// Changes the sign.
    Negate,
    /// Takes two values and puts one.
    Binary(Operator),
    /// Takes two values and puts their quotient; the text of the divisor is for the reason.
    Divide(Range<usize>),
    /// Takes what is chosen from if the condition holds, the condition, and the rest.
    Choose,
}

/// What is done with two values.
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
    /// What is no formula, with the place; one that is too long or nested too deep.
    pub fn parse(text: &str) -> Result<Formula, FormulaError> {
        parser::parse(text)
    }

    /// As it was written.
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
    /// Why it has none: an input that is missing, a division by zero, a result beyond all numbers.
    pub fn evaluate(&self, inputs: &dyn Inputs) -> Result<f64, String> {
        evaluate::evaluate(self, inputs)
    }
}

/// Why a text is no formula.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FormulaError {
    /// Where, in bytes from the beginning; `None` when it is the formula as a whole.
    pub at: Option<usize>,
    /// What is wrong.
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

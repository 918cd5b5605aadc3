//! Evaluates the steps of a formula to a value, or to the reason why there is none.

use std::ops::Range;

use super::{Formula, FormulaStep, LITERALS, Operator};

/// The inputs that a formula is evaluated with.
pub trait Inputs {
    /// The value of an event or a metric.
    ///
    /// # Errors
    ///
    /// The reason why the name has no value.
    fn value(&self, name: &str) -> Result<f64, String>;

    /// The value of one of [`LITERALS`], without its `#`; `None` when it is not known.
    fn literal(&self, name: &str) -> Option<f64>;

    /// Whether this is the CPU of that id, as in perf's map files (a MIDR on Arm); `None` when it is unknown.
    fn is_cpu(&self, id: &str) -> Option<bool>;

    /// The form of a name in messages.
    fn shown(&self, name: &str) -> String {
        name.to_owned()
    }
}

type Evaluated = Result<f64, String>;

/// A missing input stays on the stack as a reason until it is used: a branch that is not chosen may lack
/// inputs.
pub(super) fn evaluate(formula: &Formula, inputs: &dyn Inputs) -> Evaluated {
    let mut stack: Vec<Evaluated> = Vec::new();
    for step in &formula.steps {
        let value = match step {
            FormulaStep::Number(number) => Ok(*number),
            FormulaStep::Name(index) => inputs.value(&formula.names[*index]).and_then(finite),
            FormulaStep::Literal(index) => literal(LITERALS[*index], inputs),
            FormulaStep::IsCpu(id) => is_cpu(id, inputs),
            FormulaStep::Has(index) => Ok(f64::from(inputs.value(&formula.names[*index]).is_ok())),
            FormulaStep::Negate => pop(&mut stack).map(|value| -value),
            FormulaStep::Binary(operator) => {
                let (left, right) = pair(&mut stack);
                binary(*operator, left, right)
            }
            FormulaStep::Divide(divisor) => {
                let (left, right) = pair(&mut stack);
                divide(left, right, || divisor_of(formula, divisor, inputs))
            }
            FormulaStep::Choose => {
                let (condition, otherwise) = pair(&mut stack);
                let chosen = pop(&mut stack);
                condition.and_then(|condition| if condition != 0.0 { chosen } else { otherwise })
            }
        };
        stack.push(value);
    }
    pop(&mut stack)
}

/// The parser pushes as many values as the steps take.
fn pop(stack: &mut Vec<Evaluated>) -> Evaluated {
    stack.pop().unwrap_or_else(|| Err("the formula is empty".to_owned()))
}

/// The two values on top of the stack, in the order in which they were pushed.
fn pair(stack: &mut Vec<Evaluated>) -> (Evaluated, Evaluated) {
    let last = pop(stack);
    (pop(stack), last)
}

fn literal(name: &str, inputs: &dyn Inputs) -> Evaluated {
    let value = inputs.literal(&name[1..]).filter(|value| value.is_finite());
    value.ok_or_else(|| format!("{name} is not known on this machine"))
}

fn is_cpu(id: &str, inputs: &dyn Inputs) -> Evaluated {
    let is = inputs.is_cpu(id).map(f64::from);
    is.ok_or_else(|| format!("whether the CPU is {id} is not known"))
}

fn binary(operator: Operator, left: Evaluated, right: Evaluated) -> Evaluated {
    let (left, right) = (left?, right?);
    if operator == Operator::Remainder && right == 0.0 {
        return Err("a remainder by 0".to_owned());
    }
    finite(operator.apply(left, right))
}

fn divide(left: Evaluated, right: Evaluated, divisor: impl Fn() -> String) -> Evaluated {
    let (left, right) = (left?, right?);
    match right == 0.0 {
        true => Err(format!("{} was 0", divisor())),
        false => finite(left / right),
    }
}

fn finite(value: f64) -> Evaluated {
    if value.is_finite() { Ok(value) } else { Err("the result is beyond all numbers".to_owned()) }
}

/// The divisor in messages: a name as it is shown, anything else as it was written.
fn divisor_of(formula: &Formula, divisor: &Range<usize>, inputs: &dyn Inputs) -> String {
    let written = formula.text.get(divisor.clone()).unwrap_or("the divisor").trim();
    let bare = written.trim_start_matches(['(', ' ']).trim_end_matches([')', ' ']);
    match formula.names.iter().find(|name| *name == bare) {
        Some(name) => inputs.shown(name),
        None => written.to_owned(),
    }
}

impl Operator {
    fn apply(self, left: f64, right: f64) -> f64 {
        // Fractions are cut off, as perf does; a value out of range becomes the nearest integer in range.
        let bits = |apply: fn(i64, i64) -> i64| apply(left as i64, right as i64) as f64;
        match self {
            Operator::Add => left + right,
            Operator::Subtract => left - right,
            Operator::Multiply => left * right,
            Operator::Remainder => left % right,
            Operator::Less => f64::from(left < right),
            Operator::Greater => f64::from(left > right),
            Operator::And => bits(|left, right| left & right),
            Operator::Or => bits(|left, right| left | right),
            Operator::Xor => bits(|left, right| left ^ right),
            Operator::Min => left.min(right),
            Operator::Max => left.max(right),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formula::Formula;
    use proptest::prelude::*;

    /// `a` is 8, `b` is 2, `z` is 0, `cpu/x,cmask=0x6/` is 6; nothing else has a value.
    struct Known;

    impl Inputs for Known {
        fn value(&self, name: &str) -> Result<f64, String> {
            match name {
                "a" => Ok(8.0),
                "b" => Ok(2.0),
                "z" => Ok(0.0),
                "cpu/x,cmask=0x6/" => Ok(6.0),
                "infinite" => Ok(f64::INFINITY),
                other => Err(format!("{other} is missing")),
            }
        }

        fn literal(&self, name: &str) -> Option<f64> {
            match name {
                "smt_on" => Some(1.0),
                "slots" => Some(5.0),
                _ => None,
            }
        }

        fn is_cpu(&self, id: &str) -> Option<bool> {
            id.starts_with("0x41").then(|| id == "0x410fd493")
        }

        fn shown(&self, name: &str) -> String {
            format!("{name}:u")
        }
    }

    fn value(text: &str) -> Result<f64, String> {
        Formula::parse(text).unwrap().evaluate(&Known)
    }

    #[test]
    fn signs_bind_as_in_perf() {
        for (text, expected) in [
            ("1 + 2 * 3", 7.0),
            ("(1 + 2) * 3", 9.0),
            ("8 - 4 - 2", 2.0),
            ("16 / 4 / 2", 2.0),
            ("-2 * -3", 6.0),
            ("--2", 2.0),
            ("7 % 4", 3.0),
            ("1 < 2", 1.0),
            ("1 + 1 > 2", 0.0),
            ("6 & 3 | 8", 10.0),
            ("6 ^ 2 & 3", 4.0),
            ("1 < 2 & 3 > 2", 1.0),
            ("min(a, b) + max(a, b)", 10.0),
            ("d_ratio(a, b)", 4.0),
            ("1.5e2", 150.0),
            (r"6 * cpu@x\,cmask\=0x6@", 36.0),
        ] {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn conditions_choose_and_what_is_not_chosen_needs_no_value() {
        for (text, expected) in [
            ("a if b > 1 else 3", 8.0),
            ("missing if z else b", 2.0),
            ("b if #smt_on else a / z", 2.0),
            ("a / b if 0 else 1", 1.0),
            ("1 if 0 else 2 if 0 else 3", 3.0),
            ("5 * (a / 2 if #smt_on else a)", 20.0),
            ("has_event(a) - has_event(missing)", 1.0),
            ("1 if strcmp_cpuid_str(0x410fd493) else 2", 1.0),
            ("1 if strcmp_cpuid_str(0x410fd490) else 2", 2.0),
            ("#slots * b", 10.0),
        ] {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_has_no_value_has_a_reason() {
        for (text, expected) in [
            ("a / z", "z:u was 0"),
            ("z / (z)", "z:u was 0"),
            ("d_ratio(a, z)", "z:u was 0"),
            ("a / (b - 2)", "(b - 2) was 0"),
            ("a / (b * z)", "(b * z) was 0"),
            ("a % z", "a remainder by 0"),
            ("a + missing", "missing is missing"),
            ("missing * z", "missing is missing"),
            ("a if missing else b", "missing is missing"),
            ("#num_dies", "#num_dies is not known on this machine"),
            ("strcmp_cpuid_str(GenuineIntel-6-55)", "whether the CPU is GenuineIntel-6-55 is not known"),
            ("1e300 * 1e300", "the result is beyond all numbers"),
            ("infinite - a", "the result is beyond all numbers"),
        ] {
            assert_eq!(value(text), Err(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn long_formulas_evaluate_without_recursion() {
        assert_eq!(value(&("b+".repeat(10_000) + "b")), Ok(20_002.0));
        assert_eq!(value(&("-".repeat(30_001) + "b")), Ok(-2.0));
    }

    proptest! {
        #[test]
        fn a_result_is_a_number_or_a_reason(
            words in proptest::collection::vec(
                prop_oneof![
                    Just("a"), Just("z"), Just("missing"), Just("1e200"), Just("3"), Just("+"), Just("-"), Just("*"),
                    Just("/"), Just("%"), Just("<"), Just("|"), Just("("), Just(")"), Just("if"), Just("else"), Just("min("),
                    Just(","),
                ],
                0..14,
            ),
        ) {
            if let Ok(formula) = Formula::parse(&words.join(" "))
                && let Ok(value) = formula.evaluate(&Known)
            {
                prop_assert!(value.is_finite());
            }
        }
    }
}

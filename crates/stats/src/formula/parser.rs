//! Parses tokens to steps: recursive descent, no deeper than [`MAX_DEPTH`].

use std::ops::Range;

use super::lexer::{Token, TokenKind, tokens};
use super::{Formula, FormulaError, FormulaStep, LITERALS, MAX_DEPTH, Operator};

type ParseResult<T> = Result<T, FormulaError>;

/// Words that cannot be names.
const KEYWORDS: &[&str] = &["if", "else", "min", "max", "d_ratio", "strcmp_cpuid_str", "has_event"];

/// Binary operators by precedence, from the loosest to the tightest.
const LEVELS: &[&[(char, Option<Operator>)]] = &[
    &[('|', Some(Operator::Or))],
    &[('^', Some(Operator::Xor))],
    &[('&', Some(Operator::And))],
    &[('<', Some(Operator::Less)), ('>', Some(Operator::Greater))],
    &[('+', Some(Operator::Add)), ('-', Some(Operator::Subtract))],
    // A division remembers its divisor.
    &[('*', Some(Operator::Multiply)), ('/', None), ('%', Some(Operator::Remainder))],
];

/// Reads a formula.
pub(super) fn parse(text: &str) -> ParseResult<Formula> {
    let tokens = tokens(text)?;
    let mut parser = Parser { text, tokens, at: 0, depth: 0, steps: Vec::new(), names: Vec::new() };
    parser.formula()?;
    match parser.tokens.get(parser.at) {
        None => Ok(Formula { text: text.to_owned(), steps: parser.steps, names: parser.names }),
        Some(token) => Err(FormulaError::at(
            token.span.start,
            format!("'{}' behind the end of the formula", &text[token.span.clone()]),
        )),
    }
}

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    steps: Vec<FormulaStep>,
    names: Vec<String>,
}

impl Parser<'_> {
    /// Parses `a [if c else b]`; returns its range in bytes.
    fn formula(&mut self) -> ParseResult<Range<usize>> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let message = format!("a formula of more than {MAX_DEPTH} levels");
            return Err(FormulaError::at(self.place(), message));
        }
        let mut span = self.level(0)?;
        if self.takes_word("if") {
            self.level(0)?;
            if !self.takes_word("else") {
                return Err(FormulaError::at(self.place(), "an 'if' without 'else'"));
            }
            span.end = self.formula()?.end;
            self.steps.push(FormulaStep::Choose);
        }
        self.depth -= 1;
        Ok(span)
    }

    fn level(&mut self, level: usize) -> ParseResult<Range<usize>> {
        let Some(signs) = LEVELS.get(level) else { return self.operand() };
        let mut span = self.level(level + 1)?;
        while let Some(operator) = self.takes_sign_of(signs) {
            let right = self.level(level + 1)?;
            span.end = right.end;
            self.steps.push(operator.map_or(FormulaStep::Divide(right), FormulaStep::Binary));
        }
        Ok(span)
    }

    fn operand(&mut self) -> ParseResult<Range<usize>> {
        let start = self.place();
        let mut negations = 0;
        while self.takes_sign('-') {
            negations += 1;
        }
        let span = self.primary()?;
        if negations % 2 == 1 {
            self.steps.push(FormulaStep::Negate);
        }
        Ok(start..span.end)
    }

    fn primary(&mut self) -> ParseResult<Range<usize>> {
        let Some(Token { kind, span }) = self.tokens.get(self.at).cloned() else {
            return Err(FormulaError::at(self.text.len(), "a value is missing"));
        };
        self.at += 1;
        match kind {
            TokenKind::Number(number) => self.steps.push(FormulaStep::Number(number)),
            TokenKind::Literal(literal) => self.literal(&literal, &span)?,
            TokenKind::Sign('(') => {
                self.formula()?;
                return Ok(span.start..self.expect(')')?);
            }
            TokenKind::Name(name) if KEYWORDS.contains(&name.as_str()) => {
                return Ok(span.start..self.function(&name, &span)?);
            }
            TokenKind::Name(name) => {
                let index = self.index_of(name);
                self.steps.push(FormulaStep::Name(index));
            }
            TokenKind::Sign(sign) => {
                return Err(FormulaError::at(span.start, format!("'{sign}' in place of a value")));
            }
        }
        Ok(span)
    }

    fn literal(&mut self, literal: &str, span: &Range<usize>) -> ParseResult<()> {
        let index = LITERALS.iter().position(|known| *known == literal);
        let index =
            index.ok_or_else(|| FormulaError::at(span.start, format!("'{literal}' is no literal")))?;
        self.steps.push(FormulaStep::Literal(index));
        Ok(())
    }

    /// Parses the arguments of a function; returns the end.
    fn function(&mut self, name: &str, span: &Range<usize>) -> ParseResult<usize> {
        if matches!(name, "if" | "else") {
            return Err(FormulaError::at(span.start, format!("'{name}' in place of a value")));
        }
        self.expect('(')?;
        match name {
            "strcmp_cpuid_str" => return self.cpu_id(),
            "has_event" => return self.has_event(),
            _ => {}
        }
        self.formula()?;
        self.expect(',')?;
        let second = self.formula()?;
        self.steps.push(match name {
            "min" => FormulaStep::Binary(Operator::Min),
            "max" => FormulaStep::Binary(Operator::Max),
            _ => FormulaStep::Divide(second),
        });
        self.expect(')')
    }

    /// Reads everything up to the closing parenthesis verbatim.
    fn cpu_id(&mut self) -> ParseResult<usize> {
        let start = self.place();
        while self.at < self.tokens.len() && !self.is_sign(')') {
            self.at += 1;
        }
        let id = self.text[start..self.place()].trim().to_owned();
        if id.is_empty() {
            return Err(FormulaError::at(start, "an id of a CPU is missing"));
        }
        self.steps.push(FormulaStep::IsCpu(id));
        self.expect(')')
    }

    fn has_event(&mut self) -> ParseResult<usize> {
        let place = self.place();
        match self.tokens.get(self.at).map(|token| token.kind.clone()) {
            Some(TokenKind::Name(name)) => {
                self.at += 1;
                let index = self.index_of(name);
                self.steps.push(FormulaStep::Has(index));
                self.expect(')')
            }
            _ => Err(FormulaError::at(place, "the name of an event is missing")),
        }
    }

    fn index_of(&mut self, name: String) -> usize {
        self.names.iter().position(|known| *known == name).unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        })
    }

    /// The position of the next token, in bytes.
    fn place(&self) -> usize {
        self.tokens.get(self.at).map_or(self.text.len(), |token| token.span.start)
    }

    fn is_sign(&self, sign: char) -> bool {
        self.tokens.get(self.at).is_some_and(|token| token.kind == TokenKind::Sign(sign))
    }

    fn takes_sign(&mut self, sign: char) -> bool {
        let is = self.is_sign(sign);
        self.at += usize::from(is);
        is
    }

    fn takes_sign_of(&mut self, signs: &[(char, Option<Operator>)]) -> Option<Option<Operator>> {
        let (_, operator) = signs.iter().find(|(sign, _)| self.is_sign(*sign))?;
        self.at += 1;
        Some(*operator)
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let is = self
            .tokens
            .get(self.at)
            .is_some_and(|token| matches!(&token.kind, TokenKind::Name(name) if name == word));
        self.at += usize::from(is);
        is
    }

    /// Takes a required sign; returns its end.
    fn expect(&mut self, sign: char) -> ParseResult<usize> {
        let place = self.place();
        match self.takes_sign(sign) {
            true => Ok(place + 1),
            false => Err(FormulaError::at(place, format!("a '{sign}' is missing"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_given_once_in_the_order_of_use() {
        let formula = parse("d_ratio(b, a) + a:c1 * has_event(c) - b if #smt_on else max(d, 2)").unwrap();
        assert_eq!(formula.names(), ["b", "a", "a:c1", "c", "d"]);
    }

    #[test]
    fn what_is_no_formula_is_refused_with_the_place() {
        for (text, expected) in [
            ("", "a value is missing (at byte 0)"),
            ("a +", "a value is missing (at byte 3)"),
            ("a b", "'b' behind the end of the formula (at byte 2)"),
            ("(a", "a ')' is missing (at byte 2)"),
            ("a)", "')' behind the end of the formula (at byte 1)"),
            ("* a", "'*' in place of a value (at byte 0)"),
            ("a if b", "an 'if' without 'else' (at byte 6)"),
            ("if a", "'if' in place of a value (at byte 0)"),
            ("min(a)", "a ',' is missing (at byte 5)"),
            ("max(a, b, c)", "a ')' is missing (at byte 8)"),
            ("min a", "a '(' is missing (at byte 4)"),
            ("#nothing", "'#nothing' is no literal (at byte 0)"),
            ("has_event(2)", "the name of an event is missing (at byte 10)"),
            ("strcmp_cpuid_str()", "an id of a CPU is missing (at byte 17)"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), expected, "{text}");
        }
    }

    #[test]
    fn depth_has_a_limit_and_length_alone_does_no_harm() {
        let nested = |depth: usize| "(".repeat(depth) + "a" + &")".repeat(depth);
        assert!(parse(&nested(MAX_DEPTH - 1)).is_ok());
        assert!(parse(&nested(MAX_DEPTH)).unwrap_err().to_string().contains("levels"));
        assert!(parse(&nested(10_000)).is_err());
        assert!(parse(&("a if b else ".repeat(2000) + "c")).is_err());
        assert!(parse(&("-".repeat(30_000) + "a")).is_ok());
        assert!(parse(&("a+".repeat(15_000) + "a")).is_ok());
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "[a-c0-9+*/%<>&|^(),.#@\\\\ :-]{0,60}|\\PC{0,40}|(min\\(|if |else |a|\\(|\\)|,){0,30}") {
            let _ = parse(&text);
        }
    }
}

//! Divides formulas into tokens.

use std::ops::Range;

use super::{FormulaError, MAX_LENGTH};

/// A token with the bytes that it takes.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Token {
    pub kind: TokenKind,
    pub span: Range<usize>,
}

/// Kinds of token.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum TokenKind {
    Number(f64),
    /// A name with its backslashes resolved.
    Name(String),
    /// A literal with its `#`.
    Literal(String),
    /// One of `+ - * / % < > & | ^ ( ) ,`.
    Sign(char),
}

/// Divides a text into tokens.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, FormulaError> {
    if text.len() > MAX_LENGTH {
        let message = format!("a formula of {} bytes; at most {MAX_LENGTH} are read", text.len());
        return Err(FormulaError::whole(message));
    }
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let (kind, length) = match first {
            c if c.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            '+' | '-' | '*' | '/' | '%' | '<' | '>' | '&' | '|' | '^' | '(' | ')' | ',' => {
                (TokenKind::Sign(first), 1)
            }
            '0'..='9' | '.' => number(rest, at)?,
            '#' => literal(rest, at)?,
            _ => name(rest, at)?,
        };
        tokens.push(Token { kind, span: at..at + length });
        at += length;
    }
    Ok(tokens)
}

/// A decimal number, or a hexadecimal one behind `0x`.
fn number(rest: &str, at: usize) -> Result<(TokenKind, usize), FormulaError> {
    if let Some(hex) = rest.strip_prefix("0x") {
        let length = hex.bytes().take_while(u8::is_ascii_hexdigit).count();
        let number = u64::from_str_radix(&hex[..length], 16);
        let number =
            number.map_err(|_| FormulaError::at(at, format!("'{}' is no number", &rest[..2 + length])))?;
        return Ok((TokenKind::Number(number as f64), 2 + length));
    }
    let mut length = digits(rest);
    if rest[length..].starts_with('.') {
        length += 1 + digits(&rest[length + 1..]);
    }
    let exponent = rest[length..].strip_prefix('e').map(|e| (e, e.strip_prefix('-').unwrap_or(e)));
    if let Some((all, number)) = exponent.filter(|(_, number)| digits(number) > 0) {
        length += 1 + (all.len() - number.len()) + digits(number);
    }
    let number = rest[..length].parse::<f64>().ok().filter(|number| number.is_finite());
    match (number, rest[length..].chars().next()) {
        (None, _) => Err(FormulaError::at(at, format!("'{}' is no number", &rest[..length]))),
        (_, Some(next)) if is_part_of_name(next) => {
            Err(FormulaError::at(at + length, format!("'{next}' behind a number")))
        }
        (Some(number), _) => Ok((TokenKind::Number(number), length)),
    }
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

fn literal(rest: &str, at: usize) -> Result<(TokenKind, usize), FormulaError> {
    let word = |c: &u8| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == b'_';
    let length = 1 + rest.bytes().skip(1).take_while(word).count();
    match length {
        1 => Err(FormulaError::at(at, "'#' without a literal")),
        _ => Ok((TokenKind::Literal(rest[..length].to_owned()), length)),
    }
}

fn is_part_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '?' | '@' | '\\')
}

/// A name; between two `@` every printable character belongs to it.
fn name(rest: &str, at: usize) -> Result<(TokenKind, usize), FormulaError> {
    let (mut name, mut quoted, mut length) = (String::new(), false, 0);
    let mut characters = rest.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => {
                let escaped = characters.next().filter(char::is_ascii_graphic);
                name.push(
                    escaped.ok_or_else(|| FormulaError::at(at + length, "nothing behind a backslash"))?,
                );
                length += 1;
            }
            '@' => {
                quoted = !quoted;
                name.push('/');
            }
            c if is_part_of_name(c) || quoted && c.is_ascii_graphic() => name.push(c),
            _ => break,
        }
        length += 1;
    }
    if quoted {
        return Err(FormulaError::at(at, "an '@' that is not closed"));
    }
    match rest.chars().next() {
        Some(first) if length == 0 => {
            Err(FormulaError::at(at, format!("'{}' in a formula", first.escape_default())))
        }
        _ => Ok((TokenKind::Name(name), length)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<TokenKind> {
        tokens(text).unwrap().into_iter().map(|token| token.kind).collect()
    }

    fn named(name: &str) -> TokenKind {
        TokenKind::Name(name.to_owned())
    }

    #[test]
    fn names_keep_their_modifiers_and_lose_their_backslashes() {
        for (text, expected) in [
            ("UOPS_EXECUTED.CORE:c1:e1", "UOPS_EXECUTED.CORE:c1:e1"),
            ("A.B:u0x4:percore", "A.B:u0x4:percore"),
            (r"topdown\-fe\-bound", "topdown-fe-bound"),
            (r"cpu@ev.x\,cmask\=0x6@", "cpu/ev.x,cmask=0x6/"),
            ("power@energy-pkg@", "power/energy-pkg/"),
            ("cpu_core@TOPDOWN.SLOTS@:percore", "cpu_core/TOPDOWN.SLOTS/:percore"),
        ] {
            assert_eq!(kinds(text), [named(expected)], "{text}");
        }
    }

    #[test]
    fn a_minus_divides_names_unless_it_is_escaped() {
        assert_eq!(kinds("a-b"), [named("a"), TokenKind::Sign('-'), named("b")]);
        assert_eq!(kinds("1e-3-2"), [TokenKind::Number(1e-3), TokenKind::Sign('-'), TokenKind::Number(2.0)]);
        assert_eq!(
            kinds("#slots*.5"),
            [TokenKind::Literal("#slots".into()), TokenKind::Sign('*'), TokenKind::Number(0.5)]
        );
    }

    #[test]
    fn what_is_no_token_is_told_with_its_place() {
        for (text, expected) in [
            ("a + $b", "'$' in a formula (at byte 4)"),
            ("a + \u{e9}", "'\\u{e9}' in a formula (at byte 4)"),
            ("2x", "'x' behind a number (at byte 1)"),
            ("1e999", "'1e999' is no number (at byte 0)"),
            ("0x + 1", "'0x' is no number (at byte 0)"),
            (".", "'.' is no number (at byte 0)"),
            ("cpu@a", "an '@' that is not closed (at byte 0)"),
            ("a\\", "nothing behind a backslash (at byte 1)"),
            ("#", "'#' without a literal (at byte 0)"),
        ] {
            assert_eq!(tokens(text).unwrap_err().to_string(), expected, "{text}");
        }
        assert!(tokens(&"a".repeat(MAX_LENGTH + 1)).unwrap_err().to_string().contains("at most"));
    }
}

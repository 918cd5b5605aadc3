//! Shell syntax in a text that no shell reads: there it would be an argument, and the command would do other
//! work in silence.

use std::iter::Peekable;
use std::str::Chars;

/// Shell syntax.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Syntax {
    /// `<`, `2>`, `|`, `&&` and the like, as written.
    Operator(String),
    /// `$NAME`, `$(command)`, `*.c`, `~` and the like, with their first characters.
    Expansion(String),
    /// The same of a dollar or a backquote in double quotes.
    QuotedExpansion(String),
    /// `{a,b}` or `{1..3}`, of bash and others.
    Braces(String),
    /// `NAME=value` before the program, with its name.
    Assignment(String),
    /// A line end between words: two commands.
    LineEnd,
    /// `#` at the start of a word.
    Comment,
}

/// The first shell syntax in a text that is not quoted. Single quotes and backslashes quote all; double
/// quotes do not quote expansions of `$` and backquotes. A pattern such as `*.c` counts without a match, too.
///
/// # Source
///
/// POSIX.1-2024, Shell Command Language: 2.2 "Quoting", 2.3 "Token Recognition", 2.6 "Word Expansions", 2.9.1
/// "Simple Commands". Bash manual: 3.5.1 "Brace Expansion".
pub fn first(text: &str) -> Option<Syntax> {
    Scanner { chars: text.chars().peekable(), word: None, has_program: false, line_ended: false }.first()
}

/// Reads words as `shell_words::split` does.
struct Scanner<'a> {
    chars: Peekable<Chars<'a>>,
    /// The word that is being read, as long as no part of it is quoted.
    word: Option<ShellWord>,
    /// Whether a word has been read that is no assignment.
    has_program: bool,
    /// Whether a line ended behind the last word.
    line_ended: bool,
}

#[derive(Default)]
struct ShellWord {
    text: String,
    is_quoted: bool,
}

impl Scanner<'_> {
    fn first(&mut self) -> Option<Syntax> {
        while let Some(c) = self.chars.next() {
            let is_blank = matches!(c, ' ' | '\t' | '\n');
            if is_blank {
                self.end_word();
                self.line_ended |= c == '\n' && self.has_program;
            } else if c == '#' && self.word.is_none() {
                return Some(Syntax::Comment);
            } else if !self.is_continuation(c)
                && let Some(found) = self.in_word(c)
            {
                return Some(found);
            }
        }
        None
    }

    /// The syntax that a character of a word begins, if a shell would act on it.
    fn in_word(&mut self, c: char) -> Option<Syntax> {
        if self.word.is_none() && self.line_ended {
            return Some(Syntax::LineEnd);
        }
        if let Some(found) = self.pattern(c) {
            return Some(found);
        }
        let word = self.word.get_or_insert_default();
        match c {
            '\'' | '"' | '\\' => {
                word.is_quoted = true;
                return self.in_quotes(c);
            }
            '<' | '>' | '|' | '&' | ';' => return Some(Syntax::Operator(self.operator(c))),
            '`' => return Some(Syntax::Expansion("`".to_owned())),
            '$' if self.chars.peek().is_some_and(|next| is_expanded(*next)) => {
                return Some(Syntax::Expansion(self.expansion()));
            }
            '=' if !self.has_program && !word.is_quoted && is_name(&word.text) => {
                return Some(Syntax::Assignment(word.text.clone()));
            }
            c => word.text.push(c),
        }
        None
    }

    /// Patterns of file names, tildes, lists in braces, and parentheses.
    fn pattern(&self, c: char) -> Option<Syntax> {
        match c {
            '*' | '?' => Some(Syntax::Expansion(c.to_string())),
            '~' if self.word.is_none() => Some(Syntax::Expansion(c.to_string())),
            '(' | ')' => Some(Syntax::Operator(c.to_string())),
            '[' => self.enclosed('[', ']').filter(|set| set.len() > 2).map(Syntax::Expansion),
            '{' => self.enclosed('{', '}').filter(|list| is_brace_list(list)).map(Syntax::Braces),
            _ => None,
        }
    }

    fn end_word(&mut self) {
        self.has_program |= self.word.take().is_some();
    }

    /// A backslash at the end of a line joins it with the next.
    fn is_continuation(&mut self, c: char) -> bool {
        c == '\\' && self.chars.next_if_eq(&'\n').is_some()
    }

    /// The rest of the word up to a bracket that closes, with both brackets.
    fn enclosed(&self, opening: char, closing: char) -> Option<String> {
        let rest: String = self.chars.clone().take_while(|c| !matches!(c, ' ' | '\t' | '\n')).collect();
        let end = rest.find(closing)?;
        Some(format!("{opening}{}{closing}", &rest[..end]))
    }

    /// Skips what a quote or a backslash quotes; what a shell would expand in double quotes is found.
    fn in_quotes(&mut self, quote: char) -> Option<Syntax> {
        if quote == '\\' {
            self.chars.next();
            return None;
        }
        let is_double = quote == '"';
        while let Some(c) = self.chars.next() {
            match c {
                '\\' if is_double => drop(self.chars.next()),
                '`' if is_double => return Some(Syntax::QuotedExpansion("`".to_owned())),
                '$' if is_double && self.chars.peek().is_some_and(|next| is_expanded_in_quotes(*next)) => {
                    return Some(Syntax::QuotedExpansion(self.expansion()));
                }
                c if c == quote => return None,
                _ => {}
            }
        }
        None
    }

    /// An operator with the number of a descriptor before it.
    fn operator(&mut self, first: char) -> String {
        let before = self.word.take().filter(|word| !word.is_quoted).map(|word| word.text);
        let is_number = |text: &String| text.chars().all(|c| c.is_ascii_digit());
        let mut operator =
            before.filter(|text| matches!(first, '<' | '>') && is_number(text)).unwrap_or_default();
        operator.push(first);
        while let Some(c) = self.chars.next_if(|c| matches!(c, '<' | '>' | '|' | '&' | ';')) {
            operator.push(c);
        }
        // The descriptor that is copied, as in `2>&1`.
        let copies = operator.ends_with(">&") || operator.ends_with("<&");
        while copies && let Some(c) = self.chars.next_if(|c| c.is_ascii_digit() || *c == '-') {
            operator.push(c);
        }
        operator
    }

    /// A dollar and the name behind it, or the first character.
    fn expansion(&mut self) -> String {
        let mut expansion = "$".to_owned();
        while let Some(c) = self.chars.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
            expansion.push(c);
        }
        if expansion.len() == 1 {
            expansion.extend(self.chars.next());
        }
        expansion
    }
}

/// Whether a shell expands a dollar before this.
fn is_expanded(next: char) -> bool {
    next.is_ascii_alphanumeric() || "_{('\"@*#?!$-".contains(next)
}

/// The same between double quotes, where other quotes after it are no quotes, or the end.
fn is_expanded_in_quotes(next: char) -> bool {
    is_expanded(next) && !matches!(next, '\'' | '"')
}

/// Whether bash makes several words of a text in braces.
fn is_brace_list(text: &str) -> bool {
    let inner = &text[1..text.len() - 1];
    inner.contains(',') || inner.split_once("..").is_some_and(|(a, b)| !a.is_empty() && !b.is_empty())
}

fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    let begins = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    begins && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operator(text: &str) -> Option<Syntax> {
        Some(Syntax::Operator(text.to_owned()))
    }

    #[test]
    fn operators_are_found_as_words_and_within() {
        for (text, found) in [
            ("a < x", "<"),
            ("a <x", "<"),
            ("a > x", ">"),
            ("a >> x", ">>"),
            ("a>x", ">"),
            ("a 2> x", "2>"),
            ("a 2>/dev/null", "2>"),
            ("a b2>x", ">"),
            ("a x 2>&1", "2>&1"),
            ("a x >&2 y", ">&2"),
            ("a 2>&-", "2>&-"),
            ("a 2>&1|b", "2>&1"),
            ("(ls)", "("),
            ("f() a", "("),
            ("a )", ")"),
            ("a &> x", "&>"),
            ("a << END", "<<"),
            ("a | b", "|"),
            ("a|b", "|"),
            ("a && b", "&&"),
            ("a || b", "||"),
            ("a; b", ";"),
            ("a ;", ";"),
            ("a &", "&"),
            ("curl http://x/y&b=2", "&"),
        ] {
            assert_eq!(first(text), operator(found), "{text}");
        }
    }

    #[test]
    fn what_is_quoted_is_an_argument() {
        for text in [
            "a '<' x",
            "a \"<\" x",
            r"a \< x",
            "a '|' \"&&\" ';' '$X' '`b`' '*' \"*?[a]\" '~' '#' '{a,b}' \"(\"",
            r#"a "\$X" "\`b\`" "x$" "$" "$ x" "$'x'""#,
            r"a \* \? \[a] \~ \{a,b} \# \( \)",
            r#"sh -c "a \" > b""#,
            "sh -c 'a > b; c | d && e'",
            r"find . -name x -exec y {} \;",
            "awk '{print $1}' f",
            "'FOO=1' a",
            "FOO'='1 a",
            r"a \'x\' y",
        ] {
            assert_eq!(first(text), None, "{text}");
        }
        assert_eq!(first("a 'x' > y"), operator(">"), "behind a quote");
        assert_eq!(first(r"a \\> y"), operator(">"), "the backslash is quoted, not the operator");
        assert_eq!(first("a '1'> y"), operator(">"), "a quoted number is no descriptor");
    }

    #[test]
    fn what_no_shell_would_act_on_is_an_argument() {
        for text in [
            "a",
            "grep foo$ f",
            "grep $ f",
            "xz -T{n} -kc f",
            "[ -e x ]",
            "a [] {} {n} x{n}y --opt={x} {..} HEAD~5 a=~b %d a:b c#d",
            "env FOO=1 a",
            "a FOO=1 --x=y",
            "./FOO=1",
            "dd if=x of=y",
            "=x",
            "1=2 a",
            "a\n",
            "\n a \n \n",
            "a \\\n b",
        ] {
            assert_eq!(first(text), None, "{text:?}");
        }
    }

    #[test]
    fn assignments_expansions_and_line_ends_are_found() {
        let assignment = |name: &str| Some(Syntax::Assignment(name.to_owned()));
        assert_eq!(first("FOO=1 a"), assignment("FOO"));
        assert_eq!(first(" _x1='a b' c"), assignment("_x1"));
        let expansion = |text: &str| Some(Syntax::Expansion(text.to_owned()));
        assert_eq!(first("a $HOME/x"), expansion("$HOME"));
        assert_eq!(first("a x${n}"), expansion("${"));
        assert_eq!(first("a $(b)"), expansion("$("));
        assert_eq!(first("a `b`"), expansion("`"));
        assert_eq!(first("a $?"), expansion("$?"));
        assert_eq!(first("a\nb"), Some(Syntax::LineEnd));
        assert_eq!(first("a # no"), Some(Syntax::Comment));
        assert_eq!(first("# no\na"), Some(Syntax::Comment));
    }

    #[test]
    fn patterns_tildes_and_braces_are_found() {
        for (text, found) in [
            ("ls *.c", "*"),
            ("expr 2 * 3", "*"),
            ("curl http://x/?a=1", "?"),
            ("ls x[0-9]", "[0-9]"),
            ("'a' [!b]*", "[!b]"),
            ("cat ~/x", "~"),
            ("ls ~", "~"),
            ("ls ~root", "~"),
        ] {
            assert_eq!(first(text), Some(Syntax::Expansion(found.to_owned())), "{text}");
        }
        for (text, found) in [("a x{a,b}y", "{a,b}"), ("a {1..3}", "{1..3}"), ("a {,x}", "{,x}")] {
            assert_eq!(first(text), Some(Syntax::Braces(found.to_owned())), "{text}");
        }
    }

    #[test]
    fn double_quotes_do_not_quote_expansions() {
        for (text, found) in [
            ("a \"$HOME\"", "$HOME"),
            ("a x\"y ${n}\"", "${"),
            ("a \"$(b)\"", "$("),
            ("a \"`b`\"", "`"),
            (r#"a "\\$x""#, "$x"),
        ] {
            assert_eq!(first(text), Some(Syntax::QuotedExpansion(found.to_owned())), "{text}");
        }
    }
}

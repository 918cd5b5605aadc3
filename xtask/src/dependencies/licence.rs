//! Expressions of licences.
//!
//! # Source
//!
//! SPDX 2.3, annex D. A slash is an older form of `OR`, which crates.io still has.

/// Whether an expression can be met with allowed licences. A text that is no expression cannot.
pub(super) fn is_allowed(expression: &str, allowed: &dyn Fn(&str) -> bool) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut reader = LicenceReader { words: spaced.split_whitespace().collect(), next: 0, allowed };
    let verdict = reader.any();
    verdict == Some(true) && reader.next == reader.words.len()
}

struct LicenceReader<'a> {
    words: Vec<&'a str>,
    next: usize,
    allowed: &'a dyn Fn(&str) -> bool,
}

impl<'a> LicenceReader<'a> {
    fn take(&mut self) -> Option<&'a str> {
        let word = self.words.get(self.next).copied()?;
        self.next += 1;
        Some(word)
    }

    fn takes(&mut self, word: &str) -> bool {
        let is_next = self.words.get(self.next) == Some(&word);
        self.next += usize::from(is_next);
        is_next
    }

    /// Alternatives: one of them is enough.
    fn any(&mut self) -> Option<bool> {
        let mut verdict = self.every()?;
        while self.takes("OR") {
            verdict |= self.every()?;
        }
        Some(verdict)
    }

    fn every(&mut self) -> Option<bool> {
        let mut verdict = self.one()?;
        while self.takes("AND") {
            verdict &= self.one()?;
        }
        Some(verdict)
    }

    fn one(&mut self) -> Option<bool> {
        if self.takes("(") {
            let verdict = self.any()?;
            return self.takes(")").then_some(verdict);
        }
        let id = self.take().filter(|word| !["OR", "AND", "WITH", ")"].contains(word))?;
        if self.takes("WITH") {
            let exception = self.take()?;
            return Some((self.allowed)(&format!("{id} WITH {exception}")));
        }
        Some((self.allowed)(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_need_one_allowed_licence_and_conjunctions_all() {
        let allowed = |id: &str| ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"].contains(&id);
        for (expression, expected) in [
            ("MIT", true),
            ("MIT/Apache-2.0", true),
            ("GPL-3.0 OR MIT", true),
            ("GPL-3.0 AND MIT", false),
            ("(MIT OR GPL-3.0) AND Apache-2.0", true),
            ("(MIT OR Apache-2.0) AND GPL-3.0", false),
            ("Apache-2.0 WITH LLVM-exception OR GPL-3.0", true),
            ("GPL-3.0 WITH LLVM-exception", false),
            ("", false),
            ("MIT OR", false),
            ("(MIT", false),
            ("MIT)", false),
            ("MIT MIT", false),
        ] {
            assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
        }
    }
}

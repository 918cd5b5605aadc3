//! Scenarios: files whose lines are a word and its arguments. `#` begins a comment.

use std::fmt;

/// A line that is none of a scenario.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScenarioError {
    /// Its number, from 1 on.
    pub line: usize,
    /// Its text.
    pub text: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} is none of a scenario: {}", self.line, self.text)
    }
}

impl std::error::Error for ScenarioError {}

/// Reads a scenario: `add` adds the words of a line, or has `None` for what is no line.
///
/// # Errors
///
/// The first line that is none.
pub fn read<S: Default>(
    text: &str,
    mut add: impl FnMut(&mut S, &[&str]) -> Option<()>,
) -> Result<S, ScenarioError> {
    let mut scenario = S::default();
    for (i, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split('#').next().unwrap_or("").split_whitespace().collect();
        if !words.is_empty() && add(&mut scenario, &words).is_none() {
            return Err(ScenarioError { line: i + 1, text: line.to_owned() });
        }
    }
    Ok(scenario)
}

/// The number of the call that fails, from 1 on: `Some(None)` for `always`, each call.
pub fn nth_call(word: &str) -> Option<Option<u64>> {
    match word {
        "always" => Some(None),
        number => Some(Some(number.parse().ok()?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_blank_lines_say_nothing_and_a_line_that_is_none_is_named() {
        let add = |all: &mut Vec<String>, words: &[&str]| match words {
            ["no", ..] => None,
            words => {
                all.push(words.join("+"));
                Some(())
            }
        };
        let found = read("# all\n\n a  b # c\nd\n", add);
        assert_eq!(found, Ok(vec!["a+b".to_owned(), "d".to_owned()]));
        let error = read("a\n\nno b\nno c\n", add).unwrap_err();
        assert_eq!(error.to_string(), "line 3 is none of a scenario: no b");
        assert_eq!([nth_call("always"), nth_call("3"), nth_call("x")], [Some(None), Some(Some(3)), None]);
    }
}

//! The rules of `deny.toml`, as far as this check knows them: allowed licences, exceptions, skipped versions.

use anyhow::{Result, ensure};

/// The rules.
pub(super) struct DependencyRules {
    licences: Vec<String>,
    /// A crate, and a licence that it alone may have.
    exceptions: Vec<(String, String)>,
    /// A crate and a version that may stand beside another.
    skipped: Vec<(String, String)>,
}

impl DependencyRules {
    /// Reads the file: arrays with one element a line.
    pub(super) fn parse(text: &str) -> Result<DependencyRules> {
        let mut rules = DependencyRules { licences: Vec::new(), exceptions: Vec::new(), skipped: Vec::new() };
        let mut array = "";
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            match (line.strip_suffix(" = ["), array) {
                (Some(name), _) => array = name,
                (None, _) if line == "]" => array = "",
                (None, "allow") => rules.licences.extend(quoted(line).first().cloned()),
                (None, "exceptions") => match &quoted(line)[..] {
                    [name, licence] => rules.exceptions.push((name.clone(), licence.clone())),
                    _ => ensure!(line.is_empty(), "deny.toml: no exception: {line}"),
                },
                (None, "skip") => {
                    let words = quoted(line);
                    let version = words.first().and_then(|word| word.split_once('@'));
                    ensure!(version.is_some() || line.is_empty(), "deny.toml: no crate@version: {line}");
                    rules
                        .skipped
                        .extend(version.map(|(name, version)| (name.to_owned(), version.to_owned())));
                }
                _ => {}
            }
        }
        ensure!(!rules.licences.is_empty(), "deny.toml allows no licence");
        Ok(rules)
    }

    /// Whether a crate may have a licence.
    pub(super) fn allows(&self, name: &str, licence: &str) -> bool {
        self.licences.iter().any(|allowed| allowed == licence)
            || self.exceptions.iter().any(|(of, allowed)| of == name && allowed == licence)
    }

    /// Whether a version may stand beside another.
    pub(super) fn skips(&self, name: &str, version: &str) -> bool {
        self.skipped().any(|skipped| skipped == (name, version))
    }

    pub(super) fn skipped(&self) -> impl Iterator<Item = (&str, &str)> {
        self.skipped.iter().map(|(name, version)| (name.as_str(), version.as_str()))
    }
}

/// The texts in quotation marks of a line.
fn quoted(line: &str) -> Vec<String> {
    line.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_of_the_project_are_read() {
        let rules = DependencyRules::parse(include_str!("../../../deny.toml")).unwrap();
        assert!(rules.allows("any", "MIT") && !rules.allows("any", "MPL-2.0"));
        assert!(rules.allows("cbindgen", "MPL-2.0"));
        assert!(rules.skipped().count() > 0);
    }

    #[test]
    fn a_line_that_is_no_rule_is_named() {
        let error = |text| DependencyRules::parse(text).err().unwrap().to_string();
        assert_eq!(error("x = 1"), "deny.toml allows no licence");
        assert_eq!(error("skip = [\n\"syn\",\n]"), "deny.toml: no crate@version: \"syn\",");
        assert_eq!(
            error("exceptions = [\n{ crate = \"x\" },\n]"),
            "deny.toml: no exception: { crate = \"x\" },"
        );
    }
}

//! Links between the project's pages.

use std::fs;
use std::path::Path;

use super::Violations;

/// Links between the project's pages lead somewhere, and the pages exist.
pub(super) fn check(root: &Path, found: &mut Violations) {
    for name in [
        "README.md",
        "ARCHITECTURE.md",
        "PLATFORM.md",
        "DESIGN.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "NOTICE",
    ] {
        match fs::read_to_string(root.join(name)) {
            Ok(text) => links(root, name, &text, found),
            Err(_) => found.add(format!("{name} is missing")),
        }
    }
}

fn links(root: &Path, page: &str, text: &str, found: &mut Violations) {
    for rest in text.split("](").skip(1) {
        let target = rest.split([')', '#']).next().unwrap_or_default();
        let elsewhere = target.is_empty() || target.contains("://");
        if !elsewhere && !root.join(target).exists() {
            found.add(format!("{page} links to {target}, which does not exist"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_nowhere_is_found() {
        let mut found = Violations::default();
        links(&crate::root(), "README.md", "[a](Cargo.toml) [b](nowhere.md) [c](https://x.org)", &mut found);
        assert_eq!(found.0, ["README.md links to nowhere.md, which does not exist"]);
    }
}

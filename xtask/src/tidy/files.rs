//! The Rust files that tidy checks read.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Folders with Rust packages.
const FOLDERS: &[&str] = &["benches", "bindings", "crates", "fuzz", "tests", "xtask"];

/// Folders of build outputs.
const OUTPUTS: &[&str] = &["target"];

/// One Rust file.
pub(super) struct SourceFile {
    /// Its path from the root, with `/` between folders.
    pub path: String,
    pub text: String,
}

impl SourceFile {
    /// The package's folder and the file's path below its `src`; nothing for packages of tests and of loads.
    pub fn package(&self) -> Option<(&str, &str)> {
        let (package, inside) = self.path.split_once("/src/")?;
        let ours = match package.split_once('/') {
            Some((folder, name)) => ["bindings", "crates"].contains(&folder) && !name.contains('/'),
            None => ["benches", "xtask"].contains(&package),
        };
        ours.then_some((package, inside))
    }

    /// The text of the shipped code: nothing of files of tests, the part before the unit tests of the others.
    pub fn shipped(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        let test = ["tests.rs", "testing.rs"].contains(&name)
            || name.ends_with("_tests.rs")
            || self.path.contains("/tests/")
            || self.path.starts_with("tests/");
        if test { "" } else { without_tests(&self.text) }
    }
}

/// All Rust files of the project, by path.
pub(super) fn all(root: &Path) -> Result<Vec<SourceFile>> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        for file in rust_files(&root.join(folder))? {
            let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            files.push(SourceFile { path: relative(root, &file), text });
        }
    }
    Ok(files)
}

/// The path of a file from the root.
pub(super) fn relative(root: &Path, file: &Path) -> String {
    file.strip_prefix(root).unwrap_or(file).display().to_string()
}

/// The Rust files below a folder, sorted.
pub(super) fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            if !OUTPUTS.iter().any(|output| entry.file_name() == *output) {
                files.extend(rust_files(&path)?);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The text before the unit tests at a file's end.
pub(super) fn without_tests(text: &str) -> &str {
    text.split_once("#[cfg(test)]\nmod tests {").map_or(text, |(code, _)| code)
}

/// The text of a comment line without its marker; nothing for a line of code.
pub(super) fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    ["///", "//!", "//"].iter().find_map(|marker| line.strip_prefix(marker)).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn shipped_code_ends_before_the_unit_tests() {
        let text = "struct A;\n#[cfg(test)]\nmod tests {\nstruct B;\n}";
        assert_eq!(file("crates/a/src/a.rs", text).shipped(), "struct A;\n");
    }

    #[test]
    fn files_of_tests_are_not_shipped() {
        for path in [
            "crates/a/tests/a.rs",
            "crates/a/src/b/tests.rs",
            "crates/a/src/page_tests.rs",
            "tests/guests/a.rs",
        ] {
            assert_eq!(file(path, "struct A;").shipped(), "", "{path}");
        }
    }

    #[test]
    fn packages_are_those_that_are_shipped_or_used_for_work_on_the_project() {
        assert_eq!(file("crates/a/src/b/c.rs", "").package(), Some(("crates/a", "b/c.rs")));
        assert_eq!(file("xtask/src/main.rs", "").package(), Some(("xtask", "main.rs")));
        for path in ["tests/guests/inside/src/a.rs", "xtask/corpus/crate/src/load.rs", "crates/a/tests/b.rs"]
        {
            assert_eq!(file(path, "").package(), None, "{path}");
        }
    }

    #[test]
    fn build_outputs_are_not_read() {
        let root = tempfile::tempdir().unwrap();
        for path in ["a/src", "a/target"] {
            fs::create_dir_all(root.path().join(path)).unwrap();
            fs::write(root.path().join(path).join("a.rs"), "").unwrap();
        }
        assert_eq!(rust_files(root.path()).unwrap(), [root.path().join("a/src/a.rs")]);
    }

    #[test]
    fn a_comment_is_a_line_that_begins_with_slashes() {
        assert_eq!(comment("    /// One."), Some("One."));
        assert_eq!(comment("//! Two."), Some("Two."));
        assert_eq!(comment("//Three."), Some("Three."));
        assert_eq!(comment("let a = 1; // four"), None);
    }
}

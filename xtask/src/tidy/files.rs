//! The Rust files that tidy checks read.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::syntax::{ModDeclaration, SourceSyntax};

/// Folders with Rust packages.
const FOLDERS: &[&str] = &["benches", "bindings", "crates", "fuzz", "tests", "xtask"];

/// Folders of build outputs.
const OUTPUTS: &[&str] = &["target"];

/// One Rust file.
pub(super) struct SourceFile {
    /// Its path from the root, with `/` between folders.
    pub path: String,
    pub text: String,
    syntax: SourceSyntax,
    is_test: bool,
}

impl SourceFile {
    /// A file by itself; [`all`] knows which files are modules of tests.
    pub fn new(path: &str, text: &str) -> Result<SourceFile> {
        let is_test = path.contains("/tests/") || path.starts_with("tests/");
        let syntax = match is_test {
            true => SourceSyntax::default(),
            false => SourceSyntax::of(text).with_context(|| path.to_owned())?,
        };
        Ok(SourceFile { path: path.to_owned(), text: text.to_owned(), syntax, is_test })
    }

    /// The package's folder and the file's path below its `src`; nothing for packages of tests and of loads.
    pub fn package(&self) -> Option<(&str, &str)> {
        let (package, inside) = self.path.split_once("/src/")?;
        let ours = match package.split_once('/') {
            Some((folder, name)) => ["bindings", "crates"].contains(&folder) && !name.contains('/'),
            None => ["benches", "xtask"].contains(&package),
        };
        ours.then_some((package, inside))
    }

    /// The text of the shipped code: nothing of files of tests, and no unit tests of the others.
    pub fn shipped(&self) -> &str {
        if self.is_test { "" } else { &self.syntax.shipped }
    }

    /// The types that the shipped code defines.
    pub fn types(&self) -> &[String] {
        if self.is_test { &[] } else { &self.syntax.types }
    }

    /// The modules of this file that are in other files.
    pub fn declarations(&self) -> &[ModDeclaration] {
        &self.syntax.declarations
    }

    /// The path without its ending of the file of a module that this file declares.
    fn path_of(&self, module: &ModDeclaration) -> String {
        let (folder, name) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        match (&module.path, name) {
            (Some(path), _) => format!("{folder}/{}", path.trim_end_matches(".rs")),
            (None, "lib.rs" | "main.rs" | "mod.rs") => format!("{folder}/{}", module.name),
            (None, _) => format!("{}/{}", self.path.trim_end_matches(".rs"), module.name),
        }
    }
}

/// All Rust files of the project, by path.
pub(super) fn all(root: &Path) -> Result<Vec<SourceFile>> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        for file in rust_files(&root.join(folder))? {
            let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            files.push(SourceFile::new(&relative(root, &file), &text)?);
        }
    }
    mark_tests(&mut files);
    Ok(files)
}

/// Marks the files of modules of tests, and of the modules below them.
fn mark_tests(files: &mut [SourceFile]) {
    let tests: Vec<String> = files
        .iter()
        .flat_map(|file| {
            file.declarations().iter().filter(|module| module.is_test).map(|module| file.path_of(module))
        })
        .collect();
    for file in files {
        let below = |module: &String| {
            file.path.strip_prefix(module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        };
        file.is_test |= tests.iter().any(below);
    }
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

/// The text of a comment line without its marker; nothing for a line of code.
pub(super) fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    ["///", "//!", "//"].iter().find_map(|marker| line.strip_prefix(marker)).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile::new(path, text).unwrap()
    }

    #[test]
    fn integration_tests_are_not_shipped() {
        for path in ["crates/a/tests/a.rs", "tests/guests/a.rs"] {
            assert_eq!(file(path, "struct A;").shipped(), "", "{path}");
        }
    }

    #[test]
    fn a_file_is_of_tests_if_its_module_is() {
        let mut files = [
            ("crates/a/src/lib.rs", "mod b;\n#[cfg(test)]\nmod golden;\nmod tests;"),
            ("crates/a/src/b.rs", "#[cfg(test)]\nmod tests;\n#[cfg(test)]\n#[path = \"c_tests.rs\"]\nmod c;"),
            ("crates/a/src/b/tests.rs", "struct A;"),
            ("crates/a/src/c_tests.rs", "struct A;"),
            ("crates/a/src/golden/mod.rs", "mod inner;"),
            ("crates/a/src/golden/inner.rs", "struct A;"),
            ("crates/a/src/golden_files.rs", "struct A;"),
            ("crates/a/src/tests.rs", "struct A;"),
        ]
        .map(|(path, text)| file(path, text));
        mark_tests(&mut files);
        let shipped: Vec<&str> =
            files.iter().filter(|file| !file.shipped().is_empty()).map(|file| file.path.as_str()).collect();
        assert_eq!(
            shipped,
            [
                "crates/a/src/lib.rs",
                "crates/a/src/b.rs",
                "crates/a/src/golden_files.rs",
                "crates/a/src/tests.rs"
            ]
        );
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

//! Files of `tests` that are in no test program.
//!
//! The test files of most crates are modules of one program, `tests/main.rs`, so cargo does not look for them
//! (`autotests = false`). A file that no program names would never be compiled.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::Violations;

/// The folders that have packages as folders.
const PACKAGES: [&str; 3] = ["bindings", "crates", "tests"];

/// Finds files of `tests` that are neither a program in the manifest nor a module of `tests/main.rs`.
pub(super) fn findings(root: &Path, found: &mut Violations) -> Result<()> {
    for folder in PACKAGES {
        for entry in fs::read_dir(root.join(folder)).with_context(|| folder.to_owned())? {
            let package = entry?.path();
            let manifest = fs::read_to_string(package.join("Cargo.toml")).unwrap_or_default();
            let names = rust_files(&package.join("tests"))?;
            let modules = fs::read_to_string(package.join("tests/main.rs")).unwrap_or_default();
            for name in lost(&manifest, &modules, &names) {
                let path = package.strip_prefix(root).unwrap_or(&package).join("tests").join(&name);
                found.add(format!(
                    "{} is in no test program: name it in tests/main.rs, or as [[test]] in Cargo.toml",
                    path.display()
                ));
            }
        }
    }
    Ok(())
}

/// The names of Rust files and of folders with a `main.rs`; none where there is no such folder.
fn rust_files(folder: &Path) -> Result<Vec<String>> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(Vec::new()) };
    let mut names = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.join("main.rs").is_file() {
            names.push(format!("{name}/main.rs"));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// The files that cargo does not compile.
fn lost(manifest: &str, modules: &str, names: &[String]) -> Vec<String> {
    if !manifest.lines().any(|line| line.trim() == "autotests = false") {
        return Vec::new();
    }
    let is_program = |name: &String| manifest.contains(&format!("path = \"tests/{name}\""));
    let is_module = |name: &String| {
        let declaration = format!("mod {};", name.trim_end_matches(".rs"));
        modules.lines().any(|line| line == declaration)
    };
    names.iter().filter(|name| !is_program(name) && !is_module(name)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "autotests = false\n[[test]]\nname = \"main\"\npath = \"tests/main.rs\"\n";

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_file_that_no_test_program_names_is_found() {
        let all = names(&["main.rs", "stat.rs", "new.rs", "windows/main.rs"]);
        assert_eq!(lost(MANIFEST, "mod stat;\n", &all), ["new.rs", "windows/main.rs"]);
        let manifest = format!("{MANIFEST}[[test]]\npath = \"tests/windows/main.rs\"\n");
        assert_eq!(lost(&manifest, "mod stat;\n#[cfg(unix)]\nmod new;\n", &all), names(&[]));
    }

    #[test]
    fn a_module_in_a_comment_is_none() {
        assert_eq!(lost(MANIFEST, "// mod new;\n", &names(&["new.rs"])), ["new.rs"]);
    }

    #[test]
    fn cargo_finds_the_files_of_other_packages() {
        assert!(lost("[package]\n", "", &names(&["new.rs"])).is_empty());
    }
}

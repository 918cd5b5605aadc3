//! Modules of a package, from its files and `#[path]` attributes.
//!
//! Files that stand for each other on different platforms are one module:
//!
//! ```text
//! #[cfg(unix)] mod memory;                                memory.rs        ┐
//! #[cfg(not(unix))] #[path = "memory_other.rs"] mod memory;  memory_other.rs  ┘ module `memory`
//! ```

use std::collections::HashMap;

use super::files::SourceFile;

/// The path of a module inside its package: empty for the crate's root.
pub(super) type ModulePath = Vec<String>;

/// The module of each file of one package, in the files' order; the files are below the package's `src`.
pub(super) fn of_files(files: &[&SourceFile]) -> Vec<ModulePath> {
    let names = declared_names(files);
    files
        .iter()
        .map(|file| match names.get(file.path.as_str()) {
            Some(module) => module.clone(),
            None => by_file_name(file),
        })
        .collect()
}

/// The modules of files that a `#[path]` attribute names, by the files' paths.
fn declared_names(files: &[&SourceFile]) -> HashMap<String, ModulePath> {
    let mut names = HashMap::new();
    for file in files {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for declaration in file.declarations() {
            let Some(path) = &declaration.path else { continue };
            let mut module = by_file_name(file);
            module.push(declaration.name.clone());
            names.insert(format!("{folder}/{path}"), module);
        }
    }
    names
}

fn by_file_name(file: &SourceFile) -> ModulePath {
    let inside = file.package().map_or(file.path.as_str(), |(_, inside)| inside);
    let mut module: ModulePath = inside.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    let root = module.len() == 1 && ["lib", "main"].contains(&module[0].as_str());
    if root || module.last().is_some_and(|name| name == "mod") {
        module.pop();
    }
    module
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let files: Vec<SourceFile> = files
            .iter()
            .map(|(path, text)| SourceFile::new(&format!("crates/a/src/{path}"), text).unwrap())
            .collect();
        let modules = of_files(&files.iter().collect::<Vec<_>>());
        assert_eq!(modules.iter().map(|module| module.join("::")).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn modules_are_named_by_their_files() {
        check(&[("lib.rs", ""), ("a.rs", ""), ("a/mod.rs", ""), ("a/b.rs", "")], &["", "a", "a", "a::b"]);
    }

    #[test]
    fn files_of_other_platforms_are_the_module_that_declares_them() {
        let declarations =
            "#[cfg(unix)]\nmod memory;\n#[cfg(not(unix))]\n#[path = \"memory_other.rs\"]\nmod memory;\n";
        check(
            &[("lib.rs", declarations), ("memory.rs", ""), ("memory_other.rs", "")],
            &["", "memory", "memory"],
        );
        let declarations = "#[path = \"none.rs\"]\npub(crate) mod code;\n";
        check(&[("read/mod.rs", declarations), ("read/none.rs", "")], &["read", "read::code"]);
    }
}

//! The licence texts of the crates in a program, in one file: most licences want their text to go with
//! copies.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use super::sbom::{Ingredient, Ingredients};
use crate::command::output;

/// How the files begin that hold a licence or a notice.
const BEGINNINGS: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "COPYRIGHT"];

/// The notice that the licence of the C library in a static program requires.
const C_LIBRARY: &str = "The programs are linked statically with the GNU C Library, which is under the GNU Lesser General \
Public License,\nversion 2.1 or later. It is that of Debian, which has its source and licence (package glibc). The \
source of the\nprograms is public; `cargo xtask dist` in it links the programs with another version of the library.\n";

/// The text of the file, for the crates from elsewhere.
pub(super) fn texts<'a>(programs: impl IntoIterator<Item = &'a Ingredients>) -> Result<String> {
    let folders = folders()?;
    let mut text = format!("Parts of cyclometer that others wrote\n\n{C_LIBRARY}");
    let all: BTreeSet<&Ingredient> = programs.into_iter().flat_map(|crates| &crates.all).collect();
    for it in all {
        let Some(folder) = folders.get(&(it.name.clone(), it.version.clone())) else { continue };
        text.push_str(&entry(it, &files(folder)?));
    }
    Ok(text)
}

/// The folders of all crates from elsewhere, by name and version.
fn folders() -> Result<BTreeMap<(String, String), PathBuf>> {
    let metadata = output("cargo", &["metadata", "--locked", "--format-version", "1"])?;
    let metadata: Value = serde_json::from_str(&metadata).context("cargo metadata prints no JSON")?;
    let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
    let elsewhere = packages.iter().filter(|package| package["source"].is_string());
    let folder = |package: &Value| {
        let text = |key: &str| package[key].as_str().map(str::to_owned);
        let folder = Path::new(&text("manifest_path")?).parent()?.to_path_buf();
        Some(((text("name")?, text("version")?), folder))
    };
    Ok(elsewhere.filter_map(folder).collect())
}

/// The licence files of a folder and their texts, in the order of their names.
fn files(folder: &Path) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for file in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let file = file?;
        let name = file.file_name().to_string_lossy().into_owned();
        let is_text = BEGINNINGS.iter().any(|beginning| name.to_uppercase().starts_with(beginning));
        if is_text && file.file_type()?.is_file() {
            found.insert(name, String::from_utf8_lossy(&fs::read(file.path())?).into_owned());
        }
    }
    Ok(found)
}

fn entry(it: &Ingredient, files: &BTreeMap<String, String>) -> String {
    let mut text = format!("\n{}\n{} {}: {}\n", "=".repeat(80), it.name, it.version, it.licence);
    if files.is_empty() {
        text.push_str("\nThe crate has no file with a licence text.\n");
    }
    for (name, content) in files {
        text.push_str(&format!("\n--- {name}\n\n{}\n", content.trim_end()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licence_files_are_found_by_their_names() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["LICENSE-MIT", "license-apache", "COPYING", "lib.rs", "README.md"] {
            fs::write(folder.path().join(name), format!("text of {name}\n")).unwrap();
        }
        fs::create_dir(folder.path().join("LICENSES")).unwrap();
        let found: Vec<String> = files(folder.path()).unwrap().into_keys().collect();
        assert_eq!(found, ["COPYING", "LICENSE-MIT", "license-apache"]);
        assert!(files(&folder.path().join("nowhere")).is_err());
    }

    #[test]
    fn a_crate_without_a_licence_text_is_named() {
        let it = Ingredient { name: "a".to_owned(), version: "1.0.0".to_owned(), licence: "MIT".to_owned() };
        assert!(entry(&it, &BTreeMap::new()).contains("a 1.0.0: MIT\n\nThe crate has no file"));
        let files = BTreeMap::from([("LICENSE".to_owned(), "Permission\n".to_owned())]);
        assert!(entry(&it, &files).ends_with("a 1.0.0: MIT\n\n--- LICENSE\n\nPermission\n"));
    }
}

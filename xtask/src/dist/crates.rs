//! The crates as crates.io would take them.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::dependents::{self, PublishedCrate};
use crate::command::{cargo, output};

/// Packs every crate that is published, and compiles programs that depend on the packages. Nothing is
/// uploaded.
pub(crate) fn package() -> Result<()> {
    let metadata = output("cargo", &["metadata", "--locked", "--no-deps", "--format-version", "1"])?;
    let metadata: Value = serde_json::from_str(&metadata).context("cargo metadata prints no JSON")?;
    let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
    let gaps: Vec<String> = packages.iter().filter(|package| is_published(package)).flat_map(gaps).collect();
    ensure!(gaps.is_empty(), "crates.io refuses: {}", gaps.join("; "));
    let mut args = vec!["package", "--workspace", "--no-verify", "--locked", "--allow-dirty", "--quiet"];
    for package in packages.iter().filter(|package| !is_published(package)) {
        args.extend(["--exclude", package["name"].as_str().unwrap_or_default()]);
    }
    cargo(&args)?;
    let crates: Result<Vec<PublishedCrate>> =
        packages.iter().filter(|package| is_published(package)).map(published).collect();
    let target = metadata["target_directory"].as_str().context("cargo metadata names no target folder")?;
    dependents::check(&crates?, &Path::new(target).join("package"))
}

fn published(package: &Value) -> Result<PublishedCrate> {
    let text = |key: &str| {
        package[key].as_str().map(str::to_owned).with_context(|| format!("a crate without {key}"))
    };
    Ok(PublishedCrate { name: text("name")?, version: text("version")? })
}

/// Whether the manifest lets the crate be published.
fn is_published(package: &Value) -> bool {
    !package["publish"].as_array().is_some_and(Vec::is_empty)
}

/// The fields that crates.io requires and a manifest lacks.
fn gaps(package: &Value) -> Vec<String> {
    let name = package["name"].as_str().unwrap_or("a crate without a name");
    let absent = |key: &&str| package[*key].as_str().is_none_or(str::is_empty);
    ["description", "license"]
        .iter()
        .filter(|key| absent(key))
        .map(|key| format!("{name} has no {key}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_crate_without_a_description_is_refused_before_anything_is_packed() {
        assert_eq!(
            gaps(&json!({ "name": "a", "license": "MIT", "description": "" })),
            ["a has no description"]
        );
        assert_eq!(gaps(&json!({ "name": "b", "description": "x" })), ["b has no license"]);
        assert!(gaps(&json!({ "name": "c", "description": "x", "license": "MIT" })).is_empty());
    }

    #[test]
    fn crates_that_say_so_are_not_published() {
        assert!(!is_published(&json!({ "publish": [] })));
        assert!(is_published(&json!({ "publish": null })));
    }
}

//! Lock files of the workspaces that `cargo build --locked` in the root does not read.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::command::cargo_command;
use crate::root;

/// The manifests of all workspaces. Each has a `Cargo.lock` beside it.
const MANIFESTS: [&str; 3] = ["Cargo.toml", "bindings/python/Cargo.toml", "fuzz/Cargo.toml"];

/// Fails if a lock file does not fit the manifests: a version or a dependency of one of our crates has
/// changed.
pub(super) fn check() -> Result<()> {
    MANIFESTS.iter().try_for_each(|manifest| is_current(&root(), manifest))
}

fn is_current(folder: &Path, manifest: &str) -> Result<()> {
    let arguments = ["metadata", "--locked", "--format-version", "1", "--manifest-path", manifest];
    let out = cargo_command(&arguments).current_dir(folder).output().context("starting cargo")?;
    let lock = manifest.replace(".toml", ".lock");
    ensure!(
        out.status.success(),
        "{lock} cannot be used as it is; if it is out of date, `cargo update --workspace --manifest-path {manifest}` \
         renews it\n{}",
        String::from_utf8_lossy(&out.stderr).trim_end()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_lock_file_with_an_older_version_of_a_crate_is_named_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let manifest = |version: &str| {
            let text = format!(
                "[package]\nname = \"a\"\nversion = \"{version}\"\nedition = \"2024\"\n\n[workspace]\n"
            );
            fs::write(folder.path().join("Cargo.toml"), text).unwrap();
        };
        fs::create_dir(folder.path().join("src")).unwrap();
        fs::write(folder.path().join("src/lib.rs"), "").unwrap();
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"0.1.0\"\n";
        fs::write(folder.path().join("Cargo.lock"), lock).unwrap();
        manifest("0.1.0");
        is_current(folder.path(), "Cargo.toml").unwrap();
        manifest("0.2.0");
        let error = is_current(folder.path(), "Cargo.toml").unwrap_err().to_string();
        assert!(error.starts_with("Cargo.lock cannot be used as it is"), "{error}");
        assert!(
            error.contains("--manifest-path Cargo.toml` renews it") && error.contains("--locked"),
            "{error}"
        );
        assert_eq!(fs::read_to_string(folder.path().join("Cargo.lock")).unwrap(), lock);
    }
}

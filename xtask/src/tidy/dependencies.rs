//! Which crate may depend on which.

use std::fs;
use std::path::Path;

use anyhow::Result;

use super::Violations;

/// For every crate the crates of ours that it may depend on.
const MAY_DEPEND_ON: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("arch", &["core"]),
    ("catalog", &["arch", "core"]),
    ("import", &["core", "catalog"]),
    ("plan", &["core"]),
    ("recording", &["core"]),
    ("stats", &["core"]),
    ("sys", &[]),
    ("detect", &["core", "sys"]),
    ("backend", &["arch", "core", "sys", "sim", "soft"]),
    ("session", &["core", "plan"]),
    ("kernels", &["core"]),
    ("selftest", &["core", "kernels"]),
    ("marker", &["sys"]),
    ("monitor", &["core", "plan", "stats", "sys"]),
    ("sim", &["arch", "core"]),
    ("soft", &["core", "sys"]),
    ("symbols", &["core"]),
    (
        "cyclometer",
        &[
            "arch",
            "core",
            "catalog",
            "import",
            "plan",
            "stats",
            "sys",
            "detect",
            "backend",
            "session",
            "marker",
            "monitor",
            "recording",
            "sim",
            "selftest",
            "symbols",
        ],
    ),
    ("cli", &["cyclometer"]),
];

/// Invariant 1: stages share words, never each other.
pub(super) fn of_crate(folder: &Path, name: &str, found: &mut Violations) -> Result<()> {
    let manifest = fs::read_to_string(folder.join("Cargo.toml"))?;
    let Some((_, allowed)) = MAY_DEPEND_ON.iter().find(|(known, _)| *known == name) else {
        found.add(format!("crates/{name} has no line in MAY_DEPEND_ON"));
        return Ok(());
    };
    if !manifest.contains("[lints]\nworkspace = true") {
        found.add(format!("crates/{name}/Cargo.toml does not take the workspace's lints"));
    }
    for dependency in normal_dependencies(&manifest) {
        if !allowed.contains(&dependency.as_str()) {
            found.add(format!("crates/{name} depends on {dependency}, which its room forbids"));
        }
    }
    Ok(())
}

/// Bindings translate: they depend on the façade alone.
pub(super) fn of_bindings(root: &Path, name: &str, found: &mut Violations) -> Result<()> {
    let manifest = fs::read_to_string(root.join("bindings").join(name).join("Cargo.toml"))?;
    for dependency in normal_dependencies(&manifest) {
        if dependency != "cyclometer" {
            found.add(format!("bindings/{name} depends on {dependency}: bindings know the façade alone"));
        }
    }
    Ok(())
}

/// Our own crates below `[dependencies]`, of all targets or of one, by folder name.
fn normal_dependencies(manifest: &str) -> Vec<String> {
    let mut within = false;
    manifest
        .lines()
        .filter(|line| {
            if line.starts_with('[') {
                within = *line == "[dependencies]"
                    || line.starts_with("[target.") && line.ends_with(".dependencies]");
            }
            within
        })
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter_map(|name| match name {
            "cyclometer" => Some("cyclometer".to_owned()),
            name => name.strip_prefix("cyclometer-").map(str::to_owned),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forbidden_dependency_is_found() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(
            folder.path().join("Cargo.toml"),
            "[dependencies]\ncyclometer-core.workspace = true\ncyclometer-stats.workspace = true\n\n[lints]\nworkspace = true\n",
        )
        .unwrap();
        let mut found = Violations::default();
        of_crate(folder.path(), "plan", &mut found).unwrap();
        assert_eq!(found.0, ["crates/plan depends on stats, which its room forbids"]);
    }

    #[test]
    fn bindings_know_the_facade_alone() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("bindings/python");
        fs::create_dir_all(&folder).unwrap();
        let manifest = "[dependencies]\ncyclometer = \"0\"\ncyclometer-monitor = \"0\"\npyo3 = \"0\"\n";
        fs::write(folder.join("Cargo.toml"), manifest).unwrap();
        let mut found = Violations::default();
        of_bindings(root.path(), "python", &mut found).unwrap();
        assert_eq!(found.0, ["bindings/python depends on monitor: bindings know the façade alone"]);
    }

    #[test]
    fn a_dependency_of_one_target_counts_and_one_of_tests_does_not() {
        let manifest = "[dependencies]\ncyclometer-core.workspace = true\nlibc.workspace = true\n\n\
                        [target.'cfg(unix)'.dependencies]\ncyclometer-sys.workspace = true\n\n\
                        [dev-dependencies]\ncyclometer-plan.workspace = true\n";
        assert_eq!(normal_dependencies(manifest), ["core", "sys"]);
    }
}

//! Which crate may depend on which.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use anyhow::Result;

use super::Violations;

/// For every crate the crates of ours that it may depend on.
const MAY_DEPEND_ON: &[(&str, &[&str])] = &[
    ("core", &[]),
    // Rules are formulas, which `stats` reads.
    ("advise", &["stats"]),
    ("arch", &["core"]),
    ("catalog", &["arch", "core"]),
    ("import", &["core", "catalog"]),
    ("inference", &["core"]),
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
    ("semantics", &["core"]),
    ("sim", &["arch", "core", "semantics"]),
    ("soft", &["core", "sys"]),
    ("sweep", &["arch", "core", "inference", "kernels", "sim"]),
    ("symbols", &["core"]),
    (
        "toolkit",
        &[
            "advise",
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
            "semantics",
            "sim",
            "selftest",
            "symbols",
            "inference",
            "kernels",
            "sweep",
        ],
    ),
    ("cyclometer", &["toolkit"]),
    ("render", &["toolkit"]),
    ("cli", &["render", "toolkit"]),
    ("exporter", &["toolkit"]),
    ("mcp", &["sys"]),
];

/// Crates that never see others, directly or through a dependency, not even in tests: a crate that explains
/// events knows no table of their meaning.
const NEVER_SEES: &[(&str, &[&str])] = &[("inference", &["semantics", "sim"])];

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
    for dependency in dependencies(&manifest, is_normal) {
        if !allowed.contains(&dependency.as_str()) {
            found.add(format!("crates/{name} depends on {dependency}, which its room forbids"));
        }
    }
    for (dependency, hidden) in hidden_dependencies(name, &manifest) {
        found.add(format!(
            "crates/{name} depends on {dependency}, and so sees {hidden}, which is hidden from it"
        ));
    }
    Ok(())
}

/// The dependencies of a crate and of its tests through which it sees a crate that is hidden from it, with
/// that crate.
fn hidden_dependencies(name: &str, manifest: &str) -> Vec<(String, &'static str)> {
    let hidden = NEVER_SEES.iter().find(|(known, _)| *known == name).map_or(&[][..], |(_, hidden)| *hidden);
    let sees = |dependency: &str| hidden.iter().copied().find(|hidden| may_see(dependency, hidden));
    dependencies(manifest, |_| true)
        .into_iter()
        .filter_map(|dependency| sees(&dependency).map(|hidden| (dependency, hidden)))
        .collect()
}

/// Whether a crate is another one, or may depend on it directly or through others.
fn may_see(name: &str, other: &str) -> bool {
    let (mut seen, mut next) = (HashSet::new(), vec![name]);
    while let Some(name) = next.pop() {
        if seen.insert(name) {
            let known = MAY_DEPEND_ON.iter().find(|(known, _)| *known == name);
            next.extend(known.into_iter().flat_map(|(_, allowed)| allowed.iter().copied()));
        }
    }
    seen.contains(other)
}

/// Bindings translate: they depend on the façade, or on the toolkit that it is made of.
pub(super) fn of_bindings(root: &Path, name: &str, found: &mut Violations) -> Result<()> {
    let manifest = fs::read_to_string(root.join("bindings").join(name).join("Cargo.toml"))?;
    for dependency in dependencies(&manifest, is_normal) {
        if !["cyclometer", "toolkit"].contains(&dependency.as_str()) {
            found.add(format!("bindings/{name} depends on {dependency}: bindings know the toolkit alone"));
        }
    }
    Ok(())
}

/// Whether a section has dependencies that are built in, of all targets or of one.
fn is_normal(section: &str) -> bool {
    section == "[dependencies]" || section.starts_with("[target.") && section.ends_with(".dependencies]")
}

/// Our own crates in the sections that are asked for, by folder name.
fn dependencies(manifest: &str, is_wanted: fn(&str) -> bool) -> Vec<String> {
    let mut within = false;
    manifest
        .lines()
        .filter(|line| {
            if line.starts_with('[') {
                within = line.ends_with("dependencies]") && is_wanted(line);
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
    fn what_explains_events_sees_no_truths_through_others_or_in_its_tests() {
        let manifest = "[dependencies]\ncyclometer-core.workspace = true\n\n\
                        [dev-dependencies]\ncyclometer-backend = \"1\"\ncyclometer-semantics = \"1\"\n";
        let seen = hidden_dependencies("inference", manifest);
        assert_eq!(seen, [("backend".to_owned(), "semantics"), ("semantics".to_owned(), "semantics")]);
        assert_eq!(hidden_dependencies("plan", manifest), []);
        for (name, allowed) in MAY_DEPEND_ON.iter().filter(|(name, _)| *name == "inference") {
            assert!(!allowed.iter().any(|allowed| may_see(allowed, "semantics")), "{name}");
        }
    }

    #[test]
    fn bindings_know_the_facade_and_the_toolkit_alone() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("bindings/python");
        fs::create_dir_all(&folder).unwrap();
        let manifest =
            "[dependencies]\ncyclometer-toolkit = \"0\"\ncyclometer-monitor = \"0\"\npyo3 = \"0\"\n";
        fs::write(folder.join("Cargo.toml"), manifest).unwrap();
        let mut found = Violations::default();
        of_bindings(root.path(), "python", &mut found).unwrap();
        assert_eq!(found.0, ["bindings/python depends on monitor: bindings know the toolkit alone"]);
    }

    #[test]
    fn a_dependency_of_one_target_counts_and_one_of_tests_does_not() {
        let manifest = "[dependencies]\ncyclometer-core.workspace = true\nlibc.workspace = true\n\n\
                        [target.'cfg(unix)'.dependencies]\ncyclometer-sys.workspace = true\n\n\
                        [dev-dependencies]\ncyclometer-plan.workspace = true\n";
        assert_eq!(dependencies(manifest, is_normal), ["core", "sys"]);
    }
}

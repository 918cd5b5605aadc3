//! The tidy test: what ARCHITECTURE.md promises about the tree, checked on the files themselves.

mod pages;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// For every crate the crates of ours that it may depend on.
const MAY_DEPEND_ON: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("arch", &["core"]),
    ("catalog", &["arch", "core"]),
    ("import", &["core", "catalog"]),
    ("plan", &["core"]),
    ("stats", &["core"]),
    ("sys", &[]),
    ("detect", &["core", "sys"]),
    ("backend", &["arch", "core", "sys", "sim", "soft"]),
    ("session", &["core", "plan"]),
    ("kernels", &[]),
    ("selftest", &["core", "kernels"]),
    ("marker", &["sys"]),
    ("monitor", &["core", "plan", "stats", "sys"]),
    ("sim", &["arch", "core"]),
    ("soft", &["core", "sys"]),
    (
        "cyclometer",
        &[
            "arch", "core", "catalog", "import", "plan", "stats", "sys", "detect", "backend", "session",
            "marker", "monitor", "sim", "selftest",
        ],
    ),
    ("cli", &["cyclometer"]),
];

/// Bindings to other languages and tools: they translate, and know the façade alone.
const BINDINGS: &[&str] = &["c", "criterion", "python"];

/// Crates with unsafe code.
const UNSAFE: &[&str] = &["sys", "kernels"];

/// Crates that may look at the target, on the lines of modules only.
const TARGETS: &[&str] = &["sys", "detect", "backend", "soft", "kernels", "marker"];

/// Crates without I/O and clock.
const PURE: &[&str] = &["core", "arch", "catalog", "import", "plan", "sim", "soft", "stats"];

/// Folders of theirs that are at the edge all the same.
const NOT_PURE: &[&str] = &["crates/soft/src/host/"];

/// What a pure crate does not contain.
const IMPURE: &[&str] =
    &["std::fs", "std::env", "std::process", "std::net", "std::thread", "Instant::now", "time::SystemTime"];

/// Fails with the list of everything that is out of order.
pub(crate) fn check(root: &Path) -> Result<()> {
    let mut found = Findings::default();
    for name in crate_names(root)? {
        let folder = root.join("crates").join(&name);
        dependencies(&folder, &name, &mut found)?;
        for file in rust_files(&folder)? {
            let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            let at = file.strip_prefix(root).unwrap_or(&file).display().to_string();
            source(&name, &at, &text, &mut found);
        }
    }
    for name in BINDINGS {
        bindings(root, name, &mut found)?;
    }
    documents(root, &mut found)?;
    found.0.extend(pages::findings(root)?);
    found.into_result()
}

#[derive(Default)]
struct Findings(Vec<String>);

impl Findings {
    fn add(&mut self, finding: impl Into<String>) {
        self.0.push(finding.into());
    }

    fn into_result(self) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let mut text = String::new();
        for finding in &self.0 {
            let _ = write!(text, "\n  {finding}");
        }
        bail!("the tree is not tidy:{text}")
    }
}

fn crate_names(root: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root.join("crates"))? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Invariant 1: stages share words, never each other.
fn dependencies(folder: &Path, name: &str, found: &mut Findings) -> Result<()> {
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

/// Bindings translate: they depend on the façade alone, and only that to C has unsafe code of its own.
fn bindings(root: &Path, name: &str, found: &mut Findings) -> Result<()> {
    let folder = root.join("bindings").join(name);
    let manifest = fs::read_to_string(folder.join("Cargo.toml"))?;
    for dependency in normal_dependencies(&manifest) {
        if dependency != "cyclometer" {
            found.add(format!("bindings/{name} depends on {dependency}: bindings know the façade alone"));
        }
    }
    for file in rust_files(&folder.join("src"))? {
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let at = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        // What PyO3 generates allows itself what `deny` forbids.
        let says =
            ["#![forbid(unsafe_code)]", "#![deny(unsafe_code)]"].iter().any(|line| text.contains(line));
        if at.ends_with("src/lib.rs") && name != "c" && !says {
            found.add(format!("{at}: unsafe code is not forbidden"));
        }
        targets(name, &at, without_tests(&text), found);
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

fn source(name: &str, at: &str, text: &str, found: &mut Findings) {
    let test = at.contains("/tests/") || at.contains("/examples/");
    let root_file = at.ends_with("src/lib.rs") || at.ends_with("src/main.rs");
    if root_file && !UNSAFE.contains(&name) && !text.contains("#![forbid(unsafe_code)]") {
        found.add(format!("{at}: no #![forbid(unsafe_code)]"));
    }
    let code = without_tests(text);
    let pure = PURE.contains(&name) && !NOT_PURE.iter().any(|folder| at.starts_with(folder));
    if pure && !test {
        for word in IMPURE {
            if code.contains(word) {
                found.add(format!("{at}: {word} in a crate without I/O and clock"));
            }
        }
    }
    if !test {
        targets(name, at, code, found);
    }
}

/// Invariant: `cfg(target_…)` stands on lines of modules, in the crates at the edge.
fn targets(name: &str, at: &str, text: &str, found: &mut Findings) {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    for (i, line) in lines.iter().enumerate() {
        let asks = line.starts_with("#[cfg(") && line.contains("target_");
        if !asks && !line.contains("cfg!(target_") {
            continue;
        }
        let next = lines[i + 1..].iter().find(|next| !next.starts_with("#[")).copied().unwrap_or("");
        let module = ["mod ", "pub mod ", "pub(crate) mod ", "use ", "pub use ", "pub(crate) use "]
            .iter()
            .any(|start| next.starts_with(start));
        if !asks || !TARGETS.contains(&name) || !module {
            found.add(format!("{at}:{}: the target is asked for outside a line of modules", i + 1));
        }
    }
}

/// The text before the unit tests at a file's end.
fn without_tests(text: &str) -> &str {
    text.split_once("#[cfg(test)]\nmod tests {").map_or(text, |(code, _)| code)
}

/// Links between the project's pages lead somewhere, and the pages exist.
fn documents(root: &Path, found: &mut Findings) -> Result<()> {
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
    Ok(())
}

fn links(root: &Path, page: &str, text: &str, found: &mut Findings) {
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

    fn findings(name: &str, at: &str, text: &str) -> Vec<String> {
        let mut found = Findings::default();
        source(name, at, text, &mut found);
        found.0
    }

    #[test]
    fn the_tree_is_tidy() {
        check(&crate::root()).unwrap();
    }

    #[test]
    fn a_forbidden_dependency_is_found() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(
            folder.path().join("Cargo.toml"),
            "[dependencies]\ncyclometer-core.workspace = true\ncyclometer-stats.workspace = true\n\n[lints]\nworkspace = true\n",
        )
        .unwrap();
        let mut found = Findings::default();
        dependencies(folder.path(), "plan", &mut found).unwrap();
        assert_eq!(found.0, ["crates/plan depends on stats, which its room forbids"]);
    }

    #[test]
    fn bindings_know_the_facade_alone_and_forbid_unsafe_code() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("bindings/python");
        fs::create_dir_all(folder.join("src")).unwrap();
        let manifest = "[dependencies]\ncyclometer = \"0\"\ncyclometer-monitor = \"0\"\npyo3 = \"0\"\n";
        fs::write(folder.join("Cargo.toml"), manifest).unwrap();
        fs::write(folder.join("src/lib.rs"), "").unwrap();
        let mut found = Findings::default();
        bindings(root.path(), "python", &mut found).unwrap();
        assert_eq!(
            found.0,
            [
                "bindings/python depends on monitor: bindings know the façade alone",
                "bindings/python/src/lib.rs: unsafe code is not forbidden"
            ]
        );
    }

    #[test]
    fn a_dependency_of_one_target_counts_and_one_of_tests_does_not() {
        let manifest = "[dependencies]\ncyclometer-core.workspace = true\nlibc.workspace = true\n\n\
                        [target.'cfg(unix)'.dependencies]\ncyclometer-sys.workspace = true\n\n\
                        [dev-dependencies]\ncyclometer-plan.workspace = true\n";
        assert_eq!(normal_dependencies(manifest), ["core", "sys"]);
    }

    #[test]
    fn unsafe_must_be_forbidden_outside_its_rooms() {
        assert_eq!(findings("plan", "crates/plan/src/lib.rs", "").len(), 1);
        assert_eq!(findings("sys", "crates/sys/src/lib.rs", "").len(), 0);
    }

    #[test]
    fn io_in_a_pure_crate_is_found_outside_its_tests() {
        let code = "use std::fs;\n";
        assert_eq!(findings("stats", "crates/stats/src/a.rs", code).len(), 1);
        assert_eq!(findings("soft", "crates/soft/src/a.rs", code).len(), 1);
        assert_eq!(findings("soft", "crates/soft/src/host/a.rs", code).len(), 0);
        let test = "#[cfg(test)]\nmod tests {\n use std::fs;\n}";
        assert_eq!(findings("stats", "crates/stats/src/a.rs", test).len(), 0);
    }

    #[test]
    fn the_target_is_asked_for_on_lines_of_modules_only() {
        let module = "#[cfg(target_os = \"linux\")]\nmod linux;\n";
        let function = "#[cfg(target_os = \"linux\")]\nfn f() {}\n";
        assert_eq!(findings("backend", "crates/backend/src/a.rs", module).len(), 0);
        assert_eq!(findings("backend", "crates/backend/src/a.rs", function).len(), 1);
        assert_eq!(findings("plan", "crates/plan/src/a.rs", module).len(), 1);
        assert_eq!(
            findings("backend", "crates/backend/src/a.rs", "if cfg!(target_os = \"linux\") {}").len(),
            1
        );
    }

    #[test]
    fn a_link_to_nowhere_is_found() {
        let mut found = Findings::default();
        links(&crate::root(), "README.md", "[a](Cargo.toml) [b](nowhere.md) [c](https://x.org)", &mut found);
        assert_eq!(found.0, ["README.md links to nowhere.md, which does not exist"]);
    }
}

//! `cargo xtask dependencies`: lock files that are up to date; licences, sources, several versions and
//! the oldest compiler of the crates from outside, by the rules of `deny.toml`.
//!
//! `cargo deny` reads the same file and knows advisories, too; this check needs no other program.

mod licence;
mod lock_files;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::command::output;
use crate::root;
use rules::DependencyRules;

/// The workspaces: ours, and that of the Python package.
const WORKSPACES: [&str; 2] = ["Cargo.toml", "bindings/python/Cargo.toml"];

/// The one source of crates.
const SOURCE: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// A crate from outside.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct OutsideCrate {
    name: String,
    version: String,
    licence: String,
    source: String,
    /// The oldest compiler that it takes, where it says so.
    rust_version: Option<String>,
}

/// Fails with all that breaks a rule.
pub(crate) fn check() -> Result<()> {
    lock_files::check()?;
    let rules = DependencyRules::parse(&fs::read_to_string(root().join("deny.toml")).context("deny.toml")?)?;
    let manifest = fs::read_to_string(root().join("Cargo.toml")).context("Cargo.toml")?;
    let oldest = oldest_compiler(&manifest).context("Cargo.toml has no rust-version")?;
    let mut crates = BTreeSet::new();
    for workspace in WORKSPACES {
        crates.extend(crates_of(workspace)?);
    }
    let findings = findings(&crates, &rules, oldest)?;
    ensure!(findings.is_empty(), "dependencies:\n  {}", findings.join("\n  "));
    eprintln!("==> {} crates from outside: licences, sources, versions and compilers suit", crates.len());
    Ok(())
}

fn crates_of(manifest: &str) -> Result<Vec<OutsideCrate>> {
    let text =
        output("cargo", &["metadata", "--locked", "--format-version", "1", "--manifest-path", manifest])?;
    let metadata: Value = serde_json::from_str(&text).context("the output of cargo metadata")?;
    let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
    let outside = packages.iter().filter(|package| package["source"].is_string());
    Ok(outside.map(outside_crate).collect())
}

fn outside_crate(package: &Value) -> OutsideCrate {
    let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
    let rust_version = package["rust_version"].as_str().map(str::to_owned);
    OutsideCrate {
        name: text("name"),
        version: text("version"),
        licence: text("license"),
        source: text("source"),
        rust_version,
    }
}

/// `rust-version = "1.88"` of the workspace.
fn oldest_compiler(manifest: &str) -> Option<(u32, u32)> {
    let line = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "))?;
    compiler(line.trim().trim_matches('"'))
}

fn compiler(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split('.').map(str::parse::<u32>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// All that breaks a rule, in words.
fn findings(
    crates: &BTreeSet<OutsideCrate>,
    rules: &DependencyRules,
    oldest: (u32, u32),
) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for one in crates {
        let OutsideCrate { name, version, licence, source, rust_version } = one;
        if !licence::is_allowed(licence, &|id| rules.allows(name, id)) {
            found.push(format!("{name} {version}: its licence '{licence}' is not in deny.toml"));
        }
        if source != SOURCE {
            found.push(format!("{name} {version} comes from {source}"));
        }
        match rust_version.as_deref().map(|text| compiler(text).map(|needed| (text, needed))) {
            Some(Some((text, needed))) if needed > oldest => found.push(format!(
                "{name} {version} needs Rust {text}; the workspace's rust-version is {}.{}",
                oldest.0, oldest.1
            )),
            Some(None) => bail!("{name} {version}: no version of Rust: {rust_version:?}"),
            _ => {}
        }
    }
    found.extend(several_versions(crates, rules));
    Ok(found)
}

/// Crates with several versions that `deny.toml` does not know, and what it knows in vain.
fn several_versions(crates: &BTreeSet<OutsideCrate>, rules: &DependencyRules) -> Vec<String> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for one in crates {
        versions.entry(&one.name).or_default().insert(&one.version);
    }
    let mut found = Vec::new();
    for (name, versions) in &versions {
        let unknown: Vec<&&str> = versions.iter().filter(|version| !rules.skips(name, version)).collect();
        if unknown.len() > 1 {
            found.push(format!("{name} has several versions: {unknown:?}; deny.toml skips known ones"));
        }
    }
    for (name, version) in rules.skipped() {
        if !versions.get(name).is_some_and(|versions| versions.contains(version)) {
            found.push(format!("deny.toml skips {name}@{version}, which is no dependency"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outside(name: &str, version: &str, licence: &str) -> OutsideCrate {
        OutsideCrate {
            name: name.to_owned(),
            version: version.to_owned(),
            licence: licence.to_owned(),
            source: SOURCE.to_owned(),
            rust_version: Some("1.70".to_owned()),
        }
    }

    fn found(crates: &[OutsideCrate]) -> Vec<String> {
        let rules = "allow = [\n\"MIT\",\n]\nskip = [\n{ crate = \"old@1.0.0\" },\n]\n";
        let rules = DependencyRules::parse(rules).unwrap();
        findings(&crates.iter().cloned().collect(), &rules, (1, 88)).unwrap()
    }

    #[test]
    fn known_versions_and_licences_are_no_findings() {
        assert_eq!(found(&[outside("old", "1.0.0", "MIT"), outside("old", "2.0.0", "MIT")]), [""; 0]);
    }

    #[test]
    fn each_broken_rule_is_named_with_its_crate() {
        let old = || outside("old", "1.0.0", "MIT");
        let new = OutsideCrate { rust_version: Some("1.90.0".to_owned()), ..outside("new", "1.0.0", "MIT") };
        let git = OutsideCrate { source: "git+https://x".to_owned(), ..outside("git", "1.0.0", "MIT") };
        for (one, words) in [
            (outside("a", "1.0.0", "GPL-3.0"), "a 1.0.0: its licence 'GPL-3.0' is not in deny.toml"),
            (outside("a", "1.0.0", ""), "a 1.0.0: its licence '' is not"),
            (new, "new 1.0.0 needs Rust 1.90.0; the workspace's rust-version is 1.88"),
            (git, "git 1.0.0 comes from git+https://x"),
        ] {
            let found = found(&[old(), one]);
            assert!(found.len() == 1 && found[0].starts_with(words), "{found:?}");
        }
        let twice = found(&[old(), outside("b", "1.0.0", "MIT"), outside("b", "2.0.0", "MIT")]);
        assert_eq!(twice, [r#"b has several versions: ["1.0.0", "2.0.0"]; deny.toml skips known ones"#]);
        assert_eq!(
            found(&[outside("b", "1.0.0", "MIT")]),
            ["deny.toml skips old@1.0.0, which is no dependency"]
        );
    }

    #[test]
    fn the_oldest_compiler_is_read_from_the_workspace() {
        assert_eq!(oldest_compiler("[x]\nrust-version = \"1.88\"\n"), Some((1, 88)));
        assert_eq!(oldest_compiler("[x]\n"), None);
    }
}

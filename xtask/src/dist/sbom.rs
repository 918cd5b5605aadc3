//! The bill of materials of a program: the crates that are in it, with licences and sums, and the libraries
//! that are linked with them, as CycloneDX 1.5 in JSON.
//!
//! Source: CycloneDX specification 1.5 (ECMA-424), `bom-1.5.schema.json`. There is no random serial number,
//! so that two builds of a commit have the same bill.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::programs::DistProgram;
use super::release::Release;
use super::target::DistTarget;
use crate::command::output;

/// A crate in a program.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Ingredient {
    pub name: String,
    pub version: String,
    /// Its SPDX expression.
    pub licence: String,
}

/// The crates of a program: the root first, then in the order of their names. `needs` has the dependencies
/// of each, by index.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Ingredients {
    pub all: Vec<Ingredient>,
    pub needs: BTreeMap<usize, BTreeSet<usize>>,
}

/// A library that is linked, and not a crate.
pub(super) struct LinkedLibrary {
    pub name: String,
    pub version: String,
    pub licence: &'static str,
    pub purl: String,
}

/// The crates in a program for a target.
pub(super) fn ingredients(target: &DistTarget, program: DistProgram) -> Result<Ingredients> {
    let edges = "normal,no-proc-macro";
    let format = "{p}\t{l}";
    let args =
        ["tree", "--package", program.package, "--locked", "--edges", edges, "--target", target.triple];
    let tree =
        output("cargo", &[&args[..], &["--prefix", "depth", "--no-dedupe", "--format", format]].concat())?;
    parse_tree(&tree)
}

/// Reads what `cargo tree --prefix depth` prints in the format `{p}\t{l}`.
fn parse_tree(tree: &str) -> Result<Ingredients> {
    let mut lines = Vec::new();
    for line in tree.lines().filter(|line| !line.is_empty()) {
        lines.push(parse_line(line).with_context(|| format!("cargo tree prints '{line}'"))?);
    }
    let root = lines.first().context("cargo tree prints nothing")?.1.clone();
    let others: BTreeSet<&Ingredient> = lines.iter().map(|(_, it)| it).filter(|it| **it != root).collect();
    let all: Vec<Ingredient> = std::iter::once(root.clone()).chain(others.into_iter().cloned()).collect();
    let mut needs: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    let mut above: Vec<usize> = Vec::new();
    for (depth, ingredient) in &lines {
        let at = all.iter().position(|it| it == ingredient).context("a crate that is not in the list")?;
        above.truncate(*depth);
        if let Some(parent) = above.last() {
            needs.entry(*parent).or_default().insert(at);
        }
        above.push(at);
    }
    Ok(Ingredients { all, needs })
}

fn parse_line(line: &str) -> Option<(usize, Ingredient)> {
    let name = line.find(|letter: char| !letter.is_ascii_digit())?;
    let (depth, rest) = line.split_at(name);
    let (package, licence) = rest.split_once("\\t").or_else(|| rest.split_once('\t'))?;
    let mut words = package.split(' ');
    let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
    let ingredient =
        Ingredient { name: name.to_owned(), version: version.to_owned(), licence: spdx(licence) };
    Some((depth.parse().ok()?, ingredient))
}

/// An old form of licences, `MIT/Apache-2.0`, as an expression.
fn spdx(licence: &str) -> String {
    licence.trim().replace('/', " OR ")
}

/// The libraries that every program of a target is linked with.
pub(super) fn linked(target: &DistTarget) -> Result<Vec<LinkedLibrary>> {
    let rust = output("rustc", &["--version"])?;
    let rust = rust.split(' ').nth(1).context("rustc names no version")?.to_owned();
    let package = target.c_library;
    let version = output("dpkg-query", &["--show", "--showformat=${Version}", package])
        .with_context(|| format!("the C library that is linked is that of Debian's package {package}"))?;
    // Packages for another architecture of the compiler's host have the library's version with a suffix.
    let glibc = version.split("cross").next().unwrap_or(&version).to_owned();
    let purl = format!("pkg:deb/debian/{package}@{}", version.replace('+', "%2B"));
    Ok(vec![
        LinkedLibrary { name: "glibc".to_owned(), version: glibc, licence: "LGPL-2.1-or-later", purl },
        LinkedLibrary {
            name: "rust-std".to_owned(),
            purl: format!("pkg:generic/rust-std@{rust}"),
            version: rust,
            licence: "MIT OR Apache-2.0",
        },
    ])
}

/// The sums of crates in `Cargo.lock`, by name and version.
pub(super) fn sums(lock: &str) -> BTreeMap<(String, String), String> {
    let field = |package: &str, key: &str| {
        let value = package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
        value.map(|value| value.trim_matches('"').to_owned())
    };
    let packages = lock.split("[[package]]").skip(1);
    let sum = |package: &str| {
        Some(((field(package, "name")?, field(package, "version")?), field(package, "checksum")?))
    };
    packages.filter_map(sum).collect()
}

/// The bill.
pub(super) fn bill(
    release: &Release,
    crates: &Ingredients,
    libraries: &[LinkedLibrary],
    sums: &BTreeMap<(String, String), String>,
) -> Result<Value> {
    ensure!(crates.all.iter().all(|it| !it.licence.is_empty()), "a crate has no licence: {:?}", crates.all);
    let components = crates.all.iter().skip(1).map(|it| component(it, sums));
    let others = libraries.iter().map(|it| {
        json!({
            "type": "library", "bom-ref": it.purl, "name": it.name, "version": it.version, "purl": it.purl,
            "licenses": [{ "expression": it.licence }],
        })
    });
    let tool = crates.all.first().context("a program has a root crate")?;
    let mut root = component(tool, sums);
    root["type"] = json!("application");
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "timestamp": timestamp(release.epoch), "component": root },
        "components": components.chain(others).collect::<Vec<_>>(),
        "dependencies": dependencies(crates, libraries),
    }))
}

fn component(it: &Ingredient, sums: &BTreeMap<(String, String), String>) -> Value {
    let mut value = json!({
        "type": "library", "bom-ref": purl(it), "name": it.name, "version": it.version, "purl": purl(it),
        "licenses": [{ "expression": it.licence }],
    });
    if let Some(sum) = sums.get(&(it.name.clone(), it.version.clone())) {
        value["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
    }
    value
}

fn purl(it: &Ingredient) -> String {
    format!("pkg:cargo/{}@{}", it.name, it.version.replace('+', "%2B"))
}

fn dependencies(crates: &Ingredients, libraries: &[LinkedLibrary]) -> Vec<Value> {
    let mut found = Vec::new();
    for (at, it) in crates.all.iter().enumerate() {
        let needs = crates.needs.get(&at).into_iter().flatten().filter_map(|other| crates.all.get(*other));
        let mut on: Vec<String> = needs.map(purl).collect();
        if at == 0 {
            on.extend(libraries.iter().map(|library| library.purl.clone()));
        }
        found.push(json!({ "ref": purl(it), "dependsOn": on }));
    }
    found.extend(libraries.iter().map(|it| json!({ "ref": it.purl, "dependsOn": [] })));
    found
}

/// A time in RFC 3339. The calendar is that of Howard Hinnant, "chrono-compatible low-level date
/// algorithms", `civil_from_days`, for days from 1970 on.
fn timestamp(epoch: u64) -> String {
    let (days, seconds) = (epoch / 86_400 + 719_468, epoch % 86_400);
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "0tool v0.1.0 (/x/tool)\tMIT\n1b v2.0.0+meta\tMIT/Apache-2.0\n2c v3.0.0\tZlib\n1a v1.0.0\tMIT\n2c v3.0.0\tZlib\n";

    fn sample() -> Value {
        let release = Release { version: "0.1.0".to_owned(), epoch: 1_709_210_096 };
        let glibc = LinkedLibrary {
            name: "glibc".to_owned(),
            version: "2.36-9".to_owned(),
            licence: "LGPL-2.1-or-later",
            purl: "pkg:deb/debian/libc6-dev@2.36-9".to_owned(),
        };
        let lock = "version = 4\n\n[[package]]\nname = \"c\"\nversion = \"3.0.0\"\nsource = \"x\"\nchecksum = \"00ff\"\n\n[[package]]\nname = \"tool\"\nversion = \"0.1.0\"\n";
        bill(&release, &parse_tree(TREE).unwrap(), &[glibc], &sums(lock)).unwrap()
    }

    #[test]
    fn a_bill_has_what_the_specification_requires() {
        let bill = sample();
        assert_eq!(bill["bomFormat"], "CycloneDX");
        assert_eq!(bill["specVersion"], "1.5");
        assert_eq!(bill["version"], 1);
        assert_eq!(bill["metadata"]["timestamp"], "2024-02-29T12:34:56Z");
        assert_eq!(bill["metadata"]["component"]["type"], "application");
        for component in bill["components"].as_array().unwrap() {
            assert_eq!(component["type"], "library");
            assert!(component["name"].is_string() && component["version"].is_string(), "{component}");
        }
    }

    #[test]
    fn each_crate_stands_once_in_a_bill_with_its_licence_and_sum() {
        let bill = sample();
        let components = bill["components"].as_array().unwrap();
        let names: Vec<&str> = components.iter().map(|it| it["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["a", "b", "c", "glibc"]);
        assert_eq!(components[1]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(components[1]["purl"], "pkg:cargo/b@2.0.0%2Bmeta");
        assert_eq!(components[2]["hashes"][0]["content"], "00ff");
        assert_eq!(components[0]["hashes"], Value::Null);
    }

    #[test]
    fn a_bill_says_which_crate_needs_which() {
        let bill = sample();
        let references: BTreeSet<&str> = std::iter::once(&bill["metadata"]["component"])
            .chain(bill["components"].as_array().unwrap())
            .map(|it| it["bom-ref"].as_str().unwrap())
            .collect();
        let mut seen = BTreeSet::new();
        for entry in bill["dependencies"].as_array().unwrap() {
            assert!(seen.insert(entry["ref"].as_str().unwrap()), "twice: {entry}");
            for on in entry["dependsOn"].as_array().unwrap() {
                assert!(references.contains(on.as_str().unwrap()), "{on}");
            }
        }
        assert_eq!(seen, references);
        let root = &bill["dependencies"][0]["dependsOn"];
        assert_eq!(
            root,
            &json!(["pkg:cargo/a@1.0.0", "pkg:cargo/b@2.0.0%2Bmeta", "pkg:deb/debian/libc6-dev@2.36-9"])
        );
    }

    #[test]
    fn a_crate_without_a_licence_is_refused() {
        let release = Release { version: "1".to_owned(), epoch: 0 };
        let crates = parse_tree("0tool v0.1.0 (/x)\t\n").unwrap();
        assert!(bill(&release, &crates, &[], &BTreeMap::new()).unwrap_err().to_string().contains("tool"));
    }

    #[test]
    fn a_tree_of_another_form_is_refused() {
        for tree in ["", "tool v1\tMIT\n", "0tool\tMIT\n", "0tool v1 (/x)\n"] {
            assert!(parse_tree(tree).is_err(), "{tree}");
        }
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(timestamp(0), "1970-01-01T00:00:00Z");
        assert_eq!(timestamp(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(timestamp(951_868_800), "2000-03-01T00:00:00Z");
        assert_eq!(timestamp(4_102_444_799), "2099-12-31T23:59:59Z");
    }
}

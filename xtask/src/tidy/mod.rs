//! The tidy test: what ARCHITECTURE.md promises about the tree, checked on the files themselves.
//!
//! Rules that hold everywhere are errors (`dependencies`, `restrictions`, `pages`,
//! `phrases`, `public_api`, `test_files`). Rules that the
//! tree does not keep yet are counted, and the committed numbers only fall (`ratchet`): one name for one type
//! (`type_names`), sentences with a noun as their subject (`subjects`), the width of comments (`columns`),
//! modules that import in one direction (`cycles`).

mod columns;
mod cycles;
mod dependencies;
mod files;
mod modules;
mod pages;
mod phrases;
pub(crate) mod public_api;
mod ratchet;
mod restrictions;
mod subjects;
mod syntax;
mod test_files;
mod type_names;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use cycles::Cycles;
use files::SourceFile;
use ratchet::{CheckCount, RatchetLimits};
use type_names::TypeNames;

/// Bindings to other languages and tools.
const BINDINGS: &[&str] = &["c", "criterion", "python"];

/// The file with the limits of the ratchet.
const LIMITS: &str = "xtask/src/tidy/ratchet.txt";

/// `cargo xtask tidy`: without an option the check.
pub(crate) fn run(root: &Path, options: impl Iterator<Item = String>) -> Result<()> {
    let options: Vec<String> = options.collect();
    match options.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => check(root),
        ["--list"] => list(root),
        ["--lower"] => lower(root),
        _ => bail!("unknown option {}: --list and --lower are known", options.join(" ")),
    }
}

/// Fails with the list of everything that is out of order.
pub(crate) fn check(root: &Path) -> Result<()> {
    let files = files::all(root)?;
    let mut found = Violations::default();
    rules(root, &files, &mut found)?;
    let limits = limits(root)?;
    measure(&files).iter().filter_map(|count| limits.finding(count)).for_each(|finding| found.add(finding));
    found.into_result()
}

/// The pages of the documentation: their paths from the root, with `/`, and their texts.
pub(crate) fn documents(root: &Path) -> Result<BTreeMap<String, String>> {
    Ok(pages::all(root)?.into_iter().map(|page| (page.path, page.text)).collect())
}

/// The path of a page's link from the root.
pub(crate) fn link_target(page: &str, link: &str) -> String {
    pages::target(page, link)
}

/// Prints all that the ratchet counts.
fn list(root: &Path) -> Result<()> {
    for measured in measure(&files::all(root)?) {
        eprintln!("{}: {} (target: {})", measured.name, measured.count, measured.target);
        for place in measured.places {
            eprintln!("  {place}");
        }
    }
    Ok(())
}

/// Lowers the limits to what the tree has.
fn lower(root: &Path) -> Result<()> {
    let text = limits(root)?.lowered(&measure(&files::all(root)?));
    fs::write(root.join(LIMITS), text).context(LIMITS)
}

fn limits(root: &Path) -> Result<RatchetLimits> {
    RatchetLimits::parse(&fs::read_to_string(root.join(LIMITS)).context(LIMITS)?).context(LIMITS)
}

/// The rules without exceptions.
fn rules(root: &Path, files: &[SourceFile], found: &mut Violations) -> Result<()> {
    for name in crate_names(root)? {
        dependencies::of_crate(&root.join("crates").join(&name), &name, found)?;
        let folder = format!("crates/{name}/");
        for file in files.iter().filter(|file| file.path.starts_with(&folder)) {
            restrictions::of_crate(&name, file, found);
        }
    }
    for name in BINDINGS {
        dependencies::of_bindings(root, name, found)?;
        let folder = format!("bindings/{name}/src/");
        for file in files.iter().filter(|file| file.path.starts_with(&folder)) {
            restrictions::of_binding(name, file, found);
        }
    }
    files.iter().for_each(|file| restrictions::of_links(file, found));
    phrases::check(root, files, found)?;
    public_api::findings(root, found)?;
    test_files::findings(root, found)?;
    pages::findings(root)?.into_iter().for_each(|finding| found.add(finding));
    Ok(())
}

/// The numbers of the ratchet.
fn measure(files: &[SourceFile]) -> Vec<CheckCount> {
    let none = || "none".to_owned();
    let names = TypeNames::of(files);
    let duplicates = names.duplicates();
    let mut measured = vec![CheckCount {
        name: "type names with several definitions".to_owned(),
        count: duplicates.len(),
        target: format!("{}, 3 % of {} names", names.count() * 3 / 100, names.count()),
        worst: duplicates.clone(),
        places: duplicates,
    }];
    let mut add = |name: &str, places: Vec<String>| {
        let worst = ratchet::worst_files(&places);
        measured.push(CheckCount {
            name: name.to_owned(),
            count: places.len(),
            target: none(),
            places,
            worst,
        });
    };
    add("comment sentences without a noun as subject", files.iter().flat_map(subjects::clauses).collect());
    add("comment lines that are too long", files.iter().flat_map(columns::long_comments).collect());
    for cycles in Cycles::of(files) {
        let name = format!("modules in import cycles, {}", cycles.package);
        let places = cycles.lines();
        measured.push(CheckCount {
            name,
            count: cycles.modules(),
            target: none(),
            worst: places.clone(),
            places,
        });
    }
    measured
}

/// Violations, one line each.
#[derive(Default)]
struct Violations(Vec<String>);

impl Violations {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        check(&crate::root()).unwrap();
    }

    #[test]
    fn an_unknown_option_is_an_error() {
        let error = run(&crate::root(), ["--higher".to_owned()].into_iter()).unwrap_err();
        assert_eq!(error.to_string(), "unknown option --higher: --list and --lower are known");
    }
}

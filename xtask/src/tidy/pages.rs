//! Pages that people read: their links, the index of `docs`, and the length of pages for users.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};

/// Folders with pages, besides the root.
const FOLDERS: &[&str] =
    &["docs", "bindings/c", "bindings/criterion", "bindings/python", "benches", "tests/guests"];

/// Pages of the root that must exist.
const REQUIRED: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "PLATFORM.md",
    "DESIGN.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "NOTICE",
];

/// The index of all pages of `docs`.
const INDEX: &str = "docs/README.md";

/// Pages for developers, which may be as long as they need.
const INTERNALS: &str = "docs/internals/";

/// A page for users has at most so many lines that are written by hand.
const LONGEST: usize = 200;

/// A page: its path from the root, with `/`, and its text.
pub(super) struct DocPage {
    pub path: String,
    pub text: String,
}

impl DocPage {
    /// Whether a page of `docs` is not one for developers.
    fn is_for_users(&self) -> bool {
        self.path.starts_with("docs/") && !self.path.starts_with(INTERNALS)
    }
}

/// Missing pages, broken links, pages that no index names, and pages for users that are too long.
pub(super) fn findings(root: &Path) -> Result<Vec<String>> {
    let pages = all(root)?;
    let missing = REQUIRED.iter().filter(|name| !root.join(name).is_file());
    let mut found: Vec<String> = missing.map(|name| format!("{name} is missing")).collect();
    for page in &pages {
        found.extend(broken_links(root, page, &pages));
        found.extend(too_long(page));
    }
    found.extend(not_indexed(&pages));
    Ok(found)
}

/// The pages for users, with the READMEs.
pub(super) fn for_users(root: &Path) -> Result<Vec<DocPage>> {
    let mut pages = all(root)?;
    pages.retain(|page| page.is_for_users() || page.path.ends_with("README.md"));
    Ok(pages)
}

/// All pages.
pub(super) fn all(root: &Path) -> Result<Vec<DocPage>> {
    let mut files = markdown_files(root)?;
    for folder in FOLDERS {
        files.extend(markdown_files(&root.join(folder))?);
    }
    for folder in fs::read_dir(root.join("docs"))? {
        let folder = folder?.path();
        if folder.is_dir() {
            files.extend(markdown_files(&folder)?);
        }
    }
    files.sort();
    let page = |file: &PathBuf| {
        let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let path = file.strip_prefix(root).unwrap_or(file).to_string_lossy().replace('\\', "/");
        Ok(DocPage { path, text })
    };
    files.iter().map(page).collect()
}

/// The pages of a folder, without those of its folders.
fn markdown_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    Ok(paths.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect())
}

fn broken_links(root: &Path, page: &DocPage, pages: &[DocPage]) -> Vec<String> {
    let mut found = Vec::new();
    for link in links(&page.text) {
        let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
        let target = target(&page.path, path);
        if !root.join(&target).exists() {
            found.push(format!("{} links to {link}, which does not exist", page.path));
            continue;
        }
        let page_there = pages.iter().find(|other| other.path == target);
        if page_there.is_some_and(|other| !anchor.is_empty() && !anchors(&other.text).contains(anchor)) {
            found.push(format!("{} links to {link}: {target} has no such heading", page.path));
        }
    }
    found
}

/// The links of a page that lead to files of the project.
fn links(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    let links = prose.flat_map(|part| part.split("](").skip(1)).filter_map(|rest| rest.split(')').next());
    links.filter(|link| !link.contains("://") && !link.contains(char::is_whitespace)).collect()
}

/// The path of a link from the root; the page itself for a link within it.
pub(super) fn target(page: &str, link: &str) -> String {
    if link.is_empty() {
        return page.to_owned();
    }
    let mut path = Path::new(page).parent().map(Path::to_path_buf).unwrap_or_default();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => _ = path.pop(),
            Component::CurDir => {}
            other => path.push(other),
        }
    }
    path.to_string_lossy().replace('\\', "/")
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let prose = text.split("```").step_by(2).flat_map(str::lines);
    let headings = prose.filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    headings.map(anchor).collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter));
    kept.flat_map(char::to_lowercase).map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

fn too_long(page: &DocPage) -> Option<String> {
    let lines = lines_by_hand(&page.text);
    let text = || format!("{} has {lines} lines: a page for users has at most {LONGEST}", page.path);
    (page.is_for_users() && lines > LONGEST).then(text)
}

/// The lines of a page outside of its generated part.
fn lines_by_hand(text: &str) -> usize {
    let mut generated = false;
    let mut lines = 0;
    for line in text.lines() {
        generated |= line.starts_with("<!-- generated:");
        lines += usize::from(!generated);
        generated &= !line.starts_with("<!-- end of what is generated");
    }
    lines
}

/// Pages of `docs` that neither its index nor the README of their folder links to.
fn not_indexed(pages: &[DocPage]) -> Vec<String> {
    let docs = pages.iter().filter(|page| page.path.starts_with("docs/") && page.path != INDEX);
    let missing = docs.filter(|page| !is_indexed(&page.path, pages));
    missing.map(|page| format!("{INDEX} does not name {}", page.path)).collect()
}

fn is_indexed(path: &str, pages: &[DocPage]) -> bool {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let indexes =
        pages.iter().filter(|page| page.path == INDEX || page.path == format!("{folder}/README.md"));
    let named = |page: &DocPage| {
        links(&page.text)
            .iter()
            .any(|link| target(&page.path, link.split('#').next().unwrap_or_default()) == path)
    };
    indexes.filter(|page| page.path != path).any(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The findings in a tree of these pages.
    fn found(pages: &[(&str, &str)]) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        for folder in FOLDERS {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        let required = REQUIRED.iter().map(|path| (*path, ""));
        for (path, text) in required.chain(pages.iter().copied()) {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        findings(root.path()).unwrap()
    }

    #[test]
    fn links_to_missing_files_and_headings_are_found() {
        let a = "# A\n\n## The `x`, and more\n\n[x](#the-x-and-more) [b](sub/b.md#b) [c](sub/c.md) [d](sub/b.md#d) [e](https://e.org/f.md)\n";
        let pages =
            [("docs/README.md", a), ("docs/sub/b.md", "# B\n[a](../README.md#a) [root](../../nowhere.md)\n")];
        assert_eq!(
            found(&pages),
            [
                "docs/README.md links to sub/c.md, which does not exist",
                "docs/README.md links to sub/b.md#d: docs/sub/b.md has no such heading",
                "docs/sub/b.md links to ../../nowhere.md, which does not exist"
            ]
        );
    }

    #[test]
    fn a_missing_page_of_the_root_is_found() {
        let root = tempfile::tempdir().unwrap();
        for folder in FOLDERS {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        for page in REQUIRED.iter().filter(|page| **page != "PLATFORM.md") {
            fs::write(root.path().join(page), "").unwrap();
        }
        assert_eq!(findings(root.path()).unwrap(), ["PLATFORM.md is missing"]);
    }

    #[test]
    fn comments_in_a_shell_block_are_no_headings_and_its_brackets_no_links() {
        let text = "# A\n```sh\n# b\necho [x](y)\n```\n[b](#b)\n";
        assert_eq!(found(&[("README.md", text)]), ["README.md links to #b: README.md has no such heading"]);
    }

    #[test]
    fn a_page_that_no_index_names_is_found() {
        let pages = [
            ("docs/README.md", "[a](sub/README.md)"),
            ("docs/sub/README.md", "[b](b.md)"),
            ("docs/sub/b.md", ""),
        ];
        assert_eq!(found(&pages), [""; 0]);
        assert_eq!(
            found(&[("docs/README.md", ""), ("docs/guides/b.md", "")]),
            ["docs/README.md does not name docs/guides/b.md"]
        );
    }

    #[test]
    fn pages_for_users_are_short_but_for_generated_tables() {
        let long = "line\n".repeat(201);
        let table = format!("<!-- generated: x -->\n{long}<!-- end of what is generated -->\nline\n");
        let index = "[a](reference/a.md) [b](guides/b.md) [c](internals/c.md)";
        let pages = [
            ("docs/README.md", index),
            ("docs/reference/a.md", &table),
            ("docs/guides/b.md", &long),
            ("docs/internals/c.md", &long),
        ];
        assert_eq!(found(&pages), ["docs/guides/b.md has 201 lines: a page for users has at most 200"]);
    }
}

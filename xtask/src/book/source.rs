//! The folder that mdBook reads: pages in their places, files that they show, and no link that leads out of
//! the book.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use pulldown_cmark::{Event, Tag};

use super::pages::{Pages, file, links, parser};

/// Writes the contents, the pages and the files that they link to, in their places below `folder`.
pub(super) fn write(root: &Path, pages: &Pages, summary: &str, folder: &Path) -> Result<()> {
    put(&folder.join("SUMMARY.md"), summary.replace("README.md)", "index.md)").as_bytes())?;
    for (path, text) in pages {
        put(&folder.join(in_book(path)), adapted(root, path, text).as_bytes())?;
    }
    let linked: BTreeSet<String> = pages.iter().flat_map(|(path, text)| links(path, text)).collect();
    for path in linked.iter().filter(|path| !pages.contains_key(*path) && root.join(path).is_file()) {
        put(&folder.join(path), &fs::read(root.join(path)).with_context(|| path.clone())?)?;
    }
    Ok(())
}

/// The path of a page in the book: a folder's README is its index.
fn in_book(path: &str) -> String {
    match path.strip_suffix("README.md") {
        Some(folder) if folder.is_empty() || folder.ends_with('/') => format!("{folder}index.md"),
        _ => path.to_owned(),
    }
}

fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, bytes));
    written.with_context(|| format!("writing {}", path.display()))
}

/// A page whose links lead to the places of the book. A link to a folder of the tree becomes its text, as a
/// book has no folders.
fn adapted(root: &Path, page: &str, text: &str) -> String {
    let mut out = String::new();
    let mut done = 0;
    for (event, range) in parser(text).into_offset_iter() {
        let Event::Start(Tag::Link { dest_url, .. }) = event else { continue };
        let Some(path) = file(page, &dest_url) else { continue };
        let link = &text[range.clone()];
        let Some(end) = link.rfind("](").filter(|_| link.starts_with('[')) else { continue };
        let (shown, address) = link.split_at(end);
        let fresh = match root.join(&path).is_dir() {
            true => shown[1..].to_owned(),
            false if in_book(&path) != path => format!("{shown}{}", address.replace("README.md", "index.md")),
            false => continue,
        };
        out.push_str(&text[done..range.start]);
        out.push_str(&fresh);
        done = range.end;
    }
    out + &text[done..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("crates/core")).unwrap();
        fs::create_dir_all(root.path().join("docs")).unwrap();
        fs::write(root.path().join("docs/p.svg"), "<svg/>").unwrap();
        root
    }

    #[test]
    fn links_to_folders_become_their_texts() {
        let root = tree();
        let text = "a [`core`](../crates/core), [p](p.svg), [n](nowhere/) é [x](../crates/core/)\n";
        assert_eq!(adapted(root.path(), "docs/a.md", text), "a `core`, [p](p.svg), [n](nowhere/) é x\n");
    }

    #[test]
    fn a_readme_is_the_index_of_its_folder() {
        let root = tree();
        assert_eq!(
            adapted(
                root.path(),
                "docs/a.md",
                "[README.md](../README.md#x) [b](sub/README.md) [c](NOT-README.md)"
            ),
            "[README.md](../index.md#x) [b](sub/index.md) [c](NOT-README.md)"
        );
        let folder = tempfile::tempdir().unwrap();
        let pages = Pages::from([("docs/README.md".to_owned(), String::new())]);
        write(root.path(), &pages, "- [D](docs/README.md)\n", folder.path()).unwrap();
        assert!(folder.path().join("docs/index.md").is_file());
        assert_eq!(fs::read_to_string(folder.path().join("SUMMARY.md")).unwrap(), "- [D](docs/index.md)\n");
    }

    #[test]
    fn pictures_lie_beside_their_pages() {
        let (root, folder) = (tree(), tempfile::tempdir().unwrap());
        let pages = Pages::from([("docs/a.md".to_owned(), "# A\n\n![p](p.svg)\n".to_owned())]);
        write(root.path(), &pages, "# Summary\n", folder.path()).unwrap();
        assert!(folder.path().join("docs/a.md").is_file());
        assert_eq!(fs::read_to_string(folder.path().join("docs/p.svg")).unwrap(), "<svg/>");
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named() {
        let (root, folder) = (tree(), tempfile::tempdir().unwrap());
        fs::write(folder.path().join("docs"), "a file").unwrap();
        let pages = Pages::from([("docs/a.md".to_owned(), String::new())]);
        let error = write(root.path(), &pages, "# Summary\n", folder.path()).unwrap_err();
        assert!(error.to_string().contains("docs/a.md"), "{error:#}");
    }
}

//! The folder that mdBook reads: pages in their places, files that they show, and no link that leads out of the book.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use pulldown_cmark::{Event, Tag};

use super::pages::{Pages, file, links, parser};

/// Writes the pages and the files that they link to, in their places below `folder`.
pub(super) fn write(root: &Path, pages: &Pages, folder: &Path) -> Result<()> {
    for (path, text) in pages {
        put(&folder.join(path), without_folders(root, path, text).as_bytes())?;
    }
    let linked: BTreeSet<String> = pages.iter().flat_map(|(path, text)| links(path, text)).collect();
    for path in linked.iter().filter(|path| !pages.contains_key(*path) && root.join(path).is_file()) {
        put(&folder.join(path), &fs::read(root.join(path)).with_context(|| path.clone())?)?;
    }
    Ok(())
}

fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, bytes));
    written.with_context(|| format!("writing {}", path.display()))
}

/// A page whose links to folders of the tree are their texts: a book has no folders.
fn without_folders(root: &Path, page: &str, text: &str) -> String {
    let mut out = String::new();
    let mut done = 0;
    for (event, range) in parser(text).into_offset_iter() {
        let Event::Start(Tag::Link { dest_url, .. }) = event else { continue };
        if !file(page, &dest_url).is_some_and(|path| root.join(path).is_dir()) {
            continue;
        }
        let link = &text[range.clone()];
        let Some(end) = link.rfind("](").filter(|_| link.starts_with('[')) else { continue };
        out.push_str(&text[done..range.start]);
        out.push_str(&link[1..end]);
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
        assert_eq!(
            without_folders(root.path(), "docs/a.md", text),
            "a `core`, [p](p.svg), [n](nowhere/) é x\n"
        );
    }

    #[test]
    fn pictures_lie_beside_their_pages() {
        let (root, folder) = (tree(), tempfile::tempdir().unwrap());
        let pages = Pages::from([("docs/a.md".to_owned(), "# A\n\n![p](p.svg)\n".to_owned())]);
        write(root.path(), &pages, folder.path()).unwrap();
        assert!(folder.path().join("docs/a.md").is_file());
        assert_eq!(fs::read_to_string(folder.path().join("docs/p.svg")).unwrap(), "<svg/>");
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named() {
        let (root, folder) = (tree(), tempfile::tempdir().unwrap());
        fs::write(folder.path().join("docs"), "a file").unwrap();
        let pages = Pages::from([("docs/a.md".to_owned(), String::new())]);
        let error = write(root.path(), &pages, folder.path()).unwrap_err();
        assert!(error.to_string().contains("docs/a.md"), "{error:#}");
    }
}

//! The pages of the book: those of the tree, and those that they link to.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::tidy;

/// Pages by their paths from the root, with `/`.
pub(super) type Pages = BTreeMap<String, String>;

/// How pages are read: tables, as the project's pages have them.
pub(super) fn parser(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES)
}

/// The pages of the documentation, and every page of the project that one of them links to.
pub(super) fn collect(root: &Path) -> Result<Pages> {
    let mut pages = tidy::documents(root)?;
    loop {
        let linked: BTreeSet<String> = pages.iter().flat_map(|(path, text)| links(path, text)).collect();
        let fresh = linked.into_iter().filter(|path| path.ends_with(".md") && !pages.contains_key(path));
        let fresh: Vec<String> = fresh.filter(|path| root.join(path).is_file()).collect();
        if fresh.is_empty() {
            return Ok(pages);
        }
        for path in fresh {
            let text = fs::read_to_string(root.join(&path)).with_context(|| path.clone())?;
            pages.insert(path, text);
        }
    }
}

/// The files that a page's links and pictures lead to, from the root.
pub(super) fn links(page: &str, text: &str) -> Vec<String> {
    let address = |event: Event<'_>| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some(dest_url.to_string()),
        _ => None,
    };
    parser(text).filter_map(address).filter_map(|link| file(page, &link)).collect()
}

/// The file that a link of a page leads to, from the root; none for a link within the page or to another
/// site.
pub(super) fn file(page: &str, link: &str) -> Option<String> {
    let path = link.split('#').next().filter(|path| !path.is_empty() && !path.contains("://"))?;
    Some(tidy::link_target(page, path))
}

/// The text of the first heading.
pub(super) fn title(text: &str) -> Option<String> {
    let mut inside = false;
    let mut title = String::new();
    for event in parser(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => inside = true,
            Event::End(TagEnd::Heading(_)) => return Some(title),
            Event::Text(part) | Event::Code(part) if inside => title.push_str(&part),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_from_the_folder_of_their_page() {
        let text = "# A `b` c\n\n[x](../y.md#z) ![p](p.svg) [s](https://e.org/a.md) [h](#a)\n\n```\n[no](no.md)\n```\n";
        assert_eq!(links("docs/guides/a.md", text), ["docs/y.md", "docs/guides/p.svg"]);
        assert_eq!(title(text).as_deref(), Some("A b c"));
        assert_eq!(title("no heading"), None);
    }

    #[test]
    fn a_page_that_only_a_link_leads_to_is_in_the_book() {
        let pages = collect(&crate::root()).unwrap();
        for page in ["README.md", "docs/guides/compare.md", "deploy/README.md", "bindings/python/README.md"] {
            assert!(pages.contains_key(page), "{page}");
        }
    }
}

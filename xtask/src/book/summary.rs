//! The table of contents: the sections of docs/README.md with their pages, and all others behind them.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::{Result, ensure};
use pulldown_cmark::{Event, Tag, TagEnd};

use super::pages::{Pages, file, links, parser, title};

/// The page whose table gives the sections.
const INDEX: &str = "docs/README.md";
/// The first page of the book.
const FIRST: &str = "README.md";
/// The section of the pages that the index does not name.
const OTHERS: &str = "The project";

/// A section and its pages, each with the title that the index gives it.
#[derive(PartialEq, Eq, Debug)]
struct BookSection {
    title: String,
    pages: Vec<(String, String)>,
}

/// The contents in the form of mdBook's `SUMMARY.md`.
pub(super) fn summary(pages: &Pages) -> Result<String> {
    let index = pages.get(INDEX).map(String::as_str).unwrap_or_default();
    let sections = sections(index);
    ensure!(sections.iter().any(|section| !section.pages.is_empty()), "{INDEX} has no table with sections");
    let mut seen = BTreeSet::from([FIRST.to_owned(), INDEX.to_owned()]);
    let mut text = format!("# Summary\n\n[cyclometer]({FIRST})\n[All pages]({INDEX})\n");
    for section in &sections {
        let _ = write!(text, "\n# {}\n\n", section.title);
        for (title, page) in &section.pages {
            if seen.insert(page.clone()) {
                let _ = writeln!(text, "- [{title}]({page})");
                add_chapters(pages, page, &mut seen, &mut text);
            }
        }
    }
    let _ = write!(text, "\n# {OTHERS}\n\n");
    for (page, content) in pages {
        if seen.insert(page.clone()) {
            let title = title(content).unwrap_or_else(|| page.clone());
            let _ = writeln!(text, "- [{title}]({page})");
        }
    }
    Ok(text)
}

/// The pages beside a README that it links to, below it.
fn add_chapters(pages: &Pages, page: &str, seen: &mut BTreeSet<String>, text: &mut String) {
    let Some(folder) = page.strip_suffix("README.md") else { return };
    let content = pages.get(page).map(String::as_str).unwrap_or_default();
    for other in links(page, content) {
        let Some(chapter) = pages.get(&other).filter(|_| other.starts_with(folder)) else { continue };
        if seen.insert(other.clone()) {
            let title = title(chapter).unwrap_or_else(|| other.clone());
            let _ = writeln!(text, "  - [{title}]({other})");
        }
    }
}

/// The sections of the index: a bold cell begins one, and a link in a first cell is a page.
fn sections(index: &str) -> Vec<BookSection> {
    let mut sections: Vec<BookSection> = Vec::new();
    let (mut in_table, mut bold, mut link) = (false, false, None);
    let mut text = String::new();
    for event in parser(index) {
        match event {
            Event::Start(Tag::Table(_)) => in_table = true,
            Event::End(TagEnd::Table) => in_table = false,
            _ if !in_table => {}
            Event::Start(Tag::TableCell) => (bold, link, text) = (false, None, String::new()),
            Event::Start(Tag::Strong) => bold = true,
            Event::Start(Tag::Link { dest_url, .. }) => link = file(INDEX, &dest_url),
            Event::Text(part) | Event::Code(part) => text.push_str(&part),
            Event::End(TagEnd::TableCell) => match (link.take(), sections.last_mut()) {
                (Some(page), Some(section)) => section.pages.push((text.clone(), page)),
                (None, _) if bold => sections.push(BookSection { title: text.clone(), pages: Vec::new() }),
                _ => {}
            },
            _ => {}
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(all: &[(&str, &str)]) -> Pages {
        all.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn contents_follow_the_sections_of_the_index_and_end_with_all_other_pages() {
        let index = "# D\n\n| | |\n|---|---|\n| **Guides** | |\n| [One](guides/a.md) | `x` |\n| **Tutorial**, long | |\n| [T](t/README.md) | |\n\n[c](../C.md)\n";
        let pages = pages(&[
            ("README.md", "# R"),
            ("C.md", "# See C"),
            (INDEX, index),
            ("docs/guides/a.md", "# A"),
            ("docs/t/README.md", "[2](2.md) [1](1.md) [a](../guides/a.md)"),
            ("docs/t/1.md", "# First"),
            ("docs/t/2.md", "# Second"),
        ]);
        assert_eq!(
            summary(&pages).unwrap(),
            "# Summary\n\n[cyclometer](README.md)\n[All pages](docs/README.md)\n\n# Guides\n\n- [One](docs/guides/a.md)\n\n\
             # Tutorial, long\n\n- [T](docs/t/README.md)\n  - [Second](docs/t/2.md)\n  - [First](docs/t/1.md)\n\n\
             # The project\n\n- [See C](C.md)\n"
        );
    }

    #[test]
    fn every_page_is_in_the_contents_once() {
        let pages = super::super::pages::collect(&crate::root()).unwrap();
        let summary = summary(&pages).unwrap();
        for page in pages.keys() {
            assert_eq!(summary.matches(&format!("]({page})")).count(), 1, "{page}\n{summary}");
        }
        for title in ["# Tutorial\n", "# Guides\n", "# Reference\n", "# Explanation\n"] {
            assert!(summary.contains(title), "{title}");
        }
    }

    #[test]
    fn an_index_without_a_table_is_refused() {
        assert!(summary(&pages(&[(INDEX, "[a](a.md)"), ("docs/a.md", "")])).is_err());
    }
}

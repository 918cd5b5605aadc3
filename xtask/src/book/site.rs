//! The links of the finished site: each leads to a file of it, and to a place that is there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::tidy;

/// A page of the site: its places, which links may lead to, and its links.
struct HtmlPage {
    places: BTreeSet<String>,
    links: Vec<String>,
}

/// The links of a site that lead nowhere.
pub(super) fn broken_links(site: &Path) -> Result<Vec<String>> {
    let mut pages = BTreeMap::new();
    for path in html_files(site)? {
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let name = path.strip_prefix(site).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        let places = attributes(&text, "id").chain(attributes(&text, "name")).collect();
        let links = attributes(&text, "href").chain(attributes(&text, "src")).collect();
        pages.insert(name, HtmlPage { places, links });
    }
    let broken = |(name, page): (&String, &HtmlPage)| {
        let bad = page.links.iter().filter(|link| !leads_somewhere(site, &pages, name, link));
        bad.map(|link| format!("{name} links to {link}")).collect::<Vec<_>>()
    };
    Ok(pages.iter().flat_map(broken).collect())
}

fn leads_somewhere(site: &Path, pages: &BTreeMap<String, HtmlPage>, name: &str, link: &str) -> bool {
    if link.contains("://") || link.starts_with("data:") || link.starts_with("mailto:") {
        return true;
    }
    let (path, place) = link.split_once('#').unwrap_or((link, ""));
    let path = path.split('?').next().unwrap_or_default();
    // The page for addresses that do not exist has links from the root of the site.
    let target = match path.strip_prefix('/') {
        Some(path) => path.to_owned(),
        None => tidy::link_target(name, path),
    };
    let is_folder = target.is_empty() || site.join(&target).is_dir();
    let target =
        if is_folder { format!("{target}/index.html").trim_start_matches('/').to_owned() } else { target };
    match pages.get(&target) {
        Some(page) => place.is_empty() || page.places.contains(place),
        None => site.join(&target).is_file(),
    }
}

fn html_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(html_files(&path)?);
        } else if path.extension().is_some_and(|ending| ending == "html") {
            found.push(path);
        }
    }
    Ok(found)
}

/// The values of an attribute in tags. mdBook writes all values in double quotes, and `<` in text as
/// `&lt;`.
fn attributes<'a>(html: &'a str, name: &'a str) -> impl Iterator<Item = String> + 'a {
    let tags = html.split('<').skip(1).filter_map(|rest| rest.split('>').next());
    tags.filter_map(move |tag| {
        let value = tag.split(&format!(" {name}=\"")).nth(1)?.split('"').next()?;
        Some(value.replace("&amp;", "&"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(files: &[(&str, &str)]) -> Vec<String> {
        let site = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = site.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        broken_links(site.path()).unwrap()
    }

    #[test]
    fn a_site_whose_links_lead_to_files_and_places_is_whole() {
        let index = "<a href=\"docs/a.html#x\">a</a><img alt=\"p\" src=\"p.svg\"><a class=\"b\" href=\"https://e.org\">";
        let a =
            "<h1 id=\"x\">x</h1><a href=\"../index.html\"></a><a href=\"#x\"></a><a href=\"../docs/\"></a>";
        let files = [("index.html", index), ("p.svg", ""), ("docs/a.html", a), ("docs/index.html", "")];
        assert_eq!(broken(&files), [""; 0]);
    }

    #[test]
    fn links_to_missing_files_and_places_are_found() {
        let index = "<a href=\"b.html\"></a><a href=\"a.html#y\"></a><img src=\"q.svg\"><a href=\"#z\"></a>";
        assert_eq!(
            broken(&[("index.html", index), ("a.html", "<p id=\"x\">")]),
            [
                "index.html links to b.html",
                "index.html links to a.html#y",
                "index.html links to #z",
                "index.html links to q.svg"
            ]
        );
    }
}

//! The documentation as one site that can be searched, by mdBook.
//!
//! Pages stay where they are in the tree, and so do their links. The table of contents is made from
//! docs/README.md, so that there is no second list of pages.

mod pages;
mod site;
mod source;
mod summary;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::command::step;
use crate::root;
use crate::tools::CargoTool;

const MDBOOK: CargoTool = CargoTool { name: "mdbook", version: "0.5.4" };

/// The book's settings. Examples run on the reader's machine, not on a server of others.
const SETTINGS: &str = r#"[book]
title = "cyclometer"
description = "Counts what a program does on a CPU, also where there is no PMU"
language = "en"
src = "src"

[build]
build-dir = "site"
create-missing = false

[output.html]
default-theme = "light"
preferred-dark-theme = "navy"
no-section-label = true
additional-css = ["book.css"]

[output.html.playground]
runnable = false

[output.html.fold]
enable = true
level = 1
"#;

/// Pages have wide tables and lines of 80 columns.
const STYLE: &str =
    ":root { --content-max-width: 90rem; }\nmain table { display: block; overflow-x: auto; }\n";

/// Builds the site, and makes sure that all of its links lead somewhere.
pub(crate) fn run(arguments: impl Iterator<Item = String>) -> Result<()> {
    let out = out(arguments)?;
    let folder = root().join("target").join("book");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    let pages = pages::collect(&root())?;
    source::write(&root(), &pages, &summary::summary(&pages)?, &folder.join("src"))?;
    fs::write(folder.join("book.toml"), SETTINGS)?;
    fs::write(folder.join("book.css"), STYLE)?;
    let mut build = Command::new(MDBOOK.program()?);
    build.arg("build").arg(&folder);
    step("mdbook build", build)?;
    let site = folder.join("site");
    let broken = site::broken_links(&site)?;
    ensure!(broken.is_empty(), "the site has links that lead nowhere:\n{}", broken.join("\n"));
    let site = out.map_or(Ok(site.clone()), |out| copy(&site, &out).map(|()| out))?;
    eprintln!("==> the book: {}", site.join("index.html").display());
    Ok(())
}

fn out(mut arguments: impl Iterator<Item = String>) -> Result<Option<PathBuf>> {
    match (arguments.next().as_deref(), arguments.next(), arguments.next()) {
        (None, ..) => Ok(None),
        (Some("--out"), Some(folder), None) => Ok(Some(PathBuf::from(folder))),
        (Some("--out"), None, _) => bail!("a folder must follow --out"),
        (Some(other), ..) => bail!("'{other}' is no option; there is --out DIR"),
    }
}

/// Copies the site to a folder, over an older one.
fn copy(site: &Path, out: &Path) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("making {}", out.display()))?;
    let mut copy = Command::new("cp");
    copy.arg("--recursive").arg("--no-target-directory").arg(site).arg(out);
    step(&format!("a copy in {}", out.display()), copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_book_are_checked() {
        let read = |arguments: &[&str]| out(arguments.iter().map(|argument| (*argument).to_owned()));
        assert_eq!(read(&[]).unwrap(), None);
        assert_eq!(read(&["--out", "x"]).unwrap(), Some(PathBuf::from("x")));
        assert!(read(&["--out"]).unwrap_err().to_string().contains("--out"));
        assert!(read(&["--uot", "x"]).unwrap_err().to_string().contains("--uot"));
    }
}

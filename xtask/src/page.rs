//! Pages of docs that are written by hand around a part that is generated.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use cyclometer_core::pmu::Family;

const END: &str = "<!-- end of what is generated -->";

/// A page: what lies between its two marks is generated. With `--check` nothing is written, and a page that
/// is not up to date is an error.
pub(crate) struct GeneratedPage {
    /// The page, from the root of the workspace.
    pub path: &'static str,
    /// The command that writes it.
    pub command: &'static str,
    /// Makes what lies between the marks.
    pub generated: fn() -> String,
}

impl GeneratedPage {
    /// Writes the page anew, or checks that it is up to date.
    pub(crate) fn run(&self, root: &Path, mut arguments: impl Iterator<Item = String>) -> Result<()> {
        let check = match arguments.next().as_deref() {
            None => false,
            Some("--check") => true,
            Some(other) => bail!("'{other}' is no option; there is --check"),
        };
        let path = root.join(self.path);
        let page = fs::read_to_string(&path).with_context(|| self.path.to_owned())?;
        let fresh = self.renewed(&page)?;
        if check {
            let GeneratedPage { path, command, .. } = self;
            ensure!(page == fresh, "{path} is not up to date; `cargo xtask {command}` writes it");
            return Ok(());
        }
        fs::write(&path, fresh).with_context(|| self.path.to_owned())
    }

    /// The page with a fresh part.
    fn renewed(&self, page: &str) -> Result<String> {
        let GeneratedPage { path, command, .. } = self;
        let begin = format!("<!-- generated: cargo xtask {command} -->");
        let (before, rest) =
            page.split_once(&begin).with_context(|| format!("{path} has no line {begin}"))?;
        let (_, after) = rest.split_once(END).with_context(|| format!("{path} has no line {END}"))?;
        Ok(format!("{before}{begin}\n\n{}\n{END}{after}", (self.generated)()))
    }
}

/// A family's name for people.
pub(crate) fn title(family: Family) -> &'static str {
    match family {
        Family::Intel => "Intel",
        Family::Amd => "AMD",
        Family::Arm => "Arm",
        Family::RiscV => "RISC-V",
        Family::Apple => "Apple",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: GeneratedPage =
        GeneratedPage { path: "docs/x.md", command: "x-page", generated: || "new\n".to_owned() };
    const BEGIN: &str = "<!-- generated: cargo xtask x-page -->";

    #[test]
    fn only_what_lies_between_the_marks_is_renewed() {
        let fresh = PAGE.renewed(&format!("before\n{BEGIN}\nold\n{END}\nafter\n")).unwrap();
        assert_eq!(fresh, format!("before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"));
        assert_eq!(PAGE.renewed(&fresh).unwrap(), fresh);
    }

    #[test]
    fn a_page_without_marks_is_refused() {
        assert!(PAGE.renewed("no marks").is_err());
        assert!(PAGE.renewed(BEGIN).is_err());
    }

    #[test]
    fn an_unknown_option_is_refused() {
        assert!(PAGE.run(&crate::root(), ["--chekc".to_owned()].into_iter()).is_err());
    }

    #[test]
    fn a_page_that_is_not_up_to_date_is_found_and_mended() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("docs")).unwrap();
        fs::write(root.path().join(PAGE.path), format!("{BEGIN}\nold\n{END}\n")).unwrap();
        let check = || PAGE.run(root.path(), ["--check".to_owned()].into_iter());
        assert!(check().unwrap_err().to_string().contains("`cargo xtask x-page` writes it"));
        PAGE.run(root.path(), std::iter::empty()).unwrap();
        check().unwrap();
    }
}

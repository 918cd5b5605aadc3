//! The folders of a build: the sources, and what cargo makes of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::command::step;
use crate::root;

/// The folders of a build.
pub(super) struct BuildPlace {
    /// The sources.
    pub source: PathBuf,
    /// Where cargo builds them.
    pub folder: PathBuf,
}

impl BuildPlace {
    /// This checkout, built in a folder.
    pub(super) fn of_checkout(folder: PathBuf) -> BuildPlace {
        BuildPlace { source: root(), folder }
    }

    /// A copy of this checkout without what git ignores, and a folder for cargo beside it. Both are
    /// made anew.
    pub(super) fn copy(parent: &Path) -> Result<BuildPlace> {
        if parent.exists() {
            fs::remove_dir_all(parent).with_context(|| format!("removing {}", parent.display()))?;
        }
        let place = BuildPlace { source: parent.join("copy-of-sources"), folder: parent.join("build") };
        fs::create_dir_all(&place.source).with_context(|| place.source.display().to_string())?;
        let mut copy = Command::new("sh");
        copy.args(["-euc", COPY, "sh"]).arg(&place.source).current_dir(root());
        step(&format!("a copy of the sources in {}", parent.display()), copy)?;
        Ok(place)
    }

    /// Folders of this machine, and their names in programs. Where one is in another, the inner one
    /// comes last: the compilers take the last that fits.
    pub(super) fn remaps(&self) -> Vec<(String, &'static str)> {
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
        let sources = [(home, "/cargo"), (Some(self.source.clone()), "/cyclometer")];
        let folders = sources.into_iter().chain([(Some(self.folder.clone()), "/target")]);
        folders.filter_map(|(from, to)| Some((from?.display().to_string(), to))).collect()
    }

    /// Flags of rustc for a program that is the same wherever it is built, in the form of
    /// `CARGO_ENCODED_RUSTFLAGS`, behind other flags.
    pub(super) fn rust_flags(&self, others: &[&str]) -> String {
        let remaps = self.remaps().into_iter().map(|(from, to)| format!("--remap-path-prefix={from}={to}"));
        let others = others.iter().map(|flag| (*flag).to_owned());
        others.chain(remaps).collect::<Vec<_>>().join("\x1f")
    }
}

/// Copies the files that git knows, or would ask about, into a folder. A file that was removed is
/// passed over.
const COPY: &str = "git ls-files -z --cached --others --exclude-standard | \
    tar --create --ignore-failed-read --null --files-from=- 2>/dev/null | tar --extract --directory \"$1\"";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_cargo_is_named_after_the_sources_that_it_is_in() {
        let place = BuildPlace { source: "/x".into(), folder: "/x/target/dist".into() };
        let remaps = place.remaps();
        let last: Vec<_> = remaps.iter().rev().take(2).map(|(from, to)| (from.as_str(), *to)).collect();
        assert_eq!(last, [("/x/target/dist", "/target"), ("/x", "/cyclometer")]);
        assert!(place.rust_flags(&["-Ca"]).starts_with("-Ca\x1f--remap-path-prefix="));
    }

    #[test]
    fn a_copy_has_the_sources_and_nothing_that_git_ignores() {
        let folder = tempfile::tempdir().unwrap();
        let place = BuildPlace::copy(&folder.path().join("x")).unwrap();
        assert!(place.source.join("Cargo.lock").is_file());
        assert!(!place.source.join("target").exists());
        assert!(!place.folder.exists());
    }
}

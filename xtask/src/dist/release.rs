//! A release: its version, and the time that all of its files carry.

use anyhow::{Context, Result, bail, ensure};

use crate::command::output;

/// A version of the project as it is committed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Release {
    /// The version of the workspace.
    pub version: String,
    /// The time of the commit in seconds since 1970, or `SOURCE_DATE_EPOCH`: files that are made today and
    /// tomorrow from one commit are the same.
    pub epoch: u64,
}

impl Release {
    /// The release that the checkout would make; changes that are not committed are refused unless allowed.
    pub(super) fn of_checkout(allow_dirty: bool) -> Result<Release> {
        let changed =
            output("git", &["status", "--porcelain"]).context("a release is made in a git checkout")?;
        ensure!(
            changed.trim().is_empty() || allow_dirty,
            "there are changes that are not committed; commit them, or add --allow-dirty for a trial\n{changed}"
        );
        Ok(Release { version: version()?, epoch: epoch()? })
    }
}

fn version() -> Result<String> {
    let id = output("cargo", &["pkgid", "--package", "cyclometer-cli"])?;
    let version = id.trim().rsplit(['#', '@']).next().unwrap_or_default();
    ensure!(version.starts_with(|first: char| first.is_ascii_digit()), "cargo names no version: {id}");
    Ok(version.to_owned())
}

fn epoch() -> Result<u64> {
    let (from, text) = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => ("SOURCE_DATE_EPOCH", text),
        Err(_) => ("git", output("git", &["log", "-1", "--format=%ct"])?),
    };
    let Ok(epoch) = text.trim().parse() else { bail!("{from} gives no time in seconds: '{}'", text.trim()) };
    Ok(epoch)
}

//! The folder that keeps what was fetched and built between runs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Names the folder, instead of the default one below the user's caches.
pub(super) const VARIABLE: &str = "CYCLOMETER_GUESTS_CACHE";

/// A folder that can be written to, outside the tree, used by one process at a time.
#[derive(Debug)]
pub(super) struct DownloadCache {
    folder: PathBuf,
}

/// The file that names the process that uses the folder.
const IN_USE: &str = "in-use-by";

impl DownloadCache {
    /// Opens the folder that the environment names, or the user's default.
    pub(super) fn open() -> Result<Self> {
        let named = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let folder = named(VARIABLE)
            .or_else(|| named("XDG_CACHE_HOME").map(|caches| caches.join("cyclometer-guests")))
            .or_else(|| named("HOME").map(|home| home.join(".cache/cyclometer-guests")))
            .unwrap_or_else(|| PathBuf::from("/var/tmp/cyclometer-guests"));
        Self::at(folder)
    }

    /// Makes the folder, and tries whether files can be written there.
    pub(super) fn at(folder: PathBuf) -> Result<Self> {
        let refused = || {
            format!(
                "the cache folder {} cannot be written to; set {VARIABLE} to a folder that can",
                folder.display()
            )
        };
        if !folder.is_absolute() {
            bail!(
                "the cache folder {} is a relative path; set {VARIABLE} to an absolute one",
                folder.display()
            );
        }
        fs::create_dir_all(&folder).with_context(refused)?;
        let trial = folder.join(format!(".trial-{}", std::process::id()));
        fs::write(&trial, b"").with_context(refused)?;
        fs::remove_file(&trial).with_context(refused)?;
        let cache = Self { folder };
        cache.claim()?;
        Ok(cache)
    }

    /// Two runs at once would build in each other's way.
    fn claim(&self) -> Result<()> {
        let file = self.folder.join(IN_USE);
        let user = fs::read_to_string(&file).unwrap_or_default();
        if user.parse::<u32>().is_ok_and(|user| user != std::process::id())
            && Path::new("/proc").join(&user).exists()
        {
            bail!(
                "process {user} uses the cache folder {}; wait for its end, or set {VARIABLE} to another folder",
                self.folder.display()
            );
        }
        fs::write(&file, std::process::id().to_string())
            .with_context(|| format!("writing {}", file.display()))
    }

    pub(super) fn path(&self) -> &Path {
        &self.folder
    }

    /// A part of the cache: as it is if `recipe` made it, else emptied and made anew. A part that was not
    /// made wholly is made again next time.
    pub(super) fn part(
        &self,
        name: &str,
        recipe: &str,
        make: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let part = self.folder.join(name);
        let stamp = part.join("made-by");
        if fs::read_to_string(&stamp).is_ok_and(|made| made == recipe) {
            return Ok(part);
        }
        if part.exists() {
            fs::remove_dir_all(&part).with_context(|| format!("emptying {}", part.display()))?;
        }
        fs::create_dir_all(&part).with_context(|| format!("making {}", part.display()))?;
        make(&part)?;
        fs::write(&stamp, recipe).with_context(|| format!("writing {}", stamp.display()))?;
        Ok(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_cannot_be_made_or_written_to_is_named_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let error = DownloadCache::at(file.join("below")).err().unwrap().to_string();
        assert!(error.contains("/file/below cannot be written to; set CYCLOMETER_GUESTS_CACHE"), "{error}");
        // A path that is not writable, even for root.
        for folder in ["/proc/self", "/proc/self/guests"] {
            let error = DownloadCache::at(folder.into()).err().unwrap().to_string();
            assert_eq!(
                error,
                format!(
                    "the cache folder {folder} cannot be written to; set CYCLOMETER_GUESTS_CACHE to a folder that can"
                )
            );
        }
        let error = DownloadCache::at("here".into()).err().unwrap().to_string();
        assert!(error.contains("relative"), "{error}");
    }

    #[test]
    fn a_folder_that_another_process_uses_is_refused_until_it_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let mut other = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        fs::write(folder.path().join(IN_USE), other.id().to_string()).unwrap();
        let error = DownloadCache::at(folder.path().into()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("process {} uses the cache folder", other.id())), "{error}");
        other.kill().unwrap();
        other.wait().unwrap();
        DownloadCache::at(folder.path().into()).unwrap();
        DownloadCache::at(folder.path().into()).unwrap();
    }

    #[test]
    fn a_part_is_made_once_for_a_recipe_and_again_if_making_failed() {
        let folder = tempfile::tempdir().unwrap();
        let cache = DownloadCache::at(folder.path().join("cache")).unwrap();
        let made = std::cell::Cell::new(0);
        let make = |recipe: &str, works: bool| {
            cache.part("p", recipe, |part| {
                made.set(made.get() + 1);
                fs::write(part.join(recipe), "")?;
                if works { Ok(()) } else { bail!("no") }
            })
        };
        assert!(make("a", false).is_err());
        make("a", true).unwrap();
        make("a", true).unwrap();
        assert_eq!(made.get(), 2);
        let part = make("b", true).unwrap();
        assert_eq!(made.get(), 3);
        assert!(!part.join("a").exists(), "what another recipe made is gone");
    }
}

//! Control groups that come and go are noticed by the kernel's notices, not by searching.
//!
//! ```text
//! kernel ──> CgroupWatch (own thread) ──> flag and wake-up ──> reader: rescan
//! ```
//!
//! The thread watches every folder below the root. A new folder is watched, too, with what was made in it
//! before. Where the user may not watch so many folders, the watch says that it is incomplete, and the reader
//! searches periodically, as without it.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cyclometer_toolkit::{FolderChange, FolderWatch, WatchedFolder};

use crate::cgroup_news::CgroupNews;
use crate::hub::ReaderWake;

/// How many folders are watched at most.
const MOST_FOLDERS: usize = 200_000;

/// How long changes are gathered after one that was told: a rescan reads every folder.
const GATHERING: Duration = Duration::from_secs(1);

/// The watched folders below a root.
struct CgroupWatch {
    root: PathBuf,
    watch: FolderWatch,
    /// Paths below the root.
    paths: HashMap<WatchedFolder, PathBuf>,
    is_complete: bool,
}

/// Watches the groups below a root, until no scrape can come any more. The news are complete when this
/// returns.
///
/// # Errors
///
/// The reason why nothing can be watched.
pub fn start(root: &Path, wake: ReaderWake) -> io::Result<CgroupNews> {
    let (news, mut watch) = (CgroupNews::default(), CgroupWatch::new(root)?);
    let theirs = news.clone();
    theirs.set_complete(watch.is_complete);
    std::thread::Builder::new().name("cgroups".to_owned()).spawn(move || {
        while let Ok(has_changed) = watch.next() {
            if !has_changed {
                continue;
            }
            theirs.set_complete(watch.is_complete);
            theirs.change();
            if wake.wake().is_err() {
                return;
            }
            std::thread::sleep(GATHERING);
        }
        theirs.set_complete(false);
    })?;
    Ok(news)
}

impl CgroupWatch {
    fn new(root: &Path) -> io::Result<CgroupWatch> {
        let watch = FolderWatch::new()?;
        let mut all = CgroupWatch { root: root.to_owned(), watch, paths: HashMap::new(), is_complete: true };
        all.add_tree(PathBuf::new())?;
        if all.paths.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(all) }
    }

    /// Waits for changes, and watches new folders. False where files alone have changed.
    fn next(&mut self) -> io::Result<bool> {
        let changes = self.watch.wait()?;
        let has_changed = !changes.is_empty();
        for change in changes {
            match change {
                FolderChange::Made(within, name) => {
                    let Some(path) = self.paths.get(&within).map(|path| path.join(name)) else { continue };
                    // A group that has gone meanwhile needs no watch.
                    let _ = self.add_tree(path);
                }
                FolderChange::Removed(_) => {}
                FolderChange::Unwatched(folder) => {
                    self.paths.remove(&folder);
                }
                FolderChange::Lost => {
                    self.paths.clear();
                    self.add_tree(PathBuf::new())?;
                }
            }
        }
        Ok(has_changed)
    }

    /// Watches a folder and all below it. A folder is watched before it is read, so that no change is missed.
    fn add_tree(&mut self, top: PathBuf) -> io::Result<()> {
        self.add(&top)?;
        let mut left = vec![top];
        while let Some(path) = left.pop() {
            for entry in fs::read_dir(self.root.join(&path)).into_iter().flatten().flatten() {
                let below = path.join(entry.file_name());
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) && self.add(&below)? {
                    left.push(below);
                }
            }
        }
        Ok(())
    }

    /// Watches a folder; false if it has gone.
    fn add(&mut self, path: &Path) -> io::Result<bool> {
        let added = match self.paths.len() {
            MOST_FOLDERS.. => Err(io::ErrorKind::QuotaExceeded.into()),
            _ => self.watch.add(&self.root.join(path)),
        };
        match added {
            Ok(folder) => {
                self.paths.insert(folder, path.to_owned());
                Ok(true)
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Ok(false)
            }
            Err(error) => {
                self.is_complete = false;
                Err(error)
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends where something fails")]
mod tests {
    use super::*;

    /// The paths that are watched after all changes up to now.
    fn watched(watch: &mut CgroupWatch) -> Vec<String> {
        // The last change is one of ours, so that no wait is in vain.
        let mark = watch.root.join("mark");
        fs::create_dir(&mark).unwrap();
        while !watch.paths.values().any(|path| path == Path::new("mark")) {
            watch.next().unwrap();
        }
        fs::remove_dir(&mark).unwrap();
        while watch.paths.values().any(|path| path == Path::new("mark")) {
            watch.next().unwrap();
        }
        let mut paths: Vec<String> = watch.paths.values().map(|path| path.display().to_string()).collect();
        paths.sort();
        paths
    }

    #[test]
    fn new_folders_are_watched_with_those_in_them_and_no_longer_when_they_are_gone() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a/b")).unwrap();
        let mut watch = CgroupWatch::new(root.path()).unwrap();
        assert_eq!(watched(&mut watch), ["", "a", "a/b"]);
        fs::create_dir_all(root.path().join("c/d/e")).unwrap();
        fs::remove_dir(root.path().join("a/b")).unwrap();
        assert_eq!(watched(&mut watch), ["", "a", "c", "c/d", "c/d/e"]);
        fs::rename(root.path().join("c"), root.path().join("a/f")).unwrap();
        assert_eq!(watched(&mut watch), ["", "a", "a/f", "a/f/d", "a/f/d/e"]);
        assert!(watch.is_complete);
    }

    #[test]
    fn a_root_that_is_not_there_cannot_be_watched() {
        assert!(CgroupWatch::new(Path::new("/no/such/root")).is_err());
    }
}

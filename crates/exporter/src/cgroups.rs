//! Control groups in the file system.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};

use crate::labels::shown;

/// How deep folders are searched.
const DEEPEST: usize = 32;

/// How many folders are searched at most, so that a hostile tree cannot take all memory.
const MOST_FOLDERS: usize = 200_000;

/// A control group.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FoundCgroup {
    /// The path below the root, without a leading slash.
    pub path: PathBuf,
    /// The number of its folder: another one after it was removed and made again.
    pub inode: u64,
}

/// Which paths are wanted.
#[derive(Clone, Copy, Debug)]
pub struct CgroupPatterns<'a> {
    /// Patterns, one of which must fit.
    pub include: &'a [Pattern],
    /// Patterns, none of which may fit.
    pub exclude: &'a [Pattern],
}

impl CgroupPatterns<'_> {
    fn fit(self, path: &Path) -> bool {
        // A star is within one name, so that the depth of a pattern is that of its groups.
        let options = MatchOptions { require_literal_separator: true, ..MatchOptions::default() };
        let text = shown(path.as_os_str());
        let any = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches_with(&text, options));
        any(self.include) && !any(self.exclude)
    }
}

/// The wanted control groups below a root, higher ones before lower ones and else by name. Groups that vanish
/// meanwhile are left out.
///
/// # Errors
///
/// The error of reading the root.
pub fn scan(root: &Path, patterns: CgroupPatterns<'_>) -> io::Result<Vec<FoundCgroup>> {
    if patterns.include.is_empty() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    let (mut level, mut visited) = (folders(root, Path::new(""))?, 0);
    for _ in 0..DEEPEST {
        level.sort();
        let mut below = Vec::new();
        for group in level {
            visited += 1;
            if visited <= MOST_FOLDERS {
                below.extend(folders(&root.join(&group.path), &group.path).unwrap_or_default());
                found.extend(Some(group).filter(|group| patterns.fit(&group.path)));
            }
        }
        level = below;
    }
    Ok(found)
}

/// The folders in a folder; links are none.
fn folders(folder: &Path, path: &Path) -> io::Result<Vec<FoundCgroup>> {
    let group = |entry: io::Result<fs::DirEntry>| {
        let entry = entry.ok()?;
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let inode = if is_folder { entry.metadata().ok()?.ino() } else { return None };
        Some(FoundCgroup { path: path.join(entry.file_name()), inode })
    };
    Ok(fs::read_dir(folder)?.filter_map(group).collect())
}

/// Whether a group is still the one that was found.
pub fn is_still_there(root: &Path, group: &FoundCgroup) -> bool {
    fs::symlink_metadata(root.join(&group.path)).is_ok_and(|now| now.ino() == group.inode)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends where something fails")]
mod tests {
    use super::*;

    fn patterns(list: &[&str]) -> Vec<Pattern> {
        list.iter().map(|text| Pattern::new(text).unwrap()).collect()
    }

    fn found(root: &Path, include: &[&str], exclude: &[&str]) -> Vec<String> {
        let (include, exclude) = (patterns(include), patterns(exclude));
        let groups = scan(root, CgroupPatterns { include: &include, exclude: &exclude }).unwrap();
        groups.iter().map(|group| group.path.display().to_string()).collect()
    }

    #[test]
    fn patterns_choose_groups_by_path_and_higher_ones_come_first() {
        let root = tempfile::tempdir().unwrap();
        for path in ["b/x/y", "a/x", "a/z"] {
            fs::create_dir_all(root.path().join(path)).unwrap();
        }
        fs::write(root.path().join("a/cgroup.procs"), "").unwrap();
        std::os::unix::fs::symlink(root.path(), root.path().join("a/loop")).unwrap();
        assert_eq!(found(root.path(), &["**"], &[]), ["a", "b", "a/x", "a/z", "b/x", "b/x/y"]);
        assert_eq!(found(root.path(), &["*"], &[]), ["a", "b"]);
        assert_eq!(found(root.path(), &["*/*"], &["*/z"]), ["a/x", "b/x"]);
        assert_eq!(found(root.path(), &["b/**"], &[]), ["b/x", "b/x/y"]);
        assert!(found(root.path(), &[], &[]).is_empty());
    }

    #[test]
    fn a_group_that_is_made_again_is_another_one() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a");
        fs::create_dir(&folder).unwrap();
        let include = patterns(&["*"]);
        let group = scan(root.path(), CgroupPatterns { include: &include, exclude: &[] }).unwrap().remove(0);
        assert!(is_still_there(root.path(), &group));
        fs::rename(&folder, root.path().join("old")).unwrap();
        assert!(!is_still_there(root.path(), &group));
        fs::create_dir(&folder).unwrap();
        assert!(!is_still_there(root.path(), &group), "the old folder keeps its number while it exists");
    }

    #[test]
    fn a_root_that_is_not_there_is_an_error() {
        let include = patterns(&["*"]);
        assert!(
            scan(Path::new("/no/such/root"), CgroupPatterns { include: &include, exclude: &[] }).is_err()
        );
    }
}

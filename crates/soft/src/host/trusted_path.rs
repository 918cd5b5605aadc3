//! Whether a path can be trusted: no other user can make it lead somewhere else.
//!
//! A folder that is ours can still be swapped by whoever may write to a folder above it, or by the owner of a
//! link on the way. So each step of a path is checked, and the path without links is what is used.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Most links on a path.
///
/// # Source
///
/// `path_resolution(7)`.
const MOST_LINKS: usize = 40;

const ROOT: u32 = 0;

/// The owner that a user namespace shows for users it does not know, the host's root among them. Elsewhere it
/// is an ordinary user, `nobody`.
///
/// # Source
///
/// `user_namespaces(7)`, `/proc/sys/kernel/overflowuid`: its default.
const UNKNOWN_OWNER: u32 = 65534;

/// Whether every user of the system is known here, as outside of user namespaces.
///
/// # Source
///
/// `user_namespaces(7)`, `/proc/pid/uid_map`: a line of first id, first id outside, and number of ids.
fn knows_all_users() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// A path without links, if every folder and every link on it can be changed by this user and root only.
/// `None` also where it cannot be followed.
pub(super) fn resolve(path: &Path) -> Option<PathBuf> {
    let user = cyclometer_sys::host::effective_uid();
    let trusted: &[u32] = if knows_all_users() { &[ROOT, user] } else { &[ROOT, user, UNKNOWN_OWNER] };
    let mut at = PathBuf::from("/");
    let mut steps = steps_of(&std::path::absolute(path).ok()?);
    let mut links = 0;
    is_safe(&fs::symlink_metadata(&at).ok()?, trusted).then_some(())?;
    while let Some(step) = steps.pop() {
        if step == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&step);
        let metadata = fs::symlink_metadata(&next).ok()?;
        if metadata.is_symlink() {
            links += 1;
            (links <= MOST_LINKS && trusted.contains(&metadata.uid())).then_some(())?;
            let target = fs::read_link(&next).ok()?;
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            steps.extend(steps_of(&target));
        } else {
            (metadata.is_dir() && is_safe(&metadata, trusted)).then_some(())?;
            at = next;
        }
    }
    Some(at)
}

/// The steps of a path, the last one first.
fn steps_of(path: &Path) -> Vec<OsString> {
    let step = |component: Component<'_>| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().rev().filter_map(step).collect()
}

/// Whether only trusted users can rename what is in a folder: it is writable for no other user, or it has the
/// sticky bit, with which only owners rename. Bits of the group also stand for the users of an access list.
fn is_safe(metadata: &Metadata, trusted: &[u32]) -> bool {
    const STICKY: u32 = 0o1000;
    const OTHERS_WRITE: u32 = 0o022;
    let mode = metadata.mode();
    trusted.contains(&metadata.uid()) && (mode & STICKY != 0 || mode & OTHERS_WRITE == 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    struct Tree(tempfile::TempDir);

    impl Tree {
        /// Folders, each with its mode, in a folder of this user.
        fn new(folders: &[(&str, u32)]) -> Tree {
            let tree = Tree(tempfile::tempdir_in("/var/tmp").unwrap());
            for (folder, _) in folders {
                fs::create_dir(tree.at(folder)).unwrap();
            }
            for (folder, mode) in folders {
                fs::set_permissions(tree.at(folder), fs::Permissions::from_mode(*mode)).unwrap();
            }
            tree
        }

        fn at(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        fn leads_to(&self, path: &str) -> Option<PathBuf> {
            let root = self.0.path().canonicalize().unwrap();
            resolve(&self.at(path)).map(|path| path.strip_prefix(&root).unwrap().to_owned())
        }
    }

    #[test]
    fn a_folder_that_others_can_write_spoils_all_below_it() {
        let tree = Tree::new(&[("open", 0o777), ("open/ours", 0o700), ("open/ours/deep", 0o700)]);
        assert_eq!(tree.leads_to("open/ours"), None);
        assert_eq!(tree.leads_to("open/ours/deep"), None);
        fs::set_permissions(tree.at("open"), fs::Permissions::from_mode(0o1777)).unwrap();
        assert_eq!(tree.leads_to("open/ours/deep"), Some("open/ours/deep".into()), "sticky, as /tmp is");
        fs::set_permissions(tree.at("open"), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(tree.leads_to("open/ours/deep"), Some("open/ours/deep".into()));
    }

    #[test]
    fn a_group_that_may_write_is_no_group_of_one() {
        let tree = Tree::new(&[("shared", 0o775), ("shared/ours", 0o700)]);
        assert_eq!(tree.leads_to("shared/ours"), None, "an access list would show in these bits, too");
    }

    #[test]
    fn links_are_followed_and_what_they_lead_through_is_checked() {
        let tree = Tree::new(&[("a", 0o700), ("a/b", 0o700), ("open", 0o777), ("open/c", 0o700)]);
        symlink("a/b", tree.at("relative")).unwrap();
        symlink(tree.at("a"), tree.at("absolute")).unwrap();
        symlink("../open/c", tree.at("a/up")).unwrap();
        assert_eq!(tree.leads_to("relative"), Some("a/b".into()));
        assert_eq!(tree.leads_to("absolute/b/../b"), Some("a/b".into()));
        assert_eq!(tree.leads_to("a/up"), None, "it leads through a folder that others can write");
    }

    #[test]
    fn a_circle_of_links_and_a_missing_folder_lead_nowhere() {
        let tree = Tree::new(&[("a", 0o700)]);
        symlink("two", tree.at("one")).unwrap();
        symlink("one", tree.at("two")).unwrap();
        fs::write(tree.at("file"), "").unwrap();
        for path in ["one", "missing", "a/missing", "file", "file/below"] {
            assert_eq!(tree.leads_to(path), None, "{path}");
        }
    }

    #[test]
    fn the_link_of_another_user_is_not_followed() {
        // Only root can make one; for other users the rule is tested by the metadata of the system's folders.
        let tree = Tree::new(&[("a", 0o700)]);
        symlink("a", tree.at("link")).unwrap();
        if std::os::unix::fs::lchown(tree.at("link"), Some(12345), None).is_ok() {
            assert_eq!(tree.leads_to("link"), None);
        }
        let root = fs::symlink_metadata("/").unwrap();
        assert!(is_safe(&root, &[root.uid()]) && !is_safe(&root, &[root.uid() + 1]));
    }
}

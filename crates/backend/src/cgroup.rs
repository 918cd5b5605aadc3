//! Mount points of control groups.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use cyclometer_sys::filesystem;

pub(crate) mod memory;

/// A hierarchy of control groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hierarchy {
    /// The hierarchy of the `perf_event` controller: its own of version 1, or else the unified one.
    PerfEvent,
    /// The hierarchy of the `memory` controller, chosen in the same way.
    Memory,
    /// Version 2.
    Unified,
}

/// The result of a search for a control group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Search {
    /// In the requested hierarchy: its folder.
    Found(PathBuf),
    /// Only in another hierarchy: the mount options of that one, which name its controllers.
    Elsewhere(String),
    /// In no hierarchy.
    Nowhere,
}

/// The root folder of the control groups that perf can count; `None` where there are none.
pub fn counted_cgroup_root() -> Option<PathBuf> {
    mount_of(&fs::read("/proc/self/mounts").ok()?, Hierarchy::PerfEvent)
}

/// Looks for a control group by the path below a hierarchy's mount, or by an absolute path that begins with a
/// mount. The path may begin with a slash, as in `/proc/PID/cgroup`.
pub(crate) fn search(path: &Path, hierarchy: Hierarchy) -> Search {
    let mounts = fs::read("/proc/self/mounts").unwrap_or_default();
    search_in(&mounts, path, hierarchy, |folder| filesystem::is_control_group(folder).unwrap_or(false))
}

fn search_in(mounts: &[u8], path: &Path, hierarchy: Hierarchy, is_group: impl Fn(&Path) -> bool) -> Search {
    if path.as_os_str().is_empty() || path.components().any(|part| part == Component::ParentDir) {
        return Search::Nowhere;
    }
    let meant = mount_of(mounts, hierarchy);
    let (ours, others): (Vec<Mount<'_>>, Vec<Mount<'_>>) =
        groups(mounts).partition(|mount| meant.as_ref() == Some(&mount.folder()));
    let find = |mount: &Mount<'_>| mount.candidates(path).into_iter().find(|folder| is_group(folder));
    if let Some(folder) = ours.iter().find_map(find) {
        return Search::Found(folder);
    }
    match others.iter().find(|mount| find(mount).is_some()) {
        Some(mount) => Search::Elsewhere(mount.controllers()),
        None => Search::Nowhere,
    }
}

/// The mounts of control groups.
fn groups(mounts: &[u8]) -> impl Iterator<Item = Mount<'_>> {
    let lines = mounts.split(|byte| *byte == b'\n').filter_map(Mount::parse);
    lines.filter(|mount| matches!(mount.kind, b"cgroup" | b"cgroup2"))
}

/// The mount point of a hierarchy, from the text of `/proc/mounts`.
fn mount_of(mounts: &[u8], hierarchy: Hierarchy) -> Option<PathBuf> {
    let unified = || groups(mounts).find(|mount| mount.kind == b"cgroup2");
    let of =
        |controller| groups(mounts).find(|mount| mount.kind == b"cgroup" && mount.has_option(controller));
    let found = match hierarchy {
        Hierarchy::PerfEvent => of(b"perf_event").or_else(unified),
        Hierarchy::Memory => of(b"memory").or_else(unified),
        Hierarchy::Unified => unified(),
    };
    found.map(|mount| mount.folder())
}

struct Mount<'a> {
    place: &'a [u8],
    kind: &'a [u8],
    options: &'a [u8],
}

impl<'a> Mount<'a> {
    fn parse(line: &'a [u8]) -> Option<Mount<'a>> {
        let mut fields = line.split(|byte| *byte == b' ').skip(1);
        Some(Mount { place: fields.next()?, kind: fields.next()?, options: fields.next()? })
    }

    fn folder(&self) -> PathBuf {
        PathBuf::from(OsString::from_vec(unescape(self.place)))
    }

    /// The folders that a path may name in this hierarchy.
    fn candidates(&self, path: &Path) -> Vec<PathBuf> {
        let mount = self.folder();
        let below: PathBuf = path.components().filter(|part| matches!(part, Component::Normal(_))).collect();
        let absolute = path.starts_with(&mount).then(|| path.to_owned());
        std::iter::once(mount.join(below)).chain(absolute).collect()
    }

    /// The controllers that tell this hierarchy from others.
    fn controllers(&self) -> String {
        let is_common =
            |option: &&str| !matches!(*option, "rw" | "ro" | "nosuid" | "nodev" | "noexec" | "relatime");
        match self.kind {
            b"cgroup2" => "version 2".to_owned(),
            _ => {
                let options = String::from_utf8_lossy(self.options);
                options.split(',').filter(is_common).collect::<Vec<_>>().join(",")
            }
        }
    }

    fn has_option(&self, name: &[u8]) -> bool {
        self.options.split(|byte| *byte == b',').any(|option| option == name)
    }
}

/// Undoes the octal escapes of blanks. Source: `proc_mounts(5)`, `fstab(5)`.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        let code = tail.get(..3).filter(|_| *first == b'\\').and_then(octal);
        plain.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[3..] } else { tail };
    }
    plain
}

fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: &[u8] = b"tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
        cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
        cgroup /sys/fs/cgroup/perf\\040event cgroup rw,perf_event 0 0\n\
        cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";

    #[test]
    fn perf_uses_its_own_hierarchy_where_there_is_one() {
        let place = |mounts, hierarchy| mount_of(mounts, hierarchy).map(|p| p.display().to_string());
        assert_eq!(place(BOTH, Hierarchy::PerfEvent).as_deref(), Some("/sys/fs/cgroup/perf event"));
        assert_eq!(place(BOTH, Hierarchy::Unified).as_deref(), Some("/sys/fs/cgroup/unified"));
        let new = b"cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n";
        assert_eq!(place(new, Hierarchy::PerfEvent).as_deref(), Some("/sys/fs/cgroup"));
        assert_eq!(place(b"proc /proc proc rw 0 0\n\n", Hierarchy::PerfEvent), None);
    }

    #[test]
    fn a_group_is_looked_for_below_the_mounts_and_nowhere_else() {
        let groups = [
            "/sys/fs/cgroup/unified",
            "/sys/fs/cgroup/unified/a/b",
            "/sys/fs/cgroup/cpu",
            "/sys/fs/cgroup/cpu/old",
            "/sys/fs/cgroup/perf event",
        ];
        let search = |path: &str| {
            search_in(BOTH, Path::new(path), Hierarchy::Unified, |folder| {
                groups.iter().any(|group| Path::new(group) == folder)
            })
        };
        let found = |folder: &str| Search::Found(folder.into());
        for path in ["a/b", "/a/b", "/sys/fs/cgroup/unified/a/b"] {
            assert_eq!(search(path), found("/sys/fs/cgroup/unified/a/b"), "{path}");
        }
        assert_eq!(search("/"), found("/sys/fs/cgroup/unified/"));
        for path in ["old", "/old", "/sys/fs/cgroup/cpu/old"] {
            assert_eq!(search(path), Search::Elsewhere("cpu".into()), "{path}");
        }
        for path in ["", "no-such-group", "/tmp", "/proc", "../../etc", "/sys/fs/cgroup/unified/../.."] {
            assert_eq!(search(path), Search::Nowhere, "{path}");
        }
    }

    #[test]
    fn a_folder_that_is_no_group_is_none() {
        for path in ["/tmp", "/proc", "no-such-group"] {
            assert_eq!(super::search(Path::new(path), Hierarchy::PerfEvent), Search::Nowhere, "{path}");
        }
    }
}

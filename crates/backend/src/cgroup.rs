//! Where control groups are mounted.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// Which of the kernel's hierarchies is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hierarchy {
    /// The one that the `perf_event` controller is in: its own of version 1, or else the unified one.
    PerfEvent,
    /// Version 2.
    Unified,
}

/// The folder of a control group: an absolute path as it is, any other below the hierarchy's mount.
///
/// What `/proc/PID/cgroup` prints begins with a slash and is below the mount too: where the absolute path
/// does not exist, it is looked for there.
pub(crate) fn folder(path: &Path, hierarchy: Hierarchy) -> io::Result<PathBuf> {
    if path.is_absolute() && path.is_dir() {
        return Ok(path.to_owned());
    }
    let mounts = fs::read("/proc/self/mounts")?;
    let mount = mount_of(&mounts, hierarchy).ok_or(io::ErrorKind::NotFound)?;
    let below: PathBuf = path.components().filter(|part| matches!(part, Component::Normal(_))).collect();
    let folder = mount.join(below);
    if folder.is_dir() { Ok(folder) } else { Err(io::ErrorKind::NotFound.into()) }
}

/// The mount point of a hierarchy, from the text of `/proc/mounts`.
fn mount_of(mounts: &[u8], hierarchy: Hierarchy) -> Option<PathBuf> {
    let lines = || mounts.split(|byte| *byte == b'\n').filter_map(Mount::parse);
    let unified = || lines().find(|mount| mount.kind == b"cgroup2");
    let own = || lines().find(|mount| mount.kind == b"cgroup" && mount.has_option(b"perf_event"));
    let found = match hierarchy {
        Hierarchy::PerfEvent => own().or_else(unified),
        Hierarchy::Unified => unified(),
    };
    found.map(|mount| PathBuf::from(OsString::from_vec(unescape(mount.place))))
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
    fn a_group_that_does_not_exist_is_not_found() {
        for path in ["no-such-group", "/no-such-group", "../../etc"] {
            let error = folder(Path::new(path), Hierarchy::Unified).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{path}");
        }
    }

    #[test]
    fn an_absolute_folder_is_taken_as_it_is() {
        assert_eq!(folder(Path::new("/proc"), Hierarchy::Unified).unwrap(), Path::new("/proc"));
    }
}

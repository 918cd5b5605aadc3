//! Whether this process's memory control group has run out of memory.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Hierarchy, mount_of};

/// The memory limit of a control group, and the processes that it cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Usage {
    limit_bytes: u64,
    /// Processes that the kernel has killed to stay below the limit.
    killed: u64,
}

/// Reports that the kernel has killed processes of this process's memory control group, or of one above, with
/// the limit. `None` where the kernel killed none, or does not report it.
pub(crate) fn shortage() -> Option<String> {
    let mount = mount_of(&fs::read("/proc/self/mounts").ok()?, Hierarchy::Memory)?;
    let own = own_group(&fs::read_to_string("/proc/self/cgroup").ok()?)?;
    let folder = mount.join(own.strip_prefix("/").unwrap_or(&own));
    // A container sees its own group at the mount, whatever its path is outside.
    let groups = folder.ancestors().take_while(|group| group.starts_with(&mount));
    let usage = groups.filter_map(usage).find(|usage| usage.killed > 0)?;
    Some(words(usage))
}

fn words(usage: Usage) -> String {
    format!("its memory control group, limited to {} MiB, ran out of memory", usage.limit_bytes >> 20)
}

/// The path of the memory control group in the list of a process's groups.
///
/// # Source
///
/// `cgroups(7)`, `/proc/pid/cgroup`: `hierarchy:controllers:path`. Version 2 has hierarchy 0 and no
/// controllers.
fn own_group(list: &str) -> Option<PathBuf> {
    let groups = || list.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let own = groups().find(|(controllers, _)| controllers.split(',').any(|name| name == "memory"));
    own.or_else(|| groups().find(|(controllers, _)| controllers.is_empty())).map(|(_, path)| path.into())
}

/// # Source
///
/// Linux `Documentation/admin-guide/cgroup-v2.rst`, `memory.max`, `memory.events`; `cgroup-v1/memory.rst`,
/// `memory.limit_in_bytes`, `memory.oom_control`.
fn usage(group: &Path) -> Option<Usage> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    let limit = read("memory.max").or_else(|| read("memory.limit_in_bytes"))?;
    let events = read("memory.events").or_else(|| read("memory.oom_control"))?;
    let killed = events.lines().find_map(|line| line.strip_prefix("oom_kill "))?;
    Some(Usage { limit_bytes: limit.trim().parse().ok()?, killed: killed.trim().parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_that_of_the_memory_controller() {
        let check = |list, path: Option<&str>| assert_eq!(own_group(list), path.map(PathBuf::from));
        check("12:cpu,cpuacct:/a\n9:memory:/t64\n0::/b\n", Some("/t64"));
        check("0::/user.slice/a:b\n", Some("/user.slice/a:b"));
        check("3:cpu:/a\n", None);
        check("", None);
    }

    #[test]
    fn both_versions_tell_the_limit_and_who_was_killed() {
        let folder = tempfile::tempdir().unwrap();
        let group = |name: &str, files: &[(&str, &str)]| {
            let group = folder.path().join(name);
            fs::create_dir(&group).unwrap();
            files.iter().for_each(|(file, text)| fs::write(group.join(file), text).unwrap());
            usage(&group)
        };
        let full = Usage { limit_bytes: 64 << 20, killed: 2 };
        let expected = Some(full);
        let one = [
            ("memory.limit_in_bytes", "67108864\n"),
            ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
        ];
        assert_eq!(group("one", &one), expected);
        let two = [("memory.max", "67108864\n"), ("memory.events", "low 0\noom 3\noom_kill 2\n")];
        assert_eq!(group("two", &two), expected);
        let unlimited = [("memory.max", "max\n"), ("memory.events", "oom 0\noom_kill 2\n")];
        assert_eq!(group("unlimited", &unlimited), None);
        assert_eq!(group("none", &[]), None);
        assert_eq!(words(full), "its memory control group, limited to 64 MiB, ran out of memory");
    }
}

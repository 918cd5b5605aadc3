//! Whether the memory control group of a command has run out of memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::{Hierarchy, mount_of};

/// The memory control groups of this process at some moment, which are also those of the commands that it
/// starts then: its own and those above. Empty where none has a limit.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct GroupsBefore {
    groups: Vec<PathBuf>,
    limit_bytes: u64,
    /// Processes that the kernel had killed for lack of memory.
    killed: u64,
}

impl GroupsBefore {
    /// The state at this moment. Groups and limits are read once in the life of this process, as they cost a
    /// tenth of a millisecond. Where no group has a limit, nothing else is read.
    pub(crate) fn now() -> GroupsBefore {
        static OWN: OnceLock<GroupsBefore> = OnceLock::new();
        let own = OWN.get_or_init(|| GroupsBefore::of(own_groups().unwrap_or_default()));
        GroupsBefore { killed: killed_in(&own.groups), ..own.clone() }
    }

    fn of(groups: Vec<PathBuf>) -> GroupsBefore {
        // The lowest limit is reached first.
        let Some(limit_bytes) = groups.iter().filter_map(|group| limit(group)).min() else {
            return GroupsBefore::default();
        };
        let killed = killed_in(&groups);
        GroupsBefore { groups, limit_bytes, killed }
    }

    /// Reports that the kernel has killed processes of these groups since, with the limit. `None` where the
    /// kernel killed none, or does not report it.
    pub(crate) fn shortage(&self) -> Option<String> {
        let limit = self.limit_bytes >> 20;
        let words = || format!("its memory control group, limited to {limit} MiB, ran out of memory");
        (killed_in(&self.groups) > self.killed).then(words)
    }
}

/// The folders of this process's memory control group and of those above.
fn own_groups() -> Option<Vec<PathBuf>> {
    let mount = mount_of(&fs::read("/proc/self/mounts").ok()?, Hierarchy::Memory)?;
    let own = own_group(&fs::read_to_string("/proc/self/cgroup").ok()?)?;
    let folder = mount.join(own.strip_prefix("/").unwrap_or(&own));
    // A container sees its own group at the mount, whatever its path is outside.
    let groups = folder.ancestors().take_while(|group| group.starts_with(&mount));
    Some(groups.map(Path::to_owned).collect())
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

/// The limit of a group, in bytes.
///
/// # Source
///
/// Linux `Documentation/admin-guide/cgroup-v2.rst`, `memory.max`; `cgroup-v1/memory.rst`,
/// `memory.limit_in_bytes`; `include/linux/page_counter.h`, `PAGE_COUNTER_MAX`: version 1 gives this number
/// of pages where there is no limit.
fn limit(group: &Path) -> Option<u64> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    let limit = read("memory.max").or_else(|| read("memory.limit_in_bytes"))?;
    limit.trim().parse().ok().filter(|bytes| *bytes < NO_LIMIT)
}

/// Below `PAGE_COUNTER_MAX` pages of every size, and above every memory.
const NO_LIMIT: u64 = 1 << 60;

/// How many processes the kernel has killed in some groups for lack of memory.
///
/// # Source
///
/// Linux `Documentation/admin-guide/cgroup-v2.rst`, `memory.events`: a group's number includes those below;
/// `cgroup-v1/memory.rst`, `memory.oom_control`; `include/linux/memcontrol.h`, `memcg_memory_event`: in
/// version 1 it does not.
fn killed_in(groups: &[PathBuf]) -> u64 {
    groups.iter().filter_map(|group| killed(group)).sum()
}

fn killed(group: &Path) -> Option<u64> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    let events = read("memory.events").or_else(|| read("memory.oom_control"))?;
    events.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
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

    /// Folders of groups, from the innermost to the outermost, with their files.
    fn groups(at: &Path, files: &[&[(&str, &str)]]) -> Vec<PathBuf> {
        let group = |(number, files): (usize, &&[(&str, &str)])| {
            let folder = at.join(number.to_string());
            fs::create_dir_all(&folder).unwrap();
            files.iter().for_each(|(file, text)| fs::write(folder.join(file), text).unwrap());
            folder
        };
        files.iter().enumerate().map(group).collect()
    }

    const SHORTAGE: &str = "its memory control group, limited to 64 MiB, ran out of memory";

    #[test]
    fn a_shortage_is_told_in_both_versions_if_processes_were_killed_since() {
        for (limit, events, lines) in [
            ("memory.limit_in_bytes", "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n"),
            ("memory.max", "memory.events", "low 0\noom 3\n"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let own = groups(folder.path(), &[&[(limit, "67108864\n"), (events, "oom_kill 2\n")]]);
            let before = GroupsBefore::of(own.clone());
            assert_eq!(before.shortage(), None, "the two were killed before");
            fs::write(own[0].join(events), format!("{lines}oom_kill 3\n")).unwrap();
            assert_eq!(before.shortage().as_deref(), Some(SHORTAGE), "{limit}");
        }
    }

    #[test]
    fn the_limit_may_be_that_of_a_group_above_and_the_lowest_is_named() {
        let none = ("memory.limit_in_bytes", "9223372036854771712\n");
        let limited = |bytes| [("memory.limit_in_bytes", bytes)];
        let folder = tempfile::tempdir().unwrap();
        let files: [&[_]; 3] = [&[none], &limited("67108864\n"), &limited("1073741824\n")];
        let own = groups(folder.path(), &files);
        let before = GroupsBefore::of(own.clone());
        fs::write(own[0].join("memory.oom_control"), "oom_kill 1\n").unwrap();
        assert_eq!(before.shortage().as_deref(), Some(SHORTAGE));
    }

    #[test]
    fn without_a_limit_nothing_is_told() {
        for files in
            [&[("memory.max", "max\n")][..], &[("memory.limit_in_bytes", "9223372036854771712\n")], &[]]
        {
            let folder = tempfile::tempdir().unwrap();
            let own = groups(folder.path(), &[files]);
            let before = GroupsBefore::of(own.clone());
            assert_eq!(before, GroupsBefore::default());
            fs::write(own[0].join("memory.events"), "oom_kill 1\n").unwrap();
            assert_eq!(before.shortage(), None);
        }
    }
}

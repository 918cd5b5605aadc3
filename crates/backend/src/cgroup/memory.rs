//! Whether the memory control group of a command has run out of memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use cyclometer_core::exec::KillCause;

use super::{Hierarchy, mount_of};

/// The memory control group of this process before a command, which is also that of the command. Empty where
/// neither it nor one above has a limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupBefore {
    group: Option<Arc<LimitedGroup>>,
    /// Processes of the group that the kernel had killed for lack of memory.
    killed: u64,
}

/// A memory control group with a limit, its own or of a group above.
#[derive(Debug)]
struct LimitedGroup {
    folder: PathBuf,
    limit_bytes: u64,
    /// Killed processes at the last look.
    killed: AtomicU64,
}

impl GroupBefore {
    /// The state at this moment, as far as it is known. Reads files only the first time in the life of this
    /// process, as a command that is not killed must not pay for it.
    pub(crate) fn now() -> GroupBefore {
        static OWN: OnceLock<Option<Arc<LimitedGroup>>> = OnceLock::new();
        GroupBefore::of(OWN.get_or_init(|| LimitedGroup::of(&own_groups()?).map(Arc::new)).clone())
    }

    fn of(group: Option<Arc<LimitedGroup>>) -> GroupBefore {
        let killed = group.as_ref().map_or(0, |group| group.killed.load(Ordering::Relaxed));
        GroupBefore { group, killed }
    }

    /// Reports that the kernel has killed processes of this group since, with the limit. `None` where the
    /// kernel killed none, or does not report it. Later commands start from the number that is read here.
    pub(crate) fn shortage(&self) -> Option<KillCause> {
        let group = self.group.as_ref()?;
        let now = killed(&group.folder)?;
        group.killed.fetch_max(now, Ordering::Relaxed);
        (now > self.killed).then_some(KillCause::GroupOutOfMemory { limit_bytes: group.limit_bytes })
    }
}

impl LimitedGroup {
    /// The innermost of these groups.
    fn of(groups: &[PathBuf]) -> Option<LimitedGroup> {
        let folder = groups.first()?.clone();
        // The lowest limit is reached first.
        let limit_bytes = groups.iter().filter_map(|group| limit(group)).min()?;
        let killed = AtomicU64::new(killed(&folder)?);
        Some(LimitedGroup { folder, limit_bytes, killed })
    }
}

/// The folders of this process's memory control group and of those above, from the innermost on.
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

/// How many processes of a group the kernel has killed for lack of memory, whichever group had the limit.
///
/// # Source
///
/// Linux `Documentation/admin-guide/cgroup-v2.rst`, `memory.events`: a group's number includes those below,
/// so the number of a group above has processes of unrelated groups; `cgroup-v1/memory.rst`,
/// `memory.oom_control`; `include/linux/memcontrol.h`, `memcg_memory_event`: in version 1, a process is in
/// the number of its own group alone.
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

    fn before(groups: &[PathBuf]) -> GroupBefore {
        GroupBefore::of(LimitedGroup::of(groups).map(Arc::new))
    }

    const SHORTAGE: KillCause = KillCause::GroupOutOfMemory { limit_bytes: 64 << 20 };

    #[test]
    fn a_shortage_is_told_in_both_versions_if_processes_were_killed_since() {
        for (limit, events, lines) in [
            ("memory.limit_in_bytes", "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n"),
            ("memory.max", "memory.events", "low 0\noom 3\n"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let own = groups(folder.path(), &[&[(limit, "67108864\n"), (events, "oom_kill 2\n")]]);
            let before = before(&own);
            assert_eq!(before.shortage(), None, "the two were killed before");
            fs::write(own[0].join(events), format!("{lines}oom_kill 3\n")).unwrap();
            assert_eq!(before.shortage(), Some(SHORTAGE), "{limit}");
        }
    }

    #[test]
    fn the_limit_may_be_that_of_a_group_above_and_the_lowest_is_named() {
        let none = ("memory.limit_in_bytes", "9223372036854771712\n");
        let limited = |bytes| [("memory.limit_in_bytes", bytes)];
        let folder = tempfile::tempdir().unwrap();
        let inner = [none, ("memory.oom_control", "oom_kill 0\n")];
        let files: [&[_]; 3] = [&inner, &limited("67108864\n"), &limited("1073741824\n")];
        let own = groups(folder.path(), &files);
        let before = before(&own);
        fs::write(own[0].join("memory.oom_control"), "oom_kill 1\n").unwrap();
        assert_eq!(before.shortage(), Some(SHORTAGE));
    }

    #[test]
    fn a_process_of_another_group_that_is_killed_is_no_shortage_of_this_one() {
        let folder = tempfile::tempdir().unwrap();
        let limited = [("memory.max", "67108864\n"), ("memory.events", "oom_kill 1\n")];
        let own = groups(folder.path(), &[&[limited[1]], &limited]);
        let before = before(&own);
        fs::write(own[1].join("memory.events"), "oom_kill 2\n").unwrap();
        assert_eq!(before.shortage(), None, "the number above includes a sibling");
        fs::write(own[0].join("memory.events"), "oom_kill 2\n").unwrap();
        assert_eq!(before.shortage(), Some(SHORTAGE));
    }

    #[test]
    fn a_shortage_of_one_command_is_none_of_the_next_and_files_are_read_only_after_a_kill() {
        let folder = tempfile::tempdir().unwrap();
        let files = [("memory.max", "67108864\n"), ("memory.events", "oom_kill 1\n")];
        let own = groups(folder.path(), &[&files]);
        let first = before(&own);
        let again = || GroupBefore::of(first.group.clone());
        fs::write(own[0].join("memory.events"), "oom_kill 2\n").unwrap();
        assert_eq!(again().killed, 1, "the file is not read for each command");
        assert_eq!((first.shortage().is_some(), first.shortage().is_some()), (true, true));
        let next = again();
        assert_eq!(next.shortage(), None);
        fs::write(own[0].join("memory.events"), "oom_kill 3\n").unwrap();
        assert!(next.shortage().is_some());
        fs::remove_dir_all(&own[0]).unwrap();
        assert_eq!(next.shortage(), None, "unknown is no shortage");
    }

    #[test]
    fn without_a_limit_nothing_is_told() {
        for files in
            [&[("memory.max", "max\n")][..], &[("memory.limit_in_bytes", "9223372036854771712\n")], &[]]
        {
            let folder = tempfile::tempdir().unwrap();
            let own = groups(folder.path(), &[files]);
            let before = before(&own);
            assert!(before.group.is_none());
            fs::write(own[0].join("memory.events"), "oom_kill 1\n").unwrap();
            assert_eq!(before.shortage(), None);
        }
    }
}

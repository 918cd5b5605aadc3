//! The places where events are opened: threads, CPUs, control groups.

use std::fmt;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use cyclometer_core::event::{PerfClass, PerfEvent};
use cyclometer_core::exec::{At, RefusalKind};
use cyclometer_core::reason::{PerfRefusal, RefusalReason};
use cyclometer_core::{CpuSet, Refusal, Target};
use cyclometer_sys::filesystem;
use cyclometer_sys::perf::Whom;

use super::refusal;
use crate::cgroup::{self, Hierarchy, Search};

/// The file with the CPUs that are online.
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// One place to open an event at.
#[derive(Clone, Debug)]
pub(super) struct EventTarget {
    who: Who,
    cpu: Option<u32>,
    /// Its events begin at the next exec.
    pub(super) starts_at_exec: bool,
    /// Its events count new threads and children too.
    pub(super) inherit: bool,
    /// Its counters may be read by instructions.
    pub(super) user_reads: bool,
    /// A leader is read with its members.
    pub(super) together: bool,
}

#[derive(Clone, Debug)]
enum Who {
    ThisThread,
    /// A thread that has cells of its own in the reading.
    Thread(u32),
    Child(u32),
    Everyone,
    Cgroup(Rc<ControlGroup>),
}

/// A control group.
#[derive(Debug)]
struct ControlGroup {
    folder: File,
    name: String,
    /// The root folder of the hierarchy.
    root: PathBuf,
}

impl EventTarget {
    fn new(who: Who) -> EventTarget {
        EventTarget {
            who,
            cpu: None,
            starts_at_exec: false,
            inherit: false,
            user_reads: false,
            together: false,
        }
    }

    /// A running thread.
    pub(super) fn thread(tid: u32, inherit: bool) -> EventTarget {
        EventTarget { inherit, ..EventTarget::new(Who::Thread(tid)) }
    }

    /// The place in the kernel's terms.
    pub(super) fn whom(&self) -> Whom<'_> {
        match &self.who {
            Who::ThisThread => Whom::ThisThread,
            Who::Thread(id) | Who::Child(id) => Whom::Task(*id),
            Who::Everyone => Whom::Everyone,
            Who::Cgroup(group) => Whom::Cgroup(group.folder.as_fd()),
        }
    }

    /// The same place without its control group; `None` for other places.
    pub(super) fn without_group(&self) -> Option<EventTarget> {
        matches!(self.who, Who::Cgroup(_)).then(|| EventTarget { who: Who::Everyone, ..self.clone() })
    }

    /// That a control group lacks perf's controller, and the remedy; `None` for other places.
    ///
    /// # Source
    ///
    /// Linux `kernel/cgroup/cgroup.c`, `cgroup_propagate_control`: in version 2 `perf_event` need not be
    /// enabled. Children of the root get it only once the root has given them some controller.
    pub(super) fn without_controller(&self) -> Option<PerfRefusal> {
        let Who::Cgroup(group) = &self.who else { return None };
        Some(PerfRefusal::NoController { name: group.name.clone(), root: group.root.display().to_string() })
    }

    /// The same place on each of some CPUs.
    pub(super) fn on_each(&self, cpus: &CpuSet) -> Vec<EventTarget> {
        cpus.iter().map(|cpu| EventTarget { cpu: Some(cpu), ..self.clone() }).collect()
    }

    /// Whether the place counts the work of all users.
    pub(super) fn is_everyones(&self) -> bool {
        matches!(self.who, Who::Everyone | Who::Cgroup(_))
    }

    /// The CPU; `None` for any.
    pub(super) fn cpu(&self) -> Option<u32> {
        self.cpu
    }

    /// Where a cell of this place was counted.
    pub(super) fn at(&self, part: usize, pmu: &str) -> At {
        let tid = match self.who {
            Who::Thread(tid) => Some(tid),
            _ => None,
        };
        At { part, pmu: Some(pmu.to_owned()), cpu: self.cpu, tid }
    }
}

impl fmt::Display for EventTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.who {
            Who::ThisThread => f.write_str("this thread")?,
            Who::Thread(tid) => write!(f, "thread {tid}")?,
            Who::Child(pid) => write!(f, "child {pid}")?,
            Who::Everyone => {}
            Who::Cgroup(_) => f.write_str("the control group")?,
        }
        match (self.cpu, &self.who) {
            (Some(cpu), Who::Everyone) => write!(f, "CPU {cpu}"),
            (Some(cpu), _) => write!(f, " on CPU {cpu}"),
            (None, _) => Ok(()),
        }
    }
}

/// The places of a target, before the PMU of an event narrows them.
///
/// A process has none: its threads come and go, and are listed when they are opened.
pub(super) fn places(target: &Target) -> Result<Vec<EventTarget>, Refusal> {
    Ok(match target {
        Target::ThisThread => vec![EventTarget::new(Who::ThisThread)],
        Target::Thread(tid) => vec![EventTarget::thread(*tid, false)],
        Target::Child(pid) => {
            vec![EventTarget { starts_at_exec: true, inherit: true, ..EventTarget::new(Who::Child(*pid)) }]
        }
        Target::Cpus(cpus) => on_cpus(&Who::Everyone, online(cpus)?),
        Target::Cgroup { path, cpus } => on_cpus(&Who::Cgroup(Rc::new(open_cgroup(path)?)), online(cpus)?),
        Target::Process { .. } => Vec::new(),
        Target::Several(targets) => {
            let each: Result<Vec<Vec<EventTarget>>, Refusal> = targets.iter().map(places).collect();
            each?.concat()
        }
        _ => {
            return Err(Refusal::of_target(RefusalKind::TargetNotSupported, PerfRefusal::OtherTarget));
        }
    })
}

/// The places where an event's PMU counts. An event of a package or the system has its own CPUs.
pub(super) fn narrowed(places: &[EventTarget], event: &PerfEvent) -> Vec<EventTarget> {
    if event.class == PerfClass::SystemDevice {
        let first = || [0].into_iter().collect();
        return on_cpus(&Who::Everyone, &event.cpus.clone().unwrap_or_else(first));
    }
    let counts_at = |place: &&EventTarget| match (place.cpu, &event.cpus) {
        (Some(cpu), Some(cpus)) => cpus.contains(cpu),
        _ => true,
    };
    places.iter().filter(counts_at).cloned().collect()
}

fn on_cpus(who: &Who, cpus: &CpuSet) -> Vec<EventTarget> {
    cpus.iter().map(|cpu| EventTarget { cpu: Some(cpu), ..EventTarget::new(who.clone()) }).collect()
}

/// The CPUs that are online now; `None` where the kernel does not report them.
pub(super) fn all_online() -> Option<CpuSet> {
    fs::read_to_string(ONLINE).ok().and_then(|list| CpuSet::parse(&list).ok())
}

fn online(cpus: &CpuSet) -> Result<&CpuSet, Refusal> {
    match all_online().map(|online| cpus.difference(&online)) {
        Some(missing) if !missing.is_empty() => {
            Err(Refusal::of_target(RefusalKind::NoSuchTarget, PerfRefusal::NoSuchCpus(missing)))
        }
        _ => Ok(cpus),
    }
}

fn open_cgroup(path: &Path) -> Result<ControlGroup, Refusal> {
    let name = path.to_string_lossy().escape_debug().to_string();
    let folder = match cgroup::search(path, Hierarchy::PerfEvent) {
        Search::Found(folder) => folder,
        Search::Elsewhere(hierarchy) => {
            let reason = PerfRefusal::OtherHierarchy { name, hierarchy };
            return Err(Refusal::of_target(RefusalKind::NoSuchTarget, reason));
        }
        Search::Nowhere => {
            let reason = RefusalReason::NoControlGroup { name };
            return Err(Refusal::of_target(RefusalKind::NoSuchTarget, reason));
        }
    };
    let is_group = |folder: &&Path| filesystem::is_control_group(folder).unwrap_or(false);
    let root = folder.ancestors().take_while(is_group).last().unwrap_or(&folder).to_owned();
    match File::open(&folder) {
        Ok(folder) => Ok(ControlGroup { folder, name, root }),
        Err(e) => {
            let (kind, _) = refusal::meaning(&e, "", &name);
            let reason = PerfRefusal::ControlGroupNotOpened { name, error: e.to_string() };
            Err(Refusal::of_target(kind, reason))
        }
    }
}

/// The processes of a target that run already, and whether their children are counted too.
pub(super) fn processes(target: &Target) -> Vec<(u32, bool)> {
    match target {
        Target::Process { pid, inherit } => vec![(*pid, *inherit)],
        Target::Several(targets) => targets.iter().flat_map(processes).collect(),
        _ => Vec::new(),
    }
}

/// The threads of a process at this moment.
pub(super) fn threads(pid: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let tid = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    entries.flatten().filter_map(tid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::program::tests::perf_event;

    fn at(places: &[EventTarget]) -> Vec<String> {
        places.iter().map(EventTarget::to_string).collect()
    }

    #[test]
    fn a_system_device_counts_on_its_own_cpus_whatever_the_target() {
        let mut energy = perf_event("power", 9, PerfClass::SystemDevice);
        for target in [Target::Child(5), Target::ThisThread, Target::Process { pid: 1, inherit: true }] {
            assert_eq!(at(&narrowed(&places(&target).unwrap(), &energy)), ["CPU 0"]);
        }
        energy.cpus = CpuSet::parse("0,18").ok();
        assert_eq!(at(&narrowed(&[], &energy)), ["CPU 0", "CPU 18"]);
        assert!(narrowed(&[], &energy).iter().all(|place| !place.starts_at_exec && !place.inherit));
    }

    #[test]
    fn cpu_wide_counts_stay_on_the_cpus_of_the_pmu() {
        let all = on_cpus(&Who::Everyone, &CpuSet::parse("0-3").unwrap());
        let mut atom = perf_event("cpu_atom", 10, PerfClass::Core);
        assert_eq!(narrowed(&all, &atom).len(), 4);
        atom.cpus = CpuSet::parse("2-7").ok();
        assert_eq!(at(&narrowed(&all, &atom)), ["CPU 2", "CPU 3"]);
        let child = places(&Target::Child(9)).unwrap();
        assert_eq!(at(&narrowed(&child, &atom)), ["child 9"]);
    }

    #[test]
    fn a_control_group_without_controllers_is_named_with_what_gives_it_one() {
        let folder = File::open("/").unwrap();
        let group = ControlGroup { folder, name: "a/b".into(), root: "/sys/fs/cgroup".into() };
        let place = EventTarget { cpu: Some(3), ..EventTarget::new(Who::Cgroup(Rc::new(group))) };
        let text = place.without_controller().unwrap().to_string();
        assert!(
            text.contains("'a/b'") && text.contains("tee /sys/fs/cgroup/cgroup.subtree_control"),
            "{text}"
        );
        assert_eq!(place.without_group().map(|place| place.to_string()).as_deref(), Some("CPU 3"));
        let thread = EventTarget::thread(1, false);
        assert!(thread.without_controller().is_none() && thread.without_group().is_none());
    }

    #[test]
    fn what_does_not_exist_is_refused_by_name() {
        let cpus = CpuSet::parse("0,60000").unwrap();
        let refusal = places(&Target::Cpus(cpus.clone())).unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::NoSuchTarget);
        assert_eq!(refusal.reason.to_string(), "CPU 60000 does not exist or is offline");
        let refusal = places(&Target::Cgroup { path: "no/such\ngroup".into(), cpus }).unwrap_err();
        assert_eq!(refusal.reason.to_string(), "there is no control group 'no/such\\ngroup'");
    }
}

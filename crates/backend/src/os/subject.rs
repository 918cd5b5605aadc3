//! The target whose accounts are read.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cyclometer_core::event::OsMetric;
use cyclometer_core::exec::RefusalKind;
use cyclometer_core::reason::{AccountRefusal, RefusalReason};
use cyclometer_core::{CpuSet, PartReason, Refusal, Target};
use cyclometer_sys::process;

use super::accounts::Accounts;
use super::procfs::{self, Ticks};
use crate::cgroup::{self, Hierarchy, Search};
use crate::usage;

/// The target whose accounts are read.
#[derive(Debug)]
pub(super) enum Subject {
    ThisThread,
    Thread {
        tid: u32,
        ticks: Ticks,
        began: Began,
    },
    Process(Threads),
    Child(Threads),
    Cpus {
        cpus: CpuSet,
        ticks: Ticks,
    },
    Cgroup {
        folder: PathBuf,
        /// The ticks in which the times of the root group are given.
        ticks: Option<Ticks>,
    },
    Several(Several),
    /// A control group that exists, whose accounts are in files of another form.
    CgroupVersion1,
    /// This thread, on a system that accounts for processes only.
    ThreadWithoutAccounts,
    /// A running process or thread, or CPUs, on a system without `/proc`: only the elapsed time is known.
    Unlisted(String),
}

/// A process with the context switches of every thread that it ever showed.
///
/// Threads that have ended have no file any more, so their last numbers are kept.
#[derive(Debug)]
pub(super) struct Threads {
    pid: u32,
    ticks: Ticks,
    began: Began,
    switches: BTreeMap<u32, (u64, u64)>,
    /// Whether the accounts of its children were requested too.
    with_children: bool,
    /// Accounts taken over from children before the first reading.
    inherited: Option<[u64; 4]>,
    /// The process has, or had, children since then.
    had_children: bool,
}

/// When a process or thread began, from its first `stat` on. Its id may later be that of a stranger.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Began(Option<u64>);

impl Began {
    /// Whether this `stat` is of the same process or thread as the first one.
    fn is_of(&mut self, stat: &[u8]) -> bool {
        let Some(now) = procfs::start_ticks(stat) else { return false };
        *self.0.get_or_insert(now) == now
    }
}

/// Processes or threads, of which some may end before others.
#[derive(Debug)]
pub(super) struct Several {
    members: Vec<SubjectMember>,
}

#[derive(Debug)]
struct SubjectMember {
    subject: Subject,
    state: MemberState,
}

/// The accounts of a member, and whether it runs.
#[derive(Clone, Copy, Debug)]
enum MemberState {
    /// The last accounts, and their time.
    Running { last: Accounts, at: Instant },
    /// The last accounts, and the time from their reading to the first failed one. It is not read again, as
    /// its id may be that of a stranger.
    Ended { last: Accounts, missed: Duration },
}

impl SubjectMember {
    fn of(target: &Target) -> Result<SubjectMember, Refusal> {
        let mut subject = Subject::of(target)?;
        let at = Instant::now();
        let last = subject.take().ok_or_else(|| subject.missing())?;
        Ok(SubjectMember { subject, state: MemberState::Running { last, at } })
    }

    fn advance(&mut self, now: Instant) {
        let MemberState::Running { last, at } = self.state else { return };
        self.state = match self.subject.take() {
            Some(last) => MemberState::Running { last, at: now },
            None => MemberState::Ended { last, missed: now.saturating_duration_since(at) },
        };
    }

    fn last(&self) -> Accounts {
        let (MemberState::Running { last, .. } | MemberState::Ended { last, .. }) = self.state;
        last
    }

    /// Time from the last reading of an ended member to the first failed one.
    fn missed(&self) -> Option<Duration> {
        match self.state {
            MemberState::Running { .. } => None,
            MemberState::Ended { missed, .. } => Some(missed),
        }
    }
}

impl Several {
    fn of(targets: &[Target]) -> Result<Several, Refusal> {
        Ok(Several { members: targets.iter().map(SubjectMember::of).collect::<Result<_, _>>()? })
    }

    /// The sum over all members; ended members contribute their last values. `None` when all have ended.
    fn take(&mut self) -> Option<Accounts> {
        let now = Instant::now();
        self.members.iter_mut().for_each(|member| member.advance(now));
        let sum = self.members.iter().map(SubjectMember::last).reduce(Accounts::plus);
        sum.filter(|_| self.members.iter().any(|member| member.missed().is_none()))
    }

    /// How long before their end the ended members were read, where one has ended.
    fn missed(&self) -> Option<PartReason> {
        let ended = || self.members.iter().filter_map(SubjectMember::missed);
        let (ms, targets) = (ended().max()?.as_millis(), self.members.len());
        Some(PartReason::SomeReadBeforeEnd { ended: ended().count(), targets, ms })
    }

    /// The longest ticks of any member.
    fn ticks(&self) -> Option<Ticks> {
        let ticks = self.members.iter().filter_map(|member| member.subject.ticks());
        ticks.min_by_key(|ticks| ticks.per_second)
    }
}

/// How many members a message names.
const MOST_NAMED: usize = 3;

impl fmt::Display for Several {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |members: &[SubjectMember]| -> Vec<String> {
            members.iter().map(|member| member.subject.to_string()).collect()
        };
        match self.members.split_at_checked(MOST_NAMED) {
            Some((first, others)) if others.len() > 1 => {
                write!(f, "{} and {} others", names(first).join(", "), others.len())
            }
            _ => f.write_str(&names(&self.members).join(" and ")),
        }
    }
}

impl Subject {
    /// The subject of a target.
    pub(super) fn of(target: &Target) -> Result<Subject, Refusal> {
        let ticks = Ticks { per_second: process::clock_ticks_per_second() };
        let threads = |pid: &u32, with_children| Threads {
            pid: *pid,
            ticks,
            began: Began::default(),
            switches: BTreeMap::new(),
            with_children,
            inherited: None,
            had_children: false,
        };
        let listed = process::check_process_list();
        if listed.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::Unsupported)
            && let Some(subject) = Subject::unlisted(target)
        {
            return Ok(subject);
        }
        if let Target::Thread(_) | Target::Process { .. } = target {
            let unrelated =
                |error: io::Error| Refusal::of_target(RefusalKind::TargetNotSupported, error.to_string());
            listed.map_err(unrelated)?;
        }
        let mut subject = match target {
            Target::ThisThread => Subject::ThisThread,
            Target::Thread(tid) => Subject::Thread { tid: *tid, ticks, began: Began::default() },
            Target::Process { pid, inherit } => Subject::Process(threads(pid, *inherit)),
            Target::Child(pid) => Subject::Child(threads(pid, true)),
            Target::Cpus(cpus) => Subject::Cpus { cpus: cpus.clone(), ticks },
            Target::Cgroup { path, .. } => cgroup(path)?,
            Target::Several(targets) => Subject::Several(Several::of(targets)?),
            _ => return Err(Refusal::of_target(RefusalKind::TargetNotSupported, AccountRefusal::NoAccounts)),
        };
        // A child's accounts come when it ends.
        if matches!(subject, Subject::Child(_)) || subject.take().is_some() {
            return Ok(subject);
        }
        match subject {
            Subject::ThisThread => Ok(Subject::ThreadWithoutAccounts),
            _ => Err(subject.missing()),
        }
    }

    /// The subject of a target on a system without `/proc`; `None` for those that do not need it.
    fn unlisted(target: &Target) -> Option<Subject> {
        match target {
            Target::Thread(tid) => Some(Subject::Unlisted(format!("thread {tid}"))),
            Target::Process { pid, .. } => Some(Subject::Unlisted(format!("process {pid}"))),
            Target::Several(_) => Some(Subject::Unlisted("several processes together".to_owned())),
            Target::Cpus(cpus) => Some(Subject::Unlisted(format!("CPU {cpus}"))),
            _ => None,
        }
    }

    fn missing(&self) -> Refusal {
        Refusal::of_target(RefusalKind::NoSuchTarget, RefusalReason::NoTarget { target: self.to_string() })
    }

    /// Whether the system reports this metric about the subject.
    pub(super) fn accounts_for(&self, metric: OsMetric) -> bool {
        use OsMetric::{CpuTime, PeakRss, SystemTime, UserTime, WallTime};
        match self {
            Subject::Process(threads) if metric == PeakRss => !threads.are_of_the_kernel(),
            Subject::Process(_) | Subject::Child(_) => true,
            // Peaks of several processes belong to different moments.
            Subject::Several(_) if metric == PeakRss => false,
            Subject::Several(several) => {
                several.members.iter().all(|member| member.subject.accounts_for(metric))
            }
            Subject::ThisThread | Subject::Thread { .. } => metric != PeakRss,
            Subject::Cpus { .. } => matches!(metric, WallTime | UserTime | SystemTime | CpuTime),
            Subject::CgroupVersion1 | Subject::ThreadWithoutAccounts | Subject::Unlisted(_) => {
                metric == WallTime
            }
            Subject::Cgroup { folder, .. } => match metric {
                PeakRss => folder.join("memory.peak").exists(),
                metric => matches!(metric, WallTime | UserTime | SystemTime | CpuTime),
            },
        }
    }

    /// Why the system does not report a metric with this name about the subject.
    pub(super) fn without(&self, metric: &str) -> AccountRefusal {
        let metric = metric.to_owned();
        match self {
            Subject::CgroupVersion1 => AccountRefusal::CgroupVersion1,
            Subject::ThreadWithoutAccounts => AccountRefusal::NotOfThreads { metric },
            Subject::Process(threads) if threads.are_of_the_kernel() => {
                AccountRefusal::NotOfKernelThread { metric, target: self.to_string() }
            }
            _ => AccountRefusal::NotOfTarget { metric, target: self.to_string() },
        }
    }

    /// The accounts before the start. A child's accounts all count.
    pub(super) fn base(&mut self) -> Option<Accounts> {
        match self {
            Subject::Child(_) => Some(Accounts::default()),
            _ => self.take(),
        }
    }

    /// The present accounts; `None` when they cannot be read (any more).
    pub(super) fn take(&mut self) -> Option<Accounts> {
        match self {
            Subject::ThisThread => process::thread_usage().ok().map(|used| usage::shared(used).into()),
            Subject::Thread { tid, ticks, began } => thread_accounts(*tid, *ticks, began),
            Subject::Process(threads) | Subject::Child(threads) => threads.take(),
            Subject::Several(several) => several.take(),
            Subject::Cpus { cpus, ticks } => procfs::cpu_times(&fs::read("/proc/stat").ok()?, cpus, *ticks),
            Subject::Cgroup { folder, .. } => cgroup_accounts(folder),
            Subject::CgroupVersion1 | Subject::ThreadWithoutAccounts | Subject::Unlisted(_) => {
                Some(Accounts::default())
            }
        }
    }

    /// The ticks in which its times are given, if they are.
    pub(super) fn ticks(&self) -> Option<Ticks> {
        match self {
            Subject::Thread { ticks, .. } | Subject::Cpus { ticks, .. } => Some(*ticks),
            Subject::Process(threads) | Subject::Child(threads) => Some(threads.ticks),
            Subject::Cgroup { ticks, .. } => *ticks,
            Subject::Several(several) => several.ticks(),
            Subject::ThisThread | Subject::ThreadWithoutAccounts | Subject::CgroupVersion1 => None,
            Subject::Unlisted(_) => None,
        }
    }

    /// Whether it has children whose accounts were requested and are not part of its own.
    pub(super) fn leaves_children_out(&self) -> bool {
        match self {
            Subject::Process(threads) | Subject::Child(threads) => {
                threads.with_children && threads.had_children
            }
            Subject::Several(several) => {
                several.members.iter().any(|member| member.subject.leaves_children_out())
            }
            _ => false,
        }
    }

    /// How long before their end members were read, where there are several and one has ended.
    pub(super) fn missed(&self) -> Option<PartReason> {
        match self {
            Subject::Several(several) => several.missed(),
            _ => None,
        }
    }

    /// The id of a thread that the target names.
    pub(super) fn tid(&self) -> Option<u32> {
        match self {
            Subject::Thread { tid, .. } => Some(*tid),
            _ => None,
        }
    }
}

fn cgroup(path: &Path) -> Result<Subject, Refusal> {
    match cgroup::search(path, Hierarchy::Unified) {
        Search::Found(folder) => Ok(Subject::Cgroup { ticks: ticks_of(&folder), folder }),
        Search::Elsewhere(_) => Ok(Subject::CgroupVersion1),
        Search::Nowhere => {
            let name = path.to_string_lossy().escape_debug().to_string();
            Err(Refusal::of_target(RefusalKind::NoSuchTarget, RefusalReason::NoControlGroup { name }))
        }
    }
}

/// The ticks in which the kernel gives a control group's times: those of the root are the sum of all CPUs,
/// which the kernel samples. In any other group, user and system time add up to the exact time on CPUs.
///
/// # Source
///
/// Linux `kernel/cgroup/rstat.c`, `root_cgroup_cputime`; `Documentation/admin-guide/cgroup-v2.rst`,
/// `cgroup.type`, which the root does not have.
fn ticks_of(folder: &Path) -> Option<Ticks> {
    let per_second = || process::kernel_ticks_per_second().unwrap_or_else(process::clock_ticks_per_second);
    (!folder.join("cgroup.type").exists()).then(|| Ticks { per_second: per_second() })
}

fn cgroup_accounts(folder: &Path) -> Option<Accounts> {
    let times = procfs::cgroup_times(&fs::read(folder.join("cpu.stat")).ok()?)?;
    let peak = fs::read_to_string(folder.join("memory.peak")).ok();
    Some(Accounts { peak_rss_bytes: peak.and_then(|bytes| bytes.trim().parse().ok()), ..times })
}

fn thread_accounts(tid: u32, ticks: Ticks, began: &mut Began) -> Option<Accounts> {
    let folder = PathBuf::from(format!("/proc/{tid}/task/{tid}"));
    let stat = fs::read(folder.join("stat")).ok().filter(|stat| began.is_of(stat))?;
    let accounts = procfs::stat(&stat, ticks)?;
    let switches = fs::read(folder.join("status")).ok().as_deref().and_then(procfs::switches);
    Some(with_switches(accounts, switches))
}

fn with_switches(accounts: Accounts, switches: Option<(u64, u64)>) -> Accounts {
    Accounts {
        voluntary_switches: switches.map(|(voluntary, _)| voluntary),
        involuntary_switches: switches.map(|(_, involuntary)| involuntary),
        ..accounts
    }
}

impl Threads {
    /// A thread of the kernel is a process of its own.
    fn are_of_the_kernel(&self) -> bool {
        fs::read(format!("/proc/{}/stat", self.pid)).is_ok_and(|stat| procfs::is_kernel_thread(&stat))
    }

    fn take(&mut self) -> Option<Accounts> {
        process::check_process_list().ok()?;
        let folder = PathBuf::from(format!("/proc/{}", self.pid));
        let stat = fs::read(folder.join("stat")).ok().filter(|stat| self.began.is_of(stat))?;
        let accounts = procfs::stat(&stat, self.ticks)?;
        self.look_for_children(procfs::of_children(&stat));
        let status = fs::read(folder.join("status")).ok();
        let peak_rss_bytes = status.as_deref().and_then(procfs::peak_rss_bytes);
        self.look_at_threads(&folder.join("task"));
        let sum = |pick: fn(&(u64, u64)) -> u64| self.switches.values().map(pick).sum();
        let switches = (!self.switches.is_empty()).then(|| (sum(|both| both.0), sum(|both| both.1)));
        Some(with_switches(Accounts { peak_rss_bytes, ..accounts }, switches))
    }

    /// Waiting for a child adds the child's accounts to the process's.
    fn look_for_children(&mut self, now: Option<[u64; 4]>) {
        let before = *self.inherited.get_or_insert(now.unwrap_or_default());
        self.had_children |= now.is_some_and(|now| now != before);
    }

    fn look_at_threads(&mut self, tasks: &Path) {
        let Ok(entries) = fs::read_dir(tasks) else { return };
        for entry in entries.flatten() {
            let tid = entry.file_name().to_str().and_then(|name| name.parse().ok());
            let children = fs::read(entry.path().join("children")).unwrap_or_default();
            self.had_children |= !children.is_empty();
            let status = fs::read(entry.path().join("status")).ok();
            if let (Some(tid), Some(switches)) = (tid, status.as_deref().and_then(procfs::switches)) {
                self.switches.insert(tid, switches);
            }
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::ThisThread | Subject::ThreadWithoutAccounts => f.write_str("this thread"),
            Subject::Unlisted(name) => f.write_str(name),
            Subject::Thread { tid, .. } => write!(f, "thread {tid}"),
            Subject::Process(threads) => write!(f, "process {}", threads.pid),
            Subject::Child(_) => f.write_str("the command"),
            Subject::Several(several) => several.fmt(f),
            Subject::Cpus { cpus, .. } => write!(f, "CPU {cpus}"),
            Subject::CgroupVersion1 => f.write_str("control groups of version 1"),
            Subject::Cgroup { folder, .. } => {
                write!(f, "control group {}", folder.to_string_lossy().escape_debug())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_of_many_members_are_named() {
        let several = |count: usize| {
            let member = |_| SubjectMember::of(&Target::ThisThread).unwrap();
            Several { members: (0..count).map(member).collect() }.to_string()
        };
        assert_eq!(several(2), "this thread and this thread");
        assert_eq!(several(300), "this thread, this thread, this thread and 297 others");
    }

    /// Another process or thread with the id of the subject.
    fn reuse_id(subject: &mut Subject) {
        match subject {
            Subject::Thread { began: Began(ticks), .. } => *ticks = ticks.map(|ticks| ticks + 1),
            Subject::Process(Threads { began: Began(ticks), .. }) => *ticks = ticks.map(|ticks| ticks + 1),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_stranger_with_the_id_of_the_target_is_not_read() {
        let pid = std::process::id();
        for target in [Target::Thread(pid), Target::Process { pid, inherit: false }] {
            let mut subject = Subject::of(&target).unwrap();
            assert!(subject.take().is_some() && subject.take().is_some(), "it is the same");
            reuse_id(&mut subject);
            assert_eq!(subject.take(), None, "{target:?}");
        }
    }

    #[test]
    fn ended_members_keep_their_last_accounts_and_the_longest_gap_is_named() {
        let pid = std::process::id();
        let mut several =
            Several::of(&[Target::Thread(pid), Target::ThisThread, Target::Thread(pid)]).unwrap();
        assert_eq!(several.missed(), None);
        let ms = Duration::from_millis;
        let now = Instant::now() + ms(10_000);
        let last = Accounts { minor_faults: Some(5), ..Accounts::default() };
        let ends = |member: &mut SubjectMember, missed| {
            reuse_id(&mut member.subject);
            member.state = MemberState::Running { last, at: now };
            member.advance(now + missed);
        };
        ends(&mut several.members[0], ms(20));
        assert_eq!(several.missed().unwrap().to_string(), "1 of 3 was read 20 ms before it ended");
        ends(&mut several.members[2], ms(100));
        assert_eq!(several.missed().unwrap().to_string(), "2 of 3 were read up to 100 ms before they ended");
        // An ended member stays so, even if its id could be read again.
        let Subject::Thread { began, .. } = &mut several.members[0].subject else { panic!("a thread") };
        *began = Began::default();
        assert!(several.take().is_some(), "one runs");
        assert_eq!(several.members[0].last(), last);
        assert_eq!(several.missed().unwrap().to_string(), "2 of 3 were read up to 100 ms before they ended");
        several.members.remove(1);
        assert_eq!(several.take(), None, "all have ended");
    }

    #[test]
    fn times_of_the_root_group_are_in_ticks_and_those_of_other_groups_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = ticks_of(folder.path()).expect("without cgroup.type it is the root");
        fs::write(folder.path().join("cgroup.type"), "domain\n").unwrap();
        assert_eq!(ticks_of(folder.path()), None);
        let group = |ticks| Subject::Cgroup { folder: folder.path().to_owned(), ticks };
        let several = |all: &[Option<Ticks>]| {
            let state = MemberState::Running { last: Accounts::default(), at: Instant::now() };
            let members = all.iter().map(|ticks| SubjectMember { subject: group(*ticks), state }).collect();
            Subject::Several(Several { members }).ticks()
        };
        let short = Ticks { per_second: root.per_second + 1 };
        assert_eq!(several(&[None, None]), None);
        assert_eq!(several(&[None, Some(short), Some(root), Some(short)]), Some(root), "the longest");
    }

    #[test]
    fn without_a_process_list_what_runs_already_and_cpus_have_their_elapsed_time() {
        let process = Target::Process { pid: 7, inherit: true };
        let cpus = Target::Cpus([0, 1].into_iter().collect());
        let check = |target: &Target, name: &str| {
            let mut subject = Subject::unlisted(target).unwrap();
            assert!(subject.accounts_for(OsMetric::WallTime) && !subject.accounts_for(OsMetric::UserTime));
            assert_eq!((subject.take(), subject.ticks()), (Some(Accounts::default()), None));
            let reason = subject.without("user_time").to_string();
            assert!(reason.ends_with(name), "{reason}");
        };
        check(&process, "process 7");
        check(&Target::Thread(8), "thread 8");
        check(&cpus, "CPU 0-1");
        check(&Target::Several(vec![process]), "several processes together");
        assert!(Subject::unlisted(&Target::Child(7)).is_none(), "its accounts come when it ends");
    }

    #[test]
    fn a_thread_without_accounts_has_its_elapsed_time() {
        let mut subject = Subject::ThreadWithoutAccounts;
        assert!(subject.accounts_for(OsMetric::WallTime));
        assert!(!subject.accounts_for(OsMetric::CpuTime));
        assert_eq!(subject.take(), Some(Accounts::default()));
        assert_eq!(
            subject.without("user_time"),
            AccountRefusal::NotOfThreads { metric: "user_time".to_owned() }
        );
    }
}

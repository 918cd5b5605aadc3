//! Refusals of Linux's perf events.

use std::fmt;

use crate::cpuset::CpuSet;

/// Why perf does not open events.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PerfRefusal {
    /// The kernel's answer to one event.
    Answer(PerfAnswer),
    /// The kernel does not permit samples of an event.
    SamplesForbidden {
        /// The kernel's answer.
        answer: Box<PerfAnswer>,
        /// The setting that forbids it, if one does.
        permit: Option<SamplingPermit>,
    },
    /// The kernel takes the first events of a group, and not the next one.
    GroupTooLarge {
        /// The group's events.
        events: Vec<String>,
        /// Their PMU.
        pmu: String,
        /// Number of events that the kernel takes.
        opened: usize,
    },
    /// Events of a group are on two PMUs.
    GroupOnTwoPmus(Box<[EventPmus; 2]>),
    /// An event of a group is not on the PMU of the others.
    NotOnPmuOfGroup {
        /// The event.
        event: String,
        /// The PMU of the others.
        pmu: String,
    },
    /// Each of several groups would count the event.
    CountedByEachPmu {
        /// The event.
        event: String,
    },

    // ---------------------------------------------------------------------------------- the target
    /// perf cannot count this kind of target.
    OtherTarget,
    /// The threads of a process cannot be listed.
    ThreadsNotListed {
        /// The process.
        pid: u32,
        /// The kernel's words.
        error: String,
    },
    /// The PMU of the event counts none of the chosen CPUs.
    NotOnCpus {
        /// The event.
        event: String,
    },
    /// CPUs are absent or offline.
    NoSuchCpus(CpuSet),
    /// A control group is in another hierarchy.
    OtherHierarchy {
        /// The control group.
        name: String,
        /// Its hierarchy.
        hierarchy: String,
    },
    /// A control group cannot be opened.
    ControlGroupNotOpened {
        /// The control group.
        name: String,
        /// The kernel's words.
        error: String,
    },
    /// A control group lacks perf's controller.
    NoController {
        /// The control group.
        name: String,
        /// The root folder of its hierarchy.
        root: String,
    },
    /// A process does not exist any more.
    ProcessEnded {
        /// The process.
        pid: u32,
    },

    // ------------------------------------------------------------------------- samples and windows
    /// A running process is sampled by its threads.
    SampledByThreads,
    /// The event is a sum, and a sample is of one event.
    SampleOfSum {
        /// The event.
        event: String,
    },
    /// The PMU signals no overflows.
    NoOverflows {
        /// The PMU.
        pmu: String,
    },
    /// Inherited events cannot have the values of other events in their samples.
    InheritedValues,
    /// Samples cannot go to the buffer of another event.
    NotInBuffer {
        /// The event.
        event: String,
        /// The kernel's words.
        error: String,
    },
    /// The buffer is larger than users may lock.
    TooMuchLocked(Box<LockedPages>),
    /// The number of pages is no power of two.
    PagesNoPowerOfTwo {
        /// Number of pages.
        pages: usize,
    },
    /// The buffer cannot be mapped.
    NoBuffer {
        /// Number of pages.
        pages: usize,
        /// The place that is sampled, in words.
        place: String,
        /// The kernel's words.
        error: String,
    },
    /// Windows end at events.
    WindowsByTime,
    /// Windows are recorded of one command, process or thread, or of CPUs.
    WindowsOfOtherTarget,
}

/// An answer of `perf_event_open(2)`.
///
/// # Source
///
/// `perf_event_open(2)`, section "Errors".
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PerfAnswer {
    /// `EACCES` or `EPERM`.
    NotPermitted {
        /// The place, in words: `CPU 3`.
        place: String,
        /// The name of the error number.
        errno: &'static str,
    },
    /// `ENOENT`: the PMU does not have the event.
    NoEvent {
        /// The PMU.
        pmu: String,
    },
    /// `EOPNOTSUPP`: the PMU lacks what the attributes request.
    NotThisWay {
        /// The PMU.
        pmu: String,
    },
    /// `ENODEV`: the PMU is absent.
    NoPmu {
        /// The PMU.
        pmu: String,
    },
    /// `EINVAL`: the PMU refuses the attributes.
    Attributes {
        /// The PMU.
        pmu: String,
    },
    /// `EBUSY`: another user has the PMU exclusively.
    Held {
        /// The PMU.
        pmu: String,
    },
    /// `ESRCH`: the place does not exist.
    NoPlace {
        /// The place, in words.
        place: String,
    },
    /// `EMFILE`: this process has too many open files.
    FilesOfProcess,
    /// `ENFILE`: the system has too many open files.
    FilesOfSystem,
    /// `ENOSYS`: the kernel has no perf events.
    NoPerf,
    /// Another error.
    Other {
        /// The PMU.
        pmu: String,
        /// The place, in words.
        place: String,
        /// The kernel's words.
        error: String,
    },
}

/// An event of a group and its PMUs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventPmus {
    /// The event.
    pub event: String,
    /// Its PMUs.
    pub pmus: Vec<String>,
}

/// The kernel's setting that forbids samples, and the value that permits them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SamplingPermit {
    /// The value of `kernel.perf_event_paranoid`.
    pub paranoid: i64,
    /// The value that permits it.
    pub needed: i64,
    /// Whether samples of user mode alone are permitted now.
    pub user_mode_permitted: bool,
}

/// Buffers of samples that are more memory than a user may lock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockedPages {
    /// Pages of data in each buffer.
    pub pages: usize,
    /// The place that is sampled, in words.
    pub place: String,
    /// Number of buffers.
    pub buffers: usize,
    /// `kernel.perf_event_mlock_kb`, in KiB; `None` where it cannot be read.
    pub allowed_kb: Option<u64>,
    /// The value that permits them, in KiB.
    pub needed_kb: u64,
}

impl fmt::Display for PerfRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use PerfRefusal as P;
        match self {
            P::Answer(answer) => answer.fmt(f),
            P::SamplesForbidden { answer, permit: None } => answer.fmt(f),
            P::SamplesForbidden { answer, permit: Some(permit) } => write!(f, "{answer}: {permit}"),
            P::GroupTooLarge { events, pmu, opened } => write!(
                f,
                "the group {{{}}} does not fit on {pmu}: it takes {opened} of its {} events",
                events.join(","),
                events.len()
            ),
            P::GroupOnTwoPmus(both) => {
                let [one, other] = both.as_ref();
                write!(f, "{one} and {other}: events of a group must be on one PMU")
            }
            P::NotOnPmuOfGroup { event, pmu } => {
                write!(f, "{event} is not on {pmu}: events of a group must be on one PMU")
            }
            P::CountedByEachPmu { event } => write!(
                f,
                "{event} would be counted once for each of several core PMUs: leave it out, or record it alone"
            ),
            P::OtherTarget => f.write_str("perf cannot count this kind of target"),
            P::ThreadsNotListed { pid, error } => {
                write!(f, "the threads of process {pid} cannot be listed: {error}")
            }
            P::NotOnCpus { event } => write!(f, "{event} counts on none of the chosen CPUs"),
            P::NoSuchCpus(cpus) => write!(f, "CPU {cpus} does not exist or is offline"),
            P::OtherHierarchy { name, hierarchy } => write!(
                f,
                "the control group '{name}' is in the hierarchy {hierarchy}, which perf_event is not in: perf \
                 cannot count it"
            ),
            P::ControlGroupNotOpened { name, error } => {
                write!(f, "cannot open the control group '{name}': {error}")
            }
            P::NoController { name, root } => write!(
                f,
                "perf cannot count the control group '{name}', as it has no controllers (ENOENT): give the children \
                 of the root one, as in `echo +pids | sudo tee {root}/cgroup.subtree_control`"
            ),
            P::ProcessEnded { pid } => write!(f, "process {pid} does not exist, or has ended"),
            P::SampledByThreads => {
                f.write_str("a process that runs already is sampled by its threads, each for itself")
            }
            P::SampleOfSum { event } => {
                write!(f, "{event} is a sum of events here, and a sample is of single ones: name them")
            }
            P::NoOverflows { pmu } => write!(
                f,
                "the PMU {pmu} signals no overflows, so that its events can be counted and not sampled \
                 (EOPNOTSUPP); RISC-V needs Sscofpmf for it; sample a clock instead: cpu-clock, task-clock"
            ),
            P::InheritedValues => f.write_str(
                "samples of a command with its children cannot have the counts of other events (EINVAL): Linux \
                 supports it from version 6.12 on; sample one event alone",
            ),
            P::NotInBuffer { event, error } => {
                write!(f, "the samples of {event} cannot go to the buffer of the first event: {error}")
            }
            P::TooMuchLocked(locked) => locked.fmt(f),
            P::PagesNoPowerOfTwo { pages } => {
                write!(f, "{pages} pages of samples: the kernel wants a power of two")
            }
            P::NoBuffer { pages, place, error } => {
                write!(f, "there is no room for {pages} pages of samples on {place}: {error}")
            }
            P::WindowsByTime => f.write_str("perf's windows end at events, not at times"),
            P::WindowsOfOtherTarget => {
                f.write_str("perf records windows of one command, process or thread, or of CPUs")
            }
        }
    }
}

impl fmt::Display for PerfAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use PerfAnswer as P;
        match self {
            P::NotPermitted { place, errno } => write!(f, "not permitted on {place} ({errno})"),
            P::NoEvent { pmu } => write!(f, "the PMU {pmu} does not have this event (ENOENT)"),
            P::NotThisWay { pmu } => write!(f, "the PMU {pmu} cannot count in this way (EOPNOTSUPP)"),
            P::NoPmu { pmu } => write!(f, "the PMU {pmu} is not there (ENODEV)"),
            P::Attributes { pmu } => write!(f, "the PMU {pmu} refuses these attributes (EINVAL)"),
            P::Held { pmu } => write!(f, "another user holds the PMU {pmu} (EBUSY)"),
            P::NoPlace { place } => write!(f, "{place} does not exist (ESRCH)"),
            P::FilesOfProcess => f.write_str("too many open files in this process (EMFILE)"),
            P::FilesOfSystem => f.write_str("too many open files in the system (ENFILE)"),
            P::NoPerf => f.write_str("the kernel has no perf events (ENOSYS)"),
            P::Other { pmu, place, error } => write!(f, "the PMU {pmu} on {place}: {error}"),
        }
    }
}

impl fmt::Display for EventPmus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is on {}", self.event, self.pmus.join(" and "))
    }
}

impl fmt::Display for SamplingPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SamplingPermit { paranoid, needed, user_mode_permitted } = self;
        let or = if *user_mode_permitted { "sample user mode alone, or " } else { "" };
        write!(
            f,
            "kernel.perf_event_paranoid is {paranoid}; {or}`sudo sysctl kernel.perf_event_paranoid={needed}` \
             permits it"
        )
    }
}

impl fmt::Display for LockedPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LockedPages { pages, place, buffers, allowed_kb, needed_kb } = self;
        let all = if *buffers > 1 { format!(", one of {buffers} such places,") } else { String::new() };
        let allowed = allowed_kb.map_or(String::new(), |kb| format!(", now {kb} for each CPU and user"));
        write!(
            f,
            "{pages} pages of samples on {place}{all} are more memory than kernel.perf_event_mlock_kb lets users \
             lock{allowed} (EPERM): take fewer pages, or `sudo sysctl kernel.perf_event_mlock_kb={needed_kb}`"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> PerfAnswer {
        PerfAnswer::NotPermitted { place: "CPU 3".to_owned(), errno: "EACCES" }
    }

    #[test]
    fn a_setting_that_forbids_samples_is_named_with_the_value_that_permits_them() {
        let permit = SamplingPermit { paranoid: 2, needed: 1, user_mode_permitted: true };
        let forbidden = PerfRefusal::SamplesForbidden { answer: Box::new(answer()), permit: Some(permit) };
        assert_eq!(
            forbidden.to_string(),
            "not permitted on CPU 3 (EACCES): kernel.perf_event_paranoid is 2; sample user mode alone, or `sudo sysctl \
             kernel.perf_event_paranoid=1` permits it"
        );
        let unknown = PerfRefusal::SamplesForbidden { answer: Box::new(answer()), permit: None };
        assert_eq!(unknown.to_string(), "not permitted on CPU 3 (EACCES)");
        let of_all = SamplingPermit { paranoid: 1, needed: 0, user_mode_permitted: false };
        assert!(!of_all.to_string().contains("user mode alone"), "{of_all}");
    }

    #[test]
    fn several_buffers_and_an_unknown_limit_are_in_the_words() {
        let locked = |buffers, allowed_kb| {
            let place = "this thread".to_owned();
            LockedPages { pages: 8, place, buffers, allowed_kb, needed_kb: 700 }.to_string()
        };
        assert!(locked(4, Some(516)).contains(", one of 4 such places, are"), "{}", locked(4, Some(516)));
        assert!(locked(4, Some(516)).contains("lock, now 516 for each CPU and user (EPERM)"));
        let one = locked(1, None);
        assert!(!one.contains("such places") && !one.contains("now"), "{one}");
    }
}

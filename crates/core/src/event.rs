//! Events: their codes in hardware, and resolved events with the candidates for counting them.

use std::fmt;

use crate::count::{Provenance, Scope};
use crate::counter::{CounterId, CounterMask};
use crate::cpuset::CpuSet;
use crate::energy::EnergyZone;
use crate::gpu::GpuPart;
use crate::ladder::Rung;
use crate::modes::{Modes, Modifiers};
use crate::pmu::{ConfigWords, PmuSet};
use crate::reason::{LackReason, PartReason};

/// The encoding of an event for a programmable counter, in the vendor's fields.
///
/// Architectures without a field leave it at its default.
///
/// # Source
///
/// Intel SDM volume 3, IA32_PERFEVTSELx; AMD APM volume 2, PERF_CTL; the event is up to 12 bits
/// on AMD and 16 bits on Arm and Apple.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct EventCode {
    /// Event select.
    pub select: u16,
    /// Unit mask.
    pub umask: u8,
    /// Second unit mask (Intel arch perfmon v6, bits 40 to 47).
    #[doc(alias = "UMaskExt")]
    pub umask2: u8,
    /// Counter mask: count cycles with at least this many events; 0 is off.
    pub cmask: u8,
    /// Invert the comparison of `cmask`.
    pub inv: bool,
    /// Count rising edges.
    pub edge: bool,
    /// Compare with `cmask` for equality instead of greater or equal (Intel arch perfmon v6).
    pub eq: bool,
    /// Count for both hardware threads of the core (Intel, up to Cascade Lake).
    pub any: bool,
    /// A shared register that must hold a given value for the event to be valid.
    pub extra: Option<ExtraRegister>,
}

/// A register shared between counters, with the value that an event needs in it.
///
/// Two events that need different values of one register cannot share a pass.
///
/// # Source
///
/// Intel perfmon event files, fields `MSRIndex` and `MSRValue`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ExtraRegister {
    /// The register.
    pub register: ExtraRegisterKind,
    /// Its value.
    pub value: u64,
}

/// The registers that refine Intel events.
///
/// # Source
///
/// Intel perfmon event files, field `MSRIndex`; Linux `arch/x86/events/intel/core.c`, `extra_reg` tables.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum ExtraRegisterKind {
    /// MSR_OFFCORE_RSP_0, 0x1A6.
    OffcoreResponse0,
    /// MSR_OFFCORE_RSP_1, 0x1A7.
    OffcoreResponse1,
    /// MSR_PEBS_LD_LAT_THRESHOLD, 0x3F6.
    LoadLatency,
    /// MSR_PEBS_FRONTEND, 0x3F7.
    Frontend,
    /// MSR_SNOOP_RSP_0, 0x1328.
    SnoopResponse0,
    /// MSR_SNOOP_RSP_1, 0x1329.
    SnoopResponse1,
    /// MSR_OMR_0, 0x3E0: offcore requests, on cores that have no offcore response registers.
    Omr0,
    /// MSR_OMR_1, 0x3E1.
    Omr1,
    /// MSR_OMR_2, 0x3E2.
    Omr2,
    /// MSR_OMR_3, 0x3E3.
    Omr3,
}

impl ExtraRegisterKind {
    /// Every register, by address in the order of [`Self::msr`].
    pub const ALL: [ExtraRegisterKind; 10] = [
        ExtraRegisterKind::OffcoreResponse0,
        ExtraRegisterKind::OffcoreResponse1,
        ExtraRegisterKind::Omr0,
        ExtraRegisterKind::Omr1,
        ExtraRegisterKind::Omr2,
        ExtraRegisterKind::Omr3,
        ExtraRegisterKind::LoadLatency,
        ExtraRegisterKind::Frontend,
        ExtraRegisterKind::SnoopResponse0,
        ExtraRegisterKind::SnoopResponse1,
    ];

    /// The register's address.
    ///
    /// # Source
    ///
    /// Intel perfmon event files, field `MSRIndex`; Linux `arch/x86/include/asm/msr-index.h`.
    pub const fn msr(self) -> u32 {
        match self {
            ExtraRegisterKind::OffcoreResponse0 => 0x1a6,
            ExtraRegisterKind::OffcoreResponse1 => 0x1a7,
            ExtraRegisterKind::Omr0 => 0x3e0,
            ExtraRegisterKind::Omr1 => 0x3e1,
            ExtraRegisterKind::Omr2 => 0x3e2,
            ExtraRegisterKind::Omr3 => 0x3e3,
            ExtraRegisterKind::LoadLatency => 0x3f6,
            ExtraRegisterKind::Frontend => 0x3f7,
            ExtraRegisterKind::SnoopResponse0 => 0x1328,
            ExtraRegisterKind::SnoopResponse1 => 0x1329,
        }
    }

    /// The register at an address.
    pub fn from_msr(address: u32) -> Option<ExtraRegisterKind> {
        Self::ALL.into_iter().find(|register| register.msr() == address)
    }

    /// The register's name in register listings.
    pub const fn name(self) -> &'static str {
        match self {
            ExtraRegisterKind::OffcoreResponse0 => "MSR_OFFCORE_RSP_0",
            ExtraRegisterKind::OffcoreResponse1 => "MSR_OFFCORE_RSP_1",
            ExtraRegisterKind::Omr0 => "MSR_OMR_0",
            ExtraRegisterKind::Omr1 => "MSR_OMR_1",
            ExtraRegisterKind::Omr2 => "MSR_OMR_2",
            ExtraRegisterKind::Omr3 => "MSR_OMR_3",
            ExtraRegisterKind::LoadLatency => "MSR_PEBS_LD_LAT_THRESHOLD",
            ExtraRegisterKind::Frontend => "MSR_PEBS_FRONTEND",
            ExtraRegisterKind::SnoopResponse0 => "MSR_SNOOP_RSP_0",
            ExtraRegisterKind::SnoopResponse1 => "MSR_SNOOP_RSP_1",
        }
    }
}

/// Unit of a value after scaling.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Unit {
    /// A number of events.
    Count,
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes.
    Bytes,
    /// Joules.
    Joules,
    /// A ratio without a dimension.
    Ratio,
    /// The unit given by sysfs.
    Other(String),
}

impl Unit {
    /// The symbol used in JSON and CSV; empty for a number of events.
    pub fn symbol(&self) -> &str {
        match self {
            Unit::Count | Unit::Ratio => "",
            Unit::Nanoseconds => "ns",
            Unit::Bytes => "B",
            Unit::Joules => "J",
            Unit::Other(name) => name,
        }
    }
}

/// An event that was found by name, with every candidate for counting it on this machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// The name as typed, without modifiers.
    pub name: String,
    /// Whether the user requested the event or it is one of the defaults.
    pub requested: bool,
    /// The PMU in its name (`cpu_core/loads/`), which limits the event; `None` where the name has none.
    pub named_pmu: Option<String>,
    /// The modifiers as typed.
    pub modifiers: Modifiers,
    /// Number of the `{group}` that contains it, if any.
    pub group: Option<u32>,
    /// A pinned counter (`event@counter`), if any.
    pub pin: Option<u8>,
    /// Unit of the event's values.
    pub unit: Unit,
    /// Candidates, best first; empty when this machine cannot count the event.
    pub candidates: Vec<Candidate>,
    /// The reason why there is no candidate; `None` when there is one.
    pub unsupported: Option<LackReason>,
    /// Available sources that cannot count the event, each with the reason.
    pub lacking: Vec<(Rung, LackReason)>,
    /// Remarks for readers of the value (`last-level cache on Intel, L2 on AMD`).
    pub notes: Vec<String>,
}

impl Event {
    /// An event that the user asked for, alone and without modifiers.
    pub fn new(name: impl Into<String>, unit: Unit, candidates: Vec<Candidate>) -> Event {
        Event {
            name: name.into(),
            requested: true,
            named_pmu: None,
            modifiers: Modifiers::default(),
            group: None,
            pin: None,
            unit,
            candidates,
            unsupported: None,
            lacking: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// One source and encoding by which an event can be counted.
#[derive(Clone, PartialEq, Debug)]
pub struct Candidate {
    /// The source.
    pub rung: Rung,
    /// The provenance of its counts.
    pub provenance: Provenance,
    /// The resolution of the name (`cpu/event=0x3c/`, `rusage.ru_utime`).
    pub resolution: String,
    /// The value of one raw count, in the event's unit.
    pub scale: f64,
    /// The modes that it counts; `None` where modes do not apply (time, memory).
    pub modes: Option<Modes>,
    /// The narrowest scope possible (`package` for energy); `None` when it follows the target.
    pub widest: Option<Scope>,
    /// The core PMUs that it counts on (`cpu_core`), when other core PMUs of the machine lack the event; else
    /// `None`.
    pub only: Option<PmuSet>,
    /// Whether the count cannot be zero, as with energy, or cycles and instructions of a process that ran. A
    /// zero then means that the counter did not count, whatever the kernel reports.
    pub never_zero: bool,
    /// Why a count may be too small although the source claims the whole time; its counts are then partial.
    /// `None` when they can be trusted.
    pub uncertain: Option<PartReason>,
    /// One part for each core PMU, or one for each summand there if the event is a sum. Other sources have a
    /// single part.
    pub parts: Vec<Part>,
    /// The vendor's name of each part, where parts of one core PMU are added up; otherwise empty.
    pub summands: Vec<String>,
}

impl Candidate {
    /// The candidate with the vendor's names of its parts. The names are stored where parts of one core PMU
    /// are added up.
    pub fn with_summands(self, names: Vec<String>) -> Candidate {
        let pmus: Vec<&str> = self.parts.iter().filter_map(Part::core).map(|part| part.pmu).collect();
        let is_sum = pmus.iter().enumerate().any(|(i, pmu)| pmus[..i].contains(pmu));
        Candidate { summands: if is_sum { names } else { Vec::new() }, ..self }
    }

    /// Whether several core PMUs count it, each while the target runs on its cores.
    pub fn is_hybrid(&self) -> bool {
        let mut pmus = self.parts.iter().filter_map(Part::core).map(|part| part.pmu);
        pmus.next().is_some_and(|first| pmus.any(|other| other != first))
    }

    /// Number of counters of a core PMU that it takes at once: one, or one for each summand of a sum. The
    /// number is 0 where no core PMU counts it.
    pub fn counters(&self) -> usize {
        let pmus = || self.parts.iter().filter_map(Part::core).map(|part| part.pmu);
        pmus().map(|pmu| pmus().filter(|other| *other == pmu).count()).max().unwrap_or(0)
    }

    /// A candidate counted by perf. Its parts are those of [`Candidate::parts`], with raw counts unscaled.
    pub fn perf(events: Vec<PerfEvent>, provenance: Provenance, modes: Option<Modes>) -> Candidate {
        let resolution: Vec<String> = events.iter().map(PerfEvent::to_string).collect();
        Candidate {
            rung: Rung::Perf,
            provenance,
            resolution: resolution.join(" + "),
            scale: 1.0,
            modes,
            widest: None,
            only: None,
            never_zero: false,
            uncertain: None,
            summands: Vec::new(),
            parts: events.into_iter().map(Part::Perf).collect(),
        }
    }

    /// A candidate for a value of the operating system's accounting; `resolution` names the origin of the
    /// value.
    pub fn accounting(metric: OsMetric, resolution: impl Into<String>) -> Candidate {
        Candidate {
            rung: Rung::Os,
            provenance: Provenance::Kernel,
            resolution: resolution.into(),
            scale: 1.0,
            modes: None,
            widest: None,
            only: None,
            never_zero: false,
            uncertain: None,
            summands: Vec::new(),
            parts: vec![Part::Os(metric)],
        }
    }

    /// A candidate for a value of macOS's accounts of counters, which have all modes together.
    pub fn account(count: AccountedCount, resolution: impl Into<String>) -> Candidate {
        let is_energy = matches!(count, AccountedCount::Energy | AccountedCount::PerformanceEnergy);
        Candidate {
            rung: Rung::SelfCounts,
            provenance: Provenance::Hardware,
            scale: if is_energy { 1e-9 } else { 1.0 },
            modes: (!is_energy).then_some(Modes::USER_KERNEL),
            never_zero: count.is_never_zero(),
            parts: vec![Part::Account(count)],
            ..Candidate::accounting(OsMetric::WallTime, resolution)
        }
    }

    /// A candidate counted by registers that the tool programs itself. It has one part for each core type, or
    /// one for each summand there if the event is a sum.
    pub fn registers(
        rung: Rung,
        events: Vec<RegisterEvent>,
        provenance: Provenance,
        modes: Modes,
    ) -> Candidate {
        let code = |event: &RegisterEvent| {
            let code = event.codes.first().map(|way| way.code).unwrap_or_default();
            format!("{}/event={:#x},umask={:#x}/", event.pmu, code.select, code.umask)
        };
        let resolution: Vec<String> = events.iter().map(code).collect();
        Candidate {
            rung,
            provenance,
            resolution: resolution.join(" + "),
            scale: 1.0,
            modes: Some(modes),
            widest: None,
            only: None,
            never_zero: false,
            uncertain: None,
            summands: Vec::new(),
            parts: events.into_iter().map(Part::Registers).collect(),
        }
    }

    /// A candidate counted by the software PMU, which has its own names of events (`calls`).
    pub fn soft(event: impl Into<String>, modes: Modes) -> Candidate {
        let event = event.into();
        Candidate {
            rung: Rung::Soft,
            provenance: Provenance::Counted,
            resolution: format!("soft/{event}/"),
            scale: 1.0,
            modes: Some(modes),
            widest: None,
            only: None,
            never_zero: false,
            uncertain: None,
            summands: Vec::new(),
            parts: vec![Part::Soft(event)],
        }
    }
}

/// A quantity of macOS's accounts of counters.
///
/// # Source
///
/// xnu `bsd/sys/resource.h`, `rusage_info_v6`; `bsd/sys/resource_private.h`, `thsc_time_energy_cpi`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum AccountedCount {
    /// Cycles.
    Cycles,
    /// Instructions.
    Instructions,
    /// Cycles on performance cores.
    PerformanceCycles,
    /// Instructions on performance cores.
    PerformanceInstructions,
    /// Cycles on all other cores.
    EfficiencyCycles,
    /// Instructions on all other cores.
    EfficiencyInstructions,
    /// Energy, in nJ.
    Energy,
    /// Energy on performance cores, in nJ.
    PerformanceEnergy,
}

impl AccountedCount {
    /// Whether any process that ran has some of it.
    pub fn is_never_zero(self) -> bool {
        matches!(self, AccountedCount::Cycles | AccountedCount::Instructions | AccountedCount::Energy)
    }

    /// Whether it tells performance cores from the others.
    pub fn is_of_core_type(self) -> bool {
        !self.is_never_zero()
    }
}

/// The data that one source needs to count an event or a share of it.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Part {
    /// For `perf_event_open`.
    Perf(PerfEvent),
    /// For the software PMU: the event's name there.
    Soft(String),
    /// For the operating system's accounting.
    Os(OsMetric),
    /// For a driver that programs registers itself.
    Registers(RegisterEvent),
    /// For the operating system's counters of energy: one zone.
    Energy(EnergyZone),
    /// For macOS's accounts of counters.
    Account(AccountedCount),
    /// For the driver of GPUs: a quantity of a device or of all.
    Gpu(GpuPart),
}

impl Part {
    /// The planner's view of an event that a core PMU counts; `None` where another source counts it.
    pub fn core(&self) -> Option<CorePart<'_>> {
        match self {
            Part::Perf(event) if event.class == PerfClass::Core => {
                Some(CorePart { pmu: &event.pmu, ways: event.ways(), wide: event.wide })
            }
            Part::Registers(event) => Some(CorePart {
                pmu: &event.pmu,
                ways: event.codes.iter().map(|way| (Some(way.counters), way.code.extra)).collect(),
                wide: event.wide,
            }),
            _ => None,
        }
    }
}

/// An event on one core PMU, as the planner sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CorePart<'a> {
    /// The PMU's name.
    pub pmu: &'a str,
    /// The encodings there: the counters, if they are known, and the value of a shared register if one is
    /// needed.
    pub ways: Vec<(Option<CounterMask>, Option<ExtraRegister>)>,
    /// Whether it takes an even counter and the next one.
    pub wide: bool,
}

/// An event that the tool programs into the registers of a core PMU itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegisterEvent {
    /// The core type's name, for messages: its CPU id (`skylake`, `alderlake/core`).
    pub pmu: String,
    /// The CPUs of that core type.
    pub cpus: CpuSet,
    /// The codes that count it, the event's own first; at least one.
    pub codes: Vec<RegisterCode>,
    /// Whether it takes an even counter and the next one (AMD's large increments).
    pub wide: bool,
    /// The counter assignments of a plan: one, or one for each rotation group in which it counts.
    pub assignments: Vec<RegisterAssignment>,
}

impl RegisterEvent {
    /// The counter assignment in a rotation group.
    pub fn assignment_in(&self, rotation_group: u32) -> Option<&RegisterAssignment> {
        self.assignments
            .iter()
            .find(|assignment| assignment.rotation_group.is_none_or(|own| own == rotation_group))
    }
}

/// The assignment of an event to a counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisterAssignment {
    /// The rotation group; `None` when it counts all the time.
    pub rotation_group: Option<u32>,
    /// The counter.
    pub counter: CounterId,
    /// The code that counts it on that counter.
    pub code: EventCode,
}

/// One code of an event, with the counters that may count it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisterCode {
    /// The encoding for the counter. For a fixed event it is the pseudo code of the vendor's tables.
    pub code: EventCode,
    /// The counters, limited to those that the PMU has.
    pub counters: CounterMask,
}

/// An event in perf's terms.
#[derive(Clone, PartialEq, Debug)]
pub struct PerfEvent {
    /// The device's name, for messages (`cpu_core`, `software`).
    pub pmu: String,
    /// `perf_event_attr.type`.
    pub pmu_type: u32,
    /// The config words.
    pub words: ConfigWords,
    /// The kind of PMU.
    pub class: PerfClass,
    /// The CPUs where it counts: the device's `cpus` or `cpumask`; `None` for all.
    pub cpus: Option<CpuSet>,
    /// The counters it may use; `None` where only the kernel knows.
    pub constraint: Option<CounterMask>,
    /// The values of a shared register, where the event needs one. Any of them is sufficient, and the kernel
    /// chooses.
    pub extras: Vec<ExtraRegister>,
    /// Whether it takes an even counter and the next one (AMD's large increments).
    pub wide: bool,
}

impl PerfEvent {
    /// An event given by its `config` alone, on all CPUs, with unknown counters.
    pub fn new(pmu: impl Into<String>, pmu_type: u32, config: u64, class: PerfClass) -> PerfEvent {
        PerfEvent {
            pmu: pmu.into(),
            pmu_type,
            words: ConfigWords { config, ..ConfigWords::default() },
            class,
            cpus: None,
            constraint: None,
            extras: Vec::new(),
            wide: false,
        }
    }

    fn ways(&self) -> Vec<(Option<CounterMask>, Option<ExtraRegister>)> {
        match self.extras.as_slice() {
            [] => vec![(self.constraint, None)],
            extras => extras.iter().map(|extra| (self.constraint, Some(*extra))).collect(),
        }
    }
}

/// Kinds of PMU behind `perf_event_open`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum PerfClass {
    /// A core PMU.
    Core,
    /// The kernel's software events.
    Software,
    /// A device that can count for a task, such as `msr`.
    TaskDevice,
    /// A device that counts for packages or the system only, such as `power`.
    SystemDevice,
}

/// A quantity that the operating system accounts for.
///
/// # Source
///
/// `getrusage(2)`, `proc(5)`, `clock_gettime(2)` (`CLOCK_MONOTONIC`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum OsMetric {
    /// Elapsed time, in ns.
    WallTime,
    /// CPU time in user mode, in ns.
    UserTime,
    /// CPU time in kernel mode, in ns.
    SystemTime,
    /// CPU time in both modes, in ns.
    CpuTime,
    /// Peak resident set of the largest process, in bytes.
    PeakRss,
    /// Page faults of both kinds.
    PageFaults,
    /// Page faults without I/O.
    MinorFaults,
    /// Page faults with I/O.
    MajorFaults,
    /// Context switches of both kinds.
    ContextSwitches,
    /// Switches because the task waited.
    VoluntarySwitches,
    /// Switches because the scheduler took the CPU away.
    InvoluntarySwitches,
}

impl fmt::Display for PerfEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/config={:#x}", self.pmu, self.words.config)?;
        for (name, word) in [("config1", self.words.config1), ("config2", self.words.config2)] {
            if word != 0 {
                write!(f, ",{name}={word:#x}")?;
            }
        }
        f.write_str("/")
    }
}

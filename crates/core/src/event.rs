//! Events: codes as hardware has them, and resolved events with the ways to count them.

use std::fmt;

use crate::count::{Provenance, Scope};
use crate::counter::{CounterId, CounterMask};
use crate::cpuset::CpuSet;
use crate::energy::EnergyZone;
use crate::ladder::Rung;
use crate::modes::{Modes, Modifiers};
use crate::pmu::ConfigWords;

/// What a programmable counter is told to count, in the vendor's fields.
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
    /// A register that must hold a value for the event to mean anything.
    pub extra: Option<ExtraRegister>,
}

/// A register shared between counters, with the value an event needs in it.
///
/// Two events that need different values of one register cannot share a pass.
///
/// # Source
///
/// Intel perfmon event files, fields `MSRIndex` and `MSRValue`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ExtraRegister {
    /// Which register.
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
    /// MSR_OMR_0, 0x3E0: offcore requests of the cores that have no offcore response registers.
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

    /// Its address.
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

    /// Its name in register listings.
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
    /// The unit that sysfs names.
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

/// An event that was found by name, with every way to count it on this machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// The name as typed, without modifiers.
    pub name: String,
    /// Whether the user asked for it, or it is one of the defaults.
    pub requested: bool,
    /// The modifiers as typed.
    pub modifiers: Modifiers,
    /// Number of the `{group}` it stands in, if any.
    pub group: Option<u32>,
    /// A pinned counter (`event@counter`), if any.
    pub pin: Option<u8>,
    /// Unit of its values.
    pub unit: Unit,
    /// Ways to count it, best first; empty when this machine has none.
    pub candidates: Vec<Candidate>,
    /// Why there is no candidate; empty when there is one.
    pub unsupported: String,
    /// Sources that are here and cannot count it, each with the reason.
    pub lacking: Vec<(Rung, String)>,
    /// What a reader of the value should know (`last-level cache on Intel, L2 on AMD`).
    pub notes: Vec<String>,
}

impl Event {
    /// An event that the user asked for, alone and without modifiers.
    pub fn new(name: impl Into<String>, unit: Unit, candidates: Vec<Candidate>) -> Event {
        Event {
            name: name.into(),
            requested: true,
            modifiers: Modifiers::default(),
            group: None,
            pin: None,
            unit,
            candidates,
            unsupported: String::new(),
            lacking: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// One way to count an event.
#[derive(Clone, PartialEq, Debug)]
pub struct Candidate {
    /// The source that does it.
    pub rung: Rung,
    /// Who counts.
    pub provenance: Provenance,
    /// What the name resolved to (`cpu/event=0x3c/`, `rusage.ru_utime`).
    pub resolution: String,
    /// What one raw count stands for, in the event's unit.
    pub scale: f64,
    /// The modes that it will count; `None` where modes mean nothing (time, memory).
    pub modes: Option<Modes>,
    /// The scope that it cannot go below (`package` for energy); `None` when it follows the target.
    pub widest: Option<Scope>,
    /// The core PMUs that it counts on (`cpu_core`), where others of the machine lack the event; `None` when none does.
    pub only: Option<String>,
    /// Whether it cannot be zero, as cycles and instructions of a process that ran, or energy: then a zero
    /// means that the counter did not count, whatever the kernel says.
    pub never_zero: bool,
    /// One part for each core PMU, of a sum one for each summand there; a single one elsewhere.
    pub parts: Vec<Part>,
    /// The vendor's name of each part, where parts of one core PMU are added up; empty elsewhere.
    pub summands: Vec<String>,
}

impl Candidate {
    /// The candidate with the vendor's names of its parts; they are kept where parts of one core PMU are added up.
    pub fn with_summands(self, names: Vec<String>) -> Candidate {
        let pmus: Vec<&str> = self.parts.iter().filter_map(Part::core).map(|part| part.pmu).collect();
        let is_sum = pmus.iter().enumerate().any(|(i, pmu)| pmus[..i].contains(pmu));
        Candidate { summands: if is_sum { names } else { Vec::new() }, ..self }
    }

    /// How many counters of a core PMU it takes at once: one, of a sum one for each summand; 0 where none counts it.
    pub fn counters(&self) -> usize {
        let pmus = || self.parts.iter().filter_map(Part::core).map(|part| part.pmu);
        pmus().map(|pmu| pmus().filter(|other| *other == pmu).count()).max().unwrap_or(0)
    }

    /// Counting by perf: the parts of [`Candidate::parts`], raw counts as they are.
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
            summands: Vec::new(),
            parts: events.into_iter().map(Part::Perf).collect(),
        }
    }

    /// A value of the operating system's accounting; `resolution` says where it comes from.
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
            summands: Vec::new(),
            parts: vec![Part::Os(metric)],
        }
    }

    /// Counting by registers that we program ourselves: one part for each core type, of a sum one for each summand there.
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
            summands: Vec::new(),
            parts: events.into_iter().map(Part::Registers).collect(),
        }
    }

    /// Counting by the software PMU, which names its events itself (`calls`).
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
            summands: Vec::new(),
            parts: vec![Part::Soft(event)],
        }
    }
}

/// What one source needs to know to count (a share of) an event.
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
}

impl Part {
    /// What the planner must know of an event that a core PMU counts; `None` where something else counts it.
    pub fn core(&self) -> Option<CorePart<'_>> {
        match self {
            Part::Perf(event) if event.class == PerfClass::Core => {
                Some(CorePart { pmu: &event.pmu, ways: event.ways(), wide: event.wide })
            }
            Part::Registers(event) => Some(CorePart {
                pmu: &event.pmu,
                ways: event.codes.iter().map(|way| (way.counters, way.code.extra)).collect(),
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
    /// The ways to count it there: the counters, and what a register that counters share must hold. Empty counters: not
    /// known.
    pub ways: Vec<(CounterMask, Option<ExtraRegister>)>,
    /// Whether it takes an even counter and the one behind it.
    pub wide: bool,
}

/// An event that is programmed into the registers of a core PMU by ourselves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegisterEvent {
    /// The core type's name, for messages: its CPU id (`skylake`, `alderlake/core`).
    pub pmu: String,
    /// The CPUs of that core type.
    pub cpus: CpuSet,
    /// The codes that count it, its own first; at least one.
    pub codes: Vec<RegisterCode>,
    /// Whether it takes an even counter and the one behind it (AMD's large increments).
    pub wide: bool,
    /// Where a plan has placed it: once, or once in each turn in which it counts.
    pub seats: Vec<RegisterSeat>,
}

impl RegisterEvent {
    /// Where it counts in a turn.
    pub fn seat_in(&self, turn: u32) -> Option<&RegisterSeat> {
        self.seats.iter().find(|seat| seat.turn.is_none_or(|own| own == turn))
    }
}

/// An event on a counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisterSeat {
    /// The turn; `None`: always.
    pub turn: Option<u32>,
    /// The counter.
    pub counter: CounterId,
    /// The code that counts it there.
    pub code: EventCode,
}

/// One code of an event, with the counters that may count it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisterCode {
    /// What the counter is told. Of a fixed event the pseudo code, as in tables.
    pub code: EventCode,
    /// The counters, of those that the PMU has.
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
    /// What kind of PMU it is.
    pub class: PerfClass,
    /// The CPUs where it counts: the device's `cpus` or `cpumask`; `None` for all.
    pub cpus: Option<CpuSet>,
    /// The counters it may use; empty when unknown.
    pub constraint: CounterMask,
    /// What a register that counters share must hold, where the event needs one: any of these will do, and the kernel
    /// chooses.
    pub extras: Vec<ExtraRegister>,
    /// Whether it takes an even counter and the one behind it (AMD's large increments).
    pub wide: bool,
}

impl PerfEvent {
    /// An event by its `config` alone, on all CPUs, on counters not known.
    pub fn new(pmu: impl Into<String>, pmu_type: u32, config: u64, class: PerfClass) -> PerfEvent {
        PerfEvent {
            pmu: pmu.into(),
            pmu_type,
            words: ConfigWords { config, ..ConfigWords::default() },
            class,
            cpus: None,
            constraint: CounterMask::EMPTY,
            extras: Vec::new(),
            wide: false,
        }
    }

    fn ways(&self) -> Vec<(CounterMask, Option<ExtraRegister>)> {
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

/// What the operating system accounts for.
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

//! Events that this machine, or one of its sources, does not have.

use std::fmt;

use super::joined;
use crate::counter::{CounterId, CounterMask};
use crate::energy::EnergyDomain;
use crate::ladder::Rung;
use crate::modes::Modes;

/// Why a machine, or one of its sources, cannot count an event. Names of events are as typed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LackReason {
    /// No core PMU counts it, each for its reason.
    CorePmus(Vec<CoreLack>),
    /// The core PMU in its name does not have it, and another one has.
    OtherCoreType {
        /// The CPUs without it, by their id.
        cores: Vec<String>,
        /// The event.
        event: String,
    },
    /// The machine's cores do not have it, and other CPUs of the catalogue have.
    OtherCpus {
        /// The event.
        event: String,
        /// The machine's cores, by CPU id; none where it has none.
        cores: Vec<String>,
        /// The first of the other CPUs, by CPU id.
        others: Vec<String>,
        /// Number of further CPUs.
        more: usize,
        /// Whether the catalogue knows a core of the machine.
        has_table: bool,
    },
    /// The kernel has no generic event for it.
    NoGeneric {
        /// The event.
        event: &'static str,
        /// The nearest generic event.
        nearest: &'static str,
    },
    /// The catalogue does not know the machine's cores, by CPU id; none where it has none.
    NoTable {
        /// The cores.
        cores: Vec<String>,
    },
    /// The kernel has no PMU of the name.
    NoPmu {
        /// The name.
        pmu: String,
        /// The event's name at the software PMU, where that has it; with the reason where it does not work.
        software: Option<(String, Result<(), String>)>,
    },
    /// It happens in the kernel, and user mode alone was requested.
    KernelOnly {
        /// The event.
        event: String,
    },
    /// Neither a PMU nor a zone of power capping has this energy.
    NoEnergy(EnergyDomain),
    /// The driver of a GPU says why it cannot be used.
    GpuUnusable {
        /// The device.
        device: String,
        /// The reason, in the words of detection.
        reason: String,
    },
    /// A GPU's driver does not report the quantity.
    GpuQuantity {
        /// The device; `None` for all of them.
        device: Option<String>,
        /// The quantity.
        quantity: &'static str,
    },
    /// There is no GPU of the name.
    NoGpu {
        /// The name.
        device: String,
    },
    /// There is no GPU at all.
    NoGpus,
    /// The source of GPUs does not work.
    Gpus(String),
    /// It counts one of several core types, and the machine has one.
    OneCoreType {
        /// The event.
        event: &'static str,
    },
    /// macOS accounts user and kernel mode together.
    ModesTogether {
        /// The event.
        event: &'static str,
        /// The requested modes.
        modes: Modes,
    },
    /// Registers count no such event.
    NotOfRegisters {
        /// The event.
        event: String,
    },
    /// Registers do not distinguish guests from hosts, nor idle CPUs from others.
    NoGuestsOfRegisters,
    /// The modifiers concern the kernel's own counting.
    KernelModifiers,
    /// Registers do not count a hypervisor apart.
    NoHypervisorOfRegisters,
    /// A fixed counter of a Mac counts user and kernel mode together.
    FixedCounterModes {
        /// The vendor's event.
        event: String,
    },
    /// macOS counts the event in user mode only.
    UserModeOnly {
        /// The vendor's event.
        event: String,
    },
    /// No PMU with registers counts it, each for its reason.
    RegisterPmus(Vec<PmuLack>),
    /// The requested source does not count it.
    NotOfSource(Rung),
    /// The name means no event, in the words of the error.
    Unresolved(String),
}

impl fmt::Display for LackReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LackReason::CorePmus(lacks) => f.write_str(&joined(lacks, "; ")),
            LackReason::OtherCoreType { cores, event } => {
                write!(f, "{} has no event {event}; another core type has it", cores.join(" and "))
            }
            LackReason::OtherCpus { event, cores, others, more, has_table } => {
                write!(f, "{} has no event {event}; {}", CoreNames(cores), others.join(", "))?;
                if *more > 0 {
                    write!(f, " and {more} more")?;
                }
                f.write_str(if others.len() + more == 1 { " has it" } else { " have it" })?;
                if *has_table { Ok(()) } else { write!(f, "; {NO_TABLE}") }
            }
            LackReason::NoGeneric { event, nearest } => {
                write!(f, "the kernel has no generic event for {event}; the nearest that it has is {nearest}")
            }
            LackReason::NoTable { cores } => write!(f, "{} has no events: {NO_TABLE}", CoreNames(cores)),
            LackReason::NoPmu { pmu, software } => {
                write!(f, "the kernel has no PMU named {pmu} here")?;
                match software {
                    None => Ok(()),
                    Some((event, Ok(()))) => write!(f, "; the software PMU counts -e {event}"),
                    Some((event, Err(reason))) => {
                        write!(f, "; the software PMU, which counts -e {event}, does not work here: {reason}")
                    }
                }
            }
            LackReason::KernelOnly { event } => {
                write!(f, "{event} happens in the kernel: it has no user-mode count")
            }
            LackReason::NoEnergy(domain) => write!(
                f,
                "the kernel counts no {} here: there is neither a PMU named power with it nor a zone of \
                 /sys/class/powercap",
                domain.event()
            ),
            LackReason::GpuUnusable { device, reason } => write!(f, "{device}: {reason}"),
            LackReason::GpuQuantity { device: Some(device), quantity } => {
                write!(f, "the driver of {device} does not report {quantity}")
            }
            LackReason::GpuQuantity { device: None, quantity } => {
                write!(f, "no driver of the GPUs here reports {quantity}")
            }
            LackReason::NoGpu { device } => {
                write!(f, "there is no device {device} here: `cyclometer doctor` names the devices")
            }
            LackReason::NoGpus => f.write_str("there is no GPU of NVIDIA or AMD here"),
            LackReason::OneCoreType { event } => {
                write!(f, "{event}: all cores of this machine are of one type")
            }
            LackReason::ModesTogether { event, modes } => write!(
                f,
                "macOS accounts {event} in user and kernel mode together, without root: {event}:uk, not \
                 {event}:{modes}"
            ),
            LackReason::NotOfRegisters { event } => write!(f, "{event} is no event of a PMU's registers"),
            LackReason::NoGuestsOfRegisters => {
                f.write_str("its registers tell neither guests nor idle CPUs apart")
            }
            LackReason::KernelModifiers => f.write_str(
                "the modifiers p, S, D and b are those of the kernel, which does not take part here",
            ),
            LackReason::NoHypervisorOfRegisters => {
                f.write_str("its registers do not count a hypervisor apart")
            }
            LackReason::FixedCounterModes { event } => {
                write!(f, "{event} is on a fixed counter, which counts user and kernel mode")
            }
            LackReason::UserModeOnly { event } => {
                write!(f, "{event}: macOS counts it in user mode only, since version 15")
            }
            LackReason::RegisterPmus(lacks) => f.write_str(&joined(lacks, "; ")),
            LackReason::NotOfSource(rung) => {
                write!(f, "the requested source '{rung}' does not count it")
            }
            LackReason::Gpus(text) | LackReason::Unresolved(text) => f.write_str(text),
        }
    }
}

/// The remedy where the catalogue has no table.
const NO_TABLE: &str = "the catalogue does not know this CPU; --events FILE gives its table";

/// The cores of a machine, by CPU id.
struct CoreNames<'a>(&'a [String]);

impl fmt::Display for CoreNames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_str("this machine"),
            ids => f.write_str(&ids.join(" and ")),
        }
    }
}

/// Why one core PMU does not count an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CoreLack {
    /// The core PMU: its CPU id, with the name of the PMU if there are several.
    pub core: String,
    /// The reason.
    pub reason: PmuLack,
}

impl fmt::Display for CoreLack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            reason @ PmuLack::NoEvent { .. } => write!(f, "{} {reason}", self.core),
            reason => write!(f, "{}: {reason}", self.core),
        }
    }
}

/// Why a PMU does not count an event.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PmuLack {
    /// Its tables do not have the name.
    NoEvent {
        /// The name.
        event: String,
    },
    /// There is no table of the CPU.
    NoTable {
        /// The CPU id.
        cpu: String,
    },
    /// The vendor has no such event, in the words of the catalogue.
    NoCounterpart {
        /// The reason.
        reason: String,
        /// The nearest events of the vendor.
        nearest: Vec<String>,
    },
    /// The counters that may count it are not those of the machine.
    OtherCounters {
        /// The counters that may count it.
        only: CounterMask,
        /// The counters of the machine.
        has: CounterMask,
    },
    /// One of the events that are added up cannot be counted.
    Summand {
        /// The vendor's event.
        event: String,
        /// The reason.
        reason: Box<PmuLack>,
    },
    /// A sum is bound to one counter.
    PinnedSum {
        /// The event as typed.
        event: String,
        /// Number of events that are added up.
        summands: usize,
        /// The counter.
        pin: u8,
    },
    /// The event cannot use the counter that it is bound to.
    NotOnPin {
        /// The vendor's event.
        event: String,
        /// The counter.
        pin: u8,
        /// The CPU id.
        cpu: String,
    },
    /// The CPU does not implement the event.
    NotImplemented {
        /// The vendor's event.
        event: String,
        /// The CPU id.
        cpu: String,
    },
    /// No counter that may count it is available.
    CountersUnavailable {
        /// The vendor's event.
        event: String,
        /// The counters that may count it.
        counters: Vec<CounterId>,
        /// The CPU id.
        cpu: String,
    },
    /// A raw code has bits that mean nothing.
    ReservedBits {
        /// The code as typed.
        event: String,
        /// The CPU id.
        cpu: String,
    },
    /// The code cannot be written, or the name is unknown, in the words of the error.
    NotEncodable(String),
}

impl fmt::Display for PmuLack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PmuLack::NoEvent { event } => write!(f, "has no event {event}"),
            PmuLack::NoTable { cpu } => write!(f, "there is no table of {cpu}"),
            PmuLack::NoCounterpart { reason, nearest } if nearest.is_empty() => f.write_str(reason),
            PmuLack::NoCounterpart { reason, nearest } => {
                write!(f, "{reason}; nearest: {}", nearest.join(", "))
            }
            PmuLack::OtherCounters { only, has } => {
                write!(f, "only counter {only} counts it, and this machine has {has}")
            }
            PmuLack::Summand { event, reason } => write!(f, "{event}, a summand: {reason}"),
            PmuLack::PinnedSum { event, summands, pin } => {
                write!(f, "{event} is a sum of {summands} events, which counter {pin} cannot all count")
            }
            PmuLack::NotOnPin { event, pin, cpu } => write!(f, "{event} cannot use counter {pin} of {cpu}"),
            PmuLack::NotImplemented { event, cpu } => {
                write!(f, "{event} is not among the events that this {cpu} counts")
            }
            PmuLack::CountersUnavailable { event, counters, cpu } => {
                let counters = joined(counters, ", ");
                write!(f, "{event} counts on {counters} of {cpu} alone, which is not available")
            }
            PmuLack::ReservedBits { event, cpu } => {
                write!(f, "{event} has bits that no event select of {cpu} has")
            }
            PmuLack::NotEncodable(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_is_named_before_its_reason() {
        let lack = |core: &str, reason| CoreLack { core: core.to_owned(), reason };
        let unknown = lack("skylake", PmuLack::NoEvent { event: "loads".to_owned() });
        let counters = PmuLack::OtherCounters { only: CounterMask::first(1, 0), has: CounterMask::EMPTY };
        let summand = PmuLack::Summand { event: "A".to_owned(), reason: Box::new(counters) };
        let text = LackReason::CorePmus(vec![unknown, lack("cpu_atom (x)", summand)]).to_string();
        assert!(
            text.starts_with("skylake has no event loads; cpu_atom (x): A, a summand: only counter "),
            "{text}"
        );
    }

    #[test]
    fn cpus_that_have_an_event_are_named_up_to_some() {
        let text = |others: &[&str], more, has_table| {
            let others = others.iter().map(|id| (*id).to_owned()).collect();
            LackReason::OtherCpus { event: "E".to_owned(), cores: Vec::new(), others, more, has_table }
        };
        assert_eq!(text(&["skylakex"], 0, true).to_string(), "this machine has no event E; skylakex has it");
        let many = text(&["a", "b"], 3, false).to_string();
        assert!(
            many.starts_with("this machine has no event E; a, b and 3 more have it; the catalogue "),
            "{many}"
        );
    }

    #[test]
    fn the_software_pmu_is_offered_with_its_own_reason() {
        let text = |software| LackReason::NoPmu { pmu: "cpu".to_owned(), software }.to_string();
        assert_eq!(text(None), "the kernel has no PMU named cpu here");
        let event = || "instructions".to_owned();
        assert!(text(Some((event(), Ok(())))).ends_with("; the software PMU counts -e instructions"));
        let broken = text(Some((event(), Err("seccomp".to_owned()))));
        assert!(broken.ends_with("counts -e instructions, does not work here: seccomp"), "{broken}");
    }
}

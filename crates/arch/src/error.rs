//! Codes that cannot be encoded, and registers that are not known.

use std::fmt;

use cyclometer_core::pmu::Family;
use cyclometer_core::{CounterId, CounterMask, Error, ErrorKind, EventCode, Recovery};

use crate::chip::Chip;

/// Why an event cannot be encoded.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EncodeError {
    /// A value does not fit into its field.
    TooLarge {
        /// The field, in perf's word (`cmask`).
        field: &'static str,
        /// The value.
        value: u64,
        /// The greatest value that fits.
        greatest: u64,
    },
    /// An event select is wider than the chip's event selectors.
    SelectTooWide {
        /// The event select.
        select: u16,
        /// The bits of an event selector.
        bits: u32,
    },
    /// The chip has no such counter.
    NoSuchCounter {
        /// The counter that was asked for.
        counter: CounterId,
        /// The counters that there are.
        has: CounterMask,
    },
    /// How wide the chip's counters are is not known, and so not what the difference of two values counts.
    NoWidth,
    /// A period of 0 events.
    ZeroPeriod {
        /// The counter that was to have it.
        counter: CounterId,
    },
    /// A period is longer than a counter can be preset to.
    PeriodTooLong {
        /// The counter.
        counter: CounterId,
        /// The period in events.
        period: u64,
        /// The longest possible in events.
        greatest: u64,
    },
    /// An event cannot interrupt where it is counted.
    NoInterrupt {
        /// Its counter.
        counter: CounterId,
    },
    /// A value has bits that the chip's register does not have.
    Reserved {
        /// The register's name.
        register: String,
        /// Those bits.
        bits: u64,
    },
    /// The chip cannot do what an option asks for.
    NoOption {
        /// The purpose of the option.
        option: &'static str,
        /// The requirement of the option.
        needs: &'static str,
        /// The alternative without it.
        instead: &'static str,
    },
    /// The chip's layout has no such field.
    NoField {
        /// The field.
        field: &'static str,
        /// The layout.
        family: Family,
        /// Version of the chip's PMU, if it has one.
        pmu_version: Option<u32>,
    },
    /// The kernel has no format file for a field that is needed.
    NoFormat {
        /// The field.
        field: &'static str,
    },
    /// A fixed counter cannot be told this.
    NotOnFixed {
        /// The field.
        field: &'static str,
    },
    /// The event cannot be counted there.
    NotAllowed {
        /// The counter that was asked for.
        counter: CounterId,
        /// The counters that it may use on this chip.
        allowed: CounterMask,
    },
    /// No counter of the chip may count the event.
    NoCounter,
    /// Neither user nor kernel mode was asked for.
    NoModes,
    /// perf has no code for the event of this fixed counter.
    NoPerfCode {
        /// The counter.
        counter: CounterId,
    },
    /// The event has no register: firmware counts it.
    NoRegister,
    /// The firmware chooses the counter and its code.
    ByFirmware,
    /// Two events are to be counted on one counter.
    CounterTwice {
        /// The counter.
        counter: CounterId,
    },
    /// The event is a share of slots, and fixed counter 3 does not count slots beside it.
    Share,
    /// A driver may not use a register that the event needs.
    NotListed {
        /// The register's name.
        register: String,
    },
    /// Two events need different values in one place.
    Conflict {
        /// The register's name.
        register: String,
    },
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EncodeError::TooLarge { field, value, greatest } => {
                write!(f, "{field}={value:#x} does not fit; at most {greatest:#x} does")
            }
            EncodeError::SelectTooWide { select, bits } => {
                write!(f, "event {select:#x} does not fit: event selectors of this CPU have {bits} bits")
            }
            EncodeError::NoSuchCounter { counter, has } => {
                write!(f, "this CPU has no counter {counter}; it has {has}")
            }
            EncodeError::NoWidth => f.write_str("the width of this CPU's counters is not known"),
            EncodeError::ZeroPeriod { counter } => {
                write!(f, "the period on counter {counter} is 0 events")
            }
            EncodeError::PeriodTooLong { counter, period, greatest } => {
                write!(
                    f,
                    "a period of {period} events is too long for counter {counter}; at most {greatest} fit"
                )
            }
            EncodeError::NoInterrupt { counter } => {
                write!(f, "the event on counter {counter} cannot interrupt there")
            }
            EncodeError::Reserved { register, bits } => {
                write!(f, "bits {bits:#x} of {register} are reserved on this CPU")
            }
            EncodeError::NoOption { option, needs, .. } => {
                write!(f, "this CPU cannot do '{option}': that needs {needs}")
            }
            EncodeError::NoField { field, family, pmu_version } => {
                write!(f, "the {} layout has no field '{field}'", family.word())?;
                pmu_version.map_or(Ok(()), |version| write!(f, " at PMU version {version}"))
            }
            EncodeError::NoFormat { field } => {
                write!(f, "this kernel's PMU has no format for '{field}', which the event needs")
            }
            EncodeError::NotOnFixed { field } => write!(f, "a fixed counter has no field '{field}'"),
            EncodeError::NotAllowed { counter, allowed } => {
                write!(f, "the event cannot be counted on counter {counter}; it may use {allowed}")
            }
            EncodeError::NoCounter => f.write_str("no counter of this CPU may count the event"),
            EncodeError::NoModes => f.write_str("neither user nor kernel mode is to be counted"),
            EncodeError::NoPerfCode { counter } => {
                write!(f, "perf has no code for the event of counter {counter} on this CPU")
            }
            EncodeError::NoRegister => f.write_str("firmware counts this event, no register does"),
            EncodeError::ByFirmware => f.write_str("the firmware chooses the counter and its code"),
            EncodeError::CounterTwice { counter } => {
                write!(f, "two events are to be counted on counter {counter}")
            }
            EncodeError::Share => {
                f.write_str("the event is a share of slots, which fixed counter 3 does not count beside it")
            }
            EncodeError::NotListed { register } => {
                write!(f, "the event needs {register}, which a driver may not use on this CPU")
            }
            EncodeError::Conflict { register } => {
                write!(f, "the events need different values in {register}")
            }
        }
    }
}

impl std::error::Error for EncodeError {}

impl EncodeError {
    /// The remedy, where the message does not name it already.
    pub fn remedy(&self) -> Option<&'static str> {
        Some(match self {
            EncodeError::SelectTooWide { .. } => {
                "take an event of this CPU's own table; `cyclometer list --cpu ID` shows them"
            }
            EncodeError::NoSuchCounter { .. } | EncodeError::NotAllowed { .. } => {
                "put the event on one of those counters"
            }
            EncodeError::NoWidth => "give the counters' width in the table's header",
            EncodeError::ZeroPeriod { .. } => {
                "give a period of at least 1 event, or none to count without interrupts"
            }
            EncodeError::PeriodTooLong { .. } => {
                "take a shorter period; general counters of Intel have longer ones with full-width writes"
            }
            EncodeError::NoInterrupt { .. } => "count it without a period, and sample another event",
            EncodeError::Reserved { .. } => {
                "leave those bits 0; `cyclometer registers --cpu ID` shows the bits that there are"
            }
            EncodeError::NoOption { instead, .. } => instead,
            EncodeError::NoModes => "count user mode, kernel mode, or both",
            EncodeError::CounterTwice { .. } => "give one of the events another counter",
            EncodeError::Share => "count SLOTS on fixed counter 3 in the same program",
            EncodeError::Conflict { .. } => "count the events in separate programs",
            _ => return None,
        })
    }
}

impl From<EncodeError> for Error {
    fn from(error: EncodeError) -> Error {
        let kind = match error {
            EncodeError::Conflict { .. } | EncodeError::CounterTwice { .. } => ErrorKind::ConstraintConflict,
            EncodeError::NoFormat { .. }
            | EncodeError::NoPerfCode { .. }
            | EncodeError::NoRegister
            | EncodeError::NotListed { .. }
            | EncodeError::Share
            | EncodeError::ByFirmware => ErrorKind::EventUnsupported,
            _ => ErrorKind::InvalidInput,
        };
        let plain = Error::new(kind, error.to_string());
        match error.remedy() {
            Some(remedy) => plain.with_recovery(Recovery::fix(remedy)).with_source(error),
            None => plain.with_source(error),
        }
    }
}

/// Refuses a code with a field that is set and not among those that the layout has; an event select is
/// everywhere.
pub(crate) fn refuse_other_fields(chip: &Chip, code: &EventCode, has: &[&str]) -> Result<(), EncodeError> {
    let set = [
        ("umask", code.umask != 0),
        ("umask2", code.umask2 != 0),
        ("cmask", code.cmask != 0),
        ("inv", code.inv),
        ("edge", code.edge),
        ("eq", code.eq),
        ("any", code.any),
        ("config1", code.extra.is_some()),
    ];
    match set.into_iter().find(|(field, set)| *set && !has.contains(field)) {
        Some((field, _)) => {
            Err(EncodeError::NoField { field, family: chip.family, pmu_version: chip.pmu_version })
        }
        None => Ok(()),
    }
}

/// A register is not on the list of those that drivers may use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotListed {
    /// Its name.
    pub register: String,
}

impl fmt::Display for NotListed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is no register that a driver may use on this CPU", self.register)
    }
}

impl std::error::Error for NotListed {}

impl From<NotListed> for Error {
    fn from(error: NotListed) -> Error {
        Error::new(ErrorKind::InvalidInput, error.to_string()).with_source(error)
    }
}

impl From<NotListed> for EncodeError {
    fn from(error: NotListed) -> EncodeError {
        EncodeError::NotListed { register: error.register }
    }
}

/// No register of the chip has that name or address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownRegister {
    /// The request.
    pub name: String,
    /// The registers there are; a range stands for those that differ in their number only.
    pub known: Vec<String>,
}

impl fmt::Display for UnknownRegister {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is no register of this CPU; there are {}", self.name, self.known.join(", "))
    }
}

impl std::error::Error for UnknownRegister {}

impl From<UnknownRegister> for Error {
    fn from(error: UnknownRegister) -> Error {
        Error::new(ErrorKind::InvalidInput, error.to_string()).with_source(error)
    }
}

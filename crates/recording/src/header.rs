//! The header of a recording: what its rows mean.

use std::num::NonZeroU64;
use std::time::Duration;

use cyclometer_core::ladder::RungState;
use cyclometer_core::plan::PlanLine;
use cyclometer_core::window::WindowBoundary;
use cyclometer_core::{Ladder, Machine, Modes, Provenance, Rung, SlotId, Unit};
use serde_json::{Value, json};

use crate::json::{FieldProblem, JsonFields, parse};
use crate::rows::RowShape;
use crate::{MOST_COLUMNS, RecordingError, RecordingResult};

/// The meaning of the rows of a recording, known before its first row.
#[derive(Clone, PartialEq, Debug)]
pub struct RecordingHeader {
    /// The program that made it, with its version (`cyclometer 0.1.0`).
    pub tool: String,
    /// The machine.
    pub machine: RecordedMachine,
    /// The command and its arguments; empty if something that ran already was recorded.
    pub command: Vec<String>,
    /// The target in words, if it is no command (`process 12`).
    pub target: Option<String>,
    /// Wall-clock time of the time 0 of the rows, in ns since 1970-01-01 00:00 UTC, if known.
    pub start_unix_ns: Option<u64>,
    /// The events, in the order of the counts of a row.
    pub events: Vec<RecordedEvent>,
    /// The boundaries, in the order of
    /// [`WindowCause::Boundary`](cyclometer_core::window::WindowCause::Boundary).
    pub boundaries: Vec<RecordedBoundary>,
    /// The sources in the order in which they were tried, and the state of each.
    pub sources: Vec<RecordedSource>,
    /// Notes for the user that were known at the start.
    pub notes: Vec<String>,
}

/// The machine of a recording. The name of the host is not recorded.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RecordedMachine {
    /// Operating system.
    pub os: String,
    /// Instruction set.
    pub architecture: String,
    /// Version of the kernel.
    pub kernel_release: Option<String>,
    /// The CPU's name.
    pub cpu: Option<String>,
    /// The hypervisor; `None` on bare metal.
    pub hypervisor: Option<String>,
}

/// An event of a recording: a column of its rows.
#[derive(Clone, PartialEq, Debug)]
pub struct RecordedEvent {
    /// The name as it is printed (`instructions:u`).
    pub name: String,
    /// The unit of a count times `scale`.
    pub unit: Unit,
    /// The value of a count of 1, in `unit`.
    pub scale: f64,
    /// The source; `None` if no source counts it, and each row says why.
    pub source: Option<Rung>,
    /// The origin of the counts; `None` if there are none.
    pub provenance: Option<Provenance>,
    /// The modes that it counts; `None` where modes do not apply.
    pub modes: Option<Modes>,
}

/// A boundary of the windows of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordedBoundary {
    /// After so many events.
    Events {
        /// Index of the leader in [`RecordingHeader::events`].
        event: usize,
        /// The number of events.
        period: NonZeroU64,
    },
    /// After so much wall-clock time; at most 584 years, and whole ns.
    Interval(Duration),
}

/// A source of counts, and its state when the recording began.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordedSource {
    /// The source.
    pub source: Rung,
    /// Whether it works, in a word (`works`, `partly`, `no`).
    pub state: String,
    /// The reasons why it does not, or not wholly.
    pub reasons: Vec<String>,
}

const PROVENANCES: [Provenance; 6] = [
    Provenance::Hardware,
    Provenance::Kernel,
    Provenance::Counted,
    Provenance::Modelled,
    Provenance::Simulated,
    Provenance::Nvml,
];

const SOURCES: [Rung; 9] = [
    Rung::Perf,
    Rung::Kperf,
    Rung::Msr,
    Rung::Sysreg,
    Rung::SelfCounts,
    Rung::Soft,
    Rung::Os,
    Rung::Sim,
    Rung::Gpu,
];

impl RecordingHeader {
    /// Index of the event that windows were cut by, if they were cut by one: the leader of the first
    /// boundary that has one.
    pub fn leader(&self) -> Option<usize> {
        self.boundaries.iter().find_map(|boundary| match boundary {
            RecordedBoundary::Events { event, .. } => Some(*event),
            RecordedBoundary::Interval(_) => None,
        })
    }

    pub(crate) fn shape(&self) -> RowShape {
        RowShape { events: self.events.len(), boundaries: self.boundaries.len() }
    }

    /// The contradiction between its fields, if there is one.
    fn problem(&self) -> Option<FieldProblem> {
        let (events, boundaries) = (self.events.len(), self.boundaries.len());
        if events > MOST_COLUMNS || boundaries > MOST_COLUMNS {
            return Some(format!("there are more than {MOST_COLUMNS} events or boundaries"));
        }
        for boundary in &self.boundaries {
            match boundary {
                RecordedBoundary::Events { event, .. } if *event >= events => {
                    return Some(format!("a boundary is of event {event}, and there are {events}"));
                }
                RecordedBoundary::Interval(time) if u64::try_from(time.as_nanos()).is_err() => {
                    return Some("a boundary is more than 584 years long".to_owned());
                }
                _ => {}
            }
        }
        let scale = self.events.iter().find(|event| !event.scale.is_finite() || event.scale <= 0.0)?;
        Some(format!("the scale of {} is no positive number", scale.name))
    }

    pub(crate) fn to_payload(&self) -> RecordingResult<Vec<u8>> {
        if let Some(problem) = self.problem() {
            return Err(RecordingError::unwritable(problem));
        }
        let value = json!({
            "tool": self.tool,
            "machine": self.machine.to_json(),
            "command": self.command,
            "target": self.target,
            "start_unix_ns": self.start_unix_ns,
            "events": self.events.iter().map(RecordedEvent::to_json).collect::<Vec<_>>(),
            "boundaries": self.boundaries.iter().copied().map(RecordedBoundary::to_json).collect::<Vec<_>>(),
            "sources": self.sources.iter().map(RecordedSource::to_json).collect::<Vec<_>>(),
            "notes": self.notes,
        });
        Ok(value.to_string().into_bytes())
    }

    pub(crate) fn from_payload(payload: &[u8]) -> Result<RecordingHeader, FieldProblem> {
        let value = parse(payload)?;
        let fields = JsonFields::of(&value, "the header")?;
        let header = RecordingHeader {
            tool: fields.text("tool")?,
            machine: fields.value("machine").map(RecordedMachine::from_json).transpose()?.unwrap_or_default(),
            command: fields.texts("command")?,
            target: fields.text_or_none("target")?,
            start_unix_ns: fields.number_or_none("start_unix_ns")?,
            events: fields.list("events", RecordedEvent::from_json)?,
            boundaries: fields.list("boundaries", RecordedBoundary::from_json)?,
            sources: fields.list("sources", RecordedSource::from_json)?,
            notes: fields.texts("notes")?,
        };
        header.problem().map_or(Ok(header), Err)
    }
}

impl RecordedMachine {
    /// The fields of a machine that are recorded.
    pub fn of(machine: &Machine) -> RecordedMachine {
        RecordedMachine {
            os: machine.os.to_string(),
            architecture: machine.architecture.to_string(),
            kernel_release: machine.kernel_release.clone(),
            cpu: machine.cpu.name.clone(),
            hypervisor: machine.hypervisor.clone(),
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "os": self.os,
            "architecture": self.architecture,
            "kernel_release": self.kernel_release,
            "cpu": self.cpu,
            "hypervisor": self.hypervisor,
        })
    }

    fn from_json(value: &Value) -> Result<RecordedMachine, FieldProblem> {
        let fields = JsonFields::of(value, "the machine")?;
        Ok(RecordedMachine {
            os: fields.text("os")?,
            architecture: fields.text("architecture")?,
            kernel_release: fields.text_or_none("kernel_release")?,
            cpu: fields.text_or_none("cpu")?,
            hypervisor: fields.text_or_none("hypervisor")?,
        })
    }
}

impl RecordedEvent {
    /// The event of a line of a plan.
    pub fn of(line: &PlanLine) -> RecordedEvent {
        let candidate = line.candidate();
        RecordedEvent {
            name: line.label(),
            unit: line.event.unit.clone(),
            scale: candidate.map_or(1.0, |candidate| candidate.scale),
            source: candidate.map(|candidate| candidate.rung),
            provenance: candidate.map(|candidate| candidate.provenance),
            modes: line.effective_modes(),
        }
    }

    /// The scale is a text: parsers of JSON round numbers differently.
    fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "unit": unit_word(&self.unit),
            "scale": self.scale.to_string(),
            "source": self.source.map(Rung::word),
            "provenance": self.provenance.map(Provenance::word),
            "modes": self.modes.map(|modes| modes.to_string()),
        })
    }

    fn from_json(value: &Value) -> Result<RecordedEvent, FieldProblem> {
        let fields = JsonFields::of(value, "an event")?;
        let scale = fields.text("scale")?;
        Ok(RecordedEvent {
            name: fields.text("name")?,
            unit: unit(fields.text("unit")?),
            scale: scale.parse().map_err(|_| "'scale' of an event is no number".to_owned())?,
            source: fields.word_or_none("source", &SOURCES, Rung::word)?,
            provenance: fields.word_or_none("provenance", &PROVENANCES, Provenance::word)?,
            modes: fields.text_or_none("modes")?.map(|letters| modes(&letters)).transpose()?,
        })
    }
}

fn unit_word(unit: &Unit) -> &str {
    match unit {
        Unit::Count => "count",
        Unit::Ratio => "ratio",
        other => other.symbol(),
    }
}

fn unit(word: String) -> Unit {
    match word.as_str() {
        "count" => Unit::Count,
        "ratio" => Unit::Ratio,
        "ns" => Unit::Nanoseconds,
        "B" => Unit::Bytes,
        "J" => Unit::Joules,
        _ => Unit::Other(word),
    }
}

fn modes(letters: &str) -> Result<Modes, FieldProblem> {
    let mut modes = Modes { user: false, kernel: false, hypervisor: false };
    for letter in letters.chars() {
        match letter {
            'u' => modes.user = true,
            'k' => modes.kernel = true,
            'h' => modes.hypervisor = true,
            _ => return Err("'modes' of an event has another letter than u, k and h".to_owned()),
        }
    }
    Ok(modes)
}

impl RecordedBoundary {
    /// A boundary as a source knows it; `slots` are those of the columns, in their order. `None`: the leader
    /// has no column.
    pub fn of(boundary: &WindowBoundary, slots: &[SlotId]) -> Option<RecordedBoundary> {
        Some(match boundary {
            WindowBoundary::Events { slot, period } => {
                let event = slots.iter().position(|column| column == slot)?;
                RecordedBoundary::Events { event, period: *period }
            }
            WindowBoundary::Interval(time) | WindowBoundary::Timer { period: time, .. } => {
                RecordedBoundary::Interval(*time)
            }
        })
    }

    fn to_json(self) -> Value {
        match self {
            RecordedBoundary::Events { event, period } => json!({ "event": event, "period": period.get() }),
            RecordedBoundary::Interval(time) => {
                json!({ "interval_ns": u64::try_from(time.as_nanos()).unwrap_or(u64::MAX) })
            }
        }
    }

    fn from_json(value: &Value) -> Result<RecordedBoundary, FieldProblem> {
        let fields = JsonFields::of(value, "a boundary")?;
        if let Some(interval) = fields.number_or_none("interval_ns")? {
            return Ok(RecordedBoundary::Interval(Duration::from_nanos(interval)));
        }
        let period = NonZeroU64::new(fields.number("period")?);
        let event = usize::try_from(fields.number("event")?);
        Ok(RecordedBoundary::Events {
            event: event.map_err(|_| "'event' of a boundary is too great".to_owned())?,
            period: period.ok_or("'period' of a boundary is 0")?,
        })
    }
}

impl RecordedSource {
    /// The sources of a machine in the order in which they are tried.
    pub fn all_of(ladder: &Ladder) -> Vec<RecordedSource> {
        let recorded = |state: &RungState| RecordedSource {
            source: state.rung,
            state: state.works.word().to_owned(),
            reasons: state.causes.iter().map(|cause| cause.text.clone()).collect(),
        };
        ladder.rungs.iter().map(recorded).collect()
    }

    fn to_json(&self) -> Value {
        json!({ "source": self.source.word(), "state": self.state, "reasons": self.reasons })
    }

    fn from_json(value: &Value) -> Result<RecordedSource, FieldProblem> {
        let fields = JsonFields::of(value, "a source")?;
        Ok(RecordedSource {
            source: fields.word("source", &SOURCES, Rung::word)?,
            state: fields.text("state")?,
            reasons: fields.texts("reasons")?,
        })
    }
}

//! The tools: names, arguments, and the calls of the command-line tool that they make.

mod prepare;
mod result;

use std::path::PathBuf;
use std::sync::Arc;

use rmcp::model::{Tool, ToolAnnotations};

use crate::call::Invocation;
use crate::params::{
    AdviseParams, CompareParams, DoctorParams, ExplainParams, ListParams, MeasureParams, PlanParams,
    ProfileParams,
};
use crate::schema::Document;

pub use prepare::{CallRules, prepare};
pub use result::{Presented, present};

/// A tool that this server offers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ToolKind {
    /// Counts of a program.
    Measure,
    /// Several programs, against the first.
    Compare,
    /// Counts of functions, lines or files of code.
    ProfileByFunction,
    /// Advice about a program.
    Advise,
    /// Passes for events.
    Plan,
    /// Events and metrics.
    ListEvents,
    /// The meaning of an event.
    ExplainEvent,
    /// The sources of counts on this machine.
    Doctor,
}

impl ToolKind {
    /// All tools.
    pub const ALL: [ToolKind; 8] = [
        ToolKind::Measure,
        ToolKind::Compare,
        ToolKind::ProfileByFunction,
        ToolKind::Advise,
        ToolKind::Plan,
        ToolKind::ListEvents,
        ToolKind::ExplainEvent,
        ToolKind::Doctor,
    ];

    /// Its name in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            ToolKind::Measure => "measure",
            ToolKind::Compare => "compare",
            ToolKind::ProfileByFunction => "profile_by_function",
            ToolKind::Advise => "advise",
            ToolKind::Plan => "plan",
            ToolKind::ListEvents => "list_events",
            ToolKind::ExplainEvent => "explain_event",
            ToolKind::Doctor => "doctor",
        }
    }

    /// The subcommand of the command-line tool that does the work.
    pub fn subcommand(self) -> &'static str {
        match self {
            ToolKind::Measure | ToolKind::ProfileByFunction => "stat",
            ToolKind::Compare => "compare",
            ToolKind::Advise => "advise",
            ToolKind::Plan => "plan",
            ToolKind::ListEvents | ToolKind::ExplainEvent => "list",
            ToolKind::Doctor => "doctor",
        }
    }

    /// Whether it runs programs, which may have any effect.
    pub fn runs_programs(self) -> bool {
        matches!(self, ToolKind::Measure | ToolKind::Compare | ToolKind::ProfileByFunction | ToolKind::Advise)
    }

    /// The document in its results.
    pub fn document(self) -> Document {
        match self {
            ToolKind::Measure | ToolKind::ProfileByFunction => Document::Stat,
            ToolKind::Compare => Document::Compare,
            ToolKind::Advise => Document::Advice,
            ToolKind::Plan => Document::Plan,
            ToolKind::ListEvents => Document::List,
            ToolKind::ExplainEvent => Document::Explanation,
            ToolKind::Doctor => Document::Doctor,
        }
    }

    fn description(self) -> &'static str {
        match self {
            ToolKind::Measure => {
                "Run a program and count its events. Each count has a verdict (exact, scaled, not_counted, …) and a \
                 provenance (hardware, kernel, counted by the software PMU). Counts of the software PMU, as \
                 of events=[\"instructions\"], are exact, also in a VM or container without a PMU; runs=3 checks that \
                 they repeat."
            }
            ToolKind::Compare => {
                "Run two or more programs in pairs and test every metric for a change against the first program. \
                 Exact counts are compared exactly; times by an interval."
            }
            ToolKind::ProfileByFunction => {
                "Run a program under the software PMU and show in which functions, lines or files of code its \
                 instructions were executed: exact counts, no samples."
            }
            ToolKind::Advise => {
                "Run a program, find what limits it, and suggest what to do: findings with their numbers, thresholds \
                 and the next measurement to make."
            }
            ToolKind::Plan => {
                "Show which events count at once on a CPU, on which counters, and how many passes they need."
            }
            ToolKind::ListEvents => {
                "Search the events or metrics of this machine, or of a CPU of the catalogue."
            }
            ToolKind::ExplainEvent => {
                "Show what an event counts, how it is encoded, and whether this machine counts it."
            }
            ToolKind::Doctor => {
                "Show which sources of counts work on this machine, and for the others the reason and the fix."
            }
        }
    }

    /// Its definition, as clients list it.
    pub fn definition(self) -> Tool {
        let tool = Tool::new(self.name(), self.description(), Arc::default());
        let tool = match self {
            ToolKind::Measure => tool.with_input_schema::<MeasureParams>(),
            ToolKind::Compare => tool.with_input_schema::<CompareParams>(),
            ToolKind::ProfileByFunction => tool.with_input_schema::<ProfileParams>(),
            ToolKind::Advise => tool.with_input_schema::<AdviseParams>(),
            ToolKind::Plan => tool.with_input_schema::<PlanParams>(),
            ToolKind::ListEvents => tool.with_input_schema::<ListParams>(),
            ToolKind::ExplainEvent => tool.with_input_schema::<ExplainParams>(),
            ToolKind::Doctor => tool.with_input_schema::<DoctorParams>(),
        };
        let is_lookup = !self.runs_programs();
        let annotations =
            ToolAnnotations::new().read_only(is_lookup).idempotent(is_lookup).open_world(!is_lookup);
        tool.with_raw_output_schema(Arc::new(self.document().envelope())).with_annotations(annotations)
    }
}

/// A call of a tool, ready to be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Task {
    /// The tool.
    pub kind: ToolKind,
    /// The call that gives the report.
    pub main: Invocation,
    /// The call that gives the encoding of an event.
    pub encoding: Option<Invocation>,
    /// How much of the report is kept.
    pub kept: KeptEntries,
}

/// How much of a report is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeptEntries {
    /// All of it.
    All,
    /// The first rows of code or entries of a list.
    First(EntryLimit),
    /// The entries of this event.
    Event(String),
}

/// The most rows or entries of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryLimit {
    /// How many are kept.
    pub most: u32,
    /// The argument that says so.
    pub argument: &'static str,
    /// The greatest value of that argument.
    pub greatest: u32,
}

/// A reason why no call is made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RefusedCall {
    /// The arguments have a wrong form: an error of the protocol.
    Params(String),
    /// The rules of this server refuse it: a result that the client's model can read.
    Refused(String),
}

/// The folder in which calls run that execute no program.
fn neutral_folder() -> PathBuf {
    PathBuf::from("/")
}

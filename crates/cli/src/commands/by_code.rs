//! `--by` of `stat` and `compare`: the inputs that it needs.

use cyclometer_toolkit::core::plan::Outcome;
use cyclometer_toolkit::core::{LaunchKind, PlanLine};
use cyclometer_toolkit::symbols::Grouping;
use cyclometer_toolkit::{Plan, Result, Rung};

use crate::failure;
use crate::measurement_args::Backend;
use crate::output::clean;

/// The event if none is named.
pub const USUAL_EVENT: &str = "instructions";

/// Refuses sources that have no counts by code.
///
/// # Errors
///
/// Usage.
pub fn check_source(grouping: Grouping, backend: Backend) -> Result<()> {
    if backend.rung().is_none_or(|rung| rung == Rung::Soft) {
        return Ok(());
    }
    let text = format!("--by {} needs the counts of the software PMU", grouping.word());
    Err(failure::usage(text, "leave --backend out, or use --backend soft"))
}

/// Refuses a plan by which the software PMU counts nothing: there would be no counts by code.
///
/// # Errors
///
/// Usage, with the reason of the first event.
pub fn check_plan(grouping: Grouping, plan: &Plan) -> Result<()> {
    let Some(reason) = nothing_counted(plan) else { return Ok(()) };
    let text = format!("--by {}: {reason}", grouping.word());
    Err(failure::usage(text, ADD_ONE))
}

/// The remedy for events of which the software PMU counts none.
pub const ADD_ONE: &str =
    "add one that it counts, as in -e instructions; `cyclometer doctor` tells whether it works here";

/// The message about a plan by which the software PMU counts nothing, with the reason of the first event.
pub fn nothing_counted(plan: &Plan) -> Option<String> {
    if plan.passes.iter().any(|pass| pass.launch == LaunchKind::Translated && !pass.slots.is_empty()) {
        return None;
    }
    let why = |line: &PlanLine| match &line.outcome {
        Outcome::NotCounted(count) => count.reason().map(|reason| format!(" ({}: {reason})", line.label())),
        Outcome::Counted { .. } => None,
    };
    let reason = plan.lines.iter().find_map(why).unwrap_or_default();
    Some(format!("the software PMU counts none of the events{}", clean(&reason)))
}

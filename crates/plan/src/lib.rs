//! Which source counts which event, on which counter, in which pass; and what to do when the world disagrees.
//!
//! Pure functions: [`route`] picks for every event the best source that works here and says why not the one
//! above; [`assemble`] makes the passes, as few as [`passes`] finds; [`replan`] turns a source's
//! refusal into the next plan, and [`split()`] what the kernel did not count at the same time.
#![forbid(unsafe_code)]

mod matching;
mod pass;
pub mod passes;
mod replan;
mod route;
mod sharing;
mod soft;
mod split;

#[cfg(test)]
mod testing;
pub mod words;

pub use matching::place;
pub use pass::assemble;
pub use replan::{Replan, abandon, give_up, replan};
pub use route::route;
pub use sharing::taken_by_watchdog;
pub use soft::SHORTEST_INTERVAL;
pub use split::{join, split};

use cyclometer_core::{Event, Intent, Machine, Plan, Result};

/// Plans events on a machine: routes them and makes the passes.
///
/// # Errors
///
/// `ErrorKind::HardwareLimit` for a `{group}` that can never fit its PMU, and for events that do not fit at
/// once where they must not rotate and the runs are too few; `ErrorKind::ConstraintConflict` for a group
/// whose events cannot be counted in one run; `ErrorKind::InvalidInput` for a pinned counter where the source
/// chooses counters itself, or an interval that is too short for an event that was asked for.
pub fn plan(events: Vec<Event>, machine: &Machine, intent: Intent) -> Result<Plan> {
    let lines = route(events, machine, &intent);
    soft::refuse_short_interval(&lines)?;
    assemble(lines, machine, intent)
}

//! Which source counts which event, on which counter, in which pass; and what to do when the world disagrees.
//!
//! Three steps, each a pure function: [`route`] picks for every event the best source that works here and
//! says why not the one above; [`assemble`] makes the pass, with counters by bipartite [`matching`];
//! [`replan`] turns a source's refusal into the next plan.
#![forbid(unsafe_code)]

pub mod matching;
mod pass;
mod replan;
mod route;

#[cfg(test)]
mod testing;

pub use pass::assemble;
pub use replan::{Replan, give_up, replan};
pub use route::route;

use cyclometer_core::{Event, Machine, Plan, Result, Rung};

/// Plans events on a machine: routes them and makes the pass.
///
/// `only` restricts the sources to one rung.
///
/// # Errors
///
/// `ErrorKind::HardwareLimit` for a `{group}` that can never fit its PMU, `ErrorKind::InvalidInput` for a
/// pinned counter where the source chooses counters itself.
pub fn plan(events: Vec<Event>, machine: &Machine, only: Option<Rung>) -> Result<Plan> {
    assemble(route(events, machine, only), machine)
}

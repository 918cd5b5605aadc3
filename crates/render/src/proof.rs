//! Why a plan has as many passes as it has, and why events cannot meet, in words.

use cyclometer_toolkit::core::CounterMask;
use cyclometer_toolkit::placement::words::{ProblemNames, number, sum};
use cyclometer_toolkit::placement::{Because, Conflict, Placement};

/// The events by the names that they have on their CPU, which goes without saying.
pub fn names<'p>(placement: &'p Placement<'_>) -> ProblemNames<'p> {
    let events = placement.events.iter().map(|event| event.selected.name.as_str()).collect();
    ProblemNames { pmus: Vec::new(), events }
}

/// Why there are no fewer passes; `None` where that needs no reason.
pub fn certificate(placement: &Placement<'_>) -> Option<String> {
    let packing = &placement.packing;
    let why = names(placement).certificate(&packing.certificate);
    let why = why.map(|why| match sum(&packing.certificate) {
        Some(sum) => format!("{why}: {sum}"),
        None => why,
    });
    let gave_up = (!packing.is_optimal()).then(|| {
        let found = number(packing.passes.len(), "pass");
        format!("a search found {found} and gave up looking for fewer")
    });
    let all: Vec<String> = why.into_iter().chain(gave_up).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Why some of these events cannot be counted at the same time: all that are confined to counters, where
/// these are too few.
pub fn conflict(placement: &Placement<'_>, conflict: &Conflict, among: &[usize]) -> String {
    let confined: Vec<usize> = match &conflict.because {
        Because::Counters { counters, .. } => {
            among.iter().copied().filter(|event| is_confined(placement, *event, *counters)).collect()
        }
        _ => Vec::new(),
    };
    names(placement).conflict_of(conflict, &confined)
}

/// Whether an event can use these counters only.
pub fn is_confined(placement: &Placement<'_>, event: usize, counters: CounterMask) -> bool {
    let event = &placement.events[event];
    let usable = event.allowed.and(placement.counters);
    !event.wide && !usable.is_empty() && usable.without(counters).is_empty()
}

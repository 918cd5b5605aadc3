//! Names as they are printed: with the modes that are really counted.

use cyclometer_core::plan::{Outcome, PlanLine};
use cyclometer_core::{Modes, Modifiers};

/// The modes that a line covers; `None` where modes mean nothing (time, memory).
///
/// For an event that is not counted these are the modes that were wanted.
pub fn effective_modes(line: &PlanLine) -> Option<Modes> {
    match &line.outcome {
        Outcome::Counted { filter, .. } => {
            let counted = line.candidate()?.modes?;
            Some(filter.unwrap_or(counted))
        }
        Outcome::NotCounted(_) => {
            let best = line.event.candidates.first();
            line.event.modifiers.modes.or_else(|| best?.modes)
        }
    }
}

/// The name of a line as it is printed: `instructions:u`, `cpu/event=0xc5/u`, `wall_time`.
pub fn label(line: &PlanLine) -> String {
    let name = &line.event.name;
    let letters = letters(effective_modes(line), line.event.modifiers);
    let colon = if letters.is_empty() || name.ends_with('/') { "" } else { ":" };
    format!("{name}{colon}{letters}")
}

fn letters(modes: Option<Modes>, modifiers: Modifiers) -> String {
    let mut letters = modes.map(|modes| modes.to_string()).unwrap_or_default();
    let restrictions =
        [(modifiers.guest_only, 'G'), (modifiers.host_only, 'H'), (modifiers.exclude_idle, 'I')];
    letters.extend(restrictions.into_iter().filter(|(on, _)| *on).map(|(_, letter)| letter));
    letters
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{hardware, os_line};
    use cyclometer_core::event::OsMetric;

    #[test]
    fn names_carry_the_modes_that_are_counted() {
        let mut line = hardware("instructions", 1);
        assert_eq!(label(&line), "instructions:u");
        line.outcome = Outcome::Counted { candidate: 0, filter: Some(Modes::KERNEL), exclude_guest: false };
        assert_eq!(label(&line), "instructions:k");
        line.event.name = "cpu/event=0xc0/".into();
        line.event.modifiers.host_only = true;
        assert_eq!(label(&line), "cpu/event=0xc0/kH");
    }

    #[test]
    fn time_and_memory_have_no_modes() {
        assert_eq!(label(&os_line("wall_time", OsMetric::WallTime)), "wall_time");
    }
}

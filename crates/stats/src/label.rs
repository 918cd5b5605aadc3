//! Names as they are printed: with the modes that are counted.

use cyclometer_core::Modes;
use cyclometer_core::plan::PlanLine;

/// The modes that a line covers; `None` where modes mean nothing (time, memory).
///
/// For an event that is not counted these are the requested modes.
pub fn effective_modes(line: &PlanLine) -> Option<Modes> {
    line.effective_modes()
}

/// The name of a line as it is printed: `instructions:u`, `cpu/event=0xc5/u`, `wall_time`.
pub fn label(line: &PlanLine) -> String {
    line.label()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{hardware, os_line};
    use cyclometer_core::event::OsMetric;
    use cyclometer_core::plan::Outcome;

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

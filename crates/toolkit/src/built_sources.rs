//! Sources that this program was built without.

use cyclometer_core::ladder::{Cause, CauseKind, Works};
use cyclometer_core::machine::ProcessTracer;
use cyclometer_core::{Machine, Rung};

/// A machine whose ladder has the sources of this build.
pub(crate) fn limit(machine: Machine) -> Machine {
    without(machine, &missing())
}

/// The sources that are left out, each with the feature that has it.
fn missing() -> Vec<(Rung, &'static str)> {
    let registers = [Rung::Msr, Rung::Sysreg].map(|rung| (rung, "registers"));
    let mut missing = Vec::new();
    if !cfg!(feature = "registers") {
        missing.extend(registers);
    }
    if !cfg!(feature = "software-pmu") {
        missing.push((Rung::Soft, "software-pmu"));
    }
    missing
}

/// The machine without these sources. A program that the software PMU runs has its counts in any build. Where
/// the software PMU would not work, that stays the reason: else `cyclometer run` could count.
fn without(mut machine: Machine, missing: &[(Rung, &'static str)]) -> Machine {
    let is_translated = machine.access.tracer == Some(ProcessTracer::SoftwarePmu);
    for state in &mut machine.ladder.rungs {
        let feature = missing.iter().find(|(rung, _)| *rung == state.rung).map(|(_, feature)| *feature);
        let is_here = match state.rung {
            Rung::Soft => matches!(state.works, Works::Yes | Works::Partly) && !is_translated,
            _ => state.works != Works::NotHere,
        };
        if let (Some(feature), true) = (feature, is_here) {
            state.works = Works::NotBuilt;
            let text =
                format!("this program was built without the feature {feature} of the crate cyclometer");
            state.causes = vec![Cause::new(CauseKind::NotBuilt, text)];
        }
    }
    machine
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/machines");
        let text = std::fs::read_to_string(format!("{folder}/skylake.txt")).unwrap();
        crate::replay_machine(&text).unwrap()
    }

    fn works(machine: &Machine, rung: Rung) -> Works {
        machine.ladder.state(rung).unwrap().works
    }

    #[test]
    fn a_source_that_is_not_built_is_named_with_its_feature_and_others_stay() {
        let before = machine();
        let after = without(before.clone(), &[(Rung::Soft, "software-pmu")]);
        assert_eq!(works(&after, Rung::Soft), Works::NotBuilt);
        assert!(after.ladder.check(Rung::Soft, "").unwrap_err().contains("feature software-pmu"));
        assert!(!after.ladder.suits(Rung::Soft));
        assert_eq!(works(&after, Rung::Perf), works(&before, Rung::Perf));
    }

    #[test]
    fn a_program_under_the_software_pmu_keeps_its_counts() {
        let mut machine = machine();
        machine.access.tracer = Some(ProcessTracer::SoftwarePmu);
        let after = without(machine.clone(), &[(Rung::Soft, "software-pmu")]);
        assert_eq!(works(&after, Rung::Soft), works(&machine, Rung::Soft));
    }

    #[test]
    fn a_software_pmu_that_would_not_work_keeps_its_reason() {
        let mut machine = machine();
        machine.ladder.rungs.iter_mut().filter(|state| state.rung == Rung::Soft).for_each(|state| {
            state.works = Works::No;
            state.causes = vec![Cause::new(CauseKind::Seccomp, "a filter forbids ptrace")];
        });
        let after = without(machine, &[(Rung::Soft, "software-pmu")]);
        assert_eq!(after.ladder.check(Rung::Soft, ""), Err("a filter forbids ptrace".to_owned()));
    }

    #[test]
    fn a_source_of_another_system_is_not_missing() {
        let before = machine();
        let after = without(before.clone(), &[(Rung::Sysreg, "registers")]);
        assert_eq!(works(&before, Rung::Sysreg), Works::NotHere);
        assert_eq!(works(&after, Rung::Sysreg), Works::NotHere);
    }
}

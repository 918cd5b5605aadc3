//! Energy by the kernel's power capping: the events of perf's PMU `power`, if that is missing or not
//! permitted.

use cyclometer_core::energy::{EnergyDomain, EnergyZone};
use cyclometer_core::event::Unit;
use cyclometer_core::syntax::Term;
use cyclometer_core::{Candidate, Machine, Part, Provenance, Rung, Scope};

/// The PMU of these events.
pub(crate) const PMU: &str = "power";

/// Joules in a µJ.
const JOULES: f64 = 1e-6;

/// The domain of an event's name: `energy-pkg`, in any case.
pub(crate) fn named(name: &str) -> Option<EnergyDomain> {
    EnergyDomain::ALL.into_iter().find(|domain| domain.event().eq_ignore_ascii_case(name))
}

/// The domain of `power/energy-pkg/`.
pub(crate) fn of_terms(pmu: &str, terms: &[Term]) -> Option<EnergyDomain> {
    match terms {
        [Term { name, value: None }] if pmu == PMU => named(name),
        _ => None,
    }
}

/// The candidate that counts a domain by its zones: one part for each package. `None` if the machine has no
/// such zone.
pub(crate) fn candidate(domain: EnergyDomain, machine: &Machine) -> Option<Candidate> {
    let zones: Vec<&EnergyZone> = machine.energy.iter().filter(|zone| zone.domain == domain).collect();
    if zones.is_empty() {
        return None;
    }
    let files: Vec<String> = zones.iter().map(|zone| zone.file()).collect();
    let widest = if domain == EnergyDomain::Platform { Scope::System } else { Scope::Package };
    Some(Candidate {
        rung: Rung::Os,
        provenance: Provenance::Hardware,
        resolution: files.join(" + "),
        scale: JOULES,
        modes: None,
        widest: Some(widest),
        only: None,
        never_zero: true,
        uncertain: None,
        parts: zones.into_iter().cloned().map(Part::Energy).collect(),
        summands: Vec::new(),
    })
}

/// The unit of these events.
pub(crate) fn unit() -> Unit {
    Unit::Joules
}

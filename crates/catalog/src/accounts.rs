//! Events for which macOS accounts by thread and process, without root.

use cyclometer_core::event::{AccountedCount, Unit};
use cyclometer_core::{Candidate, Event, LackReason, Machine, Modes, Rung};

use crate::generic::named;

/// An event of macOS's accounts of counters.
pub(crate) struct AccountEvent {
    /// Its names; the first one is to be used.
    pub(crate) names: &'static [&'static str],
    pub(crate) count: AccountedCount,
    /// The origin of the value.
    pub(crate) resolution: &'static str,
    pub(crate) about: &'static str,
}

const fn event(
    names: &'static [&'static str],
    count: AccountedCount,
    resolution: &'static str,
    about: &'static str,
) -> AccountEvent {
    AccountEvent { names, count, resolution, about }
}

/// The counts that have a generic event.
const GENERIC: [AccountEvent; 2] = [
    event(&["cycles"], AccountedCount::Cycles, "proc_pid_rusage.ri_cycles", "cycles"),
    event(&["instructions"], AccountedCount::Instructions, "proc_pid_rusage.ri_instructions", "instructions"),
];

/// The counts that have no generic event. `ri_pcycles` is about performance cores; the cycles of all others
/// are those that it does not have.
pub(crate) const EVENTS: [AccountEvent; 6] = [
    event(
        &["pcore_cycles", "performance_core_cycles"],
        AccountedCount::PerformanceCycles,
        "proc_pid_rusage.ri_pcycles",
        "cycles on performance cores of a Mac",
    ),
    event(
        &["pcore_instructions", "performance_core_instructions"],
        AccountedCount::PerformanceInstructions,
        "proc_pid_rusage.ri_pinstructions",
        "instructions on performance cores of a Mac",
    ),
    event(
        &["ecore_cycles", "efficiency_core_cycles"],
        AccountedCount::EfficiencyCycles,
        "proc_pid_rusage.ri_cycles - ri_pcycles",
        "cycles on all cores of a Mac but the performance cores",
    ),
    event(
        &["ecore_instructions", "efficiency_core_instructions"],
        AccountedCount::EfficiencyInstructions,
        "proc_pid_rusage.ri_instructions - ri_pinstructions",
        "instructions on all cores of a Mac but the performance cores",
    ),
    event(
        &["process_energy", "task_energy"],
        AccountedCount::Energy,
        "proc_pid_rusage.ri_energy_nj",
        "energy that macOS attributes to the process",
    ),
    event(
        &["pcore_energy", "performance_core_energy"],
        AccountedCount::PerformanceEnergy,
        "proc_pid_rusage.ri_penergy_nj",
        "energy on performance cores that macOS attributes to the process",
    ),
];

impl AccountEvent {
    /// The unit of its values.
    pub(crate) fn unit(&self) -> Unit {
        match self.count {
            AccountedCount::Energy | AccountedCount::PerformanceEnergy => Unit::Joules,
            _ => Unit::Count,
        }
    }

    /// The candidate that counts it.
    pub(crate) fn candidate(&self) -> Candidate {
        Candidate::account(self.count, self.resolution)
    }

    /// Why this machine has no such cores, if so.
    ///
    /// # Source
    ///
    /// xnu `osfmk/kern/recount.c`: shares of performance cores stay 0 where `hw.nperflevels` is 1.
    pub(crate) fn lacks_core_types(&self, machine: &Machine) -> Option<LackReason> {
        let lacks = self.count.is_of_core_type() && is_here(machine) && machine.core_types.len() < 2;
        lacks.then_some(LackReason::OneCoreType { event: self.names[0] })
    }

    /// Why it does not count in these modes, if so.
    fn lacks(&self, modes: Option<Modes>) -> Option<LackReason> {
        let differs = modes.filter(|modes| self.candidate().modes.is_some_and(|own| own != *modes))?;
        Some(LackReason::ModesTogether { event: self.names[0], modes: differs })
    }
}

/// The event without a generic counterpart that has this name.
pub(crate) fn find(name: &str) -> Option<&'static AccountEvent> {
    EVENTS.iter().find(|event| named(event.names, name))
}

/// The account of a generic event with these names.
pub(crate) fn of_generic(names: &[&str]) -> Option<&'static AccountEvent> {
    GENERIC.iter().find(|event| named(names, event.names[0]))
}

/// Adds the accounts to a generic event, if this machine has them and the event is one of theirs.
pub(crate) fn add_to(mut found: Event, names: &[&str], machine: &Machine) -> Event {
    let Some(account) = of_generic(names).filter(|_| is_here(machine)) else { return found };
    match account.lacks(found.modifiers.modes) {
        None => found.candidates.push(account.candidate()),
        Some(reason) => found.lacking.push((Rung::SelfCounts, reason)),
    }
    found
}

/// The reason why an event without a generic counterpart is not counted on this machine, or not in the modes
/// that were requested.
pub(crate) fn unsupported(
    account: &AccountEvent,
    modes: Option<Modes>,
    machine: &Machine,
) -> Option<LackReason> {
    account.lacks_core_types(machine).or_else(|| account.lacks(modes))
}

/// Whether the machine is of the kind that has accounts, even if it has none now.
pub(crate) fn is_here(machine: &Machine) -> bool {
    machine.ladder.suits(Rung::SelfCounts)
}

/// Whether the accounts work on this machine, otherwise the reason.
pub(crate) fn available(machine: &Machine) -> Result<(), String> {
    machine.ladder.check(Rung::SelfCounts, "this system has no accounts of counters")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generic::HARDWARE;

    #[test]
    fn each_count_has_one_name_and_no_name_means_two_events() {
        let all: Vec<&str> = EVENTS.iter().flat_map(|event| event.names).copied().collect();
        for (i, name) in all.iter().enumerate() {
            assert!(!all[i + 1..].contains(name), "{name}");
            assert!(!HARDWARE.iter().any(|hardware| named(hardware.names, name)), "{name}");
            assert!(crate::soft::find(&[name]).is_none(), "{name}");
        }
        for account in &GENERIC {
            assert!(HARDWARE.iter().any(|hardware| named(hardware.names, account.names[0])));
        }
    }

    #[test]
    fn modes_are_all_or_none() {
        let cycles = of_generic(&["cpu-cycles", "cycles"]).unwrap();
        for modes in [None, Some(Modes::USER_KERNEL)] {
            assert_eq!(cycles.lacks(modes), None);
        }
        let reason = cycles.lacks(Some(Modes::USER)).unwrap().to_string();
        assert!(reason.contains("cycles:uk, not cycles:u"), "{reason}");
        assert!(of_generic(&["branches"]).is_none());
    }
}

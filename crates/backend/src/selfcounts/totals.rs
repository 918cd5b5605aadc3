//! The counts of an account, of a thread or of a process.

use cyclometer_core::event::AccountedCount;
use cyclometer_core::exec::{CoreTypeUsage, CounterUsage};
use cyclometer_sys::counter_accounts::{CoreTypeAccount, ProcessAccount, ThreadAccount};

/// The counts of an account, of a thread or of a process.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Totals {
    cycles: u64,
    instructions: u64,
    energy_nj: Option<u64>,
    performance: Option<PerformanceTotals>,
    /// Grows when a child is reaped; its unit does not matter.
    pub(super) children_time: u64,
}

/// The shares of performance cores.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct PerformanceTotals {
    cycles: u64,
    instructions: u64,
    energy_nj: u64,
}

impl Totals {
    /// Whether the account of this version of macOS has a number for an event.
    pub(super) fn has(&self, count: AccountedCount) -> bool {
        match count {
            AccountedCount::Cycles | AccountedCount::Instructions => true,
            AccountedCount::Energy => self.energy_nj.is_some(),
            _ => self.performance.is_some(),
        }
    }

    /// Whether the kernel counts an event. Where it has no counters all numbers stay 0. Where cycles needed
    /// no energy, the chip does not report energy.
    pub(super) fn counts(&self, count: AccountedCount) -> bool {
        let is_energy = matches!(count, AccountedCount::Energy | AccountedCount::PerformanceEnergy);
        self.cycles > 0 && !(is_energy && self.energy_nj == Some(0))
    }

    /// Whether nothing ran.
    pub(super) fn is_idle(&self) -> bool {
        self.cycles == 0 && self.instructions == 0
    }

    /// The value of an event; `None` where the account does not have it.
    pub(super) fn value(&self, count: AccountedCount) -> Option<u64> {
        let performance = self.performance;
        match count {
            AccountedCount::Cycles => Some(self.cycles),
            AccountedCount::Instructions => Some(self.instructions),
            AccountedCount::Energy => self.energy_nj,
            AccountedCount::PerformanceCycles => Some(performance?.cycles),
            AccountedCount::PerformanceInstructions => Some(performance?.instructions),
            AccountedCount::PerformanceEnergy => Some(performance?.energy_nj),
            AccountedCount::EfficiencyCycles => Some(self.cycles.saturating_sub(performance?.cycles)),
            AccountedCount::EfficiencyInstructions => {
                Some(self.instructions.saturating_sub(performance?.instructions))
            }
            _ => None,
        }
    }

    /// The counts since `base`. An account that has begun anew, as at `exec` in some versions of the kernel,
    /// has fewer: it is then counted from its beginning.
    pub(super) fn since(self, base: Totals) -> Totals {
        if self.cycles < base.cycles || self.instructions < base.instructions {
            return self;
        }
        let performance = self.performance.map(|now| {
            let before = base.performance.unwrap_or_default();
            PerformanceTotals {
                cycles: now.cycles.saturating_sub(before.cycles),
                instructions: now.instructions.saturating_sub(before.instructions),
                energy_nj: now.energy_nj.saturating_sub(before.energy_nj),
            }
        });
        Totals {
            cycles: self.cycles - base.cycles,
            instructions: self.instructions - base.instructions,
            energy_nj: self.energy_nj.map(|now| now.saturating_sub(base.energy_nj.unwrap_or(0))),
            performance,
            children_time: self.children_time.saturating_sub(base.children_time),
        }
    }
}

impl From<ThreadAccount> for Totals {
    fn from(account: ThreadAccount) -> Totals {
        let ThreadAccount { cycles, instructions, energy_nj } = account;
        Totals { cycles, instructions, energy_nj: Some(energy_nj), ..Totals::default() }
    }
}

impl From<ProcessAccount> for Totals {
    fn from(account: ProcessAccount) -> Totals {
        Totals::from(shared(account))
    }
}

impl From<CounterUsage> for Totals {
    fn from(usage: CounterUsage) -> Totals {
        Totals {
            cycles: usage.cycles,
            instructions: usage.instructions,
            energy_nj: usage.cores.map(|cores| cores.energy_nj),
            performance: usage.cores.map(|cores| PerformanceTotals {
                cycles: cores.performance_cycles,
                instructions: cores.performance_instructions,
                energy_nj: cores.performance_energy_nj,
            }),
            children_time: usage.children_time,
        }
    }
}

/// The same values in the shared type.
pub(super) fn shared(account: ProcessAccount) -> CounterUsage {
    let cores = |cores: CoreTypeAccount| CoreTypeUsage {
        performance_cycles: cores.performance_cycles,
        performance_instructions: cores.performance_instructions,
        energy_nj: cores.energy_nj,
        performance_energy_nj: cores.performance_energy_nj,
    };
    CounterUsage {
        cycles: account.cycles,
        instructions: account.instructions,
        cores: account.cores.map(cores),
        children_time: account.children_time,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(cycles: u64, on_performance_cores: u64) -> Totals {
        let cores = CoreTypeUsage {
            performance_cycles: on_performance_cores,
            performance_instructions: 2 * on_performance_cores,
            energy_nj: 30 * cycles,
            performance_energy_nj: 20 * cycles,
        };
        let instructions = 2 * cycles;
        Totals::from(CounterUsage { cycles, instructions, cores: Some(cores), children_time: 0 })
    }

    #[test]
    fn each_event_has_its_number_and_efficiency_cores_have_the_rest() {
        use AccountedCount::{
            Cycles, EfficiencyCycles, EfficiencyInstructions, Energy, Instructions, PerformanceCycles,
            PerformanceEnergy, PerformanceInstructions,
        };
        let totals = of(100, 60);
        let expected = [
            (Cycles, 100),
            (Instructions, 200),
            (PerformanceCycles, 60),
            (PerformanceInstructions, 120),
            (EfficiencyCycles, 40),
            (EfficiencyInstructions, 80),
            (Energy, 3000),
            (PerformanceEnergy, 2000),
        ];
        for (count, value) in expected {
            assert_eq!(totals.value(count), Some(value), "{count:?}");
        }
    }

    #[test]
    fn a_thread_and_an_early_macos_have_no_core_types() {
        let thread = Totals::from(ThreadAccount { cycles: 5, instructions: 9, energy_nj: 7 });
        assert_eq!(thread.value(AccountedCount::Energy), Some(7));
        assert_eq!(thread.value(AccountedCount::PerformanceCycles), None);
        let early = Totals::from(ProcessAccount { cycles: 5, ..ProcessAccount::default() });
        assert_eq!(early.value(AccountedCount::Cycles), Some(5));
        for count in [AccountedCount::Energy, AccountedCount::EfficiencyInstructions] {
            assert_eq!(early.value(count), None, "{count:?}");
        }
    }

    #[test]
    fn zeros_are_no_counts_where_the_kernel_counts_nothing() {
        let nothing = of(0, 0);
        assert!(!nothing.counts(AccountedCount::Cycles) && !nothing.counts(AccountedCount::EfficiencyCycles));
        let without_energy = Totals { energy_nj: Some(0), ..of(100, 0) };
        assert!(!without_energy.counts(AccountedCount::Energy));
        assert!(!without_energy.counts(AccountedCount::PerformanceEnergy));
        assert!(without_energy.counts(AccountedCount::PerformanceCycles), "it ran on efficiency cores");
    }

    #[test]
    fn counts_before_the_start_are_taken_off() {
        assert_eq!(of(100, 60).since(of(30, 10)), of(70, 50));
    }

    #[test]
    fn an_account_that_began_anew_is_counted_from_its_beginning() {
        assert_eq!(of(20, 5).since(of(30, 10)), of(20, 5));
    }
}

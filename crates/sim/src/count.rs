//! How many events some cycles have: whole numbers, the same however the cycles are cut into pieces.

use crate::quantity::{FRACTION_BITS, Quantity, Rates};

const FRACTION: u64 = (1 << FRACTION_BITS) - 1;

/// Where a stream of events is between two of them, for each quantity: the part of an event that has
/// happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PartialEvents([u64; Quantity::COUNT]);

/// Events since the beginning, for each quantity.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct QuantityTotals([u64; Quantity::COUNT]);

impl QuantityTotals {
    pub(crate) const fn of(&self, quantity: Quantity) -> u64 {
        self.0[quantity as usize]
    }
}

/// The quantity that a counter counts of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Condition {
    /// The quantities, added up.
    pub quantities: &'static [Quantity],
    /// The most events of a cycle that the counter can take; 0: there is no such limit.
    pub most_a_cycle: u8,
    /// Counts cycles with at least so many of them; 0: counts them.
    pub cmask: u8,
    /// Counts the other cycles.
    pub inv: bool,
    /// Counts the beginnings of such cycles.
    pub edge: bool,
}

impl PartialEvents {
    /// The events of a quantity in the next `cycles`.
    pub(crate) fn events(&self, rates: &Rates, quantity: Quantity, cycles: u64) -> u64 {
        ((u128::from(self.0[quantity as usize]) + u128::from(rates.of(quantity)) * u128::from(cycles))
            >> FRACTION_BITS) as u64
    }

    /// The count of a counter in the next `cycles`, which must have the same rates.
    pub(crate) fn counted(&self, rates: &Rates, condition: &Condition, cycles: u64) -> u64 {
        let Condition { quantities, most_a_cycle, cmask, inv, edge } = *condition;
        let rate: u64 = quantities.iter().map(|quantity| rates.of(*quantity)).sum();
        if cmask == 0 && most_a_cycle != 0 && rate >> FRACTION_BITS >= most_a_cycle.into() {
            return u64::from(most_a_cycle) * cycles;
        }
        if cmask == 0 {
            return quantities.iter().map(|quantity| self.events(rates, *quantity, cycles)).sum();
        }
        let at_least = self.cycles_with(rate, quantities, cmask.into(), cycles);
        let meeting = if inv { cycles - at_least } else { at_least };
        // Cycles that meet the condition and those that do not are spread evenly: each run of the rarer is
        // one cycle.
        let is_rarer = (rate >> FRACTION_BITS) < u64::from(cmask) && rate & FRACTION <= FRACTION / 2;
        match edge {
            true if is_rarer == inv => cycles - meeting,
            _ => meeting,
        }
    }

    /// The cycles with at least `least` events; each has as many as the rate's whole part, or one more.
    fn cycles_with(&self, rate: u64, quantities: &[Quantity], least: u64, cycles: u64) -> u64 {
        let whole = rate >> FRACTION_BITS;
        match least {
            least if least <= whole => cycles,
            least if least > whole + 1 => 0,
            _ => {
                let begun: u64 = quantities.iter().map(|quantity| self.0[*quantity as usize]).sum();
                let part = u128::from(begun & FRACTION) + u128::from(rate & FRACTION) * u128::from(cycles);
                (part >> FRACTION_BITS) as u64
            }
        }
    }

    /// The fewest cycles, at most `limit`, in which a counter counts at least `target`; `None` if it does
    /// not.
    pub(crate) fn cycles_until(
        &self,
        rates: &Rates,
        condition: &Condition,
        target: u128,
        limit: u64,
    ) -> Option<u64> {
        let reached = |cycles| u128::from(self.counted(rates, condition, cycles)) >= target;
        if !reached(limit) {
            return None;
        }
        let (mut below, mut enough) = (0, limit);
        while enough - below > 1 {
            let middle = below + (enough - below) / 2;
            if reached(middle) { enough = middle } else { below = middle }
        }
        Some(enough)
    }

    /// Lets `cycles` pass.
    pub(crate) fn advance(&mut self, rates: &Rates, cycles: u64, totals: &mut QuantityTotals) {
        for quantity in Quantity::ALL {
            totals.0[quantity as usize] += self.events(rates, quantity, cycles);
            let passed =
                u128::from(self.0[quantity as usize]) + u128::from(rates.of(quantity)) * u128::from(cycles);
            self.0[quantity as usize] = passed as u64 & FRACTION;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LOADS: Condition =
        Condition { quantities: &[Quantity::Loads], most_a_cycle: 0, cmask: 0, inv: false, edge: false };

    fn rates(loads: f64, stores: f64) -> Rates {
        Rates::IDLE.with(Quantity::Loads, loads).with(Quantity::Stores, stores)
    }

    #[test]
    fn a_counter_mask_counts_cycles_and_not_events() {
        let rates = rates(2.5, 0.0);
        let cycles =
            |cmask, inv| PartialEvents::default().counted(&rates, &Condition { cmask, inv, ..LOADS }, 1000);
        assert_eq!(PartialEvents::default().counted(&rates, &LOADS, 1000), 2500);
        assert_eq!(
            [cycles(1, false), cycles(2, false), cycles(3, false), cycles(4, false)],
            [1000, 1000, 500, 0]
        );
        assert_eq!([cycles(2, true), cycles(3, true), cycles(4, true)], [0, 500, 1000]);
    }

    #[test]
    fn edges_are_the_beginnings_of_runs() {
        let edges = |rate, inv| {
            let condition = Condition { cmask: 1, inv, edge: true, ..LOADS };
            PartialEvents::default().counted(&rates(rate, 0.0), &condition, 1000)
        };
        // A quarter of the cycles have a load: 250 runs of them, and as many runs of cycles without.
        assert_eq!([edges(0.25, false), edges(0.25, true)], [250, 250]);
        assert_eq!([edges(0.75, false), edges(0.75, true)], [250, 250]);
        assert_eq!([edges(0.0, false), edges(1.0, true)], [0, 0]);
    }

    proptest! {
        #[test]
        fn pieces_count_what_the_whole_counts(
            loads in 0.0f64..6.0, stores in 0.0f64..2.0, cuts in prop::collection::vec(1u64..5000, 1..20),
            cmask in 0u8..4, inv: bool, edge: bool,
        ) {
            let rates = rates(loads, stores);
            let both = Condition { quantities: &[Quantity::Loads, Quantity::Stores], most_a_cycle: 0, cmask, inv, edge };
            let whole = PartialEvents::default().counted(&rates, &both, cuts.iter().sum());
            let (mut progress, mut totals, mut pieces) = (PartialEvents::default(), QuantityTotals::default(), 0);
            for cut in &cuts {
                pieces += progress.counted(&rates, &both, *cut);
                progress.advance(&rates, *cut, &mut totals);
            }
            prop_assert_eq!(pieces, whole);
            prop_assert_eq!(totals.of(Quantity::Cycles), cuts.iter().sum::<u64>());
        }

        #[test]
        fn the_cycle_of_an_event_is_the_first_that_has_it(rate in 0.0f64..6.0, target in 1u128..10_000) {
            let rates = rates(rate, 0.0);
            if let Some(cycles) = PartialEvents::default().cycles_until(&rates, &LOADS, target, 20_000) {
                prop_assert!(u128::from(PartialEvents::default().counted(&rates, &LOADS, cycles)) >= target);
                prop_assert!(u128::from(PartialEvents::default().counted(&rates, &LOADS, cycles - 1)) < target);
            } else {
                prop_assert!(u128::from(PartialEvents::default().counted(&rates, &LOADS, 20_000)) < target);
            }
        }
    }
}
